//! The verdict that opens a comparison: what translation costs at most, which design is best and by how much,
//! and why.

use crate::interval::{Over, SpeedUp};
use crate::stack::{CycleStack, Family, is_mix};
use ambulator_simulator::{RunResult, Status};

/// A design of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its run.
    pub run: &'a RunResult,
    /// The run of its bound: a perfect TLB under the same paging policy. Designs of one policy share one.
    pub bound: Option<&'a RunResult>,
    /// It cannot be built: it is a bound itself.
    pub idealised: bool,
}

/// The verdict of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// In this order: the bound, the best design, the reason.
    pub sentences: Vec<String>,
    /// The design whose reason they give by its cycle stack.
    pub told: Option<String>,
}

impl Verdict {
    /// The verdict on `candidates`, of which the first is the baseline. Empty without time, or if the
    /// baseline has not run to its end.
    pub fn of(candidates: &[Candidate<'_>]) -> Verdict {
        let done = |one: &&Candidate<'_>| one.run.status == Status::Done && one.run.ipc > 0.0;
        let Some(base) = candidates.first().filter(done) else { return Verdict::default() };
        let mut verdict = Verdict::default();
        verdict.sentences.extend(cost(base));
        let others: Vec<&Candidate<'_>> = candidates[1..].iter().filter(done).collect();
        verdict.sentences.extend(cost_under_other_paging(base, &others));
        let weighted = weighted(base, &others);
        let buildable: Vec<&Candidate<'_>> = others.into_iter().filter(|one| !one.idealised).collect();
        if !buildable.is_empty() {
            verdict.judge(base, &buildable);
        }
        verdict.sentences.extend(weighted);
        verdict
    }

    /// Names the best design.
    fn judge(&mut self, base: &Candidate<'_>, others: &[&Candidate<'_>]) {
        let mut rated: Vec<(SpeedUp, &Candidate<'_>)> =
            others.iter().filter_map(|one| Some((SpeedUp::of(base.run, one.run)?, *one))).collect();
        rated.sort_by(|a, b| b.0.ratio.total_cmp(&a.0.ratio));
        let name = &base.run.design;
        let best_is = if is_mix(base.run) { "Best in the time until the last core ends" } else { "Best" };
        if let [(of, fastest), ..] = &rated[..]
            && of.half.is_none()
        {
            let fastest = match of.ratio > 1.0 {
                true => format!("{} was the fastest, {:.3} times as fast as {name}", fastest.run.design, of.ratio),
                false => format!("{name} was the fastest"),
            };
            self.sentences.push(format!("{best_is}: not known. The region is too short for an interval: {fastest}."));
            return;
        }
        let Some((speed_up, best)) = rated.iter().find(|(of, _)| of.differs() && of.ratio > 1.0) else {
            let worse = rated.iter().all(|(speed_up, _)| speed_up.differs());
            self.sentences.push(match others {
                [other] if worse => format!("{best_is}: {name}. {} is slower.", other.run.design),
                _ if worse => format!("{best_is}: {name}. Every other design that can be built is slower."),
                _ => format!("{best_is}: none. No design is faster than {name} beyond the 95% interval."),
            });
            return;
        };
        let how = match speed_up.interval().zip(speed_up.over) {
            Some((interval, over @ (Over::Windows(_) | Over::Intervals(_)))) => {
                format!("95% interval {interval}, over {over} of the region")
            }
            Some((interval, over)) => format!("95% interval {interval}, over {over}"),
            None => "without an interval".into(),
        };
        let mut text =
            format!("{best_is}: {}, {:.3} times as fast as {name} ({how}).", best.run.design, speed_up.ratio);
        // Intervals of speed-ups over the baseline may meet although one of two designs is always faster.
        let tie = |other: &Candidate<'_>| {
            let over = SpeedUp::of(other.run, best.run).filter(|over| !over.differs())?;
            let name = &other.run.design;
            // Far apart, and so noisy that nothing follows from it.
            match over.interval().filter(|_| (over.ratio - 1.0).abs() > FAR) {
                Some(interval) => {
                    Some(format!("{name} ({:.3} times as fast as it, 95% interval {interval})", over.ratio))
                }
                None => Some(name.clone()),
            }
        };
        let ties = rated.iter().map(|(_, other)| *other).filter(|other| !std::ptr::eq(*other, *best));
        let ties: Vec<String> = ties.filter_map(tie).collect();
        if !ties.is_empty() {
            text += &format!(" Not told apart from it: {}.", ties.join(", "));
        }
        self.sentences.push(text);
        self.sentences.extend(share_of_paging(base, best, speed_up));
        if let Some(change) = CycleStack::change(base.run, best.run) {
            self.sentences.push(format!("Why: {change}."));
            self.told = Some(best.run.design.clone());
        }
    }
}

