//! From executed instructions to records: gaps, merged accesses, dependences, branch outcomes.

use crate::decode::{Branch, Decoded, FLAGS};
use ambulator_base::{Record, RecordKind, SourceError, VirtAddr};
use ambulator_workloads::trace::TraceWriter;
use std::fs::File;
use std::io::BufWriter;

/// An access of the instruction being executed, pieces merged.
#[derive(Clone, Copy)]
struct Access {
    va: u64,
    bytes: u8,
    store: bool,
}

/// Numbers (from 1) of the two latest loads that a value comes from; 0 is none.
type Producers = [u64; 2];

/// The two latest of both.
fn merge(a: Producers, b: Producers) -> Producers {
    let (high, low) = if a[0] >= b[0] { (a, b) } else { (b, a) };
    let second = if low[0] == high[0] { low[1] } else { low[0] };
    [high[0], high[1].max(second)]
}

/// The window being written.
pub struct Window {
    pub writer: TraceWriter<BufWriter<File>>,
    current: Option<&'static Decoded>,
    accesses: Vec<Access>,
    producers: [Producers; 256],
    /// Records so far.
    pub records: u64,
    gap: u64,
    /// Records above one that instructions had; later gaps are shorter by them, so that instructions add up.
    debt: u64,
}

impl Window {
    pub fn new(writer: TraceWriter<BufWriter<File>>) -> Window {
        Window { writer, current: None, accesses: Vec::new(), producers: [[0; 2]; 256], records: 0, gap: 0, debt: 0 }
    }

    /// The next instruction begins.
    pub fn execute(&mut self, next: &'static Decoded) -> Result<(), SourceError> {
        self.retire(Some(next.pc))?;
        self.current = Some(next);
        Ok(())
    }

    /// The current instruction accesses memory. Vector accesses arrive in pieces of 8 bytes.
    pub fn access(&mut self, va: u64, bytes: u8, store: bool) {
        if let Some(last) = self.accesses.last_mut()
            && last.store == store
            && last.va + u64::from(last.bytes) == va
            && last.bytes + bytes <= 64
        {
            last.bytes += bytes;
        } else {
            self.accesses.push(Access { va, bytes, store });
        }
    }

    fn of(&self, registers: &[u8]) -> Producers {
        registers.iter().fold([0; 2], |all, &r| merge(all, self.producers[usize::from(r)]))
    }

    /// The current instruction is done; the next one is at `next_pc`, if there is one.
    pub fn retire(&mut self, next_pc: Option<u64>) -> Result<(), SourceError> {
        let Some(done) = self.current.take() else { return Ok(()) };
        let before = self.records;
        let address = self.of(&done.address);
        let mut value = self.of(&done.reads);
        let accesses = std::mem::take(&mut self.accesses);
        for access in &accesses {
            let kind = if access.store { RecordKind::Store } else { RecordKind::Load };
            self.push(done, access.va, access.bytes, kind, address, before)?;
            if !access.store {
                value = merge(value, [self.records, 0]);
            }
        }
        if accesses.is_empty() && done.writes.iter().any(|&w| w != FLAGS) {
            // An address computed without an access is the value itself.
            value = merge(value, address);
        }
        self.accesses = accesses;
        self.accesses.clear();
        for &register in &done.writes {
            self.producers[usize::from(register)] = value;
        }
        if let Some(next) = next_pc {
            let falls = done.pc + u64::from(done.len);
            match done.branch {
                Branch::Conditional(target) => {
                    let kind = if next == falls { RecordKind::BranchNotTaken } else { RecordKind::BranchTaken };
                    self.push(done, target, done.len, kind, value, before)?;
                }
                Branch::Indirect => self.push(done, next, done.len, RecordKind::BranchTaken, value, before)?,
                Branch::None => {}
            }
        }
        if self.records == before {
            self.gap += 1;
        } else {
            self.debt += self.records - before - 1;
        }
        Ok(())
    }

    fn push(
        &mut self,
        done: &Decoded,
        va: u64,
        bytes: u8,
        kind: RecordKind,
        producers: Producers,
        before: u64,
    ) -> Result<(), SourceError> {
        self.records += 1;
        let mut gap = 0;
        if self.records == before + 1 {
            let paid = self.debt.min(self.gap);
            gap = self.gap - paid;
            self.debt -= paid;
            self.gap = 0;
        }
        let distance = |producer: u64| match self.records - producer {
            d if producer > 0 => u16::try_from(d).unwrap_or(0),
            _ => 0,
        };
        let (dep1, dep2) = (distance(producers[0]), distance(producers[1]));
        self.writer.push(&Record {
            pc: VirtAddr(done.pc),
            va: VirtAddr(va),
            gap: gap.min(u64::from(u32::MAX)) as u32,
            dep1,
            dep2,
            size: bytes,
            kind,
        })
    }
}
