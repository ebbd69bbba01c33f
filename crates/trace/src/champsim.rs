//! ChampSim's traces: 64-byte `input_instr` records, raw or compressed, read and written.
//!
//! ```text
//! u64 ip   u8 is_branch   u8 branch_taken   u8 destination_registers[2]   u8 source_registers[4]
//! u64 destination_memory[2]   u64 source_memory[4]          (little-endian; 0 is none)
//! ```
//!
//! Source: `inc/trace_instruction.h` of ChampSim. The format leaves some points open; this reader decides:
//!
//! - It has no access sizes. An access has [`ACCESS_BYTES`] bytes, or fewer where those would cross a line,
//!   so that no line crossing is invented.
//! - Dependences come from registers: a record depends on the two latest loads that its instruction's source
//!   registers come from, through any instructions between. The format does not distinguish address registers
//!   from data registers, so a store also waits for its data. The stack pointer (6) and the instruction
//!   pointer (26) carry no dependence: they would chain every push and call.
//! - A taken branch's target is the next instruction's `ip`; the target of one not taken is unknown and
//!   recorded as 0.
//! - An instruction with several accesses gives several records; later gaps are shorter by the surplus, so
//!   that the instruction count stays right.
//!
//! [`super::champsim_writer`] writes the format.

use crate::compressed::Unpacked;
use crate::implicit_maps::ImplicitMaps;
use crate::width::Width;
use ambulator_base::{Batch, LINE_BYTES, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr};

/// Bytes of an instruction in the file.
pub const INSTRUCTION_BYTES: usize = 64;
/// Assumed bytes of an access.
pub const ACCESS_BYTES: u64 = 8;
/// ChampSim's number of the stack pointer.
pub(crate) const STACK_POINTER: u8 = 6;
/// ChampSim's number of the flags.
pub(crate) const FLAGS: u8 = 25;
/// ChampSim's number of the instruction pointer.
pub(crate) const INSTRUCTION_POINTER: u8 = 26;

fn word(bytes: &[u8], at: usize) -> u64 {
    super::format::u64_at(bytes, at)
}

/// Whether 64 bytes may be an instruction: flags are 0 or 1, only branches are taken, and the ip is set.
fn is_instruction(bytes: &[u8]) -> bool {
    let canonical = |address: u64| matches!(address >> 56, 0 | 1 | 0xff);
    bytes[8] <= 1
        && bytes[9] <= bytes[8]
        && word(bytes, 0) != 0
        && (0..7).all(|i| canonical(word(bytes, if i == 0 { 0 } else { 8 + i * 8 })))
}

/// Whether a file that begins with `bytes` may be a trace: the first instruction is one, and so are three
/// quarters of all. (One alone says little: the header of an ELF file passes for an instruction. But a
/// damaged one among many is to be reported with its place.)
pub(crate) fn plausible(bytes: &[u8]) -> bool {
    let are: Vec<bool> = bytes.chunks_exact(INSTRUCTION_BYTES).map(is_instruction).collect();
    are.first() == Some(&true) && are.iter().filter(|is| **is).count() * 4 >= are.len() * 3
}

/// A ChampSim trace as a stream.
pub(crate) struct ChampSimReader {
    input: Unpacked,
    identity: ProgramIdentity,
    maps: Option<ImplicitMaps>,
    width: Width,
    /// For each register the numbers (from 1) of the two latest loads that its value comes from.
    producers: [[u64; 2]; 256],
    records: u64,
    gap: u64,
    debt: u64,
    /// A taken branch whose target is the next instruction's ip.
    branch: Option<Record>,
}

fn merge(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    let (high, low) = if a[0] >= b[0] { (a, b) } else { (b, a) };
    let second = if low[0] == high[0] { low[1] } else { low[0] };
    [high[0], high[1].max(second)]
}

impl ChampSimReader {
    pub(crate) fn new(input: Unpacked, identity: ProgramIdentity, maps: Option<ImplicitMaps>, va_bits: u8) -> Self {
        ChampSimReader {
            input,
            identity,
            maps,
            width: Width::new(va_bits),
            producers: [[0; 2]; 256],
            records: 0,
            gap: 0,
            debt: 0,
            branch: None,
        }
    }

