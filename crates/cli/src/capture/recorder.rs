//! Writes what one captured process sends to a trace file, which is complete or cut short, and never broken.

use super::mapped_files::MappedFiles;
use ambulator_base::{Batch, OutputFile, ProgramIdentity, SourceError, VmEvent};
use ambulator_trace::wire::{VA_BITS, WireReader};
use ambulator_trace::{
    Compression, RecordSink, TraceFormat, TraceHeader, TraceWriter, TraceWriterSpec, Truncate, foreign_sink,
};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pauses while the process has nothing to record.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// What all recorders of a capture have written so far.
#[derive(Default)]
pub struct Totals {
    pub instructions: AtomicU64,
    pub accesses: AtomicU64,
    pub bytes: AtomicU64,
}

impl Totals {
    /// Adds what a batch has; returns its instructions.
    pub fn add(&self, batch: &Batch) -> u64 {
        let instructions = batch.records.iter().map(|record| record.instructions()).sum();
        let accesses = batch.records.iter().filter(|record| record.is_data()).count() as u64;
        self.instructions.fetch_add(instructions, Ordering::Relaxed);
        self.accesses.fetch_add(accesses, Ordering::Relaxed);
        instructions
    }
}

/// How traces are written.
#[derive(Clone)]
pub struct Style {
    pub format: TraceFormat,
    /// Of the formats of other tools.
    pub compression: Compression,
    /// zstd's level.
    pub level: i32,
    /// How the traces were made.
    pub detail: String,
    /// Instructions that are not recorded at first.
    pub skip: u64,
    /// The largest file that may be written, in bytes.
    pub limit: u64,
}

/// A trace file that is being written. The limit of file sizes is an error like a full disk; the system's way
/// to say so is to end the process.
pub struct TraceFile {
    file: File,
    at: u64,
    limit: u64,
    totals: Arc<Totals>,
}

impl TraceFile {
    /// Nothing has been written to `file` yet; `totals` count its bytes.
    pub fn new(file: File, limit: u64, totals: Arc<Totals>) -> TraceFile {
        TraceFile { file, at: 0, limit, totals }
    }

    /// A trace in our format, of a captured program.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn writer(
        self,
        identity: ProgramIdentity,
        start: Vec<VmEvent>,
        level: i32,
    ) -> Result<TraceWriter<TraceFile>, SourceError> {
        let header = TraceHeader { identity, start, ..TraceHeader::default() };
        TraceWriter::new(self, header, &TraceWriterSpec { level, va_bits: VA_BITS })
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at.saturating_add(bytes.len() as u64) > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the limit of file sizes (`ulimit -f`) is reached",
            ));
        }
        let written = self.file.write(bytes)?;
        self.at += written as u64;
        self.totals.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Truncate for TraceFile {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)?;
        self.at = bytes;
        Ok(())
    }
}

enum Sink {
    Ours(Box<TraceWriter<TraceFile>>),
    Foreign(Box<dyn RecordSink>),
}

impl Sink {
    fn put(&mut self, batch: &Batch) -> Result<(), SourceError> {
        match self {
            Sink::Ours(writer) => put(writer.as_mut(), batch),
            Sink::Foreign(writer) => put(writer.as_mut(), batch),
        }
    }
}

/// Writes what a batch has, in its order.
pub fn put(sink: &mut dyn RecordSink, batch: &Batch) -> Result<(), SourceError> {
    let mut events = batch.events.iter().peekable();
    for (at, record) in batch.records.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
            sink.event(event.clone())?;
        }
        sink.push(record)?;
    }
    events.try_for_each(|(_, event)| sink.event(event.clone()))
}

/// A trace that was written.
#[derive(Debug)]
pub struct Recorded {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
    /// Instructions in it.
    pub instructions: u64,
    /// Instructions that the process executed.
    pub executed: u64,
    /// Children that it forked.
    pub forks: u64,
    /// Why it ends before its program would have, if it does.
    pub cut_short: Option<String>,
    /// Why there is no trace, if nothing was recorded: the file of that name is as it was.
    pub nothing: Option<String>,
    /// The capture cannot go on: the trace could not be written to its end.
    pub failed: bool,
}

impl Recorded {
    fn after(&self, why: &str) -> String {
        format!("{why} after {} instructions", self.executed)
    }
}

/// One process's trace, before anything is written.
pub struct Recorder {
    pub reader: WireReader<Arc<File>>,
    /// The program's name.
    pub name: String,
    pub output: OutputFile,
    /// The output, opened.
    pub file: File,
    pub path: PathBuf,
    pub style: Style,
    pub totals: Arc<Totals>,
}

