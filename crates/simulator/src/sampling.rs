//! Sampling: parts of the measured region are measured with time, and between them time is not simulated.
//!
//! Windows come one each period (SMARTS, Wunderlich et al., ISCA 2003), intervals where a plan has them
//! ([`crate::phases`]). Before each the machine is warmed up, first without time and then with it; what comes
//! before that may be skipped: pages are mapped, and nothing else happens. Lengths are in instructions of
//! each core; with several cores a part ends when all cores together have run it, so that no core waits for
//! another one. Between windows of periods, cores run at the speeds that they had in the last one beside each
//! other: a program that is fast ends first, as it does with time.

use crate::core::{Core, CorePhase};
use crate::error::Stop;
use crate::estimate::{Counts, Sample, Samples};
use crate::hardware::Hardware;
use crate::machine::Machine;
use crate::measured::{Measured, OfCore, RegionTime, ratio};
use crate::phases::PhasePlan;
use crate::report::report_counters;
use crate::result::{Gathered, MeasuredInterval, Sampled};
use crate::spec::{RunSpec, Sampling, Spec};
use crate::windows::{Point, Windows};
use std::collections::BTreeMap;
use std::ops::Range;

/// A core looks whether its part has ended after as many instructions at least.
const LEAST_STEP: u64 = 64;

/// Without time, the fastest core runs so many instructions for one of the slowest at most.
const SLOWEST: u64 = 4096;

/// What happens in a part of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It is measured.
    Window,
    Skip,
    Warm,
    Time,
}

/// The parts of a region, one after another.
#[derive(Clone, Debug)]
enum Schedule {
    /// Those of a period with their lengths in instructions of a core, again and again.
    Periods([(Part, u64); 4]),
    /// Those of a plan with their ends, in instructions of each core since the warm-up; then all is skipped.
    Planned(PhasePlan, Vec<(Part, u64)>),
}

impl Schedule {
    fn periods(run: &RunSpec) -> Schedule {
        let rest = run.sample_period - run.sample_window - run.sample_timing;
        let warm = if run.sample_warming == 0 { rest } else { run.sample_warming };
        Schedule::Periods([
            (Part::Window, run.sample_window),
            (Part::Skip, rest - warm),
            (Part::Warm, warm),
            (Part::Time, run.sample_timing),
        ])
    }

    fn planned(run: &RunSpec, plan: PhasePlan) -> Schedule {
        let mut parts: Vec<(Part, u64)> = Vec::new();
        let mut now = 0;
        for choice in &plan.chosen {
            let (begin, end) = (plan.begin(choice.interval), plan.begin(choice.interval + 1));
            let timed = begin.saturating_sub(run.sample_timing);
            let warm = if run.sample_warming == 0 { 0 } else { timed.saturating_sub(run.sample_warming) };
            for (part, until) in [(Part::Skip, warm), (Part::Warm, timed), (Part::Time, begin), (Part::Window, end)] {
                if until > now {
                    parts.push((part, until));
                    now = until;
                }
            }
        }
        Schedule::Planned(plan, parts)
    }

    /// The part of that number.
    fn part(&self, number: usize) -> Part {
        match self {
            Schedule::Periods(lengths) => lengths[number % lengths.len()].0,
            Schedule::Planned(_, parts) => parts.get(number).map_or(Part::Skip, |(part, _)| *part),
        }
    }

    fn samples(&self) -> Samples {
        match self {
            Schedule::Periods(_) => Samples::of_windows(),
            Schedule::Planned(plan, _) => Samples::of_phases(&plan.sizes),
        }
    }
}

/// A program of a plan.
#[derive(Clone, Debug)]
struct Planned {
    cores: Range<usize>,
    /// Instructions of its cores, since the machine's start, where the plan's first interval begins.
    origin: u64,
}

/// The schedule of a sampled region, and what has been measured of it.
#[derive(Debug)]
pub(crate) struct Sampler {
    schedule: Schedule,
    /// The current part: its number, what it is, where it began and ends, in instructions of all cores since
    /// the machine's start.
    number: usize,
    part: Part,
    part_began: u64,
    end: u64,
    /// Where the measured region began; `u64::MAX` before it does.
    begin: u64,
    /// By core: where the region of interest began, with the warm-up.
    region: Vec<u64>,
    /// Of a plan.
    programs: Vec<Planned>,
    /// Cores that have not finished.
    unfinished: usize,
    /// Instructions with time.
    timed: u64,
    /// Windows, or intervals, that have come to their end.
    ended: usize,
    samples: Samples,
    /// By interval of a plan, what it has measured.
    intervals: Vec<MeasuredInterval>,
    /// The same with each core, if there are several.
    points_of_intervals: Vec<Point>,
    points: Windows,
    /// Counters at the window's begin that were not set to zero: they count from the machine's start.
    before: Counts,
    /// Cycles of the operating system in the region until the last window began, on all cores.
    os_cycles: u64,
}

