#![doc = include_str!("../README.md")]

mod catalogue;
mod descriptor;
mod parts;
mod settings;
mod socket;
mod spec;
#[cfg(test)]
mod tests;

pub use catalogue::Catalogue;
pub use descriptor::{Claims, Descriptor, Fill, NoSettings};
pub use parts::{
    Boot, DesignParts, HypervisorParts, NewFrontSide, NewLookaside, NewNodes, NewSpeculator, NewTlbPrefetcher,
    NewWalker, Parts, Site, Stage, TableParts,
};
pub use settings::{DesignSettings, Settings};
pub use socket::{Socket, TRACE_PLACEMENT};
pub use spec::{Choice, DesignSpec};
