//! One thread of the program: turns executed blocks into records with gaps, merged accesses, dependences,
//! branch outcomes.

use crate::decode::{Block, Branch, Decoded, FLAGS};
use crate::wire::Chunk;
use ambulator_base::{FRAME_SHIFT, Record, RecordKind, VirtAddr};

/// An access of the current instruction, with its parts merged.
#[derive(Clone, Copy)]
struct Access {
    va: u64,
    bytes: u8,
    store: bool,
}

/// Numbers (from 1) of the two latest loads that a value depends on; 0 is none.
type Producers = [u64; 2];

/// The two latest loads of both.
fn merge(a: Producers, b: Producers) -> Producers {
    let (high, low) = if a[0] >= b[0] { (a, b) } else { (b, a) };
    let second = if low[0] == high[0] { low[1] } else { low[0] };
    [high[0], high[1].max(second)]
}

/// Records that a thread collects before it submits them.
pub const CHUNK: usize = 4096;

/// Recently touched pages that a thread remembers.
const FILTER: usize = 512;

/// The state of a thread between two of its blocks.
pub struct Tracer {
    /// Records not submitted yet.
    pub records: Chunk,
    /// Number of the first of them, from 1.
    pub first: u64,
    /// The current block and the next of its instructions to retire.
    block: Option<&'static Block>,
    next: usize,
    accesses: Vec<Access>,
    producers: Box<[Producers; 256]>,
    gap: u64,
    /// Surplus of records over instructions; later gaps are shorter by it, so that the instruction count
    /// stays right.
    debt: u64,
    /// Recently touched page numbers, indexed by page number modulo the length.
    filter: Box<[u64; FILTER]>,
    /// The program counter of a string instruction whose repetition may continue.
    repeating: u64,
}

impl Tracer {
    /// A thread whose registers have no known producers, and which keeps its records in `records`.
    pub fn new(records: Chunk) -> Tracer {
        Tracer {
            records,
            first: 1,
            block: None,
            next: 0,
            accesses: Vec::with_capacity(64),
            producers: Box::new([[0; 2]; 256]),
            gap: 0,
            debt: 0,
            filter: Box::new([u64::MAX; FILTER]),
            repeating: 0,
        }
    }

    /// Forgets the producers of all registers, where an unrecorded part begins or ends.
    pub fn forget(&mut self) {
        self.block = None;
        self.accesses.clear();
        self.producers.fill([0; 2]);
        (self.gap, self.debt, self.repeating) = (0, 0, 0);
    }

    /// Forgets the touched pages after some may have been unmapped: each counts as new again.
    pub fn forget_pages(&mut self) {
        self.filter.fill(u64::MAX);
    }

    /// Whether the page was not touched recently, or was only read and is written now.
    #[inline(always)]
    pub fn is_new_page(&mut self, va: u64, write: bool) -> bool {
        let page = va >> FRAME_SHIFT;
        let slot = &mut self.filter[page as usize % FILTER];
        let (read, written) = (page << 1, page << 1 | 1);
        if *slot == written || (*slot == read && !write) {
            return false;
        }
        *slot = if write { written } else { read };
        true
    }

    /// Starts a block: the rest of the previous one has executed.
    #[inline]
    pub fn begin(&mut self, block: &'static Block) {
        self.end(block.pc);
        self.block = Some(block);
        self.next = 0;
    }

    /// Ends the current block; the thread continues at `next_pc`.
    #[inline]
    pub fn end(&mut self, next_pc: u64) {
        let Some(block) = self.block.take() else { return };
        let count = block.instructions.len();
        for at in self.next..count {
            let last = at + 1 == count;
            let goes_to = if last { next_pc } else { block.instructions[at + 1].pc };
            self.retire(&block.instructions[at], goes_to);
        }
    }

