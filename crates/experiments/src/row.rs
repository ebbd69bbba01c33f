//! A finished cell as one flat row, and back: what tables, data frames and stores are made of.
//!
//! Names of columns are dotted, values are numbers, texts, flags, nulls or lists of them; there are no nested
//! objects, so that every reader of JSON lines makes columns of them. The spec lies elsewhere, under its hash
//! ([`spec_hash`]).
//!
//! | columns | what |
//! |---|---|
//! | `cell` ... `checked_translations` | [`columns`] |
//! | `set.KEY` | settings that differ from the machine's and the design's presets |
//! | `measures.NAME` | derived measures |
//! | `NAME.mean`, `NAME.p99`, `NAME.buckets.value`, ... | a histogram |
//! | `cores.NAME`, `windows.NAME` | lists: by core, by point of the measured region |
//! | `cores.windows.NAME`, `cores.intervals.NAME` | lists of several cores, one core after another: by point, by measured interval |
//! | `sampled.windows`, `.covered`, `.timed`, `.half.COLUMN` | of a sampled region; halves of columns that are lists are lists |
//! | `sampled.intervals.NAME` | lists: by measured interval, where phases were told apart |
//! | `cores.stack.NAME` | lists by core: the cycle stack |
//! | `profile.mappings.NAME`, `profile.code.NAME` | who causes walks and faults: lists by mapping, by instruction |
//! | `profile.other_mappings`, `profile.other_code` | the same of all others |
//! | `series.interval`, `.instructions`, `.cycles`, `.counters.NAME`, `.before.NAME`, `.gauges.NAME` | counters over time: lists by interval |
//! | any other dotted name | a counter |
//! | `host.NAME` | the sim host's time: the only columns in which equal cells may differ |

use crate::profile_columns::{self, PROFILE};
use crate::series_columns::{self, SERIES};
use ambulator_base::ProgramIdentity;
use ambulator_simulator::{
    CoreResult, HistogramResult, MEASURES, MeasuredInterval, RunResult, Sampled, Schema, Status,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_128;

/// One finished cell: values by column, in the order of the columns.
pub type Row = Map<String, Value>;

/// Columns of the cycle stacks of cores begin so; the counters of which they are the parts have this name.
pub(crate) const CORE_STACK: &str = "cores.stack.";
const STACK_COUNTER: &str = "core.window.stack_";
/// Columns that begin so are not compared: equal cells may differ in them.
pub const HOST: &str = "host.";
pub(crate) const SET: &str = "set.";
pub(crate) const MEASURE: &str = "measures.";
pub(crate) const SAMPLED: &str = "sampled.";
/// Half of the 95% interval of another column, in a sampled run.
pub const HALF_OF_SAMPLED: &str = "sampled.half.";
/// Names of halves of cores' numbers, without the core's, begin so.
const CORES: &str = "cores.";
/// Lists of several cores, one core after another: their points, and what each measured interval has.
const CORE_LISTS: [(&str, &str); 2] = [
    ("cores.windows.instructions", "cores.windows.cycles"),
    ("cores.intervals.instructions", "cores.intervals.cycles"),
];
const BUCKET_VALUES: &str = ".buckets.value";
const BUCKET_COUNTS: &str = ".buckets.count";

/// What a row says of its cell that is not in its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CellInfo {
    /// The cell's key.
    pub cell: String,
    /// The build of the models that computed it.
    pub build: String,
    /// The machine's name.
    pub machine: String,
    /// Settings that differ from the machine's and the design's presets, by key.
    pub set: Map<String, Value>,
}

/// Unit and meaning of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Unit of its values.
    pub unit: String,
    /// One line.
    pub meaning: String,
    /// Of a counter: whether it depends on when things happen ([`ambulator_simulator::CounterMeaning`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed: bool,
    /// Of a counter: whether it is a state, not a count of events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gauge: bool,
}

impl Column {
    pub(crate) fn new(unit: impl Into<String>, meaning: impl Into<String>) -> Column {
        Column { unit: unit.into(), meaning: meaning.into(), ..Column::default() }
    }
}

/// The columns that every row has, in their order: name, unit, meaning.
const FIXED: &[(&str, &str, &str)] = &[
    ("cell", "key", "The cell's key: a hash of its spec, its programs, the version and the build."),
    ("version", "text", "Version of Ambulator that computed the cell."),
    ("build", "key", "Hash of the sources that results depend on, and of registered designs."),
    ("machine", "name", "The machine: a preset or a file."),
    ("design", "name", "The design: a preset, joined presets or a file."),
    ("program", "name", "The program, workload or trace; with `+` between those of a mix."),
    ("footprint", "bytes", "Bytes of address space that the program touches; 0 if that was not known in advance."),
    ("seed", "seed", "The seed of everything random."),
    ("status", "choice", "How the run ended: done, outcome, failed or interrupted."),
    ("outcome", "text", "Why it ended, unless it is done."),
    ("spec", "key", "Hash of the whole spec, which is in `specs/HASH.json`."),
    ("identity.name", "name", "The name of the first core's program."),
    ("identity.detail", "text", "Its settings, or the header of its trace."),
    ("identity.digest", "key", "Checksum of its trace or of its settings."),
    ("instructions", "instructions", "Instructions of the measured region, all cores together."),
    ("accesses", "events", "Loads and stores of the measured region."),
    ("cycles", "cycles", "Core cycles of the measured region (the longest core's); 0 in functional mode."),
    ("ipc", "instructions per cycle", "Instructions per cycle, all cores together; 0 in functional mode."),
    ("checked_translations", "events", "Translations compared with the kernel's page state."),
];

