//! What the options of `run` and `compare` ask for together: whatever is asked for is done, or it is an
//! error.

use crate::Failure;
use crate::arguments::{MachineArguments, ProgramArguments};
use ambulator_base::{InputFiles, split_names};
use ambulator_simulator::Job;
use ambulator_simulator::spec::{self, PresetKind, SpecRequest, load, option_program, option_settings, parse_count};
use ambulator_workloads::ProgramRequest;
use serde_json::Value;
use std::path::Path;

/// The period of `--sampling` without one.
pub const SAMPLE_PERIOD: &str = "10M";

/// The programs of a mix: names or trace files between commas.
pub fn program_names(arguments: &ProgramArguments) -> Vec<&str> {
    let known =
        |name: &str| ambulator_workloads::program(name).is_some() || spec::preset(PresetKind::Workload, name).is_some();
    let list = arguments.program.as_deref().unwrap_or_default();
    split_names(list, ',', known, is_file).into_iter().filter(|name| !name.is_empty()).collect()
}

/// The designs of a comparison: presets, joined presets or files between commas.
pub fn design_names(lists: &[String]) -> Vec<String> {
    let known = |name: &str| name.split('+').all(|part| spec::preset(PresetKind::Design, part.trim()).is_some());
    lists.iter().flat_map(|list| split_names(list, ',', known, is_file)).map(str::to_owned).collect()
}

/// Whether a program's name is the path of a trace (a file, or a directory with a file for each thread) or of
/// a workload.
pub fn is_file(name: &str) -> bool {
    Path::new(name).is_file() || Path::new(name).is_dir()
}

/// Checks that options which only `--live` has a use for are not given without it.
pub fn check_live(arguments: &ProgramArguments) -> Result<(), Failure> {
    if arguments.live {
        return Ok(());
    }
    let program = arguments.program.as_deref().unwrap_or_default();
    if let [first, ..] = arguments.command.as_slice() {
        return Err(Failure::bad(format!(
            "`{program}` takes no arguments, but `{first}` stands after `--`: to run a program of this machine, write \
             `--live -- {}` without `{program}`; settings of `{program}` are given with --program-set",
            arguments.command.join(" ")
        )));
    }
    let generated = program_names(arguments).into_iter().find(|name| !is_file(name));
    let asked = [("--skip", &arguments.skip), ("--sample", &arguments.sample)];
    if let (Some(name), Some((flag, _))) = (generated, asked.iter().find(|(_, asked)| asked.is_some())) {
        return Err(Failure::bad(format!("{flag} is for traces and `--live`, and `{name}` is no trace")));
    }
    selection(arguments).map(|_| ())
}

/// The part of a trace that is asked for, as settings of the trace.
pub fn selection(arguments: &ProgramArguments) -> Result<Vec<(&'static str, u64)>, Failure> {
    let number = |flag: &str, text: &str| parse_count(text).map_err(|e| Failure::bad(format!("{flag}: {e}")));
    let mut settings = Vec::new();
    if let Some(skip) = &arguments.skip {
        settings.push(("skip", number("--skip", skip)?));
    }
    if let Some(sample) = &arguments.sample {
        let (window, every) = sample.split_once('/').ok_or_else(|| {
            Failure::bad(format!(
                "--sample: `{sample}` is not WINDOW/EVERY, such as 10M/1G: 10M of every 1G instructions"
            ))
        })?;
        settings.push(("sample_window", number("--sample", window)?));
        settings.push(("sample_every", number("--sample", every)?));
    }
    Ok(settings)
}

/// An option that sets a key: as the user wrote it, and as the text of a `--set` option.
struct Asked {
    written: String,
    option: String,
}

/// The settings that flags stand for.
fn flags(arguments: &ProgramArguments) -> Result<Vec<Asked>, Failure> {
    let mut asked = Vec::new();
    let mut ask = |written: String, option: String| asked.push(Asked { written, option });
    let counts =
        [("instructions", &arguments.instructions), ("warmup", &arguments.warmup), ("interval", &arguments.interval)];
    for (flag, value) in counts {
        if let Some(value) = value {
            let count = parse_count(value).map_err(|e| Failure::bad(format!("--{flag}: {e}")))?;
            ask(format!("--{flag} {value}"), format!("run.{flag}={count}"));
        }
    }
    if let Some(sampling) = &arguments.sampling {
        let (method, period) = sampling_request(sampling)?;
        ask("--sampling".into(), format!("run.sampling=\"{method}\""));
        ask(format!("--sampling={sampling}"), format!("run.sample_period={period}"));
    }
    if let Some(seed) = arguments.seed {
        // Seeds above the range of TOML's integers are written as text.
        let text = if i64::try_from(seed).is_ok() { seed.to_string() } else { format!("\"{seed}\"") };
        ask(format!("--seed {seed}"), format!("run.seed={text}"));
    }
    if let Some(cores) = arguments.cores {
        ask(format!("--cores {cores}"), format!("machine.cores={cores}"));
    }
    if let Some(name) = &arguments.placement {
        ask(format!("--placement {name}"), format!("design.placement={name:?}"));
    }
    if arguments.spread_threads {
        ask("--spread-threads".into(), "run.spread_threads=true".into());
    }
    if arguments.functional {
        ask("--functional".into(), "run.mode=\"functional\"".into());
    }
    if arguments.no_oracle {
        ask("--no-oracle".into(), "run.oracle=false".into());
    }
    Ok(asked)
}

