//! Utopia: hybrid restrictive and flexible mapping.
//!
//! Source: Kanellopoulos et al., "Utopia: Fast and Efficient Address Translation via Hybrid Restrictive &
//! Flexible Virtual-to-Physical Address Mappings", MICRO 2023.
//!
//! - Sec. 5.2, 8.4, sets and tags of pages by four hash functions: `hash.rs`.
//! - Sec. 5.2, rows of tag arrays (TAR) and counters of set filters (SF) as bytes: `rows.rs`.
//! - Sec. 5.2, 5.6, which way a page takes and where it lies in memory: `ways.rs`.
//! - Sec. 5.1, 5.6, RestSegs, reserved at boot, and the global tag array: `segments.rs`.
//! - OS half: `TagArrays` in `table.rs`, arrays alongside any page table (Sec. 5.2, 5.3); `UtopiaPlacement`
//!   in `placement.rs` (Sec. 5.5, 5.6). The kernel moves pages in and out (`ambulator_os`, `migrate.rs`).
//! - Hardware half: `RestSegWalker` in `walker.rs` (Sec. 5.4, 5.7), with its caches, `line_cache.rs`; reuse
//!   of migrated pages: `reuse.rs` (Fig. 20).
//!
//! Choices.
//! - A counter of a set filter has one bit more than the paper's log2(ways), because it counts up to a full
//!   set.
//! - A page takes the first free way from a hash of its set on. The text has "a free way" (Sec. 5.6); the
//!   first of all would put the pages of sets that are not full into a sixteenth of the caches' sets and of
//!   the banks (`free_way`, `frame_order`).
//! - A fault whose set is full evicts, as the text says (Sec. 5.6); `fault_eviction = false` leaves the set
//!   as it is.
//! - RestSegs are reserved before memory is fragmented, as at boot.
//! - The replacement policy learns of uses from the accessed bits of the set's rows, which are read and
//!   cleared when a victim is chosen. Pages shared by processes are not evicted.
//! - A page whose frame is in a RestSeg but not in the page's set (after `mremap` or the split of a huge
//!   page) is mapped by the page table.
//! - Page-table entries count walks in bits 52 to 54 and loads from DRAM in bits 55 to 58. Only radix trees
//!   leave these bits free; with other page tables, pages enter RestSegs only at faults.
//! - The thresholds are the counters' maxima, 7 walks and 15 loads, so that pages migrate as rarely as the
//!   hardware can say. Sec. 8.4 reports fewer than 0.5 migrations per 1000 instructions; programs that use all of
//!   their memory alike have more whatever the thresholds, since counters never fall (`ambulator reproduce
//!   utopia/thresholds`).
//! - Pages of 2 MiB stay in the FlexSeg once they are there (`largest_migration`): their counters are full as
//!   soon as those of a small page, but accesses wait 512 times as long for the copy. Sec. 5.5 names no limit;
//!   Sec. 8.4 calls the cost of migrations negligible, which copies of 2 MiB are not at any rate near 0.5.
//! - The frame of an evicted page is available at once: in Sec. 5.5 evictions are off the critical path.
//!   Copies share main memory with the program (`ambulator_hardware`, `copies.rs`).
//! - A page whose counters have reached the thresholds is hinted for migration at each walk until it has
//!   moved.

mod hash;
mod line_cache;
mod placement;
mod reuse;
mod rows;
mod segments;
mod table;
#[cfg(test)]
mod tests;
mod walker;
mod ways;
#[cfg(test)]
mod ways_tests;

pub use hash::SetHash;
use placement::UtopiaPlacement;
use rows::{Filter, Row};
use segments::{Segments, Shape};
use table::TagArrays;
use walker::RestSegWalker;
pub use ways::{FrameOrder, FreeWay};

use ambulator_base::{Asid, Invalid, LINE_BYTES, PageSize, ProcessId, lock};
use ambulator_hardware::Replacement;
use ambulator_memory::BuddyAllocator;
use ambulator_os::{Companion, CompanionFactory, MapError, TableContext};
use ambulator_sockets::{Descriptor, Parts, Settings, Site, Socket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// A RestSeg. In specs it is a string of its size, its page size and its associativity, such as
/// `512MiB/4KiB/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RestSegSpec {
    /// Its size, bytes.
    pub bytes: u64,
    /// The size of its pages, bytes.
    pub page_bytes: u64,
    /// Its associativity.
    pub ways: u32,
}

