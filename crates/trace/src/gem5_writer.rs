//! Writes gem5's protobuf traces: packets of a memory port, and the data file of an elastic trace.
//!
//! gem5 replays both with a clock: a tick is a picosecond, and the stream's instructions take
//! [`TICKS_PER_INSTRUCTION`] each, four in a cycle of 2 GHz. In an elastic trace that is the delay of each record
//! behind the one before it in the order of issue: loads and branches are ordered behind the latest load or
//! branch, stores, which are written at commit, behind the record before them. What a record depends on is a
//! register dependence.
//!
//! An elastic trace needs physical addresses, because gem5's `TraceCPU` sends them to its caches. They are those
//! that the stream records; a page without one gets the next frame when it is first accessed. If no page has
//! one, the header says so ([`FIRST_TOUCH`]), and the reader takes them for what they are.

use crate::RecordSink;
use crate::compressed::{Compression, Finish, packing};
use crate::gem5::{Contents, FETCH_FLAG, FIRST_TOUCH, Header, Instruction, InstructionHeader, MAGIC, Packet};
use crate::writer::cannot_write;
use ambulator_base::{FRAME_SHIFT, Record, RecordKind, SourceError, VirtAddr, VmEvent};
use prost::Message;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Ticks of a second.
const TICKS: u64 = 1_000_000_000_000;
/// Ticks of an instruction.
const TICKS_PER_INSTRUCTION: u64 = 125;
/// Records that `TraceCPU` looks ahead: three times the reorder buffer of gem5's O3 model, as gem5 advises.
const LOOK_AHEAD: u64 = 3 * 192;
/// `MemCmd::ReadReq` and `MemCmd::WriteReq`.
const READ: u32 = 1;
const WRITE: u32 = 4;
/// Types of `InstDepRecord`.
const LOAD: u32 = 1;
const STORE: u32 = 2;
const COMPUTATION: u32 = 3;

/// Writes a trace of gem5.
pub(crate) struct Gem5Writer {
    out: Box<dyn Finish>,
    contents: Contents,
    message: Vec<u8>,
    /// Number of the last record, from 1 on.
    number: u64,
    /// Instructions so far.
    instructions: u64,
    /// Instructions since the last message.
    gap: u64,
    /// Records that the next ones are ordered behind: the latest, and the latest load or branch; 0 is none.
    latest: u64,
    latest_issued: u64,
    /// Records up to this one are of other processes or threads.
    since: u64,
    process: u32,
    frames: Frames,
    left_out: u64,
}

/// The frame of each page, by its process and number.
#[derive(Default)]
struct Frames {
    frames: FxHashMap<(u32, u64), u64>,
    next: u64,
}

impl Frames {
    /// A range is in consecutive frames.
    fn place(&mut self, process: u32, start: VirtAddr, len: u64, at: u64) {
        let first = at >> FRAME_SHIFT;
        for page in 0..len >> FRAME_SHIFT {
            self.frames.insert((process, (start.0 >> FRAME_SHIFT) + page), first + page);
        }
        self.next = self.next.max(first + (len >> FRAME_SHIFT));
    }

    /// The physical address of `va`.
    fn physical(&mut self, process: u32, va: VirtAddr) -> u64 {
        let next = &mut self.next;
        let frame = *self.frames.entry((process, va.0 >> FRAME_SHIFT)).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        frame << FRAME_SHIFT | va.0 & ((1 << FRAME_SHIFT) - 1)
    }
}

