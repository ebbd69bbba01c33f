//! Micro-programs whose walks are known exactly.

use crate::support;
use ambulator_simulator::Status;
use support::{DATA, Scripted, counter, run};

const NO_PWC: [&str; 3] = ["mmu.pwc.pde_entries=0", "mmu.pwc.pdpte_entries=0", "mmu.pwc.pml4e_entries=0"];

/// One load of one page; its code page needs a walk, too.
fn one_load(bytes: u64) -> Scripted {
    let mut program = Scripted::new(bytes);
    program.touch(DATA, bytes, true).begin().load(DATA);
    program
}

/// Walks and their loads, including those for the program's single code page (4 KiB).
fn loads_of(design: &str, settings: &[&str], bytes: u64) -> (u64, u64) {
    let done = run(design, settings, &one_load(bytes));
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    (counter(&done, "mmu.walks"), counter(&done, "mmu.walk_accesses"))
}

#[test]
fn a_cold_walk_loads_one_entry_per_level() {
    assert_eq!(loads_of("radix", &NO_PWC, 4096), (2, 4 + 4));
    let mut five = NO_PWC.to_vec();
    five.push("mmu.pwc.pml5e_entries=0");
    assert_eq!(loads_of("radix-5level", &five, 4096), (2, 5 + 5));
    assert_eq!(loads_of("thp", &NO_PWC, 2 << 20), (2, 4 + 3), "a 2 MiB leaf is one level up");
}

#[test]
fn a_gigabyte_page_is_two_levels_up() {
    let mut settings = NO_PWC.to_vec();
    settings.extend(["memory.bytes=4GiB", "memory.buddy.max_order=20", "kernel.gigantic_pages=true"]);
    let done = run("radix", &settings, &one_load(1 << 30));
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    assert_eq!(counter(&done, "mmu.walk_accesses"), 4 + 2);
}

#[test]
fn the_ideal_table_takes_one_load_per_walk() {
    assert_eq!(loads_of("ideal", &[], 4096), (2, 2));
    assert_eq!(loads_of("ideal-thp", &[], 2 << 20), (2, 2));
}

#[test]
fn a_walk_by_arithmetic_takes_one_load_and_three_in_a_virtual_machine() {
    let bytes = 64 << 20;
    // The code page has no contiguous entries: four levels.
    assert_eq!(loads_of("dmt", &NO_PWC, bytes), (2, 1 + 4));
    assert_eq!(loads_of("dmt-thp", &NO_PWC, bytes), (2, 1 + 4), "only entries of 2 MiB are in use");
    let mut settings = NO_PWC.to_vec();
    settings.push("virtualization.nested.tlb_entries=0");
    let done = run("nested-dmt", &settings, &one_load(bytes));
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    // The data page's walk; those of the code page walk the guest's tree, and some find that the hypervisor has
    // not mapped a table yet.
    let histogram = &done.histograms["walk_loads"];
    assert_eq!(histogram.min, 3, "{histogram:?}");
    assert_eq!(counter(&done, "mmu.walker.direct"), 1);
}

#[test]
fn a_guest_with_contiguous_host_memory_for_its_entries_takes_two_loads_a_walk() {
    let mut program = Scripted::new(64 << 20);
    program.touch(DATA, 64 << 20, true).begin();
    for page in 0..200_u64 {
        program.load(DATA + page * 37 % 16384 * 4096).pause();
    }
    let mut settings = NO_PWC.to_vec();
    settings.push("virtualization.nested.tlb_entries=0");
    let of = |design: &str, more: &[&str]| {
        let done = run(design, &[&settings, more].concat(), &program);
        assert_eq!(done.status, Status::Done, "{design}: {:?}", done.outcome);
        done
    };
    let [plain, pinned, refused] =
        [of("nested-dmt", &[]), of("pvdmt", &[]), of("pvdmt", &["dmt.gteas=0"])].map(|done| {
            let direct = counter(&done, "mmu.walker.direct");
            assert_eq!(direct, 200);
            (counter(&done, "mmu.walk_accesses"), counter(&done, "mmu.walker.host_fetches"), done)
        });
    assert_eq!((plain.1, pinned.1, refused.1), (0, 200, 0));
    assert_eq!([&plain, &pinned, &refused].map(|(.., done)| done.histograms["walk_loads"].min), [3, 2, 3]);
    // Two of three loads are left, but for the one of the slot; and no entry's page is yet to be backed.
    assert!(plain.0 >= pinned.0 + 200 - 1 && refused.0 >= pinned.0 + 200 - 1, "{} {} {}", plain.0, pinned.0, refused.0);
    let of_host = |name: &str| counter(&pinned.2, &format!("hypervisor.host_areas.{name}"));
    assert_eq!((of_host("areas"), of_host("area_bytes")), (1, 32 * 4096));
    assert!(pinned.2.cycles < plain.2.cycles, "{} {}", pinned.2.cycles, plain.2.cycles);
}

