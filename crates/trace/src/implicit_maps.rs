//! Mappings for traces that have none, or not all: an address space synthesised from the accesses.

use ambulator_base::{Advice, Batch, FRAME_BYTES, MapKind, Protection, Record, VirtAddr, VmEvent};
use std::collections::BTreeMap;

/// Recently seen regions, so that most records cost one comparison.
const RECENT: usize = 64;

/// Maps the aligned power-of-two region around each first touch, just before the record that touches it.
///
/// The size of the region shapes the VMAs: adjacent touched ranges merge, and smaller holes close. With 2 MiB
/// (the default of [`super::TraceOptions`]) transparent huge pages are possible wherever the program touched
/// anything, which flatters them for programs with sparse address spaces. With 4 KiB they are possible only
/// where everything is touched. A region that an instruction fetch touches first is a file mapping; others
/// are anonymous. All permissions are granted, because the trace does not separate text from data within a
/// region.
///
/// Where the trace records system calls, what they map is mapped as they say, and only what lies outside of
/// that is synthesised. Their permissions are granted in full, too: a trace may record some calls and not
/// others.
#[derive(Debug)]
pub struct ImplicitMaps {
    shift: u32,
    /// The mapped ranges: end by start. They neither overlap nor touch.
    mapped: BTreeMap<u64, u64>,
    /// Regions that are mapped entirely.
    recent: [u64; RECENT],
    /// The range that was found last.
    last: (u64, u64),
}

impl ImplicitMaps {
    /// Regions of `granularity` bytes, a power of two from 4 KiB on; none is mapped yet.
    pub fn new(granularity: u64) -> ImplicitMaps {
        ImplicitMaps { shift: granularity.ilog2(), mapped: BTreeMap::new(), recent: [u64::MAX; RECENT], last: (0, 0) }
    }

    /// The mapped ranges in ascending order: first address and bytes.
    pub fn ranges(&self) -> Vec<(VirtAddr, u64)> {
        self.mapped.iter().map(|(start, end)| (VirtAddr(*start), end - start)).collect()
    }

    /// Appends the mappings that `record` needs to `batch`, then the record.
    #[inline]
    pub fn push(&mut self, record: Record, batch: &mut Batch) {
        self.touch(record.pc.0, MapKind::File, batch);
        if record.is_data() {
            self.touch(record.va.0, MapKind::Anonymous, batch);
            let last = record.va.0 + u64::from(record.size.max(1)) - 1;
            self.touch(last, MapKind::Anonymous, batch);
        } else if record.kind == ambulator_base::RecordKind::Fetch {
            self.touch(record.va.0, MapKind::File, batch);
        }
        batch.records.push(record);
    }

    #[inline(always)]
    fn touch(&mut self, va: u64, kind: MapKind, batch: &mut Batch) {
        let region = va >> self.shift;
        if self.recent[region as usize % RECENT] != region && !(self.last.0..self.last.1).contains(&va) {
            self.miss(va, kind, batch);
        }
    }

    /// Maps what is not mapped yet of the region of `va`, unless `va` is mapped already.
    fn miss(&mut self, va: u64, kind: MapKind, batch: &mut Batch) {
        let region = va >> self.shift;
        let (start, end) = (region << self.shift, (region + 1) << self.shift);
        if let Some((&from, &to)) = self.mapped.range(..=va).next_back()
            && va < to
        {
            self.last = (from, to);
            if from <= start && end <= to {
                self.recent[region as usize % RECENT] = region;
            }
            return;
        }
        let mut at = start;
        while at < end {
            let inside = self.mapped.range(..=at).next_back().filter(|(_, to)| **to > at);
            if let Some((_, to)) = inside {
                at = *to;
                continue;
            }
            let until = self.mapped.range(at..end).next().map_or(end, |(from, _)| *from);
            batch.push_event(mapping(at, until - at, kind));
            self.insert(at, until);
            at = until;
        }
        self.recent[region as usize % RECENT] = region;
    }

    /// The program maps a range.
    pub fn map(&mut self, start: u64, len: u64, kind: MapKind, batch: &mut Batch) {
        batch.push_event(mapping(start, len, kind));
        self.insert(start, start + len);
    }

