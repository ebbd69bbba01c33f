//! Intervals around speed-ups: how far a ratio of cycles can be trusted.

use crate::number::numbered;
use crate::sampling::{Method, are_sampled_alike, method_of};
use ambulator_base::student_t;
use ambulator_simulator::{MeasuredInterval, RunResult, Sampled, Status};
use std::fmt;

/// Windows that a measured region is divided into, at most; with fewer than [`LEAST_WINDOWS`] there is no
/// interval.
const MOST_WINDOWS: usize = 30;
/// Fewer points say nothing about their spread.
const LEAST_WINDOWS: usize = 10;
/// Measured windows, or intervals of phases, of a sampled region without which no number of it has an interval.
const LEAST_SAMPLES: usize = 8;
/// A ratio that is printed as 1.000 is 1.
const ROUNDS_TO_ONE: f64 = 0.0005;
/// Without an interval, a difference below this is not reported.
const DOUBTFUL: f64 = 0.01;
/// Difference between the shares of the operating system in the windows and in the whole region that a reader should know.
const OS_ELSEWHERE: f64 = 0.05;

/// A speed-up with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedUp {
    /// The ratio of the instructions per cycle.
    pub ratio: f64,
    /// Half of the interval's width; `None` if the region is too short for one.
    pub half: Option<f64>,
    /// What the interval is over; `None` without one.
    pub over: Option<Over>,
}

/// What the interval of a speed-up is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The same seeds of both.
    Seeds(usize),
    /// Windows of the same instructions.
    Windows(usize),
    /// The same measured intervals of phases.
    Intervals(usize),
    /// The interval of each run's own speed: they were not measured in the same instructions.
    Each,
}

impl fmt::Display for Over {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(&match self {
            Over::Seeds(seeds) => numbered(*seeds, "seed"),
            Over::Windows(windows) => numbered(*windows, "window"),
            Over::Intervals(intervals) => numbered(*intervals, "interval"),
            Over::Each => "what was sampled of each".to_owned(),
        })
    }
}

impl SpeedUp {
    /// The speed-up of `run` over `base`, with an interval over windows of the measured region: both regions
    /// are divided at the same instructions, and the interval is that of the ratio of the windows' cycles
    /// (ratio estimator, Student's t). For regions that were sampled by the same phases, it is that of the
    /// ratio over their strata. Regions that were sampled differently have no windows in common: the interval is
    /// then from those of the two speeds. For runs over the same seeds, the mean of their speed-ups with the
    /// interval over seeds. `None` without time.
    ///
    /// Of sampled regions it counts all of the operating system's cycles ([`RunResult::speed`]). Where the windows have
    /// another share of them than the region, they are no measure of its spread: the interval is then from those of the
    /// two speeds, too.
    pub fn of(base: &RunResult, run: &RunResult) -> Option<SpeedUp> {
        let ratio = |base: &RunResult, run: &RunResult| (base.speed() > 0.0).then(|| run.speed() / base.speed());
        SpeedUp::with_interval(base, run, ratio, || {
            let alike = are_sampled_alike(base, run) && !(os_is_elsewhere(base) || os_is_elsewhere(run));
            let common = if alike { half_of_common(base, run) } else { None };
            common.or_else(|| half_of_each(base, run))
        })
    }

    /// The speed-up that `ratio` says, with an interval over seeds if there are several, and else with the half that
    /// `of_region` finds. `None` without time.
    pub(crate) fn with_interval(
        base: &RunResult,
        run: &RunResult,
        ratio: impl Fn(&RunResult, &RunResult) -> Option<f64>,
        of_region: impl FnOnce() -> Option<(f64, Over)>,
    ) -> Option<SpeedUp> {
        if base.ipc <= 0.0 || run.ipc <= 0.0 {
            return None;
        }
        let of_seeds = base.over_seeds.iter().zip(&run.over_seeds).filter_map(|(base, run)| ratio(base, run));
        if let Some(Spread { mean, half: Some(half), seeds }) = Spread::of(&of_seeds.collect::<Vec<_>>()) {
            return Some(SpeedUp { ratio: mean, half: Some(half), over: Some(Over::Seeds(seeds)) });
        }
        let ratio = ratio(base, run)?;
        let (half, over) = of_region().unzip();
        Some(SpeedUp { ratio, half, over })
    }

