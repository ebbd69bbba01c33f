//! The papers' numbers next to ours.

use crate::cautions::untimed_daemons;
use crate::cell::Cell;
use crate::deviation::{Deviation, Reason};
use crate::figure::{Figure, Metric, Selection};
use crate::interval::Spread;
use crate::measure::{measure, over_programs};
use crate::number::short;
use crate::runner::{Finished, Runner};
use crate::study::Study;
use crate::vocabulary::Term;
use crate::whole::{Whole, WholeProgram, whole_programs};
use ambulator_base::distinct_notes;
use ambulator_simulator::{RunResult, Status, colour_warnings};
use comfy_table::{ContentArrangement, Table, presets};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The size of a figure's sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The paper's footprints.
    Full,
    /// Footprints that take seconds, for trials: the numbers are not comparable with the paper's.
    Quick,
}

/// The share of a published number from which on a difference needs a reason.
const FAR: f64 = 0.1;

/// One number, published and ours.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MetricResult {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The published number or range.
    pub published: Option<Vec<f64>>,
    /// Ours: one number, or minimum and maximum.
    pub ours: Vec<f64>,
    /// With several seeds, or of sampled runs: half of the 95% interval of each of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub half: Vec<f64>,
    /// Ours by program.
    pub by_program: Vec<(String, f64)>,
    /// With several seeds, or of sampled runs: half of the 95% interval of each of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub program_half: Vec<f64>,
    /// The same number over whole programs, if they ran too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<WholeNumber>,
    /// Programs among these that the paper would not have chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<String>,
    /// Ours without these, if there are others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmarked: Vec<f64>,
    /// Its place in the paper.
    pub source: String,
    /// What a reader must know about it.
    pub note: Option<String>,
    /// At full size, of a number that is far from the published one: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A number over whole programs, which are sampled.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WholeNumber {
    /// One number, or minimum and maximum.
    pub ours: Vec<f64>,
    /// Half of the 95% interval of each of these; empty if programs are too short for one.
    pub half: Vec<f64>,
    /// By program.
    pub by_program: Vec<(String, f64)>,
    /// Half of the 95% interval of each of these.
    pub program_half: Vec<f64>,
}

/// Numbers as text, each with its interval if it has one.
fn with_intervals(values: &[f64], halves: &[f64]) -> String {
    let one = |(at, value): (usize, &f64)| with_interval(*value, halves.get(at));
    let values: Vec<String> = values.iter().enumerate().map(one).collect();
    if values.is_empty() { "-".into() } else { values.join(" to ") }
}

impl MetricResult {
    fn text(values: &[f64]) -> String {
        values.iter().map(|v| short(*v)).collect::<Vec<_>>().join(" to ")
    }

    /// Ours, as text: with its interval, if it has one.
    fn ours(&self) -> String {
        with_intervals(&self.ours, &self.half)
    }

    /// Ours over whole programs, as text.
    fn whole(&self) -> String {
        self.whole.as_ref().map_or_else(|| "-".into(), |whole| with_intervals(&whole.ours, &whole.half))
    }

    /// Ours by program, as text.
    fn programs(&self) -> String {
        let text = |(at, (name, value)): (usize, &(String, f64))| {
            let mark = if self.marked.contains(name) { "*" } else { "" };
            format!("{name} {}{mark}", with_interval(*value, self.program_half.get(at)))
        };
        let mut programs: Vec<_> = self.by_program.iter().enumerate().map(text).collect();
        if !self.unmarked.is_empty() {
            programs.push(format!("without * {}", MetricResult::text(&self.unmarked)));
        }
        let Some(whole) = self.whole.as_ref().filter(|whole| !whole.by_program.is_empty()) else {
            return programs.join(", ");
        };
        let text = |(at, (name, value)): (usize, &(String, f64))| {
            format!("{name} {}", with_interval(*value, whole.program_half.get(at)))
        };
        let of_whole: Vec<_> = whole.by_program.iter().enumerate().map(text).collect();
        format!("{}; whole: {}", programs.join(", "), of_whole.join(", "))
    }

    /// Whether ours is more than a tenth from the published number, or outside the published range.
    fn is_far(&self) -> bool {
        match (self.published.as_deref(), self.ours.as_slice()) {
            (Some([published]), [ours]) => (ours - published).abs() > FAR * published.abs(),
            (Some([low, high]), ours) => ours.iter().any(|value| !(low..=high).contains(&value)),
            _ => false,
        }
    }

