//! Places of pages from another file than the trace: what was recorded separately, such as samples of `perf`
//! or drmemtrace's `v2p.textproto`.

use crate::compressed::Unpacked;
use crate::open::{Opened, TraceOptions, open};
use crate::physical::{PhysicalPages, joined};
use ambulator_base::{Batch, PageSize, ProcessId, ProgramIdentity, RecordSource, SourceError, VirtAddr, VmEvent};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Most places that are kept.
const MOST: usize = 1 << 24;

/// Whether the text is drmemtrace's `v2p.textproto`.
fn is_textproto(head: &[u8]) -> bool {
    let names = |name: &[u8]| head.windows(name.len()).any(|part| part == name);
    head.is_ascii() && names(b"physical_address:")
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

    fn skip(&mut self, count: usize) -> Result<usize, SourceError> {
        let (mut passed, mut batch) = (0, Batch::default());
        while passed < count && !self.places.is_empty() {
            self.fill(&mut batch)?;
            passed += 1;
        }
        Ok(passed + self.source.skip(count - passed)?)
    }

    fn may_place(&self) -> bool {
        true
    }

    fn inner(&self) -> Option<&dyn RecordSource> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use crate::scratch::Scratch;
    use crate::tests::drained;
    use crate::{Conversion, TraceOptions, convert, format, info, open_trace, trace_index};
    use ambulator_base::{PageSize, PhysAddr, VirtAddr, VmEvent};
    use std::path::Path;

    const TRACE: &[u8] = b"I  00400000,3\n L 10000000,8\nI  00400003,3\n S 10001000,8\n";
    const PERF: &[u8] = b"app 1/1 1.1: mem-loads: 10001000 1 |OP LOAD| 400000 123457000\n\
        app 1/1 1.2: mem-loads: 10000000 1 |OP LOAD| 400004 99000\n\
        app 1/1 1.3: mem-loads: 10000008 1 |OP LOAD| 400004 123456008\n\
        app 2/2 1.4: mem-loads: 10000000 1 |OP LOAD| 400004 77000\n";

    fn place(va: u64, len: u64, pa: u64, page: PageSize) -> VmEvent {
        VmEvent::Place { start: VirtAddr(va), len, at: PhysAddr(pa), page }
    }

    fn with(file: &Path) -> TraceOptions {
        TraceOptions { physical: file.display().to_string(), ..TraceOptions::default() }
    }

    fn places(trace: &Path, options: &TraceOptions) -> Vec<VmEvent> {
        let all = drained(&mut *open_trace(trace, options).unwrap()).unwrap();
        all.events.into_iter().map(|(_, event)| event).filter(|e| matches!(e, VmEvent::Place { .. })).collect()
    }

    #[test]
    fn samples_and_mappings_place_the_pages_of_another_trace() {
        let scratch = Scratch::new();
        let trace = scratch.file("a.lackey", TRACE);
        let perf = scratch.file("a.perf", PERF);
        // Of a page that moved the last place, of another process none; joined, as they continue each other.
        assert_eq!(places(&trace, &with(&perf)), [place(0x1000_0000, 0x2000, 0x1_2345_6000, PageSize::SIZE_4K)]);
        let mapping = b"page_size: 2097152\nvirtual_address: 0x10000000\nphysical_address: 0x40000000\n";
        let v2p = scratch.file("v2p.textproto", mapping);
        assert_eq!(places(&trace, &with(&v2p)), [place(0x1000_0000, 2 << 20, 0x4000_0000, PageSize::SIZE_2M)]);
        assert!(places(&trace, &TraceOptions::default()).is_empty());
        // Results tell the runs apart.
        let identity = |options: &TraceOptions| open_trace(&trace, options).unwrap().identity();
        assert_ne!(identity(&with(&perf)).digest, identity(&with(&v2p)).digest);
        assert!(identity(&with(&perf)).detail.contains("physical addresses of "));
    }

    #[test]
    fn our_format_keeps_places_and_says_so_in_its_version() {
        let scratch = Scratch::new();
        let (trace, perf) = (scratch.file("a.lackey", TRACE), scratch.file("a.perf", PERF));
        let out = scratch.0.path().join("a.amb");
        let conversion = Conversion { reader: with(&perf), ..Conversion::default() };
        convert(&trace, &out, &conversion).unwrap();
        let header = trace_index(&out).unwrap().unwrap().header;
        assert_eq!((header.places, header.version()), (true, format::VERSION));
        assert!(open_trace(&out, &TraceOptions::default()).unwrap().may_place());
        assert_eq!(places(&out, &TraceOptions::default()), places(&trace, &with(&perf)));
        let physical = info(&out, &TraceOptions::default()).unwrap().physical.unwrap();
        assert_eq!((physical.pages, physical.runs, physical.longest_run), (2, 1, 2));
        // Skipping keeps them, and they can place another trace.
        let skipping = TraceOptions { skip: 1, ..TraceOptions::default() };
        assert_eq!(places(&out, &skipping).len(), 1);
        assert_eq!(places(&trace, &with(&out)), places(&trace, &with(&perf)));
        // A trace without has version 1, as before.
        let plain = scratch.0.path().join("b.amb");
        convert(&trace, &plain, &Conversion::default()).unwrap();
        let bytes = std::fs::read(&plain).unwrap();
        assert_eq!(bytes[8..10], format::VERSION_WITHOUT_PLACES.to_le_bytes());
        assert!(!open_trace(&plain, &TraceOptions::default()).unwrap().may_place());
        // A version that is not known is refused.
        let newer = [&bytes[..8], &3u16.to_le_bytes(), &bytes[10..]].concat();
        let message = open_trace(&scratch.file("c.amb", &newer), &TraceOptions::default()).err().unwrap().message;
        assert!(message.contains("of version 3; this program reads versions 1 to 2"), "{message}");
    }

    #[test]
    fn a_file_without_physical_addresses_is_an_error_that_says_what_would_have_them() {
        let scratch = Scratch::new();
        let trace = scratch.file("a.lackey", TRACE);
        let message = |file: &Path| open_trace(&trace, &with(file)).err().unwrap().message;
        let none = message(&trace);
        assert!(none.contains("a.lackey: has no physical addresses") && none.contains("v2p.textproto"), "{none}");
        let missing = message(Path::new("/nowhere.perf"));
        assert!(missing.contains("/nowhere.perf: ") && missing.contains("cannot be opened"), "{missing}");
        let damaged = scratch.file("v2p.textproto", b"page_size: 4096\nphysical_address: many\n");
        let damaged = message(&damaged);
        assert!(damaged.contains("v2p.textproto: line 2 cannot be read: physical_address is `many`"), "{damaged}");
    }
}
