//! The contents of a trace: the numbers of `trace info`, and the lines of `trace head`.

use crate::compressed::Compression;
use crate::mappings::Mappings;
use crate::open::{ForeignSource, Opened, TraceFormat, TraceOptions, open};
use crate::physical::{PhysicalPages, PhysicalReport};
use crate::regularity::{Regularity, RegularityReport};
use crate::reuse::{Reuse, ReuseReport};
use ambulator_base::{AccessKind, Batch, FRAME_SHIFT, ProgramIdentity, Record, RecordKind, SourceError, VmEvent};
use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// The contents of a trace in numbers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceSummary {
    /// Its format.
    pub format: TraceFormat,
    /// How the whole file is compressed, if it is.
    pub compression: Option<&'static str>,
    /// The program.
    pub program: ProgramIdentity,
    /// Bytes of the file.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Loads among them.
    pub loads: u64,
    /// Stores among them.
    pub stores: u64,
    /// Explicit fetches among them.
    pub fetches: u64,
    /// Branches among them.
    pub branches: u64,
    /// Branches that were taken.
    pub taken: u64,
    /// Records whose address or outcome depends on an earlier load.
    pub dependent: u64,
    /// Instructions.
    pub instructions: u64,
    /// Instructions within the region of interest; all of them where none is marked.
    pub region_instructions: u64,
    /// 4 KiB pages that loads and stores touch.
    pub touched_pages: u64,
    /// Bytes of those pages.
    pub footprint: u64,
    /// Aligned 2 MiB regions that they lie in: the pages that huge pages alone would need.
    pub touched_2m: u64,
    /// Aligned 1 GiB regions that they lie in.
    pub touched_1g: u64,
    /// How soon pages are used again.
    pub reuse: ReuseReport,
    /// Threads that records belong to, over all processes.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// How regular the address space is when it is largest.
    pub regularity: RegularityReport,
    /// 4 KiB pages that `Touch` events touch.
    pub prepared_pages: u64,
    /// Where pages were in physical memory, if the trace records it.
    pub physical: Option<PhysicalReport>,
    /// VM events by kind, with those synthesised for formats without mappings.
    pub events: Vec<(&'static str, u64)>,
    /// Instructions, loads, stores and `Touch` events outside what the trace's own events map and permit: 0
    /// in a correct trace.
    pub outside_mappings: u64,
    /// Bytes of the file for each load and store.
    pub bytes_per_access: f64,
    /// Whole blocks, for our format.
    pub blocks: Option<u64>,
    /// Blocks that were read with matching checksums, for our format.
    pub blocks_good: Option<u64>,
    /// Why the trace ends before its program would have (a crash, an interrupt, a full disk), if its writer
    /// said so.
    pub cut_short: Option<String>,
    /// Why reading ended early, if it did; all other numbers then cover what came before.
    pub damage: Option<String>,
    /// The `notes` that report a fault ([`ambulator_base::RecordSource::notes`]): a missing footer, addresses that lost bits.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

fn event_name(event: &VmEvent) -> &'static str {
    match event {
        VmEvent::Map { .. } => "map",
        VmEvent::Unmap { .. } => "unmap",
        VmEvent::Protect { .. } => "protect",
        VmEvent::Remap { .. } => "remap",
        VmEvent::Advise { .. } => "advise",
        VmEvent::Brk { .. } => "brk",
        VmEvent::Fork { .. } => "fork",
        VmEvent::Exit { .. } => "exit",
        VmEvent::Switch { .. } => "switch",
        VmEvent::Touch { .. } => "touch",
        VmEvent::Place { .. } => "place",
        VmEvent::RegionBegin => "region-begin",
        VmEvent::RegionEnd => "region-end",
    }
}

/// Counts pages with bitmaps that each cover 256 KiB of address space.
#[derive(Default)]
struct Pages {
    words: FxHashMap<u64, u64>,
    last: u64,
}

impl Pages {
    #[inline]
    fn touch(&mut self, va: u64, bytes: u64) {
        for page in va >> FRAME_SHIFT..=(va + bytes.max(1) - 1) >> FRAME_SHIFT {
            if page + 1 != self.last {
                self.last = page + 1;
                *self.words.entry(page / 64).or_default() |= 1 << (page % 64);
            }
        }
    }

