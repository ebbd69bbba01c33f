//! Branch directions and prefetches: the rules that the settings name, written anew for this model.

use ambulator_base::VirtAddr;
use ambulator_hardware::{CacheSpec, CoreSpec, PredictorKind, PrefetcherKind};
use std::collections::HashMap;

/// A predictor of branch directions by two-bit counters; with global history it is McFarling's gshare.
pub struct Directions {
    kind: PredictorKind,
    /// Counters that are not at their first value, 2: weakly taken.
    counters: HashMap<u64, u8>,
    entries: u64,
    history: u64,
}

impl Directions {
    /// A predictor that has seen no branch.
    pub fn new(spec: &CoreSpec) -> Directions {
        Directions {
            kind: spec.predictor,
            counters: HashMap::new(),
            entries: u64::from(spec.predictor_entries),
            history: 0,
        }
    }

    /// Predicts a branch and learns its outcome; returns whether it was predicted.
    pub fn predicts(&mut self, pc: VirtAddr, taken: bool) -> bool {
        let history = match self.kind {
            PredictorKind::Perfect => return true,
            PredictorKind::Bimodal => 0,
            PredictorKind::Gshare => self.history,
        };
        let index = (pc.0 ^ pc.0 >> 16 ^ history) % self.entries;
        let counter = self.counters.entry(index).or_insert(2);
        let predicted = *counter >= 2;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = self.history << 1 | u64::from(taken);
        predicted == taken
    }
}

/// Lines of a 4 KiB page, which no prefetch leaves.
const PAGE: i64 = 64;
/// Repetitions of a stride, or steps in one direction, before it is followed.
const FOLLOWED: u32 = 2;

/// The last accesses of an instruction (strides) or of a page (streams).
#[derive(Clone, Copy, Default)]
struct History {
    /// The instruction or page.
    key: u64,
    valid: bool,
    /// Byte address (strides) or line (streams) of the last access.
    last: i64,
    /// Bytes (strides) or lines (streams) between the last two.
    step: i64,
    repeated: u32,
    /// Streams: the last line that was prefetched.
    sent: i64,
}

/// The prefetcher of a cache.
pub struct Prefetcher {
    kind: PrefetcherKind,
    degree: i64,
    distance: i64,
    entries: Vec<History>,
}

impl Prefetcher {
    /// A prefetcher that has seen no access.
    pub fn new(spec: &CacheSpec) -> Prefetcher {
        Prefetcher {
            kind: spec.prefetcher,
            degree: i64::from(spec.prefetch_degree),
            distance: i64::from(spec.prefetch_distance),
            entries: vec![History::default(); spec.prefetch_entries.max(1) as usize],
        }
    }

    /// Learns an access of the instruction at `pc` to the byte at `at`; returns the lines to prefetch.
    pub fn learn(&mut self, pc: u64, at: u64) -> Vec<u64> {
        match self.kind {
            PrefetcherKind::None => Vec::new(),
            PrefetcherKind::IpStride => self.stride(pc, at as i64),
            PrefetcherKind::Stream => self.stream(at as i64 / 64),
        }
    }

    /// The history of `key`, which may have another's place; `None` if it begins now.
    fn history(&mut self, key: u64, last: i64) -> Option<&mut History> {
        // Fibonacci hashing: any scatter will do.
        let place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % self.entries.len();
        let entry = &mut self.entries[place];
        if entry.valid && entry.key == key {
            return Some(entry);
        }
        *entry = History { key, valid: true, last, sent: last, ..History::default() };
        None
    }

    fn stride(&mut self, pc: u64, at: i64) -> Vec<u64> {
        let (degree, distance) = (self.degree, self.distance);
        let Some(entry) = self.history(pc, at) else { return Vec::new() };
        let step = at - entry.last;
        entry.last = at;
        if step == 0 {
            return Vec::new();
        }
        if step != entry.step {
            // A jump to another page of a run keeps what was learned about the stride.
            if step.abs() >= 4096 && entry.repeated > 0 {
                entry.repeated -= 1;
            } else {
                (entry.step, entry.repeated) = (step, 0);
            }
            return Vec::new();
        }
        entry.repeated = (entry.repeated + 1).min(FOLLOWED + 1);
        if entry.repeated < FOLLOWED {
            return Vec::new();
        }
        let lines = if step.abs() < 64 { step.signum() } else { step / 64 };
        within_page(at / 64, (0..degree).map(|i| lines * (distance + i)))
    }

    fn stream(&mut self, line: i64) -> Vec<u64> {
        let (degree, distance) = (self.degree, self.distance);
        let Some(entry) = self.history((line / PAGE) as u64, line) else { return Vec::new() };
        let direction = (line - entry.last).signum();
        if direction == 0 {
            return Vec::new();
        }
        entry.last = line;
        if direction != entry.step {
            (entry.step, entry.repeated, entry.sent) = (direction, 1, line);
            return Vec::new();
        }
        entry.repeated += 1;
        if entry.repeated < FOLLOWED {
            return Vec::new();
        }
        let ahead = ((entry.sent - line) * direction).max(0);
        let lines = within_page(line, (ahead + 1..=distance.min(ahead + degree)).map(|i| i * direction));
        entry.sent = lines.last().map_or(line + ahead * direction, |last| *last as i64);
        lines
    }
}

/// The lines `line + offset` up to the first that is in another page.
fn within_page(line: i64, offsets: impl Iterator<Item = i64>) -> Vec<u64> {
    let inside = |target: &i64| *target >= 0 && *target / PAGE == line / PAGE;
    offsets.map(|offset| line + offset).take_while(inside).map(|target| target as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_branch_is_mispredicted_once_a_round_without_history() {
        let wrong = |predictor| {
            let mut directions = Directions::new(&CoreSpec { predictor, ..CoreSpec::default() });
            (0..800).filter(|i| !directions.predicts(VirtAddr(0x40_1000), i % 8 != 7)).count()
        };
        assert_eq!(wrong(PredictorKind::Perfect), 0);
        assert_eq!(wrong(PredictorKind::Bimodal), 100);
        assert!(wrong(PredictorKind::Gshare) < 40);
    }

    fn prefetcher(prefetcher: PrefetcherKind) -> Prefetcher {
        Prefetcher::new(&CacheSpec {
            prefetcher,
            prefetch_degree: 2,
            prefetch_distance: 4,
            prefetch_entries: 64,
            ..CacheSpec::default()
        })
    }

    #[test]
    fn a_stride_is_followed_once_it_repeats_and_not_out_of_the_page() {
        let mut strides = prefetcher(PrefetcherKind::IpStride);
        let sent: Vec<Vec<u64>> = (0..32).map(|i| strides.learn(7, i * 128)).collect();
        assert!(sent[..3].iter().all(Vec::is_empty));
        assert_eq!(sent[3], [14, 16]);
        assert_eq!(sent[27], [62], "64 is in the next page");
        assert!(sent[28].is_empty());
    }

    #[test]
    fn a_stream_is_prefetched_once_up_to_its_distance() {
        for backwards in [false, true] {
            let mut streams = prefetcher(PrefetcherKind::Stream);
            let line = |i: u64| if backwards { 63 - i } else { i };
            let sent: Vec<u64> = (0..64).flat_map(|i| streams.learn(0, line(i) * 64)).collect();
            assert_eq!(sent, (3..64).map(line).collect::<Vec<_>>());
        }
    }
}
