//! Recordings of programs, beside checkpoints: what a program does after the place where runs start, so that
//! its data need not be made again, and what comes before the place not be repeated.
//!
//! A run that starts from checkpoints records its programs as far as it reads them, if there is no recording
//! yet; runs of any design that start there read it. One that needs more opens the program after all, and makes
//! the recording longer.

use super::file::{self, Contents, Writing};
use crate::cell::build;
use ambulator_base::{Archive, Batch, NamedRange, ProgramIdentity, RecordSource, SourceError, State, VirtAddr, lock};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use xxhash_rust::xxh3::xxh3_128;

/// How the names of recordings end.
pub(super) const SUFFIX: &str = "stream";
/// Records of a recording at most, about 100 M instructions and 200 MiB.
const MOST_RECORDS: usize = 1 << 25;

/// What a recording is of.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Header {
    /// The version of Ambulator that made it, and its models.
    version: String,
    build: String,
    /// What results say of the program.
    identity: ProgramIdentity,
    may_place: bool,
    /// The number of its first batch, and how many it has.
    first: usize,
    batches: usize,
    /// The program ends after them.
    is_whole: bool,
    /// Notes on the program, and the names of its address space's parts, as far as they are known.
    notes: Vec<String>,
    names: Vec<Name>,
}

/// A [`NamedRange`].
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Name {
    start: u64,
    len: u64,
    name: String,
    file_offset: Option<u64>,
}

/// Opened programs.
type Programs = Vec<Box<dyn RecordSource>>;
/// Opens the programs of a machine.
pub(crate) type Open = dyn Fn() -> Result<Programs, String> + Send + Sync;

/// The recordings of a machine's programs: there, or to be made.
#[derive(Debug)]
pub(crate) struct Recordings {
    /// By program: its file, and the first batch that is needed.
    of: Vec<(PathBuf, usize)>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Recordings {
    /// Of the streams that `stream` identifies, from these batches on.
    pub fn of(folder: &Path, stream: &str, firsts: &[usize], told: Arc<Mutex<Vec<String>>>) -> Recordings {
        let path = |number: usize| {
            let key = xxh3_128(format!("{}\n{stream}\n{number}", build()).as_bytes());
            folder.join(format!("{key:032x}.{SUFFIX}"))
        };
        Recordings { of: firsts.iter().enumerate().map(|(number, first)| (path(number), *first)).collect(), told }
    }

    /// The recorded programs, if all are there. A file that cannot be used is as good as none: it is made
    /// again.
    pub fn replay(&self, open: Arc<Open>) -> Option<Programs> {
        let opened = Arc::new(Mutex::new(Reopened { open, programs: None }));
        let of = |(number, (path, first)): (usize, &(PathBuf, usize))| {
            let opened_file = file::open::<Header>(path).ok()?;
            let bytes = opened_file.bytes;
            let (contents, header) = opened_file.contents().ok()?;
            if header.build != build() || header.first > *first {
                return None;
            }
            let replayed = Replayed {
                path: path.clone(),
                number,
                contents,
                header,
                position: 0,
                read: 0,
                frame: Vec::new(),
                opened: Arc::clone(&opened),
                rest: None,
            };
            Some((Box::new(replayed) as Box<dyn RecordSource>, bytes))
        };
        let all: Vec<(Box<dyn RecordSource>, u64)> = self.of.iter().enumerate().map(of).collect::<Option<_>>()?;
        for ((path, _), (program, bytes)) in self.of.iter().zip(&all) {
            let (name, bytes) = (program.identity().name, crate::number::bytes(*bytes as f64));
            lock(&self.told).push(format!("{name} is read from its recording {} ({bytes})", path.display()));
        }
        Some(all.into_iter().map(|(program, _)| program).collect())
    }

    /// The same programs, recorded as they are read.
    pub fn record(&self, programs: Programs) -> Programs {
        if programs.len() != self.of.len() {
            return programs;
        }
        let of = |(source, (path, first)): (Box<dyn RecordSource>, &(PathBuf, usize))| -> Box<dyn RecordSource> {
            Box::new(Recorder::new(source, path, *first))
        };
        programs.into_iter().zip(&self.of).map(of).collect()
    }
}

/// The programs themselves, opened when a recording is too short.
struct Reopened {
    open: Arc<Open>,
    programs: Option<Vec<Option<Box<dyn RecordSource>>>>,
}

impl Reopened {
    fn take(&mut self, number: usize) -> Result<Box<dyn RecordSource>, SourceError> {
        if self.programs.is_none() {
            let programs = (self.open)().map_err(SourceError::new)?;
            self.programs = Some(programs.into_iter().map(Some).collect());
        }
        let program = self.programs.iter_mut().flatten().nth(number).and_then(Option::take);
        program.ok_or_else(|| SourceError::new("a program is read twice: a defect of Ambulator"))
    }
}

/// A recorded program.
struct Replayed {
    path: PathBuf,
    /// Its number among those of the machine.
    number: usize,
    contents: Contents,
    header: Header,
    /// The number of the next batch.
    position: usize,
    /// Batches of the recording that have been read.
    read: usize,
    frame: Vec<u8>,
    opened: Arc<Mutex<Reopened>>,
    /// The program itself, where the recording is too short.
    rest: Option<Box<dyn RecordSource>>,
}

impl Replayed {
    /// The first batch after the recording.
    fn end(&self) -> usize {
        self.header.first + self.header.batches
    }

