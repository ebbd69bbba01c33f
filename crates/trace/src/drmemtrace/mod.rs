//! Traces of DynamoRIO's drmemtrace (drcachesim), as its post-processing leaves them: one file for each
//! thread, or for each core, plain or in gzip, zip, lz4 or snappy; a file alone, or a directory of them.
//!
//! [`entry`] says where the format comes from. What becomes of it:
//!
//! - Loads and stores become records, in pieces of 64 bytes. Prefetches and cache flushes are left out.
//! - Conditional and indirect branches become records; calls, returns and direct jumps do not, as in a
//!   capture.
//! - Instructions after a thread's last access come as the gap of a fetch at its end. The iterations of one
//!   string instruction are one instruction; a record each, they shorten later gaps by the surplus. So counts
//!   are exact but for a surplus that no gap remains for, of which `trace info` tells.
//! - Where a trace has encodings (x86-64, or `regdeps`), dependences come from registers: a record names the
//!   two latest loads that its address, or a branch's outcome, was computed from.
//! - Threads run in the order of their timestamps: the thread with the smallest one runs until its next
//!   timestamp is larger than another thread's.
//! - What the trace has of the kernel's own execution is left out: the kernel is the simulated one.
//! - Physical addresses, of markers or of `v2p.textproto`, become places of pages.
//! - Recorded calls that change the address space become mappings ([`calls`]).

mod calls;
pub(crate) mod entry;
mod operands;
#[cfg(test)]
mod tests;
mod thread;
pub(crate) mod writer;

use crate::compressed::{Compression, Unpacked};
use crate::open::{ForeignSource, TraceOptions};
use crate::physical::{PhysicalPages, PhysicalReport};
use crate::processes::{MOST_THREADS, Processes};
use crate::unchanged::Unchanged;
use crate::width::Width;
use ambulator_base::{Batch, PageSize, ProgramIdentity, RecordKind, RecordSource, SourceError, VmEvent};
use calls::Calls;
use entry::{Entries, Entry, NEWEST_VERSION, file_type, kind, marker};
use operands::{Isa, Program};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use thread::{Out, Thread};
use xxhash_rust::xxh3::Xxh3;

/// Largest page size that a trace may claim.
const LARGEST_PAGE: u64 = 1 << 30;
/// Files of a trace's directory that are no threads.
const OTHER_FILES: [&str; 6] = ["cpu_schedule", "serial_schedule", "modules.", "funclist.", "encodings.", "v2p."];

/// A file of the trace: the entries of a thread, or of a core.
struct Stream {
    entries: Entries,
    /// The thread that the following entries belong to, by its number.
    thread: usize,
    /// The last timestamp.
    time: u64,
    version: u64,
    isa: Option<Isa>,
    page_bytes: u64,
    physical: u64,
}

/// A trace of drmemtrace as a stream.
pub(crate) struct DrMemTrace {
    name: String,
    identity: ProgramIdentity,
    streams: Vec<Stream>,
    /// The streams that wait, by their times.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    current: Option<usize>,
    threads: Vec<Thread>,
    /// The numbers of the threads, by their names.
    numbers: FxHashMap<u64, usize>,
    out: Out,
    physical: PhysicalPages,
    /// Places that are known before the first record, last one first.
    places: Vec<VmEvent>,
    calls: Calls,
    /// The bits of all files' types.
    types: u64,
    started: bool,
}

