//! Sampling: windows of the measured region are measured with time, and between them time is not simulated
//! (SMARTS, Wunderlich et al., ISCA 2003).
//!
//! A period has four parts, of which the first is the window: it is measured. Then comes what is skipped (pages
//! are mapped, and nothing else happens), what warms the machine without time, and what warms it with time.
//! Lengths are in instructions of each core; with several cores a part ends when all cores together have run
//! it, so that no core waits for another one.

use crate::error::Stop;
use crate::hardware::Hardware;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::report::report_counters;
use crate::result::{Gathered, MEASURES, Sampled};
use crate::spec::{RunSpec, Sampling, Spec};
use crate::windows::Windows;
use ambulator_base::student_t;
use std::collections::BTreeMap;

/// Windows are dealt out to this many groups, and numbers computed without one group at a time.
const GROUPS: usize = 30;
/// Fewer groups say nothing about the spread.
const LEAST_GROUPS: usize = 8;
/// A core looks whether its part has ended after as many instructions at least.
const LEAST_STEP: u64 = 64;

/// A part of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Window,
    Skip,
    Warm,
    Time,
}

/// Sums of counters by name.
type Counts = BTreeMap<String, u64>;

/// What a group of windows has measured.
#[derive(Clone, Debug, Default)]
struct Group {
    measured: Measured,
    counts: Counts,
}

/// The schedule of a sampled region, and what its windows have measured.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Lengths of the parts, in instructions of a core.
    lengths: [(Part, u64); 4],
    part: usize,
    /// Instructions of all cores since the machine's start, at which the region began and the part ends.
    begin: u64,
    end: u64,
    /// Instructions with time.
    timed: u64,
    part_began: u64,
    groups: Vec<Group>,
    sum: Group,
    windows: u64,
    points: Windows,
    /// Counters at the window's begin that were not set to zero: they count from the machine's start.
    before: Counts,
}

impl Sampler {
    /// For a run; `None` if it is not sampled.
    pub fn new(run: &RunSpec) -> Option<Sampler> {
        if run.sampling == Sampling::None {
            return None;
        }
        let rest = run.sample_period - run.sample_window - run.sample_timing;
        let warm = if run.sample_warming == 0 { rest } else { run.sample_warming };
        let lengths = [
            (Part::Window, run.sample_window),
            (Part::Skip, rest - warm),
            (Part::Warm, warm),
            (Part::Time, run.sample_timing),
        ];
        Some(Sampler::of(lengths))
    }

    fn of(lengths: [(Part, u64); 4]) -> Sampler {
        Sampler {
            lengths,
            part: 0,
            begin: u64::MAX,
            end: 0,
            timed: 0,
            part_began: 0,
            groups: Vec::new(),
            sum: Group::default(),
            windows: 0,
            points: Windows::default(),
            before: Counts::new(),
        }
    }

    /// Whether the region has begun.
    fn runs(&self) -> bool {
        self.begin != u64::MAX
    }

    /// Instructions of all cores in the region so far.
    pub fn covered(&self, hw: &Hardware) -> u64 {
        executed(hw).saturating_sub(self.begin)
    }

    /// What the windows have measured.
    pub fn measured(&self) -> &Measured {
        &self.sum.measured
    }

    /// Points of the windows: instructions and cycles so far.
    pub fn points(&self) -> Vec<(u64, u64)> {
        let Measured { totals, cycles, .. } = self.measured();
        self.points.until(totals.run.instructions, *cycles)
    }

    /// Puts the windows' counts in the place of those of `all` that counted since the last window's begin.
    pub fn put_counts(&self, all: &mut Gathered) {
        for (name, value) in &mut all.values {
            let absolute =
                all.meanings.get(name).is_some_and(|meaning| meaning.gauge) || self.before.contains_key(name);
            if !absolute {
                *value = self.sum.counts.get(name).copied().unwrap_or(0);
            }
        }
    }

    /// A window has ended.
    pub(crate) fn add_window(&mut self, measured: Measured, counts: Counts) {
        let group = self.windows as usize % GROUPS;
        if self.groups.len() <= group {
            self.groups.push(Group::default());
        }
        self.windows += 1;
        for to in [&mut self.groups[group], &mut self.sum] {
            to.measured.add(&measured);
            for (name, value) in &counts {
                match to.counts.get_mut(name) {
                    Some(sum) => *sum += value,
                    None => _ = to.counts.insert(name.clone(), *value),
                }
            }
        }
        if self.points.is_due() {
            let Measured { totals, cycles, .. } = &self.sum.measured;
            self.points.take(totals.run.instructions, *cycles);
        }
    }

    /// How the region was sampled, with half of the 95% interval of every number: the jackknife over groups of
    /// windows (Efron and Stein, Annals of Statistics 1981), which are ratios of sums.
    pub fn result(&self, hw: &Hardware, spec: &Spec) -> Sampled {
        Sampled { windows: self.windows, covered: self.covered(hw), timed: self.timed, half: self.halves(spec) }
    }

