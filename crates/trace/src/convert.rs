//! Converts a trace file to another format, compression or range.

use crate::RecordSink;
use crate::champsim::{CLOUDSUITE, INPUT};
use crate::champsim_writer::ChampSimWriter;
use crate::compressed::Compression;
use crate::drmemtrace::writer::DrMemTraceWriter;
use crate::first_touch::FirstTouches;
use crate::format::TraceHeader;
use crate::gem5::Contents;
use crate::gem5_writer::Gem5Writer;
use crate::open::{TraceFormat, TraceOptions, open_trace, trace_files};
use crate::writer::{TraceWriter, TraceWriterSpec};
use ambulator_base::{Batch, InputFiles, OutputFile, Record, SourceError, VmEvent};
use std::cell::Cell;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to convert to.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The format written: any but lackey's and perf's.
    pub format: TraceFormat,
    /// Compression of a trace in another format than ours, which has its own.
    pub compression: Compression,
    /// Records to keep, by number. VM events before the range are kept too, and pages touched before it
    /// become `Touch` events, so that the address space and the order of first touch stay the program's.
    pub range: Range<u64>,
    /// How our format is written.
    pub writer: TraceWriterSpec,
    /// How the input is read.
    pub reader: TraceOptions,
    /// Set it to stop early; no file is left.
    pub stop: Arc<AtomicBool>,
}

impl Default for Conversion {
    fn default() -> Self {
        Conversion {
            format: TraceFormat::Ambulator,
            compression: Compression::None,
            range: 0..u64::MAX,
            writer: TraceWriterSpec::default(),
            reader: TraceOptions::default(),
            stop: Arc::default(),
        }
    }
}

/// The result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversionReport {
    /// Records written.
    pub records: u64,
    /// VM events written.
    pub events: u64,
    /// Records and VM events that the output format cannot represent ([`RecordSink::left_out`]).
    pub left_out: u64,
    /// Bytes of the new file.
    pub bytes: u64,
    /// Notes about the input ([`ambulator_base::RecordSource::notes`]).
    pub notes: Vec<String>,
}

/// Counts the bytes written: a pipe has no size to query afterwards.
struct CountedBytes<W> {
    out: W,
    bytes: Rc<Cell<u64>>,
}

impl<W: Write> Write for CountedBytes<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes.set(self.bytes.get() + written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A sink that counts what goes to it.
struct Counted {
    sink: Box<dyn RecordSink>,
    report: ConversionReport,
}

impl Counted {
    fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        let before = self.sink.left_out();
        self.sink.event(event)?;
        self.report.events += u64::from(self.sink.left_out() == before);
        Ok(())
    }

    fn push(&mut self, mut record: Record) -> Result<(), SourceError> {
        // The record's producers may lie before the range.
        let there = |distance: u16| {
            if u64::from(distance) > self.report.records { 0 } else { distance }
        };
        (record.dep1, record.dep2) = (there(record.dep1), there(record.dep2));
        self.report.records += 1;
        self.sink.push(&record)
    }
}

/// What writes a stream to `file` in a format of another tool; `places` says that the stream tells where pages
/// are in physical memory.
///
/// # Errors
/// The format is not one of another tool's, or is only read; the compression is only read; or the header cannot be written.
pub fn foreign_sink(
    file: impl Write + 'static,
    format: TraceFormat,
    compression: Compression,
    places: bool,
) -> Result<Box<dyn RecordSink>, SourceError> {
    Ok(match format {
        TraceFormat::ChampSim => Box::new(ChampSimWriter::new(file, compression, &INPUT)?),
        TraceFormat::CloudSuite => Box::new(ChampSimWriter::new(file, compression, &CLOUDSUITE)?),
        TraceFormat::DrMemTrace => Box::new(DrMemTraceWriter::new(file, compression)?),
        TraceFormat::Gem5Packets => Box::new(Gem5Writer::new(file, compression, Contents::Packets, places)?),
        TraceFormat::Gem5Elastic => Box::new(Gem5Writer::new(file, compression, Contents::Elastic, places)?),
        TraceFormat::Ambulator | TraceFormat::Lackey | TraceFormat::PerfScript => {
            return Err(SourceError::new(format!(
                "traces are written for ChampSim, CloudSuite, DynamoRIO and gem5; {format} is only read"
            )));
        }
    })
}