    /// Whether the interval leaves 1 out.
    pub fn differs(&self) -> bool {
        let away = (self.ratio - 1.0).abs();
        away >= ROUNDS_TO_ONE && away > self.half.unwrap_or(DOUBTFUL)
    }

    /// How far the ratio can be trusted, in words: `95% interval 2.170 to 2.180`.
    pub(crate) fn in_words(&self) -> String {
        let too_short = || "the region is too short for an interval".to_owned();
        self.interval().map_or_else(too_short, |interval| format!("95% interval {interval}"))
    }

    /// The interval in words: `2.170 to 2.180`.
    pub fn interval(&self) -> Option<String> {
        self.half.map(|half| format!("{:.3} to {:.3}", (self.ratio - half).max(0.0), self.ratio + half))
    }
}

/// Half of the 95% interval of a number of a sampled run (`run.sampling`): `of` depends on one counter, one measure,
/// the instructions per cycle, those of one core, or the speed-ups over `base`. `None` without an interval.
pub(crate) fn half_of(
    of: impl Fn(&RunResult) -> Option<f64>,
    run: &RunResult,
    base: Option<&RunResult>,
) -> Option<f64> {
    let half = &run.sampled.as_ref().filter(|sampled| !sampled.half.is_empty())?.half;
    // The same run at the upper ends of all intervals.
    let mut upper = RunResult { windows: Vec::new(), series: None, sampled: None, ..run.clone() };
    let of_name = |name: &str| half.get(name).copied().unwrap_or(0.0);
    upper.ipc += of_name("ipc");
    upper.speedup += base.and_then(|base| SpeedUp::of(base, run)?.half).unwrap_or(f64::NAN);
    upper.weighted_speedup += base.and_then(|base| SpeedUp::weighted(base, run)?.half).unwrap_or(f64::NAN);
    let cores = upper.cores.iter_mut().enumerate();
    cores.for_each(|(number, core)| core.ipc += of_name(&format!("cores.{number}.ipc")));
    upper.measures.iter_mut().for_each(|(name, value)| *value += of_name(&format!("measures.{name}")));
    upper.counters.iter_mut().for_each(|(name, value)| *value += of_name(name).round() as u64);
    Some((of(&upper)? - of(run)?).abs()).filter(|half| half.is_finite())
}

/// The mean of runs with different seeds, which keeps them: counters, measures and cycles are means, the rest
/// is that of the first. `None` for no run; one is left as it is.
pub fn mean_over_seeds(mut runs: Vec<RunResult>) -> Option<RunResult> {
    let mut mean = runs.first()?.clone();
    if runs.len() == 1 {
        return runs.pop();
    }
    let n = runs.len() as f64;
    let of = |value: &dyn Fn(&RunResult) -> f64| runs.iter().map(value).sum::<f64>() / n;
    let whole = |value: &dyn Fn(&RunResult) -> u64| whole_mean(of(&|run| value(run) as f64));
    mean.simulated_instructions = whole(&|run| run.simulated_instructions);
    mean.simulated_accesses = whole(&|run| run.simulated_accesses);
    mean.cycles = whole(&|run| run.cycles);
    mean.checked_translations = runs.iter().map(|run| run.checked_translations).sum();
    mean.ipc = of(&|run| run.ipc);
    mean.speedup = of(&|run| run.speedup);
    mean.weighted_speedup = of(&|run| run.weighted_speedup);
    mean.sim_host_seconds = runs.iter().map(|run| run.sim_host_seconds).sum();
    mean.sim_host_setup_seconds = runs.iter().map(|run| run.sim_host_setup_seconds).sum();
    for (name, value) in &mut mean.measures {
        *value = of(&|run| run.measure(name));
    }
    for (name, value) in &mut mean.counters {
        *value = whole(&|run| run.counters.get(name).copied().unwrap_or(0));
    }
    if let Some(worst) = runs.iter().find(|run| run.status != Status::Done) {
        mean.status = worst.status;
        mean.outcome = worst.outcome.as_ref().map(|why| format!("with seed {}: {why}", worst.seed));
    }
    mean.over_seeds = runs;
    Some(mean)
}

