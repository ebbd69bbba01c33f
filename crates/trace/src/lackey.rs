//! Valgrind lackey's text (`valgrind --tool=lackey --trace-mem=yes`), plain or compressed.
//!
//! ```text
//! I  04000870,3      an instruction of 3 bytes
//!  L 1ffeffe7e0,8    it loads   (S: stores, M: loads and stores the same place)
//! ```
//!
//! Lines that begin with `==` or `--` are Valgrind's messages and are skipped. The format has no dependences
//! and no branches. Without dependences a timing model overlaps everything, so use such a trace for counts
//! rather than cycles. Accesses that run past the end of the address space are clipped. An instruction with
//! several accesses gives several records; later gaps are shorter by the surplus.

use crate::compressed::Unpacked;
use crate::gaps::Gaps;
use crate::implicit_maps::ImplicitMaps;
use crate::width::Width;
use ambulator_base::{Batch, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr};

/// Bytes of the longest accepted line.
const LONGEST_LINE: usize = 4096;
/// Largest access that an instruction makes (`xsave`).
const LARGEST_ACCESS: u64 = 1 << 16;

/// Whether the text may be lackey's.
pub(crate) fn plausible(head: &[u8]) -> bool {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    line.starts_with(b"==") || line.starts_with(b"--") || matches!(parse(line), Some(Line::Access(..)))
}

enum Line {
    Access(u8, u64, u64),
    Skipped,
}

fn parse(line: &[u8]) -> Option<Line> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
        return Some(Line::Skipped);
    }
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (b'I', rest),
        [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
        _ => return None,
    };
    let (address, size) = std::str::from_utf8(rest).ok()?.trim_end().split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let size = size.parse().ok().filter(|size| (1..=LARGEST_ACCESS).contains(size))?;
    Some(Line::Access(kind, address, size))
}

/// A lackey trace as a stream.
pub(crate) struct LackeyReader {
    input: Unpacked,
    identity: ProgramIdentity,
    maps: Option<ImplicitMaps>,
    width: Width,
    line: u64,
    pc: u64,
    gaps: Gaps,
}

impl LackeyReader {
    pub(crate) fn new(input: Unpacked, identity: ProgramIdentity, maps: Option<ImplicitMaps>, va_bits: u8) -> Self {
        let width = Width::new(va_bits);
        LackeyReader { input, identity, maps, width, line: 0, pc: 0, gaps: Gaps::new() }
    }

    /// Records an access, clipped to the address space.
    fn access(&mut self, kind: RecordKind, address: u64, size: u64, batch: &mut Batch) {
        for piece in (0..size).step_by(64) {
            let gap = self.gaps.before_record();
            let record = Record {
                pc: VirtAddr(self.pc),
                va: VirtAddr(address + piece),
                gap,
                dep1: 0,
                dep2: 0,
                size: (size - piece).min(64) as u8,
                kind,
            };
            match &mut self.maps {
                Some(maps) => maps.push(record, batch),
                None => batch.records.push(record),
            }
        }
    }

    /// The next line with its end; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<(Line, usize)>, SourceError> {
        let text = self.input.peek(LONGEST_LINE).map_err(SourceError::new)?;
        if text.is_empty() {
            return Ok(None);
        }
        let text = &text[..text.len().min(LONGEST_LINE)];
        let end = line_end(text).unwrap_or(text.len());
        match parse(&text[..end]) {
            Some(parsed) if end < LONGEST_LINE => Ok(Some((parsed, end + usize::from(end < text.len())))),
            _ => {
                let shown: String = String::from_utf8_lossy(&text[..end.min(60)]).escape_debug().collect();
                Err(self.no_line(&shown))
            }
        }
    }

    #[cold]
    fn no_line(&self, shown: &str) -> SourceError {
        SourceError::new(format!(
            "{}: line {} (byte {}) is \"{shown}\", which is not a line of lackey: those are \"I  \
             ADDRESS,SIZE\", \" L \", \" S \" or \" M \
             ADDRESS,SIZE\" with a hexadecimal address, or begin with \"==\"",
            self.input.name(),
            self.line + 1,
            self.input.offset
        ))
    }
}

/// Where the line ends.
fn line_end(text: &[u8]) -> Option<usize> {
    text.iter().position(|&b| b == b'\n')
}

impl RecordSource for LackeyReader {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while batch.records.len() < Batch::TARGET_RECORDS {
            let Some((line, bytes)) = self.next_line()? else {
                break;
            };
            self.input.consume(bytes);
            self.line += 1;
            match line {
                Line::Skipped => {}
                Line::Access(b'I', address, _) => {
                    self.gaps.gap += u64::from(!self.gaps.recorded);
                    self.pc = self.width.fit(address);
                    self.gaps.recorded = false;
                }
                Line::Access(kind, address, size) => {
                    let address = self.width.fit(address);
                    let size = self.width.clip(address, size);
                    if kind != b'S' {
                        self.access(RecordKind::Load, address, size, batch);
                    }
                    if kind != b'L' {
                        self.access(RecordKind::Store, address, size, batch);
                    }
                }
            }
        }
        Ok(!batch.is_empty())
    }

    fn notes(&self) -> Vec<String> {
        self.width.notes(self.input.name())
    }
}
