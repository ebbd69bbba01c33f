//! Settings of the modelled kernel.

use crate::{NumaSpec, Zeroing};
use ambulator_base::{Invalid, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The use of pages larger than 4 KiB for anonymous memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PageSizePolicy {
    /// Base pages only.
    #[default]
    Never,
    /// 2 MiB pages at the first fault in an aligned 2 MiB range that the VMA covers, if a block is free
    /// (Linux: `enabled=always`, `defrag=never`).
    Always,
    /// As `always`, but only in VMAs with `madvise(MADV_HUGEPAGE)`.
    Madvise,
    /// Base pages at faults; a background daemon promotes them.
    Khugepaged,
    /// The first touch reserves an aligned 2 MiB block and base pages fill it in place. It is promoted when
    /// enough of it is used.
    Reservation,
}

/// What a huge page costs beyond a fault with a base page and its zeroing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HugeAllocation {
    /// Nothing: the kernel takes a free block as it takes a base frame, or uses base pages if there is none
    /// (Linux: `defrag=never`).
    #[default]
    FreeBlock,
    /// The measured cost of that many contiguous bytes at the fragmentation of memory, as for page tables
    /// (`costs.allocate_1m` and its neighbours): the kernel compacts memory for each huge page.
    Compaction,
}

/// What the background copy of a migrated page takes. In either case nobody waits for the kernel's own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Copying {
    /// Its lines are read from main memory and written to it, and accesses to the page wait for the end.
    #[default]
    Memory,
    /// Nothing, a bound: the page has moved at once.
    Free,
}

/// Settings of the modelled kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KernelSpec {
    /// The use of pages larger than 4 KiB for anonymous memory.
    #[schemars(extend("x-unit" = "choice", "x-source" = "LVM Sec. 6.3 (4KB and THP)"))]
    pub page_size_policy: PageSizePolicy,
    /// 1 GiB pages for aligned gigabytes of anonymous VMAs, if the allocator has such blocks
    /// (`memory.buddy.max_order` of at least 19).
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: off, as in the papers"))]
    pub gigantic_pages: bool,
    /// Share of a reserved 2 MiB that must be in use before it is promoted.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Revelator Table 1 (30%)"))]
    pub promotion_threshold: f64,
    /// Share of huge pages for which the allocation may succeed, to model memory that is more fragmented than
    /// the allocator's. The address of a page determines whether it is one of them.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "Revelator Sec. 6.3 (0.7 to 0.8 under low, 0.1 to 0.2 under high fragmentation)"))]
    pub huge_share: f64,
    /// Number of huge pages that the kernel hands out in a run, the first that ask for one; 0 for no limit.
    #[schemars(range(max = 1 << 30), extend("x-unit" = "count", "x-source" = "our choice: no limit; Utopia Sec. 7 gives its baselines 512 pages of 2 MiB"))]
    pub huge_limit: u64,
    /// What a huge page costs beyond a fault with a base page and its zeroing.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Linux: `defrag=never` does not compact memory at a fault"))]
    pub huge_allocation: HugeAllocation,
    /// Where the zeroes of fresh pages go in the region of interest. Applies to a hypervisor too.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice: non-temporal stores, as FreeBSD's pagezero on amd64; Linux's `rep stos` leaves a part in the caches"))]
    pub zeroing: Zeroing,
    /// What the background copy of a migrated page takes in the region of interest.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice: Utopia Sec. 5.5 has a page copied while the program runs, and names no bandwidth"))]
    pub copying: Copying,
    /// Cycles between two rounds of the promotion daemon.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64), extend("x-unit" = "cycles", "x-source" = "our choice: 10 ms at 2 GHz, so that runs of milliseconds see it; Linux scans every 10 s"))]
    pub khugepaged_period: u64,
    /// Base pages that a round of the promotion daemon scans.
    #[schemars(range(min = 512, max = 1 << 30), extend("x-unit" = "count", "x-source" = "Linux: pages_to_scan 4096"))]
    pub khugepaged_pages: u64,
    /// Base pages that may be missing when the daemon promotes a 2 MiB page.
    #[schemars(range(max = 511), extend("x-unit" = "count", "x-source" = "Linux: max_ptes_none 511"))]
    pub khugepaged_max_none: u64,
    /// Swap space. Without swap (0), running out of memory is an outcome of the run.
    #[schemars(range(max = 16_u64 << 40), extend("x-unit" = "bytes", "x-source" = "our choice"))]
    pub swap_bytes: u64,
    /// Pages that one round of reclaim tries to free.
    #[schemars(range(min = 1, max = 1 << 20), extend("x-unit" = "count", "x-source" = "Linux: SWAP_CLUSTER_MAX 32"))]
    pub reclaim_pages: u64,
    /// Share of all frames below which a fault reclaims before it allocates a frame, while swap has room.
    /// Reclaim itself may need the rest for the tables of huge pages that it splits. Without swap there are
    /// no watermarks.
    #[schemars(range(min = 0.0, max = 0.5), extend("x-unit" = "ratio", "x-source" = "our choice: Linux keeps 0.03% at 128 GiB and 1.5% at 64 MiB"))]
    pub watermark_min: f64,
    /// Share of all frames below which background reclaim starts. Unlike a fault it does not wait for swap.
    #[schemars(range(min = 0.0, max = 0.5), extend("x-unit" = "ratio", "x-source" = "Linux: watermark_scale_factor, 0.1% above the one below"))]
    pub watermark_low: f64,
    /// Free share of all frames at which background reclaim stops.
    #[schemars(range(min = 0.0, max = 0.5), extend("x-unit" = "ratio", "x-source" = "Linux: watermark_scale_factor, 0.1% above the one below"))]
    pub watermark_high: f64,
    /// Bits of the identifiers by which a core tells address spaces apart. A core that has run more address
    /// spaces than it has identifiers takes back the one that it gave first, and its TLBs lose the entries of
    /// that address space. What several cores share tells all live address spaces apart.
    #[schemars(range(min = 1, max = 14), extend("x-unit" = "count", "x-source" = "x86-64 PCID: 12 bits"))]
    pub asid_bits: u32,
    /// Number of pages above which a TLB shootdown flushes the entire address space instead of single pages.
    #[schemars(range(max = 1 << 20), extend("x-unit" = "count", "x-source" = "Linux: tlb_single_page_flush_ceiling 33"))]
    pub flush_ceiling: u32,
    /// Memory nodes: policies, demotion, balancing.
    pub numa: NumaSpec,
}

