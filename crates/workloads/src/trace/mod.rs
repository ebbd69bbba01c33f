//! Trace files: our own format, ChampSim's and Valgrind lackey's, as streams of records.
//!
//! [`open_trace`] tells the formats apart by their contents, never by the file's name. Errors are sentences with the file,
//! the byte or line, what was wrong and what would be right.

mod block;
mod event_codec;
pub mod format;
mod reader;
mod varint;
mod writer;

pub use format::TraceHeader;
pub use reader::{TraceInfo, TraceReader};
pub use writer::{TraceWriter, TraceWriterSpec};

use ambulator_base::{Record, SourceError, VmEvent};

/// Where a stream is written.
pub trait RecordSink {
    /// Appends a record.
    ///
    /// # Errors
    /// When the format cannot hold it, or writing fails.
    fn push(&mut self, record: &Record) -> Result<(), SourceError>;

    /// Appends a VM event after the records so far.
    ///
    /// # Errors
    /// When the format cannot hold it, or writing fails.
    fn event(&mut self, event: VmEvent) -> Result<(), SourceError>;

    /// Writes what is left.
    ///
    /// # Errors
    /// When writing fails.
    fn finish(self: Box<Self>) -> Result<(), SourceError>;
}

#[cfg(test)]
mod tests;