    fn count(&self) -> u64 {
        self.words.values().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Aligned regions of 2^`shift` bytes (at least 256 KiB) with a touched page.
    fn regions(&self, shift: u32) -> u64 {
        let above = shift - FRAME_SHIFT - 6;
        self.words.keys().map(|word| word >> above).collect::<FxHashSet<_>>().len() as u64
    }
}

/// Reads a whole trace and summarises it. Damage in the middle is reported in the summary, not as an error.
///
/// # Errors
/// The trace cannot be opened.
pub fn info(path: &Path, options: &TraceOptions) -> Result<TraceSummary, SourceError> {
    let opened = open(path, options)?;
    let cut_short = match &opened {
        Opened::Ours(reader) => reader.info().cut_short.clone(),
        Opened::Foreign { .. } => None,
    };
    let foreign = matches!(opened, Opened::Foreign { .. });
    let (format, compression, blocks, bytes, mut source): (_, _, _, _, Box<dyn ForeignSource>) = match opened {
        Opened::Ours(reader) => {
            let (blocks, bytes) = (reader.info().blocks, reader.info().bytes);
            (TraceFormat::Ambulator, Compression::None, Some(blocks), bytes, reader)
        }
        Opened::Foreign { format, compression, bytes, source } => (format, compression, None, bytes, source),
    };
    let mut all = TraceSummary {
        format,
        compression: compression.name(),
        program: source.identity(),
        bytes,
        records: 0,
        loads: 0,
        stores: 0,
        fetches: 0,
        branches: 0,
        taken: 0,
        dependent: 0,
        instructions: 0,
        region_instructions: 0,
        touched_pages: 0,
        footprint: 0,
        touched_2m: 0,
        touched_1g: 0,
        reuse: ReuseReport::default(),
        threads: 1,
        processes: 1,
        regularity: RegularityReport::default(),
        prepared_pages: 0,
        physical: None,
        events: Vec::new(),
        outside_mappings: 0,
        bytes_per_access: 0.0,
        blocks,
        blocks_good: blocks.map(|_| 0),
        cut_short,
        damage: None,
        warnings: Vec::new(),
        notes: Vec::new(),
    };
    let (mut pages, mut mappings, mut batch) = (Pages::default(), Mappings::default(), Batch::default());
    let (mut mapped, mut region, mut regions) = (false, false, false);
    let (mut regularity, mut reuse) = (Regularity::default(), Reuse::default());
    let mut threads = std::collections::BTreeSet::from([(0, 0)]);
    let (mut physical, mut process) = (PhysicalPages::default(), 0);
    loop {
        match source.fill(&mut batch) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                all.damage = Some(error.message);
                break;
            }
        }
        all.blocks_good = all.blocks_good.map(|n| n + 1);
        regularity.add(&batch);
        let mut events = batch.events.iter().peekable();
        for at in 0..=batch.records.len() {
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize == at) {
                let name = event_name(event);
                match all.events.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, count)) => *count += 1,
                    None => all.events.push((name, 1)),
                }
                all.outside_mappings += u64::from(!mappings.event(event));
                match event {
                    VmEvent::Map { .. } => mapped = true,
                    VmEvent::RegionBegin => (region, regions) = (true, true),
                    VmEvent::RegionEnd => region = false,
                    VmEvent::Switch { process: to, thread } => {
                        process = to.0 as usize;
                        threads.insert((to.0, *thread));
                    }
                    VmEvent::Place { .. } if !foreign => physical.event(process, event),
                    VmEvent::Touch { len, .. } => {
                        all.prepared_pages = all.prepared_pages.saturating_add(len.div_ceil(1 << FRAME_SHIFT));
                    }
                    _ => {}
                }
            }
            let Some(record) = batch.records.get(at) else {
                break;
            };
            all.records += 1;
            all.instructions += record.instructions();
            all.region_instructions += if region { record.instructions() } else { 0 };
            all.dependent += u64::from(record.dep1 != 0);
            match record.kind {
                RecordKind::Load => all.loads += 1,
                RecordKind::Store => all.stores += 1,
                RecordKind::Fetch => all.fetches += 1,
                RecordKind::BranchNotTaken => all.branches += 1,
                RecordKind::BranchTaken => {
                    all.branches += 1;
                    all.taken += 1;
                }
            }
            if record.is_data() {
                pages.touch(record.va.0, u64::from(record.size));
                reuse.access(record.va.0 >> FRAME_SHIFT);
                let kind = match record.kind {
                    RecordKind::Store => AccessKind::Store,
                    _ => AccessKind::Load,
                };
                let allowed = mappings.allow(record.va, u64::from(record.size), kind);
                all.outside_mappings += u64::from(mapped && !allowed);
            }
            let allowed = mappings.allow(record.pc, 1, AccessKind::Fetch);
            all.outside_mappings += u64::from(mapped && !allowed);
        }
    }
    all.warnings = source.notes();
    all.notes.clone_from(&all.warnings);
    all.notes.extend(source.remarks());
    all.physical = source.physical().or(physical.report());
    all.regularity = regularity.report();
    all.threads = threads.len() as u64;
    all.processes = threads.iter().map(|(process, _)| process).collect::<std::collections::BTreeSet<_>>().len() as u64;
    if !regions {
        all.region_instructions = all.instructions;
    }
    if !mapped {
        all.notes.push("the trace maps nothing: the operating-system model will refuse its accesses".into());
    }
    if foreign && mapped && format != TraceFormat::PerfScript {
        all.notes.push(format!(
            "the format has no mappings: regions of {} bytes are mapped just before their first touch, and page faults are \
             the simulated kernel's",
            options.map_granularity
        ));
    }
    if all.dependent == 0 && all.records > 0 {
        all.notes.push("the trace has no dependences: a timing model overlaps all of its misses".into());
    }
    all.touched_pages = pages.count();
    all.footprint = all.touched_pages << FRAME_SHIFT;
    (all.touched_2m, all.touched_1g) = (pages.regions(21), pages.regions(30));
    all.reuse = reuse.report();
    all.bytes_per_access = bytes as f64 / (all.loads + all.stores).max(1) as f64;
    Ok(all)
}

