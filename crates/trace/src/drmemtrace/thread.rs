//! A thread's entries as records.

use super::calls::Call;
use super::entry::{Entry, kind, marker};
use super::operands::{Isa, Program};
use crate::gaps::Gaps;
use crate::processes::Processes;
use crate::registers::{Loads, Registers, distance, merge};
use crate::width::Width;
use ambulator_base::{Batch, Record, RecordKind, VirtAddr};

/// Where the records of all threads go.
pub(crate) struct Out {
    pub(crate) processes: Processes,
    pub(crate) width: Width,
    pub(crate) program: Program,
    /// Records so far.
    pub(crate) records: u64,
    /// Records before the thread that runs began to run.
    pub(crate) since: u64,
    /// The thread that runs, by its number among the threads.
    pub(crate) running: usize,
    /// Instructions within the kernel, which are left out.
    pub(crate) kernel_instructions: u64,
    /// Records of ended threads beyond their instructions.
    pub(crate) surplus: u64,
}

/// A branch whose outcome or target the next instruction shows.
#[derive(Clone, Copy)]
enum Branch {
    Taken,
    NotTaken,
    /// Taken if the next instruction is not the following one.
    Either,
}

/// A thread, as far as its entries have been read.
pub(crate) struct Thread {
    pub(crate) process: u64,
    pub(crate) name: u64,
    pc: u64,
    /// The address after the current instruction.
    follows: u64,
    gaps: Gaps,
    branch: Option<Branch>,
    /// What a marker says of the target of the indirect branch that comes next.
    coming: Option<u64>,
    /// The same of the current instruction.
    target: Option<u64>,
    encoding: [u8; 32],
    encoded: usize,
    kernel: bool,
    /// The recorded call whose result has not come yet.
    pub(crate) call: Call,
    registers: Option<Box<Registers>>,
    operands: Option<u32>,
    /// The loads that the current instruction's addresses come from, and its results.
    address: Loads,
    value: Loads,
}

impl Thread {
    pub(crate) fn new(process: u64, name: u64) -> Thread {
        Thread {
            process,
            name,
            pc: 0,
            follows: 0,
            gaps: Gaps::new(),
            branch: None,
            coming: None,
            target: None,
            encoding: [0; 32],
            encoded: 0,
            kernel: false,
            call: Call::default(),
            registers: None,
            operands: None,
            address: [0; 2],
            value: [0; 2],
        }
    }

    /// Bytes of an instruction's encoding.
    pub(crate) fn encoding(&mut self, entry: Entry, most: usize) -> Result<(), String> {
        let bytes = usize::from(entry.size);
        if bytes > most || self.encoded + bytes > self.encoding.len() {
            return Err(format!("has {bytes} bytes of an encoding, after {} others", self.encoded));
        }
        self.encoding[self.encoded..][..bytes].copy_from_slice(&entry.value.to_le_bytes()[..bytes]);
        self.encoded += bytes;
        Ok(())
    }

    /// An instruction: `entry.value` is its address, `entry.size` its length.
    #[inline]
    pub(crate) fn instruction(&mut self, entry: Entry, isa: Option<Isa>, out: &mut Out, batch: &mut Batch) {
        let encoded = std::mem::take(&mut self.encoded);
        if self.kernel {
            out.kernel_instructions += 1;
            return;
        }
        let repeats = entry.value == self.pc && !self.first();
        if entry.kind == kind::INSTR_NO_FETCH || (entry.kind == kind::INSTR_MAYBE_FETCH && repeats) {
            // One more iteration of a string instruction: the same instruction.
            self.pc = entry.value;
            return;
        }
        if entry.size == 0 {
            // In a filtered trace: the address of the instruction of the next access, itself filtered out.
            self.finish(Some(entry.value), out, batch);
            (self.pc, self.follows, self.gaps.recorded) = (entry.value, entry.value, true);
            return;
        }
        self.finish(Some(entry.value), out, batch);
        self.pc = entry.value;
        self.follows = entry.value.wrapping_add(u64::from(entry.size));
        self.gaps.recorded = false;
        self.branch = match entry.kind {
            kind::INSTR_TAKEN_JUMP | kind::INSTR_INDIRECT_JUMP | kind::INSTR_INDIRECT_CALL => Some(Branch::Taken),
            kind::INSTR_UNTAKEN_JUMP => Some(Branch::NotTaken),
            kind::INSTR_CONDITIONAL_JUMP => Some(Branch::Either),
            _ => None,
        };
        self.target = self.coming.take().filter(|_| self.branch.is_some());
        if let Some(isa) = isa {
            let encoding = self.encoding;
            self.operands = out.program.instruction(self.process, entry.value, &encoding[..encoded], isa);
            if let Some(number) = self.operands {
                let operands = out.program.operands(number);
                let registers = self.registers.get_or_insert_default();
                self.address = registers.read(operands.address.iter().copied());
                self.value = registers.read(operands.reads.iter().copied());
            }
        }
    }

