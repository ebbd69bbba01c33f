//! Warnings about what a comparison measured, where a reader may take it for something else.

use crate::interval::{SpeedUp, os_is_elsewhere};
use crate::number::{count, short};
use crate::why::cycles_per_kilo;
use ambulator_simulator::spec::{Spec, daemon_periods};
use ambulator_simulator::{RunResult, Status};
use serde_json::Value;

/// Below this share of a trace, the part that was measured need not stand for the whole.
const SMALL_PART: f64 = 0.01;
/// First touches in the measured region from which on it is worth a warning that the program sets up in it.
const SETS_UP: f64 = 64.0;
/// A core with this share of the busiest core's instructions, or less, is idle.
const IDLE: f64 = 0.01;
/// Share of a column's cycles from which on it is about the operating system.
const OS_DOMINATES: f64 = 0.5;
/// Share of the cycles that copying takes while pages are promoted, from which on it is a transient.
const COPYING: f64 = 0.02;
/// Numbers of pages that are as close as this are the same.
const SAME_PAGES: f64 = 0.01;
/// Change of a speed-up from the first to the last third of the region that the whole hides.
const DRIFT: f64 = 0.2;
/// Programs of which one is faster than another by this factor are not where phases take them to be.
const UNLIKE: f64 = 1.1;

/// Warnings, one sentence each. `program_instructions` are those of the programs' whole traces, as far as
/// they are known, in the order of the programs.
pub fn cautions(runs: &[RunResult], program_instructions: &[Option<u64>]) -> Vec<String> {
    let shown: Vec<&RunResult> =
        runs.iter().filter(|run| run.simulated_instructions > 0 && run.status == Status::Done).collect();
    let Some(first) = shown.first() else { return Vec::new() };
    let mut sentences = Vec::new();
    sentences.extend(small_part(first, program_instructions));
    sentences.extend(sets_up(first));
    sentences.extend(idle_cores(first));
    sentences.extend(os_dominates(&shown));
    sentences.extend(os_elsewhere(&shown));
    sentences.extend(difference_of_paging(&shown));
    sentences.extend(without_huge_pages(&shown));
    sentences.extend(shown.iter().filter_map(|run| untimed_daemons(run)));
    sentences.extend(shown.iter().filter_map(|run| phases_of_unlike_programs(run)));
    sentences.extend(shown.iter().filter_map(|run| copies(run)));
    sentences.extend(shown[1..].iter().filter_map(|run| drifts(first, run)));
    sentences.extend(shown.iter().filter_map(|run| recorded_places(run)));
    sentences
}

fn small_part(run: &RunResult, programs: &[Option<u64>]) -> Option<String> {
    let all: u64 = programs.iter().copied().collect::<Option<Vec<u64>>>()?.iter().sum();
    let covered = run.sampled.as_ref().map_or(run.simulated_instructions, |sampled| sampled.covered);
    let share = covered as f64 / all.max(1) as f64;
    (share < SMALL_PART).then(|| {
        format!(
            "{} of the {} instructions of {} were measured ({:.2}%), and they need not stand for the rest: measure more of \
             them with --instructions, another part with --skip, or windows of all with --sample",
            count(covered as f64),
            count(all as f64),
            run.program,
            100.0 * share
        )
    })
}

/// What became of the places that a trace records, with `design.placement` `trace`.
fn recorded_places(run: &RunResult) -> Option<String> {
    let of = |name: &str| run.counters.get(&format!("kernel.placement.trace.{name}")).copied();
    let (exact, rebased) = (of("exact")?, of("rebased")?);
    let reasons = [
        ("whose frame was taken", of("taken")?),
        ("for whose block no room was left", of("no_room")?),
        ("that the trace does not name", of("unrecorded")?),
    ];
    let elsewhere: u64 = reasons.iter().map(|(_, pages)| pages).sum();
    let all = exact + rebased + elsewhere;
    let mut text = format!("on {}, {} of {} pages of 4 KiB were placed as recorded", run.design, exact + rebased, all);
    if rebased > 0 {
        text += &format!(", {rebased} of them in another block of 2 MiB");
    }
    if elsewhere > 0 {
        let why = reasons.iter().filter(|(_, pages)| *pages > 0);
        let why: Vec<String> = why.map(|(why, pages)| format!("{pages} {why}")).collect();
        text += &format!("; elsewhere are {}", why.join(", "));
    }
    Some(text)
}

