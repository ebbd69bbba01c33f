//! The papers' figures as pictures: published beside ours.

use crate::charts::Chart;
use ambulator_experiments::FigureResult;

/// The figures.
pub fn published_charts(_results: &[FigureResult]) -> Vec<Chart> {
    Vec::new()
}

/// The page.
pub fn published_report(_results: &[FigureResult]) -> String {
    String::new()
}
