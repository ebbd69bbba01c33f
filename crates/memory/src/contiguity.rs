//! Contiguity of free memory, and allocations larger than the largest block.

use crate::BuddyAllocator;
use crate::buddy::IN_WORD;
use ambulator_base::Pfn;
use serde::{Deserialize, Serialize};

/// The runs of adjacent free frames, across blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contiguity {
    /// `runs[i]`: the number of maximal runs of `2^i` to `2^(i+1) - 1` frames.
    pub runs: Vec<u64>,
    /// `frames[i]`: the number of free frames in those runs.
    pub frames: Vec<u64>,
    /// Frames of the longest run; 0 if nothing is free.
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
}

impl BuddyAllocator {
    /// The first run of free frames that ends above `from`, without its part below `from`, as a half-open
    /// range. Of a run of more than `enough` frames, at least as many.
    fn run_from(&self, from: u64, enough: u64) -> Option<(u64, u64)> {
        let words = self.words();
        let next = |from: u64, flip: u64, last: u64| {
            let mut at = (from / 64) as usize;
            let mut word = (words.get(at)? ^ flip) & (!0 << (from % 64));
            while word == 0 {
                at += 1;
                if at as u64 * 64 >= last {
                    return Some(at as u64 * 64);
                }
                word = words.get(at)? ^ flip;
            }
            Some(at as u64 * 64 + u64::from(word.trailing_zeros()))
        };
        let all = words.len() as u64 * 64;
        let start = next(from, 0, u64::MAX)?;
        Some((start, next(start, !0, start.saturating_add(enough)).unwrap_or(all)))
    }

    /// A frame from `from` on, where no run of free frames goes on, so that all runs which end below it are
    /// shorter than `frames`.
    fn next_with_room(&mut self, from: u64, frames: u64) -> Option<u64> {
        // A run of so many frames has a free block of this order, or a larger one.
        let order = frames.max(1).ilog2().saturating_sub(1).min(self.max_block_order());
        if order < IN_WORD {
            return Some(from);
        }
        let block = self.next_block(order, from)?;
        let used = self.words()[..(block / 64) as usize].iter().rposition(|word| *word != !0);
        let before = used.map_or(0, |at| at as u64 * 64 + 64 - u64::from((!self.words()[at]).leading_zeros()));
        Some(before.max(from))
    }

    /// The runs of adjacent free frames. Scans all frames (about 25 ms for 128 GiB of fragmented memory).
    pub fn contiguity(&self) -> Contiguity {
        let mut runs = Contiguity::default();
        self.add_runs(&mut runs);
        runs
    }

    /// Adds the runs of all nodes; none spans two.
    fn add_runs(&self, runs: &mut Contiguity) {
        if let Some(nodes) = self.nodes() {
            nodes.zones.iter().for_each(|zone| zone.add_runs(runs));
        }
        let mut from = 0;
        while let Some((start, end)) = self.run_from(from, u64::MAX) {
            runs.add(end - start);
            from = end;
        }
    }

    /// Whether all `frames` frames from `at` on are free.
    pub fn is_range_free(&self, at: Pfn, frames: u64) -> bool {
        if let Some(nodes) = self.nodes() {
            return nodes.zone_of(at).is_range_free(at, frames);
        }
        frames == 0 || self.run_from(at.0, frames).is_some_and(|(start, end)| start == at.0 && end - start >= frames)
    }

    /// Allocates exactly the `frames` frames from `at` on, across blocks. False if some of them are not free.
    /// [`BuddyAllocator::free_range`] frees them.
    pub fn allocate_range(&mut self, at: Pfn, frames: u64) -> bool {
        !self.refuses() && self.take_range(at, frames)
    }

    /// The same, which is not refused.
    fn take_range(&mut self, at: Pfn, frames: u64) -> bool {
        if let Some(nodes) = self.nodes_mut() {
            return nodes.take_at(at, |zone| zone.take_range(at, frames));
        }
        if !self.is_range_free(at, frames) {
            return false;
        }
        let (mut at, end) = (at.0, at.0 + frames);
        while at < end {
            let order = at.trailing_zeros().min((end - at).ilog2()).min(self.max_block_order());
            let taken = self.take_at(Pfn(at), order);
            debug_assert!(taken, "frame {at:#x} of a free range is not free");
            at += 1 << order;
        }
        true
    }

    /// Allocates the lowest `frames` adjacent free frames that begin at a multiple of `2^align_order` frames.
    /// They may exceed the largest block: a segment reserved at boot, or what Linux's `alloc_contig_range`
    /// finds without migration.
    pub fn allocate_run(&mut self, frames: u64, align_order: u32) -> Option<Pfn> {
        if self.refuses() {
            return None;
        }
        if let Some(nodes) = self.nodes_mut() {
            return nodes.allocate_run(frames, align_order);
        }
        let align = 1u64.checked_shl(align_order)?;
        let enough = frames.saturating_add(align);
        let mut from = 0;
        while let Some(near) = self.next_with_room(from, frames)
            && let Some((start, end)) = self.run_from(near, enough)
        {
            let at = start.next_multiple_of(align);
            if end.checked_sub(at).is_some_and(|room| room >= frames) {
                let taken = self.take_range(Pfn(at), frames);
                debug_assert!(taken, "frame {at:#x} begins no free run");
                return Some(Pfn(at));
            }
            from = end;
        }
        None
    }
}
