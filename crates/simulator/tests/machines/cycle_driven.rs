//! The simulator's timing and a cycle-driven model of the same machine agree on streams whose time can be
//! computed by hand.

#[allow(dead_code)]
#[path = "../../examples/cycle_driven/model/mod.rs"]
mod model;
use crate::support;

use ambulator_base::{MapKind, Protection, RecordKind, RecordSource};
use ambulator_simulator::{Comparison, Job, Silent, compare};
use ambulator_trace::{TraceOptions, open_trace};
use model::{Choices, Reference};
use std::path::Path;
use std::sync::Arc;
use support::{CODE, DATA, Scripted, run, spec};

const LOADS: u64 = 2000;
const BYTES: u64 = 64 << 20;
/// Rows are closed after each access, and there is no refresh: every read of an idle bank takes equally long.
const STEADY: [&str; 2] = ["dram.page_policy=\"closed\"", "dram.t_refi_ns=0"];
/// Rows stay open; a row's lines are one after the other in one bank.
const ROWS: [&str; 2] = ["dram.mapping=\"ro-ra-ba-ch-co\"", "dram.t_refi_ns=0"];
/// Bytes from a row of a bank to its next.
const NEXT_ROW: u64 = 8192 * 4 * 8;

/// Cycles at 2 GHz of each of a chain of reads from idle main memory: 56 of the LLC's round trip, 10 ns of controller, and
/// so many clocks of DRAM, of 0.625 ns. A read waits for an edge of DRAM's clock, and its data for one of the core's.
fn chained(clocks: u64) -> f64 {
    let reads = 1000;
    let chain = |now: u64, _| ((((now + 56 + 20) * 4).div_ceil(5) + clocks) * 5).div_ceil(4);
    (0..reads).fold(0, chain) as f64 / reads as f64
}

/// 22 clocks to activate and to read, 4 for the data.
fn idle() -> f64 {
    chained(22 + 22 + 4)
}

/// Loads at `place(i)` into huge pages, with `gap` instructions before each.
fn loads(gap: u32, dependent: bool, place: impl Fn(u64) -> u64) -> Scripted {
    let mut program = Scripted::new(BYTES);
    program.touch(DATA, BYTES, true).begin();
    for i in 0..LOADS {
        program.access(RecordKind::Load, DATA + place(i), gap, u16::from(dependent && i > 0));
    }
    program
}

/// Cycles for each of the program's `LOADS` in the cycle-driven model.
fn reference_takes(design: &str, settings: &[&str], program: &Scripted) -> f64 {
    let reference = Reference::new(&spec(design, settings), vec![Box::new(program.clone())], Choices::FAITHFUL);
    reference.run(0, 1 << 40).cycles as f64 / LOADS as f64
}

fn assert_near(whose: &str, took: f64, cycles: f64, bound: f64, settings: &[&str]) {
    let off = took / cycles - 1.0;
    assert!(off.abs() <= bound, "{whose} takes {took:.2} cycles, not {cycles:.2}; with {settings:?}");
}

/// Both models take `cycles` for each load, within the relative error `bound`.
fn each_load_takes(cycles: f64, bound: f64, design: &str, settings: &[&[&str]], program: &Scripted) {
    let settings = settings.concat();
    let ours = run(design, &settings, program).cycles as f64 / LOADS as f64;
    assert_near("the simulator", ours, cycles, bound, &settings);
    assert_near("the cycle-driven model", reference_takes(design, &settings, program), cycles, bound, &settings);
}

fn on_huge_pages(cycles: f64, bound: f64, settings: &[&[&str]], program: &Scripted) {
    let huge: &[&str] = &["kernel.page_size_policy=\"always\""];
    each_load_takes(cycles, bound, "perfect-tlb", &[&[huge], settings].concat(), program);
}

#[test]
fn dependent_misses_take_the_sum_of_their_latencies() {
    on_huge_pages(idle(), 0.002, &[&STEADY], &loads(2, true, |i| i * 64));
}