#[test]
fn loads_of_a_contiguous_vma_compute_before_their_walks_end() {
    let mut program = Scripted::new(8 << 20);
    program.touch(DATA, 8 << 20, true).begin();
    // The first 31 pages have no contiguity bit.
    for page in 31..2048_u64 {
        program.load(DATA + page * 4096 + page % 64 * 64);
    }
    let plain = run("ca-paging", &[], &program);
    let done = run("spot", &[], &program);
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    let of = |name: &str| counter(&done, &format!("mmu.speculation.{name}"));
    assert_eq!((of("probes"), of("no_entry"), of("no_confidence")), (2017, 1, 1));
    assert_eq!((of("predictions"), of("right"), of("wrong")), (2015, 2015, 0));
    assert_eq!(counter(&done, "kernel.placement.ca_paging.at_offset"), 2048 + 1, "and the code page");
    assert_eq!(counter(&done, "mmu.walks"), counter(&plain, "mmu.walks"), "each is verified by a walk");
    assert!(of("hidden_cycles") > 0 && done.cycles < plain.cycles, "{} {}", done.cycles, plain.cycles);
    assert!(counter(&done, "mmu.mmu_cycles") < counter(&plain, "mmu.mmu_cycles"));
}

#[test]
fn a_cold_nested_walk_of_four_and_four_levels_takes_24_loads() {
    let mut settings = NO_PWC.to_vec();
    settings.push("virtualization.nested.tlb_entries=0");
    let done = run("nested", &settings, &one_load(4096));
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    let histogram = &done.histograms["walk_loads"];
    assert_eq!(histogram.max, 24, "{histogram:?}");
    // With the nested TLB and walk caches it is fewer.
    let cached = run("nested", &[], &one_load(4096));
    assert!(counter(&cached, "mmu.walk_accesses") < counter(&done, "mmu.walk_accesses"));
}

#[test]
fn walk_caches_skip_the_levels_that_they_hold() {
    // Four pages: the first, one in the same 2 MiB, one in the same 1 GiB, one in the same 512 GiB. Each
    // pause lets the walk end.
    let far = [DATA, DATA + 4096, DATA + (4 << 20), DATA + (2 << 30)];
    let mut program = Scripted::new(4 << 30);
    for va in far {
        program.touch(va, 4096, true);
    }
    program.begin();
    for va in far {
        program.load(va).pause();
    }
    let done = run("radix", &["memory.bytes=8GiB"], &program);
    assert_eq!(done.status, Status::Done, "{:?}", done.outcome);
    // Code 4 cold; data 3, for code and data share their 512 GiB (PML4E hit); then 1 (PDE hit), 2 (PDPTE
    // hit), 3 (PML4E).
    assert_eq!(counter(&done, "mmu.walks"), 5);
    let upper = counter(&done, "mmu.walker.pwc_pde_hits")
        + counter(&done, "mmu.walker.pwc_pdpte_hits")
        + counter(&done, "mmu.walker.pwc_pml4e_hits");
    assert_eq!(counter(&done, "mmu.walk_accesses"), 4 + 3 + 1 + 2 + 3, "with {upper} hits");
    assert_eq!(upper, 4);
}

/// Misses of a counter in ten rounds over pages `0..pages`.
fn misses(name: &str, pages: u64, settings: &[&str]) -> u64 {
    let mut program = Scripted::new(16 << 20);
    program.touch(DATA, 16 << 20, true).begin();
    for _ in 0..10 {
        for page in 0..pages {
            program.load(DATA + page * 4096).pause();
        }
    }
    counter(&run("radix", settings, &program), name)
}

#[test]
fn a_tlb_holds_exactly_its_entries() {
    // 64 entries, fully associative. The pause reloads the first page: it stays, and the other 64 evict each
    // other from 63 places.
    let whole = ["mmu.l1d_4k.ways=0", "mmu.l2_tlb.entries=0"];
    assert_eq!(misses("mmu.l1d_tlb_misses", 64, &whole), 64, "every page misses once");
    assert_eq!(misses("mmu.l1d_tlb_misses", 65, &whole), 1 + 10 * 64, "all except the first always miss");
    // 16 sets of 4: a 65th page is the fifth of set 0, where the first stays.
    let sets = ["mmu.l1d_4k.ways=4", "mmu.l2_tlb.entries=0"];
    assert_eq!(misses("mmu.l1d_tlb_misses", 64, &sets), 64);
    assert_eq!(misses("mmu.l1d_tlb_misses", 65, &sets), 64 - 4 + 1 + 10 * 4, "the other four of set 0 always miss");
}

