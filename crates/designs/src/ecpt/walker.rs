//! The hardware half.

use super::slot::{Cluster, Header, Headers, Slot};
use super::store::View;
use super::walk_tables::{PMD, PUD, section_of};
use super::{EcptSpec, SIZES, key_of};
use ambulator_base::watch::{self, Step, StepKind};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, State, VirtAddr};
use ambulator_hardware::{Replacement, SetArray};
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_structures::elastic::{HashKind, hashes};

ambulator_base::counters! {
    /// Counters of a walker of elastic cuckoo page tables.
    pub(crate) struct CuckooWalkerCounters {
        /// Walks that probed all ways of the tables of all page sizes: both cuckoo walk caches missed.
        complete_walks: Events,
        /// Walks that probed all ways of the tables of some page sizes.
        partial_walks: Events,
        /// Walks that probed all ways of one table: the page's size was known.
        size_walks: Events,
        /// Walks that probed one way of one table: size and way were known.
        direct_walks: Events,
        /// Walks without any probe: the walk caches indicated that nothing is mapped.
        empty_walks: Events,
        /// Slots of page tables loaded.
        probes: Events,
        /// Slots of cuckoo walk tables loaded to refill the walk caches.
        cwt_loads: Events,
        /// Look-ups of the PMD walk cache that hit.
        pmd_cwc_hits: Events,
        /// Look-ups of the PMD walk cache that missed.
        pmd_cwc_misses: Events,
        /// Look-ups of the PUD walk cache that hit.
        pud_cwc_hits: Events,
        /// Look-ups of the PUD walk cache that missed.
        pud_cwc_misses: Events,
        /// Flushes of the walk caches, because walk tables changed or at a context switch.
        cwc_flushes: Events,
        /// Accessed and dirty bits written into entries.
        bit_updates: Events,
    }
}

/// A cuckoo walk cache: slots of a walk table, fully associative.
#[derive(State)]
struct WalkCache {
    /// `None` for a cache without entries.
    #[state(each)]
    array: Option<SetArray<Cached>>,
}

/// A cached slot, and the cycle at which its load completes.
#[derive(Clone, Copy, Default, State)]
struct Cached {
    words: [u64; 4],
    ready: Cycle,
}

impl WalkCache {
    fn new(entries: u32) -> WalkCache {
        WalkCache { array: (entries > 0).then(|| SetArray::new(1, entries as usize, Replacement::Lru)) }
    }

    #[inline]
    fn get(&mut self, table: usize, va: VirtAddr, now: Cycle) -> Option<Header> {
        let (key, section) = section_of(table, va);
        let cached = self.array.as_mut()?.lookup(0, key)?;
        (cached.ready <= now).then(|| Headers::get(&cached.words, section))
    }
}

/// The cuckoo walk tables, by number.
const WALK_TABLES: [&str; 2] = ["PMD", "PUD"];

/// The slots that a walk probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Plan {
    /// By page size: whether its table is probed.
    tables: [bool; SIZES.len()],
    /// The only way to probe; `None` for all ways.
    way: Option<usize>,
}

impl Plan {
    const fn of(small: bool, large: bool, huge: bool) -> Plan {
        Plan { tables: [small, large, huge], way: None }
    }

    const fn direct(size: usize, way: usize) -> Plan {
        Plan { tables: [size == 0, size == 1, size == 2], way: Some(way) }
    }
}

/// The slots to probe, given the results of the walk caches.
fn plan(pmd: Option<Header>, pud: Option<Header>) -> Plan {
    // A 2 MiB section that is one page, or that has small pages, has no other pages.
    match pmd {
        Some(Header(Header::SMALL)) => return Plan::of(true, false, false),
        Some(header) if let Some(way) = header.way() => return Plan::direct(1, way),
        _ => {}
    }
    let section_is_empty = pmd == Some(Header::NONE);
    match pud {
        None => Plan::of(!section_is_empty, !section_is_empty, true),
        Some(header) => match header.way() {
            Some(way) => Plan::direct(2, way),
            None if section_is_empty => Plan::default(),
            None => Plan::of(header.0 & Header::SMALL != 0, header.0 & Header::LARGE != 0, false),
        },
    }
}