    /// The difference of ours from the published number, as text.
    pub fn difference(&self) -> String {
        match (self.published.as_deref(), self.ours.as_slice()) {
            (_, []) => "not run".into(),
            (None, _) => "no number is published".into(),
            (Some([published]), [ours]) if *published != 0.0 => format!("{:+.0}%", 100.0 * (ours / published - 1.0)),
            (Some([published]), [ours]) => format!("{:+}", ours - published),
            (Some([low, high]), ours) => {
                if ours.iter().all(|v| (low..=high).contains(&v)) {
                    "within".into()
                } else {
                    "outside".into()
                }
            }
            _ => "-".into(),
        }
    }
}

/// A number as text, with half of its interval, if it has one: what is known exactly has none.
fn with_interval(value: f64, half: Option<&f64>) -> String {
    half.filter(|half| **half > 0.0).map_or_else(|| short(value), |half| format!("{} ± {}", short(value), short(*half)))
}

fn is_one(seeds: &usize) -> bool {
    *seeds == 1
}

/// Heads of a figure's table, and the key whose value each shows.
const HEADS: [(&str, &str); 8] = [
    ("", "metrics.name"),
    ("unit", "metrics.unit"),
    ("published", "metrics.published"),
    ("ours", "metrics.ours"),
    ("difference", ""),
    ("whole programs", "metrics.whole"),
    ("by program", "metrics.by_program"),
    ("said in", "metrics.source"),
];

/// What the columns of the tables mean.
pub(crate) fn terms() -> Vec<Term> {
    let difference =
        "Ours relative to the published number, in percent; or whether ours is within the published range.";
    let head = |(head, key): &(&str, &str)| {
        let shows: &[&str] = if key.is_empty() { &[] } else { &[key] };
        let meaning = if key.is_empty() { difference.to_owned() } else { String::new() };
        Term { meaning, ..Term::row(head, shows) }.at("tables of reproduce")
    };
    HEADS.iter().filter(|(name, _)| !name.is_empty()).map(head).collect()
}

/// The mean of a metric over seeds, with its interval.
fn over_seeds(of_seeds: Vec<MetricResult>) -> Option<MetricResult> {
    let first = of_seeds.first()?.clone();
    if of_seeds.len() == 1 {
        return Some(first);
    }
    let count = of_seeds.iter().map(|of| of.ours.len()).min().unwrap_or(0);
    let spreads = (0..count).map(|at| Spread::of(&of_seeds.iter().map(|of| of.ours[at]).collect::<Vec<_>>()));
    let spreads: Vec<Spread> = spreads.flatten().collect();
    let of_program = |(label, _): &(String, f64)| {
        let of = |one: &MetricResult| one.by_program.iter().find(|(other, _)| other == label).map(|(_, value)| *value);
        Some((label.clone(), Spread::of(&of_seeds.iter().filter_map(of).collect::<Vec<_>>())?))
    };
    let programs: Vec<(String, Spread)> = first.by_program.iter().filter_map(of_program).collect();
    let of_programs: Vec<Spread> = programs.iter().map(|(_, spread)| *spread).collect();
    let halves =
        |spreads: &[Spread]| spreads.iter().map(|spread| spread.half).collect::<Option<Vec<_>>>().unwrap_or_default();
    Some(MetricResult {
        ours: spreads.iter().map(|spread| spread.mean).collect(),
        half: halves(&spreads),
        program_half: halves(&of_programs),
        by_program: programs.into_iter().map(|(label, spread)| (label, spread.mean)).collect(),
        ..first
    })
}

/// A figure, published and ours.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FigureResult {
    /// Paper and figure.
    pub figure: String,
    /// Its title.
    pub title: String,
    /// Whether it ran at the paper's size.
    pub full_size: bool,
    /// Its numbers.
    pub metrics: Vec<MetricResult>,
    /// How many seeds each program has run with.
    #[serde(skip_serializing_if = "is_one")]
    pub seeds: usize,
    /// How long whole programs were, if they ran too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<WholeProgram>,
    /// Runs that did not complete, and why.
    pub missing: Vec<String>,
    /// Notes on the programs, one sentence each: a trace that was cut short.
    pub notes: Vec<String>,
    /// Remarks on the runs, one sentence each: pages in few page colours, programs that the paper would not
    /// have chosen.
    pub remarks: Vec<String>,
    /// What was read from checkpoints and written to them, one sentence each.
    #[serde(skip)]
    pub checkpoints: Vec<String>,
    /// A note on the whole figure.
    pub note: Option<String>,
}

