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

const LANES: u64 = 32;

/// One sim-host cache line of grains.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(align(64))]
struct Grains([u16; LANES as usize]);

/// How many of a pool of equal resources (MSHRs) are in use, for each [`Occupancy::GRAIN`] cycles of a span
/// of time.
///
/// A request from before that span (which is at least 28,000 cycles long) is granted at once.
#[derive(Clone, Debug, State)]
pub(crate) struct Occupancy {
    #[state(skip)]
    limit: u16,
    /// In use during each grain of time; a ring.
    used: Box<[Grains]>,
    /// The first grain that is recorded.
    base: u64,
}

impl Occupancy {
    /// Cycles of a grain: the largest error of a wait.
    pub(crate) const GRAIN: u64 = 1 << Self::GRAIN_SHIFT;
    const GRAIN_SHIFT: u32 = 2;
    const GRAINS: u64 = 8192;
    const STEP: u64 = 1024;

    /// A pool of `limit` resources, all free.
    pub(crate) fn new(limit: u32) -> Occupancy {
        Occupancy {
            limit: limit.min(u32::from(u16::MAX)) as u16,
            used: vec![Grains([0; LANES as usize]); (Self::GRAINS / LANES) as usize].into(),
            base: 0,
        }
    }

    /// Forgets all reservations: time goes on after the last of them.
    pub(crate) fn clear(&mut self) {
        self.used.fill(Grains::default());
        self.base = 0;
    }

    /// Which sim-host cache line holds a grain.
    #[inline(always)]
    fn at(grain: u64) -> usize {
        (grain % Self::GRAINS / LANES) as usize
    }

    #[inline(always)]
    fn in_use(&self, grain: u64) -> u16 {
        self.used[Self::at(grain)].0[(grain % LANES) as usize]
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
            self.used.fill(Grains([0; LANES as usize]));
            self.base = (grain - Self::GRAINS / 2) / Self::STEP * Self::STEP;
            return;
        }
        while grain >= self.base + Self::GRAINS {
            let start = Self::at(self.base);
            self.used[start..start + (Self::STEP / LANES) as usize].fill(Grains([0; LANES as usize]));
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
        // Whole sim-host cache lines, masked. The number of grains varies, that of lines hardly does, and a
        // mispredicted branch of the sim host costs more than the grains that need not be touched.
        for block in from / LANES..=(to - 1) / LANES {
            let low = from.saturating_sub(block * LANES) as i16;
            let high = (to - block * LANES).min(LANES) as i16;
            for (lane, n) in (0i16..).zip(self.used[Self::at(block * LANES)].0.iter_mut()) {
                *n += u16::from(lane >= low) & u16::from(lane < high);
            }
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
            let mut taken = vec![0; 8192];
            for _ in 0..400 {
                let from = random.below(20_000);
                let longest = [8, 300, 6000][random.below(3) as usize];
                let to = from + random.below(longest);
                pool.take(from, to);
                (from / 4..to / 4).for_each(|grain| taken[grain as usize] += 1);
                let now = random.below(24_000);
                let free = (now / 4..).find(|grain| taken[*grain as usize] < limit).unwrap();
                assert_eq!(pool.has_room(now), free == now / 4, "at {now} with {limit}");
                assert_eq!(pool.admit(now), if free == now / 4 { now } else { 4 * free }, "at {now} with {limit}");
            }
        }
    }

    #[test]
    fn the_ring_forgets_old_reservations() {
        let mut pool = Occupancy::new(1);
        for start in (0..10_000_000u64).step_by(977) {
            assert_eq!(pool.admit(start), start, "nothing is left at {start}");
            pool.take(start, start + 900);
            assert_eq!(pool.admit(start + 400), (start + 900) & !3);
        }
        pool.take(1 << 40, (1 << 40) + 100);
        assert_eq!(pool.admit(1 << 40), (1 << 40) + 100);
        assert_eq!(pool.admit(5), 5);
    }
}