/// The ratio of two designs that are not told apart, less 1, from which on its interval is said.
const FAR: f64 = 0.05;

/// Speed-ups of a mix in which each program counts the same, the best first. All others are of the time until the last
/// core ends.
fn weighted(base: &Candidate<'_>, others: &[&Candidate<'_>]) -> Option<String> {
    if !is_mix(base.run) || others.is_empty() {
        return None;
    }
    let half = |other: &Candidate<'_>| SpeedUp::weighted(base.run, other.run).and_then(|of| of.half);
    let mut rated: Vec<(Option<f64>, &Candidate<'_>)> = others.iter().map(|other| (half(other), *other)).collect();
    rated.sort_by(|(_, a), (_, b)| b.run.weighted_speedup.total_cmp(&a.run.weighted_speedup));
    let one = |(half, other): &(Option<f64>, &Candidate<'_>)| {
        let half = half.map_or(String::new(), |half| format!(" ± {half:.3}"));
        format!("{} {:.3}{half}", other.run.design, other.run.weighted_speedup)
    };
    let all: Vec<String> = rated.iter().map(one).collect();
    let is_faster = |(half, other): &&(Option<f64>, &Candidate<'_>)| {
        !other.idealised && half.is_some_and(|half| other.run.weighted_speedup - half > 1.0)
    };
    let best = match rated.iter().find(is_faster) {
        Some((_, best)) => format!(", {} is the best", best.run.design),
        None if rated.iter().any(|(half, _)| half.is_none()) => String::new(),
        None => format!(", no design is faster than {} beyond the 95% interval", base.run.design),
    };
    let mut last: Vec<Option<String>> = others.iter().chain([&base]).map(|of| last_core(of.run)).collect();
    last.dedup();
    let last = match &last[..] {
        [Some(one)] => one.as_str(),
        _ => "not the same core on each design",
    };
    Some(format!(
        "The speed-ups above are of the time until the last core ends ({last}). If each program of the mix counts the \
         same (weighted speed-up){best}: {}.",
        all.join(", ")
    ))
}

/// The core that ends last, with its program.
fn last_core(run: &RunResult) -> Option<String> {
    let (number, core) = run.cores.iter().enumerate().max_by_key(|(_, core)| core.cycles)?;
    Some(format!("core {number}, {}", core.program))
}

/// Whether two candidates have one bound: one paging policy.
fn same_paging(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    match (a.bound, b.bound) {
        (Some(a), Some(b)) => std::ptr::eq(a, b),
        _ => false,
    }
}

/// The speed-up of a candidate's bound over it.
fn headroom(one: &Candidate<'_>) -> Option<SpeedUp> {
    SpeedUp::of(one.run, one.bound.filter(|bound| bound.status == Status::Done)?)
}

/// The share of the time that is gone at this speed-up.
fn share_gone(speed_up: &SpeedUp) -> String {
    percent(1.0 - 1.0 / speed_up.ratio)
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 10.0 { format!("{percent:.2}%") } else { format!("{percent:.1}%") }
}

/// What translation costs under the baseline's paging.
fn cost(base: &Candidate<'_>) -> Option<String> {
    let bound = headroom(base)?;
    let (program, design, ratio) = (&base.run.program, &base.run.design, bound.ratio);
    let perfect = "with a perfect TLB and the same paging";
    if !bound.differs() {
        return Some(format!(
            "Translation costs {program} nothing that can be measured on {design}: {perfect} it is {ratio:.3} times as fast."
        ));
    }
    if ratio < 1.0 {
        return Some(format!(
            "Translation does not slow {program} on {design}: {perfect} it is {ratio:.3} times as fast, because its \
             accesses reach caches and memory in another order."
        ));
    }
    let hidden = hidden(base.run, 1.0 - 1.0 / ratio).unwrap_or_default();
    Some(format!(
        "Translation costs {program} at most {} of its time on {design}: {perfect} it is {ratio:.3} times as \
         fast ({}).{hidden}",
        share_gone(&bound),
        bound.in_words()
    ))
}

/// Where the cycle stack of `run` shows much less of translation than it costs, a share of `costs`: why.
fn hidden(run: &RunResult, costs: f64) -> Option<String> {
    let stack = CycleStack::of(run).filter(|_| !is_mix(run))?;
    let of_translation = |(words, _): &&(&str, f64)| Family::of(words) == Family::Translation;
    let shown = stack.parts.iter().filter(of_translation).map(|(_, cycles)| cycles).sum::<f64>() / stack.total();
    (shown < HIDDEN * costs).then(|| {
        format!(
            " Its cycle stack shows {}: a walk behind an older load's wait for data makes later data late, which counts as \
             data.",
            percent(shown)
        )
    })
}

/// A stack that shows less than this share of what translation costs needs an explanation.
const HIDDEN: f64 = 0.5;

/// What translation costs where the paging is another one: for the designs of each policy.
fn cost_under_other_paging(base: &Candidate<'_>, others: &[&Candidate<'_>]) -> Option<String> {
    let (mut costs, mut free) = (Vec::new(), Vec::new());
    for one in others.iter().filter(|one| !one.idealised && one.bound.is_some() && !same_paging(base, one)) {
        let Some(bound) = headroom(one) else { continue };
        if bound.differs() && bound.ratio > 1.0 {
            costs.push((bound.ratio, format!("{} on {}", share_gone(&bound), one.run.design)));
        } else {
            free.push(one.run.design.as_str());
        }
    }
    costs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let costs: Vec<String> = costs.into_iter().map(|(_, text)| text).collect();
    let costs = (!costs.is_empty()).then(|| format!("at most {}", costs.join(", ")));
    let free = (!free.is_empty()).then(|| format!("nothing that can be measured on {}", free.join(", ")));
    let parts: Vec<String> = costs.into_iter().chain(free).collect();
    (!parts.is_empty()).then(|| format!("Where paging differs, it costs {}.", parts.join(", and ")))
}

