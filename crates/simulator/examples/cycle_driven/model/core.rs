//! A core with its private parts, and how its accesses go through them.

use super::caches::{Caches, L1D, L1I, L2};
use super::dram::DramChoices;
use super::events::{Event, Events, Part, Request, Waiter};
use super::front::{Front, Need};
use super::mmu::{Answer, Mmu};
use super::window::Window;
use ambulator_base::{AccessKind, Asid, PhysAddr, ProcessId, RecordKind, VirtAddr, VmEvent};
use ambulator_mmu::WalkEntry;
use ambulator_os::Kernel;

/// Rules that an experiment can switch off, each alone: what the transaction-level model has otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Stores request their lines as `core.store_request` says. Otherwise they request them when they are
    /// translated.
    pub store_requests: bool,
    /// Stores commit when they are translated; otherwise without waiting for it.
    pub stores_await_translation: bool,
    /// Loads and stores take ports of the L1D cache: two loads and a store a cycle.
    pub ports: bool,
    /// The front end fetches ahead of dispatch.
    pub fetch_ahead: bool,
    /// Lines of code are fetched.
    pub fetches: bool,
    /// Rules of the memory controller.
    pub dram: DramChoices,
}

impl Choices {
    /// As in real machines.
    pub const FAITHFUL: Choices = Choices {
        store_requests: true,
        stores_await_translation: true,
        ports: true,
        fetch_ahead: true,
        fetches: true,
        dram: DramChoices { first_ready: true, batches: true, turn_around: true, rrd: true },
    };
}

/// Loads that begin in a cycle, and stores of which an address is computed, or that write.
const LOAD_PORTS: usize = 2;
const STORE_PORTS: usize = 1;
/// The number that the front end's fetches have at the MMU.
const FETCH: u64 = u64::MAX;

/// What the cores share.
pub struct Shared {
    pub events: Events,
    pub caches: Caches,
    pub kernel: Kernel,
}

/// One core.
pub struct Core {
    number: usize,
    choices: Choices,
    perfect: bool,
    advises_huge: bool,
    asks_at_commit: bool,
    width: u32,
    forward_latency: u64,
    mispredict_penalty: u64,
    pub process: ProcessId,
    pub asid: Asid,
    generation: u64,
    pub front: Front,
    pub window: Window,
    pub mmu: Mmu,
    woken: Vec<Answer>,
    /// Page faults served since the counters were reset.
    pub faults: u64,
}

/// The settings of a core besides its parts.
pub struct CoreSettings {
    pub perfect: bool,
    pub advises_huge: bool,
    /// Stores request their lines when they commit.
    pub asks_at_commit: bool,
    pub width: u32,
    pub forward_latency: u64,
    pub mispredict_penalty: u64,
}

impl Core {
    /// A core that runs a process.
    pub fn new(
        number: usize,
        choices: Choices,
        settings: &CoreSettings,
        process: ProcessId,
        kernel: &Kernel,
        (front, window, mmu): (Front, Window, Mmu),
    ) -> Core {
        Core {
            number,
            choices,
            perfect: settings.perfect,
            advises_huge: settings.advises_huge,
            asks_at_commit: settings.asks_at_commit && choices.store_requests,
            width: settings.width,
            forward_latency: settings.forward_latency,
            mispredict_penalty: settings.mispredict_penalty,
            process,
            asid: kernel.asid(process),
            generation: kernel.registers_generation(process),
            front,
            window,
            mmu,
            woken: Vec::new(),
            faults: 0,
        }
    }

    /// Whether the program has ended and everything of it is done.
    pub fn has_ended(&self) -> bool {
        self.front.ended && self.front.queue.is_empty() && self.window.is_empty()
    }

    /// One cycle of the core's pipeline.
    pub fn cycle(&mut self, shared: &mut Shared) {
        let now = shared.events.now;
        self.window.commit(now);
        self.request_senior(shared);
        self.window.drain();
        let mut budget = self.width;
        while let Some(need) = self.front.fetch(now, &mut budget, &shared.kernel) {
            match need {
                Need::Line(pc) => self.fetch_line(pc, shared),
                barrier => self.front.barrier = Some(barrier),
            }
        }
        if self.front.barrier.is_some() && self.front.queue.is_empty() && self.window.is_dry() && self.mmu.is_idle() {
            self.run_kernel(shared);
        }
        self.window.dispatch(now, &mut self.front.queue);
        self.issue_ready(shared);
    }

