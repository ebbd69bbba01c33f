//! `capture`, and live sources for `run` and `compare`: programs under qemu-user with the capture plugin.

use crate::arguments::{CaptureArguments, FormatArgument};
use crate::output::print;
use crate::{DONE, Failure, SOME_FAILED, interrupt};
use ambulator_base::{Batch, ProgramIdentity, RecordSource, SourceError};
use ambulator_experiments::{bytes, count};
use ambulator_simulator::spec::parse_count;
use ambulator_trace::{self as trace, Compression, Conversion, TraceFormat, TraceStream};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The emulator, as Debian's package `qemu-user` installs it.
const EMULATOR: &str = "qemu-x86_64";
/// The plugin's file.
const PLUGIN: &str = "libambulator_capture.so";
/// Time that an interrupted program has to end, so that its trace is complete.
const GRACE: Duration = Duration::from_secs(2);
/// The environment variable with the plugin's path.
const PLUGIN_VARIABLE: &str = "AMBULATOR_CAPTURE_PLUGIN";
/// The processor that programs see: AVX2, and no fast string moves, so that the C library copies with vectors
/// as it does natively. Features that the emulator lacks are disabled, so that it does not warn each time.
pub const CPU: &str = "Haswell-noTSX,erms=off,pcid=off,x2apic=off,tsc-deadline=off,invpcid=off";

/// The first file of that name on the search path.
fn on_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn emulator() -> Result<PathBuf, Failure> {
    on_path(EMULATOR).ok_or_else(|| {
        Failure::bad(format!(
            "`{EMULATOR}` is not installed; on Debian: apt-get install qemu-user (version 7.2 or later)"
        ))
    })
}

/// Finds the plugin: as set in the environment, next to this program, or where `make capture-plugin` builds
/// it.
fn plugin() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(PLUGIN_VARIABLE) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        return Err(Failure::bad(format!("{PLUGIN_VARIABLE} names {}, which is not a file", path.display())));
    }
    let command = std::env::current_exe().unwrap_or_default();
    let adjacent = command.parent().map(|folder| folder.join(PLUGIN));
    // In the folder that cargo built this command in, wherever that is.
    let target = command.parent().and_then(Path::parent);
    let built_with = target.map(|target| target.join("capture-plugin/release").join(PLUGIN));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/capture-plugin/release").join(PLUGIN);
    let found = adjacent.into_iter().chain(built_with).chain([built]).find(|path| path.is_file());
    found.ok_or_else(|| {
        Failure::bad(format!(
            "the capture plugin {PLUGIN} is not built: run `make capture-plugin` in Ambulator's source, or set \
             {PLUGIN_VARIABLE} to its path"
        ))
    })
}

/// Checks before anything runs that the program exists and is a binary of this architecture.
fn check_program(name: &str) -> Result<PathBuf, Failure> {
    let path = if name.contains('/') { PathBuf::from(name) } else { on_path(name).unwrap_or_default() };
    if !path.is_file() {
        return Err(Failure::bad(format!("the program `{name}` is not found; give its path, or install it")));
    }
    let shown = path.display();
    let mut head = [0; 64];
    let got = File::open(&path)
        .and_then(|mut file| file.read(&mut head))
        .map_err(|e| Failure::bad(format!("{shown} cannot be read: {e}")))?;
    let head = &head[..got];
    if let Some(line) = head.strip_prefix(b"#!") {
        let line =
            String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).trim().to_owned();
        return Err(Failure::bad(format!(
            "{shown} is a script: capture its interpreter instead: ambulator capture -- {line} {shown} ..."
        )));
    }
    if !head.starts_with(b"\x7fELF") {
        return Err(Failure::bad(format!("{shown} is not a Linux binary (it does not begin with ELF)")));
    }
    let machine = head.get(18..20).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]));
    if head.get(4) != Some(&2) || machine != 62 {
        let of = match machine {
            3 => "32-bit x86",
            40 => "32-bit Arm",
            183 => "64-bit Arm",
            243 => "RISC-V",
            _ => "another architecture",
        };
        return Err(Failure::bad(format!("{shown} is a binary for {of}; the capture records x86-64 programs")));
    }
    Ok(path)
}

/// The program under the emulator with the plugin.
fn command(program: &Path, arguments: &[String], cpu: &str, plugin_arguments: &str) -> Result<Command, Failure> {
    if plugin_arguments.contains(",,") {
        return Err(Failure::bad("names and paths of a capture must not contain commas"));
    }
    let mut command = Command::new(emulator()?);
    command
        .args(["-cpu", cpu, "-plugin"])
        .arg(format!("{},{plugin_arguments}", plugin()?.display()))
        .arg(program)
        .args(arguments);
    Ok(command)
}

fn name_of(program: &Path) -> String {
    program.file_name().map_or_else(|| "program".into(), |name| name.to_string_lossy().into_owned())
}

/// Rejects a value with a comma, because the emulator splits plugin arguments at commas.
fn no_comma(what: &str, text: &str) -> Result<(), Failure> {
    if text.contains(',') {
        return Err(Failure::bad(format!("{what} `{text}` contains a comma, which the emulator's arguments cannot")));
    }
    Ok(())
}

