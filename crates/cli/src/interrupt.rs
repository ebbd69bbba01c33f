//! Signals: the first stops and keeps all results, a second keeps those that are finished and ends the
//! process.

use crate::{Failure, output};
use ambulator_base::{Abandoned, OutputFile, sim_host_limits, unless_stopped};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Exit status of an interrupted process, as in shells for Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Signals that follow the first within this time are the same request: `timeout` sends one to the process
/// and one to its group.
const ONE_REQUEST: Duration = Duration::from_millis(200);

/// Whether the current work ends soon by itself after a signal ([`take_over`]), and whether another signal
/// came then.
static TAKEN_OVER: AtomicBool = AtomicBool::new(false);
static AGAIN: AtomicBool = AtomicBool::new(false);

/// From now on a second signal does not end the process but sets the returned flag: the caller then ends at
/// once, and keeps what there is.
#[cfg_attr(not(target_os = "linux"), expect(dead_code))]
pub fn take_over() -> &'static AtomicBool {
    TAKEN_OVER.store(true, Ordering::SeqCst);
    &AGAIN
}

/// A flag that the first Ctrl-C (or termination signal) sets. The second saves the results that are finished,
/// removes unfinished files and ends the process with status 130.
pub fn stop_flag() -> Arc<AtomicBool> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let install = || {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let mut first: Option<Instant> = None;
        let installed = ctrlc::set_handler(move || match first {
            None => {
                first = Some(Instant::now());
                // Before the flag: who sees it may end the process at once.
                output::report("\nstopping; finished results are kept (Ctrl-C again ends at once)");
                flag.store(true, Ordering::SeqCst);
            }
            Some(first) if first.elapsed() < ONE_REQUEST => {}
            Some(_) => {
                if TAKEN_OVER.load(Ordering::SeqCst) {
                    AGAIN.store(true, Ordering::SeqCst);
                    return;
                }
                output::keep_finished();
                OutputFile::remove_unfinished();
                std::process::exit(INTERRUPTED);
            }
        });
        if let Err(error) = installed {
            // Signals may be blocked now, and nothing has been done yet.
            output::report(&format!("error: cannot wait for signals: {error}; {}", sim_host_limits()));
            std::process::exit(i32::from(crate::SOME_FAILED));
        }
        stop
    };
    Arc::clone(STOP.get_or_init(install))
}

/// Runs work that cannot be stopped, and abandons it at the first Ctrl-C; the caller must then end the
/// process.
pub fn abandoned_when_stopped<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    unless_stopped(&stop_flag(), work).unwrap_or_else(|why| match why {
        Abandoned::Stopped => Err(Failure::failed("interrupted before anything ran: there is no result")),
        Abandoned::NoThread(why) => Err(Failure::failed(why)),
        Abandoned::Panicked(panic) => resume_unwind(panic),
    })
}
