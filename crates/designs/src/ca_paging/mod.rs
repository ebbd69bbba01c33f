//! Contiguity-aware (CA) paging: demand paging that places the next page of a VMA right behind the last one,
//! so that mappings become contiguous without reservations.
//!
//! Source: Alverti et al., "Enhancing and Exploiting Contiguity for Fast Memory Virtualization", ISCA 2020,
//! its software half. The text at hand was its abstract, and the kernel that its authors published
//! (`mm/mempolicy.c`, `mm/page_alloc.c`); what comes from the kernel says so.
//!
//! - Offsets of VMAs and of their parts (sub-VMAs), the target frame of a fault: `placement.rs`
//!   (`_capaging_vma_offset`, `alloc_pages_vma_capaging`).
//! - The contiguity map and next-fit placement: `clusters.rs` (`capaging_next_fit_placement`).
//!
//! The first fault of a VMA chooses a run of free clusters as long as the VMA, next fit, and records the
//! offset between addresses and frames. Each later fault asks for the frame at this offset. Nothing is
//! reserved: if the frame is taken, the rest of the VMA is placed again, and gets an offset of its own. Guest
//! and hypervisor place independently, each in its own memory. Any design that profits from contiguity can be
//! beside it.
//!
//! Choices.
//! - The contiguity map is read from the allocator's free blocks; the authors' kernel keeps a list of them.
//! - Offsets are congruent modulo 2 MiB from the start, so that huge pages and base pages share them. The
//!   authors' kernel rounds the target of a huge page up and records a second offset.
//! - The authors' kernel places again for huge pages only, and splits no cluster for a base page: it is meant
//!   for transparent huge pages. `replace_base` lets base pages do both, so that the policy works without
//!   huge pages.
//! - Page tables would take the frames right behind those of a VMA, the smallest free blocks. Linux keeps
//!   pages of the kernel in blocks of their own, and so does the allocator once this policy is in use.
//! - Pages larger than a cluster go wherever there is room.

mod clusters;
mod placement;
#[cfg(test)]
mod tests;

use placement::CaPlacement;

use ambulator_sockets::{Descriptor, Parts, Settings, Socket, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of contiguity-aware paging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaPagingSpec {
    /// The order of the clusters that the contiguity map has; at most that of the allocator's largest block.
    #[schemars(range(min = 9, max = 29), extend("x-unit" = "count", "x-source" = "MAX_ORDER of the authors' kernel: blocks of order 10, 4 MiB"))]
    pub(crate) cluster_order: u32,
    /// The most offsets of a VMA; then the oldest is replaced.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "count", "x-source" = "SUB_VMA_TOTAL in the authors' kernel (64)"))]
    pub(crate) sub_vmas: u32,
    /// Whether the rest of a VMA is placed again if the frame for a base page is taken, not only for a huge
    /// page.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: false in the authors' kernel, which is meant for huge pages"))]
    pub(crate) replace_base: bool,
}

impl Default for CaPagingSpec {
    fn default() -> Self {
        CaPagingSpec { cluster_order: 10, sub_vmas: 64, replace_base: true }
    }
}

impl Settings for CaPagingSpec {}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "ca-paging",
        "demand paging that puts the next page of a VMA right behind the last one",
        "Alverti et al., Enhancing and Exploiting Contiguity for Fast Memory Virtualization, ISCA 2020",
    )
    .fills(Socket::Placement, "the frame at the offset of the VMA; the first fault chooses a free run, next fit")
    .settings::<CaPagingSpec>()
    .build(|spec, site| {
        let mut parts = Parts { placement: Some(Box::new(CaPlacement::new(spec))), ..Parts::default() };
        if matches!(site.stage, Stage::Guest { .. }) {
            parts.hypervisor.placement = Some(Box::new(CaPlacement::new(spec)));
        }
        parts
    })
}
