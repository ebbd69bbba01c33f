//! Memory pressure: other programs occupy a share of the frames.

use crate::BuddyAllocator;
use crate::selection::Selection;
use ambulator_base::{Invalid, Random, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The share of memory that other programs occupy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PressureSpec {
    /// Share of all frames, 0 to 1, that other programs hold. They are chosen at random from the free frames
    /// before the run.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Revelator section 5.1: p = M / P"))]
    pub pressure: f64,
}

impl PressureSpec {
    /// The invalid settings of a spec at key `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        out_of_range(self, at)
    }
}

/// The result of [`press`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PressureReport {
    /// Frames taken.
    pub taken: u64,
    /// Share of all frames that is free afterwards.
    pub free_share: f64,
}

/// Takes `spec.pressure` of all frames at random, or all free frames if there are fewer. They are never
/// freed.
pub fn press(frames: &mut BuddyAllocator, spec: &PressureSpec, random: &mut Random) -> PressureReport {
    let (free, total) = (frames.free_frames(), frames.total_frames());
    if let Some(nodes) = frames.nodes_mut() {
        let taken = nodes.zones.iter_mut().map(|zone| press(zone, spec, random).taken).sum();
        return PressureReport { taken, free_share: frames.free_frames() as f64 / total.max(1) as f64 };
    }
    let wanted = (spec.pressure.clamp(0.0, 1.0) * (total - frames.first) as f64).round() as u64;
    let taken = wanted.min(free);
    let mut selection = Selection::new(free, taken);
    frames.edit(random, |words, random| {
        for word in words {
            let mut rest = *word;
            while rest != 0 {
                let frame = rest & rest.wrapping_neg();
                if selection.next(1, random) == 1 {
                    *word &= !frame;
                }
                rest &= !frame;
            }
        }
    });
    PressureReport { taken, free_share: frames.free_frames() as f64 / total.max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BuddySpec;
    use ambulator_base::Pfn;

    #[test]
    fn the_share_is_taken_evenly() {
        let total = 1 << 18;
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), total);
        let report = press(&mut frames, &PressureSpec { pressure: 0.4 }, &mut Random::new(5));
        assert_eq!(report.taken, (0.4 * total as f64) as u64 + 1);
        assert_eq!(frames.free_frames(), total - 256 - report.taken);
        let in_quarter = |q: u64| (q * total / 4..(q + 1) * total / 4).filter(|f| !frames.is_free(Pfn(*f))).count();
        for quarter in 0..4 {
            let share = in_quarter(quarter) as f64 / (total / 4) as f64;
            assert!((share - 0.4).abs() < 0.01, "quarter {quarter} is taken by {share}");
        }
    }

    #[test]
    fn no_more_is_taken_than_is_free() {
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), 1024);
        let report = press(&mut frames, &PressureSpec { pressure: 1.0 }, &mut Random::new(5));
        assert_eq!((report.taken, report.free_share, frames.allocate(0)), (768, 0.0, None));
    }

    #[test]
    fn invalid_specs_are_reported_by_key() {
        assert!(
            PressureSpec { pressure: -0.1 }.validate("os.pressure")[0]
                .to_string()
                .starts_with("`os.pressure.pressure` is -0.1")
        );
    }
}
