//! Core cycles and the clocks of DRAM. Both begin together; commands are sent at the edges of DRAM's clock.

use crate::reservation_table::divide;

/// A ratio of clocks, and what divides by its terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// So many clocks are so many cycles.
    clocks: u64,
    cycles: u64,
    clocks_reciprocal: u64,
    cycles_reciprocal: u64,
}

impl Clock {
    /// Beside cores of `core_mhz`: two transfers of `data_rate` MT/s are a clock.
    pub fn new(core_mhz: u64, data_rate: u64) -> Clock {
        let (mut divisor, mut rest) = (2 * core_mhz, data_rate);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let (clocks, cycles) = (data_rate / divisor, 2 * core_mhz / divisor);
        // A quotient of 1 has no reciprocal in 64 bits.
        let (clocks, cycles) = if clocks == 1 || cycles == 1 { (2 * clocks, 2 * cycles) } else { (clocks, cycles) };
        let reciprocal = |divisor| u64::MAX / divisor + 1;
        Clock { clocks, cycles, clocks_reciprocal: reciprocal(clocks), cycles_reciprocal: reciprocal(cycles) }
    }

    /// The first clock that does not begin before a cycle.
    #[inline(always)]
    pub fn at(&self, cycle: u64) -> u64 {
        divide(cycle * self.clocks + self.cycles - 1, self.cycles_reciprocal)
    }

    /// The first cycle that does not begin before a clock.
    #[inline(always)]
    pub fn cycle(&self, clock: u64) -> u64 {
        divide(clock * self.cycles + self.clocks - 1, self.clocks_reciprocal)
    }

    /// Clocks in cycles, without rounding.
    pub fn in_cycles(&self, clocks: u64) -> f64 {
        clocks as f64 * self.cycles as f64 / self.clocks as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Random;

    #[test]
    fn clocks_are_the_first_that_are_not_before_a_cycle() {
        // DDR4-3200, DDR4-2400 and DDR3-1066 beside cores of 2, 2.6 and 2.9 GHz; a whole number of cycles, and of clocks.
        let pairs =
            [(2000, 3200), (2600, 2400), (2900, 3200), (2500, 1066), (2133, 1066), (3200, 3200), (800, 3200), (1, 2)];
        for (core_mhz, data_rate) in pairs {
            let clock = Clock::new(core_mhz, data_rate);
            let mut random = Random::new(core_mhz);
            for i in 0..10_000 {
                let at = if i < 1000 { i } else { random.below(1 << 40) };
                let (clocks, cycles) = (u128::from(data_rate), 2 * u128::from(core_mhz));
                assert_eq!(u128::from(clock.at(at)), (u128::from(at) * clocks).div_ceil(cycles));
                assert_eq!(u128::from(clock.cycle(at)), (u128::from(at) * cycles).div_ceil(clocks));
            }
        }
    }
}