/// The columns of lists and of the sim host.
const FURTHER: &[(&str, &str, &str)] = &[
    ("cores.program", "names", "By core: its program."),
    ("cores.instructions", "instructions", "By core: instructions of the measured region."),
    ("cores.cycles", "cycles", "By core: cycles of the measured region."),
    ("cores.ipc", "instructions per cycle", "By core: instructions per cycle."),
    (CORE_LISTS[0].0, "instructions", "By core and point of the measured region: instructions since its begin."),
    (CORE_LISTS[0].1, "cycles", "By core and point of the measured region: cycles since its begin."),
    (CORE_LISTS[1].0, "instructions", "By core and measured interval: instructions."),
    (CORE_LISTS[1].1, "cycles", "By core and measured interval: cycles."),
    ("windows.instructions", "instructions", "By point of the measured region: instructions since its begin."),
    ("windows.cycles", "cycles", "By point of the measured region: cycles since its begin."),
    ("host.seconds", "seconds", "Time of the sim host's threads for this cell, without decoding the program."),
    ("host.setup_seconds", "seconds", "Part of it for first touches and warm-up."),
    ("host.checkpoint", "name", "The checkpoint from which the run started, if it did."),
];

/// The columns of a sampled region.
pub(crate) const OF_SAMPLES: [(&str, &str, &str); 3] = [
    ("sampled.windows", "windows", "Windows that were measured."),
    ("sampled.covered", "instructions", "Instructions of the sampled region, measured or not, all cores together."),
    ("sampled.timed", "instructions", "Of these, instructions for which time was simulated."),
];

/// The columns of the intervals of a region whose phases were told apart: lists.
pub(crate) const OF_INTERVALS: [(&str, &str, &str); 5] = [
    ("sampled.intervals.interval", "number", "By measured interval: its number among those of the region."),
    ("sampled.intervals.phase", "number", "By measured interval: the number of its phase."),
    ("sampled.intervals.weight", "intervals", "By measured interval: intervals of its phase that it stands for."),
    ("sampled.intervals.instructions", "instructions", "By measured interval: instructions, all cores together."),
    ("sampled.intervals.cycles", "cycles", "By measured interval: cycles of the core that took longest."),
];

/// The numbers of an interval, in the order of [`OF_INTERVALS`].
fn numbers_of(of: &MeasuredInterval) -> [u64; 5] {
    [of.interval, of.phase, of.weight, of.instructions, of.cycles]
}

/// The columns of a histogram, after its name.
pub(crate) const OF_HISTOGRAM: &[(&str, &str)] = &[
    (".count", "Number of samples."),
    (".mean", "Mean."),
    (".min", "Least sample."),
    (".p50", "Median."),
    (".p90", "90th percentile."),
    (".p99", "99th percentile."),
    (".max", "Greatest sample."),
    (BUCKET_VALUES, "Lowest value of each nonempty bucket."),
    (BUCKET_COUNTS, "Samples in each nonempty bucket."),
];

/// The histograms of a result: name, unit, and what they are of.
pub(crate) const HISTOGRAMS: &[(&str, &str, &str)] =
    &[("walk_latency", "cycles", "latency of page walks"), ("walk_loads", "loads", "loads of a page walk")];

/// Columns whose names end in that of a setting, a counter or a state: how they begin, and what they are.
pub(crate) const PATTERNS: [(&str, &str); 5] = [
    (SET, "Settings that differ from the presets of the machine and the design: a column for each."),
    (series_columns::COUNTERS, "By interval of `run.interval`: what a counter has added; a column for each counter."),
    (series_columns::BEFORE, "A counter at the begin of the measured region; a column for each that is not 0 there."),
    (
        HALF_OF_SAMPLED,
        "Of a sampled region: half of the width of the 95% interval of another column; a column for each.",
    ),
    (series_columns::GAUGES, "By interval of `run.interval`: a state at its end; a column for each state."),
];

/// What `results --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ResultsDocument {
    /// Version of Ambulator that wrote it.
    pub version: String,
    /// Unit and meaning of the columns, by name.
    pub columns: BTreeMap<String, Column>,
    /// The cells: values by column.
    pub rows: Vec<Row>,
    /// The whole specs of the cells, by the hash in the column `spec`.
    pub specs: BTreeMap<String, Value>,
}

