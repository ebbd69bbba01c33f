//! Ctrl-C: the first leaves what is finished, the second ends at once.

use crate::{Failure, output};
use ambulator_base::OutputFile;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Exit status of a process that was interrupted in the middle, as shells have it for Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Bytes of stack for work beside the main thread: as many as that has.
const STACK: usize = 8 << 20;

/// A flag that the first Ctrl-C (or a termination signal) sets; the second ends the process with status 130
/// and removes the files that it had begun.
pub fn stop_flag() -> Arc<AtomicBool> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let install = || {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        // A process that cannot have a handler is still useful without one.
        let _ = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::SeqCst) {
                OutputFile::remove_unfinished();
                std::process::exit(INTERRUPTED);
            }
            output::tell("\nstopping; what is finished is kept (Ctrl-C again ends at once)");
        });
        stop
    };
    Arc::clone(STOP.get_or_init(install))
}

/// Does work that cannot be stopped on the way, but is given up at the first Ctrl-C: the process is then to
/// end.
pub fn given_up_when_stopped<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = stop_flag();
    let (sender, receiver) = channel();
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || {
            // Nobody listens any more if the work was given up.
            let _ = sender.send(work());
        })
        .map_err(|error| Failure::failed(format!("the host gives no thread: {error}")))?;
    loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::SeqCst) => {
                return Err(Failure::failed("interrupted before anything ran: there is no result"));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The worker ended without an answer: it panicked.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => return Err(Failure::failed("the work ended without an answer")),
            },
        }
    }
}