impl DrMemTrace {
    /// A trace of these files.
    ///
    /// # Errors
    /// One of them is not of this format, or is damaged at its beginning.
    pub(crate) fn new(
        name: String,
        identity: ProgramIdentity,
        inputs: Vec<Unpacked>,
        options: &TraceOptions,
    ) -> Result<DrMemTrace, SourceError> {
        let out = Out {
            processes: Processes::new(options.implicit_maps.then_some(options.map_granularity)),
            width: Width::new(options.va_bits),
            program: Program::new(),
            records: 0,
            since: 0,
            running: usize::MAX,
            kernel_instructions: 0,
            surplus: 0,
        };
        let mut trace = DrMemTrace {
            name,
            identity,
            streams: Vec::new(),
            waiting: BinaryHeap::new(),
            current: None,
            threads: vec![Thread::new(0, 0)],
            numbers: FxHashMap::default(),
            out,
            physical: PhysicalPages::default(),
            places: Vec::new(),
            calls: Calls::default(),
            types: 0,
            started: false,
        };
        for input in inputs {
            let entries = Entries::new(input)?;
            let (version, page_bytes) = (0, 1 << 12);
            let stream = Stream { entries, thread: 0, time: 0, version, isa: None, page_bytes, physical: 0 };
            trace.streams.push(stream);
        }
        Ok(trace)
    }

    /// Reads each file up to its first timestamp, and makes the processes known.
    fn start(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        for number in 0..self.streams.len() {
            while let Some(entry) = self.streams[number].entries.peek()? {
                let header = matches!(entry.kind, kind::HEADER | kind::THREAD | kind::PID)
                    || (entry.kind == kind::MARKER
                        && !matches!(entry.size, marker::TIMESTAMP | marker::VIRTUAL_ADDRESS | marker::FUNC_RETVAL));
                if !header {
                    if entry.kind == kind::MARKER && entry.size == marker::TIMESTAMP {
                        self.streams[number].time = entry.value;
                    }
                    break;
                }
                self.step(number, entry, batch)?;
            }
            self.waiting.push(Reverse((self.streams[number].time, number)));
        }
        let mut known = BTreeSet::new();
        let order = self.streams.iter().map(|stream| self.threads[stream.thread].process);
        let order: Vec<u64> = order.filter(|process| known.insert(*process)).collect();
        self.out.processes.declare(order, batch).map_err(|what| SourceError::new(format!("{}: {what}", self.name)))
    }

