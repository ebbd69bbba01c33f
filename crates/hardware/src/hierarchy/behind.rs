//! Pages behind the caches, which are indexed by intermediate addresses: lines that have missed all of them wait until their
//! pages are known.

use super::{Access, Hierarchy};
use crate::intermediate_map::{IntermediateMap, Known};
use ambulator_base::{Cycle, FRAME_BYTES, Pfn, PhysAddr, VirtAddr};

/// After so many cycles, who waits for a line whose page is not known yet asks again.
pub(super) const ASKS_AGAIN: u64 = 16;

impl Hierarchy {
    /// From now on addresses from `from` on are intermediate. [`Hierarchy::map_intermediate`] or
    /// [`Hierarchy::place_intermediate`] must say the frame of a page before an access to it misses all caches.
    pub fn use_intermediate_addresses(&mut self, from: PhysAddr) {
        self.shared.intermediate = Some(Box::new(IntermediateMap::new(from)));
        // A line whose page is not known yet is said to be there sooner than it can.
        self.shared.awaits_beyond = self.cores.iter().map(|core| core.l1d.cache.latency).max().unwrap_or(0);
    }

    /// Maps the page of the intermediate address `at` to `frame`, which the core's next miss knows at
    /// `known`.
    pub fn map_intermediate(&mut self, at: PhysAddr, frame: Pfn, known: Cycle) {
        if let Some(map) = &mut self.shared.intermediate {
            map.map(at, frame, known);
        }
    }

    /// Unmaps the intermediate addresses `[start, start + bytes)` and invalidates their lines in all caches.
    pub fn unmap_intermediate(&mut self, start: PhysAddr, bytes: u64) {
        let Some(map) = &mut self.shared.intermediate else { return };
        for page in map.unmap(start, bytes) {
            self.invalidate(page, FRAME_BYTES);
        }
    }

    /// [`Hierarchy::arrival`] of a line with an intermediate address, whose page may not be known yet: it is asked for again.
    #[cold]
    pub(super) fn arrival_behind(&mut self, core: usize, line: u64, told: u64) -> Cycle {
        // As far as has been said.
        let said = self.shared.llc.arrives(line);
        if let Some(until) = self.shared.intermediate.as_ref().and_then(|map| map.unknown(line)) {
            let until = until.max(told + ASKS_AGAIN);
            self.hold(core, line, said, until);
            return Cycle(until);
        }
        let place = self.shared.place_of(line);
        let ready = self.shared.dram.arrival(place, false, told).max(said);
        if said > 0 && ready > said {
            self.delay(core, line, said, ready);
        }
        Cycle(ready)
    }

    /// Whether pages of lines that miss all caches are walked behind them.
    pub fn walks_behind(&self) -> bool {
        self.shared.intermediate.is_some()
    }

    /// As far as is known now, of a line that an access has found before.
    pub fn found_before(&self, at: PhysAddr, found: Access) -> Access {
        match self.shared.intermediate {
            None => found,
            Some(_) => Access { ready: found.ready.max(Cycle(self.shared.llc.arrives(at.line()))), ..found },
        }
    }

    /// Whether the page of a line that has missed all caches is not known yet.
    pub fn is_unknown(&self, at: PhysAddr) -> bool {
        self.shared.is_unknown(at.line())
    }

    /// Before a core asks for a line at `now`: its lines whose pages are not known yet hold their MSHRs.
    pub fn hold_unknown(&mut self, core: usize, now: Cycle) {
        let misses = self.shared.intermediate.as_ref().map_or(0, |map| map.unknown_misses());
        for number in 0..misses {
            let missed = self.shared.intermediate.as_ref().and_then(|map| map.missed_by(core, number));
            if let Some((line, until)) = missed {
                let said = self.shared.llc.arrives(line);
                self.hold(core, line, said, until.max(now.0 + ASKS_AGAIN));
            }
        }
    }

    /// A line whose page is not known yet is not there, and holds its MSHRs, until it is asked for again at `until`, and for
    /// longer than a hit of the first level takes.
    fn hold(&mut self, core: usize, line: u64, said: u64, until: u64) {
        let until = until + 2 * self.shared.awaits_beyond;
        if until > said {
            self.delay(core, line, said, until);
        }
    }

    /// The page of the intermediate address `at`, which a load or a store of `va` accesses, is in `frame`. If it misses all
    /// caches, [`Hierarchy::take_missed`] tells of it, and main memory is read once [`Hierarchy::know`] says that its page
    /// has been walked.
    pub fn place_intermediate(&mut self, at: PhysAddr, va: VirtAddr, frame: Pfn, is_store: bool) {
        if let Some(map) = &mut self.shared.intermediate {
            map.place(at, va, frame, is_store);
        }
    }

    /// The next load or store that has missed all caches and whose page is to be walked: its address, and when that was
    /// known.
    pub fn take_missed(&mut self, core: usize) -> Option<(PhysAddr, Cycle)> {
        let (at, missed) = self.shared.intermediate.as_mut()?.take_missed(core)?;
        let said = self.shared.llc.arrives(at.line());
        self.hold(core, at.line(), said, said);
        Some((at, missed))
    }

    /// The virtual address of such a load or store, and whether its page has been stored to.
    pub fn missed(&self, at: PhysAddr) -> (VirtAddr, bool) {
        self.shared.intermediate.as_ref().map_or((VirtAddr(at.0), false), |map| map.placed(at))
    }

    /// The page of a line that has missed all caches is said to be known at `until`.
    pub fn expect(&mut self, at: PhysAddr, until: Cycle) {
        if let Some(map) = &mut self.shared.intermediate {
            map.expect(at.line(), until.0);
        }
    }

    /// The page of a line that a core has missed in all caches is known at `now`: main memory is read.
    pub fn know(&mut self, core: usize, at: PhysAddr, now: Cycle) {
        let line = at.line();
        let Some(Known { place, socket }) = self.shared.intermediate.as_mut().and_then(|map| map.know(line)) else {
            return;
        };
        let said = self.shared.llc.arrives(line);
        if self.shared.background {
            self.shared.advance(now.0);
        }
        let ready = self.shared.dram.read(place, false, socket, now.0);
        if said > 0 {
            self.delay(core, line, said, ready);
        }
    }
}
