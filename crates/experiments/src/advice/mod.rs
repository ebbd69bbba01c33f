//! Advice for a program: what limits it, which of its data and code cause that, and what would help.

mod causes;
mod limits;
#[cfg(test)]
mod tests;
mod text;

pub use causes::{CodeShare, Cost, Place, Shares, Structure};
pub use limits::{Limit, LimitKind};
pub use text::Piece;

use crate::interval::SpeedUp;
use ambulator_simulator::{RunResult, Status};
use serde::Serialize;

/// What a remedy changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
    /// A setting of today's kernel, or what a program can ask it for.
    KernelSetting,
    /// Hardware, with the kernel that it needs.
    Design,
}

/// Something that may help, with its run.
#[derive(Clone, Debug)]
pub struct Remedy<'a> {
    /// What it is called in tables.
    pub label: String,
    /// What to do, as the end of a sentence that begins with its label; empty for a design.
    pub how: String,
    /// What it changes.
    pub kind: RemedyKind,
    /// Its run.
    pub run: &'a RunResult,
}

/// How a remedy is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It is faster, beyond the interval.
    Helps,
    /// No difference beyond the interval.
    NoDifference,
    /// It is slower, beyond the interval.
    Slower,
    /// It has not run to its end.
    Unknown,
}

/// A remedy, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// What it is called.
    pub label: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub how: String,
    /// What it changes.
    pub kind: RemedyKind,
    /// The judgement.
    pub judgement: Judgement,
    /// Its speed-up over the program as it is; 0 if it is not known.
    pub speed_up: f64,
    /// The 95% interval of the speed-up, if there is one.
    pub interval: Option<(f64, f64)>,
    /// L2 TLB misses per 1000 instructions.
    pub l2_tlb_misses: f64,
    /// Cycles per instruction that wait for TLBs and walks.
    pub translation_cycles: f64,
    /// Cycles per instruction of the operating system.
    pub os_cycles: f64,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What a perfect TLB would gain: the most that any translation hardware can.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Headroom {
    /// Speed-up of a machine whose TLBs never miss, with the same pages.
    pub speed_up: f64,
    /// Its 95% interval, if there is one.
    pub interval: Option<(f64, f64)>,
    /// Whether the interval leaves 1 out.
    pub differs: bool,
}

/// A part of the cycle stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What the cycles went to.
    pub part: &'static str,
    /// Their share of all cycles.
    pub share: f64,
    /// Cycles per instruction.
    pub cycles: f64,
}

/// The page of advice.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The program's name.
    pub program: String,
    /// Its settings, or the header of its trace.
    pub detail: String,
    /// Instructions of each run.
    pub instructions: u64,
    /// Seeds of each run.
    pub seeds: usize,
    /// Cycles per instruction.
    pub cpi: f64,
    /// What limits it, the largest first; empty if nothing does.
    pub limits: Vec<Limit>,
    /// What a perfect TLB would gain; `None` if that did not run.
    pub headroom: Option<Headroom>,
    /// Where its cycles go, the largest part first.
    pub cycles: Vec<Part>,
    /// Cost of all its page walks and page faults.
    pub total: Cost,
    /// Its mappings, the most expensive first; the last one stands for all others, if there are more.
    pub structures: Vec<Structure>,
    /// Share of the walk cycles in parts of mappings that no aligned 2 MiB covers.
    pub outside_2m: f64,
    /// Share of the walk cycles in mapped files.
    pub in_files: f64,
    /// Its code, the most expensive first; the last one stands for all other, if there is more.
    pub code: Vec<CodeShare>,
    /// What was tried.
    pub remedies: Vec<Judged>,
    /// What cannot be told, a sentence each.
    pub doubts: Vec<String>,
}

/// What advice is made of.
pub struct Evidence<'a> {
    /// The program as it is today, with a profile.
    pub base: &'a RunResult,
    /// The same with a perfect TLB.
    pub bound: Option<&'a RunResult>,
    /// What may help.
    pub remedies: Vec<Remedy<'a>>,
    /// Where an instruction is in the source, by its file and the byte of it.
    pub place: &'a mut dyn FnMut(&str, u64) -> Option<Place>,
    /// Doubts that are known already.
    pub doubts: Vec<String>,
}

