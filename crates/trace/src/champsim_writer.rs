//! Writes ChampSim's 64-byte `input_instr` records.
//!
//! A record is one instruction, preceded by as many instructions without operands as its gap says. Explicit
//! fetches and VM events are omitted, because the format has none.
//!
//! A load that a later record depends on writes a register, which that record reads. ChampSim renames the
//! registers of a trace: each that was ever written keeps one of its physical registers (128 by default, not
//! enough for all 252 numbers that the format offers), and a trace that uses too many stops it. So the writer
//! allocates [`REGISTERS`] of them, as a compiler does: a load's register is free again after its last use.
//! If all are live, the value with the farthest last use loses its register, and its dependence is not
//! written.
//!
//! ChampSim tells the kind of a branch from its registers. One that writes the instruction pointer and reads
//! it and another register is conditional, and only a conditional branch can be not taken.

use crate::RecordSink;
use crate::champsim::{FLAGS, INSTRUCTION_BYTES, INSTRUCTION_POINTER, STACK_POINTER};
use crate::compressed::{Compression, Finish, packing};
use crate::writer::cannot_write;
use ambulator_base::{Record, RecordKind, SourceError, VirtAddr, VmEvent};
use std::collections::VecDeque;
use std::io::Write;

/// Registers that hold values of loads. With the flags and the instruction pointer they leave more than half
/// of ChampSim's default register file to instructions in flight.
pub const REGISTERS: usize = 48;
/// Records that are held back until the last use of their values is known: as far as a dependence reaches.
const HELD: usize = 1 << 16;

/// A record whose last use is not yet known.
struct Held {
    record: Record,
    /// Number of the last record so far that depends on it, or 0.
    last_use: u64,
}

/// A register: whose value it holds, and until which record.
#[derive(Clone, Copy, Default)]
struct Register {
    owner: u64,
    last_use: u64,
}

/// Writes a ChampSim trace.
pub struct ChampSimWriter {
    out: Box<dyn Finish>,
    held: VecDeque<Held>,
    /// Number (from 1) of the first held record.
    first: u64,
    registers: [Register; REGISTERS],
    names: [u8; REGISTERS],
    /// Instructions still to be written for explicit fetches, which the format does not have.
    gap: u64,
    /// The last explicit fetch.
    fetched: VirtAddr,
    /// VM events and explicit fetches that were omitted.
    pub left_out: u64,
    /// Dependences that were omitted because too many values were live.
    pub lost_dependences: u64,
}

