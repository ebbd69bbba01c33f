//! The classic hashed page table: one open-addressed hash table for each process, resized as a whole.
//!
//! Sources: Huck and Hays, "Architectural Support for Translation Table Management in Large Address Space
//! Machines", ISCA 1993; Yaniv and Tsafrir, "Hash, Don't Cache (the Page Table)", SIGMETRICS 2016. ME-HPT
//! (section II) describes its weaknesses: it needs contiguous memory for the whole table, and a resize moves
//! everything at once. This folder is also the worked example of `CONTRIBUTING.md`.
//!
//! - OS half: `HashedTable` in `table.rs`.
//! - Hardware half: `HashedWalker` in `walker.rs`.
//! - Shared by both, here: the layout of a slot, and where the search for a page begins.
//!
//! Choices.
//! - A slot is 16 bytes: a tag and an x86-64 entry. Four slots fill a cache line, and a search proceeds line
//!   by line: if a page's own line is full, its entry is in one of the following lines.
//! - Pages of all sizes share the table; the tag holds the size. Since a walker cannot know a page's size, it
//!   searches for every size in use at once. The registers list the sizes.
//! - A removed entry leaves a tombstone in a full line, so that searches continue past it. A resize removes
//!   the tombstones.
//! - The table only grows. A process's exit frees it.

mod table;
#[cfg(test)]
mod tests;
mod walker;

use table::HashedTable;
use walker::HashedWalker;

use ambulator_base::watch::{Meaning, Shape};
use ambulator_base::{Invalid, LINE_BYTES, PageSize, PhysAddr, State, VirtAddr, mix64};
use ambulator_sockets::{Claims, Descriptor, Parts, Settings, Socket, TableParts};
use ambulator_structures::pte::Pte;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the hashed page table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HashedSpec {
    /// Bytes of an empty table: a power of two of at least 4 KiB.
    #[schemars(range(min = 4096, max = 1_u64 << 40), extend("x-unit" = "bytes", "x-source" = "our choice: a frame"))]
    pub(crate) initial_bytes: u64,
    /// Occupancy at which the table is resized.
    #[schemars(range(min = 0.0, max = 0.9), extend("x-unit" = "ratio", "x-source" = "ME-HPT Sec. VI: ECPT's 0.6"))]
    pub(crate) load_limit: f64,
    /// Cycles that the hash function takes at the start of a walk.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub(crate) hash_latency: u64,
}

impl Default for HashedSpec {
    fn default() -> Self {
        HashedSpec { initial_bytes: 4096, load_limit: 0.6, hash_latency: 2 }
    }
}

impl Settings for HashedSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !self.initial_bytes.is_power_of_two() {
            wrong.push(Invalid::new(
                format!("{at}.initial_bytes"),
                format!("is {}: it must be a power of two", self.initial_bytes),
            ));
        }
        if self.load_limit == 0.0 {
            wrong.push(Invalid::new(
                format!("{at}.load_limit"),
                format!(
                    "is {}: it is a share of the slots, above 0 and at most 0.9, because a search ends at a \
                     line with an empty slot",
                    self.load_limit
                ),
            ));
        }
        wrong
    }
}

// ANCHOR: layout
/// Bytes of a slot: its tag, then the page-table entry.
pub(crate) const SLOT_BYTES: u64 = 16;
/// Slots of a line.
pub(crate) const LINE_SLOTS: u64 = LINE_BYTES / SLOT_BYTES;
/// The supported page sizes, in the order of the bits of the third register.
pub(crate) const SIZES: [PageSize; 3] = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];

/// The tag of an unused slot: a search ends at its line.
const EMPTY: u64 = 0;
/// The tag of a tombstone: its entry was removed while the line was full, so a search continues past it.
const REMOVED: u64 = 1;

/// The tag of the page of `size` that holds `va`: its number, and its size in the low byte. Never [`EMPTY`]
/// or [`REMOVED`].
#[inline(always)]
fn tag(va: VirtAddr, size: PageSize) -> u64 {
    ((va.0 >> size.shift()) << 8) | u64::from(size.shift())
}

/// The lines of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
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

    /// The number of a line, and how many there are.
    fn number(self, line: PhysAddr) -> [u64; 2] {
        [line.0.wrapping_sub(self.base.0) / LINE_BYTES, self.mask + 1]
    }

    /// Where it continues after a full line; the first line follows the last.
    #[inline(always)]
    fn after(self, line: PhysAddr) -> PhysAddr {
        let number = (line.0 - self.base.0) / LINE_BYTES;
        self.base.offset(((number + 1) & self.mask) * LINE_BYTES)
    }
}

/// The result of searching a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineSearch {
    /// The tag, in this slot of the line.
    Found(usize),
    /// Not in this line, nor in any later one: the line has an empty slot.
    Ends,
    /// Not in this line, which is full.
    Continues,
}

/// Searches a line's eight words for `tag`.
#[inline(always)]
fn search(words: &[u64; 8], tag: u64) -> LineSearch {
    let mut tags = words.iter().step_by(2);
    match tags.position(|&there| there == tag) {
        Some(slot) => LineSearch::Found(slot),
        None if words.iter().step_by(2).any(|&there| there == EMPTY) => LineSearch::Ends,
        None => LineSearch::Continues,
    }
}
// ANCHOR_END: layout

/// What line number `line` of `lines` is to the search for `wanted`, the tag of a page of `size`.
fn meaning(words: &[u64; 8], wanted: u64, size: PageSize, [line, lines]: [u64; 2]) -> Meaning {
    let source = "Yaniv and Tsafrir, SIGMETRICS 2016; the order of a slot's words is our choice";
    let mut meaning = Meaning::new(format!("line of {LINE_SLOTS} slots, searched for a {size} page"), source)
        .address("tag wanted", wanted);
    for (slot, words) in words.chunks_exact(2).enumerate() {
        let pte = Pte(words[1]);
        let text = match words[0] {
            EMPTY => "empty: a search ends here".to_owned(),
            REMOVED => "removed: a search goes on".to_owned(),
            tag if tag == wanted => format!("tag {tag:#x}, the one: frame {:#x}", pte.frame().0),
            tag => format!("tag {tag:#x}, frame {:#x}", pte.frame().0),
        };
        meaning = meaning.field(format!("slot {slot}"), text);
    }
    let found = match search(words, wanted) {
        LineSearch::Found(slot) => Some(slot),
        LineSearch::Ends | LineSearch::Continues => None,
    };
    meaning = meaning.shape(Shape::Bucket { way: 0, ways: 1, bucket: line, buckets: lines, found: found.is_some() });
    match found {
        Some(slot) => meaning.fields(Pte(words[2 * slot + 1]).fields()).touches([2 * slot, 2 * slot + 1]),
        None => meaning.field("found", false),
    }
}

// ANCHOR: descriptor
/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "hashed",
        "one open-addressed hash table for each process, resized as a whole",
        "Huck and Hays, ISCA 1993; Yaniv and Tsafrir, SIGMETRICS 2016",
    )
    .fills(Socket::PageTable, "a hash table, one load for each page size that a process has")
    .claims(Claims { max_loads: 256, ..Claims::default() })
    .formerly("design.page_table.hashed.", "hashed.")
    .settings::<HashedSpec>()
    .build(|spec, _| {
        let (os, hardware) = (spec.clone(), spec.clone());
        let page_table = TableParts::new(
            move |_, _, context| Ok(Box::new(HashedTable::new(&os, context)?)),
            move |_| Box::new(HashedWalker::new(&hardware)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
// ANCHOR_END: descriptor