pub fn capture(arguments: &CaptureArguments) -> Result<u8, Failure> {
    let [program, rest @ ..] = arguments.command.as_slice() else {
        return Err(Failure::bad("name the program after `--`"));
    };
    let program = check_program(program)?;
    let name = arguments.name.clone().unwrap_or_else(|| name_of(&program));
    let number = |key: &str, text: &str| parse_count(text).map_err(|e| Failure::bad(format!("--{key}: {e}")));
    let extension = match arguments.format {
        FormatArgument::Amb => "amb",
        FormatArgument::Champsim => "champsim.xz",
    };
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{extension}")));
    let format = match arguments.format {
        FormatArgument::Amb => TraceFormat::Ambulator,
        FormatArgument::Champsim => TraceFormat::ChampSim,
    };
    let compression = Compression::of_name(&out, format).map_err(Failure::bad)?;
    // ChampSim's format has no VM events: a complete Ambulator trace is converted to it.
    let captured = match arguments.format {
        FormatArgument::Amb => out.clone(),
        FormatArgument::Champsim => out.with_extension("capture.amb"),
    };
    let status = captured.with_extension("status");
    for (what, text) in [("--name", name.as_str()), ("--out", &captured.to_string_lossy())] {
        no_comma(what, text)?;
    }
    let mut settings = format!("out={},name={name},level={}", captured.display(), arguments.level);
    settings += &format!(",skip={},status={}", number("skip", &arguments.skip)?, status.display());
    for (key, value) in [("take", &arguments.take), ("every", &arguments.every), ("window", &arguments.window)] {
        if let Some(text) = value {
            settings += &format!(",{key}={}", number(key, text)?);
        }
    }
    if arguments.follow {
        settings += ",follow=on";
    }
    let detail = format!("ambulator capture of {}", arguments.command.join(" "));
    let mut child = command(&program, rest, &arguments.cpu, &settings)?
        .env("AMBULATOR_DETAIL", detail)
        .spawn()
        .map_err(|e| Failure::bad(format!("{EMULATOR} cannot be started: {e}")))?;
    let ended = watch(&mut child, &status, !arguments.no_progress);
    let _ = std::fs::remove_file(&status);
    let ended = ended.map_err(|e| Failure::failed(format!("{EMULATOR}: {e}")))?;
    if !captured.is_file() {
        return Err(Failure::failed(format!("nothing was captured: the program ended with {ended}")));
    }
    if arguments.format == FormatArgument::Champsim {
        let conversion = Conversion { format, compression, ..Conversion::default() };
        trace::convert(&captured, &out, &conversion).map_err(Failure::failed)?;
        let _ = std::fs::remove_file(&captured);
    }
    let size = std::fs::metadata(&out).map_or(0, |meta| meta.len());
    print(&format!("{}: {}; the program ended with {ended}", out.display(), bytes(size as f64)));
    Ok(if ended.success() { DONE } else { SOME_FAILED })
}

/// Waits for the program and shows the progress of the capture.
fn watch(child: &mut Child, status: &Path, wanted: bool) -> std::io::Result<std::process::ExitStatus> {
    let bar = (wanted && std::io::stderr().is_terminal()).then(indicatif::ProgressBar::new_spinner);
    let (began, stop) = (Instant::now(), interrupt::stop_flag());
    let mut stopped: Option<Instant> = None;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(ended) = child.try_wait()? {
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            return Ok(ended);
        }
        if stop.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > GRACE {
            child.kill()?;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
        if let Some(bar) = &bar
            && let Ok(text) = std::fs::read_to_string(status)
        {
            let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            if let [instructions, accesses, written] = numbers[..] {
                let rate = accesses / began.elapsed().as_secs_f64();
                bar.set_message(format!(
                    "{} instructions, {} accesses ({} a second), {}",
                    count(instructions),
                    count(accesses),
                    count(rate),
                    bytes(written)
                ));
            }
            bar.tick();
        }
    }
}

/// A program that is captured while it is simulated. It waits when the simulation falls behind, and ends with
/// it.
struct Live {
    child: Child,
    stream: TraceStream<File>,
    /// Contains the pipe; removed on drop.
    _folder: TempDir,
}

impl RecordSource for Live {
    fn identity(&self) -> ProgramIdentity {
        self.stream.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.stream.fill(batch)
    }

    fn notes(&self) -> Vec<String> {
        self.stream.notes()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a program for a live simulation.
pub fn live(line: &[String], skip: u64) -> Result<Box<dyn RecordSource>, Failure> {
    let [program, rest @ ..] = line else { return Err(Failure::bad("--live: name the program after `--`")) };
    let program = check_program(program)?;
    let name = name_of(&program);
    no_comma("the program's name", &name)?;
    let folder = tempfile::Builder::new().prefix("ambulator-live-").tempdir();
    let folder =
        folder.map_err(|e| Failure::failed(format!("the folder of the program's pipe cannot be created: {e}")))?;
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return Err(Failure::failed(format!("the pipe {} cannot be created (mkfifo)", pipe.display())));
    }
    // Speed before size: the stream is read at once and not stored.
    let settings = format!("out={},name={name},level=1,skip={skip}", pipe.display());
    let mut child = command(&program, rest, CPU, &settings)?
        .env("AMBULATOR_DETAIL", format!("live: {}", line.join(" ")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| Failure::bad(format!("{EMULATOR} cannot be started: {e}")))?;
    // Opening the pipe waits for the writer, which never comes if the program ends at once.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(File::open(pipe)));
    let stop = interrupt::stop_flag();
    let file = loop {
        if stop.load(Ordering::Relaxed) {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(Failure::failed("interrupted before anything ran: there is no result"));
        }
        match receiver.recv_timeout(Duration::from_millis(50)) {
            Ok(file) => break file.map_err(Failure::failed)?,
            Err(_) => {
                if let Ok(Some(ended)) = child.try_wait() {
                    return Err(Failure::failed(format!("{name} ended before it was captured: {ended}")));
                }
            }
        }
    };
    let stream = TraceStream::new(file, &name).map_err(Failure::failed)?;
    Ok(Box::new(Live { child, stream, _folder: folder }))
}
