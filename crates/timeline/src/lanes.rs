//! Intervals that overlap, on as few tracks as they need.

use crate::{Sequence, Track};

/// Tracks of one name. Each takes intervals that do not overlap, so that the slices of a track nest.
#[derive(Clone, Debug)]
pub struct Lanes {
    parent: Track,
    name: &'static str,
    rank: i32,
    /// Each track, and the end of the latest interval on it.
    lanes: Vec<(Track, u64)>,
}

impl Lanes {
    /// No tracks yet; they will have this parent, name and place among their siblings.
    pub fn new(parent: Track, name: &'static str, rank: i32) -> Lanes {
        Lanes { parent, name, rank, lanes: Vec::new() }
    }

    /// A track that is free from `from` to `until` nanoseconds, which is occupied from now on.
    pub fn take(&mut self, sequence: &mut Sequence, from: u64, until: u64) -> Track {
        if let Some((track, end)) = self.lanes.iter_mut().find(|(_, end)| *end <= from) {
            *end = until.max(from);
            return *track;
        }
        let track = sequence.lane(self.parent, self.name, self.rank);
        self.lanes.push((track, until.max(from)));
        track
    }

    /// The number of tracks so far.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_intervals_are_on_different_tracks_and_others_share_them() {
        let mut sequence = Sequence::new(1);
        let process = sequence.process(1, "design");
        let mut lanes = Lanes::new(process, "walks", 0);
        let first = lanes.take(&mut sequence, 10, 20);
        let second = lanes.take(&mut sequence, 15, 30);
        assert_ne!(first, second);
        assert_eq!(lanes.take(&mut sequence, 20, 25), first, "one that begins where another ends");
        assert_eq!(lanes.take(&mut sequence, 30, 31), first);
        // Out of the order of time: what is before the latest interval of a track is never put on it.
        let third = lanes.take(&mut sequence, 5, 8);
        assert!(third != first && third != second);
        assert_eq!(lanes.count(), 3);
    }
}
