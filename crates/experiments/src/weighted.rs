//! Weighted speed-ups of several cores with their intervals: each program of a mix counts the same.

use crate::interval::{Over, SpeedUp, half_of_strata, half_of_sum, least_windows, paired_windows, same_intervals};
use crate::sampling::{Method, are_sampled_alike, method_of};
use ambulator_simulator::{CoreResult, RunResult, weighted_speedup};

/// A core on both designs, and its share of the weighted speed-up.
struct Pair<'r> {
    number: usize,
    base: &'r CoreResult,
    run: &'r CoreResult,
    share: f64,
}

impl SpeedUp {
    /// The weighted speed-up of `run` over `base`: the mean over the cores of the ratio of their instructions per
    /// cycle. Its interval is over what that of the speed-up is over ([`SpeedUp::of`]): windows of the same
    /// instructions of each core, measured intervals of phases, or seeds. Where both were sampled differently, it
    /// is as wide as if all cores were off together. `None` without time.
    pub fn weighted(base: &RunResult, run: &RunResult) -> Option<SpeedUp> {
        if base.cores.len() < 2 {
            return SpeedUp::of(base, run);
        }
        let ratio = |base: &RunResult, run: &RunResult| weighted_speedup(&base.cores, &run.cores);
        SpeedUp::with_interval(base, run, ratio, || {
            let pairs = pairs(base, run);
            let common = match method_of(run) {
                _ if !are_sampled_alike(base, run) => None,
                Some(Method::Phases) => over_intervals(base, run, &pairs),
                _ => over_windows(&pairs, least_windows(run)),
            };
            common.or_else(|| over_each(base, run, &pairs))
        })
    }
}

/// The cores that have run on the base.
fn pairs<'r>(base: &'r RunResult, run: &'r RunResult) -> Vec<Pair<'r>> {
    let both = base.cores.iter().zip(&run.cores).enumerate().filter(|(_, (base, _))| base.ipc > 0.0);
    let pair = |(number, (base, run)): (usize, (&'r CoreResult, &'r CoreResult))| Pair {
        number,
        base,
        run,
        share: run.ipc / base.ipc,
    };
    let mut pairs: Vec<Pair<'r>> = both.map(pair).collect();
    let count = pairs.len() as f64;
    pairs.iter_mut().for_each(|pair| pair.share /= count);
    pairs
}

/// The sum over the cores of what each `of` has in each part of the region.
fn sum_of(pairs: &[Pair<'_>], of: impl Fn(&Pair<'_>) -> Vec<f64>) -> Vec<f64> {
    pairs
        .iter()
        .map(of)
        .reduce(|sum, own| sum.iter().zip(&own).map(|(sum, own)| sum + own).collect())
        .unwrap_or_default()
}

/// Shares of a sum.
fn shares(values: impl Iterator<Item = f64> + Clone) -> impl Iterator<Item = f64> {
    let sum: f64 = values.clone().sum();
    values.map(move |value| if sum == 0.0 { 0.0 } else { value / sum })
}

