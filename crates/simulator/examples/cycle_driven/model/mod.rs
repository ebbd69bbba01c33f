//! A cycle-driven model of one core, its MMU, caches and main memory: every part is stepped in every cycle,
//! in the order of time. It is the reference for the transaction-level timing of the simulator, so it is
//! plain rather than fast. It is built from the same specs and reads the same streams, and the same kernel
//! lays out the same page tables in the same frames.
//!
//! It omits instruction fetch, prefetchers, lookasides, speculation, page faults in the measured region, and
//! multiple cores.

mod caches;
mod dram;
mod events;
mod mmu;
mod window;

use ambulator_base::{Batch, ProcessId, Record, RecordKind, RecordSource, VmEvent};
use ambulator_hardware::DramModel;
use ambulator_memory::{BuddyAllocator, PhysicalMemory};
use ambulator_os::Kernel;
use ambulator_simulator::spec::Spec;
use caches::Caches;
use dram::Dram;
use events::{Event, Events, Request, Waiter};
use mmu::{Answer, Mmu};
use std::time::Instant;
use window::Window;

/// Choices by which the reference is more faithful than the transaction-level model, or as simple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Requests whose row is open precede older ones of their bank.
    pub first_ready: bool,
    /// Reads precede writes, which wait and drain in batches.
    pub reads_first: bool,
    /// The bus turns around between reads and writes.
    pub turn_around: bool,
    /// A store requests its line when it commits, and commits when it is translated. Otherwise it requests
    /// its line when it is translated, and commits without waiting for the translation.
    pub stores_commit_first: bool,
}

impl Choices {
    /// As in real machines.
    pub const FAITHFUL: Choices =
        Choices { first_ready: true, reads_first: true, turn_around: true, stores_commit_first: true };
    /// As in the transaction-level model.
    pub const SIMPLE: Choices =
        Choices { first_ready: false, reads_first: false, turn_around: false, stores_commit_first: false };
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Instructions committed in the measured region.
    pub instructions: u64,
    /// Core cycles of the measured region.
    pub cycles: u64,
    /// Page walks.
    pub walks: u64,
    /// Mean cycles of a page walk, from its start on a walker.
    pub walk_latency: f64,
    /// Seconds of the sim host for warm-up and measured region.
    pub sim_host_seconds: f64,
    /// Instructions of warm-up and measured region.
    pub all_instructions: u64,
}

impl Measured {
    /// Instructions per cycle.
    pub fn ipc(&self) -> f64 {
        self.instructions as f64 / self.cycles.max(1) as f64
    }
}

/// The program, as the core's front end reads it.
struct Feed {
    source: Box<dyn RecordSource>,
    batch: Batch,
    at: usize,
    event: usize,
    ended: bool,
}

impl Feed {
    /// The next record. The kernel handles events between records, untimed.
    fn next(&mut self, kernel: &mut Kernel, process: ProcessId) -> Option<Record> {
        loop {
            if self.ended {
                return None;
            }
            if let Some((at, event)) = self.batch.events.get(self.event)
                && *at as usize <= self.at
            {
                self.event += 1;
                match event {
                    VmEvent::RegionEnd => self.ended = true,
                    event => kernel.event(process, event).unwrap_or_else(|e| panic!("the kernel model failed: {e}")),
                }
            } else if let Some(record) = self.batch.records.get(self.at) {
                self.at += 1;
                return Some(*record);
            } else {
                (self.at, self.event) = (0, 0);
                let more =
                    self.source.fill(&mut self.batch).unwrap_or_else(|e| panic!("the program's stream ended: {e}"));
                self.ended = !more;
            }
        }
    }
}

/// The machine.
pub struct Reference {
    choices: Choices,
    perfect: bool,
    forward_latency: u64,
    events: Events,
    window: Window,
    mmu: Mmu,
    caches: Caches,
    dram: Dram,
    kernel: Kernel,
    process: ProcessId,
    feed: Feed,
    woken: Vec<Answer>,
}

impl Reference {
    /// The machine of a spec with one core and a radix table, after the program's set-up.
    ///
    /// # Panics
    /// If the spec has several cores or another table, if its memory cannot be allocated, or if the program's
    /// stream is damaged.
    pub fn new(spec: &Spec, source: Box<dyn RecordSource>, choices: Choices) -> Reference {
        assert!(
            spec.machine.cores == 1 && spec.design.page_table == "radix",
            "the reference has one core and a radix page table"
        );
        let parts = ambulator_designs::catalogue().build(&spec.choice());
        let frames = BuddyAllocator::new(&spec.memory.buddy, spec.memory.bytes / ambulator_base::FRAME_BYTES);
        let memory = PhysicalMemory::new(spec.memory.bytes).unwrap_or_else(|e| panic!("`memory.bytes`: {e}"));
        let mut kernel =
            Kernel::new(&spec.kernel, spec.costs.clone(), memory, frames, parts.translations, parts.placement);
        let process = kernel.spawn().unwrap_or_else(|e| panic!("{e}"));
        let mut feed = Feed { source, batch: Batch::default(), at: 0, event: 0, ended: false };
        // Set-up is everything before the first record.
        let first = feed.next(&mut kernel, process);
        feed.at -= usize::from(first.is_some());
        // A fixed latency includes the controller's.
        let controller_ns = if spec.dram.model == DramModel::Fixed { 0.0 } else { spec.dram.controller_ns };
        let controller = (controller_ns * spec.machine.clock_mhz as f64 / 1000.0).round() as u64;
        Reference {
            choices,
            perfect: spec.mmu.perfect,
            forward_latency: spec.core.forward_latency,
            events: Events::new(),
            window: Window::new(&spec.core),
            mmu: Mmu::new(&spec.mmu, &spec.mmu.pwc, &kernel.registers(process)),
            caches: Caches::new(&spec.hierarchy(), controller),
            dram: Dram::new(&spec.dram, spec.machine.clock_mhz, choices),
            kernel,
            process,
            feed,
            woken: Vec::new(),
        }
    }

