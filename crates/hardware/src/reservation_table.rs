//! Reservation tables of bounded resources over time.
//!
//! Not all accesses reach a resource in the order of their times: the second load of a page walk is served
//! long before a younger, independent access. A single "free from" time per resource would let the former
//! block the latter. A reservation table records instead *when* the
//! resource is taken, for a span of time around the present. A reservation for later leaves the time before
//! it free.

use ambulator_base::State;

/// `dividend / divisor`, given `reciprocal = ceil(2^64 / divisor)`: exact for dividends below 2^64 / divisor.
#[inline(always)]
pub(crate) fn divide(dividend: u64, reciprocal: u64) -> u64 {
    ambulator_base::mul_high(dividend, reciprocal)
}

/// Grains of a block, and blocks of a group: two vectors of plain x86-64.
const LANES: usize = 16;

#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(32))]
struct Lanes([u16; LANES]);

/// How many of a pool of equal resources (MSHRs) are in use, for each [`Occupancy::GRAIN`] cycles of a span
/// of time.
///
/// A request from before that span (which is at least 28,000 cycles long) is granted at once.
#[derive(Clone, Debug, State)]
pub(crate) struct Occupancy {
    #[state(skip)]
    limit: u16,
    /// In use during a grain are its own number and that of its block, modulo 2^16: what is taken during many
    /// grains changes grains of two blocks only. Both are rings.
    grains: Box<[Lanes]>,
    blocks: Box<[Lanes]>,
    /// The first grain that is recorded.
    base: u64,
}

/// Zeros, and ones.
static STEP: [u16; 2 * LANES] = {
    let mut step = [0; 2 * LANES];
    let mut at = LANES;
    while at < 2 * LANES {
        step[at] = 1;
        at += 1;
    }
    step
};

/// Adds one to the lanes from `from` on, if there are such, and takes one from those from `to` on.
#[inline(always)]
fn step(lanes: &mut Lanes, from: usize, to: usize) {
    // Copies of a table, and a bare loop over them: what the compiler makes vectors of.
    let ones = |from: usize| STEP[LANES - from..].first_chunk::<LANES>().copied().unwrap_or([0; LANES]);
    let (mut sum, up, down) = (lanes.0, ones(from), ones(to));
    let mut lane = 0;
    while lane < LANES {
        sum[lane] = sum[lane].wrapping_add(up[lane]).wrapping_sub(down[lane]);
        lane += 1;
    }
    lanes.0 = sum;
}

impl Occupancy {
    /// Cycles of a grain: the largest error of a wait.
    pub(crate) const GRAIN: u64 = 1 << Self::GRAIN_SHIFT;
    const GRAIN_SHIFT: u32 = 1;
    const GRAINS: u64 = 16384;
    /// Grains that the ring forgets at once: whole groups.
    const STEP: u64 = 2048;
    const BLOCKS: u64 = Self::GRAINS / LANES as u64;
    const GROUPS: u64 = Self::BLOCKS / LANES as u64;

    /// A pool of `limit` resources, all free.
    pub(crate) fn new(limit: u32) -> Occupancy {
        Occupancy {
            limit: limit.min(u32::from(u16::MAX)) as u16,
            grains: vec![Lanes::default(); Self::BLOCKS as usize].into(),
            blocks: vec![Lanes::default(); Self::GROUPS as usize].into(),
            base: 0,
        }
    }

    /// Forgets all reservations: time goes on after the last of them.
    pub(crate) fn clear(&mut self) {
        self.grains.fill(Lanes::default());
        self.blocks.fill(Lanes::default());
        self.base = 0;
    }

    #[inline(always)]
    fn grains_of(&mut self, block: u64) -> &mut Lanes {
        &mut self.grains[(block % Self::BLOCKS) as usize]
    }

    #[inline(always)]
    fn in_use(&self, grain: u64) -> u16 {
        let block = grain / LANES as u64 % Self::BLOCKS;
        let group = &self.blocks[block as usize / LANES].0;
        let own = self.grains[block as usize].0[grain as usize % LANES];
        own.wrapping_add(group[block as usize % LANES])
    }

    #[inline(always)]
    fn keep(&mut self, grain: u64) {
        if grain >= self.base + Self::GRAINS {
            self.advance(grain);
        }
    }

    #[cold]
    fn advance(&mut self, grain: u64) {
        if grain >= self.base + 2 * Self::GRAINS {
            self.clear();
            self.base = (grain - Self::GRAINS / 2) / Self::STEP * Self::STEP;
            return;
        }
        while grain >= self.base + Self::GRAINS {
            let block = (self.base % Self::GRAINS) as usize / LANES;
            let blocks = Self::STEP as usize / LANES;
            self.grains[block..block + blocks].fill(Lanes::default());
            self.blocks[block / LANES..(block + blocks) / LANES].fill(Lanes::default());
            self.base += Self::STEP;
        }
    }

