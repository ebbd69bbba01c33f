//! Every setting of every spec at its extremes: a clear error, or a run that neither panics nor wraps. The
//! settings are those of the tree that specs are read by, so that a new setting is tested as it is declared.

use crate::support;
use ambulator_base::{Invalid, RecordSource};
use ambulator_simulator::spec::{Kind, PresetKind, Sampling, Setting, Spec, SpecRequest, load, presets, tree};
use ambulator_simulator::{Comparison, Job, Silent, Status, compare};
use serde_json::{Number, Value};
use std::sync::{Arc, OnceLock};
use support::{DATA, Scripted};

/// A small machine.
const SMALL: &[&str] = &[
    "memory.bytes=64MiB",
    "l2.bytes=64KiB",
    "llc.bytes=128KiB",
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
        if i % 3 == 0 {
            program.store(va)
        } else {
            program.load(va)
        };
    }
    program.pause();
    program
}

/// The texts of values at the extremes of a setting, and whether each is in its range.
fn extremes(setting: &Setting) -> Vec<(String, bool)> {
    let texts: Vec<String> = match &setting.kind {
        Kind::Integer { least, greatest } => {
            let mut all =
                vec![-1, 0, 1, *least, *greatest, *greatest + 1, i128::from(u64::MAX), i128::from(u64::MAX) + 1];
            all.sort_unstable();
            all.dedup();
            all.into_iter().map(|value| value.to_string()).collect()
        }
        Kind::Float { least, greatest } => {
            let mut all = vec![-1.0, 0.0, 1e-300, 1.0, f64::MAX, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            all.extend(
                [*least, *greatest, least.next_down(), greatest.next_up()].into_iter().filter(|end| end.is_finite()),
            );
            let mut texts: Vec<String> =
                all.into_iter().map(|value| format!("{value:?}").replace("NaN", "nan")).collect();
            texts.sort_unstable();
            texts.dedup();
            texts
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
            let number = text.parse::<i128>().ok().and_then(Number::from_i128);
            let number = number.or_else(|| Number::from_f64(text.parse().ok()?));
            number.is_some_and(|number| range.contains(&number.into()))
        }
        None => true,
    };
    texts
        .into_iter()
        .map(|text| {
            let right = matches!(setting.kind, Kind::List(_)) || in_range(&text);
            (text, right)
        })
        .collect()
}

fn read(design: &str, more: &[String]) -> Result<Spec, String> {
    let options = SMALL.iter().map(|text| (*text).to_owned()).chain(more.iter().cloned()).collect();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    load(&request).map(|loaded| loaded.spec).map_err(|error| error.to_string())
}

/// A preset that has the design with these settings in a socket.
fn preset_with(group: &str) -> Option<&'static str> {
    static SPECS: OnceLock<Vec<(&str, Spec)>> = OnceLock::new();
    let specs = SPECS.get_or_init(|| {
        let designs = presets().iter().filter(|preset| preset.kind == PresetKind::Design);
        designs.filter_map(|preset| Some((preset.name, read(preset.name, &[]).ok()?))).collect()
    });
    let holds = |spec: &Spec| spec.design.entries().iter().any(|(_, _, name)| name.replace('-', "_") == group);
    specs.iter().find(|(_, spec)| holds(spec)).map(|(name, _)| *name)
}

/// A preset's spec with one value changed, as a reader of specs never sees it.
fn changed(base: &Value, setting: &Setting, text: &str) -> Option<Spec> {
    let mut json = base.clone();
    *json.pointer_mut(&format!("/{}", setting.key.replace('.', "/")))? = match setting.kind {
        Kind::Float { .. } => Value::Number(Number::from_f64(text.parse().ok()?)?),
        _ => serde_json::from_str(text).ok()?,
    };
    serde_json::from_value(json).ok()
}

