//! The Ambulator trace format (`.amb`), versions 1 and 2, specified exactly enough for an independent
//! implementation. Version 2 is version 1 with one more event, 12; a file without it has version 1.
//!
//! All fixed-width integers are little-endian. A *varint* has seven bits a byte, least significant first, the
//! top bit set on all bytes but the last, at most 64 bits. *Zigzag* maps a signed `x` to `(x << 1) ^ (x >>
//! 63)`. A *text* is a varint of its bytes, then UTF-8. Checksums are xxh3-64 with seed 0.
//!
//! ```text
//! file     := header block* [names] [note] [footer]
//!
//! header   := "AMBTRACE"  u16 version (1 or 2)  u16 reserved (0)  u32 body bytes  body  u64 checksum of the above
//! body     := u8 log2 of the page size (12)
//!             u8 width of virtual addresses in bits (32 to 57): no address has a bit at or above it
//!             text name   text detail   varint footprint in bytes (0: unknown)
//!             varint records + 1   varint instructions + 1     (0: unknown when writing began)
//!             varint events  event*                            the initial address space, before record 0
//!
//! block    := "ABLK"  u32 payload bytes  u32 records (0 to 32768)  u32 events (0 to 65536)
//!             u64 instructions  u64 number of the block's first record in the file
//!             u64 checksum of the 32 bytes before it followed by the payload     payload
//! payload  := column{7}: sites, order, address, gap, dependence 1, dependence 2, event
//! column   := u8 packing (0: none, 1: one zstd frame)  varint unpacked bytes  varint stored bytes  stored
//!
//! names    := "ANAM"  u32 bytes of the ranges  range*  u64 checksum of the above
//! range    := varint start  varint bytes  varint offset in the file + 1 (0: no file)  text name
//!
//! note     := "ANOT"  u32 bytes of the text (at most 4096)  text in UTF-8  u64 checksum of the above
//!
//! footer   := "AIDX"  u32 blocks  entry*  u64 checksum of all of the footer before it
//!             u64 offset of the footer in the file  "AMBINDEX"
//! entry    := u64 offset of the block  u32 records  u32 events  u64 instructions  u64 the block's checksum
//! ```
//!
//! A record is `pc, va, gap, dep1, dep2, size, kind`, as `ambulator_base::Record` describes them. The columns
//! of a block:
//!
//! - **sites**: a varint of their number, then for each, in ascending order of (pc, kind, size): varint pc
//!   minus the pc of the site before (the first: minus 0); u8 `kind | reference << 3`; u8 size; varint how
//!   many of the block's records it has (1 or more). Kinds: 0 load, 1 store, 2 fetch, 3 branch not taken, 4
//!   branch taken.
//! - **order**: the site of each record. A table holds for each site its latest successor, initially site 0;
//!   the site before the first record counts as 0. Then alternately: a varint with the number of consecutive
//!   records that the table predicts, and, unless those complete the block, a varint with the site of the
//!   next record, which then becomes its predecessor's entry.
//! - **address**, **gap**, **dependence 1**, **dependence 2**: one varint a record, ordered by site and
//!   within a site by program order. The address is zigzag of `va - base`, modulo 2^64, where `base` is, for
//!   a site with reference 0, the `va` of the same site's record before (for its first: of the record just
//!   before in program order), and for reference `r` from 1 to 15, of the record `r` places earlier in
//!   program order; 0 where the block has no such record.
//! - **event**: for each a varint of its position (the number of the block's records before it) minus the
//!   position of the event before, then the event.
//!
//! An event is a u8 tag and varints: 0 map (start, bytes, rights, kind), 1 unmap (start, bytes), 2 protect
//! (start, bytes, rights), 3 remap (old start, old bytes, new start, new bytes), 4 advise (start, bytes,
//! advice), 5 brk (end), 6 fork (child), 7 exit (process), 8 switch (process, thread), 9 touch (start, bytes,
//! write 0/1), 10 region of interest begins, 11 it ends, 12 place (start, bytes, physical address of the
//! start, log2 of the page's bytes: 12 to 30; all three are multiples of the page, the bytes at most 1 GiB,
//! and no physical address has more than 52 bits): the range was there in the memory of the recorded machine, from its first touch on
//! or, if it was elsewhere before, from now on. Rights are read 1 + write 2 + execute 4. Map kinds:
//! 0 anonymous, 1 file, 2 heap, 3 stack. Advice: 0 huge, 1 no-huge, 2 don't-need, 3 free.
//!
//! A dependence counts records backwards and never crosses a switch event: with several threads it stays
//! within the records of its own thread.
//!
//! The names are those of parts of the address space: the paths of the files that were mapped there. Ranges
//! may overlap, where one mapping followed another.
//!
//! The note says why the trace ends before its program would have: a crash, an interrupt, a full disk.
//! Readers that do not know names or notes find the blocks by the footer.
//!
//! Each block can be decoded without the others. A file whose writer was killed has no footer; readers use
//! the blocks' own headers and read it up to its last complete block. Readers reject versions that they do
//! not know.

