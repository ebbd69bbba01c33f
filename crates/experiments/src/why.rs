//! Why designs differ, in sentences generated from counters.

use crate::interval::SpeedUp;
use crate::number::short;
use crate::stack::CycleStack;
use ambulator_simulator::RunResult;

fn per_kilo(run: &RunResult, counter: &str) -> f64 {
    let n = run.counters.get(counter).copied().unwrap_or(0) as f64;
    1000.0 * n / run.simulated_instructions.max(1) as f64
}

/// A change of a count. What is not all is never rounded to 100%.
fn change(from: f64, to: f64) -> String {
    if from == 0.0 {
        return format!("{} instead of 0", short(to));
    }
    let percent = 100.0 * (to / from - 1.0);
    match percent {
        p if p < 0.0 => {
            let text = (0..3).map(|digits| format!("{:.digits$}", -p)).find(|text| !text.starts_with("100"));
            text.map_or("more than 99.9% fewer".into(), |text| format!("{text}% fewer"))
        }
        p if p > 300.0 => format!("{} times as many", short(to / from)),
        p => format!("{p:.0}% more"),
    }
}

/// Something that a run does differently from the first.
struct Fact {
    text: String,
    /// Whether it makes the run faster, by itself.
    helps: bool,
}

/// One sentence for each design that differs from the first, and one with those that do not. The cycle stack
/// of `told` has been reported already.
pub fn reasons(runs: &[RunResult], told: Option<&str>) -> Vec<String> {
    let Some((base, others)) = runs.split_first() else { return Vec::new() };
    if base.simulated_instructions == 0 {
        return Vec::new();
    }
    let (mut sentences, mut alike) = (Vec::new(), Vec::new());
    for run in others.iter().filter(|run| run.simulated_instructions > 0) {
        let bare = |speed: &str| {
            let facts: Vec<String> = facts(base, run).into_iter().map(|fact| fact.text).collect();
            let facts = if facts.is_empty() { "the same walks".into() } else { facts.join("; ") };
            format!("{} versus {}{speed}: {facts}.", run.design, base.design)
        };
        match SpeedUp::of(base, run) {
            None => sentences.push(bare("")),
            Some(speed_up) if speed_up.half.is_none() => {
                sentences.push(bare(&format!(" ({:.3} times as fast; {})", speed_up.ratio, speed_up.in_words())));
            }
            Some(speed_up) if !speed_up.differs() => alike.push((run.design.as_str(), speed_up)),
            Some(speed_up) => sentences.push(reason(base, run, &speed_up, told == Some(run.design.as_str()))),
        }
    }
    sentences.extend(no_difference(base, &alike));
    sentences
}

fn no_difference(base: &RunResult, alike: &[(&str, SpeedUp)]) -> Option<String> {
    if alike.is_empty() {
        return None;
    }
    let one = |(design, speed_up): &(&str, SpeedUp)| {
        let interval = speed_up.interval().map_or(String::new(), |interval| format!("; {interval}"));
        format!("{design} ({:.3}{interval})", speed_up.ratio)
    };
    let all: Vec<String> = alike.iter().map(one).collect();
    Some(format!("No difference from {} beyond the 95% interval: {}.", base.design, all.join(", ")))
}

/// Why a run is faster or slower: what speaks for it comes first, what speaks against it is named as such.
fn reason(base: &RunResult, run: &RunResult, speed_up: &SpeedUp, told: bool) -> String {
    let (ratio, interval) = (speed_up.ratio, speed_up.in_words());
    let mut text = format!("{} is {ratio:.3} times as fast as {} ({interval})", run.design, base.design);
    let (with, against): (Vec<Fact>, Vec<Fact>) =
        facts(base, run).into_iter().partition(|fact| fact.helps == (speed_up.ratio > 1.0));
    let join = |facts: Vec<Fact>| facts.into_iter().map(|fact| fact.text).collect::<Vec<_>>().join("; ");
    let change = CycleStack::change(base, run).filter(|_| !told);
    let mut parts: Vec<String> = change.into_iter().collect();
    if !with.is_empty() {
        parts.push(join(with));
    }
    if !parts.is_empty() {
        // What the verdict has told is the reason; the rest goes with it.
        let head = if told { ", as told above; " } else { ": " };
        text += &format!("{head}{}", parts.join("; "));
    }
    if !against.is_empty() {
        text += &format!(", although {}", join(against));
    }
    text + "."
}

