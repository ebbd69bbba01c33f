//! Memory of an index: gapped tables of any size, and the arrays of nodes.

use ambulator_base::{FRAME_BYTES, LINE_BYTES, Pfn, PhysAddr};
use ambulator_os::{Footprint, TableContext};
use ambulator_structures::frames;
use std::collections::BTreeMap;

/// Where tables lie: whole frames for those of a frame and more, lines of shared frames for smaller ones.
#[derive(Default)]
pub struct Store {
    /// Frames that small tables share.
    shared: Vec<Pfn>,
    /// Lines taken of the last of them.
    used: u64,
    /// Small tables that were given back, by their lines.
    free: BTreeMap<u64, Vec<PhysAddr>>,
}

const FRAME_LINES: u64 = FRAME_BYTES / LINE_BYTES;

impl Store {
    /// Zeroed contiguous memory, aligned to a line.
    pub fn allocate(&mut self, bytes: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<PhysAddr> {
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

    /// Gives memory back that [`Store::allocate`] gave for as many bytes. Its bytes are zero from then on.
    pub fn release(&mut self, at: PhysAddr, bytes: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        if bytes >= FRAME_BYTES {
            frames::release(at.pfn(), bytes.div_ceil(FRAME_BYTES), footprint, os);
        } else {
            let lines = bytes.div_ceil(LINE_BYTES);
            os.memory.zero(at, lines * LINE_BYTES);
            self.free.entry(lines).or_default().push(at);
        }
    }

    /// Gives the shared frames back: no small table is of any more use.
    pub fn clear(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for frame in std::mem::take(self).shared {
            frames::release(frame, 1, footprint, os);
        }
    }
}
