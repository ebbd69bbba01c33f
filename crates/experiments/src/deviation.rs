//! Why numbers of ours are not the published ones.

use crate::figure::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of reason for which a number is not the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Programs, machine or memory are not the paper's, or the paper does not say what they were.
    Condition,
    /// The number does not follow from the paper's text, or contradicts other numbers of it.
    Text,
    /// The reason is not known, or only a part of it.
    Open,
}

impl Cause {
    /// What it is called in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Condition => "condition",
            Cause::Text => "text",
            Cause::Open => "open",
        }
    }
}

/// Why some numbers of a figure are not the published ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// The numbers, by name; one `*` in a name stands for anything.
    pub of: Vec<String>,
    /// The kind of reason.
    pub cause: Cause,
    /// The reason, with its evidence.
    pub why: String,
}

/// Why one number is not the published one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reason {
    /// The kind of reason.
    pub cause: Cause,
    /// The reason, with its evidence.
    pub why: String,
}

/// Whether a name is one that `pattern` means.
pub(crate) fn is_meant(pattern: &str, name: &str) -> bool {
    pattern.split_once('*').map_or(pattern == name, |(before, after)| {
        name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
    })
}

impl Deviation {
    /// Whether it is about this number.
    pub(crate) fn is_about(&self, metric: &Metric) -> bool {
        self.of.iter().any(|pattern| is_meant(pattern, &metric.name))
    }

    /// The reason alone.
    pub(crate) fn reason(&self) -> Reason {
        Reason { cause: self.cause, why: self.why.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_stands_for_anything() {
        assert!(is_meant("walks, THP", "walks, THP") && !is_meant("walks", "walks, THP"));
        assert!(is_meant("*, ideal ranges", "astar, ideal ranges"));
        assert!(!is_meant("*, ideal ranges", "astar, ideal ranges for 99%"));
        assert!(is_meant("index*", "index") && is_meant("a*c", "abc"));
        assert!(!is_meant("ab*ba", "aba"), "the ends must not overlap");
    }
}
