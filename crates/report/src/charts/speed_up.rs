//! Speed-ups with their intervals.

use super::rows::{axis, object, rows};
use super::{Chart, Form, Table, ids, rounded, spec};
use crate::study::{Comparison, Study};
use crate::theme::{OUTCOMES, style};
use ambulator_experiments::SpeedUp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A speed-up in words, as figures, tables and answers have them.
fn outcome(speed_up: &SpeedUp) -> &'static str {
    let faster = if speed_up.ratio > 1.0 { 0 } else { 1 };
    OUTCOMES[if speed_up.differs() { faster } else { 2 }].0
}

/// The speed-ups of a comparison, by design, without the baseline's.
fn of_comparison<'a>(study: &'a Study, comparison: &'a Comparison) -> impl Iterator<Item = (&'a str, SpeedUp)> {
    let others = comparison.designs.iter().skip(1);
    others.filter_map(|design| Some((design.name.as_str(), study.speed_up(comparison, design)?.0)))
}

/// Speed-ups over the first design of each comparison: bars from 1 on.
pub fn speed_up(study: &Study, form: Form) -> Option<Chart> {
    let mut table = Table {
        columns: [
            ("program", ""),
            ("design", ""),
            ("over", ""),
            ("speed-up", "x"),
            ("interval", "95%"),
            ("reading", ""),
        ]
        .map(|(name, unit)| (name.to_owned(), unit.to_owned()))
        .into(),
        rows: Vec::new(),
    };
    let values = rows(study, "speed_up", 1.0, |comparison, run| {
        let Some((_, speed_up)) = of_comparison(study, comparison).find(|(name, _)| *name == run.design) else {
            return Vec::new();
        };
        let base = &comparison.designs[0].name;
        let half = speed_up.half.unwrap_or(0.0);
        let (low, high) = ((speed_up.ratio - half).max(0.0), speed_up.ratio + half);
        let interval = speed_up.interval().unwrap_or_else(|| "too short for one".into());
        let reading = outcome(&speed_up);
        table.rows.push(vec![
            json!(comparison.label),
            json!(run.design),
            json!(base),
            rounded(speed_up.ratio),
            json!(interval),
            json!(reading),
        ]);
        vec![object([
            ("speed_up", rounded(speed_up.ratio)),
            ("low", rounded(low)),
            ("high", rounded(high)),
            ("over", json!(base)),
            ("interval", json!(interval)),
            ("reading", json!(reading)),
        ])]
    });
    if table.rows.is_empty() {
        return None;
    }
    let bases: Vec<&str> = study.comparisons.iter().map(|one| one.designs[0].name.as_str()).collect();
    let one_base = bases.iter().all(|base| *base == bases[0]);
    let over = if one_base { bases[0].to_owned() } else { "the first design".into() };
    let title = format!("times as fast as {over}");
    let tooltip = json!([
        {"field": "program"}, {"field": "design"}, {"field": "over"},
        {"field": "speed_up", "title": "speed-up", "format": ".3f"},
        {"field": "interval", "title": "95% interval"}, {"field": "reading"},
    ]);
    let say = "datum.program + ', ' + datum.design + ': ' + format(datum.speed_up, '.3f') + ' times as fast as ' + \
               datum.over + ', 95% interval ' + datum.interval";
    let body = match form {
        Form::Page => page(&title, &tooltip, say),
        Form::Paper => paper(study, &title, &tooltip),
    };
    let values =
        if form == Form::Page { values } else { values.into_iter().filter(|v| v["design"].is_string()).collect() };
    let description = format!("Speed-up of each design over {over}, with its 95% interval, by program.");
    Some(Chart {
        id: "speed-up".into(),
        kind: "speed-up".into(),
        title: "Speed-up".into(),
        caption: format!(
            "Bars to the right of 1 are faster than {over}, bars to the left slower. Lines are 95% intervals. A grey bar is \
             no difference: its interval contains 1."
        ),
        program: None,
        spec: spec(&description, values, body),
        table,
    })
}

