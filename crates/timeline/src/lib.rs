#![doc = include_str!("../README.md")]

mod lanes;
mod message;
mod sequence;

pub use lanes::Lanes;
pub use sequence::{Event, Sequence, Track, Value};
