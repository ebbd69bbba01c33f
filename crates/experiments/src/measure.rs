//! The value of a figure's number: from runs, by program and over programs, with intervals where runs are
//! sampled.

use crate::figure::{Metric, MetricKind, Published};
use crate::interval::SpeedUp;
use crate::reproduce::MetricResult;
use ambulator_simulator::RunResult;

/// `None` for a share of nothing.
fn value_of(metric: &Metric, run: &RunResult) -> Option<f64> {
    let sum =
        |names: &[String]| names.iter().map(|name| run.counters.get(name).copied().unwrap_or(0) as f64).sum::<f64>();
    let raw = match metric.measure.as_deref() {
        Some("ipc") => run.ipc,
        Some(name) => run.measure(name),
        None if metric.under.is_empty() => sum(&metric.over),
        None => {
            let under = Some(sum(&metric.under)).filter(|under| *under != 0.0)?;
            sum(&metric.over) / under
        }
    };
    Some(raw * metric.scale)
}

/// Page-walk overhead by RMM's Table 6: `T_ideal = T_2M - C_2M`, `AvgC_4K = C_4K / M_4K`, `Over = M * AvgC_4K
/// / T_ideal`; for the measured designs, `C / T_ideal`. `None` if the ideal time is 0.
fn walk_model(run: &RunResult, base: &RunResult, huge: &RunResult) -> Option<f64> {
    let of = |run: &RunResult, name: &str| run.counters.get(name).copied().unwrap_or(0) as f64;
    let (cycles, walks) = ("mmu.walk_cycles", "mmu.walks");
    let without_walks = huge.cycles as f64 - of(huge, cycles);
    if without_walks <= 0.0 {
        return None;
    }
    let spent = if run.design == base.design || run.design == huge.design {
        of(run, cycles)
    } else {
        of(run, walks) * of(base, cycles) / of(base, walks).max(1.0)
    };
    Some(spent / without_walks)
}

/// Half of the 95% interval of [`value_of`], without its factor; `None` if the run is not sampled, or too
/// short for one. What is no sum or ratio over the region, such as the bytes of page tables, is known.
fn half_of(metric: &Metric, run: &RunResult) -> Option<f64> {
    let half = &run.sampled.as_ref().filter(|sampled| !sampled.half.is_empty())?.half;
    let of = |name: &str| half.get(name).copied().unwrap_or(0.0);
    let relative = |names: &[String]| {
        let sum = |value: &dyn Fn(&String) -> f64| names.iter().map(value).sum::<f64>();
        let all = sum(&|name| run.counters.get(name).copied().unwrap_or(0) as f64);
        if all == 0.0 { 0.0 } else { sum(&|name| of(name).powi(2)).sqrt() / all }
    };
    Some(match metric.measure.as_deref() {
        Some("ipc") => of("ipc"),
        Some(name) => of(&format!("measures.{name}")),
        None => value_of(metric, run)? / metric.scale * relative(&metric.over).hypot(relative(&metric.under)),
    })
}

/// Half of the 95% interval of a ratio of two runs, as a share of it. Speeds are compared interval by
/// interval; of other numbers the errors of both add up.
fn half_of_ratio(metric: &Metric, run: &RunResult, base: &RunResult) -> Option<f64> {
    if metric.measure.as_deref() == Some("ipc") || metric.kind == MetricKind::Overhead {
        run.sampled.as_ref()?;
        let speed_up = SpeedUp::of(base, run)?;
        return Some(speed_up.half? / speed_up.ratio);
    }
    let share = |of: &RunResult| {
        let value = value_of(metric, of)? / metric.scale;
        Some(if value == 0.0 { 0.0 } else { half_of(metric, of)? / value })
    };
    Some(share(run)?.hypot(share(base)?))
}

/// Half of the 95% interval of [`walk_model`], as a share of it.
fn half_of_walk_model(run: &RunResult, base: &RunResult, huge: &RunResult) -> Option<f64> {
    let half = |run: &RunResult, name: &str| Some(run.sampled.as_ref()?.half.get(name).copied().unwrap_or(0.0));
    let share = |run: &RunResult, name: &str| {
        Some(half(run, name)? / run.counters.get(name).copied().unwrap_or(0).max(1) as f64)
    };
    let walk_cycles = half(huge, "mmu.walk_cycles")?;
    let cycles = huge.cycles as f64 * half(huge, "ipc")? / huge.ipc;
    let without_walks = huge.cycles as f64 - huge.counters.get("mmu.walk_cycles").copied().unwrap_or(0) as f64;
    let of_rest = cycles.hypot(walk_cycles) / without_walks;
    let own = if run.design == base.design || run.design == huge.design {
        share(run, "mmu.walk_cycles")?
    } else {
        let of_walk = share(base, "mmu.walk_cycles")?.hypot(share(base, "mmu.walks")?);
        share(run, "mmu.walks")?.hypot(of_walk)
    };
    Some(own.hypot(of_rest))
}