#[test]
fn independent_misses_overlap_up_to_mshrs_queues_and_the_reorder_buffer() {
    let program = loads(0, false, |i| i * 64);
    on_huge_pages(idle() / 4.0, 0.02, &[&STEADY, &["l1d.mshrs=4"]], &program);
    // MSHRs of lower levels are held from the arrival of the request: after the round trips of those above.
    on_huge_pages((idle() - 1.0) / 4.0, 0.03, &[&STEADY, &["l2.mshrs=4"]], &program);
    on_huge_pages((idle() - 20.0) / 4.0, 0.03, &[&STEADY, &["llc.mshrs=4"]], &program);
    on_huge_pages(idle() / 2.0, 0.02, &[&STEADY, &["core.load_queue=2"]], &program);
    let sparse = loads(15, false, |i| i * 64);
    on_huge_pages(idle() / 2.0, 0.03, &[&STEADY, &["core.rob=32"]], &sparse);
}

#[test]
fn open_rows_are_read_faster_and_others_in_their_bank_slower() {
    on_huge_pages(chained(22 + 4), 0.006, &[&ROWS], &loads(0, true, |i| i / 128 * NEXT_ROW + i % 128 * 64));
    on_huge_pages(chained(22 + 22 + 22 + 4), 0.006, &[&ROWS], &loads(0, true, |i| i % 128 * NEXT_ROW + i / 128 * 64));
}

#[test]
fn banks_and_buses_bound_the_overlap() {
    let ample: &[&str] = &["l1d.mshrs=64", "l2.mshrs=64", "core.load_queue=64", "core.rob=512"];
    // Column commands of one bank group are 8 DRAM clocks apart.
    on_huge_pages(1.25 * 8.0, 0.06, &[&ROWS, ample], &loads(0, false, |i| i / 128 * NEXT_ROW + i % 128 * 64));
    // An activation, 52 DRAM clocks, a precharge, 22 more.
    on_huge_pages(1.25 * 74.0, 0.02, &[&ROWS, ample], &loads(0, false, |i| i % 128 * NEXT_ROW + i / 128 * 64));
}

#[test]
fn the_ports_of_the_l1_cache_bound_the_reference() {
    // Hits, four of which could be dispatched in a cycle; two loads or one store can begin.
    let takes = |kind| {
        let mut program = Scripted::new(BYTES);
        program.touch(DATA, BYTES, true).begin();
        for i in 0..LOADS {
            program.access(kind, DATA + i % 8 * 8, 0, 0);
        }
        let spec = spec("perfect-tlb", &STEADY);
        let measured = Reference::new(&spec, vec![Box::new(program)], Choices::FAITHFUL).run(LOADS / 2, LOADS / 4);
        measured.cycles as f64 / measured.instructions as f64
    };
    assert_near("the cycle-driven model", takes(RecordKind::Load), 0.5, 0.01, &STEADY);
    assert_near("the cycle-driven model", takes(RecordKind::Store), 1.0, 0.01, &STEADY);
}

#[test]
fn a_mispredicted_branch_costs_its_resolution_and_the_penalty() {
    // A two-bit counter that starts at "weakly taken" is always wrong about an alternating branch.
    let mut program = Scripted::new(BYTES);
    program.begin();
    for i in 0..LOADS {
        let kind = if i % 2 == 0 { RecordKind::BranchNotTaken } else { RecordKind::BranchTaken };
        program.access(kind, CODE, 0, 0);
    }
    each_load_takes(
        1.0 + 15.0,
        0.01,
        "perfect-tlb",
        &[&["core.predictor=\"bimodal\"", "core.mispredict_penalty=15"]],
        &program,
    );
}

#[test]
fn page_faults_stop_the_core_for_their_cost() {
    let mut program = Scripted::new(BYTES);
    program.begin();
    for i in 0..LOADS {
        program.access(RecordKind::Load, DATA + i * 4096, 0, 0);
    }
    let costs = ["costs.fault=20000", "costs.zero_4k=0", "costs.table_entry=0", "dram.t_refi_ns=0"];
    // After the fault, a walk and a load from main memory.
    let after = 12.0 + idle() + 100.0;
    each_load_takes(20_000.0 + after, 0.02, "radix", &[&costs], &program);
}

#[test]
fn cores_share_memory_and_nothing_else() {
    let alone = spec("perfect-tlb", &STEADY);
    let mut four = spec("perfect-tlb", &STEADY);
    four.machine.cores = 4;
    let hits = || Box::new(loads(3, false, |i| i % 64 * 8)) as Box<dyn RecordSource>;
    let one = Reference::new(&alone, vec![hits()], Choices::FAITHFUL).run(0, 1 << 40);
    let all = Reference::new(&four, (0..4).map(|_| hits()).collect(), Choices::FAITHFUL).run(0, 1 << 40);
    assert_eq!(all.instructions, 4 * one.instructions);
    assert!(all.cycles < one.cycles + 1000, "{} cycles, and {} alone", all.cycles, one.cycles);
}

