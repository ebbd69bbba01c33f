//! The steps of a translation in rows: what is in flight together is side by side.

use super::draw::{Drawing, Font, width_of};
use super::flat::Flat;
use super::panel::Panel;
use ambulator_base::watch::StepKind;

/// Between panels and rows.
pub(super) const GAP: f64 = 8.0;
/// What a step inside of another is moved to the right by.
const INDENT: f64 = 14.0;
/// The width that a panel of several in a row should have.
const NARROW: f64 = 185.0;
const HEADING: f64 = 24.0;
/// The height of a line that stands for several steps.
const SUMMARY: f64 = 30.0;

/// How much of the steps is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Every step.
    All,
    /// What a slide has room for: TLBs that miss together are one line, and so are refills.
    Slide,
}

/// A row of a picture.
pub(super) struct Row<'w> {
    /// Its height.
    pub(super) height: f64,
    left: f64,
    kind: Kind<'w>,
}

enum Kind<'w> {
    /// A step whose steps follow.
    Heading(&'w Flat<'w>),
    /// A sentence that stands for these steps.
    Summary(String, Vec<&'w Flat<'w>>),
    /// Panels side by side.
    Panels(Vec<Panel<'w>>),
}

/// The rows of steps, for a width.
pub(super) fn rows<'w>(flat: &'w [Flat<'w>], width: f64, detail: Detail) -> Vec<Row<'w>> {
    let mut rows = Vec::new();
    let mut at = 0;
    while let Some(step) = flat.get(at) {
        let left = INDENT * step.depth as f64;
        if step.holds {
            rows.push(Row { height: HEADING, left, kind: Kind::Heading(step) });
            at += 1;
            continue;
        }
        let run = |is: &dyn Fn(&Flat<'w>) -> bool| flat[at..].iter().take_while(|next| is(next) && !next.holds).count();
        let (misses, refills) = (run(&|step| step.is_tlb_miss()), run(&|step| step.is_refill()));
        if detail == Detail::Slide && (misses > 1 || refills > 0) {
            let of: Vec<&Flat<'_>> = flat[at..at + misses.max(refills)].iter().collect();
            let text = if misses > 0 { missed(&of) } else { refilled(&of) };
            at += of.len();
            rows.push(Row { height: SUMMARY, left, kind: Kind::Summary(text, of) });
            continue;
        }
        let group = together(&flat[at..]);
        // As many panels in a row as are wide enough.
        let room = width - left;
        let fit = ((room + GAP) / (NARROW + GAP)).floor().max(1.0) as usize;
        let lines = group.div_ceil(fit);
        let per_line = group.div_ceil(lines);
        for line in flat[at..at + group].chunks(per_line) {
            let own = (room - GAP * (line.len() - 1) as f64) / line.len() as f64;
            let panels: Vec<Panel<'_>> = line.iter().map(|step| Panel::new(step, own)).collect();
            let height = panels.iter().map(|panel| panel.height).fold(0.0, f64::max);
            rows.push(Row { height, left, kind: Kind::Panels(panels) });
        }
        at += group;
    }
    rows
}

/// How many of the steps, from the first on, are beside each other.
fn together(steps: &[Flat<'_>]) -> usize {
    let first = &steps[0];
    let beside = |next: &&Flat<'_>| {
        !next.holds
            && next.depth == first.depth
            && next.fault == first.fault
            && match (next.is_refill(), first.is_refill()) {
                (true, true) => true,
                (false, false) => next.step.parallel || next.from == first.from && short(next) && short(first),
                _ => false,
            }
    };
    1 + steps[1..].iter().take_while(beside).count()
}

/// A step that needs little room: nothing is loaded or computed.
fn short(flat: &Flat<'_>) -> bool {
    flat.step.loaded.is_none() && !matches!(flat.step.kind, StepKind::Compute) && flat.step.shape.is_none()
}

/// TLBs that missed, in a sentence.
fn missed(of: &[&Flat<'_>]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for flat in of {
        let name = flat.step.name.split(',').next().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    format!("{}: no entry", names.join(", "))
}

/// What is refilled, in a sentence.
fn refilled(of: &[&Flat<'_>]) -> String {
    let mut names: Vec<&str> = of.iter().map(|flat| flat.step.name.as_str()).collect();
    names.dedup();
    format!("behind: {}", names.join("; "))
}

impl Row<'_> {
    /// Draws it.
    pub(super) fn draw(&self, to: &mut Drawing, [x, y]: [f64; 2], width: f64) {
        let (x, room) = (x + self.left, width - self.left);
        match &self.kind {
            Kind::Heading(flat) => {
                to.open_at(&format!("class=\"s h\" data-s=\"{}\"", flat.number), [x, y]);
                to.text(Font::Title, [0.0, 17.0], room, &flat.step.name);
                let used = width_of(&flat.step.name, Font::Title) + 14.0;
                if used < room {
                    to.open("class=\"answer\"");
                    to.text(Font::Soft, [used, 17.0], room - used, &flat.step.says);
                    to.close();
                }
                to.close();
            }
            Kind::Summary(text, of) => {
                let cycles = match (of.iter().map(|flat| flat.from).min(), of.iter().map(|flat| flat.until).max()) {
                    (Some(from), Some(until)) if until > from => format!("+{}", until - from),
                    _ => String::new(),
                };
                to.open_at("class=\"s\"", [x, y]);
                to.rect("box", [0.0, 0.0, room, SUMMARY]);
                to.text(Font::Text, [10.0, 20.0], room - 70.0, text);
                to.ending(Font::Text, [room - 10.0, 20.0], 60.0, &cycles);
                to.close();
            }
            Kind::Panels(panels) => {
                let mut left = x;
                let wide = (room - GAP * (panels.len() - 1) as f64) / panels.len() as f64;
                for panel in panels {
                    panel.draw(to, [left, y], self.height);
                    left += wide + GAP;
                }
            }
        }
    }

    /// A heading stays with the row after it.
    pub(super) fn is_heading(&self) -> bool {
        matches!(self.kind, Kind::Heading(_))
    }
}

/// The height of rows below each other.
pub(super) fn height(rows: &[Row<'_>]) -> f64 {
    rows.iter().map(|row| row.height + GAP).sum::<f64>() - if rows.is_empty() { 0.0 } else { GAP }
}