/// A number over programs, with half of its interval if all programs have one: the mean, or minimum and maximum.
pub(crate) fn over_programs(metric: &Metric, values: &[f64], program_half: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = values.len() as f64;
    let root = |squares: f64| squares.sqrt() / n;
    match metric.kind {
        _ if values.is_empty() => (Vec::new(), Vec::new()),
        MetricKind::Mean | MetricKind::Overhead | MetricKind::WalkModel => {
            (vec![values.iter().sum::<f64>() / n], vec![root(program_half.iter().map(|half| half * half).sum())])
        }
        MetricKind::GeomeanRatio => {
            // One ratio of nothing would make the mean nothing, whatever the others are.
            let counted = |value: &f64| value / metric.scale > 0.0;
            let n = values.iter().filter(|value| counted(value)).count() as f64;
            let logs = values.iter().filter(|value| counted(value)).map(|v| (v / metric.scale).ln()).sum::<f64>();
            let mean = if n == 0.0 { 0.0 } else { (logs / n).exp() * metric.scale };
            let shares = values.iter().zip(program_half).filter(|(value, _)| counted(value));
            let squares = shares.map(|(value, half)| (half / value).powi(2)).sum::<f64>();
            (vec![mean], vec![if n == 0.0 { 0.0 } else { mean.abs() * squares.sqrt() / n }])
        }
        MetricKind::Range => {
            let end = |wanted: fn(&f64, &f64) -> bool| {
                (1..values.len()).fold(0, |best, at| if wanted(&values[at], &values[best]) { at } else { best })
            };
            let ends = [end(|a, b| a < b), end(|a, b| a > b)];
            let halves = ends.iter().filter_map(|at| program_half.get(*at).copied());
            (ends.map(|at| values[at]).to_vec(), halves.collect())
        }
    }
}

