//! The measured region in windows: how far it had come at points in time, for intervals around results.

use crate::core::Core;
use crate::hardware::Hardware;
use crate::measured::{Measured, OfCore};
use ambulator_base::State;

/// Points that are kept at most: enough for windows, few enough for a result.
const MOST_POINTS: usize = 64;

/// Points of the measured region. They begin dense; whenever there are too many, every second one is dropped
/// and they come half as often, so that a region of any length has between half of the points and all.
#[derive(Debug, State)]
pub(crate) struct Windows {
    points: Vec<Point>,
    /// Every how many checks a point is taken.
    stride: u32,
    checks: u32,
}

/// Instructions and cycles: of the region so far, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, State)]
pub(crate) struct Point {
    /// Instructions of all cores, and cycles of the one that takes longest.
    pub all: (u64, u64),
    /// Of each core, if there are several.
    pub cores: Vec<(u64, u64)>,
}

impl Point {
    /// Where the machine is now, whose counters began with the region.
    pub fn of_machine(hw: &Hardware) -> Point {
        let of_core = |core: &Core| (core.counters.instructions, core.measured_cycles());
        Point { all: (hw.instructions(), hw.measured_cycles()), cores: of_several(hw.cores.iter().map(of_core)) }
    }

    /// Of what was measured.
    pub fn of_measured(measured: &Measured) -> Point {
        let of_core = |core: &OfCore| (core.instructions, core.cycles);
        Point {
            all: (measured.totals.run.instructions, measured.cycles),
            cores: of_several(measured.cores.iter().map(of_core)),
        }
    }
}

fn of_several(cores: impl ExactSizeIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    if cores.len() > 1 { cores.collect() } else { Vec::new() }
}

impl Default for Windows {
    fn default() -> Self {
        Windows { points: Vec::new(), stride: 1, checks: 0 }
    }
}

impl Windows {
    /// Whether this check takes a point.
    pub fn is_due(&mut self) -> bool {
        self.checks += 1;
        if self.checks < self.stride {
            return false;
        }
        self.checks = 0;
        true
    }

    /// Takes a point.
    pub fn take(&mut self, point: Point) {
        self.points.push(point);
        if self.points.len() == MOST_POINTS {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.stride *= 2;
        }
    }

    /// The points, and the region's end if it is later than the last.
    pub fn until(&self, end: Point) -> Vec<Point> {
        let mut points = self.points.clone();
        if points.last().is_none_or(|last| last.all.0 < end.all.0) {
            points.push(end);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_any_length_have_even_points() {
        for length in [1u64, 40, 64, 1000, 100_000] {
            let mut windows = Windows::default();
            let point = |check: u64| Point { all: (check * 10, check * 7), cores: Vec::new() };
            for check in 1..=length {
                if windows.is_due() {
                    windows.take(point(check));
                }
            }
            let points: Vec<(u64, u64)> = windows.until(point(length)).into_iter().map(|point| point.all).collect();
            assert!(points.len() <= MOST_POINTS && points.len() as u64 >= length.min(32), "{length}: {}", points.len());
            assert_eq!(points.last(), Some(&(length * 10, length * 7)));
            let step = points[0].0;
            assert!(points.windows(2).rev().skip(1).all(|pair| pair[1].0 - pair[0].0 == step), "{length}: {points:?}");
        }
    }
}
