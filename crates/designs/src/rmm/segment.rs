//! Direct segments beside RMM: one range for a process, in registers (Basu et al., ISCA 2013; RMM Sec. 3,
//! 8.1).

use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PageSize, Pfn, VirtAddr, Vpn};
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters, Translation};
use ambulator_structures::ranges::Range;

ambulator_base::counters! {
    /// What a direct segment counts.
    pub struct SegmentCounters {
        /// Look-ups.
        probes: Events,
        /// Look-ups of addresses in the segment.
        hits: Events,
    }
}

/// The registers of a segment, BASE, LIMIT and OFFSET with rights, as words; all zero for none.
pub(super) fn registers_of(range: Option<Range>) -> [u64; 3] {
    let Some(range) = range else { return [0; 3] };
    let rights = u64::from(range.writable) << 63 | u64::from(range.executable) << 62;
    [range.base.0, range.limit.0, range.frame.0 | rights]
}

/// The hardware half: two comparisons and an addition.
pub struct DirectSegment {
    latency: u64,
    eager_bits: bool,
    segment: Option<Range>,
    counters: SegmentCounters,
}

impl DirectSegment {
    /// No segment yet.
    pub fn new(spec: &super::RmmSpec) -> DirectSegment {
        DirectSegment {
            latency: spec.segment_latency,
            eager_bits: spec.eager_bits,
            segment: None,
            counters: SegmentCounters::default(),
        }
    }
}

impl Lookaside for DirectSegment {
    fn load_registers(&mut self, _asid: Asid, registers: &TableRegisters) {
        let word = |at: usize| registers.0.get(at).copied().unwrap_or(0);
        let (base, limit, offset) = (word(1), word(2), word(3));
        let segment = Range {
            base: Vpn(base),
            limit: Vpn(limit),
            frame: Pfn(offset & !(0b11 << 62)),
            writable: offset >> 63 != 0,
            executable: offset >> 62 & 1 != 0,
        };
        self.segment = (word(0) & 1 != 0 && base < limit).then_some(segment);
    }

    fn probe(&mut self, va: VirtAddr, _access: AccessKind, now: Cycle, _port: &mut dyn MemoryPort) -> LookasideAnswer {
        self.counters.probes += 1;
        let held = self.segment.filter(|segment| segment.contains(va.vpn()));
        self.counters.hits += u64::from(held.is_some());
        let found = held.map(|segment| Translation {
            frame: segment.frame_of(va.vpn()),
            size: PageSize::SIZE_4K,
            writable: segment.writable,
            executable: segment.executable,
            dirty: self.eager_bits,
            ranged: false,
        });
        LookasideAnswer { found, ready: now.after(self.latency), holds_walk: false }
    }

    fn refill(&mut self, _va: VirtAddr, _walk: &FinishedWalk, _port: &mut dyn MemoryPort) {}

    /// The registers are no copies: the kernel writes them anew whenever the segment's pages change.
    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
