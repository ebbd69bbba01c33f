//! A live program that is recorded in a trace before it is simulated, for what must read it more than once.

use super::emulator::{check_program, file_size_limit};
use super::recorder::{Totals, TraceFile, put};
use super::{Progress, live};
use crate::{Failure, interrupt};
use ambulator_base::{Batch, InputFiles, NamedRange, OutputFile, ProgramIdentity, RecordSource, SourceError, lock};
use ambulator_simulator::phases::PhaseProfile;
use ambulator_simulator::spec::Spec;
use ambulator_trace::TraceWriter;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// zstd's level: the program waits while it is written.
const LEVEL: i32 = 3;

/// Instructions of each core beyond those that a run needs: a machine sees some thousand records late that a part
/// of it is over.
const MORE: u64 = 200_000;

/// What of the program is no record and no event, once it is over.
#[derive(Default)]
struct Rest {
    names: Vec<NamedRange>,
    notes: Vec<String>,
}

/// A program that is written to a trace as it is read.
struct Recording {
    program: Box<dyn RecordSource>,
    writer: Arc<Mutex<TraceWriter<TraceFile>>>,
    rest: Arc<Mutex<Rest>>,
    totals: Arc<Totals>,
}

impl RecordSource for Recording {
    fn identity(&self) -> ProgramIdentity {
        self.program.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.program.fill(batch)?;
        put(&mut *lock(&self.writer), batch)?;
        self.totals.add(batch);
        Ok(more)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        *lock(&self.rest) = Rest { names: self.program.named_ranges(), notes: self.program.notes() };
    }
}

/// Runs a program and records as much of it in the trace `path` as a run with these settings needs. `failed` is set
/// if it crashes or reports a failure before.
///
/// # Errors
/// It cannot be started or captured, the trace cannot be written, or the user has interrupted it: then no file is
/// left.
pub fn kept(
    line: &[String],
    skip: u64,
    (spec, path): (&Spec, &Path),
    failed: Arc<AtomicBool>,
    progress: bool,
) -> Result<(), Failure> {
    let [program, ..] = line else { return Err(Failure::bad("--live: name the program after `--`")) };
    // The trace must not replace the program.
    let inputs = InputFiles::from_iter([check_program(program)?]);
    let output = OutputFile::prepare_beside(path, &inputs).map_err(Failure::bad)?;
    let file = output.open().map_err(Failure::bad)?;
    let named = |error: SourceError| Failure::failed(format!("{}: {error}", path.display()));
    let program = live(line, skip, failed)?;
    let (rest, totals): (Arc<Mutex<Rest>>, Arc<Totals>) = Default::default();
    let file = TraceFile::new(file, file_size_limit(), Arc::clone(&totals));
    let writer = file.writer(program.identity(), Vec::new(), LEVEL).map_err(named)?;
    let writer = Arc::new(Mutex::new(writer));
    let recording =
        Recording { program, writer: Arc::clone(&writer), rest: Arc::clone(&rest), totals: Arc::clone(&totals) };
    let (stop, mut progress) = (interrupt::stop_flag(), Progress::new(progress));
    let mut goes_on = |_| {
        progress.show(&totals);
        !stop.load(Ordering::Relaxed)
    };
    // What reads the program for its phases knows where a run ends.
    let mut spec = spec.clone();
    spec.run.instructions = spec.run.instructions.saturating_add(MORE);
    let read = PhaseProfile::read(&spec, vec![Box::new(recording)], &mut goes_on).map_err(named)?;
    progress.clear();
    if read.is_none() || stop.load(Ordering::Relaxed) {
        return Err(Failure::failed("interrupted before anything ran: there is no result"));
    }
    let Rest { names, notes } = std::mem::take(&mut *lock(&rest));
    let mut writer = lock(&writer);
    writer.name_ranges(&names);
    writer.finish_early(&notes.join("; ")).map_err(named)?;
    output.finish().map_err(Failure::failed)
}
