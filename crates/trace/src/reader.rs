//! Reading our format.

use crate::decode::Decoder;
use crate::format::{
    BLOCK_HEADER_BYTES, BlockEntry, BlockHeader, HEADER_PREFIX_BYTES, MAGIC, MAX_HEADER_BODY, MAX_NOTE, TRAILER_BYTES,
    TRAILER_MAGIC, TraceHeader, VERSION, VERSION_WITHOUT_PLACES, checksum, decode_footer, decode_note, u32_at, u64_at,
};
use crate::names;
use crate::open::TraceFormat;
use ambulator_base::{Batch, NamedRange, ProgramIdentity, RecordSource, SourceError};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Read, Seek, SeekFrom};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// What a file of our format reveals without being decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// Its header.
    pub header: TraceHeader,
    /// Records in its whole blocks.
    pub records: u64,
    /// VM events in its whole blocks and its header.
    pub events: u64,
    /// Instructions in its whole blocks.
    pub instructions: u64,
    /// Whole blocks.
    pub blocks: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// A sentence, if the file has no footer (its writer was killed) and is read up to its last whole block.
    pub recovered: Option<String>,
    /// Why the trace ends before its program would have, if its writer said so.
    pub cut_short: Option<String>,
    /// What parts of the address space are called.
    pub names: Vec<NamedRange>,
}

/// What `trace info --json` says of a trace whose index alone was read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct IndexSummary {
    /// Its format.
    pub format: TraceFormat,
    /// The program.
    pub program: ProgramIdentity,
    /// Bytes of the file.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Instructions.
    pub instructions: u64,
    /// VM events.
    pub events: u64,
    /// Whole blocks.
    pub blocks: u64,
    /// Only the index was read, not the records: true.
    pub from_index: bool,
    /// Remarks.
    pub notes: Vec<String>,
}

impl TraceInfo {
    /// As `trace info --json` has it.
    pub fn summary(&self) -> IndexSummary {
        IndexSummary {
            format: TraceFormat::Ambulator,
            program: self.header.identity.clone(),
            bytes: self.bytes,
            records: self.records,
            instructions: self.instructions,
            events: self.events,
            blocks: self.blocks,
            from_index: true,
            notes: self.recovered.iter().chain(&self.cut_short).cloned().collect(),
        }
    }
}

/// A trace file of our format as a stream. It can be positioned at any record.
pub struct TraceReader<R> {
    name: String,
    source: R,
    info: TraceInfo,
    pub(crate) entries: Vec<BlockEntry>,
    /// Number of each block's first record.
    first_records: Vec<u64>,
    next_block: usize,
    start_given: bool,
    /// Records of the next block to skip after a seek.
    leave_out: u32,
    /// Blocks before this number yield only their VM events.
    events_only_before: usize,
    decoder: Decoder,
    payload: Vec<u8>,
}

impl<R: Read + Seek> TraceReader<R> {
    /// Opens a trace; `name` names the file in errors.
    ///
    /// # Errors
    /// It is not an Ambulator trace, has another version or a damaged header, or cannot be read.
    pub fn new(mut source: R, name: &str) -> Result<TraceReader<R>, SourceError> {
        let io = |e: std::io::Error| SourceError::new(format!("{name}: cannot be read: {e}"));
        let bytes = source.seek(SeekFrom::End(0)).map_err(io)?;
        source.seek(SeekFrom::Start(0)).map_err(io)?;
        let (header, head_bytes, mut digest) = read_header(&mut source, name, bytes)?;
        let (entries, recovered, (names, cut_short)) = match read_footer(&mut source, head_bytes, bytes).map_err(io)? {
            Some((entries, at)) => {
                let after = read_names_and_note(&mut source, &entries, head_bytes, at).map_err(io)?;
                (entries, None, after)
            }
            None => {
                let (entries, note) = scan(&mut source, name, head_bytes, bytes)?;
                (entries, note, (Vec::new(), None))
            }
        };
        let mut first_records = Vec::with_capacity(entries.len());
        let mut before = 0u64;
        for entry in &entries {
            first_records.push(before);
            before += u64::from(entry.records);
            digest.update(&entry.checksum.to_le_bytes());
        }
        let sum = |of: fn(&BlockEntry) -> u64| entries.iter().fold(0u64, |all, entry| all.saturating_add(of(entry)));
        let mut info = TraceInfo {
            records: sum(|e| u64::from(e.records)),
            events: sum(|e| u64::from(e.events)) + header.start.len() as u64,
            instructions: sum(|e| e.instructions),
            blocks: entries.len() as u64,
            bytes,
            recovered,
            cut_short,
            names,
            header,
        };
        info.header.identity.digest = digest.digest();
        Ok(TraceReader {
            name: name.to_owned(),
            source,
            info,
            entries,
            first_records,
            next_block: 0,
            start_given: false,
            leave_out: 0,
            events_only_before: 0,
            decoder: Decoder::new().map_err(io)?,
            payload: Vec::new(),
        })
    }

