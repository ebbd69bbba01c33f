//! Every page table under the kernel model: what walks find is what the kernel knows, after every kind of event.

use ambulator_base::{
    AccessKind, Advice, Asid, Cycle, FRAME_BYTES, MapKind, ProcessId, Protection, Random, VirtAddr, VmEvent,
};
use ambulator_conformance::TestPort;
use ambulator_designs::utopia::RestSegSpec;
use ambulator_designs::{DesignSpec, FrontSideKind, LookasideKind, PlacementKind, SpeculationKind, TableKind, build};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, TableRegisters, Translation, Walk, WalkOutcome, Walker};
use ambulator_os::{CostTable, Kernel, KernelSpec, LedgerCause, PageSizePolicy, Shootdown};

const START: u64 = 0x5555_4000_0000;
const LEN: u64 = 24 << 20;
const MEMORY: u64 = 256 << 20;

struct Machine {
    kernel: Kernel,
    walker: Box<dyn Walker>,
    /// The structure beside the L2 TLB, where the design has one.
    lookaside: Option<Box<dyn Lookaside>>,
    /// Its pages are in no page table.
    restrictive: bool,
    /// How often it answered.
    answered: u64,
    random: Random,
    now: u64,
}

impl Machine {
    fn new(design: &DesignSpec, policy: PageSizePolicy, seed: u64) -> Machine {
        let mut parts = build(design);
        let spec = KernelSpec { page_size_policy: policy, ..KernelSpec::default() };
        let mut frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
        assert!(parts.boot.is_none_or(|boot| boot(&mut frames)));
        let kernel = Kernel::new(
            &spec,
            CostTable::default(),
            PhysicalMemory::new(MEMORY).unwrap(),
            frames,
            parts.translations,
            parts.placement,
        );
        let (walker, lookaside) = ((parts.new_walker)(0), (parts.new_lookaside)(0));
        let restrictive = design.lookaside.kind == LookasideKind::RestSegs;
        Machine { kernel, walker, lookaside, restrictive, answered: 0, random: Random::new(seed), now: 0 }
    }

    /// What the simulator does after each action of the kernel.
    fn shoot_down(&mut self) {
        let mut shootdowns: Vec<Shootdown> = Vec::new();
        self.kernel.take_shootdowns(&mut shootdowns);
        for shootdown in shootdowns {
            let what = match shootdown {
                Shootdown { global: true, .. } => Invalidation::All,
                Shootdown { asid, page: Some(page), .. } => Invalidation::Page { asid, page },
                Shootdown { asid, .. } => Invalidation::Asid(asid),
            };
            self.walker.invalidate(what);
            if let Some(lookaside) = &mut self.lookaside {
                lookaside.invalidate(what);
            }
        }
    }

    fn event(&mut self, process: ProcessId, event: &VmEvent) {
        self.kernel.event(process, event).unwrap();
        self.shoot_down();
    }

    fn walk(&mut self, process: ProcessId, va: VirtAddr, access: AccessKind) -> Walk {
        let asid: Asid = self.kernel.asid(process);
        let registers = TableRegisters(self.kernel.registers(process));
        self.walker.load_registers(asid, &registers);
        self.now += 1000;
        let mut port = TestPort::new(&mut self.kernel.memory, 50);
        self.walker.walk(va, access, Cycle(self.now), &mut port)
    }

