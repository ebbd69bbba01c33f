//! The kernel on several memory nodes: policies, fall-backs, demotion, promotion.

use crate::double::Factory;
use ambulator_base::{
    AccessKind, Advice, Cycle, FRAME_BYTES, MapKind, PageSize, ProcessId, Protection, VirtAddr, VmEvent,
};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{
    Balancing, BuddyPlacement, CostTable, FaultKind, HugeMigration, Kernel, KernelSpec, MachineNodes, MemoryPolicy,
    NodeInfo, NumaSpec, PageSizePolicy, TablePolicy, TranslationsFactory,
};
use std::collections::BTreeMap;

const FIRST: VirtAddr = VirtAddr(0x10_0000_0000);
/// Frames of each node.
const FRAMES: u64 = 4096;

fn fast(socket: u32) -> NodeInfo {
    NodeInfo { socket, slow: false }
}

const SLOW: NodeInfo = NodeInfo { socket: 0, slow: true };

fn kernel(nodes: &[NodeInfo], spec: KernelSpec) -> (Kernel, Factory, ProcessId) {
    let factory = Factory::default();
    let frames = BuddyAllocator::with_nodes(&BuddySpec::default(), &vec![FRAMES; nodes.len()]);
    let memory = PhysicalMemory::new(frames.total_frames() * FRAME_BYTES).unwrap();
    let translations = TranslationsFactory::plain(Box::new(factory.clone()));
    let mut kernel = Kernel::new(&spec, CostTable::default(), memory, frames, translations, Box::new(BuddyPlacement));
    kernel.use_nodes(MachineNodes { nodes: nodes.to_vec(), core_sockets: vec![0, 1] });
    let process = kernel.spawn().unwrap();
    let (len, kind, protection) = (1 << 30, MapKind::Anonymous, Protection::READ_WRITE);
    kernel.event(process, &VmEvent::Map { start: FIRST, len, protection, kind }).unwrap();
    (kernel, factory, process)
}

fn with(numa: NumaSpec) -> KernelSpec {
    KernelSpec { numa, ..KernelSpec::default() }
}

fn page(number: u64) -> VirtAddr {
    FIRST.offset(number * FRAME_BYTES)
}

fn store(kernel: &mut Kernel, process: ProcessId, number: u64) -> FaultKind {
    kernel.fault(process, page(number), AccessKind::Store).unwrap()
}

/// The node of a page that is mapped.
fn node(kernel: &Kernel, process: ProcessId, number: u64) -> usize {
    let state = kernel.page_state(process, page(number));
    assert!(state.present(), "page {number} is not mapped");
    kernel.frames.node_of(state.frame())
}

fn counters(kernel: &Kernel) -> BTreeMap<String, u64> {
    struct All(BTreeMap<String, u64>);
    impl ambulator_base::CounterSink for All {
        fn counter(&mut self, prefix: &str, def: &'static ambulator_base::CounterDef, value: u64) {
            self.0.insert(format!("{prefix}.{}", def.name), value);
        }
    }
    let mut all = All(BTreeMap::new());
    kernel.report_counters("kernel", &mut all);
    all.0
}

#[test]
fn a_page_comes_from_the_node_of_the_core_that_touches_it_first() {
    let (mut kernel, _, process) = kernel(&[fast(0), fast(1)], KernelSpec::default());
    store(&mut kernel, process, 0);
    kernel.run_on(1, Cycle(0));
    store(&mut kernel, process, 1);
    kernel.run_on(0, Cycle(0));
    store(&mut kernel, process, 2);
    assert_eq!([0, 1, 2].map(|number| node(&kernel, process, number)), [0, 1, 0]);
    kernel.check().unwrap();
}