impl Default for RestSegSpec {
    fn default() -> Self {
        RestSegSpec { bytes: 512 << 20, page_bytes: 4096, ways: 16 }
    }
}

/// Most bytes of a cache of filters or tags: all lines are compared at once.
const MOST_CACHE_BYTES: u64 = ambulator_hardware::MAX_WAYS as u64 * LINE_BYTES;
/// Most bytes of a RestSeg: all of the largest memory.
const MOST_SEGMENT_BYTES: u64 = 16 << 40;

/// Suffixes of sizes, and their powers of two.
const SUFFIXES: [(&str, u32); 4] = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("", 0)];

impl From<RestSegSpec> for String {
    fn from(segment: RestSegSpec) -> String {
        let size = |bytes: u64| {
            let fits = SUFFIXES.iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
            let (suffix, shift) = fits.unwrap_or(&SUFFIXES[3]);
            format!("{}{suffix}", bytes >> shift)
        };
        format!("{}/{}/{}", size(segment.bytes), size(segment.page_bytes), segment.ways)
    }
}

impl TryFrom<String> for RestSegSpec {
    type Error = String;

    fn try_from(text: String) -> Result<RestSegSpec, String> {
        let size = |text: &str| {
            let (suffix, shift) = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix))?;
            text.strip_suffix(suffix)?.parse::<u64>().ok()?.checked_mul(1 << shift)
        };
        let parts: Vec<&str> = text.split('/').map(str::trim).collect();
        let parsed = match parts[..] {
            [bytes, page, ways] => size(bytes).zip(size(page)).zip(ways.parse().ok()),
            _ => None,
        };
        let ((bytes, page_bytes), ways) = parsed
            .ok_or(format!("`{text}` is not a RestSeg: write size, page size and ways, such as 512MiB/4KiB/16"))?;
        Ok(RestSegSpec { bytes, page_bytes, ways })
    }
}

/// Settings of Utopia.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UtopiaSpec {
    /// The RestSegs, one to eight: size, page size and ways of each, such as `512MiB/4KiB/16`.
    #[schemars(with = "Vec<String>", extend("x-unit" = "size/page/ways", "x-source" = "Utopia Table 1"))]
    pub segments: Vec<RestSegSpec>,
    /// How page numbers are mapped to sets.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Utopia Sec. 5.2 (modulo)"))]
    pub hash: SetHash,
    /// Replacement policy within a set.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Utopia Table 1 (DRRIP)"))]
    pub replacement: Replacement,
    /// Which free way of its set a page takes.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice: scattered; Utopia Sec. 5.6 has any free way"))]
    pub free_way: FreeWay,
    /// Where the ways of a RestSeg lie in its memory.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Utopia Sec. 5.2 (set-major: base + set * ways + way)"))]
    pub frame_order: FrameOrder,
    /// Whether page faults allocate in RestSegs.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Utopia Sec. 5.5"))]
    pub fault_allocation: bool,
    /// Whether a page fault whose set is full evicts a page of the set to the FlexSeg. If not, the faulting
    /// page goes to the FlexSeg, and only migrations evict.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Utopia Sec. 5.6 (a full set evicts)"))]
    pub fault_eviction: bool,
    /// Whether pages with frequent and costly walks migrate into RestSegs.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Utopia Sec. 5.5"))]
    pub migration: bool,
    /// The largest pages that migrate. Accesses to a page wait while it is copied, 512 times as long for 2 MiB as
    /// for 4 KiB.
    #[schemars(range(min = 4096, max = 1u64 << 30), extend(
        "x-unit" = "bytes",
        "x-source" = "our choice: Sec. 5.5 names no limit, but copies of 2 MiB are not the negligible cost of Sec. 8.4"
    ))]
    pub largest_migration: u64,
    /// Walks after which a page migrates, if they were costly enough; 1 to 7.
    #[schemars(range(min = 1, max = 7), extend(
        "x-unit" = "count",
        "x-source" = "our choice: the counter's maximum; the paper has a register, no number"
    ))]
    pub frequency_threshold: u64,
    /// Loads from DRAM by a page's walks after which it migrates, if it is walked often enough; 0 to 15.
    #[schemars(range(max = 15), extend(
        "x-unit" = "count",
        "x-source" = "our choice: the counter's maximum; the paper has a register, no number"
    ))]
    pub cost_threshold: u64,
    /// Whether there is no FlexSeg: pages that do not fit into a RestSeg are swapped out.
    #[schemars(extend("x-unit" = "flag", "x-source" = "Utopia Fig. 6"))]
    pub restrictive_only: bool,
    /// Whether translations found in a RestSeg also fill the L2 TLB.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: it fills both levels, as any other"))]
    pub fill_l2: bool,
    /// The cache of set filters; 0 for no such cache.
    #[schemars(range(max = MOST_CACHE_BYTES), extend("x-unit" = "bytes", "x-source" = "Utopia Table 1"))]
    pub sf_cache_bytes: u64,
    /// The cache of tag arrays; 0 for no such cache.
    #[schemars(range(max = MOST_CACHE_BYTES), extend("x-unit" = "bytes", "x-source" = "Utopia Table 1"))]
    pub tar_cache_bytes: u64,
    /// Whether RestSeg walks load nothing and take no time: the bound of what their caches could give.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: off; a bound, not the paper's hardware"))]
    pub perfect_walks: bool,
    /// Cycles of a look-up in either cache.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "Utopia Table 1"))]
    pub cache_latency: u64,
}

