//! Sources of records.

use crate::{Record, VirtAddr, VmEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A chunk of a program's stream: records, and the events between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The records, in program order.
    pub records: Vec<Record>,
    /// `(i, event)`, ascending in `i`: the event happens before `records[i]`, or after the last record if `i`
    /// is their number.
    pub events: Vec<(u32, VmEvent)>,
}

impl Batch {
    /// The number of records that a source aims for.
    pub const TARGET_RECORDS: usize = 1 << 15;

    /// Empties the batch and keeps its allocations.
    pub fn clear(&mut self) {
        self.records.clear();
        self.events.clear();
    }

    /// Adds an event after the current last record.
    pub fn push_event(&mut self, event: VmEvent) {
        self.events.push((self.records.len() as u32, event));
    }

    /// Whether there are neither records nor events.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.events.is_empty()
    }
}

/// The identity of a program, as results state it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramIdentity {
    /// Short name, such as `gups` or a trace's file name.
    pub name: String,
    /// Its settings as `key = value` text, or the header of a trace.
    pub detail: String,
    /// Bytes of address space that it touches, or 0 if that is not known in advance.
    pub footprint: u64,
    /// Checksum of the trace file's contents or of the settings. Equal values mean equal streams.
    pub digest: u64,
}

/// A part of a program's address space with a name: a file that is mapped there, or an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRange {
    /// First address.
    pub start: VirtAddr,
    /// Bytes.
    pub len: u64,
    /// The path of the file, or what the program calls the array.
    pub name: String,
    /// Of a file, the byte of it that is mapped at `start`.
    pub file_offset: Option<u64>,
}

/// Why a stream cannot continue.
#[derive(Debug)]
pub struct SourceError {
    /// A sentence: file, position, what is wrong, what is valid.
    pub message: String,
}

impl SourceError {
    /// An error with this sentence.
    pub fn new(message: impl Into<String>) -> SourceError {
        SourceError { message: message.into() }
    }
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SourceError {}

/// The notes of several streams without repetitions: several cores may run the same trace.
pub fn distinct_notes(notes: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for note in notes {
        if !distinct.contains(&note) {
            distinct.push(note);
        }
    }
    distinct
}

/// A program as a stream of records. Equal settings and seeds give equal streams.
pub trait RecordSource: Send {
    /// The identity of the program.
    fn identity(&self) -> ProgramIdentity;

    /// Replaces the contents of `batch` by the next chunk, about [`Batch::TARGET_RECORDS`] records. Returns
    /// `Ok(false)` at the end of the stream, with an empty batch.
    ///
    /// # Errors
    /// A damaged or unreadable trace, with file and position.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;

    /// Passes over batches: what comes next is what would come after `count` calls of [`RecordSource::fill`].
    /// Returns how many there were, fewer than `count` only at the end of the stream. A file with an index
    /// need not read what it passes over, so damage in it is not seen.
    ///
    /// # Errors
    /// As for [`RecordSource::fill`].
    fn skip(&mut self, count: usize) -> Result<usize, SourceError> {
        let mut batch = Batch { records: Vec::with_capacity(Batch::TARGET_RECORDS + 64), events: Vec::new() };
        for number in 0..count {
            if !self.fill(&mut batch)? {
                return Ok(number);
            }
        }
        Ok(count)
    }

    /// The source that this one reads and changes, if it does: it answers what follows, unless this one does.
    fn inner(&self) -> Option<&dyn RecordSource> {
        None
    }

    /// The share of the stream that has been read, 0 to 1, if known (such as the position in a trace file).
    fn progress(&self) -> Option<f64> {
        self.inner()?.progress()
    }

    /// Instructions of the whole stream, if known (such as from the index of a trace file).
    fn instructions(&self) -> Option<u64> {
        self.inner()?.instructions()
    }

    /// Whether the stream may say where its pages were in physical memory ([`VmEvent::Place`]).
    fn may_place(&self) -> bool {
        self.inner().is_some_and(|source| source.may_place())
    }

    /// Warnings about the part of the stream read so far, one sentence each: a truncated trace, or addresses
    /// that lost bits.
    fn notes(&self) -> Vec<String> {
        self.inner().map_or_else(Vec::new, |source| source.notes())
    }

    /// The parts of the address space whose names are known from the stream read so far. They may overlap
    /// where one mapping followed another.
    fn named_ranges(&self) -> Vec<NamedRange> {
        self.inner().map_or_else(Vec::new, |source| source.named_ranges())
    }
}