    /// The kernel serves what the front end waits for. The core pays for it.
    fn run_kernel(&mut self, shared: &mut Shared) {
        let Shared { kernel, events, .. } = shared;
        match self.front.barrier.take() {
            Some(Need::Event(event)) => serve_event(kernel, self.process, &event, self.advises_huge),
            Some(Need::Fault(va, kind)) => {
                self.faults += 1;
                kernel.fault(self.process, va, kind).unwrap_or_else(|e| panic!("the kernel model failed: {e}"));
            }
            _ => {}
        }
        let cycles = kernel.ledger.take();
        self.front.stopped = self.front.stopped.max(events.now + cycles);
        self.load_registers(&shared.kernel);
    }

    /// Loads the registers of the page table, if they have changed.
    pub fn load_registers(&mut self, kernel: &Kernel) {
        let generation = kernel.registers_generation(self.process);
        if self.generation != generation {
            self.generation = generation;
            let process = self.process;
            let [table, companion, intermediate] = [
                kernel.registers(process),
                kernel.companion_registers(process),
                kernel.intermediate_registers(process),
            ];
            self.mmu.load_registers(&table, &companion, &intermediate);
        }
    }

    /// Fetches a line of code. A hit in the first-level TLB and cache is part of the pipeline.
    fn fetch_line(&mut self, pc: VirtAddr, shared: &mut Shared) {
        self.front.fetching = true;
        let at = if self.perfect {
            let state = shared.kernel.page_state(self.process, pc);
            Some(state.frame().start().offset(pc.0 & 0xfff))
        } else {
            self.mmu.translate((FETCH, pc.0 as usize), pc, AccessKind::Fetch, &mut shared.events)
        };
        let Some(at) = at else { return };
        if shared.caches.uses_at_once(Caches::of_core(self.number, L1I), at.line()) {
            self.front.fetching = false;
        } else {
            self.request_line(pc, at, shared);
        }
    }

    fn request_line(&mut self, pc: VirtAddr, at: PhysAddr, shared: &mut Shared) {
        let waiter = Waiter::Front(self.number);
        let request = Request { line: at.line(), write: false, pc: pc.0, at: at.0, prefetch: false, waiter };
        shared.caches.request(Caches::of_core(self.number, L1I), request, &mut shared.events);
    }

    /// Committed stores request their lines, as ports allow.
    fn request_senior(&mut self, shared: &mut Shared) {
        let ports = if self.choices.ports { STORE_PORTS } else { usize::MAX };
        for _ in 0..ports {
            let Some((id, line)) = self.window.senior.pop_front() else { break };
            if self.asks_at_commit {
                self.access((id, line), shared);
            }
        }
    }

    /// Issues the records whose operands are ready, the first first, as ports allow.
    fn issue_ready(&mut self, shared: &mut Shared) {
        let (mut loads, mut stores) = (0, 0);
        let mut later = std::collections::VecDeque::new();
        while let Some(id) = self.window.ready.pop_front() {
            let (taken, ports) = match self.window.op(id).record.kind {
                RecordKind::Load => (&mut loads, LOAD_PORTS),
                RecordKind::Store => (&mut stores, STORE_PORTS),
                _ => {
                    self.issue(id, shared);
                    continue;
                }
            };
            if self.choices.ports && *taken == ports {
                later.push_back(id);
            } else {
                *taken += 1;
                self.issue(id, shared);
            }
        }
        self.window.ready = later;
    }

    /// Issues a record whose address operands are ready.
    fn issue(&mut self, id: u64, shared: &mut Shared) {
        let now = shared.events.now;
        let op = self.window.op(id);
        op.issued = now;
        if !op.record.is_data() {
            shared.events.after(1, Event::Resolved(self.number, id));
            return;
        }
        let lines: Vec<VirtAddr> = (0..op.lines).map(|line| op.va(line)).collect();
        let store = op.record.kind == RecordKind::Store;
        if store {
            for load in std::mem::take(&mut op.forwards) {
                shared.events.after(self.forward_latency, Event::Forwarded(self.number, load));
            }
            self.window.value(id);
            if !self.choices.stores_await_translation {
                self.window.finish(id, now + 1);
            }
        }
        let kind = if store { AccessKind::Store } else { AccessKind::Load };
        for (line, va) in lines.into_iter().enumerate() {
            let at = if self.perfect {
                let state = shared.kernel.page_state(self.process, va);
                Some(state.frame().start().offset(va.0 & 0xfff))
            } else {
                self.mmu.translate((id, line), va, kind, &mut shared.events)
            };
            if let Some(at) = at {
                self.translated((id, line), at, shared);
            }
        }
    }

