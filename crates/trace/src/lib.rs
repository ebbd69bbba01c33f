#![doc = include_str!("../README.md")]

mod block;
mod champsim;
mod champsim_writer;
mod compressed;
mod convert;
mod decode;
mod drmemtrace;
mod encode;
mod event_codec;
mod first_touch;
pub mod format;
mod fuzz;
mod fuzz_wire;
mod gaps;
mod gem5;
mod gem5_writer;
mod held;
mod implicit_maps;
mod lackey;
mod mappings;
mod names;
mod open;
mod perf;
mod physical;
mod placed;
mod processes;
mod reader;
mod registers;
pub mod regularity;
mod reuse;
mod selection;
mod summary;
mod unchanged;
mod varint;
mod width;
pub mod wire;
mod writer;
pub mod x86;
mod zip_stream;

pub use compressed::Compression;
pub use convert::{Conversion, ConversionReport, convert, foreign_sink};
pub use first_touch::FirstTouches;
pub use format::TraceHeader;
pub use fuzz::{
    fuzz_block, fuzz_champsim, fuzz_drmemtrace, fuzz_gem5, fuzz_header, fuzz_lackey, fuzz_open, fuzz_perf, fuzz_trace,
    fuzz_v2p, sealed_block,
};
pub use fuzz_wire::fuzz_wire;
pub use implicit_maps::ImplicitMaps;
pub use open::{TraceFormat, TraceOptions, open_trace, trace_files, trace_index};
pub use physical::PhysicalReport;
pub use reader::{IndexSummary, TraceInfo, TraceReader};
pub use reuse::ReuseReport;
pub use summary::{Head, HeadLine, TraceSummary, head, info};
pub use writer::{TraceWriter, TraceWriterSpec, Truncate};

use ambulator_base::{NamedRange, Record, SourceError, VmEvent};

/// A destination for a stream of records.
pub trait RecordSink {
    /// Appends a record.
    ///
    /// # Errors
    /// The format cannot represent it, or writing fails.
    fn push(&mut self, record: &Record) -> Result<(), SourceError>;

    /// Appends a VM event after the records so far.
    ///
    /// # Errors
    /// The format cannot represent it, or writing fails.
    fn event(&mut self, event: VmEvent) -> Result<(), SourceError>;

    /// Says what parts of the address space are called, before the stream ends. Formats without a place for
    /// it leave it out.
    fn name_ranges(&mut self, _names: &[NamedRange]) {}

    /// Records and events so far that the format cannot represent, and that were left out.
    fn left_out(&self) -> u64 {
        0
    }

    /// Writes everything still buffered and ends the stream.
    ///
    /// # Errors
    /// Writing fails.
    fn finish(self: Box<Self>) -> Result<(), SourceError>;
}

#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod scratch;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod written_tests;
