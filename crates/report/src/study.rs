//! The runs of a report, in comparisons: what ran the same program under the same conditions.

use ambulator_experiments::{Candidate, MeasureMeaning, SpeedUp, Verdict, cautions, mean_over_seeds, reasons};
use ambulator_simulator::spec::Spec;
use ambulator_simulator::{CounterMeaning, MEASURES, RunResult, Status};
use serde_json::Value;
use std::collections::BTreeMap;

/// A run, and what is known of it beside its result.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Its result.
    pub run: RunResult,
    /// The machine's name; empty if it is not known.
    pub machine: String,
    /// The build of the models that computed it, if it is not the only one.
    pub build: String,
    /// Settings that differ from the presets of the machine and the design, by key.
    pub set: BTreeMap<String, Value>,
    /// Which input it is from: cells of one file are compared with each other.
    pub source: usize,
    /// It is there only as a bound: a perfect TLB under the paging policy of others.
    pub is_bound: bool,
}

/// The runs of one design in a comparison: one for each seed.
#[derive(Clone, Debug, Default)]
pub struct Design {
    /// The design's name.
    pub name: String,
    /// Numbers of its cells in [`Study::cells`], by seed.
    pub cells: Vec<usize>,
    /// Its run, or the mean of its runs over the seeds with which all designs have run to their end.
    pub run: RunResult,
}

/// Designs on the same program under the same conditions. Speed-ups are relative to the first.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The program, and what distinguishes these conditions from those of other comparisons.
    pub label: String,
    /// The designs; the first is the baseline.
    pub designs: Vec<Design>,
    /// Numbers of cells that are bounds.
    pub bounds: Vec<usize>,
}

/// Everything that a report is about.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// All runs.
    pub cells: Vec<Cell>,
    /// The comparisons, in the order of the inputs.
    pub comparisons: Vec<Comparison>,
    /// The command lines that made the runs.
    pub commands: Vec<String>,
    /// Unit and meaning of each counter.
    pub schema: BTreeMap<String, CounterMeaning>,
    /// Notes on the programs and the runs, one sentence each.
    pub notes: Vec<String>,
}

/// The conditions of a cell, as a key: equal for cells that are compared with each other.
fn conditions(cell: &Cell) -> String {
    let set: Vec<String> = cell.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let run = &cell.run;
    let parts = [&run.program, &cell.machine, &cell.build, &run.identity.footprint.to_string(), &set.join(" ")];
    format!("{}|{}", cell.source, parts.map(String::as_str).join("|"))
}

