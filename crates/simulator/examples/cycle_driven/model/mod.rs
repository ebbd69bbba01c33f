//! A cycle-driven model of a machine: cores, MMUs, caches and main memory, every part of which is stepped in
//! every cycle, in the order of time. It is the reference for the transaction-level timing of the simulator,
//! so it is plain rather than fast. It is built from the same specs and reads the same streams, and the same
//! kernel lays out the same page tables. It shares no code that holds state of the hardware with the
//! simulator: arrays, replacement, predictors, prefetchers, queues and memory controllers are its own.
//!
//! Of page tables it has radix ones (with ASAP's prefetches or without), cuckoo tables of 4 KiB pages (ECPT's, ME-HPT's)
//! and LVM's; of lookasides a POM-TLB that has all pages, Utopia's RestSegs, whose pages do not migrate, and RMM's ranges;
//! Midgard on one core, whose table of areas is walked at no cost; of speculations Revelator's without a filter. It omits nested paging, the kernel's daemons, several processes on a core, threads of one process on several
//! cores, and replacement other than LRU.

mod caches;
mod core;
mod dram;
mod events;
mod front;
mod learned;
mod lru;
mod mmu;
mod predictors;
mod ranges;
mod restsegs;
mod sides;
mod tables;
mod window;

pub use self::core::Choices;
#[allow(unused_imports)]
pub use dram::DramChoices;

use self::core::{Core, CoreSettings, Shared, serve_event};
use ambulator_base::RecordSource;
use ambulator_designs::ecpt::EcptSpec;
use ambulator_designs::me_hpt::MeHptSpec;
use ambulator_designs::revelator::{DegreeFilter, RevelatorSpec};
use ambulator_designs::utopia::{RestSegSpec, SetHash, UtopiaSpec};
use ambulator_hardware::{DramModel, StoreRequest};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};
use ambulator_os::Kernel;
use ambulator_simulator::spec::Spec;
use caches::Caches;
use dram::Dram;
use events::{Event, Events, Waiter, Writer};
use front::Front;
use learned::LearnedSettings;
use mmu::Mmu;
use ranges::Ranges;
use restsegs::{RestSegs, Shape};
use sides::{Sides, SidesSettings};
use std::collections::VecDeque;
use std::time::Instant;
use tables::{Kind, MemoryTlb, Tiers};
use window::Window;

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Instructions committed in the measured region, by all cores.
    pub instructions: u64,
    /// Core cycles of the measured region, until the last core has ended.
    pub cycles: u64,
    /// The same until each core has ended.
    pub cycles_of_cores: Vec<u64>,
    /// Page walks.
    pub walks: u64,
    /// Mean cycles of a page walk, from its start on a walker.
    pub walk_latency: f64,
    /// Page faults served.
    pub faults: u64,
    /// Lines that main memory read and wrote.
    pub dram_reads: u64,
    pub dram_writes: u64,
    /// Rows that it opened for them.
    pub dram_activates: u64,
    /// Mean cycles of a read, from the LLC to main memory and back.
    pub dram_read_latency: f64,
    /// Seconds of the sim host for warm-up and measured region.
    pub sim_host_seconds: f64,
    /// Instructions of warm-up and measured region.
    pub all_instructions: u64,
}

impl Measured {
    /// Instructions per cycle, of all cores together.
    pub fn ipc(&self) -> f64 {
        self.instructions as f64 / self.cycles.max(1) as f64
    }
}

/// The kind of page table that a spec has.
fn table_of(spec: &Spec) -> Kind {
    match spec.design.page_table.as_str() {
        "radix" => Kind::Radix,
        "asap" => Kind::Asap,
        "ecpt" => {
            let EcptSpec { hash, hash_latency, cwc_latency, .. } = settings_of(spec, "ecpt");
            Kind::Cuckoo { hash, latency: hash_latency + cwc_latency }
        }
        "me-hpt" => {
            let MeHptSpec { cuckoo, l2p_latency, .. } = settings_of(spec, "me_hpt");
            // The L2P table is read beside the cuckoo walk caches.
            Kind::Cuckoo { hash: cuckoo.hash, latency: cuckoo.hash_latency + cuckoo.cwc_latency.max(l2p_latency) }
        }
        "lvm" => {
            let number = |name| setting::<u64>(spec, "lvm", name);
            Kind::Learned(LearnedSettings {
                entries: number("lwc_entries") as usize,
                look_up: number("lwc_latency"),
                evaluation: number("evaluation_latency"),
                extra: number("max_extra"),
            })
        }
        other => panic!("the reference has radix page tables, ASAP's, ECPT's, ME-HPT's and LVM's, not {other}"),
    }
}