/// Independent loads, each of which walks with one load from main memory: the next line of the table covers
/// the next eight pages, and the upper levels hit in the page-walk caches in 2 cycles.
fn each_walk_takes(walkers: u32, outstanding: u32) {
    let program = loads(0, false, |i| i * 8 * 4096);
    let (walkers_key, queue) = (format!("mmu.walkers={walkers}"), format!("core.load_queue={outstanding}"));
    let fixed = ["dram.model=\"fixed\"", "dram.fixed_ns=60", &walkers_key, &queue];
    let cycles = (2.0 + 56.0 + 120.0) / f64::from(walkers);
    each_load_takes(cycles, 0.05, "radix", &[&fixed], &program);
}

#[test]
fn walks_queue_for_walkers() {
    each_walk_takes(1, 8);
    each_walk_takes(4, 16);
}

#[test]
fn walks_queue_for_walkers_however_many_there_are() {
    each_walk_takes(1, 72);
    each_walk_takes(4, 72);
}

/// A kernel over 256 MiB.
fn kernel(name: &str) -> ambulator_workloads::ProgramRequest {
    ambulator_workloads::ProgramRequest { name: name.into(), footprint: Some(256 << 20), seed: 1, ..Default::default() }
}

/// Instructions before the measured region, and of it.
const WARMUP: u64 = 20_000;
const INSTRUCTIONS: u64 = 100_000;

/// Instructions per cycle and cycles of a walk of a kernel, in the simulator and in the cycle-driven model.
fn both_run(design: &str, request: &ambulator_workloads::ProgramRequest, settings: &[&str]) -> [(f64, f64); 2] {
    both_run_of(design, || ambulator_workloads::open(request).unwrap(), settings, (WARMUP, INSTRUCTIONS))
}

/// The same of any program.
fn both_run_of(
    design: &str,
    open: impl Fn() -> Box<dyn RecordSource>,
    settings: &[&str],
    (warmup, instructions): (u64, u64),
) -> [(f64, f64); 2] {
    let (before, measured) = (format!("run.warmup={warmup}"), format!("run.instructions={instructions}"));
    let spec = spec(design, &[settings, &[&before, &measured]].concat());
    let theirs = Reference::new(&spec, vec![open()], Choices::FAITHFUL).run(warmup, instructions);
    let job = Job { design: design.into(), spec };
    let progress = Arc::new(Silent);
    let comparison = Comparison { jobs: vec![job], programs: vec![open()], threads: 1, stop: Arc::default(), progress };
    let ours = compare(comparison).unwrap().runs.remove(0);
    [(ours.ipc, theirs.ipc()), (ours.measure("walk_latency_mean"), theirs.walk_latency)]
}

#[test]
fn chases_that_share_walkers_and_caches_take_the_same_time() {
    let settings = serde_json::Map::from_iter([("chains".to_owned(), 4.into())]);
    let request = ambulator_workloads::ProgramRequest { settings, ..kernel("pointer-chase") };
    for (design, walks) in [("radix", true), ("thp", false)] {
        let [(ours, theirs), (a, b)] = both_run(design, &request, &[]);
        assert!((ours / theirs - 1.0).abs() < 0.05, "{design}: {ours:.4} and {theirs:.4} instructions a cycle");
        if walks {
            assert!((a / b - 1.0).abs() < 0.05, "{design}: walks of {a:.1} and {b:.1} cycles");
        }
    }
}

#[test]
fn random_updates_that_fill_the_queues_of_main_memory_take_the_same_time() {
    // Each update reads a line and a page-table entry from one channel, and writes a line back: requests that come
    // change when the lines arrive that others wait for, and walks wait for walkers whose walks are late.
    let open = || ambulator_workloads::open(&kernel("gups")).unwrap();
    // At first the caches fill, and hold other lines in either model.
    let on = |design| both_run_of(design, open, &["dram.channels=1"], (10 * WARMUP, INSTRUCTIONS));
    let ([radix, walks], [perfect, _]) = (on("radix"), on("perfect-tlb"));
    for (what, (ours, theirs), bound) in [
        ("instructions a cycle", radix, 0.03),
        ("instructions a cycle with a perfect TLB", perfect, 0.03),
        ("cycles of a walk", walks, 0.02),
        ("speed-up of a perfect TLB", (perfect.0 / radix.0, perfect.1 / radix.1), 0.03),
    ] {
        assert!((ours / theirs - 1.0).abs() < bound, "{what}: {ours:.4}, and {theirs:.4} cycle by cycle");
    }
}