impl Default for UtopiaSpec {
    fn default() -> Self {
        UtopiaSpec {
            segments: vec![RestSegSpec::default(), RestSegSpec { page_bytes: 2 << 20, ..RestSegSpec::default() }],
            hash: SetHash::Modulo,
            replacement: Replacement::Drrip,
            free_way: FreeWay::Scattered,
            frame_order: FrameOrder::SetMajor,
            fault_allocation: true,
            fault_eviction: true,
            migration: true,
            largest_migration: 4 << 10,
            frequency_threshold: 7,
            cost_threshold: 15,
            restrictive_only: false,
            fill_l2: true,
            sf_cache_bytes: 2048,
            tar_cache_bytes: 2048,
            perfect_walks: false,
            cache_latency: 2,
        }
    }
}

impl UtopiaSpec {
    /// The shapes of the RestSegs of a validated spec.
    pub(crate) fn shapes(&self, va_bits: u32) -> Vec<Shape> {
        let shape = |segment: &RestSegSpec| {
            let page = PageSize::from_shift(segment.page_bytes.trailing_zeros());
            let sets = segment.bytes / segment.page_bytes / u64::from(segment.ways);
            let tag_bits = self.hash.tag_bits(va_bits - page.shift(), sets);
            let row = Row { ways: segment.ways, tag_bits };
            Shape {
                page,
                sets,
                ways: segment.ways,
                hash: self.hash,
                order: self.frame_order,
                row,
                filter: Filter::new(segment.ways),
            }
        };
        self.segments.iter().map(shape).collect()
    }
}