/// A mean of counts as a count: what happened with some seed is not rounded to nothing.
pub(crate) fn whole_mean(mean: f64) -> u64 {
    (mean.round() as u64).max(u64::from(mean > 0.0))
}

/// A number over several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half of the width of its 95% interval (Student's t); `None` for one seed.
    pub half: Option<f64>,
    /// How many seeds.
    pub seeds: usize,
}

impl Spread {
    /// Of the values of each seed; `None` without any.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = (values.len() > 1).then(|| student_t(n - 1.0) * (squares / (n * (n - 1.0))).sqrt());
        (!values.is_empty()).then_some(Spread { mean, half, seeds: values.len() })
    }

    /// Whether the intervals of two numbers meet; without intervals, nothing is known to be apart.
    pub fn overlaps(&self, other: &Spread) -> bool {
        let reach = self.half.zip(other.half).map(|(own, other)| own + other);
        reach.is_none_or(|reach| (self.mean - other.mean).abs() <= reach)
    }
}

/// Cycles at a number of instructions, between points.
fn at(points: &[(u64, u64)], instructions: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for &(i, c) in points {
        let (i, c) = (i as f64, c as f64);
        if i >= instructions {
            let part = if i > before.0 { (instructions - before.0) / (i - before.0) } else { 1.0 };
            return before.1 + part * (c - before.1);
        }
        before = (i, c);
    }
    before.1
}

/// Cycles of two runs in windows of the same instructions: as many windows as both have points for.
pub(crate) fn paired_windows(base: &[(u64, u64)], run: &[(u64, u64)]) -> Vec<(f64, f64)> {
    let (Some((end_base, _)), Some((end_run, _))) = (base.last(), run.last()) else { return Vec::new() };
    let count = base.len().min(run.len()).min(MOST_WINDOWS);
    let step = *end_base.min(end_run) as f64 / count as f64;
    let cycles = |points: &[(u64, u64)], window: usize| {
        at(points, (window + 1) as f64 * step) - at(points, window as f64 * step)
    };
    (0..count).map(|window| (cycles(base, window), cycles(run, window))).collect()
}

/// The speed-up of `run` over `base` in the first and in the last third of the region. `None` without enough
/// windows.
pub(crate) fn first_and_last_third(base: &RunResult, run: &RunResult) -> Option<(f64, f64)> {
    let pairs = paired_windows(&base.windows, &run.windows);
    let third = pairs.len() / 3;
    let ratio = |pairs: &[(f64, f64)]| {
        let (base, run) = pairs.iter().fold((0.0, 0.0), |(a, b), (base, run)| (a + base, b + run));
        (base > 0.0 && run > 0.0).then(|| base / run)
    };
    (pairs.len() >= LEAST_WINDOWS).then_some(())?;
    Some((ratio(&pairs[..third])?, ratio(&pairs[pairs.len() - third..])?))
}

/// Whether the windows of a sampled region have another share of the operating system's cycles than all of it, by so
/// much that a reader should know.
pub(crate) fn os_is_elsewhere(run: &RunResult) -> bool {
    run.knows_region() && (run.measure("os_cycles_share") - run.measure("region_os_share")).abs() > OS_ELSEWHERE
}

/// Half of the width of the 95% interval of a speed-up of regions that were measured in the same instructions,
/// and what it is over.
fn half_of_common(base: &RunResult, run: &RunResult) -> Option<(f64, Over)> {
    if method_of(run) == Some(Method::Phases) {
        return half_of_phases(base, run).map(|(half, intervals)| (half, Over::Intervals(intervals)));
    }
    let pairs = paired_windows(&base.windows, &run.windows);
    Some((half_width(&pairs, least_windows(run))?, Over::Windows(pairs.len())))
}

