//! A comparison as a table in the terminal.

use crate::grid::{Entry, Grid, Head};
use crate::interval::{Spread, half_of};
use crate::number::{bytes, count, short};
use crate::row::MEASURE;
use crate::sampling;
use crate::stack::CycleStack;
use crate::vocabulary::Term;
use ambulator_simulator::{RunResult, Status};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use std::ops::Range;

/// What a row has for a run.
#[derive(Clone, Copy)]
enum Value {
    /// A number, if the run has it, and how it is shown.
    Number(fn(&RunResult) -> Option<f64>, fn(f64) -> String),
    /// Several numbers, with a slash between two; none if the run has nothing of the kind.
    Several(fn(&RunResult) -> Vec<f64>, fn(f64) -> String),
}

impl Value {
    /// As the table has it: over several seeds, the mean with half of its interval; of a sampled run, the number
    /// with half of its interval. Speed-ups are over `base`.
    fn shown(self, run: &RunResult, base: Option<&RunResult>) -> String {
        match self {
            Value::Number(value, shown) => with_interval(run, base, value, shown),
            Value::Several(values, shown) => {
                let of = |at: usize| known(run, base, |run| values(run).get(at).copied());
                let known: Vec<Spread> = (0..values(run).len()).filter_map(of).collect();
                let joined = |numbers: Vec<f64>| numbers.into_iter().map(shown).collect::<Vec<_>>().join("/");
                let means = joined(known.iter().map(|of| of.mean).collect());
                let halves: Vec<f64> = known.iter().map(|of| of.half.unwrap_or(0.0)).collect();
                match halves.iter().any(|half| *half > 0.0) {
                    _ if known.is_empty() => "-".into(),
                    true => format!("{means} ± {}", joined(halves)),
                    false => means,
                }
            }
        }
    }
}

/// A number of a run, with half of its interval if it has one; over several seeds, the mean.
fn known(run: &RunResult, base: Option<&RunResult>, value: impl Fn(&RunResult) -> Option<f64>) -> Option<Spread> {
    let of_seeds: Vec<f64> = run.over_seeds.iter().filter_map(&value).collect();
    let of_run = || value(run).map(|mean| Spread { mean, half: half_of(&value, run, base), seeds: 1 });
    Spread::of(&of_seeds).or_else(of_run)
}

/// The same as the table has it.
fn with_interval(
    run: &RunResult,
    base: Option<&RunResult>,
    value: impl Fn(&RunResult) -> Option<f64>,
    shown: fn(f64) -> String,
) -> String {
    match known(run, base, value) {
        Some(Spread { mean, half: Some(half), .. }) if half > 0.0 => format!("{} ± {}", shown(mean), shown(half)),
        Some(Spread { mean, .. }) => shown(mean),
        None => "-".into(),
    }
}

fn timed(run: &RunResult, value: f64) -> Option<f64> {
    (run.ipc > 0.0).then_some(value)
}

fn counter(run: &RunResult, name: &str) -> f64 {
    run.counters.get(name).copied().unwrap_or(0) as f64
}

/// The shares of walk loads that each level has served, in percent: L1 where it has any, L2, LLC, DRAM.
fn served(run: &RunResult) -> Vec<f64> {
    let has = |name: &&&str| !name.ends_with("l1") || run.measure(name) > 0.0;
    let levels = if run.measure("walk_accesses_mean") == 0.0 { &[][..] } else { &SERVED };
    levels.iter().filter(has).map(|name| 100.0 * run.measure(name)).collect()
}

/// The measures of these shares.
const SERVED: [&str; 4] = ["walk_served_l1", "walk_served_l2", "walk_served_llc", "walk_served_dram"];

fn of_walks(run: &RunResult, measure: &str) -> Option<f64> {
    run.counters.get("mmu.walks").filter(|walks| **walks > 0).map(|_| run.measure(measure))
}

/// A share of TLB prefetching in percent, where there is any.
fn of_prefetches(run: &RunResult, measure: &str) -> Option<f64> {
    run.measures.get(measure).map(|share| 100.0 * share)
}

/// The rows of TLB prefetching, which only tables with a prefetcher have.
const PREFETCHED: [&str; 3] = ["prefetch walks", "  misses prefetched, %", "  prefetches used, %"];

/// The row that compares with the first design.
const SPEED_UP: &str = "speed-up";
/// The row of runs that did not end, and that of the cores together.
const STATUS: &str = "status";
const WEIGHTED: &str = "weighted speed-up";

