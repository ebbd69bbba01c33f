//! Writes traces of drmemtrace: one file of all threads, one after another as they ran.
//!
//! DynamoRIO reads such a file with `-infile`. An instruction has four bytes. Its encoding is of `regdeps`,
//! DynamoRIO's own instruction set of nothing but categories and registers, in which dependences are
//! ([`crate::held`]). Instructions of a gap have neither registers nor their real addresses: they lie before the
//! next record, or behind a taken branch at its target.
//!
//! Changes of the address space are calls as `-record_syscall` records them, places of pages pairs of addresses
//! as `-use_physical` does. Explicit fetches, first touches outside the records, forks, exits and the region of
//! interest have no equivalent.

use super::calls;
use super::entry::{Entry, NEWEST_VERSION, file_type, kind, marker};
use crate::RecordSink;
use crate::compressed::{Compression, Finish, packing};
use crate::held::{Allocated, HeldRecords, Step};
use crate::writer::cannot_write;
use ambulator_base::{FRAME_BYTES, LINE_BYTES, ProcessId, Record, RecordKind, SourceError, VmEvent};
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::RangeInclusive;

/// Virtual registers that hold values of loads: `rv0` to `rv183` of DynamoRIO.
const REGISTERS: RangeInclusive<u8> = 2..=185;
/// Bytes of an instruction.
const INSTRUCTION: u16 = 4;
/// Most instructions of a gap that have addresses of their own.
const GAP_ADDRESSES: u64 = 16;
/// The name of process 0's first thread, and of the first other thread.
const FIRST_PROCESS: u64 = 1000;
const FIRST_THREAD: u64 = 100_000;
/// Instructions of a microsecond.
const INSTRUCTIONS_PER_MICROSECOND: u64 = 1000;
/// The time of the first instruction: the beginning of 2000, in microseconds since 1601.
const FIRST_TIME: u64 = 12_591_158_400_000_000;

/// `DR_INSTR_CATEGORY_*`.
mod category {
    pub(super) use super::super::operands::LOAD;
    pub(super) const STORE: u32 = 0x4;
    pub(super) const BRANCH: u32 = 0x8;
}

/// Writes a trace of drmemtrace.
pub(crate) struct DrMemTraceWriter {
    out: Box<dyn Finish>,
    held: HeldRecords,
    /// The thread that runs, and the names of all.
    running: (ProcessId, u32),
    threads: BTreeMap<(ProcessId, u32), u64>,
    /// Instructions written, and those still to be written for explicit fetches.
    instructions: u64,
    gap: u64,
    /// Where instructions of the gap begin: the target of a taken branch just before.
    target: Option<u64>,
    /// The address of the last record.
    pc: u64,
    left_out: u64,
}

