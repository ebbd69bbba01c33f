//! Figures that a paper draws as lines.

use super::{OURS, PUBLISHED, about_intervals, interval_layer, table, with_interval};
use crate::charts::{Chart, rounded, spec};
use crate::theme::style;
use ambulator_experiments::{FigureResult, MetricResult};
use serde_json::json;

/// A name as a series and a place on it: its last number, and what is around that.
fn place(name: &str) -> Option<(String, f64)> {
    let mut words: Vec<&str> = name.split(' ').collect();
    let at = words.iter().rposition(|word| word.trim_end_matches(',').parse::<f64>().is_ok())?;
    let value = words[at].trim_end_matches(',').parse().ok()?;
    let is_last = at + 1 == words.len();
    words[at] = "";
    // `1 entry` is a point of `2 entries`: what follows a number names its unit.
    if !is_last {
        words.truncate(at);
    }
    Some((words.join(" ").trim().trim_end_matches(',').to_owned(), value))
}

/// Lines over what the names of the numbers count; `None` if they count nothing.
pub(super) fn lines(result: &FigureResult, id: &str, unit: &str, metrics: &[&MetricResult]) -> Option<Chart> {
    let mut series: Vec<String> = Vec::new();
    let mut values = Vec::new();
    for metric in metrics {
        let Some((of, at)) = place(&metric.name) else { continue };
        if !series.contains(&of) {
            series.push(of.clone());
        }
        let [ours] = metric.ours.as_slice() else { continue };
        let row = json!({"series": of, "at": at, "value": rounded(*ours), "whose": OURS.0});
        values.push(with_interval(row, *ours, metric.half.first()));
        if let Some(published) = metric.published.as_deref() {
            let (low, high) = (published[0], published[published.len() - 1]);
            values.push(
                json!({"series": of, "at": at, "low": rounded(low), "high": rounded(high), "whose": PUBLISHED.0}),
            );
        }
    }
    let points = values.iter().filter(|value| value["whose"] == OURS.0).count();
    if points < 3 || series.len() * 2 > points {
        return None;
    }
    let (colours, _): (Vec<&str>, Vec<_>) = (0..series.len()).map(style).unzip();
    let tooltip = json!([
        {"field": "series"}, {"field": "at"}, {"field": "value", "title": format!("ours, {unit}"), "format": ",.4~r"},
        {"field": "low", "title": format!("published, {unit}"), "format": ",.4~r"}, {"field": "high", "title": "to", "format": ",.4~r"},
    ]);
    let ats: Vec<f64> = values.iter().filter_map(|value| value["at"].as_f64()).collect();
    let log = ats.iter().all(|at| *at > 0.0) && ats.iter().copied().fold(0.0, f64::max) >= 32.0;
    let mut marks: Vec<f64> = ats.clone();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    let any_interval = values.iter().any(|value| value.get("from").is_some());
    let mut body = json!({
        "height": 260,
        "encoding": {
            "x": {
                "field": "at", "type": "quantitative", "title": null, "axis": {"values": marks, "grid": false},
                "scale": if log { json!({"type": "log", "base": 2}) } else { json!({}) },
            },
        },
        "layer": [
            {
                "transform": [{"filter": format!("datum.whose == '{}'", OURS.0)}],
                "mark": {"type": "line", "point": {"size": 30}},
                "encoding": {
                    "y": {"field": "value", "type": "quantitative", "title": unit, "scale": {"zero": false}},
                    "tooltip": tooltip,
                },
            },
            {
                "transform": [{"filter": format!("datum.whose == '{}'", PUBLISHED.0)}],
                "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0.35},
                "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}, "tooltip": tooltip},
            },
            {
                "transform": [{"filter": format!("datum.whose == '{}'", PUBLISHED.0)}],
                "mark": {"type": "point", "shape": "diamond", "size": 90, "filled": true},
                "encoding": {"y": {"field": "high", "type": "quantitative"}, "tooltip": tooltip},
            },
        ],
    });
    if let Some(layers) = body["layer"].as_array_mut() {
        let colour =
            json!({"field": "series", "type": "nominal", "title": null, "scale": {"domain": series, "range": colours}});
        layers.iter_mut().for_each(|layer| layer["encoding"]["color"] = colour.clone());
        layers.extend(any_interval.then(|| interval_layer("y")));
    }
    Some(Chart {
        id: format!("{id}-lines"),
        kind: format!("{id}-lines"),
        title: format!("{}: {unit}", result.figure),
        caption: format!(
            "Lines are ours. A diamond is a published number, with a bar down to the least of a published range.{}",
            about_intervals(result, metrics)
        ),
        program: None,
        spec: spec(
            &format!("{}, {}: our numbers as lines, published ones as diamonds.", result.figure, result.title),
            values,
            body,
        ),
        table: table(metrics),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, metric};
    use super::super::{ChartForm, charts_of};
    use super::*;

    #[test]
    fn names_that_count_become_lines() {
        assert_eq!(place("misses that find their range, 1 entry"), Some(("misses that find their range".into(), 1.0)));
        assert_eq!(place("3 tiers over radix, pressure 0.2"), Some(("3 tiers over radix, pressure".into(), 0.2)));
        assert_eq!(place("no number"), None);
        let metrics =
            [1, 2, 4].map(|n| metric(&format!("misses, {n} entries"), None, &[("a", f64::from(n)), ("b", 0.0)]));
        let result = figure(metrics.into());
        let all = charts_of(&result, ChartForm::Lines);
        assert_eq!(all[0].id, "paper-fig1-1-lines");
        let points = all[0].spec["data"]["values"].as_array().unwrap();
        assert_eq!(points.iter().map(|point| point["at"].as_f64().unwrap()).collect::<Vec<_>>(), [1.0, 2.0, 4.0]);
        assert_eq!(charts_of(&figure(vec![metric("x", None, &[("a", 1.0)])]), ChartForm::Lines).len(), 1);
    }

    #[test]
    fn points_of_lines_have_their_intervals() {
        let point =
            |n: f64| MetricResult { half: vec![0.25], ..metric(&format!("misses, {n} entries"), None, &[("a", n)]) };
        let chart = &charts_of(&figure([1.0, 2.0, 4.0].map(point).into()), ChartForm::Lines)[0];
        let values = chart.spec["data"]["values"].as_array().unwrap();
        let ends: Vec<_> = values.iter().map(|value| (value["from"].as_f64(), value["to"].as_f64())).collect();
        assert_eq!(ends[1], (Some(1.75), Some(2.25)));
        let layers = chart.spec["layer"].as_array().unwrap();
        let is_interval = |layer: &serde_json::Value| layer["encoding"]["y"]["field"] == "from";
        assert!(layers.iter().any(is_interval) && layers[0]["encoding"]["color"]["field"] == "series");
    }
}