    /// Instruction `at` of the current block accesses memory. Vector accesses arrive in parts of 8 bytes.
    #[inline]
    pub fn access(&mut self, at: usize, va: u64, bytes: u8, store: bool) {
        let Some(block) = self.block else { return };
        while self.next < at {
            let this = self.next;
            self.next += 1;
            self.retire(&block.instructions[this], block.instructions[this + 1].pc);
        }
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

    #[inline]
    fn of(&self, registers: &[u8]) -> Producers {
        registers.iter().fold([0; 2], |all, &r| merge(all, self.producers[usize::from(r)]))
    }

    fn count(&self) -> u64 {
        self.first + self.records.len() as u64 - 1
    }

    #[inline]
    fn retire(&mut self, done: &Decoded, next_pc: u64) {
        let before = self.count();
        if self.accesses.is_empty() && done.is_plain() {
            self.gap += 1;
            return;
        }
        let address = self.of(&done.address);
        let mut value = self.of(&done.reads);
        let mut accesses = std::mem::take(&mut self.accesses);
        for access in &accesses {
            let kind = if access.store { RecordKind::Store } else { RecordKind::Load };
            self.push(done, access.va, access.bytes, kind, address, before);
            if !access.store {
                value = merge(value, [self.count(), 0]);
            }
        }
        if accesses.is_empty() && done.writes.iter().any(|&w| w != FLAGS) {
            // An address computed without an access is the value itself.
            value = merge(value, address);
        }
        accesses.clear();
        self.accesses = accesses;
        for &register in &done.writes {
            self.producers[usize::from(register)] = value;
        }
        match done.branch {
            Branch::Conditional(target) => {
                let falls = done.pc + u64::from(done.len);
                let kind = if next_pc == falls { RecordKind::BranchNotTaken } else { RecordKind::BranchTaken };
                self.push(done, target, done.len, kind, value, before);
            }
            Branch::Indirect => self.push(done, next_pc, done.len, RecordKind::BranchTaken, value, before),
            Branch::None => {}
        }
        // A repeated string instruction is reported once for each repetition but counts as one instruction.
        let again = done.repeats && self.repeating == done.pc;
        self.repeating = if done.repeats && next_pc == done.pc { done.pc } else { 0 };
        let made = self.count() - before;
        if made == 0 {
            self.gap += u64::from(!again);
        } else {
            self.debt += made - u64::from(!again);
        }
    }

    #[inline]
    fn push(&mut self, done: &Decoded, va: u64, bytes: u8, kind: RecordKind, producers: Producers, before: u64) {
        let number = self.count() + 1;
        let mut gap = 0;
        if number == before + 1 {
            let paid = self.debt.min(self.gap);
            gap = self.gap - paid;
            self.debt -= paid;
            self.gap = 0;
        }
        let distance = |producer: u64| match number - producer {
            d if producer > 0 => u16::try_from(d).unwrap_or(0),
            _ => 0,
        };
        let (dep1, dep2) = (distance(producers[0]), distance(producers[1]));
        self.records.push(&Record {
            pc: VirtAddr(done.pc),
            va: VirtAddr(va),
            gap: gap.min(u64::from(u32::MAX)) as u32,
            dep1,
            dep2,
            size: bytes,
            kind,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode;
    use iced_x86::InstructionInfoFactory;

    /// An instruction's bytes, and its accesses as address, bytes, and whether it stores.
    type Step<'a> = (&'a [u8], &'a [(u64, u8, bool)]);

    fn block(pc: u64, program: &[Step<'_>]) -> &'static Block {
        let mut factory = InstructionInfoFactory::new();
        let mut at = pc;
        let instructions = program
            .iter()
            .map(|(bytes, _)| {
                let decoded = decode(at, bytes, &mut factory);
                at += bytes.len() as u64;
                decoded
            })
            .collect();
        Box::leak(Box::new(Block { pc, instructions }))
    }

    fn run_block(tracer: &mut Tracer, pc: u64, program: &[Step<'_>]) {
        tracer.begin(block(pc, program));
        for (at, (_, accesses)) in program.iter().enumerate() {
            accesses.iter().for_each(|&(va, bytes, store)| tracer.access(at, va, bytes, store));
        }
    }

    #[test]
    fn a_chase_depends_and_a_stack_pointer_does_not() {
        let mut tracer = Tracer::new(Chunk::private());
        run_block(
            &mut tracer,
            0x1000,
            &[
                (&[0x48, 0x8b, 0x00], &[(0x8000, 8, false)]),       // mov rax, [rax]
                (&[0x48, 0x8b, 0x00], &[(0x9000, 8, false)]),       // mov rax, [rax]
                (&[0x5b], &[(0x7000, 8, false)]),                   // pop rbx
                (&[0x53], &[(0x7000, 8, true)]),                    // push rbx
                (&[0x48, 0x8d, 0x4c, 0x18, 0x08], &[]),             // lea rcx, [rax + rbx + 8]
                (&[0x31, 0xdb], &[]),                               // xor ebx, ebx
                (&[0x48, 0x8b, 0x14, 0x0b], &[(0xa000, 8, false)]), // mov rdx, [rbx + rcx]
                (&[0x48, 0x83, 0x3a, 0x00], &[(0xb000, 8, false)]), // cmp qword [rdx], 0
                (&[0x74, 0x10], &[]),                               // je +16
            ],
        );
        tracer.end(0x1019);
        let told: Vec<_> = tracer.records.records().iter().map(|r| (r.va.0, r.kind, r.gap, r.dep1, r.dep2)).collect();
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
                (tracer.records.records()[6].va.0, BranchNotTaken, 0, 1, 0),
            ]
        );
    }

    #[test]
    fn parts_merge_and_instructions_add_up() {
        let mut tracer = Tracer::new(Chunk::private());
        run_block(
            &mut tracer,
            0x1000,
            &[
                (&[0xc5, 0xfe, 0x6f, 0x06], &[(64, 8, false), (72, 8, false), (80, 8, false), (88, 8, false)]), // vmovdqu ymm0, [rsi]
                (&[0x48, 0xff, 0x00], &[(0x100, 8, false), (0x100, 8, true)]), // inc qword [rax]
                (&[0x90], &[]),
                (&[0x90], &[]),
                (&[0x48, 0x89, 0x0f], &[(0x200, 8, true)]), // mov [rdi], rcx
            ],
        );
        tracer.end(0);
        assert_eq!(tracer.records.records().iter().map(|r| r.size).collect::<Vec<_>>(), [32, 8, 8, 8]);
        assert_eq!(tracer.records.records().iter().map(Record::instructions).sum::<u64>(), 5);
        assert_eq!(tracer.records.records()[3].gap, 1, "this gap is shorter by the second record of the increment");
    }

    #[test]
    fn a_repeated_string_instruction_is_one_instruction() {
        let mut tracer = Tracer::new(Chunk::private());
        // rep stosq, four times, then nops and a store whose gap is shorter by the surplus of the
        // repetitions.
        for i in 0..4 {
            run_block(&mut tracer, 0x1000, &[(&[0xf3, 0x48, 0xab], &[(0x9000 + 8 * i, 8, true)])]);
        }
        let rest: Vec<Step<'_>> = std::iter::repeat_n::<Step<'_>>((&[0x90], &[]), 5)
            .chain([(&[0x48, 0x89, 0x0f][..], &[(0x200, 8, true)][..])])
            .collect();
        run_block(&mut tracer, 0x1003, &rest);
        tracer.end(0x1100);
        assert_eq!(tracer.records.len(), 5);
        assert_eq!(tracer.records.records().iter().map(Record::instructions).sum::<u64>(), 1 + 5 + 1);
    }

    #[test]
    fn pages_are_new_once_until_forgotten() {
        let mut tracer = Tracer::new(Chunk::private());
        assert!(tracer.is_new_page(0x5000, false) && !tracer.is_new_page(0x5fff, false));
        assert!(
            tracer.is_new_page(0x5000, true) && !tracer.is_new_page(0x5fff, true) && !tracer.is_new_page(0x5fff, false)
        );
        assert!(tracer.is_new_page(0x6000, false));
        tracer.forget_pages();
        assert!(tracer.is_new_page(0x5000, true));
    }
}
