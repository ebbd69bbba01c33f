#![doc = include_str!("../README.md")]

mod lanes;
mod message;
mod read;
mod sequence;

pub use lanes::Lanes;
pub use read::{ReadSlice, ReadTrace, ReadTrack, read};
pub use sequence::{Event, Sequence, Track, Value};
