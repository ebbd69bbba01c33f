//! One block of our format: up to 32 Ki records and the events between them, as columns.
//!
//! [`super::format`] describes the layout. A program's records come from few *sites* (instruction, kind and
//! size). A block lists its sites once, then the order in which they ran, which the last successor of each
//! site predicts well. It keeps every other field site by site, where it hardly changes. Each site names the
//! record that predicts its addresses best: its own last one, or the one 1 to 15 records earlier.

use ambulator_base::Batch;

/// The most records in a block.
pub(crate) const MAX_RECORDS: usize = Batch::TARGET_RECORDS;
/// The most events in a block.
pub(crate) const MAX_EVENTS: usize = 1 << 16;
/// The most bytes of one event: a tag and four varints.
pub(crate) const EVENT_BYTES: usize = 41 + 5;
/// Largest reference distance of a site.
pub(crate) const MAX_REFERENCE: usize = 15;

/// Columns of a block, in file order.
pub(crate) const COLUMNS: [&str; 7] = ["sites", "order", "address", "gap", "dependence 1", "dependence 2", "event"];
pub(crate) const SITES: usize = 0;
pub(crate) const ORDER: usize = 1;
pub(crate) const ADDRESS: usize = 2;
pub(crate) const GAP: usize = 3;
pub(crate) const DEP1: usize = 4;
pub(crate) const DEP2: usize = 5;
pub(crate) const EVENTS: usize = 6;

/// The most bytes that a column can have in a block with this many records and events.
pub(crate) fn column_limit(column: usize, records: usize, events: usize) -> usize {
    match column {
        SITES => 3 + records * 16,
        ORDER => 3 + records * 6,
        ADDRESS => records * 10,
        GAP => records * 5,
        DEP1 | DEP2 => records * 3,
        _ => events * EVENT_BYTES,
    }
}
