//! The oracle compares each translation of the hardware with the kernel's page state.

use crate::Stop;
use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use ambulator_base::{AccessKind, Cycle, PhysAddr, ProcessId, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served, TableRegisters, Walk};
use ambulator_os::{Kernel, PageState};
use std::fmt::Write as _;

/// Whether the kernel maps `va` to `at` and permits `access`.
#[inline(always)]
pub(crate) fn agrees(state: PageState, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
    // Without branches: loads and stores come in no order that a sim host could predict.
    let located = state.frame().start().0 | (va.0 & 0xfff) == at.0;
    let permitted = (access != AccessKind::Store) | state.writable();
    state.present() & located & permitted & ((access != AccessKind::Fetch) | state.executable())
}

/// Checks translations against the kernel, and counts them. It checks all of them: there is no sampling.
///
/// Most translations are of recently checked pages, so the checker caches page states, each with the number
/// of changes to the process's page map at that time: the state is valid until the next change. Measured in
/// instructions of the sim host on the development profile: checking the translations of
/// [`ambulator_mmu::Mmu::recall`] costs 0.9% of a run of GUPS and 2.6% of a run of STREAM (1.8% and 4.7%
/// without this cache).
pub(crate) struct Checker {
    on: bool,
    checked: u64,
    known: Box<[Known; KNOWN]>,
}

/// Number of cached page states.
const KNOWN: usize = 64;

/// A cached page state.
#[derive(Clone, Copy)]
struct Known {
    vpn: u64,
    process: ProcessId,
    changes: u64,
    state: PageState,
}

impl Checker {
    /// A checker; one that is not `on` accepts and counts nothing.
    pub fn new(on: bool) -> Checker {
        let empty = Known { vpn: u64::MAX, process: ProcessId(0), changes: 0, state: PageState::NONE };
        Checker { on, checked: 0, known: Box::new([empty; KNOWN]) }
    }

    /// Translations checked so far.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Counts a translation that came from the kernel itself.
    pub fn count_kernel_translation(&mut self) {
        self.checked += 1;
    }

    /// Whether hardware may use a translation: it matches the kernel, or the checker is off.
    #[inline(always)]
    pub fn accepts(
        &mut self,
        os: &OperatingSystem,
        process: ProcessId,
        va: VirtAddr,
        at: PhysAddr,
        access: AccessKind,
    ) -> bool {
        !self.on || self.matches_kernel(os, process, va, at, access)
    }

    /// The kernel's state of a page, from the cache if valid.
    #[inline(always)]
    fn page_state(&mut self, kernel: &Kernel, process: ProcessId, va: VirtAddr) -> PageState {
        let Some(pages) = kernel.page_map(process) else { return PageState::NONE };
        let (vpn, changes) = (va.vpn().0, pages.changes());
        let known = &mut self.known[vpn as usize % KNOWN];
        if known.vpn != vpn || known.changes != changes || known.process != process {
            *known = Known { vpn, process, changes, state: pages.get(va) };
        }
        known.state
    }

    /// Whether an access needs no page fault, of the kernel or of the hypervisor.
    #[inline(always)]
    pub fn is_mapped(&mut self, os: &OperatingSystem, process: ProcessId, va: VirtAddr, access: AccessKind) -> bool {
        let state = self.page_state(os.kernel(), process, va);
        let at = state.frame().start().offset(va.0 & 0xfff);
        agrees(state, va, at, access) && (!os.is_nested() || os.host_physical(at, access).is_some())
    }

    /// Whether a translation matches the kernel.
    #[inline(always)]
    pub fn matches_kernel(
        &mut self,
        os: &OperatingSystem,
        process: ProcessId,
        va: VirtAddr,
        at: PhysAddr,
        access: AccessKind,
    ) -> bool {
        self.checked += 1;
        let state = self.page_state(os.kernel(), process, va);
        if !os.is_nested() {
            return agrees(state, va, at, access);
        }
        let guest = state.frame().start().offset(va.0 & 0xfff);
        agrees(state, va, guest, access) && os.host_physical(guest, access) == Some(at)
    }
}

