//! The intervals of sampled regions.

use crate::estimate::{Sample, Samples};
use crate::measured::{Measured, OfCore};
use crate::sampling::Sampler;
use crate::spec::{RunSpec, Sampling, Spec};
use ambulator_base::{Histogram, Random, student_t};
use std::collections::BTreeMap;

fn sampler() -> Sampler {
    Sampler::new(&RunSpec { sampling: Sampling::Windows, ..RunSpec::default() }).unwrap()
}

/// A window with that many instructions, cycles and L2 TLB misses.
fn window(instructions: u64, cycles: u64, misses: u64) -> (Measured, BTreeMap<String, u64>) {
    let mut measured =
        Measured { cycles, cores: vec![OfCore { instructions, cycles, ..OfCore::default() }], ..Measured::default() };
    measured.totals.run.instructions = instructions;
    measured.totals.mmu.l2_tlb_misses = misses;
    (measured, BTreeMap::from([("mmu.l2_tlb_misses".to_owned(), misses)]))
}

#[test]
fn equal_windows_have_no_spread_and_few_have_no_interval() {
    let mut sampler = sampler();
    for windows in 1..=40 {
        let (measured, counts) = window(1000, 4000, 70);
        sampler.add_window(measured, counts);
        let half = sampler.halves(&Spec::default());
        assert_eq!(half.is_empty(), windows < 8, "{windows} windows");
        assert!(half.values().all(|half| half.abs() < 1e-6), "{windows}: {half:?}");
    }
    assert_eq!(sampler.measured().cycles, 160_000);
}

#[test]
fn the_interval_of_a_ratio_is_that_of_the_textbook() {
    // As many windows as groups: the jackknife is then near the linearised variance of a ratio (Cochran,
    // Sampling Techniques, Sec. 6.3).
    let (mut sampler, mut random, mut windows) = (sampler(), Random::new(3), Vec::new());
    for _ in 0..30 {
        let (instructions, misses) = (1000 + random.below(50), 40 + random.below(60));
        let cycles = 20 * misses + random.below(800);
        windows.push((instructions as f64, cycles as f64, misses as f64));
        let (measured, counts) = window(instructions, cycles, misses);
        sampler.add_window(measured, counts);
    }
    let half = sampler.halves(&Spec::default());
    let textbook = |a: fn(&(f64, f64, f64)) -> f64, b: fn(&(f64, f64, f64)) -> f64| {
        let n = windows.len() as f64;
        let (sum_a, sum_b): (f64, f64) = (windows.iter().map(a).sum(), windows.iter().map(b).sum());
        let squares: f64 = windows.iter().map(|of| (a(of) - sum_a / sum_b * b(of)).powi(2)).sum();
        student_t(n - 1.0) * (squares / (n * (n - 1.0))).sqrt() / (sum_b / n)
    };
    for (name, expected) in [
        ("ipc", textbook(|of| of.0, |of| of.1)),
        ("measures.l2_tlb_mpki", 1000.0 * textbook(|of| of.2, |of| of.0)),
        ("mmu.l2_tlb_misses", windows.iter().map(|of| of.0).sum::<f64>() * textbook(|of| of.2, |of| of.0)),
    ] {
        let half = half[name];
        assert!(half > 0.0 && (half / expected - 1.0).abs() < 0.03, "{name}: {half} and {expected}");
    }
}

#[test]
fn strata_have_the_estimate_and_the_interval_of_the_textbook() {
    // Two phases that differ much, and little within: of 200 intervals 12 are measured, of 60 another 9.
    let mut random = Random::new(5);
    let sizes = [200u64, 60];
    let mut samples = Samples::of_phases(&sizes);
    let mut measured: [Vec<(f64, f64)>; 2] = Default::default();
    for (phase, count, cycles) in [(0, 12, 1500), (1, 9, 9000)] {
        for number in 0..count {
            let own = (1000 + random.below(20), cycles + random.below(900), 3 + random.below(10));
            let (sample, counts) = window(own.0, own.1, own.2);
            // Each stands for its stretch: whole numbers that add up to the size.
            let (from, to) = (number * sizes[phase] / count, (number + 1) * sizes[phase] / count);
            samples.add(&Sample { measured: sample, counts }, phase, to - from);
            measured[phase].push((own.0 as f64, own.1 as f64));
        }
    }
    let sum = &samples.sum().measured;
    let mean = |of: &[(f64, f64)], value: fn(&(f64, f64)) -> f64| of.iter().map(value).sum::<f64>() / of.len() as f64;
    let total = |value: fn(&(f64, f64)) -> f64| -> f64 {
        measured.iter().zip(sizes).map(|(of, size)| size as f64 * mean(of, value)).sum()
    };
    let (instructions, cycles) = (total(|of| of.0), total(|of| of.1));
    assert!((sum.totals.run.instructions as f64 / instructions - 1.0).abs() < 0.002);
    assert!((sum.cycles as f64 / cycles - 1.0).abs() < 0.01, "{} and {cycles}", sum.cycles);
    // The combined ratio estimator (Cochran, Sec. 6.11), with the share of each phase that was measured.
    let cpi = cycles / instructions;
    let variance = |of: &[(f64, f64)], size: f64| {
        let n = of.len() as f64;
        let off: Vec<f64> = of.iter().map(|(x, y)| y - cpi * x).collect();
        let mean = off.iter().sum::<f64>() / n;
        let squares: f64 = off.iter().map(|value| (value - mean).powi(2)).sum();
        size * size * (1.0 - n / size) / n * squares / (n - 1.0)
    };
    let all: f64 = measured.iter().zip(sizes).map(|(of, size)| variance(of, size as f64)).sum();
    let textbook = student_t(19.0) * all.sqrt() / instructions;
    let half = samples.halves(&Spec::default());
    let ipc = half["ipc"] / sum.ipc().powi(2);
    assert!((ipc / textbook - 1.0).abs() < 0.06, "{ipc} and {textbook}");
    // The same samples without strata have an interval that is many times as wide.
    let mut one = Samples::of_windows();
    for (x, y) in measured.iter().flatten() {
        let (sample, counts) = window(*x as u64, *y as u64, 1);
        one.add(&Sample { measured: sample, counts }, 0, 1);
    }
    assert!(one.halves(&Spec::default())["ipc"] / one.sum().measured.ipc().powi(2) > 5.0 * ipc);
}

