//! Every setting of every program at its extremes: an error that names it, or a stream. The settings are those
//! of the programs' schemas, so that a new setting is tested as it is declared.

use ambulator_base::{Batch, Invalid, Range};
use ambulator_workloads::{OpenError, ProgramDescriptor, open, program, programs};
use serde_json::{Map, Number, Value, json};

/// Batches of each stream: set-up and the first accesses.
const BATCHES: usize = 3;

/// Numbers with their dotted keys, and the range that each declares.
fn numbers(schema: &Value, definitions: &Value, at: &str, found: &mut Vec<(String, String, Range)>) {
    let target = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    let target = target.map_or(schema, |name| &definitions[name]);
    for (name, below) in target["properties"].as_object().into_iter().flatten() {
        let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        numbers(below, definitions, &key, found);
    }
    if let Some(range) = Range::of(target) {
        found.push((at.into(), target["type"].as_str().unwrap_or_default().into(), range));
    }
}

/// The settings of a program with one value, and a small footprint. Graphs take longest to generate;
/// memcached needs pages for each size of values.
fn settings(of: &ProgramDescriptor, key: &str, value: &Value) -> Map<String, Value> {
    let footprint = if GRAPHS.contains(&of.info.name) { 1 << 20 } else { 24 << 20 };
    let mut settings = json!({ "footprint": footprint });
    if GRAPHS.contains(&of.info.name) && key != "footprint" {
        settings["graph"] = json!({ "vertices": 64 });
    }
    let (group, rest) = key.split_once('.').map_or((None, key), |(group, rest)| (Some(group), rest));
    match group {
        Some(group) => settings[group][rest] = value.clone(),
        None => settings[key] = value.clone(),
    }
    settings.as_object().cloned().unwrap_or_default()
}

fn extremes(schema: &Value, kind: &str) -> Vec<Value> {
    let bound = |name: &str| schema.get(name).cloned();
    let ends = [bound("minimum"), bound("maximum")].into_iter().flatten();
    let mut all: Vec<Value> = ends.clone().collect();
    if kind == "integer" {
        all.extend([json!(0), json!(1), json!(-1), json!(u64::MAX), json!(i64::MIN)]);
        all.extend(ends.filter_map(|end| Some(json!(end.as_u64()?.checked_add(1)?))));
        all.extend(bound("minimum").and_then(|least| Some(json!(least.as_i64()? - 1))));
    } else {
        all.extend([
            json!(0.0),
            json!(-0.1),
            json!(1e-300),
            json!(1.0),
            json!(f64::MAX),
            json!(-f64::MAX),
            Value::Null,
        ]);
        all.extend(ends.filter_map(|end| Number::from_f64(end.as_f64()?.next_up()).map(Value::Number)));
    }
    let mut distinct: Vec<Value> = Vec::new();
    all.into_iter().for_each(|value| {
        if !distinct.contains(&value) {
            distinct.push(value)
        }
    });
    distinct
}

/// The schema of the setting with a dotted key.
fn schema_of(of: &ProgramDescriptor, key: &str) -> Value {
    let schema = of.schema();
    let definitions = schema["$defs"].clone();
    key.split('.').fold(schema, |at, name| {
        let below = at["properties"][name].clone();
        match below["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            Some(of) => definitions[of].clone(),
            None => below,
        }
    })
}

/// What is wrong with a program whose setting has this value.
fn try_value(of: &ProgramDescriptor, key: &str, value: &Value, range: &Range) -> Option<String> {
    let context = format!("{}.{key} = {value}", of.info.name);
    let opened = of.program(&settings(of, key, value), None, 1).and_then(|program| program.open());
    match opened {
        Ok(_) if !range.contains(value) => Some(format!("{context}: accepted, but outside of its range")),
        Ok(mut source) => {
            let mut batch = Batch::default();
            for _ in 0..BATCHES {
                match source.fill(&mut batch) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return Some(format!("{context}: {}", error.message)),
                }
            }
            None
        }
        // No number at all.
        Err(OpenError::Settings { .. }) if value.is_null() => None,
        Err(error) => {
            let text = error.to_string();
            let names_it = match &error {
                OpenError::Invalid(all) => all.iter().flat_map(Invalid::keys).any(|named| named.ends_with(key)),
                _ => false,
            };
            (!names_it || !["must", "finite", "raise", "set ", "need"].iter().any(|words| text.contains(words)))
                .then(|| format!("{context}: an error that does not say what would be right: {text}"))
        }
    }
}

fn extremes_of(chosen: impl Fn(&str) -> bool) {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for of in programs().iter().filter(|of| chosen(of.info.name)) {
        let schema = of.schema();
        let mut found = Vec::new();
        numbers(&schema, &schema["$defs"], "", &mut found);
        assert!(found.iter().any(|(key, ..)| key == "footprint"), "{}: {found:?}", of.info.name);
        // The groups of graph programs are of the same types in all.
        let groups_too = !GRAPHS.contains(&of.info.name) || ["bfs", "sssp"].contains(&of.info.name);
        for (key, kind, range) in found.iter().filter(|(key, ..)| groups_too || !key.contains('.')) {
            for value in extremes(&schema_of(of, key), kind) {
                tried += 1;
                wrong.extend(try_value(of, key, &value, range));
            }
        }
    }
    assert!(tried > 0);
    assert!(wrong.is_empty(), "{} of {tried}\n{}", wrong.len(), wrong.join("\n"));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(most.is_none_or(|kib| kib < 8 << 20), "{most:?} KiB of memory");
}

/// Programs on generated graphs.
const GRAPHS: &[&str] = &["bc", "bfs", "cc", "dc", "dfs", "gc", "pagerank", "sssp", "tc"];

#[test]
fn graph_programs_at_their_extremes() {
    extremes_of(|name| GRAPHS.contains(&name));
}

#[test]
fn programs_at_their_extremes() {
    extremes_of(|name| !GRAPHS.contains(&name));
}

#[test]
fn every_number_but_a_seed_has_a_most() {
    for of in programs() {
        let schema = of.schema();
        let mut found = Vec::new();
        numbers(&schema, &schema["$defs"], "", &mut found);
        for (key, ..) in found.iter().filter(|(key, ..)| key != "seed") {
            assert!(schema_of(of, key).get("maximum").is_some(), "{}.{key} declares no range", of.info.name);
        }
    }
}

#[test]
fn an_error_names_key_value_and_range() {
    let error = |key: &str, value: Value| {
        let of = program("memcached").unwrap();
        let opened = of.program(&settings(of, key, &value), None, 1).and_then(|program| program.open());
        opened.err().unwrap().to_string()
    };
    assert_eq!(error("key_bytes", json!(u32::MAX)), "`memcached.key_bytes` is 4294967295; it must be from 1 to 250");
    assert_eq!(error("gets", json!(1.5)), "`memcached.gets` is 1.5; it must be from 0.0 to 1.0");
    let huge =
        ambulator_workloads::ProgramRequest { name: "gups".into(), footprint: Some(u64::MAX), ..Default::default() };
    let huge = open(&huge).err().unwrap().to_string();
    assert_eq!(huge, "`gups.footprint` is 18446744073709551615; it must be from 1MiB to 16TiB");
}
