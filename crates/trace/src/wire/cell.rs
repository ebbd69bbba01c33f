//! Cells of 32 bytes: records, and events in two halves.

use crate::event_codec;
use crate::varint::Cursor;
use crate::wire::VA_BITS;
use ambulator_base::{Record, RecordKind, VirtAddr, VmEvent};

/// A cell as four words.
pub type Cell = [u64; 4];

const EVENT: u64 = 16;
const START: u64 = 17;
/// Bytes of an event in one cell.
const HALF: usize = 24;

/// A record as a cell.
#[inline]
pub fn record_cell(record: &Record) -> Cell {
    [
        record.pc.0,
        record.va.0,
        u64::from(record.gap) | u64::from(record.dep1) << 32 | u64::from(record.dep2) << 48,
        u64::from(record.size) | (record.kind as u64) << 8,
    ]
}

/// Removes dependences of a record's cell that reach back more than `reach` records.
#[inline]
pub fn trim_dependences(cell: &mut Cell, reach: u64) {
    for shift in [32, 48] {
        if cell[2] >> shift & 0xffff > reach {
            cell[2] &= !(0xffff << shift);
        }
    }
}

/// An event as two cells.
pub fn event_cells(event: &VmEvent) -> [Cell; 2] {
    let mut bytes = Vec::with_capacity(2 * HALF);
    event_codec::put(&mut bytes, event);
    let half = |from: usize| {
        let mut cell = [0; 4];
        let part = bytes.get(from..bytes.len().min(from + HALF)).unwrap_or_default();
        for (at, &byte) in part.iter().enumerate() {
            cell[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        cell[3] = part.len() as u64 | EVENT << 8;
        cell
    };
    [half(0), half(HALF)]
}

/// The cell after the initial address space.
pub fn start_cell() -> Cell {
    [0, 0, 0, START << 8]
}

/// What a cell holds.
pub(super) enum Content {
    Record(Record),
    HalfEvent,
    Start,
}

/// Decodes a cell; `None` if it is not valid.
#[inline]
pub(super) fn content(cell: &Cell) -> Option<Content> {
    let kind = match cell[3] >> 8 & 0xff {
        0 => RecordKind::Load,
        1 => RecordKind::Store,
        2 => RecordKind::Fetch,
        3 => RecordKind::BranchNotTaken,
        4 => RecordKind::BranchTaken,
        EVENT => return Some(Content::HalfEvent),
        START => return Some(Content::Start),
        _ => return None,
    };
    let record = Record {
        pc: VirtAddr(cell[0]),
        va: VirtAddr(cell[1]),
        gap: cell[2] as u32,
        dep1: (cell[2] >> 32) as u16,
        dep2: (cell[2] >> 48) as u16,
        size: cell[3] as u8,
        kind,
    };
    let sized = !record.is_data() || (1..=64).contains(&record.size);
    (sized && (record.pc.0 | record.va.0) >> VA_BITS == 0).then_some(Content::Record(record))
}

/// Decodes an event from its halves; `None` if it is not valid.
pub(super) fn event(halves: &[Cell; 2]) -> Option<VmEvent> {
    let mut bytes = Vec::with_capacity(2 * HALF);
    for half in halves {
        let len = (half[3] & 0xff) as usize;
        let all: Vec<u8> = half[..3].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(all.get(..len)?);
    }
    let mut cursor = Cursor::new(&bytes);
    let event = event_codec::take(&mut cursor)?;
    let within = event_codec::ranges_of(&event).iter().all(|(start, len)| start + len <= 1 << VA_BITS);
    (cursor.remaining() == 0 && within).then_some(event)
}
