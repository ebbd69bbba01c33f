//! Decoded instructions of the program, by the block that they are translated in.

pub use ambulator_trace::x86::{Branch, Decoded, FLAGS, decode};

/// A block of the program: instructions that execute in sequence, unless one faults.
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// The instructions.
    pub instructions: Vec<Decoded>,
}