/// The method and the period that `--sampling` asks for: `5M`, `phases` or `phases,5M`.
fn sampling_request(sampling: &str) -> Result<(&str, u64), Failure> {
    let (method, period) = match sampling.split_once(',') {
        Some((method, period)) => (method, period),
        None if sampling.starts_with(|first: char| first.is_ascii_digit()) => ("windows", sampling),
        None => (sampling, SAMPLE_PERIOD),
    };
    if !["windows", "phases"].contains(&method) {
        return Err(Failure::bad(format!(
            "--sampling: `{sampling}` is neither a period nor a method: write --sampling=5M or --sampling=windows,5M for \
             windows of each period, --sampling=phases or --sampling=phases,5M for intervals of each phase"
        )));
    }
    let period = parse_count(period).map_err(|e| Failure::bad(format!("--sampling: {e}")))?;
    Ok((method, period))
}

/// `--set` options, as they are written.
fn set_options(machine: &MachineArguments) -> impl Iterator<Item = Asked> {
    machine.set.iter().map(|option| Asked { written: format!("--set {option}"), option: option.clone() })
}

/// Checks that no two options give a setting different values.
fn contradictions(asked: &[Asked]) -> Result<(), Failure> {
    let mut given: Vec<(String, Value, &str)> = Vec::new();
    for Asked { written, option } in asked {
        for (key, value) in option_settings(option) {
            match given.iter().find(|(other, ..)| *other == key) {
                Some((_, before, other)) if *before != value => {
                    return Err(Failure::bad(format!(
                        "`{other}` and `{written}` contradict each other: both set `{key}`; give one of them"
                    )));
                }
                _ => given.push((key, value, written)),
            }
        }
    }
    Ok(())
}

/// Checks that no two `--set` options give a setting different values.
pub fn check_set(machine: &MachineArguments) -> Result<(), Failure> {
    contradictions(&set_options(machine).collect::<Vec<_>>())
}

/// The jobs of `run` and `compare`, and what describes them.
pub struct Jobs {
    /// One for each design.
    pub jobs: Vec<Job>,
    /// The name of their machine.
    pub machine: String,
    /// The machine as its preset or file is asked for.
    pub machine_preset: String,
    /// The files that were read.
    pub inputs: InputFiles,
}

/// The jobs of `run` and `compare`; no design given is the default one.
pub fn jobs(arguments: &ProgramArguments, designs: &[String]) -> Result<Jobs, Failure> {
    let mut asked = flags(arguments)?;
    asked.extend(set_options(&arguments.machine));
    contradictions(&asked)?;
    let programs = program_names(arguments);
    let designs: Vec<Option<&String>> =
        if designs.is_empty() { vec![None] } else { designs.iter().map(Some).collect() };
    let (mut jobs, mut inputs, mut machine) = (Vec::<Job>::new(), InputFiles::default(), String::new());
    for design in designs {
        let mut request = SpecRequest {
            machine: arguments.machine.machine.clone(),
            design: design.cloned(),
            files: arguments.machine.spec.clone(),
            options: asked.iter().map(|asked| asked.option.clone()).collect(),
        };
        let mut loaded = load(&request).map_err(Failure::bad)?;
        // A mix has one core for each program, unless something other than a preset says how many.
        let cores = loaded.origins.get("machine.cores");
        let of_preset = |name: &str| spec::presets().iter().any(|preset| preset.source_name() == name);
        if programs.len() > 1 && cores.is_none_or(|place| of_preset(&place.source.name)) {
            request.options.push(format!("machine.cores={}", programs.len()));
            loaded = load(&request).map_err(Failure::bad)?;
        }
        inputs.extend(loaded.files);
        machine = loaded.machine;
        let name = design.cloned().unwrap_or(loaded.design);
        if jobs.iter().any(|job| job.design == name) {
            return Err(Failure::bad(format!("--designs: `{name}` is named twice; name each design once")));
        }
        jobs.push(Job { design: name, spec: loaded.spec });
    }
    check_shared(&jobs)?;
    for Asked { written, option } in &asked {
        for (key, _) in option_settings(option) {
            if let Some(why) = without_effect(&key, &jobs, programs.len()) {
                return Err(Failure::bad(format!("`{written}` has no effect: {why}")));
            }
        }
    }
    if !arguments.live {
        check_program_options(arguments, &programs)?;
    }
    let machine_preset = arguments.machine.machine.clone().unwrap_or_else(|| machine.clone());
    Ok(Jobs { jobs, machine, machine_preset, inputs })
}

