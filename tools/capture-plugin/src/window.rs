//! From executed instructions to records: gaps, merged accesses, dependences, branch outcomes.

use crate::decode::{Branch, Decoded, FLAGS};
use ambulator_base::{Record, RecordKind, SourceError, VirtAddr};
use ambulator_workloads::trace::TraceWriter;
use std::io::Write;

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
pub struct Window<W: Write> {
    /// Where the records go.
    pub writer: TraceWriter<W>,
    current: Option<&'static Decoded>,
    accesses: Vec<Access>,
    producers: [Producers; 256],
    /// Records so far.
    pub records: u64,
    gap: u64,
    /// Records above one that instructions had; later gaps are shorter by them, so that instructions add up.
    debt: u64,
}

impl<W: Write> Window<W> {
    /// A window that opens now: nothing is known of where the registers' values come from.
    pub fn new(writer: TraceWriter<W>) -> Window<W> {
        Window {
            writer,
            current: None,
            accesses: Vec::new(),
            producers: [[0; 2]; 256],
            records: 0,
            gap: 0,
            debt: 0,
        }
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
        registers
            .iter()
            .fold([0; 2], |all, &r| merge(all, self.producers[usize::from(r)]))
    }

    /// The current instruction is done; the next one is at `next_pc`, if there is one.
    pub fn retire(&mut self, next_pc: Option<u64>) -> Result<(), SourceError> {
        let Some(done) = self.current.take() else {
            return Ok(());
        };
        let before = self.records;
        let address = self.of(&done.address);
        let mut value = self.of(&done.reads);
        let accesses = std::mem::take(&mut self.accesses);
        for access in &accesses {
            let kind = if access.store {
                RecordKind::Store
            } else {
                RecordKind::Load
            };
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
                    let kind = if next == falls {
                        RecordKind::BranchNotTaken
                    } else {
                        RecordKind::BranchTaken
                    };
                    self.push(done, target, done.len, kind, value, before)?;
                }
                Branch::Indirect => {
                    self.push(done, next, done.len, RecordKind::BranchTaken, value, before)?
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;
    use ambulator_base::{Batch, RecordSource};
    use ambulator_workloads::trace::{TraceHeader, TraceReader, TraceWriterSpec};
    use iced_x86::InstructionInfoFactory;

    /// An instruction's bytes, and its accesses as address, bytes, and whether it stores.
    type Step<'a> = (&'a [u8], &'a [(u64, u8, bool)]);

    /// Runs instructions at falling-through addresses from 0x1000, with the accesses of each; `then` is where
    /// the last goes.
    fn run(program: &[Step<'_>], then: u64) -> Vec<Record> {
        let writer = TraceWriter::new(
            Vec::new(),
            TraceHeader::default(),
            &TraceWriterSpec::default(),
        )
        .unwrap();
        let mut window = Window::new(writer);
        let mut factory = InstructionInfoFactory::new();
        let mut pc = 0x1000;
        for (bytes, accesses) in program {
            window
                .execute(Box::leak(Box::new(decode(pc, bytes, &mut factory))))
                .unwrap();
            accesses
                .iter()
                .for_each(|&(va, bytes, store)| window.access(va, bytes, store));
            pc += bytes.len() as u64;
        }
        window.retire(Some(then)).unwrap();
        let bytes = window.writer.finish().unwrap();
        let mut batch = Batch::default();
        TraceReader::new(std::io::Cursor::new(bytes), "test")
            .unwrap()
            .fill(&mut batch)
            .unwrap();
        batch.records
    }

    #[test]
    fn a_chase_depends_and_a_stack_pointer_does_not() {
        let records = run(
            &[
                (&[0x48, 0x8b, 0x00], &[(0x8000, 8, false)]), // mov rax, [rax]
                (&[0x48, 0x8b, 0x00], &[(0x9000, 8, false)]), // mov rax, [rax]
                (&[0x5b], &[(0x7000, 8, false)]),             // pop rbx
                (&[0x53], &[(0x7000, 8, true)]),              // push rbx
                (&[0x48, 0x8d, 0x4c, 0x18, 0x08], &[]),       // lea rcx, [rax + rbx + 8]
                (&[0x31, 0xdb], &[]),                         // xor ebx, ebx
                (&[0x48, 0x8b, 0x14, 0x0b], &[(0xa000, 8, false)]), // mov rdx, [rbx + rcx]
                (&[0x48, 0x83, 0x3a, 0x00], &[(0xb000, 8, false)]), // cmp qword [rdx], 0
                (&[0x74, 0x10], &[]),                         // je +16
            ],
            0x1019,
        );
        let told: Vec<_> = records
            .iter()
            .map(|r| (r.va.0, r.kind, r.gap, r.dep1, r.dep2))
            .collect();
        use RecordKind::*;
        assert_eq!(
            told,
            [
                (0x8000, Load, 0, 0, 0),
                (0x9000, Load, 0, 1, 0),
                (0x7000, Load, 0, 0, 0),
                (0x7000, Store, 0, 0, 0),
                (0xa000, Load, 2, 2, 3),
                (0xb000, Load, 0, 1, 0),
                (records[6].va.0, BranchNotTaken, 0, 1, 0),
            ]
        );
    }

    #[test]
    fn pieces_merge_and_instructions_add_up() {
        let records = run(
            &[
                (
                    &[0xc5, 0xfe, 0x6f, 0x06],
                    &[
                        (64, 8, false),
                        (72, 8, false),
                        (80, 8, false),
                        (88, 8, false),
                    ],
                ), // vmovdqu ymm0, [rsi]
                (&[0x48, 0xff, 0x00], &[(0x100, 8, false), (0x100, 8, true)]), // inc qword [rax]
                (&[0x90], &[]),
                (&[0x90], &[]),
                (&[0x48, 0x89, 0x0f], &[(0x200, 8, true)]), // mov [rdi], rcx
            ],
            0,
        );
        assert_eq!(
            records.iter().map(|r| r.size).collect::<Vec<_>>(),
            [32, 8, 8, 8]
        );
        assert_eq!(records.iter().map(Record::instructions).sum::<u64>(), 5);
        assert_eq!(
            records[3].gap, 1,
            "the second record of the increment is paid for here"
        );
    }
}