    /// Whether a resource is free at cycle `now`.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, now: u64) -> bool {
        let grain = now >> Self::GRAIN_SHIFT;
        self.keep(grain);
        grain < self.base || self.in_use(grain) < self.limit
    }

    /// The first cycle from `now` on in which a resource is free.
    #[inline(always)]
    pub(crate) fn admit(&mut self, now: u64) -> u64 {
        if self.has_room(now) { now } else { self.wait(now) }
    }

    fn wait(&self, now: u64) -> u64 {
        let mut grain = (now >> Self::GRAIN_SHIFT) + 1;
        let end = self.base + Self::GRAINS;
        while grain < end && self.in_use(grain) >= self.limit {
            grain += 1;
        }
        grain << Self::GRAIN_SHIFT
    }

    /// Marks one resource as in use from cycle `from` to cycle `to`.
    #[inline(always)]
    pub(crate) fn take(&mut self, from: u64, to: u64) {
        let (from, to) = (from >> Self::GRAIN_SHIFT, to >> Self::GRAIN_SHIFT);
        let to = to.min(from + Self::GRAINS / 2);
        self.keep(to);
        if from < self.base {
            return;
        }
        if to <= from {
            return;
        }
        let of = |grain: u64| (grain / LANES as u64, grain as usize % LANES);
        let ((first, from), (last, to)) = (of(from), of(to));
        // From `from` on in the first block, and in all blocks after it up to the last one, but there not from
        // `to` on. Nothing branches on where the ends are: the sim host would mispredict that.
        step(self.grains_of(first), from, LANES);
        step(self.grains_of(last), LANES, to);
        let blocks = LANES as u64;
        for group in (first + 1) / blocks..=last / blocks {
            let from = (first + 1).saturating_sub(group * blocks) as usize;
            let to = (last + 1 - group * blocks).min(blocks) as usize;
            step(&mut self.blocks[(group % Self::GROUPS) as usize], from, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_multiplication_is_division() {
        for divisor in [2u64, 3, 7, 320, 499_200] {
            for dividend in [0, 1, divisor - 1, divisor, 12345 * divisor - 1, 12345 * divisor, 1 << 40] {
                assert_eq!(divide(dividend, (u64::MAX / divisor) + 1), dividend / divisor, "{dividend} / {divisor}");
            }
        }
    }

    #[test]
    fn a_request_to_a_full_pool_waits_for_the_first_release() {
        let mut pool = Occupancy::new(2);
        pool.take(0, 100);
        pool.take(0, 200);
        assert_eq!(pool.admit(0), 100);
        assert_eq!(pool.admit(100), 100);
        pool.take(100, 300);
        assert_eq!(pool.admit(100), 200);
        assert!(!pool.has_room(150) && pool.has_room(200));
    }

    #[test]
    fn a_later_reservation_leaves_the_present_free() {
        let mut pool = Occupancy::new(1);
        pool.take(1000, 1400);
        assert_eq!(pool.admit(0), 0);
        assert_eq!(pool.admit(1200), 1400);
    }

    /// Beside a count for each grain: reservations of all lengths, in an order that is not that of time.
    #[test]
    fn as_many_are_in_use_as_reservations_cover() {
        let mut random = ambulator_base::Random::new(3);
        for limit in [1, 4, 20] {
            let mut pool = Occupancy::new(limit);
            let mut taken = vec![0; Occupancy::GRAINS as usize];
            for _ in 0..400 {
                let from = random.below(20_000);
                let longest = [8, 300, 6000][random.below(3) as usize];
                let to = from + random.below(longest);
                pool.take(from, to);
                (from / Occupancy::GRAIN..to / Occupancy::GRAIN).for_each(|grain| taken[grain as usize] += 1);
                let now = random.below(24_000);
                let own = now / Occupancy::GRAIN;
                let free = (own..).find(|grain| taken[*grain as usize] < limit).unwrap();
                assert_eq!(pool.has_room(now), free == own, "at {now} with {limit}");
                let admitted = if free == own { now } else { free * Occupancy::GRAIN };
                assert_eq!(pool.admit(now), admitted, "at {now} with {limit}");
            }
        }
    }

    #[test]
    fn the_ring_forgets_old_reservations() {
        let mut pool = Occupancy::new(1);
        for start in (0..10_000_000u64).step_by(977) {
            assert_eq!(pool.admit(start), start, "nothing is left at {start}");
            pool.take(start, start + 900);
            assert_eq!(pool.admit(start + 400), (start + 900) / Occupancy::GRAIN * Occupancy::GRAIN);
        }
        pool.take(1 << 40, (1 << 40) + 100);
        assert_eq!(pool.admit(1 << 40), (1 << 40) + 100);
        assert_eq!(pool.admit(5), 5);
    }
}
