//! The panel of a step: what it does, in which structure, with which words, from where.

use super::draw::{Drawing, Font, width_of};
use super::flat::Flat;
use super::shapes;
use ambulator_base::watch::{Field, Step, StepKind};
use serde_json::Value;

/// Inside of a panel's border.
const MARGIN: f64 = 10.0;
/// The height of the line of words.
const WORDS: f64 = 18.0;
const LINE: f64 = 17.0;

/// The level that served a load, as a class of the style.
pub(super) fn level(step: &Step) -> Option<&str> {
    step.loaded.as_ref().map(|loaded| loaded.served.as_str()).filter(|served| !served.is_empty())
}

/// What an answer means, from the fields of a step: the sentence below its drawing.
fn result(step: &Step) -> String {
    let text = |name: &str| {
        step.fields.iter().find(|field| field.name == name).map(|Field { value, .. }| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    if let Some(table) = text("points to the table at").or_else(|| text("points to a merged node at")) {
        return format!("→ next table at {table}");
    }
    if let Some(frame) = text("frame") {
        let size =
            text("maps a page of").or_else(|| text("page size")).map_or(String::new(), |size| format!(", {size} page"));
        return format!("→ frame {frame}{size}");
    }
    if let Some(node) = text("first node").filter(|node| node != "none") {
        return format!("→ first node at {node}");
    }
    if text("present").is_some_and(|present| present == "false") {
        return "not present".to_owned();
    }
    if text("found").is_some_and(|found| found == "false") {
        return text("key").map_or("not here".to_owned(), |key| format!("key {key}: another page's"));
    }
    if let Some(child) = text("child") {
        return format!("→ child at {child}");
    }
    match text("key") {
        Some(key) if key.starts_with("the slot") => key,
        _ => String::new(),
    }
}

/// The panel of a step, laid out for a width.
pub(super) struct Panel<'w> {
    flat: &'w Flat<'w>,
    width: f64,
    /// Its height.
    pub(super) height: f64,
    /// The lines of text below the title.
    says: Vec<String>,
    /// The sentence at its end.
    result: String,
}

impl<'w> Panel<'w> {
    /// A step in a width.
    pub(super) fn new(flat: &'w Flat<'w>, width: f64) -> Panel<'w> {
        let step = flat.step;
        let mut says = Vec::new();
        if let Some(loaded) = &step.loaded {
            let guest = loaded.guest.map_or(String::new(), |guest| format!("guest {guest:#x}, "));
            says.push(format!("{guest}{} bytes at {:#x}", 8 * loaded.words.len(), loaded.at));
        } else if !step.says.is_empty() {
            says.extend(wrapped(&step.says, width - 2.0 * MARGIN, 2));
        }
        let guess = step.kind == StepKind::Fetch || step.shape.is_none() && step.loaded.is_none();
        if guess && let Some(field) = step.fields.first() {
            let value = field.value.as_str().map_or_else(|| field.value.to_string(), str::to_owned);
            says.push(format!("{} {value}", field.name));
        }
        let result = if step.loaded.is_some() { result(step) } else { String::new() };
        let mut panel = Panel { flat, width, height: 0.0, says, result };
        panel.height = panel.lay_out(&mut Drawing::default());
        panel
    }

    /// Draws it into a box of that height.
    pub(super) fn draw(&self, to: &mut Drawing, at: [f64; 2], height: f64) {
        let step = self.flat.step;
        to.open_at(&format!("class=\"s\" data-s=\"{}\"", self.flat.number), at);
        to.rect("box", [0.0, 0.0, self.width, height]);
        if let Some(level) = level(step) {
            to.rect(level, [0.0, 0.0, 5.0, height]);
        }
        self.lay_out(to);
        to.close();
    }

    /// Draws the contents, and returns the height that they need.
    fn lay_out(&self, to: &mut Drawing) -> f64 {
        let (step, room) = (self.flat.step, self.width - 2.0 * MARGIN);
        let cycles = self.flat.until - self.flat.from;
        let badge = match level(step) {
            Some(level) => format!("{level} +{cycles}"),
            None if cycles > 0 => format!("+{cycles}"),
            None => String::new(),
        };
        let badge_room = if badge.is_empty() { 0.0 } else { width_of(&badge, Font::Text) + 10.0 };
        let mut y = 20.0;
        to.text(Font::Title, [MARGIN, y], room - badge_room, &step.name);
        to.ending(Font::Text, [self.width - MARGIN, y], badge_room + 10.0, &badge);
        for line in &self.says {
            y += LINE;
            let font = if step.loaded.is_some() { Font::Mono } else { Font::Soft };
            to.text(font, [MARGIN, y], room, line);
        }
        if let Some(shape) = &step.shape {
            y += 10.0;
            shapes::draw(to, shape, [MARGIN, y], room);
            y += shapes::height(shape, room);
        }
        if step.loaded.is_some() {
            y += 8.0;
            self.words(to, y, room);
            y += WORDS;
            if let Some(hex) = self.touched(room) {
                y += LINE - 2.0;
                to.text(Font::Mono, [MARGIN, y], room, &hex);
            }
        }
        if !self.result.is_empty() {
            y += LINE;
            to.text(Font::Mono, [MARGIN, y], room, &self.result);
        }
        y + 10.0
    }

    /// The words that the load's hardware acts on, as many as fit.
    fn touched(&self, room: f64) -> Option<String> {
        let loaded = self.flat.step.loaded.as_ref()?;
        let words = self.flat.step.touched.iter().filter_map(|number| loaded.words.get(*number));
        let mut text = String::new();
        for word in words {
            let hex = format!("{word:#x}");
            if !text.is_empty() && width_of(&text, Font::Mono) + width_of(&hex, Font::Mono) + 12.0 > room {
                break;
            }
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(&hex);
        }
        (!text.is_empty()).then_some(text)
    }

    /// The line of 64 bytes that the load is part of, with the words lit that it acts on.
    fn words(&self, to: &mut Drawing, y: f64, room: f64) {
        let Some(loaded) = &self.flat.step.loaded else { return };
        let wide = room / 8.0;
        // A load of one word reads one of its line; others read the line from its begin.
        let first = if loaded.words.len() >= 8 { 0 } else { (loaded.guest.unwrap_or(loaded.at) / 8 % 8) as usize };
        for number in 0..8 {
            let own = number >= first && number < first + loaded.words.len();
            let class = match own && self.flat.step.touched.contains(&(number - first.min(number))) {
                true => "lit",
                false if own => "held",
                false => "gap",
            };
            let x = MARGIN + wide * number as f64;
            to.rect(class, [x + 0.5, y, wide - 1.0, WORDS - 2.0]);
        }
    }
}

/// A text in lines of a width, at most so many; the last is cut off by who draws it.
fn wrapped(text: &str, width: f64, lines: usize) -> Vec<String> {
    let mut all: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let full = all.len() >= lines;
        let Some(last) = all.last_mut() else { break };
        if last.is_empty() {
            *last = word.to_owned();
        } else if full || width_of(last, Font::Soft) + width_of(word, Font::Soft) + 7.0 <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            all.push(word.to_owned());
        }
    }
    all
}