    /// The thread of this name becomes the stream's.
    fn select(&mut self, stream: usize, name: u64) -> Result<(), String> {
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.threads.len() > MOST_THREADS => {
                return Err(format!("begins the thread {name}, and there are {MOST_THREADS} already"));
            }
            None => {
                let process = self.threads[self.streams[stream].thread].process;
                self.threads.push(Thread::new(process, name));
                self.numbers.insert(name, self.threads.len() - 1);
                self.threads.len() - 1
            }
        };
        self.streams[stream].thread = number;
        Ok(())
    }

    /// Consumes an entry of a stream.
    fn step(&mut self, number: usize, entry: Entry, batch: &mut Batch) -> Result<(), SourceError> {
        match self.apply(number, entry, batch) {
            Ok(()) => {
                self.streams[number].entries.consume(entry);
                Ok(())
            }
            Err(what) => Err(SourceError::new(format!("{} {what}", self.streams[number].entries.place()))),
        }
    }

    #[inline]
    fn apply(&mut self, number: usize, entry: Entry, batch: &mut Batch) -> Result<(), String> {
        let stream = &mut self.streams[number];
        match entry.kind {
            kind::READ | kind::WRITE => {
                let kind = if entry.kind == kind::READ { RecordKind::Load } else { RecordKind::Store };
                let thread = stream.thread;
                self.enter(thread, batch)?;
                self.threads[thread].access(kind, entry, &mut self.out, batch);
            }
            kind::INSTR..=kind::INSTR_RETURN
            | kind::INSTR_NO_FETCH..=kind::INSTR_SYSENTER
            | kind::INSTR_TAKEN_JUMP
            | kind::INSTR_UNTAKEN_JUMP => {
                let (thread, isa) = (stream.thread, stream.isa);
                self.enter(thread, batch)?;
                self.threads[thread].instruction(entry, isa, &mut self.out, batch);
            }
            kind::INSTR_BUNDLE => {
                let thread = stream.thread;
                self.enter(thread, batch)?;
                self.threads[thread].bundle(entry, &mut self.out, batch)?;
            }
            kind::ENCODING => {
                let most = stream.entries.value_bytes();
                self.threads[stream.thread].encoding(entry, most)?;
            }
            kind::MARKER => self.marker(number, entry, batch)?,
            kind::THREAD => self.select(number, entry.value)?,
            kind::PID => self.threads[stream.thread].process = entry.value,
            kind::HEADER => self.version(number, entry.value)?,
            kind::THREAD_EXIT => {
                self.select(number, entry.value)?;
                let thread = self.streams[number].thread;
                self.enter(thread, batch)?;
                self.threads[thread].exit(&mut self.out, batch);
            }
            kind::FIRST_PREFETCH..=kind::LAST_PREFETCH
            | kind::FIRST_LEVEL_PREFETCH..=kind::LAST_LEVEL_PREFETCH
            | kind::FIRST_FLUSH..=kind::LAST_FLUSH
            | kind::HARDWARE_PREFETCH
            | kind::FOOTER => {}
            other => return Err(format!("has the type {other}, which no version up to {NEWEST_VERSION} has")),
        }
        Ok(())
    }

    /// The following records are this thread's.
    #[inline]
    fn enter(&mut self, thread: usize, batch: &mut Batch) -> Result<(), String> {
        if self.out.running != thread {
            self.out.running = thread;
            self.out.since = self.out.records;
            let thread = &self.threads[thread];
            self.out.processes.enter(thread.process, thread.name, batch)?;
        }
        Ok(())
    }

    fn version(&mut self, number: usize, version: u64) -> Result<(), String> {
        self.streams[number].version = version;
        match version {
            1..=NEWEST_VERSION => Ok(()),
            other => Err(format!("says version {other}; versions 1 to {NEWEST_VERSION} are read")),
        }
    }

    fn marker(&mut self, number: usize, entry: Entry, batch: &mut Batch) -> Result<(), String> {
        let stream = &mut self.streams[number];
        match entry.size {
            marker::TIMESTAMP => stream.time = entry.value,
            marker::VERSION => self.version(number, entry.value)?,
            marker::FILETYPE => {
                self.types |= entry.value;
                if entry.value & file_type::KERNEL_TEMPLATES != 0 {
                    return Err("says that this file has templates of system calls and no program".into());
                }
                stream.isa = match entry.value {
                    types if types & file_type::ENCODINGS == 0 => None,
                    types if types & file_type::ARCH_REGDEPS != 0 => Some(Isa::RegDeps),
                    types if types & file_type::ARCH_X86_64 != 0 => Some(Isa::X86),
                    _ => None,
                };
            }
            marker::PAGE_SIZE => {
                if !entry.value.is_power_of_two() || !(1 << 12..=LARGEST_PAGE).contains(&entry.value) {
                    return Err(format!("says pages of {} bytes: they have 4 KiB to 1 GiB", entry.value));
                }
                stream.page_bytes = entry.value;
            }
            marker::PHYSICAL_ADDRESS => stream.physical = entry.value,
            marker::VIRTUAL_ADDRESS => {
                let (thread, physical) = (stream.thread, stream.physical);
                let page = PageSize::from_shift(stream.page_bytes.ilog2());
                self.enter(thread, batch)?;
                let va = self.out.width.fit(entry.value);
                let place = self.physical.place(self.out.processes.running(), va, physical, page);
                batch.events.extend(place.map(|place| (batch.records.len() as u32, place)));
            }
            marker::FUNC_ID => self.threads[stream.thread].call.function(entry.value),
            marker::FUNC_ARG => self.threads[stream.thread].call.argument(entry.value),
            marker::FUNC_RETVAL => {
                let thread = stream.thread;
                self.enter(thread, batch)?;
                let (limit, arm) = (self.out.width.limit(), self.types & file_type::ARCH_AARCH64 != 0);
                let thread = &mut self.threads[thread];
                let call = (thread.call.returned(), entry.value);
                if let Some(maps) = self.out.processes.maps() {
                    self.calls.apply(call, (thread.process, arm, limit), maps, batch);
                }
            }
            _ => {
                let (thread, version) = (stream.thread, stream.version);
                self.enter_for(thread, entry.size, batch)?;
                self.threads[thread].marker(entry, version, &mut self.out, batch);
            }
        }
        Ok(())
    }

    /// Some markers end an instruction, and so may make a record.
    fn enter_for(&mut self, thread: usize, marker: u16, batch: &mut Batch) -> Result<(), String> {
        if marker == marker::KERNEL_EVENT && self.out.running != usize::MAX {
            self.enter(thread, batch)
        } else {
            Ok(())
        }
    }

    /// The stream that runs next.
    fn schedule(&mut self) -> Option<usize> {
        let number = match (self.current, self.waiting.peek()) {
            (Some(current), Some(Reverse((time, _)))) if self.streams[current].time > *time => {
                let Reverse((_, next)) = self.waiting.pop()?;
                self.waiting.push(Reverse((self.streams[current].time, current)));
                next
            }
            (Some(current), _) => current,
            (None, _) => self.waiting.pop()?.0.1,
        };
        self.current = Some(number);
        Some(number)
    }
}

