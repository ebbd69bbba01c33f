//! Locks on state that parts of one simulated machine share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even if an earlier holder panicked: a machine whose run failed can still report.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
