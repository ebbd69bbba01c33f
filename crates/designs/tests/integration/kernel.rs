//! Every design of the catalogue under the kernel model: what walks and lookasides find is what the kernel
//! knows, after every kind of event. A design that is registered is covered; nothing here lists them.

use ambulator_base::{
    AccessKind, Advice, Asid, Cycle, FRAME_BYTES, MapKind, ProcessId, Protection, Random, VirtAddr, VmEvent,
};
use ambulator_conformance::TestPort;
use ambulator_designs::catalogue;
use ambulator_designs::utopia::{RestSegSpec, UtopiaSpec};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_mmu::{
    Bus, FinishedWalk, FrontSide, Invalidation, Lookaside, Speculator, TableRegisters, Translation, Walk, WalkOutcome,
    Walker,
};
use ambulator_os::{CostTable, Kernel, KernelSpec, LedgerCause, OsError, PageSizePolicy, Shootdown};
use ambulator_sockets::{Choice, Socket};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;

const START: u64 = 0x5555_4000_0000;
const LEN: u64 = 24 << 20;
const MEMORY: u64 = 256 << 20;

struct Machine {
    kernel: Kernel,
    walker: Box<dyn Walker>,
    /// The structure next to the L2 TLB, where the design has one.
    lookaside: Option<Box<dyn Lookaside>>,
    speculator: Option<Box<dyn Speculator>>,
    /// What translates before the caches.
    front: Option<Box<dyn FrontSide>>,
    /// Pages that it finds may be in no page table.
    holds_pages: bool,
    /// There is no second one next to it, which caches what the page table has.
    alone: bool,
    /// How often it answered.
    answered: u64,
    random: Random,
    now: u64,
}

impl Machine {
    fn new(choice: &Choice, policy: PageSizePolicy, seed: u64) -> Machine {
        Machine::with_spec(choice, &KernelSpec { page_size_policy: policy, ..KernelSpec::default() }, seed)
    }

    fn with_spec(choice: &Choice, spec: &KernelSpec, seed: u64) -> Machine {
        let catalogue = catalogue();
        assert_eq!(catalogue.validate("design", choice), vec![]);
        let mut parts = catalogue.build(choice);
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
        assert!(parts.boot.into_iter().all(|boot| boot(&mut frames)));
        let kernel = Kernel::new(
            spec,
            CostTable::default(),
            PhysicalMemory::new(MEMORY).unwrap(),
            frames,
            parts.translations,
            parts.placement,
        );
        Machine {
            kernel,
            walker: (parts.new_walker)(0),
            lookaside: parts.new_lookaside.map(|mut new| new(0)),
            speculator: parts.new_speculator.map(|mut new| new(0)),
            front: parts.new_front_side.map(|mut new| new(0).0),
            holds_pages: choice.design.holds(Socket::Lookaside, "utopia"),
            alone: choice.design.second_lookaside == "none",
            answered: 0,
            random: Random::new(seed),
            now: 0,
        }
    }

    /// What the simulator does after each action of the kernel.
    fn shoot_down(&mut self) {
        let mut shootdowns: Vec<Shootdown> = Vec::new();
        self.kernel.take_shootdowns(&mut shootdowns);
        for shootdown in shootdowns {
            let what = match shootdown {
                Shootdown { asid, page: Some(page) } => Invalidation::Page { asid, page },
                Shootdown { asid, page: None } => Invalidation::Asid(asid),
            };
            // The walker behind an intermediate address space knows its addresses: the whole address space
            // goes.
            self.walker.invalidate(match what {
                Invalidation::Page { asid, .. } if self.front.is_some() => Invalidation::Asid(asid),
                what => what,
            });
            if let Some(lookaside) = &mut self.lookaside {
                lookaside.invalidate(what);
            }
            if let Some(speculator) = &mut self.speculator {
                speculator.invalidate(what);
            }
            if let Some(front) = &mut self.front {
                front.invalidate(what);
            }
        }
    }

    fn event(&mut self, process: ProcessId, event: &VmEvent) {
        or_end(self.kernel.event(process, event));
        self.shoot_down();
    }

