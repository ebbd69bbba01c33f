//! Every setting of every spec at its extremes: a clear error, or a run that neither panics nor wraps. The
//! settings are those of the tree that specs are read by, so that a new setting is tested as it is declared.

mod support;
use ambulator_simulator::spec::{Kind, PresetKind, Setting, Spec, SpecRequest, load, presets, tree};
use ambulator_simulator::{Comparison, Job, Silent, Status, compare};
use std::sync::Arc;
use support::{DATA, Scripted};

/// A small machine.
const SMALL: &[&str] = &[
    "memory.bytes=64MiB",
    "l1i.bytes=4KiB",
    "l1d.bytes=4KiB",
    "l2.bytes=8KiB",
    "llc.bytes=16KiB",
    "utopia.segments=[\"8MiB/4KiB/4\"]",
    "pom_tlb.entries=1024",
    "run.warmup=0",
    "run.instructions=20000",
];

/// Faults, huge pages, loads and stores, an unmapped and mapped again range.
fn program() -> Scripted {
    let mut program = Scripted::new(8 << 20);
    program.touch(DATA, 4 << 20, true).begin();
    for i in 0..400_u64 {
        let va = DATA + i * 1_103_515_245 % (8 << 20) / 64 * 64;
        if i % 3 == 0 { program.store(va) } else { program.load(va) };
    }
    program.pause();
    program
}

/// The texts of values at the extremes of a setting, and whether each is in its range.
fn extremes(setting: &Setting) -> Vec<(String, bool)> {
    let texts: Vec<String> = match &setting.kind {
        Kind::Integer { least, greatest } => {
            let mut all = vec![-1, 0, 1, *least, *greatest, *greatest + 1, i128::from(u64::MAX), i128::from(u64::MAX) + 1];
            all.sort_unstable();
            all.dedup();
            all.into_iter().map(|value| value.to_string()).collect()
        }
        Kind::Float { least, greatest } => {
            let mut all = vec![-1.0, 0.0, 1e-300, 1.0, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            all.extend([*least, *greatest, least.next_down(), greatest.next_up()].into_iter().filter(|end| end.is_finite()));
            all.into_iter().map(|value| format!("{value:?}").replace("NaN", "nan")).collect()
        }
        Kind::List(of) => match **of {
            Kind::Integer { least, greatest } => [vec![], vec![least], vec![greatest], vec![greatest + 1], vec![0]]
                .map(|items| format!("{items:?}"))
                .to_vec(),
            _ => vec!["[]".into(), "[\"\"]".into(), format!("[\"{0}/{0}/{0}\"]", u64::MAX)],
        },
        Kind::Flag => vec!["false".into(), "true".into()],
        Kind::Choice(choices) => choices.iter().map(|choice| format!("\"{}\"", choice.name)).collect(),
        Kind::Text | Kind::Group(_) => Vec::new(),
    };
    let in_range = |text: &str| match setting.kind.range() {
        Some(range) => {
            let number = text.parse::<i128>().ok().and_then(serde_json::Number::from_i128);
            let number = number.or_else(|| serde_json::Number::from_f64(text.parse().ok()?));
            number.is_some_and(|number| range.contains(&number.into()))
        }
        None => true,
    };
    texts.into_iter().map(|text| { let right = matches!(setting.kind, Kind::List(_)) || in_range(&text); (text, right) }).collect()
}

fn read(design: &str, more: &[String]) -> Result<Spec, String> {
    let options = SMALL.iter().map(|text| (*text).to_owned()).chain(more.iter().cloned()).collect();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    load(&request).map(|loaded| loaded.spec).map_err(|error| error.to_string())
}

/// A preset that has the design in a socket.
fn preset_with(group: &str) -> Option<&'static str> {
    let mut designs = presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name);
    designs.find(|preset| {
        read(preset, &[]).is_ok_and(|spec| spec.design.entries().iter().any(|(_, _, name)| name.replace('-', "_") == group))
    })
}

