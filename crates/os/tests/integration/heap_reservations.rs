//! Reservations for heaps: the last block may end beyond the heap, which grows into it.

use crate::double::Factory;
#[allow(dead_code, reason = "other tests use the rest of it")]
use ambulator_base::{FRAME_BYTES, MapKind, PageSize, Pfn, ProcessId, Protection, State, VirtAddr, VmEvent};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{
    BuddyPlacement, CostTable, EagerRange, Kernel, KernelSpec, OsError, PageSizePolicy, PlaceContext, PlaceRequest,
    Placement, TranslationsFactory,
};

const MEMORY: u64 = 64 << 20;
const BLOCK: u64 = 2 << 20;
/// The start of heaps: the border of a block.
const HEAP: u64 = 0x10_0000_0000;
/// By how much `malloc` of glibc grows a heap.
const STEP: u64 = 132 << 10;

/// A kernel with one process that has no areas.
fn kernel() -> (Kernel, ProcessId) {
    kernel_with(Box::new(BuddyPlacement))
}

fn kernel_with(placement: Box<dyn Placement>) -> (Kernel, ProcessId) {
    let spec = KernelSpec { page_size_policy: PageSizePolicy::Reservation, ..KernelSpec::default() };
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let translations = TranslationsFactory::plain(Box::new(Factory::default()));
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, translations, placement);
    let process = kernel.spawn().unwrap();
    (kernel, process)
}

fn map(start: u64, len: u64, kind: MapKind) -> VmEvent {
    VmEvent::Map { start: VirtAddr(start), len, protection: Protection::READ_WRITE, kind }
}

fn touch(start: u64, len: u64) -> VmEvent {
    VmEvent::Touch { start: VirtAddr(start), len, write: true }
}

/// Grows the process's heap from `from` steps to `to`, and touches what each step adds.
fn grow(kernel: &mut Kernel, process: ProcessId, from: u64, to: u64) {
    for step in from..to {
        let (start, end) = (HEAP + step * STEP, HEAP + (step + 1) * STEP);
        let event = if step == 0 { map(start, STEP, MapKind::Heap) } else { VmEvent::Brk { end: VirtAddr(end) } };
        kernel.event(process, &event).unwrap();
        kernel.event(process, &touch(start, STEP)).unwrap();
        kernel.check().unwrap();
    }
}

/// A heap of a block and a step, untouched.
fn large_heap(kernel: &mut Kernel, process: ProcessId) {
    kernel.event(process, &map(HEAP, BLOCK + STEP, MapKind::Heap)).unwrap();
}

/// Reservations, and promotions of them, so far.
fn counts(kernel: &Kernel) -> (u64, u64) {
    (kernel.counters.reservations, kernel.counters.promotions)
}

#[test]
fn a_heap_that_grows_in_small_steps_fills_reserved_blocks() {
    let (mut kernel, process) = kernel();
    // 1980 KiB: less than a block.
    grow(&mut kernel, process, 0, 15);
    assert_eq!(counts(&kernel), (0, 0));
    // 3960 KiB: most of the second block is in use, but not all of it is heap.
    grow(&mut kernel, process, 15, 30);
    assert_eq!(counts(&kernel), (1, 0));
    // 5280 KiB: all of the second block, and enough of the third.
    grow(&mut kernel, process, 30, 40);
    assert_eq!(counts(&kernel), (2, 1));
    let size = |at| kernel.page_state(process, VirtAddr(HEAP + at)).size();
    assert_eq!([size(0), size(BLOCK), size(2 * BLOCK)], [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_4K]);
    kernel.event(process, &VmEvent::Exit { process }).unwrap();
    kernel.check_frames().unwrap();
}

#[test]
fn a_block_that_begins_before_a_heap_is_not_reserved() {
    let (mut kernel, process) = kernel();
    kernel.event(process, &map(HEAP + STEP, 2 * BLOCK, MapKind::Heap)).unwrap();
    kernel.event(process, &touch(HEAP + STEP, STEP)).unwrap();
    assert_eq!(counts(&kernel), (0, 0));
}

#[test]
fn what_does_not_grow_reserves_nothing_beyond_its_end() {
    let (mut kernel, process) = kernel();
    kernel.event(process, &map(HEAP, 2 * BLOCK - 4096, MapKind::Anonymous)).unwrap();
    kernel.event(process, &touch(HEAP + BLOCK, BLOCK - 4096)).unwrap();
    assert_eq!(counts(&kernel), (0, 0));
}