impl DrMemTraceWriter {
    /// Starts a trace.
    ///
    /// # Errors
    /// The compressor cannot be set up, or writing fails.
    pub(crate) fn new<W: Write + 'static>(out: W, compression: Compression) -> Result<DrMemTraceWriter, SourceError> {
        let mut writer = DrMemTraceWriter {
            out: packing(out, compression).map_err(cannot_write)?,
            held: HeldRecords::new(REGISTERS),
            running: (ProcessId(0), 0),
            threads: BTreeMap::new(),
            instructions: 0,
            gap: 0,
            target: None,
            pc: 0,
            left_out: 0,
        };
        writer.entry(kind::HEADER, 0, NEWEST_VERSION)?;
        writer.marker(marker::VERSION, NEWEST_VERSION)?;
        writer.marker(marker::FILETYPE, file_type::ENCODINGS | file_type::ARCH_REGDEPS)?;
        writer.name_thread()?;
        writer.marker(marker::CACHE_LINE_SIZE, LINE_BYTES)?;
        writer.marker(marker::PAGE_SIZE, FRAME_BYTES)?;
        writer.time()?;
        Ok(writer)
    }

    fn entry(&mut self, kind: u16, size: u16, value: u64) -> Result<(), SourceError> {
        self.out.write_all(&Entry { kind, size, value }.bytes()).map_err(cannot_write)
    }

    fn marker(&mut self, marker: u16, value: u64) -> Result<(), SourceError> {
        self.entry(kind::MARKER, marker, value)
    }

    /// The following entries are of the thread that runs.
    fn name_thread(&mut self) -> Result<(), SourceError> {
        let (process, thread) = self.running;
        let own = FIRST_PROCESS + u64::from(process.0);
        let next = FIRST_THREAD + self.threads.len() as u64;
        let name = *self.threads.entry(self.running).or_insert(if thread == 0 { own } else { next });
        self.entry(kind::THREAD, 8, name)?;
        self.entry(kind::PID, 8, own)
    }

    fn time(&mut self) -> Result<(), SourceError> {
        self.marker(marker::TIMESTAMP, FIRST_TIME + self.instructions / INSTRUCTIONS_PER_MICROSECOND)?;
        self.marker(marker::CPU_ID, 0)
    }

    /// Writes an instruction with this encoding; a taken branch may need its target beside.
    fn instruction(&mut self, pc: u64, (kind, target): (u16, Option<u64>), encoding: u64) -> Result<(), SourceError> {
        self.instructions += 1;
        self.entry(kind::ENCODING, if encoding >> 32 == 0 { 4 } else { 8 }, encoding)?;
        if let Some(target) = target {
            self.marker(marker::BRANCH_TARGET, target)?;
        }
        self.entry(kind, INSTRUCTION, pc)
    }

    /// Writes the instructions of the gap before the one at `pc`.
    fn write_gap(&mut self, pc: u64) -> Result<(), SourceError> {
        let gap = std::mem::take(&mut self.gap);
        let target = self.target.take();
        for left in (1..=gap).rev() {
            let at = match target {
                Some(target) => target.wrapping_add(4 * (gap - left).min(GAP_ADDRESSES - 1)),
                None => pc.saturating_sub(4 * left.min(GAP_ADDRESSES)).max(1),
            };
            self.instruction(at, (kind::INSTR, None), 0)?;
        }
        Ok(())
    }

    /// Writes what need no longer be held; at the end of the stream (`all`), everything.
    fn write_held(&mut self, all: bool) -> Result<(), SourceError> {
        while let Some(step) = self.held.next(all) {
            match step {
                Step::Record(one) => self.write_record(&one)?,
                Step::Event(event) => self.write_event(&event)?,
            }
        }
        Ok(())
    }

    fn write_record(&mut self, one: &Allocated) -> Result<(), SourceError> {
        let (record, pc) = (&one.record, one.record.pc.0);
        self.gap += u64::from(record.gap);
        self.pc = pc;
        if record.kind == RecordKind::Fetch {
            return Ok(());
        }
        self.write_gap(pc)?;
        let (category, entry) = match record.kind {
            RecordKind::Load => (category::LOAD, kind::INSTR),
            RecordKind::Store => (category::STORE, kind::INSTR),
            RecordKind::BranchNotTaken => (category::BRANCH, kind::INSTR_UNTAKEN_JUMP),
            _ => (category::BRANCH, kind::INSTR_TAKEN_JUMP),
        };
        let mut branch = (entry, None);
        if record.kind == RecordKind::BranchTaken {
            // The next instruction is the target's, or else the branch is an indirect one that says its target.
            let next = self.held.following().map(|next| (next.gap, next.kind, next.pc));
            if let Some((1.., ..)) = next {
                self.target = Some(record.va.0);
            } else if !matches!(next, Some((0, kind, pc)) if kind != RecordKind::Fetch && pc == record.va) {
                branch = (kind::INSTR_INDIRECT_JUMP, Some(record.va.0));
            }
        }
        self.instruction(pc, branch, encoding(category, one))?;
        match record.kind {
            RecordKind::Load => self.entry(kind::READ, u16::from(record.size), record.va.0),
            RecordKind::Store => self.entry(kind::WRITE, u16::from(record.size), record.va.0),
            _ => Ok(()),
        }
    }

    fn write_event(&mut self, event: &VmEvent) -> Result<(), SourceError> {
        match *event {
            VmEvent::Switch { process, thread } => {
                self.write_gap(self.pc)?;
                self.running = (process, thread);
                self.name_thread()?;
                self.time()
            }
            VmEvent::Place { start, len, at, .. } => (0..len).step_by(FRAME_BYTES as usize).try_for_each(|offset| {
                self.marker(marker::PHYSICAL_ADDRESS, at.0 + offset)?;
                self.marker(marker::VIRTUAL_ADDRESS, start.0 + offset)
            }),
            _ => match calls::system_call(event) {
                Some((id, arguments)) => {
                    self.marker(marker::FUNC_ID, id)?;
                    arguments.into_iter().try_for_each(|argument| self.marker(marker::FUNC_ARG, argument))?;
                    self.marker(marker::FUNC_ID, id)?;
                    self.marker(marker::FUNC_RETVAL, calls::SUCCEEDED)
                }
                None => Ok(()),
            },
        }
    }
}

/// An encoding of at most three registers (`core/ir/isa_regdeps/encoding_common.h` of DynamoRIO).
fn encoding(category: u32, one: &Allocated) -> u64 {
    /// `OPSZ_8`.
    const OPERAND_SIZE: u8 = 6;
    let mut bytes = [0; 8];
    let registers = [one.destination, one.sources[0], one.sources[1]];
    let mut at = 5;
    for register in registers.into_iter().filter(|register| *register != 0) {
        (bytes[4], bytes[at]) = (OPERAND_SIZE, register);
        at += 1;
    }
    let destinations = u32::from(one.destination != 0);
    let head = category << 10 | (at as u32 - 5 - destinations) << 4 | destinations;
    bytes[..4].copy_from_slice(&head.to_le_bytes());
    u64::from_le_bytes(bytes)
}

impl RecordSink for DrMemTraceWriter {
    fn push(&mut self, record: &Record) -> Result<(), SourceError> {
        self.left_out += u64::from(record.kind == RecordKind::Fetch);
        self.held.push(record);
        self.write_held(false)
    }

    fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        if matches!(event, VmEvent::Switch { .. } | VmEvent::Place { .. }) || calls::system_call(&event).is_some() {
            self.held.push_event(event);
        } else {
            self.left_out += 1;
        }
        self.write_held(false)
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }

    fn finish(mut self: Box<Self>) -> Result<(), SourceError> {
        self.write_held(true)?;
        // Those behind the last access.
        self.write_gap(self.pc)?;
        for thread in std::mem::take(&mut self.threads).into_values() {
            self.entry(kind::THREAD_EXIT, 8, thread)?;
        }
        self.entry(kind::FOOTER, 0, 0)?;
        self.out.finish().map_err(cannot_write)
    }
}