use crate::event_codec;
use crate::varint::{self, Cursor};
use ambulator_base::{ProgramIdentity, VmEvent};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The first eight bytes of a file.
pub const MAGIC: [u8; 8] = *b"AMBTRACE";
/// The newest version that this crate writes and reads; it writes the oldest that can hold the trace.
pub const VERSION: u16 = 2;
/// The oldest version that this crate reads: without places of pages in physical memory.
pub const VERSION_WITHOUT_PLACES: u16 = 1;
/// The file name extension.
pub const EXTENSION: &str = "amb";

pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"ABLK";
pub(crate) const BLOCK_HEADER_BYTES: usize = 40;
pub(crate) const FOOTER_MAGIC: [u8; 4] = *b"AIDX";
pub(crate) const NOTE_MAGIC: [u8; 4] = *b"ANOT";
/// The most bytes of a note's text.
pub(crate) const MAX_NOTE: usize = 4096;
pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"AMBINDEX";
/// The footer's offset and the trailer's magic.
pub(crate) const TRAILER_BYTES: usize = 16;
pub(crate) const ENTRY_BYTES: usize = 32;
/// Bytes of the header before its body.
pub(crate) const HEADER_PREFIX_BYTES: usize = 16;
/// The most bytes in a header's body.
pub(crate) const MAX_HEADER_BODY: u32 = 16 << 20;
/// The most bytes in a block's payload.
pub(crate) const MAX_PAYLOAD: u32 = 16 << 20;

/// The header of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeader {
    /// The program: name, how the trace was made, footprint. Its `digest` is not stored; it is computed from
    /// the blocks' checksums.
    pub identity: ProgramIdentity,
    /// log2 of the base page's bytes: 12.
    pub page_shift: u8,
    /// Bits of a virtual address, 32 to 57.
    pub va_bits: u8,
    /// Records in the file, if known when writing began.
    pub records: Option<u64>,
    /// Instructions in the file, if known when writing began.
    pub instructions: Option<u64>,
    /// The initial address space: events before the first record.
    pub start: Vec<VmEvent>,
    /// The trace may say where its pages were in physical memory ([`VmEvent::Place`]): it has version 2.
    pub places: bool,
}

