//! Memory of an index: gapped tables of any size, and the arrays of nodes.

use ambulator_base::{FRAME_BYTES, LINE_BYTES, Pfn, PhysAddr, State};
use ambulator_os::{Footprint, TableContext};
use ambulator_structures::frames;
use std::collections::BTreeMap;

/// Allocates tables: whole frames for those of a frame or more, lines of shared frames for smaller ones.
#[derive(Default, State)]
pub(crate) struct Store {
    /// Frames that small tables share.
    shared: Vec<Pfn>,
    /// Lines used of the last shared frame.
    used: u64,
    /// Freed small tables, by their number of lines.
    free: BTreeMap<u64, Vec<PhysAddr>>,
}

const FRAME_LINES: u64 = FRAME_BYTES / LINE_BYTES;

impl Store {
    /// Allocates zeroed contiguous memory, aligned to a line.
    pub(crate) fn allocate(
        &mut self,
        bytes: u64,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<PhysAddr> {
        if bytes >= FRAME_BYTES {
            return frames::allocate_run(bytes.div_ceil(FRAME_BYTES), 0, footprint, os).map(Pfn::start);
        }
        let lines = bytes.div_ceil(LINE_BYTES);
        if let Some(at) = self.free.get_mut(&lines).and_then(Vec::pop) {
            return Some(at);
        }
        if self.shared.is_empty() || self.used + lines > FRAME_LINES {
            self.shared.push(frames::allocate(0, footprint, os)?);
            self.used = 0;
        }
        let at = self.shared.last()?.start().offset(self.used * LINE_BYTES);
        self.used += lines;
        Some(at)
    }

    /// Frees and zeroes memory from [`Store::allocate`], of the same number of bytes.
    pub(crate) fn release(&mut self, at: PhysAddr, bytes: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        if bytes >= FRAME_BYTES {
            frames::release(at.pfn(), bytes.div_ceil(FRAME_BYTES), footprint, os);
        } else {
            let lines = bytes.div_ceil(LINE_BYTES);
            os.memory.zero(at, lines * LINE_BYTES);
            self.free.entry(lines).or_default().push(at);
        }
    }

    /// Frees the shared frames, and with them all small tables.
    pub(crate) fn clear(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for frame in std::mem::take(self).shared {
            frames::release(frame, 1, footprint, os);
        }
    }
}
