//! The JSON document that a comparison writes: the interface for scripts.

use ambulator_base::Unit;
use ambulator_simulator::spec::CounterInfo;
use ambulator_simulator::{CounterMeaning, MEASURES, Outcome, RunResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Unit and meaning of a derived measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasureMeaning {
    /// Unit of its value.
    pub unit: String,
    /// One line.
    pub meaning: String,
}

/// A whole comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// Version of Ambulator that wrote it.
    pub version: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// One entry for each run.
    pub runs: Vec<RunResult>,
    /// Unit and meaning of each counter in `runs[].counters`.
    pub schema: BTreeMap<String, CounterMeaning>,
    /// Unit and meaning of each entry of `runs[].measures`.
    pub measures: BTreeMap<String, MeasureMeaning>,
    /// Notes about the programs, one sentence each: a truncated trace, addresses that lost bits.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Document {
    /// The document of an outcome of `command`.
    pub fn new(command: Vec<String>, outcome: Outcome) -> Document {
        let measures = MEASURES.iter().map(|measure| {
            let meaning = MeasureMeaning { unit: measure.unit.to_owned(), meaning: measure.meaning.to_owned() };
            (measure.name.to_owned(), meaning)
        });
        Document {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            runs: outcome.runs,
            schema: outcome.schema,
            measures: measures.collect(),
            notes: outcome.notes,
        }
    }
}

/// Every counter and measure that a run can have, for `explain` and `list`. It briefly runs a small machine
/// of each design, so that the catalogue cannot differ from the results.
pub fn counter_catalogue() -> Vec<CounterInfo> {
    use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
    use ambulator_simulator::{Comparison, Job, Silent, compare};
    let mut jobs = Vec::new();
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Design) {
        let options = ["memory.bytes=256MiB", "run.instructions=1000", "run.warmup=0"].map(str::to_owned).to_vec();
        let request = SpecRequest { design: Some(preset.name.to_owned()), options, ..SpecRequest::default() };
        if let Ok(loaded) = load(&request) {
            jobs.push(Job { design: preset.name.to_owned(), spec: loaded.spec });
        }
    }
    let request = ambulator_workloads::ProgramRequest {
        name: "gups".into(),
        footprint: Some(1 << 20),
        ..ambulator_workloads::ProgramRequest::default()
    };
    let mut all: BTreeMap<String, CounterInfo> = BTreeMap::new();
    if let Ok(source) = ambulator_workloads::open(&request)
        && let Ok(outcome) = compare(Comparison {
            jobs,
            programs: vec![source],
            threads: 0,
            stop: std::sync::Arc::default(),
            progress: std::sync::Arc::new(Silent),
        })
    {
        for (name, CounterMeaning { unit, meaning, timed }) in outcome.schema {
            let unit: Unit = unit;
            all.insert(name.clone(), CounterInfo { name, unit: unit.to_string(), meaning, timed });
        }
    }
    for measure in MEASURES {
        let name = format!("measures.{}", measure.name);
        let info = CounterInfo {
            name: name.clone(),
            unit: measure.unit.into(),
            meaning: measure.meaning.into(),
            timed: false,
        };
        all.insert(name, info);
    }
    all.into_values().collect()
}
