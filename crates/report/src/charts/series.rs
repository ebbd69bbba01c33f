//! Quantities over the measured region.

use super::speed_up::lines;
use super::{Chart, Table, ids, rounded, spec};
use crate::study::{Comparison, Study};
use ambulator_simulator::{RunResult, Series, Status};
use serde_json::json;

/// Cycles for each 1000 instructions in each window of the region: at which instruction, and how many.
fn windows(run: &RunResult) -> Vec<(f64, f64)> {
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

/// A quantity over the measured region.
struct Quantity {
    kind: &'static str,
    title: &'static str,
    caption: &'static str,
    unit: &'static str,
}

/// Points of a line at most.
const MOST_POINTS: usize = 100;

/// What counters added in each interval, for each 1000 instructions; intervals are joined where there are
/// many.
fn per_kilo(series: &Series, counters: &[&str]) -> Vec<(f64, f64)> {
    let known: Vec<&Vec<u64>> = counters.iter().filter_map(|name| series.counters.get(*name)).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let step = series.instructions.len().div_ceil(MOST_POINTS).max(1);
    let mut points = Vec::new();
    let (mut before, mut sum) = (0, 0);
    for (at, instructions) in series.instructions.iter().enumerate() {
        sum += known.iter().filter_map(|values| values.get(at)).sum::<u64>();
        if ((at + 1) % step == 0 || at + 1 == series.instructions.len()) && *instructions > before {
            points.push((*instructions as f64, 1000.0 * sum as f64 / (*instructions - before) as f64));
            (before, sum) = (*instructions, 0);
        }
    }
    points
}

/// A state at the end of each interval.
fn gauge(series: &Series, name: &str, scale: f64) -> Vec<(f64, f64)> {
    let Some(values) = series.gauges.get(name) else { return Vec::new() };
    let step = values.len().div_ceil(MOST_POINTS).max(1);
    let all = series.instructions.iter().zip(values).enumerate();
    let kept = all.filter(|(at, _)| (at + 1) % step == 0 || at + 1 == values.len());
    kept.map(|(_, (instructions, value))| (*instructions as f64, scale * value)).collect()
}

/// A figure for each program and quantity, with a line for each design.
pub fn series(study: &Study) -> Vec<Chart> {
    let of = |run: &RunResult, points: &dyn Fn(&Series) -> Vec<(f64, f64)>| {
        run.series.as_ref().map(points).unwrap_or_default()
    };
    let misses = Quantity {
        kind: "tlb-misses-over-time",
        title: "L2 TLB misses over time",
        caption: "Misses of the L2 TLB for each 1000 instructions, in intervals of the measured region.",
        unit: "misses per 1000 instructions",
    };
    let cache = Quantity {
        kind: "llc-misses-over-time",
        title: "Last-level cache misses over time",
        caption: "Misses of the last-level cache for each 1000 instructions, of data and of translations, in intervals of the \
                  measured region.",
        unit: "misses per 1000 instructions",
    };
    let cycles = Quantity {
        kind: "cycles-over-time",
        title: "Cycles over time",
        caption: "Cycles for each 1000 instructions in windows of the measured region: a line that drifts is a run whose \
                  beginning does not stand for its end.",
        unit: "cycles per 1000 instructions",
    };
    let tables = Quantity {
        kind: "tables-over-time",
        title: "Growth of page tables",
        caption: "Bytes of the page tables of all processes, over the measured region.",
        unit: "MiB",
    };
    let lines = Quantity {
        kind: "translations-over-time",
        title: "Last-level cache lines that hold translations, over time",
        caption: "Share of the last-level cache's lines that hold translations, over the measured region.",
        unit: "lines with translations, %",
    };
    let mut all = misses.charts(study, |run| of(run, &|series| per_kilo(series, &["mmu.l2_tlb_misses"])));
    const LLC: [&str; 2] = ["hierarchy.llc.demand_misses", "hierarchy.llc.table_misses"];
    all.extend(cache.charts(study, |run| of(run, &|series| per_kilo(series, &LLC))));
    all.extend(cycles.charts(study, windows));
    const MIB: f64 = 1.0 / (1u64 << 20) as f64;
    all.extend(tables.charts(study, |run| of(run, &|series| gauge(series, "measures.table_bytes", MIB))));
    let share = |run: &RunResult| of(run, &|series| gauge(series, "measures.llc_translation_share", 100.0));
    all.extend(lines.charts(study, share));
    all
}

impl Quantity {
    /// The figures of one quantity.
    fn charts(&self, study: &Study, points: impl Fn(&RunResult) -> Vec<(f64, f64)>) -> Vec<Chart> {
        let Quantity { kind, title, caption, unit } = *self;
        type Line<'a> = (&'a str, Vec<(f64, f64)>);
        let of_program = |comparison: &'_ Comparison| {
            let runs = comparison.designs.iter().map(|design| &study.shown_cell(design).run);
            let all = runs.filter(|run| run.status == Status::Done).map(|run| (run.design.as_str(), points(run)));
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
            let mut body = lines(study, &designs, "at", "instructions of the measured region", "value", unit, false);
            body["mark"]["point"] = json!({"size": 10, "opacity": 0});
            Chart {
                id,
                kind: kind.into(),
                title: title.to_owned(),
                caption: caption.to_owned(),
                program: Some(comparison.label.clone()),
                spec: spec(&format!("{title} on {}, a line for each design.", comparison.label), values, body),
                table: Table { columns: columns.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into(), rows },
            }
        };
        found.iter().zip(ids).map(chart).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_rates_and_long_series_are_joined() {
        let series = Series {
            interval: 1000,
            instructions: vec![1000, 3000],
            counters: [("a".to_owned(), vec![5, 20]), ("b".to_owned(), vec![1, 0])].into(),
            gauges: [("g".to_owned(), vec![1.0, 2.0])].into(),
            ..Series::default()
        };
        assert_eq!(per_kilo(&series, &["a", "b", "none"]), [(1000.0, 6.0), (3000.0, 10.0)]);
        assert_eq!(per_kilo(&series, &["none"]), []);
        assert_eq!(gauge(&series, "g", 10.0), [(1000.0, 10.0), (3000.0, 20.0)]);
        let long = Series {
            instructions: (1..=1050).map(|at| at * 1000).collect(),
            counters: [("a".to_owned(), vec![7; 1050])].into(),
            ..Series::default()
        };
        let points = per_kilo(&long, &["a"]);
        assert!(points.len() <= MOST_POINTS && points.iter().all(|(_, rate)| *rate == 7.0), "{points:?}");
        assert_eq!(points[points.len() - 1].0, 1_050_000.0);
    }
}