impl Recorder {
    /// Records until the process has finished its trace or has died, which `death` tells with the reason. A
    /// trace without records is none: the file of that name is as it was.
    ///
    /// # Errors
    /// A sentence: the file could not be written.
    pub fn run(mut self, death: &dyn Fn() -> Option<String>) -> Result<Recorded, String> {
        let (mut sink, mut batch) = (None, Batch::default());
        let mut recorded = Recorded {
            path: self.path.clone(),
            bytes: 0,
            records: 0,
            instructions: 0,
            executed: 0,
            forks: 0,
            cut_short: None,
            nothing: None,
            failed: false,
        };
        let mut files = self.reader.process().ok().map(|(process, ..)| MappedFiles::of(process));
        let received = self.receive(&mut sink, &mut batch, &mut recorded, &mut files, death);
        let names = files.as_ref().map(MappedFiles::known).unwrap_or_default();
        recorded.executed = self.reader.executed().unwrap_or_default();
        let named = |error: &SourceError| format!("{}: {error}", self.path.display());
        let mut why = received.as_ref().ok().cloned().flatten();
        match sink {
            Some(Sink::Ours(mut writer)) => {
                writer.name_ranges(names);
                let note = why.as_ref().map(|why| recorded.after(why)).unwrap_or_default();
                if let Err(error) = received.and_then(|_| writer.finish_early(&note)) {
                    let kept = writer.salvage(&error.message).map_err(|_| named(&error))?;
                    (recorded.records, recorded.instructions) = kept;
                    if recorded.records == 0 {
                        return Err(named(&error));
                    }
                    (recorded.failed, recorded.cut_short) = (true, Some(error.message));
                } else if why.is_some() {
                    recorded.cut_short = Some(note);
                }
            }
            // A compressed stream cannot be cut at its end.
            Some(Sink::Foreign(writer)) => {
                why = received.and_then(|why| writer.finish().map(|()| why)).map_err(|error| named(&error))?;
                recorded.cut_short = why.as_ref().map(|why| recorded.after(why));
            }
            None => why = received.map_err(|error| named(&error))?,
        }
        if recorded.records == 0 {
            let mut why = recorded.after(&why.unwrap_or_else(|| "the program ended".into()));
            if recorded.executed < self.style.skip {
                why += &format!(", before the {} to skip", self.style.skip);
            }
            recorded.nothing = Some(format!("nothing was recorded: {why}; the file was not written"));
            return Ok(recorded);
        }
        recorded.bytes = self.file.metadata().map_or(0, |meta| meta.len());
        self.output.finish().map_err(|error| error.to_string())?;
        Ok(recorded)
    }

    /// Receives and writes everything; says why the process has died, if it did not finish.
    fn receive(
        &mut self,
        sink: &mut Option<Sink>,
        batch: &mut Batch,
        recorded: &mut Recorded,
        files: &mut Option<MappedFiles>,
        death: &dyn Fn() -> Option<String>,
    ) -> Result<Option<String>, SourceError> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            // In this order: what was written before the end is there when the end is seen.
            let died = death();
            let finished = self.reader.is_finished()?;
            let more = self.reader.take(batch, died.is_some())?;
            let over = !more && (finished || died.is_some());
            if over && !finished {
                self.reader.rest(batch)?;
            }
            files.iter_mut().for_each(|files| files.follow(batch));
            if sink.is_none() && self.reader.start().is_some() {
                *sink = Some(self.begin()?);
            }
            if let Some(sink) = sink {
                self.put(sink, batch, recorded)?;
            }
            batch.clear();
            if over {
                return Ok(if finished { None } else { died });
            }
            if more {
                pause = SHORTEST_PAUSE;
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn put(&self, sink: &mut Sink, batch: &Batch, recorded: &mut Recorded) -> Result<(), SourceError> {
        sink.put(batch)?;
        let forks = batch.events.iter().filter(|(_, event)| matches!(event, VmEvent::Fork { .. }));
        recorded.forks += forks.count() as u64;
        recorded.records += batch.records.len() as u64;
        recorded.instructions += self.totals.add(batch);
        Ok(())
    }

    fn begin(&self) -> Result<Sink, SourceError> {
        let file = self.file.try_clone().map_err(|e| SourceError::new(format!("the trace cannot be written: {e}")))?;
        let file = TraceFile::new(file, self.style.limit, Arc::clone(&self.totals));
        let start = self.reader.start().unwrap_or_default().to_vec();
        if self.style.format != TraceFormat::Ambulator {
            let mut sink = foreign_sink(file, self.style.format, self.style.compression, false)?;
            start.into_iter().try_for_each(|event| sink.event(event))?;
            return Ok(Sink::Foreign(sink));
        }
        let identity = ProgramIdentity {
            name: self.name.clone(),
            detail: self.style.detail.clone(),
            ..ProgramIdentity::default()
        };
        file.writer(identity, start, self.style.level).map(|writer| Sink::Ours(Box::new(writer)))
    }
}

/// The files of the processes of a capture.
pub struct Names {
    stem: String,
    extension: String,
    taken: Vec<PathBuf>,
}

impl Names {
    /// Names like that of the first process's trace.
    pub fn like(out: &Path, format: TraceFormat) -> Names {
        let text = out.to_string_lossy().into_owned();
        let known = [".champsim.xz", ".champsim.gz", ".champsim.zst", ".champsim", ".amb", ".xz", ".gz", ".zst"];
        let default = if format == TraceFormat::ChampSim { ".champsim.xz" } else { ".amb" };
        let (stem, extension) = known
            .iter()
            .find_map(|known| Some((text.strip_suffix(known)?.to_owned(), (*known).to_owned())))
            .unwrap_or_else(|| (text.clone(), default.to_owned()));
        Names { stem, extension, taken: vec![out.to_owned()] }
    }