/// A TLB in memory, which is reserved at boot, if a spec has one.
fn memory_tlb_of(spec: &Spec, frames: &mut BuddyAllocator) -> Option<MemoryTlb> {
    match spec.design.lookaside.as_str() {
        "none" | "utopia" | "rmm" => None,
        "pom-tlb" => {
            let number = |name| setting::<u64>(spec, "pom_tlb", name);
            let (sets, lines) = (number("entries") / number("ways"), number("ways") / 4);
            let begins = frames.allocate_run(sets * lines * 64 / ambulator_base::FRAME_BYTES, 0);
            Some(MemoryTlb { begins: begins.expect("room for the TLB in memory").start().0, sets, lines })
        }
        other => panic!("the reference has no lookaside but a POM-TLB, Utopia's and RMM's, not {other}"),
    }
}

/// Utopia's RestSeg walker, if a spec has it, with its registers.
fn rest_segs_of(spec: &Spec, registers: &[u64]) -> Option<RestSegs> {
    if spec.design.lookaside != "utopia" {
        return None;
    }
    let utopia: UtopiaSpec = settings_of(spec, "utopia");
    assert!(!utopia.migration, "the reference's pages do not migrate");
    assert!(utopia.hash == SetHash::Modulo, "the reference's RestSegs have sets by modulo");
    let shape = |segment: &RestSegSpec| {
        let shift = segment.page_bytes.trailing_zeros();
        let ways = u64::from(segment.ways);
        let sets = segment.bytes / segment.page_bytes / ways;
        Shape { shift, sets, ways, tag_bits: spec.mmu.va_bits - shift - sets.trailing_zeros() }
    };
    let shapes = utopia.segments.iter().map(shape).collect();
    let mut rest_segs = RestSegs::new(shapes, utopia.cache_latency, (utopia.sf_cache_bytes, utopia.tar_cache_bytes));
    rest_segs.load_registers(registers);
    Some(rest_segs)
}

/// RMM's range TLB, if a spec has it, with its register.
fn ranges_of(spec: &Spec, registers: &[u64]) -> Option<Ranges> {
    if spec.design.lookaside != "rmm" {
        return None;
    }
    let number = |name| setting::<u64>(spec, "rmm", name);
    assert!(setting::<bool>(spec, "rmm", "eager_bits"), "the reference's pages of ranges are dirty from the start");
    assert!(spec.mmu.va_bits == 48, "the reference's range tables have keys of 36 bits");
    assert!(
        number("latency") <= spec.mmu.l2_tlb.latency,
        "the reference's range TLB answers before the L2 TLB or with it"
    );
    let mut ranges = Ranges::new(number("latency"), number("entries") as usize);
    ranges.load_registers(registers);
    Some(ranges)
}

/// Midgard's buffers and what is known of pages, if a spec has them, with the root of the table of areas.
fn sides_of(spec: &Spec, registers: &[u64]) -> Option<Sides> {
    match spec.design.front_side.as_str() {
        "none" => return None,
        "midgard" => {}
        other => panic!("the reference has no front side but Midgard's, not {other}"),
    }
    let number = |name| setting::<u64>(spec, "midgard", name);
    assert!(number("mlb_entries") == 0, "the reference has no TLB behind the last level");
    assert!(spec.machine.cores == 1, "the reference has Midgard on one core");
    let mut sides = Sides::new(SidesSettings {
        pages: (number("l1_entries") as usize, number("l1_ways") as usize),
        areas: number("l2_entries") as usize,
        latency: number("l2_latency"),
        nearer: number("walker_nearer"),
    });
    sides.load_registers(registers);
    Some(sides)
}

/// Revelator's predictions, if a spec has them.
fn tiers_of(spec: &Spec) -> Option<Tiers> {
    match spec.design.speculation.as_str() {
        "none" => None,
        "revelator" => {
            let revelator: RevelatorSpec = settings_of(spec, "revelator");
            assert!(revelator.filter == DegreeFilter::None, "the reference has Revelator without a filter");
            Some(Tiers {
                tiers: revelator.tiers.into(),
                entries: revelator.table,
                data: revelator.data,
                frames: spec.memory.bytes / ambulator_base::FRAME_BYTES,
                latency: revelator.latency.into(),
            })
        }
        other => panic!("the reference has no speculation but Revelator's, not {other}"),
    }
}

