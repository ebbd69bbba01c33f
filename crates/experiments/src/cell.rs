//! Cells: a design on a machine with programs, known by everything that its result depends on.

use crate::memory::{OF_PROGRAMS, program_bytes};
use crate::row::CellInfo;
use ambulator_base::RecordSource;
use ambulator_simulator::has_registered_designs;
use ambulator_simulator::spec::{Spec, SpecRequest, load, option_settings};
use ambulator_workloads::{OpenError, ProgramRequest, has_registered_programs};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Identifies the models of this program: a hash of their sources and of the presets, which is the same for
/// every program that is built of them. With designs or programs of other crates, the contents of the running
/// program count too.
pub fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let models = env!("AMBULATOR_MODELS").to_owned();
        if !has_registered_designs() && !has_registered_programs() {
            return models;
        }
        let program = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
        format!("{models}-{:016x}", xxh3_64(&program))
    })
}

/// Whether a cell with this build is of this program: with designs that have code of their own
/// ([`Cell::with_code`]), or without.
pub fn is_of_this_build(of: &str) -> bool {
    of.strip_prefix(build()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// A number for a text: equal for equal texts, and hardly ever for others.
pub fn short_hash(text: &str) -> u32 {
    xxh3_64(text.as_bytes()) as u32
}

/// A program that its caller has in memory: it has no name by which it could be opened, and is known by the
/// digest of its identity.
#[derive(Clone)]
pub struct GivenProgram(Arc<dyn Fn() -> Box<dyn RecordSource> + Send + Sync>);

impl GivenProgram {
    /// A program of which each call of `open` gives the same stream from its beginning.
    pub fn new(open: impl Fn() -> Box<dyn RecordSource> + Send + Sync + 'static) -> GivenProgram {
        GivenProgram(Arc::new(open))
    }

    /// The program's stream, from its beginning.
    pub fn open(&self) -> Box<dyn RecordSource> {
        (self.0)()
    }
}

impl fmt::Debug for GivenProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GivenProgram").field(&self.open().identity().name).finish()
    }
}

/// A program of a mix.
#[derive(Clone, Debug)]
pub enum ProgramSource {
    /// One that is opened by its name.
    Named(ProgramRequest),
    /// One that the caller has.
    Given(GivenProgram),
}

/// The programs of a cell: one, or a mix.
#[derive(Debug)]
pub struct Programs {
    /// What they are called together.
    pub label: String,
    /// The requests for them, in the order of the mix; a given program's has its name alone.
    pub requests: Vec<ProgramRequest>,
    /// By request: the program, if it is given.
    pub(crate) given: Vec<Option<GivenProgram>>,
    /// Their names in results, in the same order.
    names: Vec<String>,
    /// Their settings, or the contents of their traces.
    identity: String,
    /// By request: the digest of a trace, which must be the same when it runs.
    pub(crate) digests: Vec<Option<u64>>,
    /// Sentences on the traces.
    pub notes: Vec<String>,
    /// Bytes of data, all programs together, as far as they are known.
    pub footprint: u64,
    /// Bytes of the sim host's memory that they take, all together.
    sim_host_bytes: u64,
    /// By request: instructions of the whole trace, if they are known.
    instructions: Vec<Option<u64>>,
}

impl Programs {
    /// Identifies programs: traces are opened for their contents, others are known by their settings.
    ///
    /// # Errors
    /// Unknown names or settings, or a trace that cannot be read.
    pub fn identify(label: Option<String>, requests: Vec<ProgramRequest>) -> Result<Programs, String> {
        Programs::identify_sources(label, requests.into_iter().map(ProgramSource::Named).collect())
    }

