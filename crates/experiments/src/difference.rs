//! What differs between two runs: settings first, then numbers that moved beyond their intervals.

use crate::grid::{Entry, Grid, Head};
use crate::interval::{Over, SpeedUp, Spread};
use crate::over_time::{OverTime, relative};
use crate::row::{CellInfo, Column, HALF_OF_SAMPLED, HOST, Row, SAMPLED, row_of, run_of};
use crate::sampling::{are_sampled_alike, sampled_differently};
use crate::selection::{Selected, plain};
use crate::series_columns::SERIES;
use crate::vocabulary::Term;
use ambulator_simulator::{RunResult, Series};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Columns that say what ran, which are shown before the settings.
const NAMES: [&str; 11] = [
    "version",
    "build",
    "machine",
    "design",
    "program",
    "identity.detail",
    "identity.digest",
    "footprint",
    "status",
    "outcome",
    "seed",
];
/// The setting in which runs over seeds differ.
const SEED: &str = "run.seed";
/// A ratio that is printed as 1.000 is 1.
const ROUNDS_TO_ONE: f64 = 0.0005;
/// Numbers that have windows.
const OF_WINDOWS: [&str; 2] = ["ipc", "cycles"];

/// The runs of one cell over seeds.
#[derive(Clone, Debug)]
pub struct Runs {
    /// By the order of their seeds.
    cells: Vec<Selected>,
}

impl Runs {
    /// A run that lies in no store.
    pub fn of_run(run: &RunResult) -> Runs {
        let row = row_of(&CellInfo::default(), run);
        Runs { cells: vec![Selected { row, spec: run.spec.clone() }] }
    }

    /// Groups cells that differ in their seeds only.
    pub fn of_cells(cells: Vec<Selected>) -> Vec<Runs> {
        let mut groups: Vec<(String, Runs)> = Vec::new();
        for cell in cells {
            let mut spec = leaves(&cell.spec);
            spec.remove(SEED);
            let names = ["machine", "design", "program", "version", "build"].map(|name| cell.text(name));
            let key = format!("{names:?} {:?} {spec:?}", detail(&cell));
            match groups.iter_mut().find(|(of, _)| *of == key) {
                Some((_, runs)) => runs.cells.push(cell),
                None => groups.push((key, Runs { cells: vec![cell] })),
            }
        }
        for (_, runs) in &mut groups {
            runs.cells.sort_by_key(|cell| cell.value("seed").and_then(Value::as_u64));
        }
        groups.into_iter().map(|(_, runs)| runs).collect()
    }

    fn first(&self) -> &Selected {
        &self.cells[0]
    }

    /// By what it is found on the other side: its names and settings without `fixed`.
    fn place(&self, fixed: &BTreeSet<&str>) -> String {
        format!("{} {:?}", self.described(fixed), detail(self.first()))
    }

    /// Its names and settings without `fixed`.
    fn described(&self, fixed: &BTreeSet<&str>) -> String {
        let names = ["machine", "design", "program"].iter().filter(|name| !fixed.contains(**name));
        let names: Vec<String> = names.map(|name| self.first().text(name)).collect();
        let is_open = |(key, _): &(&str, &Value)| *key != SEED && !fixed.contains(*key);
        let settings = self.first().settings().filter(is_open).map(|(key, value)| format!("{key}={}", plain(value)));
        format!("{} {}", names.join(" "), settings.collect::<Vec<_>>().join(" "))
    }

    /// As a heading names it.
    fn name(&self) -> String {
        format!("{} on {}", self.first().text("design"), self.first().text("program"))
    }

    fn spread(&self, column: &str) -> Option<Spread> {
        self.values(column).and_then(|values| Spread::of(&values))
    }

    /// Half of the 95% interval of a number of a run that was sampled; 0 if its whole region was measured. `None`
    /// for several runs, and without intervals.
    fn half_of_sampled(&self, column: &str) -> Option<f64> {
        let [cell] = &self.cells[..] else { return None };
        if !self.is_sampled() {
            return Some(0.0);
        }
        let has_any = cell.row.keys().any(|name| name.starts_with(HALF_OF_SAMPLED));
        has_any.then(|| number(&cell.row, &format!("{HALF_OF_SAMPLED}{column}")).unwrap_or(0.0))
    }

