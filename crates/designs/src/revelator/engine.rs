//! The hardware half: the speculation engine and its degree filter (Revelator Sec. 5.3).

use super::RevelatorSpec;
use super::placement::{Shared, lock};
use super::tiers::{Kind, Told, frame};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PhysAddr, VirtAddr};
use ambulator_mmu::{Bus, Invalidation, Speculation, Speculator, TableRegisters, Translation};

ambulator_base::counters! {
    /// What a speculation engine counts.
    pub struct EngineCounters {
        /// L2 TLB misses at which it guessed.
        guesses: Events,
        /// Data lines that it had fetched.
        data_fetches: Events,
        /// Guesses of which one was where the data is.
        data_right: Events,
        /// Data lines fetched from elsewhere.
        data_wrong: Events,
        /// Table lines that it had fetched.
        table_fetches: Events,
        /// Guesses of a table line that were where the node of the last level is, for pages that have one.
        table_right: Events,
        /// Candidates that were the same as an earlier one: not fetched.
        duplicates: Events,
        /// Candidates that the filter of the degree kept back.
        filtered: Events,
        /// Data lines fetched from frames that are not the process's.
        foreign: Events,
        /// Candidates kept back since their frames are not the process's.
        confined: Events,
        /// Guesses made while buses were busier than the limit.
        busy: Events,
    }
}

/// A core's engine.
pub struct Engine {
    spec: RevelatorSpec,
    shared: Shared,
    asid: Asid,
    /// Buses' cycles and time when bandwidth was looked at last, and the share that was in use before.
    seen: (u64, Cycle),
    in_use: f64,
    /// The tiers of data and of tables, the likeliest first, as they were when the kernel had told so much.
    likely: [Vec<(f64, Kind, usize)>; 2],
    version: u64,
    counters: EngineCounters,
}

/// Cycles between two looks at the bandwidth in use.
const WINDOW: u64 = 2000;

impl Engine {
    /// An engine that is told by the kernel what its tiers gave.
    pub fn new(spec: &RevelatorSpec, shared: Shared) -> Engine {
        Engine {
            spec: spec.clone(),
            shared,
            asid: Asid(0),
            seen: (0, Cycle(0)),
            in_use: 0.0,
            likely: Default::default(),
            version: u64::MAX,
            counters: EngineCounters::default(),
        }
    }

    fn watch(&mut self, bus: Bus, now: Cycle) {
        let (busy, at) = self.seen;
        if now.0 >= at.0 + WINDOW || now < at {
            let since = now.0.saturating_sub(at.0).max(1) * u64::from(bus.channels.max(1));
            self.in_use = bus.busy.saturating_sub(busy) as f64 / since as f64;
            self.seen = (bus.busy, now);
        }
    }

    /// The candidates of these kinds, the likeliest first: as many as give the share of pages that is asked for, at most.
    fn candidates(&mut self, tables: bool, va: VirtAddr, told: &Told) -> ([PhysAddr; 8], usize) {
        if self.version != told.version {
            self.version = told.version;
            self.likely = [order(&DATA, self.spec.tiers, told), order(&[Kind::Leaf], self.spec.tiers, told)];
        }
        let likely = &self.likely[usize::from(tables)];
        let busy = self.in_use > self.spec.bandwidth_limit;
        self.counters.busy += u64::from(busy);
        let most = match (self.spec.degree, busy) {
            // Where bandwidth is short, only the likeliest.
            (_, true) => 1,
            (0, false) => {
                let mut held = 0.0;
                let enough = likely.iter().position(|(share, ..)| {
                    held += share;
                    held >= self.spec.coverage
                });
                enough.map_or(likely.len(), |at| at + 1)
            }
            (fixed, false) => fixed as usize,
        };
        self.counters.filtered += likely.len().saturating_sub(most) as u64;
        let (mut found, mut count) = ([PhysAddr(0); 8], 0);
        for &(_, kind, tier) in likely.iter().take(most.min(8)) {
            let base = frame(kind, va, tier, told.frames).start();
            let at = match kind {
                Kind::Small => base.offset(va.0 & 0xfff),
                Kind::Large => base.offset(va.0 & 0x1f_ffff),
                Kind::Leaf => base.offset((va.0 >> 12 & 511) * 8),
            };
            if found[..count].iter().any(|other| other.line() == at.line()) {
                self.counters.duplicates += 1;
            } else {
                found[count] = at;
                count += 1;
            }
        }
        (found, count)
    }
}

/// Kinds of data frames.
const DATA: [Kind; 2] = [Kind::Small, Kind::Large];

/// The tiers of these kinds, the likeliest first, with the share of what is asked for that each gave.
fn order(kinds: &[Kind], tiers: u32, told: &Told) -> Vec<(f64, Kind, usize)> {
    let mut likely: Vec<(f64, Kind, usize)> = Vec::with_capacity(16);
    for &kind in kinds {
        let weight = weight(kind, kinds, told);
        likely.extend((0..tiers as usize).map(|tier| (told.share(kind, tier) * weight, kind, tier)));
    }
    likely.retain(|(share, ..)| *share > 0.0);
    likely.sort_by(|a, b| b.0.total_cmp(&a.0));
    likely
}

/// How much of what is asked for is of a kind.
fn weight(kind: Kind, kinds: &[Kind], told: &Told) -> f64 {
    let given = |kind: Kind| told.given[kind as usize].iter().sum::<u64>() << kind.order();
    let all: u64 = kinds.iter().map(|kind| given(*kind)).sum();
    if all == 0 { 0.0 } else { given(kind) as f64 / all as f64 }
}

impl Speculator for Engine {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn speculate(&mut self, va: VirtAddr, _access: AccessKind, now: Cycle, bus: Bus) -> Speculation {
        self.watch(bus, now);
        let shared = Shared::clone(&self.shared);
        let told = lock(&shared);
        let mut guess = Speculation { latency: self.spec.latency, ..Speculation::default() };
        if told.frames == 0 {
            return guess;
        }
        self.counters.guesses += 1;
        if self.spec.data {
            let (candidates, count) = self.candidates(false, va, &told);
            for &at in &candidates[..count] {
                let own = told.is_own(at.pfn(), self.asid);
                if !own && self.spec.confine {
                    self.counters.confined += 1;
                    continue;
                }
                self.counters.foreign += u64::from(!own);
                guess.data[usize::from(guess.data_count)] = at;
                guess.data_count += 1;
            }
            if self.spec.confine {
                guess.latency += self.spec.confine_latency;
            }
            self.counters.data_fetches += u64::from(guess.data_count);
        }
        if self.spec.table {
            let (candidates, count) = self.candidates(true, va, &told);
            (guess.table, guess.table_count) = (candidates, count as u8);
            self.counters.table_fetches += u64::from(guess.table_count);
        }
        guess
    }

    fn learn(&mut self, va: VirtAddr, guessed: &Speculation, found: &Translation, entry: Option<PhysAddr>) {
        let data = &guessed.data[..usize::from(guessed.data_count)];
        let right = data.contains(&found.physical(va));
        self.counters.data_right += u64::from(right);
        self.counters.data_wrong += data.len() as u64 - u64::from(right);
        let tables = &guessed.table[..usize::from(guessed.table_count)];
        self.counters.table_right += u64::from(entry.is_some_and(|entry| tables.contains(&entry)));
    }

    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
