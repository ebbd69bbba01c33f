#![doc = include_str!("../README.md")]

mod bitmap;
mod buddy;
mod contiguity;
mod fmfi;
mod fragment;
mod free_lists;
mod huge_words;
mod nodes;
mod physical;
mod pressure;
mod selection;

pub use buddy::{BlockOrder, BuddyAllocator, BuddySpec, PrefetchStep};
pub use contiguity::Contiguity;
pub use fragment::{FragmentReport, FragmentSpec, fragment};
pub use huge_words::HugeWords;
pub use nodes::{MAX_NODES, NodeAllocations, Zonelist};
pub use physical::{FrameSlot, MAX_BYTES, MemoryError, PhysicalMemory};
pub use pressure::{PressureReport, PressureSpec, press};