impl FigureResult {
    /// The figure as a table for the terminal. If it is wider than `width`, in characters, the values by
    /// program and the sources stand below it.
    pub fn table(&self, width: Option<usize>) -> String {
        let mut table = self.rows(true).to_string();
        let fits = |table: &str| width.is_none_or(|width| table.lines().all(|line| line.chars().count() <= width));
        let is_whole = fits(&table);
        if !is_whole {
            let mut narrow = self.rows(false);
            table = narrow.to_string();
            if let Some(width) = width.filter(|_| !fits(&table)) {
                narrow.set_content_arrangement(ContentArrangement::Dynamic);
                table = narrow.set_width(u16::try_from(width).unwrap_or(u16::MAX)).to_string();
            }
        }
        let size = if self.full_size { "" } else { " (quick sizes: not the paper's)" };
        let mut text = format!("{}: {}{size}\n{table}", self.figure, self.title);
        for metric in self.metrics.iter().filter(|_| !is_whole) {
            text.push_str(&format!("\n  {}: {}", metric.name, metric.programs()));
            text.push_str(&format!(
                "{}said in {}",
                if metric.by_program.is_empty() { "" } else { "; " },
                metric.source
            ));
        }
        if let Some(whole) = self.whole_programs() {
            text.push_str(&format!("\n  {whole}"));
        }
        for metric in &self.metrics {
            if let Some(note) = &metric.note {
                text.push_str(&format!("\n  {}: {note}", metric.name));
            }
        }
        for (number, reason) in self.reasons().iter().enumerate() {
            text.push_str(&format!("\n  ({}) {}: {}", number + 1, reason.cause.name(), reason.why));
        }
        for missing in &self.missing {
            text.push_str(&format!("\n  missing: {missing}"));
        }
        for note in self.notes.iter().chain(&self.remarks).chain(&self.note) {
            text.push_str(&format!("\n  {note}"));
        }
        text
    }

    /// How long whole programs were, in a sentence; `None` if only regions ran.
    pub fn whole_programs(&self) -> Option<String> {
        let all: Vec<String> = self.whole.iter().map(WholeProgram::text).collect();
        (!all.is_empty()).then(|| format!("whole programs: {}", all.join(", ")))
    }

    /// The reasons for which numbers are not the published ones, each once, in the order of the numbers.
    pub fn reasons(&self) -> Vec<&Reason> {
        let mut reasons: Vec<&Reason> = Vec::new();
        for reason in self.metrics.iter().filter_map(|metric| metric.reason.as_ref()) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    /// A row for each number, with or without the values by program and the source.
    fn rows(&self, whole: bool) -> Table {
        // The numbers of whole programs have a column where they ran.
        let reasons = self.reasons();
        let has_whole = self.metrics.iter().any(|metric| metric.whole.is_some());
        let columns = if whole { HEADS.len() } else { 6 };
        let shown = |at: &usize| *at < columns && (has_whole || HEADS[*at].0 != "whole programs");
        let shown: Vec<usize> = (0..HEADS.len()).filter(shown).collect();
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(shown.iter().map(|at| HEADS[*at].0));
        for metric in &self.metrics {
            let published = metric.published.as_deref().map_or("-".into(), MetricResult::text);
            let row = [
                metric.name.clone(),
                metric.unit.clone(),
                published,
                metric.ours(),
                match reasons.iter().position(|reason| metric.reason.as_ref() == Some(reason)) {
                    Some(number) => format!("{} ({})", metric.difference(), number + 1),
                    None => metric.difference(),
                },
                metric.whole(),
                metric.programs(),
                metric.source.clone(),
            ];
            table.add_row(shown.iter().map(|at| &row[*at]));
        }
        table
    }
}

/// Finds a trace, which figures name relative to the repository; outside it, in the repository of the build.
pub(crate) fn find_trace(name: &str) -> Cow<'_, str> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if name.contains('/') && !Path::new(name).exists() && built.exists() {
        return Cow::Owned(built.to_string_lossy().into_owned());
    }
    Cow::Borrowed(name)
}

