//! The hardware half: the speculation engine and its degree filter (Revelator Sec. 5.3, 5.5).

use super::placement::Shared;
use super::tiers::{Kind, Space, Told};
use super::{DegreeFilter, RevelatorSpec};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PhysAddr, VirtAddr, lock};
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
        /// Lines of the hypervisor's table that it had fetched.
        nested_fetches: Events,
        /// Candidates that were the same as an earlier one: not fetched.
        duplicates: Events,
        /// Candidates that the filter of the degree kept back.
        filtered: Events,
        /// Wrong data lines that were fetched from frames that are not the process's.
        foreign: Events,
        /// Candidates kept back since their frames are not the process's.
        confined: Events,
        /// Guesses made while buses were busier than the least share that the filter wants.
        busy: Events,
    }
}

/// A way to guess a line: through a tier, or, for the hypervisor's entry of a guest frame, through a tier of the guest's and one of the hypervisor's.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    /// How often it is right, as far as what was given tells.
    share: f64,
    kind: Kind,
    tier: usize,
    /// Tier of the hypervisor's node.
    then: Option<usize>,
}

/// A core's engine.
pub struct Engine {
    spec: RevelatorSpec,
    /// Whether it works in a virtual machine.
    nested: bool,
    shared: Shared,
    asid: Asid,
    /// Buses' cycles and time when bandwidth was looked at last, and the share that was in use before.
    seen: (u64, Cycle),
    in_use: f64,
    /// Ways to guess data, entries, and the hypervisor's entries, the likeliest first, as they were when kernels had told so much.
    ways: [Vec<Way>; 3],
    version: u64,
    counters: EngineCounters,
}

/// Cycles between two looks at the bandwidth in use.
const WINDOW: u64 = 2000;
/// Indices of `ways`.
const DATA: usize = 0;
const ENTRIES: usize = 1;
const NESTED: usize = 2;

/// Lines to fetch: the first `count` of `lines`.
struct Lines<'a> {
    lines: &'a mut [PhysAddr],
    count: usize,
}

impl Engine {
    /// An engine that is told by kernels what their tiers gave; in a virtual machine if `nested`.
    pub fn new(spec: &RevelatorSpec, nested: bool, shared: Shared) -> Engine {
        Engine {
            spec: spec.clone(),
            nested,
            shared,
            asid: Asid(0),
            seen: (0, Cycle(0)),
            in_use: 0.0,
            ways: Default::default(),
            version: u64::MAX,
            counters: EngineCounters::default(),
        }
    }

    fn watch(&mut self, bus: Bus, now: Cycle) {
        let (busy, at) = self.seen;
        // Misses do not come in the order of their times: one before the last look tells nothing.
        if now.0 >= at.0 + WINDOW {
            let since = (now.0 - at.0) * u64::from(bus.channels.max(1));
            self.in_use = bus.busy.saturating_sub(busy) as f64 / since as f64;
            self.seen = (bus.busy, now);
        }
    }

    fn learn_ways(&mut self, told: &Told) {
        if self.version == told.version {
            return;
        }
        self.version = told.version;
        let tiers = self.spec.tiers as usize;
        self.ways = [
            if self.spec.data { ways(&Kind::DATA, tiers, told) } else { Vec::new() },
            if self.spec.table { ways(&[Kind::Leaf], tiers, told) } else { Vec::new() },
            if self.nested && self.spec.nested { nested_ways(tiers, told) } else { Vec::new() },
        ];
    }

    /// Appends the candidates of one sort, the likeliest first, as far as the filter lets them; returns how many.
    fn candidates(&mut self, sort: usize, va: VirtAddr, told: &Told, lines: &mut Lines<'_>) -> u64 {
        let least = match self.spec.filter {
            DegreeFilter::Adaptive => self.spec.least_share.max(self.in_use),
            DegreeFilter::None | DegreeFilter::Perfect => 0.0,
        };
        self.counters.busy += u64::from(self.in_use > self.spec.least_share && sort == DATA);
        let before = lines.count;
        for (number, way) in self.ways[sort].iter().enumerate() {
            if way.share < least || lines.count == lines.lines.len() {
                self.counters.filtered += (self.ways[sort].len() - number) as u64;
                break;
            }
            let Some(at) = guess(way, va, told, self.asid, self.spec.filter == DegreeFilter::Perfect) else {
                self.counters.filtered += 1;
                continue;
            };
            if sort == DATA && self.spec.confine && !told.machine.is_own(at.pfn(), self.asid) {
                self.counters.confined += 1;
            } else if lines.lines[before..lines.count].iter().any(|other| other.line() == at.line()) {
                self.counters.duplicates += 1;
            } else {
                lines.lines[lines.count] = at;
                lines.count += 1;
            }
        }
        (lines.count - before) as u64
    }
}