    /// Identifies programs of which some may be given: those are known by the digests of their contents.
    ///
    /// # Errors
    /// Unknown names or settings, or a trace that cannot be read.
    pub fn identify_sources(label: Option<String>, sources: Vec<ProgramSource>) -> Result<Programs, String> {
        let (mut names, mut digests, mut notes, mut instructions) = (vec![], vec![], vec![], vec![]);
        let (mut requests, mut given) = (Vec::new(), Vec::new());
        let (mut identity, mut footprint, mut sim_host_bytes) = (String::new(), 0u64, 0u64);
        for source in sources {
            let request = match source {
                ProgramSource::Named(request) => request,
                ProgramSource::Given(program) => {
                    let source = program.open();
                    let of = source.identity();
                    notes.extend(source.notes());
                    footprint += of.footprint;
                    digests.push(Some(of.digest));
                    instructions.push(source.instructions());
                    identity.push_str(&format!("given {:016x}\n", of.digest));
                    names.push(of.name.clone());
                    requests.push(ProgramRequest { name: of.name, ..ProgramRequest::default() });
                    given.push(Some(program));
                    continue;
                }
            };
            let (name, own) = if let Some(descriptor) = ambulator_workloads::program(&request.name) {
                let program = descriptor.program(&request.settings, request.footprint, request.seed);
                let program = program.map_err(|error| error.to_string())?;
                let problems = program.validate(program.name());
                if !problems.is_empty() {
                    return Err(OpenError::Invalid(problems).to_string());
                }
                let settings = program.settings();
                instructions.push(None);
                let own = settings.get("footprint").and_then(Value::as_u64).unwrap_or(0);
                footprint += own;
                sim_host_bytes += program_bytes(&program, own);
                digests.push(None);
                (request.label.clone().unwrap_or_else(|| request.name.clone()), format!("{} {settings}", request.name))
            } else {
                let source = ambulator_workloads::open(&request).map_err(|error| error.to_string())?;
                let of = source.identity();
                notes.extend(source.notes());
                footprint += of.footprint;
                digests.push(Some(of.digest));
                instructions.push(source.instructions());
                let settings = Value::Object(request.settings.clone());
                (of.name, format!("trace {:016x} {settings}", of.digest))
            };
            identity.push_str(&format!("{own} seed {}\n", request.seed));
            names.push(name);
            requests.push(request);
            given.push(None);
        }
        let label = label.unwrap_or_else(|| names.join("+"));
        Ok(Programs {
            label,
            requests,
            given,
            names,
            identity,
            digests,
            notes,
            footprint,
            sim_host_bytes,
            instructions,
        })
    }

    /// What identifies them, in any text.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Whether a request is for something whose contents cannot be known before it runs: a pipe or a device.
    pub fn is_stream(request: &ProgramRequest) -> bool {
        let known = ambulator_workloads::program(&request.name).is_some();
        !known && Path::new(&request.name).metadata().is_ok_and(|there| !there.is_file() && !there.is_dir())
    }

    /// How many streams there are on a machine: one for each core, or for each program that spreads its
    /// threads.
    fn streams(&self, spec: &Spec) -> usize {
        if spec.run.spread_threads { self.requests.len() } else { spec.machine.cores as usize }
    }

    /// Copies of each program on a machine.
    fn copies(&self, spec: &Spec) -> u64 {
        (self.streams(spec) / self.requests.len().max(1)).max(1) as u64
    }

    /// Bytes of data on a machine, with the copies of a program that runs on several cores.
    pub fn footprint_on(&self, spec: &Spec) -> u64 {
        self.footprint.saturating_mul(self.copies(spec))
    }

    /// Bytes of the sim host's memory that the programs of a machine take, by measured sizes.
    pub fn sim_host_bytes_on(&self, spec: &Spec) -> u64 {
        OF_PROGRAMS + self.sim_host_bytes.saturating_mul(self.copies(spec))
    }

    /// Instructions of the whole trace of each core's stream, as far as they are known.
    pub fn instructions_on(&self, spec: &Spec) -> Vec<Option<u64>> {
        let own = &self.instructions;
        if own.len() > self.streams(spec) {
            return vec![None];
        }
        (0..self.streams(spec)).map(|stream| own.get(stream % own.len().max(1)).copied().flatten()).collect()
    }