    fn is_sampled(&self) -> bool {
        self.first().row.keys().any(|name| name.starts_with(SAMPLED))
    }

    /// A number of each run.
    fn values(&self, column: &str) -> Option<Vec<f64>> {
        self.cells.iter().map(|cell| number(&cell.row, column)).collect()
    }

    /// Whether both sides have the same seeds, more than one: then numbers change seed by seed.
    fn is_paired_with(&self, other: &Runs) -> bool {
        let seeds = |of: &Runs| of.cells.iter().map(|cell| cell.text("seed")).collect::<Vec<_>>();
        self.cells.len() > 1 && seeds(self) == seeds(other)
    }

    /// The series of each run; none if one has none.
    fn series(&self) -> Vec<Series> {
        let of = |cell: &Selected| run_of(&cell.row, Value::Null).ok()?.1.series;
        self.cells.iter().map(of).collect::<Option<_>>().unwrap_or_default()
    }

    fn run(&self) -> Option<RunResult> {
        let first = self.first();
        run_of(&first.row, first.spec.clone()).ok().map(|(_, run)| run)
    }
}

/// Pairs the runs of two sides: those of one place, or the two if there is one on each side. `fixed` are the
/// columns and settings by which the sides were told apart. Returns the pairs, and names of runs without a
/// partner.
pub fn pairs(one: Vec<Runs>, two: Vec<Runs>, fixed: &BTreeSet<&str>) -> (Vec<(Runs, Runs)>, Vec<String>) {
    if let ([a], [b]) = (&one[..], &two[..]) {
        return (vec![(a.clone(), b.clone())], Vec::new());
    }
    let mut rest: BTreeMap<String, Runs> = two.into_iter().map(|runs| (runs.place(fixed), runs)).collect();
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for runs in one {
        match rest.remove(&runs.place(fixed)) {
            Some(other) => pairs.push((runs, other)),
            None => alone.push(format!("A: {}", runs.described(&BTreeSet::new()))),
        }
    }
    alone.extend(rest.into_values().map(|runs| format!("B: {}", runs.described(&BTreeSet::new()))));
    (pairs, alone)
}

/// By what a number is said to have moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgedBy {
    /// The 95% interval of the change over the same seeds leaves 0 out; with other seeds, the intervals of
    /// both do not meet.
    Seeds,
    /// The 95% interval of the ratio, over windows of the measured region, leaves 1 out.
    Windows,
    /// The 95% intervals of what was sampled of both do not meet.
    Sampled,
    /// The relative change exceeds the threshold.
    Threshold,
}

/// A setting, or a name, in which two runs differ.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SettingChange {
    /// Its key.
    pub key: String,
    /// In the first; null where there is none.
    pub a: Value,
    /// In the second.
    pub b: Value,
}

/// A number that moved.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Moved {
    /// Its column.
    pub column: String,
    /// Its unit, if that is known.
    pub unit: String,
    /// In the first.
    pub a: f64,
    /// Half of its 95% interval over seeds, or over what was sampled.
    pub a_half: Option<f64>,
    /// In the second.
    pub b: f64,
    /// Half of its 95% interval over seeds, or over what was sampled.
    pub b_half: Option<f64>,
    /// Percent of the first; `None` where that is 0.
    pub change: Option<f64>,
    /// Why it counts as moved.
    pub judged_by: JudgedBy,
}

/// What `diff --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffDocument {
    /// Version of Ambulator that wrote it.
    pub version: String,
    /// The first side, as it was asked for.
    pub a: String,
    /// The second.
    pub b: String,
    /// Without intervals, numbers have moved that change by more than this, in percent.
    pub threshold_percent: f64,
    /// What differs, pair by pair.
    pub differences: Vec<Difference>,
    /// Runs of one side without a partner in the other.
    pub without_partner: Vec<String>,
}

/// What the columns of the tables mean.
pub(crate) fn terms() -> Vec<Term> {
    let heads: [(&str, &str); 9] = [
        (HEADS[0], "differences.settings.key"),
        (HEADS[1], "differences.moved.column"),
        (HEADS[2], "differences.moved.change"),
        (HEADS[3], "differences.moved.unit"),
        ("A", "differences.moved.a"),
        ("B", "differences.moved.b"),
        ("value A", "differences.moved.a"),
        ("value B", "differences.moved.b"),
        ("judged by", "differences.moved.judged_by"),
    ];
    heads.into_iter().map(|(label, shows)| Term::row(label, &[shows]).at("tables of diff, and their files")).collect()
}