/// Where what is wanted of `va` lies, if this way is right; `None` if only right ones count and it is not.
#[inline]
fn guess(way: &Way, va: VirtAddr, told: &Told, asid: Asid, only_right: bool) -> Option<PhysAddr> {
    let is_right = |space: &Space, at: PhysAddr, kind, va| {
        // The hypervisor has one virtual machine, whose nodes need no name of an address space.
        space.use_of(at.pfn()).is_some_and(|of| of.is(kind, if kind == Kind::HostLeaf { of.asid } else { asid }, va))
    };
    let (mut kind, mut tier, mut wanted) = (way.kind, way.tier, va);
    if let Some(then) = way.then {
        // The guest-physical address of the data, or of the guest's entry, is what the hypervisor's entry is for.
        let at = told.guest.place(kind, va, tier);
        if only_right && !is_right(&told.guest, at, kind, va) {
            return None;
        }
        (kind, tier, wanted) = (Kind::HostLeaf, then, VirtAddr(at.0));
    }
    let at = told.machine.place(kind, wanted, tier);
    (!only_right || is_right(&told.machine, at, kind, wanted)).then_some(at)
}

/// The tiers of these kinds, the likeliest first.
fn ways(kinds: &[Kind], tiers: usize, told: &Told) -> Vec<Way> {
    let space = &told.machine;
    let mut ways: Vec<Way> = Vec::with_capacity(16);
    for &kind in kinds {
        let weight = space.weight(kind, kinds);
        ways.extend((0..tiers).map(|tier| Way { share: space.share(kind, tier) * weight, kind, tier, then: None }));
    }
    sorted(ways)
}

/// The pairs of tiers to the hypervisor's entries of a page and of the guest's node that maps it, the likeliest first.
fn nested_ways(tiers: usize, told: &Told) -> Vec<Way> {
    let mut ways = Vec::with_capacity(64);
    for kind in [Kind::Small, Kind::Large, Kind::Leaf] {
        let weight = if kind == Kind::Leaf { 1.0 } else { told.guest.weight(kind, &Kind::DATA) };
        for tier in 0..tiers {
            let first = told.guest.share(kind, tier) * weight;
            ways.extend((0..tiers).map(|then| {
                let share = first * told.machine.share(Kind::HostLeaf, then);
                Way { share, kind, tier, then: Some(then) }
            }));
        }
    }
    sorted(ways)
}

fn sorted(mut ways: Vec<Way>) -> Vec<Way> {
    ways.retain(|way| way.share > 0.0);
    ways.sort_by(|a, b| b.share.total_cmp(&a.share));
    ways
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
        if told.machine.frames == 0 {
            return guess;
        }
        self.learn_ways(&told);
        self.counters.guesses += 1;
        let mut data = Lines { lines: &mut guess.data, count: 0 };
        self.counters.data_fetches += self.candidates(DATA, va, &told, &mut data);
        guess.data_count = data.count as u8;
        if self.spec.data && self.spec.confine {
            guess.latency += self.spec.confine_latency;
        }
        let mut table = Lines { lines: &mut guess.table, count: 0 };
        self.counters.table_fetches += self.candidates(ENTRIES, va, &told, &mut table);
        self.counters.nested_fetches += self.candidates(NESTED, va, &told, &mut table);
        guess.table_count = table.count as u8;
        guess
    }

    fn learn(&mut self, va: VirtAddr, guessed: &Speculation, found: &Translation, entry: Option<PhysAddr>) {
        let data = &guessed.data[..usize::from(guessed.data_count)];
        let tables = &guessed.table[..usize::from(guessed.table_count)];
        let at = found.physical(va);
        let right = data.contains(&at);
        self.counters.data_right += u64::from(right);
        let wrong = data.len() - usize::from(right);
        self.counters.data_wrong += wrong as u64;
        let mut table_right = entry.is_some_and(|entry| tables.contains(&entry));
        if wrong > 0 || (self.nested && !tables.is_empty()) {
            let told = lock(&self.shared);
            let foreign = data.iter().filter(|own| **own != at && !told.machine.is_own(own.pfn(), self.asid)).count();
            self.counters.foreign += foreign as u64;
            if self.nested {
                let asid = self.asid;
                let is_leaf =
                    |at: &PhysAddr| told.machine.use_of(at.pfn()).is_some_and(|of| of.is(Kind::Leaf, asid, va));
                table_right = tables.iter().any(is_leaf);
            }
        }
        self.counters.table_right += u64::from(table_right);
    }

    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
