//! The intervals of sampled regions.

use crate::measured::{Measured, OfCore};
use crate::sampling::Sampler;
use crate::spec::{RunSpec, Sampling, Spec};
use ambulator_base::{Random, student_t};
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