/// The paths of the traces that a figure reads.
pub fn traces_of(figure: &Figure) -> Vec<PathBuf> {
    let names = figure.programs().flat_map(|program| std::iter::once(program).chain(&program.co_runners));
    let traces = names.filter(|program| is_trace(&program.name));
    traces.map(|program| PathBuf::from(find_trace(&program.name).into_owned())).collect()
}

/// Whether a figure's program is a trace, by its name.
fn is_trace(name: &str) -> bool {
    name.contains('/')
}

/// The runs of a study that are done, by seed, each with the name of its program; and a sentence on each that
/// is not.
fn done(study: &Study, finished: &Finished, cells: Range<usize>) -> (Vec<Vec<(String, RunResult)>>, Vec<String>) {
    let mut of_seeds: Vec<Vec<(String, RunResult)>> = vec![Vec::new(); study.seeds.len()];
    let mut missing = Vec::new();
    for point in &study.points {
        let (label, design) = (&point.place.program, &point.place.design);
        for (at, runs) in point.cells.iter().zip(&mut of_seeds) {
            match &finished.cells[cells.clone()][*at] {
                Some(ended) if ended.run.status == Status::Done => runs.push((label.clone(), ended.run.clone())),
                Some(ended) => {
                    let why = ended.run.outcome.as_deref().unwrap_or_default();
                    missing.push(format!("{label} with {design}: {why}"));
                }
                None => missing.push(format!("{label} with {design}: interrupted before it started")),
            }
        }
    }
    (of_seeds, missing)
}

/// The cells of a figure at a size; with `whole`, those over whole programs follow, in the same order.
///
/// # Errors
/// The figure's file is inconsistent.
pub fn cells_of(figure: &Figure, size: Size, whole: Option<Whole>) -> Result<Vec<Cell>, String> {
    let cells = Study::of(figure, size)?.cells;
    let of_whole: Vec<Cell> =
        whole.map(|whole| cells.iter().map(|cell| whole.cell(cell)).collect()).unwrap_or_default();
    Ok([cells, of_whole].concat())
}

/// Runs the cells that are not yet in the store, and compares the published numbers with ours. Each cell is
/// in the store as soon as it has ended. With several seeds, numbers are means over them, with intervals.
/// With `whole`, the same cells run over whole programs too.
///
/// # Errors
/// The figure's file is inconsistent. The result reports runs that fail, and cells that could not be stored.
pub fn reproduce(figure: &Figure, size: Size, whole: Option<Whole>, runner: &Runner) -> Result<FigureResult, String> {
    let study = Study::of(figure, size)?;
    let count = study.cells.len();
    let of_whole = whole.map(|whole| study.cells.iter().map(|cell| whole.cell(cell)).collect::<Vec<_>>());
    let finished = runner.run([study.cells.clone(), of_whole.clone().unwrap_or_default()].concat());
    let mut missing = study.missing.clone();
    missing.extend(finished.not_stored.clone());
    // By seed: the runs that are done, with the names of their programs.
    let (of_seeds, not_done) = done(&study, &finished, 0..count);
    missing.extend(not_done);
    let runs = of_seeds[0].clone();
    let of_program = runs.chunk_by(|(one, _), (other, _)| one == other);
    let mut remarks: Vec<String> = of_program
        .flat_map(|runs| colour_warnings(&runs.iter().map(|(_, run)| run.clone()).collect::<Vec<_>>()))
        .collect();
    remarks.extend(runs.iter().filter_map(|(_, run)| untimed_daemons(run)));
    let over = |metric: &Metric, of_seeds: &[Vec<(String, RunResult)>]| {
        over_seeds(of_seeds.iter().map(|runs| measure(metric, runs)).collect())
    };
    let number = |metric: &Metric| {
        let result = over(metric, &of_seeds)?;
        let wanted = size == Size::Full && result.is_far();
        let about = figure.deviations.iter().find(|deviation| wanted && deviation.is_about(metric));
        Some(MetricResult { reason: about.map(Deviation::reason), ..result })
    };
    let mut metrics: Vec<MetricResult> = figure.metrics.iter().filter_map(number).collect();
    let mut programs = Vec::new();
    if of_whole.is_some() {
        let (of_seeds, not_done) = done(&study, &finished, count..2 * count);
        missing.extend(not_done.into_iter().map(|why| format!("whole programs: {why}")));
        remarks.extend(of_seeds[0].iter().filter_map(|(_, run)| untimed_daemons(run)));
        programs = whole_programs(&of_seeds[0]);
        for (result, metric) in metrics.iter_mut().zip(&figure.metrics) {
            let number = |of: MetricResult| WholeNumber {
                ours: of.ours,
                half: of.half,
                by_program: of.by_program,
                program_half: of.program_half,
            };
            result.whole = over(metric, &of_seeds).map(number);
        }
    }
    if let Some(selection) = &figure.selection {
        let below = below_selection(selection, &runs);
        for (result, metric) in metrics.iter_mut().zip(&figure.metrics) {
            let is_below = |name: &String| below.iter().any(|(own, _)| own == name);
            let named = result.by_program.iter().map(|(name, _)| name);
            result.marked = named.filter(|name| is_below(name)).cloned().collect();
            if !result.marked.is_empty() {
                let chosen = result.by_program.iter().filter(|(name, _)| !is_below(name)).map(|(_, value)| *value);
                result.unmarked = over_programs(metric, &chosen.collect::<Vec<_>>(), &[]).0;
            }
        }
        remarks.extend(selection_note(selection, &below));
    }
    Ok(FigureResult {
        figure: figure.full_name(),
        title: figure.title.clone(),
        full_size: size == Size::Full,
        metrics,
        whole: programs,
        missing,
        seeds: study.seeds.len(),
        notes: finished.notes,
        remarks: distinct_notes(remarks),
        checkpoints: finished.checkpoints,
        note: figure.note.clone(),
    })
}