    fn emit(&mut self, record: Record, batch: &mut Batch) {
        match &mut self.maps {
            Some(maps) => maps.push(record, batch),
            None => batch.records.push(record),
        }
    }

    fn instruction(&mut self, bytes: &[u8; INSTRUCTION_BYTES], batch: &mut Batch) {
        let ip = self.width.fit(word(bytes, 0));
        if let Some(mut branch) = self.branch.take() {
            branch.va = VirtAddr(ip);
            self.emit(branch, batch);
        }
        let carried = |r: &&u8| !matches!(**r, 0 | STACK_POINTER | INSTRUCTION_POINTER);
        let sources =
            bytes[12..16].iter().filter(carried).fold([0; 2], |all, &r| merge(all, self.producers[usize::from(r)]));
        let before = self.records;
        let mut value = sources;
        let is_branch = bytes[8] != 0;
        // Loads come before stores, as in an instruction that changes memory.
        for (at, kind) in [32, 40, 48, 56]
            .map(|at| (at, RecordKind::Load))
            .into_iter()
            .chain([(16, RecordKind::Store), (24, RecordKind::Store)])
        {
            // 0 means no access; an address that truncates to 0 still is one.
            let address = word(bytes, at);
            if address != 0 {
                let va = self.width.fit(address);
                let size = ACCESS_BYTES.min(LINE_BYTES - va % LINE_BYTES) as u8;
                let record = self.record(ip, va, size, kind, sources, before);
                self.emit(record, batch);
                if kind == RecordKind::Load {
                    value = merge(value, [self.records, 0]);
                }
            }
        }
        if is_branch {
            let taken = bytes[9] != 0;
            let kind = if taken { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
            let record = self.record(ip, 0, 0, kind, value, before);
            if taken {
                self.branch = Some(record);
            } else {
                self.emit(record, batch);
            }
        }
        for register in bytes[10..12].iter().filter(carried) {
            self.producers[usize::from(*register)] = value;
        }
        if self.records == before {
            self.gap += 1;
        } else {
            self.debt += self.records - before - 1;
        }
    }

    fn record(&mut self, pc: u64, va: u64, size: u8, kind: RecordKind, producers: [u64; 2], before: u64) -> Record {
        self.records += 1;
        let mut gap = 0;
        if self.records == before + 1 {
            let paid = self.debt.min(self.gap);
            gap = self.gap - paid;
            self.debt -= paid;
            self.gap = 0;
        }
        let distance = |producer: u64| match producer {
            0 => 0,
            p => u16::try_from(self.records - p).unwrap_or(0),
        };
        Record {
            pc: VirtAddr(pc),
            va: VirtAddr(va),
            gap: u32::try_from(gap).unwrap_or(u32::MAX),
            dep1: distance(producers[0]),
            dep2: distance(producers[1]),
            size,
            kind,
        }
    }
}

impl RecordSource for ChampSimReader {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.len() < Batch::TARGET_RECORDS {
            let offset = self.input.offset;
            let bytes = self.input.peek(INSTRUCTION_BYTES).map_err(SourceError::new)?;
            let Some(bytes) = bytes.first_chunk::<INSTRUCTION_BYTES>() else {
                let left = bytes.len();
                if left > 0 {
                    return Err(SourceError::new(format!(
                        "{}: the ChampSim trace is cut short: {left} bytes at byte {offset}, where an instruction has \
                         {INSTRUCTION_BYTES}",
                        self.input.name()
                    )));
                }
                if let Some(branch) = self.branch.take() {
                    self.emit(branch, batch);
                }
                break;
            };
            let bytes = *bytes;
            if bytes[8] > 1 || bytes[9] > 1 {
                return Err(SourceError::new(format!(
                    "{}: instruction {} at byte {offset} is not a ChampSim instruction: is_branch \
                     is {} and branch_taken {}, where \
                     both are 0 or 1; is it another kind of trace, or damaged?",
                    self.input.name(),
                    offset / INSTRUCTION_BYTES as u64,
                    bytes[8],
                    bytes[9]
                )));
            }
            self.input.consume(INSTRUCTION_BYTES);
            self.instruction(&bytes, batch);
        }
        Ok(!batch.is_empty())
    }

    fn notes(&self) -> Vec<String> {
        self.width.notes(self.input.name())
    }
}