    /// Goes on with the program itself; after the recording's end, it is recorded again, and longer.
    fn reopen(&mut self) -> Result<&mut Box<dyn RecordSource>, SourceError> {
        let mut source = lock(&self.opened).take(self.number)?;
        if self.position >= self.header.first {
            source = Box::new(Recorder::new(source, &self.path, self.header.first));
        }
        source.skip(self.position)?;
        Ok(self.rest.insert(source))
    }

    /// Reads the next batch of the recording.
    fn next(&mut self, batch: &mut Batch) -> Result<(), String> {
        let mut length = [0; 4];
        self.contents.read_exact(&mut length).map_err(|error| error.to_string())?;
        self.frame.resize(u32::from_le_bytes(length) as usize, 0);
        self.contents.read_exact(&mut self.frame).map_err(|error| error.to_string())?;
        self.read += 1;
        let mut bytes = self.frame.as_slice();
        let mut archive = Archive::load(&mut bytes, true);
        let mut events: Vec<u8> = Vec::new();
        batch.records.state(&mut archive);
        events.state(&mut archive);
        archive.end()?;
        batch.events = serde_json::from_slice(&events).map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl RecordSource for Replayed {
    fn identity(&self) -> ProgramIdentity {
        self.header.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if let Some(source) = &mut self.rest {
            return source.fill(batch);
        }
        batch.clear();
        if self.position < self.header.first || (self.position >= self.end() && !self.header.is_whole) {
            return self.reopen()?.fill(batch);
        }
        if self.position >= self.end() {
            return Ok(false);
        }
        let unreadable = |path: &Path, error| {
            SourceError::new(format!("{}: the recording cannot be read ({error})", path.display()))
        };
        while self.header.first + self.read <= self.position {
            self.next(batch).map_err(|error| unreadable(&self.path, error))?;
        }
        self.position += 1;
        Ok(true)
    }

    fn skip(&mut self, count: usize) -> Result<usize, SourceError> {
        if let Some(source) = &mut self.rest {
            return source.skip(count);
        }
        let passed = count.min(self.end() - self.position);
        self.position += passed;
        if passed == count || self.header.is_whole {
            return Ok(passed);
        }
        Ok(passed + self.reopen()?.skip(count - passed)?)
    }

    fn may_place(&self) -> bool {
        self.header.may_place
    }

    fn notes(&self) -> Vec<String> {
        self.rest.as_ref().map_or_else(|| self.header.notes.clone(), |source| source.notes())
    }

    fn named_ranges(&self) -> Vec<NamedRange> {
        let named = |of: &Name| NamedRange {
            start: VirtAddr(of.start),
            len: of.len,
            name: of.name.clone(),
            file_offset: of.file_offset,
        };
        let recorded = || self.header.names.iter().map(named).collect();
        self.rest.as_ref().map_or_else(recorded, |source| source.named_ranges())
    }
}

/// A program that is recorded as it is read. What cannot be written is not recorded: the results are the same.
struct Recorder {
    source: Box<dyn RecordSource>,
    /// The recording, until it is complete.
    writing: Option<Writing>,
    header: Header,
    position: usize,
    records: usize,
    frame: Vec<u8>,
}

impl Recorder {
    /// Records to `path` from batch `first` on.
    fn new(source: Box<dyn RecordSource>, path: &Path, first: usize) -> Recorder {
        let header = Header {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: build().to_owned(),
            identity: source.identity(),
            may_place: source.may_place(),
            first,
            ..Header::default()
        };
        let writing = Writing::begin(path).ok();
        Recorder { source, writing, header, position: 0, records: 0, frame: Vec::new() }
    }

    fn record(&mut self, batch: &mut Batch) -> Result<(), String> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        self.frame.clear();
        let mut events = serde_json::to_vec(&batch.events).map_err(|error| error.to_string())?;
        let mut archive = Archive::save(&mut self.frame, true);
        batch.records.state(&mut archive);
        events.state(&mut archive);
        archive.end()?;
        let contents = writing.contents();
        let length = u32::try_from(self.frame.len()).map_err(|error| error.to_string())?;
        contents.write_all(&length.to_le_bytes()).map_err(|error| error.to_string())?;
        contents.write_all(&self.frame).map_err(|error| error.to_string())?;
        self.header.batches += 1;
        self.records += batch.records.len();
        Ok(())
    }

    /// The recording is complete.
    fn finish(&mut self) {
        let Some(writing) = self.writing.take() else { return };
        if self.header.batches == 0 {
            return;
        }
        let name = |of: NamedRange| Name { start: of.start.0, len: of.len, name: of.name, file_offset: of.file_offset };
        self.header.names = self.source.named_ranges().into_iter().map(name).collect();
        self.header.notes = self.source.notes();
        // Without it, the next run makes it.
        let _ = writing.finish(&self.header);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}

impl RecordSource for Recorder {
    fn identity(&self) -> ProgramIdentity {
        self.source.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.source.fill(batch)?;
        if !more {
            self.header.is_whole = self.position >= self.header.first;
            self.finish();
            return Ok(false);
        }
        if self.position >= self.header.first && self.record(batch).is_err() {
            self.writing = None;
        }
        self.position += 1;
        if self.records >= MOST_RECORDS {
            self.finish();
        }
        Ok(true)
    }

    fn skip(&mut self, count: usize) -> Result<usize, SourceError> {
        let before = count.min(self.header.first.saturating_sub(self.position));
        let mut passed = self.source.skip(before)?;
        self.position += passed;
        let mut batch = Batch::default();
        while passed < count && self.fill(&mut batch)? {
            passed += 1;
        }
        Ok(passed)
    }

    fn inner(&self) -> Option<&dyn RecordSource> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_workloads::{ProgramRequest, open};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A program, and how often it has been opened.
    fn program(name: &str, opened: &Arc<AtomicUsize>) -> Arc<Open> {
        let request =
            ProgramRequest { name: name.into(), footprint: Some(1 << 20), seed: 1, ..ProgramRequest::default() };
        let opened = Arc::clone(opened);
        Arc::new(move || {
            opened.fetch_add(1, Ordering::SeqCst);
            Ok(vec![open(&request).map_err(|error| error.to_string())?])
        })
    }

    /// The batches from `first` on, at most `count`.
    fn read(mut source: Box<dyn RecordSource>, first: usize, count: usize) -> Vec<Batch> {
        assert_eq!(source.skip(first).unwrap(), first);
        let mut all = Vec::new();
        let mut batch = Batch::default();
        while all.len() < count && source.fill(&mut batch).unwrap() {
            all.push(batch.clone());
        }
        all
    }

    #[test]
    fn a_recording_has_the_batches_of_its_program_and_grows_where_it_is_too_short() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Arc::<AtomicUsize>::default();
        for name in ["gups", "kmer"] {
            let open = program(name, &opened);
            let of = |first: usize| Recordings::of(folder.path(), name, &[first], Arc::default());
            let really = |first: usize, count: usize| read(open().unwrap().remove(0), first, count);
            assert!(of(3).replay(Arc::clone(&open)).is_none(), "there is none");
            let recorded = of(3).record(open().unwrap()).remove(0);
            assert!(read(recorded, 3, 4) == really(3, 4));
            opened.store(0, Ordering::SeqCst);
            let replayed = |first: usize| of(first).replay(Arc::clone(&open)).map(|mut all| all.remove(0));
            assert!(replayed(2).is_none(), "it begins too late");
            for (first, count) in [(3, 4), (3, 1), (5, 2), (4, 0)] {
                let batches = read(replayed(first).unwrap(), first, count);
                assert_eq!((batches.len(), opened.load(Ordering::SeqCst)), (count, 0), "{name}");
                assert!(batches == really(first, count), "{name}: {first}, {count}");
                opened.store(0, Ordering::SeqCst);
            }
            assert_eq!(replayed(3).unwrap().identity(), open().unwrap()[0].identity());
            // More than there is, by reading and by passing over; then it is longer.
            opened.store(0, Ordering::SeqCst);
            assert!(read(replayed(4).unwrap(), 4, 6) == really(4, 6));
            opened.store(0, Ordering::SeqCst);
            assert!(read(replayed(3).unwrap(), 3, 7).len() == 7 && opened.load(Ordering::SeqCst) == 0);
            assert!(read(replayed(3).unwrap(), 12, 1) == really(12, 1));
            opened.store(0, Ordering::SeqCst);
            assert!(read(replayed(3).unwrap(), 12, 1).len() == 1 && opened.load(Ordering::SeqCst) == 0);
            // What comes before it is the program's own, and leaves it as it is.
            assert!(read(replayed(3).unwrap(), 1, 3) == really(1, 3));
            opened.store(0, Ordering::SeqCst);
            assert!(read(replayed(3).unwrap(), 12, 1).len() == 1 && opened.load(Ordering::SeqCst) == 0);
        }
    }

    #[test]
    fn a_recording_knows_its_programs_end_and_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Arc::<AtomicUsize>::default();
        let open: Arc<Open> = {
            let opened = Arc::clone(&opened);
            Arc::new(move || {
                opened.fetch_add(1, Ordering::SeqCst);
                Ok(vec![Box::new(Few(0)) as Box<dyn RecordSource>])
            })
        };
        let of = || Recordings::of(folder.path(), "few", &[2], Arc::default());
        let all = read(of().record(open().unwrap()).remove(0), 2, usize::MAX);
        assert_eq!(all.len(), 3);
        opened.store(0, Ordering::SeqCst);
        let replayed = || of().replay(Arc::clone(&open)).unwrap().remove(0);
        assert!(read(replayed(), 2, usize::MAX) == all);
        assert_eq!((replayed().skip(9).unwrap(), replayed().notes()), (5, vec!["few".to_owned()]));
        assert_eq!(replayed().named_ranges(), Few(0).named_ranges());
        assert_eq!(opened.load(Ordering::SeqCst), 0);
        let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(of().replay(Arc::clone(&open)).is_none());
        read(of().record(open().unwrap()).remove(0), 2, usize::MAX);
        assert!(std::fs::read(&path).unwrap() == whole, "it is made again");
    }

    /// Five batches with events.
    struct Few(u64);

    impl RecordSource for Few {
        fn identity(&self) -> ProgramIdentity {
            ProgramIdentity { name: "few".into(), ..ProgramIdentity::default() }
        }

        fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            if self.0 == 5 {
                return Ok(false);
            }
            self.0 += 1;
            batch.push_event(ambulator_base::VmEvent::Brk { end: VirtAddr(self.0 << 20) });
            batch.records.push(ambulator_base::Record { va: VirtAddr(self.0), gap: 7, size: 8, ..Default::default() });
            batch.push_event(ambulator_base::VmEvent::Switch { process: ambulator_base::ProcessId(1), thread: 2 });
            Ok(true)
        }

        fn notes(&self) -> Vec<String> {
            vec!["few".into()]
        }

        fn named_ranges(&self) -> Vec<NamedRange> {
            vec![NamedRange { start: VirtAddr(4096), len: 8, name: "heap".into(), file_offset: None }]
        }
    }
}
