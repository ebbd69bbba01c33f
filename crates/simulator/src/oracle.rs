//! The oracle compares each translation of the hardware with the kernel's page state.

use crate::Stop;
use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use crate::walk_steps::write_steps;
use ambulator_base::watch::{self, LoadedBytes, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, PhysAddr, ProcessId, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served, TableRegisters};
use ambulator_os::{Kernel, PageMap, PageState};

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
#[derive(State)]
pub(crate) struct Checker {
    #[state(skip)]
    on: bool,
    checked: u64,
    #[state(skip)]
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

    /// Whether it checks anything.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on
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

    /// Whether a check compares the whole translation with the state of a page of the kernel's.
    #[inline(always)]
    pub fn checks_pages(&self, os: &OperatingSystem) -> bool {
        self.on && !os.is_nested()
    }

    /// [`Checker::accepts`] if [`Checker::checks_pages`]: the kernel's state of the page, if it agrees.
    #[inline(always)]
    fn accepts_page(
        &mut self,
        pages: &PageMap,
        process: ProcessId,
        va: VirtAddr,
        at: PhysAddr,
        access: AccessKind,
    ) -> Option<PageState> {
        self.checked += 1;
        let state = self.state_of(pages, process, va);
        agrees(state, va, at, access).then_some(state)
    }

    /// [`Checker::accepts`] in a process with that page map: the kernel's state of the page if
    /// [`Checker::checks_pages`], and else none.
    #[inline(always)]
    pub fn accepts_in(
        &mut self,
        os: &OperatingSystem,
        pages: &PageMap,
        process: ProcessId,
        va: VirtAddr,
        at: PhysAddr,
        access: AccessKind,
    ) -> Option<PageState> {
        if self.checks_pages(os) {
            self.accepts_page(pages, process, va, at, access)
        } else {
            self.accepts(os, process, va, at, access).then_some(PageState::NONE)
        }
    }

    /// Counts translations that equal one which was checked before, in the same state of the kernel.
    pub fn count_repeated(&mut self, translations: u64) {
        self.checked += translations;
    }

    /// The kernel's state of a page, from the cache if valid.
    #[inline(always)]
    fn page_state(&mut self, kernel: &Kernel, process: ProcessId, va: VirtAddr) -> PageState {
        match kernel.page_map(process) {
            Some(pages) => self.state_of(pages, process, va),
            None => PageState::NONE,
        }
    }

    /// [`Checker::page_state`] of a process with that page map.
    #[inline(always)]
    fn state_of(&mut self, pages: &PageMap, process: ProcessId, va: VirtAddr) -> PageState {
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
        let pages = os.kernel().page_map(process);
        pages.is_some_and(|pages| self.is_mapped_page(os, pages, process, va, access))
    }

    /// [`Checker::is_mapped`] in a process with that page map.
    #[inline(always)]
    pub fn is_mapped_page(
        &mut self,
        os: &OperatingSystem,
        pages: &PageMap,
        process: ProcessId,
        va: VirtAddr,
        access: AccessKind,
    ) -> bool {
        let state = self.state_of(pages, process, va);
        let at = state.frame().start().offset(va.0 & 0xfff);
        agrees(state, va, at, access) && (!os.is_nested() || os.host_physical(at, access).is_some())
    }

    /// The kernel's own translation of an access in a process with that page map, without a hypervisor, if it
    /// needs no fault. Counts it.
    #[inline(always)]
    pub fn kernel_translation(
        &mut self,
        pages: &PageMap,
        process: ProcessId,
        va: VirtAddr,
        access: AccessKind,
    ) -> Option<PhysAddr> {
        let state = self.state_of(pages, process, va);
        let at = state.frame().start().offset(va.0 & 0xfff);
        if !agrees(state, va, at, access) {
            return None;
        }
        self.count_kernel_translation();
        Some(at)
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
    let mut reader = Reader { memory, guest };
    // What the walker is asked for: with an intermediate address space, the address there.
    let before = TableRegisters(os.kernel().intermediate_registers(core.process));
    let walked = core.mmu.locate(&before, va, &os.kernel().memory).map_or(va, |at| VirtAddr(at.0));
    let (walk, told) = watch::watch(|| core.mmu.walk_untimed(walked, &mut reader));
    let mut steps = String::new();
    write_steps(&mut steps, &told, 0);
    let hardware = match at {
        Some(at) => format!("hardware translated it to {at}"),
        None => "hardware found no page there".into(),
    };
    Stop::Failed(format!(
        "the oracle stopped the run: {access:?} of {va} by core {number} after {} instructions: {hardware}, but {}. The walk, \
         repeated now:\n{steps}    and ended with {:?}",
        core.executed,
        describe(state),
        walk.outcome,
    ))
}

/// A port that changes nothing, to repeat a wrong walk and tell its steps.
struct Reader<'a> {
    memory: &'a PhysicalMemory,
    /// The guest's bytes, when nested paging is on.
    guest: Option<&'a PhysicalMemory>,
}

impl Reader<'_> {
    /// Tells of a load at `at`: of one word or of the line.
    fn line(&self, guest: Option<PhysAddr>, at: PhysAddr, word: bool) -> LoadedLine {
        let (memory, read) = match guest {
            Some(guest) => (self.guest.unwrap_or(self.memory), guest),
            None => (self.memory, at),
        };
        let words = memory.line(read);
        let wanted = (read.0 / 8 % 8) as usize;
        // Which level would serve it is not known.
        let told = if word { &words[wanted..=wanted] } else { &words };
        watch::step(|| Step {
            loaded: Some(LoadedBytes {
                at: at.0,
                guest: guest.map(|guest| guest.0),
                words: told.to_vec(),
                served: String::new(),
                row: String::new(),
            }),
            ..Step::new(StepKind::Load, "bytes of the design", Cycle(0), Cycle(0))
        });
        LoadedLine { words, ready: Cycle(0), served: Served::L1 }
    }

    fn word(&self, guest: Option<PhysAddr>, at: PhysAddr) -> Loaded {
        let line = self.line(guest, at, true);
        let value = line.words[(guest.unwrap_or(at).0 / 8 % 8) as usize];
        Loaded { value, ready: line.ready, served: line.served }
    }
}

impl MemoryPort for Reader<'_> {
    fn load(&mut self, at: PhysAddr, _now: Cycle) -> Loaded {
        self.word(None, at)
    }

    fn load_line(&mut self, at: PhysAddr, _now: Cycle) -> LoadedLine {
        self.line(None, at, false)
    }

    fn peek_line(&mut self, at: PhysAddr) -> [u64; 8] {
        self.memory.line(at)
    }

    fn fetch(&mut self, _at: PhysAddr, now: Cycle) -> Cycle {
        now
    }

    fn update(&mut self, _at: PhysAddr, _bits: u64, _now: Cycle) {}

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, _now: Cycle) -> Loaded {
        self.word(Some(guest), at)
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, _now: Cycle) -> LoadedLine {
        self.line(Some(guest), at, false)
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
