//! Threads of the simulator that have called Python: an interrupt must reach a walk that does not end.

use ambulator_base::lock;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Mutex;

/// Python's numbers of these threads.
static THREADS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A thread in the list, until it ends.
struct Noted(u64);

impl Drop for Noted {
    fn drop(&mut self) {
        lock(&THREADS).retain(|number| *number != self.0);
    }
}

thread_local! {
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Notes that this thread calls Python.
pub fn note(py: Python<'_>) {
    NOTED.with_borrow_mut(|noted| {
        if noted.is_none() {
            let number = py.import("threading").and_then(|module| module.call_method0("get_ident"));
            if let Ok(number) = number.and_then(|number| number.extract::<u64>()) {
                lock(&THREADS).push(number);
                *noted = Some(Noted(number));
            }
        }
    });
}

/// Raises a `KeyboardInterrupt` in what these threads run in Python, if they do.
pub fn interrupt(py: Python<'_>) {
    let threads = lock(&THREADS).clone();
    let raise = py.import("ambulator.errors").and_then(|module| module.getattr("interrupt_threads"));
    if let Err(error) = raise.and_then(|raise| raise.call1((threads,))) {
        error.write_unraisable(py, None);
    }
}
