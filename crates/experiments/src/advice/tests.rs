use super::*;
use ambulator_base::MapKind;
use ambulator_simulator::{Misses, Profile, ProfiledCode, ProfiledMapping};

/// A run whose cycles per instruction are these parts; each of 20 windows has 1000 instructions.
fn run(design: &str, parts: &[(&str, f64)]) -> RunResult {
    let cpi: f64 = parts.iter().map(|(_, cycles)| cycles).sum();
    let windows: Vec<(u64, u64)> = (1..=20).map(|i| (i * 1000, (i as f64 * 1000.0 * cpi) as u64 + i % 2)).collect();
    let mut run = RunResult {
        design: design.into(),
        program: "sort".into(),
        simulated_instructions: 20_000,
        ipc: 1.0 / cpi,
        cycles: (20_000.0 * cpi) as u64,
        windows,
        spec: serde_json::json!({"dram": {"channels": 2}}),
        ..RunResult::default()
    };
    run.measures = parts.iter().map(|(part, cycles)| (format!("cpi_{part}"), *cycles)).collect();
    run.measures.insert("cpi".into(), cpi);
    run
}

fn advice<'a>(base: &'a RunResult, bound: Option<&'a RunResult>, remedies: &'a [RunResult]) -> Advice {
    let remedy = |(at, run): (usize, &'a RunResult)| Remedy {
        label: run.design.clone(),
        how: if at == 0 { "Write it down.".into() } else { String::new() },
        kind: if at == 0 { RemedyKind::KernelSetting } else { RemedyKind::Design },
        run,
    };
    let remedies = remedies.iter().enumerate().map(remedy).collect();
    let place = &mut |file: &str, offset: u64| {
        (file == "/bin/sort").then(|| Place {
            function: format!("f{}", offset / 100),
            source: "a/sort.c".into(),
            line: 7,
        })
    };
    Advice::of(Evidence { base, bound, remedies, place, doubts: Vec::new() }).unwrap()
}

fn said(advice: &Advice) -> String {
    let text = |piece: Piece| match piece {
        Piece::Heading(text) | Piece::Sentence(text) | Piece::Table(text) => text,
    };
    advice.page(None).into_iter().map(text).collect::<Vec<_>>().join("\n")
}

fn with_profile(mut run: RunResult) -> RunResult {
    let misses = |walks| Misses { l2_tlb_misses: walks, walks, walk_cycles: 40 * walks, ..Misses::default() };
    let mapping = |name: &str, start, bytes, kind, walks| ProfiledMapping {
        name: name.into(),
        start,
        bytes,
        kind: Some(kind),
        misses: misses(walks),
    };
    let code = |pc, file_offset, mapping, walks| ProfiledCode {
        pc,
        file: "/bin/sort".into(),
        file_offset,
        mapping,
        misses: misses(walks),
    };
    run.profile = Some(Profile {
        mappings: vec![
            mapping("", 0x20_0000, 8 << 20, MapKind::Anonymous, 700),
            mapping("", 0x70_0000_1000, 1 << 20, MapKind::Heap, 200),
            mapping("/lib/libc.so.6", 0x90_0000_0000, 1 << 20, MapKind::File, 60),
            mapping("", 0xa0_0000_0000, 1 << 20, MapKind::Stack, 3),
        ],
        other_mappings: misses(37),
        code: vec![code(0x100, 100, Some(0), 500), code(0x104, 104, Some(0), 200), code(0x300, 300, Some(1), 200)],
        other_code: misses(100),
    });
    run
}

#[test]
fn long_walks_and_many_misses_are_told_apart() {
    let bound = run("bound", &[("base", 0.5), ("dram", 1.0)]);
    let of = |near: u64, far: u64| {
        let mut base = run("today", &[("base", 0.5), ("walk", 1.0), ("dram", 1.0)]);
        base.counters.insert("core.window.stack_walk_l2".into(), near);
        base.counters.insert("core.window.stack_walk_dram".into(), far);
        base
    };
    for (base, kind) in [(of(10, 90), LimitKind::WalkLatency), (of(90, 10), LimitKind::TlbReach)] {
        let advice = advice(&base, Some(&bound), &[]);
        let limit = &advice.limits[1];
        assert_eq!((advice.limits[0].kind, limit.kind), (LimitKind::DataLatency, kind));
        assert!((limit.share - 0.4).abs() < 1e-3, "{limit:?}");
        let page = said(&advice);
        assert!(page.contains("at most 40% of its time: with TLBs that never miss"), "{page}");
        assert!(page.contains("It is also limited by the latency of data (40% of its cycles)"), "{page}");
    }
}