    /// The translation of a line of an access has arrived.
    pub fn translated(&mut self, (id, line): Part, at: PhysAddr, shared: &mut Shared) {
        if id == FETCH {
            self.request_line(VirtAddr(line as u64), at, shared);
            return;
        }
        let now = shared.events.now;
        let op = self.window.op(id);
        op.at[line] = at;
        op.untranslated -= 1;
        if op.record.kind == RecordKind::Store {
            let (done, complete) = (now.max(op.issued + 1), op.untranslated == 0);
            if !self.asks_at_commit {
                self.access((id, line), shared);
            }
            if complete && self.choices.stores_await_translation {
                self.window.finish(id, done);
            }
            if complete && self.window.op(id).committed {
                self.window.ask_senior(id);
            }
            return;
        }
        match self.window.older_store(id) {
            Some(store) if line == 0 => {
                let store = self.window.op(store);
                if store.issued > now {
                    store.forwards.push(id);
                } else {
                    shared.events.after(self.forward_latency, Event::Forwarded(self.number, id));
                }
            }
            Some(_) => {}
            None => self.access((id, line), shared),
        }
    }

    /// Sends a line of a load or of a store to the L1 cache.
    fn access(&mut self, (id, line): Part, shared: &mut Shared) {
        let op = self.window.op(id);
        let write = op.record.kind == RecordKind::Store;
        let (pc, at) = (op.record.pc.0, op.at[line]);
        let waiter = Waiter::Core(self.number, id);
        let request = Request { line: at.line(), write, pc, at: at.0, prefetch: false, waiter };
        shared.caches.request(Caches::of_core(self.number, L1D), request, &mut shared.events);
    }

    /// A line of a load or of a store has arrived.
    pub fn ready(&mut self, id: u64, now: u64) {
        let Some(op) = self.window.find(id) else { return };
        op.outstanding = op.outstanding.saturating_sub(1);
        if op.outstanding == 0 && op.record.kind == RecordKind::Load {
            self.window.value(id);
            self.window.finish(id, now);
        }
    }

    /// An older store gives a load its value.
    pub fn forwarded(&mut self, id: u64, now: u64) {
        self.window.op(id).outstanding = 1;
        self.ready(id, now);
    }

    /// A branch is resolved.
    pub fn resolved(&mut self, id: u64, now: u64) {
        self.window.value(id);
        self.window.finish(id, now);
        if self.window.op(id).mispredicted {
            self.front.stopped = now + self.mispredict_penalty;
        }
    }

    /// The L2 TLB has looked a page up.
    pub fn second_tlb(&mut self, page: u64, shared: &mut Shared) {
        for load in self.mmu.second_tlb(page, &shared.kernel.memory, &mut shared.events, &mut self.woken) {
            self.send_walk(load, shared);
        }
        self.wake(shared);
    }

    /// A page is looked up in RestSegs.
    pub fn begin_rest_segs(&mut self, page: u64, shared: &mut Shared) {
        self.mmu.begin_rest_segs(page, &shared.kernel.memory, &mut shared.events);
    }

    /// The caches of the RestSeg walker have answered for a page.
    pub fn rest_segs_looked(&mut self, page: u64, shared: &mut Shared) {
        for load in self.mmu.rest_segs_looked(page) {
            self.send_walk(load, shared);
        }
        self.end_rest_segs(page, shared);
    }

    /// A line of RestSegs has arrived.
    pub fn rest_segs_arrived(&mut self, line: u64, shared: &mut Shared) {
        for page in self.mmu.rest_segs_arrived(line) {
            self.end_rest_segs(page, shared);
        }
    }

    fn end_rest_segs(&mut self, page: u64, shared: &mut Shared) {
        let Shared { kernel, events, .. } = shared;
        let update = self.mmu.end_rest_segs(page, &mut kernel.memory, events, &mut self.woken);
        if let Some(update) = update {
            self.send_walk(update, shared);
        }
        self.wake(shared);
    }

    /// A line of a TLB in memory has arrived.
    pub fn looked_up(&mut self, page: u64, shared: &mut Shared) {
        let state = shared.kernel.page_state(self.process, VirtAddr(page << 12));
        self.mmu.looked_up(page, state.frame().start().0, &mut self.woken);
        self.wake(shared);
    }