    /// What the file reveals without being decoded.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Continues at record number `record` of the file (or at the end, if it has fewer). The VM events before
    /// it are still delivered, so that the address space is right; the touches of the skipped records are
    /// not.
    pub fn seek_record(&mut self, record: u64) {
        let mut before = 0;
        let mut block = 0;
        while let Some(entry) = self.entries.get(block) {
            if before + u64::from(entry.records) > record {
                break;
            }
            before += u64::from(entry.records);
            block += 1;
        }
        self.next_block = 0;
        self.start_given = false;
        self.events_only_before = block;
        self.leave_out = if block < self.entries.len() { (record - before) as u32 } else { 0 };
    }

    fn damaged(&self, block: usize, offset: u64, what: &str) -> SourceError {
        let good = self.first_records[block];
        SourceError::new(format!(
            "{}: block {block} at byte {offset} is damaged: {what}. The {good} records before \
             it are good; get another copy of \
             the file, or keep those with a conversion of that range",
            self.name
        ))
    }

    /// Reads the payload of a block and verifies its checksum.
    fn load(&mut self, block: usize) -> Result<BlockHeader, SourceError> {
        let offset = self.entries[block].offset;
        let io = |e: std::io::Error, name: &str| {
            let why = match e.kind() {
                // It was there when the file was opened.
                std::io::ErrorKind::UnexpectedEof => "the file was cut short while it was read".to_owned(),
                _ => e.to_string(),
            };
            SourceError::new(format!("{name}: block {block} at byte {offset} cannot be read: {why}"))
        };
        self.source.seek(SeekFrom::Start(offset)).map_err(|e| io(e, &self.name))?;
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.source.read_exact(&mut head).map_err(|e| io(e, &self.name))?;
        let header = BlockHeader::decode(&head).map_err(|what| self.damaged(block, offset, &what))?;
        let end = offset + BLOCK_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
        if end > self.info.bytes {
            let what = format!("it claims to end at byte {end}, and the file ends at byte {}", self.info.bytes);
            return Err(self.damaged(block, offset, &what));
        }
        self.payload.resize(header.payload_bytes as usize, 0);
        self.source.read_exact(&mut self.payload).map_err(|e| io(e, &self.name))?;
        let sum = checksum(&head[..32], &self.payload);
        let entry = &self.entries[block];
        if sum != header.checksum {
            let what = format!("its checksum is {sum:016x} where {:016x} was written", header.checksum);
            return Err(self.damaged(block, offset, &what));
        }
        if (entry.checksum, entry.records, entry.events) != (sum, header.records, header.events)
            || header.first_record != self.first_records[block]
        {
            return Err(self.damaged(block, offset, "it is not the block that the footer lists at this place"));
        }
        Ok(header)
    }
}

