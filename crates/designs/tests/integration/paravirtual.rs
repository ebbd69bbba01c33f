//! A guest whose page tables ask the hypervisor for contiguous memory: after any events, each nested walk finds
//! what both kernels have, and each load past the second stage goes where the hypervisor has the guest's memory.

use ambulator_base::{
    AccessKind, Asid, CounterDef, CounterSink, Cycle, FRAME_BYTES, MapKind, PhysAddr, ProcessId, Protection, Random,
    VirtAddr, VmEvent,
};
use ambulator_designs::catalogue;
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_mmu::{
    HypervisorStage, Invalidation, Loaded, LoadedLine, MemoryPort, NestedSpec, Served, TableRegisters, Walk,
    WalkOutcome, Walker,
};
use ambulator_os::{CostTable, HostAreas, Hypercall, Kernel, KernelSpec, LedgerCause, PageSizePolicy};
use ambulator_sockets::DesignParts;
use std::collections::BTreeMap;

const START: u64 = 0x5555_4000_0000;
const MIB: u64 = 1 << 20;
const GUEST: u64 = 256 * MIB;
const HOST: u64 = 384 * MIB;

fn kernel(parts: DesignParts, bytes: u64, policy: PageSizePolicy) -> (Kernel, Box<dyn Walker>) {
    let spec = KernelSpec { page_size_policy: policy, ..KernelSpec::default() };
    let frames = BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES);
    let memory = PhysicalMemory::new(bytes).unwrap();
    let (mut walker, translations, placement) = (parts.new_walker, parts.translations, parts.placement);
    (Kernel::new(&spec, CostTable::default(), memory, frames, translations, placement), walker(0))
}

/// Host memory with the guest's, which loads past the second stage name themselves.
struct Port<'a> {
    guest: &'a mut Kernel,
    host: &'a mut Kernel,
    machine: ProcessId,
    /// Host-physical addresses of loads.
    loads: Vec<PhysAddr>,
}

impl Port<'_> {
    /// The oracle: the hypervisor has the guest-physical address there.
    fn check(&self, guest: PhysAddr, at: PhysAddr) {
        let state = self.host.page_state(self.machine, VirtAddr(guest.0));
        assert!(state.present(), "{guest} is not backed");
        assert_eq!(state.frame().start().offset(guest.0 & 0xfff), at, "where {guest} is");
    }
}

impl MemoryPort for Port<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        self.loads.push(at);
        Loaded { value: self.host.memory.read(at), ready: now.after(100), served: Served::Dram }
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.loads.push(at);
        LoadedLine { words: self.host.memory.line(at), ready: now.after(100), served: Served::Dram }
    }

    fn fetch(&mut self, _at: PhysAddr, now: Cycle) -> Cycle {
        now
    }

    fn update(&mut self, at: PhysAddr, bits: u64, _now: Cycle) {
        self.host.memory.set_bits(at, bits);
    }

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        self.check(guest, at);
        self.loads.push(at);
        Loaded { value: self.guest.memory.read(guest), ready: now.after(100), served: Served::Dram }
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        self.check(guest, at);
        self.loads.push(at);
        LoadedLine { words: self.guest.memory.line(guest), ready: now.after(100), served: Served::Dram }
    }

    fn update_guest(&mut self, guest: PhysAddr, at: PhysAddr, bits: u64, _now: Cycle) {
        self.check(guest, at);
        self.guest.memory.set_bits(guest, bits);
    }
}

struct Both {
    guest: Kernel,
    host: Kernel,
    machine: ProcessId,
    areas: HostAreas,
    walker: Box<dyn Walker>,
    stage: HypervisorStage,
    loaded: (u64, u64),
    /// Walks by the number of their loads.
    walks: BTreeMap<usize, u64>,
}

impl Both {
    /// `gteas` slots, TEAs of VMAs of 4 MiB and more.
    fn new(gteas: u32, paravirtual: bool, policies: [PageSizePolicy; 2]) -> Both {
        let mut choice = catalogue().choice("dmt");
        choice.hypervisor_table = Some("dmt".into());
        let settings = &mut choice.settings.0["dmt"];
        settings["gteas"] = gteas.into();
        settings["paravirtual"] = paravirtual.into();
        settings["min_vma"] = (4 * MIB).into();
        assert_eq!(catalogue().validate("design", &choice), []);
        let (guest, host) = catalogue().build_nested(&choice);
        let areas = HostAreas::new(host.host_areas);
        let (guest, walker) = kernel(guest, GUEST, policies[0]);
        let (mut host, host_walker) = kernel(host, HOST, policies[1]);
        let machine = host.spawn().unwrap();
        let map = VmEvent::Map {
            start: VirtAddr(0),
            len: GUEST,
            protection: Protection::READ_WRITE,
            kind: MapKind::Anonymous,
        };
        host.event(machine, &map).unwrap();
        let nested = NestedSpec { tlb_entries: 0, ..NestedSpec::default() };
        let stage = HypervisorStage::new(&nested, host_walker);
        Both { guest, host, machine, areas, walker, stage, loaded: (0, 0), walks: BTreeMap::new() }
    }

