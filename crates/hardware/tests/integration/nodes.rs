//! Memory nodes: latencies and bandwidths of links with known answers, and counters that add up.

use ambulator_base::{AccessKind, Cycle, PhysAddr, Random, VirtAddr};
use ambulator_hardware::{
    CacheSpec, DramModel, DramSpec, EntryLevel, Hierarchy, HierarchySpec, Medium, NodeSpec, NodesSpec, Served,
};

const MIB: u64 = 1 << 20;
/// Node 0 has 64 MiB, and so has node 1.
const SECOND: u64 = 64 * MIB;
const CLOCK_MHZ: u64 = 2000;

/// Every DRAM access takes 60 ns, 120 cycles.
fn spec() -> HierarchySpec {
    HierarchySpec {
        dram: DramSpec { model: DramModel::Fixed, fixed_ns: 60.0, ..DramSpec::default() },
        llc: CacheSpec::of(1 << 20, 16, 56, 1024),
        l2: CacheSpec::of(256 << 10, 8, 20, 1024),
        l1d: CacheSpec::of(32 << 10, 8, 1, 1024),
        ..HierarchySpec::default()
    }
}

fn nodes(node1: NodeSpec) -> NodesSpec {
    NodesSpec { interconnect_ns: 70.0, interconnect_gbs: 16.0, node1, ..NodesSpec::default() }
}

fn build(spec: &HierarchySpec, nodes: &NodesSpec, cores: usize) -> Hierarchy {
    let mut hierarchy = Hierarchy::new(spec, cores, CLOCK_MHZ, 2 * SECOND, true);
    hierarchy.use_nodes(nodes, &nodes.sizes(2 * SECOND), spec, CLOCK_MHZ, true);
    hierarchy
}

fn load(h: &mut Hierarchy, core: usize, at: u64, now: u64) -> u64 {
    let access = h.access(core, PhysAddr(at), AccessKind::Load, VirtAddr(0), Cycle(now));
    assert_eq!(access.served, Served::Dram);
    access.ready.0 - now
}

/// The memory of a second socket.
fn socket() -> NodeSpec {
    NodeSpec { bytes: SECOND, socket: 1, ..NodeSpec::default() }
}

#[test]
fn a_remote_read_takes_the_local_latency_and_the_interconnects() {
    let mut h = build(&spec(), &nodes(socket()), 2);
    // 56 cycles to the last level, 120 in DRAM, 140 over the interconnect.
    assert_eq!([load(&mut h, 0, 0, 1000), load(&mut h, 0, SECOND, 5000)], [176, 316]);
    assert_eq!([load(&mut h, 1, MIB, 9000), load(&mut h, 1, SECOND + MIB, 20_000)], [316, 176]);
    let table = h.access_table(0, PhysAddr(SECOND + 2 * MIB), false, EntryLevel::L2, Cycle(30_000));
    assert_eq!(table.ready.0 - 30_000, 316);
    assert!(h.is_remote(0, PhysAddr(SECOND)) && !h.is_remote(1, PhysAddr(SECOND)) && h.is_remote(1, PhysAddr(0)));
    let counted = h.counters();
    let [first, second] = &counted.nodes[..] else { panic!("two nodes") };
    assert_eq!((first.reads, first.remote_reads, first.table_reads), (2, 1, 0));
    assert_eq!((second.reads, second.remote_reads, second.table_reads, second.remote_table_reads), (3, 2, 1, 1));
    assert_eq!((counted.dram.data_reads, counted.dram.table_reads), (4, 1));
    assert_eq!((counted.dram.data_read_cycles, counted.dram.table_read_cycles), (4 * 120 + 2 * 140, 260));
}

/// With banks and rows, the same line at the same time from both sockets.
#[test]
fn banks_do_not_change_what_the_interconnect_adds() {
    let banked = HierarchySpec { dram: DramSpec { t_refi_ns: 0.0, ..DramSpec::default() }, ..spec() };
    let latency = |core| load(&mut build(&banked, &nodes(socket()), 2), core, SECOND + 4096, 1000);
    assert_eq!(latency(0), latency(1) + 140);
}