pub(crate) fn read_header<R: Read>(
    source: &mut R,
    name: &str,
    bytes: u64,
) -> Result<(TraceHeader, u64, Xxh3), SourceError> {
    let fail = |what: String| Err(SourceError::new(format!("{name}: {what}")));
    let io = |e: std::io::Error| SourceError::new(format!("{name}: cannot be read: {e}"));
    if bytes < (HEADER_PREFIX_BYTES + 8) as u64 {
        return fail(format!("the trace is cut short: it has {bytes} bytes, less than a header"));
    }
    let mut head = vec![0; HEADER_PREFIX_BYTES];
    source.read_exact(&mut head).map_err(io)?;
    if head[..8] != MAGIC {
        return fail("it is not an Ambulator trace: it does not begin with \"AMBTRACE\"".into());
    }
    let version = u16::from_le_bytes([head[8], head[9]]);
    if !(VERSION_WITHOUT_PLACES..=VERSION).contains(&version) {
        return fail(format!(
            "it is an Ambulator trace of version {version}; this program reads versions {VERSION_WITHOUT_PLACES} to {VERSION}"
        ));
    }
    let body_bytes = u32_at(&head, 12);
    let all = HEADER_PREFIX_BYTES as u64 + u64::from(body_bytes) + 8;
    if body_bytes > MAX_HEADER_BODY || all > bytes {
        return fail(format!(
            "the header is damaged or cut short: it claims to end at byte {all}, and the file has {bytes}"
        ));
    }
    head.resize(all as usize, 0);
    source.read_exact(&mut head[HEADER_PREFIX_BYTES..]).map_err(io)?;
    let (content, sum) = head.split_at(all as usize - 8);
    if xxh3_64(content) != u64_at(sum, 0) {
        return fail(format!("the header (bytes 0 to {}) is damaged: its checksum does not fit", all - 1));
    }
    let Some(mut header) = TraceHeader::decode_body(&content[HEADER_PREFIX_BYTES..]) else {
        return fail(format!(
            "the header does not have the fields of version {version}: was it written by another program?"
        ));
    };
    header.places = version > VERSION_WITHOUT_PLACES;
    let mut digest = Xxh3::new();
    digest.update(content);
    Ok((header, all, digest))
}

/// Reads the index and its place; `None` if the file does not end in a valid one.
fn read_footer<R: Read + Seek>(
    source: &mut R,
    head: u64,
    bytes: u64,
) -> std::io::Result<Option<(Vec<BlockEntry>, u64)>> {
    if bytes < head + TRAILER_BYTES as u64 {
        return Ok(None);
    }
    let end = bytes - TRAILER_BYTES as u64;
    source.seek(SeekFrom::Start(end))?;
    let mut trailer = [0; TRAILER_BYTES];
    source.read_exact(&mut trailer)?;
    let offset = u64_at(&trailer, 0);
    if trailer[8..] != TRAILER_MAGIC || offset < head || offset > end {
        return Ok(None);
    }
    source.seek(SeekFrom::Start(offset))?;
    let mut footer = Vec::new();
    source.take(end - offset).read_to_end(&mut footer)?;
    Ok(decode_footer(&footer, offset, head).map(|entries| (entries, offset)))
}

/// Reads the names and the note between the last block and the footer, if there are sound ones.
fn read_names_and_note<R: Read + Seek>(
    source: &mut R,
    entries: &[BlockEntry],
    head: u64,
    footer: u64,
) -> std::io::Result<(Vec<NamedRange>, Option<String>)> {
    let mut end = head;
    if let Some(last) = entries.last() {
        let mut block = [0; BLOCK_HEADER_BYTES];
        source.seek(SeekFrom::Start(last.offset))?;
        source.read_exact(&mut block)?;
        end = last.offset + (BLOCK_HEADER_BYTES as u64) + u64::from(u32_at(&block, 4));
    }
    let most = names::MAX_SECTION + 16 + MAX_NOTE as u64;
    let Some(len) = footer.checked_sub(end).filter(|len| (16..=most).contains(len)) else {
        return Ok((Vec::new(), None));
    };
    let mut between = vec![0; len as usize];
    source.seek(SeekFrom::Start(end))?;
    source.read_exact(&mut between)?;
    let (names, note) = names::decode(&between);
    Ok((names, decode_note(note)))
}

type Scanned = (Vec<BlockEntry>, Option<String>);

