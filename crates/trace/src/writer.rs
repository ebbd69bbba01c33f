//! Writing our format.

use crate::RecordSink;
use crate::block::{MAX_EVENTS, MAX_RECORDS};
use crate::encode::Encoder;
use crate::event_codec;
use crate::format::{BLOCK_HEADER_BYTES, BlockEntry, BlockHeader, TraceHeader, encode_footer, encode_note};
use crate::names;
use ambulator_base::{Batch, Invalid, NamedRange, Record, SourceError, VmEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// Settings of the writer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TraceWriterSpec {
    /// zstd level of the blocks, 1 (fast) to 22 (small). Decoding is as fast at every level.
    #[schemars(range(min = 1, max = 22), extend("x-unit" = "count"))]
    pub level: i32,
    /// Width of virtual addresses in bits, 32 to 57: the writer refuses addresses beyond it.
    #[schemars(range(min = 32, max = 57), extend("x-unit" = "bits"))]
    pub va_bits: u8,
}

impl Default for TraceWriterSpec {
    fn default() -> Self {
        TraceWriterSpec { level: 9, va_bits: 57 }
    }
}

impl TraceWriterSpec {
    /// Validates the settings; each problem names its key under `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !(1..=22).contains(&self.level) {
            wrong.push(Invalid::new(format!("{at}.level"), format!("is {}: zstd has levels 1 to 22", self.level)));
        }
        if !(32..=57).contains(&self.va_bits) {
            wrong.push(Invalid::new(
                format!("{at}.va_bits"),
                format!("is {}: virtual addresses have 32 to 57 bits", self.va_bits),
            ));
        }
        wrong
    }
}

/// Writes a trace in our format. Whole blocks are written as they fill, so that a killed writer leaves a file
/// that can be read up to its last whole block; [`TraceWriter::finish`] adds the rest and the footer.
pub struct TraceWriter<W: Write> {
    out: W,
    offset: u64,
    va_limit: u64,
    places: bool,
    encoder: Encoder,
    batch: Batch,
    instructions: u64,
    records_before: u64,
    entries: Vec<BlockEntry>,
    names: Vec<NamedRange>,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace with this header, which gets the spec's `va_bits`.
    ///
    /// # Errors
    /// The settings are invalid, or the header cannot be written.
    pub fn new(mut out: W, mut header: TraceHeader, spec: &TraceWriterSpec) -> Result<TraceWriter<W>, SourceError> {
        if let Some(wrong) = spec.validate("trace").into_iter().next() {
            return Err(SourceError::new(wrong.to_string()));
        }
        header.va_bits = spec.va_bits;
        let va_limit = 1 << spec.va_bits;
        header.start.iter().try_for_each(|event| check_event(event, va_limit, header.places))?;
        let bytes = header.encode();
        if bytes.len() as u64 > u64::from(super::format::MAX_HEADER_BODY) {
            return Err(SourceError::new(format!(
                "the trace header would have {} bytes, more than 16 MiB: give the events at \
                 the start as ordinary events",
                bytes.len()
            )));
        }
        out.write_all(&bytes).map_err(cannot_write)?;
        Ok(TraceWriter {
            out,
            offset: bytes.len() as u64,
            va_limit,
            places: header.places,
            encoder: Encoder::new(spec.level).map_err(cannot_write)?,
            batch: Batch::default(),
            instructions: 0,
            records_before: 0,
            entries: Vec::new(),
            names: Vec::new(),
        })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// An address is wider than the header says, a data access does not have 1 to 64 bytes, or writing fails.
    #[inline]
    pub fn push(&mut self, record: &Record) -> Result<(), SourceError> {
        if record.va.0 | record.pc.0 >= self.va_limit || (record.is_data() && !(1..=64).contains(&record.size)) {
            return Err(self.refusal(record));
        }
        self.instructions += record.instructions();
        self.batch.records.push(*record);
        if self.batch.records.len() == MAX_RECORDS { self.write_block() } else { Ok(()) }
    }

    #[cold]
    fn refusal(&self, record: &Record) -> SourceError {
        SourceError::new(format!(
            "record {} cannot be written: pc {}, address {}, {} bytes; addresses must be below \
             {:#x} and data accesses have 1 \
             to 64 bytes",
            self.records(),
            record.pc,
            record.va,
            record.size,
            self.va_limit
        ))
    }

    /// Appends a VM event after the records so far.
    ///
    /// # Errors
    /// Its addresses are wider than the header says, or writing fails.
    pub fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        check_event(&event, self.va_limit, self.places)?;
        self.batch.push_event(event);
        if self.batch.events.len() == MAX_EVENTS { self.write_block() } else { Ok(()) }
    }

    /// What parts of the address space are called: the end of the trace has it.
    pub fn name_ranges(&mut self, names: &[NamedRange]) {
        self.names = names.to_vec();
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records_before + self.batch.records.len() as u64
    }

