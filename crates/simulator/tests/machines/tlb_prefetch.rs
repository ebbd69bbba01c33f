//! TLB prefetching in whole machines: counts that follow by hand, what nobody can foresee, and the oracle
//! over page tables, lookasides and changing mappings.

use crate::support;
use ambulator_base::{MapKind, Protection, Random, RecordKind, VirtAddr, VmEvent};
use ambulator_simulator::{RunResult, Status};
use support::{DATA, Scripted, counter, run};

/// More pages than the L2 TLB holds.
const PAGES: u64 = 2500;

/// Loads from every `stride`th page, [`PAGES`] times, with time for a prefetch walk between two loads.
fn stream(stride: u64) -> Scripted {
    let bytes = (PAGES * stride) << 12;
    let mut program = Scripted::new(bytes);
    program.touch(DATA, bytes, true).begin();
    for page in 0..PAGES {
        program.access(RecordKind::Load, DATA + ((page * stride) << 12), 300, 0);
    }
    program
}

fn prefetches(run: &RunResult, names: [&str; 4]) -> [u64; 4] {
    names.map(|name| counter(run, &format!("mmu.tlb_prefetch.{name}")))
}

#[test]
fn a_sequence_of_pages_walks_for_the_first_only() {
    let run = run("tlb-sequential", &[], &stream(1));
    // The first walks are those of the code's page and of the first page of data. Of the proposals, the page
    // after the code and the page after the data are not there.
    assert_eq!(counter(&run, "mmu.walks"), 2);
    assert_eq!(counter(&run, "mmu.prefetch_hits"), PAGES - 1);
    let own = prefetches(&run, ["walks", "filled", "unmapped", "useless"]);
    assert_eq!(own, [PAGES + 1, PAGES - 1, 2, 0]);
    assert_eq!(run.measure("tlb_prefetch_accuracy"), 1.0);
    assert_eq!(run.measure("tlb_prefetch_coverage"), (PAGES - 1) as f64 / (PAGES + 1) as f64);
}

#[test]
fn a_stride_is_foreseen_as_soon_as_each_table_has_learnt_it() {
    let program = stream(5);
    // The code's page walks, and after it the pages that teach. A stride needs two confirmations: pages 0 to
    // 3 walk. A row of distances has its first successor at page 2, and is read at page 3. The latest two
    // distances foresee page 2 at page 1.
    for (design, walks) in [
        ("tlb-stride", 5),
        ("tlb-stride-modified", 3),
        ("tlb-distance", 5),
        ("tlb-h2", 3),
        ("tlb-sequential", PAGES + 1),
    ] {
        let run = run(design, &[], &program);
        assert_eq!(counter(&run, "mmu.walks"), walks, "{design}");
        assert_eq!(counter(&run, "mmu.prefetch_hits"), PAGES + 1 - walks, "{design}");
    }
    // Half of its 8-bit counter must be reached first.
    let agile = run("tlb-agile", &[], &program);
    assert!((100..140).contains(&counter(&agile, "mmu.walks")), "{}", counter(&agile, "mmu.walks"));
}

#[test]
fn pages_without_order_gain_nothing_and_sequential_prefetching_pays_for_as_many_walks_again() {
    let bytes = 64 << 20;
    let mut program = Scripted::new(bytes);
    program.touch(DATA, bytes, true).begin();
    let mut random = Random::new(3);
    (0..6000).for_each(|_| _ = program.access(RecordKind::Load, DATA + random.below(bytes >> 3) * 8, 3, 0));
    let [base, sequential, agile] = ["radix", "tlb-sequential", "tlb-agile"].map(|design| run(design, &[], &program));
    let walks = counter(&base, "mmu.walks");
    assert!(walks > 5000);
    let own = counter(&sequential, "mmu.tlb_prefetch.walks") + counter(&sequential, "mmu.tlb_prefetch.crowded");
    assert!(own > walks * 8 / 10, "{own} of {walks}");
    assert!(
        sequential.measure("tlb_prefetch_coverage") < 0.02 && sequential.cycles >= base.cycles,
        "{} {}",
        sequential.cycles,
        base.cycles
    );
    assert!(counter(&sequential, "mmu.tlb_prefetch.useless") > 1000);
    assert_eq!(counter(&agile, "mmu.tlb_prefetch.walks"), 0, "nothing that it would have prefetched was needed");
    assert!(agile.measure("tlb_prefetch_coverage") < 0.01);
}

/// Maps, protects, unmaps and writes pages around those that it loads, so that prefetches are in flight then.
fn changes() -> Scripted {
    let bytes = 4 << 20;
    let mut program = Scripted::new(bytes);
    program.touch(DATA, bytes / 2, true).begin();
    let mut random = Random::new(9);
    let protect = |start: u64, write: bool| VmEvent::Protect {
        start: VirtAddr(start),
        len: 16 << 12,
        protection: if write { Protection::READ_WRITE } else { Protection::READ },
    };
    for round in 0..40 {
        let at = DATA + random.below(bytes >> 16) * (16 << 12);
        (0..14).for_each(|page| _ = program.load(at + (page << 12)));
        match round % 4 {
            0 => {
                program.event(VmEvent::Unmap { start: VirtAddr(at), len: 16 << 12 });
                program.map(at, 16 << 12, Protection::READ_WRITE, MapKind::Anonymous);
            }
            1 => _ = program.event(protect(at, false)).load(at + (15 << 12)).event(protect(at, true)),
            _ => {}
        }
        (8..16).for_each(|page| _ = program.store(at + (page << 12)));
    }
    program
}

#[test]
fn the_kernel_agrees_with_prefetched_translations_on_every_table_while_mappings_change() {
    let program = changes();
    // Room for the segments that some of them reserve.
    let (room, all) = (["memory.bytes=4GiB"], ["memory.bytes=4GiB", "tlb_agile.free=all"]);
    for base in ["radix", "thp", "ecpt", "me-hpt", "lvm", "hashed", "rmm", "pom-tlb", "utopia", "revelator", "nested"] {
        for (design, settings) in [("tlb-neighbours", &room[..]), ("tlb-agile", &all[..])] {
            let run = run(&format!("{base}+{design}"), settings, &program);
            assert_eq!(run.status, Status::Done, "{base}+{design}: {:?}", run.outcome);
            assert!(run.checked_translations > 800, "{base}+{design}");
        }
    }
}

#[test]
fn free_translations_come_from_the_lines_of_trees_only() {
    let program = stream(1);
    let all = ["tlb_agile.free=all"];
    let tree = run("radix+tlb-agile", &all, &program);
    // Each line of eight entries has one walk.
    let walks = counter(&tree, "mmu.walks") + counter(&tree, "mmu.tlb_prefetch.walks");
    assert!(counter(&tree, "mmu.walks") <= PAGES / 8 + 2, "{}", counter(&tree, "mmu.walks"));
    assert!(counter(&tree, "mmu.tlb_prefetch.free_hits") >= PAGES * 7 / 8 - 8, "{walks}");
    let hashed = run("ecpt+tlb-agile", &all, &program);
    assert_eq!(counter(&hashed, "mmu.tlb_prefetch.free"), 0);
    assert!(hashed.measure("tlb_prefetch_coverage") > 0.9, "its walks foresee the stream");
}

#[test]
fn functional_mode_prefetches_too() {
    let run = run("tlb-sequential", &["run.mode=functional"], &stream(1));
    assert_eq!((counter(&run, "mmu.walks"), counter(&run, "mmu.prefetch_hits")), (2, PAGES - 1));
    assert_eq!(counter(&run, "mmu.tlb_prefetch.late"), 0);
}