/// How far each window of the same instructions moves the weighted speed-up (the ratio estimator's residuals).
fn over_windows(pairs: &[Pair<'_>], least: usize) -> Option<(f64, Over)> {
    let off = sum_of(pairs, |Pair { base, run, share, .. }| {
        let cycles = paired_windows(&base.windows, &run.windows);
        let (of_base, of_run) = (shares(cycles.iter().map(|of| of.0)), shares(cycles.iter().map(|of| of.1)));
        of_base.zip(of_run).map(|(base, run)| share * (base - run)).collect()
    });
    (off.len() >= least).then(|| (half_of_sum(&off), Over::Windows(off.len())))
}

/// How far each measured interval of the same phases moves it. A core need not run as many instructions in an
/// interval on both designs.
fn over_intervals(base: &RunResult, run: &RunResult, pairs: &[Pair<'_>]) -> Option<(f64, Over)> {
    let (sampled, _) = same_intervals(base, run)?;
    let speed = |core: &CoreResult| -> Vec<f64> {
        let weights = || sampled.intervals.iter().map(|interval| interval.weight as f64);
        // In shares of the region: a unit of each interval, not of as many as it stands for.
        let sums =
            core.intervals.iter().zip(weights()).map(|(of, weight)| (of.0 as f64 * weight, of.1 as f64 * weight));
        let (instructions, cycles) = (shares(sums.clone().map(|of| of.0)), shares(sums.map(|of| of.1)));
        instructions.zip(cycles).zip(weights()).map(|((own, cycles), weight)| (own - cycles) / weight).collect()
    };
    let off = sum_of(pairs, |Pair { base, run, share, .. }| {
        speed(run).iter().zip(speed(base)).map(|(run, base)| share * (run - base)).collect()
    });
    (off.len() == sampled.intervals.len()).then(|| (half_of_strata(sampled, &off), Over::Intervals(off.len())))
}

/// From the intervals of each core's own speed.
fn over_each(base: &RunResult, run: &RunResult, pairs: &[Pair<'_>]) -> Option<(f64, Over)> {
    let relative = |of: &RunResult, pair: &Pair<'_>, ipc: f64| match &of.sampled {
        Some(sampled) => sampled.half.get(&format!("cores.{}.ipc", pair.number)).map(|half| half / ipc),
        None => Some(0.0),
    };
    let half = |pair: &Pair<'_>| {
        Some(pair.share * relative(base, pair, pair.base.ipc)?.hypot(relative(run, pair, pair.run.ipc)?))
    };
    let is_sampled = base.sampled.is_some() || run.sampled.is_some();
    let halves = pairs.iter().map(half).sum::<Option<f64>>().filter(|half| is_sampled && half.is_finite());
    halves.map(|half| (half, Over::Each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::{MeasuredInterval, Sampled};
    use serde_json::json;

    /// Cycles of a window on the base, and on a design that is faster by a factor that differs from window to window.
    fn cycles(seed: u64, count: usize) -> (Vec<u64>, Vec<u64>) {
        let mut random = ambulator_base::Random::new(seed);
        let base: Vec<u64> = (0..count).map(|_| 3000 + random.below(6000)).collect();
        let run = base.iter().map(|cycles| cycles / 2 + random.below(300)).collect();
        (base, run)
    }

    fn points(cycles: &[u64]) -> Vec<(u64, u64)> {
        let sum = |at: usize| cycles[..=at].iter().sum();
        (0..cycles.len()).map(|at| (1000 * (at as u64 + 1), sum(at))).collect()
    }

    fn ipc(points: &[(u64, u64)]) -> f64 {
        points.last().map_or(0.0, |(instructions, cycles)| *instructions as f64 / *cycles as f64)
    }

    /// A run whose cores took so long for each window; all cores together are as the first.
    fn run(cores: &[&[u64]]) -> RunResult {
        let core = |cycles: &&[u64]| {
            let windows = points(cycles);
            CoreResult { ipc: ipc(&windows), windows, ..CoreResult::default() }
        };
        let windows = points(cores[0]);
        RunResult { ipc: ipc(&windows), windows, cores: cores.iter().map(core).collect(), ..RunResult::default() }
    }

    fn near(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-9
    }

    #[test]
    fn equal_cores_have_the_interval_of_the_speed_up() {
        let (base, faster) = cycles(1, 20);
        let (base, faster) = (run(&[&base, &base]), run(&[&faster, &faster]));
        let (one, weighted) = (SpeedUp::of(&base, &faster).unwrap(), SpeedUp::weighted(&base, &faster).unwrap());
        assert!(
            near(one.ratio, weighted.ratio) && near(one.half.unwrap(), weighted.half.unwrap()),
            "{one:?} {weighted:?}"
        );
        assert!(weighted.half.unwrap() > 0.001 && weighted.over == Some(Over::Windows(20)), "{weighted:?}");
    }

    #[test]
    fn a_core_counts_by_its_share_and_what_both_designs_share_cancels_out() {
        let (base, faster) = cycles(1, 20);
        let (other, _) = cycles(2, 20);
        // The second core is as fast on both designs in each window.
        let both = SpeedUp::weighted(&run(&[&base, &other]), &run(&[&faster, &other])).unwrap();
        let one = SpeedUp::of(&run(&[&base]), &run(&[&faster])).unwrap();
        assert!(near(both.ratio, f64::midpoint(one.ratio, 1.0)) && near(both.half.unwrap(), one.half.unwrap() / 2.0));
        // Independent cores: halves add up as squares, which the windows show only roughly.
        let (second, second_faster) = cycles(3, 20);
        let two = SpeedUp::weighted(&run(&[&base, &second]), &run(&[&faster, &second_faster])).unwrap().half.unwrap();
        let alone = SpeedUp::of(&run(&[&second]), &run(&[&second_faster])).unwrap().half.unwrap();
        let expected = one.half.unwrap().hypot(alone) / 2.0;
        assert!((0.7..1.4).contains(&(two / expected)), "{two} and {expected}");
    }

    #[test]
    fn phases_have_the_interval_of_their_strata() {
        let (base, faster) = cycles(1, 20);
        let of = |cycles: &[u64]| {
            let mut run = run(&[cycles, cycles]);
            let interval = |(at, cycles): (usize, &u64)| MeasuredInterval {
                interval: at as u64 * 5,
                phase: u64::from(at >= 12),
                weight: if at >= 12 { 3 } else { 8 },
                instructions: 1000,
                cycles: *cycles,
            };
            let intervals: Vec<MeasuredInterval> = cycles.iter().enumerate().map(interval).collect();
            let weighted = |value: fn(&MeasuredInterval) -> u64| -> u64 {
                intervals.iter().map(|interval| interval.weight * value(interval)).sum()
            };
            run.ipc = weighted(|of| of.instructions) as f64 / weighted(|of| of.cycles) as f64;
            for core in &mut run.cores {
                core.ipc = run.ipc;
                core.intervals = cycles.iter().map(|cycles| (1000, *cycles)).collect();
            }
            run.sampled = Some(Sampled { intervals, ..Sampled::default() });
            run
        };
        let (base, faster) = (of(&base), of(&faster));
        let (one, weighted) = (SpeedUp::of(&base, &faster).unwrap(), SpeedUp::weighted(&base, &faster).unwrap());
        assert!(near(one.half.unwrap(), weighted.half.unwrap()), "{one:?} {weighted:?}");
        assert_eq!(weighted.over, Some(Over::Intervals(20)));
    }

    #[test]
    fn what_was_sampled_differently_has_the_intervals_of_both() {
        let (base, faster) = cycles(1, 20);
        let sampled = |mut run: RunResult, period: u64, half: f64| {
            let halves = (0..2).map(|core| (format!("cores.{core}.ipc"), half * run.ipc)).collect();
            run.sampled = Some(Sampled { half: halves, ..Sampled::default() });
            run.spec = json!({"run": {"sampling": "windows", "sample_period": period}});
            run
        };
        let (base, faster) = (sampled(run(&[&base, &base]), 1, 0.03), sampled(run(&[&faster, &faster]), 2, 0.04));
        let weighted = SpeedUp::weighted(&base, &faster).unwrap();
        assert!(
            near(weighted.half.unwrap(), 0.05 * weighted.ratio) && weighted.over == Some(Over::Each),
            "{weighted:?}"
        );
        let few = run(&[&[1000; 5], &[1000; 5]]);
        assert_eq!(SpeedUp::weighted(&few, &few).unwrap().half, None);
        assert!(SpeedUp::weighted(&RunResult::default(), &few).is_none());
    }
}
