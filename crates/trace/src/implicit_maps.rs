//! Mappings for traces that have none: an address space synthesised from the accesses.

use ambulator_base::{Batch, MapKind, Protection, Record, VirtAddr, VmEvent};
use rustc_hash::FxHashSet;

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
#[derive(Debug)]
pub struct ImplicitMaps {
    shift: u32,
    mapped: FxHashSet<u64>,
    recent: [u64; RECENT],
}

impl ImplicitMaps {
    /// Regions of `granularity` bytes, a power of two from 4 KiB on; none is mapped yet.
    pub fn new(granularity: u64) -> ImplicitMaps {
        ImplicitMaps { shift: granularity.ilog2(), mapped: FxHashSet::default(), recent: [u64::MAX; RECENT] }
    }

    /// The mapped ranges in ascending order: first address and bytes.
    pub fn ranges(&self) -> Vec<(VirtAddr, u64)> {
        let mut regions: Vec<u64> = self.mapped.iter().copied().collect();
        regions.sort_unstable();
        let mut ranges: Vec<(VirtAddr, u64)> = Vec::new();
        for region in regions {
            let start = region << self.shift;
            match ranges.last_mut() {
                Some((first, len)) if first.0 + *len == start => *len += 1 << self.shift,
                _ => ranges.push((VirtAddr(start), 1 << self.shift)),
            }
        }
        ranges
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
        let slot = region as usize % RECENT;
        if self.recent[slot] != region {
            self.recent[slot] = region;
            if self.mapped.insert(region) {
                batch.push_event(VmEvent::Map {
                    start: VirtAddr(region << self.shift),
                    len: 1 << self.shift,
                    protection: Protection { read: true, write: true, execute: true },
                    kind,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_is_mapped_once_before_its_first_record() {
        let mut maps = ImplicitMaps::new(2 << 20);
        let mut batch = Batch::default();
        let record = |va: u64| Record { pc: VirtAddr(0x40_0000), va: VirtAddr(va), size: 8, ..Record::default() };
        for va in [0x1000_0000, 0x1000_0008, 0x101f_fffc, 0x1000_0000] {
            maps.push(record(va), &mut batch);
        }
        let maps: Vec<_> = batch
            .events
            .iter()
            .map(|(at, event)| match event {
                VmEvent::Map { start, len, kind, .. } => (*at, start.0, *len, *kind),
                other => panic!("{other:?} is not a mapping"),
            })
            .collect();
        assert_eq!(
            maps,
            [
                (0, 0x40_0000, 2 << 20, MapKind::File),
                (0, 0x1000_0000, 2 << 20, MapKind::Anonymous),
                (2, 0x1020_0000, 2 << 20, MapKind::Anonymous),
            ]
        );
    }
}