/// Bars that lie, in the colour of their reading.
fn page(title: &str, tooltip: &Value, say: &str) -> Value {
    let (domain, range): (Vec<&str>, Vec<&str>) = OUTCOMES.into_iter().unzip();
    let x = json!({
        "field": "speed_up", "type": "quantitative", "title": title, "scale": {"zero": false, "nice": true},
        "axis": {
            "format": ".4~r",
            "gridWidth": {"condition": {"test": "datum.value == 1", "value": 2}, "value": 1},
            // Between ink and paper, whatever these are.
            "gridOpacity": {"condition": {"test": "datum.value == 1", "value": 1}, "value": 0.6},
        },
    });
    json!({
        "transform": [{"calculate": say, "as": "say"}],
        "height": {"step": 22},
        "encoding": {"y": axis()},
        "layer": [
            {
                "mark": {"type": "bar", "height": {"band": 0.62}},
                "encoding": {
                    "x": x, "x2": {"datum": 1},
                    "color": {
                        "field": "reading", "type": "nominal", "title": null,
                        "scale": {"domain": domain, "range": range}, "legend": {"columns": 1},
                    },
                    "tooltip": tooltip, "description": {"field": "say"},
                },
            },
            {
                "transform": [{"filter": "isValid(datum.design)"}],
                "mark": {"type": "rule", "strokeWidth": 1.5, "aria": false},
                "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
            },
            {
                "transform": [{"filter": "isValid(datum.design)"}, {"calculate": "max(datum.high, 1)", "as": "end"}],
                "mark": {"type": "text", "align": "left", "dx": 5, "aria": false},
                "encoding": {
                    "x": {"field": "end", "type": "quantitative"},
                    "text": {"field": "speed_up", "type": "quantitative", "format": ".3f"},
                },
            },
        ],
    })
}

/// Bars that stand, in groups of a program, in the colour of their design.
fn paper(study: &Study, title: &str, tooltip: &Value) -> Value {
    let designs = design_names(study);
    let range: Vec<&str> = (0..designs.len()).map(|number| style(number).0).collect();
    let x = json!({
        "field": "program", "type": "nominal", "sort": null, "title": null,
        "axis": {"labelAngle": if study.comparisons.len() > 4 { -30 } else { 0 }, "ticks": false, "grid": false},
    });
    let x_offset = json!({"field": "design", "type": "nominal", "sort": designs});
    json!({
        "height": 130,
        "encoding": {"x": x, "xOffset": x_offset},
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {
                    "y": {
                        "field": "speed_up", "type": "quantitative", "title": title, "scale": {"zero": false},
                        "axis": {"format": ".4~r", "tickCount": 5},
                    },
                    "y2": {"datum": 1},
                    "color": {
                        "field": "design", "type": "nominal", "title": null,
                        "scale": {"domain": designs, "range": range},
                    },
                    "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "rule"},
                "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
            },
        ],
    })
}

/// Names of the designs that are compared with a first one, in the order of the comparisons.
fn design_names(study: &Study) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for design in study.comparisons.iter().flat_map(|comparison| comparison.designs.iter().skip(1)) {
        if !names.contains(&design.name.as_str()) {
            names.push(&design.name);
        }
    }
    names
}