    /// Where the page table has `va`: there, unless an intermediate address space lies between. As hardware
    /// finds it, which is what the bytes say.
    fn behind(&mut self, process: ProcessId, va: VirtAddr) -> Option<VirtAddr> {
        let Some(front) = &mut self.front else { return Some(va) };
        let registers = TableRegisters(self.kernel.intermediate_registers(process));
        front.load_registers(self.kernel.asid(process), &registers);
        let located = front.locate(&registers, va, &self.kernel.memory);
        let mut port = TestPort::new(&mut self.kernel.memory, 50);
        let named = front.translate(va, Cycle(self.now), &mut port).map(|(at, _)| at);
        assert_eq!(named, located, "{va:?} before the caches");
        named.map(|at| VirtAddr(at.0))
    }

    fn walk(&mut self, process: ProcessId, va: VirtAddr, access: AccessKind) -> Walk {
        let asid: Asid = self.kernel.asid(process);
        let registers = TableRegisters(self.kernel.registers(process));
        self.walker.load_registers(asid, &registers);
        self.now += 1000;
        let Some(behind) = self.behind(process, va) else {
            return Walk { outcome: WalkOutcome::NotMapped, ready: Cycle(self.now), accesses: 0 };
        };
        let mut port = TestPort::new(&mut self.kernel.memory, 50);
        let mut walk = self.walker.walk(behind, access, Cycle(self.now), &mut port);
        if let (WalkOutcome::Mapped(found), Some(speculator)) = (&walk.outcome, &mut self.speculator) {
            speculator.load_registers(asid, &registers);
            let guess = speculator.speculate(va, va, access, Cycle(self.now), Bus::default());
            let candidates = guess.data[..usize::from(guess.data_count)].iter();
            for at in candidates.chain(&guess.table[..usize::from(guess.table_count)]) {
                assert!(at.0 < MEMORY, "{at:?} was guessed for {va:?}, beyond the memory");
            }
            speculator.learn(va, &guess, found, self.walker.leaf_pte_address());
        }
        if let (WalkOutcome::Mapped(found), true) = (&mut walk.outcome, behind != va) {
            // Named by its address there: by how far the page reaches here, the frame is the same.
            assert_eq!(behind.0 & (found.size.bytes() - 1), va.0 & (found.size.bytes() - 1), "{va:?}");
        }
        walk
    }

    /// What the lookaside holds is what the kernel knows; it may hold less, and fewer rights. Returns what it
    /// found where no walk may begin before it answers: such a page is in no page table.
    fn look_aside(&mut self, process: ProcessId, va: VirtAddr, access: AccessKind) -> Option<Translation> {
        let lookaside = self.lookaside.as_mut()?;
        let registers = TableRegisters(self.kernel.companion_registers(process));
        lookaside.load_registers(self.kernel.asid(process), &registers);
        self.now += 1000;
        let truth = self.kernel.page_state(process, va);
        let mut port = TestPort::new(&mut self.kernel.memory, 50);
        let answer = lookaside.probe(va, access, Cycle(self.now), &mut port);
        if let Some(found) = answer.found {
            assert!(truth.present(), "{va:?} is not there, and the lookaside has {found:?}");
            assert_eq!(found.physical(va).pfn(), truth.frame(), "{va:?}");
            assert!(!found.writable || truth.writable(), "{va:?} may not be written");
            self.answered += 1;
        }
        answer.found.filter(|_| answer.holds_walk && self.holds_pages)
    }

