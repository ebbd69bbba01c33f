//! Agile TLB prefetching (ATP) with sampling-based free TLB prefetching (SBFP).
//!
//! Source: Vavouliotis, Alvarez, Karakostas, Nikas, Koziris, Jiménez and Casas, "Exploiting Page Table
//! Locality for Agile TLB Prefetching", ISCA 2021.
//!
//! | in the paper | here |
//! |---|---|
//! | the three prefetchers H2P, MASP and STP, one of which is chosen at each miss, or none | `select.rs` |
//! | fake prefetch queues, and the counters of the choice | `select.rs` |
//! | free distances, their table (FDT), the sampler | `free.rs` |
//!
//! A line of a page table holds the entries of eight pages. A walk that loads one entry has seven more *for
//! free*. SBFP counts for each *free distance* (-7 to 7) how often the page at that distance was needed
//! later, and puts those into the prefetch queue whose distance has proved useful; the others it watches in a
//! sampler.
//!
//! ATP asks, at each L2 TLB miss, which of its three prefetchers would have had the page: each has a fake
//! queue of the pages that it would have prefetched. Three saturating counters add the answers up. Their
//! highest bits decide whether to prefetch, and by whom.
//!
//! Choices.
//! - All counters begin at 0: nothing is prefetched until fake queues have been right.
//! - A look-up does not remove a page from a fake queue; a page that is in it is not put in again.
//! - A counter of the FDT that reaches its maximum halves all of them.
//! - Entries that are not marked accessed are not taken for free: x86-64 does not cache their translation
//!   (Intel SDM volume 3, Sec. 4.10.2.1), and the operating system would lose what the bit tells.
//! - Only pages of 4 KiB come for free. Tables whose lines do not hold the entries of adjacent pages give
//!   nothing for free, nor does nested paging: there two tables translate.
//! - When the address space changes, all but the counters is forgotten.

mod free;
mod select;
#[cfg(test)]
mod tests;

use ambulator_base::{CounterSink, Counters, Invalid, State};
use ambulator_mmu::{FinishedWalk, FreeTranslations, MemoryPort, Proposals, TlbMiss, TlbPrefetcher, TlbSpec};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use free::FreeDistances;
use schemars::JsonSchema;
use select::{Choice, Selection};
use serde::{Deserialize, Serialize};

/// Which translations of a walk's line go into the prefetch queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Free {
    /// Those at distances that have proved useful.
    Sampled,
    /// All.
    All,
    /// None.
    None,
}

/// Settings of agile TLB prefetching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgileSpec {
    /// Which translations of a walk's line go into the prefetch queue.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Vavouliotis et al., ISCA 2021: SBFP is \"sampled\""))]
    pub(crate) free: Free,
    /// Uses of a free distance above which its translations go into the prefetch queue.
    #[schemars(range(max = 1023), extend("x-unit" = "count", "x-source" = "Vavouliotis et al., ISCA 2021 (100, of 10-bit counters)"))]
    pub(crate) free_threshold: u32,
    /// Pages that the sampler watches.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "entries", "x-source" = "Vavouliotis et al., ISCA 2021 (64)"))]
    pub(crate) sampler_entries: u32,
    /// Pages of each fake prefetch queue.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "entries", "x-source" = "Vavouliotis et al., ISCA 2021 (16)"))]
    pub(crate) fake_entries: u32,
    /// Rows of the table of strides, one for each instruction.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "Vavouliotis et al., ISCA 2021 (64)"))]
    pub(crate) entries: u32,
    /// Associativity of that table; 0 is fully associative.
    #[schemars(range(max = 256), extend("x-unit" = "ways", "x-source" = "Vavouliotis et al., ISCA 2021 (4)"))]
    pub(crate) ways: u32,
}

impl Default for AgileSpec {
    fn default() -> Self {
        AgileSpec {
            free: Free::Sampled,
            free_threshold: 100,
            sampler_entries: 64,
            fake_entries: 16,
            entries: 64,
            ways: 4,
        }
    }
}

impl Settings for AgileSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        TlbSpec::new(self.entries, self.ways).validate(at)
    }
}

ambulator_base::counters! {
    /// Counters of agile TLB prefetching.
    pub(crate) struct AgileCounters {
        /// Misses at which the prefetcher of the latest two distances (H2P) was chosen.
        chose_distances: Events timed,
        /// Misses at which the prefetcher of strides (MASP) was chosen.
        chose_strides: Events timed,
        /// Misses at which the prefetcher of neighbours (STP) was chosen.
        chose_neighbours: Events timed,
        /// Misses at which none was chosen.
        chose_none: Events timed,
        /// Misses that the fake queue of the latest two distances had.
        fake_hits_distances: Events timed,
        /// Misses that the fake queue of strides had.
        fake_hits_strides: Events timed,
        /// Misses that the fake queue of neighbours had.
        fake_hits_neighbours: Events timed,
        /// Pages that were needed while the sampler watched them.
        sampler_hits: Events timed,
        /// Halvings of the counters of free distances.
        halvings: Events timed,
    }
}

/// Chooses one of three prefetchers at each miss, and takes free translations.
#[derive(State)]
pub(crate) struct Agile {
    selection: Selection,
    free: FreeDistances,
    counters: AgileCounters,
}

impl Agile {
    pub(crate) fn new(spec: &AgileSpec) -> Agile {
        Agile {
            selection: Selection::new(spec),
            free: FreeDistances::new(spec.free, spec.free_threshold, spec.sampler_entries),
            counters: AgileCounters::default(),
        }
    }
}

impl TlbPrefetcher for Agile {
    fn switch(&mut self) {
        self.selection.forget();
        self.free.forget();
    }

    fn miss(&mut self, miss: &TlbMiss, proposals: &mut Proposals) {
        let learnt = self.free.learn(miss);
        self.counters.sampler_hits += u64::from(learnt.sampled);
        self.counters.halvings += u64::from(learnt.halved);
        let had = self.selection.judge(miss.page);
        self.counters.fake_hits_distances += u64::from(had[0]);
        self.counters.fake_hits_strides += u64::from(had[1]);
        self.counters.fake_hits_neighbours += u64::from(had[2]);
        let choice = self.selection.choice();
        *(match choice {
            Choice::Distances => &mut self.counters.chose_distances,
            Choice::Strides => &mut self.counters.chose_strides,
            Choice::Neighbours => &mut self.counters.chose_neighbours,
            Choice::None => &mut self.counters.chose_none,
        }) += 1;
        self.selection.propose(miss, choice, &self.free, proposals);
    }

    fn walked(&mut self, page: u64, walk: &FinishedWalk, port: &mut dyn MemoryPort, free: &mut FreeTranslations) {
        self.free.take(page, walk, port, free);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.agile"), sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "tlb-agile",
        "chooses among three TLB prefetchers, and takes useful translations from the lines of walks for free",
        "Vavouliotis et al., Exploiting Page Table Locality for Agile TLB Prefetching, ISCA 2021 (ATP, SBFP)",
    )
    .fills(Socket::TlbPrefetch, "one of three prefetchers at each miss, and free translations")
    .settings::<AgileSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts { tlb_prefetcher: Some(Box::new(move |_| Box::new(Agile::new(&spec)))), ..Parts::default() }
    })
}
