//! What happens besides translations that the simulator around a machine may want to know.

use ambulator_base::{FRAME_BYTES, Page, PhysAddr, ProcessId};
use ambulator_mmu::Invalidation;
use ambulator_os::{Kernel, Migration, Zeroed};

/// An effect of the operating system on the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A shootdown: translations of the page must leave all TLBs.
    InvalidatePage {
        /// The kernel's number of the process, if it is alive.
        process: Option<ProcessId>,
        /// The page.
        page: Page,
    },
    /// A shootdown: all translations of the process must leave all TLBs; of all processes without one.
    InvalidateProcess {
        /// The kernel's number of the process, if it is alive.
        process: Option<ProcessId>,
    },
    /// The kernel copies a page in the background; the lines of both places must leave the caches.
    Copy {
        /// From here.
        from: PhysAddr,
        /// To here.
        to: PhysAddr,
        /// Bytes.
        bytes: u64,
    },
    /// The kernel has zeroed memory, past the caches.
    Zero {
        /// The first address.
        at: PhysAddr,
        /// Bytes.
        bytes: u64,
    },
}

impl Effect {
    /// A shootdown that `kernel` requests.
    pub(crate) fn invalidation(what: Invalidation, kernel: &Kernel) -> Option<Effect> {
        let of = |asid| kernel.live_processes().find(|process| kernel.asid(*process) == asid);
        Some(match what {
            Invalidation::Page { asid, page } => Effect::InvalidatePage { process: of(asid), page },
            Invalidation::Asid(asid) => Effect::InvalidateProcess { process: of(asid) },
            Invalidation::All => Effect::InvalidateProcess { process: None },
        })
    }

    /// A page that the kernel moves.
    pub(crate) fn copy(moved: &Migration) -> Effect {
        Effect::Copy { from: moved.from.start(), to: moved.to.start(), bytes: moved.page.size.bytes() }
    }

    /// Frames that the kernel has zeroed.
    pub(crate) fn zero(zeroed: &Zeroed) -> Effect {
        Effect::Zero { at: zeroed.frame.start(), bytes: zeroed.frames * FRAME_BYTES }
    }
}
