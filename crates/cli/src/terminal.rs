//! The width of the terminal, and texts that fold to it.

use crate::output::print;
use std::io::IsTerminal;

/// Fewer columns than this are not a terminal's width.
const LEAST: usize = 20;

/// Columns of the output: `COLUMNS` if it is set, else the terminal's; `None` where the output goes
/// elsewhere.
pub fn width() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let terminal = || {
        let columns = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
        columns.map(|(width, _)| usize::from(width.0))
    };
    asked.or_else(terminal).filter(|columns| *columns >= LEAST)
}

/// Prints lines, each folded between words to the width of the output; what continues a line is indented by
/// `indent` columns more than the line.
pub fn print_folded(text: &str, indent: usize) {
    let Some(width) = width() else { return print(text) };
    text.split('\n').for_each(|line| print(&folded(line, indent, width)));
}

fn folded(line: &str, indent: usize, width: usize) -> String {
    let own = line.len() - line.trim_start().len();
    // Deep indentation would leave no room.
    let hanging = " ".repeat((own + indent).min(width / 2));
    textwrap::fill(line, textwrap::Options::new(width).subsequent_indent(&hanging).break_words(false))
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fold_between_words_with_an_indent() {
        let text = "  name  one two three four five six";
        assert_eq!(folded(text, 6, 20), "  name  one two\n        three four\n        five six");
        assert_eq!(folded(text, 6, 80), text);
        assert_eq!(folded("", 4, 20), "");
        assert_eq!(folded("a word/that/is/longer/than/the/width stays", 2, 20).lines().count(), 3);
    }
}
