//! Simulated physical memory (bytes, where translation structures live) and its frame allocators.
//!
//! - [`PhysicalMemory`]: sparse bytes; what is never written costs the host nothing.
//! - [`BuddyAllocator`]: who owns which 4 KiB frame, with Linux's orders, allocation of a stated block, and
//!   the fragmentation indices of the literature.
//! - [`fragment`] and [`press`]: bring the allocator to a stated fragmentation or occupancy from a seed.

mod bitmap;
mod buddy;
mod contiguity;
mod fmfi;
mod fragment;
mod host_words;
mod physical;
mod pressure;
mod selection;

pub use buddy::{BuddyAllocator, BuddySpec};
pub use contiguity::Contiguity;
pub use fragment::{FragmentReport, FragmentSpec, fragment};
pub use host_words::HostWords;
pub use physical::{HostPlace, MAX_BYTES, MemoryError, PhysicalMemory};
pub use pressure::{PressureReport, PressureSpec, press};