impl Sampler {
    /// For a run whose windows come one each period; `None` for others.
    pub fn new(run: &RunSpec) -> Option<Sampler> {
        (run.sampling == Sampling::Windows).then(|| Sampler::of(Schedule::periods(run)))
    }

    /// For a run that measures the intervals of a plan.
    pub fn planned(run: &RunSpec, plan: PhasePlan) -> Sampler {
        Sampler::of(Schedule::planned(run, plan))
    }

    fn of(schedule: Schedule) -> Sampler {
        Sampler {
            number: 0,
            part: Part::Window,
            part_began: 0,
            end: 0,
            begin: u64::MAX,
            region: Vec::new(),
            programs: Vec::new(),
            unfinished: 0,
            timed: 0,
            ended: 0,
            samples: schedule.samples(),
            intervals: Vec::new(),
            points_of_intervals: Vec::new(),
            points: Windows::default(),
            before: Counts::new(),
            os_cycles: 0,
            schedule,
        }
    }

    /// Whether the measured region has begun.
    fn runs(&self) -> bool {
        self.begin != u64::MAX
    }

    /// Where the current part ends if it begins `now`, in instructions of all cores.
    fn end_of_part(&self, hw: &Hardware, now: u64) -> u64 {
        match &self.schedule {
            Schedule::Periods(lengths) => now + lengths[self.number % lengths.len()].1 * self.running(hw),
            Schedule::Planned(plan, parts) => match parts.get(self.number) {
                Some((_, position)) => self.place(hw, plan, *position),
                None => u64::MAX,
            },
        }
    }

    /// Where all programs together are at a position of the plan, in instructions of all cores. One that has
    /// finished earlier than planned has no more than it has run.
    fn place(&self, hw: &Hardware, plan: &PhasePlan, position: u64) -> u64 {
        let place = |(number, program): (usize, &Planned)| {
            let planned = plan.place(number, position).saturating_sub(plan.place(number, 0));
            let cores = &hw.cores[program.cores.clone()];
            let has_finished = cores.iter().all(|core| core.phase == CorePhase::Finished);
            let most = if has_finished { executed_on(cores).saturating_sub(program.origin) } else { u64::MAX };
            program.origin + planned.min(most)
        };
        self.programs.iter().enumerate().map(place).sum()
    }

    /// Cores that run: those that have not finished, without those that have no thread of their program; at
    /// least one.
    fn running(&self, hw: &Hardware) -> u64 {
        let unfinished = |core: &&Core| core.phase != CorePhase::Finished;
        let all = hw.cores.iter().filter(unfinished).count();
        let of_region = self.region.iter().zip(&hw.cores).map(|(began, core)| (core, core.executed > *began));
        let with_thread = of_region.filter(|(core, has_run)| *has_run && unfinished(core)).count();
        (if with_thread > 0 { with_thread } else { all }).max(1) as u64
    }

    /// Instructions of all cores in the region so far.
    pub fn covered(&self, hw: &Hardware) -> u64 {
        executed(hw).saturating_sub(self.begin)
    }

    /// Cycles of the operating system in the whole region, on all cores: they are charged with time and without.
    pub fn os_cycles(&self, hw: &Hardware) -> u64 {
        self.os_cycles + os_cycles_counted(hw)
    }

    /// What has been measured, each window as often as it counts.
    pub fn measured(&self) -> &Measured {
        &self.samples.sum().measured
    }

    /// Points of the region as it was measured.
    pub fn points(&self) -> Vec<Point> {
        self.points.until(Point::of_measured(self.measured()))
    }

    /// Instructions and cycles of each measured interval of a plan.
    pub fn points_of_intervals(&self) -> &[Point] {
        &self.points_of_intervals
    }

    /// Puts the windows' counts in the place of those of `all` that counted since the last window's begin.
    pub fn put_counts(&self, all: &mut Gathered) {
        for (name, value) in &mut all.values {
            let absolute =
                all.meanings.get(name).is_some_and(|meaning| meaning.gauge) || self.before.contains_key(name);
            if !absolute {
                *value = self.samples.sum().counts.get(name).copied().unwrap_or(0);
            }
        }
    }

