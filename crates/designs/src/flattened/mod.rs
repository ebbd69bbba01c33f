//! Flattened page tables (FPT): Park et al., "Every Walk's a Hit: Making Page Walks Single-Access Cache Hits", ASPLOS 2022.
//!
//! Two adjacent levels of 4 KiB nodes become one node of 2 MiB with 2^18 entries: L4+L3 and L2+L1, so that a walk is two
//! loads. Flattening is opportunistic: where no 2 MiB frame is free for a node, ordinary 4 KiB nodes of the two levels
//! take its place, and an entry tells which kind of node it points to. The second half of the paper (caches that favour
//! page-table lines) is a cache policy and no page table.
//!
//! - OS half: [`Tree`] with [`Flattened`] nodes.
//! - Hardware half: [`TreeWalker`], whose page-walk caches hold the entries of the merged upper level (1 GiB each) and,
//!   where nodes are not merged, those of every level, as in radix.
//!
//! Choices.
//! - With five levels the root (L5) stays an ordinary node above the two merged ones: three loads.
//! - 2 MiB pages have no level of their own in a merged L2+L1 node: their entry, with PS set, is repeated in all 512
//!   slots, and the kernel takes a page as accessed or dirty if one of its copies is
//!   ([`LargePages::Replicated`]). The alternative, [`LargePages::Unmerged`], leaves a 1 GiB region's L2 and L1 apart if a
//!   2 MiB page is what comes into it first.
//! - A node's kind is fixed when it is made; memory that becomes contiguous later does not merge old nodes.

#[cfg(test)]
mod tests;

use crate::frames;
use crate::tree::{
    FLAT_BITS, Layout, NODE_BITS, NodePlace, NodeWanted, Plain, PwcSpec, Tree, TreeWalker, va_bits, validate_levels,
};
use ambulator_base::{Asid, CounterSink, Counters, Invalid, PageSize, ProcessId};
use ambulator_mmu::Walker;
use ambulator_os::{Footprint, MapError, PageTable, TableContext, TableFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How 2 MiB pages live with merged L2+L1 nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LargePages {
    /// Their entry is repeated in the 512 slots of the 4 KiB pages that they cover.
    #[default]
    Replicated,
    /// A region into which a 2 MiB page comes first keeps L2 and L1 apart.
    Unmerged,
}

/// Settings of flattened page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlattenedSpec {
    /// Levels before merging: 4 (48-bit virtual addresses) or 5 (57-bit).
    #[schemars(extend("x-unit" = "count", "x-source" = "LVM Section 7.5.3"))]
    pub levels: u32,
    /// Merge L4 and L3.
    #[schemars(extend("x-unit" = "flag", "x-source" = "LVM Section 7.5.3"))]
    pub merge_upper: bool,
    /// Merge L2 and L1.
    #[schemars(extend("x-unit" = "flag", "x-source" = "LVM Section 7.5.3"))]
    pub merge_lower: bool,
    /// How 2 MiB pages live with merged L2+L1 nodes.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub large_pages: LargePages,
    /// The page-walk caches.
    pub pwc: PwcSpec,
}

impl Default for FlattenedSpec {
    fn default() -> Self {
        FlattenedSpec {
            levels: 4,
            merge_upper: true,
            merge_lower: true,
            large_pages: LargePages::Replicated,
            pwc: PwcSpec::default(),
        }
    }
}

impl FlattenedSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong: Vec<Invalid> = validate_levels(self.levels, at).into_iter().collect();
        wrong.extend(self.pwc.validate(&format!("{at}.pwc")));
        wrong
    }
}

ambulator_base::counters! {
    /// What the OS half of flattened page tables counts.
    pub struct FlattenedCounters {
        /// Merged nodes made.
        merged_nodes: Events,
        /// Nodes that should have been merged but found no 2 MiB frame free.
        merge_failures: Events,
    }
}

/// Merged nodes where there is a 2 MiB frame for them.
pub struct Flattened {
    merge_upper: bool,
    merge_lower: bool,
    large_pages: LargePages,
    counters: FlattenedCounters,
}

impl Flattened {
    fn merges(&self, wanted: NodeWanted) -> bool {
        match wanted.span {
            48 => self.merge_upper,
            30 => {
                let large = wanted.page == PageSize::SIZE_2M;
                self.merge_lower && !(large && self.large_pages == LargePages::Unmerged)
            }
            _ => false,
        }
    }
}

impl Layout for Flattened {
    fn allocate(
        &mut self,
        wanted: NodeWanted,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        if self.merges(wanted) {
            if let Some(frame) = frames::allocate(FLAT_BITS - NODE_BITS, footprint, os) {
                self.counters.merged_nodes += 1;
                return Some(NodePlace { frame, bits: FLAT_BITS });
            }
            self.counters.merge_failures += 1;
        }
        Plain.allocate(wanted, footprint, os)
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }
}

/// Makes flattened tables.
pub struct FlattenedFactory {
    spec: FlattenedSpec,
}

impl FlattenedFactory {
    /// A factory of tables of a validated spec.
    pub fn new(spec: &FlattenedSpec) -> FlattenedFactory {
        FlattenedFactory { spec: spec.clone() }
    }
}

impl TableFactory for FlattenedFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        let layout = Flattened {
            merge_upper: self.spec.merge_upper,
            merge_lower: self.spec.merge_lower,
            large_pages: self.spec.large_pages,
            counters: FlattenedCounters::default(),
        };
        Ok(Box::new(Tree::new(layout, va_bits(self.spec.levels), os)?))
    }
}

/// A core's walker.
pub fn walker(spec: &FlattenedSpec) -> Box<dyn Walker> {
    Box::new(TreeWalker::new(&spec.pwc))
}