    pub(crate) fn halves(&self, spec: &Spec) -> BTreeMap<String, f64> {
        if self.groups.len() < LEAST_GROUPS {
            return BTreeMap::new();
        }
        let instructions = |measured: &Measured| measured.totals.run.instructions.max(1) as f64;
        let whole = instructions(&self.sum.measured);
        let numbers = |left_out: usize| {
            let mut rest = Measured::default();
            let others = self.groups.iter().enumerate().filter(|(at, _)| *at != left_out);
            others.for_each(|(_, group)| rest.add(&group.measured));
            // A sum is what its rate makes of the windows' instructions.
            let scale = whole / instructions(&rest);
            let mut all = BTreeMap::from([("ipc".to_owned(), rest.ipc())]);
            for (name, value) in rest.measures(spec, true) {
                all.insert(format!("measures.{name}"), if is_sum(name) { value * scale } else { value });
            }
            let group = &self.groups[left_out];
            for (name, sum) in &self.sum.counts {
                let left = sum - group.counts.get(name).copied().unwrap_or(0);
                all.insert(name.clone(), left as f64 * scale);
            }
            all
        };
        let n = self.groups.len() as f64;
        let replicates: Vec<BTreeMap<String, f64>> = (0..self.groups.len()).map(numbers).collect();
        let half = |name: &String| {
            let values = || replicates.iter().map(|of| of.get(name).copied().unwrap_or(0.0));
            let mean = values().sum::<f64>() / n;
            let squares: f64 = values().map(|value| (value - mean).powi(2)).sum();
            student_t(n - 1.0) * ((n - 1.0) / n * squares).sqrt()
        };
        replicates[0].keys().map(|name| (name.clone(), half(name))).collect()
    }
}

/// Whether a measure of [`Measured::measures`] is a sum over the region, and no ratio.
fn is_sum(name: &str) -> bool {
    MEASURES.iter().any(|of| of.name == name && ["events", "nJ"].contains(&of.unit))
}

/// Instructions of all cores since the machine's start.
fn executed(hw: &Hardware) -> u64 {
    hw.cores.iter().map(|core| core.executed).sum()
}

impl Machine {
    /// The measured region begins: so does its first window.
    pub(crate) fn begin_sampling(&mut self) -> Result<(), Stop> {
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        // It may begin again: a mark in the stream can say that what came before was set-up.
        *sampler = Sampler { begin: executed(&self.hw), ..Sampler::of(sampler.lengths) };
        self.begin_part()
    }

    /// Goes on to the next parts if all cores together have come to their ends.
    #[inline]
    pub(crate) fn go_on_sampling(&mut self) -> Result<(), Stop> {
        let now = executed(&self.hw);
        while self.sampler.as_ref().is_some_and(|sampler| sampler.runs() && now >= sampler.end) {
            self.end_part(now)?;
            if let Some(sampler) = &mut self.sampler {
                sampler.part = (sampler.part + 1) % sampler.lengths.len();
            }
            self.begin_part()?;
        }
        self.set_stops(now);
        Ok(())
    }

    /// The region has ended. A window that has come half-way counts.
    pub(crate) fn end_sampling(&mut self) -> Result<(), Stop> {
        let now = executed(&self.hw);
        let Some(sampler) = &self.sampler else { return Ok(()) };
        let (part, _) = sampler.lengths[sampler.part];
        let counts = sampler.runs()
            && (part != Part::Window || 2 * (now - sampler.part_began) >= sampler.end - sampler.part_began);
        if counts { self.end_part(now) } else { Ok(()) }
    }

    fn end_part(&mut self, now: u64) -> Result<(), Stop> {
        self.carry_out_everywhere()?;
        let Some(sampler) = &self.sampler else { return Ok(()) };
        let (part, _) = sampler.lengths[sampler.part];
        let (measured, counts) = if part == Part::Window {
            self.statistics.sample_now(&self.hw);
            (Some(self.measured_now()), self.counts())
        } else {
            (None, Counts::new())
        };
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        if matches!(part, Part::Window | Part::Time) {
            sampler.timed += now - sampler.part_began;
        }
        if let Some(measured) = measured.filter(|measured| measured.cycles > 0) {
            let before = &sampler.before;
            let since = |(name, value): (String, u64)| (!before.contains_key(&name)).then_some((name, value));
            let counts = counts.into_iter().filter_map(since).collect();
            sampler.add_window(measured, counts);
        }
        Ok(())
    }

    fn begin_part(&mut self) -> Result<(), Stop> {
        let running = self.hw.cores.iter().filter(|core| core.phase != crate::core::CorePhase::Finished).count() as u64;
        let now = executed(&self.hw);
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        let (part, length) = sampler.lengths[sampler.part];
        sampler.part_began = now;
        sampler.end = now + length * running.max(1);
        if length > 0 || part == Part::Window {
            self.hw.set_skipping(part == Part::Skip);
            self.set_timed(matches!(part, Part::Window | Part::Time))?;
        }
        if part == Part::Window {
            self.statistics.begin_window();
            self.os.reset_counters();
            self.hw.reset_counters();
            let before = self.counts();
            if let Some(sampler) = &mut self.sampler {
                sampler.before = before.into_iter().filter(|(_, value)| *value > 0).collect();
            }
        }
        self.set_stops(now);
        Ok(())
    }

    /// Every counter, by name.
    fn counts(&self) -> Counts {
        let mut all = Gathered::default();
        report_counters(&self.hw, &self.os, &mut all);
        let Gathered { values, meanings, .. } = all;
        values.into_iter().filter(|(name, _)| meanings.get(name).is_none_or(|meaning| !meaning.gauge)).collect()
    }

    /// Each core looks whether the part has ended when it has run its share of what is left.
    fn set_stops(&mut self, now: u64) {
        let Some(sampler) = &self.sampler else { return };
        let cores = &mut self.hw.cores;
        let running = cores.iter().filter(|core| core.phase != crate::core::CorePhase::Finished).count() as u64;
        let share = sampler.end.saturating_sub(now).div_ceil(running.max(1)).max(LEAST_STEP);
        for core in cores {
            core.stop_at = core.budget_end.min(core.executed.saturating_add(share));
        }
    }
}
