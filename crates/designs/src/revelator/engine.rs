//! The hardware half: the speculation engine and its degree filter (Revelator Sec. 5.3, 5.5).

use super::benefit::Benefit;
use super::placement::Shared;
use super::tiers::{Kind, PlacementHints, Space};
use super::{DegreeFilter, RevelatorSpec};
use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PhysAddr, State, VirtAddr, lock};
use ambulator_mmu::{Bus, Invalidation, Speculation, Speculator, TableRegisters, Translation};

ambulator_base::counters! {
    /// Counters of a speculation engine.
    pub(crate) struct EngineCounters {
        /// L2 TLB misses with predictions.
        guesses: Events,
        /// Data lines fetched speculatively.
        data_fetches: Events timed,
        /// Predictions with a correct data line.
        data_right: Events timed,
        /// Data lines fetched from wrong addresses.
        data_wrong: Events timed,
        /// Table lines fetched speculatively.
        table_fetches: Events timed,
        /// Predictions with a correct line of the last-level node.
        table_right: Events timed,
        /// Lines of the hypervisor's table fetched speculatively.
        nested_fetches: Events timed,
        /// Candidates not fetched because they equal an earlier one.
        duplicates: Events timed,
        /// Candidates rejected by the degree filter.
        filtered: Events timed,
        /// Wrong data lines fetched from frames without the process's data: free, the kernel's, or another's.
        foreign: Events timed,
        /// Candidates rejected because their frames are not the process's.
        confined: Events timed,
        /// Predictions made while the buses of main memory were busy for more than half of the time.
        busy: Events timed,
    }
}

/// A candidate for a line: a tier, or, for the hypervisor's entry of a guest frame, a tier of the guest and
/// one of the hypervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, State)]
struct Candidate {
    /// The fraction of allocations for which it would be correct.
    share: f64,
    kind: Kind,
    tier: usize,
    /// The tier of the hypervisor's node.
    hypervisor_tier: Option<usize>,
}

/// A core's engine.
#[derive(State)]
pub(crate) struct Engine {
    #[state(skip)]
    spec: RevelatorSpec,
    /// Whether it is in a virtual machine.
    #[state(skip)]
    nested: bool,
    shared: Shared,
    asid: Asid,
    /// The buses' busy cycles and the time of the last sample of the bandwidth, and the share in use before
    /// it.
    seen: (u64, Cycle),
    in_use: f64,
    benefit: Benefit,
    /// Whether a line of the last walk's last entry was fetched by a right prediction.
    table_was_right: bool,
    /// Candidates for data, entries, and the hypervisor's entries, the likeliest first, for hints of this
    /// `version`.
    candidates: [Vec<Candidate>; 3],
    version: u64,
    counters: EngineCounters,
}

/// Cycles between two samples of the bandwidth in use.
const WINDOW: u64 = 2000;
/// Indices of `candidates`.
const DATA: usize = 0;
const ENTRIES: usize = 1;
const NESTED: usize = 2;

/// Lines to fetch: the first `count` of `lines`.
struct Lines<'a> {
    lines: &'a mut [PhysAddr],
    count: usize,
}

impl Engine {
    /// An engine that uses the kernels' placement hints; in a virtual machine if `nested`.
    pub(crate) fn new(spec: &RevelatorSpec, nested: bool, shared: Shared) -> Engine {
        Engine {
            spec: spec.clone(),
            nested,
            shared,
            asid: Asid(0),
            seen: (0, Cycle(0)),
            in_use: 0.0,
            benefit: Benefit::new(spec),
            table_was_right: false,
            candidates: Default::default(),
            version: u64::MAX,
            counters: EngineCounters::default(),
        }
    }

    fn sample_bandwidth(&mut self, bus: Bus, now: Cycle) {
        let (busy, at) = self.seen;
        // Misses are not simulated in time order: one before the last sample is of no use.
        if now.0 >= at.0 + WINDOW {
            let since = (now.0 - at.0) * u64::from(bus.channels.max(1));
            self.in_use = bus.busy.saturating_sub(busy) as f64 / since as f64;
            self.seen = (bus.busy, now);
        }
    }

