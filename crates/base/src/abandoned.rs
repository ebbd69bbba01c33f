//! Work that cannot be stopped, such as the generation of a graph of gigabytes, and is abandoned instead.

use crate::sim_host_limits;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// As much as the main thread has.
const STACK: usize = 8 << 20;

/// Why work has no result.
pub enum Abandoned {
    /// The stop came first. The work goes on, and its result is lost.
    Stopped,
    /// The sim host refused its thread: a sentence.
    NoThread(String),
    /// It panicked.
    Panicked(Box<dyn Any + Send>),
}

/// Runs `work` on a thread of its own, until `stop` is set. When it has a result, its thread has ended.
///
/// # Errors
/// It was stopped, could not begin, or panicked.
pub fn unless_stopped<T: Send + 'static>(
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Abandoned> {
    let (sender, receiver) = channel();
    let work = move || {
        // There is no receiver if the work was abandoned.
        let _ = sender.send(work());
    };
    let worker = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(work)
        .map_err(|error| Abandoned::NoThread(format!("cannot start a thread: {error}; {}", sim_host_limits())))?;
    let done = loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::SeqCst) => return Err(Abandoned::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            ended => break ended.ok(),
        }
    };
    let ended = worker.join();
    // Without a result, it has panicked.
    done.ok_or_else(|| Abandoned::Panicked(ended.err().unwrap_or_else(|| Box::new("no result"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_its_result_its_panic_or_the_stop() {
        let stop = AtomicBool::new(false);
        assert!(matches!(unless_stopped(&stop, || 7), Ok(7)));
        let Err(Abandoned::Panicked(what)) = unless_stopped(&stop, || -> u32 { panic!("why") }) else { panic!() };
        assert_eq!(what.downcast_ref::<&str>(), Some(&"why"));
        stop.store(true, Ordering::SeqCst);
        let (held, hold) = channel::<()>();
        let endless = move || hold.recv().is_ok();
        assert!(matches!(unless_stopped(&stop, endless), Err(Abandoned::Stopped)));
        drop(held);
    }
}