/// Converts `from` to `to`. The new file appears under its name only when it is complete; a device or a pipe
/// is written directly.
///
/// # Errors
/// The input cannot be read or is damaged within the range, it ends before the range begins, the range is
/// empty, the output cannot be written, its name promises another format or compression
/// ([`Compression::of_name`]), both are the same file, the output format is read-only here, or the conversion
/// was stopped.
pub fn convert(from: &Path, to: &Path, conversion: &Conversion) -> Result<ConversionReport, SourceError> {
    if conversion.range.is_empty() {
        return Err(SourceError::new(format!(
            "{}: a trace of 0 records is not a trace; keep at least 1",
            to.display()
        )));
    }
    Compression::of_name(to, conversion.format).map_err(SourceError::new)?;
    let cannot = |e| SourceError::new(format!("the trace cannot be written: {e}"));
    let mut source = open_trace(from, &conversion.reader)?;
    let output = OutputFile::prepare_beside(to, &InputFiles::from_iter(trace_files(from))).map_err(cannot)?;
    let at_output = |e: &dyn std::fmt::Display| SourceError::new(format!("{}: {e}", to.display()));
    let bytes = Rc::new(Cell::new(0));
    let file = CountedBytes { out: output.open_unless(&conversion.stop).map_err(cannot)?, bytes: Rc::clone(&bytes) };
    let (identity, places) = (source.identity(), source.may_place());
    let sink = match conversion.format {
        TraceFormat::Ambulator => {
            let header = TraceHeader { identity, places, ..TraceHeader::default() };
            let writer = TraceWriter::new(BufWriter::new(file), header, &conversion.writer);
            writer.map(|writer| Box::new(writer) as Box<dyn RecordSink>)
        }
        format => foreign_sink(file, format, conversion.compression, places),
    };
    let sink = sink.map_err(|e| at_output(&e))?;
    let mut out = Counted { sink, report: ConversionReport::default() };
    let (mut batch, mut touches, mut number) = (Batch::default(), FirstTouches::default(), 0u64);
    let range = &conversion.range;
    while number < range.end && source.fill(&mut batch)? {
        if conversion.stop.load(Ordering::Relaxed) {
            return Err(at_output(&"the conversion was interrupted, and nothing of it is kept"));
        }
        let mut events = batch.events.drain(..).peekable();
        for (at, record) in batch.records.iter().enumerate() {
            if number >= range.end {
                break;
            }
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize <= at) {
                if number < range.start
                    && let Some(run) = touches.event(&event)
                {
                    out.event(run).map_err(|e| at_output(&e))?;
                }
                out.event(event).map_err(|e| at_output(&e))?;
            }
            let run = if number < range.start {
                let write = record.kind == ambulator_base::RecordKind::Store;
                let fetched = touches.touch(record.pc, 1, false);
                if let Some(run) = fetched {
                    out.event(run).map_err(|e| at_output(&e))?;
                }
                if record.is_data() { touches.touch(record.va, u64::from(record.size), write) } else { None }
            } else if number == range.start {
                touches.take_run()
            } else {
                None
            };
            if let Some(run) = run {
                out.event(run).map_err(|e| at_output(&e))?;
            }
            if number >= range.start {
                out.push(*record).map_err(|e| at_output(&e))?;
            }
            number += 1;
        }
        if number < range.end {
            for (_, event) in events {
                out.event(event).map_err(|e| at_output(&e))?;
            }
        }
    }
    if number <= range.start && range.start > 0 {
        return Err(SourceError::new(format!(
            "{}: has {number} records, so nothing is left after the first {}; skip fewer",
            from.display(),
            range.start
        )));
    }
    let mut report = out.report;
    report.left_out = out.sink.left_out();
    out.sink.name_ranges(&source.named_ranges());
    out.sink.finish().map_err(|e| at_output(&e))?;
    output.finish().map_err(cannot)?;
    report.bytes = bytes.get();
    report.notes = source.notes();
    if range.end < u64::MAX && number < range.end {
        let (from, kept, asked) = (from.display(), report.records, range.end - range.start);
        report.notes.push(format!("{from}: ends after {number} records, so {kept} were kept of the {asked} asked for"));
    }
    Ok(report)
}