    /// What the lookaside holds is what the kernel knows; it may hold less, and fewer rights. Returns what it found where no walk may begin before it
    /// answers: such a page is in no page table.
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
        answer.found.filter(|_| answer.holds_walk && self.restrictive)
    }

    /// Walks against the kernel's truth, faults where there is no page.
    fn access(&mut self, process: ProcessId, va: VirtAddr, access: AccessKind) {
        for _ in 0..3 {
            let beside = self.look_aside(process, va, access);
            let walk = self.walk(process, va, access);
            if let (WalkOutcome::Mapped(found), Some(lookaside)) = (&walk.outcome, &mut self.lookaside) {
                let mut port = TestPort::new(&mut self.kernel.memory, 50);
                let entry = self.walker.neighbours();
                let ready = Cycle(self.now);
                lookaside.refill(va, &FinishedWalk { found: *found, entry, dram_loads: 1, ready }, &mut port);
            }
            let truth = self.kernel.page_state(process, va);
            let mut allowed = false;
            if let Some(found) = beside {
                assert_eq!(walk.outcome, WalkOutcome::NotMapped, "{va:?} is in two segments");
                assert_eq!((found.size, found.writable), (truth.size(), truth.writable()), "{va:?}");
            }
            match beside.map_or(walk.outcome, WalkOutcome::Mapped) {
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
            self.kernel.fault(process, va, access).unwrap();
            self.shoot_down();
        }
        panic!("{va:?} faults for ever");
    }

    /// Part of the mapping moves elsewhere with its frames, to where it lies otherwise within huge pages, and comes back.
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

fn map(start: u64, len: u64) -> VmEvent {
    VmEvent::Map { start: VirtAddr(start), len, protection: Protection::READ_WRITE, kind: MapKind::Anonymous }
}

/// Returns how often the lookaside answered.
fn life(design: &DesignSpec, policy: PageSizePolicy) -> u64 {
    let mut machine = Machine::new(design, policy, 5);
    let free = machine.kernel.frames.free_frames();
    let parent = machine.kernel.spawn().unwrap();
    machine.event(parent, &map(START, LEN));
    machine.event(parent, &VmEvent::Advise { start: VirtAddr(START), len: LEN, advice: Advice::Huge });
    machine.accesses(parent, 2000);
    for round in 1..=3 {
        let process = ProcessId(parent.0);
        machine.kernel.tick(process, Cycle(round * 100_000_000)).unwrap();
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
    let child = machine.kernel.fork(parent).unwrap();
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

fn design(kind: TableKind) -> DesignSpec {
    let mut design = DesignSpec::default();
    design.page_table.kind = kind;
    design
}

#[test]
fn walks_find_what_the_kernel_knows() {
    use TableKind::{Asap, Ecpt, Flattened, Hashed, Ideal, Lvm, MeHpt, Radix};
    for kind in [Radix, Flattened, Asap, Ideal, Hashed, Ecpt, MeHpt, Lvm] {
        for policy in [
            PageSizePolicy::Never,
            PageSizePolicy::Always,
            PageSizePolicy::Madvise,
            PageSizePolicy::Khugepaged,
            PageSizePolicy::Reservation,
        ] {
            life(&design(kind), policy);
        }
    }
}

#[test]
fn ranges_hold_what_the_kernel_knows_over_any_table() {
    for kind in
        [TableKind::Radix, TableKind::Flattened, TableKind::Hashed, TableKind::Ecpt, TableKind::MeHpt, TableKind::Lvm]
    {
        for placement in [PlacementKind::Buddy, PlacementKind::Eager] {
            for policy in [PageSizePolicy::Never, PageSizePolicy::Always, PageSizePolicy::Khugepaged] {
                let mut design = design(kind);
                design.lookaside.kind = LookasideKind::RangeTlb;
                design.placement.kind = placement;
                let answered = life(&design, policy);
                // Random first touches under demand paging make few ranges.
                let least = if placement == PlacementKind::Eager { 100 } else { 1 };
                assert!(answered >= least, "{kind:?} {placement:?} {policy:?}: ranges answered {answered} times");
            }
        }
    }
}

#[test]
fn direct_segments_clustered_and_in_memory_tlbs_hold_what_the_kernel_knows_over_any_table() {
    for kind in
        [TableKind::Radix, TableKind::Flattened, TableKind::Asap, TableKind::Hashed, TableKind::Ecpt, TableKind::Lvm]
    {
        for lookaside in [LookasideKind::DirectSegment, LookasideKind::ClusteredTlb, LookasideKind::PomTlb] {
            for placement in [PlacementKind::Buddy, PlacementKind::Eager] {
                for policy in [PageSizePolicy::Never, PageSizePolicy::Always, PageSizePolicy::Khugepaged] {
                    let mut design = design(kind);
                    design.lookaside.kind = lookaside;
                    design.placement.kind = placement;
                    let answered = life(&design, policy);
                    let eager = placement == PlacementKind::Eager;
                    assert!(!eager || answered >= 100, "{kind:?} {lookaside:?} {policy:?}: {answered} answers");
                }
            }
        }
    }
}

#[test]
fn rest_segs_hold_what_the_kernel_knows_over_any_table() {
    let segment = |bytes, page_bytes| RestSegSpec { bytes, page_bytes, ways: 4 };
    for kind in [TableKind::Radix, TableKind::Flattened, TableKind::Ecpt, TableKind::MeHpt, TableKind::Lvm] {
        for ranges in [false, true] {
            for policy in [PageSizePolicy::Never, PageSizePolicy::Always, PageSizePolicy::Khugepaged] {
                let mut design = design(kind);
                design.lookaside.kind = LookasideKind::RestSegs;
                design.placement.kind = PlacementKind::RestSegs;
                design.lookaside.utopia.ranges = ranges;
                design.lookaside.utopia.segments = vec![segment(4 << 20, 4096), segment(16 << 20, 2 << 20)];
                let answered = life(&design, policy);
                assert!(answered >= 500, "{kind:?} {ranges} {policy:?}: RestSegs answered {answered} times");
            }
        }
    }
}

#[test]
fn pages_and_leaves_placed_by_hash_are_what_the_kernel_knows_over_any_table() {
    for kind in [TableKind::Radix, TableKind::MeHpt, TableKind::Lvm] {
        for lookaside in [LookasideKind::None, LookasideKind::RangeTlb] {
            for policy in [PageSizePolicy::Never, PageSizePolicy::Always, PageSizePolicy::Reservation] {
                let mut design = design(kind);
                design.lookaside.kind = lookaside;
                design.speculation.kind = SpeculationKind::Revelator;
                design.placement.kind = PlacementKind::TieredHash;
                life(&design, policy);
            }
        }
    }
}

#[test]
fn what_stands_beside_a_table_adds_to_its_context_switches_and_hides_none() {
    let cycles = |design: &DesignSpec| {
        let mut machine = Machine::new(design, PageSizePolicy::Never, 5);
        let processes = [machine.kernel.spawn().unwrap(), machine.kernel.spawn().unwrap()];
        for process in processes {
            machine.event(process, &map(START, 1 << 20));
            machine.event(process, &VmEvent::Touch { start: VirtAddr(START), len: 1 << 20, write: true });
        }
        machine.kernel.context_switch(processes[0], processes[1]);
        machine.kernel.ledger.total(LedgerCause::Switch)
    };
    let alone = design(TableKind::MeHpt);
    assert!(cycles(&alone) > CostTable::default().context_switch, "the L2P entries in use are saved");
    let mut ranged = alone.clone();
    ranged.lookaside.kind = LookasideKind::RangeTlb;
    let mut around = alone.clone();
    around.front_side.kind = FrontSideKind::Midgard;
    // Neither states any cycles of its own.
    for design in [ranged, around] {
        assert_eq!(cycles(&design), cycles(&alone), "{:?} {:?}", design.lookaside.kind, design.front_side.kind);
    }
}