#[test]
fn a_slow_tier_adds_its_link_and_behind_another_socket_both_links() {
    let cxl = NodeSpec { slow: true, socket: 0, link_ns: 90.0, link_gbs: 32.0, ..socket() };
    let two_sockets = NodesSpec { core_sockets: vec![0, 1], ..nodes(cxl) };
    let mut h = build(&spec(), &two_sockets, 2);
    assert_eq!([load(&mut h, 0, SECOND, 1000), load(&mut h, 1, SECOND + 4096, 9000)], [176 + 180, 176 + 180 + 140]);
    assert!(h.is_remote(0, PhysAddr(SECOND)), "a slow tier is never local");
}

/// Cycles in which so many lines arrive that are asked for at once.
fn burst(node1: NodeSpec, lines: u64) -> u64 {
    let mut h = build(&spec(), &nodes(node1), 2);
    (0..lines).map(|line| load(&mut h, 0, SECOND + line * 64, 1000)).max().unwrap_or(0)
}

#[test]
fn a_full_link_carries_what_its_bandwidth_allows() {
    // The interconnect: 16 GB/s are 64 bytes in 8 cycles at 2 GHz.
    let first = 316;
    assert_eq!(burst(socket(), 4096), first + 4095 * 8);
    // A link of 5 GB/s, 25.6 cycles a line, on the core's own socket.
    let cxl = NodeSpec { slow: true, socket: 0, link_ns: 90.0, link_gbs: 5.0, ..socket() };
    let cycles = burst(cxl, 4096) - 356;
    assert!(cycles.abs_diff(4095 * 256 / 10) <= 2, "{cycles} cycles for 4095 lines");
    // Without a bound, all at once.
    assert_eq!(burst(NodeSpec { socket: 0, slow: true, link_ns: 90.0, ..socket() }, 1000), 356);
}

#[test]
fn persistent_memory_has_its_latency_and_shares_its_bandwidth() {
    let persistent = NodeSpec {
        slow: true,
        socket: 0,
        medium: Medium::Persistent,
        read_ns: 300.0,
        read_gbs: 8.0,
        write_gbs: 2.0,
        ..socket()
    };
    assert_eq!(burst(persistent.clone(), 4096), 56 + 600 + 4095 * 16);
    // Lines that are written keep the medium busy for 64 cycles each, in the way of a read.
    let mut h = build(&spec(), &nodes(persistent), 1);
    h.zero(0, PhysAddr(SECOND), 10 * 64, Cycle(100), 1);
    let after = load(&mut h, 0, SECOND + MIB, 200);
    assert!(after > 56 + 600 + 400, "{after} cycles behind ten writes");
    assert_eq!(h.counters().dram.data_writes, 10);
}

#[test]
fn a_copy_between_nodes_crosses_the_link_once_for_each_line() {
    let cxl = NodeSpec { slow: true, socket: 0, link_ns: 90.0, link_gbs: 4.0, ..socket() };
    let mut h = build(&spec(), &nodes(cxl), 1);
    let copy = h.copy(PhysAddr(SECOND), PhysAddr(0), 2 * MIB, Cycle(0));
    let mut now = 0;
    while h.copied(copy).is_none() {
        now += 1000;
        h.copy_end(copy, Cycle(now));
    }
    let lines = 2 * MIB / 64;
    let least = lines * 32;
    let took = h.copied(copy).map_or(0, |end| end.0);
    assert!(took >= least && took < least * 101 / 100, "{took} cycles; the link needs {least}");
    let counted = h.counters().nodes;
    assert_eq!((counted[1].reads, counted[0].writes, counted[0].reads, counted[1].writes), (lines, lines, 0, 0));
}

