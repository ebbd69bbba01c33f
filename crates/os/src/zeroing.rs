//! Frames that the kernel has zeroed, until the machine writes their lines.

use crate::{Kernel, LedgerCause, Mapping};
use ambulator_base::{FRAME_BYTES, Page, PageSize, Pfn, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the zeroes of a fresh page go. The core that zeroes it is charged the same cycles in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Zeroing {
    /// To main memory, past the caches: non-temporal stores.
    #[default]
    Memory,
    /// Nowhere: zeroing takes cycles, but no bandwidth.
    CyclesOnly,
}

/// Frames that were zeroed one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Zeroed {
    /// The first frame.
    pub frame: Pfn,
    /// The number of adjacent frames.
    pub frames: u64,
    /// Cycles that zeroing them took.
    pub cycles: u64,
}

/// Zeroed frames in order, until the machine takes them.
#[derive(Debug, Default, State)]
pub(crate) struct ZeroedFrames {
    recorded: bool,
    frames: Vec<Zeroed>,
}

impl ZeroedFrames {
    fn push(&mut self, frame: Pfn, frames: u64, cycles: u64) {
        if !self.recorded {
            return;
        }
        match self.frames.last_mut() {
            Some(last) if last.frame.offset(last.frames) == frame => {
                last.frames += frames;
                last.cycles += cycles;
            }
            _ => self.frames.push(Zeroed { frame, frames, cycles }),
        }
    }
}

impl Kernel {
    /// From now on [`Kernel::take_zeroed`] returns the frames that are zeroed, if their zeroes go to memory.
    /// Those of a set-up before are not recorded.
    pub fn record_zeroed(&mut self) {
        self.zeroed.recorded = self.spec.zeroing == Zeroing::Memory;
    }

    /// Moves the frames zeroed since the last call to `into`, in their order.
    pub fn take_zeroed(&mut self, into: &mut Vec<Zeroed>) {
        into.append(&mut self.zeroed.frames);
    }

    /// Charges the zeroing of a page's frames.
    pub(crate) fn charge_zero(&mut self, frame: Pfn, size: PageSize) {
        self.counters.zeroed_bytes += size.bytes();
        let cycles = match size {
            PageSize::SIZE_4K => self.costs.zero_4k,
            size => self.costs.zero_2m * (size.bytes() >> 21).max(1),
        };
        self.ledger.charge(LedgerCause::Zero, cycles);
        self.zeroed.push(frame, size.frames(), cycles);
    }

    /// Charges the zeroing of the frames of the huge page at `frame` that are not filled by the base pages
    /// that it replaces.
    pub(crate) fn charge_zero_rest(&mut self, huge: Page, frame: Pfn, base: &[Mapping]) {
        let mut filled = base.iter().map(|entry| (entry.page.start.0 - huge.start.0) / FRAME_BYTES).peekable();
        for i in 0..huge.size.frames() {
            if filled.next_if_eq(&i).is_none() {
                self.charge_zero(frame.offset(i), PageSize::SIZE_4K);
            }
        }
    }
}
