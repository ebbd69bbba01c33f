//! The oracle: each translation that hardware produces is compared with the kernel's truth.

use ambulator_base::{AccessKind, Cycle, PhysAddr, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Loaded, LoadedLine, MemoryPort, Served, Walk};
use ambulator_os::PageState;
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

/// What a walk read.
pub(crate) struct Step {
    /// Where: in the machine's memory.
    at: PhysAddr,
    /// Where the guest has it, in a virtual machine's own table.
    guest: Option<PhysAddr>,
    value: u64,
}

/// A port that notes what a walk read and changes nothing: for telling the steps of a walk that went wrong.
pub(crate) struct Recorder<'a> {
    pub memory: &'a PhysicalMemory,
    /// The guest's bytes, when nested paging is on.
    pub guest: Option<&'a PhysicalMemory>,
    pub steps: Vec<Step>,
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
pub(crate) fn describe(truth: PageState) -> String {
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
pub(crate) fn tell_steps(walk: &Walk, steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { at, guest, value } in steps {
        let guest = guest.map_or(String::new(), |guest| format!("guest-physical {guest}, "));
        let _ = writeln!(text, "    read {value:#018x} at {guest}{at}");
    }
    let _ = write!(text, "    and came to {:?}", walk.outcome);
    text
}
