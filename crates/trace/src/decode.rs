//! From the columns of a block to records.

use crate::block::{ADDRESS, COLUMNS, DEP1, DEP2, EVENTS, GAP, MAX_REFERENCE, ORDER, SITES, column_limit};
use crate::event_codec;
use crate::varint::{self, Cursor};
use ambulator_base::{Batch, Record, RecordKind, VirtAddr, VmEvent};

fn kind_of(number: u8) -> Option<RecordKind> {
    Some(match number {
        0 => RecordKind::Load,
        1 => RecordKind::Store,
        2 => RecordKind::Fetch,
        3 => RecordKind::BranchNotTaken,
        4 => RecordKind::BranchTaken,
        _ => return None,
    })
}

/// The fields of a record other than its site's.
#[derive(Clone, Copy, Default)]
struct Fields {
    delta: u64,
    gap: u32,
    dep1: u16,
    dep2: u16,
}

/// Marks a site that has not run yet in this block; above every virtual address.
const UNSEEN: u64 = u64::MAX;

/// A site's state while its records are assembled.
#[derive(Clone, Copy)]
struct Running {
    pc: u64,
    last_va: u64,
    next: u32,
    kind: RecordKind,
    size: u8,
    reference: u8,
}

/// Decodes payloads into batches; reuses its buffers from block to block.
pub(crate) struct Decoder {
    decompressor: zstd::bulk::Decompressor<'static>,
    columns: [Vec<u8>; 7],
    sites: Vec<Running>,
    order: Vec<u16>,
    successor: Vec<u16>,
    fields: Vec<Fields>,
}

impl Decoder {
    pub(crate) fn new() -> std::io::Result<Decoder> {
        Ok(Decoder {
            decompressor: zstd::bulk::Decompressor::new()?,
            columns: Default::default(),
            sites: Vec::new(),
            order: Vec::new(),
            successor: Vec::new(),
            fields: Vec::new(),
        })
    }

    /// Appends the block's records and events to `batch`. The error says what is wrong inside the block.
    pub(crate) fn decode(
        &mut self,
        payload: &[u8],
        records: usize,
        events: usize,
        va_limit: u64,
        batch: &mut Batch,
    ) -> Result<(), String> {
        self.unpack(payload, records, events, false)?;
        self.read_sites(records)?;
        self.read_order(records)?;
        self.read_fields(records)?;
        let before = batch.records.len();
        self.assemble(records, va_limit, &mut batch.records)?;
        take_events(&self.columns[EVENTS], events, records, before as u32, va_limit, &mut batch.events)
    }

    /// Appends only the block's events, as if all happened at once after the records in `batch`.
    pub(crate) fn decode_events(
        &mut self,
        payload: &[u8],
        records: usize,
        events: usize,
        va_limit: u64,
        batch: &mut Batch,
    ) -> Result<(), String> {
        self.unpack(payload, records, events, true)?;
        let (first, at) = (batch.events.len(), batch.records.len() as u32);
        take_events(&self.columns[EVENTS], events, records, 0, va_limit, &mut batch.events)?;
        batch.events[first..].iter_mut().for_each(|event| event.0 = at);
        Ok(())
    }

    fn unpack(&mut self, payload: &[u8], records: usize, events: usize, only_events: bool) -> Result<(), String> {
        let mut cursor = Cursor::new(payload);
        for (number, column) in self.columns.iter_mut().enumerate() {
            let name = COLUMNS[number];
            let short = || format!("the {name} column is cut short");
            let packed = cursor.byte().ok_or_else(short)?;
            let raw_len = cursor.value().ok_or_else(short)?;
            let stored_len = cursor.value().ok_or_else(short)?;
            let limit = column_limit(number, records, events);
            if raw_len > limit as u64 {
                return Err(format!("the {name} column claims {raw_len} bytes, more than the limit of {limit}"));
            }
            let stored = usize::try_from(stored_len).ok().and_then(|n| cursor.take(n)).ok_or_else(short)?;
            column.clear();
            if only_events && number != EVENTS {
                continue;
            }
            match packed {
                0 => column.extend_from_slice(stored),
                1 => {
                    column.reserve(raw_len as usize);
                    self.decompressor
                        .decompress_to_buffer(stored, column)
                        .map_err(|e| format!("the {name} column does not decompress ({e})"))?;
                }
                other => {
                    return Err(format!("the {name} column has packing {other}, which is neither 0 nor 1"));
                }
            }
            if column.len() as u64 != raw_len {
                return Err(format!("the {name} column has {} bytes and claims {raw_len}", column.len()));
            }
        }
        if cursor.remaining() != 0 {
            return Err(format!("{} bytes follow the last column", cursor.remaining()));
        }
        Ok(())
    }

    fn read_sites(&mut self, records: usize) -> Result<(), String> {
        let mut cursor = Cursor::new(&self.columns[SITES]);
        self.sites.clear();
        let mut read = || -> Option<()> {
            let count = cursor.value().filter(|&n| n <= records as u64)?;
            let (mut pc, mut next) = (0u64, 0u64);
            for _ in 0..count {
                pc = pc.checked_add(cursor.value()?)?;
                let flags = cursor.byte()?;
                let kind = kind_of(flags & 7)?;
                let size = cursor.byte()?;
                let its_records = cursor.value().filter(|&n| n >= 1 && n <= records as u64)?;
                if matches!(kind, RecordKind::Load | RecordKind::Store) && !(1..=64).contains(&size) {
                    return None;
                }
                self.sites.push(Running { pc, last_va: UNSEEN, next: next as u32, kind, size, reference: flags >> 3 });
                next += its_records;
                if next > records as u64 {
                    return None;
                }
            }
            (next == records as u64 && cursor.remaining() == 0).then_some(())
        };
        let found = read();
        if found.is_none() || self.sites.iter().any(|site| usize::from(site.reference) > MAX_REFERENCE) {
            return Err("the sites column lists an invalid instruction site, or not \
            as many records as the block has"
                .into());
        }
        Ok(())
    }

