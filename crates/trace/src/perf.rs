//! Samples of memory accesses, as `perf script` prints them: for the layout and the hot pages of a program,
//! not for a simulation, as samples are no stream.
//!
//! ```text
//! app  1234/1235 12.345678: cpu/mem-loads/P:  7f12345678 68100142 |OP LOAD|LVL L1 hit|... 55d0c0ffee00
//! ```
//!
//! A line has the time and the event, each with a colon; the first hexadecimal number after the event is the
//! address, the first one after the data source (`|OP ...|`), if there is one, the instruction's, and another
//! at the end of the line the physical address. `PERF_RECORD_MMAP` lines (`--show-mmap-events`) are counted,
//! other records, call chains and comments are skipped.

use crate::compressed::Unpacked;
use crate::open::{ForeignSource, TraceOptions};
use crate::physical::{PhysicalPages, PhysicalReport};
use crate::processes::Processes;
use crate::width::Width;
use ambulator_base::{
    Batch, FRAME_SHIFT, LINE_BYTES, PageSize, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr,
};
use rustc_hash::FxHashMap;

/// Bytes of the longest accepted line.
const LONGEST_LINE: usize = 4096;
/// Assumed bytes of an access.
const ACCESS_BYTES: u64 = 8;
/// Pages that a summary names.
const NAMED: usize = 5;

/// A line of `perf script`.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Sample { process: u64, thread: u64, va: u64, pc: u64, physical: Option<u64>, kind: RecordKind },
    Mapping(u64),
    Skipped,
}

fn hexadecimal(token: &str) -> Option<u64> {
    let digits = token.strip_prefix("0x").unwrap_or(token);
    if digits.is_empty() || digits.len() > 16 { None } else { u64::from_str_radix(digits, 16).ok() }
}

/// Whether the token is a time with its colon: `12.345678:`.
fn is_time(token: &str) -> bool {
    token.strip_suffix(':').and_then(|time| time.split_once('.')).is_some_and(|(whole, part)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits(whole) && digits(part)
    })
}

fn parse(line: &[u8]) -> Option<Line> {
    let line = std::str::from_utf8(line).ok()?;
    if line.trim().is_empty() || line.starts_with('#') {
        return Some(Line::Skipped);
    }
    if let Some((_, mapping)) = line.split_once("PERF_RECORD_MMAP").filter(|(_, mapping)| !mapping.contains("[kernel"))
    {
        // [0xSTART(0xLENGTH) @ ...
        let (_, length) = mapping.split_once('(')?;
        return hexadecimal(length.split_once(')')?.0).map(Line::Mapping);
    }
    if line.contains("PERF_RECORD_") {
        return Some(Line::Skipped);
    }
    let tokens: Vec<&str> = line.split_whitespace().collect();
    let Some(time) = tokens.iter().position(|token| is_time(token)) else {
        // A call chain is indented and begins with an address.
        let chain = line.starts_with([' ', '\t']) && hexadecimal(tokens.first()?).is_some();
        return chain.then_some(Line::Skipped);
    };
    let event = time + 1 + tokens[time + 1..].iter().position(|token| token.ends_with(':'))?;
    let names = tokens[..time].iter().rev().find_map(|token| {
        let (process, thread) = token.split_once('/').unwrap_or((token, token));
        Some((process.parse().ok()?, thread.parse().ok()?))
    });
    let (process, thread) = names.unwrap_or((0, 0));
    let rest = &tokens[event + 1..];
    let va = hexadecimal(rest.first()?)?;
    let source = rest.iter().rposition(|token| token.contains('|')).map_or(0, |at| at + 1).max(1);
    let mut after = rest[source..].iter().enumerate().filter(|(_, token)| token.len() > 4);
    let instruction = after.find_map(|(at, token)| hexadecimal(token).map(|pc| (at, pc)));
    let last = rest[source..].len().checked_sub(1);
    let physical = match (instruction, last) {
        (Some((at, _)), Some(last)) if last > at => hexadecimal(rest[source + last]),
        _ => None,
    };
    let store = line.contains("|OP STORE|") || (!line.contains("|OP ") && tokens[event].contains("store"));
    let kind = if store { RecordKind::Store } else { RecordKind::Load };
    Some(Line::Sample { process, thread, va, pc: instruction.map_or(0, |(_, pc)| pc), physical, kind })
}