    /// Walks against the state of the kernel.s pages, faults where there is no page.
    fn access(&mut self, process: ProcessId, va: VirtAddr, access: AccessKind) {
        for _ in 0..3 {
            let held = self.look_aside(process, va, access);
            let walk = self.walk(process, va, access);
            if let (WalkOutcome::Mapped(found), Some(lookaside)) = (&walk.outcome, &mut self.lookaside) {
                let mut port = TestPort::new(&mut self.kernel.memory, 50);
                let entry = self.walker.leaf_pte_address();
                let ready = Cycle(self.now);
                lookaside.refill(va, &FinishedWalk { found: *found, entry, dram_loads: 1, ready }, &mut port);
            }
            let truth = self.kernel.page_state(process, va);
            let mut allowed = false;
            assert!(
                held.is_none() || !self.alone || walk.outcome == WalkOutcome::NotMapped,
                "{va:?} is in two segments"
            );
            let held = held.filter(|_| walk.outcome == WalkOutcome::NotMapped);
            if let Some(found) = held {
                assert_eq!((found.size, found.writable), (truth.size(), truth.writable()), "{va:?}");
            }
            match held.map_or(walk.outcome, WalkOutcome::Mapped) {
                WalkOutcome::Mapped(found) => {
                    assert!(truth.present(), "{va:?} is not there, and {found:?} was found");
                    assert_eq!(found.physical(va).pfn(), truth.frame(), "{va:?}");
                    assert_eq!(found.size, truth.size(), "{va:?}");
                    assert_eq!(found.writable, truth.writable(), "{va:?}");
                    allowed = access != AccessKind::Store || found.writable;
                }
                outcome => assert!(!truth.present(), "{va:?} is there, and {outcome:?}"),
            }
            if allowed {
                return;
            }
            or_end(self.kernel.fault(process, va, access));
            self.shoot_down();
        }
        panic!("{va:?} faults for ever");
    }

    /// Part of the mapping moves elsewhere with its frames, to where it lies otherwise within huge pages, and
    /// comes back.
    fn moves(&mut self, process: ProcessId) {
        let (home, elsewhere, len) = (START + (8 << 20) + 0x3000, START + 4 * LEN + 0x8000, 5 << 20);
        let frames: Vec<_> = (0..len)
            .step_by(0x7000)
            .map(|offset| {
                self.access(process, VirtAddr(home + offset), AccessKind::Store);
                self.kernel.page_state(process, VirtAddr(home + offset)).frame()
            })
            .collect();
        for (old, new) in [(home, elsewhere), (elsewhere, home)] {
            let (old, new) = (VirtAddr(old), VirtAddr(new));
            self.event(process, &VmEvent::Remap { old, old_len: len, new, new_len: len });
            for (offset, frame) in (0..len).step_by(0x7000).zip(&frames) {
                assert_eq!(self.walk(process, old.offset(offset), AccessKind::Load).outcome, WalkOutcome::NotMapped);
                self.access(process, new.offset(offset), AccessKind::Store);
                assert_eq!(self.kernel.page_state(process, new.offset(offset)).frame(), *frame, "frames move along");
            }
        }
    }

    /// The heap grows by pieces, shrinks, and grows again.
    fn heap(&mut self, process: ProcessId) {
        let base = START + 8 * LEN;
        for end in [0, 0x9000, 3 << 20, 7 << 20, 0x1_2000, 2 << 20] {
            self.event(process, &VmEvent::Brk { end: VirtAddr(base + end) });
            for offset in (0..end).step_by(0x5000) {
                self.access(process, VirtAddr(base + offset), AccessKind::Store);
            }
            for beyond in [0, 0x8000, 1 << 20] {
                let walk = self.walk(process, VirtAddr(base + end + beyond), AccessKind::Load);
                assert_eq!(walk.outcome, WalkOutcome::NotMapped, "beyond the heap's end");
            }
        }
    }

    fn accesses(&mut self, process: ProcessId, count: u64) {
        for _ in 0..count {
            let va = VirtAddr(START + self.random.below(LEN));
            let store = self.random.chance(0.5);
            let kind = if store { AccessKind::Store } else { AccessKind::Load };
            self.access(process, va, kind);
        }
    }
}

/// What the kernel did; if it ran out of memory, that is the end of this life.
fn or_end<T>(done: Result<T, OsError>) -> T {
    done.unwrap_or_else(|error| if error.is_outcome() { resume_unwind(Box::new(error)) } else { panic!("{error}") })
}

fn map(start: u64, len: u64) -> VmEvent {
    VmEvent::Map { start: VirtAddr(start), len, protection: Protection::READ_WRITE, kind: MapKind::Anonymous }
}

