//! The radix page table of x86-64, the baseline of everything: four or five levels of 512 entries, leaves of 4 KiB, 2 MiB
//! and 1 GiB, page-walk caches split by level.
//!
//! Sources: Intel SDM volume 3, chapter 4 (format, levels, paging-structure caches); LVM Table 1 (sizes and latency of the
//! page-walk caches).
//!
//! - OS half: [`Tree`] with [`Plain`] nodes. A table frame is taken when the first page below it is mapped, and goes back
//!   when the last is unmapped.
//! - Hardware half: [`TreeWalker`]: all page-walk caches are probed at once, and then each level that they did not skip is
//!   one load after the other.
//!
//! Choices. INVLPG on real x86-64 processors drops the paging-structure caches of the whole address space; here it drops
//! the entries that lead to the page, as the papers' simulators have it. The walker sets accessed and dirty bits in leaves
//! only: the kernel makes entries that point to tables accessed from the start, as Linux does.

#[cfg(test)]
mod tests;

use crate::tree::{Plain, PwcSpec, Tree, TreeWalker, va_bits, validate_levels};
use ambulator_base::{Asid, Invalid, ProcessId};
use ambulator_mmu::Walker;
use ambulator_os::{MapError, PageTable, TableContext, TableFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the radix page table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadixSpec {
    /// Levels: 4 (48-bit virtual addresses) or 5 (57-bit).
    #[schemars(extend("x-unit" = "count", "x-source" = "LVM Section 6.3"))]
    pub levels: u32,
    /// The page-walk caches.
    pub pwc: PwcSpec,
}

impl Default for RadixSpec {
    fn default() -> Self {
        RadixSpec { levels: 4, pwc: PwcSpec::default() }
    }
}

impl RadixSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong: Vec<Invalid> = validate_levels(self.levels, at).into_iter().collect();
        wrong.extend(self.pwc.validate(&format!("{at}.pwc")));
        wrong
    }
}

/// Makes radix tables.
pub struct RadixFactory {
    va_bits: u32,
}

impl RadixFactory {
    /// A factory of tables of a validated spec.
    pub fn new(spec: &RadixSpec) -> RadixFactory {
        RadixFactory { va_bits: va_bits(spec.levels) }
    }
}

impl TableFactory for RadixFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        Ok(Box::new(Tree::new(Plain, self.va_bits, os)?))
    }
}

/// A core's walker.
pub fn walker(spec: &RadixSpec) -> Box<dyn Walker> {
    Box::new(TreeWalker::new(&spec.pwc))
}
