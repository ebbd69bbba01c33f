//! ASAP: Margaritov et al., "Prefetched Address Translation", MICRO 2019.
//!
//! The tables of the last two levels of a VMA (PL1, whose entries map 4 KiB pages, and PL2 above it) are
//! contiguous in physical memory, in virtual-address order, so the address of an entry is a base plus an
//! offset. Range registers hold the bounds and bases of the largest VMAs. On a TLB miss the walker prefetches
//! the PL1 and PL2 entries at once. Meanwhile an ordinary walk proceeds from the root (or the page-walk
//! caches) and finds their lines in the caches or in flight. Only the walk decides: a prefetch can be useless
//! but never wrong.
//!
//! - OS half: [`Tree`] with `Asap` nodes, in `reservation.rs`, which reserves the runs of frames when a VMA
//!   is added.
//! - Hardware half: `AsapWalker`, in `walker.rs`.
//!
//! Choices.
//! - A VMA whose run of PL1 frames cannot be allocated keeps scattered tables, as in radix. So does one
//!   smaller than `min_vma`. LVM section 7.5.1 points out that the runs (hundreds of megabytes for large
//!   VMAs) are hard to guarantee: fragment memory to see it.
//! - A VMA that grows gets another reservation for the added part, and so another range register.
//! - A table at the border of two VMAs is in the run of the VMA that needs it first.
//! - Prefetches are best effort and not counted as loads of the walk; the memory hierarchy counts them as
//!   fetches.

mod reservation;
#[cfg(test)]
mod tests;
mod walker;

use reservation::Asap;
use walker::AsapWalker;

use ambulator_sockets::{Claims, Descriptor, Parts, Settings, Socket, TableParts};
use ambulator_structures::tree::Tree;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of ASAP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AsapSpec {
    /// Range registers, each for the runs of one VMA; the largest VMAs get them.
    #[schemars(range(max = 256), extend("x-unit" = "entries", "x-source" = "our choice: the paper has 8 to 16"))]
    pub(crate) range_registers: u32,
    /// Prefetch the entry of the last level (PL1).
    #[schemars(extend("x-unit" = "flag", "x-source" = "ASAP, P1"))]
    pub(crate) prefetch_pl1: bool,
    /// Prefetch the entry of the level above the last (PL2).
    #[schemars(extend("x-unit" = "flag", "x-source" = "ASAP, P1+P2"))]
    pub(crate) prefetch_pl2: bool,
    /// Do not prefetch entries that the walk skips, or loads first, thanks to the page-walk caches.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: the paper prefetches on every TLB miss"))]
    pub(crate) filter: bool,
    /// The smallest VMA whose tables are contiguous.
    #[schemars(range(min = 4096, max = 1_u64 << 57), extend("x-unit" = "bytes", "x-source" = "our choice: one PL1 table is contiguous anyhow"))]
    pub(crate) min_vma: u64,
}

impl Default for AsapSpec {
    fn default() -> Self {
        AsapSpec { range_registers: 16, prefetch_pl1: true, prefetch_pl2: true, filter: false, min_vma: 4 << 20 }
    }
}

impl Settings for AsapSpec {}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "asap",
        "last levels contiguous for each VMA, so that a walk prefetches its last entries at its start",
        "Margaritov et al., Prefetched Address Translation, MICRO 2019",
    )
    .fills(Socket::PageTable, "a radix walk whose last two loads are prefetched")
    .claims(Claims { max_loads: 5, ..Claims::default() })
    .formerly("design.page_table.asap.levels", "mmu.va_bits")
    .formerly("design.page_table.asap.pwc.", "mmu.pwc.")
    .formerly("design.page_table.asap.", "asap.")
    .settings::<AsapSpec>()
    .build(|spec, site| {
        let (os, hardware, va_bits, pwc) = (spec.clone(), spec.clone(), site.va_bits, site.pwc);
        let page_table = TableParts::new(
            move |_, _, context| Ok(Box::new(Tree::new(Asap::new(&os), va_bits, context)?)),
            move |_| Box::new(AsapWalker::new(&hardware, &pwc)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
