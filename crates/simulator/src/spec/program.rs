//! Programs and their settings: programs by name, workloads (presets of their settings) and traces.

use super::layer::{Layers, settings_of_option};
use super::load::{is_path, read};
use super::preset::{PresetKind, preset, presets};
use super::problem::{Problem, Source, SpecError};
use super::quantity::show_size;
use super::schema::{Kind, Setting, Since};
use ambulator_base::{excerpt, nearest};
use ambulator_trace::TraceOptions;
use ambulator_workloads::ProgramRequest;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The group of settings for reading traces.
const TRACE: &str = "trace";

/// The settings of all programs: one group per program, under its name, and one for traces.
pub fn program_tree() -> &'static Setting {
    static TREE: OnceLock<Setting> = OnceLock::new();
    TREE.get_or_init(|| {
        let mut groups: Vec<Setting> = ambulator_workloads::programs()
            .iter()
            .map(|program| Setting::below(program.info.name.into(), &program.schema(), program.default_settings()))
            .collect();
        let schema = serde_json::to_value(schemars::schema_for!(TraceOptions)).unwrap_or_default();
        let default = serde_json::to_value(TraceOptions::default()).unwrap_or_default();
        groups.push(Setting::below(TRACE.into(), &schema, default));
        Setting {
            key: String::new(),
            meaning: "Programs".into(),
            unit: "group".into(),
            source: None,
            default: Value::Null,
            optional: false,
            since: Since::Begin,
            kind: Kind::Group(groups),
        }
    })
}

/// The request for a program. `name` is a program, a workload (a preset, or a TOML file with a `program`
/// key), or the path of a trace file; `options` are `key=value` texts that override its settings. A key may
/// begin with the name of a program, or `trace`: it is for that program only, and ignored for others
/// ([`option_program`]).
///
/// # Errors
/// An unknown key with the nearest valid one, an invalid value, a key that is given two values, a workload of
/// an unknown program: each with its place. A name that is neither a program nor a workload nor a path, with
/// the nearest valid one. A path is taken as that of a trace, which is checked when it is opened.
pub fn program_request(
    name: &str,
    options: &[String],
    footprint: Option<u64>,
    seed: u64,
) -> Result<ProgramRequest, SpecError> {
    let mut request = ProgramRequest { name: name.into(), footprint, seed, ..ProgramRequest::default() };
    let workload = match preset(PresetKind::Workload, name) {
        Some(found) => Some(found.source.clone()),
        None if is_path(name) && name.ends_with(".toml") => Some(read(Path::new(name))?),
        None => None,
    };
    let mut below: Vec<Arc<Source>> = Vec::new();
    if let Some(source) = workload {
        // The label of a file is its stem; that of a preset is its name, which may contain a dot.
        let stem = Path::new(name).file_stem().filter(|_| preset(PresetKind::Workload, name).is_none());
        request.label = Some(stem.map_or(name.into(), |stem| stem.to_string_lossy().into_owned()));
        request.name = bases(&source, &mut below)?;
    }
    let known = request.label.is_some() || ambulator_workloads::program(name).is_some();
    if !known && !Path::new(name).exists() {
        let nearest = nearest(name, program_names());
        // A name that looks like a path is an error about the file.
        if nearest.is_some() || !looks_like_a_path(name) {
            let title = format!("there is no program, workload or trace file `{}`", excerpt(name));
            return Err(Problem::new(title)
                .help(match nearest {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!(
                        "the programs are: {}; `ambulator list workloads` names those with the papers' settings",
                        ambulator_workloads::programs()
                            .iter()
                            .map(|known| known.info.name)
                            .collect::<Vec<_>>()
                            .join(", ")
                    ),
                })
                .into());
        }
    }
    let programs = program_tree();
    let group = if ambulator_workloads::program(&request.name).is_some() { request.name.as_str() } else { TRACE };
    let Some(settings) = programs.child(group) else {
        return Err(Problem::new(format!("the program `{group}` has no settings")).into());
    };
    let mut layers = Layers::new(settings).with_option("--program-set");
    for source in below.iter().rev() {
        layers.add_toml(source);
    }
    let mut given: Vec<(String, Value, String)> = Vec::new();
    if let Some(bytes) = footprint {
        let flag = format!("--footprint {}", show_size(bytes));
        given.push((format!("{group}.footprint"), Value::from(bytes), flag));
    }
    for option in options {
        let option = match option_program(option) {
            Some(program) if program == group => &option.trim_start()[program.len() + 1..],
            Some(_) => continue,
            None => option.as_str(),
        };
        let shown = format!("--program-set {option}");
        for (key, value) in settings_of_option(settings, option) {
            match given.iter().find(|(other, ..)| *other == key) {
                Some((_, before, flag)) if *before != value => {
                    let title = format!("`{flag}` and `{shown}` contradict each other: both set `{key}`");
                    layers.problem(Problem::new(title).help("give one of them"));
                }
                _ => given.push((key, value, shown.clone())),
            }
        }
        layers.add_option(option);
    }
    for (key, value) in layers.settings()? {
        put(&mut request.settings, key.split('.').skip(1), value);
    }
    Ok(request)
}

