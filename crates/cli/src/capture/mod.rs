//! `capture`, and live sources for `run` and `compare`: programs under qemu-user with the capture plugin.

mod children;
mod emulator;
mod kept;
mod live;
mod mapped_files;
mod recorder;

pub use kept::kept;
pub use live::live;

use crate::arguments::CaptureArguments;
use crate::output::{print, warn};
use crate::{DONE, Failure, SOME_FAILED, interrupt, report_failure};
use ambulator_base::OutputFile;
use ambulator_experiments::{bytes, count};
use ambulator_simulator::spec::parse_count;
use ambulator_trace::Compression;
use ambulator_trace::wire::{Origin, WireReader};
use children::Children;
use emulator::{EMULATOR, Emulator, Run, Stranger, check_program, file_size_limit, how_it_ended, name_of, release};
use nix::sys::signal::Signal;
use recorder::{Names, Recorded, Recorder, Style, Totals};
use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that a program has to end by itself after an interrupt, which a terminal sends to it too.
const COURTESY: Duration = Duration::from_millis(300);
/// Time that an interrupted program has to end at all.
const GRACE: Duration = Duration::from_secs(2);
/// The longest pause between two looks at the processes.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// The same while nothing records the processes that the program starts: short ones are to be seen too.
const LONGEST_PAUSE_WITH_CHILDREN: Duration = Duration::from_millis(4);
/// The environment variable with the description in the trace, if it is not to be the command line.
const DETAIL_VARIABLE: &str = "AMBULATOR_DETAIL";
/// The processor that programs see: AVX2, and no fast string moves, so that the C library copies with vectors
/// as it does natively. Features that the emulator lacks are disabled, so that it does not warn each time.
pub const CPU: &str = "Haswell-noTSX,erms=off,pcid=off,x2apic=off,tsc-deadline=off,invpcid=off";

