//! Runs of frames for the last two levels of a VMA's tables, in virtual-address order.

use super::AsapSpec;
use ambulator_base::{CounterSink, Counters, Pfn, State, VirtAddr};
use ambulator_os::{Footprint, TableContext};
use ambulator_structures::frames;
use ambulator_structures::tree::{Layout, NODE_BITS, NodePlace, NodeRequest, Plain};

/// log2 of the bytes that a table of the last level covers.
const PL1_SPAN: u32 = 21;
/// log2 of the bytes that a table of the level above covers.
const PL2_SPAN: u32 = 30;

ambulator_base::counters! {
    /// Counters of ASAP's OS half.
    struct AsapTableCounters {
        /// VMAs with runs of frames for their tables.
        vmas_reserved: Events,
        /// VMAs that were large enough but for which there was no run of frames.
        vmas_without_run: Events,
        /// Tables placed in their VMA's run.
        tables_in_order: Events,
        /// Tables of the last two levels placed anywhere.
        tables_scattered: Events,
    }
}

/// The frames of one level: that of the table for address `va` is `base + (va >> span) - first`.
#[derive(Clone, Copy, Debug, Default, State)]
struct Run {
    base: Pfn,
    first: u64,
    count: u64,
    span: u32,
}

impl Run {
    /// Reserves a run for the tables of `[start, end)`, which cover `2^span` bytes each.
    fn reserve(start: u64, end: u64, span: u32, footprint: &mut Footprint, os: &mut TableContext<'_>) -> Option<Run> {
        let first = start >> span;
        let count = ((end - 1) >> span) - first + 1;
        let base = frames::allocate_run(count, 0, footprint, os)?;
        Some(Run { base, first, count, span })
    }

    fn frame_for(&self, va: VirtAddr) -> Option<Pfn> {
        let index = (va.0 >> self.span).checked_sub(self.first)?;
        (index < self.count).then(|| self.base.offset(index))
    }

    fn holds(&self, frame: Pfn) -> bool {
        (self.base.0..self.base.0 + self.count).contains(&frame.0)
    }
}

/// The runs of a VMA.
#[derive(Default, State)]
struct Reservation {
    start: u64,
    end: u64,
    pl1: Run,
    pl2: Option<Run>,
    /// The parts of the VMA that still exist, as disjoint ranges.
    live: Vec<(u64, u64)>,
    /// Frames of its runs that are in use as tables.
    in_use: u64,
}

impl Reservation {
    fn run(&self, span: u32) -> Option<&Run> {
        match span {
            PL1_SPAN => Some(&self.pl1),
            PL2_SPAN => self.pl2.as_ref(),
            _ => None,
        }
    }

    fn holds(&self, frame: Pfn) -> bool {
        self.pl1.holds(frame) || self.pl2.is_some_and(|run| run.holds(frame))
    }

    fn release(self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for run in [Some(self.pl1), self.pl2].into_iter().flatten() {
            frames::release(run.base, run.count, footprint, os);
        }
    }
}

/// Removes `[start, end)` from the ranges.
fn subtract(ranges: &mut Vec<(u64, u64)>, start: u64, end: u64) {
    let parts = |&(from, to): &(u64, u64)| [(from, to.min(start)), (from.max(end), to)];
    *ranges = ranges.iter().flat_map(parts).filter(|(from, to)| from < to).collect();
}

/// Places nodes of the last two levels in their VMA's runs, if it has runs.
#[derive(State)]
pub(crate) struct Asap {
    #[state(skip)]
    registers: usize,
    #[state(skip)]
    min_vma: u64,
    reservations: Vec<Reservation>,
    generation: u64,
    /// Its counters.
    counters: AsapTableCounters,
}

impl Asap {
    /// A layout without reservations.
    pub(crate) fn new(spec: &AsapSpec) -> Asap {
        Asap {
            registers: spec.range_registers as usize,
            min_vma: spec.min_vma,
            reservations: Vec::new(),
            generation: 0,
            counters: AsapTableCounters::default(),
        }
    }

    /// Frees the runs of VMAs that were removed and have no tables left.
    fn sweep(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let mut at = 0;
        while at < self.reservations.len() {
            let reservation = &self.reservations[at];
            if reservation.live.is_empty() && reservation.in_use == 0 {
                self.reservations.remove(at).release(footprint, os);
                self.generation += 1;
            } else {
                at += 1;
            }
        }
    }
}

impl Layout for Asap {
    fn allocate(
        &mut self,
        request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        for reservation in &mut self.reservations {
            let frame = reservation.run(request.span).and_then(|run| run.frame_for(request.va));
            if let Some(frame) = frame {
                reservation.in_use += 1;
                self.counters.tables_in_order += 1;
                return Some(NodePlace { frame, bits: NODE_BITS });
            }
        }
        let place = Plain.allocate(request, footprint, os)?;
        self.counters.tables_scattered += u64::from(request.span <= PL2_SPAN);
        Some(place)
    }

    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let owner = self.reservations.iter_mut().find(|reservation| reservation.holds(node.frame));
        let Some(owner) = owner else {
            frames::release(node.frame, node.frames(), footprint, os);
            return;
        };
        owner.in_use -= 1;
        let done = owner.live.is_empty() && owner.in_use == 0;
        if done {
            self.sweep(footprint, os);
        }
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let mut uncovered = vec![(start.0, start.0 + len)];
        for reservation in &mut self.reservations {
            // Within a former VMA: its runs are reused.
            let inside = uncovered
                .iter()
                .map(|&(from, to)| (from.max(reservation.start), to.min(reservation.end)))
                .filter(|(from, to)| from < to)
                .collect::<Vec<_>>();
            for (from, to) in inside {
                subtract(&mut reservation.live, from, to);
                reservation.live.push((from, to));
                subtract(&mut uncovered, from, to);
            }
        }
        for (from, to) in uncovered {
            if to - from < self.min_vma {
                continue;
            }
            let Some(pl1) = Run::reserve(from, to, PL1_SPAN, footprint, os) else {
                self.counters.vmas_without_run += 1;
                continue;
            };
            let pl2 = Run::reserve(from, to, PL2_SPAN, footprint, os);
            self.counters.vmas_reserved += 1;
            self.generation += 1;
            self.reservations.push(Reservation { start: from, end: to, pl1, pl2, live: vec![(from, to)], in_use: 0 });
        }
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for reservation in &mut self.reservations {
            subtract(&mut reservation.live, start.0, start.0 + len);
        }
        self.sweep(footprint, os);
    }

    fn destroy(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for reservation in self.reservations.drain(..) {
            reservation.release(footprint, os);
        }
        self.generation += 1;
    }

    /// For each range register: first address, end address, base of PL1, base of PL2 (all ones: none).
    fn registers(&self, registers: &mut Vec<u64>) {
        let mut largest: Vec<&Reservation> = self.reservations.iter().collect();
        largest.sort_by_key(|r| (std::cmp::Reverse(r.end - r.start), r.start));
        for reservation in largest.into_iter().take(self.registers) {
            let pl2 = reservation.pl2.map_or(u64::MAX, |run| run.base.start().0);
            registers.extend([reservation.start, reservation.end, reservation.pl1.base.start().0, pl2]);
        }
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }
}