/// Why a setting has no effect on any of the jobs, for that number of programs.
fn without_effect(key: &str, jobs: &[Job], programs: usize) -> Option<String> {
    let cores = jobs.first().map_or(1, |job| job.spec.machine.cores as usize);
    if key == "run.time_slice" && programs <= cores {
        return Some("every program has a core of its own; with fewer `--cores` than programs they take turns".into());
    }
    if key == "run.spread_threads" && cores == programs.max(1) {
        let spread = jobs.iter().any(|job| job.spec.run.spread_threads);
        return spread.then(|| "each program has one core; give more `--cores`".into());
    }
    let mut why: Vec<String> = Vec::new();
    for job in jobs {
        let unused = spec::unused(&job.spec, key)?;
        if !why.contains(&unused) {
            why.push(unused);
        }
    }
    let all = if jobs.len() > 1 { " (in every design of the comparison)" } else { "" };
    Some(format!("{}{all}", why.join("; ")))
}

/// Checks that the designs of a comparison agree on what decides about the programs, which they share.
fn check_shared(jobs: &[Job]) -> Result<(), Failure> {
    let Some((first, others)) = jobs.split_first() else { return Ok(()) };
    let shared = |job: &Job| {
        let (machine, run) = (&job.spec.machine, &job.spec.run);
        [
            ("machine.cores", u64::from(machine.cores)),
            ("run.seed", run.seed),
            ("run.time_slice", run.time_slice),
            ("run.spread_threads", u64::from(run.spread_threads)),
        ]
    };
    for other in others {
        for ((key, one), (_, two)) in shared(first).into_iter().zip(shared(other)) {
            if one != two {
                return Err(Failure::bad(format!(
                    "the designs of a comparison share their programs, but `{key}` is {one} with `{}` and {two} with \
                     `{}`: compare them in two runs, or set it for all with --set",
                    first.design, other.design
                )));
            }
        }
    }
    Ok(())
}

/// Checks that `--footprint` and every `--program-set` option have an effect on a program of this run.
fn check_program_options(arguments: &ProgramArguments, programs: &[&str]) -> Result<(), Failure> {
    let set = &arguments.program_set;
    let requests: Vec<_> =
        programs.iter().filter_map(|program| spec::program_request(program, set, None, 0).ok()).collect();
    // What is wrong with a program is reported when it is opened.
    if requests.len() < programs.len() {
        return Ok(());
    }
    let group = |request: &ProgramRequest| match ambulator_workloads::program(&request.name) {
        Some(program) => program.info.name,
        None => "trace",
    };
    let mut asked: Vec<(String, Option<&str>, &str)> = Vec::new();
    if let Some(footprint) = &arguments.footprint {
        asked.push((format!("--footprint {footprint}"), None, "footprint"));
    }
    for option in set {
        let key = option.split('=').next().unwrap_or_default().trim();
        let named = option_program(option);
        let key = named.and_then(|name| key.strip_prefix(name)?.strip_prefix('.')).unwrap_or(key);
        asked.push((format!("--program-set {option}"), named, key));
    }
    for (written, named, key) in asked {
        let mut of: Vec<&ProgramRequest> = requests.iter().collect();
        of.retain(|request| named.is_none_or(|name| group(request) == name));
        if of.is_empty() {
            let named = named.unwrap_or_default();
            return Err(Failure::bad(format!(
                "`{written}` is a setting of `{named}`, which is not a program of this run"
            )));
        }
        let unused: Vec<String> = of.iter().filter_map(|request| spec::unused_by_program(request, key)).collect();
        if unused.len() == of.len() {
            return Err(Failure::bad(format!("`{written}` has no effect: {}", unused[0])));
        }
    }
    Ok(())
}
