use super::*;
use ambulator_experiments::Over;

/// A run of 20 even windows with these cycles each.
pub(crate) fn run(program: &str, design: &str, cycles: u64) -> RunResult {
    let windows: Vec<(u64, u64)> = (1..=20).map(|i| (i * 1000, i * cycles + i % 2)).collect();
    RunResult {
        design: design.into(),
        program: program.into(),
        simulated_instructions: 20_000,
        simulated_accesses: 8_000,
        cycles: 20 * cycles,
        ipc: 1000.0 / cycles as f64,
        windows,
        seed: 1,
        ..RunResult::default()
    }
}

pub(crate) fn cell(program: &str, design: &str, cycles: u64) -> Cell {
    Cell { run: run(program, design, cycles), ..Cell::default() }
}

#[test]
fn cells_of_one_program_under_one_condition_are_compared() {
    let set = |cell: Cell, entries: u64| Cell {
        set: [("mmu.l2_tlb.entries".to_owned(), entries.into())].into(),
        machine: "m".into(),
        ..cell
    };
    let cells = vec![
        set(cell("gups", "radix", 1000), 512),
        set(cell("gups", "radix", 900), 1024),
        set(cell("gups", "thp", 500), 512),
        set(cell("bfs", "radix", 900), 1024),
    ];
    let study = Study::new(cells);
    let labels: Vec<&str> = study.comparisons.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(labels, ["gups, mmu.l2_tlb.entries 512", "gups, mmu.l2_tlb.entries 1024", "bfs"]);
    let speed_up = study.speed_up(&study.comparisons[0], &study.comparisons[0].designs[1]).unwrap();
    assert!((speed_up.ratio - 2.0).abs() < 1e-9 && !matches!(speed_up.over, Some(Over::Seeds(_))), "{speed_up:?}");
}

#[test]
fn seeds_give_a_mean_and_an_interval() {
    let seed = |design: &str, seed: u64, cycles: u64| {
        let mut cell = cell("gups", design, cycles);
        cell.run.seed = seed;
        cell
    };
    let cells = vec![
        // Without the other, they have no part.
        seed("radix", 0, 9000),
        seed("radix", 1, 1000),
        seed("radix", 2, 1000),
        seed("radix", 3, 1000),
        seed("thp", 3, 500),
        seed("thp", 1, 500),
        seed("thp", 2, 400),
        seed("thp", 4, 100),
    ];
    let study = Study::new(cells);
    let comparison = &study.comparisons[0];
    let speed_up = study.speed_up(comparison, &comparison.designs[1]).unwrap();
    // Ratios 2, 2.5, 2: mean 2.1667, deviation 0.28868, 4.303 * 0.28868 / sqrt(3).
    assert_eq!(speed_up.over, Some(Over::Seeds(3)));
    assert!((speed_up.ratio - 2.166_67).abs() < 1e-4 && (speed_up.half.unwrap() - 0.717).abs() < 0.01, "{speed_up:?}");
}

#[test]
fn programs_without_a_difference_are_counted() {
    let mut cells = vec![cell("gups", "radix", 1000), cell("gups", "radix", 1000)];
    cells[1].source = 1;
    let labels: Vec<String> = Study::new(cells).comparisons.into_iter().map(|one| one.label).collect();
    assert_eq!(labels, ["gups", "gups (2)"]);
}
