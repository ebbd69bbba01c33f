//! The OS half of placement: page faults allocate in RestSegs (Utopia Sec. 5.5, 5.6).

use super::UtopiaSpec;
use super::segments::Segments;
use ambulator_base::{CounterSink, Counters, Page, PageSize, Pfn, ProcessId, State, lock};
use ambulator_os::{PlaceContext, PlaceRequest, Placement};
use std::sync::{Arc, Mutex, MutexGuard};

ambulator_base::counters! {
    /// Counters of placement in RestSegs.
    pub(crate) struct UtopiaPlacementCounters {
        /// Pages placed in a RestSeg at their fault.
        allocated: Events,
        /// Pages placed in the FlexSeg, because no RestSeg had room or pages of that size.
        flexible: Events,
        /// Pages placed in a RestSeg when they migrated there.
        migrated_in: Events,
    }
}

ambulator_base::counters! {
    /// Occupancy of a RestSeg.
    pub(crate) struct UtopiaUse {
        /// Occupied ways.
        taken: Events gauge,
        /// Ways.
        ways: Events gauge,
    }
}

/// Places pages in RestSegs first.
#[derive(State)]
pub(crate) struct UtopiaPlacement {
    #[state(skip)]
    spec: UtopiaSpec,
    segments: Arc<Mutex<Segments>>,
    counters: UtopiaPlacementCounters,
}

impl UtopiaPlacement {
    /// Placement in these RestSegs.
    pub(crate) fn new(spec: &UtopiaSpec, segments: Arc<Mutex<Segments>>) -> UtopiaPlacement {
        UtopiaPlacement { spec: spec.clone(), segments, counters: UtopiaPlacementCounters::default() }
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        lock(&self.segments)
    }
}

impl Placement for UtopiaPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        if self.spec.fault_allocation {
            let taken = self.segments().take(request.process, request.page, false, os.memory);
            if taken.is_some() {
                self.counters.allocated += 1;
                return taken;
            }
        }
        if self.spec.restrictive_only {
            return None;
        }
        self.counters.flexible += 1;
        os.frames.allocate(request.page.size.order())
    }

    fn eviction_candidates(
        &mut self,
        request: &PlaceRequest,
        migrates: bool,
        os: &mut PlaceContext<'_>,
    ) -> Vec<(ProcessId, Page)> {
        let evicts = migrates || self.spec.fault_allocation && self.spec.fault_eviction;
        if !evicts {
            return Vec::new();
        }
        self.segments().eviction_candidates(request.page, os.memory)
    }

    fn evicts_to_swap(&self) -> bool {
        self.spec.restrictive_only
    }

    fn allocate_for_migration(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let taken = self.segments().take(request.process, request.page, true, os.memory);
        self.counters.migrated_in += u64::from(taken.is_some());
        taken
    }

    fn take_back(&mut self, frame: Pfn, size: PageSize, _os: &mut PlaceContext<'_>) -> bool {
        self.segments().give_back(frame, size)
    }

    fn owns(&self, frame: Pfn) -> bool {
        self.segments().locate(frame).is_some()
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(&format!("{prefix}.utopia"), sink);
        let segments = self.segments();
        segments.reuse.report(&format!("{prefix}.utopia.reuse"), sink);
        for (at, segment) in segments.list.iter().enumerate() {
            let ways = segment.shape.sets * u64::from(segment.shape.ways);
            UtopiaUse { taken: segment.taken, ways }.report(&format!("{prefix}.utopia.segment_{at}"), sink);
        }
    }
}