/// Windows of a region without which there is no interval.
pub(crate) fn least_windows(run: &RunResult) -> usize {
    if run.sampled.is_some() { LEAST_SAMPLES } else { LEAST_WINDOWS }
}

/// Half of the width of the 95% interval of a speed-up of which at least one region was sampled: the errors of
/// the two speeds are independent, and a region that was measured whole has none.
fn half_of_each(base: &RunResult, run: &RunResult) -> Option<(f64, Over)> {
    let share = |of: &RunResult| match &of.sampled {
        Some(sampled) => {
            let name = if of.knows_region() { "measures.region_ipc" } else { "ipc" };
            sampled.half.get(name).map(|half| half / of.speed())
        }
        None => Some(0.0),
    };
    let is_sampled = base.sampled.is_some() || run.sampled.is_some();
    let half = run.speed() / base.speed() * share(base)?.hypot(share(run)?);
    is_sampled.then_some((half, Over::Each))
}

/// The samples of two regions that were sampled by the same phases, in the same intervals, of which there are enough.
pub(crate) fn same_intervals<'r>(base: &'r RunResult, run: &'r RunResult) -> Option<(&'r Sampled, &'r Sampled)> {
    let (of_base, of_run) = (base.sampled.as_ref()?, run.sampled.as_ref()?);
    let mut pairs = of_base.intervals.iter().zip(&of_run.intervals);
    let same = pairs.all(|(base, run)| (base.interval, base.weight) == (run.interval, run.weight));
    let enough = of_base.intervals.len() == of_run.intervals.len() && of_base.intervals.len() >= LEAST_SAMPLES;
    (same && enough).then_some((of_base, of_run))
}

/// Half of the width of the 95% interval of a speed-up of regions that were sampled by the same phases, and
/// the intervals that it is from: the combined ratio estimator of stratified samples (Cochran, Sampling
/// Techniques, Sec. 6.11). `None` for other regions, and without a phase of which two intervals were
/// measured.
fn half_of_phases(base: &RunResult, run: &RunResult) -> Option<(f64, usize)> {
    let (of_base, of_run) = same_intervals(base, run)?;
    let weighted = |of: &[MeasuredInterval]| of.iter().map(|one| (one.weight * one.cycles) as f64).sum::<f64>();
    let (sum_base, sum_run) = (weighted(&of_base.intervals), weighted(&of_run.intervals));
    let ratio = sum_base / sum_run;
    let pairs = of_base.intervals.iter().zip(&of_run.intervals);
    let off: Vec<f64> = pairs.map(|(base, run)| base.cycles as f64 - ratio * run.cycles as f64).collect();
    (sum_run > 0.0).then(|| (half_of_strata(of_base, &off) / sum_run, off.len()))
}

/// Half of the width of the 95% interval of a sum over all intervals of a region: `off` is what those that were
/// measured have of it.
pub(crate) fn half_of_strata(sampled: &Sampled, off: &[f64]) -> f64 {
    let (mut variance, mut freedom) = (0.0, 0.0);
    for (phase, (size, measured)) in sampled.phases().into_iter().enumerate() {
        if measured < 2 || measured >= size {
            continue;
        }
        let of_phase = sampled.intervals.iter().zip(off).filter(|(interval, _)| interval.phase == phase as u64);
        let own: Vec<f64> = of_phase.map(|(_, off)| *off).collect();
        let (n, size) = (measured as f64, size as f64);
        let mean = own.iter().sum::<f64>() / n;
        let squares: f64 = own.iter().map(|value| (value - mean).powi(2)).sum();
        variance += size * size * (1.0 - n / size) * squares / (n * (n - 1.0));
        freedom += n - 1.0;
    }
    let t = if freedom > 0.0 { student_t(freedom) } else { 0.0 };
    t * variance.sqrt()
}

