//! Lines of SVG.

use crate::page::escaped;
use std::fmt::Write;

/// A piece of a drawing.
#[derive(Default)]
pub(super) struct Drawing {
    /// Its elements.
    pub(super) svg: String,
}

/// A font of the drawing: its class, and how wide a character is at most, for its size.
#[derive(Clone, Copy)]
pub(super) enum Font {
    /// Headings.
    Title,
    /// Sentences.
    Text,
    /// Sentences of less weight.
    Soft,
    /// Addresses and words.
    Mono,
    /// Sources.
    Small,
}

impl Font {
    fn class(self) -> &'static str {
        match self {
            Font::Title => "t",
            Font::Text => "x",
            Font::Soft => "f",
            Font::Mono => "m",
            Font::Small => "q",
        }
    }

    /// The size, and the width of a character, in units of the drawing.
    fn size(self) -> (f64, f64) {
        match self {
            Font::Title => (15.0, 8.6),
            Font::Text | Font::Soft => (13.0, 7.0),
            Font::Mono => (13.0, 7.9),
            Font::Small => (11.0, 5.9),
        }
    }
}

/// The beginning of a text that fits into a width.
pub(super) fn fitting(text: &str, font: Font, width: f64) -> String {
    let room = (width / font.size().1).max(1.0) as usize;
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The width of a text, at most.
pub(super) fn width_of(text: &str, font: Font) -> f64 {
    text.chars().count() as f64 * font.size().1
}

/// A coordinate, without digits that nobody sees.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl Drawing {
    /// A rectangle of a class.
    pub(super) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4]) {
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(short);
        let _ = write!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\"/>"
        );
    }

    /// A line of a class.
    pub(super) fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(short);
        let _ = write!(self.svg, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
    }

    /// A triangle that points down to a place, or to the right of it.
    pub(super) fn tip(&mut self, class: &str, [x, y]: [f64; 2], right: bool) {
        let points = match right {
            true => [[x - 8.0, y - 4.5], [x, y], [x - 8.0, y + 4.5]],
            false => [[x - 4.5, y - 8.0], [x, y], [x + 4.5, y - 8.0]],
        };
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{},{}", short(*x), short(*y))).collect();
        let _ = write!(self.svg, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// A dot.
    pub(super) fn dot(&mut self, class: &str, [x, y]: [f64; 2]) {
        let _ = write!(self.svg, "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"5\"/>", short(x), short(y));
    }

    /// A text that begins at a place, cut off where it is wider than `width`.
    pub(super) fn text(&mut self, font: Font, at: [f64; 2], width: f64, text: &str) {
        self.anchored(font, at, width, text, "");
    }

    /// A text whose middle is at a place.
    pub(super) fn centred(&mut self, font: Font, at: [f64; 2], width: f64, text: &str) {
        self.anchored(font, at, width, text, " text-anchor=\"middle\"");
    }

    /// A text that ends at a place.
    pub(super) fn ending(&mut self, font: Font, at: [f64; 2], width: f64, text: &str) {
        self.anchored(font, at, width, text, " text-anchor=\"end\"");
    }

    fn anchored(&mut self, font: Font, [x, y]: [f64; 2], width: f64, text: &str, anchor: &str) {
        if text.is_empty() {
            return;
        }
        let shown = escaped(&fitting(text, font, width));
        let _ = write!(
            self.svg,
            "<text class=\"{}\" x=\"{}\" y=\"{}\"{anchor}>{shown}</text>",
            font.class(),
            short(x),
            short(y)
        );
    }

    /// Opens a group.
    pub(super) fn open(&mut self, attributes: &str) {
        let _ = write!(self.svg, "<g {attributes}>");
    }

    /// Opens a group that is moved.
    pub(super) fn open_at(&mut self, attributes: &str, [x, y]: [f64; 2]) {
        let _ = write!(self.svg, "<g {attributes} transform=\"translate({} {})\">", short(x), short(y));
    }

    /// Closes a group.
    pub(super) fn close(&mut self) {
        self.svg.push_str("</g>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_they_would_be_too_wide_and_are_no_markup() {
        assert_eq!(fitting("a long sentence", Font::Text, 49.0), "a long…");
        assert_eq!(fitting("short", Font::Text, 49.0), "short");
        let mut drawing = Drawing::default();
        drawing.text(Font::Text, [1.0, 2.26], 200.0, "<b>&");
        assert_eq!(drawing.svg, "<text class=\"x\" x=\"1\" y=\"2.3\">&lt;b&gt;&amp;</text>");
    }
}
