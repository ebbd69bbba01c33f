//! Places of pages from another file than the trace: what was recorded separately, such as samples of `perf`
//! or drmemtrace's `v2p.textproto`.

use crate::compressed::Unpacked;
use crate::open::{Opened, TraceOptions, open};
use crate::physical::{PhysicalPages, joined};
use ambulator_base::{
    Batch, NamedRange, PageSize, ProcessId, ProgramIdentity, RecordSource, SourceError, VirtAddr, VmEvent,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Most places that are kept.
const MOST: usize = 1 << 24;

/// Whether the text is drmemtrace's `v2p.textproto`.
fn is_textproto(head: &[u8]) -> bool {
    head.windows(15).any(|part| part == b"address_mapping") && std::str::from_utf8(&head[..head.len().min(64)]).is_ok()
}

/// The places that a file records for its first process, in the order of their virtual addresses; of a page
/// that moved, the last.
///
/// # Errors
/// The file cannot be read, is damaged, or records no place.
fn places_of(path: &Path, options: &TraceOptions) -> Result<Vec<VmEvent>, SourceError> {
    let fail = |what: &dyn std::fmt::Display| SourceError::new(format!("{}: {what}", path.display()));
    let file = || File::open(path).map_err(|e| fail(&format!("cannot be opened: {e}")));
    let is_file = path.is_file();
    let is_textproto = is_file && {
        let mut text = Unpacked::new(file()?, &path.display().to_string()).map_err(SourceError::new)?;
        is_textproto(text.peek(4096).map_err(SourceError::new)?)
    };
    let places = if is_textproto {
        PhysicalPages::default().add_textproto(BufReader::new(file()?)).map_err(|what| fail(&what))?
    } else {
        let only_places = TraceOptions { va_bits: options.va_bits, implicit_maps: false, ..TraceOptions::default() };
        let mut source: Box<dyn RecordSource> = match open(path, &only_places)? {
            Opened::Ours(reader) => reader,
            Opened::Foreign { source, .. } => source,
        };
        gather(&mut *source)?
    };
    if places.is_empty() {
        return Err(fail(
            &"has no physical addresses of its first process; those that may have them are `v2p.textproto` and traces of \
              drmemtrace, the text of `perf script` with `phys_addr`, gem5's elastic traces, and Ambulator traces made of \
              these",
        ));
    }
    Ok(places)
}

fn gather(source: &mut dyn RecordSource) -> Result<Vec<VmEvent>, SourceError> {
    let (mut batch, mut process) = (Batch::default(), ProcessId(0));
    let mut places: BTreeMap<(VirtAddr, PageSize), VmEvent> = BTreeMap::new();
    while source.may_place() && source.fill(&mut batch)? {
        for (_, event) in batch.events.drain(..) {
            match event {
                VmEvent::Switch { process: to, .. } => process = to,
                VmEvent::Place { start, page, .. } if process == ProcessId(0) && places.len() < MOST => {
                    places.insert((start, page), event);
                }
                _ => {}
            }
        }
    }
    Ok(joined(places.into_values()))
}

/// A trace whose pages are placed as another file says, from the start.
pub(crate) struct Placed {
    source: Box<dyn RecordSource>,
    /// Last one first.
    places: Vec<VmEvent>,
    identity: ProgramIdentity,
}

impl Placed {
    /// The places of `file` for the first process of `source`.
    ///
    /// # Errors
    /// As that of the file.
    pub(crate) fn new(
        source: Box<dyn RecordSource>,
        file: &Path,
        options: &TraceOptions,
    ) -> Result<Placed, SourceError> {
        let mut places = places_of(file, options)?;
        let mut all = Xxh3::new();
        for place in &places {
            all.update(format!("{place:?}").as_bytes());
        }
        let mut identity = source.identity();
        identity.detail += &format!(", physical addresses of {}", file.display());
        identity.digest = (identity.digest ^ all.digest()).rotate_left(31);
        places.reverse();
        Ok(Placed { source, places, identity })
    }
}

impl RecordSource for Placed {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if self.places.is_empty() {
            return self.source.fill(batch);
        }
        batch.clear();
        let first = self.places.len().saturating_sub(Batch::TARGET_RECORDS);
        batch.events.extend(self.places.drain(first..).rev().map(|place| (0, place)));
        Ok(true)
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }

    fn instructions(&self) -> Option<u64> {
        self.source.instructions()
    }

    fn may_place(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }

    fn named_ranges(&self) -> Vec<NamedRange> {
        self.source.named_ranges()
    }
}