    /// Lines that are predicted for an address are fetched into the L2.
    pub fn predict(&mut self, va: VirtAddr, shared: &mut Shared) {
        for line in self.mmu.predictions(va) {
            shared.caches.send_speculation(Caches::of_core(self.number, L2), line, &mut shared.events);
        }
    }

    /// A walk begins, and prefetches its last entries into the L2.
    pub fn prefetch_walk(&mut self, walker: usize, shared: &mut Shared) {
        for request in self.mmu.prefetches(walker, &shared.kernel.memory) {
            shared.caches.request(Caches::of_core(self.number, L2), request, &mut shared.events);
        }
    }

    /// The page-walk caches of a walk have answered.
    pub fn walk_caches(&mut self, walker: usize, shared: &mut Shared) {
        let Shared { kernel, events, .. } = shared;
        for load in self.mmu.walk_caches(walker, &kernel.memory, events) {
            self.send_walk(load, shared);
        }
    }

    /// Midgard's second-level look-aside buffer has looked a page up.
    pub fn front_side(&mut self, page: u64, shared: &mut Shared) {
        let sides = self.mmu.sides.as_mut().expect("Midgard's buffers");
        for Answer { part, at } in sides.second(page, &shared.kernel.memory) {
            self.translated(part, at, shared);
        }
    }

    /// A walker has evaluated a model.
    pub fn evaluated(&mut self, walker: usize, shared: &mut Shared) {
        let Shared { kernel, events, .. } = shared;
        if let Some(load) = self.mmu.evaluated(walker, &kernel.memory, events) {
            self.send_walk(load, shared);
        }
    }

    /// The range TLB has looked a page up.
    pub fn ranges_looked(&mut self, page: u64, shared: &mut Shared) {
        self.mmu.ranges_looked(page, &mut self.woken);
        self.wake(shared);
    }

    /// A line of the range table has arrived.
    pub fn ranges_arrived(&mut self, shared: &mut Shared) {
        for load in self.mmu.ranges_arrived(&shared.kernel.memory) {
            self.send_walk(load, shared);
        }
    }

    /// A line that a walker loads has arrived.
    pub fn walk_step(&mut self, walker: usize, shared: &mut Shared) {
        let Shared { kernel, events, .. } = shared;
        for next in self.mmu.walk_step(walker, &mut kernel.memory, events, &mut self.woken) {
            self.send_walk(next, shared);
        }
        self.wake(shared);
    }

    fn send_walk(&mut self, request: Request, shared: &mut Shared) {
        if let Some(sides) = &self.mmu.sides {
            // Walkers stand at the last level.
            let (llc, nearer) = (shared.caches.llc(), sides.settings.nearer);
            shared.caches.request_nearer(llc, request, nearer, &mut shared.events);
            return;
        }
        let cache = match self.mmu.entry {
            WalkEntry::L1 => Caches::of_core(self.number, L1D),
            WalkEntry::L2 => Caches::of_core(self.number, L2),
            WalkEntry::Llc => shared.caches.llc(),
        };
        shared.caches.request(cache, request, &mut shared.events);
    }

    /// Continues the accesses whose translation has arrived.
    fn wake(&mut self, shared: &mut Shared) {
        for Answer { part, at } in std::mem::take(&mut self.woken) {
            self.translated(part, at, shared);
        }
    }
}

/// The kernel serves an event of a process.
///
/// # Panics
/// If the program has several processes, or if the kernel model fails.
pub fn serve_event(kernel: &mut Kernel, process: ProcessId, event: &VmEvent, advises_huge: bool) {
    match event {
        VmEvent::RegionBegin | VmEvent::RegionEnd => return,
        // Threads of the one process take turns.
        VmEvent::Switch { process: ProcessId(0), .. } => return,
        VmEvent::Exit { .. } => return,
        VmEvent::Fork { .. } | VmEvent::Switch { .. } => panic!("the reference's programs have one process"),
        _ => {}
    }
    let failed = |e| panic!("the kernel model failed: {e}");
    kernel.event(process, event).unwrap_or_else(failed);
    if let VmEvent::Map { start, len, kind: ambulator_base::MapKind::Anonymous, .. } = *event
        && advises_huge
        && len >= ambulator_base::PageSize::SIZE_2M.bytes()
    {
        let advice = ambulator_base::Advice::Huge;
        kernel.event(process, &VmEvent::Advise { start, len, advice }).unwrap_or_else(failed);
    }
}
