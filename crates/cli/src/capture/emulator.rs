//! Programs under qemu-user with the capture plugin, and the memory that they share with this process.

use crate::Failure;
use ambulator_experiments::bytes as shown_bytes;
use ambulator_trace::wire;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// The emulator, as Debian's package `qemu-user` installs it.
pub const EMULATOR: &str = "qemu-x86_64";
/// The plugin's file.
const PLUGIN: &str = "libambulator_capture.so";
/// The environment variable with the plugin's path.
const PLUGIN_VARIABLE: &str = "AMBULATOR_CAPTURE_PLUGIN";
/// The most processes of one capture. The memory of those that have not started takes no room.
const MOST_PROCESSES: u64 = 1 << 14;

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
pub fn check_program(name: &str) -> Result<PathBuf, Failure> {
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

/// A program's name: that of its file.
pub fn name_of(program: &Path) -> String {
    program.file_name().map_or_else(|| "program".into(), |name| name.to_string_lossy().into_owned())
}

/// The limit of the size of files that this process may write (`ulimit -f`), in bytes.
pub fn file_size_limit() -> u64 {
    getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Memory for the captured processes to write to. It has no name in any folder, and goes with its last user.
fn shared_memory() -> Result<File, Failure> {
    let limit = file_size_limit();
    let wanted = wire::region_at(MOST_PROCESSES).min(limit);
    let least = wire::region_at(1);
    if wanted < least {
        return Err(Failure::failed(format!(
            "files may have {} here (`ulimit -f`), and the memory that a captured program writes to counts as a file of \
             {}; raise the limit",
            shown_bytes(limit as f64),
            shown_bytes(least as f64)
        )));
    }
    let made = memfd_create("ambulator-capture", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from).and_then(|memory| {
        let memory = File::from(memory);
        memory.set_len(wanted)?;
        wire::initialise(&memory, wanted)?;
        Ok(memory)
    });
    made.map_err(|e| Failure::failed(format!("memory to share with the program cannot be created: {e}")))
}

/// A program under the emulator. It ends when this is dropped, and when this process ends in whatever way.
pub struct Emulator {
    child: Child,
    memory: Arc<File>,
    ended: Option<ExitStatus>,
}

/// How a program is run.
pub struct Run<'a> {
    pub program: &'a Path,
    pub arguments: &'a [String],
    /// The processor model.
    pub cpu: &'a str,
    /// Settings of the plugin, each after a comma.
    pub settings: &'a str,
    /// Without standard input, and with its output discarded.
    pub silent: bool,
}

impl Emulator {
    /// Starts a program.
    pub fn start(run: &Run<'_>) -> Result<Emulator, Failure> {
        let (emulator, plugin) = (emulator()?, plugin()?);
        let memory = shared_memory()?;
        let process = std::process::id();
        // The emulator splits its option at commas that are not doubled.
        let plugin = plugin.display().to_string().replace(',', ",,");
        let wire = format!("wire=/proc/{process}/fd/{},recorder={process}", memory.as_raw_fd());
        let mut command = Command::new(emulator);
        command.args(["-cpu", run.cpu, "-plugin"]).arg(format!("{plugin},{wire}{}", run.settings));
        command.arg(run.program).args(run.arguments);
        if run.silent {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        let child = command.spawn().map_err(|e| Failure::bad(format!("{EMULATOR} cannot be started: {e}")))?;
        Ok(Emulator { child, memory: Arc::new(memory), ended: None })
    }

    /// The memory that its processes write to.
    pub fn memory(&self) -> Arc<File> {
        Arc::clone(&self.memory)
    }

    /// Its number in the kernel.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // An error means that somebody else has waited for it: it has ended.
            self.ended = self.child.try_wait().unwrap_or(Some(ExitStatus::from_raw(0)));
        }
        self.ended
    }

    /// Asks the program to end, as `kill` does.
    pub fn terminate(&mut self) {
        if self.ended().is_none() {
            let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        }
    }

    /// Ends the program and everything that it started, at once.
    pub fn end(&mut self) {
        let _ = wire::request_stop(&self.memory);
        if self.ended().is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives the memory of a region that is not needed any more back to the system.
pub fn release(memory: &File, region: u64) {
    use nix::fcntl::{FallocateFlags, fallocate};
    let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    // The ring and the chunks; the rest is small, and says that the region was used.
    let (at, len) = (wire::region_at(region) + wire::RING_AT, wire::REGION_BYTES - wire::RING_AT);
    let _ = fallocate(memory, mode, at as i64, len as i64);
}

/// A process that is not a child of this one, by its number in the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Stranger {
    number: u32,
    /// When it started: numbers are used again.
    since: Option<String>,
}

impl Stranger {
    /// The living process of that number, if there is one.
    pub fn new(number: u32) -> Stranger {
        Stranger { number, since: start_time(number) }
    }

    /// Whether it lives.
    pub fn lives(&self) -> bool {
        self.since.is_some() && start_time(self.number) == self.since
    }

    /// Sends a signal to it, if it lives.
    pub fn signal(&self, signal: Signal) {
        if self.lives() {
            let _ = kill(Pid::from_raw(self.number as i32), signal);
        }
    }
}

/// The time at which a living process started; `None` if there is none of that number.
fn start_time(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let lives = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| lives).map(str::to_owned)
}

/// How a program ended, as the end of a sentence: "was ended by SIGSEGV", "ended with exit status 7".
pub fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(number), _) => match Signal::try_from(number) {
            Ok(signal) => format!("was ended by {signal}"),
            Err(_) => format!("was ended by signal {number}"),
        },
        (None, code) => format!("ended with exit status {}", code.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_named() {
        for (raw, said) in [(0, "ended with exit status 0"), (7 << 8, "ended with exit status 7")] {
            assert_eq!(how_it_ended(ExitStatus::from_raw(raw)), said);
        }
        assert_eq!(how_it_ended(ExitStatus::from_raw(11)), "was ended by SIGSEGV");
        assert_eq!(how_it_ended(ExitStatus::from_raw(0x80 | 6)), "was ended by SIGABRT");
        assert_eq!(how_it_ended(ExitStatus::from_raw(35)), "was ended by signal 35");
    }

    #[test]
    fn strangers_live_until_they_have_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let stranger = Stranger::new(child.id());
        assert!(stranger.lives());
        stranger.signal(Signal::SIGKILL);
        while stranger.lives() {
            std::thread::yield_now();
        }
        // It is a zombie now: nobody has waited for it.
        child.wait().unwrap();
        assert!(!stranger.lives() && !Stranger::new(child.id()).lives());
    }
}