/// The programs below a selection's criterion, each with its value.
fn below_selection(selection: &Selection, runs: &[(String, RunResult)]) -> Vec<(String, f64)> {
    let own = runs.iter().filter(|(_, run)| run.design == selection.design);
    let values = own.map(|(label, run)| (label.clone(), run.measure(&selection.measure)));
    values.filter(|(_, value)| *value < selection.least).collect()
}

/// A sentence on the programs below a selection's criterion; none if there are none.
fn selection_note(selection: &Selection, below: &[(String, f64)]) -> Option<String> {
    let listed: Vec<_> = below.iter().map(|(label, value)| format!("{label} {}", short(*value))).collect();
    let Selection { design, measure, least, source } = selection;
    (!listed.is_empty()).then(|| {
        format!(
            "* {measure} below {least} with {design}, so that the paper would not have chosen it ({source}): {}.",
            listed.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deviation::Cause;

    #[test]
    fn programs_that_the_paper_would_not_have_chosen_are_marked() {
        let of = |label: &str, design: &str, misses: f64| {
            let measures = [("l2_tlb_mpki".to_owned(), misses)].into();
            (label.to_owned(), RunResult { design: design.into(), measures, ..RunResult::default() })
        };
        let runs = [of("A", "thp", 32.0), of("A", "utopia", 0.1), of("B", "thp", 4.9), of("C", "thp", 5.0)];
        let (design, measure) = ("thp".into(), "l2_tlb_mpki".into());
        let selection = Selection { design, measure, least: 5.0, source: "Sec. 7".into() };
        let below = below_selection(&selection, &runs);
        assert_eq!(below, [("B".to_owned(), 4.9)]);
        let note = selection_note(&selection, &below).unwrap();
        assert!(note.starts_with("* l2_tlb_mpki below 5 with thp") && note.ends_with("(Sec. 7): B 4.90."), "{note}");
        assert_eq!(selection_note(&selection, &[]), None);
        let values = vec![("A".to_owned(), 1.0), ("B".to_owned(), 2.0)];
        let metric = MetricResult {
            name: "m".into(),
            unit: "x".into(),
            published: None,
            ours: vec![1.0],
            half: Vec::new(),
            by_program: values,
            program_half: Vec::new(),
            whole: None,
            marked: vec!["B".into()],
            unmarked: Vec::new(),
            source: String::new(),
            note: None,
            reason: None,
        };
        assert_eq!(metric.programs(), "A 1.00, B 2.00*");
        let metric = MetricResult { program_half: vec![0.5, 0.25], ..metric };
        assert_eq!(metric.programs(), "A 1.00 ± 0.50, B 2.00 ± 0.25*");
        let metric = MetricResult { unmarked: vec![1.0], ..metric };
        assert_eq!(metric.programs(), "A 1.00 ± 0.50, B 2.00 ± 0.25*, without * 1.00");
        let far = |published: &[f64], ours: &[f64]| {
            let metric = MetricResult { published: Some(published.to_vec()), ours: ours.to_vec(), ..metric.clone() };
            metric.is_far()
        };
        assert!(!far(&[2.0], &[1.81]) && far(&[2.0], &[1.79]) && far(&[0.0], &[0.1]) && !far(&[2.0], &[]));
        assert!(!far(&[1.0, 2.0], &[1.0, 2.0]) && far(&[1.0, 2.0], &[0.9, 1.5]) && !metric.is_far());
    }

    #[test]
    fn numbers_over_seeds_are_means_with_intervals() {
        let of_seed = |a: f64, b: f64| MetricResult {
            name: "m".into(),
            unit: "x".into(),
            published: None,
            ours: vec![(a + b) / 2.0],
            half: Vec::new(),
            by_program: vec![("a".to_owned(), a), ("b".to_owned(), b)],
            program_half: Vec::new(),
            whole: None,
            marked: Vec::new(),
            unmarked: Vec::new(),
            source: String::new(),
            note: None,
            reason: None,
        };
        let mean = over_seeds(vec![of_seed(1.0, 4.0), of_seed(3.0, 4.0)]).unwrap();
        assert_eq!((mean.ours, mean.by_program), (vec![3.0], vec![("a".to_owned(), 2.0), ("b".to_owned(), 4.0)]));
        // Student's t of one degree of freedom is 12.706; the standard errors are 0.5, 1 and 0.
        let near = |values: &[f64], right: &[f64]| {
            values.len() == right.len() && values.iter().zip(right).all(|(a, b)| (a - b).abs() < 0.01)
        };
        assert!(near(&mean.half, &[6.353]) && near(&mean.program_half, &[12.706, 0.0]), "{:?}", mean.program_half);
        assert!(over_seeds(vec![of_seed(1.0, 4.0)]).unwrap().program_half.is_empty(), "one seed has no interval");
    }

    #[test]
    fn a_wide_figure_has_its_programs_below_the_table() {
        let reason = Reason { cause: Cause::Condition, why: "The programs are smaller.".into() };
        let metric = MetricResult {
            name: "speed-up of Utopia over radix".into(),
            unit: "ratio".into(),
            published: Some(vec![1.24]),
            ours: vec![1.2],
            half: vec![0.05],
            marked: Vec::new(),
            unmarked: Vec::new(),
            by_program: (0..12).map(|n| (format!("program-{n}"), 1.0 + f64::from(n))).collect(),
            program_half: Vec::new(),
            whole: None,
            source: "section 8.1, figure 15".into(),
            note: None,
            reason: Some(reason.clone()),
        };
        let figure = FigureResult {
            figure: "paper/fig".into(),
            title: "a figure".into(),
            full_size: true,
            metrics: vec![metric],
            seeds: 5,
            whole: Vec::new(),
            missing: Vec::new(),
            notes: Vec::new(),
            remarks: Vec::new(),
            checkpoints: Vec::new(),
            note: None,
        };
        let is_box = |line: &str| line.starts_with(['┌', '│', '╞', '└']);
        let whole = figure.table(None);
        assert!(whole.lines().filter(|line| is_box(line)).any(|line| line.contains("program-11 12.0")), "{whole}");
        assert!(whole.contains("1.20 ± 0.05"), "{whole}");
        assert!(
            whole.contains(" -3% (1) ") && whole.contains("\n  (1) condition: The programs are smaller."),
            "{whole}"
        );
        for width in [60, 80] {
            let folded = figure.table(Some(width));
            let boxes: Vec<&str> = folded.lines().filter(|line| is_box(line)).collect();
            assert!(boxes.iter().all(|line| line.chars().count() <= width && !line.contains("program-11")), "{folded}");
            let below = "\n  speed-up of Utopia over radix: program-0 1.00, ";
            assert!(folded.contains(below) && folded.contains("; said in section 8.1, figure 15\n"), "{folded}");
        }
    }
}
