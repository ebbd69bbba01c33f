//! The suite must fail tables that are wrong: each fault here is one that it has to find.

use ambulator_base::{AccessKind, Asid, CounterSink, Cycle, Page, PageSize, Pfn, PhysAddr, ProcessId, State, VirtAddr};
use ambulator_conformance::{Options, check};
use ambulator_designs::catalogue;
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{
    Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableFactory, TranslationsFactory,
};
use ambulator_sockets::DesignParts;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    // Of the OS half.
    SetFlagsDoesNothing,
    SetFlagsLosesTheFrame,
    UnmapSaysNoAccessedBit,
    UnmapLeavesTheEntry,
    LookupForgetsTheLastPage,
    DestroyLeaks,
    FailedMapKeepsAFrame,
    FootprintForgetsTheRoot,
    EntriesAreNotCounted,
    RegistersChangeSilently,
    OneTableForAll,
    // Of the hardware half.
    PagesAreNotInvalidated,
    NothingIsFlushed,
    OldRegisters,
    WrongFrameInLargePages,
    WrongSize,
    AlwaysWritable,
    NoDirtyBit,
    LoadsMakeDirty,
    OneLoadIsNotCounted,
    NoTime,
    FindsWhatIsNot,
}

const FAULTS: [Fault; 22] = [
    Fault::SetFlagsDoesNothing,
    Fault::SetFlagsLosesTheFrame,
    Fault::UnmapSaysNoAccessedBit,
    Fault::UnmapLeavesTheEntry,
    Fault::LookupForgetsTheLastPage,
    Fault::DestroyLeaks,
    Fault::FailedMapKeepsAFrame,
    Fault::FootprintForgetsTheRoot,
    Fault::EntriesAreNotCounted,
    Fault::RegistersChangeSilently,
    Fault::OneTableForAll,
    Fault::PagesAreNotInvalidated,
    Fault::NothingIsFlushed,
    Fault::OldRegisters,
    Fault::WrongFrameInLargePages,
    Fault::WrongSize,
    Fault::AlwaysWritable,
    Fault::NoDirtyBit,
    Fault::LoadsMakeDirty,
    Fault::OneLoadIsNotCounted,
    Fault::NoTime,
    Fault::FindsWhatIsNot,
];

struct Tables(Box<dyn TableFactory>, Fault, Option<Vec<u64>>);

impl TableFactory for Tables {
    fn new_table(
        &mut self,
        process: ProcessId,
        asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        let table = self.0.new_table(process, asid, os)?;
        let registers = self.2.get_or_insert_with(|| table.registers()).clone();
        Ok(Box::new(Table(table, self.1, registers)))
    }
}

#[derive(State)]
struct Table(Box<dyn PageTable>, #[state(skip)] Fault, Vec<u64>);

impl PageTable for Table {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let said = self.0.map(mapping, os);
        if said.is_err() && self.1 == Fault::FailedMapKeepsAFrame {
            os.frames.allocate(0);
        }
        said
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let mut said = self.0.unmap(page, os);
        if let Some(mapping) = &mut said {
            match self.1 {
                Fault::UnmapSaysNoAccessedBit => mapping.flags.accessed = false,
                Fault::UnmapLeavesTheEntry => drop(self.0.map(*mapping, os)),
                _ => {}
            }
        }
        said
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        match self.1 {
            Fault::SetFlagsDoesNothing => self.0.lookup(page.start, os.memory).is_some(),
            Fault::SetFlagsLosesTheFrame => self
                .0
                .unmap(page, os)
                .is_some_and(|entry| self.0.map(Mapping { frame: Pfn(1 << 30), flags, ..entry }, os).is_ok()),
            _ => self.0.set_flags(page, flags, os),
        }
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        let last = va.0 & 0x1f_f000 == 0x1f_f000 && self.1 == Fault::LookupForgetsTheLastPage;
        self.0.lookup(va, memory).filter(|_| !last)
    }

    fn registers(&self) -> Vec<u64> {
        let mut registers = self.0.registers();
        match self.1 {
            Fault::RegistersChangeSilently => registers.push(self.0.footprint().entries),
            Fault::OneTableForAll => registers.clone_from(&self.2),
            _ => {}
        }
        registers
    }

    fn registers_generation(&self) -> u64 {
        self.0.registers_generation()
    }

    fn footprint(&self) -> Footprint {
        let mut footprint = self.0.footprint();
        match self.1 {
            Fault::FootprintForgetsTheRoot => {
                footprint.bytes = footprint.bytes.saturating_sub(4096);
            }
            Fault::EntriesAreNotCounted => footprint.entries = 0,
            _ => {}
        }
        footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.0.destroy(os);
        if self.1 == Fault::DestroyLeaks {
            os.frames.allocate(0);
        }
    }
}