/// A program of 128 MiB, whose table the caches hold in part, takes the same time on one channel with so many `walkers`,
/// and its walks do, within `bound`.
fn walks_take_the_same_time(design: &str, settings: &[&str], program: &str, walkers: u32, bound: f64) {
    walks_of_take_the_same_time(design, settings, program, (walkers, INSTRUCTIONS), bound);
}

/// The same over so many instructions.
fn walks_of_take_the_same_time(
    design: &str,
    settings: &[&str],
    program: &str,
    (walkers, instructions): (u32, u64),
    bound: f64,
) {
    let request = ambulator_workloads::ProgramRequest { footprint: Some(128 << 20), ..kernel(program) };
    let open = || ambulator_workloads::open(&request).unwrap();
    let walkers_key = format!("mmu.walkers={walkers}");
    let small = ["dram.channels=1", "l2.bytes=\"64KiB\"", "llc.bytes=\"128KiB\"", &walkers_key];
    let settings = [&small[..], settings].concat();
    // At first the caches fill, and hold other lines in either model.
    let [(ours, theirs), (a, b)] = both_run_of(design, open, &settings, (3 * WARMUP, instructions));
    let on = format!("{program} on {design}, {walkers} walkers");
    assert!(
        (ours / theirs - 1.0).abs() < bound,
        "{on}: {ours:.4}, and {theirs:.4} instructions a cycle, cycle by cycle"
    );
    assert!((a / b - 1.0).abs() < bound, "{on}: walks of {a:.1}, and {b:.1} cycles");
}

#[test]
fn busy_walkers_are_in_one_walk_each() {
    // Walks that find their entries in caches, and others that wait for one channel, longer than was said when the next
    // ones were told when they begin. With one walker these programs wait for walks one after the other.
    for program in ["gups", "sysbench-memory"] {
        [1, 4].into_iter().for_each(|walkers| walks_take_the_same_time("radix", &[], program, walkers, 0.03));
    }
}

#[test]
fn walks_that_probe_all_ways_at_once_wait_for_the_line_with_the_entry() {
    // Three lines of main memory for a walk, which arrive one after the other if one channel is busy. Walks that wait for
    // a walker send them later.
    [1, 4, 16].into_iter().for_each(|walkers| walks_take_the_same_time("ecpt", &[], "gups", walkers, 0.02));
}

#[test]
fn walks_wait_for_table_lines_that_were_prefetched() {
    // ASAP's walks find the line of their last entry on its way, later than was said if one channel is busy. Those that
    // wait for a walker prefetch it when they have one.
    [1, 4, 16].into_iter().for_each(|walkers| walks_take_the_same_time("asap", &[], "gups", walkers, 0.03));
}

#[test]
fn walks_that_wait_for_walkers_find_predicted_lines_on_their_way() {
    // A prediction is sent while the walk waits for a walker. However late the walk begins, it does not wait longer than
    // until the line is there, which can be later than was said.
    let settings = ["revelator.filter=\"none\"", "revelator.tiers=1", "kernel.page_size_policy=\"never\""];
    for walkers in [1, 2, 4, 16] {
        walks_take_the_same_time("revelator", &settings, "gups", walkers, 0.02);
    }
}

#[test]
fn walks_begin_when_rest_segs_have_been_searched_in_vain() {
    // Two RestSegs beside half of the pages, whose tags main memory has in part. The walk for a page that is not there asks
    // for a walker when they have come, later than was said if one channel is busy.
    let settings = [
        "utopia.migration=false",
        "utopia.segments=[\"64MiB/4KiB/8\", \"64MiB/2MiB/8\"]",
        "kernel.page_size_policy=\"never\"",
    ];
    for walkers in [1, 4, 16] {
        walks_of_take_the_same_time("utopia", &settings, "gups", (walkers, 4 * INSTRUCTIONS), 0.03);
    }
}

