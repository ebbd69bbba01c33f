//! What a trace needs of an x86-64 instruction: its registers, and how it branches.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpAccess, Register};

pub use iced_x86::InstructionInfoFactory;

/// How an instruction branches, as far as it matters to a predictor. The target buffer and the return stack
/// predict direct jumps, calls and returns, so these get no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// It does not branch, or always to the same target.
    None,
    /// Conditionally, to this target.
    Conditional(u64),
    /// To a computed target.
    Indirect,
}

/// An instruction of the program, decoded once.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Its address.
    pub pc: u64,
    /// Its bytes.
    pub len: u8,
    /// How it branches.
    pub branch: Branch,
    /// Registers from which its addresses are computed.
    pub address: Box<[u8]>,
    /// Registers that it reads for anything else (its results, or a branch's outcome).
    pub reads: Box<[u8]>,
    /// Registers that it writes with computed values (not the steps of the stack pointer and of string
    /// pointers).
    pub writes: Box<[u8]>,
    /// It is a string instruction with a repeat prefix.
    pub repeats: bool,
}

impl Decoded {
    /// Whether, without an access, it only counts as one more instruction.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.branch == Branch::None && self.writes.is_empty() && !self.repeats
    }
}

/// The flags, as one more register after iced's numbers.
pub const FLAGS: u8 = 255;

/// A number for a register's full width; `None` for those that carry no dependence.
fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    let carried = full.is_gpr64() || full.is_vector_register() || full.is_mm() || full.is_st() || full.is_k();
    (carried && (full as usize) < usize::from(FLAGS)).then_some(full as usize as u8)
}

fn push(list: &mut Vec<u8>, register: Option<u8>) {
    if let Some(register) = register.filter(|r| !list.contains(r)) {
        list.push(register);
    }
}

/// Decodes the instruction at `pc`.
pub fn decode(pc: u64, bytes: &[u8], factory: &mut InstructionInfoFactory) -> Decoded {
    let mut instruction = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut instruction);
    let (mut address, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let info = factory.info(&instruction);
    for memory in info.used_memory() {
        if memory.access() != OpAccess::NoMemAccess {
            push(&mut address, number(memory.base()));
            push(&mut address, number(memory.index()));
        }
    }
    // These pointers advance by constants; their values do not depend on the instruction's own load.
    let steps = |register: u8| {
        let is = |r: Register| number(r) == Some(register);
        (instruction.is_stack_instruction() && is(Register::RSP))
            || (instruction.is_string_instruction() && (is(Register::RSI) || is(Register::RDI) || is(Register::RCX)))
    };
    for used in info.used_registers() {
        let Some(register) = number(used.register()).filter(|&r| !steps(r)) else {
            continue;
        };
        let (read, write) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            // A narrow write keeps the register's other bits.
            OpAccess::Write => (matches!(used.register().size(), 1 | 2), true),
            OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => (false, false),
        };
        let only_address = address.contains(&register) && used.access() == OpAccess::Read;
        if read && !only_address {
            push(&mut reads, Some(register));
        }
        if write {
            push(&mut writes, Some(register));
        }
    }
    // LEA computes with its address registers; it accesses nothing.
    if instruction.rflags_read() != 0 {
        push(&mut reads, Some(FLAGS));
    }
    if instruction.rflags_modified() != 0 {
        push(&mut writes, Some(FLAGS));
    }
    let branch = match instruction.flow_control() {
        FlowControl::ConditionalBranch => Branch::Conditional(instruction.near_branch_target()),
        FlowControl::IndirectBranch | FlowControl::IndirectCall => Branch::Indirect,
        _ => Branch::None,
    };
    Decoded {
        pc,
        len: bytes.len() as u8,
        branch,
        address: address.into(),
        reads: reads.into(),
        writes: writes.into(),
        repeats: instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix()),
    }
}
