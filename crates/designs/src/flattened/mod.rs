//! Flattened page tables (FPT): Park et al., "Every Walk's a Hit: Making Page Walks Single-Access Cache
//! Hits", ASPLOS 2022.
//!
//! Two adjacent levels of 4 KiB nodes become one node of 2 MiB with 2^18 entries: L4+L3 and L2+L1, so a walk
//! takes two loads. Flattening is opportunistic: if no 2 MiB frame is free for a node, ordinary 4 KiB nodes
//! of the two levels replace it. An entry indicates which kind of node it points to. The second half of the
//! paper (caches that favour page-table lines) is a cache policy, not a page table, and is not modelled here.
//!
//! - OS half: [`Tree`] with `Flattened` nodes.
//! - Hardware half: [`TreeWalker`], whose page-walk caches hold the entries of the merged upper level (1 GiB
//!   each). Where nodes are not merged, they hold those of every level, as in radix.
//!
//! Choices.
//! - With five levels the root (L5) stays an ordinary node above the two merged ones: three loads.
//! - 2 MiB pages have no level of their own in a merged L2+L1 node. Their entry, with PS set, is repeated in
//!   all 512 slots. The kernel considers a page accessed or dirty if one of its copies is
//!   (`LargePages::Replicated`). The alternative, `LargePages::Unmerged`, keeps L2 and L1 of a 1 GiB region
//!   separate if its first page is a 2 MiB page.
//! - A node's kind is fixed when it is created; memory that becomes contiguous later does not merge old
//!   nodes.

#[cfg(test)]
mod tests;

use ambulator_base::{CounterSink, Counters, PageSize, State};
use ambulator_os::{Footprint, TableContext};
use ambulator_sockets::{Claims, Descriptor, Parts, Settings, Socket, TableParts};
use ambulator_structures::frames;
use ambulator_structures::tree::{FLAT_BITS, Layout, NODE_BITS, NodePlace, NodeRequest, Plain, Tree, TreeWalker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How merged L2+L1 nodes represent 2 MiB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LargePages {
    /// Their entry is repeated in the 512 slots of the 4 KiB pages that they cover.
    #[default]
    Replicated,
    /// A region whose first page is a 2 MiB page keeps L2 and L1 separate.
    Unmerged,
}

/// Settings of flattened page tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FlattenedSpec {
    /// Merge L4 and L3.
    #[schemars(extend("x-unit" = "flag", "x-source" = "LVM Section 7.5.3"))]
    pub(crate) merge_upper: bool,
    /// Merge L2 and L1.
    #[schemars(extend("x-unit" = "flag", "x-source" = "LVM Section 7.5.3"))]
    pub(crate) merge_lower: bool,
    /// How merged L2+L1 nodes represent 2 MiB pages.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice"))]
    pub(crate) large_pages: LargePages,
}

impl Default for FlattenedSpec {
    fn default() -> Self {
        FlattenedSpec { merge_upper: true, merge_lower: true, large_pages: LargePages::Replicated }
    }
}

impl Settings for FlattenedSpec {}

ambulator_base::counters! {
    /// Counters of the OS half of flattened page tables.
    struct FlattenedCounters {
        /// Merged nodes created.
        merged_nodes: Events,
        /// Nodes not merged because no 2 MiB frame was free.
        merge_failures: Events,
    }
}

/// Merged nodes if there is a 2 MiB frame for them, ordinary nodes otherwise.
#[derive(State)]
pub(crate) struct Flattened {
    #[state(skip)]
    merge_upper: bool,
    #[state(skip)]
    merge_lower: bool,
    #[state(skip)]
    large_pages: LargePages,
    counters: FlattenedCounters,
}

impl Flattened {
    fn merges(&self, request: NodeRequest) -> bool {
        match request.span {
            48 => self.merge_upper,
            30 => {
                let large = request.page == PageSize::SIZE_2M;
                self.merge_lower && !(large && self.large_pages == LargePages::Unmerged)
            }
            _ => false,
        }
    }
}

impl Flattened {
    /// The layout of a table with this spec.
    pub(crate) fn new(spec: &FlattenedSpec) -> Flattened {
        Flattened {
            merge_upper: spec.merge_upper,
            merge_lower: spec.merge_lower,
            large_pages: spec.large_pages,
            counters: FlattenedCounters::default(),
        }
    }
}

impl Layout for Flattened {
    fn allocate(
        &mut self,
        request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        if self.merges(request) {
            if let Some(frame) = frames::allocate(FLAT_BITS - NODE_BITS, footprint, os) {
                self.counters.merged_nodes += 1;
                return Some(NodePlace { frame, bits: FLAT_BITS });
            }
            self.counters.merge_failures += 1;
        }
        Plain.allocate(request, footprint, os)
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "flattened",
        "L4+L3 and L2+L1 merged into 2 MiB nodes if memory permits: two loads per walk",
        "Park et al., Every Walk's a Hit, ASPLOS 2022",
    )
    .fills(Socket::PageTable, "a load for each pair of levels")
    .claims(Claims { max_loads: 5, copied_entries: true, ..Claims::default() })
    .formerly("design.page_table.flattened.levels", "mmu.va_bits")
    .formerly("design.page_table.flattened.pwc.", "mmu.pwc.")
    .formerly("design.page_table.flattened.", "flattened.")
    .settings::<FlattenedSpec>()
    .build(|spec, site| {
        let (spec, va_bits, pwc) = (spec.clone(), site.va_bits, site.pwc);
        let page_table = TableParts::new(
            move |_, _, context| Ok(Box::new(Tree::new(Flattened::new(&spec), va_bits, context)?)),
            move |_| Box::new(TreeWalker::new(&pwc)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
