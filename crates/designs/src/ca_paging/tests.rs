use super::clusters::NextFit;
use super::*;
use ambulator_base::{
    AccessKind, Asid, FRAME_BYTES, MapKind, Page, PageSize, Pfn, ProcessId, Protection, VirtAddr, VmEvent,
};
use ambulator_conformance::TestBed;
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{CostTable, Kernel, KernelSpec, PageSizePolicy, PlaceContext, PlaceRequest, Placement};
use ambulator_sockets::Socket;
use proptest::prelude::*;

const START: u64 = 0x5555_4000_0000;
const MIB: u64 = 1 << 20;

struct Rig {
    bed: TestBed,
    placement: CaPlacement,
}

fn rig(spec: &CaPagingSpec) -> Rig {
    Rig { bed: TestBed::new(64 * MIB).unwrap(), placement: CaPlacement::new(spec) }
}

impl Rig {
    /// The frame for a page of a VMA of `len` bytes.
    fn place(&mut self, start: u64, len: u64, va: u64, size: PageSize) -> u64 {
        let request = PlaceRequest {
            process: ProcessId(1),
            asid: Asid(1),
            page: Page::containing(VirtAddr(va), size),
            vma_start: VirtAddr(start),
            vma_end: VirtAddr(start + len),
        };
        let os = self.bed.os();
        let mut os = PlaceContext { memory: os.memory, frames: os.frames, ledger: os.ledger, costs: os.costs };
        self.placement.place(&request, &mut os).unwrap().0
    }

    fn base(&mut self, start: u64, len: u64, va: u64) -> u64 {
        self.place(start, len, va, PageSize::SIZE_4K)
    }
}

#[test]
fn pages_of_a_vma_are_contiguous_in_whatever_order_they_are_touched() {
    let mut rig = rig(&CaPagingSpec::default());
    let first = rig.base(START, 8 * MIB, START + 5 * 4096);
    assert_eq!((first - 5) % 1024, 0, "the VMA begins with a cluster");
    for page in [0, 2047, 4, 6, 1000] {
        assert_eq!(rig.base(START, 8 * MIB, START + page * 4096), first - 5 + page);
    }
    // The next VMA is placed behind: the two clusters of the first are left alone, though nothing is
    // reserved.
    let next = rig.base(START + (1 << 30), 4 * MIB, START + (1 << 30));
    assert_eq!(next, first - 5 + 2048);
    assert_eq!((rig.placement.counters().placed, rig.placement.counters().at_offset), (2, 7));
}

#[test]
fn huge_pages_and_base_pages_share_an_offset() {
    // The VMA begins 12 KiB behind a huge page's border.
    let mut rig = rig(&CaPagingSpec::default());
    let start = START + 3 * 4096;
    let base = rig.base(start, 8 * MIB, start);
    let huge = rig.place(start, 8 * MIB, START + 2 * MIB, PageSize::SIZE_2M);
    assert_eq!((base % 512, huge % 512, huge), (3, 0, base - 3 + 512));
}

#[test]
fn a_taken_frame_begins_a_sub_vma() {
    let mut rig = rig(&CaPagingSpec::default());
    let first = rig.base(START, 8 * MIB, START);
    assert!(rig.bed.frames.allocate_at(Pfn(first + 10), 0), "another program's");
    for page in 1..10 {
        assert_eq!(rig.base(START, 8 * MIB, START + page * 4096), first + page);
    }
    let again = rig.base(START, 8 * MIB, START + 10 * 4096);
    assert_eq!(again % 1024, 10, "at the same place of another cluster");
    assert_eq!(rig.base(START, 8 * MIB, START + 11 * 4096), again + 1);
    assert_eq!(rig.base(START, 8 * MIB, START + 2000 * 4096), again + 1990, "the rest of the VMA follows");
    let counters = rig.placement.counters();
    assert_eq!((counters.target_taken, counters.placed_again), (1, 1));
    // Without sub-VMAs for base pages, only the page whose frame is taken goes elsewhere.
    let mut rig = self::rig(&CaPagingSpec { replace_base: false, ..CaPagingSpec::default() });
    let first = rig.base(START, 8 * MIB, START);
    assert!(rig.bed.frames.allocate_at(Pfn(first + 10), 0));
    assert_ne!(rig.base(START, 8 * MIB, START + 10 * 4096), first + 10);
    assert_eq!(rig.base(START, 8 * MIB, START + 11 * 4096), first + 11);
    // A huge page is placed again all the same.
    assert!(rig.bed.frames.allocate_at(Pfn(first + 1000), 0));
    let huge = rig.place(START, 8 * MIB, START + 2 * MIB, PageSize::SIZE_2M);
    assert_eq!((huge % 1024, rig.placement.counters().placed_again), (0, 1));
}

