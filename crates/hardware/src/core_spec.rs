//! Settings of a core.

use ambulator_base::Invalid;
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

/// An out-of-order core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CoreSpec {
    /// Maximum number of instructions dispatched, and committed, in a cycle.
    #[schemars(extend("x-unit" = "count", "x-source" = "LVM Table 1"))]
    pub width: u32,
    /// Reorder buffer.
    #[schemars(extend("x-unit" = "entries", "x-source" = "our choice: a server core of that width; no table states it"))]
    pub rob: u32,
    /// Load queue: loads from dispatch to commit.
    #[schemars(extend("x-unit" = "entries", "x-source" = "our choice"))]
    pub load_queue: u32,
    /// Store queue: stores from dispatch until they are written to the first-level cache.
    #[schemars(extend("x-unit" = "entries", "x-source" = "our choice"))]
    pub store_queue: u32,
    /// Cycles from the resolution of a mispredicted branch until the correct path dispatches.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub mispredict_penalty: u64,
    /// How branches are predicted.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub predictor: PredictorKind,
    /// Counters of the branch predictor, a power of two.
    #[schemars(extend("x-unit" = "entries", "x-source" = "our choice"))]
    pub predictor_entries: u32,
    /// Latency of store-to-load forwarding: a load of an 8-byte word that an older store in the store queue
    /// writes gets its value this long after its issue, or after the store's data if that is later.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub forward_latency: u64,
}

impl Default for CoreSpec {
    fn default() -> Self {
        CoreSpec {
            width: 4,
            rob: 224,
            load_queue: 72,
            store_queue: 56,
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
        let mut wrong = Vec::new();
        for (key, value, most) in [
            ("width", self.width, 64),
            ("rob", self.rob, 65536),
            ("load_queue", self.load_queue, 65536),
            ("store_queue", self.store_queue, 65536),
        ] {
            if value == 0 || value > most {
                wrong.push(Invalid::new(format!("{at}.{key}"), format!("is {value}; it must be 1 to {most}")));
            }
        }
        for (key, value) in [("mispredict_penalty", self.mispredict_penalty), ("forward_latency", self.forward_latency)]
        {
            if value > crate::spec::MAX_LATENCY {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is {value} cycles; it must be at most {}", crate::spec::MAX_LATENCY),
                ));
            }
        }
        let entries = self.predictor_entries;
        if !entries.is_power_of_two() || entries > 1 << 24 {
            wrong.push(Invalid::new(
                format!("{at}.predictor_entries"),
                format!("is {entries}; it must be a power of two up to {}", 1 << 24),
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
        assert_eq!(spec.validate("core").len(), 3);
    }
}