impl Study {
    /// Divides `cells` into comparisons. The baseline of each is the first design, or the one of the default
    /// page table, if it is among them.
    pub fn new(cells: Vec<Cell>) -> Study {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_bound) {
            let key = conditions(cell);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, numbers)) => numbers.push(number),
                None => groups.push((key, vec![number])),
            }
        }
        let groups: Vec<Vec<usize>> = groups.into_iter().map(|(_, numbers)| numbers).collect();
        let labels = labels(&cells, &groups);
        let comparison = |(numbers, label): (&Vec<usize>, String)| {
            let mut designs: Vec<Design> = Vec::new();
            for number in numbers {
                let name = &cells[*number].run.design;
                match designs.iter_mut().find(|design| design.name == *name) {
                    Some(design) => design.cells.push(*number),
                    None => designs.push(Design { name: name.clone(), cells: vec![*number], ..Design::default() }),
                }
            }
            set_runs(&cells, &mut designs);
            let same_program = |other: &Cell| {
                let of = |cell: &Cell| (cell.run.program.clone(), cell.run.identity.footprint, cell.run.seed);
                of(other) == of(&cells[numbers[0]])
            };
            let bounds = (0..cells.len()).filter(|at| cells[*at].is_bound && same_program(&cells[*at])).collect();
            Comparison { label, designs, bounds }
        };
        let comparisons = groups.iter().zip(labels).map(comparison).collect();
        Study { cells, comparisons, ..Study::default() }
    }

    /// The run of a cell.
    pub fn run(&self, number: usize) -> &RunResult {
        &self.cells[number].run
    }

    /// The first cell of a design that has an end, or else its first.
    pub fn shown_cell(&self, design: &Design) -> &Cell {
        let done = design.cells.iter().find(|number| self.run(**number).status == Status::Done);
        &self.cells[*done.unwrap_or(&design.cells[0])]
    }

    /// The speed-up of a design over the baseline of its comparison.
    pub fn speed_up(&self, comparison: &Comparison, design: &Design) -> Option<SpeedUp> {
        let done = |design: &Design| design.run.status == Status::Done;
        let base = comparison.designs.first().filter(|base| done(base) && done(design))?;
        SpeedUp::of(&base.run, &design.run)
    }

    /// The runs of a comparison that have measured anything: one for each design, the baseline first.
    pub fn shown_runs<'a>(&self, comparison: &'a Comparison) -> Vec<&'a RunResult> {
        let all = comparison.designs.iter().map(|design| &design.run);
        all.filter(|run| run.simulated_instructions > 0 && run.status == Status::Done).collect()
    }

    /// Names of all designs, in the order of the comparisons: a design has one colour in all figures.
    pub fn design_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for design in self.comparisons.iter().flat_map(|comparison| &comparison.designs) {
            if !names.contains(&design.name.as_str()) {
                names.push(&design.name);
            }
        }
        names
    }

    /// The verdict on a comparison.
    pub fn verdict(&self, comparison: &Comparison) -> Verdict {
        let runs: Vec<&RunResult> = comparison.designs.iter().map(|design| &design.run).collect();
        let specs: Vec<Option<Spec>> = runs.iter().map(|run| spec_of(run)).collect();
        let more: Vec<&RunResult> = comparison.bounds.iter().map(|number| self.run(*number)).collect();
        let more_specs: Vec<Option<Spec>> = more.iter().map(|run| spec_of(run)).collect();
        let all: Vec<(&RunResult, &Option<Spec>)> =
            runs.iter().copied().zip(&specs).chain(more.iter().copied().zip(&more_specs)).collect();
        let bounds: Vec<Option<Spec>> = specs.iter().map(|spec| spec.as_ref().and_then(Spec::bound)).collect();
        let candidates: Vec<Candidate<'_>> = runs
            .iter()
            .zip(&specs)
            .zip(&bounds)
            .map(|((run, spec), bound)| Candidate {
                run,
                bound: bound.as_ref().and_then(|bound| bound_among(&all, bound)),
                idealised: spec.as_ref().is_some_and(Spec::is_idealised),
            })
            .collect();
        Verdict::of(&candidates)
    }

    /// Why the designs of a comparison differ, one sentence each.
    pub fn reasons(&self, comparison: &Comparison, told: Option<&str>) -> Vec<String> {
        let runs: Vec<RunResult> = self.shown_runs(comparison).into_iter().cloned().collect();
        // Without the baseline there is nothing to differ from.
        let has_base = runs.first().is_some_and(|run| run.design == comparison.designs[0].name);
        if has_base { reasons(&runs, told) } else { Vec::new() }
    }

    /// Warnings on a comparison, one sentence each.
    pub fn cautions(&self, comparison: &Comparison) -> Vec<String> {
        let runs: Vec<RunResult> = self.shown_runs(comparison).into_iter().cloned().collect();
        cautions(&runs, &[None])
    }

    /// Whether a run is that of a machine that cannot be built.
    pub fn is_idealised(&self, run: &RunResult) -> bool {
        spec_of(run).is_some_and(|spec| spec.is_idealised())
    }

    /// Unit and meaning of each measure.
    pub fn measures() -> BTreeMap<&'static str, MeasureMeaning> {
        let meaning = |of: &ambulator_simulator::Measure| MeasureMeaning {
            unit: of.unit.to_owned(),
            meaning: of.meaning.to_owned(),
        };
        MEASURES.iter().map(|measure| (measure.name, meaning(measure))).collect()
    }
}

