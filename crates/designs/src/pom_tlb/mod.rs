//! POM-TLB: a very large TLB in main memory, looked up when the L2 TLB has missed and before the page walk.
//!
//! Source: Ryoo et al., "Rethinking TLB Designs in Virtualized Environments: A Very Large Part-of-Memory TLB", ISCA 2017; compared with in Utopia
//! Sec. 8.2 with 64K entries in sets of 8.
//!
//! An entry has 16 bytes: the page-table entry, and a tag of page number, page size and address space. Four lie in a cache line; the lines of a set
//! are loaded in parallel, through the caches like all else. The structure is one for the machine, in memory that is reserved at boot, and every core's
//! MMU reads and writes it.
//!
//! Choices.
//! - A set is chosen by the lowest bits of the page's number. Pages of 4 KiB and of 2 MiB are looked up at once where both have been seen: the
//!   paper predicts the size.
//! - The policy's state is kept beside the structure, as the paper keeps its own.
//! - The kernel's shootdowns clear entries; their writes are made at the next look-up.

#[cfg(test)]
mod tests;

use crate::pte::Pte;
use ambulator_base::{
    AccessKind, Asid, CounterSink, Counters, Cycle, FRAME_BYTES, Invalid, LINE_BYTES, PageSize, PhysAddr, VirtAddr,
    lock,
};
use ambulator_hardware::{Replacement, ReplacementState};
use ambulator_memory::BuddyAllocator;
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters};
use ambulator_os::PteFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 16;
/// Entries of a line.
const LINE_ENTRIES: u64 = LINE_BYTES / ENTRY_BYTES;
/// Page sizes that it holds.
const SIZES: [PageSize; 2] = [PageSize::SIZE_4K, PageSize::SIZE_2M];
/// The tag's bits.
const VALID: u64 = 1 << 63;
const LARGE: u64 = 1 << 62;

/// Settings of the part-of-memory TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PomSpec {
    /// Entries.
    #[schemars(extend("x-unit" = "entries", "x-source" = "Utopia Table 1 (64K)"))]
    pub entries: u64,
    /// Its associativity.
    #[schemars(extend("x-unit" = "ways", "x-source" = "Utopia Table 1 (8)"))]
    pub ways: u32,
    /// Which entry of a set gives way.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Utopia Table 1 (DRRIP)"))]
    pub replacement: Replacement,
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

    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if ![4, 8, 16].contains(&self.ways) {
            wrong.push(Invalid::new(
                format!("{at}.ways"),
                format!("is {}; a set has whole lines of 4 entries: 4, 8 or 16 ways", self.ways),
            ));
        } else if !self.sets().is_power_of_two()
            || self.sets() * u64::from(self.ways) != self.entries
            || self.entries > 1 << 26
        {
            wrong.push(
                Invalid::new(
                    format!("{at}.entries"),
                    format!(
                        "is {}: the number of sets of {} must be a power of two, and there are 2^26 entries at most",
                        self.entries, self.ways
                    ),
                )
                .and(format!("{at}.ways")),
            );
        }
        wrong
    }
}

/// What all cores share: where it is, and the policy's state.
pub struct PomTlb {
    spec: PomSpec,
    base: Option<PhysAddr>,
    replacement: ReplacementState,
    /// Pages of 2 MiB have been seen.
    large_held: bool,
    /// What shootdowns have named and is not cleared yet.
    stale: Vec<Invalidation>,
}

impl PomTlb {
    /// Not yet reserved.
    pub fn new(spec: &PomSpec) -> PomTlb {
        PomTlb {
            replacement: ReplacementState::new(spec.replacement, spec.sets() as usize, spec.ways as usize, 1),
            spec: spec.clone(),
            base: None,
            large_held: false,
            stale: Vec::new(),
        }
    }

    /// Takes its memory, at boot. False if it is not there.
    pub fn reserve(&mut self, frames: &mut BuddyAllocator) -> bool {
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
        VALID | large | u64::from(asid.0 & 0x3fff) << 45 | va.0 >> size.shift()
    }
}

ambulator_base::counters! {
    /// What a core's part of a part-of-memory TLB counts.
    pub struct PomCounters {
        /// Look-ups.
        probes: Events,
        /// Look-ups that found their page.
        hits: Events,
        /// Lines that they loaded.
        loads: Events,
        /// Cycles of look-ups.
        probe_cycles: Cycles,
        /// Entries written after a walk.
        fills: Events,
        /// Entries cleared after a shootdown.
        cleared: Events,
    }
}

/// A core's look-ups in it.
pub struct PomLookaside {
    shared: Arc<Mutex<PomTlb>>,
    asid: Asid,
    counters: PomCounters,
}

impl PomLookaside {
    /// Look-ups of a core.
    pub fn new(shared: Arc<Mutex<PomTlb>>) -> PomLookaside {
        PomLookaside { shared, asid: Asid(0), counters: PomCounters::default() }
    }

    /// The lines of a set in parallel, and when the last is there.
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

    /// Shootdowns that have come since: their entries are cleared.
    fn clear_stale(&mut self, pom: &mut PomTlb, base: PhysAddr, now: Cycle, port: &mut dyn MemoryPort) {
        for what in std::mem::take(&mut pom.stale) {
            let Invalidation::Page { asid, page } = what else {
                // A whole address space, or all of them: the operating system goes through the structure.
                for entry in 0..pom.spec.entries {
                    let at = base.offset(entry * ENTRY_BYTES);
                    let tag = port.peek_line(at)[at.0 as usize % 64 / 8];
                    let gone = match what {
                        Invalidation::Asid(asid) => tag >> 45 & 0x3fff == u64::from(asid.0 & 0x3fff),
                        _ => true,
                    };
                    if tag & VALID != 0 && gone {
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
            if size == PageSize::SIZE_2M && !pom.large_held {
                continue;
            }
            let set = pom.set(va, size);
            let (lines, ready) = Self::lines(&mut self.counters, &pom, base, set, now, port);
            answer.ready = answer.ready.max(ready);
            if let Some((way, pte)) = Self::find(&lines, PomTlb::tag(self.asid, va, size)) {
                pom.replacement.touch(set as usize, way as usize);
                self.counters.hits += 1;
                answer = LookasideAnswer { found: Some(pte.translation(size)), ready, holds_walk: true };
                break;
            }
        }
        self.counters.probe_cycles += answer.ready.since(now);
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
        // What shootdowns have named goes before anything comes in its place.
        self.clear_stale(&mut pom, base, ready, port);
        pom.large_held |= found.size == PageSize::SIZE_2M;
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
        port.replace(at, !0, tag, ready);
        port.replace(at.offset(8), !0, Pte::leaf(found.frame, flags, found.size > PageSize::SIZE_4K).0, ready);
        self.counters.fills += 1;
    }

    fn invalidate(&mut self, what: Invalidation) {
        let mut pom = lock(&self.shared);
        // Each core is told; one clearing is enough.
        if pom.stale.last() != Some(&what) {
            pom.stale.push(what);
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