/// Whether the text may be of `perf script`: its first line that is no comment is a sample or a record.
pub(crate) fn plausible(head: &[u8]) -> bool {
    let lines = head.split(|&b| b == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let first = lines.take(1).next().unwrap_or_default();
    first.windows(12).any(|part| part == b"PERF_RECORD_") || matches!(parse(first), Some(Line::Sample { .. }))
}

/// Samples of `perf script`.
pub(crate) struct PerfReader {
    input: Unpacked,
    identity: ProgramIdentity,
    processes: Processes,
    width: Width,
    physical: PhysicalPages,
    line: u64,
    pages: FxHashMap<u64, u64>,
    samples: u64,
    without_address: u64,
    mappings: u64,
    mapped: u64,
}

impl PerfReader {
    pub(crate) fn new(input: Unpacked, identity: ProgramIdentity, options: &TraceOptions) -> PerfReader {
        PerfReader {
            input,
            identity,
            processes: Processes::new(options.implicit_maps.then_some(options.map_granularity)),
            width: Width::new(options.va_bits),
            physical: PhysicalPages::default(),
            line: 0,
            pages: FxHashMap::default(),
            samples: 0,
            without_address: 0,
            mappings: 0,
            mapped: 0,
        }
    }

    /// The next line with its end; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<(Line, usize)>, SourceError> {
        let text = self.input.peek(LONGEST_LINE).map_err(SourceError::new)?;
        if text.is_empty() {
            return Ok(None);
        }
        let text = &text[..text.len().min(LONGEST_LINE)];
        let end = text.iter().position(|&b| b == b'\n').unwrap_or(text.len());
        match parse(&text[..end]) {
            Some(parsed) if end < LONGEST_LINE => Ok(Some((parsed, end + usize::from(end < text.len())))),
            _ => {
                let shown: String = String::from_utf8_lossy(&text[..end.min(80)]).escape_debug().collect();
                Err(SourceError::new(format!(
                    "{}: line {} (byte {}) is \"{shown}\", which is not a sample with a time, an event and an address; \
                     print them with `perf script -F comm,pid,tid,time,event,addr,data_src,ip`",
                    self.input.name(),
                    self.line + 1,
                    self.input.offset
                )))
            }
        }
    }
}

impl RecordSource for PerfReader {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.len() < Batch::TARGET_RECORDS && batch.events.len() < Batch::TARGET_RECORDS {
            let Some((line, bytes)) = self.next_line()? else { break };
            self.input.consume(bytes);
            self.line += 1;
            match line {
                Line::Skipped => {}
                Line::Mapping(bytes) => {
                    self.mappings += 1;
                    self.mapped = self.mapped.saturating_add(bytes);
                }
                Line::Sample { va: 0, .. } => self.without_address += 1,
                Line::Sample { process, thread, va, pc, physical, kind } => {
                    let fail = |what: String| SourceError::new(format!("{}: {what}", self.input.name()));
                    self.processes.enter(process, thread, batch).map_err(fail)?;
                    let (va, pc) = (self.width.fit(va), VirtAddr(self.width.fit(pc)));
                    self.samples += 1;
                    *self.pages.entry(va >> FRAME_SHIFT).or_default() += 1;
                    if let Some(physical) = physical {
                        let place = self.physical.place(self.processes.running(), va, physical, PageSize::SIZE_4K);
                        batch.events.extend(place.map(|place| (batch.records.len() as u32, place)));
                    }
                    let size = ACCESS_BYTES.min(LINE_BYTES - va % LINE_BYTES) as u8;
                    self.processes.push(Record { pc, va: VirtAddr(va), size, kind, ..Record::default() }, batch);
                }
            }
        }
        Ok(!batch.is_empty())
    }

    fn may_place(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        self.width.notes(self.input.name())
    }
}