impl Gem5Writer {
    /// Starts a trace; `places` says that the stream records where pages were.
    ///
    /// # Errors
    /// The compressor cannot be set up, or writing fails.
    pub(crate) fn new<W: Write + 'static>(
        out: W,
        compression: Compression,
        contents: Contents,
        places: bool,
    ) -> Result<Gem5Writer, SourceError> {
        let obj_id = if contents == Contents::Elastic && !places { FIRST_TOUCH } else { "ambulator" };
        let mut header = Header { obj_id: Some(obj_id.to_owned()), tick_freq: Some(TICKS) }.encode_to_vec();
        if contents == Contents::Elastic {
            header.extend(InstructionHeader { window_size: Some(LOOK_AHEAD) }.encode_to_vec());
        }
        let mut out = packing(out, compression).map_err(cannot_write)?;
        out.write_all(MAGIC).map_err(cannot_write)?;
        let mut length = Vec::new();
        prost::encode_length_delimiter(header.len(), &mut length).map_err(|e| SourceError::new(e.to_string()))?;
        out.write_all(&[length, header].concat()).map_err(cannot_write)?;
        Ok(Gem5Writer {
            out,
            contents,
            message: Vec::new(),
            number: 0,
            instructions: 0,
            gap: 0,
            latest: 0,
            latest_issued: 0,
            since: 0,
            process: 0,
            frames: Frames::default(),
            left_out: 0,
        })
    }

    fn write_message(&mut self, message: &impl Message) -> Result<(), SourceError> {
        self.message.clear();
        message.encode_length_delimited(&mut self.message).map_err(|e| SourceError::new(e.to_string()))?;
        self.out.write_all(&self.message).map_err(cannot_write)
    }

    fn packet(&mut self, record: &Record) -> Result<(), SourceError> {
        let (cmd, flags) = match record.kind {
            RecordKind::Load => (READ, None),
            RecordKind::Store => (WRITE, None),
            RecordKind::Fetch => (READ, Some(FETCH_FLAG)),
            _ => return Ok(()),
        };
        let tick = self.instructions * TICKS_PER_INSTRUCTION;
        let (addr, size, pc) = (record.va.0, u32::from(record.size.max(1)), Some(record.pc.0));
        self.write_message(&Packet { tick, cmd, addr, size, flags, pc })
    }

    fn instruction(&mut self, record: &Record) -> Result<(), SourceError> {
        self.gap += u64::from(record.gap);
        let kind = match record.kind {
            RecordKind::Fetch => return Ok(()),
            RecordKind::Load => LOAD,
            RecordKind::Store => STORE,
            _ => COMPUTATION,
        };
        let reg_dep: Vec<u64> = [record.dep1, record.dep2]
            .into_iter()
            .filter(|distance| *distance > 0)
            .filter_map(|distance| self.number.checked_sub(u64::from(distance)))
            .filter(|producer| *producer > self.since)
            .collect();
        let behind = if kind == STORE { self.latest } else { self.latest_issued };
        let mut message = Instruction {
            seq_num: self.number,
            kind,
            rob_dep: (behind > 0 && !reg_dep.contains(&behind)).then_some(behind).into_iter().collect(),
            comp_delay: (self.gap + 1) * TICKS_PER_INSTRUCTION,
            reg_dep,
            weight: Some(u32::try_from(std::mem::take(&mut self.gap)).unwrap_or(u32::MAX)),
            pc: Some(record.pc.0),
            ..Instruction::default()
        };
        if record.is_data() {
            message.p_addr = Some(self.frames.physical(self.process, record.va));
            (message.v_addr, message.size) = (Some(record.va.0), Some(u32::from(record.size.max(1))));
            message.asid = Some(self.process);
        }
        self.latest = self.number;
        if kind != STORE {
            self.latest_issued = self.number;
        }
        self.write_message(&message)
    }
}

impl RecordSink for Gem5Writer {
    fn push(&mut self, record: &Record) -> Result<(), SourceError> {
        self.number += 1;
        self.instructions += record.instructions();
        match self.contents {
            Contents::Packets => {
                self.left_out += u64::from(!record.is_data() && record.kind != RecordKind::Fetch);
                self.packet(record)
            }
            Contents::Elastic => {
                self.left_out += u64::from(!record.is_data());
                self.instruction(record)
            }
        }
    }

    fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        match (self.contents, event) {
            (Contents::Elastic, VmEvent::Place { start, len, at, .. }) => {
                self.frames.place(self.process, start, len, at.0);
            }
            (Contents::Elastic, VmEvent::Switch { process, .. }) if process.0 != self.process => {
                (self.process, self.since) = (process.0, self.number);
            }
            _ => self.left_out += 1,
        }
        Ok(())
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }

    fn finish(mut self: Box<Self>) -> Result<(), SourceError> {
        if self.contents == Contents::Elastic && self.gap > 0 {
            // Those behind the last access.
            let weight = Some(u32::try_from(self.gap - 1).unwrap_or(u32::MAX));
            let (seq_num, comp_delay) = (self.number + 1, self.gap * TICKS_PER_INSTRUCTION);
            let behind = Instruction { seq_num, kind: COMPUTATION, comp_delay, weight, ..Instruction::default() };
            self.write_message(&behind)?;
        }
        self.out.finish().map_err(cannot_write)
    }
}
