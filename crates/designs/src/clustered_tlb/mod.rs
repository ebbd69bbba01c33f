//! The clustered TLB: an entry maps eight adjacent pages whose frames are in one cluster of eight, in any
//! order.
//!
//! Source: Pham et al., "Increasing TLB Reach by Exploiting Clustering in Page Translations", HPCA 2014;
//! compared with in RMM Sec. 8.1, with 512 fully associative entries.
//!
//! A page walk loads a cache line of eight page-table entries. Those that are present, accessed, and point
//! into the same aligned cluster of frames with the same rights share one entry of this TLB, which is probed
//! with the L2 TLB. The entry has the virtual cluster, the physical cluster, and for each page a valid bit
//! and the position of its frame in the cluster (3 bits).
//!
//! Choices.
//! - With page tables other than trees, whose lines do not hold adjacent pages, entries have one page.
//! - Pages not yet marked accessed are left out, so that accessed bits keep their meaning for the operating
//!   system. A store to a page whose entry is clean walks to set the dirty bit.
//! - The ordinary L2 TLB is filled as usual.

#[cfg(test)]
mod tests;

use ambulator_base::watch::{self, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PageSize, Pfn, State, VirtAddr};
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters, Translation};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use ambulator_structures::pte::Pte;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pages of a cluster: the entries of a cache line.
const CLUSTER: u64 = 8;

/// Settings of the clustered TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClusteredSpec {
    /// Entries, fully associative.
    #[schemars(range(min = 1, max = 65_536), extend("x-unit" = "entries", "x-source" = "RMM Sec. 8.1 (512)"))]
    pub(crate) entries: u32,
    /// Cycles of a look-up, in parallel with the L2 TLB.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "RMM Sec. 4.1 (about 7, as the L2 TLB)"))]
    pub(crate) latency: u64,
}

impl Default for ClusteredSpec {
    fn default() -> Self {
        ClusteredSpec { entries: 512, latency: 7 }
    }
}

impl Settings for ClusteredSpec {}

ambulator_base::counters! {
    /// Counters of a clustered TLB.
    pub(crate) struct ClusteredCounters {
        /// Look-ups.
        probes: Events,
        /// Look-ups that hit an entry.
        hits: Events,
        /// Entries inserted.
        fills: Events,
        /// Pages of inserted entries.
        pages: Events,
        /// Entries evicted for others.
        evictions: Events,
    }
}

#[derive(Clone, Copy, Default, State)]
struct Entry {
    asid: Asid,
    /// The first page of the virtual cluster, and the first frame of the physical one.
    first: u64,
    frame: u64,
    /// Valid bits and dirty bits of the pages.
    pages: u8,
    dirty: u8,
    /// The position of each page's frame in the physical cluster.
    places: [u8; CLUSTER as usize],
    writable: bool,
    executable: bool,
    ready: Cycle,
    used: u64,
}

/// A clustered TLB.
#[derive(State)]
pub(crate) struct ClusteredTlb {
    #[state(skip)]
    spec: ClusteredSpec,
    asid: Asid,
    entries: Vec<Entry>,
    /// The entry of each page.
    by_page: FxHashMap<(u16, u64), u32>,
    clock: u64,
    counters: ClusteredCounters,
}

impl ClusteredTlb {
    /// An empty clustered TLB.
    pub(crate) fn new(spec: &ClusteredSpec) -> ClusteredTlb {
        ClusteredTlb {
            spec: spec.clone(),
            asid: Asid(0),
            entries: Vec::new(),
            by_page: FxHashMap::default(),
            clock: 0,
            counters: ClusteredCounters::default(),
        }
    }

    fn pages(entry: &Entry) -> impl Iterator<Item = u64> + use<> {
        let (first, pages) = (entry.first, entry.pages);
        (0..CLUSTER).filter(move |i| pages >> i & 1 != 0).map(move |i| first + i)
    }

    /// Removes a page from its entry.
    fn drop_page(&mut self, asid: Asid, page: u64) {
        if let Some(at) = self.by_page.remove(&(asid.0, page)) {
            self.entries[at as usize].pages &= !(1 << (page % CLUSTER));
        }
    }

    /// Inserts an entry, and removes its pages from other entries.
    fn insert(&mut self, entry: Entry) {
        for page in Self::pages(&entry) {
            self.drop_page(entry.asid, page);
        }
        let at = if self.entries.len() < self.spec.entries as usize {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            // An entry without pages is free; otherwise the least recently used is evicted.
            let key = |entry: &Entry| if entry.pages == 0 { 0 } else { entry.used };
            let Some(at) = (0..self.entries.len()).min_by_key(|at| key(&self.entries[*at])) else { return };
            let old = self.entries[at];
            self.counters.evictions += u64::from(old.pages != 0);
            for page in Self::pages(&old) {
                self.by_page.remove(&(old.asid.0, page));
            }
            self.entries[at] = entry;
            at
        };
        for page in Self::pages(&entry) {
            self.by_page.insert((entry.asid.0, page), at as u32);
        }
        self.counters.fills += 1;
        self.counters.pages += u64::from(entry.pages.count_ones());
    }
}

