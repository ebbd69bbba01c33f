//! Writes ChampSim's records: 64-byte `input_instr`, or 96-byte `cloudsuite_instr`.
//!
//! A record is one instruction, preceded by as many instructions without operands as its gap says. Explicit
//! fetches and VM events are omitted, because the formats have none; but a switch to another process is the
//! address-space identifier of CloudSuite's.
//!
//! Dependences are in registers ([`crate::held`]). ChampSim renames the registers of a trace: each that was ever
//! written keeps one of its physical registers (128 by default, not enough for all 252 numbers that the format
//! offers), and a trace that uses too many stops it. So [`REGISTERS`] of them are used.
//!
//! ChampSim tells the kind of a branch from its registers. One that writes the instruction pointer and reads
//! it and another register is conditional, and only a conditional branch can be not taken.

use crate::RecordSink;
use crate::champsim::{FLAGS, INSTRUCTION_POINTER, LONGEST, Layout, STACK_POINTER};
use crate::compressed::{Compression, Finish, packing};
use crate::held::{Allocated, HeldRecords, Step};
use crate::writer::cannot_write;
use ambulator_base::{Record, RecordKind, SourceError, VirtAddr, VmEvent};
use std::io::Write;

/// Registers that hold values of loads. With the flags and the instruction pointer they leave more than half
/// of ChampSim's default register file to instructions in flight.
const REGISTERS: usize = 48;

/// Writes a ChampSim trace.
pub(crate) struct ChampSimWriter {
    out: Box<dyn Finish>,
    layout: &'static Layout,
    held: HeldRecords,
    /// The address space of what is written.
    asid: u8,
    /// Instructions still to be written for explicit fetches, which the format does not have.
    gap: u64,
    /// The last explicit fetch.
    fetched: VirtAddr,
    left_out: u64,
}

impl ChampSimWriter {
    /// Starts a trace of records of this kind.
    ///
    /// # Errors
    /// The compressor cannot be set up.
    pub fn new<W: Write + 'static>(
        out: W,
        compression: Compression,
        layout: &'static Layout,
    ) -> Result<ChampSimWriter, SourceError> {
        let usable = (1..=255u8).filter(|r| !matches!(*r, STACK_POINTER | FLAGS | INSTRUCTION_POINTER));
        Ok(ChampSimWriter {
            out: packing(out, compression).map_err(cannot_write)?,
            layout,
            held: HeldRecords::new(usable.take(REGISTERS)),
            asid: 0,
            gap: 0,
            fetched: VirtAddr(0),
            left_out: 0,
        })
    }

    /// Writes an instruction.
    fn write(&mut self, mut instruction: [u8; LONGEST]) -> Result<(), SourceError> {
        if let Some(at) = self.layout.asid {
            instruction[at..at + 2].fill(self.asid);
        }
        self.out.write_all(&instruction[..self.layout.bytes]).map_err(cannot_write)
    }

    /// Writes the instructions of the gap before the one at `pc`.
    fn write_gap(&mut self, pc: VirtAddr) -> Result<(), SourceError> {
        for left in (1..=std::mem::take(&mut self.gap)).rev() {
            let mut filler = [0; LONGEST];
            let ip = pc.0.saturating_sub(4 * left.min(16)).max(1);
            filler[..8].copy_from_slice(&ip.to_le_bytes());
            self.write(filler)?;
        }
        Ok(())
    }

    /// Writes what need no longer be held; at the end of the stream (`all`), everything.
    fn write_held(&mut self, all: bool) -> Result<(), SourceError> {
        while let Some(step) = self.held.next(all) {
            match step {
                Step::Record(one) => self.write_record(&one)?,
                Step::Event(VmEvent::Switch { process, .. }) => {
                    self.asid = u8::try_from(process.0).map_err(|_| {
                        SourceError::new(format!(
                            "CloudSuite's format has 256 processes; this trace has process {}",
                            process.0
                        ))
                    })?;
                }
                Step::Event(_) => {}
            }
        }
        Ok(())
    }

    fn write_record(&mut self, one: &Allocated) -> Result<(), SourceError> {
        let Allocated { record, sources, destination } = one;
        self.gap += u64::from(record.gap);
        if record.kind == RecordKind::Fetch {
            self.fetched = record.pc;
            return Ok(());
        }
        self.write_gap(record.pc)?;
        let layout = self.layout;
        let (to, from) = (layout.destinations.start, layout.sources.start);
        let mut instruction = [0; LONGEST];
        instruction[..8].copy_from_slice(&record.pc.0.max(1).to_le_bytes());
        instruction[from..from + 2].copy_from_slice(sources);
        match record.kind {
            RecordKind::Load => {
                instruction[to] = *destination;
                instruction[layout.loads[0]..][..8].copy_from_slice(&record.va.0.to_le_bytes());
            }
            RecordKind::Store => instruction[layout.stores[0]..][..8].copy_from_slice(&record.va.0.to_le_bytes()),
            _ => {
                instruction[8] = 1;
                instruction[9] = u8::from(record.kind == RecordKind::BranchTaken);
                instruction[to + 1] = INSTRUCTION_POINTER;
                if *sources == [0; 2] {
                    instruction[from + 2] = FLAGS;
                }
                instruction[from + 3] = INSTRUCTION_POINTER;
            }
        }
        self.write(instruction)
    }
}