/// Heads of the tables: a setting that differs, a number that moved, by how much, in which unit.
const HEADS: [&str; 4] = ["setting", "moved", "change, %", "unit"];

/// What differs between two runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Difference {
    /// The first, in words.
    pub a: String,
    /// The second.
    pub b: String,
    /// Seeds of each.
    pub seeds: [usize; 2],
    /// The seeds are the same, and numbers change seed by seed.
    pub paired: bool,
    /// One of them was sampled: its numbers have intervals of their own.
    #[serde(skip)]
    by_sampling: bool,
    /// How fast the second is, with the interval that says whether that is a difference.
    pub speed: Option<String>,
    /// How each was sampled, if that differs, and what it means for the numbers.
    pub sampling: Option<String>,
    /// Names and settings that differ.
    pub settings: Vec<SettingChange>,
    /// Numbers that moved, the largest relative change first.
    pub moved: Vec<Moved>,
    /// Numbers that both have.
    pub compared: usize,
    /// Those that only one has; they are 0 in the other.
    pub one_sided: usize,
    /// Where their series part, if both have one.
    pub over_time: Option<OverTime>,
}

impl Difference {
    /// Between two runs; without intervals, a number has moved if its relative change, of the larger of the
    /// two, exceeds `threshold` (0 to 1).
    pub fn of(a: &Runs, b: &Runs, columns: &BTreeMap<String, Column>, threshold: f64) -> Difference {
        let runs = a.run().zip(b.run());
        let speed_up = runs.as_ref().and_then(|(a, b)| SpeedUp::of(a, b)).filter(|of| of.half.is_some());
        // Cycles of regions that were sampled differently are sums over other instructions.
        let alike = runs.as_ref().is_some_and(|(a, b)| are_sampled_alike(a, b));
        let of_windows = |name: &str| if alike { OF_WINDOWS.contains(&name) } else { name == OF_WINDOWS[0] };
        let is_sampled = a.is_sampled() || b.is_sampled();
        let names: BTreeSet<&String> = a.first().row.keys().chain(b.first().row.keys()).collect();
        let paired = a.is_paired_with(b);
        let (mut moved, mut compared, mut one_sided) = (Vec::new(), 0, 0);
        for name in names.into_iter().filter(|name| is_compared(name)) {
            let both = [a.spread(name), b.spread(name)];
            if both == [None, None] {
                continue;
            }
            compared += 1;
            one_sided += usize::from(both.contains(&None));
            // What one side does not count has not happened there.
            let seeds = [a.cells.len(), b.cells.len()];
            let nothing = |seeds: usize| Spread { mean: 0.0, half: (seeds > 1).then_some(0.0), seeds };
            let [mut one, mut other] = [both[0].unwrap_or(nothing(seeds[0])), both[1].unwrap_or(nothing(seeds[1]))];
            let relative = relative(one.mean, other.mean);
            let of_sampled = a.half_of_sampled(name).zip(b.half_of_sampled(name)).filter(|_| is_sampled);
            let (has_moved, judged_by) = if one.half.is_some() && other.half.is_some() {
                let zeros = |of: &Runs| of.values(name).unwrap_or_else(|| vec![0.0; of.cells.len()]);
                (are_apart(&zeros(a), &zeros(b), paired), JudgedBy::Seeds)
            } else if let Some(speed_up) = speed_up.filter(|_| of_windows(name)) {
                let by = if speed_up.over == Some(Over::Each) { JudgedBy::Sampled } else { JudgedBy::Windows };
                (speed_up.differs(), by)
            } else if let Some((of_one, of_other)) = of_sampled.filter(|halves| *halves != (0.0, 0.0)) {
                (one.half, other.half) = (Some(of_one), Some(of_other));
                (!one.overlaps(&other), JudgedBy::Sampled)
            } else {
                (relative > threshold, JudgedBy::Threshold)
            };
            if has_moved && one.mean != other.mean {
                moved.push(Moved {
                    column: name.clone(),
                    unit: columns.get(name).map(|column| column.unit.clone()).unwrap_or_default(),
                    a: one.mean,
                    a_half: one.half,
                    b: other.mean,
                    b_half: other.half,
                    change: (one.mean != 0.0).then(|| 100.0 * (other.mean - one.mean) / one.mean.abs()),
                    judged_by,
                });
            }
        }
        let size = |of: &Moved| (relative(of.a, of.b), (of.a - of.b).abs());
        moved.sort_by(|one, other| {
            let ((one, one_size), (other, other_size)) = (size(one), size(other));
            other.total_cmp(&one).then(other_size.total_cmp(&one_size))
        });
        // An interval has few events: over seeds, it must move by more than the threshold too.
        let in_interval = |one: &[f64], other: &[f64]| {
            let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
            let over_seeds = one.len() > 1 && other.len() > 1;
            relative(mean(one), mean(other)) > threshold && (!over_seeds || are_apart(one, other, paired))
        };
        Difference {
            over_time: OverTime::of(&a.series(), &b.series(), columns, in_interval),
            a: a.name(),
            b: b.name(),
            seeds: [a.cells.len(), b.cells.len()],
            paired,
            speed: speed(a, b),
            sampling: runs.and_then(|(a, b)| sampled_differently(&a, &b)),
            by_sampling: is_sampled,
            settings: settings(a, b),
            moved,
            compared,
            one_sided,
        }
    }

