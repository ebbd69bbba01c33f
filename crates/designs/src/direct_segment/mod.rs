//! Direct segments: one range for a process, its largest, in registers.
//!
//! Sources: Basu et al., "Efficient Virtual Memory for Big Memory Servers", ISCA 2013; as compared with in
//! RMM Sec. 3 and 8.1.
//!
//! Choices. The kernel maintains ranges as in RMM and loads the largest into registers. A page of it is
//! translated by two comparisons and an addition.

use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PageSize, Pfn, State, VirtAddr, Vpn};
use ambulator_mmu::{FinishedWalk, Invalidation, Lookaside, LookasideAnswer, MemoryPort, TableRegisters, Translation};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use ambulator_structures::ranges::{Range, RangeCompanionFactory, RangeRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of direct segments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct DirectSegmentSpec {
    /// Cycles of the comparison, counted from the L1 TLB miss.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend(
        "x-unit" = "cycles",
        "x-source" = "Basu et al., ISCA 2013: with the L1 TLB; one cycle more is our choice"
    ))]
    pub(crate) latency: u64,
    /// The fewest pages of the segment.
    #[schemars(range(min = 2, max = 1 << 20), extend("x-unit" = "count", "x-source" = "RMM Sec. 5.1 (8)"))]
    pub(crate) threshold: u64,
    /// Whether pages of the segment are accessed and dirty from the start.
    #[schemars(extend("x-unit" = "flag", "x-source" = "RMM Sec. 6, Accessed & Dirty bits"))]
    pub(crate) eager_bits: bool,
    /// The operating system sets the registers once this much memory is mapped; 0 for always.
    #[schemars(range(max = 1_u64 << 57), extend("x-unit" = "bytes", "x-source" = "RMM Sec. 6, TLB friendly workloads"))]
    pub(crate) enable_above_bytes: u64,
}

impl Default for DirectSegmentSpec {
    fn default() -> Self {
        DirectSegmentSpec { latency: 1, threshold: 8, eager_bits: true, enable_above_bytes: 0 }
    }
}

impl Settings for DirectSegmentSpec {}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "direct-segment",
        "one range for each process, its largest, in registers",
        "Basu et al., Efficient Virtual Memory for Big Memory Servers, ISCA 2013",
    )
    .fills(Socket::Lookaside, "two comparisons with the registers of the largest range")
    .native_only("its registers would hold guest-physical addresses, which nothing would translate further")
    .formerly("design.lookaside.rmm.segment_latency", "direct_segment.latency")
    .settings::<DirectSegmentSpec>()
    .build(|spec, site| {
        let rules = RangeRules {
            threshold: spec.threshold,
            eager_bits: spec.eager_bits,
            enable_above_bytes: spec.enable_above_bytes,
            va_bits: site.va_bits,
        };
        let spec = spec.clone();
        Parts {
            companion: Some(Box::new(RangeCompanionFactory::for_segment(&rules))),
            lookaside: Some(Box::new(move |_| Box::new(DirectSegment::new(&spec)))),
            ..Parts::default()
        }
    })
}

ambulator_base::counters! {
    /// Counters of a direct segment.
    struct SegmentCounters {
        /// Look-ups.
        probes: Events,
        /// Look-ups of addresses in the segment.
        hits: Events,
    }
}

/// The hardware half: two comparisons and an addition.
#[derive(State)]
struct DirectSegment {
    #[state(skip)]
    latency: u64,
    #[state(skip)]
    eager_bits: bool,
    segment: Option<Range>,
    counters: SegmentCounters,
}

impl DirectSegment {
    /// Without a segment yet.
    pub(crate) fn new(spec: &DirectSegmentSpec) -> DirectSegment {
        DirectSegment {
            latency: spec.latency,
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
        let hit = self.segment.filter(|segment| segment.contains(va.vpn()));
        self.counters.hits += u64::from(hit.is_some());
        let found = hit.map(|segment| Translation {
            frame: segment.frame_of(va.vpn()),
            size: PageSize::SIZE_4K,
            writable: segment.writable,
            executable: segment.executable,
            dirty: self.eager_bits,
            ranged: false,
        });
        let ready = now.after(self.latency);
        watch::step(|| {
            let step = Step::look_up("segment registers", found.is_some(), now, ready).source("Basu et al., ISCA 2013");
            match self.segment {
                Some(segment) => step
                    .address("BASE, page", segment.base.0)
                    .address("LIMIT, page", segment.limit.0)
                    .address("OFFSET, frames", segment.frame.0.wrapping_sub(segment.base.0))
                    .shape(Shape::Interval { base: segment.base.0, limit: segment.limit.0, at: va.vpn().0 }),
                None => step.says("miss: the registers are off"),
            }
        });
        LookasideAnswer { found, ready, holds_walk: false }
    }

    fn refill(&mut self, _va: VirtAddr, _walk: &FinishedWalk, _port: &mut dyn MemoryPort) {}

    /// The registers are not copies: the kernel rewrites them whenever the segment changes.
    fn invalidate(&mut self, _what: Invalidation) {}

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}
