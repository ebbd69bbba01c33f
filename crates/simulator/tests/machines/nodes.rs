//! Machines with several memory nodes: latencies of walks, designs under migration, one node as before.

use crate::support;

use ambulator_base::Random;
use ambulator_simulator::RunResult;
use ambulator_simulator::spec::{SpecRequest, load};
use support::{DATA, Scripted, counter, run};

/// 64 MiB in node 0, and as much in node 1.
const HALVES: [&str; 2] = ["memory.bytes=128MiB", "nodes.node1.bytes=64MiB"];
/// Every DRAM access takes 60 ns; the interconnect adds 136 ns, 272 cycles.
const FIXED: [&str; 2] = ["dram.model=fixed", "nodes.node1.socket=1"];

fn settings<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

/// Loads of pages far apart, each after the one before has ended.
fn distant_loads() -> Scripted {
    let mut program = Scripted::new(1 << 30);
    (0..8).for_each(|at| _ = program.touch(DATA + (at << 26), 4096, true));
    program.touch(DATA, 4096, true).begin().pause();
    (0..8).for_each(|at| _ = program.load(DATA + (at << 26)).pause());
    program
}

#[test]
fn each_load_of_a_walk_from_a_remote_table_takes_the_interconnect_longer() {
    let with = |more: &[&str]| run("radix", &settings(&[&HALVES, &FIXED, more]), &distant_loads());
    let local = with(&[]);
    let tables = with(&["kernel.numa.table_policy=node", "kernel.numa.table_node=1"]);
    let data = with(&["kernel.numa.policy=preferred", "kernel.numa.nodes=[1]"]);
    assert_eq!([&local, &data].map(|run| counter(run, "mmu.walk_served.dram_remote")), [0, 0]);
    let remote = counter(&tables, "mmu.walk_served.dram_remote");
    assert!(remote >= 8 && remote == counter(&tables, "mmu.walk_served.dram"), "{remote}");
    let walks = |run: &RunResult| counter(run, "mmu.walk_cycles");
    assert_eq!(walks(&tables), walks(&local) + remote * 272);
    assert_eq!(walks(&data), walks(&local), "data is remote, and tables are not");
    // Reads of walks and of data by node.
    assert_eq!(counter(&tables, "hierarchy.node1.remote_table_reads"), remote);
    assert_eq!(counter(&tables, "hierarchy.node1.table_reads"), counter(&tables, "hierarchy.dram.table_reads"));
    assert!(counter(&data, "hierarchy.node1.remote_reads") >= 8);
    let all = |run: &RunResult| counter(run, "hierarchy.dram.table_reads") + counter(run, "hierarchy.dram.data_reads");
    for run in [&local, &tables, &data] {
        let nodes = counter(run, "hierarchy.node0.reads") + counter(run, "hierarchy.node1.reads");
        assert_eq!(nodes, all(run));
    }
}

/// Most accesses to a few pages, which the set-up touches last: they begin in the slow tier.
fn skewed(seed: u64) -> Scripted {
    let (mut program, mut random) = (Scripted::new(64 << 20), Random::new(seed));
    program.touch(DATA, 24 << 20, true).begin();
    let hot = DATA + (20 << 20);
    for _ in 0..20_000 {
        let at = if random.chance(0.8) { hot + random.below(2 << 20) } else { DATA + random.below(24 << 20) } & !7;
        let gap = random.below(40) as u32;
        let kind =
            if random.chance(0.3) { ambulator_base::RecordKind::Store } else { ambulator_base::RecordKind::Load };
        program.access(kind, at, gap, 0);
    }
    program
}

/// A small fast node, and a slow one, and a kernel that moves pages all the time.
const TIERS: [&str; 11] = [
    "memory.bytes=80MiB",
    "nodes.node1.bytes=64MiB",
    "nodes.node1.slow=true",
    "nodes.node1.link_ns=80",
    "nodes.node1.link_gbs=30",
    "kernel.numa.demotion=true",
    "kernel.numa.balancing=hint-faults",
    "kernel.numa.scan_period=50000",
    "kernel.numa.hot_threshold=2000000",
    "kernel.watermark_low=0.02",
    "kernel.watermark_high=0.1",
];

/// The oracle checks every translation.
fn moves_pages(designs: &[(&str, &[&str])], least: u64) {
    for (design, more) in designs {
        let run = run(design, &settings(&[&TIERS, more]), &skewed(5));
        assert!(run.checked_translations >= 6000, "{design}");
        let of = |name| counter(&run, &format!("kernel.numa.{name}"));
        let (faults, promoted, demoted) = (of("hint_faults"), of("pages_promoted"), of("pages_demoted"));
        let enough = faults >= least && promoted > 0 && promoted + demoted >= least;
        assert!(enough, "{design}: {faults} faults, {promoted} up, {demoted} down, {:?}", run.outcome);
        let moved = counter(&run, "kernel.node0.bytes_in") + counter(&run, "kernel.node1.bytes_in");
        let lines = counter(&run, "hierarchy.node0.reads") + counter(&run, "hierarchy.node1.reads");
        assert!(lines >= moved / 64 / 2, "{design}: copies are main memory's traffic");
    }
}