impl Default for TraceHeader {
    fn default() -> Self {
        TraceHeader {
            identity: ProgramIdentity::default(),
            page_shift: 12,
            va_bits: 57,
            records: None,
            instructions: None,
            start: Vec::new(),
            places: false,
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    varint::put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text(cursor: &mut Cursor<'_>) -> Option<String> {
    let len = usize::try_from(cursor.value()?).ok()?;
    Some(std::str::from_utf8(cursor.take(len)?).ok()?.to_owned())
}

impl TraceHeader {
    /// The version of the format that the trace has.
    pub fn version(&self) -> u16 {
        if self.places { VERSION } else { VERSION_WITHOUT_PLACES }
    }

    /// Encodes the header with its checksum.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.page_shift, self.va_bits];
        put_text(&mut body, &self.identity.name);
        put_text(&mut body, &self.identity.detail);
        varint::put(&mut body, self.identity.footprint);
        varint::put(&mut body, self.records.map_or(0, |n| n.saturating_add(1)));
        varint::put(&mut body, self.instructions.map_or(0, |n| n.saturating_add(1)));
        varint::put(&mut body, self.start.len() as u64);
        self.start.iter().for_each(|event| event_codec::put(&mut body, event));
        let mut out = Vec::with_capacity(body.len() + 24);
        out.extend(MAGIC);
        out.extend(self.version().to_le_bytes());
        out.extend([0, 0]);
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(body);
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    /// Decodes a body whose checksum has been verified; `None` if it is malformed nevertheless.
    pub(crate) fn decode_body(body: &[u8]) -> Option<TraceHeader> {
        let mut cursor = Cursor::new(body);
        let page_shift = cursor.byte().filter(|&shift| shift == 12)?;
        let va_bits = cursor.byte().filter(|bits| (32..=57).contains(bits))?;
        let (name, detail) = (take_text(&mut cursor)?, take_text(&mut cursor)?);
        let footprint = cursor.value()?;
        let (records, instructions) = (cursor.value()?.checked_sub(1), cursor.value()?.checked_sub(1));
        let count = cursor.value()?;
        let mut start = Vec::new();
        for _ in 0..count {
            let event = event_codec::take(&mut cursor)?;
            if event_codec::ranges_of(&event).iter().any(|(from, len)| from + len > 1 << va_bits) {
                return None;
            }
            start.push(event);
        }
        let identity = ProgramIdentity { name, detail, footprint, digest: 0 };
        (cursor.remaining() == 0).then_some(TraceHeader {
            identity,
            page_shift,
            va_bits,
            records,
            instructions,
            start,
            places: false,
        })
    }
}

/// A block's entry in the footer, also read from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    pub(crate) offset: u64,
    pub(crate) records: u32,
    pub(crate) events: u32,
    pub(crate) instructions: u64,
    pub(crate) checksum: u64,
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A block's header as stored in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) payload_bytes: u32,
    pub(crate) records: u32,
    pub(crate) events: u32,
    pub(crate) instructions: u64,
    pub(crate) first_record: u64,
    pub(crate) checksum: u64,
}

impl BlockHeader {
    /// Encodes the 40 bytes with the checksum over `payload`.
    pub(crate) fn encode(&self, payload: &[u8]) -> ([u8; BLOCK_HEADER_BYTES], u64) {
        let mut out = [0; BLOCK_HEADER_BYTES];
        out[..4].copy_from_slice(&BLOCK_MAGIC);
        out[4..8].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[8..12].copy_from_slice(&self.records.to_le_bytes());
        out[12..16].copy_from_slice(&self.events.to_le_bytes());
        out[16..24].copy_from_slice(&self.instructions.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_record.to_le_bytes());
        let sum = checksum(&out[..32], payload);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        (out, sum)
    }

    /// Decodes the 40 bytes; the error says what is wrong with them.
    pub(crate) fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Result<BlockHeader, String> {
        if bytes[..4] != BLOCK_MAGIC {
            return Err(format!("there is no block (it begins with {:02x?} instead of \"ABLK\")", &bytes[..4]));
        }
        let header = BlockHeader {
            payload_bytes: u32_at(bytes, 4),
            records: u32_at(bytes, 8),
            events: u32_at(bytes, 12),
            instructions: u64_at(bytes, 16),
            first_record: u64_at(bytes, 24),
            checksum: u64_at(bytes, 32),
        };
        if header.payload_bytes > MAX_PAYLOAD
            || header.records as usize > super::block::MAX_RECORDS
            || header.events as usize > super::block::MAX_EVENTS
        {
            return Err(format!(
                "its header claims {} payload bytes, {} records and {} events, more than a block can have",
                header.payload_bytes, header.records, header.events
            ));
        }
        Ok(header)
    }
}

/// xxh3-64 over the two parts in sequence.
pub(crate) fn checksum(head: &[u8], payload: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.digest()
}

/// Encodes a note; a text that is too long is cut.
pub(crate) fn encode_note(text: &str) -> Vec<u8> {
    let fits = (0..=text.len().min(MAX_NOTE)).rev().find(|&end| text.is_char_boundary(end));
    let text = &text[..fits.unwrap_or(0)];
    let mut out = NOTE_MAGIC.to_vec();
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
    out.extend(xxh3_64(&out).to_le_bytes());
    out
}

/// Decodes a note; `None` if the bytes are not exactly one.
pub(crate) fn decode_note(bytes: &[u8]) -> Option<String> {
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    let text = content.strip_prefix(&NOTE_MAGIC)?.get(4..)?;
    let sound = u32_at(content, 4) as usize == text.len() && xxh3_64(content) == u64_at(sum, 0);
    sound.then(|| std::str::from_utf8(text).ok().map(str::to_owned)).flatten()
}

/// Encodes a footer at `offset`, with its trailer.
pub(crate) fn encode_footer(entries: &[BlockEntry], offset: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + entries.len() * ENTRY_BYTES + TRAILER_BYTES);
    out.extend(FOOTER_MAGIC);
    out.extend((entries.len() as u32).to_le_bytes());
    for entry in entries {
        out.extend(entry.offset.to_le_bytes());
        out.extend(entry.records.to_le_bytes());
        out.extend(entry.events.to_le_bytes());
        out.extend(entry.instructions.to_le_bytes());
        out.extend(entry.checksum.to_le_bytes());
    }
    out.extend(xxh3_64(&out).to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend(TRAILER_MAGIC);
    out
}

/// Decodes a footer without its trailer; `None` if it is damaged.
pub(crate) fn decode_footer(bytes: &[u8], offset: u64, first_block: u64) -> Option<Vec<BlockEntry>> {
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    if content.len() < 8 || content[..4] != FOOTER_MAGIC || xxh3_64(content) != u64_at(sum, 0) {
        return None;
    }
    let (count, entries) = (u32_at(content, 4) as usize, &content[8..]);
    if entries.len() != count.checked_mul(ENTRY_BYTES)? {
        return None;
    }
    let mut least = first_block;
    entries
        .chunks_exact(ENTRY_BYTES)
        .map(|entry| {
            let entry = BlockEntry {
                offset: u64_at(entry, 0),
                records: u32_at(entry, 8),
                events: u32_at(entry, 12),
                instructions: u64_at(entry, 16),
                checksum: u64_at(entry, 24),
            };
            let good = entry.offset >= least && entry.offset < offset;
            least = entry.offset + BLOCK_HEADER_BYTES as u64;
            good.then_some(entry)
        })
        .collect()
}