impl Default for KernelSpec {
    fn default() -> Self {
        KernelSpec {
            page_size_policy: PageSizePolicy::Never,
            gigantic_pages: false,
            promotion_threshold: 0.3,
            huge_share: 1.0,
            huge_limit: 0,
            huge_allocation: HugeAllocation::FreeBlock,
            zeroing: Zeroing::Memory,
            copying: Copying::Memory,
            khugepaged_period: 20_000_000,
            khugepaged_pages: 4096,
            khugepaged_max_none: 511,
            swap_bytes: 0,
            reclaim_pages: 32,
            watermark_min: 0.001,
            watermark_low: 0.002,
            watermark_high: 0.003,
            asid_bits: 12,
            flush_ceiling: 33,
            numa: NumaSpec::default(),
        }
    }
}

impl KernelSpec {
    /// The invalid settings of a spec at key `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        if !wrong.is_empty() {
            return wrong;
        }
        if self.promotion_threshold == 0.0 {
            wrong.push(Invalid::new(
                format!("{at}.promotion_threshold"),
                "is 0; it is a share of a 2 MiB page: above 0, at most 1",
            ));
        }
        let marks = [self.watermark_min, self.watermark_low, self.watermark_high];
        if !marks.is_sorted() {
            let message = format!(
                "is {}, `{at}.watermark_low` {} and `{at}.watermark_high` {}; none may be \
                 below the one before",
                marks[0], marks[1], marks[2]
            );
            wrong.push(
                Invalid::new(format!("{at}.watermark_min"), message)
                    .and(format!("{at}.watermark_low"))
                    .and(format!("{at}.watermark_high")),
            );
        }
        wrong
    }
}
