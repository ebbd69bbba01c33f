//! The steps of a translation in one list, each with its number and its time from the access on.

use ambulator_base::watch::{Step, StepKind};
use ambulator_simulator::WalkSteps;

/// A step, its place, and its time.
pub(super) struct Flat<'w> {
    /// The step.
    pub(super) step: &'w Step,
    /// Its number, from 0, in the order in which steps are told.
    pub(super) number: usize,
    /// How many steps it is inside of.
    pub(super) depth: usize,
    /// Cycles from the access to its begin and its end, without those of the kernel.
    pub(super) from: u64,
    pub(super) until: u64,
    /// Nobody waits for it, or for a step that it is inside of.
    pub(super) behind: bool,
    /// It has steps inside, told after it.
    pub(super) holds: bool,
    /// It is a fault, which ends an attempt.
    pub(super) fault: bool,
    /// Its place among the steps that begin in the same cycle; those in flight together share one.
    pub(super) rank: usize,
}

impl Flat<'_> {
    /// A TLB was looked up and did not have the page.
    pub(super) fn is_tlb_miss(&self) -> bool {
        let Flat { step, .. } = self;
        step.kind == StepKind::LookUp && step.hit == Some(false) && step.name.contains(" TLB, ")
    }

    /// Something is written or filled in, for which nobody waits.
    pub(super) fn is_refill(&self) -> bool {
        matches!(self.step.kind, StepKind::Fill | StepKind::Write)
    }
}

struct Flattener<'w> {
    flat: Vec<Flat<'w>>,
    base: u64,
    /// The begin of the step before, and its rank.
    last: (u64, usize),
}

impl<'w> Flattener<'w> {
    fn add(&mut self, step: &'w Step, depth: usize, behind: bool, fault: bool) {
        let (from, until) = match fault {
            true => (self.base, self.base),
            false => (self.base + step.from, self.base + step.until),
        };
        let behind = behind || step.behind;
        let rank = match self.last {
            (at, rank) if at == from => rank + usize::from(!step.parallel),
            _ => 0,
        };
        self.last = (from, rank);
        let number = self.flat.len();
        let holds = !fault && !step.steps.is_empty();
        self.flat.push(Flat { step, number, depth, from, until, behind, holds, fault, rank });
        if fault {
            return;
        }
        for inner in &step.steps {
            self.add(inner, depth + 1, behind, false);
        }
    }
}

/// All steps of a translation, with those of the attempts that ended in a fault.
pub(super) fn flatten(walk: &WalkSteps) -> Vec<Flat<'_>> {
    let mut flattener = Flattener { flat: Vec::new(), base: 0, last: (u64::MAX, 0) };
    for attempt in &walk.attempts {
        for step in &attempt.steps {
            flattener.add(step, 0, false, false);
        }
        flattener.base += attempt.cycles;
        if let Some(fault) = &attempt.fault {
            flattener.add(fault, 0, false, true);
        }
    }
    flattener.flat
}