/// The settings of a design.
fn settings_of<T: serde::de::DeserializeOwned>(spec: &Spec, group: &str) -> T {
    let settings = serde_json::to_value(spec).expect("a spec")[group].take();
    serde_json::from_value(settings).unwrap_or_else(|e| panic!("`{group}`: {e}"))
}

/// A setting of a design.
fn setting<T: serde::de::DeserializeOwned>(spec: &Spec, group: &str, name: &str) -> T {
    let value = serde_json::to_value(spec).expect("a spec")[group][name].take();
    serde_json::from_value(value).unwrap_or_else(|e| panic!("`{group}.{name}`: {e}"))
}

/// Lines that a core zeroes and that wait for room in memory's queues, at most.
const ZEROES: usize = 16;

/// The machine.
pub struct Reference {
    cores: Vec<Core>,
    shared: Shared,
    dram: Dram,
    /// Cycles that the path to main memory adds.
    controller: u64,
    /// Lines of zeroed pages that each core has yet to write, with their cycles; they go at most as fast as
    /// the buses.
    zeroing: Vec<VecDeque<(u64, u64)>>,
    /// Lines of each core that wait for room in memory's queues.
    zeroes_wait: Vec<usize>,
    line_cycles: f64,
    zeroed_until: f64,
    /// Buffers for the kernel's TLB shootdowns and zeroed frames.
    shootdowns: Vec<ambulator_os::Shootdown>,
    zeroed: Vec<ambulator_os::Zeroed>,
}

impl Reference {
    /// The machine of a spec after the set-up of its programs, one for each core.
    ///
    /// # Panics
    /// If the spec has another table, if its memory cannot be allocated, or if a program's stream is damaged.
    pub fn new(spec: &Spec, programs: Vec<Box<dyn RecordSource>>, choices: Choices) -> Reference {
        let table = table_of(spec);
        let count = programs.len();
        let parts = ambulator_designs::catalogue().build(&spec.choice());
        let mut frames = BuddyAllocator::new(&spec.memory.buddy, spec.memory.bytes / ambulator_base::FRAME_BYTES);
        let tiers = tiers_of(spec);
        // The TLB in memory has its own place.
        if spec.design.lookaside != "pom-tlb" {
            assert!(parts.boot.into_iter().all(|reserve| reserve(&mut frames)), "room for what is reserved at boot");
        }
        let memory_tlb = memory_tlb_of(spec, &mut frames);
        let memory = PhysicalMemory::new(spec.memory.bytes).unwrap_or_else(|e| panic!("`memory.bytes`: {e}"));
        let mut kernel =
            Kernel::new(&spec.kernel, spec.costs.clone(), memory, frames, parts.translations, parts.placement);
        kernel.cores = count as u32;
        let processes: Vec<_> = programs.iter().map(|_| kernel.spawn().unwrap_or_else(|e| panic!("{e}"))).collect();
        let settings = CoreSettings {
            perfect: spec.mmu.perfect,
            advises_huge: spec.run.advise_huge,
            asks_at_commit: spec.core.store_request == StoreRequest::Commit,
            width: spec.core.width,
            forward_latency: spec.core.forward_latency,
            mispredict_penalty: spec.core.mispredict_penalty,
        };
        // A fixed latency includes the controller's.
        let controller_ns = if spec.dram.model == DramModel::Fixed { 0.0 } else { spec.dram.controller_ns };
        let controller = (controller_ns * spec.machine.clock_mhz as f64 / 1000.0).round() as u64;
        let mut cores = Vec::new();
        for (number, (source, process)) in programs.into_iter().zip(processes).enumerate() {
            let mut front = Front::new(&spec.core, source, process, choices.fetches, choices.fetch_ahead);
            front.set_up(|event| serve_event(&mut kernel, process, event, settings.advises_huge));
            let (registers, companion) = (kernel.registers(process), kernel.companion_registers(process));
            let sides = sides_of(spec, &kernel.intermediate_registers(process));
            let beside = (rest_segs_of(spec, &companion), ranges_of(spec, &companion), sides);
            let mmu = Mmu::new(number, &spec.mmu, (table, memory_tlb, tiers), beside, &registers, controller);
            let parts = (front, Window::new(&spec.core), mmu);
            cores.push(Core::new(number, choices, &settings, process, &kernel, parts));
        }
        kernel.ledger.take();
        let mut shootdowns = Vec::new();
        kernel.take_shootdowns(&mut shootdowns);
        shootdowns.clear();
        kernel.record_zeroed();
        let caches = Caches::new(&spec.hierarchy(), count, controller);
        Reference {
            cores,
            shared: Shared { events: Events::new(), caches, kernel },
            dram: Dram::new(&spec.dram, spec.machine.clock_mhz, choices.dram),
            controller,
            zeroing: vec![VecDeque::new(); count],
            zeroes_wait: vec![0; count],
            line_cycles: 8.0 * spec.machine.clock_mhz as f64
                / (spec.dram.data_rate * u64::from(spec.dram.channels)) as f64,
            zeroed_until: 0.0,
            shootdowns,
            zeroed: Vec::new(),
        }
    }

