#![doc = include_str!("../README.md")]

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
mod fuzz_wire;
mod implicit_maps;
mod lackey;
mod mappings;
mod names;
mod open;
mod reader;
pub mod regularity;
mod selection;
mod summary;
mod unchanged;
mod varint;
mod width;
pub mod wire;
mod writer;

pub use champsim::ChampSimWriter;
pub use compressed::Compression;
pub use convert::{Conversion, ConversionReport, convert};
pub use first_touch::FirstTouches;
pub use format::TraceHeader;
pub use fuzz::{fuzz_block, fuzz_champsim, fuzz_header, fuzz_lackey, fuzz_open, fuzz_trace, sealed_block};
pub use fuzz_wire::fuzz_wire;
pub use implicit_maps::ImplicitMaps;
pub use open::{TraceFormat, TraceOptions, open_trace, trace_index};
pub use reader::{TraceInfo, TraceReader};
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

    /// Writes everything still buffered and ends the stream.
    ///
    /// # Errors
    /// Writing fails.
    fn finish(self: Box<Self>) -> Result<(), SourceError>;
}

#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod tests;