    fn read_order(&mut self, records: usize) -> Result<(), String> {
        let wrong =
            || "the order column names a site that does not exist, or has the wrong number of records".to_string();
        let mut cursor = Cursor::new(&self.columns[ORDER]);
        self.order.clear();
        self.successor.clear();
        self.successor.resize(self.sites.len(), 0);
        let mut last = 0usize;
        while self.order.len() < records {
            let run = cursor.value().ok_or_else(wrong)?;
            if run > (records - self.order.len()) as u64 {
                return Err(wrong());
            }
            for _ in 0..run {
                let site = self.successor[last];
                self.order.push(site);
                last = usize::from(site);
            }
            if self.order.len() < records {
                let site = cursor.value().filter(|&site| site < self.sites.len() as u64).ok_or_else(wrong)?;
                self.successor[last] = site as u16;
                self.order.push(site as u16);
                last = site as usize;
            }
        }
        if cursor.remaining() != 0 { Err(wrong()) } else { Ok(()) }
    }

    fn read_fields(&mut self, records: usize) -> Result<(), String> {
        let short = |column: usize| format!("the {} column does not hold one value for each record", COLUMNS[column]);
        self.fields.clear();
        self.fields.resize(records, Fields::default());
        let mut cursor = Cursor::new(&self.columns[ADDRESS]);
        for field in &mut self.fields {
            field.delta = varint::unzigzag(cursor.value().ok_or_else(|| short(ADDRESS))?) as u64;
        }
        let mut left = cursor.remaining();
        let mut cursor = Cursor::new(&self.columns[GAP]);
        for field in &mut self.fields {
            field.gap = cursor.value().and_then(|v| u32::try_from(v).ok()).ok_or_else(|| short(GAP))?;
        }
        left += cursor.remaining();
        let mut cursor = Cursor::new(&self.columns[DEP1]);
        for field in &mut self.fields {
            field.dep1 = cursor.value().and_then(|v| u16::try_from(v).ok()).ok_or_else(|| short(DEP1))?;
        }
        left += cursor.remaining();
        let mut cursor = Cursor::new(&self.columns[DEP2]);
        for field in &mut self.fields {
            field.dep2 = cursor.value().and_then(|v| u16::try_from(v).ok()).ok_or_else(|| short(DEP2))?;
        }
        left += cursor.remaining();
        if left > 0 { Err(format!("{left} excess bytes in the address, gap or dependence columns")) } else { Ok(()) }
    }

    fn assemble(&mut self, records: usize, va_limit: u64, out: &mut Vec<Record>) -> Result<(), String> {
        let begin = out.len();
        out.reserve(records);
        let mut counted = self.sites.iter().skip(1).map(|s| s.next).collect::<Vec<_>>();
        counted.push(records as u32);
        let mut all = 0u64;
        for (i, &number) in self.order.iter().enumerate() {
            let site = &mut self.sites[usize::from(number)];
            if site.next >= counted[usize::from(number)] {
                return Err("the order column runs a site more often than the sites column says".into());
            }
            let field = self.fields[site.next as usize];
            site.next += 1;
            let back = usize::from(site.reference);
            let base = if back == 0 && site.last_va != UNSEEN {
                site.last_va
            } else if i >= back.max(1) {
                let back = back.max(1);
                out[begin + i - back].va.0
            } else {
                0
            };
            let va = base.wrapping_add(field.delta);
            site.last_va = va;
            all |= va | site.pc;
            out.push(Record {
                pc: VirtAddr(site.pc),
                va: VirtAddr(va),
                gap: field.gap,
                dep1: field.dep1,
                dep2: field.dep2,
                size: site.size,
                kind: site.kind,
            });
        }
        if all >= va_limit {
            return Err(format!("an address has bits above the {} bits that the header states", va_limit.ilog2()));
        }
        Ok(())
    }
}

fn take_events(
    column: &[u8],
    events: usize,
    records: usize,
    before: u32,
    va_limit: u64,
    out: &mut Vec<(u32, VmEvent)>,
) -> Result<(), String> {
    let mut cursor = Cursor::new(column);
    let mut at = 0u64;
    for number in 0..events {
        let wrong = || format!("event {number} of the block is not a valid event");
        at = cursor.value().and_then(|d| at.checked_add(d)).filter(|&at| at <= records as u64).ok_or_else(wrong)?;
        let event = event_codec::take(&mut cursor).ok_or_else(wrong)?;
        if event_codec::ranges_of(&event).iter().any(|(start, len)| start + len > va_limit) {
            return Err(format!(
                "event {number} of the block names addresses above the {} bits that the header states",
                va_limit.ilog2()
            ));
        }
        out.push((before + at as u32, event));
    }
    if cursor.remaining() != 0 { Err("bytes follow the last event".into()) } else { Ok(()) }
}