#[test]
fn another_area_in_a_heaps_reserved_block_ends_the_reservation() {
    let (mut kernel, process) = kernel();
    grow(&mut kernel, process, 0, 20);
    assert_eq!((counts(&kernel), kernel.counters.reservations_broken), ((1, 0), 0));
    let frame = kernel.page_state(process, VirtAddr(HEAP + BLOCK)).frame();
    let free = kernel.frames.free_frames();
    // It begins a step behind the heap, and ends beyond the block.
    let (other, len) = (HEAP + 21 * STEP, BLOCK);
    kernel.event(process, &map(other, len, MapKind::Anonymous)).unwrap();
    kernel.check().unwrap();
    let unused = (2 * BLOCK - 20 * STEP) / FRAME_BYTES;
    assert_eq!((kernel.counters.reservations_broken, kernel.frames.free_frames()), (1, free + unused));
    // The heap's pages stay where they are, and those of both areas are ordinary ones.
    assert_eq!(kernel.page_state(process, VirtAddr(HEAP + BLOCK)).frame(), frame);
    kernel.event(process, &touch(other, len)).unwrap();
    grow(&mut kernel, process, 20, 21);
    assert_eq!(counts(&kernel), (1, 0));
    let beyond = VirtAddr(HEAP + 22 * STEP);
    assert!(matches!(kernel.event(process, &VmEvent::Brk { end: beyond }), Err(OsError::BadCall(_))));
    kernel.check_frames().unwrap();
}

#[test]
fn a_heaps_last_block_is_not_reserved_over_another_area() {
    let (mut kernel, process) = kernel();
    kernel.event(process, &map(HEAP + 2 * BLOCK - 4096, 4096, MapKind::Anonymous)).unwrap();
    grow(&mut kernel, process, 0, 20);
    assert_eq!(counts(&kernel), (0, 0));
}

#[test]
fn a_heap_that_shrinks_gives_up_its_last_block() {
    let (mut kernel, process) = kernel();
    grow(&mut kernel, process, 0, 20);
    kernel.event(process, &VmEvent::Brk { end: VirtAddr(HEAP + 19 * STEP) }).unwrap();
    kernel.check().unwrap();
    kernel.check_frames().unwrap();
    assert_eq!(kernel.counters.reservations_broken, 1);
    // Some of the block is mapped: there is no second reservation for it.
    grow(&mut kernel, process, 19, 40);
    assert_eq!(counts(&kernel), (2, 0));
}

#[test]
fn a_heap_that_grows_with_other_rights_ends_the_reservation() {
    let (mut kernel, process) = kernel();
    large_heap(&mut kernel, process);
    let read = VmEvent::Protect { start: VirtAddr(HEAP), len: BLOCK + STEP, protection: Protection::READ };
    kernel.event(process, &read).unwrap();
    kernel.event(process, &VmEvent::Touch { start: VirtAddr(HEAP + BLOCK), len: STEP, write: false }).unwrap();
    assert_eq!((counts(&kernel), kernel.counters.reservations_broken), ((1, 0), 0));
    kernel.event(process, &VmEvent::Brk { end: VirtAddr(HEAP + 2 * BLOCK) }).unwrap();
    assert_eq!(kernel.counters.reservations_broken, 1);
    kernel.event(process, &touch(HEAP + BLOCK + STEP, BLOCK - STEP)).unwrap();
    kernel.check().unwrap();
    kernel.check_frames().unwrap();
}

#[test]
fn pages_that_move_behind_a_heap_keep_their_frames() {
    let (mut kernel, process) = kernel();
    large_heap(&mut kernel, process);
    kernel.event(process, &touch(HEAP + BLOCK, STEP)).unwrap();
    let old = VirtAddr(HEAP + 8 * BLOCK);
    kernel.event(process, &map(old.0, STEP, MapKind::Heap)).unwrap();
    kernel.event(process, &touch(old.0, STEP)).unwrap();
    let frame = kernel.page_state(process, old).frame();
    let new = VirtAddr(HEAP + BLOCK + STEP);
    kernel.event(process, &VmEvent::Remap { old, old_len: STEP, new, new_len: STEP }).unwrap();
    assert_eq!(kernel.vmas(process).as_slice().len(), 1);
    assert_eq!((kernel.page_state(process, new).frame(), kernel.counters.reservations_broken), (frame, 1));
    kernel.check().unwrap();
    kernel.check_frames().unwrap();
}

/// Gives the frames of areas of [`STEP`] bytes at once, from anywhere.
#[derive(State)]
struct EagerSteps;

impl Placement for EagerSteps {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        os.frames.allocate(request.page.size.order())
    }

    fn vma_added(
        &mut self,
        _process: ProcessId,
        start: VirtAddr,
        end: VirtAddr,
        os: &mut PlaceContext<'_>,
    ) -> Vec<EagerRange> {
        let pages = (0..(end.0 - start.0) / FRAME_BYTES).filter(|_| end.0 - start.0 == STEP);
        let range = |page| EagerRange {
            start: start.offset(page * FRAME_BYTES),
            frame: os.frames.allocate(0).unwrap(),
            pages: 1,
        };
        pages.map(range).collect()
    }
}

#[test]
fn frames_given_at_once_to_what_a_heap_grows_by_end_the_reservation() {
    let (mut kernel, process) = kernel_with(Box::new(EagerSteps));
    large_heap(&mut kernel, process);
    kernel.event(process, &touch(HEAP + BLOCK, STEP)).unwrap();
    kernel.event(process, &VmEvent::Brk { end: VirtAddr(HEAP + BLOCK + 2 * STEP) }).unwrap();
    assert_eq!(kernel.counters.reservations_broken, 1);
    kernel.check().unwrap();
    kernel.check_frames().unwrap();
}