    /// Runs until every core has committed `warmup` instructions, then measures `instructions` of each core,
    /// or as many as its program has. A core that has committed its own stops.
    pub fn run(mut self, warmup: u64, instructions: u64) -> Measured {
        let began = Instant::now();
        while !self.all_have(|core| core.window.committed >= warmup) {
            self.cycle(|_, _| true);
        }
        let from: Vec<u64> = self.cores.iter().map(|core| core.window.committed).collect();
        let at = self.shared.events.now;
        for core in &mut self.cores {
            core.mmu.counts = Default::default();
            core.faults = 0;
        }
        self.dram.counts = Default::default();
        let mut finished = vec![None; self.cores.len()];
        while finished.iter().any(Option::is_none) {
            self.cycle(|number, _| finished[number].is_none());
            for (number, core) in self.cores.iter().enumerate() {
                if finished[number].is_none()
                    && (core.window.committed >= from[number] + instructions || core.has_ended())
                {
                    finished[number] = Some((core.window.committed - from[number], self.shared.events.now - at));
                }
            }
        }
        let ended: Vec<(u64, u64)> = finished.into_iter().flatten().collect();
        let sum = |of: fn(&Core) -> u64| self.cores.iter().map(of).sum::<u64>();
        let walks = sum(|core| core.mmu.counts.walks);
        Measured {
            instructions: ended.iter().map(|(instructions, _)| instructions).sum(),
            cycles: ended.iter().map(|(_, cycles)| *cycles).max().unwrap_or(0),
            cycles_of_cores: ended.iter().map(|(_, cycles)| *cycles).collect(),
            walks,
            walk_latency: sum(|core| core.mmu.counts.walk_cycles) as f64 / walks.max(1) as f64,
            faults: sum(|core| core.faults),
            dram_reads: self.dram.counts.reads,
            dram_writes: self.dram.counts.writes,
            dram_activates: self.dram.counts.activates,
            dram_read_latency: (self.dram.counts.read_cycles as f64 / self.dram.counts.reads.max(1) as f64)
                + self.controller as f64,
            sim_host_seconds: began.elapsed().as_secs_f64(),
            all_instructions: sum(|core| core.window.committed),
        }
    }

    fn all_have(&self, done: impl Fn(&Core) -> bool) -> bool {
        self.cores.iter().all(|core| done(core) || core.has_ended())
    }

    /// One cycle of every part, and of the cores that run.
    fn cycle(&mut self, runs: impl Fn(usize, &Core) -> bool) {
        self.dram.step(false, self.shared.caches.llc(), &mut self.shared.events);
        while let Some(event) = self.shared.events.due() {
            self.happen(event);
        }
        self.write_zeroes();
        self.dram.step(true, self.shared.caches.llc(), &mut self.shared.events);
        for number in 0..self.cores.len() {
            if runs(number, &self.cores[number]) {
                self.cores[number].cycle(&mut self.shared);
                self.shoot_down();
                self.zero(number);
            }
        }
        self.shared.events.now += 1;
    }

    /// Applies the kernel's TLB shootdowns and changes of registers.
    fn shoot_down(&mut self) {
        self.shared.kernel.take_shootdowns(&mut self.shootdowns);
        if self.shootdowns.is_empty() {
            return;
        }
        for shootdown in self.shootdowns.drain(..) {
            for core in self.cores.iter_mut().filter(|core| core.asid == shootdown.asid) {
                core.mmu.invalidate(shootdown.page);
            }
        }
        for core in &mut self.cores {
            core.load_registers(&self.shared.kernel);
        }
    }

