//! Opening a trace file of any known format.

use crate::champsim::{self, ChampSimReader};
use crate::compressed::{self, Compression, Unpacked};
use crate::drmemtrace::{self, DrMemTrace};
use crate::gem5::{self, Contents, Gem5Reader};
use crate::implicit_maps::ImplicitMaps;
use crate::lackey::{self, LackeyReader};
use crate::perf::{self, PerfReader};
use crate::physical::PhysicalReport;
use crate::placed::Placed;
use crate::reader::{TraceInfo, TraceReader};
use crate::selection::{Selected, Selection};
use crate::unchanged::Unchanged;
use ambulator_base::{Invalid, ProgramIdentity, RecordSource, SourceError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A trace file's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// Our own (`.amb`).
    Ambulator,
    /// ChampSim's 64-byte instructions.
    ChampSim,
    /// Valgrind lackey's text.
    Lackey,
    /// ChampSim's 96-byte instructions of CloudSuite.
    CloudSuite,
    /// Packets of a memory port of gem5.
    Gem5Packets,
    /// The data file of an elastic trace of gem5.
    Gem5Elastic,
    /// Samples of memory accesses, printed by `perf script`.
    PerfScript,
    /// DynamoRIO's drmemtrace: a file, or a directory with a file for each thread.
    DrMemTrace,
}

impl std::fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TraceFormat::Ambulator => "ambulator",
            TraceFormat::ChampSim => "champsim",
            TraceFormat::Lackey => "lackey",
            TraceFormat::CloudSuite => "cloudsuite",
            TraceFormat::Gem5Packets => "gem5-packets",
            TraceFormat::Gem5Elastic => "gem5-elastic",
            TraceFormat::PerfScript => "perf-script",
            TraceFormat::DrMemTrace => "drmemtrace",
        })
    }
}

/// How traces are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TraceOptions {
    /// Synthesise mappings for formats that have none (all but our own): the aligned region around an access
    /// is mapped just before its first touch.
    #[schemars(extend("x-unit" = "flag"))]
    pub implicit_maps: bool,
    /// Bytes of that region, a power of two from 4 KiB to 1 GiB. It shapes the VMAs, and so decides where
    /// huge pages are possible.
    #[schemars(range(min = 4096, max = 1 << 30), extend("x-unit" = "bytes"))]
    pub map_granularity: u64,
    /// Bits of virtual addresses kept from formats that do not state a width (kernel addresses have all upper
    /// bits set), 32 to 57.
    #[schemars(range(min = 32, max = 57), extend("x-unit" = "bits"))]
    pub va_bits: u8,
    /// Instructions from the trace's beginning that are skipped. The pages that they touch stay touched, and
    /// the region of interest begins after them.
    #[schemars(range(max = 1u64 << 50), extend("x-unit" = "instructions"))]
    pub skip: u64,
    /// After the skipped part, of every so many instructions only the first `sample_window` are delivered; 0
    /// delivers all. Pages first touched between the windows are touched before the next one.
    #[schemars(range(max = 1u64 << 50), extend("x-unit" = "instructions"))]
    pub sample_every: u64,
    /// Instructions of each window, at most `sample_every`; 0 without windows.
    #[schemars(range(max = 1u64 << 50), extend("x-unit" = "instructions"))]
    pub sample_window: u64,
    /// A file that says where the pages of the trace's first process were in physical memory, for
    /// `--placement trace`: drmemtrace's `v2p.textproto`, the text of `perf script` with physical addresses, or
    /// another trace that has them. Empty for none but the trace's own.
    #[schemars(extend("x-unit" = "name"))]
    pub physical: String,
}

impl Default for TraceOptions {
    fn default() -> Self {
        TraceOptions {
            implicit_maps: true,
            map_granularity: 2 << 20,
            va_bits: 48,
            skip: 0,
            sample_every: 0,
            sample_window: 0,
            physical: String::new(),
        }
    }
}

impl TraceOptions {
    /// Validates the settings; each problem names its key under `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !self.map_granularity.is_power_of_two() || !(1 << 12..=1 << 30).contains(&self.map_granularity) {
            wrong.push(Invalid::new(
                format!("{at}.map_granularity"),
                format!("is {} bytes: it must be a power of two from 4 KiB to 1 GiB", self.map_granularity),
            ));
        }
        if !self.implicit_maps && self.map_granularity != TraceOptions::default().map_granularity {
            wrong.push(
                Invalid::new(
                    format!("{at}.map_granularity"),
                    format!("is set, and `{at}.implicit_maps` is false: no mappings are synthesised; omit one of them"),
                )
                .and(format!("{at}.implicit_maps")),
            );
        }
        if (self.sample_every == 0) != (self.sample_window == 0) || self.sample_window > self.sample_every {
            wrong.push(
                Invalid::new(
                    format!("{at}.sample_window"),
                    format!(
                        "is {} of every {} instructions: give both, and a window that is not longer than what it is of",
                        self.sample_window, self.sample_every
                    ),
                )
                .and(format!("{at}.sample_every")),
            );
        }
        if !(32..=57).contains(&self.va_bits) {
            wrong.push(Invalid::new(
                format!("{at}.va_bits"),
                format!("is {}: virtual addresses have 32 to 57 bits", self.va_bits),
            ));
        }
        wrong
    }

    /// The settings that differ from their defaults, which an Ambulator trace has no use for.
    fn for_foreign_formats(&self) -> Vec<&'static str> {
        let default = TraceOptions::default();
        let differs = [
            ("map_granularity", self.map_granularity != default.map_granularity),
            ("va_bits", self.va_bits != default.va_bits),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    fn maps(&self) -> Option<ImplicitMaps> {
        self.implicit_maps.then(|| ImplicitMaps::new(self.map_granularity))
    }
}

