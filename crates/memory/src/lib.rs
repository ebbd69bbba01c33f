#![doc = include_str!("../README.md")]

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