/// Unit and meaning of every column but settings and counters, by name.
pub fn columns() -> BTreeMap<String, Column> {
    let column = |unit: &str, meaning: &str| Column::new(unit, meaning);
    let fixed = FIXED.iter().chain(FURTHER);
    let mut all: BTreeMap<String, Column> =
        fixed.map(|(name, unit, meaning)| ((*name).to_owned(), column(unit, meaning))).collect();
    all.extend(MEASURES.iter().map(|of| (format!("{MEASURE}{}", of.name), column(of.unit, of.meaning))));
    for (name, unit, of) in HISTOGRAMS {
        for (part, meaning) in OF_HISTOGRAM {
            let unit = if part.ends_with("count") { "samples" } else { unit };
            all.insert(format!("{name}{part}"), column(unit, &format!("Of the {of}: {meaning}")));
        }
    }
    all
}

/// Unit and meaning of the columns of counters.
pub fn counter_columns(schema: &Schema) -> BTreeMap<String, Column> {
    let column = |(name, of): (&String, &ambulator_simulator::CounterMeaning)| {
        let column = Column::new(of.unit.to_string(), of.meaning.clone());
        (name.clone(), Column { timed: of.timed, gauge: of.gauge, ..column })
    };
    let of_cores = |(name, of): (&String, &ambulator_simulator::CounterMeaning)| {
        let part = name.strip_prefix(STACK_COUNTER)?;
        let column = Column::new(of.unit.to_string(), format!("By core: {}", of.meaning));
        Some((format!("{CORE_STACK}{part}"), Column { timed: of.timed, ..column }))
    };
    schema.iter().map(column).chain(schema.iter().filter_map(of_cores)).collect()
}

/// Unit and meaning of the columns of a sampled region; `known` are those of the other columns.
pub(crate) fn sample_columns(sampled: &Sampled, known: &BTreeMap<String, Column>) -> BTreeMap<String, Column> {
    let half = |name: &String| {
        let name = of_core(name).map_or(name.clone(), |(_, name)| format!("{CORES}{name}"));
        let of = known.get(&name)?;
        let meaning = format!("Half of the width of the 95% interval of `{name}`.");
        Some((format!("{HALF_OF_SAMPLED}{name}"), Column::new(of.unit.clone(), meaning)))
    };
    let intervals = OF_INTERVALS.iter().filter(|_| !sampled.intervals.is_empty());
    let fixed = OF_SAMPLES.iter().chain(intervals);
    let fixed = fixed.map(|(name, unit, meaning)| ((*name).to_owned(), Column::new(*unit, *meaning)));
    fixed.chain(sampled.half.keys().filter_map(half)).collect()
}

/// The core and the rest of the name of a core's number: `cores.3.ipc`.
fn of_core(name: &str) -> Option<(usize, &str)> {
    let (number, name) = name.strip_prefix(CORES)?.split_once('.')?;
    Some((number.parse().ok()?, name))
}

/// Halves by column: those of cores are lists.
fn columns_of_halves(half: &BTreeMap<String, f64>, cores: usize) -> BTreeMap<String, Value> {
    let mut columns: BTreeMap<String, Value> = BTreeMap::new();
    for (name, half) in half {
        match of_core(name).filter(|(number, _)| *number < cores) {
            None => _ = columns.insert(name.clone(), (*half).into()),
            Some((number, name)) => {
                let list = columns.entry(format!("{CORES}{name}")).or_insert_with(|| vec![Value::Null; cores].into());
                list[number] = (*half).into();
            }
        }
    }
    columns
}

/// The name of a spec's file: 32 hexadecimal digits.
pub fn spec_hash(spec: &Value) -> String {
    format!("{:032x}", xxh3_128(spec.to_string().as_bytes()))
}