#[test]
fn a_full_node_falls_back_to_fast_ones_before_slow_ones() {
    let (mut kernel, _, process) = kernel(&[fast(0), SLOW, fast(1)], KernelSpec::default());
    let nodes: Vec<usize> = (0..3 * FRAMES - 300)
        .map(|number| {
            store(&mut kernel, process, number);
            node(&kernel, process, number)
        })
        .collect();
    // Node 0 to its low watermark (9 frames), then node 2, then node 1; at last what is below the watermarks.
    let mut order = nodes.clone();
    order.dedup();
    assert_eq!(order, [0, 2, 1, 0]);
    let all = counters(&kernel);
    assert_eq!(all["kernel.node0.fallbacks"], 0);
    assert_eq!(all["kernel.node1.allocations"], all["kernel.node1.fallbacks"]);
    let given: u64 = (0..3).map(|node| all[&format!("kernel.node{node}.allocations")]).sum();
    assert_eq!(given, 3 * FRAMES - 256 - kernel.frames.free_frames(), "every frame is counted once");
    kernel.check_frames().unwrap();
}

#[test]
fn policies_choose_the_nodes_that_they_name() {
    let nodes = [fast(0), fast(1), SLOW];
    let of = |policy, named: &[u32]| {
        let (mut kernel, _, process) =
            kernel(&nodes, with(NumaSpec { policy, nodes: named.into(), ..NumaSpec::default() }));
        (0..6)
            .map(|number| {
                store(&mut kernel, process, number);
                node(&kernel, process, number)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(of(MemoryPolicy::Interleave, &[]), [0, 1, 2, 0, 1, 2].map(|at| (at + FIRST.0 as usize / 4096) % 3));
    assert_eq!(of(MemoryPolicy::Interleave, &[0, 2]), [0, 2, 0, 2, 0, 2]);
    assert_eq!(of(MemoryPolicy::Preferred, &[2]), [2; 6]);
    assert_eq!(of(MemoryPolicy::Bind, &[1]), [1; 6]);
}

#[test]
fn a_process_that_is_bound_to_a_full_node_runs_out_of_memory() {
    let numa = NumaSpec { policy: MemoryPolicy::Bind, nodes: vec![1], ..NumaSpec::default() };
    let (mut kernel, _, process) = kernel(&[fast(0), fast(1)], with(numa));
    let mut faults = (0..).map(|number| kernel.fault(process, page(number), AccessKind::Store));
    let served = faults.by_ref().take_while(Result::is_ok).count() as u64;
    drop(faults);
    assert_eq!(served, FRAMES);
    assert!(kernel.frames.node_free_frames(0) > FRAMES / 2);
    kernel.check().unwrap();
}

#[test]
fn tables_lie_where_their_policy_says() {
    let of = |table_policy| {
        let numa = NumaSpec { table_policy, table_node: 1, ..NumaSpec::default() };
        let (mut kernel, _, process) = kernel(&[fast(0), fast(1)], with(numa));
        // A page in each 2 MiB needs a table node of its own.
        (0..64).for_each(|number| _ = store(&mut kernel, process, number * 512));
        let all = counters(&kernel);
        (all["kernel.node0.allocations"], all["kernel.node1.allocations"])
    };
    let (local, remote, turns) = (of(TablePolicy::Local), of(TablePolicy::Node), of(TablePolicy::Interleave));
    let tables = local.0 - 64;
    assert!(tables >= 64 && local.1 == 0, "{local:?}");
    assert_eq!(remote, (64, tables));
    assert!(turns.1.abs_diff(tables / 2) <= 1 && turns.0 + turns.1 == local.0, "{turns:?}");
}

/// A fast and a slow node, with demotion and balancing.
fn tiers(balancing: Balancing) -> KernelSpec {
    with(NumaSpec {
        demotion: true,
        balancing,
        scan_period: 1000,
        scan_pages: 1 << 20,
        hot_threshold: 500,
        ..NumaSpec::default()
    })
}

/// Lets the program access pages, as the hardware would: it sets accessed bits, and faults where it must.
fn access(kernel: &mut Kernel, factory: &Factory, process: ProcessId, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut faults = 0;
    for number in numbers {
        while !kernel.page_state(process, page(number)).present() {
            kernel.fault(process, page(number), AccessKind::Load).unwrap();
            faults += 1;
        }
        factory.tables().accessed(process, page(number), false);
    }
    faults
}

/// The program has filled the fast node and half of the slow one; demotion has made room.
fn filled(balancing: Balancing) -> (Kernel, Factory, ProcessId) {
    let (mut kernel, factory, process) = kernel(&[fast(0), SLOW], tiers(balancing));
    (0..FRAMES + FRAMES / 2).for_each(|number| _ = store(&mut kernel, process, number));
    kernel.tick(process, Cycle(1)).unwrap();
    kernel.check_frames().unwrap();
    (kernel, factory, process)
}

#[test]
fn cold_pages_are_demoted_until_the_fast_node_has_room_and_keep_their_contents() {
    let (mut kernel, factory, process) = kernel(&[fast(0), SLOW], tiers(Balancing::None));
    store(&mut kernel, process, 0);
    let at = kernel.page_state(process, page(0)).frame().start();
    kernel.memory.write(at.offset(128), 4711);
    (1..FRAMES).for_each(|number| _ = store(&mut kernel, process, number));
    assert!(kernel.frames.node_free_frames(0) <= 9);
    // All pages were just accessed: the first round clears their bits, the second demotes the first pages.
    access(&mut kernel, &factory, process, std::iter::empty());
    kernel.tick(process, Cycle(1)).unwrap();
    let all = counters(&kernel);
    let demoted = all["kernel.numa.pages_demoted"];
    assert!((1..64).contains(&demoted), "{demoted}");
    assert_eq!(all["kernel.node0.bytes_out"], demoted * FRAME_BYTES);
    assert_eq!(all["kernel.node1.bytes_in"], demoted * FRAME_BYTES);
    assert_eq!(node(&kernel, process, 0), 1, "the first page");
    let now_at = kernel.page_state(process, page(0)).frame().start();
    assert_eq!((kernel.memory.read(now_at.offset(128)), kernel.memory.read(at.offset(128))), (4711, 0));
    let mut moved = Vec::new();
    kernel.take_migrations(&mut moved);
    assert_eq!(moved.len() as u64, demoted, "each is copied");
    assert!(!kernel.daemons_are_due(Cycle(2)), "the node has room");
    kernel.check_frames().unwrap();
}

#[test]
fn a_hot_page_of_the_slow_tier_is_promoted_by_a_hint_fault_with_its_contents() {
    let (mut kernel, factory, process) = filled(Balancing::HintFaults);
    let hot = FRAMES + 100;
    assert_eq!(node(&kernel, process, hot), 1);
    let at = kernel.page_state(process, page(hot)).frame().start();
    kernel.memory.write(at.offset(8), 99);
    kernel.tick(process, Cycle(1000)).unwrap();
    let state = kernel.page_state(process, page(hot));
    assert!(state.is_hinted() && !state.present(), "the scan took its entry away");
    assert!(kernel.page_state(process, page(FRAMES - 800)).present(), "pages of the fast node stay");
    kernel.check().unwrap();
    // Its fault comes soon; that of another page comes late.
    kernel.run_on(0, Cycle(1400));
    assert_eq!(kernel.fault(process, page(hot), AccessKind::Load).unwrap(), FaultKind::Hint);
    kernel.run_on(0, Cycle(1600));
    assert_eq!(kernel.fault(process, page(hot + 1), AccessKind::Load).unwrap(), FaultKind::Hint);
    assert_eq!([hot, hot + 1].map(|number| node(&kernel, process, number)), [0, 1]);
    let now_at = kernel.page_state(process, page(hot)).frame().start();
    assert_eq!((kernel.memory.read(now_at.offset(8)), kernel.memory.read(at.offset(8))), (99, 0));
    let all = counters(&kernel);
    assert_eq!((all["kernel.numa.hint_faults"], all["kernel.numa.pages_promoted"]), (2, 1));
    assert!(all["kernel.numa.pages_marked"] > 1000 && all["kernel.numa.scans"] == 1);
    kernel.check_frames().unwrap();
    // What the program does not touch stays hinted, and can be unmapped, written and forked all the same.
    access(&mut kernel, &factory, process, hot..hot + 3);
    let child = kernel.fork(process).unwrap();
    assert!(kernel.page_state(child, page(hot + 50)).present());
    kernel.event(process, &VmEvent::Unmap { start: FIRST, len: 1 << 30 }).unwrap();
    kernel.check_frames().unwrap();
}

#[test]
fn promotion_stops_where_the_fast_node_is_full_and_demotion_makes_room_for_it() {
    let (mut kernel, factory, process) = filled(Balancing::HintFaults);
    let hot = FRAMES + 100..FRAMES + 1124;
    let mut in_fast = 0;
    for round in 1..200u64 {
        let now = round * 1000;
        kernel.tick(process, Cycle(now)).unwrap();
        kernel.run_on(0, Cycle(now + 100));
        access(&mut kernel, &factory, process, hot.clone());
        kernel.tick(process, Cycle(now + 200)).unwrap();
        in_fast = hot.clone().filter(|number| node(&kernel, process, *number) == 0).count();
        if in_fast == hot.clone().count() {
            break;
        }
    }
    assert_eq!(in_fast, 1024, "all hot pages are in the fast node at last");
    let all = counters(&kernel);
    assert!(all["kernel.numa.promotions_without_room"] > 0 && all["kernel.numa.pages_demoted"] >= 900, "{all:?}");
    assert_eq!(
        (all["kernel.node0.bytes_in"], all["kernel.node0.bytes_out"]),
        (all["kernel.node1.bytes_out"], all["kernel.node1.bytes_in"])
    );
    let moved = all["kernel.numa.pages_promoted"] + all["kernel.numa.pages_demoted"];
    assert_eq!(all["kernel.node0.bytes_in"] + all["kernel.node0.bytes_out"], moved * FRAME_BYTES);
    kernel.check_frames().unwrap();
}

#[test]
fn the_limit_bounds_what_is_promoted_in_a_period() {
    let mut spec = tiers(Balancing::HintFaults);
    spec.numa.promotion_pages = 3;
    let (mut kernel, factory, process) = kernel(&[fast(0), SLOW], spec);
    (0..FRAMES).for_each(|number| _ = store(&mut kernel, process, number));
    // Room in the fast node, and pages in the slow one.
    let slow: Vec<u64> = (0..FRAMES).filter(|number| node(&kernel, process, *number) == 1).take(20).collect();
    kernel.event(process, &VmEvent::Unmap { start: FIRST, len: 1024 * FRAME_BYTES }).unwrap();
    kernel.tick(process, Cycle(1000)).unwrap();
    access(&mut kernel, &factory, process, slow.iter().copied());
    let all = counters(&kernel);
    assert_eq!((all["kernel.numa.pages_promoted"], all["kernel.numa.promotions_over_limit"]), (3, 17));
    kernel.tick(process, Cycle(2000)).unwrap();
    access(&mut kernel, &factory, process, slow.iter().copied());
    assert_eq!(counters(&kernel)["kernel.numa.pages_promoted"], 6, "the next period has its own");
}

#[test]
fn pages_that_are_accessed_in_adjacent_scans_are_promoted_by_their_bits() {
    let mut spec = tiers(Balancing::AccessedBits);
    spec.numa.hot_scans = 3;
    let (mut kernel, factory, process) = kernel(&[fast(0), SLOW], spec);
    (0..FRAMES).for_each(|number| _ = store(&mut kernel, process, number));
    let slow: Vec<u64> = (0..FRAMES).filter(|number| node(&kernel, process, *number) == 1).collect();
    let (always, sometimes) = (slow[0], slow[1]);
    kernel.event(process, &VmEvent::Unmap { start: FIRST, len: 1024 * FRAME_BYTES }).unwrap();
    for round in 1..=4 {
        kernel.tick(process, Cycle(round * 1000)).unwrap();
        let promoted = node(&kernel, process, always) == 0;
        // The first scan sees the accesses of the set-up.
        assert_eq!(promoted, round >= 3, "round {round}");
        assert_eq!(node(&kernel, process, sometimes), 1);
        access(&mut kernel, &factory, process, std::iter::once(always));
        if round % 2 == 0 {
            access(&mut kernel, &factory, process, std::iter::once(sometimes));
        }
    }
    assert_eq!(counters(&kernel)["kernel.numa.hint_faults"], 0);
    kernel.check_frames().unwrap();
}

#[test]
fn a_page_of_another_socket_moves_on_the_second_fault_from_the_same_node() {
    let mut spec = tiers(Balancing::HintFaults);
    spec.numa.demotion = false;
    let (mut kernel, factory, process) = kernel(&[fast(0), fast(1)], spec);
    (0..2).for_each(|number| _ = store(&mut kernel, process, number));
    let mut fault_from = |core: usize, round: u64| {
        kernel.tick(process, Cycle(round * 1000)).unwrap();
        kernel.run_on(core, Cycle(round * 1000 + 1));
        access(&mut kernel, &factory, process, 0..1);
        node(&kernel, process, 0)
    };
    let nodes = [1, 0, 1, 1, 1].iter().zip(1..).map(|(core, round)| fault_from(*core, round)).collect::<Vec<_>>();
    assert_eq!(nodes, [0, 0, 0, 1, 1], "core 1 twice in a row");
    assert_eq!(counters(&kernel)["kernel.numa.pages_balanced"], 1);
    kernel.check_frames().unwrap();
}

#[test]
fn huge_pages_move_as_a_whole_or_in_parts() {
    for (huge_migration, moved, splits) in [(HugeMigration::Whole, 512, 0), (HugeMigration::Split, 1, 1)] {
        let mut spec = tiers(Balancing::AccessedBits);
        spec.page_size_policy = PageSizePolicy::Always;
        spec.numa.policy = MemoryPolicy::Preferred;
        spec.numa.nodes = vec![1];
        spec.numa.hot_scans = 1;
        spec.numa.huge_migration = huge_migration;
        let (mut kernel, _, process) = kernel(&[fast(0), SLOW], spec);
        store(&mut kernel, process, 0);
        assert_eq!((kernel.page_state(process, page(7)).size(), node(&kernel, process, 7)), (PageSize::SIZE_2M, 1));
        kernel.tick(process, Cycle(1000)).unwrap();
        let in_fast = (0..512).filter(|number| node(&kernel, process, *number) == 0).count();
        assert_eq!((in_fast, counters(&kernel)["kernel.numa.splits"]), (moved, splits));
        kernel.check_frames().unwrap();
    }
}

#[test]
fn a_hinted_huge_page_survives_system_calls_on_its_parts() {
    let mut spec = tiers(Balancing::HintFaults);
    spec.page_size_policy = PageSizePolicy::Always;
    spec.numa.policy = MemoryPolicy::Bind;
    spec.numa.nodes = vec![1];
    let calls = [
        VmEvent::Unmap { start: page(100), len: 50 * FRAME_BYTES },
        VmEvent::Protect { start: page(100), len: 50 * FRAME_BYTES, protection: Protection::READ },
        VmEvent::Advise { start: page(100), len: 50 * FRAME_BYTES, advice: Advice::Free },
        VmEvent::Advise { start: page(100), len: 50 * FRAME_BYTES, advice: Advice::NoHuge },
        VmEvent::Remap {
            old: page(100),
            old_len: 50 * FRAME_BYTES,
            new: VirtAddr(0x30_0000_1000),
            new_len: 60 * FRAME_BYTES,
        },
        VmEvent::Touch { start: page(100), len: 50 * FRAME_BYTES, write: true },
    ];
    for call in calls {
        let (mut kernel, _, process) = kernel(&[fast(0), SLOW], spec.clone());
        store(&mut kernel, process, 0);
        kernel.tick(process, Cycle(1000)).unwrap();
        assert!(kernel.page_state(process, page(0)).is_hinted());
        kernel.event(process, &call).unwrap();
        kernel.check().unwrap();
        kernel.check_frames().unwrap_or_else(|why| panic!("{call:?}: {why}"));
        kernel.event(process, &VmEvent::Exit { process }).unwrap();
        assert_eq!(kernel.frames.free_frames(), 2 * FRAMES - 256, "{call:?}");
    }
}