    /// More instructions after the current one, whose lengths are the bytes of `entry.value`.
    pub(crate) fn bundle(&mut self, entry: Entry, out: &mut Out, batch: &mut Batch) -> Result<(), String> {
        if entry.size > 8 || self.first() {
            return Err(format!(
                "is a bundle of {} instructions, where there are 1 to 8 after another one",
                entry.size
            ));
        }
        for length in &entry.value.to_le_bytes()[..usize::from(entry.size)] {
            let one = Entry { kind: kind::INSTR, size: u16::from(*length).max(1), value: self.follows };
            self.instruction(one, None, out, batch);
        }
        Ok(())
    }

    /// Whether there was no instruction yet.
    fn first(&self) -> bool {
        self.pc == 0 && self.follows == 0
    }

    /// A load or store.
    #[inline]
    pub(crate) fn access(&mut self, kind: RecordKind, entry: Entry, out: &mut Out, batch: &mut Batch) {
        if self.kernel {
            return;
        }
        let va = out.width.fit(entry.value);
        let size = out.width.clip(va, u64::from(entry.size.max(1)));
        for piece in (0..size).step_by(64) {
            self.emit(kind, va + piece, (size - piece).min(64) as u8, self.address, out, batch);
        }
        if kind == RecordKind::Load {
            self.value = merge(self.value, [out.records, 0]);
        }
    }

    /// Ends the current instruction: writes its registers, and records its branch. `next` is the address of
    /// the instruction that follows it, if there is one.
    #[inline]
    fn finish(&mut self, next: Option<u64>, out: &mut Out, batch: &mut Batch) {
        if let Some(branch) = self.branch.take() {
            let (follows, marked) = (self.follows, self.target.take());
            let next = marked.or(next);
            let known = self.operands.map_or(0, |number| out.program.operands(number).target);
            let taken = match branch {
                Branch::Taken => true,
                Branch::NotTaken => false,
                Branch::Either => next.is_some_and(|next| next != follows),
            };
            let target = if taken { next.unwrap_or(known) } else { known };
            let kind = if taken { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
            let target = out.width.fit(target);
            self.emit(kind, target, 0, self.value, out, batch);
        }
        if let (Some(number), Some(registers)) = (self.operands.take(), &mut self.registers) {
            for register in &out.program.operands(number).writes {
                registers.write(*register, self.value);
            }
        }
        (self.address, self.value) = ([0; 2], [0; 2]);
        self.gaps.gap += u64::from(!self.gaps.recorded);
        self.gaps.recorded = true;
    }

    fn emit(&mut self, kind: RecordKind, va: u64, size: u8, loads: Loads, out: &mut Out, batch: &mut Batch) {
        out.records += 1;
        let gap = self.gaps.before_record();
        // No dependence reaches across another thread's records.
        let [dep1, dep2] = loads.map(|load| if load > out.since { distance(out.records, load) } else { 0 });
        let (dep1, dep2) = if dep1 == 0 { (dep2, 0) } else { (dep1, dep2) };
        let record = Record { pc: VirtAddr(out.width.fit(self.pc)), va: VirtAddr(va), gap, dep1, dep2, size, kind };
        out.processes.push(record, batch);
    }

    /// A marker that concerns this thread.
    pub(crate) fn marker(&mut self, entry: Entry, version: u64, out: &mut Out, batch: &mut Batch) {
        match entry.size {
            marker::BRANCH_TARGET => self.coming = Some(entry.value),
            marker::KERNEL_EVENT if self.branch.is_some() && !self.kernel => {
                // The next instruction is a signal handler's; where the branch went is what was interrupted.
                let at = (version > 2 && entry.value != 0).then_some(entry.value);
                self.finish(at, out, batch);
            }
            marker::SYSCALL_TRACE_START | marker::CONTEXT_SWITCH_START => self.kernel = true,
            marker::SYSCALL_TRACE_END | marker::CONTEXT_SWITCH_END => self.kernel = false,
            marker::WINDOW_ID => self.registers = None,
            _ => {}
        }
    }

    /// The thread ends: its last branch, and the instructions after its last record.
    pub(crate) fn exit(&mut self, out: &mut Out, batch: &mut Batch) {
        self.finish(None, out, batch);
        let paid = self.gaps.debt.min(self.gaps.gap);
        let gap = u32::try_from(self.gaps.gap - paid).unwrap_or(u32::MAX);
        out.surplus += self.gaps.debt - paid;
        (self.gaps.gap, self.gaps.debt) = (0, 0);
        if gap > 0 {
            out.records += 1;
            let pc = VirtAddr(out.width.fit(self.pc));
            let record = Record { pc, va: pc, gap, kind: RecordKind::Fetch, ..Record::default() };
            out.processes.push(record, batch);
        }
    }
}