/// The row of a run. It has everything but the spec, which it names by its hash, and the speed-ups, which are
/// relative to other runs.
pub fn row_of(info: &CellInfo, run: &RunResult) -> Row {
    let mut row = Row::new();
    let mut put = |name: &str, value: Value| _ = row.insert(name.to_owned(), value);
    put("cell", info.cell.as_str().into());
    put("version", run.version.as_str().into());
    put("build", info.build.as_str().into());
    put("machine", info.machine.as_str().into());
    put("design", run.design.as_str().into());
    put("program", run.program.as_str().into());
    put("footprint", run.identity.footprint.into());
    put("seed", run.seed.into());
    put("status", serde_json::to_value(run.status).unwrap_or_default());
    put("outcome", run.outcome.clone().into());
    put("spec", spec_hash(&run.spec).into());
    put("identity.name", run.identity.name.as_str().into());
    put("identity.detail", run.identity.detail.as_str().into());
    put("identity.digest", format!("{:016x}", run.identity.digest).into());
    put("instructions", run.simulated_instructions.into());
    put("accesses", run.simulated_accesses.into());
    put("cycles", run.cycles.into());
    put("ipc", run.ipc.into());
    put("checked_translations", run.checked_translations.into());
    for (key, value) in &info.set {
        put(&format!("{SET}{key}"), flat(value));
    }
    for (name, value) in &run.measures {
        put(&format!("{MEASURE}{name}"), (*value).into());
    }
    for (name, value) in &run.counters {
        put(name, (*value).into());
    }
    for (name, histogram) in &run.histograms {
        let HistogramResult { count, mean, min, p50, p90, p99, max, buckets } = histogram;
        put(&format!("{name}.count"), (*count).into());
        put(&format!("{name}.mean"), (*mean).into());
        for (part, value) in [(".min", min), (".p50", p50), (".p90", p90), (".p99", p99), (".max", max)] {
            put(&format!("{name}{part}"), (*value).into());
        }
        put(&format!("{name}{BUCKET_VALUES}"), list(buckets, |of| of.0.into()));
        put(&format!("{name}{BUCKET_COUNTS}"), list(buckets, |of| of.1.into()));
    }
    put("cores.program", list(&run.cores, |core| core.program.as_str().into()));
    put("cores.instructions", list(&run.cores, |core| core.instructions.into()));
    put("cores.cycles", list(&run.cores, |core| core.cycles.into()));
    put("cores.ipc", list(&run.cores, |core| core.ipc.into()));
    for part in run.cores.iter().take(1).flat_map(|core| core.stack.keys()) {
        let cycles = |core: &CoreResult| core.stack.get(part).copied().into();
        put(&format!("{CORE_STACK}{part}"), list(&run.cores, cycles));
    }
    let of_cores = [|core: &CoreResult| core.windows.clone(), |core: &CoreResult| core.intervals.clone()];
    for ((first, second), of) in CORE_LISTS.into_iter().zip(of_cores) {
        let all: Vec<(u64, u64)> = run.cores.iter().flat_map(of).collect();
        put(first, list(&all, |point| point.0.into()));
        put(second, list(&all, |point| point.1.into()));
    }
    put("windows.instructions", list(&run.windows, |point| point.0.into()));
    put("windows.cycles", list(&run.windows, |point| point.1.into()));
    if let Some(series) = &run.series {
        series_columns::put(&mut row, series);
    }
    if let Some(Sampled { windows, covered, timed, half, intervals }) = &run.sampled {
        for ((name, ..), at) in OF_INTERVALS.iter().zip(0..).filter(|_| !intervals.is_empty()) {
            row.insert((*name).to_owned(), list(intervals, |of| numbers_of(of)[at].into()));
        }
        for ((name, ..), value) in OF_SAMPLES.iter().zip([windows, covered, timed]) {
            row.insert((*name).to_owned(), (*value).into());
        }
        let halves = columns_of_halves(half, run.cores.len()).into_iter();
        row.extend(halves.map(|(name, half)| (format!("{HALF_OF_SAMPLED}{name}"), half)));
    }
    if let Some(profile) = &run.profile {
        profile_columns::put(&mut row, profile);
    }
    let mut put = |name: &str, value: Value| _ = row.insert(name.to_owned(), value);
    put("host.seconds", run.sim_host_seconds.into());
    put("host.setup_seconds", run.sim_host_setup_seconds.into());
    if let Some(checkpoint) = &run.checkpoint {
        put("host.checkpoint", checkpoint.as_str().into());
    }
    row
}

fn list<T>(values: &[T], of: impl Fn(&T) -> Value) -> Value {
    Value::Array(values.iter().map(of).collect())
}

/// A setting's value without objects: what has any becomes its JSON as text.
fn flat(value: &Value) -> Value {
    let nested = |value: &Value| matches!(value, Value::Object(_) | Value::Array(_));
    match value {
        Value::Object(_) => value.to_string().into(),
        Value::Array(values) if values.iter().any(nested) => value.to_string().into(),
        _ => value.clone(),
    }
}

