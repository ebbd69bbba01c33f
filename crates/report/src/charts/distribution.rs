//! Distributions of the latency of page walks.

use super::speed_up::lines;
use super::{Chart, Table, ids, rounded, spec};
use crate::study::Study;
use ambulator_simulator::HistogramResult;
use serde_json::{Value, json};

/// Points of a line at most.
const MOST_POINTS: usize = 80;

/// Latencies with the share of the samples below each. Histograms say how many samples are in a bucket, so
/// shares are known at the bounds of buckets; the last point is the greatest sample.
fn below(histogram: &HistogramResult) -> Vec<(u64, f64)> {
    let all = histogram.count.max(1) as f64;
    let mut sum = 0;
    let mut points = Vec::new();
    for (lowest, samples) in &histogram.buckets {
        points.push((*lowest, sum as f64 / all));
        sum += samples;
    }
    points.push((histogram.max, 1.0));
    points.dedup_by_key(|(latency, _)| *latency);
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let last = points.len() - 1;
    points.iter().enumerate().filter(|(at, _)| at % step == 0 || *at == last).map(|(_, point)| *point).collect()
}

/// A figure for each program, with a line for each design that walks.
pub fn walk_latency(study: &Study) -> Vec<Chart> {
    let of_program = |comparison| {
        let walks = |run: &ambulator_simulator::RunResult| {
            run.histograms.get("walk_latency").filter(|of| of.count > 0 && of.max > 0).cloned()
        };
        let runs = study.shown_runs(comparison).into_iter();
        runs.filter_map(|run| Some((run.design.as_str(), walks(run)?))).collect::<Vec<_>>()
    };
    let found: Vec<_> = study.comparisons.iter().map(|comparison| (comparison, of_program(comparison))).collect();
    let found: Vec<_> = found.into_iter().filter(|(_, designs)| !designs.is_empty()).collect();
    let names: Vec<&str> = found.iter().map(|(comparison, _)| comparison.label.as_str()).collect();
    let ids = ids("walk-latency", &names);
    let chart = |((comparison, designs), id): (&(&crate::study::Comparison, Vec<(&str, HistogramResult)>), String)| {
        let names: Vec<&str> = designs.iter().map(|(design, _)| *design).collect();
        let (mut values, mut rows) = (Vec::new(), Vec::new());
        for (design, histogram) in designs {
            for (latency, share) in below(histogram) {
                let share = rounded(100.0 * share);
                values.push(json!({"design": design, "latency": latency.max(1), "share": share}));
            }
            let HistogramResult { count, mean, p50, p90, p99, max, .. } = histogram;
            let mut row: Vec<Value> = vec![json!(comparison.label), json!(design), json!(count), rounded(*mean)];
            row.extend([p50, p90, p99, max].map(|value| json!(value)));
            rows.push(row);
        }
        let mut body = lines(&names, "latency", "cycles of a page walk", "share", "walks that took less, %", true);
        body["mark"]["point"] = json!({"size": 10, "opacity": 0});
        body["encoding"]["y"]["scale"] = json!({"domain": [0, 100]});
        let columns = [
            ("program", ""),
            ("design", ""),
            ("walks", ""),
            ("mean", "cycles"),
            ("median", "cycles"),
            ("90th percentile", "cycles"),
            ("99th percentile", "cycles"),
            ("greatest", "cycles"),
        ];
        let description =
            format!("Distribution of the latency of page walks on {}, a line for each design.", comparison.label);
        Chart {
            id,
            kind: "walk-latency".into(),
            title: "Latency of page walks".into(),
            caption: "The share of page walks that took fewer cycles than the axis below says. A line further left has faster \
                      walks; designs without walks have no line."
                .into(),
            program: Some(comparison.label.clone()),
            spec: spec(&description, values, body),
            table: Table { columns: columns.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into(), rows },
        }
    };
    found.iter().zip(ids).map(chart).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_below_are_those_of_the_buckets() {
        let histogram = HistogramResult {
            count: 10,
            max: 35,
            buckets: vec![(10, 4), (20, 5), (30, 1)],
            ..HistogramResult::default()
        };
        assert_eq!(below(&histogram), [(10, 0.0), (20, 0.4), (30, 0.9), (35, 1.0)]);
    }

    #[test]
    fn long_histograms_are_thinned_and_keep_their_ends() {
        let buckets: Vec<(u64, u64)> = (1..=1000).map(|at| (at, 1)).collect();
        let points = below(&HistogramResult { count: 1000, max: 1000, buckets, ..HistogramResult::default() });
        assert!(points.len() <= MOST_POINTS + 1 && points[0] == (1, 0.0), "{}", points.len());
        assert_eq!(points[points.len() - 1].0, 1000);
    }
}