/// A walker.
#[derive(State)]
pub(crate) struct CuckooWalker {
    #[state(skip)]
    hash: HashKind,
    /// Cycles from the start of a walk until its probes issue.
    #[state(skip)]
    latency: u64,
    asid: Option<Asid>,
    generation: u64,
    tables: [View; SIZES.len()],
    walk_tables: [View; 2],
    caches: [WalkCache; 2],
    /// Its counters.
    pub(crate) counters: CuckooWalkerCounters,
}

impl CuckooWalker {
    /// A walker without a table. `l2p_latency` is the latency of the L2P table, 0 without one.
    ///
    /// Hashing comes first. Then the walk caches and the L2P table are read in parallel (ME-HPT Fig. 7), so
    /// the L2P table costs time only if it is slower.
    pub(crate) fn new(spec: &EcptSpec, l2p_latency: u64) -> CuckooWalker {
        CuckooWalker {
            hash: spec.hash,
            latency: spec.hash_latency + spec.cwc_latency.max(l2p_latency),
            asid: None,
            generation: 0,
            tables: Default::default(),
            walk_tables: Default::default(),
            caches: [WalkCache::new(spec.pmd_cwc_entries), WalkCache::new(spec.pud_cwc_entries)],
            counters: CuckooWalkerCounters::default(),
        }
    }

    fn flush(&mut self) {
        self.caches.iter_mut().filter_map(|cache| cache.array.as_mut()).for_each(SetArray::clear);
        self.counters.cwc_flushes += 1;
    }

    /// Loads the slot of `va` in a walk table into its cache. Returns the number of loads, and when the last
    /// completes.
    fn refill(&mut self, table: usize, va: VirtAddr, now: Cycle, port: &mut dyn MemoryPort) -> (u32, Cycle) {
        let view = &self.walk_tables[table];
        let Some(array) = self.caches[table].array.as_mut() else { return (0, now) };
        let (key, _) = section_of(table, va);
        let mut latest = now;
        let hashes = hashes(self.hash, key);
        for (way, hash) in hashes.into_iter().enumerate().take(view.ways) {
            let at = view.address(way, hash, Headers::BYTES);
            let line = port.load_line(at, now);
            latest = latest.max(line.ready);
            let first = (at.0 % 64 / 8) as usize;
            let words = [0, 1, 2, 3].map(|word| line.words[first + word]);
            watch::meaning(at, || {
                let probe = view.probe(way, hash);
                super::slot::headers_meaning(&words, first, key, WALK_TABLES[table], probe)
            });
            if Headers::key(&words) == Some(key) {
                watch::step(|| Step::fill(format!("{} walk cache (CWC)", WALK_TABLES[table]), line.ready));
                array.insert(0, key, Cached { words, ready: line.ready });
            }
        }
        self.counters.cwt_loads += view.ways as u64;
        (view.ways as u32, latest)
    }

    /// For a watch: what the walk caches said, and what the walk therefore probes.
    #[cold]
    fn tell_plan(&self, plan: Plan, found: [Option<Header>; 2], began: Cycle, now: Cycle) {
        const SOURCE: &str = "ME-HPT Sec. II-B; Skarlatos et al., ASPLOS 2020";
        for (table, header) in found.into_iter().enumerate() {
            watch::step(|| {
                let name = format!("{} walk cache (CWC)", WALK_TABLES[table]);
                let step = Step::look_up(name, header.is_some(), began, now).source(SOURCE);
                header.map_or(step.clone(), |header| step.clone().field("section", header.text()))
            });
        }
        watch::step(|| {
            let sizes: Vec<String> =
                SIZES.iter().zip(plan.tables).filter(|(_, probed)| *probed).map(|(size, _)| size.to_string()).collect();
            let ways = plan.way.map_or("all ways".to_owned(), |way| format!("way {way}"));
            let says = match sizes.as_slice() {
                [] => "nothing is probed: nothing is mapped".to_owned(),
                sizes => format!("probes {ways} of the table of {} pages", sizes.join(", of ")),
            };
            Step::compute("hashes of the page number", began, now).says(says).source(SOURCE)
        });
    }

