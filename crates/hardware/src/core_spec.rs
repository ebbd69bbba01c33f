//! Settings of a core.

use ambulator_base::{Invalid, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How branches are predicted. Targets are always predicted correctly: only directions can be wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorKind {
    /// Never wrong.
    Perfect,
    /// A table of two-bit counters by the branch's address.
    Bimodal,
    /// Two-bit counters by the branch's address xor the global history (McFarling, WRL TN-36).
    #[default]
    Gshare,
}

/// When a store that misses asks for its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreRequest {
    /// When it commits: its address is translated, its data are ready, and everything older has committed.
    #[default]
    Commit,
    /// As soon as its address is translated, before it commits (Intel, US patent 9,405,545).
    Early,
}

/// An out-of-order core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CoreSpec {
    /// Maximum number of instructions dispatched, and committed, in a cycle.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "LVM Table 1"))]
    pub width: u32,
    /// Reorder buffer.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "our choice: a server core of that width; no table states it"))]
    pub rob: u32,
    /// Load queue: loads from dispatch to commit.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "our choice"))]
    pub load_queue: u32,
    /// Store queue: stores from dispatch until they are written to the first-level cache.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "our choice"))]
    pub store_queue: u32,
    /// When a store asks for its line. In both cases stores are written to the first-level cache in order,
    /// after they have committed, and hold their entries of the store queue until then.
    #[schemars(extend("x-unit" = "choice", "x-source" = "the default of cores, after Cebrian et al., MICRO 2020; ChampSim does the same"))]
    pub store_request: StoreRequest,
    /// Cycles from the resolution of a mispredicted branch until the correct path dispatches.
    #[schemars(range(max = crate::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub mispredict_penalty: u64,
    /// How branches are predicted.
    #[schemars(extend("x-since" = "begin", "x-unit" = "choice", "x-source" = "our choice"))]
    pub predictor: PredictorKind,
    /// Counters of the branch predictor, a power of two.
    #[schemars(range(min = 1, max = 1 << 24), extend("x-since" = "begin", "x-unit" = "entries", "x-source" = "our choice"))]
    pub predictor_entries: u32,
    /// Latency of store-to-load forwarding: a load of an 8-byte word that an older store in the store queue
    /// writes gets its value this long after its issue, or after the store's data if that is later.
    #[schemars(range(max = crate::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub forward_latency: u64,
}

impl Default for CoreSpec {
    fn default() -> Self {
        CoreSpec {
            width: 4,
            rob: 224,
            load_queue: 72,
            store_queue: 56,
            store_request: StoreRequest::Commit,
            mispredict_penalty: 15,
            predictor: PredictorKind::Gshare,
            predictor_entries: 1 << 14,
            forward_latency: 1,
        }
    }
}

impl CoreSpec {
    /// All problems of the spec, one sentence each; `at` is the key of this core.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        let entries = self.predictor_entries;
        if wrong.is_empty() && !entries.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.predictor_entries"),
                format!("is {entries}; it must be a power of two"),
            ));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cores_are_rejected() {
        assert_eq!(CoreSpec::default().validate("core"), vec![]);
        let spec = CoreSpec { width: 0, rob: 0, predictor_entries: 1000, ..CoreSpec::default() };
        assert_eq!(spec.validate("core").len(), 2);
        assert_eq!(CoreSpec { width: 1, rob: 1, ..spec }.validate("core").len(), 1);
    }
}
