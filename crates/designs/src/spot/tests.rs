use super::*;
use ambulator_base::{
    AccessKind, Asid, CounterDef, CounterSink, Cycle, MapKind, PageSize, Pfn, Protection, VirtAddr, VmEvent,
};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_mmu::{Bus, Invalidation, Speculator, Translation};
use ambulator_os::{CostTable, Kernel, KernelSpec, PageSizePolicy};
use std::collections::BTreeMap;

#[derive(Default)]
struct Reported(BTreeMap<&'static str, u64>);

impl CounterSink for Reported {
    fn counter(&mut self, _prefix: &str, def: &'static CounterDef, value: u64) {
        assert!(def.meaning.ends_with('.'), "{}", def.name);
        self.0.insert(def.name, value);
    }
}

struct Rig(Predictor);

fn page(va: u64, frame: u64, ranged: bool) -> (VirtAddr, Translation) {
    let found = Translation {
        frame: Pfn(frame),
        size: PageSize::SIZE_4K,
        writable: true,
        executable: false,
        dirty: false,
        ranged,
    };
    (VirtAddr(va), found)
}

impl Rig {
    /// A miss of the instruction at `pc`, whose page is found at `frame`; what was predicted.
    fn miss(&mut self, pc: u64, va: u64, frame: u64) -> Option<u64> {
        self.access(pc, va, frame, AccessKind::Load, true)
    }

    fn access(&mut self, pc: u64, va: u64, frame: u64, access: AccessKind, marked: bool) -> Option<u64> {
        let guess = self.0.speculate(VirtAddr(pc), VirtAddr(va), access, Cycle(0), Bus::default());
        let (va, found) = page(va, frame, marked);
        self.0.learn(va, &guess, &found, None);
        self.0.learn_latency(100, 4);
        assert_eq!(guess.computes.is_some(), guess.data_count > 0);
        (guess.data_count > 0).then_some(guess.data[0].0)
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counters = Reported::default();
        self.0.report("s", &mut counters);
        counters.0[name]
    }
}

fn rig(spec: SpotSpec) -> Rig {
    Rig(Predictor::new(&spec))
}

#[test]
fn one_contiguous_vma_is_predicted_after_the_first_two_misses() {
    let mut rig = rig(SpotSpec::default());
    // Pages from 0x10_000 on at frames from 0x500 on.
    let frame = |va: u64| (va >> 12) - 0x10_000 + 0x500;
    let misses = [0x1000_5123, 0x1000_0008, 0x1234_5678, 0x1000_1000, 0x1fff_ffff];
    let predicted: Vec<Option<u64>> = misses.iter().map(|va| rig.miss(0x400_010, *va, frame(*va))).collect();
    // The first makes an entry with confidence 1, the second raises it to 2: from then on it predicts.
    let expected = |va: u64| Some(frame(va) << 12 | va & 0xfff);
    assert_eq!(predicted, [None, None, expected(misses[2]), expected(misses[3]), expected(misses[4])]);
    assert_eq!((rig.counter("probes"), rig.counter("predictions"), rig.counter("right")), (5, 3, 3));
    assert_eq!((rig.counter("no_entry"), rig.counter("no_confidence"), rig.counter("wrong")), (1, 1, 0));
    // 99 of the 100 cycles of each walk.
    assert_eq!(rig.counter("hidden_cycles"), 3 * 99);
    assert_eq!((rig.counter("entries"), rig.counter("confident")), (1, 1));
    // Another instruction learns for itself, and so does another process.
    assert_eq!(rig.miss(0x400_020, misses[0], frame(misses[0])), None);
    rig.0.load_registers(Asid(2), &ambulator_mmu::TableRegisters::default());
    assert_eq!(rig.miss(0x400_010, misses[0], 77), None);
}

#[test]
fn a_wrong_offset_loses_its_confidence_before_it_goes() {
    let mut rig = rig(SpotSpec::default());
    let (at, elsewhere) = (|va: u64| va >> 12, |va: u64| (va >> 12) + 1000);
    for va in [0x1000, 0x2000, 0x3000, 0x4000] {
        rig.miss(1, va, at(va));
    }
    // Confidence 3: wrong, 2: wrong, 1: silent and gone, 1 with the new offset: silent, 2: right.
    let predicted: Vec<bool> =
        [0x5000, 0x6000, 0x7000, 0x8000, 0x9000].iter().map(|va| rig.miss(1, *va, elsewhere(*va)).is_some()).collect();
    assert_eq!(predicted, [true, true, false, false, true]);
    assert_eq!((rig.counter("wrong"), rig.counter("right"), rig.counter("new_offsets")), (2, 2 + 1, 1));
}

#[test]
fn the_contiguity_bit_filters() {
    let mut filtered = rig(SpotSpec::default());
    let mut all = rig(SpotSpec { marked_only: false, ..SpotSpec::default() });
    for va in [0x1000, 0x2000, 0x3000] {
        assert_eq!(filtered.access(1, va, va >> 12, AccessKind::Load, false), None);
        all.access(1, va, va >> 12, AccessKind::Load, false);
    }
    assert_eq!((filtered.counter("unmarked"), filtered.counter("fills")), (3, 0));
    assert_eq!((all.counter("unmarked"), all.counter("fills"), all.counter("right")), (0, 1, 1));
}

#[test]
fn rights_are_predicted_too_and_fetches_are_not() {
    let mut rig = rig(SpotSpec::default());
    for va in [0x1000, 0x2000] {
        let guess = rig.0.speculate(VirtAddr(1), VirtAddr(va), AccessKind::Load, Cycle(0), Bus::default());
        let (va, found) = page(va, va >> 12, true);
        rig.0.learn(va, &guess, &Translation { writable: false, ..found }, None);
    }
    assert_eq!(rig.access(1, 0x3000, 3, AccessKind::Store, true), None);
    assert_eq!(rig.counter("no_right"), 1);
    // That walk found a writable page.
    assert_eq!(rig.access(1, 0x4000, 4, AccessKind::Store, true), Some(0x4000));
    let hidden = rig.counter("hidden_cycles");
    assert_eq!(rig.access(1, 0x5000, 5, AccessKind::Store, true), Some(0x5000));
    assert_eq!(rig.counter("hidden_cycles"), hidden, "nothing waits for a store");
    let probes = rig.counter("probes");
    assert_eq!(rig.access(1, 0x6000, 6, AccessKind::Fetch, true), None);
    assert_eq!(rig.counter("probes"), probes);
}

#[test]
fn a_full_set_keeps_what_it_is_sure_of() {
    let one_set = SpotSpec { entries: 4, ways: 4, ..SpotSpec::default() };
    for (keep_confident, fifth) in [(true, false), (false, true)] {
        let mut rig = rig(SpotSpec { keep_confident, ..one_set.clone() });
        for pc in 1..=4 {
            rig.miss(pc, 0x1000, 1);
            rig.miss(pc, 0x2000, 2);
        }
        rig.miss(5, 0x1000, 1);
        rig.miss(5, 0x2000, 2);
        assert_eq!(rig.miss(5, 0x3000, 3).is_some(), fifth);
        assert_eq!(rig.counter("set_confident"), if keep_confident { 3 } else { 0 });
        rig.0.invalidate(Invalidation::Asid(Asid(0)));
        assert_eq!(rig.counter("entries"), 0);
    }
    assert_eq!(SpotSpec { entries: 100, ..SpotSpec::default() }.invalid("s").len(), 1);
}

const START: u64 = 0x5555_4000_0000;
const MIB: u64 = 1 << 20;

/// A kernel of a machine with SpOT over contiguity-aware paging.
fn kernel(policy: PageSizePolicy) -> Kernel {
    let choice = crate::catalogue().choice("radix").with(Socket::Speculation, "spot");
    let parts = crate::catalogue().build(&choice.with(Socket::Placement, "ca-paging"));
    let spec = KernelSpec { page_size_policy: policy, ..KernelSpec::default() };
    let frames = BuddyAllocator::new(&BuddySpec::default(), (64 * MIB) >> 12);
    let memory = PhysicalMemory::new(64 * MIB).unwrap();
    Kernel::new(&spec, CostTable::default(), memory, frames, parts.translations, parts.placement)
}

#[test]
fn the_kernel_marks_large_contiguous_mappings() {
    use ambulator_mmu::{PwcSpec, TableRegisters, WalkOutcome, Walker};
    let mut kernel = kernel(PageSizePolicy::Never);
    let process = kernel.spawn().unwrap();
    let map = |kernel: &mut Kernel, start, len| {
        let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
        kernel.event(process, &VmEvent::Map { start: VirtAddr(start), len, protection, kind }).unwrap();
        for page in 0..len >> 12 {
            kernel.fault(process, VirtAddr(start + (page << 12)), AccessKind::Store).unwrap();
        }
    };
    let marked = |kernel: &mut Kernel, va| {
        let mut walker = ambulator_structures::tree::TreeWalker::new(&PwcSpec::default());
        walker.load_registers(Asid(1), &TableRegisters(kernel.registers(process)));
        let mut port = ambulator_conformance::TestPort::new(&mut kernel.memory, 1);
        match walker.walk(VirtAddr(va), AccessKind::Load, Cycle(0), &mut port).outcome {
            WalkOutcome::Mapped(found) => found.ranged,
            other => panic!("{other:?}"),
        }
    };
    map(&mut kernel, START, MIB);
    // The 32nd page with the offset is the first that is marked.
    assert_eq!([30, 31, 32, 255].map(|page| marked(&mut kernel, START + (page << 12))), [false, true, true, true]);
    // Too small a mapping.
    let other = START + (1 << 30);
    map(&mut kernel, other, 31 << 12);
    assert!(!marked(&mut kernel, other + (30 << 12)));
    // The bit survives changes of rights.
    let read_only = VmEvent::Protect { start: VirtAddr(START), len: MIB, protection: Protection::READ };
    kernel.event(process, &read_only).unwrap();
    assert!(marked(&mut kernel, START + (40 << 12)));
    kernel.event(process, &VmEvent::Unmap { start: VirtAddr(START), len: MIB }).unwrap();
    map(&mut kernel, START, 30 << 12);
    assert!(!marked(&mut kernel, START), "what is gone does not count");
}

#[test]
fn in_a_virtual_machine_both_kernels_place_and_mark() {
    let mut choice = crate::catalogue().choice("radix").with(Socket::Speculation, "spot");
    choice.hypervisor_table = Some("radix".into());
    let (guest, hypervisor) = crate::catalogue().build_nested(&choice.with(Socket::Placement, "ca-paging"));
    for parts in [guest, hypervisor] {
        assert_eq!(parts.translations.companions.len(), 1);
        let mut sink = Reported::default();
        parts.placement.report("p", &mut sink);
        assert!(sink.0.contains_key("at_offset"));
    }
}
