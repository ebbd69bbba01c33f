//! A guest's kernel and a hypervisor that hash together: what the engine is right about is what both kernels
//! and both walkers find, after any events.

use ambulator_base::{
    AccessKind, Advice, Cycle, FRAME_BYTES, MapKind, PhysAddr, ProcessId, Protection, Random, VirtAddr, VmEvent,
};
use ambulator_conformance::TestPort;
use ambulator_designs::catalogue;
use ambulator_designs::revelator::{DegreeFilter, RevelatorSpec};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_mmu::{Bus, Invalidation, Speculator, TableRegisters, WalkOutcome, Walker};
use ambulator_os::{CostTable, Kernel, KernelSpec, PageSizePolicy};
use ambulator_sockets::{DesignParts, Socket};

const START: u64 = 0x5555_4000_0000;
const LEN: u64 = 24 << 20;
const GUEST: u64 = 256 << 20;
const HOST: u64 = 384 << 20;

struct Side {
    kernel: Kernel,
    walker: Box<dyn Walker>,
}

impl Side {
    /// A walk that finds the page; where its entry lies.
    fn entry(&mut self, process: ProcessId, va: VirtAddr) -> PhysAddr {
        let mut shootdowns = Vec::new();
        self.kernel.take_shootdowns(&mut shootdowns);
        if !shootdowns.is_empty() {
            self.walker.invalidate(Invalidation::All);
        }
        self.walker.load_registers(self.kernel.asid(process), &TableRegisters(self.kernel.registers(process)));
        let mut port = TestPort::new(&mut self.kernel.memory, 50);
        let walk = self.walker.walk(va, AccessKind::Load, Cycle(0), &mut port);
        assert!(matches!(walk.outcome, WalkOutcome::Mapped(_)), "{va:?}");
        self.walker.leaf_pte_address().expect("entries of trees have neighbours")
    }

    fn at(&self, process: ProcessId, va: VirtAddr) -> Option<PhysAddr> {
        let truth = self.kernel.page_state(process, va);
        truth.present().then(|| truth.frame().start().offset(va.0 & 0xfff))
    }
}

struct Both {
    guest: Side,
    host: Side,
    machine: ProcessId,
    engine: Box<dyn Speculator>,
    /// Pages asked for, those with a line that is not theirs, and lines that were guessed of them: of data,
    /// and of tables.
    seen: u64,
    wrong: u64,
    data: u64,
    lines: u64,
}

fn side(parts: DesignParts, bytes: u64, policy: PageSizePolicy) -> (Side, Option<Box<dyn Speculator>>) {
    let spec = KernelSpec { page_size_policy: policy, ..KernelSpec::default() };
    let frames = BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES);
    let memory = PhysicalMemory::new(bytes).unwrap();
    let kernel = Kernel::new(&spec, CostTable::default(), memory, frames, parts.translations, parts.placement);
    let (mut walker, speculator) = (parts.new_walker, parts.new_speculator);
    (Side { kernel, walker: walker(0) }, speculator.map(|mut new| new(0)))
}

impl Both {
    fn new(policy: PageSizePolicy, host_policy: PageSizePolicy, taken: f64) -> Both {
        let choice = catalogue().choice("radix");
        let mut choice = choice.with(Socket::Speculation, "revelator").with(Socket::Placement, "revelator");
        choice.hypervisor_table = Some("radix".into());
        let spec = RevelatorSpec { nested: true, filter: DegreeFilter::Perfect, taken, ..RevelatorSpec::default() };
        choice.settings.put("revelator", &spec);
        let (guest, host) = catalogue().build_nested(&choice);
        let (guest, engine) = side(guest, GUEST, policy);
        let (mut host, _) = side(host, HOST, host_policy);
        let machine = host.kernel.spawn().unwrap();
        let map = VmEvent::Map {
            start: VirtAddr(0),
            len: GUEST,
            protection: Protection::READ_WRITE,
            kind: MapKind::Anonymous,
        };
        host.kernel.event(machine, &map).unwrap();
        Both { guest, host, machine, engine: engine.unwrap(), seen: 0, wrong: 0, data: 0, lines: 0 }
    }

    /// The hypervisor backs guest-physical memory.
    fn back(&mut self, guest: PhysAddr) -> PhysAddr {
        let va = VirtAddr(guest.0);
        if self.host.at(self.machine, va).is_none() {
            self.host.kernel.fault(self.machine, va, AccessKind::Store).unwrap();
        }
        self.host.at(self.machine, va).unwrap()
    }

    fn event(&mut self, process: ProcessId, event: &VmEvent) {
        self.guest.kernel.event(process, event).unwrap();
        self.give_back();
    }

    fn give_back(&mut self) {
        let mut released = Vec::new();
        self.guest.kernel.take_released(&mut released);
        for (frame, frames) in released {
            let drop = VmEvent::Advise {
                start: VirtAddr(frame.start().0),
                len: frames * FRAME_BYTES,
                advice: Advice::DontNeed,
            };
            self.host.kernel.event(self.machine, &drop).unwrap();
        }
    }

