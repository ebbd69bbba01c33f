//! One translation, step by step: the model that `explain-walk` prints and writes as JSON.

use ambulator_base::PhysAddr;
use ambulator_base::watch::{Field, Step, StepKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

/// A translation on one design, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WalkSteps {
    /// The design's name.
    pub design: String,
    /// The program whose page it is.
    pub program: String,
    /// Instructions of the region of interest that the core had executed.
    pub after: u64,
    /// The virtual address, hexadecimal.
    pub address: String,
    /// `load`, `store` or `fetch`.
    pub access: String,
    /// The attempts in their order: all but the last ended in a fault.
    pub attempts: Vec<Attempt>,
    /// How it ended.
    pub end: WalkEnd,
    /// The physical address of the data, hexadecimal; none if the access failed, or if the caches hold the
    /// data by its intermediate address.
    pub physical: Option<String>,
    /// The oracle's verdict, in a sentence.
    pub oracle: String,
    /// Whether the translation is what the kernel's page state says.
    pub agrees: bool,
    /// Cycles of all attempts, without the operating system's.
    pub cycles: u64,
    /// Of these, cycles that passed in the MMU by its own counter; the others passed in the caches.
    pub mmu_cycles: u64,
    /// Cycles of the kernel and the hypervisor, which serve the faults.
    pub kernel_cycles: u64,
    /// Cycles that no step accounts for: 0 unless a design does not tell of all that it does.
    pub unexplained_cycles: u64,
    /// The loads of all attempts.
    pub loads: LoadSummary,
    /// The access to the data that follows.
    pub data: Option<DataAccess>,
}

/// How a translation ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "why")]
pub enum WalkEnd {
    /// The address is translated.
    Translated,
    /// No VMA has the address, or its rights forbid the access: the kernel ends the program by SIGSEGV.
    SegmentationFault(String),
    /// The machine ran out of memory, or a translation was wrong.
    Failed(String),
}

/// One attempt of a translation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Its cycles.
    pub cycles: u64,
    /// Its steps; their cycles count from the attempt's begin.
    pub steps: Vec<Step>,
    /// The fault that ended it, which the operating system served or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Step>,
}

/// The loads of a translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSummary {
    /// All loads.
    pub count: u64,
    /// Of these, loads that nobody waits for.
    pub behind: u64,
    /// The longest chain of loads, each of which begins when the one before has arrived.
    pub rounds: u64,
    /// Loads that the L1 data cache served.
    pub l1: u64,
    /// Loads that the L2 cache served.
    pub l2: u64,
    /// Loads that the last-level cache served.
    pub llc: u64,
    /// Loads that DRAM served.
    pub dram: u64,
}

/// The access to the data after its translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DataAccess {
    /// The level that served it: L1, L2, LLC or DRAM.
    pub served: String,
    /// Cycles from the translation to the data.
    pub cycles: u64,
    /// The line was already on its way to that level.
    #[serde(default)]
    pub in_flight: bool,
}

impl DataAccess {
    /// The access in a sentence.
    pub fn sentence(&self) -> String {
        let DataAccess { served, cycles, in_flight } = self;
        match in_flight {
            true => format!("The data's line is already on its way to {served}, and there {cycles} cycles later."),
            false => format!("The data comes from {served}, {cycles} cycles later."),
        }
    }
}

/// A leaf on the critical path: the interval of its cycles.
fn leaves(steps: &[Step], to: &mut Vec<(u64, u64)>) {
    for step in steps.iter().filter(|step| !step.behind) {
        if step.steps.iter().any(|inner| !inner.behind) {
            leaves(&step.steps, to);
        } else {
            to.push((step.from, step.until));
        }
    }
}

/// Cycles from `begin` to `end` that no leaf covers.
fn uncovered(steps: &[Step], begin: u64, end: u64) -> u64 {
    let mut intervals = Vec::new();
    leaves(steps, &mut intervals);
    intervals.sort_unstable();
    let (mut at, mut gaps) = (begin, 0);
    for (from, until) in intervals {
        gaps += from.min(end).saturating_sub(at);
        at = at.max(until);
    }
    gaps + end.saturating_sub(at)
}

/// Steps that end after `end` are not waited for; marks them, and those that are parallel to others. All cycles
/// count from `base` afterwards. Steps are in the order of their begins.
fn settle(steps: &mut [Step], base: u64, end: u64) {
    steps.sort_by_key(|step| step.from);
    let mut latest = 0;
    for step in steps {
        if step.until > end {
            step.behind = true;
        }
        if !matches!(step.kind, StepKind::Fill | StepKind::Write) {
            step.parallel = step.from < latest && step.until > step.from;
            latest = latest.max(step.until);
        }
        settle(&mut step.steps, base, if step.behind { u64::MAX } else { step.until });
        step.from = step.from.saturating_sub(base);
        step.until = step.until.saturating_sub(base);
    }
}

