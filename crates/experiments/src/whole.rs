//! Whole programs beside the regions of figures: each program runs from the begin of its region of interest,
//! cold, to its end, and is sampled by its phases.

use crate::cell::Cell;
use crate::number::{count, numbered};
use ambulator_simulator::RunResult;
use ambulator_simulator::spec::{RunMode, RunSpec, Sampling, Spec};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Bytes of data for each instruction of a program without an end: as long as a loop that loads each of its
/// lines once, four instructions a line.
const BYTES_OF_INSTRUCTION: u64 = 16;
/// The shortest length that this gives.
const LEAST_INSTRUCTIONS: u64 = 1_000_000;
/// Intervals of a program that are measured, and how many there are for each of them.
const MEASURED: u64 = 60;
const FOR_EACH: u64 = 10;
/// Instructions of an interval at most, and of what warms up before it without time.
const LONGEST_INTERVAL: u64 = 100_000;
const LONGEST_WARMING: u64 = 1_000_000;

/// How whole programs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Instructions of each core of programs without an end; by default, one for each 16 bytes of their data.
    /// A program of which the length is known runs to its end.
    pub instructions: Option<u64>,
}

/// How much of a whole program ran.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WholeProgram {
    /// The program.
    pub program: String,
    /// Its instructions, all cores together.
    pub instructions: u64,
    /// Share of them for which time was simulated.
    pub timed: f64,
    /// Phases that were told apart; 0 if all of it was measured.
    pub phases: usize,
    /// Intervals that were measured.
    pub measured: u64,
}

impl WholeProgram {
    /// In words.
    pub(crate) fn text(&self) -> String {
        let WholeProgram { program, instructions, timed, phases, measured } = self;
        let how = match (phases, *timed > 0.0) {
            (0, false) => "all of it, without time".to_owned(),
            (0, true) => "all of it".to_owned(),
            _ => {
                let (phases, measured) = (numbered(*phases, "phase"), numbered(*measured as usize, "interval"));
                format!("{phases}, {measured}, {:.1}% with time", 100.0 * timed)
            }
        };
        format!("{program} {} instructions ({how})", count(*instructions as f64))
    }
}

/// The programs of runs, each once.
pub(crate) fn whole_programs(runs: &[(String, RunResult)]) -> Vec<WholeProgram> {
    let mut all: Vec<WholeProgram> = Vec::new();
    for (label, run) in runs {
        if all.iter().any(|known| known.program == *label) {
            continue;
        }
        let (covered, timed) = match &run.sampled {
            Some(sampled) => (sampled.covered, sampled.timed),
            None => (run.simulated_instructions, if run.cycles > 0 { run.simulated_instructions } else { 0 }),
        };
        all.push(WholeProgram {
            program: label.clone(),
            instructions: covered,
            timed: timed as f64 / covered.max(1) as f64,
            phases: run.sampled.as_ref().map_or(0, |sampled| sampled.phases().len()),
            measured: run.sampled.as_ref().map_or(0, |sampled| sampled.windows),
        });
    }
    all
}

impl Whole {
    /// The cell over the whole program.
    pub(crate) fn cell(&self, cell: &Cell) -> Cell {
        let Ok(spec) = &cell.spec else { return cell.clone() };
        let run = self.run(cell, spec);
        let mut set = cell.info.set.clone();
        set.extend(differences(&spec.run, &run));
        let spec = Spec { run, ..(**spec).clone() };
        Cell::new(&cell.info.machine, &cell.design, spec, set, Arc::clone(&cell.programs))
    }

    fn run(&self, cell: &Cell, spec: &Spec) -> RunSpec {
        let cores = u64::from(spec.machine.cores);
        let known: Option<Vec<u64>> = cell.programs.instructions_on(spec).into_iter().collect();
        let share = if spec.run.spread_threads { cores } else { 1 };
        let of_data = || cell.programs.footprint_on(spec) / BYTES_OF_INSTRUCTION / cores;
        let instructions = match (&known, self.instructions) {
            // The machine ends with its programs: the longest one has nothing left after as many.
            (Some(lengths), _) => lengths.iter().copied().max().unwrap_or(0).div_ceil(share).max(LEAST_INSTRUCTIONS),
            (None, Some(asked)) => asked,
            (None, None) => of_data().max(LEAST_INSTRUCTIONS),
        };
        let run = RunSpec { instructions, warmup: 0, interval: 0, profile: 0, ..spec.run.clone() };
        if run.mode == RunMode::Functional {
            return run;
        }
        let sample_period = (instructions / MEASURED).max(10_000);
        let sample_window = (sample_period / FOR_EACH).clamp(1000, LONGEST_INTERVAL);
        let sample_timing = sample_window / 2;
        let rest = sample_period - sample_window - sample_timing;
        RunSpec {
            sampling: Sampling::Phases,
            sample_period,
            sample_window,
            sample_timing,
            sample_warming: if rest > LONGEST_WARMING { LONGEST_WARMING } else { 0 },
            ..run
        }
    }
}