    fn count(&mut self, plan: Plan) {
        let tables = plan.tables.iter().filter(|probed| **probed).count();
        let counter = match (tables, plan.way) {
            (0, _) => &mut self.counters.empty_walks,
            (1, Some(_)) => &mut self.counters.direct_walks,
            (1, None) => &mut self.counters.size_walks,
            (2, _) => &mut self.counters.partial_walks,
            _ => &mut self.counters.complete_walks,
        };
        *counter += 1;
    }
}

impl Walker for CuckooWalker {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        let mut words = registers.0.iter();
        let generation = words.next().copied().unwrap_or(0);
        self.tables.iter_mut().for_each(|view| view.load(&mut words));
        self.walk_tables.iter_mut().for_each(|view| view.load(&mut words));
        if self.asid != Some(asid) || self.generation != generation {
            self.flush();
        }
        (self.asid, self.generation) = (Some(asid), generation);
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let pmd = self.caches[PMD].get(PMD, va, now);
        let pud = self.caches[PUD].get(PUD, va, now);
        let count = |hit: bool, [hits, misses]: [&mut u64; 2]| *(if hit { hits } else { misses }) += 1;
        count(pmd.is_some(), [&mut self.counters.pmd_cwc_hits, &mut self.counters.pmd_cwc_misses]);
        count(pud.is_some(), [&mut self.counters.pud_cwc_hits, &mut self.counters.pud_cwc_misses]);
        let plan = plan(pmd, pud);
        self.count(plan);
        let began = now;
        let now = now.after(self.latency);
        if watch::watched() {
            self.tell_plan(plan, [pmd, pud], began, now);
        }
        let (mut accesses, mut latest) = (0, now);
        let mut found = None;
        for (size, view) in self.tables.iter().enumerate().filter(|(size, _)| plan.tables[*size]) {
            let key = key_of(va, SIZES[size]);
            let page = (va.0 >> SIZES[size].shift()) as usize % Cluster::PAGES as usize;
            let hashes = hashes(self.hash, key);
            let ways = plan.way.map_or(0..view.ways, |way| way..(way + 1).min(view.ways));
            for way in ways {
                let at = view.address(way, hashes[way], Cluster::BYTES);
                // All probes issue together.
                let line = port.load_line(at, now);
                accesses += 1;
                latest = latest.max(line.ready);
                watch::meaning(at, || {
                    let probe = view.probe(way, hashes[way]);
                    super::slot::cluster_meaning(&line.words, key, page, SIZES[size], probe)
                });
                if Cluster::is_of(&line.words, key)
                    && let Some(pte) = Cluster::entry(&line.words, page)
                {
                    found = Some((pte, size, at.offset(8 * page as u64), line.ready));
                }
            }
        }
        self.counters.probes += u64::from(accesses);
        // Refills issue after the probes. If the PUD header suffices, the PMD cache needs no refill.
        let large_pages = pud.is_none_or(|header| header.0 & Header::LARGE != 0 && header.way().is_none());
        let probes = accesses;
        for (table, needed) in [(PUD, pud.is_none()), (PMD, pmd.is_none() && large_pages)] {
            if needed {
                watch::open(|| {
                    let name = format!("{} walk table, to refill its cache", WALK_TABLES[table]);
                    Step { behind: probes > 0, ..Step::new(StepKind::Probe, name, now, now) }
                });
                let (loads, done) = self.refill(table, va, now, port);
                watch::close(|step| step.until = done.0);
                accesses += loads;
                // The walk waits for them only if it issued no probes.
                latest = if probes == 0 { latest.max(done) } else { latest };
            }
        }
        let Some((mut pte, size, at, ready)) = found else {
            return Walk { outcome: WalkOutcome::NotMapped, ready: latest, accesses };
        };
        let bits = pte.missing_bits(access == AccessKind::Store);
        if bits != 0 {
            self.counters.bit_updates += 1;
            port.update(at, bits, ready);
            pte.0 |= bits;
        }
        port.decide(&[(at, ready)]);
        Walk { outcome: WalkOutcome::Mapped(pte.translation(SIZES[size])), ready, accesses }
    }

    fn invalidate(&mut self, what: Invalidation) {
        // The walk caches hold no translations, and the generation of the walk tables keeps them consistent.
        // Only full invalidations flush them.
        if what == Invalidation::All || self.asid.is_some_and(|asid| what == Invalidation::Asid(asid)) {
            self.flush();
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