#[test]
fn walks_of_a_learned_index_read_models_and_then_entries() {
    // A line of models for each level if the walk cache has none, then the line of the entry, one after the other.
    for (walkers, entries) in [(1, 0), (4, 0), (1, 16), (16, 16)] {
        let entries = format!("lvm.lwc_entries={entries}");
        walks_of_take_the_same_time("lvm", &[&entries], "gups", (walkers, 4 * INSTRUCTIONS), 0.02);
    }
}

#[test]
fn walks_through_chunks_of_hash_tables_take_the_same_time() {
    for walkers in [1, 4, 16] {
        walks_of_take_the_same_time("me-hpt", &[], "gups", (walkers, 4 * INSTRUCTIONS), 0.02);
    }
}

#[test]
fn a_range_is_known_when_the_walk_of_its_table_has_ended() {
    // Twice as many ranges as the range TLB holds. Of eight dependent loads of a range, which caches serve, the first ones
    // walk the page table until the range has come: from two lines of each node of its table, which come at the same time.
    const RANGES: u64 = 64;
    const APART: u64 = 4 << 20;
    let mut program = Scripted::new(BYTES);
    let pages = DATA + BYTES;
    for range in 0..RANGES {
        program.map(pages + range * APART, 64 << 10, Protection::READ_WRITE, MapKind::Anonymous);
    }
    program.begin();
    for load in 0..LOADS {
        let (range, page) = (load / 8 * 29 % RANGES, load % 8);
        program.access(RecordKind::Load, pages + range * APART + page * 4096 + load % 64 * 64, 0, u16::from(load > 0));
    }
    let settings = ["mmu.l2_tlb.entries=96", "dram.t_refi_ns=0"];
    let theirs = reference_takes("rmm", &settings, &program);
    let ours = run("rmm", &settings, &program);
    assert_near("a load", ours.cycles as f64 / LOADS as f64, theirs, 0.02, &settings);
    let walks = support::counter(&ours, "mmu.walks");
    assert!((LOADS / 4..LOADS / 2).contains(&walks), "{walks} walks of {LOADS} loads");
}

#[test]
fn misses_of_all_caches_wait_for_the_walks_of_their_pages() {
    // Midgard's walks begin when a load or a store has missed the last level, in the queue of those before them, and main
    // memory is read when their lines have come.
    for walkers in [1, 4, 16] {
        walks_of_take_the_same_time("midgard", &[], "gups", (walkers, 4 * INSTRUCTIONS), 0.02);
    }
    // Loads of lines that others wait for do not have them before the page is known.
    walks_take_the_same_time("midgard", &[], "bfs", 4, 0.02);
    // Rows that begin anywhere in a line, and some that cross a page.
    walks_take_the_same_time("midgard", &["l1d.mshrs=1"], "dlrm", 4, 0.01);
}

#[test]
fn a_line_whose_page_is_not_known_holds_its_mshr() {
    // Loads of two lines each. Nobody asks for the first again while the second waits for an MSHR.
    let mut program = Scripted::new(BYTES);
    program.touch(DATA, BYTES, true).begin();
    (0..LOADS / 2).for_each(|i| _ = program.access(RecordKind::Load, DATA + i * 8 * 128 + 60, 0, 0));
    for mshrs in ["l1d.mshrs=1", "l1d.mshrs=2", "l1d.mshrs=4"] {
        let settings = ["dram.model=\"fixed\"", "dram.fixed_ns=60", mshrs];
        let theirs = reference_takes("midgard", &settings, &program);
        let ours = run("midgard", &settings, &program).cycles as f64 / LOADS as f64;
        assert!((ours / theirs - 1.0).abs() < 0.01, "{mshrs}: {ours:.1} and {theirs:.1} cycles a load");
    }
}

#[test]
fn what_a_tlb_in_main_memory_translates_waits_for_its_lines() {
    // Four lines of a set at the same time, of which main memory serves some later than it had said. After the warm-up
    // all pages are in it.
    let request = ambulator_workloads::ProgramRequest { footprint: Some(32 << 20), ..kernel("gups") };
    let open = || ambulator_workloads::open(&request).unwrap();
    let small = ["l2.bytes=\"64KiB\"", "llc.bytes=\"128KiB\"", "kernel.page_size_policy=\"never\""];
    for channels in ["dram.channels=1", "dram.channels=4"] {
        let settings = [&small[..], &[channels]].concat();
        let [(ours, theirs), _] = both_run_of("pom-tlb", open, &settings, (100 * WARMUP, INSTRUCTIONS));
        let off = ours / theirs - 1.0;
        assert!(off.abs() < 0.02, "{channels}: {ours:.4}, and {theirs:.4} instructions a cycle, cycle by cycle");
    }
}

