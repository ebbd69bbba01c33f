//! One block of our format: up to 32 Ki records and the events between them, as columns.
//!
//! The layout is described in [`super::format`]. The idea: a program's records come from few *sites*
//! (instruction, kind and size). A block lists its sites once, says in which order they ran (an order that
//! the last successor of each site predicts well), and keeps every other field site by site, where it hardly
//! changes. Each site names the record that its addresses are best predicted from: its own last one, or the one 1
//! to 15 records earlier.

use ambulator_base::Batch;

/// Records that a block holds at most.
pub(crate) const MAX_RECORDS: usize = Batch::TARGET_RECORDS;
/// Events that a block holds at most.
pub(crate) const MAX_EVENTS: usize = 1 << 16;
/// Bytes that one event takes at most: a tag and four varints.
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

/// Bytes that a column of a block with that many records and events can have at most.
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
