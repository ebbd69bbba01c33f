//! The page: one HTML file with everything in it.

use crate::answer::Answer;
use crate::cells::cells;
use crate::charts::{Chart, Form, charts};
use crate::study::{Comparison, Study};
use crate::theme::{page_config, plain_config};
use ambulator_experiments::numbered;
use ambulator_simulator::Status;
use serde_json::{Value, json};
use std::fmt::Write;

/// Vega and its kin, as their authors publish them.
const LIBRARIES: [&str; 3] = [
    include_str!("../assets/vega.min.js"),
    include_str!("../assets/vega-lite.min.js"),
    include_str!("../assets/vega-embed.min.js"),
];
const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");

/// Text as HTML.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// JSON that ends no element: in texts, `<`, `>` and `&` are escape sequences.
pub fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The nonce of a page with these data. A script that is none of ours does not know it.
pub fn nonce(data: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(data.as_bytes()))
}

/// A section of a page.
pub struct Section {
    /// Its anchor.
    pub id: String,
    /// Its heading.
    pub heading: String,
    /// Its contents, as HTML.
    pub html: String,
}

/// A page of sections, with figures and data for its script. It requests nothing: its policy forbids that.
pub fn page(title: &str, lead: &str, sections: &[Section], data: &Value) -> String {
    let data = embedded(data);
    let nonce = nonce(&data);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; \
         base-uri 'none'; form-action 'none'"
    );
    let mut html = String::with_capacity(data.len() + 900_000);
    let mut put = |text: &str| html.push_str(text);
    put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n"));
    put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    put("<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n");
    put(&format!("<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n", escaped(title)));
    put("<a class=\"skip\" href=\"#main\">Skip to the contents</a>\n");
    put(&format!(
        "<header>\n<h1>{}</h1>\n<p>{lead}</p>\n</header>\n<nav aria-label=\"Sections\"><ul>\n",
        escaped(title)
    ));
    for Section { id, heading, .. } in sections {
        put(&format!("<li><a href=\"#{id}\">{heading}</a></li>\n"));
    }
    put("</ul></nav>\n<main id=\"main\" tabindex=\"-1\">\n");
    put("<noscript><p class=\"caution\">Figures, comparisons of runs and specs need JavaScript.</p></noscript>\n");
    for Section { id, heading, html } in sections {
        put(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{heading}</h2>\n{html}</section>\n"
        ));
    }
    put("</main>\n");
    put(&format!("<script type=\"application/json\" id=\"data\">{data}</script>\n"));
    for script in LIBRARIES.iter().chain([&SCRIPT]) {
        put(&format!("<script nonce=\"{nonce}\">{script}</script>\n"));
    }
    put("</body>\n</html>\n");
    html
}

/// The data of figures for the page's script.
pub fn chart_data(charts: &[Chart]) -> Value {
    json!({"charts": charts, "config": page_config(), "plain": plain_config()})
}

/// Places for figures, one for each kind, under headings of this level: with several programs, the reader
/// chooses one.
pub fn figures(charts: &[Chart], level: u32) -> String {
    let mut html = String::new();
    let mut kinds: Vec<&str> = Vec::new();
    for chart in charts {
        if kinds.contains(&chart.kind.as_str()) {
            continue;
        }
        kinds.push(&chart.kind);
        let (kind, title, caption) = (&chart.kind, escaped(&chart.title), escaped(&chart.caption));
        let _ = writeln!(
            html,
            "<figure id=\"figure-{kind}\" data-kind=\"{kind}\" aria-labelledby=\"figure-{kind}-h\">\n\
             <h{level} id=\"figure-{kind}-h\">{title}</h{level}>\n<figcaption>{caption}</figcaption>"
        );
        let of_kind: Vec<&Chart> = charts.iter().filter(|other| other.kind == *kind).collect();
        if of_kind.len() > 1 {
            let _ = write!(html, "<p class=\"controls\"><label>Program <select data-choose=\"{kind}\">");
            for chart in of_kind {
                let program = escaped(chart.program.as_deref().unwrap_or_default());
                let _ = write!(html, "<option value=\"{}\">{program}</option>", chart.id);
            }
            html.push_str("</select></label></p>\n");
        }
        let _ = writeln!(
            html,
            "<div class=\"plot\"></div>\n<details class=\"table\"><summary>The numbers as a table</summary></details>\n\
             <p class=\"controls\"><button type=\"button\" data-save=\"svg\">Save as SVG</button> \
             <button type=\"button\" data-save=\"vl\">Save as Vega-Lite</button></p>\n</figure>"
        );
    }
    html
}