    /// The program unmaps a range.
    pub fn unmap(&mut self, start: u64, len: u64, batch: &mut Batch) {
        batch.push_event(VmEvent::Unmap { start: VirtAddr(start), len });
        let end = start + len;
        let overlapping: Vec<(u64, u64)> =
            self.mapped.range(..end).rev().take_while(|(_, to)| **to > start).map(|(from, to)| (*from, *to)).collect();
        for (from, to) in overlapping {
            self.mapped.remove(&from);
            if from < start {
                self.mapped.insert(from, start);
            }
            if to > end {
                self.mapped.insert(end, to);
            }
        }
        self.recent = [u64::MAX; RECENT];
        self.last = (0, 0);
    }

    /// The program gives advice on a range.
    pub fn advise(start: u64, len: u64, advice: Advice, batch: &mut Batch) {
        batch.push_event(VmEvent::Advise { start: VirtAddr(start), len, advice });
    }

    /// Adds a range, joined with what it overlaps or touches.
    fn insert(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.mapped.range(..=end).next_back()
            && to >= start
        {
            self.mapped.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.mapped.insert(start, end);
    }
}

fn mapping(start: u64, len: u64, kind: MapKind) -> VmEvent {
    debug_assert!(start.is_multiple_of(FRAME_BYTES), "{start:#x}");
    let protection = Protection { read: true, write: true, execute: true };
    VmEvent::Map { start: VirtAddr(start), len, protection, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(va: u64) -> Record {
        Record { pc: VirtAddr(0x40_0000), va: VirtAddr(va), size: 8, ..Record::default() }
    }

    fn maps_of(batch: &Batch) -> Vec<(u32, u64, u64, MapKind)> {
        let maps = batch.events.iter().filter_map(|(at, event)| match event {
            VmEvent::Map { start, len, kind, .. } => Some((*at, start.0, *len, *kind)),
            _ => None,
        });
        maps.collect()
    }

    #[test]
    fn each_region_is_mapped_once_before_its_first_record() {
        let mut maps = ImplicitMaps::new(2 << 20);
        let mut batch = Batch::default();
        for va in [0x1000_0000, 0x1000_0008, 0x101f_fffc, 0x1000_0000] {
            maps.push(record(va), &mut batch);
        }
        assert_eq!(
            maps_of(&batch),
            [
                (0, 0x40_0000, 2 << 20, MapKind::File),
                (0, 0x1000_0000, 2 << 20, MapKind::Anonymous),
                (2, 0x1020_0000, 2 << 20, MapKind::Anonymous),
            ]
        );
        assert_eq!(maps.ranges(), [(VirtAddr(0x40_0000), 2 << 20), (VirtAddr(0x1000_0000), 4 << 20)]);
    }

    #[test]
    fn what_the_program_maps_is_not_synthesised() {
        let mut maps = ImplicitMaps::new(2 << 20);
        let mut batch = Batch::default();
        maps.push(record(0x40_0000), &mut batch);
        maps.map(0x1000_4000, 0x2000, MapKind::Anonymous, &mut batch);
        maps.push(record(0x1000_5000), &mut batch);
        assert_eq!(maps_of(&batch).len(), 2, "its own mapping is enough");
        // Beside it, the rest of the region is synthesised.
        maps.push(record(0x1000_8000), &mut batch);
        let found = maps_of(&batch);
        let expected = [(2, 0x1000_0000, 0x4000, MapKind::Anonymous), (2, 0x1000_6000, 0x1f_a000, MapKind::Anonymous)];
        assert_eq!(found[2..], expected);
        maps.unmap(0x1000_4000, 0x1000, &mut batch);
        maps.push(record(0x1000_5000), &mut batch);
        assert_eq!(maps_of(&batch).len(), 4);
        maps.push(record(0x1000_4000), &mut batch);
        assert_eq!(maps_of(&batch)[4], (4, 0x1000_4000, 0x1000, MapKind::Anonymous));
        assert_eq!(maps.ranges().len(), 2);
    }
}
