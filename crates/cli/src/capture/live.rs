//! A program that is simulated while it runs.

use super::CPU;
use super::emulator::{Emulator, Run, check_program, how_it_ended, name_of};
use super::mapped_files::MappedFiles;
use crate::{Failure, interrupt};
use ambulator_base::{Batch, NamedRange, ProgramIdentity, RecordSource, SourceError};
use ambulator_trace::wire::WireReader;
use std::fs::File;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pauses while the program has nothing to simulate.
const SHORTEST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// Time for a program that has said its last to end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program that is captured while it is simulated. It waits when the simulation falls behind, and ends with
/// it.
struct Live {
    emulator: Emulator,
    reader: WireReader<Arc<File>>,
    files: Option<MappedFiles>,
    name: String,
    command: String,
    stop: Arc<AtomicBool>,
    /// The initial address space has been delivered.
    started: bool,
    over: bool,
    /// Set if the program crashes or reports a failure.
    failed: Arc<AtomicBool>,
    note: Option<String>,
}

impl RecordSource for Live {
    fn identity(&self) -> ProgramIdentity {
        let detail = format!("live: {}", self.command);
        ProgramIdentity { name: self.name.clone(), detail, ..ProgramIdentity::default() }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let mut pause = SHORTEST_PAUSE;
        while !self.over {
            if self.stop.load(Ordering::Relaxed) {
                self.emulator.end();
                self.over = true;
                break;
            }
            // In this order: what was written before the end is there when the end is seen.
            let ended = self.emulator.ended();
            let finished = self.reader.is_finished()?;
            let more = self.reader.take(batch, ended.is_some())?;
            if !more && (finished || ended.is_some()) {
                self.over = true;
                if !finished {
                    self.reader.rest(batch)?;
                }
                self.conclude(finished)?;
            }
            self.files.iter_mut().for_each(|files| files.follow(batch));
            if !self.started
                && let Some(start) = self.reader.start()
            {
                self.started = true;
                batch.events.splice(0..0, start.iter().map(|event| (0, event.clone())));
            }
            if !batch.is_empty() {
                return Ok(true);
            }
            if !more {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        Ok(!batch.is_empty())
    }

    fn notes(&self) -> Vec<String> {
        self.note.iter().cloned().collect()
    }

    fn named_ranges(&self) -> Vec<NamedRange> {
        self.files.as_ref().map_or_else(Vec::new, |files| files.known().to_vec())
    }
}

impl Live {
    /// Notes how the program ended, unless it ended well.
    fn conclude(&mut self, finished: bool) -> Result<(), SourceError> {
        let patience = Instant::now();
        // A program that has become another runs on; that one is not captured.
        while finished && self.emulator.ended().is_none() && patience.elapsed() < LAST_WORDS {
            std::thread::sleep(SHORTEST_PAUSE);
        }
        if let Some(status) = self.emulator.ended().filter(|status| !status.success()) {
            self.failed.store(true, Ordering::SeqCst);
            self.note = Some(format!(
                "{} {} after {} instructions; the simulation covers what it executed until then",
                self.name,
                how_it_ended(status),
                self.reader.executed()?
            ));
        }
        Ok(())
    }
}

/// Starts a program for a live simulation. `failed` is set if it crashes or reports a failure before the
/// simulation has enough.
pub fn live(line: &[String], skip: u64, failed: Arc<AtomicBool>) -> Result<Box<dyn RecordSource>, Failure> {
    let [program, rest @ ..] = line else { return Err(Failure::bad("--live: name the program after `--`")) };
    let program = check_program(program)?;
    let name = name_of(&program);
    let settings = format!(",skip={skip}");
    let run = Run { program: &program, arguments: rest, cpu: CPU, settings: &settings, silent: true };
    let stop = interrupt::stop_flag();
    let mut emulator = Emulator::start(&run)?;
    let reader = WireReader::new(emulator.memory(), 0, &name);
    let early = |status: ExitStatus| {
        let how = how_it_ended(status);
        Failure::failed(format!("{name} {how} before anything was captured; `ambulator capture` shows what it says"))
    };
    loop {
        let ended = emulator.ended();
        if reader.is_open().map_err(Failure::failed)? {
            break;
        }
        if let Some(status) = ended {
            return Err(early(status));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("interrupted before anything ran: there is no result"));
        }
        std::thread::sleep(SHORTEST_PAUSE);
    }
    let command = line.join(" ");
    let (started, over) = (false, false);
    let files = reader.process().ok().map(|(process, ..)| MappedFiles::of(process));
    Ok(Box::new(Live { emulator, reader, files, name, command, stop, started, over, failed, note: None }))
}
