//! Reservation tables of bounded resources over time.
//!
//! Each access completes when it issues, so accesses do not reach a resource in the order of their times: a
//! load that depends on another load is served long before a younger, independent one. A single "free from"
//! time per resource would let the former block the latter. A reservation table records instead *when* the
//! resource is taken, for a span of time around the present. A reservation for later leaves the time before
//! it free.

/// Time slots, each of which has one user: a data bus, or the right to send a command.
///
/// A request at time `t` takes the first free slot from that of `t` on. If that is the slot of `t` itself it
/// starts at `t`, not at the slot's beginning. An idle resource thus adds no delay, but two adjacent users
/// may overlap by less than a slot. Throughput is exact. A request older than [`SlotTable::WORDS`] times 64
/// slots before the latest is granted at once.
#[derive(Clone, Debug)]
pub(crate) struct SlotTable {
    slot: u64,
    /// 2^64 / slot, rounded up: a division by multiplication.
    reciprocal: u64,
    /// `(which 64 slots, which of them are taken)`: a ring.
    words: Box<[(u64, u64)]>,
}

impl SlotTable {
    const WORDS: usize = 64;

    /// A reservation table of slots of that many ticks.
    pub(crate) fn new(slot: u64) -> SlotTable {
        let slot = slot.max(2);
        SlotTable {
            slot,
            reciprocal: (u64::MAX / slot) + 1,
            words: (0..Self::WORDS as u64).map(|word| (word, 0)).collect(),
        }
    }

    /// Takes the first free slot from tick `at` on; returns the tick at which it can be used.
    #[inline]
    pub(crate) fn reserve(&mut self, at: u64) -> u64 {
        let slot = divide(at, self.reciprocal);
        let (mut word, mut bit) = (slot / 64, slot % 64);
        loop {
            let place = &mut self.words[word as usize % Self::WORDS];
            if place.0 != word {
                if place.0 > word {
                    return at;
                }
                *place = (word, 0);
            }
            let free = !place.1 >> bit << bit;
            if free != 0 {
                let found = free.trailing_zeros();
                place.1 |= 1 << found;
                return at.max((word * 64 + u64::from(found)) * self.slot);
            }
            word += 1;
            bit = 0;
        }
    }
}

/// `dividend / divisor`, given `reciprocal = ceil(2^64 / divisor)`: exact for dividends below 2^64 / divisor.
#[inline(always)]
pub(crate) fn divide(dividend: u64, reciprocal: u64) -> u64 {
    ambulator_base::mul_high(dividend, reciprocal)
}

const LANES: u64 = 32;

/// One sim-host cache line of grains.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Grains([u16; LANES as usize]);

/// How many of a pool of equal resources (MSHRs) are in use, for each [`Occupancy::GRAIN`] cycles of a span
/// of time.
///
/// A request from before that span (which is at least 28,000 cycles long) is granted at once.
#[derive(Clone, Debug)]
pub(crate) struct Occupancy {
    limit: u16,
    /// In use during each grain of time; a ring.
    used: Box<[Grains]>,
    /// The first grain that is recorded.
    base: u64,
}

impl Occupancy {
    /// Cycles of a grain: the largest error of a wait.
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
    fn a_slot_has_one_user_and_a_later_reservation_leaves_earlier_slots_free() {
        let mut bus = SlotTable::new(320);
        assert_eq!(bus.reserve(1000), 1000);
        assert_eq!(bus.reserve(1000), 1280);
        assert_eq!(bus.reserve(1000), 1600);
        assert_eq!(bus.reserve(100), 100);
        assert_eq!(bus.reserve(640 * 100), 64000);
        assert_eq!(bus.reserve(1600), 1920);
    }

    #[test]
    fn slots_are_granted_at_the_stated_rate_across_words_and_rings() {
        let mut bus = SlotTable::new(7);
        (0..1000).for_each(|i| assert_eq!(bus.reserve(0), 7 * i));
        let late = 7 * 64 * 1000;
        assert_eq!(bus.reserve(late), late);
        assert_eq!(bus.reserve(late), late + 7);
    }

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
