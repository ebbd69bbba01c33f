//! One block of our format: up to 32 Ki records and the events between them, as columns.
//!
//! The layout is described in [`super::format`]. The idea: a program's records come from few *sites* (instruction, kind
//! and size). A block lists its sites once, says in which order they ran (an order that the last successor of each
//! site predicts well), and keeps every other field site by site, where it hardly changes. Each site names the record
//! that its addresses are best told from: its own last one, or the one 1 to 15 records earlier.

use super::event_codec;
use super::varint::{self, Cursor};
use ambulator_base::{Batch, Record, RecordKind, VirtAddr, VmEvent};
use rustc_hash::FxHashMap;

/// Records that a block holds at most.
pub(super) const MAX_RECORDS: usize = Batch::TARGET_RECORDS;
/// Events that a block holds at most.
pub(super) const MAX_EVENTS: usize = 1 << 16;
/// Bytes that one event takes at most: a tag and four varints.
const EVENT_BYTES: usize = 41 + 5;
/// Largest reference distance of a site.
const MAX_REFERENCE: usize = 15;

/// Columns of a block, in file order.
const COLUMNS: [&str; 7] = [
    "sites",
    "order",
    "address",
    "gap",
    "dependence 1",
    "dependence 2",
    "event",
];
const SITES: usize = 0;
const ORDER: usize = 1;
const ADDRESS: usize = 2;
const GAP: usize = 3;
const DEP1: usize = 4;
const DEP2: usize = 5;
const EVENTS: usize = 6;

/// Bytes that a column of a block with that many records and events can have at most.
fn column_limit(column: usize, records: usize, events: usize) -> usize {
    match column {
        SITES => 3 + records * 16,
        ORDER => 3 + records * 6,
        ADDRESS => records * 10,
        GAP => records * 5,
        DEP1 | DEP2 => records * 3,
        _ => events * EVENT_BYTES,
    }
}

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

struct Site {
    pc: u64,
    kind: RecordKind,
    size: u8,
    records: u32,
    reference: u8,
}

/// Turns batches into payloads; keeps its buffers from block to block.
pub(super) struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
    numbers: FxHashMap<(u64, u8, u8), u32>,
    columns: [Vec<u8>; 7],
}

impl Encoder {
    pub(super) fn new(level: i32) -> std::io::Result<Encoder> {
        Ok(Encoder {
            compressor: zstd::bulk::Compressor::new(level)?,
            numbers: FxHashMap::default(),
            columns: Default::default(),
        })
    }

    /// The payload of a block with what is in `batch`.
    pub(super) fn encode(&mut self, batch: &Batch) -> std::io::Result<Vec<u8>> {
        self.columns.iter_mut().for_each(Vec::clear);
        self.fill_columns(&batch.records);
        put_events(&mut self.columns[EVENTS], &batch.events);
        let mut payload = Vec::new();
        for column in &self.columns {
            let packed = self.compressor.compress(column)?;
            let smaller = packed.len() < column.len();
            let stored = if smaller { &packed } else { column };
            payload.push(u8::from(smaller));
            varint::put(&mut payload, column.len() as u64);
            varint::put(&mut payload, stored.len() as u64);
            payload.extend_from_slice(stored);
        }
        Ok(payload)
    }