    /// Bytes written so far, without the block being filled.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    fn write_block(&mut self) -> Result<(), SourceError> {
        let payload = self.encoder.encode(&self.batch).map_err(cannot_write)?;
        let header = BlockHeader {
            payload_bytes: payload.len() as u32,
            records: self.batch.records.len() as u32,
            events: self.batch.events.len() as u32,
            instructions: self.instructions,
            first_record: self.records_before,
            checksum: 0,
        };
        let (head, checksum) = header.encode(&payload);
        self.out.write_all(&head).and_then(|()| self.out.write_all(&payload)).map_err(cannot_write)?;
        self.entries.push(BlockEntry {
            offset: self.offset,
            records: header.records,
            events: header.events,
            instructions: header.instructions,
            checksum,
        });
        self.offset += (BLOCK_HEADER_BYTES + payload.len()) as u64;
        self.records_before += u64::from(header.records);
        self.instructions = 0;
        self.batch.clear();
        Ok(())
    }

    /// Writes the last block and the footer, flushes, and returns the output.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<W, SourceError> {
        self.end()?;
        Ok(self.out)
    }

    /// As [`TraceWriter::finish`], for a trace that ends before its program would have: readers say why. An
    /// empty reason is a complete trace. Nothing may be appended afterwards.
    ///
    /// # Errors
    /// Writing fails; [`TraceWriter::salvage`] may still keep the blocks before.
    pub fn finish_early(&mut self, why: &str) -> Result<(), SourceError> {
        if !self.batch.is_empty() {
            self.write_block()?;
        }
        self.write_end(why).map_err(cannot_write)
    }

    fn end(&mut self) -> Result<(), SourceError> {
        self.finish_early("")
    }

    /// The output as it is: complete after [`TraceWriter::finish_early`] or [`TraceWriter::salvage`].
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes the note, unless it is empty, and the footer.
    fn write_end(&mut self, note: &str) -> std::io::Result<()> {
        let mut end = names::encode(&self.names);
        if !note.is_empty() {
            end.extend(encode_note(note));
        }
        end.extend(encode_footer(&self.entries, self.offset + end.len() as u64));
        self.out.write_all(&end)?;
        self.out.flush()?;
        self.offset += end.len() as u64;
        Ok(())
    }
}

/// Output whose end can be cut off.
pub trait Truncate {
    /// Keeps the first `bytes`; the next byte is written there.
    ///
    /// # Errors
    /// It is not a file on a disk.
    fn truncate(&mut self, bytes: u64) -> std::io::Result<()>;
}

impl Truncate for File {
    fn truncate(&mut self, bytes: u64) -> std::io::Result<()> {
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }
}

impl<W: Write + Truncate> TraceWriter<W> {
    /// After writing has failed (a full disk): keeps the whole blocks, or as many of them as leave room for
    /// the end of a valid trace, which says why it is cut short. Returns the records and the instructions in
    /// them.
    ///
    /// # Errors
    /// There is no room even for a trace without blocks, or the output is not a file.
    pub fn salvage(&mut self, why: &str) -> Result<(u64, u64), SourceError> {
        self.batch.clear();
        loop {
            self.out.truncate(self.offset).map_err(cannot_write)?;
            let Err(error) = self.write_end(why) else {
                return Ok((self.records_before, self.entries.iter().map(|entry| entry.instructions).sum()));
            };
            let Some(last) = self.entries.pop() else { return Err(cannot_write(error)) };
            self.offset = last.offset;
            self.records_before -= u64::from(last.records);
        }
    }
}

impl<W: Write> RecordSink for TraceWriter<W> {
    fn push(&mut self, record: &Record) -> Result<(), SourceError> {
        TraceWriter::push(self, record)
    }

    fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        TraceWriter::event(self, event)
    }

    fn name_ranges(&mut self, names: &[NamedRange]) {
        TraceWriter::name_ranges(self, names);
    }

    fn finish(mut self: Box<Self>) -> Result<(), SourceError> {
        self.end()
    }
}

fn check_event(event: &VmEvent, va_limit: u64, places: bool) -> Result<(), SourceError> {
    if let VmEvent::Place { start, len, at, page } = *event {
        if !places {
            return Err(SourceError::new(format!(
                "a VM event cannot be written: {event:?}, and the header says that the trace has no physical addresses \
                 (`TraceHeader::places`)"
            )));
        }
        if !event_codec::is_place(start, len, at, page) {
            return Err(SourceError::new(format!(
                "a VM event cannot be written: {event:?}; its addresses and bytes must be multiples of the page, it has at \
                 most {} bytes, and physical addresses have at most {} bits",
                event_codec::LONGEST_PLACE,
                event_codec::PHYSICAL_BITS
            )));
        }
    }
    let outside = |&(start, len): &(u64, u64)| start.checked_add(len).is_none_or(|end| end > va_limit);
    if event_codec::ranges_of(event).iter().any(outside) {
        return Err(SourceError::new(format!(
            "a VM event cannot be written: {event:?} reaches beyond the address width of the trace ({va_limit:#x})"
        )));
    }
    Ok(())
}

pub(crate) fn cannot_write(error: std::io::Error) -> SourceError {
    SourceError::new(format!("the trace cannot be written: {error}"))
}