    /// The name of each core's program on a machine.
    fn of_cores(&self, spec: &Spec) -> Vec<String> {
        let cores = spec.machine.cores as usize;
        let names = &self.names;
        if names.len() > cores && names.len().is_multiple_of(cores) && !spec.run.spread_threads {
            return names.chunks(names.len() / cores).map(|share| share.join("|")).collect();
        }
        let of = |core: usize| match spec.run.spread_threads {
            true => core * names.len() / cores.max(1),
            false => core % names.len().max(1),
        };
        (0..cores).map(|core| names.get(of(core)).cloned().unwrap_or_default()).collect()
    }
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its key, machine and settings.
    pub info: CellInfo,
    /// The design's name.
    pub design: String,
    /// Its programs.
    pub programs: Arc<Programs>,
    /// Its spec, or why there is none: then the cell has failed.
    pub spec: Result<Arc<Spec>, String>,
}

impl Cell {
    /// The cell of a spec.
    pub fn new(machine: &str, design: &str, spec: Spec, set: Map<String, Value>, programs: Arc<Programs>) -> Cell {
        let text = serde_json::to_string(&spec).unwrap_or_default();
        let info = info(&text, machine, set, &programs);
        Cell { info, design: design.to_owned(), programs, spec: Ok(Arc::new(spec)) }
    }

    /// The cell of a request whose settings exclude each other, or that do not exist: it has failed.
    pub fn failed(request: &SpecRequest, design: &str, why: String, programs: Arc<Programs>) -> Cell {
        let machine = request.machine.clone().unwrap_or_default();
        let set = request.options.iter().flat_map(|option| option_settings(option)).collect();
        let info = info(&format!("{request:?}"), &machine, set, &programs);
        Cell { info, design: design.to_owned(), programs, spec: Err(why) }
    }

    /// The cell of a request, called `design`; a request that is not valid gives one that has failed.
    pub fn of(request: &SpecRequest, design: &str, programs: &Arc<Programs>) -> Cell {
        match load(request) {
            Ok(loaded) => {
                // A file may name the machine and the design that it is based on.
                let presets = SpecRequest {
                    machine: request.machine.clone().or_else(|| Some(loaded.machine.clone())),
                    design: request.design.clone().or_else(|| Some(loaded.design.clone())),
                    ..SpecRequest::default()
                };
                let set = difference_from_presets(&presets, &loaded.spec);
                Cell::new(&loaded.machine, design, loaded.spec, set, Arc::clone(programs))
            }
            Err(error) => {
                let why: Vec<&str> = error.problems.iter().map(|problem| problem.title.as_str()).collect();
                Cell::failed(request, design, why.join("; "), Arc::clone(programs))
            }
        }
    }

    /// The same cell with a design whose code is not part of the build: `code` identifies it.
    pub fn with_code(mut self, code: &str) -> Cell {
        let text = format!("{}\n{code}", self.info.cell);
        self.info.cell = format!("{:032x}", xxh3_128(text.as_bytes()));
        self.info.build = format!("{}-{:016x}", self.info.build, xxh3_64(code.as_bytes()));
        self
    }

    /// The same cell without a key: its result depends on what cannot be known, and no store keeps it.
    pub fn without_key(mut self) -> Cell {
        self.info.cell.clear();
        self
    }

    /// The cell's key; empty if no store keeps it.
    pub fn key(&self) -> &str {
        &self.info.cell
    }

    /// Whether its result stands for other runs of the same cell.
    pub(crate) fn is_known(&self) -> bool {
        !self.info.cell.is_empty()
    }

    /// What the cells that one decoding of their programs can serve have in common; `None` without a spec.
    pub(crate) fn stream(&self) -> Option<String> {
        let spec = self.spec.as_ref().ok()?;
        let (machine, run) = (&spec.machine, &spec.run);
        let of_spec = format!("{} {} {}", machine.cores, run.time_slice, run.spread_threads);
        Some(format!("{}{of_spec}", self.programs.identity))
    }

