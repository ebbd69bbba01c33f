//! Companions of a page table: each lives as long as its process, is notified of the table's pages in order,
//! holds pages of its own, and states its costs.

use crate::double::{self, Factory};
use ambulator_base::{
    AccessKind, Asid, FRAME_BYTES, LINE_BYTES, MapKind, Page, PageSize, Pfn, ProcessId, Protection, State, VirtAddr,
    VmEvent,
};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{
    BuddyPlacement, Companion, CompanionFactory, CostTable, Footprint, Kernel, KernelSpec, LedgerCause, MapError,
    Mapping, OwnedContext, PageTable, PteFlags, TableContext, Translations, TranslationsFactory,
};
use std::sync::{Arc, Mutex};

const MEMORY: u64 = 16 << 20;
/// Cycles that a companion here states for a context switch.
const SWITCH: u64 = 35;
/// The companion here holds pages in frames from this one up.
const OWN: Pfn = Pfn(1 << 20);

type Events = Arc<Mutex<Vec<&'static str>>>;

/// Has a frame of its own, holds pages in high frames, and records every notification.
#[derive(State)]
struct Witness {
    frame: Option<Pfn>,
    #[state(skip)]
    held: Vec<Mapping>,
    #[state(skip)]
    events: Events,
}

impl Witness {
    fn record(&self, event: &'static str) {
        self.events.lock().unwrap().push(event);
    }
}

impl Companion for Witness {
    fn claims(&self, mapping: &Mapping) -> bool {
        mapping.frame >= OWN
    }

    fn hold(&mut self, mapping: &Mapping, _os: &mut TableContext<'_>) {
        self.record("hold");
        self.held.push(*mapping);
    }

    fn held(&self, va: VirtAddr, _memory: &PhysicalMemory) -> Option<Mapping> {
        self.held.iter().find(|held| held.page.start <= va && va < held.page.end()).copied()
    }

    fn release(&mut self, page: Page, _os: &mut TableContext<'_>) {
        self.record("release");
        self.held.retain(|held| held.page != page);
    }

    fn set_held_flags(&mut self, page: Page, flags: PteFlags, _os: &mut TableContext<'_>) {
        self.record("set held");
        self.held.iter_mut().filter(|held| held.page == page).for_each(|held| held.flags = flags);
    }

    fn new_entry_flags(&self, mapping: &Mapping, _table: &dyn PageTable, _memory: &PhysicalMemory) -> PteFlags {
        self.record("new entry");
        PteFlags { ranged: true, ..mapping.flags }
    }

    fn mapped(&mut self, entry: &Mapping, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        self.record("mapped");
        assert_eq!(table.lookup(entry.page.start, os.memory), Some(*entry), "notified once the entry is there");
        assert!(entry.flags.ranged);
    }

    fn unmapping(&mut self, entry: &Mapping, table: &mut dyn PageTable, os: &mut TableContext<'_>) {
        self.record("unmapping");
        assert_eq!(table.lookup(entry.page.start, os.memory), Some(*entry), "notified while the entry is there");
    }

    fn changing_flags(
        &mut self,
        entry: &Mapping,
        flags: PteFlags,
        table: &mut dyn PageTable,
        os: &mut TableContext<'_>,
    ) -> PteFlags {
        self.record("changing");
        assert_eq!(table.lookup(entry.page.start, os.memory), Some(*entry));
        PteFlags { ranged: true, ..flags }
    }

    fn changed_flags(
        &mut self,
        entry: &Mapping,
        flags: PteFlags,
        table: &mut dyn PageTable,
        os: &mut TableContext<'_>,
    ) {
        self.record("changed");
        assert_eq!(table.lookup(entry.page.start, os.memory), Some(Mapping { flags, ..*entry }));
    }

    fn registers(&self) -> Vec<u64> {
        self.frame.iter().map(|frame| frame.0).collect()
    }