    fn fill_columns(&mut self, records: &[Record]) {
        let (mut sites, order) = self.find_sites(records);
        choose_references(&mut sites, &order, records);

        let columns = &mut self.columns;
        varint::put(&mut columns[SITES], sites.len() as u64);
        let mut last_pc = 0;
        for site in &sites {
            varint::put(&mut columns[SITES], site.pc - last_pc);
            last_pc = site.pc;
            columns[SITES].extend([site.kind as u8 | site.reference << 3, site.size]);
            varint::put(&mut columns[SITES], u64::from(site.records));
        }

        let mut successor = vec![0u16; sites.len()];
        let (mut last, mut run) = (0usize, 0);
        for &site in &order {
            if successor[last] == site {
                run += 1;
            } else {
                varint::put(&mut columns[ORDER], run);
                varint::put(&mut columns[ORDER], u64::from(site));
                successor[last] = site;
                run = 0;
            }
            last = usize::from(site);
        }
        if run > 0 {
            varint::put(&mut columns[ORDER], run);
        }

        // Where each record stands site by site.
        let mut place = Vec::with_capacity(sites.len());
        let mut next = 0;
        for site in &sites {
            place.push(next);
            next += site.records;
        }
        let mut by_site = vec![0u32; records.len()];
        for (i, &site) in order.iter().enumerate() {
            let place = &mut place[usize::from(site)];
            by_site[*place as usize] = i as u32;
            *place += 1;
        }
        let mut rest = by_site.as_slice();
        for site in &sites {
            let (mine, others) = rest.split_at(site.records as usize);
            rest = others;
            let mut last_va = None;
            for &i in mine {
                let record = &records[i as usize];
                let base = match site.reference {
                    0 => last_va.unwrap_or_else(|| earlier_va(records, i as usize, 1)),
                    back => earlier_va(records, i as usize, usize::from(back)),
                };
                last_va = Some(record.va.0);
                varint::put(
                    &mut columns[ADDRESS],
                    varint::zigzag(record.va.0.wrapping_sub(base) as i64),
                );
                varint::put(&mut columns[GAP], u64::from(record.gap));
                varint::put(&mut columns[DEP1], u64::from(record.dep1));
                varint::put(&mut columns[DEP2], u64::from(record.dep2));
            }
        }
    }

    /// The sites in ascending order, and the site of each record.
    fn find_sites(&mut self, records: &[Record]) -> (Vec<Site>, Vec<u16>) {
        self.numbers.clear();
        let mut sites: Vec<Site> = Vec::new();
        let mut order = Vec::with_capacity(records.len());
        for record in records {
            let number = *self
                .numbers
                .entry((record.pc.0, record.kind as u8, record.size))
                .or_insert_with(|| {
                    sites.push(Site {
                        pc: record.pc.0,
                        kind: record.kind,
                        size: record.size,
                        records: 0,
                        reference: 0,
                    });
                    sites.len() as u32 - 1
                });
            sites[number as usize].records += 1;
            order.push(number as u16);
        }
        let mut sorted: Vec<u16> = (0..sites.len()).map(|n| n as u16).collect();
        let key = |site: &Site| (site.pc, site.kind as u8, site.size);
        sorted.sort_unstable_by_key(|&n| key(&sites[usize::from(n)]));
        let mut rank = vec![0u16; sites.len()];
        for (new, &old) in sorted.iter().enumerate() {
            rank[usize::from(old)] = new as u16;
        }
        order
            .iter_mut()
            .for_each(|site| *site = rank[usize::from(*site)]);
        sites.sort_unstable_by_key(key);
        (sites, order)
    }
}

/// The address of the record `back` places before number `i`, or 0 at the block's start.
#[inline(always)]
fn earlier_va(records: &[Record], i: usize, back: usize) -> u64 {
    if i >= back { records[i - back].va.0 } else { 0 }
}

/// Gives each site the reference with which its addresses take the fewest bytes.
fn choose_references(sites: &mut [Site], order: &[u16], records: &[Record]) {
    let mut cost = vec![[0u32; MAX_REFERENCE + 1]; sites.len()];
    let mut last_va = vec![0u64; sites.len()];
    for (i, (&site, record)) in order.iter().zip(records).enumerate() {
        let site = usize::from(site);
        let bytes = |base: u64| varint::len(varint::zigzag(record.va.0.wrapping_sub(base) as i64));
        let (own, others) = cost[site].split_at_mut(1);
        own[0] += bytes(last_va[site]);
        last_va[site] = record.va.0;
        for (before, cost) in others.iter_mut().enumerate() {
            *cost += bytes(earlier_va(records, i, before + 1));
        }
    }
    for (site, cost) in sites.iter_mut().zip(&cost) {
        let best = (0..=MAX_REFERENCE)
            .min_by_key(|&back| cost[back])
            .unwrap_or(0);
        // Constant strides vanish in the compressor; another reference must be clearly better.
        site.reference = if cost[best] + site.records / 4 < cost[0] {
            best as u8
        } else {
            0
        };
    }
}