/// The one numeric setting in which the comparisons of a program differ, with its value in each; `None` if
/// there is none, or more than one.
fn swept<'a>(study: &Study, comparisons: &[&'a Comparison]) -> Option<(String, Vec<(f64, &'a Comparison)>)> {
    let sets: Vec<&BTreeMap<String, Value>> =
        comparisons.iter().map(|comparison| &study.cells[comparison.designs[0].cells[0]].set).collect();
    let keys: Vec<&String> = sets.iter().flat_map(|set| set.keys()).collect();
    let mut varied = keys.into_iter().filter(|key| sets.iter().any(|set| set.get(*key) != sets[0].get(*key)));
    let key = varied.next()?;
    if varied.any(|other| other != key) {
        return None;
    }
    let value = |set: &BTreeMap<String, Value>| set.get(key).and_then(Value::as_f64);
    let mut points = Vec::new();
    for (set, comparison) in sets.iter().zip(comparisons) {
        points.push((value(set)?, *comparison));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some((key.clone(), points))
}

/// Instructions per cycle over the one setting that a sweep varies: lines, one figure a program.
pub fn over_setting(study: &Study) -> Vec<Chart> {
    let mut programs: Vec<(String, Vec<&Comparison>)> = Vec::new();
    for comparison in &study.comparisons {
        let run = study.run(comparison.designs[0].cells[0]);
        let key = format!("{} ({})", run.program, ambulator_experiments::bytes(run.identity.footprint as f64));
        match programs.iter_mut().find(|(known, _)| *known == key) {
            Some((_, all)) => all.push(comparison),
            None => programs.push((key, vec![comparison])),
        }
    }
    let swept: Vec<(String, String, Vec<(f64, &Comparison)>)> = programs
        .into_iter()
        .filter(|(_, comparisons)| comparisons.len() > 1)
        .filter_map(|(program, comparisons)| swept(study, &comparisons).map(|(key, points)| (program, key, points)))
        .collect();
    let names: Vec<&str> = swept.iter().map(|(program, ..)| program.as_str()).collect();
    let ids = ids("over-setting", &names);
    let chart = |((program, key, points), id): (&(String, String, Vec<(f64, &Comparison)>), String)| {
        let mut designs: Vec<&str> = Vec::new();
        let (mut values, mut rows) = (Vec::new(), Vec::new());
        for (setting, comparison) in points {
            for run in study.shown_runs(comparison).into_iter().filter(|run| run.ipc > 0.0) {
                if !designs.contains(&run.design.as_str()) {
                    designs.push(&run.design);
                }
                values.push(json!({"design": run.design, "setting": rounded(*setting), "ipc": rounded(run.ipc)}));
                rows.push(vec![json!(program), json!(run.design), rounded(*setting), rounded(run.ipc)]);
            }
        }
        let columns = [("program", ""), ("design", ""), (key.as_str(), ""), ("instructions per cycle", "")];
        let mut body = lines(&designs, "setting", key, "ipc", "instructions per cycle", true);
        body["encoding"]["x"]["axis"] =
            json!({"values": points.iter().map(|(at, _)| rounded(*at)).collect::<Vec<_>>()});
        Chart {
            id,
            kind: "over-setting".into(),
            title: "Speed over a setting".into(),
            caption: format!("Instructions per cycle of each design, by `{key}`."),
            program: Some(program.clone()),
            spec: spec(
                &format!("Instructions per cycle by {key}, a line for each design, on {program}."),
                values,
                body,
            ),
            table: Table { columns: columns.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into(), rows },
        }
    };
    swept.iter().zip(ids).map(chart).collect()
}

/// A line for each design.
pub fn lines(designs: &[&str], x: &str, x_title: &str, y: &str, y_title: &str, log: bool) -> Value {
    let (colours, dashes): (Vec<&str>, Vec<[u32; 2]>) = (0..designs.len()).map(style).unzip();
    json!({
        "height": 260,
        "params": [{"name": "picked", "select": {"type": "point", "fields": ["design"]}, "bind": "legend"}],
        "mark": {"type": "line", "point": {"size": 14}, "interpolate": "linear"},
        "encoding": {
            "x": {
                "field": x, "type": "quantitative", "title": x_title,
                "scale": if log { json!({"type": "log", "nice": false}) } else { json!({"nice": false}) },
                "axis": {"labelOverlap": true, "format": "~s", "grid": false},
            },
            "y": {"field": y, "type": "quantitative", "title": y_title, "axis": {"format": "~s"}},
            "color": {
                "field": "design", "type": "nominal", "title": null, "scale": {"domain": designs, "range": colours},
                "legend": {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 3},
            },
            "strokeDash": {
                "field": "design", "type": "nominal", "title": null, "scale": {"domain": designs, "range": dashes},
                "legend": null,
            },
            "strokeOpacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
            "tooltip": [
                {"field": "design"}, {"field": x, "title": x_title, "format": ",.6~r"},
                {"field": y, "title": y_title, "format": ",.4~r"},
            ],
        },
    })
}
