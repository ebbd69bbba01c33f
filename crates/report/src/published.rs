//! The papers' figures as pictures: published beside ours.

mod lines;

use crate::charts::{Chart, Table, rounded, slug, spec};
use crate::page::{Section, chart_data, escaped, figures as places, list, page};
use crate::theme::style;
use ambulator_experiments::{ChartForm, Figure, FigureResult, MetricResult, Reason, WholeNumber};
use lines::lines;
use serde_json::{Value, json};
use std::fmt::Write;

/// Colours of ours and of what is published.
const OURS: (&str, &str) = ("ours", "#0072B2");
const PUBLISHED: (&str, &str) = ("published", "#8C8C8C");
/// And of ours over whole programs.
const WHOLE: (&str, &str) = ("whole programs", "#E69F00");
/// Characters of a line of a metric's name beside its bars.
const LABEL: usize = 34;
/// Numbers that a reason names; it counts further ones.
const NAMED: usize = 4;
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

/// The rule of a 95% interval over seeds, from `from` to `to` along a channel of position, in the colour of
/// text.
fn interval_layer(channel: &str) -> Value {
    let end = format!("{channel}2");
    json!({
        "transform": [{"filter": "isValid(datum.from)"}],
        "mark": {"type": "rule", "strokeWidth": 1.5, "aria": false},
        "encoding": {channel: {"field": "from", "type": "quantitative"}, end: {"field": "to"}},
    })
}

/// Adds the ends of the interval around one number of ours, if it has one.
fn with_interval(mut row: Value, ours: f64, half: Option<&f64>) -> Value {
    if let Some(half) = half {
        row["from"] = rounded(ours - half);
        row["to"] = rounded(ours + half);
    }
    row
}