pub fn capture(arguments: &CaptureArguments) -> Result<u8, Failure> {
    let [program, rest @ ..] = arguments.command.as_slice() else {
        return Err(Failure::bad("name the program after `--`"));
    };
    let program = check_program(program)?;
    let name = arguments.name.clone().unwrap_or_else(|| name_of(&program));
    let number = |key: &str, text: &str| parse_count(text).map_err(|e| Failure::bad(format!("--{key}: {e}")));
    let skip = number("skip", &arguments.skip)?;
    let mut settings = format!(",skip={skip}");
    for (key, value) in [("take", &arguments.take), ("every", &arguments.every), ("window", &arguments.window)] {
        if let Some(text) = value {
            settings += &format!(",{key}={}", number(key, text)?);
        }
    }
    if arguments.follow {
        settings += ",follow=on";
    }
    let (format, extension) = arguments.format.format();
    let path = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{extension}")));
    let compression = Compression::of_name(&path, format).map_err(Failure::bad)?;
    let same = |a: &PathBuf| std::fs::canonicalize(a).ok();
    if same(&path).is_some_and(|path| same(&program) == Some(path)) {
        return Err(Failure::bad(format!(
            "{}: the trace would replace the program; name another file",
            path.display()
        )));
    }
    let stop = interrupt::stop_flag();
    // Everything about the output that can be known is known before the program runs.
    let output = OutputFile::prepare(&path).map_err(Failure::bad)?;
    let file = output.open().map_err(Failure::bad)?;
    let command = || format!("ambulator capture of {}", arguments.command.join(" "));
    let detail = std::env::var(DETAIL_VARIABLE).unwrap_or_else(|_| command());
    let style = Style { format, compression, level: arguments.level, detail, skip, limit: file_size_limit() };
    let run = Run { program: &program, arguments: rest, cpu: &arguments.cpu, settings: &settings, silent: false };
    let again = interrupt::take_over();
    let emulator = Emulator::start(&run)?;
    let mut session = Session {
        children: (!arguments.follow).then(|| Children::of(emulator.number())),
        emulator,
        name,
        path: path.clone(),
        names: Names::like(&path, format),
        style,
        totals: Arc::default(),
        first: Some((path.clone(), output, file)),
        waiting: vec![0],
        processes: Vec::new(),
        done: Vec::new(),
        end: Arc::default(),
        ended_it: false,
    };
    let mut progress = Progress::new(!arguments.no_progress);
    let mut stopped: Option<Instant> = None;
    let mut pause = Duration::from_millis(1);
    let longest = if arguments.follow { LONGEST_PAUSE } else { LONGEST_PAUSE_WITH_CHILDREN };
    let status = loop {
        let ended = session.look(stopped.is_some());
        if let Some(status) = ended
            && session.processes.is_empty()
        {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            let hurry = again.load(Ordering::Relaxed);
            match stopped {
                None => stopped = Some(Instant::now()),
                Some(at) if at.elapsed() > GRACE || hurry => session.end(),
                Some(at) if at.elapsed() > COURTESY => session.terminate(),
                Some(_) => {}
            }
        }
        if session.has_failed() {
            session.end();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
        progress.show(&session.totals);
    };
    progress.clear();
    session.report(status)
}

/// A process that is being recorded.
struct Process {
    region: u64,
    /// `None` for the one that this process started.
    stranger: Option<Stranger>,
    recorder: JoinHandle<Result<Recorded, String>>,
}

/// A capture of a program and, with `--follow`, of what it starts.
struct Session {
    emulator: Emulator,
    /// What runs unrecorded, unless all is followed.
    children: Option<Children>,
    name: String,
    /// The first process's trace.
    path: PathBuf,
    names: Names,
    style: Style,
    totals: Arc<Totals>,
    /// The same, prepared, until it is being recorded.
    first: Option<(PathBuf, OutputFile, File)>,
    /// Regions that may open: the one after the last that did, and those before it that have not yet.
    waiting: Vec<u64>,
    processes: Vec<Process>,
    done: Vec<Result<Recorded, String>>,
    /// How the started program ended, once it has.
    end: Arc<OnceLock<String>>,
    /// This process has ended it.
    ended_it: bool,
}

impl Session {
    /// Starts to record new processes, collects those that have ended, and returns how the program ended, if
    /// it did.
    fn look(&mut self, interrupted: bool) -> Option<ExitStatus> {
        if let Some(children) = &mut self.children {
            children.look();
        }
        let status = self.emulator.ended();
        if let Some(status) = status {
            self.end.get_or_init(|| match interrupted {
                true => "the capture was interrupted".into(),
                false => format!("the program {}", how_it_ended(status)),
            });
        }
        if !self.has_failed()
            && let Err(error) = self.welcome()
        {
            self.done.push(Err(error));
        }
        let mut at = 0;
        while at < self.processes.len() {
            if !self.processes[at].recorder.is_finished() {
                at += 1;
                continue;
            }
            let process = self.processes.swap_remove(at);
            let recorded = process.recorder.join();
            self.done
                .push(recorded.unwrap_or_else(|_| Err("a recorder panicked: this is a mistake in Ambulator".into())));
            release(&self.emulator.memory(), process.region);
        }
        status
    }

    /// Starts a recorder for each region that has opened.
    fn welcome(&mut self) -> Result<(), String> {
        let mut at = 0;
        while at < self.waiting.len() {
            let region = self.waiting[at];
            let reader = WireReader::new(self.emulator.memory(), region, &self.name);
            if !reader.is_open().map_err(|e| e.to_string())? {
                at += 1;
                continue;
            }
            if at + 1 == self.waiting.len() {
                self.waiting.push(region + 1);
            }
            self.waiting.remove(at);
            self.record(region, reader)?;
        }
        // A process that was killed as it began leaves a region that never opens.
        if let Some(&last) = self.waiting.last()
            && WireReader::new(self.emulator.memory(), last + 1, &self.name).is_open().is_ok_and(|open| open)
        {
            self.waiting.push(last + 1);
        }
        Ok(())
    }

    fn record(&mut self, region: u64, reader: WireReader<Arc<File>>) -> Result<(), String> {
        let (number, origin, program) = reader.process().map_err(|e| e.to_string())?;
        let name = if program.is_empty() { self.name.clone() } else { program.clone() };
        let executed = (origin == Origin::Executed).then_some(program.as_str());
        let (path, output, file) = match self.first.take().filter(|_| origin == Origin::Started) {
            Some(first) => first,
            None => {
                let path = self.names.next(number, executed);
                let output = OutputFile::prepare(&path).map_err(|e| e.to_string())?;
                let file = output.open().map_err(|e| e.to_string())?;
                (path, output, file)
            }
        };
        let (style, totals) = (self.style.clone(), Arc::clone(&self.totals));
        let recorder = Recorder { reader, name, output, file, path, style, totals };
        let (end, stranger) = (Arc::clone(&self.end), (origin != Origin::Started).then(|| Stranger::new(number)));
        let other = stranger.clone();
        let death = move || match &other {
            None => end.get().cloned(),
            Some(other) => (!other.lives()).then(|| "the process was ended by a signal".to_owned()),
        };
        let recorder = std::thread::Builder::new().name("recorder".into()).spawn(move || recorder.run(&death));
        let recorder = recorder.map_err(|e| format!("a thread cannot be started: {e}"))?;
        self.processes.push(Process { region, stranger, recorder });
        Ok(())
    }

    /// Whether a trace could not be written to its end.
    fn has_failed(&self) -> bool {
        self.done.iter().any(|done| done.as_ref().map_or(true, |recorded| recorded.failed))
    }

    /// Asks all processes to end.
    fn terminate(&mut self) {
        self.emulator.terminate();
        self.processes.iter().filter_map(|p| p.stranger.as_ref()).for_each(|other| other.signal(Signal::SIGTERM));
    }

    /// Ends all processes.
    fn end(&mut self) {
        self.ended_it |= self.emulator.ended().is_none();
        self.emulator.end();
        self.processes.iter().filter_map(|p| p.stranger.as_ref()).for_each(|other| other.signal(Signal::SIGKILL));
    }

    /// Says what was recorded, and returns the exit status.
    fn report(mut self, status: ExitStatus) -> Result<u8, Failure> {
        if self.done.is_empty() {
            let how = how_it_ended(status);
            return Err(Failure::failed(format!("nothing was recorded: {EMULATOR} {how} before the program ran")));
        }
        let mut all_well = status.success();
        let forks = self.done.iter().flatten().map(|recorded| recorded.forks).sum();
        let unrecorded = self.children.as_ref().and_then(|children| children.unrecorded(&self.name, forks));
        self.done.sort_by_key(|done| done.as_ref().map(|recorded| recorded.path.clone()).unwrap_or_default());
        for done in self.done {
            match done {
                Ok(Recorded { nothing: Some(why), path, .. }) => {
                    // That a process which was followed did nothing of interest is no failure.
                    let what = format!("{}: {why}", path.display());
                    if path == self.path {
                        report_failure(Failure::failed(what));
                        all_well = false;
                    } else {
                        print(&what);
                    }
                }
                Ok(recorded) => {
                    print(&format!(
                        "{}: {}, {} of {} instructions recorded",
                        recorded.path.display(),
                        bytes(recorded.bytes as f64),
                        count(recorded.instructions as f64),
                        count(recorded.executed as f64)
                    ));
                    if let Some(why) = recorded.cut_short {
                        warn(&format!("{}: the trace was cut short: {why}", recorded.path.display()));
                        all_well = false;
                    }
                }
                Err(error) => {
                    report_failure(Failure::failed(error));
                    all_well = false;
                }
            }
        }
        if let Some(sentence) = unrecorded {
            warn(&sentence);
        }
        if !self.ended_it {
            print(&format!("{} {}", self.name, how_it_ended(status)));
        }
        Ok(if all_well { DONE } else { SOME_FAILED })
    }
}

/// A line on the terminal that says how much has been recorded.
struct Progress {
    bar: Option<indicatif::ProgressBar>,
    began: Instant,
}

impl Progress {
    fn new(wanted: bool) -> Progress {
        let wanted = wanted && std::io::stderr().is_terminal();
        Progress { bar: wanted.then(indicatif::ProgressBar::new_spinner), began: Instant::now() }
    }

    fn show(&mut self, totals: &Totals) {
        let Some(bar) = &self.bar else { return };
        let of = |total: &std::sync::atomic::AtomicU64| total.load(Ordering::Relaxed) as f64;
        let accesses = of(&totals.accesses);
        bar.set_message(format!(
            "{} instructions, {} accesses ({} a second), {}",
            count(of(&totals.instructions)),
            count(accesses),
            count(accesses / self.began.elapsed().as_secs_f64()),
            bytes(of(&totals.bytes))
        ));
        bar.tick();
    }

    fn clear(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
