//! The papers' figures as pictures: published beside ours.

use crate::charts::{Chart, Table, rounded, slug, spec};
use crate::page::{Section, chart_data, escaped, figures as places, list, page};
use crate::theme::style;
use ambulator_experiments::{ChartForm, Figure, FigureResult, MetricResult};
use serde_json::{Value, json};
use std::fmt::Write;

/// Colours of ours and of what is published.
const OURS: (&str, &str) = ("ours", "#0072B2");
const PUBLISHED: (&str, &str) = ("published", "#8C8C8C");
/// Characters of a line of a metric's name beside its bars.
const LABEL: usize = 34;
/// The group of a figure's bars that is not a program: the mean over programs, or what the metric has
/// instead.
const ALL: &str = "all programs";

/// The pictures of results; `figures` say in which form, where they are among them.
pub fn published_charts(results: &[FigureResult], figures: &[&Figure]) -> Vec<Chart> {
    results.iter().flat_map(|result| charts_of(result, form(result, figures))).collect()
}

fn form(result: &FigureResult, figures: &[&Figure]) -> ChartForm {
    let own = figures.iter().find(|figure| format!("{}/{}", figure.paper, figure.name) == result.figure);
    own.map_or(ChartForm::Bars, |figure| figure.chart)
}

/// Metrics of one unit share their axes.
fn by_unit(result: &FigureResult) -> Vec<(&str, Vec<&MetricResult>)> {
    let mut units: Vec<(&str, Vec<&MetricResult>)> = Vec::new();
    for metric in result.metrics.iter().filter(|metric| !metric.ours.is_empty()) {
        match units.iter_mut().find(|(unit, _)| *unit == metric.unit) {
            Some((_, metrics)) => metrics.push(metric),
            None => units.push((&metric.unit, vec![metric])),
        }
    }
    units
}

fn charts_of(result: &FigureResult, form: ChartForm) -> Vec<Chart> {
    let mut all = Vec::new();
    for (number, (unit, metrics)) in by_unit(result).into_iter().enumerate() {
        let id = format!("{}-{}", slug(&result.figure), number + 1);
        let unit = if unit == "x" { "ratio" } else { unit };
        let drawn = (form == ChartForm::Lines).then(|| lines(result, &id, unit, &metrics)).flatten();
        if drawn.is_none() && metrics.iter().any(|metric| metric.by_program.len() > 1) {
            all.push(by_program(result, &id, unit, &metrics));
        }
        all.extend(drawn);
        all.push(beside(result, &id, unit, &metrics));
    }
    all
}

/// A table of published numbers and ours.
fn table(metrics: &[&MetricResult]) -> Table {
    let text = |values: &[f64]| match values {
        [one] => rounded(*one),
        _ => json!(values.iter().map(|value| rounded(*value).to_string()).collect::<Vec<_>>().join(" to ")),
    };
    let row = |metric: &&MetricResult| {
        vec![
            json!(metric.name),
            metric.published.as_deref().map_or(json!("-"), text),
            text(&metric.ours),
            json!(metric.difference()),
            json!(metric.source),
        ]
    };
    let columns = ["number", "published", "ours", "difference", "said in"];
    Table {
        columns: columns.map(|name| (name.to_owned(), String::new())).into(),
        rows: metrics.iter().map(row).collect(),
    }
}