/// Runs the value of a setting on one preset; returns what is wrong.
fn try_value(design: &str, setting: &Setting, text: &str, in_range: bool) -> Option<String> {
    let context = format!("{}={text} on {design}", setting.key);
    let spec = match read(design, &[format!("{}={text}", setting.key)]) {
        Ok(_) if !in_range => return Some(format!("{context}: accepted, but outside of its range")),
        Ok(spec) => spec,
        Err(error) if !error.contains(&setting.key) => return Some(format!("{context}: an error without the key: {error}")),
        Err(error) if !in_range && !["must be", "not an integer", "takes an integer", "takes a number"].iter().any(|words| error.contains(words)) => {
            return Some(format!("{context}: an error without what would be right: {error}"));
        }
        Err(_) => return None,
    };
    let programs = (0..spec.machine.cores).map(|_| Box::new(program()) as Box<dyn ambulator_base::RecordSource>);
    let programs = if spec.run.spread_threads { vec![Box::new(program()) as Box<dyn ambulator_base::RecordSource>] } else { programs.collect() };
    let jobs = vec![Job { design: design.into(), spec }];
    let outcome = match compare(Comparison { jobs, programs, threads: 1, stop: Arc::default(), progress: Arc::new(Silent) }) {
        Ok(outcome) => outcome,
        Err(error) => return Some(format!("{context}: {error}")),
    };
    let run = &outcome.runs[0];
    let said = run.outcome.clone().unwrap_or_default();
    if run.status == Status::Failed {
        return Some(format!("{context}: {said}"));
    }
    // A time that wraps is a run that ends before it began, or takes longer than anything can.
    if run.status == Status::Done && run.spec["run"]["mode"] == "timing" && !(1..1 << 56).contains(&run.cycles) {
        return Some(format!("{context}: {} cycles", run.cycles));
    }
    None
}

/// Tests the settings whose key has one of these beginnings, or none of them.
fn extremes_of(chosen: impl Fn(&str) -> bool, designs: &[&str]) {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for setting in tree().leaves() {
        let group = setting.key.split('.').next().unwrap_or_default();
        if !chosen(group) {
            continue;
        }
        let own = preset_with(group);
        for (text, in_range) in extremes(setting) {
            for design in own.map_or(designs.to_vec(), |own| vec![own]) {
                tried += 1;
                wrong.extend(try_value(design, setting, &text, in_range));
            }
        }
    }
    assert!(tried > 0);
    assert!(wrong.is_empty(), "{} of {tried}\n{}", wrong.len(), wrong.join("\n"));
    assert_memory_stayed_small();
}

/// The most memory that this process has had must be what a small sim host has.
fn assert_memory_stayed_small() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(most.is_none_or(|kib| kib < 8 << 20), "{most:?} KiB of memory");
}

const CACHES: &[&str] = &["l1i", "l1d", "l2", "llc", "dram"];
const MACHINE: &[&str] = &["machine", "core", "mmu", "memory", "virtualization"];
const SYSTEM: &[&str] = &["kernel", "costs", "energy", "design", "run"];

#[test]
fn caches_and_main_memory_at_their_extremes() {
    extremes_of(|group| CACHES.contains(&group), &["radix"]);
}

#[test]
fn machines_at_their_extremes() {
    extremes_of(|group| MACHINE.contains(&group), &["radix", "nested"]);
}

#[test]
fn kernels_costs_and_runs_at_their_extremes() {
    extremes_of(|group| SYSTEM.contains(&group), &["thp-khugepaged"]);
}

#[test]
fn designs_at_their_extremes() {
    extremes_of(|group| ![CACHES, MACHINE, SYSTEM].concat().contains(&group), &[]);
}

#[test]
fn every_number_but_a_seed_has_a_most() {
    let open_ended: Vec<&str> = (tree().leaves().into_iter())
        .filter(|setting| setting.unit != "seed")
        .filter(|setting| match &setting.kind {
            Kind::Integer { greatest, .. } => [u8::MAX.into(), u32::MAX.into(), u64::MAX].contains(&(*greatest as u64)),
            Kind::Float { least, greatest } => !least.is_finite() || !greatest.is_finite(),
            _ => false,
        })
        .map(|setting| setting.key.as_str())
        .collect();
    assert!(open_ended.is_empty(), "declare `range(...)` beside {open_ended:?}");
}
