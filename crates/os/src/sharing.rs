//! Owners of frames: forked processes share frames until one of them writes.

use ambulator_base::{PageSize, Pfn, State};
use std::ops::Range;

/// The number of owners of each mapped frame.
#[derive(State)]
pub(crate) struct FrameOwners {
    /// By frame: the number of owners beyond the first.
    #[state(sparse)]
    beyond_first: Vec<u16>,
}

fn indices(frame: Pfn, size: PageSize) -> Range<usize> {
    frame.0 as usize..(frame.0 + size.frames()) as usize
}

impl FrameOwners {
    /// All frames unshared.
    pub fn new(frames: u64) -> FrameOwners {
        FrameOwners { beyond_first: vec![0; frames as usize] }
    }

    /// The number of frames of the machine.
    pub fn frames(&self) -> usize {
        self.beyond_first.len()
    }

    /// Whether any frame of a page has several owners.
    pub fn is_shared(&self, frame: Pfn, size: PageSize) -> bool {
        self.beyond_first[indices(frame, size)].iter().any(|owners| *owners > 0)
    }

    /// Adds one owner of each frame of a mapped page.
    pub fn share(&mut self, frame: Pfn, size: PageSize) {
        for owners in &mut self.beyond_first[indices(frame, size)] {
            *owners += 1;
        }
    }

    /// Removes one owner of a 4 KiB frame. True if it was the last.
    pub fn release(&mut self, frame: Pfn) -> bool {
        let owners = &mut self.beyond_first[frame.0 as usize];
        let last = *owners == 0;
        *owners = owners.saturating_sub(1);
        last
    }

    /// The number of owners of a frame beyond the first.
    pub fn beyond_first(&self, frame: usize) -> u16 {
        self.beyond_first[frame]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_owner_releases_a_frame() {
        let mut owners = FrameOwners::new(1024);
        owners.share(Pfn(512), PageSize::SIZE_2M);
        owners.share(Pfn(600), PageSize::SIZE_4K);
        assert!(owners.is_shared(Pfn(512), PageSize::SIZE_2M) && !owners.is_shared(Pfn(511), PageSize::SIZE_4K));
        assert_eq!([600; 3].map(|frame| owners.release(Pfn(frame))), [false, false, true]);
        assert_eq!([601; 2].map(|frame| owners.release(Pfn(frame))), [false, true]);
    }
}