    /// By what numbers were judged, in a sentence.
    pub fn judged_by(&self, threshold: f64) -> String {
        let percent = 100.0 * threshold;
        let of_sampled = match self.by_sampling {
            true => ", other numbers where the 95% intervals of what was sampled do not meet",
            false => "",
        };
        match self.seeds {
            [seeds, _] if self.paired => {
                format!("Moved: the 95% interval of the change, seed by seed over {seeds} seeds, leaves 0 out.")
            }
            [a, b] if a > 1 && b > 1 => format!("Moved: the 95% intervals over {a} and {b} seeds do not meet."),
            _ => format!(
                "Moved: by more than {percent}%; `ipc` and `cycles` beyond the 95% interval over windows{of_sampled}, \
                 where they have one. There are no intervals over seeds."
            ),
        }
    }

    /// Names and settings that differ, as a table.
    pub fn settings_grid(&self) -> Grid {
        let head = [HEADS[0], "A", "B"].map(Head::text).to_vec();
        let text = |value: &Value| if value.is_null() { Entry::Missing } else { Entry::Text(plain(value)) };
        let row = |of: &SettingChange| vec![Entry::Text(of.key.clone()), text(&of.a), text(&of.b)];
        Grid { head, rows: self.settings.iter().map(row).collect() }
    }

    /// The first `most` numbers that moved, as a table.
    pub fn moved_grid(&self, most: usize, with_unit: bool) -> Grid {
        let mut head = vec![Head::text(HEADS[1])];
        head.extend(["A", "B", HEADS[2]].map(|name| Head::number(name, None)));
        head.extend(with_unit.then(|| Head::text(HEADS[3])));
        let row = |of: &Moved| {
            let number = |mean, half| Entry::Number(Spread { mean, half, seeds: self.seeds[0] });
            let change = of.change.map_or(Entry::Missing, |change| number(change, None));
            let numbers = [number(of.a, of.a_half), number(of.b, of.b_half), change];
            let mut row = vec![Entry::Text(of.column.clone())];
            row.extend(numbers);
            row.extend(with_unit.then(|| Entry::Text(of.unit.clone())));
            row
        };
        Grid { head, rows: self.moved.iter().take(most).map(row).collect() }
    }

    /// Whether nothing differs but the sim host's time.
    pub fn is_none(&self) -> bool {
        let over_time = self.over_time.as_ref().is_some_and(|of| !of.parted.is_empty());
        self.settings.is_empty() && self.moved.is_empty() && !over_time
    }
}

