//! What a translation design is to the rest of the house: a descriptor, its settings, and the parts that it puts into a
//! machine's sockets.
//!
//! ```text
//!   Descriptor (one a design)      name, paper, settings, the sockets it fills, how its parts are built
//!        |
//!   Catalogue  (all designs)       choices of each socket, defaults, checks
//!        |  + DesignSpec (which design in which socket) + DesignSettings (each design's own group)
//!        v
//!   DesignParts                    what a machine is assembled from
//! ```
//!
//! Start with [`Descriptor`]. No design is named here: designs, also those of other crates, hand in descriptors.

mod catalogue;
mod descriptor;
mod parts;
mod settings;
mod socket;
mod spec;
#[cfg(test)]
mod tests;

pub use catalogue::{Catalogue, RegisterError};
pub use descriptor::{Claims, Descriptor, Fill, NoSettings};
pub use parts::{
    Boot, DesignParts, HypervisorParts, NewFrontSide, NewLookaside, NewNodes, NewSpeculator, NewWalker, Parts, Site,
    Stage, TableParts,
};
pub use settings::{DesignSettings, Settings};
pub use socket::Socket;
pub use spec::{Choice, DesignSpec};
