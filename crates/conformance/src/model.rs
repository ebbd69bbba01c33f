//! The reference model of page tables, and the comparison with it.

use super::{Options, Summary, TestBed, TestPort};
use ambulator_base::{AccessKind, Asid, Cycle, Page, VirtAddr};
use ambulator_mmu::{TableRegisters, WalkOutcome, Walker};
use ambulator_os::{Mapping, Translations};
use std::collections::BTreeMap;

/// Cycles of a load.
const LATENCY: u64 = 100;

/// The registers of all parts, and their generation.
fn registers_of(translations: &Translations) -> (Vec<u64>, u64) {
    let words = [translations.registers(), translations.companion_registers(), translations.intermediate_registers()];
    (words.concat(), translations.registers_generation())
}

/// A process: its translations, and their reference model.
pub struct Process {
    pub translations: Translations,
    pub asid: Asid,
    /// The mapped pages, by first address.
    pub pages: BTreeMap<u64, Mapping>,
    /// VMAs, as half-open ranges of addresses.
    pub areas: Vec<(u64, u64)>,
    /// The registers of all parts and their generation, at the last check.
    pub registers: (Vec<u64>, u64),
}

impl Process {
    pub fn new(translations: Translations, asid: Asid) -> Process {
        let registers = registers_of(&translations);
        Process { translations, asid, pages: BTreeMap::new(), areas: Vec::new(), registers }
    }

    /// The mapping of `va`.
    pub fn find(&self, va: VirtAddr) -> Option<Mapping> {
        let (_, mapping) = self.pages.range(..=va.0).next_back()?;
        (va < mapping.page.end()).then_some(*mapping)
    }

    /// Whether any page is mapped in the range of `page`.
    pub fn overlaps(&self, page: Page) -> bool {
        self.find(page.start).is_some() || self.pages.range(page.start.0..page.end().0).next().is_some()
    }

    /// Compares a software look-up with the reference model.
    pub fn check_lookup(&self, va: VirtAddr, bed: &TestBed) -> Result<(), String> {
        self.translations.prefetch_sim_host(va, &bed.memory);
        let (found, expected) = (self.translations.lookup(va, &bed.memory), self.find(va));
        if found != expected {
            return Err(format!("look-up of {va:?} in {:?} found {found:?} instead of {expected:?}", self.asid));
        }
        Ok(())
    }

    /// Checks that the generation changes with the registers.
    pub fn check_registers(&mut self) -> Result<(), String> {
        let now = registers_of(&self.translations);
        if now.0 != self.registers.0 && now.1 == self.registers.1 {
            return Err(format!(
                "the registers of {:?} changed from {:x?} to {:x?} with the same generation {}",
                self.asid, self.registers.0, now.0, now.1
            ));
        }
        self.registers = now;
        Ok(())
    }
}

/// A core: a walker with the registers of a process.
pub struct Core {
    pub walker: Box<dyn Walker>,
    /// The process by number, and the generation of the loaded registers.
    pub loaded: Option<(usize, u64)>,
}

impl Core {
    pub fn new(walker: Box<dyn Walker>) -> Core {
        Core { walker, loaded: None }
    }

    /// Switches to process `number`, reloading registers if they have changed.
    pub fn run(&mut self, number: usize, process: &Process) {
        let generation = process.translations.registers_generation();
        if self.loaded != Some((number, generation)) {
            let registers = TableRegisters(process.translations.registers());
            self.walker.load_registers(process.asid, &registers);
            self.loaded = Some((number, generation));
        }
    }

    /// Compares a hardware walk with the reference model. The core must run the process.
    pub fn check_walk(
        &mut self,
        process: &mut Process,
        va: VirtAddr,
        access: AccessKind,
        bed: &mut TestBed,
        options: &Options,
        summary: &mut Summary,
    ) -> Result<(), String> {
        let now = Cycle(1000 * summary.walks);
        let mut port = TestPort::new(&mut bed.memory, LATENCY);
        let walk = self.walker.walk(va, access, now, &mut port);
        let TestPort { loads, fetches, updates, .. } = port;
        summary.walks += 1;
        summary.loads += loads.len() as u64;
        summary.fetches += fetches.len() as u64;
        let asid = process.asid;
        let what = format!("{access:?} walk of {va:?} in {asid:?}");
        let writes = updates.iter().map(|(at, _)| at);
        for at in loads.iter().chain(writes) {
            if bed.frames.is_free(at.pfn()) || at.0 >= bed.memory.bytes() {
                return Err(format!("{what} accessed {at:?} in a frame that is not allocated: {loads:x?}"));
            }
        }
        if walk.accesses as usize != loads.len() {
            return Err(format!("{what} reports {} loads instead of {}", walk.accesses, loads.len()));
        }
        if walk.accesses > options.max_loads {
            return Err(format!("{what} took {} loads; at most {} are allowed", walk.accesses, options.max_loads));
        }
        let least = if loads.is_empty() { 0 } else { LATENCY };
        if walk.ready.since(now) < least || walk.ready < now {
            return Err(format!(
                "{what} with {} loads of {LATENCY} cycles took {}",
                loads.len(),
                walk.ready.since(now)
            ));
        }
        let expected = process.find(va);
        let (found, mut expected) = match (walk.outcome, expected) {
            (WalkOutcome::NotMapped, None) => return Ok(()),
            (WalkOutcome::Mapped(found), Some(expected)) => (found, expected),
            (outcome, _) => {
                return Err(format!("{what} ended with {outcome:?} instead of {expected:?} (loads {loads:x?})"));
            }
        };
        if loads.is_empty() {
            return Err(format!("{what} found {found:?} without a load"));
        }
        expected.flags.accessed = true;
        expected.flags.dirty |= access == AccessKind::Store && expected.flags.writable;
        let stale_copy = options.copied_entries && access != AccessKind::Store && !found.dirty;
        let same = found.frame == expected.frame
            && found.size == expected.page.size
            && found.writable == expected.flags.writable
            && found.executable == expected.flags.executable
            && (found.dirty == expected.flags.dirty || stale_copy);
        if !same {
            return Err(format!("{what} found {found:?} instead of {expected:?} (loads {loads:x?})"));
        }
        process.pages.insert(expected.page.start.0, expected);
        Ok(())
    }
}