/// One line of `trace head`.
#[derive(Clone, Debug, PartialEq)]
pub enum HeadLine {
    /// A record.
    Record(Record),
    /// A VM event.
    Event(VmEvent),
}

impl fmt::Display for HeadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadLine::Record(r) => {
                let kind = match r.kind {
                    RecordKind::Load => "load",
                    RecordKind::Store => "store",
                    RecordKind::Fetch => "fetch",
                    RecordKind::BranchNotTaken => "not-taken",
                    RecordKind::BranchTaken => "taken",
                };
                write!(f, "+{:<4} {:#014x} {kind:<9} {:#014x} {:>2} bytes", r.gap, r.pc.0, r.va.0, r.size)?;
                match (r.dep1, r.dep2) {
                    (0, 0) => Ok(()),
                    (one, 0) | (0, one) => write!(f, "  after -{one}"),
                    (one, two) => write!(f, "  after -{one} and -{two}"),
                }
            }
            HeadLine::Event(VmEvent::Map { start, len, protection, kind }) => {
                let right = |has: bool, letter: char| if has { letter } else { '-' };
                write!(
                    f,
                    "map    {:#014x} {len:>12} bytes {}{}{} {kind:?}",
                    start.0,
                    right(protection.read, 'r'),
                    right(protection.write, 'w'),
                    right(protection.execute, 'x')
                )
            }
            HeadLine::Event(VmEvent::Touch { start, len, write }) => {
                write!(f, "touch  {:#014x} {len:>12} bytes {}", start.0, if *write { "written" } else { "read" })
            }
            HeadLine::Event(VmEvent::Place { start, len, at, page }) => {
                write!(f, "place  {:#014x} {len:>12} bytes at {:#014x} in pages of {page}", start.0, at.0)
            }
            HeadLine::Event(event) => write!(f, "{event:?}"),
        }
    }
}

/// The beginning of a trace, and its notes ([`ambulator_base::RecordSource::notes`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Records and events in order.
    pub lines: Vec<HeadLine>,
    /// One sentence each.
    pub notes: Vec<String>,
}

/// Returns the first `count` records of a trace with the events before and between them, at most `count`
/// events.
///
/// # Errors
/// The trace cannot be opened, or is damaged before the lines are complete.
pub fn head(path: &Path, options: &TraceOptions, count: usize) -> Result<Head, SourceError> {
    let mut source = super::open_trace(path, options)?;
    let (mut lines, mut batch) = (Vec::new(), Batch::default());
    let (mut records, mut events_shown) = (0, 0);
    while records < count && source.fill(&mut batch)? {
        let mut events = batch.events.drain(..).peekable();
        for at in 0..=batch.records.len() {
            while let Some((_, event)) = events.next_if(|(position, _)| *position as usize == at) {
                events_shown += 1;
                if events_shown <= count {
                    lines.push(HeadLine::Event(event));
                }
            }
            let Some(record) = batch.records.get(at).filter(|_| records < count) else {
                break;
            };
            lines.push(HeadLine::Record(*record));
            records += 1;
        }
    }
    Ok(Head { lines, notes: source.notes() })
}
