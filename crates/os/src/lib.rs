//! The kernel model: processes, VMAs, page faults, page-size and placement policies, and what each costs in cycles. It
//! knows no design: page tables and placements are sockets.

mod table;

pub use table::{Entry, Footprint, Ledger, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext};