    /// What the engine guesses for a page that is there, and nothing else, is where it lies, and where the
    /// entries lie that nested walks end with.
    fn check(&mut self, process: ProcessId, va: VirtAddr, shared: bool) {
        let Some(in_guest) = self.guest.at(process, va) else { return };
        let data = self.back(in_guest);
        let entry = self.guest.entry(process, va);
        let entry_at = self.back(PhysAddr(entry.0));
        let of_data = self.host.entry(self.machine, VirtAddr(in_guest.0));
        let of_entry = self.host.entry(self.machine, VirtAddr(entry.0));
        self.engine.load_registers(self.guest.kernel.asid(process), &TableRegisters::default());
        let guess = self.engine.speculate(VirtAddr(0), va, AccessKind::Load, Cycle(0), Bus::default());
        let guessed = &guess.data[..usize::from(guess.data_count)];
        let lines = &guess.table[..usize::from(guess.table_count)];
        let wanted = [entry_at, of_data, of_entry];
        let right = guessed.iter().all(|at| *at == data) && lines.iter().all(|at| wanted.contains(at));
        assert!(right || shared, "{va:?}: {data:?} and {wanted:?} are right, {guessed:?} and {lines:?} were guessed");
        self.wrong += u64::from(!right);
        self.seen += 1;
        self.data += guessed.len() as u64;
        self.lines += lines.len() as u64;
    }

    fn touch(&mut self, process: ProcessId, va: VirtAddr) {
        if self.guest.at(process, va).is_none() && self.guest.kernel.fault(process, va, AccessKind::Store).is_ok() {
            self.give_back();
        }
    }

    fn life(&mut self, seed: u64, forks: bool) {
        let mut random = Random::new(seed);
        let mut processes = vec![self.guest.kernel.spawn().unwrap()];
        let map = |start, len| VmEvent::Map {
            start: VirtAddr(start),
            len,
            protection: Protection::READ_WRITE,
            kind: MapKind::Anonymous,
        };
        self.event(processes[0], &map(START, LEN));
        for step in 0..4000 {
            let process = processes[random.below(processes.len() as u64) as usize];
            let at = START + (random.below(LEN) & !0xfff);
            match random.below(100) {
                0..=1 => {
                    let len = (random.below(1 << 20) | 0x1000) & !0xfff;
                    let len = len.min(START + LEN - at);
                    self.event(process, &VmEvent::Unmap { start: VirtAddr(at), len });
                    self.event(process, &map(at, len));
                }
                2 if forks && processes.len() < 3 => processes.push(self.guest.kernel.fork(process).unwrap()),
                3 => self.event(
                    process,
                    &VmEvent::Advise { start: VirtAddr(at & !0x1f_ffff), len: 2 << 20, advice: Advice::DontNeed },
                ),
                4 if processes.len() > 1 && step % 3 == 0 => {
                    let gone = processes.swap_remove(random.below(processes.len() as u64) as usize);
                    self.event(gone, &VmEvent::Exit { process: gone });
                }
                _ => self.touch(process, VirtAddr(at)),
            }
            for _ in 0..8 {
                let process = processes[random.below(processes.len() as u64) as usize];
                self.check(process, VirtAddr(START + random.below(LEN)), forks);
            }
        }
    }
}

#[test]
fn guesses_through_both_hashes_are_what_both_kernels_did() {
    use PageSizePolicy::{Always, Never, Reservation};
    for (policy, host_policy) in [(Never, Never), (Reservation, Never), (Always, Always), (Always, Never)] {
        let mut both = Both::new(policy, host_policy, 0.0);
        both.life(11, true);
        assert!(both.seen > 300 && both.data > 0, "{policy:?} {host_policy:?}: {} pages", both.seen);
        assert!(both.wrong * 8 < both.seen, "{policy:?} {host_policy:?}: {} of {}", both.wrong, both.seen);
        // Pages that a fork leaves shared are reported as the parent's; alone, a process finds nearly all of its pages.
        let mut both = Both::new(policy, host_policy, 0.0);
        both.life(12, false);
        let (data, lines) = (both.data as f64 / both.seen as f64, both.lines as f64 / both.seen as f64);
        // A huge page of the hypervisor's under small ones of the guest lies where no hash of theirs says.
        let least = if host_policy == Never { 0.8 } else { 0.1 };
        assert!(data > least, "{policy:?} {host_policy:?}: data was guessed for {data} of pages");
        assert!(lines > 1.0, "{policy:?} {host_policy:?}: {lines} lines of tables were guessed for a page");
    }
}

#[test]
fn under_pressure_less_is_guessed() {
    let mut free = Both::new(PageSizePolicy::Never, PageSizePolicy::Never, 0.0);
    free.life(5, false);
    let mut full = Both::new(PageSizePolicy::Never, PageSizePolicy::Never, 0.95);
    full.life(5, false);
    let share = |both: &Both| both.data as f64 / both.seen as f64;
    // Six tiers find 1 - 0.95^6 = 0.26 of what is wanted.
    assert!((share(&full) - 0.26).abs() < 0.1 && share(&free) > 0.9, "{} {}", share(&full), share(&free));
}
