//! How free memory hangs together.

use serde::{Deserialize, Serialize};

/// The runs of adjacent free frames, whatever blocks the allocator keeps them in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contiguity {
    /// `runs[i]`: how many maximal runs have `2^i` to `2^(i+1) - 1` frames.
    pub runs: Vec<u64>,
    /// `frames[i]`: how many free frames are in those runs.
    pub frames: Vec<u64>,
    /// Frames of the longest run; 0 when nothing is free.
    pub largest: u64,
}

impl Contiguity {
    /// Adds a run of `frames` frames.
    pub(crate) fn add(&mut self, frames: u64) {
        let class = frames.ilog2() as usize;
        if self.runs.len() <= class {
            self.runs.resize(class + 1, 0);
            self.frames.resize(class + 1, 0);
        }
        self.runs[class] += 1;
        self.frames[class] += frames;
        self.largest = self.largest.max(frames);
    }

    /// The share of free frames in runs of at least `2^order` frames, aligned or not; 0 when nothing is free.
    pub fn share_from(&self, order: u32) -> f64 {
        let all: u64 = self.frames.iter().sum();
        let long: u64 = self.frames.iter().skip(order as usize).sum();
        if all == 0 { 0.0 } else { long as f64 / all as f64 }
    }
}