/// All differences of several pairs, for files: a row for each setting and number, and for each number over
/// time with the value in the interval in which it moved most.
pub fn differences_grid(differences: &[Difference]) -> Grid {
    let mut head = ["a", "b", "kind", "name", "unit"].map(Head::text).to_vec();
    head.extend(["A", "B"].map(Head::text));
    head.extend(["value A", "value B", "change, %"].map(|name| Head::number(name, None)));
    head.push(Head::text("judged by"));
    head.extend(["first at", "most at"].map(|name| Head::number(name, None)));
    let mut rows = Vec::new();
    let text = |text: &str| Entry::Text(text.to_owned());
    for of in differences {
        for SettingChange { key, a, b } in &of.settings {
            let mut row = vec![text(&of.a), text(&of.b), text("setting"), text(key), text("")];
            row.extend([a, b].map(|value| Entry::Text(plain(value))));
            row.extend([Entry::Missing, Entry::Missing, Entry::Missing, text(""), Entry::Missing, Entry::Missing]);
            rows.push(row);
        }
        for moved in &of.moved {
            let number = |mean, half| Entry::Number(Spread { mean, half, seeds: of.seeds[0] });
            let mut row = vec![text(&of.a), text(&of.b), text("number"), text(&moved.column), text(&moved.unit)];
            row.extend([text(""), text("")]);
            row.extend([number(moved.a, moved.a_half), number(moved.b, moved.b_half)]);
            row.push(moved.change.map_or(Entry::Missing, |change| number(change, None)));
            let judged_by = serde_json::to_value(moved.judged_by).unwrap_or_default();
            row.extend([Entry::Text(plain(&judged_by)), Entry::Missing, Entry::Missing]);
            rows.push(row);
        }
        for parted in of.over_time.iter().flat_map(|of| &of.parted) {
            let number = |mean| Entry::Number(Spread { mean, half: None, seeds: 1 });
            let mut row = vec![text(&of.a), text(&of.b), text("over time"), text(&parted.name), text(&parted.unit)];
            row.extend([text(""), text(""), number(parted.a), number(parted.b)]);
            row.extend([parted.change.map_or(Entry::Missing, number), text("")]);
            row.extend([parted.first_at, parted.most_at].map(|at| number(at as f64)));
            rows.push(row);
        }
    }
    Grid { head, rows }
}

/// How fast the second is: by the intervals over seeds, else by that over windows.
fn speed(a: &Runs, b: &Runs) -> Option<String> {
    let (one, other) = (a.spread("ipc")?, b.spread("ipc")?);
    if one.mean <= 0.0 || other.mean <= 0.0 {
        return None;
    }
    let said = |ratio: f64, differs: bool, interval: String| {
        let none = format!("No difference in speed: {ratio:.3}");
        let what = if differs { format!("B is {ratio:.3} times as fast as A") } else { none };
        Some(format!("{what} ({interval})."))
    };
    if a.is_paired_with(b) {
        let of = spread_of_pairs(&a.values("ipc")?, &b.values("ipc")?, |a, b| b / a)?;
        let half = of.half.unwrap_or(0.0);
        let interval = format!("± {half:.3}, seed by seed over {} seeds", of.seeds);
        return said(of.mean, (of.mean - 1.0).abs() > half.max(ROUNDS_TO_ONE), interval);
    }
    if one.half.is_some() && other.half.is_some() {
        let interval = format!("intervals over {} and {} seeds", one.seeds, other.seeds);
        return said(other.mean / one.mean, !one.overlaps(&other), interval);
    }
    let of = a.run().zip(b.run()).and_then(|(a, b)| SpeedUp::of(&a, &b))?;
    let interval = of.interval().map_or("without an interval".to_owned(), |interval| {
        of.over.map_or(String::new(), |over| format!("95% interval {interval} over {over}"))
    });
    said(of.ratio, of.differs(), interval)
}

/// Whether the numbers of two sides over seeds differ: seed by seed, where these are the same.
fn are_apart(a: &[f64], b: &[f64], paired: bool) -> bool {
    let change = paired.then(|| spread_of_pairs(a, b, |a, b| b - a)).flatten();
    let is_apart = change.map(|of| of.mean.abs() > of.half.unwrap_or(0.0));
    let do_not_meet = || Spread::of(a).zip(Spread::of(b)).is_some_and(|(a, b)| !a.overlaps(&b));
    is_apart.unwrap_or_else(do_not_meet)
}