    fn switch_cycles(&self) -> u64 {
        SWITCH
    }

    fn footprint(&self) -> Footprint {
        let bytes = if self.frame.is_some() { FRAME_BYTES } else { 0 };
        Footprint { bytes, peak_bytes: bytes, largest_contiguous: bytes, entries: self.held.len() as u64 }
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        self.record("destroy");
        if let Some(frame) = self.frame.take() {
            os.frames.free(frame, 0);
        }
    }
}

#[derive(Default)]
struct Witnesses(Events);

impl CompanionFactory for Witnesses {
    fn new_companion(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError> {
        let frame = os.frames.allocate(0).ok_or(MapError::NoMemory { bytes: FRAME_BYTES })?;
        Ok(Box::new(Witness { frame: Some(frame), held: Vec::new(), events: Arc::clone(&self.0) }))
    }
}

/// Never finds memory.
struct Poor;

impl CompanionFactory for Poor {
    fn new_companion(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        _os: &mut TableContext<'_>,
    ) -> Result<Box<dyn Companion>, MapError> {
        Err(MapError::NoMemory { bytes: LINE_BYTES })
    }
}

fn kernel(companions: Vec<Box<dyn CompanionFactory>>) -> Kernel {
    let translations = TranslationsFactory { companions, ..TranslationsFactory::plain(Box::<Factory>::default()) };
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let spec = KernelSpec::default();
    Kernel::new(&spec, CostTable::default(), memory, frames, translations, Box::new(BuddyPlacement))
}

/// The cycles of a switch between two processes.
fn switch(mut kernel: Kernel) -> u64 {
    let (from, to) = (kernel.spawn().unwrap(), kernel.spawn().unwrap());
    kernel.context_switch(0, from, to);
    kernel.ledger.total(LedgerCause::Switch)
}

#[test]
fn a_context_switch_pays_for_each_part_of_both_processes() {
    let one: fn() -> Box<dyn CompanionFactory> = || Box::<Witnesses>::default();
    let alone = switch(kernel(Vec::new()));
    assert_eq!(alone, CostTable::default().context_switch + 2 * double::SWITCH);
    assert_eq!(switch(kernel(vec![one()])), alone + 2 * SWITCH);
    assert_eq!(switch(kernel(vec![one(), one()])), alone + 4 * SWITCH);
}

#[test]
fn a_process_whose_companion_finds_no_memory_leaks_nothing() {
    let events = Events::default();
    for companions in [
        vec![Box::new(Poor) as Box<dyn CompanionFactory>, Box::new(Witnesses(Arc::clone(&events)))],
        vec![Box::new(Witnesses(Arc::clone(&events))), Box::new(Poor)],
    ] {
        let mut kernel = kernel(companions);
        let free = kernel.frames.free_frames();
        for _ in 0..3 {
            let error = kernel.spawn().unwrap_err();
            assert!(error.is_outcome(), "{error}");
            assert_eq!(kernel.frames.free_frames(), free);
        }
        kernel.check().unwrap();
        assert_eq!(kernel.live_processes().count(), 0);
    }
    // The last companion of the list is made first. If it fails, there is no other one to destroy.
    assert_eq!(*events.lock().unwrap(), ["destroy"; 3]);
}

fn mapping(number: u64, frame: Pfn) -> Mapping {
    let page = Page { start: VirtAddr(number << 12), size: PageSize::SIZE_4K };
    Mapping { page, frame, flags: PteFlags::user(Protection::READ_WRITE) }
}

/// A process with one witness.
fn witnessed(bed: &mut OwnedContext) -> (Translations, Factory, Events) {
    let (events, factory) = (Events::default(), Factory::default());
    let companions: Vec<Box<dyn CompanionFactory>> = vec![Box::new(Witnesses(Arc::clone(&events)))];
    let mut factories = TranslationsFactory { companions, ..TranslationsFactory::plain(Box::new(factory.clone())) };
    let translations = factories.new_process(ProcessId(0), Asid(1), &mut bed.os()).unwrap();
    (translations, factory, events)
}

#[test]
fn companions_are_notified_in_order_and_the_kernel_sees_no_range_bit() {
    let mut bed = OwnedContext::new(MEMORY).unwrap();
    let free = bed.frames.free_frames();
    let (mut process, factory, events) = witnessed(&mut bed);
    let (own, tables) = (mapping(7, OWN), mapping(8, Pfn(3)));
    let read_only = PteFlags { writable: false, ..own.flags };
    for one in [own, tables] {
        process.map(one, &mut bed.os()).unwrap();
        assert_eq!(process.map(one, &mut bed.os()), Err(MapError::Occupied));
        assert_eq!(process.lookup(one.page.start, &bed.memory), Some(one));
        assert!(process.set_flags(one.page, read_only, &mut bed.os()));
        let large = Page { size: PageSize::SIZE_2M, ..one.page };
        assert!(!process.set_flags(large, read_only, &mut bed.os()));
        assert_eq!(process.unmap(large, &mut bed.os()), None);
    }
    assert_eq!(process.footprint().entries, 2);
    factory.tables().accessed(ProcessId(0), tables.page.start, true);
    let walked = PteFlags { accessed: true, dirty: true, ..read_only };
    for (one, flags) in [(own, read_only), (tables, walked)] {
        assert_eq!(process.unmap(one.page, &mut bed.os()), Some(Mapping { flags, ..one }));
        assert_eq!(process.unmap(one.page, &mut bed.os()), None);
        assert!(!process.set_flags(one.page, read_only, &mut bed.os()));
    }
    process.destroy(&mut bed.os());
    assert_eq!((process.footprint().bytes, bed.frames.free_frames()), (0, free));
    let held = ["hold", "set held"];
    // The second map is refused.
    let in_table = ["new entry", "mapped", "new entry", "changing", "changed"];
    let gone = ["release", "unmapping", "destroy"];
    let expected = [&held[..], &in_table, &gone].concat();
    assert_eq!(*events.lock().unwrap(), expected);
}

#[test]
fn a_map_that_the_table_refuses_notifies_no_companion() {
    let mut bed = OwnedContext::new(MEMORY).unwrap();
    let (mut process, factory, events) = witnessed(&mut bed);
    let before = (bed.frames.free_frames(), process.footprint(), process.registers_generation());
    factory.tables().fail = Some((0, FRAME_BYTES));
    let refused = process.map(mapping(8, Pfn(3)), &mut bed.os());
    assert_eq!(refused, Err(MapError::NoMemory { bytes: FRAME_BYTES }));
    assert_eq!((bed.frames.free_frames(), process.footprint(), process.registers_generation()), before);
    assert_eq!(process.lookup(VirtAddr(8 << 12), &bed.memory), None);
    assert_eq!(*events.lock().unwrap(), ["new entry"]);
}

#[test]
fn a_kernel_maps_and_frees_with_companions_as_without() {
    let mut kernel = kernel(vec![Box::<Witnesses>::default()]);
    let free = kernel.frames.free_frames();
    let process = kernel.spawn().unwrap();
    let (start, len) = (VirtAddr(1 << 30), 1 << 20);
    let kind = MapKind::Anonymous;
    kernel.event(process, &VmEvent::Map { start, len, protection: Protection::READ_WRITE, kind }).unwrap();
    kernel.event(process, &VmEvent::Touch { start, len, write: true }).unwrap();
    let child = kernel.fork(process).unwrap();
    kernel.fault(child, start, AccessKind::Store).unwrap();
    kernel.check().unwrap();
    kernel.check_frames().unwrap();
    for process in [process, child] {
        kernel.event(process, &VmEvent::Exit { process }).unwrap();
    }
    assert_eq!(kernel.frames.free_frames(), free);
}