#[test]
fn sub_vmas_are_limited_and_go_with_their_vma() {
    let mut rig = rig(&CaPagingSpec { sub_vmas: 2, ..CaPagingSpec::default() });
    let mut frame = rig.base(START, 16 * MIB, START);
    for page in [100, 200, 300] {
        assert!(rig.bed.frames.allocate_at(Pfn(frame + 100), 0));
        frame = rig.base(START, 16 * MIB, START + page * 4096);
    }
    assert_eq!(rig.placement.sub_vmas_for_test(), 2, "the oldest two are replaced");
    rig.placement.vma_removed(ProcessId(1), VirtAddr(START), VirtAddr(START + 16 * MIB));
    assert_eq!(rig.placement.sub_vmas_for_test(), 0);
}

#[test]
fn next_fit_goes_round() {
    // Sixteen clusters of 4 MiB; the one at the bottom is reserved in part, and 5 and 9 are taken.
    let mut bed = TestBed::new(64 * MIB).unwrap();
    for taken in [0, 5, 9] {
        bed.frames.allocate_at(Pfn(taken << 10), 0);
    }
    let mut next_fit = NextFit::default();
    let mut choose = |clusters: u64| next_fit.choose(clusters << 10, 10, &bed.frames).unwrap().0 >> 10;
    assert_eq!(choose(4), 1, "1 to 4");
    assert_eq!(choose(2), 6, "6 and 7");
    assert_eq!(choose(1), 8);
    assert_eq!(choose(6), 10, "10 to 15");
    // Round: nothing is allocated, so the first run is free again.
    assert_eq!(choose(3), 1);
    assert_eq!(choose(100), 10, "the longest there is");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn next_fit_finds_a_run_as_long_as_any_if_none_is_long_enough(
        taken in prop::collection::vec(0u64..16, 0..14),
        wanted in prop::collection::vec(1u64..8, 1..12),
    ) {
        let mut bed = TestBed::new(64 * MIB).unwrap();
        for cluster in &taken {
            bed.frames.allocate_at(Pfn((cluster << 10) + 7), 0);
        }
        let mut next_fit = NextFit::default();
        for clusters in wanted {
            let is_free = |cluster: &u64| bed.frames.is_block_free(Pfn(cluster << 10), 10);
            let run = |from: u64| (from..16).take_while(is_free).count() as u64;
            let found = next_fit.choose(clusters << 10, 10, &bed.frames).map(|frame| frame.0 >> 10);
            let longest = (0..16).map(run).max().unwrap_or(0);
            match found {
                None => prop_assert_eq!(longest, 0),
                // The rover may have begun within the longest run, whose parts it then sees.
                Some(at) => prop_assert!(run(at) >= clusters.min(longest.div_ceil(2)), "{at}: {} of {longest}", run(at)),
            }
        }
    }
}

/// A process that touches a VMA in an order that jumps about, in a kernel with this placement.
fn contiguous_pages(placement: &str, policy: PageSizePolicy, scatter: bool) -> usize {
    let choice = crate::catalogue().choice("radix").with(Socket::Placement, placement);
    let parts = crate::catalogue().build(&choice);
    let spec = KernelSpec { page_size_policy: policy, ..KernelSpec::default() };
    let bytes = 256 * MIB;
    let mut frames = BuddyAllocator::new(&BuddySpec::default(), bytes / FRAME_BYTES);
    if scatter {
        // Each second cluster has a taken frame.
        for cluster in (0..bytes >> 22).step_by(2) {
            frames.allocate_at(Pfn((cluster << 10) + 512), 0);
        }
    }
    let memory = PhysicalMemory::new(bytes).unwrap();
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, parts.translations, parts.placement);
    let process = kernel.spawn().unwrap();
    let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
    kernel.event(process, &VmEvent::Map { start: VirtAddr(START), len: 32 * MIB, protection, kind }).unwrap();
    let pages = 32 * MIB / 4096;
    for page in 0..pages {
        let va = VirtAddr(START + page * 2731 % pages * 4096);
        if !kernel.page_state(process, va).present() {
            kernel.fault(process, va, AccessKind::Store).unwrap();
        }
    }
    let frame = |page: u64| kernel.page_state(process, VirtAddr(START + page * 4096)).frame().0;
    (1..pages).filter(|page| frame(*page) == frame(page - 1) + 1).count()
}

#[test]
fn a_kernel_maps_contiguously_on_demand() {
    let pages = 32 * 256;
    for policy in [PageSizePolicy::Never, PageSizePolicy::Always] {
        assert_eq!(contiguous_pages("ca-paging", policy, false), pages - 1, "{policy:?}");
        // Runs of one cluster: a border for each of eight, and one more.
        assert!(contiguous_pages("ca-paging", policy, true) >= pages - 32, "{policy:?}");
    }
    // Without it, pages lie in the order in which they are touched.
    assert!(contiguous_pages("buddy", PageSizePolicy::Never, false) < pages / 8);
}
