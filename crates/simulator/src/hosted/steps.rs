//! The steps of a translation, from its recorded accesses.

use super::clock::Clock;
use ambulator_base::{Cycle, PhysAddr};
use ambulator_mmu::{ACCESS_SPAN, RecordedKind, Recording};

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A load of a table's line.
    Load,
    /// A fetch of a table's line: nobody waits for it.
    FetchTable,
    /// A fetch of a data line: nobody waits for it.
    FetchData,
    /// A write into a table: nobody waits for it.
    Write,
    /// The operating system works for [`HostedStep::cycles`].
    Kernel,
    /// The walk [`HostedStep::walk`] of the same core must be complete.
    Join,
}

/// A step of a translation, for the simulator around the machine to time.
///
/// A step of group 0 may issue `delay` cycles after the translation began. One of a later group may issue
/// `delay` cycles after the waited steps of the group before have ended; a load that is not waited for, after
/// all loads of that group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedStep {
    /// What it is.
    pub kind: StepKind,
    /// Its group. Steps of a group are parallel.
    pub group: u32,
    /// Fixed cycles before it issues: look-ups of TLBs and walk caches, hashes.
    pub delay: u64,
    /// Whether the translation waits for it.
    pub waited: bool,
    /// The address in the machine's memory.
    pub at: PhysAddr,
    /// Cycles of the operating system.
    pub cycles: u64,
    /// The walk to wait for.
    pub walk: u64,
}

/// A step with its times on the core's own clock.
struct Timed {
    step: HostedStep,
    ready: Cycle,
}

/// The group of what issues at `issued`, and its delay: after the last loads that have ended by then, or
/// after the beginning.
fn place(before: &[Timed], began: Cycle, issued: Cycle) -> (u32, u64) {
    let ended = before.iter().filter(|timed| timed.ready <= issued && timed.step.is_awaitable());
    match ended.max_by_key(|timed| (timed.ready, timed.step.group)) {
        Some(last) => (last.step.group + 1, issued.since(last.ready)),
        None => (0, issued.since(began)),
    }
}

impl HostedStep {
    /// Whether other steps may wait for it.
    fn is_awaitable(&self) -> bool {
        matches!(self.kind, StepKind::Load | StepKind::Kernel | StepKind::Join)
    }
}

/// The steps of a translation that began at `began` and whose result is known at `known`; the groups that it
/// waits for, and the cycles from the last of them (or from the beginning) to the result.
pub(super) fn steps(
    recording: &Recording,
    clock: &Clock,
    began: Cycle,
    known: Cycle,
    into: &mut Vec<HostedStep>,
) -> (u32, u64) {
    let mut timed: Vec<Timed> = Vec::with_capacity(recording.accesses.len() + 1);
    // Of what waits for the end of another walk, that walk comes first.
    let place_joined = |timed: &mut Vec<Timed>, issued: Cycle| {
        let (group, delay) = place(timed, began, issued);
        if delay < ACCESS_SPAN / 2 {
            return (group, delay);
        }
        let Some(owner) = clock.owner(issued) else { return (group, 0) };
        if owner.completed.is_none() {
            let step = HostedStep {
                kind: StepKind::Join,
                group,
                delay: 0,
                waited: true,
                at: PhysAddr(0),
                cycles: 0,
                walk: owner.id,
            };
            timed.push(Timed { step, ready: issued });
            return (group + 1, 0);
        }
        (group, 0)
    };
    for access in &recording.accesses {
        let (group, delay) = place_joined(&mut timed, access.issued);
        let (kind, cycles) = match access.kind {
            RecordedKind::Load => (StepKind::Load, 0),
            RecordedKind::FetchTable => (StepKind::FetchTable, 0),
            RecordedKind::FetchData => (StepKind::FetchData, 0),
            RecordedKind::Write => (StepKind::Write, 0),
            RecordedKind::Kernel(cycles) => (StepKind::Kernel, cycles),
        };
        let waited = matches!(kind, StepKind::Load | StepKind::Kernel) && access.ready <= known;
        timed.push(Timed {
            step: HostedStep { kind, group, delay, waited, at: access.at, cycles, walk: 0 },
            ready: access.ready,
        });
    }
    let (_, latency) = place_joined(&mut timed, known);
    into.clear();
    into.extend(timed.iter().map(|timed| timed.step));
    let groups = into.iter().filter(|step| step.waited).map(|step| step.group + 1).max().unwrap_or(0);
    (groups, latency)
}
