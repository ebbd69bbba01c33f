//! Pages in the frames that a trace records.

use crate::double::Factory;
#[allow(dead_code, reason = "other tests use the rest of it")]
use ambulator_base::{
    AccessKind, CounterDef, CounterSink, FRAME_BYTES, MapKind, PageSize, PhysAddr, ProcessId, Protection, Random,
    VirtAddr, VmEvent,
};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{CostTable, Kernel, KernelSpec, PageSizePolicy, RecordedPlacement, TranslationsFactory};
use std::collections::{BTreeMap, BTreeSet};

const MEMORY: u64 = 64 << 20;
const START: u64 = 0x10_0000_0000;

fn kernel(policy: PageSizePolicy) -> (Kernel, ProcessId) {
    let spec = KernelSpec { page_size_policy: policy, ..KernelSpec::default() };
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let translations = TranslationsFactory::plain(Box::new(Factory::default()));
    let placement = Box::<RecordedPlacement>::default();
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, translations, placement);
    let process = kernel.spawn().unwrap();
    let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
    kernel.event(process, &VmEvent::Map { start: VirtAddr(START), len: 32 << 20, protection, kind }).unwrap();
    (kernel, process)
}

fn place(kernel: &mut Kernel, process: ProcessId, va: u64, len: u64, pa: u64, page: PageSize) {
    let event = VmEvent::Place { start: VirtAddr(va), len, at: PhysAddr(pa), page };
    kernel.event(process, &event).unwrap();
}

fn touch(kernel: &mut Kernel, process: ProcessId, va: u64, len: u64) {
    kernel.event(process, &VmEvent::Touch { start: VirtAddr(va), len, write: true }).unwrap();
}

fn at(kernel: &Kernel, process: ProcessId, va: u64) -> u64 {
    let state = kernel.page_state(process, VirtAddr(va));
    assert!(state.present(), "{va:#x} is not mapped");
    state.frame().start().0
}

#[derive(Default)]
struct All(BTreeMap<String, u64>);

impl CounterSink for All {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        if let Some(name) = prefix.strip_prefix("kernel.placement.trace") {
            self.0.insert(format!("{name}{}", def.name), value);
        }
    }
}

fn counted(kernel: &Kernel) -> BTreeMap<String, u64> {
    let mut all = All::default();
    kernel.report_counters("kernel", &mut all);
    all.0.retain(|_, value| *value > 0);
    all.0
}