/// The part of a speed-up that a perfect TLB has too, when only the paging changes.
fn share_of_paging(base: &Candidate<'_>, best: &Candidate<'_>, speed_up: &SpeedUp) -> Option<String> {
    let paging = SpeedUp::of(base.bound?, best.bound.filter(|_| !same_paging(base, best))?)?;
    let matters = paging.differs() && (paging.ratio - 1.0).abs() > 0.1 * (speed_up.ratio - 1.0);
    matters.then(|| {
        format!(
            "A perfect TLB with its paging is {:.3} times as fast as one with {}'s: that part is not translation.",
            paging.ratio, base.run.design
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::{MeasuredInterval, Sampled};

    fn run(design: &str, cycles: u64) -> RunResult {
        let windows: Vec<(u64, u64)> = (1..=20).map(|i| (i * 1000, i * cycles + i % 2)).collect();
        RunResult {
            design: design.into(),
            program: "cc1".into(),
            simulated_instructions: 20_000,
            ipc: 1000.0 / cycles as f64,
            windows,
            ..RunResult::default()
        }
    }

    fn of<'a>(run: &'a RunResult, bound: &'a RunResult) -> Candidate<'a> {
        Candidate { run, bound: Some(bound), idealised: run.design.starts_with("perfect") }
    }

    #[test]
    fn each_design_is_bounded_under_its_own_paging() {
        // Measured: a design with fewer faults ran at 1.076, "the bound of all designs" at 1.045.
        let (small, eager) = (run("perfect-4k", 9_570), run("perfect-eager", 9_250));
        let (radix, rmm) = (run("radix", 10_000), run("rmm", 9_293));
        let verdict = Verdict::of(&[of(&radix, &small), of(&small, &small), of(&rmm, &eager)]);
        assert_eq!(
            verdict.sentences,
            [
                "Translation costs cc1 at most 4.30% of its time on radix: with a perfect TLB and the same paging it is 1.045 \
                 times as fast (95% interval 1.045 to 1.045).",
                "Where paging differs, it costs at most 0.46% on rmm.",
                "Best: rmm, 1.076 times as fast as radix (95% interval 1.076 to 1.076, over 20 windows of the region).",
                "A perfect TLB with its paging is 1.035 times as fast as one with radix's: that part is not translation.",
            ]
        );
    }

    #[test]
    fn designs_that_translation_costs_nothing_are_told_apart() {
        let (small, large, eager) = (run("perfect-4k", 9_570), run("perfect-thp", 9_250), run("perfect-eager", 9_300));
        let (radix, thp, rmm) = (run("radix", 10_000), run("thp", 9_250), run("rmm", 9_400));
        let verdict = Verdict::of(&[of(&radix, &small), of(&thp, &large), of(&rmm, &eager)]);
        assert_eq!(
            verdict.sentences[1],
            "Where paging differs, it costs at most 1.06% on rmm, and nothing that can be measured on thp."
        );
    }

    #[test]
    fn an_interval_over_phases_is_over_intervals() {
        let of = |design: &str, cycles: u64| {
            let interval =
                |at| MeasuredInterval { interval: at, weight: 2, cycles: cycles + at % 3, ..Default::default() };
            let sampled = Sampled { intervals: (0..15).map(interval).collect(), ..Sampled::default() };
            RunResult { sampled: Some(sampled), ..run(design, cycles) }
        };
        let (radix, thp) = (of("radix", 10_000), of("thp", 5_000));
        let candidate = |run| Candidate { run, bound: None, idealised: false };
        let said = Verdict::of(&[candidate(&radix), candidate(&thp)]).sentences;
        assert!(said[0].ends_with(", over 15 intervals of the region)."), "{said:?}");
    }

    #[test]
    fn what_cannot_be_built_is_not_the_best() {
        let (radix, perfect) = (run("radix", 10_000), run("perfect", 5_000));
        let verdict = Verdict::of(&[of(&radix, &perfect), of(&perfect, &perfect)]);
        assert_eq!(verdict.sentences.len(), 1, "{verdict:?}");
        assert!(verdict.sentences[0].contains("at most 50.0% of its time"));
    }

    #[test]
    fn nothing_is_said_about_differences_within_the_interval() {
        let (radix, same, slower) = (run("radix", 10_000), run("asap", 10_001), run("hashed", 12_000));
        let verdict = Verdict::of(&[of(&radix, &radix), of(&same, &radix), of(&slower, &radix)]);
        assert_eq!(
            verdict.sentences,
            [
                "Translation costs cc1 nothing that can be measured on radix: with a perfect TLB and the same paging it is \
                 1.000 times as fast.",
                "Best: none. No design is faster than radix beyond the 95% interval.",
            ]
        );
        let verdict = Verdict::of(&[of(&radix, &radix), of(&slower, &radix)]);
        assert_eq!(verdict.sentences[1], "Best: radix. hashed is slower.");
        // An ideal that is no different does not make this wrong.
        let (ideal, slow) = (run("perfect", 10_000), run("clustered", 11_000));
        let all = [of(&radix, &ideal), of(&ideal, &ideal), of(&slower, &ideal), of(&slow, &ideal)];
        assert_eq!(Verdict::of(&all).sentences[1], "Best: radix. Every other design that can be built is slower.");
    }

    #[test]
    fn designs_that_the_interval_does_not_tell_apart_are_named_together() {
        let (radix, thp, lvm) = (run("radix", 10_000), run("thp", 5_000), run("lvm", 5_000));
        let verdict = Verdict::of(&[of(&radix, &lvm), of(&thp, &lvm), of(&lvm, &lvm)]);
        assert!(verdict.sentences[1].ends_with("Not told apart from it: lvm."), "{verdict:?}");
    }

    #[test]
    fn a_region_too_short_for_an_interval_has_no_best() {
        let short = |design: &str, cycles| RunResult { windows: Vec::new(), ..run(design, cycles) };
        let (radix, thp) = (short("radix", 10_000), short("thp", 9_500));
        let candidate = |run| Candidate { run, bound: None, idealised: false };
        let verdict = Verdict::of(&[candidate(&radix), candidate(&thp)]);
        assert_eq!(
            verdict.sentences,
            [
                "Best: not known. The region is too short for an interval: thp was the fastest, 1.053 times as fast as radix."
            ]
        );
        assert_eq!(verdict.told, None);
        let slower = Verdict::of(&[candidate(&thp), candidate(&radix)]).sentences;
        assert!(slower[0].ends_with("for an interval: thp was the fastest."), "{slower:?}");
    }

    #[test]
    fn a_cost_that_the_cycle_stack_hides_is_explained() {
        let stack = |mut run: RunResult, walks: u64| {
            run.counters.insert("core.window.stack_dram".into(), 1000 - walks);
            run.counters.insert("core.window.stack_walk_dram".into(), walks);
            run.counters.insert("core.window.stack_base".into(), 0);
            run
        };
        let perfect = run("perfect", 7_500);
        let said = |walks| {
            let radix = stack(run("radix", 10_000), walks);
            Verdict::of(&[of(&radix, &perfect)]).sentences.remove(0)
        };
        assert!(said(60).contains(". Its cycle stack shows 6.00%: a walk behind"), "{}", said(60));
        assert!(said(200).ends_with("(95% interval 1.333 to 1.333)."), "most of the 25% is shown: {}", said(200));
    }

    #[test]
    fn a_mix_is_judged_by_both_of_its_speed_ups() {
        let mix = |design: &str, weighted_speedup| {
            let core = |program: &str| ambulator_simulator::CoreResult {
                program: program.into(),
                ipc: weighted_speedup / 10.0,
                cycles: (200_000.0 / weighted_speedup) as u64,
                windows: (1..=20)
                    .map(|i| (i * 1000, (i as f64 * 10_000.0 / weighted_speedup) as u64 + i % 2))
                    .collect(),
                ..Default::default()
            };
            RunResult { cores: vec![core("gups"), core("bfs")], weighted_speedup, ..run(design, 10_000) }
        };
        let (radix, thp) = (mix("radix", 1.0), mix("thp", 1.071));
        let candidate = |run| Candidate { run, bound: None, idealised: false };
        let said = Verdict::of(&[candidate(&radix), candidate(&thp)]).sentences;
        assert!(
            said[0].starts_with("Best in the time until the last core ends: none. No design is faster"),
            "{said:?}"
        );
        assert!(said[1].contains("(weighted speed-up), thp is the best: thp 1.071 ± "), "{said:?}");
    }

    /// A run of windows whose cycles these are, times a factor.
    fn windows(design: &str, factor: f64, cycles: impl Fn(u64) -> u64) -> RunResult {
        let mut at = 0;
        let point = |window| {
            at += (factor * cycles(window) as f64) as u64;
            (1000 * (window + 1), at)
        };
        let windows: Vec<(u64, u64)> = (0..20).map(point).collect();
        RunResult { ipc: 20_000.0 / at as f64, windows, ..run(design, 1000) }
    }

    #[test]
    fn designs_whose_intervals_meet_are_told_apart_by_their_difference() {
        // Both gain much in every other window, and the better one gains 2% more in each.
        let gains = |window: u64| if window.is_multiple_of(2) { 5_000 } else { 9_000 };
        let radix = run("radix", 10_000);
        let (best, next, same) =
            (windows("best", 1.0, gains), windows("next", 1.02, gains), windows("same", 1.0, gains));
        let over = |run| SpeedUp::of(&radix, run).unwrap();
        assert!(over(&best).ratio - over(&best).half.unwrap() < over(&next).ratio, "the intervals meet");
        let all = [of(&radix, &radix), of(&next, &radix), of(&best, &radix), of(&same, &radix)];
        let said = &Verdict::of(&all).sentences[1];
        assert!(said.contains("Best: best, ") && said.ends_with(" Not told apart from it: same."), "{said}");
    }

    #[test]
    fn a_design_of_which_nothing_is_certain_does_not_hide_the_best() {
        let radix = run("radix", 10_000);
        let noisy = windows("noisy", 1.0, |window| if window < 2 { 50_000 } else { 3_000 });
        let clear = windows("clear", 1.0, |_| 8_000);
        assert!(noisy.ipc > clear.ipc);
        let said = &Verdict::of(&[of(&radix, &radix), of(&noisy, &radix), of(&clear, &radix)]).sentences[1];
        assert!(said.starts_with("Best: clear, ") && said.ends_with(" Not told apart from it: noisy."), "{said}");
        // Far from it, it is said how little is known.
        let far = windows("far", 1.0, |window| if window < 2 { 40_000 } else { 3_000 });
        let said = &Verdict::of(&[of(&radix, &radix), of(&far, &radix), of(&clear, &radix)]).sentences[1];
        assert!(said.contains("it: far (0.838 times as fast as it, 95% interval ") && said.ends_with(")."), "{said}");
    }

    #[test]
    fn a_mix_has_weighted_speed_ups() {
        let core = |(program, cycles): (&str, u64)| ambulator_simulator::CoreResult {
            program: program.into(),
            cycles,
            ..Default::default()
        };
        let mix = |design: &str, cores: [(&str, u64); 2], cycles, weighted_speedup| {
            let mut run = RunResult { cores: cores.map(core).into(), weighted_speedup, ..run(design, cycles) };
            run.counters.insert("core.window.stack_base".into(), 1000 * cycles);
            run
        };
        let radix = mix("radix", [("gups", 100), ("bfs", 200)], 1000, 1.0);
        let of_thp = |first| mix("thp", [("gups", first), ("bfs", 190)], 900, 1.04);
        let verdict = Verdict::of(&[of(&radix, &radix), of(&of_thp(90), &radix)]);
        assert_eq!(
            verdict.sentences[2],
            "The speed-ups above are of the time until the last core ends (core 1, bfs). If each program of the mix counts \
             the same (weighted speed-up): thp 1.040."
        );
        // A mean over the cores does not tell why the last one ends when it does.
        assert!(verdict.told.is_none() && !verdict.sentences.concat().contains("Why"), "{verdict:?}");
        let verdict = Verdict::of(&[of(&radix, &radix), of(&of_thp(195), &radix)]);
        assert!(verdict.sentences[2].contains("ends (not the same core on each design)."), "{verdict:?}");
        let same = |design, cycles| mix(design, [("gups", 1), ("gups", 1)], cycles, 1.0);
        let (radix, thp) = (same("radix", 1000), same("thp", 900));
        let verdict = Verdict::of(&[of(&radix, &radix), of(&thp, &radix)]);
        assert!(verdict.sentences.iter().all(|sentence| !sentence.contains("weighted")));
        assert_eq!(verdict.told.as_deref(), Some("thp"));
    }

    #[test]
    fn the_reason_comes_from_the_stack() {
        let stack = |mut run: RunResult, walks: u64| {
            run.counters.insert("core.window.stack_base".into(), 100_000);
            run.counters.insert("core.window.stack_walk_dram".into(), walks);
            run
        };
        let (radix, thp) = (stack(run("radix", 10_000), 100_000), stack(run("thp", 5_000), 0));
        let verdict = Verdict::of(&[of(&radix, &thp), of(&thp, &thp)]);
        let why = "Why: 5000 fewer cycles per 1000 instructions: -5000 for page walks and look-ups served by DRAM.";
        assert_eq!((verdict.sentences.last().unwrap().as_str(), verdict.told.as_deref()), (why, Some("thp")));
    }

    #[test]
    fn runs_without_time_or_without_an_end_get_no_verdict() {
        let untimed = RunResult { ipc: 0.0, ..run("radix", 1) };
        let broken = RunResult { status: Status::Interrupted, ..run("radix", 1) };
        for base in [untimed, broken] {
            assert_eq!(Verdict::of(&[of(&base, &base), of(&base, &base)]), Verdict::default());
        }
    }
}
