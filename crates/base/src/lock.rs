//! Locks of what parts of one simulated machine share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also if somebody who had it panicked: a machine whose run has failed is still reported.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
