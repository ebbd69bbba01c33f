//! POM-TLB: a very large TLB in main memory, probed after an L2 TLB miss and before the page walk.
//!
//! Source: Ryoo et al., "Rethinking TLB Designs in Virtualized Environments: A Very Large Part-of-Memory
//! TLB", ISCA 2017; compared with in Utopia Sec. 8.2 with 64K entries in sets of 8.
//!
//! An entry has 16 bytes: the page-table entry, and a tag of page number, page size and address space. A
//! cache line has four; the lines of a set are loaded in parallel, through the caches like all other data.
//! The machine has one such structure, in memory reserved at boot. Every core's MMU reads and writes it.
//!
//! Choices.
//! - The lowest bits of the page number select the set. 4 KiB and 2 MiB pages are looked up in parallel once
//!   both sizes are in use; the paper predicts the size.
//! - The state of the replacement policy is separate from the structure, as in the paper.
//! - TLB shootdowns clear entries; the writes happen at the next look-up.

#[cfg(test)]
mod tests;

use ambulator_base::watch::{self, Meaning, Shape, Step};
use ambulator_base::{
    AccessKind, Asid, CounterSink, Counters, Cycle, FRAME_BYTES, Invalid, LINE_BYTES, PageSize, PhysAddr, State,
    VirtAddr, lock,
};
use ambulator_hardware::{Replacement, ReplacementState};
use ambulator_memory::BuddyAllocator;
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters};
use ambulator_os::PteFlags;
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use ambulator_structures::pte::Pte;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Bytes of an entry.
const ENTRY_BYTES: u64 = 16;
/// Entries of a line.
const LINE_ENTRIES: u64 = LINE_BYTES / ENTRY_BYTES;
/// Supported page sizes.
const SIZES: [PageSize; 2] = [PageSize::SIZE_4K, PageSize::SIZE_2M];
/// The tag's bits.
const VALID: u64 = 1 << 63;
const LARGE: u64 = 1 << 62;
/// Where the tag has its address space, above at most 45 bits of page number.
const TAG_ASID_AT: u32 = 45;

/// Settings of the part-of-memory TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PomSpec {
    /// Entries.
    #[schemars(range(min = 4, max = 1 << 26), extend("x-unit" = "entries", "x-source" = "Utopia Table 1 (64K)"))]
    pub(crate) entries: u64,
    /// Its associativity.
    #[schemars(range(min = 4, max = 16), extend("x-unit" = "ways", "x-source" = "Utopia Table 1 (8)"))]
    pub(crate) ways: u32,
    /// Replacement policy within a set.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Utopia Table 1 (DRRIP)"))]
    pub(crate) replacement: Replacement,
}

impl Default for PomSpec {
    fn default() -> Self {
        PomSpec { entries: 65536, ways: 8, replacement: Replacement::Drrip }
    }
}

impl PomSpec {
    fn sets(&self) -> u64 {
        self.entries / u64::from(self.ways)
    }
}

impl Settings for PomSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if ![4, 8, 16].contains(&self.ways) {
            wrong.push(Invalid::new(
                format!("{at}.ways"),
                format!("is {}; a set has whole lines of 4 entries: 4, 8 or 16 ways", self.ways),
            ));
        } else if !self.sets().is_power_of_two() || self.sets() * u64::from(self.ways) != self.entries {
            wrong.push(
                Invalid::new(
                    format!("{at}.entries"),
                    format!("is {}: the number of sets of {} must be a power of two", self.entries, self.ways),
                )
                .and(format!("{at}.ways")),
            );
        }
        wrong
    }
}

/// The state that all cores share: the address, and the replacement policy's state.
#[derive(State)]
pub(crate) struct PomTlb {
    #[state(skip)]
    spec: PomSpec,
    base: Option<PhysAddr>,
    replacement: ReplacementState,
    /// 2 MiB pages are in use.
    large_pages: bool,
    /// Invalidations whose entries are not cleared yet.
    stale: Vec<Invalidation>,
}

