//! The JSON document that a comparison writes: the interface for scripts.

use crate::figure::figures;
use ambulator_base::{Batch, ProgramIdentity, RecordSource, SourceError, Unit};
use ambulator_simulator::spec::{CounterInfo, Preset, PresetKind, Spec, SpecRequest, load, presets};
use ambulator_simulator::{Comparison, CounterMeaning, Job, MEASURES, Outcome, RunResult, Silent, compare};
use ambulator_workloads::{ProgramRequest, open};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Unit and meaning of a derived measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureMeaning {
    /// Unit of its value.
    pub unit: String,
    /// One line.
    pub meaning: String,
}

/// The bound of designs of a comparison: a perfect TLB under their paging policy.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// The designs that it bounds: those of one paging policy.
    pub of: Vec<String>,
    /// Its run.
    pub run: RunResult,
}

/// A whole comparison.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Version of Ambulator that wrote it.
    pub version: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// One entry for each run.
    pub runs: Vec<RunResult>,
    /// The verdict, sentence by sentence; empty without time.
    #[serde(default)]
    pub verdict: Vec<String>,
    /// Bounds that are not among the runs.
    #[serde(default)]
    pub bounds: Vec<Bound>,
    /// Designs whose runs were in the store: their sim-host times are of another time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<String>,
    /// Unit and meaning of each counter in `runs[].counters`.
    pub schema: BTreeMap<String, CounterMeaning>,
    /// Unit and meaning of each entry of `runs[].measures`.
    pub measures: BTreeMap<String, MeasureMeaning>,
    /// Notes about the programs and warnings about the runs, one sentence each: a truncated trace, addresses
    /// that lost bits, pages in few page colours.
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
            verdict: Vec::new(),
            bounds: Vec::new(),
            stored: Vec::new(),
            schema: outcome.schema,
            measures: measures.collect(),
            notes: outcome.notes,
        }
    }
}

/// Every counter and measure that a run can have, for `explain` and `list`. It briefly runs every preset, on
/// the machine itself and in a virtual machine, so that the catalogue cannot differ from the results.
pub fn counter_catalogue() -> Vec<CounterInfo> {
    let mut all: BTreeMap<String, CounterInfo> = BTreeMap::new();
    for (name, CounterMeaning { unit, meaning, timed, .. }) in sample().iter().flat_map(|outcome| &outcome.schema) {
        let unit: &Unit = unit;
        let info = CounterInfo { name: name.clone(), unit: unit.to_string(), meaning: meaning.clone(), timed: *timed };
        all.insert(name.clone(), info);
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

/// The runs of the catalogue of counters, which have measured everything that a run can, in intervals as well:
/// what explanations of figures are made from.
pub fn sample_runs() -> &'static [RunResult] {
    sample().map(|outcome| outcome.runs.as_slice()).unwrap_or_default()
}

/// The brief runs, which are made once.
fn sample() -> Option<&'static Outcome> {
    static SAMPLE: OnceLock<Option<Outcome>> = OnceLock::new();
    SAMPLE.get_or_init(|| brief_runs(1).ok()).as_ref()
}

/// A program that may say where its pages were, so that machines place pages as it says. It says nothing.
struct Placing(Box<dyn RecordSource>);

impl RecordSource for Placing {
    fn identity(&self) -> ProgramIdentity {
        self.0.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.0.fill(batch)
    }

    fn may_place(&self) -> bool {
        true
    }
}

/// Each preset with a program on each of the cores, on a machine with room for what any preset reserves, and
/// each that can in a virtual machine, whose hypervisor has the page table of the guest, if it can. Then what
/// no preset of a design has: several memory nodes, and places from the program.
fn brief_runs(cores: usize) -> Result<Outcome, String> {
    let cores_of_it = format!("machine.cores={cores}");
    let brief = ["memory.bytes=64GiB", "run.instructions=1000", "run.warmup=0", "run.interval=500", &cores_of_it]
        .map(str::to_owned);
    let with = |preset: &Preset, options: &[String]| {
        let options = [&brief[..], options].concat();
        load(&SpecRequest { design: Some(preset.name.to_owned()), options, ..SpecRequest::default() })
    };
    let mut jobs = Vec::new();
    let mut add = |design: &str, spec: Spec| jobs.push(Job { design: design.to_owned(), spec });
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Design) {
        let Ok(native) = with(preset, &[]).map(|loaded| loaded.spec) else { continue };
        let nested = "virtualization.mode=nested".to_owned();
        let table = format!("virtualization.hypervisor_table={}", native.design.page_table);
        add(preset.name, native);
        // Some run on the machine itself only.
        if let Ok(loaded) = with(preset, &[nested.clone(), table]).or_else(|_| with(preset, &[nested])) {
            add(preset.name, loaded.spec);
        }
    }
    let nodes = [1, 2, 3].map(|node| format!("nodes.node{node}.bytes=8GiB")).to_vec();
    let placed = vec!["design.placement=trace".to_owned()];
    let nested = "virtualization.mode=nested".to_owned();
    for options in [nodes.clone(), [nodes, vec![nested]].concat(), placed] {
        let request = SpecRequest { options: [&brief[..], &options].concat(), ..SpecRequest::default() };
        let spec = load(&request).map_err(|error| error.to_string())?.spec;
        add(&options.join(" "), spec);
    }
    // Switches that figures turn on may count something, too.
    for variant in figures().iter().flat_map(|figure| &figure.variants) {
        let switches: Vec<String> = variant.set.iter().filter(|option| option.ends_with("=true")).cloned().collect();
        let options = [&brief[..], &switches].concat();
        let request = SpecRequest { design: Some(variant.design.clone()), options, ..SpecRequest::default() };
        if let (false, Ok(loaded)) = (switches.is_empty(), load(&request)) {
            jobs.push(Job { design: variant.name.clone(), spec: loaded.spec });
        }
    }
    let request = ProgramRequest { name: "gups".into(), footprint: Some(1 << 20), ..ProgramRequest::default() };
    let program = |_| open(&request).map(|program| Box::new(Placing(program)) as Box<dyn RecordSource>);
    let programs = (0..cores).map(program).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    compare(Comparison { jobs, programs, threads: 0, stop: Arc::default(), progress: Arc::new(Silent) })
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::Status;
    use ambulator_simulator::spec::explain;

    #[test]
    fn every_counter_of_every_preset_is_listed_and_explained() {
        let runs = brief_runs(2).unwrap().runs;
        let known = counter_catalogue();
        for run in &runs {
            assert_eq!(run.status, Status::Done, "{}: {:?}", run.design, run.outcome);
            for name in run.counters.keys() {
                let found = explain(name, &known).unwrap_or_else(|error| panic!("{}: {error}", run.design));
                assert!(found.to_string().starts_with(&format!("{name} (counter)")), "{name}: {found}");
            }
        }
        for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Design) {
            assert!(runs.iter().any(|run| run.design == preset.name), "{} has not run", preset.name);
        }
        let groups = ["kernel.placement.utopia", "kernel.placement.utopia.segment_1", "hypervisor", "mmu.nested"];
        let counters = [
            "kernel.placement.trace.exact",
            "kernel.numa.pages_promoted",
            "kernel.node3.bytes_in",
            "hypervisor.numa.scans",
            "hypervisor.host_areas.areas_backed",
        ];
        for group in groups.into_iter().chain(counters) {
            assert!(explain(group, &known).is_ok(), "{group}");
        }
    }
}
