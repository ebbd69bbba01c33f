//! The page on which translations are stepped through: one HTML file with everything in it.

use super::compact::compact;
use super::details;
use super::draw::Drawing;
use super::flat::flatten;
use super::rows::{Detail, GAP, height, rows};
use super::slide::{outcome, summary};
use super::style;
use crate::page::{embedded, escaped, nonce};
use ambulator_simulator::{Reason, WalkCollection, WalkSteps};
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("../../assets/walks.js");
const STYLE: &str = include_str!("../../assets/walks.css");
const BODY: &str = include_str!("../../assets/walks.html");
/// The width of a picture, in its own units.
const WIDTH: f64 = 640.0;
const EDGE: f64 = 6.0;

/// A design on the page.
#[derive(Clone, Debug)]
pub struct ShownDesign {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The command that shows the translation of an address as text: `{at}` and `{access}` stand for those.
    pub command: String,
}

/// The picture of a translation, for a column of the page.
fn picture(walk: &WalkSteps) -> String {
    let flat = flatten(walk);
    let rows = rows(&flat, WIDTH - 2.0 * EDGE, Detail::All);
    let mut to = Drawing::default();
    let mut y = EDGE;
    for row in &rows {
        row.draw(&mut to, [EDGE, y], WIDTH - 2.0 * EDGE);
        y += row.height + GAP;
    }
    format!(
        "<svg class=\"picture\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
        height(&rows) + 2.0 * EDGE,
        escaped(&format!("The structures that {} touches", walk.design)),
        to.svg
    )
}

/// A translation as the page shows it.
fn walk(walk: &WalkSteps) -> String {
    let steps: String = flatten(walk).iter().map(details::item).collect();
    let data = walk.data.as_ref().map_or(String::new(), |data| format!(" {}", escaped(&data.sentence())));
    format!(
        "<div class=\"sum\" data-cycles=\"{}\" data-loads=\"{}\" data-rounds=\"{}\" data-physical=\"{}\" \
         data-kernel=\"{}\"><p class=\"answer\"><b>{}</b></p><p class=\"cost\">{}</p></div>\
         <p class=\"verdict\">{}{data}</p>{}<ol class=\"steps\">\n{steps}</ol>",
        walk.cycles,
        walk.loads.count,
        walk.loads.rounds,
        walk.physical.as_deref().unwrap_or_default(),
        walk.kernel_cycles,
        escaped(&outcome(walk)),
        escaped(&summary(walk)),
        escaped(&walk.oracle),
        picture(walk),
    )
}

/// Why a translation is on the page, in words.
fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Next => "the program's next access that a TLB misses",
        Reason::First => "the first page of a mapping",
        Reason::Absent => "a page that is not present: a page fault",
        Reason::Page => "a page",
    }
}

/// What the script works on.
fn data(collection: &WalkCollection, designs: &[ShownDesign]) -> Value {
    let places: Vec<Value> = collection
        .places
        .iter()
        .map(|place| {
            let tour = place.reason != Reason::Page;
            json!({
                "at": place.at.to_string(), "access": format!("{:?}", place.access).to_lowercase(),
                "why": reason(place.reason), "tour": tour,
            })
        })
        .collect();
    // Walk by walk, all designs of a place.
    let texts: Vec<String> = collection.places.iter().flat_map(|place| place.walks.iter().map(walk)).collect();
    let areas: Vec<Value> = collection
        .areas
        .iter()
        .map(|area| {
            json!({
                "start": format!("{:#x}", area.start), "end": format!("{:#x}", area.end),
                "kind": area.kind, "rights": area.rights,
            })
        })
        .collect();
    let designs: Vec<Value> = designs
        .iter()
        .map(|design| json!({"name": design.name, "about": design.about, "command": design.command}))
        .collect();
    json!({"designs": designs, "areas": areas, "places": places, "walks": compact(&texts)})
}

/// The page of a collection, whose walks are those of these designs.
pub fn walk_page(collection: &WalkCollection, designs: &[ShownDesign]) -> String {
    let first = collection.places.first().and_then(|place| place.walks.first());
    let program = first.map_or("", |walk| walk.program.as_str());
    let after = first.map_or(0, |walk| walk.after);
    let names: Vec<&str> = designs.iter().map(|design| design.name.as_str()).collect();
    let title = format!("Address translation, step by step: {}", names.join(", "));
    let data = embedded(&data(collection, designs));
    let nonce = nonce(&data);
    let collected = collection.places.len();
    let origin = format!(
        "{collected} translations of {} ({} present pages), after {} instructions, each from the same state of the \
         machine. Steps and cycles are those of the simulated hardware. Ambulator {}.",
        escaped(program),
        collection.present,
        super::grouped(after),
        env!("CARGO_PKG_VERSION")
    );
    let body = BODY.replace("@origin@", &origin).replace("@title@", &escaped(&title));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-{nonce}'; \
         style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{}{}{STYLE}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script nonce=\"{nonce}\">{SCRIPT}</script>\n</body>\n</html>\n",
        escaped(&title),
        style::variables(),
        style::of_page(),
    )
}
