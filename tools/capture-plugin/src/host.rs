//! What the plugin asks of the operating system itself.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often a process looks whether the recorder lives.
const WATCH_PERIOD: Duration = Duration::from_millis(200);

/// The recorder's process number; 0 before [`end_with_recorder`].
static RECORDER: AtomicU32 = AtomicU32::new(0);

/// The recorder's process number; 0 if it is not known.
pub fn recorder() -> u32 {
    RECORDER.load(Ordering::Relaxed)
}

/// Ends the process at once: no handlers, no destructors, while other threads may run.
pub fn exit(status: i32) -> ! {
    // SAFETY: never returns, and touches nothing of ours.
    unsafe { libc::_exit(status) }
}

/// Reports an error and ends the process.
pub fn stop(error: &str) -> ! {
    say(error);
    exit(74)
}

/// Reports to the user.
pub fn say(message: &str) {
    eprintln!("ambulator capture: {message}");
}

/// Maps a part of a file, shared with other processes.
pub fn map_shared(file: &File, at: u64, bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            at as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) }
}

fn parent() -> u32 {
    // SAFETY: a plain call.
    unsafe { libc::getppid() as u32 }
}

/// The time at which a process was started, if that can be seen; of a zombie it is empty.
fn start_time(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    // What nobody has waited for is as good as gone.
    let lives = !matches!(fields.next()?, "Z" | "X");
    Some(fields.nth(18).filter(|_| lives).unwrap_or_default().to_owned())
}

/// Makes this process end with the recorder, however that ends. The kernel kills a child of its at once,
/// unless the program has changed its user; every process watches it from a thread.
pub fn end_with_recorder(recorder: u32) {
    RECORDER.store(recorder, Ordering::Relaxed);
    if parent() == recorder {
        // SAFETY: a plain call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if parent() != recorder {
            exit(74);
        }
    }
    watch_recorder();
}

/// Whether a process exists, of any user.
fn exists(process: u32) -> bool {
    // SAFETY: signal 0 is never sent.
    let answer = unsafe { libc::kill(process as libc::pid_t, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Starts the thread that watches the recorder. A forked child has no threads but its first: it calls this
/// again.
pub fn watch_recorder() {
    let recorder = recorder();
    // A process in another namespace cannot see it.
    if recorder == 0 || !exists(recorder) {
        return;
    }
    let started = start_time(recorder);
    let watch = move || {
        // Its number may have been given to another process.
        while exists(recorder) && start_time(recorder).is_none_or(|time| started.as_ref() == Some(&time)) {
            std::thread::sleep(WATCH_PERIOD);
        }
        exit(74)
    };
    // The program's signals are for the emulator's own threads: a new thread inherits the mask.
    // SAFETY: sets of signals on the stack, and this thread's own mask, which is set back.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let thread = std::thread::Builder::new().name("capture".into()).spawn(watch);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        if thread.is_err() {
            stop("a thread cannot be started");
        }
    }
}
