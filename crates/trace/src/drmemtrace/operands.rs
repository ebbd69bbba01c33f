//! The registers of instructions whose encodings a trace has: x86-64 code, or DynamoRIO's own encoding that
//! has nothing but registers (`regdeps`), which published traces of fleets use.

use crate::x86::{self, Branch, FLAGS, InstructionInfoFactory};
use rustc_hash::FxHashMap;

/// Most different instructions that are remembered.
const MOST: usize = 1 << 20;

/// What an instruction does with registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operands {
    /// Registers from which its addresses are computed.
    pub address: Box<[u8]>,
    /// Registers that it reads for anything else.
    pub reads: Box<[u8]>,
    /// Registers that it writes.
    pub writes: Box<[u8]>,
    /// The target of a conditional branch, or 0.
    pub target: u64,
}

/// How encodings are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isa {
    X86,
    RegDeps,
}

/// The instructions of a trace, by process and address.
pub(crate) struct Program {
    places: FxHashMap<(u64, u64), u32>,
    all: Vec<Operands>,
    factory: InstructionInfoFactory,
    /// Instructions that found no room.
    pub(crate) forgotten: u64,
}

impl Program {
    /// No instruction is known yet.
    pub(crate) fn new() -> Program {
        Program { places: FxHashMap::default(), all: Vec::new(), factory: InstructionInfoFactory::new(), forgotten: 0 }
    }

    /// The number of the instruction at `pc`; with `encoding`, it is new or has changed.
    #[inline]
    pub(crate) fn instruction(&mut self, process: u64, pc: u64, encoding: &[u8], isa: Isa) -> Option<u32> {
        if encoding.is_empty() {
            return self.places.get(&(process, pc)).copied();
        }
        let operands = match isa {
            Isa::X86 => {
                let decoded = x86::decode(pc, encoding, &mut self.factory);
                let target = if let Branch::Conditional(target) = decoded.branch { target } else { 0 };
                Operands { address: decoded.address, reads: decoded.reads, writes: decoded.writes, target }
            }
            Isa::RegDeps => regdeps(encoding)?,
        };
        if let Some(place) = self.places.get(&(process, pc)) {
            self.all[*place as usize] = operands;
            return Some(*place);
        }
        if self.all.len() == MOST {
            self.forgotten += 1;
            return None;
        }
        let place = self.all.len() as u32;
        self.all.push(operands);
        self.places.insert((process, pc), place);
        Some(place)
    }

    /// What the instruction with this number does.
    #[inline]
    pub(crate) fn operands(&self, number: u32) -> &Operands {
        &self.all[number as usize]
    }
}

/// The category of loads (`DR_INSTR_CATEGORY_LOAD`).
pub(super) const LOAD: u32 = 0x2;

/// Reads an encoding of the `regdeps` set; `None` if it is none.
///
/// ```text
/// u32: category (22 bits), reads flags, writes flags, number of sources (4 bits), of destinations (4 bits)
/// u8 operation size   u8 destinations[]   u8 sources[]             (absent without registers)
/// ```
fn regdeps(bytes: &[u8]) -> Option<Operands> {
    let head = u32::from_le_bytes(*bytes.first_chunk()?);
    let (writes, reads) = ((head & 15) as usize, (head >> 4 & 15) as usize);
    let operands = if writes + reads == 0 { &[] } else { bytes.get(5..5 + writes + reads)? };
    let with = |registers: &[u8], flags: bool| registers.iter().copied().chain(flags.then_some(FLAGS)).collect();
    // Registers of addresses are among the sources, and not told apart. So a load waits for all of them, and
    // what depends on it need not wait for them again.
    let reads = if head >> 10 & LOAD != 0 { &[] } else { &operands[writes..] };
    Some(Operands {
        address: operands[writes..].into(),
        reads: with(reads, head >> 9 & 1 != 0),
        writes: with(&operands[..writes], head >> 8 & 1 != 0),
        target: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_both_encodings() {
        let mut program = Program::new();
        // mov rax, [rbx + rcx * 8]
        let place = program.instruction(1, 0x1000, &[0x48, 0x8b, 0x04, 0xcb], Isa::X86).unwrap();
        let load = program.operands(place).clone();
        assert_eq!((load.address.len(), load.reads.len(), load.writes.len()), (2, 0, 1));
        assert_eq!(program.instruction(1, 0x1000, &[], Isa::X86), Some(place));
        assert_eq!(program.instruction(2, 0x1000, &[], Isa::X86), None);
        // One destination, two sources, reads and writes flags; then the operation size and padding.
        let bytes = [0x21, 0x03, 0, 0, 7, 10, 20, 30];
        let place = program.instruction(1, 0x1000, &bytes, Isa::RegDeps).unwrap();
        assert_eq!(
            *program.operands(place),
            Operands { address: [20, 30].into(), reads: [20, 30, FLAGS].into(), writes: [10, FLAGS].into(), target: 0 }
        );
        assert_eq!(regdeps(&[0, 0, 0, 0]), Some(Operands::default()));
        assert_eq!(regdeps(&[0x21, 0, 0, 0, 7, 10]), None, "it is cut short");
    }
}
