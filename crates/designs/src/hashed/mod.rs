//! The classic hashed page table: one open-addressed hash table for each process, resized as a whole.
//!
//! Sources: Huck and Hays, "Architectural Support for Translation Table Management in Large Address Space Machines",
//! ISCA 1993; Yaniv and Tsafrir, "Hash, Don't Cache (the Page Table)", SIGMETRICS 2016. ME-HPT (section II) tells what is
//! wrong with it: it wants contiguous memory of the table's whole size, and resizing moves everything at once. This folder
//! is also the worked example of `CONTRIBUTING.md`.
//!
//! - OS half: [`HashedTable`] in `table.rs`.
//! - Hardware half: [`HashedWalker`] in `walker.rs`.
//! - What both know, here: the layout of a slot, and where a page's search begins.
//!
//! Choices.
//! - A slot is 16 bytes: a tag and an x86-64 entry. Four slots fill a cache line, and a search goes line by line: if a page's
//!   own line is full, the next line has it, or the one after.
//! - Pages of all sizes share the table; the tag holds the size. Since a walker cannot know a page's size, it looks for every
//!   size that the process has at once. The registers say which those are.
//! - A removed entry leaves a mark in a full line, so that searches go on past it. Resizing sweeps the marks out.
//! - The table only grows. A process's exit frees it.

mod table;
#[cfg(test)]
mod tests;
mod walker;

pub use table::{HashedTable, HashedTableCounters};
pub use walker::{HashedCounters, HashedWalker};

use ambulator_base::{Asid, Invalid, LINE_BYTES, PageSize, PhysAddr, ProcessId, VirtAddr, mix64};
use ambulator_mmu::Walker;
use ambulator_os::{MapError, PageTable, TableContext, TableFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the hashed page table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HashedSpec {
    /// Bits of a virtual address: 48 or 57. The table itself has no levels, and does not care.
    #[schemars(extend("x-unit" = "count", "x-source" = "x86-64"))]
    pub va_bits: u32,
    /// Bytes of an empty table: a power of two of at least 4 KiB.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "our choice: a frame"))]
    pub initial_bytes: u64,
    /// Share of the slots that may be taken before the table is resized.
    #[schemars(extend("x-unit" = "ratio", "x-source" = "ME-HPT Sec. VI: ECPT's 0.6"))]
    pub load_limit: f64,
    /// Cycles that the hash function takes at the start of a walk.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub hash_latency: u64,
}

impl Default for HashedSpec {
    fn default() -> Self {
        HashedSpec { va_bits: 48, initial_bytes: 4096, load_limit: 0.6, hash_latency: 2 }
    }
}

impl HashedSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if ![48, 57].contains(&self.va_bits) {
            wrong.push(Invalid::new(format!("{at}.va_bits"), format!("is {}: x86-64 has 48 or 57", self.va_bits)));
        }
        if !(4096..=1 << 40).contains(&self.initial_bytes) || !self.initial_bytes.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.initial_bytes"),
                format!("is {}: it must be a power of two, 4096 to 1099511627776 bytes", self.initial_bytes),
            ));
        }
        if !(self.load_limit > 0.0 && self.load_limit <= 0.9) {
            wrong.push(Invalid::new(
                format!("{at}.load_limit"),
                format!(
                    "is {}: it is a share of the slots, above 0 and at most 0.9, for a search ends at a \
                     line with an empty one",
                    self.load_limit
                ),
            ));
        }
        wrong
    }
}

// ANCHOR: layout
/// Bytes of a slot: its tag, and the page-table entry behind it.
pub const SLOT_BYTES: u64 = 16;
/// Slots of a line.
pub const LINE_SLOTS: u64 = LINE_BYTES / SLOT_BYTES;
/// The page sizes that the table holds, in the order of the bits of its third register.
pub const SIZES: [PageSize; 3] = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];

/// The tag of a slot that was never taken: a search ends at its line.
const EMPTY: u64 = 0;
/// The tag of a slot whose entry was removed while its line was full: a search goes on past it.
const REMOVED: u64 = 1;

/// The tag of the page of `size` that holds `va`: its number, and its size in the low byte. Never [`EMPTY`] or [`REMOVED`].
#[inline(always)]
fn tag(va: VirtAddr, size: PageSize) -> u64 {
    ((va.0 >> size.shift()) << 8) | u64::from(size.shift())
}

/// The lines of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    base: PhysAddr,
    /// One less than the number of lines, which is a power of two.
    mask: u64,
}

impl Lines {
    /// Where the search for a tag begins.
    #[inline(always)]
    fn home(self, tag: u64) -> PhysAddr {
        self.base.offset((mix64(tag) & self.mask) * LINE_BYTES)
    }

    /// Where it goes on behind a full line; the first line follows the last.
    #[inline(always)]
    fn after(self, line: PhysAddr) -> PhysAddr {
        let number = (line.0 - self.base.0) / LINE_BYTES;
        self.base.offset(((number + 1) & self.mask) * LINE_BYTES)
    }
}

/// What a search sees in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The tag, in this slot of the line.
    Found(usize),
    /// Not here, and nowhere behind: the line has an empty slot.
    Ends,
    /// Not here; the line is full.
    GoesOn,
}

/// Looks for `tag` in a line's eight words.
#[inline(always)]
fn search(words: &[u64; 8], tag: u64) -> Seen {
    let mut tags = words.iter().step_by(2);
    match tags.position(|&there| there == tag) {
        Some(slot) => Seen::Found(slot),
        None if words.iter().step_by(2).any(|&there| there == EMPTY) => Seen::Ends,
        None => Seen::GoesOn,
    }
}
// ANCHOR_END: layout

/// Makes hashed tables.
pub struct HashedFactory {
    spec: HashedSpec,
}

impl HashedFactory {
    /// A factory of tables of a validated spec.
    pub fn new(spec: &HashedSpec) -> HashedFactory {
        HashedFactory { spec: spec.clone() }
    }
}

impl TableFactory for HashedFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        Ok(Box::new(HashedTable::new(&self.spec, os)?))
    }
}

/// A core's walker.
pub fn walker(spec: &HashedSpec) -> Box<dyn Walker> {
    Box::new(HashedWalker::new(spec))
}