/// A stream in a foreign format, which may know more than records and events say.
pub(crate) trait ForeignSource: RecordSource {
    /// Where its pages were in physical memory, as far as it has been read.
    fn physical(&self) -> Option<PhysicalReport> {
        None
    }

    /// What a summary should say of it beside its notes.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

impl ForeignSource for LackeyReader {}
impl ForeignSource for ChampSimReader {}

/// An open trace of a known format, not yet erased to a `RecordSource`.
pub(crate) enum Opened {
    Ours(Box<TraceReader<File>>),
    Foreign { format: TraceFormat, compression: Compression, bytes: u64, source: Box<dyn ForeignSource> },
}

/// Opens a trace file, recognising its format by its contents.
///
/// # Errors
/// The file is missing, is not a regular file, is empty, has an unknown format, or its beginning is damaged;
/// or the options are for foreign formats, and the trace is ours.
pub fn open_trace(path: &Path, options: &TraceOptions) -> Result<Box<dyn RecordSource>, SourceError> {
    let source: Box<dyn RecordSource> = match open(path, options)? {
        Opened::Ours(reader) => reader,
        Opened::Foreign { format: TraceFormat::PerfScript, .. } => {
            return Err(SourceError::new(format!(
                "{}: holds samples of perf, which are no stream of accesses: `ambulator trace info` shows their pages; to \
                 simulate the program, record it with `ambulator capture`",
                path.display()
            )));
        }
        Opened::Foreign { source, .. } => source,
    };
    let source = match options.physical.as_str() {
        "" => source,
        file => Box::new(Placed::new(source, Path::new(file), options)?),
    };
    let selection = Selection { skip: options.skip, every: options.sample_every, window: options.sample_window };
    Ok(match selection == Selection::default() {
        true => source,
        false => Box::new(Selected::new(source, path.display().to_string(), selection)),
    })
}

/// The files that are read of a trace: itself, or the files of a directory.
pub fn trace_files(path: &Path) -> Vec<PathBuf> {
    let inner = if path.is_dir() { drmemtrace::files_of(path).unwrap_or_default() } else { Vec::new() };
    std::iter::once(path.to_path_buf()).chain(inner).collect()
}

/// What the header and the index of an Ambulator trace say, without reading its records; `None` for other
/// formats, which have no index.
///
/// # Errors
/// As [`open_trace`].
pub fn trace_index(path: &Path) -> Result<Option<TraceInfo>, SourceError> {
    let name = path.display().to_string();
    let cannot = |e| SourceError::new(format!("{name}: the trace cannot be opened: {e}"));
    let mut file = File::open(path).map_err(cannot)?;
    let mut head = [0; 8];
    let got = file.read(&mut head).map_err(cannot)?;
    if !compressed::is_ours(&head[..got]) {
        return Ok(None);
    }
    TraceReader::new(file, &name).map(|reader| Some(reader.info().clone()))
}

pub(crate) fn open(path: &Path, options: &TraceOptions) -> Result<Opened, SourceError> {
    let name = path.display().to_string();
    let fail = |what: String| SourceError::new(format!("{name}: {what}"));
    if let Some(wrong) = options.validate("trace").into_iter().next() {
        return Err(SourceError::new(wrong.to_string()));
    }
    let kind = std::fs::metadata(path).map_err(|e| fail(format!("the trace cannot be opened: {e}")))?;
    if kind.is_dir() {
        let identity = identity(directory_name(path), TraceFormat::DrMemTrace, 0, options);
        let (source, compression, bytes) = drmemtrace::open_directory(path, identity, options)?;
        let format = TraceFormat::DrMemTrace;
        return Ok(Opened::Foreign { format, compression, bytes, source: Box::new(source) });
    }
    if !kind.is_file() {
        return Err(fail("is not a regular file; traces are read from files on disk, so write it to one first".into()));
    }
    if kind.len() == 0 {
        return Err(fail("the trace is empty (0 bytes)".into()));
    }
    let mut file = File::open(path).map_err(|e| fail(format!("the trace cannot be opened: {e}")))?;
    let mut head = [0; 8];
    let got = file.read(&mut head).map_err(|e| fail(format!("cannot be read: {e}")))?;
    if compressed::is_ours(&head[..got]) {
        let foreign = options.for_foreign_formats();
        if !foreign.is_empty() {
            return Err(fail(format!(
                "is an Ambulator trace, which has its own mappings and addresses of up to 57 bits: omit {}, which is for \
                 the traces of other tools",
                foreign.join(" and ")
            )));
        }
        return TraceReader::new(file, &name).map(|reader| Opened::Ours(Box::new(reader)));
    }
    let bytes = kind.len();
    let (digest, contents) = Unchanged::new(file).map_err(|e| fail(format!("cannot be read: {e}")))?;
    foreign(contents, path, &name, (digest, bytes), options)
}

/// The name of a program whose trace is a directory: `app` for `drmemtrace.app.1234.5678.dir/trace`.
fn directory_name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let own = if path.ends_with("trace") { path.parent().unwrap_or(&path) } else { &path };
    let name = own.file_name().map_or_else(|| own.display().to_string(), |name| name.to_string_lossy().into_owned());
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        ["drmemtrace", program @ .., process, _, "dir"] if !program.is_empty() && process.parse::<u64>().is_ok() => {
            program.join(".")
        }
        _ => name,
    }
}