    /// Gives a run that was stored under other names those of this cell.
    pub(crate) fn name(&self, run: &mut ambulator_simulator::RunResult) {
        run.design.clone_from(&self.design);
        let Ok(spec) = &self.spec else { return };
        let mut names = self.programs.of_cores(spec);
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        if sorted(names.clone()) == sorted(run.cores.iter().map(|core| core.program.clone()).collect()) {
            return;
        }
        if names.len() == run.cores.len() {
            run.cores.iter_mut().zip(&names).for_each(|(core, name)| core.program.clone_from(name));
        }
        run.identity.name = names.first().cloned().unwrap_or_default();
        if names.iter().all(|name| *name == names[0]) {
            names.truncate(1);
        }
        run.program = names.join("+");
    }
}

fn info(spec: &str, machine: &str, set: Map<String, Value>, programs: &Programs) -> CellInfo {
    let text = format!("{}\n{}\n{spec}\n{}", env!("CARGO_PKG_VERSION"), build(), programs.identity);
    let cell = format!("{:032x}", xxh3_128(text.as_bytes()));
    CellInfo { cell, build: build().to_owned(), machine: machine.to_owned(), set }
}

/// The settings of a spec that differ from the presets of its request.
pub fn difference_from_presets(request: &SpecRequest, spec: &Spec) -> Map<String, Value> {
    type Presets = HashMap<(Option<String>, Option<String>), Arc<Value>>;
    static PRESETS: OnceLock<Mutex<Presets>> = OnceLock::new();
    let names = (request.machine.clone(), request.design.clone());
    let mut known = ambulator_base::lock(PRESETS.get_or_init(Mutex::default));
    let presets = known.entry(names).or_insert_with(|| {
        let of = SpecRequest { files: Vec::new(), options: Vec::new(), ..request.clone() };
        let spec = load(&of).map(|loaded| serde_json::to_value(&loaded.spec).unwrap_or_default());
        Arc::new(spec.unwrap_or_default())
    });
    let mut different = Map::new();
    differing("", presets, &serde_json::to_value(spec).unwrap_or_default(), &mut different);
    different
}