#[test]
fn the_second_line_of_an_access_waits_for_its_translation() {
    // Each pair has a page of its own: a load of its first two lines, and one of the second of them, on which the
    // next pair depends.
    let mut program = Scripted::new(BYTES);
    program.touch(DATA, BYTES, true).begin();
    for i in 0..LOADS / 2 {
        let page = DATA + i * 8 * 4096;
        program.access(RecordKind::Load, page + 60, 0, u16::from(i > 0));
        program.access(RecordKind::Load, page + 64, 0, 2 * u16::from(i > 0));
    }
    let fixed = ["dram.model=\"fixed\"", "dram.fixed_ns=60"];
    let theirs = reference_takes("radix", &fixed, &program);
    // A walk of one load, and the data.
    assert!(2.0 * theirs > 2.0 * (56.0 + 120.0), "{theirs:.1} cycles a load");
    let ours = run("radix", &fixed, &program).cycles as f64 / LOADS as f64;
    assert_near("a load", ours, theirs, 0.02, &fixed);
}

#[test]
fn accesses_that_join_a_walk_which_waits_for_the_walker_wait_as_long_as_it_does() {
    // Bursts of loads of seven pages, whose walks wait for the one walker, behind others which rows of one bank make
    // late. One more load of the last page joins its walk, and the next burst depends on it.
    let mut program = Scripted::new(BYTES);
    program.touch(DATA, BYTES, true).begin();
    for burst in 0..LOADS / 8 {
        for load in 0..8 {
            let page = (7 * burst + load.min(6)) * 777 % 2048 * 8;
            let depends = if burst > 0 { load as u16 + 1 } else { 0 };
            program.access(RecordKind::Load, DATA + page * 4096 + load * 256, 0, depends);
        }
    }
    let settings =
        [&ROWS[..], &["mmu.walkers=1", "dram.channels=1", "l2.bytes=\"64KiB\"", "llc.bytes=\"128KiB\""]].concat();
    let theirs = reference_takes("radix", &settings, &program);
    let ours = run("radix", &settings, &program).cycles as f64 / LOADS as f64;
    assert_near("a load", ours, theirs, 0.02, &settings);
}

#[test]
fn accesses_that_wait_for_mshrs_take_the_same_time() {
    // Rows of five lines, of which two loads cross one, wait for walks and then for MSHRs; loads of indices and of
    // rows that are translated earlier overtake them.
    let request = kernel("dlrm");
    let on = |design| both_run(design, &request, &["dram.channels=4"])[0];
    let (radix, perfect) = (on("radix"), on("perfect-tlb"));
    for (what, (ours, theirs), bound) in [
        ("instructions a cycle", radix, 0.05),
        ("instructions a cycle with a perfect TLB", perfect, 0.03),
        ("speed-up of a perfect TLB", (perfect.0 / radix.0, perfect.1 / radix.1), 0.05),
    ] {
        assert!((ours / theirs - 1.0).abs() < bound, "{what}: {ours:.4}, and {theirs:.4} cycle by cycle");
    }
}

#[test]
fn a_captured_program_takes_the_same_time() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb");
    let open = || open_trace(&trace, &TraceOptions::default()).unwrap() as Box<dyn RecordSource>;
    for settings in [["dram.channels=1", "l2.prefetcher=\"none\""], ["dram.channels=4", "l2.prefetcher=\"stream\""]] {
        let on = |design| both_run_of(design, open, &settings, (WARMUP, INSTRUCTIONS))[0];
        let (radix, thp, perfect) = (on("radix"), on("thp"), on("perfect-tlb"));
        for (what, (ours, theirs), bound) in [
            ("instructions a cycle", radix, 0.05),
            ("speed-up of huge pages", (thp.0 / radix.0, thp.1 / radix.1), 0.03),
            ("speed-up of a perfect TLB", (perfect.0 / radix.0, perfect.1 / radix.1), 0.03),
        ] {
            let off = ours / theirs - 1.0;
            assert!(off.abs() < bound, "{what}: {ours:.4}, and {theirs:.4} cycle by cycle; with {settings:?}");
        }
    }
}