/// What results say of a trace in a foreign format.
fn identity(name: String, format: TraceFormat, digest: u64, options: &TraceOptions) -> ProgramIdentity {
    let mappings = match options.implicit_maps {
        true => format!(", mappings synthesised in regions of {} bytes", options.map_granularity),
        false => ", without mappings".into(),
    };
    let width = match options.va_bits == TraceOptions::default().va_bits {
        true => String::new(),
        false => format!(", addresses of {} bits", options.va_bits),
    };
    ProgramIdentity { name, detail: format!("{format} trace{mappings}{width}"), footprint: 0, digest }
}

/// Opens a trace in a foreign format from any byte stream.
pub(crate) fn foreign(
    bytes: impl Read + Send + 'static,
    path: &Path,
    name: &str,
    (digest, bytes_of_file): (u64, u64),
    options: &TraceOptions,
) -> Result<Opened, SourceError> {
    let mut input = Unpacked::new(bytes, name).map_err(SourceError::new)?;
    let compression = input.compression;
    let head = input.peek(4096).map_err(SourceError::new)?;
    let fail = |what: &str| SourceError::new(format!("{name}: {what}"));
    let mut champsim_layout = &champsim::INPUT;
    let mut format = if compressed::is_ours(head) {
        return Err(fail(
            "is an Ambulator trace inside another compression; decompress it first (its blocks are compressed already)",
        ));
    } else if drmemtrace::entry::entry_bytes(head).is_some() {
        TraceFormat::DrMemTrace
    } else if lackey::plausible(head) {
        TraceFormat::Lackey
    } else if head.starts_with(gem5::MAGIC) {
        // Or packets; its header says.
        TraceFormat::Gem5Elastic
    } else if perf::plausible(head) {
        TraceFormat::PerfScript
    } else if head.starts_with(b"PERFILE2") {
        return Err(fail(&format!(
            "is perf's own file; print its samples with `perf script -F comm,pid,tid,time,event,addr,data_src,ip -i {name}`"
        )));
    } else if let Some(layout) = champsim::layout(head) {
        champsim_layout = layout;
        if champsim::is_cloudsuite(layout) { TraceFormat::CloudSuite } else { TraceFormat::ChampSim }
    } else if head.is_empty() {
        return Err(fail("the trace decompresses to nothing"));
    } else {
        let shown: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
        return Err(fail(&format!(
            "is not a trace of a known format: it begins with the bytes {}; known formats are Ambulator \
             traces (\"AMBTRACE\"), drmemtrace's files and directories, gem5's packet and elastic traces, ChampSim's 64-byte \
             and CloudSuite's 96-byte instructions, lackey's text and that of `perf script`, all but the first also in \
             gzip, xz, zstd, lz4, snappy or zip",
            shown.join(" ")
        )));
    };
    let own = path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let identity = identity(own, format, digest, options);
    let source: Box<dyn ForeignSource> = match format {
        TraceFormat::Lackey => Box::new(LackeyReader::new(input, identity, options.maps(), options.va_bits)),
        TraceFormat::DrMemTrace => Box::new(DrMemTrace::new(name.to_owned(), identity, vec![input], options)?),
        TraceFormat::PerfScript => Box::new(PerfReader::new(input, identity, options)),
        TraceFormat::Gem5Elastic => {
            let reader = Gem5Reader::new(input, identity, options)?;
            if reader.contents() == Contents::Packets {
                format = TraceFormat::Gem5Packets;
            }
            Box::new(reader)
        }
        _ => Box::new(ChampSimReader::new(input, identity, champsim_layout, options)),
    };
    Ok(Opened::Foreign { format, compression, bytes: bytes_of_file, source })
}