    /// Runs `warmup` instructions, then measures `instructions`, or as many as the program has.
    pub fn run(mut self, warmup: u64, instructions: u64) -> Measured {
        let began = Instant::now();
        while self.window.committed < warmup && self.cycle() {}
        let (from, at) = (self.window.committed, self.events.now);
        self.mmu.counts = Default::default();
        while self.window.committed < from + instructions && self.cycle() {}
        let mmu = self.mmu.counts;
        Measured {
            instructions: self.window.committed - from,
            cycles: self.events.now - at,
            walks: mmu.walks,
            walk_latency: mmu.walk_cycles as f64 / mmu.walks.max(1) as f64,
            sim_host_seconds: began.elapsed().as_secs_f64(),
            all_instructions: self.window.committed,
        }
    }

    /// One cycle of every part; false when the program has ended.
    fn cycle(&mut self) -> bool {
        while let Some(event) = self.events.due() {
            self.happen(event);
        }
        self.dram.step(&mut self.events);
        let now = self.events.now;
        self.window.commit(now);
        while let Some(id) = self.window.senior.pop_front() {
            if self.choices.stores_commit_first {
                self.access(id);
            }
        }
        self.window.drain();
        let (kernel, process, feed) = (&mut self.kernel, self.process, &mut self.feed);
        self.window.dispatch(now, || feed.next(kernel, process));
        while let Some(id) = self.window.ready.pop_front() {
            self.issue(id);
        }
        self.events.now += 1;
        !(self.feed.ended && self.window.is_empty())
    }

    fn happen(&mut self, event: Event) {
        let events = &mut self.events;
        match event {
            Event::Arrive(level, request) => self.caches.arrive(level, request, events),
            Event::Fill(level, line) => self.caches.fill(level, line, events),
            Event::Memory(line, write) => self.dram.arrive(line, write, events),
            Event::Ready(Waiter::Core(id)) => self.ready(id),
            Event::Ready(Waiter::Walker(walker)) => {
                let next = self.mmu.walk_step(walker, &mut self.kernel.memory, events, &mut self.woken);
                self.send_walk(next);
            }
            Event::Ready(_) => {}
            Event::Resolved(id) => {
                self.window.value(id);
                self.window.finish(id, self.events.now);
                if self.window.op(id).mispredicted {
                    self.window.redirect(self.events.now);
                }
            }
            Event::Translated(id, at) => self.woken.push(Answer { id, at }),
            Event::SecondTlb(page) => {
                self.mmu.second_tlb(page, events, &mut self.woken);
            }
            Event::WalkCaches(walker) => {
                let first = self.mmu.walk_caches(walker);
                self.send_walk(Some(first));
            }
        }
        self.wake();
    }

    fn send_walk(&mut self, request: Option<Request>) {
        if let Some(request) = request {
            self.caches.request(self.mmu.entry, request, &mut self.events);
        }
    }

    /// Continues the accesses whose translation has arrived.
    fn wake(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        for Answer { id, at } in woken.drain(..) {
            self.translated(id, at);
        }
        self.woken = woken;
    }

    /// Issues a record whose address operands are ready.
    fn issue(&mut self, id: u64) {
        let now = self.events.now;
        let op = self.window.op(id);
        op.issued = now;
        let (va, kind) = (op.record.va, op.record.kind);
        let store = kind == RecordKind::Store;
        if !op.record.is_data() {
            self.events.after(1, Event::Resolved(id));
            return;
        }
        if store {
            for load in std::mem::take(&mut op.forwards) {
                self.events.after(self.forward_latency, Event::Ready(Waiter::Core(load)));
            }
            self.window.value(id);
            if !self.choices.stores_commit_first {
                self.window.finish(id, now + 1);
            }
        }
        let at = if self.perfect {
            let state = self.kernel.page_state(self.process, va);
            Some(state.frame().start().offset(va.0 & 0xfff))
        } else {
            self.mmu.translate(id, va, store, &mut self.events)
        };
        if let Some(at) = at {
            self.translated(id, at);
        }
    }

    fn translated(&mut self, id: u64, at: ambulator_base::PhysAddr) {
        let now = self.events.now;
        let op = self.window.op(id);
        op.at = at;
        if op.record.kind == RecordKind::Store {
            if self.choices.stores_commit_first {
                let done = now.max(op.issued + 1);
                self.window.finish(id, done);
            } else {
                self.access(id);
            }
            return;
        }
        match self.window.older_store(id) {
            Some(store) if self.window.op(store).issued > now => self.window.op(store).forwards.push(id),
            Some(_) => self.events.after(self.forward_latency, Event::Ready(Waiter::Core(id))),
            None => self.access(id),
        }
    }

    /// Sends a load or a store to the L1 cache.
    fn access(&mut self, id: u64) {
        let op = self.window.op(id);
        let request =
            Request { line: op.at.line(), write: op.record.kind == RecordKind::Store, waiter: Waiter::Core(id) };
        self.caches.request(0, request, &mut self.events);
    }

    /// A load's value, or a store's line, has arrived.
    fn ready(&mut self, id: u64) {
        let op = self.window.op(id);
        if op.record.kind == RecordKind::Store {
            op.owned = true;
        } else {
            self.window.value(id);
            self.window.finish(id, self.events.now);
        }
    }
}
