//! What reclaim may free under memory pressure, and what an exit leaves behind.

use crate::double::Factory;
use ambulator_base::{AccessKind, Advice, FRAME_BYTES, MapKind, ProcessId, Protection, VirtAddr, VmEvent};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{BuddyPlacement, CostTable, Kernel, KernelSpec, TranslationsFactory};

const MEMORY: u64 = 16 << 20;
const FIRST: VirtAddr = VirtAddr(0x10_0000_0000);
/// Pages of the first area.
const PAGES: u64 = 64;
/// An area larger than memory.
const LARGE: VirtAddr = VirtAddr(0x20_0000_0000);

fn kernel(swap_bytes: u64) -> (Kernel, Factory, ProcessId) {
    let factory = Factory::default();
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let spec = KernelSpec { swap_bytes, ..KernelSpec::default() };
    let translations = TranslationsFactory::plain(Box::new(factory.clone()));
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, translations, Box::new(BuddyPlacement));
    let process = kernel.spawn().unwrap();
    map(&mut kernel, process, FIRST, PAGES);
    let touched = VmEvent::Touch { start: FIRST, len: PAGES * FRAME_BYTES, write: true };
    kernel.event(process, &touched).unwrap();
    (kernel, factory, process)
}

fn map(kernel: &mut Kernel, process: ProcessId, start: VirtAddr, pages: u64) {
    let (len, kind, protection) = (pages * FRAME_BYTES, MapKind::Anonymous, Protection::READ_WRITE);
    kernel.event(process, &VmEvent::Map { start, len, protection, kind }).unwrap();
}

/// Pages of the first area.
fn pages() -> impl Iterator<Item = VirtAddr> {
    (0..PAGES).map(|page| FIRST.offset(page * FRAME_BYTES))
}

/// Stores to new pages, whose frames reclaim must find, until `enough` or until memory is full.
fn press(kernel: &mut Kernel, process: ProcessId, enough: impl Fn(&Kernel) -> bool) {
    let most = 2 * MEMORY / FRAME_BYTES;
    map(kernel, process, LARGE, most);
    for page in 0..most {
        let served = kernel.fault(process, LARGE.offset(page * FRAME_BYTES), AccessKind::Store);
        if served.is_err() || enough(kernel) {
            return;
        }
    }
}

#[test]
fn a_page_that_is_written_after_madv_free_is_kept() {
    let (mut kernel, factory, process) = kernel(0);
    kernel.event(process, &VmEvent::Advise { start: FIRST, len: PAGES * FRAME_BYTES, advice: Advice::Free }).unwrap();
    factory.tables().accessed(process, FIRST, true);
    press(&mut kernel, process, |_| false);
    assert_eq!(kernel.counters.lazy_drops, PAGES - 1);
    let kept: Vec<VirtAddr> = pages().filter(|page| kernel.page_state(process, *page).present()).collect();
    assert_eq!(kept, [FIRST]);
}

#[test]
fn shared_pages_are_not_evicted_one_owner_at_a_time() {
    let (mut kernel, _, parent) = kernel(64 << 20);
    let child = kernel.fork(parent).unwrap();
    press(&mut kernel, child, |kernel| kernel.counters.swap_outs > 1000);
    assert!(kernel.counters.swap_outs > 1000, "{} pages were evicted", kernel.counters.swap_outs);
    for page in pages() {
        assert!(kernel.page_state(parent, page).present() && kernel.page_state(child, page).present(), "{page:?}");
    }
}

#[test]
fn an_exit_flushes_the_whole_address_space() {
    let (mut kernel, _, process) = kernel(0);
    let asid = kernel.asid(process);
    kernel.event(process, &VmEvent::Unmap { start: FIRST, len: PAGES * FRAME_BYTES }).unwrap();
    let mut shootdowns = Vec::new();
    kernel.take_shootdowns(&mut shootdowns);
    kernel.event(process, &VmEvent::Exit { process }).unwrap();
    shootdowns.clear();
    kernel.take_shootdowns(&mut shootdowns);
    // Although it has no pages left: walkers cache entries of upper levels, which belong to no page.
    assert!(shootdowns.iter().any(|one| one.asid == asid && one.page.is_none()), "{shootdowns:?}");
}