/// A name in lines that fit beside bars.
fn folded(name: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < LABEL => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Each number as two bars: what is published, and ours. A range is a line between two ticks.
fn beside(result: &FigureResult, id: &str, unit: &str, metrics: &[&MetricResult]) -> Chart {
    let mut values = Vec::new();
    for metric in metrics {
        let both = [(OURS.0, Some(&metric.ours)), (PUBLISHED.0, metric.published.as_ref())];
        for (whose, numbers) in both {
            let Some([low, high]) = numbers.and_then(|n| Some([*n.first()?, *n.last()?])) else { continue };
            values.push(json!({
                "metric": folded(&metric.name), "whose": whose, "low": rounded(low), "high": rounded(high),
                "range": low != high, "difference": metric.difference(), "source": metric.source,
            }));
        }
    }
    let whose = json!({
        "field": "whose", "type": "nominal", "title": null,
        "scale": {"domain": [OURS.0, PUBLISHED.0], "range": [OURS.1, PUBLISHED.1]},
    });
    let tooltip = json!([
        {"field": "metric", "title": "number"}, {"field": "whose"},
        {"field": "low", "title": unit, "format": ",.4~r"}, {"field": "high", "title": "to", "format": ",.4~r"},
        {"field": "difference"}, {"field": "source", "title": "said in"},
    ]);
    let say = format!("datum.metric + ', ' + datum.whose + ': ' + format(datum.high, '.4~r') + ' {unit}'");
    let any_range = values.iter().any(|value| value["range"] == true);
    let mut body = json!({
        "transform": [{"calculate": say, "as": "say"}],
        "height": {"step": 16, "for": "offset"},
        "encoding": {
            "y": {
                "field": "metric", "type": "nominal", "sort": null, "title": null,
                "axis": {"labelExpr": "split(datum.value, '\\n')", "ticks": false, "domain": false, "labelLimit": 260, "labelPadding": 6},
            },
            "yOffset": {"field": "whose", "sort": [PUBLISHED.0, OURS.0]},
            "color": whose,
        },
        "layer": [
            {
                "transform": [{"filter": "!datum.range"}],
                "mark": {"type": "bar", "height": {"band": 0.9}},
                "encoding": {
                    "x": {"field": "high", "type": "quantitative", "title": unit, "axis": {"format": "~s"}},
                    "tooltip": tooltip, "description": {"field": "say"},
                },
            },
        ],
    });
    if let Some(layers) = body["layer"].as_array_mut().filter(|_| any_range) {
        layers.push(json!({
            "transform": [{"filter": "datum.range"}],
            "mark": {"type": "rule", "strokeWidth": 4},
            "encoding": {
                "x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"},
                "tooltip": tooltip, "description": {"field": "say"},
            },
        }));
    }
    Chart {
        id: format!("{id}-beside"),
        kind: format!("{id}-beside"),
        title: format!("{}: published beside ours, {unit}", result.figure),
        caption: "The paper's numbers in grey, ours in blue. A line is a range: from the least to the greatest.".into(),
        program: None,
        spec: spec(&format!("{}, {}: published numbers beside ours.", result.figure, result.title), values, body),
        table: table(metrics),
    }
}

