//! Where records come from.

use crate::{Record, VmEvent};
use serde::{Deserialize, Serialize};

/// A stretch of a program's stream: records, and the events between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The records, in program order.
    pub records: Vec<Record>,
    /// `(i, event)`: the event happens before `records[i]`; `i == records.len()` is after the last. Ascending
    /// in `i`.
    pub events: Vec<(u32, VmEvent)>,
}

impl Batch {
    /// Records that a source aims to put into one batch.
    pub const TARGET_RECORDS: usize = 1 << 15;

    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.records.clear();
        self.events.clear();
    }

    /// Adds an event after the records that are there so far.
    pub fn push_event(&mut self, event: VmEvent) {
        self.events.push((self.records.len() as u32, event));
    }

    /// Whether it has neither records nor events.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.events.is_empty()
    }
}

/// What a program is, for a result to name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramIdentity {
    /// Short name, such as `gups` or a trace's file name.
    pub name: String,
    /// The settings that make it what it is, as `key = value` text, or a trace's header.
    pub detail: String,
    /// Bytes of address space that it is known to touch, or 0 if not known beforehand.
    pub footprint: u64,
    /// Checksum of a trace file's contents, or of the settings: two equal values mean the same stream.
    pub digest: u64,
}

/// Why a stream cannot go on.
#[derive(Debug)]
pub struct SourceError {
    /// A sentence: file, place, what was wrong, what would be right.
    pub message: String,
}

impl SourceError {
    /// An error with that sentence.
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

/// The notes of several streams, each sentence once: several cores may run the same trace.
pub fn distinct_notes(notes: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for note in notes {
        if !distinct.contains(&note) {
            distinct.push(note);
        }
    }
    distinct
}

/// A program as a stream. Deterministic: the same settings and seed give the same stream.
pub trait RecordSource: Send {
    /// Who this is.
    fn identity(&self) -> ProgramIdentity;

    /// Empties `batch`, then puts the next stretch into it, about [`Batch::TARGET_RECORDS`] records.
    /// `Ok(false)` when the stream has ended and nothing was added.
    ///
    /// # Errors
    /// A damaged or unreadable trace, told by file and place.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;

    /// How much of the stream has been read, 0 to 1, where that is known (a trace file's position).
    fn progress(&self) -> Option<f64> {
        None
    }

    /// What whoever uses the stream should know of it as far as it has been read, a sentence each: a trace
    /// that was cut short, addresses that lost bits. None for a stream that is what it should be.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