/// Sentences as a list; nothing if there are none.
pub fn list(class: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|sentence| format!("<li>{}</li>\n", escaped(sentence))).collect();
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

/// The speed-ups of a comparison as a table.
fn speed_ups(study: &Study, comparison: &Comparison) -> String {
    let mut rows = String::new();
    for design in comparison.designs.iter().skip(1) {
        let name = escaped(&design.name);
        let bound = if study.is_idealised(&design.run) { " <span class=\"tag\">a bound</span>" } else { "" };
        let cells = match study.speed_up(comparison, design) {
            Some(speed_up) => {
                let interval = speed_up.interval().unwrap_or_else(|| "the region is too short".into());
                let reading = match (speed_up.differs(), speed_up.ratio > 1.0) {
                    (false, _) => "no difference",
                    (true, true) => "faster",
                    (true, false) => "slower",
                };
                let class = reading.replace(' ', "-");
                format!(
                    "<td class=\"number\">{:.3}</td><td class=\"number\">{interval}</td><td class=\"{class}\">{reading}</td>",
                    speed_up.ratio
                )
            }
            None => "<td class=\"number\">-</td><td class=\"number\">-</td><td>not measured</td>".to_owned(),
        };
        let _ = writeln!(rows, "<tr data-design=\"{name}\"><th scope=\"row\">{name}{bound}</th>{cells}</tr>");
    }
    if rows.is_empty() {
        return rows;
    }
    let base = escaped(&comparison.designs[0].name);
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Speed-ups, {}\"><table>\n<thead><tr>\
         <th scope=\"col\">design</th><th scope=\"col\" class=\"number\">times as fast as {base}</th>\
         <th scope=\"col\" class=\"number\">95% interval</th><th scope=\"col\">reading</th></tr></thead>\n<tbody>\n{rows}\
         </tbody></table></div>\n",
        escaped(&comparison.label)
    )
}

/// The answers, one for each comparison.
fn answers(study: &Study) -> String {
    let mut html = String::new();
    for comparison in &study.comparisons {
        let answer = Answer::of(study, comparison);
        let label = escaped(&comparison.label);
        let _ = writeln!(html, "<article class=\"answer\" data-program=\"{label}\">\n<h3>{label}</h3>");
        let _ = writeln!(html, "<p class=\"sentences\">{}</p>", escaped(&answer.sentences()));
        html.push_str(&list("more", &answer.sampling));
        html.push_str(&list("caution", &answer.ended));
        html.push_str(&list("caution", &answer.cautions));
        let table = speed_ups(study, comparison);
        let more = list("more", &answer.more);
        if !table.is_empty() || !more.is_empty() {
            let _ = write!(html, "<details><summary>Each design on {label}</summary>\n{table}{more}</details>\n");
        }
        html.push_str("</article>\n");
    }
    html
}