/// Puts the leaves of `other` that `one` has not into `found`, by dotted key.
fn differing(at: &str, one: &Value, other: &Value, found: &mut Map<String, Value>) {
    if one == other {
        return;
    }
    match other {
        Value::Object(members) => {
            for (name, member) in members {
                let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                differing(&key, one.get(name).unwrap_or(&Value::Null), member, found);
            }
        }
        _ => _ = found.insert(at.to_owned(), other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Batch, ProgramIdentity, SourceError};
    use ambulator_simulator::RunResult;

    fn programs(name: &str, footprint: Option<u64>, settings: &[(&str, u64)]) -> Arc<Programs> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
        let request = ProgramRequest { name: name.into(), footprint, settings, seed: 1, ..ProgramRequest::default() };
        Arc::new(Programs::identify(None, vec![request]).unwrap())
    }

    fn cell(design: &str, options: &[&str], programs: &Arc<Programs>) -> Cell {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
        Cell::of(&request, design, programs)
    }

    #[test]
    fn a_cell_is_known_by_what_its_result_depends_on() {
        let gups = programs("gups", Some(1 << 20), &[]);
        let one = cell("radix", &["mmu.l2_tlb.entries=512"], &gups);
        assert_eq!(one.key().len(), 32);
        assert_eq!(Value::Object(one.info.set.clone()), serde_json::json!({"mmu.l2_tlb.entries": 512}));
        let mut renamed = cell("radix", &["mmu.l2_tlb.entries=512"], &gups);
        renamed.design = "mine".into();
        assert_eq!(renamed.key(), one.key());
        // The footprint may stand among the settings.
        let same = programs("gups", None, &[("footprint", 1 << 20)]);
        assert_eq!(cell("radix", &["mmu.l2_tlb.entries=512"], &same).key(), one.key());
        let others = [
            cell("radix", &[], &gups),
            cell("thp", &["mmu.l2_tlb.entries=512"], &gups),
            cell("radix", &["mmu.l2_tlb.entries=512", "run.seed=2"], &gups),
            cell("radix", &["mmu.l2_tlb.entries=512"], &programs("gups", Some(2 << 20), &[])),
            cell("radix", &["mmu.l2_tlb.entries=512"], &programs("stream", Some(1 << 20), &[])),
        ];
        for other in &others {
            assert_ne!(other.key(), one.key(), "{:?}", other.info);
        }
    }

    #[test]
    fn a_combination_that_cannot_be_is_a_failed_cell() {
        let gups = programs("gups", Some(1 << 20), &[]);
        let failed = cell("radix", &["mmu.l2_tlb.entries=513"], &gups);
        assert!(failed.spec.as_ref().unwrap_err().contains("l2_tlb"), "{failed:?}");
        assert_ne!(failed.key(), cell("radix", &["mmu.l2_tlb.entries=515"], &gups).key());
        assert_eq!(failed.info.set["mmu.l2_tlb.entries"], 513);
    }

    #[test]
    fn a_given_program_is_known_by_its_digest() {
        struct Nothing(u64);
        impl RecordSource for Nothing {
            fn identity(&self) -> ProgramIdentity {
                ProgramIdentity { name: "mine".into(), footprint: 1 << 20, digest: self.0, ..Default::default() }
            }
            fn fill(&mut self, _: &mut Batch) -> Result<bool, SourceError> {
                Ok(false)
            }
        }
        let given = |digest: u64| {
            let program = GivenProgram::new(move || Box::new(Nothing(digest)));
            Arc::new(Programs::identify_sources(None, vec![ProgramSource::Given(program)]).unwrap())
        };
        let key = |of: &Arc<Programs>| cell("radix", &[], of).key().to_owned();
        assert_eq!((given(1).label.as_str(), given(1).footprint), ("mine", 1 << 20));
        assert_eq!(key(&given(1)), key(&given(1)));
        assert_ne!(key(&given(1)), key(&given(2)));
        assert_ne!(cell("radix", &[], &given(1)).stream(), cell("radix", &[], &given(2)).stream());
    }

    #[test]
    fn the_code_of_a_design_is_part_of_its_key_and_build() {
        let gups = programs("gups", Some(1 << 20), &[]);
        let with = |code: &str| cell("radix", &[], &gups).with_code(code);
        assert_eq!(with("a").info, with("a").info);
        assert_ne!(with("a").key(), with("b").key());
        assert_ne!(with("a").key(), cell("radix", &[], &gups).key());
        assert!(is_of_this_build(&with("a").info.build) && with("a").info.build != with("b").info.build);
        assert!(is_of_this_build(build()) && !is_of_this_build("") && !is_of_this_build(&format!("{}0", build())));
        assert!(!with("a").without_key().is_known() && with("a").is_known());
    }

    #[test]
    fn a_stored_run_gets_the_names_of_the_cell() {
        let request = |name: &str| ProgramRequest { name: name.into(), ..ProgramRequest::default() };
        let mix = Arc::new(Programs::identify(None, vec![request("gups"), request("stream")]).unwrap());
        let cell = cell("radix", &["machine.cores=4"], &mix);
        let mut run = RunResult { cores: vec![Default::default(); 4], ..RunResult::default() };
        cell.name(&mut run);
        assert_eq!((run.design.as_str(), run.program.as_str()), ("radix", "gups+stream+gups+stream"));
        assert_eq!(run.cores[3].program, "stream");
    }

    #[test]
    fn the_build_is_that_of_the_models() {
        // With designs of another crate, the program's checksum follows.
        assert_eq!(build().len(), 16);
        assert!(build().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
