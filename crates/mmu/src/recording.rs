//! The accesses of one translation, recorded for a simulator that times them itself.
//!
//! A machine inside another simulator has no caches: the simulator around it has them, and knows only later
//! when a load arrives. So each load of a recording lasts [`ACCESS_SPAN`] cycles of a clock of the machine's
//! own, more than all fixed delays of a translation together. From the times of the loads follows then which
//! load waits for which other, and with what delay: that is what the simulator around it is told.

use ambulator_base::{Cycle, PhysAddr};

use crate::Served;

/// Cycles of the machine's own clock that a recorded access lasts.
pub const ACCESS_SPAN: u64 = 1 << 24;

/// What a recorded access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedKind {
    /// A load of a table's bytes.
    Load,
    /// A fetch of a table's line that nobody waits for.
    FetchTable,
    /// A fetch of a data line that nobody waits for.
    FetchData,
    /// A write into a table that nobody waits for.
    Write,
    /// Work of the operating system, with its cycles.
    Kernel(u64),
}

/// A recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What it is.
    pub kind: RecordedKind,
    /// The address in the machine's memory.
    pub at: PhysAddr,
    /// When it issues, on the machine's own clock.
    pub issued: Cycle,
    /// When it has ended, on that clock.
    pub ready: Cycle,
}

/// The accesses of one translation.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The accesses so far, in the order in which the hardware asked for them.
    pub accesses: Vec<Recorded>,
    /// Everything that ends after the translation began ends after this cycle: after all that earlier
    /// translations of the core have in flight.
    pub horizon: Cycle,
    /// When the translation began.
    pub began: Cycle,
    /// The level that is assumed to serve loads, for designs that count the loads from DRAM.
    pub assumed: Served,
    /// Cycles for which main memory's buses have carried data, as the simulator around it says.
    pub bus_busy: u64,
}

impl Default for Recording {
    fn default() -> Self {
        Recording { accesses: Vec::new(), horizon: Cycle(0), began: Cycle(0), assumed: Served::Dram, bus_busy: 0 }
    }
}

impl Recording {
    /// Begins a translation at `now`, while earlier ones are in flight until `horizon`.
    pub fn begin(&mut self, now: Cycle, horizon: Cycle) {
        self.accesses.clear();
        self.horizon = horizon.max(now);
        self.began = now;
    }

    /// Records an access that issues at `now`; returns when it ends: after the horizon, and as much later as it
    /// issues after the beginning. What waited for an earlier translation issues far after the beginning, and
    /// ends no later for that: else each translation that waits would double the horizon of the next.
    pub fn access(&mut self, kind: RecordedKind, at: PhysAddr, now: Cycle) -> Cycle {
        let from = match now < self.horizon {
            true => self.horizon.after(now.since(self.began).min(ACCESS_SPAN / 2)),
            false => now,
        };
        let ready = match kind {
            RecordedKind::Write => now,
            _ => from.after(ACCESS_SPAN),
        };
        self.accesses.push(Recorded { kind, at, issued: now, ready });
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_end_after_everything_in_flight_and_keep_their_delays() {
        let mut recording = Recording::default();
        recording.begin(Cycle(100), Cycle(5000));
        let first = recording.access(RecordedKind::Load, PhysAddr(64), Cycle(103));
        assert_eq!(first, Cycle(5003 + ACCESS_SPAN), "3 cycles after the horizon");
        let second = recording.access(RecordedKind::Load, PhysAddr(128), first.after(2));
        assert_eq!(second, Cycle(5005 + 2 * ACCESS_SPAN));
        assert_eq!(recording.access(RecordedKind::Write, PhysAddr(128), second), second);
        // What waits for something in flight does not end as much later as it waited.
        recording.begin(Cycle(100), Cycle(100 + 50 * ACCESS_SPAN));
        let waited = recording.access(RecordedKind::Load, PhysAddr(64), Cycle(100 + 40 * ACCESS_SPAN));
        assert_eq!(waited, Cycle(100 + 51 * ACCESS_SPAN + ACCESS_SPAN / 2));
        recording.begin(Cycle(7), Cycle(7));
        assert_eq!(recording.access(RecordedKind::FetchData, PhysAddr(0), Cycle(9)), Cycle(9 + ACCESS_SPAN));
        assert_eq!(recording.accesses.len(), 1);
    }
}