/// The settings of a run that differ from another's, by dotted key.
fn differences(one: &RunSpec, other: &RunSpec) -> Map<String, Value> {
    let values = |run: &RunSpec| serde_json::to_value(run).unwrap_or_default();
    let (one, other) = (values(one), values(other));
    let all = other.as_object().into_iter().flatten();
    let differing = all.filter(|(name, value)| one.get(name.as_str()) != Some(value));
    differing.map(|(name, value)| (format!("run.{name}"), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Programs;
    use ambulator_simulator::spec::SpecRequest;
    use ambulator_workloads::ProgramRequest;

    fn cell(program: &str, footprint: Option<u64>, options: &[&str]) -> Cell {
        let request = ProgramRequest { name: program.into(), footprint, seed: 1, ..ProgramRequest::default() };
        let programs = Arc::new(Programs::identify(None, vec![request]).unwrap());
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Cell::of(&SpecRequest { options, ..SpecRequest::default() }, "radix", &programs)
    }

    fn run_of(cell: &Cell) -> RunSpec {
        let spec = cell.spec.as_ref().unwrap();
        assert!(spec.validate().is_empty(), "{:?}", spec.validate());
        spec.run.clone()
    }

    #[test]
    fn programs_without_an_end_run_for_their_footprint_and_traces_to_their_end() {
        let rule = Whole::default();
        let gups = cell("gups", Some(8 << 30), &["run.warmup=5000000"]);
        let run = run_of(&rule.cell(&gups));
        assert_eq!((run.instructions, run.warmup, run.sampling), ((8 << 30) / 16, 0, Sampling::Phases));
        assert_eq!((run.sample_window, run.sample_warming), (100_000, 1_000_000));
        let shared = cell("gups", Some(8 << 30), &["machine.cores=4", "run.spread_threads=true"]);
        assert_eq!(run_of(&rule.cell(&shared)).instructions, (8 << 30) / 64);
        let trace = cell("../../traces/mummer.amb", None, &[]);
        let length = trace.programs.instructions_on(trace.spec.as_ref().unwrap())[0].unwrap();
        assert_eq!(run_of(&rule.cell(&trace)).instructions, length);
        let stated = Whole { instructions: Some(700_000) };
        for cell in [&gups, &shared, &trace] {
            let whole = stated.cell(cell);
            let has_end = cell.key() == trace.key();
            assert_eq!(run_of(&whole).instructions, if has_end { length } else { 700_000 });
            assert_ne!(whole.key(), cell.key());
            assert_eq!(whole.info.set["run.sampling"], "phases");
            assert_eq!(whole.stream(), cell.stream(), "one decoding serves both");
        }
        let small = run_of(&rule.cell(&cell("gups", Some(1 << 20), &["run.interval=5000"])));
        assert_eq!((small.instructions, small.interval), (LEAST_INSTRUCTIONS, 0));
        let functional = run_of(&rule.cell(&cell("gups", Some(1 << 30), &["run.mode=functional"])));
        assert_eq!((functional.sampling, functional.instructions), (Sampling::None, 64 << 20));
    }

    #[test]
    fn how_much_of_a_program_ran_is_told_in_words() {
        let text = |timed, phases, measured| {
            let program = "gups".to_owned();
            WholeProgram { program, instructions: 2_000_000, timed, phases, measured }.text()
        };
        assert_eq!(text(0.0, 0, 0), "gups 2.00 M instructions (all of it, without time)");
        assert_eq!(text(0.15, 1, 1), "gups 2.00 M instructions (1 phase, 1 interval, 15.0% with time)");
        assert_eq!(text(0.15, 2, 60), "gups 2.00 M instructions (2 phases, 60 intervals, 15.0% with time)");
    }
}