/// A row of the table: its label, the names whose values it shows, for `explain`, and the value.
type Row = (&'static str, &'static [&'static str], Value);

/// Rows of the table. All are simulated quantities.
const ROWS: [Row; 17] = [
    (SPEED_UP, &["speedup"], Value::Number(|run| timed(run, run.speedup), |value| format!("{value:.3}x"))),
    ("instructions per cycle", &["ipc"], Value::Number(|run| timed(run, run.ipc), |value| format!("{value:.3}"))),
    (
        "MMU cycles per access",
        &["measures.mmu_cycles_per_access"],
        Value::Number(|run| timed(run, run.measure("mmu_cycles_per_access")), short),
    ),
    ("page walks", &["mmu.walks"], Value::Number(|run| Some(counter(run, "mmu.walks")), count)),
    (
        "cycles a walk",
        &["measures.walk_latency_mean"],
        Value::Number(|run| of_walks(run, "walk_latency_mean").filter(|_| run.ipc > 0.0), short),
    ),
    ("loads a walk", &["measures.walk_accesses_mean"], Value::Number(|run| of_walks(run, "walk_accesses_mean"), short)),
    (
        "  from L2/LLC/DRAM, %",
        &[
            "measures.walk_served_l1",
            "measures.walk_served_l2",
            "measures.walk_served_llc",
            "measures.walk_served_dram",
        ],
        Value::Several(served, |share| format!("{share:.0}")),
    ),
    (
        PREFETCHED[0],
        &["mmu.tlb_prefetch.walks"],
        Value::Number(|run| run.counters.get("mmu.tlb_prefetch.walks").map(|walks| *walks as f64), count),
    ),
    (
        PREFETCHED[1],
        &["measures.tlb_prefetch_coverage"],
        Value::Number(|run| of_prefetches(run, "tlb_prefetch_coverage"), |value| format!("{value:.0}")),
    ),
    (
        PREFETCHED[2],
        &["measures.tlb_prefetch_accuracy"],
        Value::Number(|run| of_prefetches(run, "tlb_prefetch_accuracy"), |value| format!("{value:.0}")),
    ),
    (
        "L1 TLB misses per 1000 instr.",
        &["measures.l1_tlb_mpki"],
        Value::Number(|run| Some(run.measure("l1_tlb_mpki")), short),
    ),
    (
        "L2 TLB misses per 1000 instr.",
        &["measures.l2_tlb_mpki"],
        Value::Number(|run| Some(run.measure("l2_tlb_mpki")), short),
    ),
    ("LLC misses per 1000 instr.", &["measures.llc_mpki"], Value::Number(|run| Some(run.measure("llc_mpki")), short)),
    ("page tables", &["measures.table_bytes"], Value::Number(|run| Some(run.measure("table_bytes")), bytes)),
    (
        "largest contiguous allocation",
        &["measures.table_largest_contiguous"],
        Value::Number(|run| Some(run.measure("table_largest_contiguous")), bytes),
    ),
    (
        "page faults, set-up/measured",
        &["measures.setup_page_faults", "measures.page_faults"],
        Value::Several(|run| vec![run.measure("setup_page_faults"), run.measure("page_faults")], count),
    ),
    (
        "OS share of cycles",
        &["measures.os_cycles_share"],
        Value::Number(|run| timed(run, 100.0 * run.measure("os_cycles_share")), |value| format!("{value:.1}%")),
    ),
];

/// What the labels of the tables mean.
pub(crate) fn terms() -> Vec<Term> {
    let others: [(&str, &[&str]); 3] = [
        (STATUS, &["status"]),
        ("core <number>, <program>", &["cores.program", "cores.ipc"]),
        (WEIGHTED, &["weighted_speedup"]),
    ];
    let rows = ROWS.iter().map(|(label, shows, _)| (*label, *shows));
    let rows = rows.chain(others).map(|(label, shows)| Term::row(label, shows));
    let all = [ALL_CYCLES, (CPI, ALL_CYCLES.1), (CPI_OF_CORES, ALL_CYCLES.1)];
    let all = all.map(|(label, measure)| Term::row(label, &[&format!("{MEASURE}{measure}")]));
    let stack = CycleStack::rows().map(|(_, label, counter)| Term::row(label, &[&counter])).chain(all);
    rows.chain(stack).map(|term| term.at("tables of run and compare")).collect()
}

/// Columns of a table besides its cells: two borders, and a space on each side of a cell.
const BORDERS: usize = 2;
const PADDING: usize = 2;

/// The table: a row for each quantity, a column for each design that has measured anything. With a `width`,
/// in characters, designs that do not fit beside each other are in further tables below. The simulator's own
/// speed is reported elsewhere.
pub fn comparison_table(runs: &[RunResult], width: Option<usize>) -> String {
    let (names, rows) = comparison_rows(runs);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let blocks = blocks(SIMULATED, &names, &rows, width);
    let tables: Vec<String> =
        blocks.into_iter().map(|columns| block(SIMULATED, &names, &rows, columns, width)).collect();
    tables.join("\n")
}

/// The same for files: Markdown and LaTeX.
pub fn comparison_grid(runs: &[RunResult]) -> Grid {
    let (names, rows) = comparison_rows(runs);
    let mut head = vec![Head::text(SIMULATED)];
    head.extend(names.iter().map(|name| Head::number(name, None)));
    let row = |(name, cells): (&str, Vec<String>)| {
        std::iter::once(name.trim().to_owned()).chain(cells).map(Entry::Text).collect()
    };
    let mut rows: Vec<Vec<Entry>> = rows.into_iter().map(row).collect();
    rows.extend(sampling::rows(&runs.iter().filter(|run| run.simulated_instructions > 0).collect::<Vec<_>>()));
    Grid { head, rows }
}

/// Rows of a table: label, and a cell for each design.
type Rows = Vec<(&'static str, Vec<String>)>;

/// The names of the designs that have measured anything, and the rows of their table.
fn comparison_rows(runs: &[RunResult]) -> (Vec<String>, Rows) {
    // Speed-ups are relative to the first design.
    let has_base = runs.first().is_some_and(|run| run.simulated_instructions > 0);
    let shown: Vec<&RunResult> = runs.iter().filter(|run| run.simulated_instructions > 0).collect();
    let mut rows = Rows::new();
    if shown.iter().any(|run| run.status != Status::Done) {
        rows.push((STATUS, shown.iter().map(|run| status_word(run.status).to_owned()).collect()));
    }
    let prefetches = shown.iter().any(|run| run.counters.contains_key("mmu.tlb_prefetch.walks"));
    let has = |name: &str| (has_base || name != SPEED_UP) && (prefetches || !PREFETCHED.contains(&name));
    for (name, _, value) in ROWS.into_iter().filter(|(name, ..)| has(name)) {
        rows.push((name, shown.iter().map(|run| value.shown(run, runs.first())).collect()));
    }
    (shown.iter().map(|run| run.design.clone()).collect(), rows)
}

/// For runs on several cores: instructions per cycle of each core with its program, a column for each design,
/// and the weighted speed-ups over the first. `None` for one core, or without time.
pub fn core_table(runs: &[RunResult], width: Option<usize>) -> Option<String> {
    let shown: Vec<&RunResult> = runs.iter().filter(|run| run.ipc > 0.0).collect();
    let cores = &shown.first().filter(|run| run.cores.len() > 1)?.cores;
    let labels: Vec<String> =
        cores.iter().enumerate().map(|(number, core)| format!("core {number}, {}", core.program)).collect();
    let ipc = |run: &RunResult, at: usize| {
        with_interval(run, None, |run| run.cores.get(at).map(|core| core.ipc), three_digits)
    };
    let mut rows: Vec<(&str, Vec<String>)> = labels
        .iter()
        .enumerate()
        .map(|(at, label)| (label.as_str(), shown.iter().map(|run| ipc(run, at)).collect()))
        .collect();
    if runs.first().is_some_and(|run| run.ipc > 0.0) {
        let weighted = |run: &&RunResult| {
            with_interval(run, runs.first(), |run| Some(run.weighted_speedup), |value| format!("{value:.3}x"))
        };
        rows.push((WEIGHTED, shown.iter().map(weighted).collect()));
    }
    let names: Vec<&str> = shown.iter().map(|run| run.design.as_str()).collect();
    let blocks = blocks(CORES, &names, &rows, width).into_iter();
    let tables = blocks.map(|columns| block(CORES, &names, &rows, columns, width));
    Some(tables.collect::<Vec<_>>().join("\n"))
}

/// All parts of the cycle stack together.
const ALL_CYCLES: (&str, &str) = ("all", "cpi");
/// What a part must have in one design to be shown: it would be 0.000.
const LEAST_SHOWN: f64 = 0.0005;

/// Where the cycles of an instruction go: a row for each part of the cycle stack, a column for each design.
/// `None` without time.
pub fn stack_table(runs: &[RunResult], width: Option<usize>) -> Option<String> {
    let (names, rows) = stack_rows(runs)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let head = if runs.iter().any(|run| run.cores.len() > 1) { CPI_OF_CORES } else { CPI };
    let blocks = blocks(head, &names, &rows, width).into_iter();
    let tables = blocks.map(|columns| block(head, &names, &rows, columns, width));
    Some(tables.collect::<Vec<_>>().join("\n"))
}

/// The designs that have a cycle stack, and the rows of its table.
fn stack_rows(runs: &[RunResult]) -> Option<(Vec<String>, Rows)> {
    let shown: Vec<&RunResult> = runs.iter().filter(|run| run.measure(ALL_CYCLES.1) > 0.0).collect();
    let row = |label: &'static str, value: &dyn Fn(&RunResult) -> Option<f64>| {
        (label, shown.iter().map(|run| with_interval(run, None, value, three_digits)).collect())
    };
    let per_instruction = |run: &RunResult, words: &str| CycleStack::of(run).map(|stack| stack.part(words) / 1000.0);
    let of_any = |words: &str| shown.iter().any(|run| per_instruction(run, words).unwrap_or(0.0) >= LEAST_SHOWN);
    let parts = CycleStack::rows().filter(|(words, ..)| of_any(words));
    let mut rows: Rows = parts.map(|(words, label, _)| row(label, &|run| per_instruction(run, words))).collect();
    rows.push(row(ALL_CYCLES.0, &|run| Some(run.measure(ALL_CYCLES.1))));
    (!shown.is_empty()).then(|| (shown.iter().map(|run| run.design.clone()).collect(), rows))
}

fn three_digits(value: f64) -> String {
    format!("{value:.3}")
}

/// Heads of the tables' first columns.
const CPI: &str = "cycles per instruction";
const CPI_OF_CORES: &str = "cycles per instruction, mean of the cores";
const SIMULATED: &str = "simulated";
const CORES: &str = "instructions per cycle";

/// The designs of each table, by number.
fn blocks(head: &str, names: &[&str], rows: &[(&str, Vec<String>)], width: Option<usize>) -> Vec<Range<usize>> {
    let width = width.unwrap_or(usize::MAX);
    let first = rows.iter().map(|(name, _)| *name).chain([head]).map(|name| name.chars().count()).max().unwrap_or(0);
    let column = |at: usize| {
        let cells = rows.iter().map(|(_, cells)| cells[at].chars().count());
        PADDING + cells.chain([names[at].chars().count()]).max().unwrap_or(0)
    };
    let (mut blocks, mut begin, mut used) = (Vec::new(), 0, 0);
    for at in 0..names.len() {
        let needed = column(at);
        if at > begin && BORDERS + PADDING + first + used + needed > width {
            blocks.push(begin..at);
            (begin, used) = (at, 0);
        }
        used += needed;
    }
    blocks.push(begin..names.len());
    blocks
}

/// The table of some of the designs.
fn block(
    head: &str,
    names: &[&str],
    rows: &[(&str, Vec<String>)],
    columns: Range<usize>,
    width: Option<usize>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut header = vec![Cell::new(head)];
    header.extend(names[columns.clone()].iter().map(|name| right(name)));
    table.set_header(header);
    for (name, cells) in rows {
        let mut row = vec![Cell::new(name)];
        row.extend(cells[columns.clone()].iter().map(|cell| right(cell)));
        table.add_row(row);
    }
    // One design may need more by itself: its cells fold.
    if let Some(width) = width.filter(|width| table.lines().any(|line| line.chars().count() > *width)) {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.to_string()
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Done => "done",
        Status::Interrupted => "interrupted",
        Status::Outcome => "stopped",
        Status::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::CoreResult;

    fn run(design: &str, instructions: u64) -> RunResult {
        RunResult {
            design: design.into(),
            simulated_instructions: instructions,
            ipc: 0.5,
            speedup: 1.0,
            status: if instructions > 0 { Status::Done } else { Status::Failed },
            ..RunResult::default()
        }
    }

    #[test]
    fn a_wide_table_folds_and_its_boxes_stay_whole() {
        let names = ["radix", "nested-revelator-entries", "thp", "utopia-restrictive", "perfect-tlb", "l2tlb-128k"];
        let runs = names.map(|name| run(name, 1000));
        let whole = comparison_table(&runs, None);
        assert!(whole.lines().next().unwrap().chars().count() > 100, "{whole}");
        assert_eq!(comparison_table(&runs, Some(200)), whole);
        for width in [40, 60, 80, 100, 120] {
            let folded = comparison_table(&runs, Some(width));
            for line in folded.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert!(line.starts_with(['┌', '│', '╞', '└']) && line.ends_with(['┐', '│', '╡', '┘']), "{folded}");
            }
            for name in names.iter().filter(|name| name.len() < 20 && width >= 60) {
                assert_eq!(folded.matches(name).count(), 1, "{width}: {folded}");
            }
        }
        assert_eq!(comparison_table(&runs, Some(80)).matches("simulated").count(), 2);
    }

    #[test]
    fn cores_have_a_table_and_a_weighted_speed_up() {
        let core = |program: &str, ipc: f64| CoreResult { program: program.into(), ipc, ..CoreResult::default() };
        let mix = |design: &str, first, second| RunResult {
            cores: vec![core("gups", first), core("bfs", second)],
            ..run(design, 1000)
        };
        let mut runs = [mix("radix", 0.1, 1.0), mix("thp", 0.3, 1.0)];
        ambulator_simulator::set_speedups(&mut runs);
        assert!((runs[1].weighted_speedup - 2.0).abs() < 1e-9, "each program counts the same");
        let table = core_table(&runs, None).unwrap();
        for part in ["core 0, gups", "core 1, bfs", "0.300", "weighted speed-up", "2.000x"] {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert_eq!(core_table(&[run("radix", 1000)], None), None);
    }

    #[test]
    fn the_cycle_stack_has_a_table_whose_last_row_is_the_sum() {
        let mut radix = run("radix", 1000);
        radix.measures.insert("cpi".into(), 2.5);
        let counters = [("base", 250), ("walk_dram", 2000), ("tlb_l2", 50), ("os", 200)];
        radix.counters = counters.map(|(part, cycles)| (format!("core.window.stack_{part}"), cycles)).into();
        radix.counters.extend([("kernel.cycles.fault".into(), 30), ("kernel.cycles.zero".into(), 10)]);
        let table = stack_table(&[radix.clone(), run("untimed", 1000)], None).unwrap();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows[1].contains(&"radix") && !table.contains("untimed"), "{table}");
        assert!(rows[3].contains(&"base") && rows[3].contains(&"0.250"), "{table}");
        let cells =
            [("L2 TLB", "0.050"), ("walks served by DRAM", "2.000"), ("page faults", "0.150"), ("all", "2.500")];
        for (label, value) in cells {
            let row = table.lines().find(|line| line.contains(label)).unwrap_or_else(|| panic!("{label}: {table}"));
            assert!(row.split_whitespace().any(|cell| cell == value), "{label}: {table}");
        }
        assert_eq!(rows.len(), 10, "no row for what no design has: {table}");
        assert_eq!(stack_table(&[run("untimed", 1000)], None), None);
        assert!(!table.contains("mean of the cores"), "{table}");
        radix.cores = vec![CoreResult::default(); 2];
        let table = stack_table(&[radix], None).unwrap();
        assert!(table.contains("│ cycles per instruction, mean of the cores   radix │"), "{table}");
    }

    #[test]
    fn numbers_over_seeds_have_intervals() {
        let of = |ipc: f64| RunResult { ipc, speedup: 1.0, ..run("radix", 1000) };
        let mean = crate::interval::mean_over_seeds(vec![of(0.5), of(0.6), of(0.7)]).unwrap();
        let table = comparison_table(&[mean], None);
        assert!(table.contains("0.600 ± 0.248"), "{table}");
        assert!(table.contains("1.000x") && !table.contains("1.000x ±"), "the base is what it is: {table}");
    }

    #[test]
    fn runs_without_results_have_no_column() {
        let table = comparison_table(&[run("radix", 1000), run("lvm", 0)], None);
        assert!(table.contains("radix") && !table.contains("lvm") && table.contains("speed-up"), "{table}");
        // Nothing is faster than a run that failed.
        let table = comparison_table(&[run("radix", 0), run("lvm", 1000)], None);
        assert!(table.contains("lvm") && !table.contains("radix") && !table.contains("speed-up"), "{table}");
    }
}