#[test]
fn a_second_level_tlb_holds_exactly_its_entries() {
    // After an L1 of one entry, a fully associative L2 of 32: the first page is accessed after each other
    // one.
    let second = ["mmu.l1d_4k.entries=1", "mmu.l1d_4k.ways=0", "mmu.l2_tlb.entries=32", "mmu.l2_tlb.ways=32"];
    // The page of code takes an entry, too; code is fetched once, so it is evicted first.
    assert_eq!(misses("mmu.l2_tlb_misses", 31, &second), 31 + 1);
    assert_eq!(misses("mmu.l2_tlb_misses", 32, &second), 32 + 1);
    assert_eq!(
        misses("mmu.l2_tlb_misses", 33, &second),
        1 + 1 + 10 * 32,
        "all except the first and the code always miss"
    );
}

#[test]
fn two_misses_of_a_page_share_one_walk_and_one_walker_is_slower_than_four() {
    let mut program = Scripted::new(64 << 20);
    program.touch(DATA, 64 << 20, true).begin();
    for page in 0..2000_u64 {
        let va = DATA + (page * 37 % 16384) * 4096;
        program.load(va).load(va + 64);
    }
    let four = run("radix", &["mmu.walkers=4"], &program);
    let one = run("radix", &["mmu.walkers=1"], &program);
    assert_eq!(counter(&four, "mmu.walks"), counter(&one, "mmu.walks"));
    assert!(counter(&four, "mmu.joined") >= 1900, "the second access of each page joins the walk of the first");
    assert!(one.cycles > four.cycles, "{} cycles with one walker, {} with four", one.cycles, four.cycles);
    assert!(counter(&one, "mmu.walker_queue_cycles") > counter(&four, "mmu.walker_queue_cycles"));
}

#[test]
fn walks_enter_at_the_given_level() {
    let mut program = Scripted::new(1 << 20);
    program.touch(DATA, 1 << 20, true).begin();
    for round in 0..4 {
        for page in 0..200 {
            program.load(DATA + page * 4096 + round * 64);
        }
    }
    let small = ["mmu.l2_tlb.entries=0"];
    let at = |entry: &str| run("radix", &[small[0], entry], &program);
    let (l1, l2) = (at("mmu.walk_entry=\"l1\""), at("mmu.walk_entry=\"l2\""));
    assert!(counter(&l1, "mmu.walk_served.l1") > 0);
    assert_eq!(counter(&l2, "mmu.walk_served.l1"), 0);
    assert!(counter(&l2, "mmu.walk_served.l2") > 0);
    assert_eq!(counter(&at("mmu.walk_entry=\"llc\""), "mmu.walk_served.l2"), 0);
}

#[test]
fn a_store_to_a_clean_page_walks_again_once() {
    let mut program = Scripted::new(4096);
    program.touch(DATA, 4096, false).begin().load(DATA).pause();
    program.store(DATA).pause().store(DATA).pause().store(DATA + 8);
    let done = run("radix", &[], &program);
    assert_eq!(counter(&done, "mmu.dirty_assists"), 1);
}

#[test]
fn a_perfect_tlb_never_walks_and_is_not_slower() {
    let mut program = Scripted::new(64 << 20);
    program.touch(DATA, 64 << 20, true).begin();
    for page in 0..4000_u64 {
        program.load(DATA + (page * 7919 % 16384) * 4096);
    }
    let radix = run("radix", &[], &program);
    let perfect = run("perfect-tlb", &[], &program);
    assert_eq!(counter(&perfect, "mmu.walks"), 0);
    assert!(perfect.ipc > radix.ipc);
    assert!(perfect.checked_translations > 0);
}

#[test]
fn the_energy_of_a_lookaside_is_that_of_its_look_ups() {
    let mut program = Scripted::new(1 << 20);
    program.touch(DATA, 1 << 20, true).begin();
    for i in 0..2000 {
        program.load(DATA + i % 200 * 4096);
    }
    // A nanojoule for each look-up of the L2 TLB or of a lookaside, and nothing else.
    let settings = ["kernel.page_size_policy=never", "energy.l1_tlb=0", "energy.walk_cache=0", "energy.l2_tlb=1000"];
    for (design, after_l2) in [("radix", None), ("pom-tlb", Some(true)), ("rmm-demand", Some(false))] {
        let run = run(design, &settings, &program);
        let (hits, misses) = (counter(&run, "mmu.l2_tlb_hits"), counter(&run, "mmu.l2_tlb_misses"));
        assert!(hits > 300 && misses >= 200, "{design}: {hits} hits, {misses} misses");
        let probes = match after_l2 {
            None => 0,
            Some(true) => misses,
            Some(false) => hits + misses,
        };
        if after_l2.is_some() {
            assert_eq!(counter(&run, "mmu.lookaside.probes"), probes, "{design}");
        }
        assert_eq!(counter(&run, "mmu.lookaside_probes"), probes, "{design}");
        assert_eq!(run.measure("energy_tlbs"), (hits + misses + probes) as f64, "{design}");
    }
}
