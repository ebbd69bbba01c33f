//! The time of a translation: a bar for each step that takes cycles, those in flight together below each other.

use super::draw::{Drawing, Font, width_of};
use super::flat::Flat;
use super::panel::level;
use ambulator_base::watch::StepKind;

const LANE: f64 = 17.0;
const AXIS: f64 = 22.0;

/// The bars of a translation, in lanes.
pub(super) struct Timeline<'w> {
    bars: Vec<(usize, &'w Flat<'w>)>,
    lanes: usize,
    /// The cycle at which the address is known.
    known: u64,
    /// The last cycle of any bar.
    end: u64,
}

impl<'w> Timeline<'w> {
    /// Of the steps of a translation, whose address is known at `known`.
    pub(super) fn new(flat: &'w [Flat<'w>], known: u64) -> Timeline<'w> {
        let mut free: Vec<u64> = Vec::new();
        let mut bars = Vec::new();
        for step in flat.iter().filter(|step| !step.holds && step.until > step.from) {
            let lane = free.iter().position(|free| *free <= step.from).unwrap_or_else(|| {
                free.push(0);
                free.len() - 1
            });
            free[lane] = step.until;
            bars.push((lane, step));
        }
        let end = bars.iter().map(|(_, step)| step.until).max().unwrap_or(0).max(known).max(1);
        Timeline { bars, lanes: free.len().max(1), known, end }
    }

    /// Its height.
    pub(super) fn height(&self) -> f64 {
        LANE * self.lanes as f64 + AXIS
    }

    /// The last cycle that it shows.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Draws it so that `end` cycles fill the width.
    pub(super) fn draw(&self, to: &mut Drawing, [x, y]: [f64; 2], width: f64, end: u64) {
        let place = |cycle: u64| x + width * cycle as f64 / end.max(1) as f64;
        let floor = y + LANE * self.lanes as f64;
        for (lane, flat) in &self.bars {
            let (from, until) = (place(flat.from), place(flat.until));
            let class = match (level(flat.step), flat.step.kind) {
                (Some(level), _) => level,
                (None, StepKind::Wait | StepKind::Fetch) => "wait",
                _ => "work",
            };
            let behind = if flat.behind { " back" } else { "" };
            to.open(&format!("class=\"s\" data-s=\"{}\"", flat.number));
            let top = y + LANE * *lane as f64;
            let wide = (until - from - 0.5).max(1.5);
            to.rect(&format!("{class}{behind}"), [from, top + 1.0, wide, LANE - 2.0]);
            let label = level(flat.step).map_or(flat.step.name.as_str(), |level| level);
            let fits =
                [flat.step.name.as_str(), label].into_iter().find(|text| width_of(text, Font::Small) + 6.0 < wide);
            to.text(Font::Small, [from + 4.0, top + 12.5], wide, fits.unwrap_or_default());
            to.close();
        }
        to.line("axis", [x, floor + 2.0, x + width, floor + 2.0]);
        to.line("rule", [place(self.known), y, place(self.known), floor + 6.0]);
        to.text(Font::Small, [x, floor + 17.0], 60.0, "0");
        let text = format!("{} cycles", self.known);
        let half = width_of(&text, Font::Small) / 2.0;
        to.centred(
            Font::Small,
            [place(self.known).clamp(x + 16.0 + half, x + width - half), floor + 17.0],
            120.0,
            &text,
        );
    }
}