/// Cycles of page walks, for each 1000 instructions.
fn walk_cycles(run: &RunResult) -> f64 {
    per_kilo(run, "mmu.walks") * run.measure("walk_latency_mean")
}

/// Cycles of a lookaside's look-ups in memory, for each 1000 instructions. Where no look-up finds a
/// translation (`hit_cycles`), `walk_cycles` are of walks in the background, for which nobody waits.
fn look_up_cycles(run: &RunResult) -> f64 {
    let waited = run.counters.contains_key("mmu.lookaside.hit_cycles");
    let walks = if waited { per_kilo(run, "mmu.lookaside.walk_cycles") } else { 0.0 };
    per_kilo(run, "mmu.lookaside.probe_cycles") + walks
}

/// What differs between two runs: the operating system's work first where it changes by more cycles than the
/// walks and look-ups do.
fn facts(base: &RunResult, run: &RunResult) -> Vec<Fact> {
    let mut facts = Vec::new();
    let os = os_fact(base, run);
    let translation = |run| walk_cycles(run) + look_up_cycles(run);
    let os_change = os_cycles(run) - os_cycles(base);
    let os_leads = os_change.abs() > (translation(run) - translation(base)).abs();
    let (first, later) = if os_leads { (os, None) } else { (None, os) };
    facts.extend(first);
    facts.extend(walk_facts(base, run));
    let (cycles0, cycles1) = (look_up_cycles(base), look_up_cycles(run));
    if run.ipc > 0.0 && (cycles1 - cycles0).abs() > 0.01 * cycles0.max(cycles1) {
        let (cycles1, cycles0, helps) = (short(cycles1), short(cycles0), cycles1 < cycles0);
        let text = format!("look-ups in memory take {cycles1} cycles per 1000 instructions versus {cycles0}");
        facts.push(Fact { text, helps });
    }
    facts.extend(later);
    let (llc0, llc1) = (base.measure("llc_mpki"), run.measure("llc_mpki"));
    if llc0 > 0.0 && (llc1 / llc0 - 1.0).abs() > 0.02 {
        let text = format!("{} last-level misses per 1000 instructions versus {}", short(llc1), short(llc0));
        facts.push(Fact { text, helps: llc1 < llc0 });
    }
    facts
}

/// What differs in the number of page walks, and in what each takes. Where one is more and the other less,
/// they are one fact: what all walks take together helps or does not.
fn walk_facts(base: &RunResult, run: &RunResult) -> Vec<Fact> {
    let (walks0, walks1) = (per_kilo(base, "mmu.walks"), per_kilo(run, "mmu.walks"));
    if walks1 == 0.0 && walks0 > 0.0 {
        let text = format!("no page walks at all ({} per 1000 instructions in {})", short(walks0), base.design);
        return vec![Fact { text, helps: true }];
    }
    let number = (walks1 != walks0 && (walks0 == 0.0 || (walks1 / walks0 - 1.0).abs() >= 0.01)).then(|| Fact {
        text: format!(
            "{} page walks ({} versus {} per 1000 instructions)",
            change(walks0, walks1),
            short(walks1),
            short(walks0)
        ),
        helps: walks1 < walks0,
    });
    let (latency0, latency1) = (base.measure("walk_latency_mean"), run.measure("walk_latency_mean"));
    let timed = run.ipc > 0.0 && walks0 > 0.0 && walks1 > 0.0;
    let latency = (timed && (latency1 / latency0 - 1.0).abs() >= 0.01).then(|| Fact {
        text: format!(
            "{} cycles versus {} ({} versus {} loads, {:.0}% versus {:.0}% of them from DRAM)",
            short(latency1),
            short(latency0),
            short(run.measure("walk_accesses_mean")),
            short(base.measure("walk_accesses_mean")),
            100.0 * run.measure("walk_served_dram"),
            100.0 * base.measure("walk_served_dram"),
        ),
        helps: latency1 < latency0,
    });
    match (number, latency) {
        (Some(number), Some(latency)) if number.helps != latency.helps => {
            let text = format!("{}, of {}", number.text, latency.text);
            vec![Fact { text, helps: walk_cycles(run) < walk_cycles(base) }]
        }
        (number, latency) => {
            let latency = latency.map(|of| Fact { text: format!("a walk takes {}", of.text), ..of });
            number.into_iter().chain(latency).collect()
        }
    }
}