fn put_events(out: &mut Vec<u8>, events: &[(u32, VmEvent)]) {
    let mut last = 0;
    for (at, event) in events {
        varint::put(out, u64::from(at - last));
        last = *at;
        event_codec::put(out, event);
    }
}

/// What one record has beside its site.
#[derive(Clone, Copy, Default)]
struct Fields {
    delta: u64,
    gap: u32,
    dep1: u16,
    dep2: u16,
}

/// Above every virtual address: a site that has not run yet in this block.
const UNSEEN: u64 = u64::MAX;

/// What a site needs while records are put together.
#[derive(Clone, Copy)]
struct Running {
    pc: u64,
    last_va: u64,
    next: u32,
    kind: RecordKind,
    size: u8,
    reference: u8,
}

/// Turns payloads back into batches; keeps its buffers from block to block.
pub(super) struct Decoder {
    decompressor: zstd::bulk::Decompressor<'static>,
    columns: [Vec<u8>; 7],
    sites: Vec<Running>,
    order: Vec<u16>,
    successor: Vec<u16>,
    fields: Vec<Fields>,
}

impl Decoder {
    pub(super) fn new() -> std::io::Result<Decoder> {
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
    pub(super) fn decode(
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
        take_events(
            &self.columns[EVENTS],
            events,
            records,
            before as u32,
            va_limit,
            &mut batch.events,
        )
    }

    /// Only the block's events, as if all of them happened at once after the records in `batch`.
    pub(super) fn decode_events(
        &mut self,
        payload: &[u8],
        records: usize,
        events: usize,
        va_limit: u64,
        batch: &mut Batch,
    ) -> Result<(), String> {
        self.unpack(payload, records, events, true)?;
        let (first, at) = (batch.events.len(), batch.records.len() as u32);
        take_events(
            &self.columns[EVENTS],
            events,
            records,
            0,
            va_limit,
            &mut batch.events,
        )?;
        batch.events[first..]
            .iter_mut()
            .for_each(|event| event.0 = at);
        Ok(())
    }

    fn unpack(
        &mut self,
        payload: &[u8],
        records: usize,
        events: usize,
        only_events: bool,
    ) -> Result<(), String> {
        let mut cursor = Cursor::new(payload);
        for (number, column) in self.columns.iter_mut().enumerate() {
            let name = COLUMNS[number];
            let short = || format!("the {name} column is cut short");
            let packed = cursor.byte().ok_or_else(short)?;
            let raw_len = cursor.value().ok_or_else(short)?;
            let stored_len = cursor.value().ok_or_else(short)?;
            let limit = column_limit(number, records, events);
            if raw_len > limit as u64 {
                return Err(format!(
                    "the {name} column claims {raw_len} bytes where {limit} are the most"
                ));
            }
            let stored = usize::try_from(stored_len)
                .ok()
                .and_then(|n| cursor.take(n))
                .ok_or_else(short)?;
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
                    return Err(format!(
                        "the {name} column has packing {other}, which is neither 0 nor 1"
                    ));
                }
            }
            if column.len() as u64 != raw_len {
                return Err(format!(
                    "the {name} column has {} bytes and claims {raw_len}",
                    column.len()
                ));
            }
        }
        if cursor.remaining() != 0 {
            return Err(format!(
                "{} bytes follow the last column",
                cursor.remaining()
            ));
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
                if matches!(kind, RecordKind::Load | RecordKind::Store) && !(1..=64).contains(&size)
                {
                    return None;
                }
                self.sites.push(Running {
                    pc,
                    last_va: UNSEEN,
                    next: next as u32,
                    kind,
                    size,
                    reference: flags >> 3,
                });
                next += its_records;
                if next > records as u64 {
                    return None;
                }
            }
            (next == records as u64 && cursor.remaining() == 0).then_some(())
        };
        let found = read();
        if found.is_none()
            || self
                .sites
                .iter()
                .any(|site| usize::from(site.reference) > MAX_REFERENCE)
        {
            return Err("the sites column lists something that is no instruction site, or not as many records as the block has".into());
        }
        Ok(())
    }

    fn read_order(&mut self, records: usize) -> Result<(), String> {
        let wrong = || {
            "the order column names a site that does not exist, or not as many records as the block has".to_string()
        };
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
                let site = cursor
                    .value()
                    .filter(|&site| site < self.sites.len() as u64)
                    .ok_or_else(wrong)?;
                self.successor[last] = site as u16;
                self.order.push(site as u16);
                last = site as usize;
            }
        }
        if cursor.remaining() != 0 {
            Err(wrong())
        } else {
            Ok(())
        }
    }

    fn read_fields(&mut self, records: usize) -> Result<(), String> {
        let short = |column: usize| {
            format!(
                "the {} column does not hold one value for each record",
                COLUMNS[column]
            )
        };
        self.fields.clear();
        self.fields.resize(records, Fields::default());
        let mut cursor = Cursor::new(&self.columns[ADDRESS]);
        for field in &mut self.fields {
            field.delta = varint::unzigzag(cursor.value().ok_or_else(|| short(ADDRESS))?) as u64;
        }
        let mut left = cursor.remaining();
        let mut cursor = Cursor::new(&self.columns[GAP]);
        for field in &mut self.fields {
            field.gap = cursor
                .value()
                .and_then(|v| u32::try_from(v).ok())
                .ok_or_else(|| short(GAP))?;
        }
        left += cursor.remaining();
        let mut cursor = Cursor::new(&self.columns[DEP1]);
        for field in &mut self.fields {
            field.dep1 = cursor
                .value()
                .and_then(|v| u16::try_from(v).ok())
                .ok_or_else(|| short(DEP1))?;
        }
        left += cursor.remaining();
        let mut cursor = Cursor::new(&self.columns[DEP2]);
        for field in &mut self.fields {
            field.dep2 = cursor
                .value()
                .and_then(|v| u16::try_from(v).ok())
                .ok_or_else(|| short(DEP2))?;
        }
        left += cursor.remaining();
        if left > 0 {
            Err(format!(
                "{left} bytes too many in the address, gap or dependence columns"
            ))
        } else {
            Ok(())
        }
    }

    fn assemble(
        &mut self,
        records: usize,
        va_limit: u64,
        out: &mut Vec<Record>,
    ) -> Result<(), String> {
        let begin = out.len();
        out.reserve(records);
        let mut counted = self
            .sites
            .iter()
            .skip(1)
            .map(|s| s.next)
            .collect::<Vec<_>>();
        counted.push(records as u32);
        let mut all = 0u64;
        for (i, &number) in self.order.iter().enumerate() {
            let site = &mut self.sites[usize::from(number)];
            if site.next >= counted[usize::from(number)] {
                return Err(
                    "the order column runs a site more often than the sites column says".into(),
                );
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
            return Err(format!(
                "an address has bits above the {} bits that the header states",
                va_limit.ilog2()
            ));
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
        let wrong = || format!("event {number} of the block is not an event of this format");
        at = cursor
            .value()
            .and_then(|d| at.checked_add(d))
            .filter(|&at| at <= records as u64)
            .ok_or_else(wrong)?;
        let event = event_codec::take(&mut cursor).ok_or_else(wrong)?;
        if event_codec::ranges_of(&event)
            .iter()
            .any(|(start, len)| start + len > va_limit)
        {
            return Err(format!(
                "event {number} of the block names addresses above the {} bits that the header states",
                va_limit.ilog2()
            ));
        }
        out.push((before + at as u32, event));
    }
    if cursor.remaining() != 0 {
        Err("bytes follow the last event".into())
    } else {
        Ok(())
    }
}