    /// What a machine does after each action of the guest's kernel.
    fn serve(&mut self) {
        for call in self.guest.ledger.take_hypercalls() {
            match call {
                Hypercall::Back { process, first, frames } => {
                    let slot = self.areas.back(&mut self.host, self.machine, first, frames).unwrap();
                    if !self.guest.answer_hypercall(process, first, slot) && slot.is_some() {
                        self.areas.release(&mut self.host, self.machine, first);
                    }
                }
                Hypercall::Release { first } => self.areas.release(&mut self.host, self.machine, first),
            }
        }
        self.areas.check(&self.host, self.machine).unwrap();
    }

    fn event(&mut self, process: ProcessId, event: &VmEvent) {
        self.guest.event(process, event).unwrap();
        self.serve();
    }

    fn map(&mut self, process: ProcessId, start: u64, len: u64) {
        let map =
            VmEvent::Map { start: VirtAddr(start), len, protection: Protection::READ_WRITE, kind: MapKind::Anonymous };
        self.event(process, &map);
    }

    fn touch(&mut self, process: ProcessId, va: u64) {
        if !self.guest.page_state(process, VirtAddr(va)).present() {
            self.guest.fault(process, VirtAddr(va), AccessKind::Store).unwrap();
            self.serve();
        }
    }

    /// Registers that have changed are loaded, and what shootdowns remove goes.
    fn settle(&mut self, process: ProcessId) {
        let mut shootdowns = Vec::new();
        self.guest.take_shootdowns(&mut shootdowns);
        if !shootdowns.is_empty() {
            self.walker.invalidate(Invalidation::All);
        }
        shootdowns.clear();
        self.host.take_shootdowns(&mut shootdowns);
        if !shootdowns.is_empty() {
            self.stage.invalidate(Invalidation::All);
        }
        let now = (self.guest.registers_generation(process), self.host.registers_generation(self.machine));
        if now.0 != self.loaded.0 {
            if let Some(table) = self.areas.table() {
                self.walker.load_host_areas(table);
            }
            self.walker.load_registers(self.guest.asid(process), &TableRegisters(self.guest.registers(process)));
        }
        if now.1 != self.loaded.1 {
            self.stage.load_registers(Asid(1), &TableRegisters(self.host.registers(self.machine)));
        }
        self.loaded = now;
    }

    /// A nested walk, with the hypervisor's faults on its way; its last try and loads.
    fn walk(&mut self, process: ProcessId, va: u64) -> (Walk, Vec<PhysAddr>) {
        for _ in 0..32 {
            self.settle(process);
            let Both { guest, host, machine, walker, stage, .. } = self;
            let mut port = Port { guest, host, machine: *machine, loads: Vec::new() };
            let walk = stage.walk(walker.as_mut(), VirtAddr(va), AccessKind::Load, Cycle(0), &mut port);
            let loads = port.loads;
            let WalkOutcome::HypervisorFault(at) = walk.outcome else {
                assert_eq!(walk.accesses as usize, loads.len());
                return (walk, loads);
            };
            self.host.fault(self.machine, VirtAddr(at.0), AccessKind::Store).unwrap();
        }
        panic!("{va:#x} faults again and again");
    }

    /// A walk finds what both kernels have.
    fn check(&mut self, process: ProcessId, va: u64) {
        let state = self.guest.page_state(process, VirtAddr(va));
        let (walk, loads) = self.walk(process, va);
        match walk.outcome {
            WalkOutcome::Mapped(found) => {
                assert!(state.present(), "{va:#x} is not mapped");
                let guest = state.frame().start().offset(va & 0xfff);
                let host = self.host.page_state(self.machine, VirtAddr(guest.0));
                assert_eq!(found.physical(VirtAddr(va)), host.frame().start().offset(va & 0xfff), "{va:#x}");
                *self.walks.entry(loads.len()).or_default() += 1;
            }
            other => assert!(!state.present(), "{va:#x}: {other:?}"),
        }
    }