/// Cycles of the operating system, and of all, for each 1000 instructions.
pub(crate) fn cycles_per_kilo(run: &RunResult) -> (f64, f64) {
    let all = 1000.0 / run.speed() * run.cores.len().max(1) as f64;
    (run.os_share() * all, all)
}

fn os_cycles(run: &RunResult) -> f64 {
    if run.knows_region() { cycles_per_kilo(run).0 } else { per_kilo(run, "core.os_cycles") }
}

/// What differs in the operating system's cycles.
fn os_fact(base: &RunResult, run: &RunResult) -> Option<Fact> {
    let (os0, os1) = (os_cycles(base), os_cycles(run));
    let share = base.os_share().max(run.os_share());
    let differs = run.ipc > 0.0 && share > 0.005 && (os1 - os0).abs() > 0.01 * os0.max(os1);
    let (cycles1, cycles0) = (short(os1), short(os0));
    let text = format!("the operating system takes {cycles1} cycles per 1000 instructions versus {cycles0}");
    differs.then_some(Fact { text, helps: os1 < os0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 20 windows with these cycles for each, and page walks.
    fn run(design: &str, cycles: u64, walks: u64, latency: f64) -> RunResult {
        let windows: Vec<(u64, u64)> = (1..=20).map(|i| (i * 1000, i * cycles)).collect();
        let mut run = RunResult {
            design: design.into(),
            simulated_instructions: 20_000,
            ipc: 1000.0 / cycles as f64,
            windows,
            ..RunResult::default()
        };
        run.counters.insert("mmu.walks".into(), walks);
        run.measures.insert("walk_latency_mean".into(), latency);
        run
    }

    #[test]
    fn a_difference_within_the_interval_gets_no_reason() {
        // "1.000 times as fast: no page walks at all" was one.
        let why = reasons(&[run("radix", 10_000, 900, 50.0), run("perfect", 10_000, 0, 0.0)], None);
        assert_eq!(why, ["No difference from radix beyond the 95% interval: perfect (1.000; 1.000 to 1.000)."]);
        let mut noisy = run("other", 9_900, 100, 50.0);
        for (at, point) in noisy.windows.iter_mut().enumerate() {
            point.1 = (point.1 as f64 + if at % 2 == 0 { 3000.0 } else { -3000.0 }) as u64;
        }
        let why = reasons(&[run("radix", 10_000, 900, 50.0), noisy], None);
        assert!(why.len() == 1 && why[0].starts_with("No difference from radix"), "{why:?}");
    }

    #[test]
    fn what_speaks_against_a_result_is_not_its_reason() {
        // "100% fewer page walks" stood as the reason of 0.975.
        let base = run("radix", 10_000, 900_000, 50.0);
        let why = reasons(&[base.clone(), run("slower", 10_256, 1000, 50.0)], None);
        assert_eq!(
            why,
            [
                "slower is 0.975 times as fast as radix (95% interval 0.975 to 0.975), although 99.9% fewer page walks (50.0 \
              versus 45000 per 1000 instructions)."
            ]
        );
    }

    #[test]
    fn walks_that_are_fewer_and_longer_count_by_what_all_take() {
        // A mean of 124 cycles of a fifth of the walks stood as the reason of 0.885.
        let base = run("radix", 10_000, 1000, 50.0);
        let of =
            |cycles, walks, latency| reasons(&[base.clone(), run("other", cycles, walks, latency)], None).remove(0);
        let fewer = "90% fewer page walks (5.00 versus 50.0 per 1000 instructions), of 80.0 cycles versus 50.0 (";
        assert!(of(11_000, 100, 80.0).contains(&format!("), although {fewer}")), "{}", of(11_000, 100, 80.0));
        assert!(of(9_000, 100, 80.0).contains(&format!("): {fewer}")), "{}", of(9_000, 100, 80.0));
        assert!(of(11_000, 900, 80.0).contains("): 10% fewer page walks"), "{}", of(11_000, 900, 80.0));
        let more = "10% more page walks (55.0 versus 50.0 per 1000 instructions), of 20.0 cycles versus 50.0 (";
        assert!(of(9_000, 1100, 20.0).contains(&format!("): {more}")), "{}", of(9_000, 1100, 20.0));
        assert!(of(11_000, 1100, 80.0).contains("instructions); a walk takes 80.0"), "{}", of(11_000, 1100, 80.0));
    }

    #[test]
    fn look_ups_in_memory_are_a_reason() {
        let with = |counters: &[(&str, u64)]| {
            let mut run = run("other", 11_000, 0, 0.0);
            run.counters.extend(counters.iter().map(|(name, n)| (format!("mmu.lookaside.{name}"), *n)));
            reasons(&[self::run("radix", 10_000, 1000, 50.0), run], None).remove(0)
        };
        let expected = "): look-ups in memory take 150 cycles per 1000 instructions versus 0, although no page walks";
        for counters in [&[("probe_cycles", 3000)][..], &[("walk_cycles", 3000), ("hit_cycles", 1000)]] {
            assert!(with(counters).contains(expected), "{}", with(counters));
        }
        let behind = with(&[("walk_cycles", 3000)]);
        assert!(!behind.contains("look-ups"), "nobody waits: {behind}");
    }

    #[test]
    fn a_mix_of_programs_has_no_stack_among_its_reasons() {
        let of = |design: &str, cycles, programs: [&str; 2]| {
            let core =
                |program: &str| ambulator_simulator::CoreResult { program: program.into(), ..Default::default() };
            let mut run = RunResult { cores: programs.map(core).into(), ..run(design, cycles, 10, 50.0) };
            run.counters.insert("core.window.stack_base".into(), cycles);
            run
        };
        let said = |programs| reasons(&[of("radix", 10_000, programs), of("thp", 5_000, programs)], None).remove(0);
        assert!(said(["gups", "gups"]).contains("fewer cycles per 1000 instructions"));
        assert!(said(["gups", "bfs"]).ends_with("(95% interval 2.000 to 2.000)."), "{}", said(["gups", "bfs"]));
    }

    #[test]
    fn what_is_not_all_is_not_rounded_to_all() {
        assert_eq!(change(1000.0, 4.0), "99.6% fewer");
        assert_eq!(change(1000.0, 0.4), "99.96% fewer");
        assert_eq!(change(1e9, 1.0), "more than 99.9% fewer");
        assert_eq!((change(100.0, 50.0), change(0.0, 3.0)), ("50% fewer".into(), "3.00 instead of 0".into()));
    }

    #[test]
    fn a_share_that_rises_because_the_rest_falls_is_no_reason() {
        let os = |mut run: RunResult, cycles: u64, share: f64| {
            run.counters.insert("core.os_cycles".into(), cycles);
            run.measures.insert("os_cycles_share".into(), share);
            run
        };
        let base = os(run("radix", 10_000, 900, 50.0), 50_000, 0.25);
        let why = reasons(&[base, os(run("thp", 5_000, 90, 50.0), 50_000, 0.5)], None);
        assert!(!why[0].contains("operating system"), "{why:?}");
    }

    #[test]
    fn what_changes_by_more_cycles_comes_first() {
        let os = |mut run: RunResult, cycles: u64| {
            run.counters.insert("core.os_cycles".into(), cycles);
            run.measures.insert("os_cycles_share".into(), 0.3);
            run
        };
        let why = reasons(&[os(run("radix", 10_000, 900, 50.0), 90_000), os(run("rmm", 5_000, 9, 50.0), 1000)], None);
        let place = |text: &str| why[0].find(text).unwrap();
        assert!(place("the operating system takes 50.0 cycles") < place("99% fewer page walks"), "{why:?}");
    }

    #[test]
    fn the_cycle_stack_leads() {
        let stack = |mut run: RunResult, walks: u64| {
            run.counters.insert("core.window.stack_base".into(), 100_000);
            run.counters.insert("core.window.stack_walk_dram".into(), walks);
            run
        };
        let runs = [stack(run("radix", 10_000, 900, 50.0), 100_000), stack(run("thp", 5_000, 90, 50.0), 0)];
        let why = reasons(&runs, None);
        let expected = ": 5000 fewer cycles per 1000 instructions: -5000 for page walks and look-ups served by DRAM; 90% \
                        fewer page walks";
        assert!(why[0].contains(expected), "{why:?}");
        assert!(!reasons(&runs, Some("thp"))[0].contains("fewer cycles"));
    }

    #[test]
    fn without_time_there_are_counts_and_no_speed() {
        let untimed = |design: &str, walks| RunResult { ipc: 0.0, windows: Vec::new(), ..run(design, 1, walks, 0.0) };
        let why = reasons(&[untimed("radix", 1000), untimed("thp", 750)], None);
        assert_eq!(why, ["thp versus radix: 25% fewer page walks (37.5 versus 50.0 per 1000 instructions)."]);
    }
}
