//! Settings of the kernel on memory nodes.

use ambulator_base::{Invalid, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From which nodes programs get their pages (Linux: memory policies).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPolicy {
    /// From the node of the core that touches a page first, then from others: fast ones before slow tiers.
    #[default]
    Local,
    /// From the nodes of `kernel.numa.nodes` (all if it is empty) in turn, page by page.
    Interleave,
    /// From the nodes of `kernel.numa.nodes` only.
    Bind,
    /// From the first node of `kernel.numa.nodes`, then as `local`.
    Preferred,
}

/// In which nodes page tables and other structures of translation lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TablePolicy {
    /// In that of the core that needs the memory, then in others: fast ones before slow tiers.
    #[default]
    Local,
    /// In all nodes in turn, allocation by allocation.
    Interleave,
    /// In the node `kernel.numa.table_node`, then in others.
    Node,
}

/// How the kernel finds pages to move to a nearer or faster node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balancing {
    /// It moves none.
    #[default]
    None,
    /// By faults: it takes the entries of some pages away now and then, and the next access faults (Linux:
    /// NUMA balancing). Pages of a slow tier move on a fault soon after that, pages of another socket on the
    /// second fault from the same node.
    HintFaults,
    /// By accessed bits of pages in slow tiers, which it reads and clears.
    AccessedBits,
}

/// How huge pages move between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HugeMigration {
    /// As a whole if the other node has a block, else split.
    #[default]
    Whole,
    /// Split into base pages first.
    Split,
}

/// The kernel on a machine with several memory nodes (`nodes`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NumaSpec {
    /// From which nodes programs get their pages.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Linux: MPOL_DEFAULT"))]
    pub policy: MemoryPolicy,
    /// The nodes of `policy`, by number.
    #[schemars(extend("x-unit" = "list"), inner(range(max = 3)))]
    pub nodes: Vec<u32>,
    /// In which nodes page tables and other structures of translation lie. Structures reserved at boot are in
    /// the first node that has room for them.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Linux: the node of the faulting core"))]
    pub table_policy: TablePolicy,
    /// The node of `table_policy = "node"`.
    #[schemars(range(max = 3), extend("x-unit" = "number"))]
    pub table_node: u32,
    /// Whether pages that were not accessed lately move to a slow tier when a fast node is low.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Linux: numa/demotion_enabled"))]
    pub demotion: bool,
    /// How the kernel finds pages to move to a nearer or faster node.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Linux: numa_balancing"))]
    pub balancing: Balancing,
    /// Cycles between two scans of `balancing`.
    #[schemars(range(min = 1_000, max = 1_u64 << 40), extend("x-unit" = "cycles", "x-source" = "our choice: 10 ms at 2 GHz, for short runs; Linux's least is 1 s"))]
    pub scan_period: u64,
    /// Base pages of a scan.
    #[schemars(range(min = 1, max = 1 << 30), extend("x-unit" = "count", "x-source" = "Linux: numa_balancing_scan_size_mb 256"))]
    pub scan_pages: u64,
    /// Cycles from the scan of a page in a slow tier to its fault, up to which it counts as hot.
    #[schemars(range(min = 1, max = 1_u64 << 40), extend("x-unit" = "cycles", "x-source" = "Linux: hot_threshold_ms, one least scan period"))]
    pub hot_threshold: u64,
    /// Adjacent scans that find a page of a slow tier accessed, after which it is hot (`accessed-bits`).
    #[schemars(range(min = 1, max = 200), extend("x-unit" = "count", "x-source" = "our choice"))]
    pub hot_scans: u32,
    /// Base pages that may be promoted from slow tiers in a scan period; 0 for no limit.
    #[schemars(range(max = 1 << 30), extend("x-unit" = "count", "x-source" = "Linux: numa_balancing_promote_rate_limit_MBps, 64 GiB/s"))]
    pub promotion_pages: u64,
    /// How huge pages move between nodes.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Linux: whole, where THP migration is built in"))]
    pub huge_migration: HugeMigration,
}

