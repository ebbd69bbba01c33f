//! The steps of a translation as a list: everything that is known of each.

use super::flat::Flat;
use super::panel::level;
use crate::page::escaped;
use ambulator_base::watch::{Field, LoadedBytes};
use serde_json::Value;
use std::fmt::Write;

/// A field's value, as a reader wants it.
fn value(field: &Field) -> String {
    match &field.value {
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The words of a load, with those lit that the hardware acts on.
fn words(loaded: &LoadedBytes, touched: &[usize]) -> String {
    let mut html = String::from("<div class=\"words\">");
    for (number, word) in loaded.words.iter().enumerate() {
        let class = if touched.contains(&number) { " class=\"lit\"" } else { "" };
        let _ = write!(html, "<code{class}>{word:016x}</code>");
    }
    html + "</div>"
}

/// Where a load's bytes came from.
fn origin(flat: &Flat<'_>, loaded: &LoadedBytes) -> String {
    let guest = loaded.guest.map_or(String::new(), |guest| format!("guest-physical <code>{guest:#x}</code>, "));
    let row = if loaded.row.is_empty() { String::new() } else { format!(", {}", escaped(&loaded.row)) };
    format!(
        "<p class=\"load\">{} bytes at {guest}<code class=\"at\">{:#x}</code> from <b class=\"level {served}\">{served}</b>\
         {row}, in {} cycles</p>",
        8 * loaded.words.len(),
        loaded.at,
        flat.until - flat.from,
        served = escaped(&loaded.served),
    )
}

/// The item of a step. What its script needs is in its attributes.
pub(super) fn item(flat: &Flat<'_>) -> String {
    let step = flat.step;
    let mut classes = vec!["s"];
    classes.extend(flat.holds.then_some("holds"));
    classes.extend(flat.behind.then_some("behind"));
    classes.extend((step.loaded.is_some()).then_some("loads"));
    let level = match (flat.holds || flat.fault, level(step)) {
        (true, _) => "",
        (false, Some(level)) => level,
        (false, None) if matches!(step.kind, ambulator_base::watch::StepKind::Wait) => "wait",
        (false, None) => "work",
    };
    let mut html = format!(
        "<li class=\"{}\" data-s=\"{}\" data-from=\"{}\" data-until=\"{}\" data-rank=\"{}\" data-level=\"{}\" \
         data-depth=\"{}\"><h4>{}</h4>",
        classes.join(" "),
        flat.number,
        flat.from,
        flat.until,
        flat.rank,
        escaped(level),
        flat.depth,
        escaped(&step.name)
    );
    let time = match (flat.until - flat.from, flat.behind) {
        (0, false) => format!("cycle {}", flat.from),
        (cycles, false) => format!("cycle {}, +{cycles}", flat.from),
        (0, true) => format!("cycle {}, nobody waits", flat.from),
        (cycles, true) => format!("cycle {}, +{cycles}, nobody waits", flat.from),
    };
    let _ = write!(html, "<p class=\"when\">{time}</p>");
    if !step.says.is_empty() {
        let _ = write!(html, "<p class=\"says\">{}</p>", escaped(&step.says));
    }
    if let Some(loaded) = &step.loaded {
        html += &origin(flat, loaded);
        html += &words(loaded, &step.touched);
    }
    if !step.fields.is_empty() {
        html.push_str("<dl>");
        for field in &step.fields {
            let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(&field.name), escaped(&value(field)));
        }
        html.push_str("</dl>");
    }
    if !step.source.is_empty() {
        let _ = write!(html, "<cite>{}</cite>", escaped(&step.source));
    }
    html + "</li>\n"
}