/// Sets the runs of designs: means over the seeds with which all that have ended have run.
fn set_runs(cells: &[Cell], designs: &mut [Design]) {
    let done = |design: &Design| -> BTreeMap<u64, usize> {
        let ended = design.cells.iter().filter(|number| cells[**number].run.status == Status::Done);
        ended.rev().map(|number| (cells[*number].run.seed, *number)).collect()
    };
    let ended: Vec<BTreeMap<u64, usize>> = designs.iter().map(done).collect();
    let with_any = || ended.iter().filter(|of| !of.is_empty());
    let common: Vec<u64> = with_any().next().map_or_else(Vec::new, |first| {
        first.keys().copied().filter(|seed| with_any().all(|of| of.contains_key(seed))).collect()
    });
    for (design, ended) in designs.iter_mut().zip(ended) {
        let runs: Vec<RunResult> =
            common.iter().filter_map(|seed| Some(cells[*ended.get(seed)?].run.clone())).collect();
        let alone = || cells[ended.values().next().copied().unwrap_or(design.cells[0])].run.clone();
        design.run = mean_over_seeds(runs).unwrap_or_else(alone);
    }
}

/// The spec of a run; `None` if another version wrote it, whose settings this one does not know.
fn spec_of(run: &RunResult) -> Option<Spec> {
    serde_json::from_value(run.spec.clone()).ok()
}

/// The run of a bound: the machine itself, or a design that is its own bound with this page table.
fn bound_among<'a>(runs: &[(&'a RunResult, &Option<Spec>)], bound: &Spec) -> Option<&'a RunResult> {
    let is_it = |spec: &Spec| {
        let table = &spec.design.page_table;
        spec == bound || spec.mmu.perfect && *table == bound.design.page_table && spec.bound().as_ref() == Some(bound)
    };
    runs.iter().find(|(_, spec)| spec.as_ref().is_some_and(is_it)).map(|(run, _)| *run)
}

/// A leaf of a spec, or of anything like it, under its dotted key.
pub fn flatten(value: &Value) -> Vec<(String, Value)> {
    fn below(prefix: &str, value: &Value, all: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    below(&name, value, all);
                }
            }
            Value::Null => {}
            _ => all.push((prefix.to_owned(), value.clone())),
        }
    }
    let mut all = Vec::new();
    below("", value, &mut all);
    all
}

/// Settings that a label names at most.
const MOST_NAMED: usize = 3;

/// The labels of groups of cells: the program, and what distinguishes groups of one program.
fn labels(cells: &[Cell], groups: &[Vec<usize>]) -> Vec<String> {
    let facts: Vec<BTreeMap<String, String>> = groups.iter().map(|group| facts(&cells[group[0]])).collect();
    let program = |group: &Vec<usize>| cells[group[0]].run.program.as_str();
    let label = |(number, group): (usize, &Vec<usize>)| {
        let others: Vec<usize> =
            (0..groups.len()).filter(|other| *other != number && program(&groups[*other]) == program(group)).collect();
        let differs = |(key, value): &(&String, &String)| others.iter().any(|o| facts[*o].get(*key) != Some(*value));
        let named: Vec<String> = facts[number]
            .iter()
            .filter(differs)
            .take(MOST_NAMED)
            .map(|(key, value)| if key.is_empty() { value.clone() } else { format!("{key} {value}") })
            .collect();
        if named.is_empty() { program(group).to_owned() } else { format!("{}, {}", program(group), named.join(", ")) }
    };
    let mut labels: Vec<String> = groups.iter().enumerate().map(label).collect();
    // What nothing distinguishes is counted.
    for number in 1..labels.len() {
        let before = labels[..number].iter().filter(|label| **label == labels[number]).count();
        if before > 0 {
            labels[number] = format!("{} ({})", labels[number], before + 1);
        }
    }
    labels
}

/// What a label can name: footprint, machine, settings, or where those are not known, the whole spec but the
/// design and the seed.
fn facts(cell: &Cell) -> BTreeMap<String, String> {
    let mut facts: BTreeMap<String, String> = BTreeMap::new();
    let footprint = cell.run.identity.footprint;
    facts.insert(String::new(), ambulator_experiments::bytes(footprint as f64));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if cell.machine.is_empty() {
        let own = |(key, _): &(String, Value)| !key.starts_with("design.") && key != "run.seed";
        facts.extend(flatten(&cell.run.spec).into_iter().filter(own).map(|(key, value)| (key, text(&value))));
    } else {
        facts.insert("machine".into(), cell.machine.clone());
        facts.insert("build".into(), cell.build.clone());
        facts.extend(cell.set.iter().map(|(key, value)| (key.clone(), text(value))));
    }
    facts
}

#[cfg(test)]
#[path = "study_tests.rs"]
pub(crate) mod tests;
