//! Reports of a line for each quantity: a label, and its value.

use crate::output::print;
use ambulator_experiments::Term;

/// A row: its label, the keys of `--json` whose values it shows, for `explain`, and its text, if there is
/// one.
pub struct Row<T: 'static>(pub &'static str, pub &'static [&'static str], pub fn(&T) -> Option<String>);

/// A line whose value begins after `width` columns.
pub fn labelled(label: &str, width: usize, value: &str) -> String {
    format!("{label:width$} {value}")
}

/// Prints the rows of `of`.
pub fn show<T>(rows: &[Row<T>], width: usize, of: &T) {
    for Row(label, _, text) in rows {
        text(of).iter().for_each(|text| print(&labelled(label, width, text)));
    }
}

/// What the rows of a command mean.
pub fn rows_terms<T>(rows: &[Row<T>], command: &str) -> Vec<Term> {
    rows.iter().map(|Row(label, keys, _)| Term::row(label, keys).at(command)).collect()
}
