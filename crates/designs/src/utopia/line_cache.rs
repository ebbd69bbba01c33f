//! The RestSeg walker's caches: lines of set filters or tag arrays, fully associative with LRU replacement
//! (Utopia Sec. 5.7).

use ambulator_base::{Cycle, LINE_BYTES, PhysAddr, State};
use ambulator_hardware::{Replacement, ReplacementState, matches};
use ambulator_mmu::MemoryPort;

/// A line, and the cycle at which it arrives.
#[derive(Clone, Copy, Default, State)]
pub(super) struct Line {
    pub(crate) words: [u64; 8],
    pub(crate) ready: Cycle,
}

/// Lines compared at once.
const GROUP: usize = 32;
/// The number of an empty way.
const NONE: u64 = u64::MAX;

/// A cache of lines.
#[derive(State)]
pub(super) struct LineCache {
    /// The low halves of the lines' numbers, compared first (simulator speed only).
    halves: Vec<[u32; GROUP]>,
    numbers: Vec<u64>,
    lines: Vec<Line>,
    /// Empty ways.
    free: Vec<usize>,
    used: ReplacementState,
}

impl LineCache {
    /// An empty cache of that size. A cache of size 0 never hits.
    pub(crate) fn new(bytes: u64) -> LineCache {
        let ways = (bytes / LINE_BYTES) as usize;
        let mut cache = LineCache {
            halves: vec![[NONE as u32; GROUP]; ways.div_ceil(GROUP)],
            numbers: vec![NONE; ways],
            lines: vec![Line { words: [0; 8], ready: Cycle(0) }; ways],
            free: Vec::new(),
            used: ReplacementState::new(Replacement::Lru, 1, ways.max(1), 0),
        };
        cache.clear();
        cache
    }

    #[inline(always)]
    fn find(&self, number: u64) -> Option<usize> {
        for (group, halves) in self.halves.iter().enumerate() {
            let mut same = matches(halves, number as u32);
            while same != 0 {
                let way = group * GROUP + same.trailing_zeros() as usize;
                if self.numbers.get(way) == Some(&number) {
                    return Some(way);
                }
                same &= same - 1;
            }
        }
        None
    }

    fn set(&mut self, way: usize, number: u64) {
        self.numbers[way] = number;
        self.halves[way / GROUP][way % GROUP] = number as u32;
    }

    /// Drops a line. Returns whether it was cached.
    pub(crate) fn drop_line(&mut self, at: u64) -> bool {
        let Some(way) = self.find(at / LINE_BYTES) else { return false };
        self.set(way, NONE);
        self.free.push(way);
        true
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        let ways = self.numbers.len();
        (0..ways).for_each(|way| self.set(way, NONE));
        self.free = (0..ways).rev().collect();
    }

    /// The line at `at`, mutable, if it is cached.
    pub(crate) fn peek_mut(&mut self, at: PhysAddr) -> Option<&mut Line> {
        let way = self.find(at.line())?;
        Some(&mut self.lines[way])
    }

    /// Looks up the line at `at`. Returns it with the cycle at which it arrives, and whether it is there at
    /// the end of the look-up: it may be in flight.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, at: PhysAddr, now: Cycle, latency: u64) -> Option<(Line, bool)> {
        let looked = now.after(latency);
        let way = self.find(at.line())?;
        self.used.touch(0, way);
        let line = self.lines[way];
        Some((Line { ready: line.ready.max(looked), ..line }, line.ready <= looked))
    }

    /// Looks up or loads the line at `at`. Returns it with the cycle at which it arrives, and whether it was
    /// cached. A loaded line is cached if `keep`.
    #[inline]
    pub(crate) fn load(
        &mut self,
        at: PhysAddr,
        keep: bool,
        now: Cycle,
        latency: u64,
        port: &mut dyn MemoryPort,
    ) -> (Line, bool) {
        let looked = now.after(latency);
        if let Some((line, there)) = self.look_up(at, now, latency) {
            if !there {
                port.join(at, looked, line.ready);
            }
            return (line, there);
        }
        let loaded = port.load_line(at, looked);
        let line = Line { words: loaded.words, ready: loaded.ready };
        if keep && !self.lines.is_empty() {
            let way = self.free.pop().unwrap_or_else(|| self.used.victim(0));
            self.set(way, at.line());
            self.lines[way] = line;
            self.used.fill(0, way);
        }
        (line, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_conformance::TestPort;
    use ambulator_memory::PhysicalMemory;

    #[test]
    fn the_least_recently_used_line_is_evicted_and_dropped_ones_leave_room() {
        for ways in [1u64, 2, 32, 33] {
            let mut memory = PhysicalMemory::new(1 << 20).unwrap();
            let mut cache = LineCache::new(ways * LINE_BYTES);
            let mut order: Vec<u64> = Vec::new();
            let mut random = ambulator_base::Random::new(ways);
            for step in 0..4000u64 {
                let number = random.below(3 * ways);
                let at = PhysAddr(number * LINE_BYTES);
                let place = order.iter().position(|other| *other == number);
                if random.chance(0.05) {
                    assert_eq!(cache.drop_line(at.0 + 8), place.is_some());
                    place.map(|place| order.remove(place));
                    continue;
                }
                let mut port = TestPort::new(&mut memory, 10);
                let (_, hit) = cache.load(at, true, Cycle(100 * step), 2, &mut port);
                assert_eq!((hit, port.loads.len()), (place.is_some(), usize::from(place.is_none())), "step {step}");
                place.map(|place| order.remove(place));
                order.insert(0, number);
                order.truncate(ways as usize);
            }
        }
    }

    #[test]
    fn a_cache_of_size_0_loads_every_line() {
        let mut memory = PhysicalMemory::new(1 << 20).unwrap();
        let mut cache = LineCache::new(0);
        let mut port = TestPort::new(&mut memory, 10);
        assert!((0..3).all(|i| !cache.load(PhysAddr(64), true, Cycle(100 * i), 2, &mut port).1));
        assert!(!cache.drop_line(64));
    }

    #[test]
    fn lines_whose_numbers_have_the_same_low_half_are_distinguished() {
        let mut cache = LineCache::new(2 * LINE_BYTES);
        cache.set(0, 5);
        cache.set(1, 1 << 32 | 5);
        assert_eq!((cache.find(5), cache.find(1 << 32 | 5), cache.find(2 << 32 | 5)), (Some(0), Some(1), None));
    }
}
