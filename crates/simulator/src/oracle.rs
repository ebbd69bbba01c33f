//! The oracle: each translation that hardware produces is compared with the kernel's truth.

use crate::Stop;
use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use ambulator_base::{AccessKind, Cycle, PhysAddr, ProcessId, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served, TableRegisters, Walk};
use ambulator_os::{Kernel, PageState};
use std::fmt::Write as _;

/// Whether `at` is where the kernel has put `va`, with the right to do `access`.
#[inline(always)]
pub(crate) fn agrees(truth: PageState, va: VirtAddr, at: PhysAddr, access: AccessKind) -> bool {
    truth.present()
        && truth.frame().start().0 | (va.0 & 0xfff) == at.0
        && match access {
            AccessKind::Load => true,
            AccessKind::Store => truth.writable(),
            AccessKind::Fetch => truth.executable(),
        }
}

/// Asks whether translations are the kernel's, and counts them. It asks about all of them: there is no
/// sampling.
///
/// Most are of pages asked about a moment ago, so it keeps the kernel's answers, each with the number of
/// changes that the process's page map had seen: until the next change, asking again would give the same.
/// Measured in instructions of the sim host on the development profile: checking the translations that
/// [`ambulator_mmu::Mmu::recall`] answers costs 0.9% of a run of GUPS and 2.6% of one of STREAM (1.8% and
/// 4.7% without what is kept here).
pub(crate) struct Checker {
    on: bool,
    checked: u64,
    known: Box<[Known; KNOWN]>,
}

/// Answers of the kernel that are kept.
const KNOWN: usize = 64;

/// What the kernel said of a page.
#[derive(Clone, Copy)]
struct Known {
    vpn: u64,
    process: ProcessId,
    changes: u64,
    truth: PageState,
}

impl Checker {
    /// A checker; one that is not `on` finds nothing wrong and counts nothing.
    pub fn new(on: bool) -> Checker {
        let nothing = Known { vpn: u64::MAX, process: ProcessId(0), changes: 0, truth: PageState::NONE };
        Checker { on, checked: 0, known: Box::new([nothing; KNOWN]) }
    }

    /// Translations checked so far.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// A translation that is the kernel's own.
    pub fn count_kernel_translation(&mut self) {
        self.checked += 1;
    }

    /// Whether hardware may use a translation: it is the kernel's, or nobody checks.
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

    /// What the kernel knows about a page.
    #[inline(always)]
    fn ask(&mut self, kernel: &Kernel, process: ProcessId, va: VirtAddr) -> PageState {
        let Some(pages) = kernel.page_map(process) else { return PageState::NONE };
        let (vpn, changes) = (va.vpn().0, pages.changes());
        let known = &mut self.known[vpn as usize % KNOWN];
        if known.vpn != vpn || known.changes != changes || known.process != process {
            *known = Known { vpn, process, changes, truth: pages.get(va) };
        }
        known.truth
    }

    /// Whether a translation is the kernel's.
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
        let truth = self.ask(os.kernel(), process, va);
        if !os.is_nested() {
            return agrees(truth, va, at, access);
        }
        let guest = truth.frame().start().offset(va.0 & 0xfff);
        agrees(truth, va, guest, access) && os.host_physical(guest, access) == Some(at)
    }
}

/// The report of a translation that is not the kernel's (`at`; `None` where hardware found no page): the
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
    let truth = os.kernel().page_state(core.process, va);
    let (memory, guest) = os.memories();
    let mut recorder = Recorder { memory, guest, steps: Vec::new() };
    // What the walker is asked for: with an intermediate address space, the address there.
    let before = TableRegisters(os.kernel().intermediate_registers(core.process));
    let walked = core.mmu.locate(&before, va, &os.kernel().memory).map_or(va, |at| VirtAddr(at.0));
    let walk = core.mmu.walk_untimed(walked, &mut recorder);
    let steps = tell_steps(&walk, &recorder.steps);
    let hardware = match at {
        Some(at) => format!("hardware translated it to {at}"),
        None => "hardware found no page there".into(),
    };
    Stop::Failed(format!(
        "the oracle stopped the run: {access:?} of {va} by core {number} after {} instructions: {hardware}, but {}. A walk \
         now\n{steps}",
        core.executed,
        describe(truth),
    ))
}

/// What a walk read.
struct Step {
    /// Where: in the machine's memory.
    at: PhysAddr,
    /// Where the guest has it, in a virtual machine's own table.
    guest: Option<PhysAddr>,
    value: u64,
}

/// A port that notes what a walk read and changes nothing: for telling the steps of a walk that went wrong.
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

/// What the kernel's truth says, for a person.
fn describe(truth: PageState) -> String {
    if !truth.present() {
        return "the kernel has no page there".into();
    }
    format!(
        "the kernel has frame {:#x} there, part of a {} page, {}{}",
        truth.frame().0,
        truth.size(),
        if truth.writable() { "writable" } else { "read-only" },
        if truth.executable() { ", executable" } else { "" }
    )
}

/// The steps of a walk, one a line.
fn tell_steps(walk: &Walk, steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { at, guest, value } in steps {
        let guest = guest.map_or(String::new(), |guest| format!("guest-physical {guest}, "));
        let _ = writeln!(text, "    read {value:#018x} at {guest}{at}");
    }
    let _ = write!(text, "    and came to {:?}", walk.outcome);
    text
}