/// What a caption says of intervals; nothing without any.
fn about_intervals(result: &FigureResult, metrics: &[&MetricResult]) -> String {
    let sampled = |metric: &&MetricResult| metric.whole.as_ref().is_some_and(|whole| !whole.half.is_empty());
    if result.seeds > 1 && metrics.iter().any(|metric| !metric.half.is_empty()) {
        format!(" A thin black or white line is the 95% interval over {} seeds.", result.seeds)
    } else if metrics.iter().any(sampled) || metrics.iter().any(|metric| !metric.half.is_empty()) {
        " A thin black or white line is the 95% interval of what was sampled.".to_owned()
    } else {
        String::new()
    }
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
    let any_interval = metrics.iter().any(|metric| !metric.half.is_empty());
    let any_whole = metrics.iter().any(|metric| metric.whole.is_some());
    let row = |metric: &&MetricResult| {
        let mut row =
            vec![json!(metric.name), metric.published.as_deref().map_or(json!("-"), text), text(&metric.ours)];
        row.extend(any_interval.then(|| if metric.half.is_empty() { json!("-") } else { text(&metric.half) }));
        row.extend(any_whole.then(|| metric.whole.as_ref().map_or(json!("-"), |whole| text(&whole.ours))));
        let half = |whole: &WholeNumber| if whole.half.is_empty() { json!("-") } else { text(&whole.half) };
        row.extend(any_whole.then(|| metric.whole.as_ref().map_or(json!("-"), half)));
        row.extend([json!(metric.difference()), json!(metric.source)]);
        row
    };
    let mut columns: Vec<(String, String)> =
        ["number", "published", "ours", "difference", "said in"].map(|name| (name.to_owned(), String::new())).into();
    let mut at = 3;
    if any_interval {
        columns.insert(at, ("±".to_owned(), "95%".to_owned()));
        at += 1;
    }
    if any_whole {
        columns.insert(at, (WHOLE.0.to_owned(), String::new()));
        columns.insert(at + 1, ("± of whole".to_owned(), "95%".to_owned()));
    }
    Table { columns, rows: metrics.iter().map(row).collect() }
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
        let of_whole = metric.whole.as_ref().map(|whole| &whole.ours);
        let all = [(OURS.0, Some(&metric.ours)), (PUBLISHED.0, metric.published.as_ref()), (WHOLE.0, of_whole)];
        for (whose, numbers) in all {
            let Some([low, high]) = numbers.and_then(|n| Some([*n.first()?, *n.last()?])) else { continue };
            let row = json!({
                "metric": folded(&metric.name), "whose": whose, "low": rounded(low), "high": rounded(high),
                "range": low != high, "difference": metric.difference(), "source": metric.source,
            });
            // The ends of a range each have one.
            let is_one = numbers.is_some_and(|numbers| numbers.len() == 1);
            let half = match whose {
                _ if !is_one => None,
                _ if whose == OURS.0 => metric.half.first(),
                _ if whose == WHOLE.0 => metric.whole.as_ref().and_then(|whole| whole.half.first()),
                _ => None,
            };
            values.push(with_interval(row, high, half));
        }
        let ends = metric.ours.iter().zip(&metric.half).filter(|_| metric.ours.len() > 1);
        let of_end = |(end, half): (&f64, &f64)| {
            with_interval(json!({"metric": folded(&metric.name), "whose": OURS.0}), *end, Some(half))
        };
        values.extend(ends.map(of_end));
    }
    let any_whole = metrics.iter().any(|metric| metric.whole.is_some());
    let mut sorts = vec![PUBLISHED, OURS];
    sorts.extend(any_whole.then_some(WHOLE));
    let mut domain = sorts.clone();
    domain.swap(0, 1);
    let (names, colours): (Vec<&str>, Vec<&str>) = domain.into_iter().unzip();
    let whose = json!({
        "field": "whose", "type": "nominal", "title": null,
        "scale": {"domain": names, "range": colours},
    });
    let tooltip = json!([
        {"field": "metric", "title": "number"}, {"field": "whose"},
        {"field": "low", "title": unit, "format": ",.4~r"}, {"field": "high", "title": "to", "format": ",.4~r"},
        {"field": "difference"}, {"field": "source", "title": "said in"},
    ]);
    let say = format!("datum.metric + ', ' + datum.whose + ': ' + format(datum.high, '.4~r') + ' {unit}'");
    let any_range = values.iter().any(|value| value["range"] == true);
    let any_interval = values.iter().any(|value| value.get("from").is_some());
    let mut body = json!({
        "transform": [{"calculate": say, "as": "say"}],
        "height": {"step": 16, "for": "offset"},
        "encoding": {
            "y": {
                "field": "metric", "type": "nominal", "sort": null, "title": null,
                "axis": {"labelExpr": "split(datum.value, '\\n')", "ticks": false, "domain": false, "labelLimit": 260, "labelPadding": 6},
            },
            "yOffset": {"field": "whose", "sort": sorts.iter().map(|(name, _)| *name).collect::<Vec<_>>()},
        },
        "layer": [
            {
                "transform": [{"filter": "datum.range === false"}],
                "mark": {"type": "bar", "height": {"band": 0.9}},
                "encoding": {
                    "color": whose,
                    "x": {"field": "high", "type": "quantitative", "title": unit, "axis": {"format": "~s"}},
                    "tooltip": tooltip, "description": {"field": "say"},
                },
            },
        ],
    });
    let layers = body["layer"].as_array_mut();
    if let Some(layers) = layers {
        let ranges = any_range.then(|| {
            json!({
            "transform": [{"filter": "datum.range"}],
            "mark": {"type": "rule", "strokeWidth": 4},
            "encoding": {
                "color": whose,
                "x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"},
                "tooltip": tooltip, "description": {"field": "say"},
            },
            })
        });
        layers.extend(ranges.into_iter().chain(any_interval.then(|| interval_layer("x"))));
    }
    Chart {
        id: format!("{id}-beside"),
        kind: format!("{id}-beside"),
        title: format!("{}: published beside ours, {unit}", result.figure),
        caption: format!(
            "The paper's numbers in grey, ours in blue{}. A line in these colours is a range: from the least to the greatest.{}",
            if any_whole { ", ours over whole programs in orange" } else { "" },
            about_intervals(result, metrics)
        ),
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
        for (at, (program, value)) in metric.by_program.iter().enumerate() {
            let program = marked(program);
            if !programs.contains(&program) {
                programs.push(program.clone());
            }
            let row = json!({"group": program, "metric": metric.name, "value": rounded(*value)});
            values.push(with_interval(row, *value, metric.program_half.get(at)));
        }
        let several = metric.by_program.len() > 1;
        let group = if several {
            ALL.to_owned()
        } else {
            metric.by_program.first().map_or(ALL.into(), |(program, _)| marked(program))
        };
        let [ours] = metric.ours.as_slice() else { continue };
        if several {
            let row = json!({"group": ALL, "metric": metric.name, "value": rounded(*ours)});
            values.push(with_interval(row, *ours, metric.half.first()));
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
    let any_interval = values.iter().any(|value| value.get("from").is_some());
    let mut body = json!({
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
    if let Some(layers) = body["layer"].as_array_mut().filter(|_| any_interval) {
        layers.push(interval_layer("y"));
    }
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
        caption: format!(
            "Ours by program, and over all of them as the paper does it. A thick black or white stroke is the published \
             number.{}",
            about_intervals(result, metrics)
        ),
        program: None,
        spec: spec(&format!("{}, {}: our numbers by program.", result.figure, result.title), values, body),
        table: Table { columns, rows: programs.iter().map(row).collect() },
    }
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
        let about = |reason: &Reason| {
            let metrics = result.metrics.iter().filter(|metric| metric.reason.as_ref() == Some(reason));
            let names: Vec<&str> = metrics.map(|metric| metric.name.as_str()).collect();
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = names[..names.len().min(NAMED)].join("; ");
            format!("Not the published number ({}): {named}{more}. {}", reason.cause.name(), reason.why)
        };
        let notes = notes.chain(result.reasons().into_iter().map(about));
        let notes = result.whole_programs().into_iter().chain(notes);
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
    use ambulator_experiments::Cause;

    pub(super) fn metric(name: &str, published: Option<f64>, by_program: &[(&str, f64)]) -> MetricResult {
        let mean = by_program.iter().map(|(_, value)| value).sum::<f64>() / by_program.len().max(1) as f64;
        MetricResult {
            name: name.into(),
            unit: "%".into(),
            published: published.map(|value| vec![value]),
            ours: vec![mean],
            by_program: by_program.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            marked: Vec::new(),
            unmarked: Vec::new(),
            half: Vec::new(),
            program_half: Vec::new(),
            whole: None,
            source: "Sec. 1".into(),
            note: Some("a <note>".into()),
            reason: Some(Reason { cause: Cause::Text, why: "It <cannot> follow.".into() }),
        }
    }

    pub(super) fn figure(metrics: Vec<MetricResult>) -> FigureResult {
        FigureResult {
            figure: "paper/fig1".into(),
            title: "shares".into(),
            full_size: true,
            seeds: 1,
            metrics,
            whole: Vec::new(),
            missing: vec!["bfs: <no memory>".into()],
            notes: Vec::new(),
            remarks: Vec::new(),
            checkpoints: Vec::new(),
            note: None,
        }
    }

    #[test]
    fn numbers_of_whole_programs_stand_beside_those_of_regions() {
        let of = |whole: Option<(f64, f64)>| {
            let number = |(ours, half)| WholeNumber { ours: vec![ours], half: vec![half], ..WholeNumber::default() };
            figure(vec![MetricResult { whole: whole.map(number), ..metric("near", Some(10.0), &[("a", 8.0)]) }])
        };
        let bars = |result: FigureResult| published_charts(&[result], &[]).remove(0);
        let with = bars(of(Some((9.0, 0.5))));
        let values = with.spec["data"]["values"].as_array().unwrap();
        let whole = values.iter().find(|value| value["whose"] == WHOLE.0).unwrap();
        assert_eq!(["high", "from", "to"].map(|name| whole[name].as_f64()), [Some(9.0), Some(8.5), Some(9.5)]);
        assert!(with.caption.contains("whole programs in orange") && with.caption.contains("of what was sampled"));
        let heads: Vec<&str> = with.table.columns.iter().map(|(head, _)| head.as_str()).collect();
        assert_eq!(heads, ["number", "published", "ours", "whole programs", "± of whole", "difference", "said in"]);
        assert_eq!(with.table.rows[0].len(), heads.len());
        let without = bars(of(None));
        assert!(!without.caption.contains("whole") && without.table.columns.len() == 5);
        assert!(!without.spec.to_string().contains(WHOLE.0));
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
        assert!(
            html.contains("Not the published number (text): near; far; unsaid. It &lt;cannot&gt; follow."),
            "{html}"
        );
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
    fn intervals_over_seeds_are_drawn_around_ours() {
        let wide = MetricResult {
            half: vec![2.0],
            program_half: vec![1.0, 0.5],
            ..metric("wide", Some(10.0), &[("a", 8.0), ("b", 12.0)])
        };
        let range =
            MetricResult { ours: vec![1.0, 5.0], half: vec![0.25, 0.5], ..metric("range", None, &[("a", 5.0)]) };
        let all = charts_of(&FigureResult { seeds: 5, ..figure(vec![wide, range]) }, ChartForm::Bars);
        let drawn = |chart: &Chart, channel: &str| {
            let layers = chart.spec["layer"].as_array().unwrap();
            let layer = layers.iter().find(|layer| layer["encoding"][channel]["field"] == "from").expect("a layer");
            assert_eq!(
                (&layer["mark"]["type"], &layer["encoding"][format!("{channel}2")]["field"]),
                (&json!("rule"), &json!("to"))
            );
            assert!(chart.caption.ends_with("the 95% interval over 5 seeds."), "{}", chart.caption);
            let values = chart.spec["data"]["values"].as_array().unwrap().iter();
            let ends = |value: &Value| {
                let of = value.get("whose").or(value.get("group")).unwrap();
                Some(json!([value["metric"], of, value.get("from")?, value["to"]]))
            };
            values.filter_map(ends).collect::<Vec<_>>()
        };
        assert_eq!(
            drawn(&all[0], "y"),
            [json!(["wide", "a", 7, 9]), json!(["wide", "b", 11.5, 12.5]), json!(["wide", "all programs", 8, 12]),]
        );
        assert_eq!(
            drawn(&all[1], "x"),
            [json!(["wide", "ours", 8, 12]), json!(["range", "ours", 0.75, 1.25]), json!(["range", "ours", 4.5, 5.5])]
        );
        assert_eq!((&all[1].table.columns[3].0[..], &all[1].table.rows[0][3]), ("±", &json!(2)));
        let none = charts_of(&figure(vec![metric("none", None, &[("a", 1.0)])]), ChartForm::Bars);
        assert!(!none[0].spec.to_string().contains("from") && !none[0].caption.contains("interval"));
    }
}