    /// The file of a forked process, or of the program that a process became.
    pub fn next(&mut self, process: u32, program: Option<&str>) -> PathBuf {
        let mut stem = format!("{}.{process}", self.stem);
        if let Some(program) = program {
            stem += &format!(".{}", program.replace('/', "_"));
        }
        let mut path = PathBuf::from(format!("{stem}{}", self.extension));
        // A process may run the same program several times in sequence.
        for time in 2.. {
            if !self.taken.contains(&path) {
                break;
            }
            path = PathBuf::from(format!("{stem}.{time}{}", self.extension));
        }
        self.taken.push(path.clone());
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Random, Record, VirtAddr};
    use ambulator_trace::wire::{RING_AT, record_cell, region, region_at, start_cell};
    use ambulator_trace::{TraceOptions, info};
    use std::os::unix::fs::FileExt;

    /// Memory that a process filled with `records` records of random addresses before it finished.
    fn memory(records: usize) -> Arc<File> {
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(region_at(1)).unwrap();
        let mut random = Random::new(3);
        let record = |va| Record { pc: VirtAddr(va % 64), va: VirtAddr(va), size: 8, ..Record::default() };
        let mut cells = vec![start_cell()];
        cells.extend((0..records).map(|_| record_cell(&record(random.below(1 << 40)))));
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        memory.write_all_at(&bytes(cells.as_flattened()), region_at(0) + RING_AT).unwrap();
        let head = [cells.len() as u64; 2];
        memory.write_all_at(&bytes(&head), region_at(0) + 8 * region::HEAD as u64).unwrap();
        memory.write_all_at(&bytes(&[region::FINISHED]), region_at(0)).unwrap();
        Arc::new(memory)
    }

    fn record(memory: &Arc<File>, path: &Path, limit: u64) -> Result<Recorded, String> {
        let output = OutputFile::prepare(path).unwrap();
        let style = Style {
            format: TraceFormat::Ambulator,
            compression: Compression::None,
            level: 1,
            detail: String::new(),
            skip: 0,
            limit,
        };
        let recorder = Recorder {
            reader: WireReader::new(Arc::clone(memory), 0, "test"),
            name: "test".into(),
            file: output.open().unwrap(),
            output,
            path: path.to_owned(),
            style,
            totals: Arc::default(),
        };
        recorder.run(&|| None)
    }

    #[test]
    fn a_limit_keeps_the_blocks_that_fit_and_else_the_earlier_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.amb");
        let records = 3 * Batch::TARGET_RECORDS + 100;
        let memory = memory(records);
        let whole = record(&memory, &path, u64::MAX).unwrap();
        assert_eq!((whole.records, whole.cut_short.as_deref(), whole.failed), (records as u64, None, false));
        assert_eq!(whole.bytes, std::fs::metadata(&path).unwrap().len());
        std::fs::write(&path, "an earlier trace").unwrap();
        for (limit, blocks) in [(10, 0), (whole.bytes / 4, 0), (whole.bytes / 2, 1), (whole.bytes - 1, 3)] {
            let recorded = record(&memory, &path, limit);
            if blocks == 0 {
                let error = recorded.unwrap_err();
                assert!(error.contains("x.amb: the trace cannot be written: the limit of file sizes"), "{error}");
                assert_eq!(std::fs::read(&path).unwrap(), b"an earlier trace");
                continue;
            }
            let recorded = recorded.unwrap();
            assert!(recorded.failed && recorded.bytes <= limit, "{recorded:?}");
            assert_eq!(recorded.records, blocks * Batch::TARGET_RECORDS as u64);
            let summary = info(&path, &TraceOptions::default()).unwrap();
            assert_eq!((summary.records, summary.instructions), (recorded.records, recorded.instructions));
            assert_eq!(summary.cut_short, recorded.cut_short);
            assert!(summary.cut_short.unwrap().contains("ulimit -f") && summary.damage.is_none());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn names_follow_the_first() {
        let mut names = Names::like(Path::new("a/x.amb"), TraceFormat::Ambulator);
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        assert_eq!(shown(names.next(7, None)), "a/x.7.amb");
        assert_eq!(shown(names.next(7, Some("ls"))), "a/x.7.ls.amb");
        assert_eq!(shown(names.next(7, Some("ls"))), "a/x.7.ls.2.amb");
        assert_eq!(shown(names.next(7, Some("ls"))), "a/x.7.ls.3.amb");
        let mut names = Names::like(Path::new("y.champsim.xz"), TraceFormat::ChampSim);
        assert_eq!(shown(names.next(7, Some("../ls"))), "y.7..._ls.champsim.xz");
        assert_eq!(shown(Names::like(Path::new("z"), TraceFormat::Ambulator).next(8, None)), "z.8.amb");
    }
}