#[test]
fn what_was_measured_whole_has_no_interval_left() {
    let mut samples = Samples::of_phases(&[9, 1]);
    for number in 0..10 {
        let (measured, counts) = window(1000, 2000 + 100 * number, number);
        samples.add(&Sample { measured, counts }, usize::from(number == 9), 1);
    }
    let half = samples.halves(&Spec::default());
    assert!(half["ipc"] == 0.0 && half["mmu.l2_tlb_misses"] == 0.0, "{half:?}");
    assert_eq!(samples.sum().measured.cycles, 24_500);
}

#[test]
fn each_core_has_the_interval_of_a_core_alone() {
    // One core is the other's window, a window later: their speeds are the same, their intervals too.
    let (mut sampler, mut random) = (sampler(), Random::new(8));
    let cycles: Vec<u64> = (0..30).map(|_| 3000 + random.below(2000)).collect();
    for at in 0..cycles.len() {
        let of = |cycles: u64| OfCore { instructions: 1000, cycles, ..OfCore::default() };
        let (mut measured, counts) = window(2000, cycles[at].max(cycles[(at + 1) % 30]), 5);
        measured.cores = vec![of(cycles[at]), of(cycles[(at + 1) % 30])];
        sampler.add_window(measured, counts);
    }
    let half = sampler.halves(&Spec::default());
    let n = cycles.len() as f64;
    let mean = cycles.iter().sum::<u64>() as f64 / n;
    let squares: f64 = cycles.iter().map(|of| (*of as f64 - mean).powi(2)).sum();
    let of_cycles = student_t(n - 1.0) * (squares / (n * (n - 1.0))).sqrt();
    for core in 0..2 {
        let ipc = half[&format!("cores.{core}.ipc")];
        let expected = of_cycles * 1000.0 / mean.powi(2);
        assert!((ipc / expected - 1.0).abs() < 0.03, "core {core}: {ipc} and {expected}");
        assert!((half[&format!("cores.{core}.cycles")] / (n * of_cycles) - 1.0).abs() < 0.03, "{half:?}");
        assert!(half[&format!("cores.{core}.instructions")] < 1e-6, "all windows have as many");
    }
    assert!(half["ipc"] < half["cores.0.ipc"] * 2.0 && half["cycles"] > 0.0, "{half:?}");
}

#[test]
fn the_interval_of_a_percentile_has_the_true_one() {
    // Latencies of a window lie around a level of its own, as walks of one part of a program do.
    let mut random = Random::new(11);
    let mut latency = |level: u64| 20 + level * (1 + random.below(40)) / 10;
    let mut levels = Random::new(12);
    let mut of_window = || {
        let level = 20 + levels.below(30);
        (0..20).map(|_| latency(level)).collect::<Vec<u64>>()
    };
    let histogram = |all: &[Vec<u64>]| {
        let mut histogram = Histogram::default();
        all.iter().flatten().for_each(|of| histogram.add(*of));
        histogram
    };
    let truth = histogram(&(0..20_000).map(|_| of_window()).collect::<Vec<_>>());
    let (mut within, mut halves) = ([0u32; 3], [0.0; 3]);
    for _ in 0..100 {
        let mut sampler = sampler();
        for _ in 0..200 {
            let (mut measured, counts) = window(1000, 4000, 7);
            measured.walk_latency = histogram(&[of_window()]);
            sampler.add_window(measured, counts);
        }
        let half = sampler.halves(&Spec::default());
        for (at, (name, share)) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)].into_iter().enumerate() {
            let (own, of_truth) = (sampler.measured().walk_latency.percentile(share), truth.percentile(share));
            let half = half[&format!("walk_latency.{name}")];
            halves[at] += half / 100.0 / of_truth as f64;
            within[at] += u32::from((own as f64 - of_truth as f64).abs() <= half);
        }
    }
    // A bucket is 6% wide, so that most miss nothing or a bucket; what is wide enough for 95% is not much wider.
    assert!(within.iter().all(|within| *within >= 92), "of 100: {within:?}");
    assert!(halves.iter().all(|half| *half < 0.13), "means of the halves, as shares: {halves:?}");
}
