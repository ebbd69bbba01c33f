//! Areas of a guest's memory in contiguous pinned frames of its hypervisor.

use crate::double::Factory;
#[allow(dead_code, reason = "other tests use the rest of it")]
use ambulator_base::{FRAME_BYTES, MapKind, PageSize, Pfn, PhysAddr, ProcessId, Protection, VirtAddr, VmEvent};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{
    BuddyPlacement, CostTable, HostAreas, Kernel, KernelSpec, LedgerCause, OsError, PageSizePolicy,
    TranslationsFactory, host_area_slot, read_host_area,
};

const MEMORY: u64 = 64 << 20;
const GUEST: u64 = 256 << 20;

/// A hypervisor with a virtual machine whose memory begins at 0.
fn hypervisor(policy: PageSizePolicy, swap_bytes: u64) -> (Kernel, ProcessId) {
    let spec = KernelSpec { page_size_policy: policy, swap_bytes, ..KernelSpec::default() };
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let translations = TranslationsFactory::plain(Box::new(Factory::default()));
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, translations, Box::new(BuddyPlacement));
    let machine = kernel.spawn().unwrap();
    let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
    kernel.event(machine, &VmEvent::Map { start: VirtAddr(0), len: GUEST, protection, kind }).unwrap();
    (kernel, machine)
}

fn touch(kernel: &mut Kernel, machine: ProcessId, at: u64, len: u64) {
    kernel.event(machine, &VmEvent::Touch { start: VirtAddr(at), len, write: true }).unwrap();
}

fn frame(kernel: &Kernel, machine: ProcessId, guest: Pfn) -> Pfn {
    kernel.page_state(machine, VirtAddr(guest.start().0)).frame()
}

#[test]
fn an_area_is_contiguous_and_its_slot_says_where() {
    let (mut kernel, machine) = hypervisor(PageSizePolicy::Never, 0);
    let mut areas = HostAreas::new(2);
    assert_eq!(areas.table(), None);
    // Pages that are there already, in the other order.
    for page in (0..8).rev() {
        touch(&mut kernel, machine, page * FRAME_BYTES, 1);
    }
    let copies = kernel.ledger.total(LedgerCause::Copy);
    assert_eq!(areas.back(&mut kernel, machine, Pfn(4), 8).unwrap(), Some(0));
    let first = frame(&kernel, machine, Pfn(4));
    assert!((0..8).all(|i| frame(&kernel, machine, Pfn(4 + i)) == first.offset(i)));
    assert_eq!(kernel.ledger.total(LedgerCause::Copy) - copies, 4 * CostTable::default().copy_4k);
    assert_eq!((areas.counters.pages_moved, areas.counters.pages_fresh), (4, 4));
    let at = host_area_slot(areas.table().unwrap(), 0);
    let told = read_host_area(&kernel.memory.line(at), at);
    assert_eq!(told, Some((PhysAddr(4 * FRAME_BYTES), 8 * FRAME_BYTES, first.start())));
    areas.check(&kernel, machine).unwrap();
    // Another one; then no slot is left until one is released.
    assert_eq!(areas.back(&mut kernel, machine, Pfn(100), 3).unwrap(), Some(1));
    assert_eq!(areas.back(&mut kernel, machine, Pfn(200), 3).unwrap(), None);
    areas.release(&mut kernel, machine, Pfn(4));
    assert_eq!(read_host_area(&kernel.memory.line(at), at), None);
    assert_eq!(areas.back(&mut kernel, machine, Pfn(6), 4).unwrap(), Some(0), "contiguous already: nothing moves");
    assert_eq!((areas.counters.pages_moved, areas.counters.pages_fresh), (4, 4 + 3));
    areas.check(&kernel, machine).unwrap();
    kernel.check().unwrap();
    // What a guest must not ask for.
    areas.release(&mut kernel, machine, Pfn(100));
    for (first, frames) in [(5, 2), (GUEST / FRAME_BYTES - 1, 2), (300, 0)] {
        let error = areas.back(&mut kernel, machine, Pfn(first), frames).unwrap_err();
        assert!(matches!(error, OsError::BadCall(_)), "{error}");
    }
}

#[test]
fn pinned_pages_stay_while_others_are_swapped() {
    let (mut kernel, machine) = hypervisor(PageSizePolicy::Never, 512 << 20);
    let mut areas = HostAreas::new(4);
    assert_eq!(areas.back(&mut kernel, machine, Pfn(512), 256).unwrap(), Some(0));
    touch(&mut kernel, machine, 4 << 20, 96 << 20);
    touch(&mut kernel, machine, 4 << 20, 96 << 20);
    assert!(kernel.counters.swap_outs > 10_000, "{}", kernel.counters.swap_outs);
    areas.check(&kernel, machine).unwrap();
    kernel.check().unwrap();
    // Unpinned, they go like any others.
    areas.release(&mut kernel, machine, Pfn(512));
    touch(&mut kernel, machine, 4 << 20, 96 << 20);
    touch(&mut kernel, machine, 4 << 20, 96 << 20);
    assert!((512..768).any(|page| !kernel.page_state(machine, VirtAddr(page << 12)).present()));
}

#[test]
fn huge_pages_are_split_where_they_are_in_the_way() {
    let (mut kernel, machine) = hypervisor(PageSizePolicy::Always, 0);
    let mut areas = HostAreas::new(4);
    // Two huge pages that are not contiguous.
    touch(&mut kernel, machine, 2 << 20, 1);
    touch(&mut kernel, machine, 0, 1);
    assert_eq!(kernel.page_state(machine, VirtAddr(0)).size(), PageSize::SIZE_2M);
    // Within one, nothing moves, and it stays whole.
    assert_eq!(areas.back(&mut kernel, machine, Pfn(8), 16).unwrap(), Some(0));
    assert_eq!((areas.counters.pages_moved, kernel.counters.demotions), (0, 0));
    // Over the border of both.
    assert_eq!(areas.back(&mut kernel, machine, Pfn(508), 8).unwrap(), Some(1));
    assert_eq!((areas.counters.pages_moved, kernel.counters.demotions), (8, 2));
    areas.check(&kernel, machine).unwrap();
    kernel.check().unwrap();
}

#[test]
fn without_contiguous_memory_everything_stays_as_it_was() {
    let (mut kernel, machine) = hypervisor(PageSizePolicy::Never, 0);
    let mut areas = HostAreas::new(4);
    touch(&mut kernel, machine, 0, 8 << 12);
    let mut taken = Vec::new();
    while let Some(frame) = kernel.frames.allocate(0) {
        taken.push(frame);
    }
    taken.sort();
    for frame in taken.iter().filter(|frame| frame.0 % 2 == 0) {
        kernel.frames.free(*frame, 0);
    }
    let before: Vec<Pfn> = (0..8).map(|page| frame(&kernel, machine, Pfn(page))).collect();
    let free = kernel.frames.free_frames();
    assert_eq!(areas.back(&mut kernel, machine, Pfn(4), 16).unwrap(), None);
    assert_eq!(areas.counters.refused_no_memory, 1);
    assert_eq!((0..8).map(|page| frame(&kernel, machine, Pfn(page))).collect::<Vec<_>>(), before);
    assert_eq!(kernel.frames.free_frames(), free - 1, "the table's frame");
}