/// The report of a translation that disagrees with the kernel (`at`; `None` if hardware found no page): the
/// address, the kernel's page state, the steps of the walk.
#[cold]
pub(crate) fn mismatch(
    hw: &mut Hardware,
    os: &OperatingSystem,
    number: usize,
    va: VirtAddr,
    at: Option<PhysAddr>,
    access: AccessKind,
) -> Stop {
    let core = &mut hw.cores[number];
    let state = os.kernel().page_state(core.process, va);
    let (memory, guest) = os.memories();
    let mut recorder = Recorder { memory, guest, steps: Vec::new() };
    // What the walker is asked for: with an intermediate address space, the address there.
    let before = TableRegisters(os.kernel().intermediate_registers(core.process));
    let walked = core.mmu.locate(&before, va, &os.kernel().memory).map_or(va, |at| VirtAddr(at.0));
    let walk = core.mmu.walk_untimed(walked, &mut recorder);
    let steps = format_steps(&walk, &recorder.steps);
    let hardware = match at {
        Some(at) => format!("hardware translated it to {at}"),
        None => "hardware found no page there".into(),
    };
    Stop::Failed(format!(
        "the oracle stopped the run: {access:?} of {va} by core {number} after {} instructions: {hardware}, but {}. The walk, \
         repeated now:\n{steps}",
        core.executed,
        describe(state),
    ))
}

/// A read of a walk.
struct Step {
    /// The address in the machine's memory.
    at: PhysAddr,
    /// The guest-physical address, for the guest's table.
    guest: Option<PhysAddr>,
    value: u64,
}

/// A port that records the reads of a walk and changes nothing, to report the steps of a wrong walk.
struct Recorder<'a> {
    memory: &'a PhysicalMemory,
    /// The guest's bytes, when nested paging is on.
    guest: Option<&'a PhysicalMemory>,
    steps: Vec<Step>,
}

impl Recorder<'_> {
    fn line(&mut self, memory: &PhysicalMemory, read: PhysAddr, at: PhysAddr, guest: Option<PhysAddr>) -> LoadedLine {
        let words = memory.line(read);
        self.steps.push(Step { at, guest, value: words[(read.0 as usize / 8) % 8] });
        LoadedLine { words, ready: Cycle(0), served: Served::L1 }
    }
}

impl MemoryPort for Recorder<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        let value = self.memory.read(at);
        self.steps.push(Step { at, guest: None, value });
        Loaded { value, ready: now, served: Served::L1 }
    }

    fn load_line(&mut self, at: PhysAddr, _now: Cycle) -> LoadedLine {
        self.line(self.memory, at, at, None)
    }

    fn fetch(&mut self, _at: PhysAddr, now: Cycle) -> Cycle {
        now
    }

    fn update(&mut self, _at: PhysAddr, _bits: u64, _now: Cycle) {}

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        let value = self.guest.unwrap_or(self.memory).read(guest);
        self.steps.push(Step { at, guest: Some(guest), value });
        Loaded { value, ready: now, served: Served::L1 }
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, _now: Cycle) -> LoadedLine {
        self.line(self.guest.unwrap_or(self.memory), guest, at, Some(guest))
    }
}

/// A page state in words.
fn describe(state: PageState) -> String {
    if !state.present() {
        return "the kernel has no page there".into();
    }
    format!(
        "the kernel has frame {:#x} there, part of a {} page, {}{}",
        state.frame().0,
        state.size(),
        if state.writable() { "writable" } else { "read-only" },
        if state.executable() { ", executable" } else { "" }
    )
}

/// The steps of a walk, one per line.
fn format_steps(walk: &Walk, steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { at, guest, value } in steps {
        let guest = guest.map_or(String::new(), |guest| format!("guest-physical {guest}, "));
        let _ = writeln!(text, "    read {value:#018x} at {guest}{at}");
    }
    let _ = write!(text, "    and ended with {:?}", walk.outcome);
    text
}