    /// A window, or the next interval of the plan, has ended.
    pub(crate) fn add_window(&mut self, measured: Measured, counts: Counts) {
        let (stratum, weight) = match &self.schedule {
            Schedule::Periods(_) => (0, 1),
            Schedule::Planned(plan, _) => {
                let choice = plan.chosen[self.ended];
                self.intervals.push(MeasuredInterval {
                    interval: choice.interval,
                    phase: choice.phase as u64,
                    weight: choice.weight,
                    instructions: measured.totals.run.instructions,
                    cycles: measured.cycles,
                });
                self.points_of_intervals.push(Point::of_measured(&measured));
                (choice.phase, choice.weight)
            }
        };
        self.samples.add(&Sample { measured, counts }, stratum, weight);
        if self.points.is_due() {
            self.points.take(Point::of_measured(&self.samples.sum().measured));
        }
    }

    /// How the region was sampled, with half of the 95% interval of every number.
    pub fn result(&self, hw: &Hardware, spec: &Spec) -> Sampled {
        let mut half = self.halves(spec);
        // What the set-up had is known.
        if let Some(faults) = half.get("measures.page_faults").copied() {
            half.insert("measures.page_faults_all".to_owned(), faults);
        }
        // So is the operating system's part of the region; the rest is as uncertain as in the windows.
        let region = self.region_time(hw);
        if let Some(outside) = half.get("measures.ipc_outside_os").copied() {
            let relative = ratio(outside, region.ipc_outside_os) * (1.0 - region.os_share());
            half.insert("measures.region_ipc".to_owned(), relative * region.ipc());
            half.insert("measures.region_os_share".to_owned(), relative * region.os_share());
        }
        Sampled {
            windows: self.samples.count(),
            covered: self.covered(hw),
            timed: self.timed,
            half,
            intervals: self.intervals.clone(),
        }
    }

    /// The region's time, with all of the operating system's.
    pub fn region_time(&self, hw: &Hardware) -> RegionTime {
        RegionTime {
            instructions: self.covered(hw),
            ipc_outside_os: self.measured().ipc_outside_os(),
            os_cycles: self.os_cycles(hw),
            cores: hw.cores.len() as u64,
        }
    }

    pub(crate) fn halves(&self, spec: &Spec) -> BTreeMap<String, f64> {
        self.samples.halves(spec)
    }
}

/// Instructions of all cores since the machine's start.
fn executed(hw: &Hardware) -> u64 {
    executed_on(&hw.cores)
}

fn executed_on(cores: &[Core]) -> u64 {
    cores.iter().map(|core| core.executed).sum()
}

/// Cycles of the operating system since the counters were set to zero, on all cores.
fn os_cycles_counted(hw: &Hardware) -> u64 {
    hw.cores.iter().map(|core| core.counters.os_cycles).sum()
}

/// From now on, without time, cores run beside each other as fast as they were measured: the fastest runs an
/// instruction a cycle.
fn set_paces(cores: &mut [Core], measured: &[OfCore]) {
    let cpi = |of: &OfCore| of.cycles as f64 / of.instructions as f64;
    let ran = |core: &Core, of: &OfCore| of.instructions.min(of.cycles) > 0 && core.phase != CorePhase::Finished;
    let running = cores.iter().zip(measured).filter(|(core, of)| ran(core, of));
    let least = running.map(|(_, of)| cpi(of)).fold(f64::INFINITY, f64::min);
    for (core, of) in cores.iter_mut().zip(measured) {
        if ran(core, of) {
            core.pace = ((Core::PACE as f64 * cpi(of) / least).round() as u64).clamp(Core::PACE, SLOWEST * Core::PACE);
        }
    }
}

/// Cores that have not finished.
fn unfinished(hw: &Hardware) -> usize {
    hw.cores.iter().filter(|core| core.phase != CorePhase::Finished).count()
}

impl Machine {
    /// Measures the intervals of a plan, which is of the same programs; call it before anything runs.
    pub(crate) fn follow(&mut self, run: &RunSpec, plan: PhasePlan) {
        self.sampler = Some(Sampler::planned(run, plan));
    }

    /// The region of interest begins, with the warm-up if there is one.
    pub(crate) fn begin_sampled_region(&mut self) -> Result<(), Stop> {
        if self.sampler.is_none() {
            return Ok(());
        }
        self.hw.set_skipping(false);
        self.set_timed(true)
    }