impl ForeignSource for PerfReader {
    fn physical(&self) -> Option<PhysicalReport> {
        self.physical.report()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            "these are samples: counts are of samples, pages are those that were sampled, and nothing can be simulated"
                .into(),
        ];
        let mut hot: Vec<(u64, u64)> = self.pages.iter().map(|(page, samples)| (*samples, *page)).collect();
        hot.sort_unstable_by_key(|(samples, page)| (std::cmp::Reverse(*samples), *page));
        let share = |samples: u64| 100.0 * samples as f64 / self.samples.max(1) as f64;
        if !hot.is_empty() {
            let within = |part: f64| {
                let mut sum = 0;
                1 + hot
                    .iter()
                    .position(|(samples, _)| {
                        sum += samples;
                        sum as f64 >= part * self.samples as f64
                    })
                    .unwrap_or(hot.len() - 1)
            };
            remarks.push(format!(
                "half of the samples are in {} of {} sampled pages, 90% in {}",
                within(0.5),
                hot.len(),
                within(0.9)
            ));
            let named: Vec<String> = hot
                .iter()
                .take(NAMED)
                .map(|(samples, page)| format!("{:#x} ({:.1}%)", page << FRAME_SHIFT, share(*samples)))
                .collect();
            remarks.push(format!("hottest pages: {}", named.join(", ")));
        }
        if self.without_address > 0 {
            remarks.push(format!("{} samples have no address and were left out", self.without_address));
        }
        if self.mappings > 0 {
            remarks.push(format!("the program made {} mappings of {} bytes", self.mappings, self.mapped));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TraceFormat, info, open_trace};

    const TEXT: &str = "# a comment
     swapper     0/0             0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1209988) @ 0xffff0]: x [kernel.kallsyms]_text
         app  1234/1234  [000]    10.000001: PERF_RECORD_MMAP2 1234/1234: [0x400000(0x3000) @ 0 fe:00 1 2]: r-xp /bin/app
         app  1234/1234  [000]    10.000002: cpu/mem-loads,ldlat=30/P:     7f0000001000      68100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A  401000
         app  1234/1235  [001]    10.000003: cpu/mem-stores/P:     7f0000001040      68100142 |OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK N/A  401004 main+0x4 (/bin/app)  123456000
	          401004 main+0x4 (/bin/app)

         app  1234/1235  [001]    10.000004:       1 mem-stores:     7f0000009000  401008
         app  1234/1235  [001]    10.000005:       1 mem-stores:     0  401008
";

    #[test]
    fn samples_show_hot_pages_and_are_not_simulated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.txt");
        std::fs::write(&path, TEXT).unwrap();
        let options = TraceOptions::default();
        let summary = info(&path, &options).unwrap();
        assert_eq!((summary.format, summary.damage.clone()), (TraceFormat::PerfScript, None));
        assert_eq!((summary.loads, summary.stores, summary.touched_pages, summary.threads), (1, 2, 2, 2));
        assert_eq!(summary.physical.unwrap().pages, 1);
        let notes = summary.notes.join("\n");
        assert!(notes.contains("half of the samples are in 1 of 2 sampled pages, 90% in 2"), "{notes}");
        assert!(notes.contains("hottest pages: 0x7f0000001000 (66.7%), 0x7f0000009000 (33.3%)"), "{notes}");
        assert!(notes.contains("1 samples have no address") && notes.contains("1 mappings of 12288 bytes"), "{notes}");
        let message = open_trace(&path, &options).err().unwrap().message;
        assert!(message.contains("samples.txt: holds samples of perf") && message.contains("trace info"), "{message}");
    }

    #[test]
    fn what_is_no_sample_is_an_error_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.txt");
        std::fs::write(&path, TEXT.replace("mem-stores:     7f0000009000", "mem-stores: what")).unwrap();
        let damage = info(&path, &TraceOptions::default()).unwrap().damage.unwrap();
        assert!(damage.contains("samples.txt: line 8 (byte "), "{damage}");
        std::fs::write(&path, b"PERFILE2 and so on, in binary").unwrap();
        let message = open_trace(&path, &TraceOptions::default()).err().unwrap().message;
        assert!(message.contains("`perf script -F comm,pid,tid,time,event,addr,data_src,ip -i "), "{message}");
    }
}