/// The paper's form: bars in groups of a program and a group for all, with what is published as a tick.
fn by_program(result: &FigureResult, id: &str, unit: &str, metrics: &[&MetricResult]) -> Chart {
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    let mut values = Vec::new();
    let mut programs: Vec<String> = Vec::new();
    // As in the terminal's table: programs that the paper would not have chosen.
    let marked = |program: &str| {
        let is_marked = metrics.iter().any(|metric| metric.marked.iter().any(|of| of == program));
        format!("{program}{}", if is_marked { "*" } else { "" })
    };
    for metric in metrics {
        for (program, value) in &metric.by_program {
            let program = marked(program);
            if !programs.contains(&program) {
                programs.push(program.clone());
            }
            values.push(json!({"group": program, "metric": metric.name, "value": rounded(*value)}));
        }
        let several = metric.by_program.len() > 1;
        let group = if several {
            ALL.to_owned()
        } else {
            metric.by_program.first().map_or(ALL.into(), |(program, _)| marked(program))
        };
        let [ours] = metric.ours.as_slice() else { continue };
        if several {
            values.push(json!({"group": ALL, "metric": metric.name, "value": rounded(*ours)}));
        }
        if let Some([published]) = metric.published.as_deref() {
            values.push(json!({"group": group, "metric": metric.name, "published": rounded(*published)}));
        }
    }
    programs.push(ALL.into());
    let (colours, _): (Vec<&str>, Vec<_>) = (0..names.len()).map(style).unzip();
    let tooltip = json!([
        {"field": "group", "title": "program"}, {"field": "metric", "title": "number"},
        {"field": "value", "title": format!("ours, {unit}"), "format": ",.4~r"},
        {"field": "published", "title": format!("published, {unit}"), "format": ",.4~r"},
    ]);
    let bars = programs.len() * names.len();
    let body = json!({
        "height": 260,
        "usermeta": {"leastWidth": 90 + 9 * bars.max(4 * programs.len())},
        "transform": [{"calculate": format!("datum.group + ', ' + datum.metric + ': ' + format(datum.value, '.4~r') + ' {unit}'"), "as": "say"}],
        "encoding": {
            "x": {
                "field": "group", "type": "nominal", "sort": programs, "title": null,
                "axis": {
                    "ticks": false, "labelAngle": -35,
                    "labelFontWeight": {"condition": {"test": format!("datum.value == '{ALL}'"), "value": "bold"}, "value": "normal"},
                },
            },
            "xOffset": {"field": "metric", "sort": names},
        },
        "layer": [
            {
                "params": [{"name": "picked", "select": {"type": "point", "fields": ["metric"]}, "bind": "legend"}],
                "transform": [{"filter": "isValid(datum.value)"}],
                "mark": {"type": "bar"},
                "encoding": {
                    "y": {"field": "value", "type": "quantitative", "title": unit, "axis": {"format": "~s"}},
                    "color": {
                        "field": "metric", "type": "nominal", "title": null, "scale": {"domain": names, "range": colours},
                    },
                    "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
                    "tooltip": tooltip, "description": {"field": "say"},
                },
            },
            {
                "transform": [{"filter": "isValid(datum.published)"}],
                "mark": {"type": "tick", "thickness": 3, "orient": "horizontal"},
                "encoding": {"y": {"field": "published", "type": "quantitative"}, "tooltip": tooltip},
            },
        ],
    });
    let mut columns = vec![("program".to_owned(), String::new())];
    columns.extend(names.iter().map(|name| ((*name).to_owned(), unit.to_owned())));
    let value = |program: &str, metric: &MetricResult| match program {
        ALL => metric.ours.first().map_or(Value::Null, |value| rounded(*value)),
        _ => {
            metric.by_program.iter().find(|(name, _)| name == program).map_or(Value::Null, |(_, value)| rounded(*value))
        }
    };
    let row = |program: &String| {
        std::iter::once(json!(program)).chain(metrics.iter().map(|metric| value(program, metric))).collect()
    };
    Chart {
        id: format!("{id}-programs"),
        kind: format!("{id}-programs"),
        title: format!("{}: by program, {unit}", result.figure),
        caption: "Ours by program, and over all of them as the paper does it. A black or white stroke is the published number."
            .into(),
        program: None,
        spec: spec(&format!("{}, {}: our numbers by program.", result.figure, result.title), values, body),
        table: Table { columns, rows: programs.iter().map(row).collect() },
    }
}

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
fn lines(result: &FigureResult, id: &str, unit: &str, metrics: &[&MetricResult]) -> Option<Chart> {
    let mut series: Vec<String> = Vec::new();
    let mut values = Vec::new();
    for metric in metrics {
        let Some((of, at)) = place(&metric.name) else { continue };
        if !series.contains(&of) {
            series.push(of.clone());
        }
        let [ours] = metric.ours.as_slice() else { continue };
        values.push(json!({"series": of, "at": at, "value": rounded(*ours), "whose": OURS.0}));
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
    let body = json!({
        "height": 260,
        "encoding": {
            "x": {
                "field": "at", "type": "quantitative", "title": null, "axis": {"values": marks, "grid": false},
                "scale": if log { json!({"type": "log", "base": 2}) } else { json!({}) },
            },
            "color": {"field": "series", "type": "nominal", "title": null, "scale": {"domain": series, "range": colours}},
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
    Some(Chart {
        id: format!("{id}-lines"),
        kind: format!("{id}-lines"),
        title: format!("{}: {unit}", result.figure),
        caption: "Lines are ours. A diamond is a published number, with a bar down to the least of a published range."
            .into(),
        program: None,
        spec: spec(
            &format!("{}, {}: our numbers as lines, published ones as diamonds.", result.figure, result.title),
            values,
            body,
        ),
        table: table(metrics),
    })
}

/// How close numbers are to what is published: within a tenth, within a quarter, further away, and without a
/// published number.
fn closeness<'a>(metrics: impl Iterator<Item = &'a MetricResult>) -> [usize; 4] {
    let mut counts = [0; 4];
    for metric in metrics {
        let at = match (metric.published.as_deref(), metric.ours.as_slice()) {
            (_, []) | (None, _) => 3,
            (Some([published]), [ours]) if *published != 0.0 => match (ours / published - 1.0).abs() {
                away if away <= 0.1 => 0,
                away if away <= 0.25 => 1,
                _ => 2,
            },
            _ => {
                if metric.difference() == "within" {
                    0
                } else {
                    2
                }
            }
        };
        counts[at] += 1;
    }
    counts
}

/// The table that opens the page.
fn summary(results: &[FigureResult]) -> String {
    let mut rows = String::new();
    for result in results {
        let counts =
            closeness(result.metrics.iter()).map(|count| format!("<td class=\"number\">{count}</td>")).concat();
        let missing = if result.missing.is_empty() { String::new() } else { format!("{}", result.missing.len()) };
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td>{counts}<td class=\"number\">{missing}</td></tr>",
            slug(&result.figure),
            escaped(&result.figure),
            escaped(&result.title)
        );
    }
    let all = closeness(results.iter().flat_map(|result| &result.metrics));
    let published: usize = all[..3].iter().sum();
    let quick = if results.iter().all(|result| result.full_size) {
        ""
    } else {
        "<p class=\"caution\">Some figures ran at quick sizes: their numbers are not comparable with the papers'.</p>\n"
    };
    format!(
        "{quick}<p class=\"sentences\">Of {published} published numbers, ours are within a tenth of {}, within a quarter of {} more, and \
         further away from {}.</p>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Figures\"><table>\n<thead><tr>\
         <th scope=\"col\">figure</th><th scope=\"col\">title</th><th scope=\"col\" class=\"number\">within 10%</th>\
         <th scope=\"col\" class=\"number\">within 25%</th><th scope=\"col\" class=\"number\">further away</th>\
         <th scope=\"col\" class=\"number\">not published</th><th scope=\"col\" class=\"number\">runs missing</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n",
        all[0], all[1], all[2]
    )
}

/// The figures of papers on one page, published beside ours, with all notes.
pub fn published_report(results: &[FigureResult], figures: &[&Figure]) -> String {
    let charts: Vec<(usize, Chart)> = results
        .iter()
        .enumerate()
        .flat_map(|(at, result)| charts_of(result, form(result, figures)).into_iter().map(move |chart| (at, chart)))
        .collect();
    let mut sections = vec![Section { id: "answer".into(), heading: "All figures".into(), html: summary(results) }];
    for (at, result) in results.iter().enumerate() {
        let paper = result.figure.split('/').next().unwrap_or(&result.figure);
        let own: Vec<Chart> = charts.iter().filter(|(of, _)| *of == at).map(|(_, chart)| chart.clone()).collect();
        let size = if result.full_size { "" } else { " (quick sizes: not the paper's)" };
        let mut html = format!(
            "<article id=\"{}\">\n<h3>{}: {}{size}</h3>\n{}",
            slug(&result.figure),
            escaped(&result.figure),
            escaped(&result.title),
            places(&own, 4)
        );
        let notes =
            result.metrics.iter().filter_map(|metric| Some(format!("{}: {}", metric.name, metric.note.as_ref()?)));
        let notes: Vec<String> =
            notes.chain(result.notes.clone()).chain(result.remarks.clone()).chain(result.note.clone()).collect();
        let missing: Vec<String> = result.missing.iter().map(|missing| format!("Missing: {missing}")).collect();
        html.push_str(&list("caution", &missing));
        html.push_str(&list("more", &notes));
        html.push_str("</article>\n");
        match sections.last_mut().filter(|section| section.heading == paper) {
            Some(section) => section.html.push_str(&html),
            None => sections.push(Section { id: format!("paper-{}", slug(paper)), heading: paper.to_owned(), html }),
        }
    }
    let charts: Vec<Chart> = charts.into_iter().map(|(_, chart)| chart).collect();
    let lead = match results.len() {
        1 => "One figure, published numbers beside ours.".to_owned(),
        n => format!("{n} figures, published numbers beside ours."),
    };
    page("The papers' figures, reproduced", &lead, &sections, &chart_data(&charts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, published: Option<f64>, by_program: &[(&str, f64)]) -> MetricResult {
        let mean = by_program.iter().map(|(_, value)| value).sum::<f64>() / by_program.len().max(1) as f64;
        MetricResult {
            name: name.into(),
            unit: "%".into(),
            published: published.map(|value| vec![value]),
            ours: vec![mean],
            by_program: by_program.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            marked: Vec::new(),
            half: Vec::new(),
            source: "Sec. 1".into(),
            note: Some("a <note>".into()),
        }
    }

    fn figure(metrics: Vec<MetricResult>) -> FigureResult {
        FigureResult {
            figure: "paper/fig1".into(),
            title: "shares".into(),
            full_size: true,
            seeds: 1,
            metrics,
            missing: vec!["bfs: <no memory>".into()],
            notes: Vec::new(),
            remarks: Vec::new(),
            note: None,
        }
    }

    #[test]
    fn published_numbers_stand_beside_ours_and_misses_are_counted() {
        let near = metric("near", Some(10.0), &[("a", 8.0), ("b", 12.0)]);
        let far = metric("far", Some(10.0), &[("a", 40.0)]);
        let unsaid = metric("unsaid", None, &[("a", 1.0)]);
        let result = figure(vec![near, far, unsaid]);
        let html = published_report(std::slice::from_ref(&result), &[]);
        assert!(html.contains(
            "Of 2 published numbers, ours are within a tenth of 1, within a quarter of 0 more, and further away from 1."
        ));
        assert!(html.contains("near: a &lt;note&gt;") && html.contains("Missing: bfs: &lt;no memory&gt;"));
        let charts = published_charts(&[result], &[]);
        let ids: Vec<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["paper-fig1-1-programs", "paper-fig1-1-beside"]);
        let of = |whose: &str, name: &str| {
            let values = charts[1].spec["data"]["values"].as_array().unwrap();
            values.iter().find(|v| v["whose"] == whose && v["metric"] == name).map(|v| v["high"].as_f64().unwrap())
        };
        assert_eq!(
            (of("ours", "far"), of("published", "far"), of("published", "unsaid")),
            (Some(40.0), Some(10.0), None)
        );
        assert_eq!(
            charts[0].table.rows,
            [
                vec![json!("a"), json!(8), json!(40), json!(1)],
                vec![json!("b"), json!(12), Value::Null, Value::Null],
                vec![json!("all programs"), json!(10), json!(40), json!(1)],
            ]
        );
    }

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
}