#[test]
fn tables_that_hash_or_learn_follow_pages_between_nodes() {
    moves_pages(&[("radix", &[]), ("ecpt", &[]), ("me-hpt", &[]), ("lvm", &[]), ("hashed", &[])], 20);
}

#[test]
fn huge_pages_and_lookasides_follow_pages_between_nodes() {
    let (small, blocks) = (["pom_tlb.entries=16384"], ["memory.buddy.max_order=11"]);
    // Of 2 MiB: few move.
    moves_pages(&[("thp", &[]), ("pom-tlb", &small), ("clustered-tlb", &blocks)], 1);
    moves_pages(&[("rmm", &blocks), ("flattened", &[])], 20);
}

#[test]
fn placements_and_speculation_follow_pages_between_nodes() {
    moves_pages(&[("revelator", &[]), ("asap", &[]), ("ideal", &[])], 20);
    // Pages in reservations stay.
    moves_pages(&[("spec-tlb", &[])], 1);
}

#[test]
fn pages_in_segments_stay_in_them() {
    let segment = ["memory.bytes=4GiB", "nodes.node1.bytes=64MiB"];
    let run = run("utopia", &settings(&[&TIERS, &segment]), &skewed(5));
    assert!(run.checked_translations >= 6000, "{}: {:?}", run.checked_translations, run.outcome);
}

#[test]
fn accessed_bits_and_virtual_machines_work_on_nodes_too() {
    let bits = run(
        "radix",
        &settings(&[&TIERS, &["kernel.numa.balancing=accessed-bits", "kernel.numa.hot_scans=1"]]),
        &skewed(5),
    );
    assert!(counter(&bits, "kernel.numa.pages_promoted") > 5 && counter(&bits, "kernel.numa.hint_faults") == 0);
    let nested = run("nested", &settings(&[&HALVES, &FIXED]), &distant_loads());
    assert!(counter(&nested, "hypervisor.node0.allocations") > 0);
    assert_eq!(counter(&nested, "mmu.walk_served.dram_remote"), 0);
    let remote = run(
        "nested",
        &settings(&[&HALVES, &FIXED, &["kernel.numa.policy=preferred", "kernel.numa.nodes=[1]"]]),
        &distant_loads(),
    );
    assert!(counter(&remote, "mmu.walk_served.dram_remote") > 8, "the guest's tables are the hypervisor's data");
}

#[test]
fn functional_mode_moves_the_same_kind_of_pages() {
    let run = run("radix", &settings(&[&TIERS, &["run.mode=functional", "kernel.numa.scan_period=1000"]]), &skewed(5));
    assert!(counter(&run, "kernel.numa.hint_faults") > 20);
}

#[test]
fn one_node_has_no_counters_of_nodes_and_its_settings_change_nothing() {
    let plain = run("radix", &[], &skewed(5));
    let set = run("radix", &["nodes.interconnect_ns=9000", "nodes.interconnect_gbs=0.1"], &skewed(5));
    assert_eq!(plain.counters, set.counters);
    assert!(plain.counters.keys().all(|name| !name.contains(".node0") && !name.contains(".numa")));
}

#[test]
fn what_cannot_be_is_an_error_that_names_the_place() {
    let error = |options: &[&str]| {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let request = SpecRequest { design: Some("radix".into()), options, ..SpecRequest::default() };
        load(&request).map(|_| ()).expect_err("no such machine").to_string()
    };
    for (options, parts) in [
        (
            &["memory.bytes=64MiB", "nodes.node1.bytes=64MiB"][..],
            &["`nodes.node1.bytes`", "nothing is left for node 0"][..],
        ),
        (
            &["nodes.node1.bytes=64MiB", "machine.cores=2", "nodes.core_sockets=[0,2]"],
            &["`nodes.core_sockets`", "core 1 on socket 2"],
        ),
        (
            &["nodes.node1.bytes=64MiB", "kernel.numa.policy=bind", "kernel.numa.nodes=[3]"],
            &["`kernel.numa.nodes`", "names node 3; the machine has 2"],
        ),
        (&["kernel.numa.demotion=true"], &["`kernel.numa.demotion`", "no node is a slow tier"]),
        (
            &[
                "nodes.node1.bytes=64MiB",
                "nodes.node1.slow=true",
                "virtualization.mode=nested",
                "kernel.numa.demotion=true",
            ],
            &["`kernel.numa.demotion`", "virtualization.mode"],
        ),
        (&["nodes.node1.bytes=64MiB", "nodes.node1.socket=7"], &["`nodes.node1.socket`", "from 0 to 3"]),
    ] {
        let text = error(options);
        assert!(parts.iter().all(|part| text.contains(part)), "{options:?}: {text}");
    }
}

#[test]
fn the_overlays_join_with_machines() {
    for machine in ["numa-2", "cxl-tier", "optane-tier", "lvm-table1+numa-2", "lvm-table1+cxl-tier"] {
        let request = SpecRequest { machine: Some(machine.into()), ..SpecRequest::default() };
        let spec = load(&request).unwrap_or_else(|e| panic!("{machine}: {e}")).spec;
        assert_eq!(spec.nodes.sizes(spec.memory.bytes), [64 << 30, 64 << 30], "{machine}");
    }
}