impl ChampSimWriter {
    /// Starts a trace.
    ///
    /// # Errors
    /// The compressor cannot be set up.
    pub fn new<W: Write + 'static>(out: W, compression: Compression) -> Result<ChampSimWriter, SourceError> {
        let mut names = [0; REGISTERS];
        let usable = (1..=255u8).filter(|r| !matches!(*r, STACK_POINTER | FLAGS | INSTRUCTION_POINTER));
        names.iter_mut().zip(usable).for_each(|(slot, register)| *slot = register);
        Ok(ChampSimWriter {
            out: packing(out, compression).map_err(cannot_write)?,
            held: VecDeque::with_capacity(HELD + 1),
            first: 1,
            registers: [Register::default(); REGISTERS],
            names,
            gap: 0,
            fetched: VirtAddr(0),
            left_out: 0,
            lost_dependences: 0,
        })
    }

    /// The held record that `record`, the one with this number, depends on at `distance`, if it is a load.
    fn producer(&mut self, number: u64, distance: u16) -> Option<&mut Held> {
        let producer = number.checked_sub(u64::from(distance)).filter(|_| distance > 0)?;
        let held = self.held.get_mut(usize::try_from(producer.checked_sub(self.first)?).ok()?)?;
        (held.record.kind == RecordKind::Load).then_some(held)
    }

    /// The register that still holds the value of the load `distance` records before this one; 0 if none
    /// does.
    fn source(&mut self, number: u64, distance: u16) -> u8 {
        let Some(producer) = number.checked_sub(u64::from(distance)).filter(|p| distance > 0 && *p > 0) else {
            return 0;
        };
        self.registers.iter().position(|held| held.owner == producer).map_or(0, |place| self.names[place])
    }

    /// A register for the value of a load; 0 if all hold values that are used before this one's last use.
    fn destination(&mut self, number: u64, last_use: u64) -> u8 {
        if last_use == 0 {
            return 0;
        }
        let mut place = 0;
        for (at, register) in self.registers.iter().enumerate() {
            if register.last_use <= number {
                place = at;
                break;
            }
            if register.last_use > self.registers[place].last_use {
                place = at;
            }
        }
        let evicted = self.registers[place].last_use;
        self.lost_dependences += u64::from(evicted > number);
        if evicted > number && evicted <= last_use {
            return 0;
        }
        self.registers[place] = Register { owner: number, last_use };
        self.names[place]
    }

    /// Writes the instructions of the gap before the one at `pc`.
    fn write_gap(&mut self, pc: VirtAddr) -> Result<(), SourceError> {
        for left in (1..=std::mem::take(&mut self.gap)).rev() {
            let mut filler = [0; INSTRUCTION_BYTES];
            let ip = pc.0.saturating_sub(4 * left.min(16)).max(1);
            filler[..8].copy_from_slice(&ip.to_le_bytes());
            self.out.write_all(&filler).map_err(cannot_write)?;
        }
        Ok(())
    }

    /// Writes the first held record.
    fn write_first(&mut self) -> Result<(), SourceError> {
        let Some(Held { record, last_use }) = self.held.pop_front() else { return Ok(()) };
        let number = self.first;
        self.first += 1;
        self.gap += u64::from(record.gap);
        if record.kind == RecordKind::Fetch {
            self.left_out += 1;
            self.fetched = record.pc;
            return Ok(());
        }
        self.write_gap(record.pc)?;
        let mut instruction = [0; INSTRUCTION_BYTES];
        instruction[..8].copy_from_slice(&record.pc.0.max(1).to_le_bytes());
        instruction[12] = self.source(number, record.dep1);
        instruction[13] = self.source(number, record.dep2);
        match record.kind {
            RecordKind::Load => {
                instruction[10] = self.destination(number, last_use);
                instruction[32..40].copy_from_slice(&record.va.0.to_le_bytes());
            }
            RecordKind::Store => instruction[16..24].copy_from_slice(&record.va.0.to_le_bytes()),
            _ => {
                instruction[8] = 1;
                instruction[9] = u8::from(record.kind == RecordKind::BranchTaken);
                instruction[11] = INSTRUCTION_POINTER;
                if instruction[12] == 0 && instruction[13] == 0 {
                    instruction[14] = FLAGS;
                }
                instruction[15] = INSTRUCTION_POINTER;
            }
        }
        self.out.write_all(&instruction).map_err(cannot_write)
    }
}

impl RecordSink for ChampSimWriter {
    fn push(&mut self, record: &Record) -> Result<(), SourceError> {
        let number = self.first + self.held.len() as u64;
        for distance in [record.dep1, record.dep2] {
            if let Some(producer) = self.producer(number, distance) {
                producer.last_use = number;
            }
        }
        self.held.push_back(Held { record: *record, last_use: 0 });
        if self.held.len() > HELD { self.write_first() } else { Ok(()) }
    }

    fn event(&mut self, _event: VmEvent) -> Result<(), SourceError> {
        self.left_out += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), SourceError> {
        while !self.held.is_empty() {
            self.write_first()?;
        }
        // Those behind the last access.
        self.write_gap(self.fetched)?;
        self.out.finish().map_err(cannot_write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut writer = ChampSimWriter::new(out.clone(), Compression::None).unwrap();
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
