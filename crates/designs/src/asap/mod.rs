//! ASAP: Margaritov et al., "Prefetched Address Translation", MICRO 2019.
//!
//! The tables of the last two levels (PL1, whose entries map 4 KiB pages, and PL2 above it) of a VMA lie in physical memory
//! in the order of the virtual addresses that they translate, so that the address of an entry is a base plus an offset.
//! Range registers hold the bounds and bases of the largest VMAs. On a TLB miss the walker prefetches the PL1 and PL2
//! entries at once, while an ordinary walk runs from the root (or the page-walk caches) down and finds their lines in the
//! caches, or on their way. The walk alone decides: a prefetch can be useless, never wrong.
//!
//! - OS half: [`Tree`] with [`Asap`] nodes: `reservation.rs`, which reserves the runs of frames when a
//!   VMA is added.
//! - Hardware half: [`AsapWalker`]: `walker.rs`.
//!
//! Choices.
//! - A VMA whose run of PL1 frames cannot be had keeps scattered tables, as in radix; so does one below
//!   [`AsapSpec::min_vma`]. LVM section 7.5.1 names the runs (hundreds of megabytes for large VMAs) as what is
//!   hard to guarantee: fragment memory to see it.
//! - A VMA that grows gets another reservation for what it grew by, and so another range register.
//! - The first VMA to need a table at an edge that two VMAs share has it in its own run.
//! - Prefetches are best effort and not counted as loads of the walk; the memory hierarchy counts them as fetches.

mod reservation;
#[cfg(test)]
mod tests;
mod walker;

pub use reservation::{Asap, AsapTableCounters};
pub use walker::{AsapCounters, AsapWalker};

use crate::tree::{PwcSpec, Tree, va_bits, validate_levels};
use ambulator_base::{Asid, Invalid, ProcessId};
use ambulator_mmu::Walker;
use ambulator_os::{MapError, PageTable, TableContext, TableFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of ASAP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AsapSpec {
    /// Levels: 4 (48-bit virtual addresses) or 5 (57-bit).
    #[schemars(extend("x-unit" = "count", "x-source" = "LVM Section 6.3"))]
    pub levels: u32,
    /// Range registers, each for one VMA's runs of tables; the largest VMAs have them.
    #[schemars(extend("x-unit" = "entries", "x-source" = "our choice: the paper has 8 to 16"))]
    pub range_registers: u32,
    /// Prefetch the entry of the last level (PL1).
    #[schemars(extend("x-unit" = "flag", "x-source" = "ASAP, P1"))]
    pub prefetch_pl1: bool,
    /// Prefetch the entry of the level above the last (PL2).
    #[schemars(extend("x-unit" = "flag", "x-source" = "ASAP, P1+P2"))]
    pub prefetch_pl2: bool,
    /// Do not prefetch entries that the page-walk caches let the walk skip, or load at once.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: the paper prefetches on every TLB miss"))]
    pub filter: bool,
    /// The smallest VMA that gets runs of tables.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "our choice: one PL1 table is contiguous anyhow"))]
    pub min_vma: u64,
    /// The page-walk caches.
    pub pwc: PwcSpec,
}

impl Default for AsapSpec {
    fn default() -> Self {
        AsapSpec {
            levels: 4,
            range_registers: 16,
            prefetch_pl1: true,
            prefetch_pl2: true,
            filter: false,
            min_vma: 4 << 20,
            pwc: PwcSpec::default(),
        }
    }
}

impl AsapSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong: Vec<Invalid> = validate_levels(self.levels, at).into_iter().collect();
        if self.range_registers > 256 {
            wrong.push(Invalid::new(
                format!("{at}.range_registers"),
                format!("is {}: at most 256 are compared at once, and the paper has 8 to 16", self.range_registers),
            ));
        }
        if self.min_vma < 4096 {
            wrong.push(Invalid::new(
                format!("{at}.min_vma"),
                format!("is {}: no VMA is smaller than a page of 4096 bytes", self.min_vma),
            ));
        }
        wrong.extend(self.pwc.validate(&format!("{at}.pwc")));
        wrong
    }
}

/// Makes ASAP's tables.
pub struct AsapFactory {
    spec: AsapSpec,
}

impl AsapFactory {
    /// A factory of tables of a validated spec.
    pub fn new(spec: &AsapSpec) -> AsapFactory {
        AsapFactory { spec: spec.clone() }
    }
}

impl TableFactory for AsapFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        let layout = Asap::new(&self.spec);
        Ok(Box::new(Tree::new(layout, va_bits(self.spec.levels), os)?))
    }
}

/// A core's walker.
pub fn walker(spec: &AsapSpec) -> Box<dyn Walker> {
    Box::new(AsapWalker::new(spec))
}