    fn update_candidates(&mut self, hints: &PlacementHints) {
        if self.version == hints.version {
            return;
        }
        self.version = hints.version;
        let tiers = self.spec.tiers as usize;
        self.candidates = [
            if self.spec.data { candidates(&Kind::DATA, tiers, hints) } else { Vec::new() },
            if self.spec.table { candidates(&[Kind::Leaf], tiers, hints) } else { Vec::new() },
            if self.nested && self.spec.nested { nested_candidates(tiers, hints) } else { Vec::new() },
        ];
    }

    /// Appends the lines of the candidates of one sort that pass the filter, the likeliest first. Returns
    /// their number.
    fn append_lines(&mut self, sort: usize, va: VirtAddr, hints: &PlacementHints, lines: &mut Lines<'_>) -> u64 {
        let least = match self.spec.filter {
            DegreeFilter::Adaptive if sort == DATA => self.benefit.least_share_of_data(self.in_use),
            DegreeFilter::Adaptive => self.benefit.least_share_of_entries(self.in_use),
            DegreeFilter::None | DegreeFilter::Perfect => 0.0,
        };
        self.counters.busy += u64::from(self.in_use > 0.5 && sort == DATA);
        let before = lines.count;
        for (number, candidate) in self.candidates[sort].iter().enumerate() {
            if candidate.share < least || lines.count == lines.lines.len() {
                self.counters.filtered += (self.candidates[sort].len() - number) as u64;
                break;
            }
            let Some(at) = guess(candidate, va, hints, self.asid, self.spec.filter == DegreeFilter::Perfect) else {
                self.counters.filtered += 1;
                continue;
            };
            if sort == DATA && self.spec.confine && !hints.machine.is_own(at.pfn(), self.asid) {
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

/// The address of the line for `va`, if this candidate is correct. `None` if only correct ones count and it
/// is not.
#[inline]
fn guess(
    candidate: &Candidate,
    va: VirtAddr,
    hints: &PlacementHints,
    asid: Asid,
    only_right: bool,
) -> Option<PhysAddr> {
    let is_right = |space: &Space, at: PhysAddr, kind, va| {
        // The hypervisor has one virtual machine, so its nodes need no ASID.
        space
            .use_of(at.pfn())
            .is_some_and(|of| of.is(kind, if kind == Kind::HypervisorLeaf { of.asid } else { asid }, va))
    };
    let (mut kind, mut tier, mut target) = (candidate.kind, candidate.tier, va);
    if let Some(hypervisor_tier) = candidate.hypervisor_tier {
        // The hypervisor's entry maps the guest-physical address of the data, or of the guest's entry.
        let at = hints.guest.place(kind, va, tier);
        if only_right && !is_right(&hints.guest, at, kind, va) {
            return None;
        }
        (kind, tier, target) = (Kind::HypervisorLeaf, hypervisor_tier, VirtAddr(at.0));
    }
    let at = hints.machine.place(kind, target, tier);
    (!only_right || is_right(&hints.machine, at, kind, target)).then_some(at)
}

/// The candidates of these kinds, the likeliest first.
fn candidates(kinds: &[Kind], tiers: usize, hints: &PlacementHints) -> Vec<Candidate> {
    let space = &hints.machine;
    let mut candidates: Vec<Candidate> = Vec::with_capacity(16);
    for &kind in kinds {
        let weight = space.weight(kind, kinds);
        candidates.extend((0..tiers).map(|tier| Candidate {
            share: space.share(kind, tier) * weight,
            kind,
            tier,
            hypervisor_tier: None,
        }));
    }
    sorted(candidates)
}

/// The pairs of tiers for the hypervisor's entries of a page and of the guest's node that maps it, the
/// likeliest first.
fn nested_candidates(tiers: usize, hints: &PlacementHints) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(64);
    for kind in [Kind::Small, Kind::Large, Kind::Leaf] {
        let weight = if kind == Kind::Leaf { 1.0 } else { hints.guest.weight(kind, &Kind::DATA) };
        for tier in 0..tiers {
            let first = hints.guest.share(kind, tier) * weight;
            candidates.extend((0..tiers).map(|hypervisor_tier| {
                let share = first * hints.machine.share(Kind::HypervisorLeaf, hypervisor_tier);
                Candidate { share, kind, tier, hypervisor_tier: Some(hypervisor_tier) }
            }));
        }
    }
    sorted(candidates)
}

fn sorted(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.share > 0.0);
    candidates.sort_by(|a, b| b.share.total_cmp(&a.share));
    candidates
}

impl Engine {
    /// For a watch: what the engine proposes, and what its filter demands.
    #[cold]
    fn tell(&self, guess: &Speculation, now: Cycle) {
        watch::step(|| {
            let until = now.after(u64::from(guess.latency));
            let mut step = Step::compute("speculation engine", now, until)
                .says(format!("proposes lines: {} of tables, {} of the data", guess.table_count, guess.data_count))
                .field("bandwidth in use", (self.in_use * 1000.0).round() / 1000.0)
                .source("Revelator Sec. 5.3, 5.5")
                .behind();
            let mut shares = Vec::new();
            for candidate in self.candidates.iter().flatten() {
                let tier = match candidate.hypervisor_tier {
                    Some(hypervisor) => format!("{:?}, tier {} and tier {hypervisor}", candidate.kind, candidate.tier),
                    None => format!("{:?}, tier {}", candidate.kind, candidate.tier),
                };
                shares.push((tier.clone(), candidate.share));
                step = step.field(tier, format!("right for {:.1}% of allocations", 100.0 * candidate.share));
            }
            step.shape(Shape::Candidates { shares })
        });
    }
}

impl Speculator for Engine {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn speculate(&mut self, _pc: VirtAddr, va: VirtAddr, _access: AccessKind, now: Cycle, bus: Bus) -> Speculation {
        self.sample_bandwidth(bus, now);
        let shared = Shared::clone(&self.shared);
        let hints = lock(&shared);
        let mut guess = Speculation { latency: self.spec.latency, ..Speculation::default() };
        if hints.machine.frames == 0 {
            return guess;
        }
        self.update_candidates(&hints);
        self.counters.guesses += 1;
        let mut data = Lines { lines: &mut guess.data, count: 0 };
        self.counters.data_fetches += self.append_lines(DATA, va, &hints, &mut data);
        guess.data_count = data.count as u8;
        if self.spec.data && self.spec.confine {
            guess.latency += self.spec.confine_latency;
        }
        let mut table = Lines { lines: &mut guess.table, count: 0 };
        self.counters.table_fetches += self.append_lines(ENTRIES, va, &hints, &mut table);
        self.counters.nested_fetches += self.append_lines(NESTED, va, &hints, &mut table);
        guess.table_count = table.count as u8;
        if watch::watched() {
            self.tell(&guess, now);
        }
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
            let hints = lock(&self.shared);
            let foreign = data.iter().filter(|own| **own != at && !hints.machine.is_own(own.pfn(), self.asid)).count();
            self.counters.foreign += foreign as u64;
            if self.nested {
                let asid = self.asid;
                let is_leaf =
                    |at: &PhysAddr| hints.machine.use_of(at.pfn()).is_some_and(|of| of.is(Kind::Leaf, asid, va));
                table_right = tables.iter().any(is_leaf);
            }
        }
        self.counters.table_right += u64::from(table_right);
        self.table_was_right = table_right;
    }

    fn learn_latency(&mut self, cycles: u64, loads: u32) {
        self.benefit.learn(cycles, loads, self.table_was_right);
    }

    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