impl RecordSink for ChampSimWriter {
    fn push(&mut self, record: &Record) -> Result<(), SourceError> {
        self.left_out += u64::from(record.kind == RecordKind::Fetch);
        self.held.push(record);
        self.write_held(false)
    }

    fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        if self.layout.asid.is_some() && matches!(event, VmEvent::Switch { .. }) {
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
        self.write_gap(self.fetched)?;
        self.out.finish().map_err(cannot_write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::champsim::INPUT;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(records: &[Record]) -> Vec<[u8; 64]> {
        let out = Shared::default();
        let mut writer = ChampSimWriter::new(out.clone(), Compression::None, &INPUT).unwrap();
        records.iter().for_each(|record| writer.push(record).unwrap());
        Box::new(writer).finish().unwrap();
        let bytes = out.0.lock().unwrap().clone();
        bytes.as_chunks::<64>().0.to_vec()
    }

    fn load(dep1: u16) -> Record {
        Record { pc: VirtAddr(0x1000), va: VirtAddr(0x8000), size: 8, dep1, ..Record::default() }
    }

    #[test]
    fn instructions_behind_the_last_access_are_written() {
        let fetch = |gap| Record { pc: VirtAddr(0x2000), gap, kind: RecordKind::Fetch, ..Record::default() };
        let ips = |records: &[Record]| -> Vec<u64> {
            written(records).iter().map(|i| u64::from_le_bytes(i[..8].try_into().unwrap())).collect()
        };
        assert_eq!(ips(&[load(0), fetch(3)]), [0x1000, 0x2000 - 12, 0x2000 - 8, 0x2000 - 4]);
        assert_eq!(ips(&[fetch(1), load(0)]), [0x1000 - 4, 0x1000]);
    }

    #[test]
    fn a_trace_uses_few_registers_however_many_loads_it_has() {
        // 40 chains of loads, interleaved, so that 40 values are live.
        let chains: Vec<Record> = (0..4000).map(|i| load(if i < 40 { 0 } else { 40 })).collect();
        let instructions = written(&chains);
        assert!(instructions[40..].iter().all(|i| i[12] != 0), "every dependence is there");
        let used: std::collections::BTreeSet<u8> = instructions.iter().map(|i| i[10]).filter(|r| *r != 0).collect();
        assert!(used.len() <= 64, "ChampSim has 128 physical registers: {used:?}");
        assert!(written(&[load(0), load(0), load(1)])[0][10] == 0, "a value without a use needs no register");
        // More live values than registers: those with the nearest uses are kept.
        let wide: Vec<Record> = (0..2000).map(|i| load(if i < 100 { 0 } else { 100 })).collect();
        let kept = written(&wide)[100..].iter().filter(|i| i[12] != 0).count();
        assert!(kept > 800 && kept < 1000, "{kept} of 1900");
    }

    #[test]
    fn branches_are_conditional_for_champsim() {
        let branch = |kind, dep1| Record { kind, size: 0, ..load(dep1) };
        for instruction in &written(&[
            load(0),
            branch(RecordKind::BranchTaken, 1),
            branch(RecordKind::BranchNotTaken, 0),
            branch(RecordKind::BranchNotTaken, 3),
        ])[1..]
        {
            // The condition of `ooo_model_instr` for BRANCH_CONDITIONAL, which keeps the outcome.
            let (written, read) = (&instruction[10..12], &instruction[12..16]);
            assert!(written.contains(&26) && read.contains(&26));
            assert!(!written.contains(&6) && !read.contains(&6));
            assert!(read.iter().any(|r| !matches!(r, 0 | 6 | 26)), "{read:?}");
        }
    }
}
