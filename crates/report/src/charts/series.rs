//! Quantities over the measured region.

use super::speed_up::lines;
use super::{Chart, Table, ids, rounded, spec};
use crate::study::{Comparison, Study};
use ambulator_simulator::RunResult;
use serde_json::json;

/// Cycles for each 1000 instructions in each window of the region: at which instruction, and how many.
fn cycles(run: &RunResult) -> Vec<(f64, f64)> {
    let mut before = (0, 0);
    let mut points = Vec::new();
    for &(instructions, cycles) in &run.windows {
        let (i, c) = (instructions.saturating_sub(before.0), cycles.saturating_sub(before.1));
        if i > 0 {
            points.push((instructions as f64, 1000.0 * c as f64 / i as f64));
        }
        before = (instructions, cycles);
    }
    points
}

/// A figure for each program and quantity, with a line for each design.
pub fn series(study: &Study) -> Vec<Chart> {
    over_time(
        study,
        "cycles-over-time",
        "Cycles over time",
        "Cycles for each 1000 instructions in windows of the measured region: a line that drifts is a run whose beginning does \
         not stand for its end.",
        "cycles per 1000 instructions",
        cycles,
    )
}

/// The figures of one quantity.
fn over_time(
    study: &Study,
    kind: &'static str,
    title: &str,
    caption: &str,
    unit: &str,
    points: impl Fn(&RunResult) -> Vec<(f64, f64)>,
) -> Vec<Chart> {
    type Line<'a> = (&'a str, Vec<(f64, f64)>);
    let of_program = |comparison| {
        let runs = study.shown_runs(comparison).into_iter();
        let all = runs.map(|run| (run.design.as_str(), points(run)));
        all.filter(|(_, points)| points.len() > 1).collect::<Vec<Line<'_>>>()
    };
    let found: Vec<(&Comparison, Vec<Line<'_>>)> =
        study.comparisons.iter().map(|comparison| (comparison, of_program(comparison))).collect();
    let found: Vec<_> = found.into_iter().filter(|(_, lines)| !lines.is_empty()).collect();
    let names: Vec<&str> = found.iter().map(|(comparison, _)| comparison.label.as_str()).collect();
    let ids = ids(kind, &names);
    let chart = |((comparison, all), id): (&(&Comparison, Vec<Line<'_>>), String)| {
        let designs: Vec<&str> = all.iter().map(|(design, _)| *design).collect();
        let (mut values, mut rows) = (Vec::new(), Vec::new());
        for (design, points) in all {
            values.extend(
                points
                    .iter()
                    .map(|(at, value)| json!({"design": design, "at": rounded(*at), "value": rounded(*value)})),
            );
            let each = points.iter().map(|(_, value)| *value);
            let (least, most) = each.clone().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
            let mean = each.sum::<f64>() / points.len() as f64;
            let last = points.last().map_or(0.0, |(_, value)| *value);
            let mut row = vec![json!(comparison.label), json!(design)];
            row.extend([least, mean, most, last].map(rounded));
            rows.push(row);
        }
        let columns = [
            ("program", ""),
            ("design", ""),
            ("least", unit),
            ("mean of windows", unit),
            ("most", unit),
            ("last", unit),
        ];
        let mut body = lines(&designs, "at", "instructions of the measured region", "value", unit, false);
        body["mark"]["point"] = json!({"size": 10, "opacity": 0});
        Chart {
            id,
            kind,
            title: title.to_owned(),
            caption: caption.to_owned(),
            program: Some(comparison.label.clone()),
            spec: spec(&format!("{title} on {}, a line for each design.", comparison.label), values, body),
            table: Table { columns: columns.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into(), rows },
        }
    };
    found.iter().zip(ids).map(chart).collect()
}