/// Half of the width of the 95% interval of the ratio of two sums of paired values, of which there must be
/// `least`.
fn half_width(pairs: &[(f64, f64)], least: usize) -> Option<f64> {
    let (sum_base, sum_run) = pairs.iter().fold((0.0, 0.0), |(a, b), (base, run)| (a + base, b + run));
    if pairs.len() < least || sum_run <= 0.0 {
        return None;
    }
    let ratio = sum_base / sum_run;
    let off: Vec<f64> = pairs.iter().map(|(base, run)| base - ratio * run).collect();
    Some(half_of_sum(&off) / sum_run)
}

/// Half of the width of the 95% interval of a sum of values whose mean is 0.
pub(crate) fn half_of_sum(off: &[f64]) -> f64 {
    let n = off.len() as f64;
    let squares: f64 = off.iter().map(|value| value * value).sum();
    student_t(n - 1.0) * (squares * n / (n - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(windows: impl Iterator<Item = u64>) -> RunResult {
        let mut at = (0, 0);
        let points = windows.map(|cycles| {
            at = (at.0 + 1000, at.1 + cycles);
            at
        });
        let windows: Vec<_> = points.collect();
        let (instructions, cycles) = windows[windows.len() - 1];
        RunResult { ipc: instructions as f64 / cycles as f64, windows, cycles, ..RunResult::default() }
    }

    #[test]
    fn seeds_have_a_mean_and_an_interval() {
        // Mean 3, deviation 1.5811, over 5 seeds: 2.776 * 1.5811 / sqrt(5).
        let spread = Spread::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((spread.mean - 3.0).abs() < 1e-12 && (spread.half.unwrap() - 1.963).abs() < 0.001, "{spread:?}");
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.half, one.seeds), (7.0, None, 1));
        assert_eq!(Spread::of(&[]), None);
        let far = Spread::of(&[8.0, 9.0, 8.5]).unwrap();
        assert!(!spread.overlaps(&far) && spread.overlaps(&spread) && far.overlaps(&one), "one seed shows nothing");
    }

    #[test]
    fn a_mean_over_seeds_has_its_interval_over_them() {
        let of = |ipc: f64, walks: u64| {
            let counters = [("mmu.walks".to_owned(), walks)].into();
            RunResult { ipc, counters, ..run((0..20).map(|_| 1000)) }
        };
        let base = mean_over_seeds(vec![of(1.0, 10), of(2.0, 20), of(3.0, 31)]).unwrap();
        let run = mean_over_seeds(vec![of(1.1, 1), of(2.4, 2), of(3.9, 3)]).unwrap();
        assert_eq!((base.ipc, base.counters["mmu.walks"], base.over_seeds.len()), (2.0, 20, 3));
        let seldom = mean_over_seeds(vec![of(1.0, 0), of(2.0, 0), of(3.0, 1)]).unwrap();
        assert_eq!(seldom.counters["mmu.walks"], 1, "there were walks");
        let speed_up = SpeedUp::of(&base, &run).unwrap();
        // 1.1, 1.2 and 1.3: 4.303 * 0.1 / sqrt(3).
        assert!((speed_up.ratio - 1.2).abs() < 1e-9 && (speed_up.half.unwrap() - 0.2484).abs() < 0.001, "{speed_up:?}");
        assert!(!speed_up.differs() && speed_up.over == Some(Over::Seeds(3)));
        let mut failed = vec![of(1.0, 1), of(1.0, 1)];
        failed[1].status = Status::Failed;
        assert_eq!(mean_over_seeds(failed).unwrap().status, Status::Failed);
        assert!(mean_over_seeds(vec![of(1.0, 1)]).unwrap().over_seeds.is_empty());
    }

    #[test]
    fn a_steady_gain_differs_and_noise_does_not() {
        let base = run((0..20).map(|_| 2000));
        let steady = SpeedUp::of(&base, &run((0..20).map(|i| 1000 + i % 2))).unwrap();
        assert!(steady.differs() && steady.half.unwrap() < 0.01 && (steady.ratio - 2.0).abs() < 0.01, "{steady:?}");
        let noisy = SpeedUp::of(&base, &run((0..20).map(|i| if i % 4 == 0 { 1400 } else { 2150 }))).unwrap();
        assert!(noisy.ratio > 1.005 && !noisy.differs(), "{noisy:?}");
        let same = SpeedUp::of(&base, &base).unwrap();
        assert_eq!((same.differs(), same.half, same.over), (false, Some(0.0), Some(Over::Windows(20))));
    }

    #[test]
    fn the_interval_is_that_of_the_paired_ratio_by_hand() {
        // 10 windows; sums 20000 and 10000; residuals of +-200 for ratio 2, so 2.262 * sqrt(400000 / 90) /
        // 1000.
        let base = run((0..10).map(|i| if i % 2 == 0 { 2200 } else { 1800 }));
        let half = SpeedUp::of(&base, &run((0..10).map(|_| 1000))).unwrap().half.unwrap();
        assert!((half - 2.262 * (400_000.0f64 / 90.0).sqrt() / 1000.0).abs() < 0.001, "{half}");
    }

    #[test]
    fn a_speed_up_over_phases_has_the_interval_within_them() {
        // Two phases whose speed-ups differ: 2 with little noise in 90 intervals, 1 without any in 10.
        let of = |cycles: &dyn Fn(u64) -> u64| {
            let interval = |at: u64| MeasuredInterval {
                interval: 8 * at,
                phase: at % 2,
                weight: if at.is_multiple_of(2) { 9 } else { 1 },
                instructions: 1000,
                cycles: cycles(at),
            };
            let intervals: Vec<MeasuredInterval> = (0..20).map(interval).collect();
            let all: u64 = intervals.iter().map(|of| of.weight * of.cycles).sum();
            let sampled = Sampled { intervals, windows: 20, ..Sampled::default() };
            RunResult { ipc: 100_000.0 / all as f64, sampled: Some(sampled), ..RunResult::default() }
        };
        let base = of(&|at| if at % 2 == 0 { 2000 + 10 * (at % 4) } else { 500 });
        let run = of(&|at| if at % 2 == 0 { 1000 } else { 500 });
        let speed_up = SpeedUp::of(&base, &run).unwrap();
        assert_eq!(speed_up.over, Some(Over::Intervals(20)));
        // 10 of 90 are measured, whose deviation is 10.54 (five of 2000 and five of 2020); the other phase
        // was measured whole. 9 degrees of freedom: 2.262. The sum below is 95,000.
        let deviation = (10.0 * 100.0f64 / 9.0).sqrt();
        let expected = 2.262 * 90.0 * ((1.0 - 10.0 / 90.0) / 10.0f64).sqrt() * deviation / 95_000.0;
        let half = speed_up.half.unwrap();
        assert!((half / expected - 1.0).abs() < 0.001, "{half} and {expected}");
        let mut other = run.clone();
        other.sampled.as_mut().unwrap().intervals[3].interval += 1;
        assert_eq!(SpeedUp::of(&base, &other).unwrap().half, None, "these are other intervals");
        let own = |run: &RunResult, half: f64| {
            let sampled = run.sampled.clone().map(|of| Sampled { half: [("ipc".to_owned(), half)].into(), ..of });
            RunResult { sampled, ..run.clone() }
        };
        let each = SpeedUp::of(&own(&base, 0.03 * base.ipc), &own(&other, 0.04 * other.ipc)).unwrap();
        assert!((each.half.unwrap() - 0.05 * each.ratio).abs() < 1e-9 && each.over == Some(Over::Each), "{each:?}");
    }

    #[test]
    fn windows_of_other_instructions_are_not_paired() {
        let set = |spec: serde_json::Value, sampled: Option<Sampled>| RunResult {
            spec,
            sampled,
            ..run((0..20).map(|at| 1000 + at % 3))
        };
        let every = |period: u64| json!({"run": {"sampling": "windows", "sample_period": period}});
        let whole = set(json!({"run": {"sampling": "none", "instructions": 20_000}}), None);
        let half = [("ipc".to_owned(), 0.02 * whole.ipc)].into();
        let windows = Sampled { windows: 20, half, ..Sampled::default() };
        let sampled = set(every(5000), Some(windows.clone()));
        let of = |base: &RunResult, run: &RunResult| {
            let SpeedUp { half, over, .. } = SpeedUp::of(base, run).unwrap();
            (half.map(|half| (1000.0 * half).round()), over)
        };
        assert_eq!(of(&sampled, &sampled), (Some(0.0), Some(Over::Windows(20))));
        assert_eq!(of(&whole, &sampled), (Some(20.0), Some(Over::Each)), "the whole has no error");
        assert_eq!(of(&sampled, &set(every(7000), Some(windows))), (Some(28.0), Some(Over::Each)));
        assert_eq!(of(&sampled, &set(every(5000), Some(Sampled::default()))), (Some(0.0), Some(Over::Windows(20))));
        let longer = set(json!({"run": {"sampling": "none", "instructions": 30_000}}), None);
        assert_eq!(of(&whole, &longer), (None, None));
    }

    #[test]
    fn speeds_of_sampled_regions_count_what_the_operating_system_does_between_windows() {
        let of = |cycles: u64, region: f64, shares: (f64, f64)| {
            let half =
                [("ipc", 0.9), ("measures.region_ipc", 0.02 * region)].map(|(name, half)| (name.to_owned(), half));
            let sampled = Sampled { windows: 20, half: half.into(), ..Sampled::default() };
            let measures = [("region_ipc", region), ("os_cycles_share", shares.0), ("region_os_share", shares.1)];
            let measures = measures.map(|(name, value)| (name.to_owned(), value)).into();
            RunResult { sampled: Some(sampled), measures, ..run((0..20).map(|at| cycles + at % 2)) }
        };
        // Its windows have missed what makes it half as fast as the other.
        let (base, grows) = (of(1000, 1.0, (0.1, 0.1)), of(500, 0.5, (0.1, 0.6)));
        let speed_up = SpeedUp::of(&base, &grows).unwrap();
        assert_eq!((speed_up.ratio, speed_up.over), (0.5, Some(Over::Each)));
        assert!((speed_up.half.unwrap() - 0.5 * 0.02 * 2f64.sqrt()).abs() < 1e-9, "{speed_up:?}");
        let like_windows = SpeedUp::of(&base, &of(500, 1.98, (0.1, 0.12))).unwrap();
        assert_eq!((like_windows.ratio, like_windows.over), (1.98, Some(Over::Windows(20))));
        let mut runs = [base, grows];
        ambulator_simulator::set_speedups(&mut runs);
        assert_eq!(runs.map(|run| run.speedup), [1.0, 0.5]);
    }

    #[test]
    fn eight_windows_of_a_sampled_region_give_an_interval() {
        let of = |count: u64, sampled: Option<Sampled>| RunResult { sampled, ..run((0..count).map(|_| 1000)) };
        let has_interval = |run: RunResult| SpeedUp::of(&run, &run).unwrap().half.is_some();
        assert!(has_interval(of(8, Some(Sampled::default()))) && !has_interval(of(7, Some(Sampled::default()))));
        assert!(has_interval(of(10, None)) && !has_interval(of(9, None)));
    }

    #[test]
    fn without_enough_windows_there_is_no_interval_and_small_differences_are_none() {
        let short = SpeedUp::of(&run((0..5).map(|_| 1000)), &run((0..5).map(|_| 995))).unwrap();
        assert!(short.half.is_none() && short.interval().is_none() && !short.differs());
        assert!(SpeedUp::of(&RunResult::default(), &run((0..5).map(|_| 995))).is_none());
    }

    #[test]
    fn points_that_differ_are_compared_at_the_same_instructions() {
        let base = run((0..40).map(|_| 1000));
        let mut shifted = run((0..40).map(|_| 500));
        shifted.windows.iter_mut().for_each(|(i, c)| (*i, *c) = (*i - 300, *c - 150));
        let speed_up = SpeedUp::of(&base, &shifted).unwrap();
        assert!(speed_up.half.unwrap() < 1e-9, "{speed_up:?}");
    }
}