/// What pairs of numbers give, over the pairs.
fn spread_of_pairs(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Option<Spread> {
    Spread::of(&a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect::<Vec<_>>())
}

/// Whether a column is a number of a run: neither a name, nor of the sim host, nor of how it was sampled.
fn is_compared(name: &str) -> bool {
    let not = ["set.", "cores.", "windows.", "identity.", SAMPLED, SERIES, HOST];
    !NAMES.contains(&name) && !not.iter().any(|prefix| name.starts_with(prefix))
}

fn number(row: &Row, column: &str) -> Option<f64> {
    row.get(column)?.as_f64()
}

/// Names and settings that differ. Over seeds, the seed is no difference.
fn settings(a: &Runs, b: &Runs) -> Vec<SettingChange> {
    let over_seeds = a.cells.len() > 1 || b.cells.len() > 1;
    let (one, other) = (a.first(), b.first());
    let mut changes = Vec::new();
    let mut compare = |key: &str, a: Option<&Value>, b: Option<&Value>| {
        if a != b && !(over_seeds && [SEED, "seed"].contains(&key)) {
            let of = |value: Option<&Value>| value.cloned().unwrap_or_default();
            changes.push(SettingChange { key: key.to_owned(), a: of(a), b: of(b) });
        }
    };
    let has_specs = !one.spec.is_null() && !other.spec.is_null();
    let same_detail = detail(one) == detail(other);
    let same_seeds = one.value("seed") == other.value("seed");
    // The seed is a setting too; and it is part of what a generated program is known by.
    let is_told = |name: &str| match name {
        "seed" => has_specs,
        "identity.detail" => same_detail,
        "identity.digest" => !same_detail || !same_seeds,
        _ => false,
    };
    NAMES.iter().filter(|name| !is_told(name)).for_each(|name| compare(name, one.row.get(*name), other.row.get(*name)));
    let (of_one, of_other) = (leaves(&one.spec), leaves(&other.spec));
    let keys: BTreeSet<&String> = of_one.keys().chain(of_other.keys()).collect();
    keys.into_iter().for_each(|key| compare(key, of_one.get(key), of_other.get(key)));
    changes
}

/// The settings of a cell's program, or the header of its trace, without the seed.
fn detail(cell: &Selected) -> Vec<String> {
    let text = cell.text("identity.detail");
    text.split([',', '\n']).map(|part| part.trim().to_owned()).filter(|part| !part.starts_with("seed = ")).collect()
}

/// The leaves of a tree by dotted key.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn collect(at: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                collect(&key, member, found);
            }),
            Value::Null => {}
            _ => _ = found.insert(at.to_owned(), value.clone()),
        }
    }
    let mut found = BTreeMap::new();
    collect("", value, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::ProgramIdentity;
    use ambulator_simulator::Sampled;
    use serde_json::json;

    fn run(design: &str, seed: u64, counters: &[(&str, u64)], ipc: f64) -> RunResult {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let identity =
            ProgramIdentity { detail: format!("seed = {seed}, index = 1"), digest: seed, ..ProgramIdentity::default() };
        let spec =
            json!({"run": {"seed": seed}, "mmu": {"l2_tlb": {"entries": if design == "thp" { 1024 } else { 512 }}}});
        RunResult {
            design: design.into(),
            program: "gups".into(),
            counters,
            ipc,
            seed,
            spec,
            identity,
            ..RunResult::default()
        }
    }

    fn over_seeds(design: &str, walks: &[u64]) -> Runs {
        let cell = |(at, walks): (usize, &u64)| {
            let run = run(design, at as u64 + 1, &[("mmu.walks", *walks)], 1.0);
            Selected { row: row_of(&CellInfo::default(), &run), spec: run.spec }
        };
        let mut groups = Runs::of_cells(walks.iter().enumerate().map(cell).collect());
        assert_eq!(groups.len(), 1, "seeds are one group");
        groups.remove(0)
    }

    fn names(of: &Difference) -> Vec<&str> {
        of.moved.iter().map(|moved| moved.column.as_str()).collect()
    }

    #[test]
    fn settings_come_first_and_the_largest_change_leads() {
        let a = Runs::of_run(&run("radix", 1, &[("mmu.walks", 1000), ("a", 100), ("b", 100), ("gone", 5)], 1.0));
        let b = Runs::of_run(&run("thp", 1, &[("mmu.walks", 250), ("a", 150), ("b", 101)], 1.5));
        let difference = Difference::of(&a, &b, &BTreeMap::new(), 0.01);
        let keys: Vec<&str> = difference.settings.iter().map(|of| of.key.as_str()).collect();
        assert_eq!(keys, ["design", "mmu.l2_tlb.entries"]);
        assert_eq!(names(&difference), ["gone", "mmu.walks", "a", "ipc"], "b changed by less than 1% of the larger");
        assert_eq!(difference.moved[1].change, Some(-75.0));
        assert_eq!((difference.moved[0].change, difference.one_sided), (Some(-100.0), 1));
        let all = Difference::of(&a, &b, &BTreeMap::new(), 0.0);
        assert_eq!(names(&all).last(), Some(&"b"));
        assert!(Difference::of(&a, &a, &BTreeMap::new(), 0.0).is_none());
    }

    #[test]
    fn over_seeds_intervals_that_meet_are_no_difference() {
        let difference = |one: &[u64], other: &[u64]| {
            Difference::of(&over_seeds("radix", one), &over_seeds("radix", other), &BTreeMap::new(), 0.01)
        };
        let apart = difference(&[100, 101, 102], &[110, 111, 112]);
        assert_eq!((names(&apart), apart.moved[0].judged_by), (vec!["mmu.walks"], JudgedBy::Seeds));
        assert!(apart.settings.is_empty(), "the seed is none: {:?}", apart.settings);
        assert!(difference(&[100, 140, 60], &[110, 130, 75]).moved.is_empty());
        assert_eq!(names(&difference(&[100, 140, 60], &[110, 150, 70])), ["mmu.walks"], "the same for each seed");
        assert!(apart.paired && apart.judged_by(0.01).contains("seed by seed over 3 seeds"));
        assert!(apart.speed.unwrap().starts_with("No difference in speed: 1.000 (± 0.000, seed by seed over 3 seeds"));
        let other_seeds = difference(&[100, 140, 60], &[110, 150, 70, 111]);
        assert!(!other_seeds.paired && other_seeds.moved.is_empty());
        assert!(other_seeds.judged_by(0.01).contains("3 and 4 seeds do not meet"));
        assert_eq!(names(&difference(&[100, 101, 102], &[110, 111, 112, 113])), ["mmu.walks"]);
    }

    #[test]
    fn cycles_are_judged_by_windows() {
        let with = |per_window: &dyn Fn(u64) -> u64| {
            let mut cycles = 0;
            let windows = (1..=20).map(|at| {
                cycles += per_window(at);
                (at * 1000, cycles)
            });
            let windows: Vec<(u64, u64)> = windows.collect();
            RunResult { ipc: 20_000.0 / cycles as f64, cycles, windows, ..run("radix", 1, &[], 1.0) }
        };
        let even = Runs::of_run(&with(&|_| 1000));
        let slower = Runs::of_run(&with(&|_| 1005));
        let uneven = Runs::of_run(&with(&|at| if at % 2 == 0 { 1800 } else { 300 }));
        let moved = |other: &Runs| Difference::of(&even, other, &BTreeMap::new(), 0.01).moved;
        assert_eq!(moved(&slower).len(), 2, "less than the threshold, but everywhere");
        let speed = Difference::of(&even, &slower, &BTreeMap::new(), 0.01).speed.unwrap();
        assert!(speed.starts_with("B is 0.995 times as fast as A (95% interval 0.995 to 0.995 over 20"), "{speed}");
        assert!(moved(&slower).iter().all(|of| of.judged_by == JudgedBy::Windows));
        assert!(moved(&uneven).is_empty(), "{:?}", moved(&uneven));
    }

    #[test]
    fn sampled_runs_are_judged_by_the_intervals_of_what_was_sampled() {
        let sampled = |walks: u64, half: f64, method: &str, windows: u64| {
            let half = [("mmu.walks".to_owned(), half), ("ipc".to_owned(), 0.01)].into();
            let sampled = Sampled { windows, covered: 1_000_000, timed: 10 * windows, half, ..Sampled::default() };
            let mut run = RunResult { sampled: Some(sampled), ..run("radix", 1, &[("mmu.walks", walks)], 1.0) };
            run.spec["run"]["sampling"] = method.into();
            run
        };
        let difference =
            |a: &RunResult, b: &RunResult| Difference::of(&Runs::of_run(a), &Runs::of_run(b), &BTreeMap::new(), 0.01);
        let base = sampled(1000, 60.0, "windows", 20);
        let near = difference(&base, &sampled(1100, 60.0, "windows", 21));
        assert!(near.moved.is_empty() && near.sampling.is_none(), "the intervals meet: {:?}", near.moved);
        let far = difference(&base, &sampled(1200, 60.0, "windows", 20));
        assert_eq!((names(&far), far.moved[0].judged_by), (vec!["mmu.walks"], JudgedBy::Sampled));
        assert_eq!((far.moved[0].a_half, far.moved[0].b_half), (Some(60.0), Some(60.0)));
        assert!(far.judged_by(0.01).contains("what was sampled do not meet"));
        let mut whole = run("radix", 1, &[("mmu.walks", 50_000)], 1.015);
        whole.spec["run"]["sampling"] = "none".into();
        let other = difference(&base, &whole);
        let sampling = other.sampling.as_deref().unwrap();
        assert!(sampling.contains("A: 20 windows with ") && sampling.contains("B: not sampled): counts"), "{sampling}");
        assert!(other.speed.as_deref().unwrap().ends_with("over what was sampled of each)."), "{:?}", other.speed);
        assert_eq!((other.moved[1].column.as_str(), other.moved[1].judged_by), ("ipc", JudgedBy::Sampled));
        assert!(difference(&whole, &whole).judged_by(0.01).contains("beyond the 95% interval over windows, where"));
    }

    #[test]
    fn sides_pair_by_what_they_have_in_common() {
        let cells = |design: &str, programs: &[&str]| -> Vec<Runs> {
            let of =
                |program: &&str| Runs::of_run(&RunResult { program: (*program).into(), ..run(design, 1, &[], 1.0) });
            programs.iter().map(of).collect()
        };
        let fixed = BTreeSet::from(["design"]);
        let (found, alone) = pairs(cells("radix", &["gups", "bfs"]), cells("thp", &["bfs", "stream", "gups"]), &fixed);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(a, b)| a.first().text("program") == b.first().text("program")));
        assert!(alone.len() == 1 && alone[0].starts_with("B: ") && alone[0].contains("thp stream"), "{alone:?}");
        assert!(pairs(cells("radix", &["gups"]), cells("thp", &["bfs"]), &fixed).1.is_empty(), "one and one");
    }

    #[test]
    fn runs_over_time_part_where_an_interval_moved() {
        let with = |per_interval: [u64; 3]| {
            let series = Series {
                interval: 1000,
                instructions: vec![1000, 2000, 3000],
                cycles: vec![500, 1000, 1500],
                counters: [("mmu.walks".to_owned(), per_interval.to_vec())].into(),
                before: [("mmu.walks".to_owned(), per_interval[0])].into(),
                ..Series::default()
            };
            let sum = per_interval.iter().sum();
            Runs::of_run(&RunResult { series: Some(series), ..run("radix", 1, &[("mmu.walks", sum)], 1.0) })
        };
        let difference = Difference::of(&with([5, 5, 5]), &with([5, 8, 2]), &BTreeMap::new(), 0.01);
        let over_time = difference.over_time.clone().unwrap();
        assert!(difference.moved.is_empty() && !difference.is_none(), "the sums are the same: {:?}", difference.moved);
        let walks = &over_time.parted[0];
        assert_eq!((walks.first_at, walks.most_at, walks.a, walks.b), (1000, 1000, 5.0, 8.0));
        let csv = differences_grid(&[difference]).csv();
        assert!(csv.contains(",over time,mmu.walks,,,,5,8,60,,1000,1000\n"), "{csv}");
        assert!(Difference::of(&with([5, 5, 5]), &with([5, 5, 5]), &BTreeMap::new(), 0.01).is_none());
        // What was counted before the region is none of its intervals.
        assert!(Difference::of(&with([5, 5, 5]), &with([6, 5, 4]), &BTreeMap::new(), 0.01).moved.is_empty());
    }

    #[test]
    fn tables_have_every_number() {
        let a = Runs::of_run(&run("radix", 1, &[("mmu.walks", 1_234_567)], 1.0));
        let b = Runs::of_run(&run("thp", 1, &[("mmu.walks", 2_345_678)], 1.0));
        let difference = Difference::of(&a, &b, &BTreeMap::new(), 0.01);
        assert!(difference.moved_grid(9, true).terminal(Some(80)).lines().all(|line| line.chars().count() <= 80));
        let csv = differences_grid(&[difference]).csv();
        assert!(csv.contains("setting,mmu.l2_tlb.entries,,512,1024,"), "{csv}");
        assert!(csv.contains("number,mmu.walks,,,,1234567,2345678,") && csv.contains(",threshold,,\n"), "{csv}");
    }
}