/// The names of programs and workloads.
fn program_names() -> impl Iterator<Item = &'static str> {
    let workloads = presets().iter().filter(|preset| preset.kind == PresetKind::Workload).map(|preset| preset.name);
    ambulator_workloads::programs().iter().map(|program| program.info.name).chain(workloads)
}

/// Whether a name is rather that of a file than that of a program.
fn looks_like_a_path(name: &str) -> bool {
    let path = Path::new(name);
    path.components().count() > 1 || path.extension().is_some()
}

/// The program (or `trace`) that the key of a `key=value` option begins with, as in `bfs.layout=csr`.
pub fn option_program(option: &str) -> Option<&'static str> {
    let key = option.split('=').next()?;
    let (first, _) = key.split_once('.')?;
    program_tree().child(first.trim()).map(Setting::name)
}

/// Inserts a value at the path given by the parts of its key.
fn put<'k>(map: &mut Map<String, Value>, mut parts: impl Iterator<Item = &'k str>, value: Value) {
    let Some(part) = parts.next() else { return };
    let mut rest = parts.peekable();
    if rest.peek().is_none() {
        map.insert(part.into(), value);
    } else if let Value::Object(below) = map.entry(part).or_insert_with(|| Value::Object(Map::new())) {
        put(below, &mut rest as &mut dyn Iterator<Item = &str>, value);
    }
}

/// Collects the texts of a workload and its bases, its own first, and returns the program that they run.
fn bases(source: &Arc<Source>, texts: &mut Vec<Arc<Source>>) -> Result<String, SpecError> {
    /// A longer chain of bases is a cycle.
    const MAX_DEPTH: usize = 16;
    if texts.len() > MAX_DEPTH {
        return Err(Problem::new(format!("the workload `{}` is based on itself", source.name)).into());
    }
    texts.push(source.clone());
    let header = Layers::header(program_tree(), source);
    let mut program = header.program;
    for (name, place) in header.base {
        let Some(found) = preset(PresetKind::Workload, &name) else {
            let known: Vec<&str> =
                presets().iter().filter(|p| p.kind == PresetKind::Workload).map(|p| p.name).collect();
            let problem = Problem::new(format!("there is no workload preset `{name}` to use as the base"))
                .help(format!("there are: {}", known.join(", ")));
            return Err(Problem { place: Some(place), ..problem }.into());
        };
        let of_base = bases(&found.source, texts)?;
        program.get_or_insert((of_base, place));
    }
    let Some((program, place)) = program else {
        return Err(Problem::new(format!("the workload `{}` does not set its `program`", source.name))
            .help("write `program = \"gups\"`, or another program of `ambulator list programs`")
            .at(source, 0..0)
            .into());
    };
    if ambulator_workloads::program(&program).is_none() {
        let known: Vec<&str> = ambulator_workloads::programs().iter().map(|known| known.info.name).collect();
        let problem = Problem::new(format!("the workload `{}` runs `{program}`, which is not a program", source.name));
        let problem = problem.help(match nearest(&program, known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("there are: {}", known.join(", ")),
        });
        return Err(Problem { place: Some(place), ..problem }.into());
    }
    Ok(program)
}