#[test]
fn what_is_no_limit_of_translation_is_said_to_be_none() {
    let base = run("today", &[("base", 0.5), ("dram", 1.5)]);
    let mut full = base.clone();
    full.counters.insert("hierarchy.dram.bus_busy".into(), 70_000);
    for (base, kind) in [(&base, LimitKind::DataLatency), (&full, LimitKind::Bandwidth)] {
        let advice = advice(base, Some(base), &[]);
        assert_eq!(advice.limits.iter().map(|limit| limit.kind).collect::<Vec<_>>(), [kind]);
        assert!(said(&advice).contains("It has no problem with translation"), "{}", said(&advice));
    }
    let faults = run("today", &[("base", 0.5), ("os", 4.5)]);
    let advice = advice(&faults, Some(&faults), &[]);
    assert_eq!((advice.limits[0].kind, advice.limits.len()), (LimitKind::Faults, 1));
    assert!((advice.limits[0].share - 0.9).abs() < 1e-9);
}

#[test]
fn remedies_are_judged_beyond_their_intervals() {
    let base = run("today", &[("base", 1.0), ("walk", 1.0)]);
    let mut failed = run("broken", &[("base", 1.0)]);
    (failed.status, failed.outcome) = (Status::Failed, Some("it has no memory".into()));
    let tried = [
        run("THP", &[("base", 1.0), ("walk", 0.25)]),
        run("ranges", &[("base", 1.0), ("walk", 0.5)]),
        run("ranges too", &[("base", 1.0), ("walk", 0.5)]),
        run("same", &[("base", 1.0), ("walk", 1.0)]),
        run("slow", &[("base", 1.0), ("walk", 3.0)]),
        failed,
    ];
    let advice = advice(&base, None, &tried);
    let judgements: Vec<Judgement> = advice.remedies.iter().map(|of| of.judgement).collect();
    let helps = Judgement::Helps;
    let expected = [helps, helps, helps, Judgement::NoDifference, Judgement::Slower, Judgement::Unknown];
    assert_eq!(judgements, expected);
    let page = said(&advice);
    for sentence in [
        "Of today's kernel, THP helps most: 1.600 times as fast (95% interval 1.600 to 1.600). Write it down.",
        "In hardware, ranges helps most: 1.333 times as fast (95% interval 1.333 to 1.333). Just as good: ranges too.",
        "No difference beyond the interval: same.",
        "Slower: slow (0.500x).",
        "broken could not be judged: it has no memory.",
        "The bound by a perfect TLB did not run",
    ] {
        assert!(page.contains(sentence), "{sentence}\n{page}");
    }
}

#[test]
fn shares_of_data_and_of_code_are_a_hundred_percent() {
    let base = with_profile(run("today", &[("base", 1.0), ("walk", 1.0)]));
    let advice = advice(&base, Some(&base), &[]);
    let names: Vec<&str> = advice.structures.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["anonymous mapping at 0x200000", "heap at 0x7000001000", "/lib/libc.so.6", "all others"]);
    let sum = |shares: Vec<f64>| shares.iter().sum::<f64>();
    assert!((sum(advice.structures.iter().map(|of| of.shares.walk_cycles).collect()) - 1.0).abs() < 1e-9);
    assert!((sum(advice.code.iter().map(|of| of.shares.l2_tlb_misses).collect()) - 1.0).abs() < 1e-9);
    // Two instructions of one line on one structure are one row.
    assert_eq!(advice.code.len(), 3, "{:?}", advice.code);
    assert!((advice.code[0].shares.walk_cycles - 0.7).abs() < 1e-9);
    // The heap is smaller than 2 MiB; the large mapping is aligned.
    assert!((advice.outside_2m - 0.2).abs() < 1e-9, "{}", advice.outside_2m);
    let page = said(&advice);
    for part in
        ["f1 (sort.c:7)", "all other code", "8 MiB", "70%", "Alignment: 20%", "6% of the walk cycles are in mapped"]
    {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn what_cannot_be_told_is_said() {
    let base = run("today", &[("base", 1.0), ("walk", 1.0)]);
    let doubts = |bound: &RunResult| advice(&base, Some(bound), &[]).doubts.join("\n");
    assert!(doubts(&base).contains("Whether translation costs time cannot be told: 50%"), "{}", doubts(&base));
    let mut short = run("bound", &[("base", 1.0)]);
    short.windows.clear();
    assert!(doubts(&short).contains("too short for intervals"), "{}", doubts(&short));
    let mut nameless = with_profile(base.clone());
    for code in &mut nameless.profile.as_mut().unwrap().code {
        code.file = String::new();
    }
    let advice = advice(&nameless, Some(&run("bound", &[("base", 1.0)])), &[]);
    assert!(advice.doubts[0].contains("Functions and lines are not known"), "{:?}", advice.doubts);
    let mut ended = base.clone();
    ended.status = Status::Interrupted;
    let place = &mut |_: &str, _: u64| None;
    let evidence = Evidence { base: &ended, bound: None, remedies: Vec::new(), place, doubts: Vec::new() };
    assert!(Advice::of(evidence).is_none());
}
