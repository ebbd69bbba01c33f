//! What placement of pages costs in caches and main memory, said beside results.

use crate::bank_conflicts::bank_warnings;
use crate::colours::colour_warnings;
use crate::result::RunResult;

/// A sentence for each run that is slower by where its pages lie: in few page colours, or where streams meet in banks.
/// In a comparison, only where another run shows what it costs.
pub fn placement_warnings(runs: &[RunResult]) -> Vec<String> {
    colour_warnings(runs).into_iter().chain(bank_warnings(runs)).collect()
}