/// Finds the whole blocks of a file without a footer.
fn scan<R: Read + Seek>(source: &mut R, name: &str, head: u64, bytes: u64) -> Result<Scanned, SourceError> {
    let io = |e: std::io::Error| SourceError::new(format!("{name}: cannot be read: {e}"));
    let mut entries: Vec<BlockEntry> = Vec::new();
    let (mut offset, mut first_record) = (head, 0);
    while offset + BLOCK_HEADER_BYTES as u64 <= bytes {
        source.seek(SeekFrom::Start(offset)).map_err(io)?;
        let mut block = [0; BLOCK_HEADER_BYTES];
        source.read_exact(&mut block).map_err(io)?;
        let Ok(header) = BlockHeader::decode(&block) else {
            break;
        };
        let end = offset + BLOCK_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
        if end > bytes || header.first_record != first_record {
            break;
        }
        entries.push(BlockEntry {
            offset,
            records: header.records,
            events: header.events,
            instructions: header.instructions,
            checksum: header.checksum,
        });
        first_record += u64::from(header.records);
        offset = end;
    }
    // After a crash of the machine the file may have the right length and the wrong bytes: verify the last
    // block now.
    if let Some(last) = entries.last() {
        source.seek(SeekFrom::Start(last.offset)).map_err(io)?;
        let mut bytes = vec![0; (offset - last.offset) as usize];
        source.read_exact(&mut bytes).map_err(io)?;
        if checksum(&bytes[..32], &bytes[BLOCK_HEADER_BYTES..]) != last.checksum {
            offset = last.offset;
            entries.pop();
        }
    }
    let records: u64 = entries.iter().map(|e| u64::from(e.records)).sum();
    let note = format!(
        "{name}: the file has no sound footer (its writer was stopped, or its end is damaged \
         or missing); it is read up to its \
         last whole block: {} blocks, {records} records, {offset} of {bytes} bytes",
        entries.len()
    );
    Ok((entries, Some(note)))
}

impl<R: Read + Seek + Send> crate::open::ForeignSource for TraceReader<R> {}

impl<R: Read + Seek + Send> RecordSource for TraceReader<R> {
    fn identity(&self) -> ProgramIdentity {
        let mut identity = self.info.header.identity.clone();
        if let Some(note) = &self.info.recovered {
            identity.detail = format!("{} [{note}]", identity.detail);
        }
        identity
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if !self.start_given {
            self.start_given = true;
            self.info.header.start.iter().for_each(|event| batch.push_event(event.clone()));
        }
        let va_limit = 1 << self.info.header.va_bits;
        while self.next_block < self.entries.len() {
            let block = self.next_block;
            let header = self.load(block)?;
            let (records, events) = (header.records as usize, header.events as usize);
            let only_events = block < self.events_only_before;
            let decode = if only_events { Decoder::decode_events } else { Decoder::decode };
            if let Err(what) = decode(&mut self.decoder, &self.payload, records, events, va_limit, batch) {
                batch.clear();
                return Err(self.damaged(block, self.entries[block].offset, &what));
            }
            self.next_block += 1;
            if only_events {
                continue;
            }
            let out = std::mem::take(&mut self.leave_out);
            batch.records.drain(..out as usize);
            batch.events.iter_mut().for_each(|event| event.0 = event.0.saturating_sub(out));
            return Ok(true);
        }
        Ok(!batch.is_empty())
    }

    /// A batch is a block: the index says where the next one is.
    fn skip(&mut self, count: usize) -> Result<usize, SourceError> {
        let (mut passed, mut batch) = (0, Batch::default());
        // The events before a place that was sought, and the initial address space, come with the next batch.
        while passed < count && (!self.start_given || self.next_block < self.events_only_before || self.leave_out > 0) {
            if !self.fill(&mut batch)? {
                return Ok(passed);
            }
            passed += 1;
        }
        let jump = (count - passed).min(self.entries.len() - self.next_block);
        self.next_block += jump;
        Ok(passed + jump)
    }

    fn instructions(&self) -> Option<u64> {
        Some(self.info.instructions)
    }

    fn may_place(&self) -> bool {
        self.info.header.places
    }

    fn progress(&self) -> Option<f64> {
        let all = self.entries.len().max(1) as f64;
        Some(if self.entries.is_empty() { 1.0 } else { self.next_block as f64 / all })
    }

    fn notes(&self) -> Vec<String> {
        let cut = self.info.cut_short.iter().map(|why| format!("{}: the trace was cut short: {why}", self.name));
        self.info.recovered.iter().cloned().chain(cut).collect()
    }

    fn named_ranges(&self) -> Vec<NamedRange> {
        self.info.names.clone()
    }
}