/// The run of a row, whose spec is `spec`. Its speed-ups are 1.
///
/// # Errors
/// A sentence that names the column which is missing, or has something else than what it should.
pub fn run_of(row: &Row, spec: Value) -> Result<(CellInfo, RunResult), String> {
    let reader = Reader { row };
    let info = CellInfo {
        cell: reader.text("cell")?,
        build: reader.text("build")?,
        machine: reader.text("machine")?,
        set: reader.below(SET).map(|(key, value)| (key.to_owned(), value.clone())).collect(),
    };
    let digest = reader.text("identity.digest")?;
    let digest = u64::from_str_radix(&digest, 16).map_err(|_| wrong("identity.digest", "16 hexadecimal digits"))?;
    let status: Status = serde_json::from_value(reader.get("status")?.clone())
        .map_err(|_| wrong("status", "done, outcome, failed or interrupted"))?;
    let outcome = match reader.get("outcome")? {
        Value::Null => None,
        _ => Some(reader.text("outcome")?),
    };
    let measures = reader.below(MEASURE).map(|(name, value)| Ok((name.to_owned(), reader.float_of(name, value)?)));
    let measures = measures.collect::<Result<BTreeMap<_, _>, String>>()?;
    let histograms = reader.histograms()?;
    let run = RunResult {
        design: reader.text("design")?,
        program: reader.text("program")?,
        status,
        outcome,
        simulated_instructions: reader.whole("instructions")?,
        simulated_accesses: reader.whole("accesses")?,
        cycles: reader.whole("cycles")?,
        ipc: reader.float("ipc")?,
        speedup: 1.0,
        weighted_speedup: 1.0,
        windows: reader.pairs("windows.instructions", "windows.cycles")?,
        cores: reader.cores()?,
        checked_translations: reader.whole("checked_translations")?,
        sim_host_seconds: reader.float("host.seconds")?,
        sim_host_setup_seconds: reader.float("host.setup_seconds")?,
        measures,
        counters: reader.counters(&histograms)?,
        histograms,
        spec,
        identity: ProgramIdentity {
            name: reader.text("identity.name")?,
            detail: reader.text("identity.detail")?,
            footprint: reader.whole("footprint")?,
            digest,
        },
        seed: reader.whole("seed")?,
        version: reader.text("version")?,
        over_seeds: Vec::new(),
        checkpoint: row.get("host.checkpoint").and_then(Value::as_str).map(str::to_owned),
        series: series_columns::read(row)?,
        sampled: reader.sampled()?,
        profile: profile_columns::read(row)?,
    };
    Ok((info, run))
}

/// Whether two rows are of equal results: all columns but the sim host's, and the names of the machine, the
/// design and the programs. If not, the first column in which they differ.
pub fn first_difference<'a>(one: &'a Row, other: &'a Row) -> Option<&'a str> {
    const NAMES: [&str; 5] = ["machine", "design", "program", "identity.name", "cores.program"];
    let compared =
        |name: &&String| !name.starts_with(HOST) && !name.starts_with(SET) && !NAMES.contains(&name.as_str());
    let names = one.keys().chain(other.keys()).filter(compared);
    names.map(String::as_str).find(|name| one.get(*name) != other.get(*name))
}

fn wrong(column: &str, expected: &str) -> String {
    format!("its column `{column}` is not {expected}")
}

struct Reader<'r> {
    row: &'r Row,
}