impl Attempt {
    /// The attempt of these steps of the run; `end` is the cycle at which the address was known, if it was.
    fn new(mut steps: Vec<Step>, end: Option<u64>, fault: Option<Step>) -> (Attempt, u64) {
        let Some(base) = steps.iter().map(|step| step.from).min() else {
            return (Attempt { cycles: 0, steps, fault }, 0);
        };
        // The first look-up is paid in full, though a cycle of it overlaps with the indexing of the L1 cache.
        let first = steps.first().map_or(0, |step| if step.kind == StepKind::LookUp { step.until } else { 0 });
        let waited = steps.iter().filter(|step| !step.behind).map(|step| step.until).max().unwrap_or(base);
        let end = end.map_or(waited, |end| end.max(first));
        settle(&mut steps, base, end);
        let cycles = end.saturating_sub(base);
        let gaps = uncovered(&steps, 0, cycles);
        (Attempt { cycles, steps, fault }, gaps)
    }
}

/// The attempts of a translation's steps, which faults part, and the cycles that no step covers. `end` is the
/// cycle at which the address was known.
pub(crate) fn attempts(steps: Vec<Step>, end: Option<u64>) -> (Vec<Attempt>, u64) {
    let (mut attempts, mut own, mut unexplained) = (Vec::new(), Vec::new(), 0);
    let mut add = |steps, end, fault| {
        let (attempt, gaps) = Attempt::new(steps, end, fault);
        attempts.push(attempt);
        unexplained += gaps;
    };
    for step in steps {
        if step.kind == StepKind::Fault {
            add(std::mem::take(&mut own), None, Some(step));
        } else {
            own.push(step);
        }
    }
    if !own.is_empty() || end.is_some() {
        add(own, end, None);
    }
    (attempts, unexplained)
}

/// Every load among steps, with whether nobody waits for it.
pub(crate) fn each_load<'s>(steps: &'s [Step], behind: bool, act: &mut impl FnMut(&'s Step, bool)) {
    for step in steps {
        let behind = behind || step.behind;
        if step.loaded.is_some() {
            act(step, behind);
        }
        each_load(&step.steps, behind, act);
    }
}

impl LoadSummary {
    /// Of attempts.
    pub(crate) fn of(attempts: &[Attempt]) -> LoadSummary {
        let mut sum = LoadSummary::default();
        for attempt in attempts {
            // Of each load that somebody waits for: its end, and its place in the longest chain to it.
            let mut chains: Vec<(u64, u64)> = Vec::new();
            each_load(&attempt.steps, false, &mut |step, behind| {
                sum.count += 1;
                let served = step.loaded.as_ref().map_or("", |loaded| loaded.served.as_str());
                *match served {
                    "L1" => &mut sum.l1,
                    "L2" => &mut sum.l2,
                    "LLC" => &mut sum.llc,
                    _ => &mut sum.dram,
                } += 1;
                if behind {
                    sum.behind += 1;
                    return;
                }
                let before = chains.iter().filter(|(until, _)| *until <= step.from).map(|(_, place)| *place).max();
                chains.push((step.until, before.unwrap_or(0) + 1));
            });
            sum.rounds += chains.iter().map(|(_, place)| *place).max().unwrap_or(0);
        }
        sum
    }

    /// Where the loads were served, in words: "1 L2, 3 DRAM".
    pub fn served(&self) -> String {
        let levels = [(self.l1, "L1"), (self.l2, "L2"), (self.llc, "LLC"), (self.dram, "DRAM")];
        let parts: Vec<String> =
            levels.iter().filter(|(loads, _)| *loads > 0).map(|(loads, name)| format!("{loads} {name}")).collect();
        if parts.is_empty() { "-".into() } else { parts.join(", ") }
    }
}

/// A field in words.
fn field_text(Field { name, value }: &Field) -> String {
    match value {
        Value::Bool(true) => name.clone(),
        Value::Bool(false) => format!("not {name}"),
        Value::Null => format!("{name} -"),
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    }
}

fn fields_text(fields: &[Field]) -> String {
    fields.iter().map(field_text).collect::<Vec<_>>().join("; ")
}

/// What a load read, and from where.
fn load_text(step: &Step) -> Option<String> {
    let loaded = step.loaded.as_ref()?;
    let bytes = 8 * loaded.words.len();
    let word = match loaded.words.as_slice() {
        [word] => format!(", {word:#018x}"),
        _ => String::new(),
    };
    let guest = loaded.guest.map_or(String::new(), |guest| format!("guest-physical {}, ", PhysAddr(guest)));
    let row = if loaded.row.is_empty() { String::new() } else { format!(" ({})", loaded.row) };
    let from = if loaded.served.is_empty() { String::new() } else { format!(" from {}{row}", loaded.served) };
    Some(format!("load of {bytes} bytes at {guest}{}{from}{word}", PhysAddr(loaded.at)))
}