impl Settings for UtopiaSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if self.segments.is_empty() || self.segments.len() > 8 {
            wrong.push(Invalid::new(
                format!("{at}.segments"),
                format!("has {} RestSegs; give 1 to 8", self.segments.len()),
            ));
        }
        for (number, segment) in self.segments.iter().enumerate() {
            let number = number + 1;
            let wrong_in =
                |message: String| Invalid::new(format!("{at}.segments"), format!(", number {number}: {message}"));
            let RestSegSpec { bytes, page_bytes, ways } = *segment;
            if !page_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&page_bytes) {
                wrong.push(wrong_in(format!(
                    "`page_bytes` is {page_bytes}; it must be a power of two from 4 KiB to 1 GiB"
                )));
                continue;
            }
            if !(1..=64).contains(&ways) {
                wrong.push(wrong_in(format!("`ways` is {ways}; it must be 1 to 64")));
                continue;
            }
            if bytes > MOST_SEGMENT_BYTES {
                wrong.push(wrong_in(format!("`bytes` is {bytes}; it must be at most {MOST_SEGMENT_BYTES}")));
                continue;
            }
            let set_bytes = page_bytes * u64::from(ways);
            let sets = bytes / set_bytes;
            if sets == 0 || !sets.is_power_of_two() || sets * set_bytes != bytes {
                let below = 1 << (sets.max(1)).ilog2();
                wrong.push(wrong_in(format!(
                    "`bytes` is {bytes}: sets of {ways} pages of {page_bytes} bytes must be a power of two in \
                     number; {} or {} bytes would be",
                    below * set_bytes,
                    2 * below * set_bytes
                )));
                continue;
            }
        }
        for (key, bytes) in [("sf_cache_bytes", self.sf_cache_bytes), ("tar_cache_bytes", self.tar_cache_bytes)] {
            if !bytes.is_multiple_of(LINE_BYTES) {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is {bytes}; it must be a multiple of lines of 64 bytes"),
                ));
            }
        }
        if self.restrictive_only && !self.fault_allocation {
            wrong.push(
                Invalid::new(
                    format!("{at}.restrictive_only"),
                    format!("needs `{at}.fault_allocation`: there is no other place for pages"),
                )
                .and(format!("{at}.fault_allocation")),
            );
        }
        if self.restrictive_only && !self.fault_eviction {
            wrong.push(
                Invalid::new(
                    format!("{at}.restrictive_only"),
                    format!("needs `{at}.fault_eviction`: there is no FlexSeg for the pages of full sets"),
                )
                .and(format!("{at}.fault_eviction")),
            );
        }
        wrong
    }

    /// The constraint of Sec. 5.2: one memory access fetches all tags of a set.
    fn validate_on(&self, at: &str, site: &Site) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        for (number, segment) in self.segments.iter().enumerate() {
            let RestSegSpec { bytes, page_bytes, ways } = *segment;
            let sets = bytes / (page_bytes * u64::from(ways));
            let page_bits = site.va_bits - page_bytes.trailing_zeros();
            let row = |ways: u32, sets: u64| Row { ways, tag_bits: self.hash.tag_bits(page_bits, sets) };
            if row(ways, sets).bits() > rows::LINE_BITS {
                let fits = (1..ways).rev().find(|fewer| {
                    let sets = bytes / (page_bytes * u64::from(*fewer));
                    sets.is_power_of_two() && row(*fewer, sets).bits() <= rows::LINE_BITS
                });
                wrong.push(Invalid::new(
                    format!("{at}.segments"),
                    format!(
                        ", number {}: `ways` is {ways}: tags of {} bits with 8 of metadata for {ways} ways \
                     take {} bits, and a line has {}; {} ways would fit",
                        number + 1,
                        row(ways, sets).tag_bits,
                        row(ways, sets).bits(),
                        rows::LINE_BITS,
                        fits.map_or("fewer".to_owned(), |ways| ways.to_string())
                    ),
                ));
            }
        }
        wrong
    }
}

/// Creates the tag arrays and set filters of processes.
struct TagArraysFactory {
    segments: Arc<Mutex<Segments>>,
}

impl TagArraysFactory {
    /// A factory for these RestSegs.
    fn new(segments: Arc<Mutex<Segments>>) -> TagArraysFactory {
        TagArraysFactory { segments }
    }
}

impl CompanionFactory for TagArraysFactory {
    /// Machines reserve at boot. A kernel without a machine reserves with its first process.
    fn reserve(&mut self, frames: &mut BuddyAllocator) -> bool {
        lock(&self.segments).reserve(frames)
    }

    fn new_companion(
        &mut self,
        process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError> {
        match TagArrays::new(Arc::clone(&self.segments), process, os) {
            Ok(arrays) => Ok(Box::new(arrays)),
            Err(bytes) => Err(MapError::NoMemory { bytes }),
        }
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "utopia",
        "segments of set-associative pages, found by tags and filtered by counters; pages migrate in and out",
        "Kanellopoulos et al., Utopia, MICRO 2023",
    )
    .fills(Socket::Lookaside, "the RestSeg walker, for whose result a page walk waits")
    .formerly_called("rest-segs")
    .fills(Socket::Placement, "into a RestSeg if the page's set has room or evicts a page, else wherever there is room")
    .formerly_called("rest-segs")
    .together()
    .native_only("its RestSegs would hold guest-physical addresses, which nothing would translate further")
    .formerly("design.lookaside.utopia.va_bits", "mmu.va_bits")
    .formerly("design.lookaside.utopia.ranges", "design.second_lookaside")
    .formerly("design.lookaside.utopia.", "utopia.")
    .settings::<UtopiaSpec>()
    .build(|spec, site| {
        let segments = Arc::new(Mutex::new(Segments::new(spec, site.va_bits)));
        let (reserved, shared, uses) = (Arc::clone(&segments), Arc::clone(&segments), lock(&segments).uses());
        let (hardware, va_bits) = (spec.clone(), site.va_bits);
        Parts {
            boot: Some(Box::new(move |frames| lock(&reserved).reserve(frames))),
            companion: Some(Box::new(TagArraysFactory::new(shared))),
            lookaside: Some(Box::new(move |_| Box::new(RestSegWalker::new(&hardware, va_bits, uses.clone())))),
            placement: Some(Box::new(UtopiaPlacement::new(spec, segments))),
            ..Parts::default()
        }
    })
}