impl RecordSource for DrMemTrace {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if !std::mem::replace(&mut self.started, true) {
            self.start(batch)?;
        }
        while batch.events.len() < Batch::TARGET_RECORDS
            && let Some(place) = self.places.pop()
        {
            batch.push_event(place);
        }
        while batch.records.len() < Batch::TARGET_RECORDS && batch.events.len() < Batch::TARGET_RECORDS {
            let Some(number) = self.schedule() else { break };
            // Until the stream's time changes, which a timestamp does.
            loop {
                let Some(entry) = self.streams[number].entries.peek()? else {
                    let thread = self.streams[number].thread;
                    self.threads[thread].exit(&mut self.out, batch);
                    self.current = None;
                    break;
                };
                self.step(number, entry, batch)?;
                let full = batch.records.len() >= Batch::TARGET_RECORDS || batch.events.len() >= Batch::TARGET_RECORDS;
                if full || (entry.kind == kind::MARKER && entry.size == marker::TIMESTAMP) {
                    break;
                }
            }
        }
        Ok(!batch.is_empty())
    }

    fn may_place(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.out.width.notes(&self.name);
        let name = &self.name;
        if self.types & file_type::FILTERED != 0 {
            notes.push(format!(
                "{name}: the trace was filtered by a cache while it was recorded: most accesses are missing, and times \
                 mean little"
            ));
        }
        if self.types & file_type::INSTRUCTION_ONLY != 0 {
            notes.push(format!("{name}: the trace has instructions only, no loads and stores"));
        }
        if self.out.program.forgotten > 0 {
            notes.push(format!(
                "{name}: the program has more than 1 Mi different instructions; {} executions of others have no dependences",
                self.out.program.forgotten
            ));
        }
        notes
    }
}

impl ForeignSource for DrMemTrace {
    fn physical(&self) -> Option<PhysicalReport> {
        self.physical.report()
    }

    fn remarks(&self) -> Vec<String> {
        let (kernel, surplus) = (self.out.kernel_instructions, self.out.surplus);
        let Calls { derived, without_address, .. } = self.calls;
        let calls =
            format!("{derived} changes of the address space are derived from recorded calls, without their rights");
        let unknown = format!(
            "{without_address} recorded calls of mmap or mremap have no address (system calls have only whether they \
             succeeded; `-record_function` has addresses): what they map is mapped at first touch"
        );
        let left_out = format!("{kernel} instructions of the kernel were left out: the kernel is the simulated one");
        let counted = format!(
            "{surplus} instructions more than were executed are counted: each record is one, and string instructions have \
             many accesses"
        );
        let all = [(kernel, left_out), (surplus, counted), (derived, calls), (without_address, unknown)];
        all.into_iter().filter(|(n, _)| *n > 0).map(|(_, remark)| remark).collect()
    }
}

