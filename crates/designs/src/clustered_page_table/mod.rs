//! The clustered page table: a chained hash table whose nodes hold the entries of several consecutive pages.
//!
//! Source: Talluri, Hill and Khalidi, "A New Page Table for 64-bit Address Spaces", SOSP 1995. A hashed page
//! table pays a tag and a next pointer, 16 bytes, for each entry of 8 bytes. Here they are paid once for a
//! *page block*, an aligned group of consecutive pages, and the hash function takes the block's number. A
//! node is also found once for all pages of its block.
//!
//! - OS half: [`ClusteredPageTable`] in `table.rs`.
//! - Hardware half: [`ClusteredWalker`] in `walker.rs`.
//! - What both know, here: the layout of a node, its links, and the bucket of a block.
//!
//! Choices.
//! - A bucket is a link, 8 bytes; a link is the address of a node with bit 0 set, or 0 where a chain ends. A
//!   new node becomes the first of its chain.
//! - Nodes are packed into frames that belong to this table. A node goes when the last page of its block
//!   goes, and a frame when its last node goes.
//! - Large pages: of the paper's two ways for superpages larger than a page block, repeated entries and a
//!   table for each page size, this is the second. Repetition would take 16,384 nodes for a page of 1 GiB,
//!   each with accessed and dirty bits of its own. The three tables share the frames of nodes; a table comes
//!   with the first page of its size, and the registers show it only while it has pages. Its blocks are as
//!   many of its own pages.
//! - Superpages within a block and partial-subblock entries are left out: x86-64 has no page size between 4
//!   KiB and 64 KiB, and the TLBs of this machine hold no subblocks.
//! - The buckets double when the nodes pass the load limit. Nodes stay where they are; their links change.
//!   Where memory has no room for more buckets the chains grow instead, and nothing fails. The buckets never
//!   shrink; a process's exit frees them.
//! - `block_pages = 1` is the paper's hashed page table with chains, but for 8 bytes of padding in each node.

mod table;
#[cfg(test)]
mod tests;
mod walker;

pub use table::{ClusteredPageTable, ClusteredTableCounters, ClusteredTableState};
pub use walker::{ClusteredWalker, ClusteredWalkerCounters};

use ambulator_base::{FRAME_BYTES, Invalid, PageSize, PhysAddr, State, VirtAddr, mix64};
use ambulator_sockets::{Claims, Descriptor, Parts, Settings, Socket, TableParts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the clustered page table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusteredPageTableSpec {
    /// Consecutive pages whose entries one node holds: a power of two, 1 to 256.
    #[schemars(range(min = 1, max = 256), extend("x-unit" = "pages", "x-source" = "Talluri et al., SOSP 1995: sixteen"))]
    pub block_pages: u64,
    /// Buckets of an empty table, for each page size: a power of two, 512 (4 KiB) to 134217728 (1 GiB).
    #[schemars(range(min = 512, max = 1 << 27), extend("x-unit" = "count", "x-source" = "our choice: a frame"))]
    pub initial_buckets: u64,
    /// Nodes for each bucket above which the number of buckets doubles: 0.1 to 16.
    #[schemars(range(min = 0.1, max = 16.0), extend("x-unit" = "ratio", "x-source" = "our choice: the bucket's first node is mostly the one wanted"))]
    pub load_limit: f64,
    /// Cycles that the hash function takes at the start of a walk.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "ME-HPT Table III"))]
    pub hash_latency: u64,
}

impl Default for ClusteredPageTableSpec {
    fn default() -> Self {
        ClusteredPageTableSpec { block_pages: 16, initial_buckets: 512, load_limit: 1.0, hash_latency: 2 }
    }
}

impl Settings for ClusteredPageTableSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        let mut check = |right: bool, key: &str, message: String| {
            if !right {
                wrong.push(Invalid::new(format!("{at}.{key}"), message));
            }
        };
        check(
            self.block_pages.is_power_of_two(),
            "block_pages",
            format!("is {}: it must be a power of two, so that a frame holds whole nodes", self.block_pages),
        );
        check(
            self.initial_buckets.is_power_of_two(),
            "initial_buckets",
            format!("is {}: it must be a power of two", self.initial_buckets),
        );
        wrong
    }
}

