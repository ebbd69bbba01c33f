//! Memory pressure: a share of the frames is somebody else's.

use crate::BuddyAllocator;
use ambulator_base::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of memory is occupied by others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PressureSpec {
    /// Share of all frames, 0 to 1, that others hold, each taken at random among those that are free.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "Revelator §4"))]
    pub pressure: f64,
}

impl PressureSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<String> {
        crate::fragment::share(at, "pressure", self.pressure).into_iter().collect()
    }
}

/// What [`press`] did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PressureReport {
    /// Frames that were taken.
    pub taken: u64,
    /// Share of all frames that is free now.
    pub free_share: f64,
}

/// Takes `spec.pressure` of all frames at random (all that is free, if that is less) and never gives them back.
pub fn press(frames: &mut BuddyAllocator, spec: &PressureSpec, random: &mut Random) -> PressureReport {
    let wanted = (spec.pressure.clamp(0.0, 1.0) * frames.total_frames() as f64).round() as u64;
    let mut taken = wanted.min(frames.free_frames());
    let report_taken = taken;
    let mut left = frames.free_frames();
    frames.take_words(|_, word| {
        let mut take = 0;
        let mut rest = word;
        while rest != 0 && taken > 0 {
            // Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S): every set of that size is equally likely.
            if random.below(left) < taken {
                take |= rest & rest.wrapping_neg();
                taken -= 1;
            }
            left -= 1;
            rest &= rest - 1;
        }
        take
    });
    PressureReport {
        taken: report_taken,
        free_share: frames.free_frames() as f64 / frames.total_frames() as f64,
    }
}