#[test]
fn the_nodes_counters_add_up_to_those_of_main_memory() {
    let small = HierarchySpec {
        dram: DramSpec::default(),
        l2: CacheSpec::of(64 << 10, 8, 20, 64),
        llc: CacheSpec::of(64 << 10, 16, 56, 64),
        ..spec()
    };
    let mut h = build(&small, &nodes(socket()), 2);
    let mut random = Random::new(7);
    for now in 0..20_000 {
        let (core, at) = (random.below(2) as usize, random.below(2 * SECOND) & !63);
        let kind = if random.chance(0.3) { AccessKind::Store } else { AccessKind::Load };
        h.access(core, PhysAddr(at), kind, VirtAddr(0), Cycle(now * 20));
        if now % 5 == 0 {
            h.access_table(
                core,
                PhysAddr(random.below(2 * SECOND)),
                random.chance(0.5),
                EntryLevel::L2,
                Cycle(now * 20),
            );
        }
    }
    h.drain_writes();
    let all = h.counters();
    let sum = |of: fn(&ambulator_hardware::NodeCounters) -> u64| all.nodes.iter().map(of).sum::<u64>();
    assert_eq!(sum(|node| node.reads), all.dram.data_reads + all.dram.table_reads);
    assert_eq!(sum(|node| node.table_reads), all.dram.table_reads);
    assert_eq!(sum(|node| node.writes), all.dram.data_writes + all.dram.table_writes);
    assert!(all.dram.data_writes > 1000 && sum(|node| node.remote_reads) > 8000);
    h.reset_counters();
    assert!(h.counters().nodes.iter().all(|node| *node == ambulator_hardware::NodeCounters::default()));
}

#[test]
fn one_node_changes_nothing() {
    let banked = HierarchySpec { dram: DramSpec::default(), ..spec() };
    let mut plain = Hierarchy::new(&banked, 1, CLOCK_MHZ, 2 * SECOND, true);
    let mut one = build(&banked, &NodesSpec::default(), 1);
    let mut random = Random::new(7);
    for now in 0..20_000 {
        let at = PhysAddr(random.below(2 * SECOND));
        let access = |h: &mut Hierarchy| h.access(0, at, AccessKind::Store, VirtAddr(0), Cycle(now * 9));
        assert_eq!(access(&mut plain), access(&mut one));
    }
    assert_eq!(plain.counters(), one.counters());
    assert!(one.counters().nodes.is_empty());
}

#[test]
fn a_faster_bus_does_not_shorten_the_devices_times() {
    // DDR4-2400 in node 0: tWR 15 ns, tWTR_L 7.5 ns.
    let slow =
        DramSpec { data_rate: 2400, t_cl: 16, t_cwl: 12, t_wr: 18, t_wtr_l: 9, t_rcd: 17, ..DramSpec::default() };
    let own = NodeSpec { data_rate: 4800, t_cl: 40, ..NodeSpec::default() };
    let fast = own.dram(&slow);
    assert_eq!((fast.data_rate, fast.t_cl, fast.t_wr, fast.t_wtr_l, fast.t_rcd), (4800, 40, 36, 18, 34));
    assert_eq!(fast.t_cwl, 30, "the ratio of 12 to 16");
    assert_eq!(fast.t_faw_ns, slow.t_faw_ns);
    assert_eq!(NodeSpec::default().dram(&slow), slow);
}

#[test]
fn all_who_wait_for_a_line_of_a_node_learn_when_it_arrives() {
    let spec = HierarchySpec { dram: DramSpec { channels: 1, ..DramSpec::default() }, ..spec() };
    let mut h = build(&spec, &nodes(socket()), 1);
    let mut random = Random::new(5);
    let mut waiting = std::collections::BTreeSet::new();
    let (mut now, mut late) = (0, 0);
    for _ in 0..4000 {
        now += random.below(30);
        while let Some((told, at)) = waiting.pop_first() {
            if told > now {
                waiting.insert((told, at));
                break;
            }
            let [first, second] = [0, 1].map(|_| h.arrival(0, PhysAddr(at), false, Cycle(told)));
            assert_eq!(first, second, "the line of {at:#x} was said to arrive at {told}");
            if first.0 > told {
                late += 1;
                waiting.insert((first.0, at));
            }
        }
        let at = SECOND + random.below(SECOND / 64) * 64;
        let access = h.access(0, PhysAddr(at), AccessKind::Load, VirtAddr(0), Cycle(now));
        if access.served == Served::Dram {
            waiting.insert((access.ready.0, at));
        }
    }
    assert!(late > 300, "{late} lines are late");
}