    /// The measured region begins: so does its first part.
    pub(crate) fn begin_sampling(&mut self) -> Result<(), Stop> {
        let begin = executed(&self.hw);
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        let region = self.scheduler.region().to_vec();
        self.hw.cores.iter_mut().for_each(|core| core.pace = Core::PACE);
        // It may begin again: a mark in the stream can say that what came before was set-up.
        *sampler = Sampler { begin, region, ..Sampler::of(sampler.schedule.clone()) };
        if let Schedule::Planned(plan, _) = &sampler.schedule {
            let cores = self.scheduler.cores_of_programs(self.hw.cores.len());
            let origin = |(number, cores): (usize, Range<usize>)| {
                let here = executed_on(&self.hw.cores[cores.clone()]);
                let region: u64 = sampler.region.get(cores.clone()).into_iter().flatten().sum();
                let planned = region + plan.place(number, 0);
                // The machine sees some records late that it is warm. After a warm-up with time, a fast core
                // is far beyond the place: its program has its intervals from there on.
                let is_near = here.abs_diff(planned) < plan.begin(1) * cores.len() as u64;
                Planned { cores, origin: if is_near { planned } else { here } }
            };
            sampler.programs = cores.into_iter().take(plan.streams()).enumerate().map(origin).collect();
        }
        self.begin_part()?;
        self.set_stops();
        Ok(())
    }

    /// Goes on to the next parts if all cores together have come to their ends.
    #[inline]
    pub(crate) fn go_on_sampling(&mut self) -> Result<(), Stop> {
        let (now, unfinished) = (executed(&self.hw), unfinished(&self.hw));
        if let Some(sampler) = &mut self.sampler
            && sampler.unfinished != unfinished
        {
            sampler.unfinished = unfinished;
            if matches!(sampler.schedule, Schedule::Planned(..)) && sampler.part != Part::Window && sampler.runs() {
                sampler.end = sampler.end_of_part(&self.hw, now);
            }
        }
        while self.sampler.as_ref().is_some_and(|sampler| sampler.runs() && now >= sampler.end) {
            self.end_part(now)?;
            if let Some(sampler) = &mut self.sampler {
                sampler.number += 1;
            }
            self.begin_part()?;
        }
        self.set_stops();
        Ok(())
    }

    /// The region has ended. A window that has come half-way counts.
    pub(crate) fn end_sampling(&mut self) -> Result<(), Stop> {
        let now = executed(&self.hw);
        let Some(sampler) = &self.sampler else { return Ok(()) };
        let counts = sampler.runs()
            && (sampler.part != Part::Window
                || 2 * (now - sampler.part_began) >= sampler.end.saturating_sub(sampler.part_began));
        if counts { self.end_part(now) } else { Ok(()) }
    }

    fn end_part(&mut self, now: u64) -> Result<(), Stop> {
        self.carry_out_everywhere()?;
        let Some(sampler) = &self.sampler else { return Ok(()) };
        let part = sampler.part;
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
            // The intervals of a plan are where each program has run as many instructions as the others.
            if matches!(sampler.schedule, Schedule::Periods(_)) {
                set_paces(&mut self.hw.cores, &measured.cores);
            }
            let before = &sampler.before;
            let since = |(name, value): (String, u64)| (!before.contains_key(&name)).then_some((name, value));
            let counts = counts.into_iter().filter_map(since).collect();
            sampler.add_window(measured, counts);
        }
        sampler.ended += usize::from(part == Part::Window);
        Ok(())
    }

    fn begin_part(&mut self) -> Result<(), Stop> {
        let now = executed(&self.hw);
        let Some(sampler) = &mut self.sampler else { return Ok(()) };
        let (part, mut end) = (sampler.schedule.part(sampler.number), sampler.end_of_part(&self.hw, now));
        if let (Schedule::Planned(plan, _), Part::Window) = (&sampler.schedule, part) {
            // Where programs run at different speeds, and one ends, the others may be beyond an interval of the
            // plan already: it is measured here.
            let whole = plan.begin(1) * sampler.running(&self.hw);
            if end < now.saturating_add(whole / 2) {
                end = now + whole;
            }
        }
        (sampler.part, sampler.part_began, sampler.end) = (part, now, end);
        if end > now || part == Part::Window {
            self.hw.set_skipping(part == Part::Skip);
            self.set_timed(matches!(part, Part::Window | Part::Time))?;
        }
        if part == Part::Window {
            let os_cycles = os_cycles_counted(&self.hw);
            self.statistics.begin_window();
            self.os.reset_counters();
            self.hw.reset_counters();
            let before = self.counts();
            if let Some(sampler) = &mut self.sampler {
                sampler.before = before.into_iter().filter(|(_, value)| *value > 0).collect();
                sampler.os_cycles += os_cycles;
            }
        }
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
    fn set_stops(&mut self) {
        let now = executed(&self.hw);
        let Some(sampler) = &self.sampler else { return };
        let share = sampler.end.saturating_sub(now).div_ceil(sampler.running(&self.hw)).max(LEAST_STEP);
        for core in &mut self.hw.cores {
            core.stop_at = core.budget_end.min(core.executed.saturating_add(share));
        }
    }
}