/// A number of a figure.
pub(crate) fn measure(metric: &Metric, runs: &[(String, RunResult)]) -> MetricResult {
    let wanted = |label: &str| metric.programs.is_empty() || metric.programs.iter().any(|p| p == label);
    let of =
        |design: &str, label: &str| runs.iter().find(|(l, run)| l == label && run.design == design).map(|(_, run)| run);
    let (mut by_program, mut halves) = (Vec::new(), Vec::new());
    for (label, run) in runs.iter().filter(|(label, run)| wanted(label) && run.design == metric.design) {
        let (value, half) = match &metric.base {
            Some(base) if metric.kind == MetricKind::Overhead => {
                let Some(base) = of(base, label).filter(|base| base.cycles > 0) else { continue };
                let ratio = run.cycles as f64 / base.cycles as f64;
                let half = half_of_ratio(metric, run, base).map(|half| half * ratio * metric.scale);
                (metric.scale * (ratio - 1.0), half)
            }
            Some(base) if metric.kind == MetricKind::WalkModel => {
                let huge = metric.huge.as_deref().and_then(|huge| of(huge, label));
                let (Some(base), Some(huge)) = (of(base, label), huge) else { continue };
                let Some(share) = walk_model(run, base, huge) else { continue };
                let half = half_of_walk_model(run, base, huge).map(|half| half * share * metric.scale);
                (metric.scale * share, half)
            }
            Some(base) => {
                let Some(base) = of(base, label) else { continue };
                let (Some(above), Some(below)) = (value_of(metric, run), value_of(metric, base)) else { continue };
                if below == 0.0 {
                    continue;
                }
                let ratio = above * metric.scale / below;
                (ratio, half_of_ratio(metric, run, base).map(|half| half * ratio.abs()))
            }
            None => {
                let Some(value) = value_of(metric, run) else { continue };
                (value, half_of(metric, run).map(|half| half * metric.scale.abs()))
            }
        };
        by_program.push((label.clone(), value));
        halves.push(half);
    }
    let program_half: Vec<f64> = halves.into_iter().collect::<Option<_>>().unwrap_or_default();
    let values: Vec<f64> = by_program.iter().map(|(_, value)| *value).collect();
    let (ours, half) = over_programs(metric, &values, &program_half);
    let half = if program_half.is_empty() { Vec::new() } else { half };
    MetricResult {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        published: metric.published.map(|published| match published {
            Published::Value(value) => vec![value],
            Published::Range(range) => range.to_vec(),
        }),
        ours,
        half,
        by_program,
        program_half,
        whole: None,
        marked: Vec::new(),
        unmarked: Vec::new(),
        source: metric.source.clone(),
        note: metric.note.clone(),
        reason: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::Sampled;

    fn run(design: &str, cycles: u64, walks: u64, walk_cycles: u64) -> RunResult {
        let counters = [("mmu.walks".to_owned(), walks), ("mmu.walk_cycles".to_owned(), walk_cycles)].into();
        RunResult { design: design.into(), cycles, counters, ..RunResult::default() }
    }

    #[test]
    fn the_walk_model_matches_rmms_table_6() {
        let (base, huge) = (run("radix", 2000, 10, 700), run("thp", 1500, 4, 300));
        // The ideal time is 1200; a walk of 4 KiB pages takes 70.
        assert_eq!(walk_model(&base, &base, &huge), Some(700.0 / 1200.0));
        assert_eq!(walk_model(&huge, &base, &huge), Some(300.0 / 1200.0));
        assert_eq!(walk_model(&run("rmm", 1, 2, 5), &base, &huge), Some(140.0 / 1200.0));
        assert_eq!(walk_model(&base, &base, &run("thp", 300, 4, 300)), None);
        let metric: Metric = toml::from_str(
            "name = 'x'\nkind = 'overhead'\ndesign = 'radix'\nbase = 'thp'\nscale = 100\nunit = '%'\nsource = 'x'",
        )
        .unwrap();
        let runs = vec![("a".to_owned(), base), ("a".to_owned(), huge)];
        assert_eq!(measure(&metric, &runs).ours, vec![100.0 * (2000.0 / 1500.0 - 1.0)]);
    }

    #[test]
    fn sampled_runs_give_numbers_with_intervals() {
        let metric = |text: &str| -> Metric {
            toml::from_str(&format!("name = 'x'\nunit = 'x'\nsource = 'x'\ndesign = 'radix'\n{text}")).unwrap()
        };
        let sampled = |of: RunResult, cycles: f64, walks: f64| {
            let half = [("mmu.walk_cycles".to_owned(), cycles), ("mmu.walks".to_owned(), walks)].into();
            let measures = [("l2_tlb_mpki".to_owned(), 8.0)].into();
            RunResult { sampled: Some(Sampled { half, ..Sampled::default() }), measures, ..of }
        };
        let of = |label: &str, cycles: f64, walks: f64| {
            vec![
                (label.to_owned(), sampled(run("radix", 2000, 10, 700), cycles, walks)),
                (label.to_owned(), sampled(run("thp", 1500, 5, 350), 0.0, 0.0)),
            ]
        };
        let near = |one: &[f64], other: &[f64]| {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-9)
        };
        let runs = [of("a", 70.0, 0.0), of("b", 0.0, 2.0)].concat();
        // 70 cycles for each walk, which is wrong by a tenth for a, and by a fifth for b.
        let mean = measure(&metric("kind = 'mean'\nover = ['mmu.walk_cycles']\nunder = ['mmu.walks']"), &runs);
        assert!(near(&mean.program_half, &[7.0, 14.0]) && near(&mean.half, &[7.0f64.hypot(14.0) / 2.0]), "{mean:?}");
        let none = |over: &str| format!("kind = 'mean'\nover = ['{over}']\nunder = ['mmu.speculation.data_fetches']");
        assert!(measure(&metric(&none("mmu.walks")), &runs).by_program.is_empty(), "a share of nothing");
        let ratio = "kind = 'geomean-ratio'\nbase = 'thp'\nover = ['mmu.walk_cycles']\nscale = 100";
        let ratio = measure(&metric(ratio), &runs);
        assert!(near(&ratio.ours, &[200.0]) && near(&ratio.half, &[10.0]), "{ratio:?}");
        let mut walkless = of("c", 0.0, 0.0);
        walkless[0].1.counters.insert("mmu.walk_cycles".to_owned(), 0);
        let text = "kind = 'geomean-ratio'\nbase = 'thp'\nover = ['mmu.walk_cycles']";
        let ratio = measure(&metric(text), &[runs.clone(), walkless.clone()].concat());
        assert!(near(&ratio.ours, &[2.0]) && ratio.by_program.len() == 3, "a ratio of 0 is not in the mean: {ratio:?}");
        let ratio = measure(&metric(text), &walkless);
        assert!(near(&ratio.ours, &[0.0]) && near(&ratio.half, &[0.0]), "nothing but zeros: {ratio:?}");
        let range = measure(&metric("kind = 'range'\nover = ['mmu.walk_cycles']\nscale = 2"), &runs);
        assert!(near(&range.ours, &[1400.0, 1400.0]) && near(&range.half, &[140.0, 140.0]), "{range:?}");
        let known = measure(&metric("kind = 'mean'\nmeasure = 'l2_tlb_mpki'"), &runs);
        assert!(near(&known.half, &[0.0]), "{known:?}");
        let mut one = runs;
        one[0].1.sampled = None;
        assert!(measure(&metric("kind = 'mean'\nmeasure = 'l2_tlb_mpki'"), &one).half.is_empty());
    }
}
