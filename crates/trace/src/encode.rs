//! From records to the columns of a block.

use crate::block::{ADDRESS, DEP1, DEP2, EVENTS, GAP, MAX_REFERENCE, ORDER, SITES};
use crate::event_codec;
use crate::varint;
use ambulator_base::{Batch, Record, RecordKind, VmEvent};
use rustc_hash::FxHashMap;

struct Site {
    pc: u64,
    kind: RecordKind,
    size: u8,
    records: u32,
    reference: u8,
}

/// Encodes batches as payloads; reuses its buffers from block to block.
pub(crate) struct Encoder {
    compressor: zstd::bulk::Compressor<'static>,
    numbers: FxHashMap<(u64, u8, u8), u32>,
    columns: [Vec<u8>; 7],
}

impl Encoder {
    pub(crate) fn new(level: i32) -> std::io::Result<Encoder> {
        Ok(Encoder {
            compressor: zstd::bulk::Compressor::new(level)?,
            numbers: FxHashMap::default(),
            columns: Default::default(),
        })
    }

    /// Encodes `batch` as the payload of a block.
    pub(crate) fn encode(&mut self, batch: &Batch) -> std::io::Result<Vec<u8>> {
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

        // The position of each record in site order.
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
                varint::put(&mut columns[ADDRESS], varint::zigzag(record.va.0.wrapping_sub(base) as i64));
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
            let number = *self.numbers.entry((record.pc.0, record.kind as u8, record.size)).or_insert_with(|| {
                sites.push(Site { pc: record.pc.0, kind: record.kind, size: record.size, records: 0, reference: 0 });
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
        order.iter_mut().for_each(|site| *site = rank[usize::from(*site)]);
        sites.sort_unstable_by_key(key);
        (sites, order)
    }
}

/// The address of the record `back` places before number `i`, or 0 at the block's start.
#[inline(always)]
fn earlier_va(records: &[Record], i: usize, back: usize) -> u64 {
    if i >= back { records[i - back].va.0 } else { 0 }
}

/// Gives each site the reference that encodes its addresses in the fewest bytes.
fn choose_references(sites: &mut [Site], order: &[u16], records: &[Record]) {
    /// Records of a site that decide: more improve little, and this loop dominates the time.
    const SAMPLES: u32 = 128;
    let mut cost = vec![[0u32; MAX_REFERENCE + 1]; sites.len()];
    let mut last_va = vec![0u64; sites.len()];
    let mut seen = vec![0u32; sites.len()];
    for (i, (&site, record)) in order.iter().zip(records).enumerate() {
        let site = usize::from(site);
        if seen[site] == SAMPLES {
            continue;
        }
        seen[site] += 1;
        let bytes = |base: u64| varint::len(varint::zigzag(record.va.0.wrapping_sub(base) as i64));
        let (own, others) = cost[site].split_at_mut(1);
        own[0] += bytes(last_va[site]);
        last_va[site] = record.va.0;
        for (before, cost) in others.iter_mut().enumerate() {
            *cost += bytes(earlier_va(records, i, before + 1));
        }
    }
    for ((site, cost), seen) in sites.iter_mut().zip(&cost).zip(seen) {
        let best = (0..=MAX_REFERENCE).min_by_key(|&back| cost[back]).unwrap_or(0);
        // The compressor removes constant strides, so another reference must be clearly better.
        site.reference = if cost[best] + seen / 4 < cost[0] { best as u8 } else { 0 };
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
