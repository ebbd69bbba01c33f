//! A slide: one translation as a picture of its own, 1280 by 720.

use super::draw::{Drawing, Font, fitting};
use super::flat::flatten;
use super::rows::{Detail, GAP, Row, height, rows};
use super::style;
use super::timeline::Timeline;
use crate::page::escaped;
use ambulator_simulator::{WalkEnd, WalkSteps};

const WIDTH: f64 = 1280.0;
const HEIGHT: f64 = 720.0;
const EDGE: f64 = 24.0;
/// Below the design's name and the addresses.
const HEAD: f64 = 92.0;
const FOOT: f64 = 22.0;
/// The width of a column of rows, before it is scaled.
const COLUMN: f64 = 620.0;
const BETWEEN: f64 = 22.0;
/// The largest enlargement.
const LARGEST: f64 = 1.3;

/// Rows in at most `columns` of at most `room` each, in their order; `None` if they do not fit.
fn fill<'r, 'w>(rows: &'r [Row<'w>], room: f64, columns: usize) -> Option<Vec<&'r [Row<'w>]>> {
    let (mut all, mut begin, mut used) = (Vec::new(), 0, 0.0);
    for at in 0..rows.len() {
        // A heading at a column's end goes to the next one, with its first row.
        let needed = match rows[at].is_heading() {
            true => height(&rows[at..(at + 2).min(rows.len())]),
            false => rows[at].height,
        };
        if at > begin && used + needed > room {
            all.push(&rows[begin..at]);
            (begin, used) = (at, 0.0);
        }
        used += rows[at].height + GAP;
    }
    all.push(&rows[begin..]);
    let fits = all.len() <= columns && all.iter().all(|column| height(column) <= room);
    fits.then_some(all)
}

/// The columns of rows that can be drawn largest, and their scale.
fn columns<'r, 'w>(rows: &'r [Row<'w>], [width, tall]: [f64; 2]) -> (Vec<&'r [Row<'w>]>, f64) {
    let mut best: (Vec<&[Row<'_>]>, f64) = (vec![rows], (tall / height(rows).max(1.0)).min(0.3));
    for count in 1..=6 {
        let widest = (width + BETWEEN) / (count as f64 * (COLUMN + BETWEEN));
        let mut scale = widest.min(LARGEST);
        while scale > best.1 {
            if let Some(filled) = fill(rows, tall / scale, count) {
                best = (filled, scale);
                break;
            }
            scale *= 0.97;
        }
    }
    best
}

/// A translation in a sentence: what it cost.
pub(super) fn summary(walk: &WalkSteps) -> String {
    let loads = match (walk.loads.count, walk.loads.rounds) {
        (0, _) => "no load".to_owned(),
        (1, _) => format!("1 load ({})", walk.loads.served()),
        (count, rounds) => format!("{count} loads ({}), {rounds} in a chain", walk.loads.served()),
    };
    let kernel = if walk.kernel_cycles > 0 { format!(", kernel {} cycles", walk.kernel_cycles) } else { String::new() };
    format!("{} cycles, {loads}{kernel}", walk.cycles)
}

/// The end of a translation, after the address.
pub(super) fn outcome(walk: &WalkSteps) -> String {
    match (&walk.end, &walk.physical) {
        (WalkEnd::Translated, Some(physical)) => format!("→ {physical}"),
        (WalkEnd::Translated, None) => "→ in the caches".to_owned(),
        (WalkEnd::SegmentationFault(_), _) => "→ segmentation fault".to_owned(),
        (WalkEnd::Failed(_), _) => "→ no translation".to_owned(),
    }
}

/// A translation as a slide, 16 to 9, on white: an SVG file that stands alone.
pub fn walk_slide(walk: &WalkSteps) -> String {
    let flat = flatten(walk);
    let timeline = Timeline::new(&flat, walk.cycles);
    let rows = rows(&flat, COLUMN, Detail::Slide);
    let inner = WIDTH - 2.0 * EDGE;
    let time_top = HEIGHT - FOOT - EDGE / 2.0 - timeline.height().min(150.0);
    let (columns, scale) = columns(&rows, [inner, time_top - HEAD - 14.0]);
    let mut to = Drawing::default();
    to.rect("page", [0.0, 0.0, WIDTH, HEIGHT]);
    let title = fitting(&walk.design, Font::Title, inner / 2.4);
    let heading = |class: &str, at: [f64; 2], anchor: &str, text: &str| {
        format!("<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>", at[0], at[1], escaped(text))
    };
    to.svg += &heading("h1", [EDGE, 46.0], "", &title);
    let address = format!("{} {} {}", walk.access, walk.address, outcome(walk));
    to.svg += &heading("h3", [EDGE, 76.0], "", &address);
    to.svg += &heading("h2", [WIDTH - EDGE, 46.0], " text-anchor=\"end\"", &summary(walk));
    let used = columns.len() as f64 * (COLUMN + BETWEEN) - BETWEEN;
    to.open(&format!(
        "transform=\"translate({:.1} {HEAD}) scale({scale:.4})\"",
        EDGE + (inner - used * scale).max(0.0) / 2.0
    ));
    for (number, column) in columns.iter().enumerate() {
        let (x, mut y) = ((COLUMN + BETWEEN) * number as f64, 0.0);
        for row in *column {
            row.draw(&mut to, [x, y], COLUMN);
            y += row.height + GAP;
        }
    }
    to.close();
    // Many lanes are drawn less high.
    let squeeze = (150.0 / timeline.height()).min(1.0);
    to.open(&format!("transform=\"translate({EDGE} {time_top:.1}) scale(1 {squeeze:.4})\""));
    timeline.draw(&mut to, [0.0, 0.0], inner, timeline.end());
    to.close();
    let source =
        format!("{}, after {} instructions. Ambulator {}", walk.program, walk.after, env!("CARGO_PKG_VERSION"));
    to.text(Font::Small, [EDGE, HEIGHT - 12.0], inner, &source);
    legend(&mut to);
    let label = escaped(&format!("{}: {} of {}, {}", walk.design, walk.access, walk.address, summary(walk)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\">\n<title>{label}</title>\n<style>\n{}</style>\n{}\n</svg>\n",
        style::of_file(),
        to.svg
    )
}

/// What the colours mean.
fn legend(to: &mut Drawing) {
    let entries =
        [("L1", "L1"), ("L2", "L2"), ("LLC", "LLC"), ("DRAM", "DRAM"), ("work", "hardware"), ("lit", "touched")];
    let mut x = WIDTH - EDGE - 78.0 * entries.len() as f64;
    for (class, name) in entries {
        to.rect(class, [x, HEIGHT - 21.0, 14.0, 11.0]);
        to.text(Font::Small, [x + 19.0, HEIGHT - 12.0], 60.0, name);
        x += 78.0;
    }
}