/// Returns how often the lookaside answered.
fn life(choice: &Choice, policy: PageSizePolicy) -> u64 {
    let mut machine = Machine::new(choice, policy, 5);
    let free = machine.kernel.frames.free_frames();
    let parent = machine.kernel.spawn().unwrap();
    machine.event(parent, &map(START, LEN));
    machine.event(parent, &VmEvent::Advise { start: VirtAddr(START), len: LEN, advice: Advice::Huge });
    machine.accesses(parent, 2000);
    for round in 1..=3 {
        let process = ProcessId(parent.0);
        or_end(machine.kernel.tick(process, Cycle(round * 100_000_000)));
        machine.shoot_down();
        machine.accesses(parent, 500);
    }
    // A hole, and what was cut comes again.
    let (hole, len) = (START + (3 << 20) + 0x5000, 4 << 20);
    machine.event(parent, &VmEvent::Unmap { start: VirtAddr(hole), len });
    for offset in (0..len).step_by(0x1_1000) {
        let walk = machine.walk(parent, VirtAddr(hole + offset), AccessKind::Load);
        assert_eq!(walk.outcome, WalkOutcome::NotMapped);
    }
    machine.event(parent, &map(hole, len));
    machine.accesses(parent, 1000);
    // Rights are taken and given back.
    for protection in [Protection::READ, Protection::READ_WRITE] {
        machine.event(parent, &VmEvent::Protect { start: VirtAddr(START), len: LEN, protection });
        for _ in 0..500 {
            let va = VirtAddr(START + machine.random.below(LEN));
            machine.access(parent, va, AccessKind::Load);
        }
    }
    machine.accesses(parent, 500);
    machine.moves(parent);
    machine.heap(parent);
    // Copy on write, on both sides.
    let child = or_end(machine.kernel.fork(parent));
    machine.shoot_down();
    for _ in 0..4 {
        machine.accesses(parent, 300);
        machine.accesses(child, 300);
    }
    machine.event(parent, &VmEvent::Touch { start: VirtAddr(START), len: LEN, write: true });
    machine.accesses(parent, 300);
    // The kernel's own check takes its time: where pages of both sizes come and go.
    if policy == PageSizePolicy::Khugepaged {
        machine.kernel.check().unwrap();
    }
    for process in [parent, child] {
        machine.event(process, &VmEvent::Exit { process });
    }
    assert_eq!(machine.kernel.frames.free_frames(), free);
    machine.answered
}

/// Policies by which pages get their sizes.
const POLICIES: [PageSizePolicy; 5] = [
    PageSizePolicy::Never,
    PageSizePolicy::Always,
    PageSizePolicy::Khugepaged,
    PageSizePolicy::Madvise,
    PageSizePolicy::Reservation,
];

fn filling(socket: Socket) -> Vec<&'static str> {
    catalogue().filling(socket).map(|design| design.name).collect()
}

/// The same, and what the socket has when no design is in it.
fn with_empty(socket: Socket) -> Vec<&'static str> {
    socket.empty().into_iter().chain(filling(socket)).collect()
}

/// The page table alone, with settings that fit this small memory.
fn choice(page_table: &str) -> Choice {
    let mut choice = catalogue().choice(page_table);
    let segment = |bytes, page_bytes| RestSegSpec { bytes, page_bytes, ways: 4 };
    let segments = vec![segment(4 << 20, 4096), segment(16 << 20, 2 << 20)];
    choice.settings.put("utopia", &UtopiaSpec { segments, ..UtopiaSpec::default() });
    for settings in choice.settings.0.values_mut() {
        if let Some(smallest) = settings.get_mut("min_vma") {
            *smallest = (1 << 20).into();
        }
    }
    choice
}

/// Whether the designs go together.
fn is_valid(choice: &Choice) -> bool {
    catalogue().validate("design", choice).is_empty()
}