/// Appends steps as lines of text. Each line begins with the cycle at which the step begins and the cycles that
/// it takes; `∥` marks what is parallel to an earlier step, `·` what nobody waits for.
pub(crate) fn write_steps(text: &mut String, steps: &[Step], depth: usize) {
    for step in steps {
        let mark = match (step.behind, step.parallel) {
            (true, _) => "·",
            (false, true) => "∥",
            (false, false) => " ",
        };
        let cycles = step.until.saturating_sub(step.from);
        let cycles = if cycles == 0 { String::new() } else { format!("+{cycles}") };
        let indent = "  ".repeat(depth);
        let lead = format!("{:>6} {cycles:<6}{mark} {indent}", step.from);
        let below = " ".repeat(lead.chars().count() + 2);
        let load = load_text(step).map_or(String::new(), |load| format!(": {load}"));
        let says = if step.says.is_empty() { String::new() } else { format!(": {}", step.says) };
        let _ = writeln!(text, "{lead}{}{load}{says}", step.name);
        if !step.fields.is_empty() {
            let _ = writeln!(text, "{below}{}", fields_text(&step.fields));
        }
        if !step.source.is_empty() {
            let _ = writeln!(text, "{below}[{}]", step.source);
        }
        write_steps(text, &step.steps, depth + 1);
    }
}

impl WalkSteps {
    /// The steps as text, one line or more for each.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} of {} ({}, after {} instructions)\n",
            self.design, self.access, self.address, self.program, self.after
        );
        let attempts = self.attempts.len();
        for (number, attempt) in self.attempts.iter().enumerate() {
            if attempts > 1 && !attempt.steps.is_empty() {
                let _ = writeln!(text, "attempt {} of {attempts}", number + 1);
            }
            write_steps(&mut text, &attempt.steps, 0);
            if let Some(fault) = &attempt.fault {
                let _ = writeln!(text, "{}: {}", fault.name, fault.says);
                if !fault.fields.is_empty() && self.end == WalkEnd::Translated {
                    let _ = writeln!(text, "              {}", fields_text(&fault.fields));
                }
            }
        }
        if self.unexplained_cycles > 0 {
            let _ = writeln!(text, "the design does not tell what it does in {} cycles", self.unexplained_cycles);
        }
        if let Some(physical) = &self.physical {
            let _ = write!(text, "physical address {physical} ");
        }
        let _ = writeln!(text, "after {} cycles. {}", self.cycles, self.oracle);
        if let Some(data) = &self.data {
            let _ = writeln!(text, "{}", data.sentence());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Cycle;

    fn step(kind: StepKind, from: u64, until: u64) -> Step {
        Step::new(kind, "step", Cycle(from), Cycle(until))
    }

    #[test]
    fn gaps_are_cycles_that_no_leaf_covers() {
        let walk = Step {
            steps: vec![step(StepKind::Load, 12, 20), step(StepKind::Load, 14, 30).behind()],
            ..step(StepKind::Walk, 10, 20)
        };
        let steps = vec![step(StepKind::LookUp, 5, 10), walk];
        // From 10 to 12 the walk does something that it does not tell; the end of the attempt is at 24.
        let (attempt, gaps) = Attempt::new(steps, Some(24), None);
        assert_eq!((attempt.cycles, gaps), (19, 2 + 4));
        assert_eq!((attempt.steps[1].from, attempt.steps[1].steps[0].until), (5, 15));
        assert!(attempt.steps[1].steps[1].parallel && !attempt.steps[1].parallel);
    }

    #[test]
    fn what_ends_after_the_answer_is_not_waited_for() {
        let walk =
            Step { steps: vec![step(StepKind::Load, 0, 8), step(StepKind::Load, 0, 30)], ..step(StepKind::Walk, 0, 8) };
        let (attempt, gaps) = Attempt::new(vec![walk], Some(8), None);
        assert_eq!((attempt.cycles, gaps, attempt.steps[0].steps[1].behind), (8, 0, true));
    }

    #[test]
    fn a_fault_parts_attempts_and_rounds_are_chains_of_loads() {
        let load = |from, until| Step {
            loaded: Some(ambulator_base::watch::LoadedBytes {
                at: 64,
                guest: None,
                words: vec![0],
                served: "L2".into(),
                row: String::new(),
            }),
            ..step(StepKind::Load, from, until)
        };
        let steps = vec![load(0, 10), step(StepKind::Fault, 0, 700), load(900, 910), load(900, 912), load(912, 920)];
        let (attempts, gaps) = attempts(steps, Some(920));
        assert_eq!((attempts.len(), attempts[0].cycles, attempts[1].cycles, gaps), (2, 10, 20, 0));
        let loads = LoadSummary::of(&attempts);
        assert_eq!((loads.count, loads.rounds, loads.l2, loads.served()), (4, 3, 4, "4 L2".to_owned()));
    }
}
