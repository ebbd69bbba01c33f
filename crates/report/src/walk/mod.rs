//! Pictures of translations: a slide of one, and a page on which they are stepped through.
//!
//! Everything is drawn from the steps that a design tells of itself: where a step looks in which structure
//! ([`Shape`](ambulator_base::watch::Shape)), the words that it loads, the cycles that pass.

mod compact;
mod details;
mod draw;
mod flat;
mod page;
mod panel;
mod rows;
mod shapes;
mod slide;
mod style;
mod timeline;

pub use page::{ShownDesign, walk_page};
pub use slide::walk_slide;

/// Cycles, entries, slots: digits in groups of three.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