/// The lives of all of these, two at a time; how often each one's lookaside answered, for those that did not
/// end early.
fn lives(all: Vec<(Choice, PageSizePolicy)>) -> Vec<(Choice, PageSizePolicy, u64)> {
    let count = all.len();
    let (next, done) = (Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    let take = || next.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((choice, policy)) = take() {
                    match catch_unwind(|| life(&choice, policy)) {
                        Ok(answered) => done.lock().unwrap().push((choice, policy, answered)),
                        // Pages that a hash spreads leave no room for tables that want contiguity.
                        Err(end) if end.is::<OsError>() && choice.design.placement != "buddy" => {}
                        Err(_) => panic!("{:?} {policy:?}", choice.design),
                    }
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    assert!(count - done.len() <= count / 10, "{} of {count} ended early", count - done.len());
    done
}

#[test]
fn walks_find_what_the_kernel_knows() {
    let tables = filling(Socket::PageTable);
    lives(tables.iter().flat_map(|table| POLICIES.map(|policy| (choice(table), policy))).collect());
}

/// Every page table with every lookaside and every placement; speculations and policies alternate.
#[test]
fn lookasides_and_placements_hold_what_the_kernel_knows_over_any_table() {
    let speculations = with_empty(Socket::Speculation);
    let mut all = Vec::new();
    for (t, table) in filling(Socket::PageTable).into_iter().enumerate() {
        for (l, lookaside) in with_empty(Socket::Lookaside).into_iter().enumerate() {
            for (p, placement) in with_empty(Socket::Placement).into_iter().enumerate() {
                let choice = choice(table).with(Socket::Lookaside, lookaside).with(Socket::Placement, placement);
                if choice.design == self::choice(table).design || !is_valid(&choice) {
                    continue;
                }
                for turn in 0..2 {
                    let speculation = speculations[(t + l + 2 * p + turn) % speculations.len()];
                    let policy = POLICIES[(2 * t + l + p + 2 * turn) % POLICIES.len()];
                    all.push((choice.clone().with(Socket::Speculation, speculation), policy));
                }
            }
        }
    }
    // The fewest answers of each lookaside with each placement.
    let mut fewest: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (choice, _, answered) in lives(all) {
        let least = fewest.entry((choice.design.lookaside, choice.design.placement)).or_insert(u64::MAX);
        *least = answered.min(*least);
    }
    let of = |lookaside: &str, placement: &str| fewest[&(lookaside.to_owned(), placement.to_owned())];
    for lookaside in filling(Socket::Lookaside) {
        let best = fewest.iter().filter(|((own, _), _)| own == lookaside).map(|(_, answered)| *answered).max();
        assert!(
            best.is_some_and(|best| best >= 100),
            "{lookaside} seldom answers, however pages are placed: {fewest:?}"
        );
    }
    // Random first touches under demand paging make few ranges.
    assert!(of("rmm", "buddy") >= 1 && of("rmm", "rmm") >= 100, "{fewest:?}");
    assert!(of("utopia", "utopia") >= 500, "{fewest:?}");
}

/// Every lookaside with every other as the second; page tables, placements and policies alternate.
#[test]
fn two_lookasides_hold_what_the_kernel_knows() {
    let (tables, lookasides) = (filling(Socket::PageTable), filling(Socket::Lookaside));
    let mut all = Vec::new();
    for first in &lookasides {
        for second in lookasides.iter().filter(|second| *second != first) {
            let turn = all.len();
            let mut choice = choice(tables[turn % tables.len()]).with(Socket::Lookaside, first);
            choice.design.second_lookaside = (*second).into();
            let mut placed =
                filling(Socket::Placement).into_iter().map(|name| choice.clone().with(Socket::Placement, name));
            let choice = placed.find(is_valid).unwrap_or_else(|| panic!("{first} and {second} never go together"));
            all.push((choice, POLICIES[turn % POLICIES.len()]));
        }
    }
    for (choice, policy, answered) in lives(all) {
        assert!(answered >= 100, "{:?} {policy:?}: {answered} answers", choice.design);
    }
}

/// Every page table with every speculation, which may place its nodes, and every placement; policies take
/// turns.
#[test]
fn pages_and_leaves_placed_by_guessed_hashes_are_what_the_kernel_knows_over_any_table() {
    let mut all = Vec::new();
    for (t, table) in filling(Socket::PageTable).into_iter().enumerate() {
        for (s, speculation) in filling(Socket::Speculation).into_iter().enumerate() {
            let choice = choice(table).with(Socket::Speculation, speculation);
            // With its own placement, if it has one: that is what it guesses by.
            let own = choice.clone().with(Socket::Placement, speculation);
            let choice = if is_valid(&own) { own } else { choice };
            all.push((choice, POLICIES[(t + s) % POLICIES.len()]));
        }
    }
    lives(all);
}

/// Every page table behind every intermediate address space.
#[test]
fn what_is_translated_before_the_caches_is_what_the_kernel_knows_over_any_table() {
    let mut all = Vec::new();
    for (t, table) in filling(Socket::PageTable).into_iter().enumerate() {
        for front_side in filling(Socket::FrontSide) {
            let choice = choice(table).with(Socket::FrontSide, front_side);
            all.extend([0, 1].map(|turn| (choice.clone(), POLICIES[(t + turn) % POLICIES.len()])));
        }
    }
    lives(all);
}

#[test]
fn a_companion_adds_to_the_context_switches_of_its_table_and_hides_none() {
    let cycles = |choice: &Choice| {
        let mut machine = Machine::new(choice, PageSizePolicy::Never, 5);
        let processes = [machine.kernel.spawn().unwrap(), machine.kernel.spawn().unwrap()];
        for process in processes {
            machine.event(process, &map(START, LEN));
            machine.access(process, VirtAddr(START), AccessKind::Store);
        }
        for process in processes {
            machine.event(process, &map(START, 1 << 20));
            machine.event(process, &VmEvent::Touch { start: VirtAddr(START), len: 1 << 20, write: true });
        }
        machine.kernel.context_switch(0, processes[0], processes[1]);
        machine.kernel.ledger.total(LedgerCause::Switch)
    };
    let alone = choice("me-hpt");
    assert!(cycles(&alone) > CostTable::default().context_switch, "the L2P entries in use are saved");
    let ranged = alone.clone().with(Socket::Lookaside, "rmm");
    let around = alone.clone().with(Socket::FrontSide, "midgard");
    let mut segments = alone.clone().with(Socket::Lookaside, "utopia").with(Socket::Placement, "utopia");
    segments.design.second_lookaside = "rmm".into();
    // The page is one of the table's.
    segments.settings.set("utopia.fault_allocation", false).unwrap();
    // None of them states any cycles of its own.
    for choice in [ranged, around, segments] {
        assert_eq!(cycles(&choice), cycles(&alone), "{:?}", choice.design);
    }
}

#[test]
fn eager_paging_gives_areas_the_huge_pages_that_faults_would_give_them() {
    const HUGE: u64 = 2 << 20;
    // Neither end is at a border of huge pages.
    let (start, end) = (START + 0x3000, START + 8 * HUGE + 0x5000);
    let huge_pages = |table: &str, page_size_policy, huge_limit| {
        let eager = choice(table).with(Socket::Placement, "rmm").with(Socket::Lookaside, "rmm");
        let spec = KernelSpec { page_size_policy, huge_limit, ..KernelSpec::default() };
        let mut machine = Machine::with_spec(&eager, &spec, 7);
        let process = machine.kernel.spawn().unwrap();
        machine.event(process, &map(start, end - start));
        let faults = machine.kernel.counters.faults_4k + machine.kernel.counters.faults_2m;
        let mut sizes = Vec::new();
        for va in (start..end).step_by(FRAME_BYTES as usize).map(VirtAddr) {
            sizes.push(machine.kernel.page_state(process, va).size().bytes());
            machine.access(process, va, AccessKind::Load);
        }
        let after = machine.kernel.counters.faults_4k + machine.kernel.counters.faults_2m;
        (sizes.iter().filter(|size| **size == HUGE).count() as u64 * FRAME_BYTES / HUGE, after - faults)
    };
    for table in ["radix", "ecpt", "lvm"] {
        assert_eq!(huge_pages(table, PageSizePolicy::Always, 0), (7, 0), "{table}");
        assert_eq!(huge_pages(table, PageSizePolicy::Always, 3), (3, 0), "{table}");
        assert_eq!(huge_pages(table, PageSizePolicy::Never, 0), (0, 0), "{table}");
    }
}