impl Advice {
    /// The advice that follows from runs. `None` if the program as it is has not run to its end.
    pub fn of(evidence: Evidence<'_>) -> Option<Advice> {
        let Evidence { base, bound, remedies, place, doubts } = evidence;
        if base.status != Status::Done || base.ipc <= 0.0 {
            return None;
        }
        let headroom = bound.filter(|bound| bound.status == Status::Done);
        let headroom = headroom.and_then(|bound| SpeedUp::of(base, bound)).map(|speed_up| Headroom {
            speed_up: speed_up.ratio,
            interval: interval_of(&speed_up),
            differs: speed_up.differs(),
        });
        let profile = base.profile.clone().unwrap_or_default();
        let structures = causes::structures(&profile);
        let mut advice = Advice {
            program: base.program.clone(),
            detail: base.identity.detail.clone(),
            instructions: base.simulated_instructions,
            seeds: base.over_seeds.len().max(1),
            cpi: base.measure("cpi"),
            limits: limits::limits(base, headroom.as_ref()),
            headroom,
            cycles: limits::parts(base),
            total: causes::total(&profile),
            outside_2m: causes::outside_2m(&profile),
            in_files: causes::in_files(&profile),
            code: causes::code(&profile, &structures, place),
            structures,
            remedies: remedies.iter().map(|remedy| Judged::of(base, remedy)).collect(),
            doubts,
        };
        advice.doubt(base);
        Some(advice)
    }

    /// Adds what cannot be told.
    fn doubt(&mut self, base: &RunResult) {
        let waits = limits::translation_share(base);
        match &self.headroom {
            None => self.doubts.insert(0, "The bound by a perfect TLB did not run, so it is not known what translation costs at most.".into()),
            Some(of) if !of.differs && waits > limits::WORTH_NAMING => self.doubts.insert(
                0,
                format!(
                    "Whether translation costs time cannot be told: {:.0}% of the cycles wait for it, but a perfect TLB is \
                     not faster beyond its interval. Measure more (--instructions, --seeds).",
                    100.0 * waits
                ),
            ),
            Some(of) if of.interval.is_none() => self.doubts.insert(
                0,
                "The measured region is too short for intervals: differences of less than 1% are taken for none. Measure \
                 more (--instructions, --seeds)."
                    .into(),
            ),
            Some(_) => {}
        }
        let measured = self.total.walks > 0 || self.total.page_faults > 0;
        if measured && self.code.iter().all(|code| code.place.is_none()) {
            self.doubts.push(match self.code.iter().all(|code| code.file.is_empty()) {
                true => {
                    "Functions and lines are not known: this program is no captured binary, or its trace does not name \
                         the files that it mapped (captures from this version on do)."
                        .into()
                }
                false => {
                    "Functions and lines are not known: the program's files have no symbols here, or are not here any \
                          more. Build with -g, and run this where the program was captured."
                        .into()
                }
            });
        }
    }
}

fn interval_of(speed_up: &SpeedUp) -> Option<(f64, f64)> {
    speed_up.half.map(|half| ((speed_up.ratio - half).max(0.0), speed_up.ratio + half))
}

impl Judged {
    fn of(base: &RunResult, remedy: &Remedy<'_>) -> Judged {
        let run = remedy.run;
        let speed_up = (run.status == Status::Done).then(|| SpeedUp::of(base, run)).flatten();
        let judgement = match &speed_up {
            None => Judgement::Unknown,
            Some(of) if !of.differs() => Judgement::NoDifference,
            Some(of) if of.ratio > 1.0 => Judgement::Helps,
            Some(_) => Judgement::Slower,
        };
        Judged {
            label: remedy.label.clone(),
            how: remedy.how.clone(),
            kind: remedy.kind,
            judgement,
            speed_up: speed_up.map_or(0.0, |of| of.ratio),
            interval: speed_up.as_ref().and_then(interval_of),
            l2_tlb_misses: run.measure("l2_tlb_mpki"),
            translation_cycles: run.measure("cpi_tlb") + run.measure("cpi_walk"),
            os_cycles: run.measure("cpi_os"),
            outcome: run.outcome.clone().filter(|_| speed_up.is_none()),
        }
    }
}