/// Runs the value of a setting on one preset; returns what is wrong.
fn try_value(design: &str, base: &Value, setting: &Setting, text: &str, in_range: bool) -> Option<String> {
    let context = format!("{}={text} on {design}", setting.key);
    let says = |error: &str, what: &[&str]| what.iter().any(|part| error.contains(part));
    let Some(spec) = changed(base, setting, text) else {
        // No value of the setting's type, such as a negative one.
        let error = match read(design, &[format!("{}={text}", setting.key)]) {
            Ok(_) => return Some(format!("{context}: accepted")),
            Err(error) => error,
        };
        let right = error.contains(&setting.key) && says(&error, &["must be", "takes a"]);
        return (!right).then(|| format!("{context}: an error that does not say what would be right: {error}"));
    };
    let problems = spec.validate();
    if !problems.is_empty() {
        let error = Invalid::lines(&problems);
        let named = problems
            .iter()
            .flat_map(Invalid::keys)
            .any(|key| setting.key.starts_with(key.split('[').next().unwrap_or(key)));
        let right = named && (in_range || says(&error, &["must be", "finite"]));
        return (!right).then(|| format!("{context}: an error that does not say what would be right: {error}"));
    }
    if !in_range {
        return Some(format!("{context}: accepted, but outside of its range"));
    }
    let cores = if spec.run.spread_threads { 1 } else { spec.machine.cores };
    let programs = (0..cores).map(|_| Box::new(program()) as Box<dyn RecordSource>).collect();
    let needs_plan = spec.run.sampling == Sampling::Phases;
    let jobs = vec![Job { design: design.into(), spec }];
    let outcome = compare(Comparison { jobs, programs, threads: 1, stop: Arc::default(), progress: Arc::new(Silent) });
    let run = match outcome {
        Ok(mut outcome) => outcome.runs.remove(0),
        Err(error) if needs_plan => {
            return (!error.to_string().contains("read twice")).then(|| format!("{context}: {error}"));
        }
        Err(error) => return Some(format!("{context}: {error}")),
    };
    let said = run.outcome.clone().unwrap_or_default();
    // A machine may be too small to boot; it says so.
    if run.status == Status::Failed && says(&said, &["the oracle", "invariant", "in a row"]) {
        return Some(format!("{context}: {said}"));
    }
    // A time that wraps is a run that ends before it began, or takes longer than anything can.
    if run.status == Status::Done && run.spec["run"]["mode"] == "timing" && !(1..1 << 56).contains(&run.cycles) {
        return Some(format!("{context}: {} cycles", run.cycles));
    }
    None
}

/// Tests the settings of the chosen groups: a design's own on a preset that has it, others on these.
fn extremes_of(chosen: impl Fn(&str) -> bool, designs: &[&str]) {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    let json = |design: &str| serde_json::to_value(read(design, &[]).unwrap()).unwrap();
    for group in tree().children().iter().filter(|group| chosen(&group.key)) {
        let own = if designs.is_empty() { preset_with(&group.key) } else { None };
        assert!(own.is_some() || !designs.is_empty(), "no preset has `{}`", group.key);
        let bases: Vec<(&str, Value)> = own.iter().chain(designs).map(|design| (*design, json(design))).collect();
        for setting in group.leaves() {
            for (text, in_range) in extremes(setting) {
                for (design, base) in &bases {
                    tried += 1;
                    wrong.extend(try_value(design, base, setting, &text, in_range));
                }
            }
            if let Kind::Integer { greatest, .. } = setting.kind {
                let error = read(bases[0].0, &[format!("{}={}", setting.key, greatest + 1)]).unwrap_err();
                let range = setting.kind.range().and_then(|range| range.words(&setting.unit)).unwrap();
                if ![format!("`{}` is", setting.key), range].iter().all(|part| error.contains(part)) {
                    wrong.push(error);
                }
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
    let most =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(most.is_none_or(|kib| kib < 8 << 20), "{most:?} KiB of memory");
}

const CACHES: &[&str] = &["l1i", "l1d", "l2", "llc", "dram", "nodes", "core"];
const MMU: &[&str] = &["mmu", "virtualization"];
const MEMORY: &[&str] = &["machine", "memory", "energy", "run"];
const KERNEL: &[&str] = &["kernel", "costs", "design"];

#[test]
fn cores_and_caches_at_their_extremes() {
    extremes_of(|group| CACHES.contains(&group), &["radix"]);
}

#[test]
fn mmus_at_their_extremes() {
    extremes_of(|group| MMU.contains(&group), &["nested"]);
}

/// On a machine that has a second node.
#[test]
fn memory_nodes_at_their_extremes() {
    let options = ["bytes=32MiB", "socket=1", "slow=true"].map(|own| format!("nodes.node1.{own}"));
    let numa = ["demotion=true", "balancing=hint-faults", "table_policy=interleave"];
    let options: Vec<String> = options.into_iter().chain(numa.map(|own| format!("kernel.numa.{own}"))).collect();
    let base = serde_json::to_value(read("radix", &options).unwrap()).unwrap();
    let groups = ["nodes", "kernel.numa"].map(|key| tree().find(key).unwrap());
    let settings: Vec<&Setting> = groups.iter().flat_map(|group| group.leaves()).collect();
    let values = settings.iter().flat_map(|setting| extremes(setting).into_iter().map(move |value| (*setting, value)));
    let wrong: Vec<String> =
        values.filter_map(|(setting, (text, in_range))| try_value("radix", &base, setting, &text, in_range)).collect();
    assert!(settings.len() > 50 && wrong.is_empty(), "{} settings: {}", settings.len(), wrong.join("\n"));
}

#[test]
fn machines_and_runs_at_their_extremes() {
    extremes_of(|group| MEMORY.contains(&group), &["radix"]);
}

#[test]
fn kernels_at_their_extremes() {
    extremes_of(|group| KERNEL.contains(&group), &["thp-khugepaged"]);
}

#[test]
fn designs_at_their_extremes() {
    extremes_of(|group| ![CACHES, MMU, MEMORY, KERNEL].concat().contains(&group), &[]);
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
