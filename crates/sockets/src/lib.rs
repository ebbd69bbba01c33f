//! What a translation design is to the rest of the house: the parts that it puts into a machine's sockets.

mod parts;

pub use parts::{Boot, DesignParts, NewFrontSide, NewLookaside, NewSpeculator, NewWalker};