#[derive(State)]
struct Hardware(Box<dyn Walker>, #[state(skip)] Fault, bool);

/// A port that changes what goes by.
struct Meddling<'a>(&'a mut dyn MemoryPort, Fault);

impl MemoryPort for Meddling<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> ambulator_mmu::Loaded {
        self.0.load(at, now)
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> ambulator_mmu::LoadedLine {
        self.0.load_line(at, now)
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        self.0.fetch(at, now)
    }

    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle) {
        use ambulator_structures::pte::Pte;
        let bits = match self.1 {
            Fault::NoDirtyBit => bits & !Pte::DIRTY,
            Fault::LoadsMakeDirty => bits | Pte::DIRTY,
            _ => bits,
        };
        self.0.update(at, bits, now);
    }
}

impl Walker for Hardware {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        if self.1 != Fault::OldRegisters || !std::mem::replace(&mut self.2, true) {
            self.0.load_registers(asid, registers);
        }
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let mut walk = self.0.walk(va, access, now, &mut Meddling(port, self.1));
        match &mut walk.outcome {
            WalkOutcome::Mapped(found) => match self.1 {
                Fault::WrongFrameInLargePages if found.size > PageSize::SIZE_4K => {
                    found.frame.0 += 1;
                }
                Fault::WrongSize => found.size = PageSize::SIZE_4K,
                Fault::AlwaysWritable => found.writable = true,
                _ => {}
            },
            outcome if self.1 == Fault::FindsWhatIsNot => {
                *outcome = WalkOutcome::Mapped(ambulator_structures::pte::Pte(1).translation(PageSize::SIZE_4K));
            }
            _ => {}
        }
        match self.1 {
            Fault::OneLoadIsNotCounted => walk.accesses -= u32::from(walk.accesses > 3),
            Fault::NoTime => walk.ready = now,
            _ => {}
        }
        walk
    }

    fn invalidate(&mut self, what: Invalidation) {
        let heard = match (self.1, what) {
            (Fault::PagesAreNotInvalidated, Invalidation::Page { .. }) => false,
            // What is flushed wholesale is dropped, but for what pages left.
            (Fault::NothingIsFlushed, Invalidation::Asid(_) | Invalidation::All) => false,
            (Fault::NothingIsFlushed, Invalidation::Page { page, .. }) => page.size == PageSize::SIZE_4K,
            _ => true,
        };
        if heard {
            self.0.invalidate(what);
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.0.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.0.reset_counters();
    }
}

fn with(fault: Fault) -> DesignParts {
    let mut parts = catalogue().build(&catalogue().choice("radix"));
    let (translations, mut new_walker) = (parts.translations, parts.new_walker);
    parts.translations =
        TranslationsFactory { tables: Box::new(Tables(translations.tables, fault, None)), ..translations };
    parts.new_walker = Box::new(move |core| Box::new(Hardware(new_walker(core), fault, false)));
    parts
}

#[test]
fn every_fault_is_found() {
    let options = Options::default();
    check(|| with(Fault::None), &options).unwrap();
    for fault in FAULTS {
        let found = std::panic::catch_unwind(|| check(|| with(fault), &options));
        // A fault of the OS half may also break an invariant of the allocator or of the table itself.
        assert!(!matches!(found, Ok(Ok(_))), "{fault:?} was not found");
    }
}

#[test]
fn an_error_tells_how_to_come_back_to_it() {
    let options = Options { seed: 7, ..Options::default() };
    let said = check(|| with(Fault::NoDirtyBit), &options).unwrap_err();
    assert!(said.contains("seed 7, step "), "{said}");
    assert!(said.contains("latest operations"), "{said}");
    assert_eq!(check(|| with(Fault::NoDirtyBit), &options), Err(said), "the same seed, the same script");
}