/// Bytes of a bucket, a tag, a link and an entry.
const WORD: u64 = 8;
/// The link of a node, behind its tag.
const NEXT: u64 = WORD;
/// The entries of a node, behind its tag and its link.
const ENTRIES: u64 = 2 * WORD;
/// Nodes begin at multiples of this, so that no tag is in another line than its link.
const NODE_ALIGN: u64 = 16;
/// The page sizes, each with a table of its own, in the order of the registers.
pub const SIZES: [PageSize; 3] = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];

/// A page block of 2 to the power of this many pages.
#[derive(Clone, Copy, Debug)]
struct Block(u32);

impl Block {
    /// A block of as many pages, a power of two.
    fn of_pages(pages: u64) -> Block {
        Block(pages.trailing_zeros())
    }

    fn pages(self) -> u64 {
        1 << self.0
    }

    /// The number of the block, of pages of `size`, that holds `va`: its node's tag.
    #[inline(always)]
    fn number(self, va: VirtAddr, size: PageSize) -> u64 {
        va.0 >> (size.shift() + self.0)
    }

    /// Where a node has the entry of the page of `size` that holds `va`.
    #[inline(always)]
    fn entry(self, node: PhysAddr, va: VirtAddr, size: PageSize) -> PhysAddr {
        let page = (va.0 >> size.shift()) & (self.pages() - 1);
        node.offset(ENTRIES + page * WORD)
    }

    /// Bytes of a node: 144 for sixteen pages.
    fn node_bytes(self) -> u64 {
        (ENTRIES + self.pages() * WORD).next_multiple_of(NODE_ALIGN)
    }

    /// Nodes of a frame: 28 of sixteen pages.
    fn nodes_per_frame(self) -> u64 {
        FRAME_BYTES / self.node_bytes()
    }
}

/// The buckets of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
struct Buckets {
    base: PhysAddr,
    /// One less than their number, which is a power of two; 0 where there is no table.
    mask: u64,
}

impl Buckets {
    fn exist(self) -> bool {
        self.mask != 0
    }

    fn len(self) -> u64 {
        self.mask + 1
    }

    fn bytes(self) -> u64 {
        self.len() * WORD
    }

    /// The bucket of a block.
    #[inline(always)]
    fn of(self, block: u64) -> PhysAddr {
        self.at(mix64(block) & self.mask)
    }

    /// The number of a bucket, and how many there are.
    fn number(self, bucket: PhysAddr) -> [u64; 2] {
        [bucket.0.wrapping_sub(self.base.0) / WORD, self.len()]
    }

    /// The bucket of that number.
    #[inline(always)]
    fn at(self, number: u64) -> PhysAddr {
        self.base.offset(number * WORD)
    }
}

/// The link to a node.
#[inline(always)]
fn link(node: PhysAddr) -> u64 {
    node.0 | 1
}

/// The node that a link leads to; `None` at the end of a chain.
#[inline(always)]
fn follow(link: u64) -> Option<PhysAddr> {
    (link & 1 != 0).then_some(PhysAddr(link & !1))
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "clustered-page-table",
        "a chained hash table whose nodes hold the entries of sixteen consecutive pages",
        "Talluri, Hill and Khalidi, A New Page Table for 64-bit Address Spaces, SOSP 1995",
    )
    .fills(Socket::PageTable, "hash chains of page blocks, a table for each page size that a process has")
    .claims(Claims { max_loads: 256, ..Claims::default() })
    .settings::<ClusteredPageTableSpec>()
    .build(|spec, _| {
        let (os, hardware) = (spec.clone(), spec.clone());
        let page_table = TableParts::new(
            move |_, _, context| Ok(Box::new(ClusteredPageTable::new(&os, context)?)),
            move |_| Box::new(ClusteredWalker::new(&hardware)),
        );
        Parts { page_table: Some(page_table), ..Parts::default() }
    })
}