fn sets_up(run: &RunResult) -> Option<String> {
    let faults = run.measure("page_faults");
    (run.measure("setup_page_faults") == 0.0 && faults >= SETS_UP).then(|| {
        format!(
            "no page of {} had been touched when measuring began, so its set-up is measured ({} page faults): leave it out \
             with --warmup or --skip, or mark its region of interest",
            run.program,
            count(faults)
        )
    })
}

fn idle_cores(run: &RunResult) -> Option<String> {
    let most = run.cores.iter().map(|core| core.instructions).max().unwrap_or(0) as f64;
    let idle = |core: &&ambulator_simulator::CoreResult| core.instructions as f64 <= IDLE * most;
    let idle = run.cores.iter().filter(idle).count();
    (idle > 0).then(|| {
        format!(
            "{idle} of {} cores ran nothing, or almost nothing, in the measured region: {} has fewer threads at work than \
             there are cores; use fewer --cores, or measure another part",
            run.cores.len(),
            run.program
        )
    })
}

/// What `says` has of each run, one after another; `None` if it has nothing of any.
fn listed(runs: &[&RunResult], says: impl Fn(&RunResult) -> Option<String>) -> Option<String> {
    let said: Vec<String> = runs.iter().filter_map(|run| says(run)).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn os_dominates(runs: &[&RunResult]) -> Option<String> {
    let says = |run: &RunResult| {
        let share = run.os_share();
        (run.ipc > 0.0 && share > OS_DOMINATES).then(|| format!("{:.0}% in {}", 100.0 * share, run.design))
    };
    listed(runs, says).map(|columns| {
        format!(
            "the operating system takes most of the cycles ({columns}): speed-ups there are about page faults, not about \
             translation; measure a part after the first touches, with --warmup or --skip"
        )
    })
}

fn os_elsewhere(runs: &[&RunResult]) -> Option<String> {
    let says = |run: &RunResult| {
        let (windows, region) = (run.measure("os_cycles_share"), run.measure("region_os_share"));
        os_is_elsewhere(run).then(|| format!("{:.0}% and {:.0}% in {}", 100.0 * windows, 100.0 * region, run.design))
    };
    listed(runs, says).map(|columns| {
        format!(
            "the operating system has another share of the windows' cycles than of the whole region's ({columns}): windows \
             meet bursts of page faults too often, or miss them; speed-ups count all of its cycles (`region_ipc`), instructions \
             per cycle, cycle stacks and what is told of one core only those of the windows"
        )
    })
}

/// Designs whose difference from the first is the operating system's for the larger part, and not because of
/// page faults that take most of all cycles anyway.
fn difference_of_paging(runs: &[&RunResult]) -> Option<String> {
    let (base, others) = runs.split_first()?;
    let of_paging = |run: &&&RunResult| {
        let Some(speed_up) = SpeedUp::of(base, run).filter(SpeedUp::differs) else { return false };
        let ((os0, all0), (os1, all1)) = (cycles_per_kilo(base), cycles_per_kilo(run));
        let clear = (speed_up.ratio - 1.0).abs() > 0.01;
        clear && (os1 - os0).signum() == (all1 - all0).signum() && (os1 - os0).abs() > 0.5 * (all1 - all0).abs()
    };
    let named: Vec<&str> = others.iter().filter(of_paging).map(|run| run.design.as_str()).collect();
    (!named.is_empty()).then(|| {
        format!(
            "most of what {} gains or loses against {} is the operating system's work (page faults, zeroing, copying), not \
             translation",
            named.join(", "),
            base.design
        )
    })
}

/// Designs with huge pages that have hardly any: as many pages as one without. A kernel with `madvise` alone
/// makes them where the program asks, which is the program's matter.
fn without_huge_pages(runs: &[&RunResult]) -> Vec<String> {
    let of = |run: &RunResult, key: &str| run.spec.pointer(key).cloned().unwrap_or_default();
    let policy = |run: &RunResult| of(run, "/kernel/page_size_policy").as_str().unwrap_or("never").to_owned();
    let advised = |run: &RunResult| of(run, "/run/advise_huge") == true;
    let pages = |run: &RunResult| run.measure("pages_mapped");
    let base_pages: Vec<f64> = runs.iter().filter(|run| policy(run) == "never").map(|run| pages(run)).collect();
    let like_base_pages =
        |run: &RunResult| base_pages.iter().any(|all| *all > 0.0 && (pages(run) / all - 1.0).abs() <= SAME_PAGES);
    let asks = |run: &&&RunResult| match policy(run).as_str() {
        "never" => false,
        "madvise" => advised(run),
        _ => true,
    };
    let (mut sentences, mut others) = (Vec::new(), Vec::new());
    for run in runs.iter().filter(asks).filter(|run| like_base_pages(run)) {
        let period = of(run, "/kernel/khugepaged_period").as_u64().unwrap_or(0);
        if policy(run) == "khugepaged" && period > run.cycles {
            sentences.push(format!(
                "{} has promoted nothing: its daemon runs every {} cycles and the region has {}; measure more, or set \
                 kernel.khugepaged_period",
                run.design,
                count(period as f64),
                count(run.cycles as f64)
            ));
        } else {
            others.push(run.design.as_str());
        }
    }
    if !others.is_empty() {
        let (has, says) = if others.len() == 1 { ("has", "it says") } else { ("have", "they say") };
        sentences.push(format!(
            "{} {has} hardly any page of 2 MiB, so that {says} nothing about huge pages: the program requests its memory in \
             pieces that do not cover 2 MiB (a heap that brk moves), or no block is free",
            others.join(", ")
        ));
    }
    sentences
}

fn copies(run: &RunResult) -> Option<String> {
    let counter = |name: &str| run.counters.get(name).copied().unwrap_or(0) as f64;
    let all = run.cycles as f64 * run.cores.len().max(1) as f64;
    let share = counter("kernel.cycles.copy") / all.max(1.0);
    (run.cycles > 0 && counter("kernel.promotions") > 0.0 && share > COPYING).then(|| {
        format!(
            "{} spends {:.0}% of its cycles on copying pages into {} huge pages: a transient, which a longer --warmup leaves \
             out",
            run.design,
            100.0 * share,
            count(counter("kernel.promotions"))
        )
    })
}

/// A warning on a run that left out time, in its warm-up or between what it measured of a sampled region: the
/// operating system's daemons, which count cycles, then had fewer rounds than they would have had. `None` for
/// others.
pub fn untimed_daemons(run: &RunResult) -> Option<String> {
    // Hardly any run has it: the whole spec need not be read.
    let of_run = |key: &str| run.spec.pointer(&format!("/run/{key}")).and_then(Value::as_str);
    let warmed = of_run("warmup_mode") == Some("functional");
    if !warmed && run.sampled.is_none() {
        return None;
    }
    let spec: Spec = serde_json::from_value(run.spec.clone()).ok()?;
    let periods = daemon_periods(&spec);
    let names: Vec<String> = periods.iter().map(|key| format!("`{key}`")).collect();
    if names.is_empty() {
        return None;
    }
    let (names, design) = (names.join(" and "), &run.design);
    if let Some(sampled) = run.sampled.as_ref().filter(|sampled| sampled.timed < sampled.covered) {
        let share = 100.0 * (1.0 - sampled.timed as f64 / sampled.covered.max(1) as f64);
        return Some(format!(
            "{design} was sampled, and {share:.0}% of its region ran without time, where each instruction counts as one cycle in \
             {names}: the daemon had fewer rounds than it has in time, which no interval covers; compare a shorter region \
             with run.sampling=none"
        ));
    }
    let untimed = spec.run.untimed_warmup();
    (untimed > 0).then(|| {
        format!(
            "{design} was warmed up without time for {} instructions, each of which counts as one cycle in {names}: the \
             daemon had fewer rounds before measuring began than it has in time, and the speed may be far from that of a \
             warm-up with run.warmup_mode=timing",
            count(untimed as f64),
        )
    })
}

/// Phases are told apart where each program has run as many instructions as the others, which is not so with time.
fn phases_of_unlike_programs(run: &RunResult) -> Option<String> {
    run.sampled.as_ref().filter(|sampled| !sampled.intervals.is_empty())?;
    let ran = || run.cores.iter().filter(|core| core.ipc > 0.0);
    let slow = ran().min_by(|a, b| a.ipc.total_cmp(&b.ipc))?;
    let fast = ran().max_by(|a, b| a.ipc.total_cmp(&b.ipc))?;
    (slow.program != fast.program && fast.ipc > UNLIKE * slow.ipc).then(|| {
        format!(
            "{} was sampled by phases, as if its programs were equally fast, and {} runs {} instructions a cycle where {} runs \
             {}: its speed and counts may be far outside their intervals; use --sampling=windows",
            run.design,
            fast.program,
            short(fast.ipc),
            slow.program,
            short(slow.ipc),
        )
    })
}

fn drifts(base: &RunResult, run: &RunResult) -> Option<String> {
    let (first, last) = crate::interval::first_and_last_third(base, run)?;
    let drift = (last / first).max(first / last) - 1.0;
    (drift > DRIFT).then(|| {
        format!(
            "the speed-up of {} over {} is {} in the first third of the region and {} in the last: a transient or a phase of \
             the program, which one number does not describe",
            run.design,
            base.design,
            short(first),
            short(last)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::{CoreResult, MeasuredInterval, Sampled};

    fn run(design: &str, ipc: f64, measures: &[(&str, f64)]) -> RunResult {
        let cycles = (1e6 / ipc) as u64;
        RunResult {
            design: design.into(),
            program: "cc1".into(),
            simulated_instructions: 1_000_000,
            cycles,
            ipc,
            windows: (1..=20).map(|i| (i * 50_000, i * cycles / 20)).collect(),
            measures: measures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            cores: vec![CoreResult {
                program: "cc1".into(),
                instructions: 1_000_000,
                cycles,
                ipc,
                ..CoreResult::default()
            }],
            ..RunResult::default()
        }
    }

    fn only(sentences: Vec<String>, expected: &str) {
        assert!(sentences.len() == 1 && sentences[0].contains(expected), "{sentences:?}");
    }

    #[test]
    fn an_ordinary_comparison_has_none() {
        let runs = [run("radix", 0.5, &[("setup_page_faults", 9.0)]), run("thp", 0.9, &[("setup_page_faults", 9.0)])];
        assert_eq!(cautions(&runs, &[Some(50_000_000)]), Vec::<String>::new());
        assert_eq!(cautions(&runs, &[None]), Vec::<String>::new());
        assert_eq!(cautions(&[], &[]), Vec::<String>::new());
    }

    #[test]
    fn phases_of_programs_at_unlike_speeds_are_named() {
        let mix = |ipc: f64| {
            let mut run = run("radix", 0.5, &[]);
            run.cores.push(CoreResult { program: "gups".into(), ipc, ..run.cores[0].clone() });
            run.sampled = Some(Sampled { windows: 20, covered: 1_000_000, timed: 100_000, ..Sampled::default() });
            run
        };
        assert_eq!(cautions(&[mix(2.0)], &[None]), Vec::<String>::new(), "windows");
        let phases = |ipc| {
            let mut run = mix(ipc);
            run.sampled.as_mut().unwrap().intervals.push(MeasuredInterval::default());
            cautions(&[run], &[None])
        };
        assert_eq!(phases(0.52), Vec::<String>::new());
        only(phases(2.0), "gups runs 2.00 instructions a cycle where cc1 runs 0.50");
    }

    #[test]
    fn windows_that_overcount_page_faults_are_named() {
        let of = |sampled: bool, share: f64, region: f64| {
            let measures = [("os_cycles_share", share), ("region_os_share", region), ("region_ipc", 0.7)];
            let mut run = run("radix", 0.5, &measures);
            run.sampled = sampled.then(|| Sampled { windows: 20, covered: 1_000_000, ..Sampled::default() });
            cautions(&[run], &[None])
        };
        only(
            of(true, 0.45, 0.25),
            "(45% and 25% in radix): windows meet bursts of page faults too often, or miss them",
        );
        assert_eq!(of(true, 0.27, 0.25), [""; 0]);
        assert_eq!(of(false, 0.45, 0.25), [""; 0]);
        // Whether the operating system takes most of the cycles is told by the region's.
        only(of(true, 0.78, 0.25), "(78% and 25% in radix)");
        only(of(false, 0.78, 0.25), "the operating system takes most of the cycles (78% in radix)");
        let both = of(true, 0.25, 0.78);
        assert!(both.len() == 2 && both[0].contains("takes most of the cycles (78% in radix)"), "{both:?}");
    }

    #[test]
    fn a_small_part_of_a_trace_is_named() {
        let runs = [run("radix", 0.5, &[])];
        only(cautions(&runs, &[Some(1_000_000_000)]), "1.00 M of the 1.00 G instructions of cc1 were measured (0.10%)");
    }

    #[test]
    fn a_measured_set_up_is_named_and_a_warmed_one_is_not() {
        let faults = [("page_faults", 242.0)];
        only(cautions(&[run("radix", 0.5, &faults)], &[]), "its set-up is measured (242 page faults)");
        let warmed = [("page_faults", 242.0), ("setup_page_faults", 10.0)];
        assert!(cautions(&[run("radix", 0.5, &warmed)], &[]).is_empty());
    }

    #[test]
    fn idle_cores_are_counted() {
        let mut one = run("radix", 0.5, &[]);
        one.cores.push(CoreResult { instructions: 100, ..one.cores[0].clone() });
        only(cautions(&[one], &[]), "1 of 2 cores ran nothing");
    }

    #[test]
    fn columns_that_faults_dominate_are_named() {
        // Seen: a speed-up of 72 that was page faults.
        let runs = [run("radix", 0.01, &[("os_cycles_share", 0.98)]), run("thp", 0.72, &[("os_cycles_share", 0.3)])];
        let sentences = cautions(&runs, &[]);
        assert!(sentences[0].contains("(98% in radix): speed-ups there are about page faults"), "{sentences:?}");
        assert!(sentences[1].contains("most of what thp gains or loses against radix is the operating system's work"));
        assert_eq!(sentences.len(), 2);
    }

    #[test]
    fn designs_that_have_made_no_huge_page_are_named() {
        let of = |design: &str, policy: &str, pages: f64| {
            let kernel = serde_json::json!({"page_size_policy": policy, "khugepaged_period": 20_000_000});
            let spec = serde_json::json!({"kernel": kernel, "run": {"advise_huge": design == "advised"}});
            RunResult { spec, ..run(design, 0.5, &[("pages_mapped", pages)]) }
        };
        let said = |others: &[RunResult]| cautions(&[&[of("radix", "never", 15_437.0)], others].concat(), &[]);
        only(
            said(&[of("daemon", "khugepaged", 15_437.0)]),
            "daemon has promoted nothing: its daemon runs every 20.0 M cycles and the region has 2.00 M; measure more, or \
             set kernel.khugepaged_period",
        );
        let few =
            [of("thp", "always", 15_400.0), of("advised", "madvise", 15_437.0), of("held", "reservation", 15_437.0)];
        only(
            said(&few),
            "thp, advised, held have hardly any page of 2 MiB, so that they say nothing about huge pages: ",
        );
        only(said(&few[..1]), "thp has hardly any page of 2 MiB, so that it says nothing about huge pages: ");
        let mut late = of("daemon", "khugepaged", 15_437.0);
        late.cycles = 30_000_000;
        only(said(&[late]), "daemon has hardly any page");
        // Huge pages; a program that asks for none; pages that nothing is compared with.
        let fine = [of("thp", "always", 15_000.0), of("asked", "madvise", 15_437.0), of("lvm", "never", 15_437.0)];
        assert_eq!(said(&fine), [""; 0]);
        assert_eq!(cautions(&[of("thp", "always", 30.0), of("lvm", "always", 30.0)], &[]), [""; 0]);
    }

    #[test]
    fn a_warm_up_without_time_is_named_where_daemons_count_cycles() {
        use ambulator_simulator::spec::{SpecRequest, load};
        let of = |options: &str| {
            let options = options.split(' ').map(str::to_owned).collect();
            let spec = load(&SpecRequest { options, ..SpecRequest::default() }).unwrap().spec;
            RunResult { spec: serde_json::to_value(spec).unwrap(), ..run("mine", 0.5, &[]) }
        };
        let functional = "run.warmup=1M run.warmup_mode=functional";
        let daemon = "kernel.page_size_policy=khugepaged";
        only(
            cautions(&[of(&format!("{functional} {daemon}"))], &[]),
            "mine was warmed up without time for 900 k instructions, each of which counts as one cycle in \
             `kernel.khugepaged_period`",
        );
        let others = [
            functional.to_owned(),
            format!("run.warmup=1M {daemon}"),
            format!("run.warmup=90k run.warmup_mode=functional {daemon}"),
            format!("{functional} {daemon} run.mode=functional"),
            format!("{functional} kernel.page_size_policy=reservation"),
        ];
        for options in others {
            assert_eq!(untimed_daemons(&of(&options)), None, "{options}");
        }
    }

    #[test]
    fn what_became_of_recorded_places_is_told() {
        let mut placed = run("radix", 0.5, &[]);
        let counts = [("exact", 90), ("rebased", 5), ("taken", 3), ("no_room", 0), ("unrecorded", 2)];
        placed.counters.extend(counts.map(|(name, pages)| (format!("kernel.placement.trace.{name}"), pages)));
        only(
            cautions(&[placed], &[]),
            "on radix, 95 of 100 pages of 4 KiB were placed as recorded, 5 of them in another block of 2 MiB; elsewhere \
             are 3 whose frame was taken, 2 that the trace does not name",
        );
    }

    #[test]
    fn a_sampled_region_is_named_where_daemons_count_cycles() {
        use ambulator_simulator::Sampled;
        use ambulator_simulator::spec::{SpecRequest, load};
        let of = |options: &[&str], timed: u64| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let spec = load(&SpecRequest { options, ..SpecRequest::default() }).unwrap().spec;
            let sampled = Some(Sampled { covered: 1_000_000, timed, ..Sampled::default() });
            RunResult { spec: serde_json::to_value(spec).unwrap(), sampled, ..run("mine", 0.5, &[]) }
        };
        for sampling in ["run.sampling=windows", "run.sampling=phases"] {
            let khugepaged = of(&[sampling, "kernel.page_size_policy=khugepaged"], 50_000);
            only(
                cautions(&[khugepaged], &[]),
                "mine was sampled, and 95% of its region ran without time, where each instruction counts as one cycle in \
                 `kernel.khugepaged_period`",
            );
            assert_eq!(untimed_daemons(&of(&[sampling], 50_000)), None, "there is no daemon");
        }
        let timed = of(&["run.sampling=windows", "kernel.page_size_policy=khugepaged"], 1_000_000);
        assert_eq!(untimed_daemons(&timed), None, "all of it ran with time");
    }

    #[test]
    fn transients_are_named() {
        let mut promoting = run("daemon", 0.5, &[]);
        promoting.counters.insert("kernel.cycles.copy".into(), 300_000);
        assert!(cautions(&[promoting.clone()], &[]).is_empty(), "copy-on-write copies too");
        promoting.counters.insert("kernel.promotions".into(), 40);
        only(cautions(&[promoting], &[]), "daemon spends 15% of its cycles on copying pages into 40.0 huge pages");
        let mut rising = run("daemon", 0.6, &[]);
        let mut at = 0;
        rising.windows.iter_mut().enumerate().for_each(|(i, point)| {
            at += if i < 7 { 110_000 } else { 70_000 };
            point.1 = at;
        });
        only(cautions(&[run("radix", 0.5, &[]), rising], &[]), "is 0.9");
    }
}