    /// Takes the frames that the kernel has just zeroed for a core: it writes them, past the caches, in the
    /// cycles that it takes for them.
    fn zero(&mut self, core: usize) {
        self.shared.kernel.take_zeroed(&mut self.zeroed);
        let mut begin = self.shared.events.now;
        for zeroed in self.zeroed.drain(..) {
            let (first, lines) = (zeroed.frame.start().line(), zeroed.frames * ambulator_base::FRAME_BYTES / 64);
            self.zeroing[core].extend((0..lines).map(|i| (begin + i * zeroed.cycles / lines, first + i)));
            begin += zeroed.cycles;
        }
    }

    fn write_zeroes(&mut self) {
        let now = self.shared.events.now;
        loop {
            let waits = &self.zeroes_wait;
            let due = (self.zeroing.iter_mut().enumerate())
                .filter(|(core, lines)| waits[*core] < ZEROES && lines.front().is_some_and(|(at, _)| *at <= now));
            let Some((core, lines)) = due.min_by_key(|(_, lines)| lines[0].0) else { return };
            if self.zeroed_until > now as f64 {
                return;
            }
            if let Some((_, line)) = lines.pop_front() {
                self.zeroed_until = self.zeroed_until.max(now as f64 - 1.0) + self.line_cycles;
                self.shared.events.after(self.controller, Event::Write(line, Writer::Zeroing(core)));
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let Reference { cores, shared, dram, zeroes_wait, .. } = self;
        let Shared { caches, events, .. } = shared;
        let now = events.now;
        match event {
            Event::Arrive(cache, request) => caches.arrive(cache, request, events),
            Event::Fill(cache, line) => {
                let is_last = cache == caches.llc();
                let sides = cores[0].mmu.sides.as_mut().filter(|_| is_last);
                caches.fill(cache, sides.map_or(line, |sides| sides.filled(line)), events);
            }
            Event::Read(line) => dram.read(line, caches.llc(), events),
            Event::Write(line, writer) => match writer {
                _ if dram.write(cores[0].mmu.sides.as_ref().map_or(line, |sides| sides.written(line)), writer) => {}
                Writer::Llc => caches.evicted_waits(),
                Writer::Zeroing(core) => zeroes_wait[core] += 1,
            },
            Event::Queued(Writer::Llc) => caches.evicted_is_queued(events),
            Event::Queued(Writer::Zeroing(core)) => zeroes_wait[core] -= 1,
            Event::Ready(Waiter::Core(core, id)) => cores[core].ready(id, now),
            Event::Ready(Waiter::Front(core)) => cores[core].front.fetching = false,
            Event::Ready(Waiter::Walker(core, walker)) => cores[core].walk_step(walker, shared),
            Event::Ready(Waiter::MemoryTlb(core, page)) => cores[core].looked_up(page, shared),
            Event::Ready(Waiter::Cache(_) | Waiter::None) => {}
            Event::Forwarded(core, id) => cores[core].forwarded(id, now),
            Event::Resolved(core, id) => cores[core].resolved(id, now),
            Event::Translated(core, part, at) => cores[core].translated(part, at, shared),
            Event::SecondTlb(core, page) => cores[core].second_tlb(page, shared),
            Event::Predicted(core, va) => cores[core].predict(va, shared),
            Event::Speculate(cache, line) => caches.speculate(cache, line, events),
            Event::RestSegs(core, page) => cores[core].begin_rest_segs(page, shared),
            Event::RestSegsLooked(core, page) => cores[core].rest_segs_looked(page, shared),
            Event::Ready(Waiter::RestSegs(core, line)) => cores[core].rest_segs_arrived(line, shared),
            Event::Ranges(core, page) => cores[core].ranges_looked(page, shared),
            Event::Ready(Waiter::Ranges(core)) => cores[core].ranges_arrived(shared),
            Event::FrontSide(core, page) => cores[core].front_side(page, shared),
            Event::BackSide(line) => cores[0].mmu.begin_back_side(line, events),
            Event::Evaluated(core, walker) => cores[core].evaluated(walker, shared),
            Event::WalkBegins(core, walker) => cores[core].prefetch_walk(walker, shared),
            Event::WalkCaches(core, walker) => cores[core].walk_caches(walker, shared),
        }
    }
}