    /// Random events in up to three processes, and walks after each.
    fn life(&mut self, seed: u64, steps: u64) {
        let mut random = Random::new(seed);
        let mut processes = vec![self.guest.spawn().unwrap()];
        self.serve();
        // Places of 8 MiB, some apart from each other.
        let place = |n: u64| START + n * 8 * MIB + n / 3 * 64 * MIB;
        self.map(processes[0], place(0), 8 * MIB);
        for step in 0..steps {
            let process = processes[random.below(processes.len() as u64) as usize];
            let at = place(random.below(8));
            let page = at + (random.below(8 * MIB) & !0xfff);
            match random.below(40) {
                0..=3 if self.guest.vmas(process).find(VirtAddr(at)).is_none() => self.map(process, at, 8 * MIB),
                4 => self.event(process, &VmEvent::Unmap { start: VirtAddr(at), len: 8 * MIB }),
                5 => {
                    let len = (random.below(4 * MIB) | 0x1000) & !0xfff;
                    self.event(process, &VmEvent::Unmap { start: VirtAddr(page), len });
                }
                6 if processes.len() < 3 => {
                    processes.push(self.guest.fork(process).unwrap());
                    self.serve();
                }
                7 if processes.len() > 1 && step % 3 == 0 => {
                    let gone = processes.swap_remove(random.below(processes.len() as u64) as usize);
                    self.event(gone, &VmEvent::Exit { process: gone });
                }
                _ if self.guest.vmas(process).find(VirtAddr(page)).is_some() => self.touch(process, page),
                _ => {}
            }
            for _ in 0..4 {
                let process = processes[random.below(processes.len() as u64) as usize];
                self.check(process, place(random.below(8)) + random.below(8 * MIB));
            }
            if self.guest.is_alive(process) {
                self.check(process, page);
            }
        }
        self.guest.check().unwrap();
        self.host.check().unwrap();
        for process in processes {
            self.event(process, &VmEvent::Exit { process });
        }
        // Nothing is pinned any more.
        let released = self.areas.counters.areas_released;
        assert_eq!(self.areas.counters.areas_backed, released);
    }
}

/// Entries of the guest that were loaded at host-physical addresses.
struct HostFetches(u64);

impl CounterSink for HostFetches {
    fn counter(&mut self, _prefix: &str, def: &'static CounterDef, value: u64) {
        if def.name == "host_fetches" {
            self.0 = value;
        }
    }
}

const PLAIN: [PageSizePolicy; 2] = [PageSizePolicy::Never, PageSizePolicy::Never];

#[test]
fn a_walk_is_the_guests_entry_at_its_host_address_and_the_hypervisors_entry() {
    let mut both = Both::new(16, true, PLAIN);
    let process = both.guest.spawn().unwrap();
    both.map(process, START, 64 * MIB);
    assert_eq!(both.areas.counters.hypercalls, 0, "no entry of a page yet");
    for page in 0..2000 {
        both.touch(process, START + page * 8 * 4096);
    }
    assert_eq!((both.areas.counters.areas_backed, both.areas.counters.pages_fresh), (1, 32));
    let costs = CostTable::default();
    assert_eq!(both.host.ledger.total(LedgerCause::Syscall), costs.syscall + costs.hypercall, "mmap, and the call");
    // Backs the page.
    both.walk(process, START + 5 * 8 * 4096);
    both.loaded = (0, 0);
    // The registers are loaded again: the slot is read once.
    let (walk, first) = both.walk(process, START + 5 * 8 * 4096);
    assert_eq!((first.len(), walk.ready), (3, Cycle(3 * 100 + 1 + 1)));
    assert_eq!(first[0], both.areas.table().unwrap());
    let (walk, loads) = both.walk(process, START + 5 * 8 * 4096);
    assert_eq!(loads, first[1..]);
    // A cycle for the registers of each stage.
    assert_eq!(walk.ready, Cycle(2 * 100 + 1 + 1));
    // The entry is 8 * 5 * 8 bytes behind the first one in host memory.
    let (_, other) = both.walk(process, START);
    assert_eq!(loads[0].0 - other[0].0, 5 * 8 * 8);
    // Without, the guest's entry costs the hypervisor's entry for its address: three loads.
    let mut without = Both::new(16, false, PLAIN);
    let process = without.guest.spawn().unwrap();
    without.map(process, START, 64 * MIB);
    without.touch(process, START);
    without.walk(process, START);
    assert_eq!(without.walk(process, START).1.len(), 3);
    assert_eq!(without.areas.counters.hypercalls, 0);
}