impl Default for NumaSpec {
    fn default() -> Self {
        NumaSpec {
            policy: MemoryPolicy::Local,
            nodes: Vec::new(),
            table_policy: TablePolicy::Local,
            table_node: 0,
            demotion: false,
            balancing: Balancing::None,
            scan_period: 20_000_000,
            scan_pages: 65_536,
            hot_threshold: 20_000_000,
            hot_scans: 2,
            promotion_pages: 0,
            huge_migration: HugeMigration::Whole,
        }
    }
}

impl NumaSpec {
    /// The invalid settings of a spec at key `at`, on a machine whose nodes are slow tiers or not.
    pub fn validate(&self, at: &str, slow: &[bool]) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        let nodes = slow.len() as u32;
        let have = if nodes == 1 { "one, node 0".to_string() } else { format!("{nodes}, from 0 to {}", nodes - 1) };
        if let Some(missing) = self.nodes.iter().find(|node| **node >= nodes) {
            wrong.push(
                Invalid::new(format!("{at}.nodes"), format!("names node {missing}; the machine has {have}"))
                    .and("nodes.node1.bytes"),
            );
        }
        if self.nodes.is_empty() && matches!(self.policy, MemoryPolicy::Bind | MemoryPolicy::Preferred) {
            let message = "is empty, and this policy needs a node: name one, such as [0]".to_string();
            wrong.push(Invalid::new(format!("{at}.nodes"), message).and(format!("{at}.policy")));
        }
        if self.table_policy == TablePolicy::Node && self.table_node >= nodes {
            let message = format!("is {}; the machine has {have}", self.table_node);
            wrong.push(Invalid::new(format!("{at}.table_node"), message).and("nodes.node1.bytes"));
        }
        let has_tier = slow.iter().any(|slow| *slow);
        if self.demotion && !has_tier {
            let message = "is true, and no node is a slow tier: set `nodes.node1.slow`, or this to false".to_string();
            wrong.push(Invalid::new(format!("{at}.demotion"), message).and("nodes.node1.slow"));
        }
        if self.balancing == Balancing::AccessedBits && !has_tier {
            let message =
                "is \"accessed-bits\", which promotes from slow tiers, and no node is one: set `nodes.node1.slow`, or \
                           use \"hint-faults\""
                    .to_string();
            wrong.push(Invalid::new(format!("{at}.balancing"), message).and("nodes.node1.slow"));
        }
        if self.balancing == Balancing::HintFaults && nodes == 1 {
            let message = "is \"hint-faults\", and the machine has one node: give it another with `nodes.node1.bytes`"
                .to_string();
            wrong.push(Invalid::new(format!("{at}.balancing"), message).and("nodes.node1.bytes"));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_node_or_tier_is_named_with_what_there_is() {
        let text = |spec: NumaSpec, slow: &[bool]| {
            spec.validate("kernel.numa", slow).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let bind = NumaSpec { policy: MemoryPolicy::Bind, ..NumaSpec::default() };
        assert!(text(bind.clone(), &[false; 2]).contains("`kernel.numa.nodes` is empty"));
        let missing = text(NumaSpec { nodes: vec![0, 2], ..bind.clone() }, &[false; 2]);
        assert!(missing.contains("names node 2; the machine has 2, from 0 to 1"), "{missing}");
        assert_eq!(text(NumaSpec { nodes: vec![1], ..bind }, &[false; 2]), "");
        let tables = NumaSpec { table_policy: TablePolicy::Node, table_node: 1, ..NumaSpec::default() };
        assert!(text(tables, &[false]).contains("`kernel.numa.table_node` is 1; the machine has one, node 0"));
        let tiers = NumaSpec { demotion: true, balancing: Balancing::AccessedBits, ..NumaSpec::default() };
        assert_eq!((tiers.validate("kernel.numa", &[false; 2]).len(), text(tiers, &[false, true])), (2, String::new()));
        let faults = NumaSpec { balancing: Balancing::HintFaults, ..NumaSpec::default() };
        assert_eq!((faults.validate("kernel.numa", &[false]).len(), text(faults, &[false; 2])), (1, String::new()));
    }
}