impl PomTlb {
    /// A structure without memory; [`PomTlb::reserve`] allocates it.
    pub(crate) fn new(spec: &PomSpec) -> PomTlb {
        PomTlb {
            replacement: ReplacementState::new(spec.replacement, spec.sets() as usize, spec.ways as usize, 1),
            spec: spec.clone(),
            base: None,
            large_pages: false,
            stale: Vec::new(),
        }
    }

    /// Reserves its memory at boot. False if there is not enough.
    pub(crate) fn reserve(&mut self, frames: &mut BuddyAllocator) -> bool {
        let bytes = self.spec.entries * ENTRY_BYTES;
        self.base =
            self.base.or_else(|| frames.allocate_run(bytes.div_ceil(FRAME_BYTES), 0).map(|frame| frame.start()));
        self.base.is_some()
    }

    fn set(&self, va: VirtAddr, size: PageSize) -> u64 {
        (va.0 >> size.shift()) & (self.spec.sets() - 1)
    }

    fn tag(asid: Asid, va: VirtAddr, size: PageSize) -> u64 {
        let large = if size == PageSize::SIZE_2M { LARGE } else { 0 };
        VALID | large | u64::from(asid.0 & Asid::MAX.0) << TAG_ASID_AT | va.0 >> size.shift()
    }
}

ambulator_base::counters! {
    /// Counters of a core's look-ups in a part-of-memory TLB.
    pub(crate) struct PomCounters {
        /// Look-ups.
        probes: Events,
        /// Look-ups that found their page.
        hits: Events,
        /// Lines loaded by look-ups.
        loads: Events,
        /// Cycles of look-ups.
        probe_cycles: Cycles timed,
        /// Entries written after a walk.
        fills: Events,
        /// Entries cleared after a shootdown.
        cleared: Events,
    }
}

/// The look-ups of a core.
#[derive(State)]
pub(crate) struct PomLookaside {
    shared: Arc<Mutex<PomTlb>>,
    asid: Asid,
    counters: PomCounters,
}

impl PomLookaside {
    /// The look-ups of a core in a shared structure.
    pub(crate) fn new(shared: Arc<Mutex<PomTlb>>) -> PomLookaside {
        PomLookaside { shared, asid: Asid(0), counters: PomCounters::default() }
    }

    /// Loads the lines of a set in parallel. Returns them, and when the last arrives.
    fn lines(
        counters: &mut PomCounters,
        pom: &PomTlb,
        base: PhysAddr,
        set: u64,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Vec<[u64; 8]>, Cycle) {
        let first = base.offset(set * u64::from(pom.spec.ways) * ENTRY_BYTES);
        let mut ready = now;
        let mut lines = Vec::with_capacity(4);
        for line in 0..u64::from(pom.spec.ways) / LINE_ENTRIES {
            let loaded = port.load_line(first.offset(line * LINE_BYTES), now);
            counters.loads += 1;
            ready = ready.max(loaded.ready);
            lines.push(loaded.words);
        }
        (lines, ready)
    }

    fn find(lines: &[[u64; 8]], tag: u64) -> Option<(u32, Pte)> {
        let entries = lines.iter().flat_map(|words| words.chunks_exact(2));
        entries.zip(0..).find(|(entry, _)| entry[0] == tag).map(|(entry, way)| (way, Pte(entry[1])))
    }

