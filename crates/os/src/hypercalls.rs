//! Calls of a guest's page tables to the hypervisor (paravirtualisation), and the hypervisor's answers.

use crate::Kernel;
use ambulator_base::{Pfn, ProcessId};

/// A call of a guest's page table to the hypervisor. The machine serves it at the end of the kernel's action,
/// before the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hypercall {
    /// Back a run of guest frames, in which a table lies, with contiguous frames of the machine, and pin them.
    /// [`crate::PageTable::area_answered`] has the answer.
    Back {
        /// The guest's process whose table asks.
        process: ProcessId,
        /// The first guest frame.
        first: Pfn,
        /// 4 KiB frames.
        frames: u64,
    },
    /// The run that begins at this guest frame is needed no more: it is an ordinary part of guest memory again.
    Release {
        /// The first guest frame.
        first: Pfn,
    },
}

impl Kernel {
    /// Gives a page table the hypervisor's answer to [`Hypercall::Back`]: the slot of the area in the table of
    /// host areas, or `None` if it has no such memory. False if the process has exited.
    pub fn answer_hypercall(&mut self, process: ProcessId, first: Pfn, slot: Option<u32>) -> bool {
        let alive = self.is_alive(process);
        if alive {
            self.process_mut(process).translations.area_answered(first, slot);
        }
        alive
    }
}