/// How the page was made.
fn origin(study: &Study) -> String {
    let mut html = String::new();
    if !study.commands.is_empty() {
        let commands: Vec<String> = study.commands.iter().map(|command| escaped(command)).collect();
        let _ = writeln!(
            html,
            "<p>The runs were made by</p>\n<pre class=\"wide\" tabindex=\"0\"><code>{}</code></pre>",
            commands.join("\n")
        );
    }
    let mut versions: Vec<&str> = study.cells.iter().map(|cell| cell.run.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let checked: u64 = study.cells.iter().map(|cell| cell.run.checked_translations).sum();
    let _ = writeln!(
        html,
        "<p>Version {} of Ambulator. The oracle checked {} translations.</p>",
        escaped(&versions.join(", ")),
        ambulator_experiments::count(checked as f64)
    );
    html.push_str(&list("more", &study.notes));
    html
}

/// Filters for all figures: which designs, and if there are several, which programs.
fn filters(study: &Study) -> String {
    let designs = study.design_names();
    let boxes = |legend: &str, filter: &str, names: &[&str]| {
        if names.len() < 2 {
            return String::new();
        }
        let one = |name: &&str| {
            let name = escaped(name);
            format!(
                "<label><input type=\"checkbox\" data-filter=\"{filter}\" value=\"{name}\" checked> {name}</label>\n"
            )
        };
        format!("<fieldset><legend>{legend}</legend>\n{}</fieldset>\n", names.iter().map(one).collect::<String>())
    };
    let programs: Vec<&str> = study.comparisons.iter().map(|comparison| comparison.label.as_str()).collect();
    let boxes =
        boxes("Designs in the figures", "design", &designs) + &boxes("Programs in the figures", "program", &programs);
    if boxes.is_empty() {
        boxes
    } else {
        format!("<details class=\"filters\"><summary>Choose designs and programs</summary>\n{boxes}</details>\n")
    }
}

/// Two runs side by side, and the spec of one: filled in by the script.
const PAIR: &str = "<p class=\"controls\"><label>First run <select id=\"first-run\"></select></label> \
    <label>Second run <select id=\"second-run\"></select></label></p>\n\
    <h3>Settings that differ</h3>\n<div id=\"pair-settings\" class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Settings that differ\"></div>\n\
    <h3>Counters, largest relative difference first</h3>\n\
    <p class=\"controls\"><label>Only names with <input id=\"pair-search\" type=\"search\" placeholder=\"mmu.walk\"></label> \
    <label><input id=\"pair-all\" type=\"checkbox\"> also those that are equal</label></p>\n\
    <p id=\"pair-count\" role=\"status\"></p>\n\
    <div id=\"pair-counters\" class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Counters of both runs\"></div>\n\
    <p class=\"controls\"><button type=\"button\" id=\"pair-more\">Show all of them</button></p>\n";
const SPEC: &str = "<p>Every setting of a run, as a file that <code>--spec</code> reads.</p>\n\
    <p class=\"controls\"><label>Run <select id=\"spec-run\"></select></label> \
    <label>Only names with <input id=\"spec-search\" type=\"search\" placeholder=\"mmu.l2_tlb\"></label> \
    <button type=\"button\" id=\"spec-save\">Save as TOML</button></p>\n\
    <pre id=\"spec-text\" class=\"wide tall\" tabindex=\"0\" role=\"region\" aria-label=\"Spec\"></pre>\n";

/// The report of a study, as one HTML file.
pub fn report(study: &Study) -> String {
    let charts = charts(study, Form::Page);
    let mut data = chart_data(&charts);
    data["cells"] = cells(study);
    let done = study.cells.iter().filter(|cell| cell.run.status == Status::Done).count();
    let failed = study.cells.len() - done;
    let bounds = study.cells.iter().filter(|cell| cell.is_bound).count();
    let unfinished = if failed > 0 { format!(", {failed} without an end") } else { String::new() };
    let bounds = if bounds > 0 { format!(" ({bounds} of them bounds)") } else { String::new() };
    let lead = format!(
        "{}{bounds}{unfinished}, {}. All quantities are of the simulated machine.",
        numbered(study.cells.len(), "run"),
        numbered(study.comparisons.len(), "comparison")
    );
    let sections = [
        Section { id: "answer".into(), heading: "The answer".into(), html: answers(study) },
        Section { id: "figures".into(), heading: "Figures".into(), html: filters(study) + &figures(&charts, 3) },
        Section { id: "pair".into(), heading: "Two runs side by side".into(), html: PAIR.to_owned() },
        Section { id: "spec".into(), heading: "The whole spec".into(), html: SPEC.to_owned() },
        Section { id: "origin".into(), heading: "How this was made".into(), html: origin(study) },
    ];
    page("Address translation, compared", &lead, &sections, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::cell;

    #[test]
    fn texts_of_results_are_no_markup() {
        let hostile = "</script><b>\"'&";
        let mut cells = vec![cell(hostile, "radix", 1000), cell(hostile, hostile, 500)];
        cells.push(cell(hostile, "thp", 400));
        cells[2].run.status = Status::Failed;
        cells[2].run.outcome = Some(hostile.into());
        cells[0].run.spec = json!({"note": hostile});
        let mut study = Study::new(cells);
        study.commands = vec![hostile.into()];
        study.notes = vec![hostile.into()];
        let html = report(&study);
        assert!(!html.contains("<b>"), "a text of the results is markup");
        // Three libraries, the page's own script, and the data.
        assert_eq!(html.matches("</script>").count(), 5);
        assert!(
            html.contains("&lt;/script&gt;&lt;b&gt;&quot;&#39;&amp;")
                && html.contains("\\u003c/script\\u003e\\u003cb\\u003e")
        );
    }

    #[test]
    fn the_page_may_load_nothing_and_runs_only_its_own_scripts() {
        let html = report(&Study::new(vec![cell("gups", "radix", 1000), cell("gups", "thp", 500)]));
        assert!(html.contains("default-src 'none'; script-src 'nonce-"));
        let head = &html[..html.find("<script").unwrap()];
        for loads in ["src=", "http:", "https:", "@import", "url("] {
            assert!(!head.contains(loads), "{loads}");
        }
        assert!(html.contains("2.000") && html.contains("Best: thp, 2.000 times as fast as radix"));
    }
}
