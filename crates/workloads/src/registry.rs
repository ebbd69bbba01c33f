//! A program by name: the kernels that there are, and how a request becomes a stream.

use crate::OpenError;
use crate::kernels::graphbig::{Bc, Cc, Dc, Dfs, Gc, GraphBigSpec, Sssp, Tc};
use crate::kernels::{
    AstarSpec, BfsSpec, CannealSpec, CgSpec, DlrmSpec, GupsSpec, KernelInfo, KernelSpec, KmerSpec, McfSpec,
    MemcachedSpec, MummerSpec, OmnetppSpec, PageRankSpec, PointerChaseSpec, StencilSpec, StreamSpec, StreamclusterSpec,
    SysbenchMemorySpec, XsbenchSpec,
};
use ambulator_base::{Batch, Invalid, ProgramIdentity, RecordSource, SourceError};
use ambulator_trace::{TraceOptions, open_trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// Lists the kernels once: everything that knows all of them follows from it.
macro_rules! programs {
    ($($(#[$doc:meta])* $variant:ident($spec:ty),)*) => {
        /// A program with all of its settings: `program = "gups"` and the keys of that program's own spec.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "program", rename_all = "kebab-case")]
        pub enum ProgramSpec {
            $($(#[$doc])* $variant($spec),)*
        }

        const KERNELS: &[KernelInfo] = &[$(<$spec as KernelSpec>::INFO),*];

        /// Every kernel's settings, in the order of [`kernels`].
        pub fn kernel_settings() -> Vec<KernelSettings> {
            vec![$(KernelSettings::of::<$spec>()),*]
        }

        impl ProgramSpec {
            /// The kernel's name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(ProgramSpec::$variant(_) => <$spec as KernelSpec>::INFO.name,)*
                }
            }

            /// Sentences on what makes no sense, each naming its key under `at`; empty when all is well.
            pub fn validate(&self, at: &str) -> Vec<Invalid> {
                match self {
                    $(ProgramSpec::$variant(spec) => spec.validate(at),)*
                }
            }

            fn source(&self) -> Box<dyn RecordSource> {
                match self {
                    $(ProgramSpec::$variant(spec) => spec.source(),)*
                }
            }
        }
    };
}

programs! {
    /// A* searches.
    Astar(AstarSpec),
    /// Betweenness centrality.
    Bc(GraphBigSpec<Bc>),
    /// Breadth-first search.
    Bfs(BfsSpec),
    /// PARSEC canneal.
    Canneal(CannealSpec),
    /// Connected components.
    Cc(GraphBigSpec<Cc>),
    /// NPB CG.
    Cg(CgSpec),
    /// Degree centrality.
    Dc(GraphBigSpec<Dc>),
    /// Depth-first search.
    Dfs(GraphBigSpec<Dfs>),
    /// DLRM's sparse-length sums.
    Dlrm(DlrmSpec),
    /// Graph colouring.
    Gc(GraphBigSpec<Gc>),
    /// HPC Challenge RandomAccess.
    Gups(GupsSpec),
    /// k-mer counting.
    Kmer(KmerSpec),
    /// Minimum-cost flow.
    Mcf(McfSpec),
    /// Memcached and its client.
    Memcached(MemcachedSpec),
    /// Suffix matching.
    Mummer(MummerSpec),
    /// Discrete-event simulation.
    Omnetpp(OmnetppSpec),
    /// PageRank's power iterations.
    Pagerank(PageRankSpec),
    /// `p = *p` along a random cycle.
    PointerChase(PointerChaseSpec),
    /// Shortest paths.
    Sssp(GraphBigSpec<Sssp>),
    /// Stencils over grids.
    Stencil(StencilSpec),
    /// STREAM's four loops.
    Stream(StreamSpec),
    /// PARSEC streamcluster.
    Streamcluster(StreamclusterSpec),
    /// SysBench's memory test.
    SysbenchMemory(SysbenchMemorySpec),
    /// Triangle count.
    Tc(GraphBigSpec<Tc>),
    /// XSBench's cross-section look-ups.
    Xsbench(XsbenchSpec),
}

/// A kernel's settings as data: what explains and checks them reads this.
#[derive(Clone, Debug)]
pub struct KernelSettings {
    /// The kernel's name.
    pub name: &'static str,
    /// JSON schema of its settings; units are `x-unit`, sources `x-source`.
    pub schema: Value,
    /// Its settings with their defaults.
    pub default: Value,
}

impl KernelSettings {
    fn of<T: KernelSpec + JsonSchema + Serialize + Default>() -> KernelSettings {
        KernelSettings {
            name: T::INFO.name,
            schema: serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default(),
            default: serde_json::to_value(T::default()).unwrap_or_default(),
        }
    }
}

/// What is asked of [`open`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramRequest {
    /// A kernel's name (see [`kernels`]) or the path of a trace file.
    #[schemars(extend("x-unit" = "name"))]
    pub name: String,
    /// Settings that differ from the program's defaults, by key. Sizes are plain numbers of bytes.
    #[schemars(extend("x-unit" = "map"))]
    pub settings: Map<String, Value>,
    /// Bytes of data that the program works on; wins over `settings`. `None` leaves it to them, or to the default.
    #[schemars(extend("x-unit" = "bytes"))]
    pub footprint: Option<u64>,
    /// Seed of everything random in the program, unless `settings` has one of its own.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Name that results show instead of the kernel's own.
    #[schemars(extend("x-unit" = "name"))]
    pub label: Option<String>,
}

/// Every native kernel, in the order of their names.
pub fn kernels() -> &'static [KernelInfo] {
    KERNELS
}

impl ProgramSpec {
    /// The spec of a kernel with its defaults, overridden by what the request says.
    ///
    /// # Errors
    /// [`OpenError::UnknownProgram`] when no kernel has that name, [`OpenError::Settings`] for an unknown key or a value
    /// of the wrong type.
    pub fn from_request(request: &ProgramRequest) -> Result<ProgramSpec, OpenError> {
        if !kernels().iter().any(|k| k.name == request.name) {
            return Err(unknown(&request.name));
        }
        let mut settings = request.settings.clone();
        settings.insert("program".into(), Value::from(request.name.clone()));
        if let Some(footprint) = request.footprint {
            settings.insert("footprint".into(), Value::from(footprint));
        }
        settings.entry("seed").or_insert(Value::from(request.seed));
        serde_json::from_value(Value::Object(settings)).map_err(|e| OpenError::Settings {
            program: request.name.clone(),
            message: with_nearest_key(&e.to_string()),
        })
    }

    /// The program as a stream.
    ///
    /// # Errors
    /// [`OpenError::Invalid`] with what [`ProgramSpec::validate`] says.
    pub fn open(&self) -> Result<Box<dyn RecordSource>, OpenError> {
        let problems = self.validate(self.name());
        if !problems.is_empty() {
            return Err(OpenError::Invalid(problems));
        }
        Ok(self.source())
    }
}

/// Opens a kernel by name, or a trace file by path (its settings are those of [`TraceOptions`]). A name that is both is the
/// kernel; `./gups` is the file.
///
/// # Errors
/// An unknown name, unknown or senseless settings, an unreadable file: a sentence each.
pub fn open(request: &ProgramRequest) -> Result<Box<dyn RecordSource>, OpenError> {
    if kernels().iter().any(|k| k.name == request.name) {
        let source = ProgramSpec::from_request(request)?.open()?;
        return Ok(match &request.label {
            Some(label) => Box::new(Labelled { source, label: label.clone() }),
            None => source,
        });
    }
    let path = Path::new(&request.name);
    // What looks like a path is told what is wrong with the file, anything else which kernels there are.
    let looks_like_a_path = path.components().count() > 1 || path.extension().is_some();
    if !looks_like_a_path && !path.exists() {
        return Err(unknown(&request.name));
    }
    let settings_error = |message| OpenError::Settings { program: request.name.clone(), message };
    if request.footprint.is_some() {
        return Err(settings_error("a trace has the footprint that it was taken with: leave `footprint` out".into()));
    }
    let options: TraceOptions = serde_json::from_value(Value::Object(request.settings.clone()))
        .map_err(|e| settings_error(with_nearest_key(&e.to_string())))?;
    open_trace(path, &options).map_err(|e| OpenError::Trace(e.message))
}

/// A program under another name.
struct Labelled {
    source: Box<dyn RecordSource>,
    label: String,
}

impl RecordSource for Labelled {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: self.label.clone(), ..self.source.identity() }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        self.source.fill(batch)
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }
}

fn unknown(name: &str) -> OpenError {
    let known: Vec<&str> = kernels().iter().map(|k| k.name).collect();
    OpenError::UnknownProgram {
        name: name.into(),
        hint: nearest(name, known.iter().copied()).map_or_else(String::new, |n| format!(": did you mean `{n}`?")),
        known: known.join(", "),
    }
}

/// The candidate most like `name`, if any is like it at all.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::jaro_winkler(name, c), c))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}

/// Adds the nearest right key to serde's "unknown field `x`, expected one of `a`, `b`".
fn with_nearest_key(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(wrong) = quoted.next()
        && let Some(right) = nearest(wrong, quoted)
    {
        return format!("{message}; did you mean `{right}`?");
    }
    message.to_string()
}
