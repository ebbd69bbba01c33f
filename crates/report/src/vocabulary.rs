//! What the figures of reports and their labels mean: taken from figures of sample runs, so that nothing is
//! said twice.

use crate::charts::{Chart, Form, charts};
use crate::study::{Cell, Study};
use ambulator_experiments::{Term, TermKind, sample_runs};
use ambulator_simulator::RunResult;
use serde_json::Value;

/// The setting that the sample varies.
const VARIED: &str = "mmu.l2_tlb.entries";

/// Every figure that a report can have, its axes, and the columns of its table.
pub fn terms() -> Vec<Term> {
    let mut cells: Vec<Cell> = Vec::new();
    for entries in [512, 1024] {
        let mut designs: Vec<&str> = Vec::new();
        for run in sample_runs() {
            // One run of each design: others are in a virtual machine.
            if !designs.contains(&run.design.as_str()) {
                designs.push(&run.design);
                let set = [(VARIED.to_owned(), entries.into())].into();
                cells.push(Cell { set, run: longer(run), ..Cell::default() });
            }
        }
    }
    let study = Study::new(cells);
    let base = study.comparisons.first().map_or("", |of| of.designs[0].name.as_str()).to_owned();
    let mut all: Vec<Term> = charts(&study, Form::Page).iter().flat_map(of_chart).collect();
    // An axis that names the baseline names that of the user's runs.
    for term in &mut all {
        if let Some(begin) = term.name.strip_suffix(&format!(" {base}")) {
            term.name = format!("{begin} <design>");
        }
    }
    all
}

/// A run of two intervals: samples are too short for a second one, and only labels matter.
fn longer(run: &RunResult) -> RunResult {
    let mut run = run.clone();
    if let (Some(last), Some(series)) = (run.windows.last().copied(), &mut run.series) {
        run.windows.push((2 * last.0, 2 * last.1));
        series.instructions = vec![last.0, 2 * last.0];
        series.cycles = vec![last.1, 2 * last.1];
        series.counters.values_mut().for_each(|values| values.resize(2, 0));
        series.gauges.values_mut().for_each(|values| values.resize(2, 0.0));
    }
    run
}

fn of_chart(chart: &Chart) -> Vec<Term> {
    let place = format!("the figure `{}` of reports and plots", chart.title);
    let figure = Term {
        also: vec![chart.kind.clone()],
        ..Term::new(TermKind::Chart, chart.title.clone(), chart.caption.replace(VARIED, "SETTING"))
    };
    let mut all = vec![figure.at("ambulator report, ambulator plot")];
    let label = |name: &str, unit: &str, what: &str| Term {
        of: format!("{what} of a figure"),
        unit: unit.to_owned(),
        see: vec![chart.title.clone()],
        ..Term::new(TermKind::Chart, name, format!("{what} of {place}.")).at(place.clone())
    };
    let columns = chart.table.columns.iter().filter(|(name, _)| name != VARIED);
    all.extend(columns.map(|(name, unit)| label(name, unit, "Column")));
    let mut titles = Vec::new();
    axes(&chart.spec, &mut titles);
    all.extend(titles.iter().filter(|title| **title != VARIED).map(|title| label(title, "", "Axis")));
    all
}

/// Every title in a specification.
fn axes<'s>(spec: &'s Value, found: &mut Vec<&'s str>) {
    match spec {
        Value::Object(members) => {
            for (name, member) in members.iter().filter(|(name, _)| *name != "data") {
                match member.as_str() {
                    Some(title) if name == "title" && !found.contains(&title) => found.push(title),
                    _ => axes(member, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| axes(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_figure_has_a_term_with_its_caption() {
        let terms = terms();
        for kind in [
            "speed-up",
            "over-setting",
            "cycles",
            "walks-served",
            "walk-latency",
            "tlb-misses-over-time",
            "tables-over-time",
            "energy",
        ] {
            let term = terms.iter().find(|term| term.also.iter().any(|also| also == kind));
            assert!(
                term.is_some_and(|term| term.meaning.len() > 30 && term.meaning.ends_with('.')),
                "{kind}: {term:?}"
            );
        }
        let of = |name: &str| terms.iter().find(|term| term.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(of("99th percentile").unit, "cycles");
        assert!(of("times as fast as <design>").meaning.starts_with("Axis"));
        assert!(of("loads of walks, %").meaning.contains("Where the loads of page walks hit"));
    }
}
