//! ChampSim's traces: 64-byte `input_instr` or 96-byte `cloudsuite_instr` records, raw or compressed.
//!
//! ```text
//! u64 ip   u8 is_branch   u8 branch_taken   u8 destination_registers[2]   u8 source_registers[4]
//! u64 destination_memory[2]   u64 source_memory[4]          (little-endian; 0 is none)
//! ```
//!
//! The other kind has four destinations of each, six bytes of padding after the registers, and at the end two
//! address-space identifiers and six more bytes of padding. The first identifier says the process.
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
//! [`super::champsim_writer`] writes both.

use crate::compressed::Unpacked;
use crate::open::TraceOptions;
use crate::processes::Processes;
use crate::registers::{Loads, Registers, distance, merge};
use crate::width::Width;
use ambulator_base::{Batch, LINE_BYTES, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr};

/// Bytes of an `input_instr`.
pub const INSTRUCTION_BYTES: usize = 64;
/// Bytes of the longest kind of instruction.
pub(crate) const LONGEST: usize = 96;
/// Assumed bytes of an access.
pub const ACCESS_BYTES: u64 = 8;
/// ChampSim's number of the stack pointer.
pub(crate) const STACK_POINTER: u8 = 6;
/// ChampSim's number of the flags.
pub(crate) const FLAGS: u8 = 25;
/// ChampSim's number of the instruction pointer.
pub(crate) const INSTRUCTION_POINTER: u8 = 26;

/// Where the fields of an instruction are.
pub(crate) struct Layout {
    pub(crate) bytes: usize,
    pub(crate) destinations: std::ops::Range<usize>,
    pub(crate) sources: std::ops::Range<usize>,
    pub(crate) stores: &'static [usize],
    pub(crate) loads: &'static [usize],
    /// The first of two identifiers of an address space.
    pub(crate) asid: Option<usize>,
}

/// `input_instr`.
pub(crate) static INPUT: Layout = Layout {
    bytes: INSTRUCTION_BYTES,
    destinations: 10..12,
    sources: 12..16,
    stores: &[16, 24],
    loads: &[32, 40, 48, 56],
    asid: None,
};

/// `cloudsuite_instr`.
pub(crate) static CLOUDSUITE: Layout = Layout {
    bytes: LONGEST,
    destinations: 10..14,
    sources: 14..18,
    stores: &[24, 32, 40, 48],
    loads: &[56, 64, 72, 80],
    asid: Some(88),
};

fn word(bytes: &[u8], at: usize) -> u64 {
    super::format::u64_at(bytes, at)
}

impl Layout {
    /// Whether these bytes may be an instruction: flags are 0 or 1, only branches are taken, the ip is set,
    /// and addresses are canonical.
    fn is_instruction(&self, bytes: &[u8]) -> bool {
        let canonical = |at: &usize| matches!(word(bytes, *at) >> 56, 0 | 1 | 0xff);
        bytes[8] <= 1
            && bytes[9] <= bytes[8]
            && word(bytes, 0) != 0
            && canonical(&0)
            && self.stores.iter().chain(self.loads).all(canonical)
    }

    /// Whether a file that begins with `bytes` may be of this kind: the first instruction is one, and so are
    /// three quarters of all. (One alone says little: the header of an ELF file passes for an instruction.
    /// But a damaged one among many is to be reported with its place.)
    fn plausible(&self, bytes: &[u8]) -> bool {
        let are: Vec<bool> = bytes.chunks_exact(self.bytes).map(|bytes| self.is_instruction(bytes)).collect();
        are.first() == Some(&true) && are.iter().filter(|is| **is).count() * 4 >= are.len() * 3
    }
}

/// The kind of instructions in a trace that begins with `bytes`; `None` if it has neither. If both kinds are
/// possible, it is the shorter one.
pub(crate) fn layout(bytes: &[u8]) -> Option<&'static Layout> {
    [&INPUT, &CLOUDSUITE].into_iter().find(|layout| layout.plausible(bytes))
}

/// Whether the instructions are CloudSuite's.
pub(crate) fn is_cloudsuite(layout: &Layout) -> bool {
    layout.asid.is_some()
}

/// A ChampSim trace as a stream.
pub(crate) struct ChampSimReader {
    input: Unpacked,
    identity: ProgramIdentity,
    layout: &'static Layout,
    processes: Processes,
    /// The process that runs.
    asid: u8,
    width: Width,
    registers: Registers,
    records: u64,
    gap: u64,
    debt: u64,
    /// A taken branch whose target is the next instruction's ip.
    branch: Option<Record>,
}