/// The files of a trace's directory, and the bytes of all.
///
/// # Errors
/// There are none, or they cannot be listed.
pub(crate) fn files_of(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let list = |directory: &Path| -> Result<Vec<PathBuf>, String> {
        let cannot = |e: std::io::Error| format!("{}: cannot be listed: {e}", directory.display());
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let trace = name.contains(".trace") || name.contains(".memtrace");
            if trace && path.is_file() && !OTHER_FILES.iter().any(|other| name.starts_with(other)) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    };
    let mut files = list(directory)?;
    let inner = directory.join("trace");
    if files.is_empty() && inner.is_dir() {
        files = list(&inner)?;
    }
    if !files.is_empty() {
        return Ok(files);
    }
    let shown = directory.display();
    Err(if directory.join("raw").is_dir() || directory.ends_with("raw") {
        format!(
            "{shown}: holds a raw trace of drmemtrace, which DynamoRIO converts first: `drraw2trace -indir {shown}`; then \
             give this directory again"
        )
    } else {
        format!(
            "{shown}: is a directory without files of a drmemtrace trace (*.trace, *.trace.gz, .zip, .lz4 or .sz, here or \
             in `trace`); any other trace is a file"
        )
    })
}

/// Opens the files of a directory; `identity` gets the digest of all.
///
/// # Errors
/// A file cannot be read, or is of another format.
pub(crate) fn open_directory(
    directory: &Path,
    mut identity: ProgramIdentity,
    options: &TraceOptions,
) -> Result<(DrMemTrace, Compression, u64), SourceError> {
    let files = files_of(directory).map_err(SourceError::new)?;
    let (mut inputs, mut all, mut bytes) = (Vec::new(), Xxh3::new(), 0);
    for path in &files {
        let name = path.display().to_string();
        let cannot = |e: std::io::Error| {
            let hint = match e.raw_os_error() {
                Some(24) => format!("; the trace has {} files, so raise the limit (`ulimit -n`)", files.len()),
                _ => String::new(),
            };
            SourceError::new(format!("{name}: the trace cannot be opened: {e}{hint}"))
        };
        let file = File::open(path).map_err(cannot)?;
        bytes += file.metadata().map_err(cannot)?.len();
        let (digest, contents) = Unchanged::new(file).map_err(cannot)?;
        all.update(&digest.to_le_bytes());
        inputs.push(Unpacked::new(contents, &name).map_err(SourceError::new)?);
    }
    identity.digest = all.digest();
    let compression = inputs.first().map_or(Compression::None, |input| input.compression);
    let mut trace = DrMemTrace::new(directory.display().to_string(), identity, inputs, options)?;
    let own = if directory.ends_with("trace") { directory.parent().unwrap_or(directory) } else { directory };
    let places = [directory.to_path_buf(), own.to_path_buf(), own.join("aux"), own.join("raw")];
    if let Some(path) = places.iter().map(|place| place.join("v2p.textproto")).find(|path| path.is_file()) {
        let wrong = |what: &dyn std::fmt::Display| SourceError::new(format!("{}: {what}", path.display()));
        let file = File::open(&path).map_err(|e| wrong(&format!("cannot be opened: {e}")))?;
        trace.places = trace.physical.add_textproto(BufReader::new(file)).map_err(|what| wrong(&what))?;
        trace.places.reverse();
    }
    if let Some(path) = places.iter().map(|place| place.join("funclist.log")).find(|path| path.is_file()) {
        let cannot = |e: std::io::Error| SourceError::new(format!("{}: cannot be read: {e}", path.display()));
        trace.calls.add_list(&String::from_utf8_lossy(&std::fs::read(&path).map_err(cannot)?));
    }
    Ok((trace, compression, bytes))
}