    /// Clears the entries of pending invalidations.
    fn clear_stale(&mut self, pom: &mut PomTlb, base: PhysAddr, now: Cycle, port: &mut dyn MemoryPort) {
        for what in std::mem::take(&mut pom.stale) {
            let Invalidation::Page { asid, page } = what else {
                // A whole address space, or all: the operating system scans the structure.
                for entry in 0..pom.spec.entries {
                    let at = base.offset(entry * ENTRY_BYTES);
                    let tag = port.peek_line(at)[at.0 as usize % 64 / 8];
                    let matches = match what {
                        Invalidation::Asid(asid) => tag >> TAG_ASID_AT & u64::from(Asid::MAX.0) == u64::from(asid.0),
                        _ => true,
                    };
                    if tag & VALID != 0 && matches {
                        self.counters.cleared += 1;
                        port.replace(at, !0, 0, now);
                    }
                }
                continue;
            };
            for size in SIZES {
                let mut va = page.start.align_down(size);
                while va < page.end() {
                    let (set, tag) = (pom.set(va, size), PomTlb::tag(asid, va, size));
                    for way in 0..u64::from(pom.spec.ways) {
                        let at = base.offset((set * u64::from(pom.spec.ways) + way) * ENTRY_BYTES);
                        if port.peek_line(at)[at.0 as usize % 64 / 8] == tag {
                            self.counters.cleared += 1;
                            port.replace(at, !0, 0, now);
                        }
                    }
                    va = va.offset(size.bytes());
                }
            }
        }
    }
}

impl Lookaside for PomLookaside {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn after_l2(&self) -> bool {
        true
    }

    fn fills_l2(&self) -> bool {
        true
    }