fn counts(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn pages_get_the_frames_that_the_trace_names() {
    let (mut kernel, process) = kernel(PageSizePolicy::Never);
    place(&mut kernel, process, START, 0x3000, 0x200_5000, PageSize::SIZE_4K);
    place(&mut kernel, process, START + 0x10000, 0x1000, 0x100_0000, PageSize::SIZE_4K);
    touch(&mut kernel, process, START, 0x20000);
    let frames: Vec<u64> = (0..3).map(|page| at(&kernel, process, START + (page << 12))).collect();
    assert_eq!(frames, [0x200_5000, 0x200_6000, 0x200_7000]);
    assert_eq!(at(&kernel, process, START + 0x10000), 0x100_0000);
    assert_eq!(counted(&kernel), counts(&[("recorded", 4), ("exact", 4), ("unrecorded", 28)]));
    kernel.check().unwrap();
    // A page that is dropped and touched again is there again.
    kernel.event(process, &VmEvent::Unmap { start: VirtAddr(START), len: 0x1000 }).unwrap();
    let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
    kernel.event(process, &VmEvent::Map { start: VirtAddr(START), len: 0x1000, protection, kind }).unwrap();
    kernel.fault(process, VirtAddr(START), AccessKind::Load).unwrap();
    assert_eq!(at(&kernel, process, START), 0x200_5000);
}

#[test]
fn recorded_sizes_hold_whatever_the_policy() {
    for policy in [PageSizePolicy::Never, PageSizePolicy::Always] {
        let (mut kernel, process) = kernel(policy);
        place(&mut kernel, process, START, 4 << 20, 0x80_0000, PageSize::SIZE_2M);
        place(&mut kernel, process, START + (4 << 20), 2 << 20, 0x200_0000, PageSize::SIZE_4K);
        touch(&mut kernel, process, START, 8 << 20);
        let sizes: Vec<_> = (0..3).map(|i| kernel.page_state(process, VirtAddr(START + (i << 21))).size()).collect();
        assert_eq!(sizes, [PageSize::SIZE_2M, PageSize::SIZE_2M, PageSize::SIZE_4K], "{policy:?}");
        assert_eq!(at(&kernel, process, START + (3 << 20)), 0xb0_0000);
        assert_eq!(at(&kernel, process, START + (5 << 20)), 0x210_0000);
        assert_eq!(counted(&kernel), counts(&[("recorded", 1536), ("exact", 1536), ("unrecorded", 512)]));
        kernel.check().unwrap();
    }
}

#[test]
fn what_lies_beyond_memory_keeps_its_contiguity() {
    let (mut kernel, process) = kernel(PageSizePolicy::Never);
    // 3 MiB across a border of 2 MiB, and the block before it later.
    let high = 0x40_0080_0000;
    place(&mut kernel, process, START + (2 << 20), 3 << 20, high + (3 << 20), PageSize::SIZE_4K);
    place(&mut kernel, process, START, 2 << 20, high + (1 << 20), PageSize::SIZE_4K);
    touch(&mut kernel, process, START, 5 << 20);
    let first = at(&kernel, process, START);
    let frames: Vec<u64> = (0..5 << 8).map(|page| at(&kernel, process, START + (page << 12))).collect();
    assert!(frames.windows(2).all(|pair| pair[0] + 4096 == pair[1]), "{frames:x?}");
    assert_eq!(first % (2 << 20), 1 << 20, "and its alignment");
    assert_eq!(counted(&kernel), counts(&[("recorded", 1280), ("rebased", 1280)]));
    kernel.check().unwrap();
}

#[test]
fn a_frame_that_is_taken_is_not_taken_twice() {
    let (mut kernel, process) = kernel(PageSizePolicy::Never);
    // The first MiB is the kernel's; two pages have one frame; one frame is another page's by then.
    touch(&mut kernel, process, START + 0x9000, 0x1000);
    let used = at(&kernel, process, START + 0x9000);
    place(&mut kernel, process, START, 0x1000, 0x1000, PageSize::SIZE_4K);
    place(&mut kernel, process, START + 0x1000, 0x1000, 0x200_0000, PageSize::SIZE_4K);
    place(&mut kernel, process, START + 0x2000, 0x1000, 0x200_0000, PageSize::SIZE_4K);
    place(&mut kernel, process, START + 0x3000, 0x1000, used, PageSize::SIZE_4K);
    touch(&mut kernel, process, START, 0x4000);
    assert_eq!(at(&kernel, process, START + 0x1000), 0x200_0000, "who touches it first");
    assert_eq!(counted(&kernel), counts(&[("recorded", 4), ("exact", 1), ("taken", 3), ("unrecorded", 1)]));
    kernel.check().unwrap();
    // Nor by a huge page.
    place(&mut kernel, process, START + (4 << 20), 2 << 20, 0x200_0000, PageSize::SIZE_2M);
    touch(&mut kernel, process, START + (4 << 20), 2 << 20);
    assert_eq!(kernel.page_state(process, VirtAddr(START + (4 << 20))).size(), PageSize::SIZE_4K);
    assert_eq!(at(&kernel, process, START + (4 << 20) + 0x1000), 0x200_1000, "its base pages are where they can be");
    kernel.check().unwrap();
}

#[test]
fn named_frames_are_kept_until_their_pages_are_touched() {
    let (mut kernel, process) = kernel(PageSizePolicy::Never);
    // The lowest free frames, which any other page would get.
    place(&mut kernel, process, START, 0x4000, 0x10_2000, PageSize::SIZE_4K);
    touch(&mut kernel, process, START + 0x10000, 0x8000);
    touch(&mut kernel, process, START, 0x4000);
    assert_eq!(at(&kernel, process, START), 0x10_2000);
    assert_eq!(counted(&kernel)["exact"], 4);
    // So is the rest of their block, until memory is scarce.
    let free = kernel.frames.free_frames();
    place(&mut kernel, process, START + (16 << 20), 0x1000, 0x180_0000, PageSize::SIZE_4K);
    assert_eq!(kernel.frames.free_frames(), free - 512);
    touch(&mut kernel, process, START, 32 << 20);
    let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
    let more = VmEvent::Map { start: VirtAddr(2 * START), len: 64 << 20, protection, kind };
    kernel.event(process, &more).unwrap();
    let full = kernel.event(process, &VmEvent::Touch { start: VirtAddr(2 * START), len: 64 << 20, write: true });
    assert!(full.unwrap_err().is_outcome());
    assert_eq!(kernel.frames.free_frames(), 0, "nothing is kept from those who need it");
    kernel.check().unwrap();
}

#[test]
fn a_page_that_the_trace_moves_moves() {
    let (mut kernel, process) = kernel(PageSizePolicy::Never);
    place(&mut kernel, process, START, 0x2000, 0x200_0000, PageSize::SIZE_4K);
    touch(&mut kernel, process, START, 0x2000);
    place(&mut kernel, process, START, 0x1000, 0x300_0000, PageSize::SIZE_4K);
    let mut moved = Vec::new();
    kernel.take_migrations(&mut moved);
    let [one] = moved[..] else { panic!("{moved:?}") };
    assert_eq!((one.from.start().0, one.to.start().0), (0x200_0000, 0x300_0000));
    assert_eq!((at(&kernel, process, START), at(&kernel, process, START + 0x1000)), (0x300_0000, 0x200_1000));
    // To a frame that is taken it does not; saying the same again changes nothing.
    place(&mut kernel, process, START, 0x1000, 0x200_1000, PageSize::SIZE_4K);
    place(&mut kernel, process, START + 0x1000, 0x1000, 0x200_1000, PageSize::SIZE_4K);
    assert_eq!(at(&kernel, process, START), 0x300_0000);
    assert_eq!(counted(&kernel), counts(&[("recorded", 4), ("exact", 2), ("moved", 1), ("stayed", 1)]));
    kernel.take_migrations(&mut moved);
    assert_eq!(moved.len(), 1);
    kernel.check().unwrap();
}

#[test]
fn a_kernel_with_another_placement_ignores_places() {
    let frames = BuddyAllocator::new(&BuddySpec::default(), MEMORY / FRAME_BYTES);
    let memory = PhysicalMemory::new(MEMORY).unwrap();
    let translations = TranslationsFactory::plain(Box::new(Factory::default()));
    let buddy = Box::new(ambulator_os::BuddyPlacement);
    let mut kernel = Kernel::new(&KernelSpec::default(), CostTable::default(), memory, frames, translations, buddy);
    let process = kernel.spawn().unwrap();
    let free = kernel.frames.free_frames();
    place(&mut kernel, process, START, 0x4000, 0x200_0000, PageSize::SIZE_4K);
    assert_eq!((kernel.frames.free_frames(), kernel.counters.syscalls, kernel.ledger.take()), (free, 0, 0));
}

/// Random places, touches, unmappings, forks and exits: no frame has two pages, each page has its frame or a
/// reason, and the books balance.
#[test]
fn random_places_never_break_the_kernel() {
    for seed in 0..16 {
        let policy = if seed % 2 == 0 { PageSizePolicy::Never } else { PageSizePolicy::Always };
        let (mut kernel, first) = kernel(policy);
        let mut random = Random::new(seed);
        let mut processes = vec![first];
        // Half of the runs name more memory than there is.
        let memory = if seed % 4 < 2 { MEMORY } else { 1 << 40 };
        for step in 0..120 {
            let process = processes[random.below(processes.len() as u64) as usize];
            let huge = random.below(3) == 0;
            let page = if huge { PageSize::SIZE_2M } else { PageSize::SIZE_4K };
            let within = |random: &mut Random, bytes: u64| random.below(bytes / page.bytes()) * page.bytes();
            let va = START + within(&mut random, 24 << 20);
            let len = page.bytes() * (1 + random.below(if huge { 3 } else { 700 }));
            match random.below(10) {
                0..4 => {
                    let pa = within(&mut random, memory);
                    place(&mut kernel, process, va, len, pa, page);
                }
                4..8 => touch(&mut kernel, process, va, len.min(START + (32 << 20) - va)),
                8 => {
                    let drop = VmEvent::Advise { start: VirtAddr(va), len, advice: ambulator_base::Advice::DontNeed };
                    kernel.event(process, &drop).unwrap();
                }
                _ if processes.len() > 1 && random.below(2) == 0 => {
                    processes.retain(|other| *other != process);
                    kernel.event(process, &VmEvent::Exit { process }).unwrap();
                }
                _ if processes.len() < 2 => processes.push(kernel.fork(process).unwrap()),
                _ => {}
            }
            if step % 20 == 19 {
                kernel.check().unwrap();
            }
        }
        let mut owned = BTreeSet::new();
        for process in &processes {
            kernel.for_each_page(*process, |page, state| {
                for frame in 0..page.size.frames() {
                    assert!(owned.insert(state.frame().0 + frame) || state.copy_on_write(), "seed {seed}: {page:?}");
                }
            });
        }
        let counted = counted(&kernel);
        assert!(counted.contains_key(if memory == MEMORY { "exact" } else { "rebased" }), "seed {seed}: {counted:?}");
    }
}
