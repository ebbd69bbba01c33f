//! The measured region in windows: how far it had come at points in time, for intervals around results.

use ambulator_base::State;

/// Points that are kept at most: enough for windows, few enough for a result.
const MOST_POINTS: usize = 64;

/// Points of the measured region. They begin dense; whenever there are too many, every second one is dropped
/// and they come half as often, so that a region of any length has between half of the points and all.
#[derive(Debug, State)]
pub(crate) struct Windows {
    /// Instructions of all cores, and cycles, since the region began.
    points: Vec<(u64, u64)>,
    /// Every how many checks a point is taken.
    stride: u32,
    checks: u32,
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
    pub fn take(&mut self, instructions: u64, cycles: u64) {
        self.points.push((instructions, cycles));
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
    pub fn until(&self, instructions: u64, cycles: u64) -> Vec<(u64, u64)> {
        let mut points = self.points.clone();
        if points.last().is_none_or(|(last, _)| *last < instructions) {
            points.push((instructions, cycles));
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
            for check in 1..=length {
                if windows.is_due() {
                    windows.take(check * 10, check * 7);
                }
            }
            let points = windows.until(length * 10, length * 7);
            assert!(points.len() <= MOST_POINTS && points.len() as u64 >= length.min(32), "{length}: {}", points.len());
            assert_eq!(points.last(), Some(&(length * 10, length * 7)));
            let step = points[0].0;
            assert!(points.windows(2).rev().skip(1).all(|pair| pair[1].0 - pair[0].0 == step), "{length}: {points:?}");
        }
    }
}
