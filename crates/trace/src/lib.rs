//! Trace files: our own format, ChampSim's and Valgrind lackey's, as streams of records.
//!
//! [`open_trace`] recognises a format by its contents, never by the file's name. Errors are sentences: the file, the byte
//! or line, what was wrong and what would be right.
//!
//! ```text
//!  file ─ open ─┬─ reader ── decode ── block        .amb, laid out as `format` says
//!               └─ compressed ─┬─ champsim          others, perhaps in gzip, xz or zstd
//!                              └─ lackey
//!                      │ Record, VmEvent             (a RecordSource)
//!                      ├─ summary, regularity        what is in a trace
//!                      └─ convert ── RecordSink ─┬─ writer ── encode
//!                                                └─ champsim
//! ```
//!
//! Start reading at [`mod@format`], the layout of a trace of ours; then [`TraceWriter`] and [`TraceReader`]. Programs that run
//! natively are not here: `ambulator-workloads` has them, and opens either by one request. What writes traces and runs
//! no programs (the capture plugin) needs this crate alone.

mod block;
mod champsim;
mod compressed;
mod convert;
mod decode;
mod encode;
mod event_codec;
mod first_touch;
pub mod format;
mod fuzz;
mod implicit_maps;
mod lackey;
mod mappings;
mod open;
mod reader;
pub mod regularity;
mod stream;
mod summary;
mod varint;
mod width;
mod writer;

pub use champsim::ChampSimWriter;
pub use compressed::Compression;
pub use convert::{Conversion, ConversionReport, convert};
pub use first_touch::FirstTouches;
pub use format::TraceHeader;
pub use fuzz::{fuzz_block, fuzz_champsim, fuzz_header, fuzz_lackey, fuzz_open, fuzz_trace, sealed_block};
pub use open::{TraceFormat, TraceOptions, open_trace};
pub use reader::{TraceInfo, TraceReader};
pub use stream::TraceStream;
pub use summary::{Head, HeadLine, TraceSummary, head, info};
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
mod foreign_tests;
#[cfg(test)]
mod tests;
