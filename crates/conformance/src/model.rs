//! The plain map that a table is held to, and the comparison.

use super::{Options, Summary, TestBed, TestPort};
use ambulator_base::{AccessKind, Asid, Cycle, Page, VirtAddr};
use ambulator_mmu::{TableRegisters, WalkOutcome, Walker};
use ambulator_os::{Mapping, Translations};
use std::collections::BTreeMap;

/// Cycles of a load in the checks.
const LATENCY: u64 = 100;

/// The registers of all parts, and their generation.
fn registers_of(translations: &Translations) -> (Vec<u64>, u64) {
    let words = [translations.registers(), translations.companion_registers(), translations.intermediate_registers()];
    (words.concat(), translations.registers_generation())
}

/// A process: its translations, and what they must say.
pub struct Process {
    pub translations: Translations,
    pub asid: Asid,
    /// By first address.
    pub pages: BTreeMap<u64, Mapping>,
    /// VMAs, as first address and first address behind.
    pub areas: Vec<(u64, u64)>,
    /// The registers of all parts, and the generation that they had, at the latest look.
    pub registers: (Vec<u64>, u64),
}

impl Process {
    pub fn new(translations: Translations, asid: Asid) -> Process {
        let registers = registers_of(&translations);
        Process { translations, asid, pages: BTreeMap::new(), areas: Vec::new(), registers }
    }

    /// The page that holds `va`.
    pub fn find(&self, va: VirtAddr) -> Option<Mapping> {
        let (_, mapping) = self.pages.range(..=va.0).next_back()?;
        (va < mapping.page.end()).then_some(*mapping)
    }

    /// Whether anything is mapped in the page's range.
    pub fn overlaps(&self, page: Page) -> bool {
        self.find(page.start).is_some() || self.pages.range(page.start.0..page.end().0).next().is_some()
    }

    /// A software look-up against the map.
    pub fn check_lookup(&self, va: VirtAddr, bed: &TestBed) -> Result<(), String> {
        self.translations.prefetch_host(va, &bed.memory);
        let (said, truth) = (self.translations.lookup(va, &bed.memory), self.find(va));
        if said != truth {
            return Err(format!("look-up of {va:?} in {:?} says {said:?}, and it must be {truth:?}", self.asid));
        }
        Ok(())
    }

    /// Registers that change must say so by their generation.
    pub fn check_registers(&mut self) -> Result<(), String> {
        let now = registers_of(&self.translations);
        if now.0 != self.registers.0 && now.1 == self.registers.1 {
            return Err(format!(
                "the registers of {:?} changed from {:x?} to {:x?} under the same generation {}",
                self.asid, self.registers.0, now.0, now.1
            ));
        }
        self.registers = now;
        Ok(())
    }
}

/// A core: a walker, and whose registers it has.
pub struct Core {
    pub walker: Box<dyn Walker>,
    /// Number of the process and generation of its registers.
    pub loaded: Option<(usize, u64)>,
}

impl Core {
    pub fn new(walker: Box<dyn Walker>) -> Core {
        Core { walker, loaded: None }
    }

    /// A context switch to process `number`, or what it needs of one.
    pub fn run(&mut self, number: usize, process: &Process) {
        let generation = process.translations.registers_generation();
        if self.loaded != Some((number, generation)) {
            let registers = TableRegisters(process.translations.registers());
            self.walker.load_registers(process.asid, &registers);
            self.loaded = Some((number, generation));
        }
    }

    /// A hardware walk against the map; the core runs the process.
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
                return Err(format!("{what} touched {at:?}, a frame that nobody has: {loads:x?}"));
            }
        }
        if walk.accesses as usize != loads.len() {
            return Err(format!("{what} says that it took {} loads, and it took {}", walk.accesses, loads.len()));
        }
        if walk.accesses > options.max_loads {
            return Err(format!("{what} took {} loads, and the most is {}", walk.accesses, options.max_loads));
        }
        let least = if loads.is_empty() { 0 } else { LATENCY };
        if walk.ready.since(now) < least || walk.ready < now {
            return Err(format!(
                "{what} with {} loads of {LATENCY} cycles was done after {}",
                loads.len(),
                walk.ready.since(now)
            ));
        }
        let truth = process.find(va);
        let (found, mut truth) = match (walk.outcome, truth) {
            (WalkOutcome::NotMapped, None) => return Ok(()),
            (WalkOutcome::Mapped(found), Some(truth)) => (found, truth),
            (outcome, _) => {
                return Err(format!("{what} ended with {outcome:?}, and it must be {truth:?} (loads {loads:x?})"));
            }
        };
        if loads.is_empty() {
            return Err(format!("{what} found {found:?} without a load"));
        }
        truth.flags.accessed = true;
        truth.flags.dirty |= access == AccessKind::Store && truth.flags.writable;
        let unaware = options.copied_entries && access != AccessKind::Store && !found.dirty;
        let same = found.frame == truth.frame
            && found.size == truth.page.size
            && found.writable == truth.flags.writable
            && found.executable == truth.flags.executable
            && (found.dirty == truth.flags.dirty || unaware);
        if !same {
            return Err(format!("{what} found {found:?}, and it must be {truth:?} (loads {loads:x?})"));
        }
        process.pages.insert(truth.page.start.0, truth);
        Ok(())
    }
}
