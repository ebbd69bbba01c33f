//! Huge pages at faults: what they cost, and how many there are.

use crate::double::Factory;
#[allow(dead_code, reason = "other tests use the rest of it")]
use ambulator_base::{FRAME_BYTES, MapKind, Protection, VirtAddr, VmEvent};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{
    BuddyPlacement, CostTable, HugeAllocation, Kernel, KernelSpec, LedgerCause, PageSizePolicy, TranslationsFactory,
};

const MEMORY: u64 = 64 << 20;
/// Bytes that the process touches: 8 huge pages.
const TOUCHED: u64 = 16 << 20;

/// A kernel whose process has touched [`TOUCHED`] bytes under transparent huge pages.
fn touched(spec: KernelSpec) -> Kernel {
    let spec = KernelSpec { page_size_policy: PageSizePolicy::Always, ..spec };
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let translations = TranslationsFactory::plain(Box::new(Factory::default()));
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, translations, Box::new(BuddyPlacement));
    let process = kernel.spawn().unwrap();
    let (start, protection, kind) = (VirtAddr(0x10_0000_0000), Protection::READ_WRITE, MapKind::Anonymous);
    kernel.event(process, &VmEvent::Map { start, len: TOUCHED, protection, kind }).unwrap();
    kernel.event(process, &VmEvent::Touch { start, len: TOUCHED, write: true }).unwrap();
    kernel
}

#[test]
fn a_free_block_costs_a_fault_no_more_than_a_base_frame() {
    let kernel = touched(KernelSpec::default());
    assert_eq!(kernel.counters.faults_2m, 8);
    assert_eq!(kernel.ledger.total(LedgerCause::Allocate), 0);
    assert_eq!(kernel.ledger.total(LedgerCause::Fault), 8 * CostTable::default().fault);
    let compacting = KernelSpec { huge_allocation: HugeAllocation::Compaction, ..KernelSpec::default() };
    let kernel = touched(compacting);
    assert!(kernel.ledger.total(LedgerCause::Allocate) >= 8 * CostTable::default().allocate_4k);
}

#[test]
fn a_kernel_hands_out_no_more_huge_pages_than_its_limit() {
    for (huge_limit, huge) in [(0, 8), (3, 3), (8, 8), (100, 8)] {
        let kernel = touched(KernelSpec { huge_limit, ..KernelSpec::default() });
        let base = (8 - huge) * 512;
        assert_eq!((kernel.counters.faults_2m, kernel.counters.faults_4k), (huge, base), "limit {huge_limit}");
        kernel.check().unwrap();
    }
}