impl<'r> Reader<'r> {
    fn get(&self, column: &str) -> Result<&'r Value, String> {
        self.row.get(column).ok_or_else(|| format!("it has no column `{column}`"))
    }

    fn text(&self, column: &str) -> Result<String, String> {
        self.get(column)?.as_str().map(str::to_owned).ok_or_else(|| wrong(column, "a text"))
    }

    fn whole(&self, column: &str) -> Result<u64, String> {
        self.get(column)?.as_u64().ok_or_else(|| wrong(column, "a whole number"))
    }

    fn float(&self, column: &str) -> Result<f64, String> {
        self.float_of(column, self.get(column)?)
    }

    /// A number; JSON has none that is not finite, and null in its place.
    fn float_of(&self, column: &str, value: &Value) -> Result<f64, String> {
        if value.is_null() { Ok(f64::NAN) } else { value.as_f64().ok_or_else(|| wrong(column, "a number")) }
    }

    /// The columns that begin with `prefix`, by the rest of their names.
    fn below(&self, prefix: &str) -> impl Iterator<Item = (&'r str, &'r Value)> {
        self.row.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }

    fn list(&self, column: &str) -> Result<&'r [Value], String> {
        self.get(column)?.as_array().map(Vec::as_slice).ok_or_else(|| wrong(column, "a list"))
    }

    fn wholes(&self, column: &str) -> Result<Vec<u64>, String> {
        let whole = |value: &Value| value.as_u64().ok_or_else(|| wrong(column, "a list of whole numbers"));
        self.list(column)?.iter().map(whole).collect()
    }

    fn pairs(&self, first: &str, second: &str) -> Result<Vec<(u64, u64)>, String> {
        let (one, two) = (self.wholes(first)?, self.wholes(second)?);
        if one.len() != two.len() {
            return Err(format!("its columns `{first}` and `{second}` are not of one length"));
        }
        Ok(one.into_iter().zip(two).collect())
    }

    fn cores(&self) -> Result<Vec<CoreResult>, String> {
        let points = self.pairs("cores.instructions", "cores.cycles")?;
        let (names, ipc) = (self.list("cores.program")?, self.list("cores.ipc")?);
        if names.len() != points.len() || ipc.len() != points.len() {
            return Err("its columns `cores.` are not of one length".into());
        }
        let core = |((instructions, cycles), (name, ipc)): ((u64, u64), (&Value, &Value))| {
            let program = name.as_str().ok_or_else(|| wrong("cores.program", "a list of texts"))?.to_owned();
            let ipc = self.float_of("cores.ipc", ipc)?;
            Ok(CoreResult { program, instructions, cycles, ipc, ..CoreResult::default() })
        };
        let cores = points.into_iter().zip(names.iter().zip(ipc)).map(core);
        let mut cores: Vec<CoreResult> = cores.collect::<Result<_, String>>()?;
        for (part, _) in self.below(CORE_STACK) {
            let column = format!("{CORE_STACK}{part}");
            let cycles = self.wholes(&column)?;
            if cycles.len() != cores.len() {
                return Err(wrong(&column, "a list with a number for each core"));
            }
            cores.iter_mut().zip(cycles).for_each(|(core, cycles)| _ = core.stack.insert(part.to_owned(), cycles));
        }
        let [windows, intervals] = CORE_LISTS.map(|lists| self.of_each_core(lists, cores.len()));
        cores.iter_mut().zip(windows?).for_each(|(core, own)| core.windows = own);
        cores.iter_mut().zip(intervals?).for_each(|(core, own)| core.intervals = own);
        Ok(cores)
    }

    /// The pairs of each core of two columns that have one core after another; nothing if the row does not have them.
    fn of_each_core(&self, (first, second): (&str, &str), cores: usize) -> Result<Vec<Vec<(u64, u64)>>, String> {
        if !self.row.contains_key(first) {
            return Ok(Vec::new());
        }
        let all = self.pairs(first, second)?;
        if all.len() % cores.max(1) != 0 {
            return Err(wrong(first, "a list with as many numbers for each core"));
        }
        Ok(all.chunks((all.len() / cores.max(1)).max(1)).map(<[(u64, u64)]>::to_vec).collect())
    }

    fn sampled(&self) -> Result<Option<Sampled>, String> {
        if !self.row.contains_key(OF_SAMPLES[0].0) {
            return Ok(None);
        }
        let [windows, covered, timed] = OF_SAMPLES.map(|(name, ..)| self.whole(name));
        let mut half: BTreeMap<String, f64> = BTreeMap::new();
        for (name, value) in self.below(HALF_OF_SAMPLED) {
            match (value.as_array(), name.strip_prefix(CORES)) {
                (Some(list), Some(of)) => {
                    for (number, value) in list.iter().enumerate().filter(|(_, value)| !value.is_null()) {
                        half.insert(format!("{CORES}{number}.{of}"), self.float_of(name, value)?);
                    }
                }
                _ => _ = half.insert(name.to_owned(), self.float_of(name, value)?),
            }
        }
        Ok(Some(Sampled { windows: windows?, covered: covered?, timed: timed?, half, intervals: self.intervals()? }))
    }

    fn intervals(&self) -> Result<Vec<MeasuredInterval>, String> {
        if !self.row.contains_key(OF_INTERVALS[0].0) {
            return Ok(Vec::new());
        }
        let lists = OF_INTERVALS.map(|(name, ..)| self.wholes(name));
        let lists: Vec<Vec<u64>> = lists.into_iter().collect::<Result<_, String>>()?;
        if lists.iter().any(|list| list.len() != lists[0].len()) {
            return Err("its columns `sampled.intervals.` are not of one length".into());
        }
        let of = |at: usize| MeasuredInterval {
            interval: lists[0][at],
            phase: lists[1][at],
            weight: lists[2][at],
            instructions: lists[3][at],
            cycles: lists[4][at],
        };
        Ok((0..lists[0].len()).map(of).collect())
    }

    /// Histograms are known by their buckets.
    fn histograms(&self) -> Result<BTreeMap<String, HistogramResult>, String> {
        let names = self.row.keys().filter_map(|column| column.strip_suffix(BUCKET_VALUES));
        let read = |name: &str| {
            let whole = |part: &str| self.whole(&format!("{name}{part}"));
            let histogram = HistogramResult {
                count: whole(".count")?,
                mean: self.float(&format!("{name}.mean"))?,
                min: whole(".min")?,
                p50: whole(".p50")?,
                p90: whole(".p90")?,
                p99: whole(".p99")?,
                max: whole(".max")?,
                buckets: self.pairs(&format!("{name}{BUCKET_VALUES}"), &format!("{name}{BUCKET_COUNTS}"))?,
            };
            Ok((name.to_owned(), histogram))
        };
        names.map(read).collect()
    }

    /// What no other kind of column is.
    fn counters(&self, histograms: &BTreeMap<String, HistogramResult>) -> Result<BTreeMap<String, u64>, String> {
        let of_histogram = |name: &str| {
            let part = |(part, _): &(&str, &str)| name.strip_suffix(part).is_some_and(|of| histograms.contains_key(of));
            OF_HISTOGRAM.iter().any(part)
        };
        let is_known = |name: &str| FIXED.iter().chain(FURTHER).any(|(known, ..)| *known == name);
        let mut counters = BTreeMap::new();
        for (name, value) in self.row {
            if is_known(name)
                || [SET, MEASURE, SERIES, SAMPLED, PROFILE, CORE_STACK].iter().any(|of| name.starts_with(of))
                || of_histogram(name)
            {
                continue;
            }
            counters.insert(name.clone(), value.as_u64().ok_or_else(|| wrong(name, "a counter: a whole number"))?);
        }
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::MapKind;
    use ambulator_simulator::{Misses, Profile, ProfiledCode, ProfiledMapping, Series};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = f64> {
        any::<f64>().prop_filter("JSON has finite numbers", |value| value.is_finite())
    }

    prop_compose! {
        fn histogram()(numbers in prop::array::uniform6(any::<u64>()), mean in number(),
                       buckets in vec((any::<u64>(), any::<u64>()), 0..4)) -> HistogramResult {
            let [count, min, p50, p90, p99, max] = numbers;
            HistogramResult { count, mean, min, p50, p90, p99, max, buckets }
        }
    }

    prop_compose! {
        fn series()(interval in any::<u64>(), instructions in vec(any::<u64>(), 0..3), cycles in vec(any::<u64>(), 0..3),
                    counters in btree_map("(mmu|core)\\.[a-z_.]{1,9}", vec(any::<u64>(), 0..3), 0..3),
                    before in btree_map("(mmu|core)\\.[a-z_.]{1,9}", any::<u64>(), 0..3),
                    gauges in btree_map("(measures|core)\\.[a-z_]{1,9}", vec(number(), 0..3), 0..3)) -> Series {
            Series { interval, instructions, cycles, counters, before, gauges }
        }
    }

    prop_compose! {
        fn sampled()(numbers in prop::array::uniform3(any::<u64>()),
                     half in btree_map("(ipc|measures\\.[a-z_]{1,9}|mmu\\.[a-z.]{1,9})", number(), 0..4),
                     intervals in vec(prop::array::uniform5(any::<u64>()), 0..4)) -> Sampled {
            let [windows, covered, timed] = numbers;
            let interval = |[interval, phase, weight, instructions, cycles]: [u64; 5]| {
                MeasuredInterval { interval, phase, weight, instructions, cycles }
            };
            Sampled { windows, covered, timed, half, intervals: intervals.into_iter().map(interval).collect() }
        }
    }

    prop_compose! {
        fn core()(program in ".*", instructions in any::<u64>(), cycles in any::<u64>(), ipc in number(),
                  base in any::<u64>(), walk_dram in any::<u64>()) -> CoreResult {
            let stack = [("base".to_owned(), base), ("walk_dram".to_owned(), walk_dram)].into();
            CoreResult { program, instructions, cycles, ipc, stack, ..CoreResult::default() }
        }
    }

    fn misses() -> impl Strategy<Value = Misses> {
        prop::array::uniform5(any::<u64>()).prop_map(Misses::of_values)
    }

    prop_compose! {
        fn mapping()(name in ".*", start in any::<u64>(), bytes in any::<u64>(), misses in misses(), kind in 0..5usize)
                     -> ProfiledMapping {
            let kind = [MapKind::Anonymous, MapKind::File, MapKind::Heap, MapKind::Stack].get(kind).copied();
            ProfiledMapping { name, start, bytes, kind, misses }
        }
    }

    prop_compose! {
        fn code()(pc in any::<u64>(), file in ".*", file_offset in any::<u64>(), misses in misses(),
                  mapping in prop::option::of(0..9usize)) -> ProfiledCode {
            ProfiledCode { pc, file, file_offset, mapping, misses }
        }
    }

    prop_compose! {
        fn profile()(mappings in vec(mapping(), 0..3), other_mappings in misses(), code in vec(code(), 0..3),
                     other_code in misses()) -> Profile {
            Profile { mappings, other_mappings, code, other_code }
        }
    }

    prop_compose! {
        fn names()(design in ".*", program in ".*", outcome in prop::option::of(".*"), name in ".*", detail in ".*",
                   digest in any::<u64>(), footprint in any::<u64>(), seed in any::<u64>(), status in 0..4usize)
                   -> RunResult {
            let status = [Status::Done, Status::Interrupted, Status::Outcome, Status::Failed][status];
            let identity = ProgramIdentity { name, detail, footprint, digest };
            RunResult { design, program, outcome, identity, seed, status, version: "9".into(), ..RunResult::default() }
        }
    }

    prop_compose! {
        fn run()(named in names(), numbers in prop::array::uniform4(any::<u64>()), ipc in number(),
                 windows in vec((any::<u64>(), any::<u64>()), 0..5), cores in vec(core(), 0..3),
                 measures in btree_map("[a-z_0-9]{1,12}", number(), 0..5),
                 counters in btree_map("(mmu|kernel|core)\\.[a-z_.0-9]{1,12}", any::<u64>(), 0..6),
                 histograms in btree_map("walk_[a-z]{1,6}", histogram(), 0..3), host in number(),
                 series in prop::option::of(series()), profile in prop::option::of(profile()),
                 sampled in prop::option::of(sampled()), intervals in 0..3u64) -> RunResult {
            let [simulated_instructions, simulated_accesses, cycles, checked_translations] = numbers;
            let (mut cores, mut sampled) = (cores, sampled);
            for (number, core) in cores.iter_mut().enumerate() {
                core.windows = windows.iter().map(|point| (point.0 / 3, point.1 ^ number as u64)).collect();
                core.intervals = (0..intervals).map(|interval| (interval, number as u64)).collect();
                if let Some(sampled) = &mut sampled {
                    sampled.half.insert(format!("cores.{number}.ipc"), 0.5 / (1.0 + number as f64));
                    sampled.half.insert(format!("cores.{number}.stack.base"), number as f64);
                }
            }
            RunResult {
                simulated_instructions, simulated_accesses, cycles, checked_translations, ipc, windows, cores,
                measures, counters, histograms, series, profile, sampled, speedup: 1.0, weighted_speedup: 1.0,
                sim_host_seconds: host,
                sim_host_setup_seconds: host / 3.0, spec: serde_json::json!({"a": {"b": 1}}), ..named
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_run_comes_back_from_its_row_as_it_was(run in run(), set in btree_map("[a-z.]{1,9}", any::<i64>(), 0..3)) {
            let set = set.into_iter().map(|(key, value)| (key, value.into())).collect();
            let info = CellInfo { cell: "k".into(), build: "b".into(), machine: "m".into(), set };
            let text = serde_json::to_string(&row_of(&info, &run)).unwrap();
            let row: Row = serde_json::from_str(&text).unwrap();
            for (name, value) in &row {
                let scalar = |value: &Value| !value.is_object() && !value.is_array();
                let flat = scalar(value) || value.as_array().is_some_and(|values| values.iter().all(scalar));
                prop_assert!(flat, "{name}: {value}");
            }
            prop_assert_eq!(row["spec"].as_str().unwrap(), spec_hash(&run.spec));
            let (again, back) = run_of(&row, run.spec.clone()).unwrap();
            prop_assert_eq!(again, info);
            prop_assert_eq!(serde_json::to_string(&back).unwrap(), serde_json::to_string(&run).unwrap());
        }
    }

    #[test]
    fn every_column_of_a_run_has_a_unit_and_a_meaning() {
        let run = RunResult {
            measures: MEASURES.iter().map(|of| (of.name.to_owned(), 1.0)).collect(),
            histograms: HISTOGRAMS.iter().map(|(name, ..)| ((*name).to_owned(), HistogramResult::default())).collect(),
            checkpoint: Some("radix".into()),
            ..RunResult::default()
        };
        let known = columns();
        let row = row_of(&CellInfo::default(), &run);
        assert!(row.len() > 80, "{}", row.len());
        for name in row.keys() {
            assert!(known.get(name).is_some_and(|of| !of.unit.is_empty() && of.meaning.ends_with('.')), "{name}");
        }
        assert_eq!(known.len(), row.len(), "no column that no row has");
    }

    #[test]
    fn what_is_no_row_is_named_by_its_column() {
        let run = RunResult::default();
        let row = row_of(&CellInfo::default(), &run);
        let error = |change: &dyn Fn(&mut Row)| {
            let mut row = row.clone();
            change(&mut row);
            run_of(&row, Value::Null).unwrap_err()
        };
        assert_eq!(error(&|row| _ = row.remove("cycles")), "it has no column `cycles`");
        assert!(error(&|row| _ = row.insert("ipc".into(), "x".into())).contains("`ipc` is not a number"));
        assert!(error(&|row| _ = row.insert("mmu.walks".into(), (-1).into())).contains("`mmu.walks`"));
        assert!(error(&|row| _ = row.insert("windows.cycles".into(), vec![1].into())).contains("`windows.cycles`"));
        let two = RunResult { cores: vec![CoreResult { windows: vec![(1, 2)], ..CoreResult::default() }; 2], ..run };
        let mut row = row_of(&CellInfo::default(), &two);
        for column in [CORE_LISTS[0].0, CORE_LISTS[0].1] {
            row.insert(column.into(), vec![1, 2, 3].into());
        }
        assert!(
            run_of(&row, Value::Null).unwrap_err().contains("`cores.windows.instructions` is not a list with as many")
        );
    }

    #[test]
    fn equal_results_under_other_names_do_not_differ() {
        let of = |design: &str, walks: u64, seconds: f64| {
            let counters = [("mmu.walks".to_owned(), walks)].into();
            let run = RunResult { design: design.into(), counters, sim_host_seconds: seconds, ..RunResult::default() };
            row_of(&CellInfo::default(), &run)
        };
        assert_eq!(first_difference(&of("a", 1, 1.0), &of("b", 1, 2.0)), None);
        assert_eq!(first_difference(&of("a", 1, 1.0), &of("a", 2, 1.0)), Some("mmu.walks"));
    }
}