    fn probe(&mut self, va: VirtAddr, _access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> LookasideAnswer {
        self.counters.probes += 1;
        let mut answer = LookasideAnswer { found: None, ready: now, holds_walk: true };
        let shared = Arc::clone(&self.shared);
        let mut pom = lock(&shared);
        let Some(base) = pom.base else { return answer };
        self.clear_stale(&mut pom, base, now, port);
        for size in SIZES {
            if size == PageSize::SIZE_2M && !pom.large_pages {
                continue;
            }
            let set = pom.set(va, size);
            let (lines, ready) = Self::lines(&mut self.counters, &pom, base, set, now, port);
            answer.ready = answer.ready.max(ready);
            let tag = PomTlb::tag(self.asid, va, size);
            for (line, words) in lines.iter().enumerate() {
                let first = base.offset(set * u64::from(pom.spec.ways) * ENTRY_BYTES);
                watch::meaning(first.offset(line as u64 * LINE_BYTES), || {
                    entries_meaning(words, line, tag, size, [set, pom.spec.sets(), u64::from(pom.spec.ways)])
                });
            }
            if let Some((way, pte)) = Self::find(&lines, PomTlb::tag(self.asid, va, size)) {
                pom.replacement.touch(set as usize, way as usize);
                self.counters.hits += 1;
                answer = LookasideAnswer { found: Some(pte.translation(size)), ready, holds_walk: true };
                break;
            }
        }
        self.counters.probe_cycles += answer.ready.since(now);
        watch::step(|| {
            let says = if answer.found.is_some() { "hit" } else { "miss: no tag is equal" };
            let step = Step::look_up("POM-TLB", answer.found.is_some(), answer.ready, answer.ready).says(says);
            step.source("Ryoo et al., ISCA 2017")
        });
        answer
    }

    fn refill(&mut self, va: VirtAddr, walk: &FinishedWalk, port: &mut dyn MemoryPort) {
        let FinishedWalk { found, ready, .. } = *walk;
        if !SIZES.contains(&found.size) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut pom = lock(&shared);
        let Some(base) = pom.base else { return };
        // Clear invalidated entries before inserting new ones.
        self.clear_stale(&mut pom, base, ready, port);
        pom.large_pages |= found.size == PageSize::SIZE_2M;
        let set = pom.set(va, found.size);
        let first = base.offset(set * u64::from(pom.spec.ways) * ENTRY_BYTES);
        let tag = PomTlb::tag(self.asid, va, found.size);
        let tags: Vec<u64> = (0..u64::from(pom.spec.ways))
            .map(|way| {
                let at = first.offset(way * ENTRY_BYTES);
                port.peek_line(at)[at.0 as usize % 64 / 8]
            })
            .collect();
        let place = tags.iter().position(|own| *own == tag).or_else(|| tags.iter().position(|own| own & VALID == 0));
        let way = place.unwrap_or_else(|| pom.replacement.victim(set as usize));
        pom.replacement.fill(set as usize, way);
        let flags = PteFlags {
            writable: found.writable,
            executable: found.executable,
            user: true,
            accessed: true,
            dirty: found.dirty,
            ranged: false,
        };
        let at = first.offset(way as u64 * ENTRY_BYTES);
        watch::step(|| Step::fill("POM-TLB", ready).says(format!("way {way} of set {set} gets the entry")));
        port.replace(at, !0, tag, ready);
        port.replace(at.offset(8), !0, Pte::leaf(found.frame, flags, found.size > PageSize::SIZE_4K).0, ready);
        self.counters.fills += 1;
    }

    fn invalidate(&mut self, what: Invalidation) {
        let mut pom = lock(&self.shared);
        // Every core gets the invalidation; one clearing is enough.
        if pom.stale.last() != Some(&what) {
            pom.stale.push(what);
        }
    }

    fn recycle(&mut self, _asid: Asid) {
        // Tags tell all address spaces of the machine apart, whatever identifiers its cores give them.
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}

/// What a line of a set is to the look-up of a tag; `place` is the set, the number of sets, and their ways.
fn entries_meaning(words: &[u64; 8], line: usize, wanted: u64, size: PageSize, place: [u64; 3]) -> Meaning {
    let name = format!("line {line} of a set of the POM-TLB, for {size} pages");
    let mut meaning =
        Meaning::new(name, "Ryoo et al., ISCA 2017; the tag's bits are our choice").address("tag wanted", wanted);
    for (entry, words) in words.chunks_exact(2).enumerate() {
        let way = line * LINE_ENTRIES as usize + entry;
        let (tag, pte) = (words[0], Pte(words[1]));
        let asid = tag >> TAG_ASID_AT & u64::from(Asid::MAX.0);
        let page = tag & ((1 << TAG_ASID_AT) - 1);
        let text = match (tag & VALID != 0, tag == wanted) {
            (false, _) => "not valid".to_owned(),
            (true, true) => format!("page {page:#x} of address space {asid}, the one: frame {:#x}", pte.frame().0),
            (true, false) => format!("page {page:#x} of address space {asid}"),
        };
        meaning = meaning.field(format!("way {way}"), text);
    }
    let found = PomLookaside::find(std::slice::from_ref(words), wanted).map(|(way, _)| way as usize);
    let ([set, sets, ways], first) = (place, line * LINE_ENTRIES as usize);
    let used = words.chunks_exact(2).map(|words| words[0] & VALID != 0).collect();
    let way = found.map(|way| (first + way) as u64);
    meaning = meaning
        .shape(Shape::Ways { set, sets, ways, first: first as u64, used, way })
        .touches(found.into_iter().flat_map(|way| [2 * way, 2 * way + 1]));
    match PomLookaside::find(std::slice::from_ref(words), wanted) {
        Some((_, pte)) => meaning.fields(pte.fields()),
        None => meaning.field("found", false),
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "pom-tlb",
        "a TLB of 64K entries in main memory, probed after an L2 TLB miss",
        "Ryoo et al., Rethinking TLB Designs in Virtualized Environments, ISCA 2017",
    )
    .fills(Socket::Lookaside, "a set of entries in memory, loaded after an L2 TLB miss")
    .formerly("design.lookaside.pom.", "pom_tlb.")
    .settings::<PomSpec>()
    .build(|spec, _| {
        let shared = Arc::new(Mutex::new(PomTlb::new(spec)));
        let reserved = Arc::clone(&shared);
        Parts {
            boot: Some(Box::new(move |frames| lock(&reserved).reserve(frames))),
            lookaside: Some(Box::new(move |_| Box::new(PomLookaside::new(Arc::clone(&shared))))),
            ..Parts::default()
        }
    })
}
