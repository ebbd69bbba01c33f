//! Who owns frames: pages of processes that have forked share theirs until one of them writes.

use ambulator_base::{PageSize, Pfn};
use std::ops::Range;

/// How many owners each mapped frame has.
pub(crate) struct FrameOwners {
    /// By frame: owners beyond the first.
    beyond_first: Vec<u16>,
}

fn indices(frame: Pfn, size: PageSize) -> Range<usize> {
    frame.0 as usize..(frame.0 + size.frames()) as usize
}

impl FrameOwners {
    /// No frame is shared.
    pub fn new(frames: u64) -> FrameOwners {
        FrameOwners { beyond_first: vec![0; frames as usize] }
    }

    /// Frames of the machine.
    pub fn frames(&self) -> usize {
        self.beyond_first.len()
    }

    /// Whether any frame of a page has another owner.
    pub fn is_shared(&self, frame: Pfn, size: PageSize) -> bool {
        self.beyond_first[indices(frame, size)].iter().any(|owners| *owners > 0)
    }

    /// One owner more of each frame of a mapped page.
    pub fn share(&mut self, frame: Pfn, size: PageSize) {
        for owners in &mut self.beyond_first[indices(frame, size)] {
            *owners += 1;
        }
    }

    /// One owner less of a 4 KiB frame; true if it was the last.
    pub fn leave(&mut self, frame: Pfn) -> bool {
        let owners = &mut self.beyond_first[frame.0 as usize];
        let last = *owners == 0;
        *owners = owners.saturating_sub(1);
        last
    }

    /// Owners of a frame beyond the first.
    pub fn beyond_first(&self, frame: usize) -> u16 {
        self.beyond_first[frame]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_free_when_its_last_owner_leaves() {
        let mut owners = FrameOwners::new(1024);
        owners.share(Pfn(512), PageSize::SIZE_2M);
        owners.share(Pfn(600), PageSize::SIZE_4K);
        assert!(owners.is_shared(Pfn(512), PageSize::SIZE_2M) && !owners.is_shared(Pfn(511), PageSize::SIZE_4K));
        assert_eq!([600; 3].map(|frame| owners.leave(Pfn(frame))), [false, false, true]);
        assert_eq!([601; 2].map(|frame| owners.leave(Pfn(frame))), [false, true]);
    }
}