impl ChampSimReader {
    pub(crate) fn new(
        input: Unpacked,
        identity: ProgramIdentity,
        layout: &'static Layout,
        options: &TraceOptions,
    ) -> ChampSimReader {
        ChampSimReader {
            input,
            identity,
            layout,
            processes: Processes::new(options.implicit_maps.then_some(options.map_granularity)),
            asid: 0,
            width: Width::new(options.va_bits),
            registers: Registers::default(),
            records: 0,
            gap: 0,
            debt: 0,
            branch: None,
        }
    }

    fn instruction(&mut self, bytes: &[u8; LONGEST], batch: &mut Batch) -> Result<(), String> {
        let layout = self.layout;
        let ip = self.width.fit(word(bytes, 0));
        let asid = layout.asid.map_or(0, |at| bytes[at]);
        if let Some(mut branch) = self.branch.take() {
            branch.va = VirtAddr(if asid == self.asid { ip } else { 0 });
            self.processes.push(branch, batch);
        }
        if asid != self.asid {
            // Registers are the process's own.
            self.registers = Registers::default();
            self.asid = asid;
        }
        self.processes.enter(u64::from(asid), 0, batch)?;
        let carried = |r: &&u8| !matches!(**r, 0 | STACK_POINTER | INSTRUCTION_POINTER);
        let sources = self.registers.read(bytes[layout.sources.clone()].iter().filter(carried).copied());
        let before = self.records;
        let mut loaded = [0; 2];
        let is_branch = bytes[8] != 0;
        // Loads come before stores, as in an instruction that changes memory.
        let loads = layout.loads.iter().map(|at| (*at, RecordKind::Load));
        for (at, kind) in loads.chain(layout.stores.iter().map(|at| (*at, RecordKind::Store))) {
            // 0 means no access; an address that truncates to 0 still is one.
            let address = word(bytes, at);
            if address != 0 {
                let va = self.width.fit(address);
                let size = ACCESS_BYTES.min(LINE_BYTES - va % LINE_BYTES) as u8;
                let record = self.record(ip, va, size, kind, sources, before);
                self.processes.push(record, batch);
                if kind == RecordKind::Load {
                    loaded = merge(loaded, [self.records, 0]);
                }
            }
        }
        // Loads wait for all sources: what depends on them need not wait for those again.
        let value = if loaded == [0; 2] { sources } else { loaded };
        if is_branch {
            let taken = bytes[9] != 0;
            let kind = if taken { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
            let record = self.record(ip, 0, 0, kind, value, before);
            if taken {
                self.branch = Some(record);
            } else {
                self.processes.push(record, batch);
            }
        }
        for register in bytes[layout.destinations.clone()].iter().filter(carried) {
            self.registers.write(*register, value);
        }
        if self.records == before {
            self.gap += 1;
        } else {
            self.debt += self.records - before - 1;
        }
        Ok(())
    }

    fn record(&mut self, pc: u64, va: u64, size: u8, kind: RecordKind, producers: Loads, before: u64) -> Record {
        self.records += 1;
        let mut gap = 0;
        if self.records == before + 1 {
            let paid = self.debt.min(self.gap);
            gap = self.gap - paid;
            self.debt -= paid;
            self.gap = 0;
        }
        Record {
            pc: VirtAddr(pc),
            va: VirtAddr(va),
            gap: u32::try_from(gap).unwrap_or(u32::MAX),
            dep1: distance(self.records, producers[0]),
            dep2: distance(self.records, producers[1]),
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
            let length = self.layout.bytes;
            let found = self.input.peek(length).map_err(SourceError::new)?;
            if found.len() < length {
                let left = found.len();
                if left > 0 {
                    return Err(SourceError::new(format!(
                        "{}: the ChampSim trace is cut short: {left} bytes at byte {offset}, where an instruction has \
                         {length}",
                        self.input.name()
                    )));
                }
                if let Some(branch) = self.branch.take() {
                    self.processes.push(branch, batch);
                }
                break;
            }
            let mut bytes = [0; LONGEST];
            bytes[..length].copy_from_slice(&found[..length]);
            if bytes[8] > 1 || bytes[9] > 1 {
                return Err(SourceError::new(format!(
                    "{}: instruction {} at byte {offset} is not a ChampSim instruction: is_branch \
                     is {} and branch_taken {}, where \
                     both are 0 or 1; is it another kind of trace, or damaged?",
                    self.input.name(),
                    offset / length as u64,
                    bytes[8],
                    bytes[9]
                )));
            }
            self.input.consume(length);
            self.instruction(&bytes, batch)
                .map_err(|what| SourceError::new(format!("{}: {what}", self.input.name())))?;
        }
        Ok(!batch.is_empty())
    }

    fn notes(&self) -> Vec<String> {
        self.width.notes(self.input.name())
    }
}