impl Lookaside for ClusteredTlb {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn probe(&mut self, va: VirtAddr, _access: AccessKind, now: Cycle, _port: &mut dyn MemoryPort) -> LookasideAnswer {
        self.counters.probes += 1;
        let ready = now.after(self.spec.latency);
        let mut answer = LookasideAnswer { found: None, ready, holds_walk: false };
        let page = va.vpn().0;
        if let Some(&at) = self.by_page.get(&(self.asid.0, page))
            && self.entries[at as usize].ready <= ready
        {
            self.counters.hits += 1;
            self.clock += 1;
            let entry = &mut self.entries[at as usize];
            entry.used = self.clock;
            let place = (page % CLUSTER) as usize;
            answer.found = Some(Translation {
                frame: Pfn(entry.frame + u64::from(entry.places[place])),
                size: PageSize::SIZE_4K,
                writable: entry.writable,
                executable: entry.executable,
                dirty: entry.dirty >> place & 1 != 0,
                ranged: false,
            });
        }
        watch::step(|| {
            let step =
                Step::look_up("clustered TLB", answer.found.is_some(), now, ready).source("Pham et al., HPCA 2014");
            let step = step.address("virtual cluster", page / CLUSTER).field("page in the cluster", page % CLUSTER);
            answer.found.map_or(step.clone(), |found| found.fields_of(step))
        });
        answer
    }

    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort) {
        let FinishedWalk { found, entry, ready: now, .. } = *walk;
        if found.size != PageSize::SIZE_4K {
            return;
        }
        let (page, frame) = (va.vpn().0, found.frame.0 & !(CLUSTER - 1));
        self.clock += 1;
        let mut new = Entry {
            asid: self.asid,
            first: page & !(CLUSTER - 1),
            frame,
            pages: 1 << (page % CLUSTER),
            dirty: u8::from(found.dirty) << (page % CLUSTER),
            places: [0; CLUSTER as usize],
            writable: found.writable,
            executable: found.executable,
            ready: now,
            used: self.clock,
        };
        new.places[(page % CLUSTER) as usize] = (found.frame.0 - frame) as u8;
        if let Some(at) = entry {
            for (i, word) in port.peek_line(at).into_iter().enumerate() {
                let pte = Pte(word);
                let flags = pte.flags();
                let same = pte.present()
                    && flags.accessed
                    && (flags.writable, flags.executable) == (found.writable, found.executable)
                    && pte.frame().0 & !(CLUSTER - 1) == frame;
                if same {
                    new.pages |= 1 << i;
                    new.dirty |= u8::from(flags.dirty) << i;
                    new.places[i] = (pte.frame().0 - frame) as u8;
                }
            }
        }
        watch::step(|| {
            Step::fill("clustered TLB", now)
                .says(format!("gets an entry of {} of {CLUSTER} pages", new.pages.count_ones()))
                .address("first frame of the cluster", frame)
        });
        self.insert(new);
    }

    fn invalidate(&mut self, what: Invalidation) {
        match what {
            Invalidation::Page { asid, page } => {
                let pages = page.start.vpn().0..page.start.vpn().0 + page.size.frames();
                let cached: Vec<u64> = if page.size == PageSize::SIZE_4K {
                    vec![pages.start]
                } else {
                    let own = self.by_page.keys().filter(|(own, page)| *own == asid.0 && pages.contains(page));
                    own.map(|key| key.1).collect()
                };
                cached.into_iter().for_each(|page| self.drop_page(asid, page));
            }
            Invalidation::Asid(asid) => {
                self.by_page.retain(|(own, _), _| *own != asid.0);
                self.entries.iter_mut().filter(|entry| entry.asid == asid).for_each(|entry| entry.pages = 0);
            }
            Invalidation::All => {
                self.by_page.clear();
                self.entries.clear();
            }
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "clustered-tlb",
        "entries of eight adjacent pages whose frames are in one cluster, in any order",
        "Pham et al., Increasing TLB Reach by Exploiting Clustering, HPCA 2014",
    )
    .fills(Socket::Lookaside, "a TLB of clusters, probed with the L2 TLB")
    .formerly("design.lookaside.clustered.", "clustered_tlb.")
    .settings::<ClusteredSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts { lookaside: Some(Box::new(move |_| Box::new(ClusteredTlb::new(&spec)))), ..Parts::default() }
    })
}