#[test]
fn what_was_backed_before_moves_and_what_is_contiguous_stays() {
    let mut both = Both::new(16, true, PLAIN);
    let process = both.guest.spawn().unwrap();
    // The hypervisor has backed every second frame of the guest already.
    for frame in (0..GUEST / FRAME_BYTES / 2).step_by(2) {
        both.host.fault(both.machine, VirtAddr(frame * FRAME_BYTES), AccessKind::Store).unwrap();
    }
    both.map(process, START, 64 * MIB);
    both.touch(process, START);
    let counters = &both.areas.counters;
    assert_eq!((counters.areas_backed, counters.pages_moved + counters.pages_fresh), (1, 32));
    assert!(counters.pages_moved >= 15, "{}", counters.pages_moved);
    // It becomes smaller: released, and asked for again, where it is.
    let moved = (counters.pages_moved, counters.pages_fresh);
    both.touch(process, START + 63 * MIB);
    both.event(process, &VmEvent::Unmap { start: VirtAddr(START + 32 * MIB), len: 32 * MIB });
    let counters = &both.areas.counters;
    assert_eq!((counters.areas_backed, counters.areas_released), (2, 1));
    assert_eq!((counters.pages_moved, counters.pages_fresh), moved);
    both.check(process, START);
    assert_eq!(both.walk(process, START).1.len(), 2);
}

#[test]
fn refused_it_is_as_without() {
    // One slot, which the first VMA takes.
    let mut both = Both::new(1, true, PLAIN);
    let process = both.guest.spawn().unwrap();
    let other = START + (1 << 36);
    for (start, refused, loads) in [(START, 0, 2), (other, 1, 3)] {
        both.map(process, start, 8 * MIB);
        both.touch(process, start);
        both.walk(process, start);
        assert_eq!(both.areas.counters.refused_no_slot, refused);
        assert_eq!(both.walk(process, start).1.len(), loads);
    }
    // No contiguous memory: of the hypervisor's frames, every second one is taken.
    let mut both = Both::new(16, true, PLAIN);
    let mut taken = Vec::new();
    while let Some(frame) = both.host.frames.allocate(0) {
        taken.push(frame);
    }
    taken.sort();
    for frame in taken.iter().filter(|frame| frame.0 % 2 == 0) {
        both.host.frames.free(*frame, 0);
    }
    let process = both.guest.spawn().unwrap();
    both.map(process, START, 8 * MIB);
    both.touch(process, START);
    both.walk(process, START);
    assert_eq!((both.areas.counters.refused_no_memory, both.areas.counters.areas_backed), (1, 0));
    assert_eq!(both.walk(process, START).1.len(), 3);
}

#[test]
fn a_guest_cannot_name_what_is_not_its_own() {
    let mut both = Both::new(16, true, PLAIN);
    let process = both.guest.spawn().unwrap();
    let other = START + (1 << 36);
    for start in [START, other] {
        both.map(process, start, 8 * MIB);
        both.touch(process, start);
        both.walk(process, start);
        assert_eq!(both.walk(process, start).1.len(), 2);
    }
    // Registers with the slot of the other area, with free ones, and with one beyond the table's end, which is not
    // even read.
    let honest = both.guest.registers(process);
    for (id, slot_loads) in [(2, 1), (9, 1), (128, 1), (129, 0), (4000, 0)] {
        let mut forged = honest.clone();
        let first = forged.iter().position(|word| *word == START | 1).unwrap();
        assert_eq!(forged[first + 2] & 0xfff, 1);
        forged[first + 2] = forged[first + 2] & !0xfff | id;
        both.settle(process);
        both.walker.load_registers(both.guest.asid(process), &TableRegisters(forged));
        let (walk, loads) = both.walk(process, START);
        assert!(matches!(walk.outcome, WalkOutcome::Mapped(_)));
        // The slot, and then as without: the second stage translates.
        assert_eq!(loads.len(), slot_loads + 3, "{id}");
        assert_eq!(both.walk(process, START).1.len(), 3);
    }
}

#[test]
fn after_any_events_walks_find_what_both_kernels_have() {
    use PageSizePolicy::{Always, Never};
    for (seed, gteas, policies) in
        [(1, 16, [Never, Never]), (2, 128, [Never, Always]), (3, 2, [Always, Never]), (4, 128, [Always, Always])]
    {
        let mut both = Both::new(gteas, true, policies);
        both.life(seed, 700);
        let all: u64 = both.walks.values().sum();
        // Where the hypervisor has pages of both sizes, it loads two entries for the page.
        let few = both.walks.range(..=4).map(|(_, walks)| walks).sum::<u64>();
        let mut direct = HostFetches(0);
        both.walker.report("", &mut direct);
        assert!(all > 300 && few * 2 > all && direct.0 * 2 > all, "{policies:?}: {:?}, {}", both.walks, direct.0);
        let counters = &both.areas.counters;
        assert!(counters.areas_backed > 5, "{policies:?}: {}", counters.areas_backed);
        // Within a huge page of the hypervisor's, everything is contiguous.
        assert!(counters.pages_fresh > 0 || policies[1] == Always, "{policies:?}");
        assert_eq!(counters.refused_no_slot > 0, gteas == 2, "{policies:?}");
    }
}
