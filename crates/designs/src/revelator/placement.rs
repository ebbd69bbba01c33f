//! The operating system's half: tiered hash allocation over the buddy allocator (Revelator Sec. 5.1, 5.2).

use super::RevelatorSpec;
use super::tiers::{Kind, MOST_TIERS, Told, expected_success, frame};
use crate::tree::{Layout, NODE_BITS, NodePlace, NodeWanted, Tree};
use ambulator_base::{Asid, CounterSink, Counters, FRAME_BYTES, PageSize, Pfn, PhysAddr, ProcessId};
use ambulator_memory::BuddyAllocator;
use ambulator_os::{
    Footprint, LedgerCause, MapError, PageTable, PlaceContext, PlaceRequest, Placement, TableContext, TableFactory,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

ambulator_base::counters! {
    /// Frames given by hash.
    pub struct TierCounters {
        /// Data frames that the first tier gave.
        tier_1: Events,
        /// That the second gave.
        tier_2: Events,
        /// That the third gave.
        tier_3: Events,
        /// That the fourth gave.
        tier_4: Events,
        /// That the fifth gave.
        tier_5: Events,
        /// That the sixth gave.
        tier_6: Events,
        /// That later ones gave.
        tier_more: Events,
        /// Data frames that no tier could give: the buddy allocator's choice.
        fallback: Events,
        /// Table frames of the last level that a tier gave.
        table_hashed: Events,
        /// Table frames of the last level that none could give.
        table_fallback: Events,
        /// Of a million frames, those that the analytical model has for the tiers together, at the share that was taken when the first was given.
        expected_ppm: Events,
    }
}

/// What both halves share.
pub type Shared = Arc<Mutex<Told>>;

pub(super) fn lock(shared: &Mutex<Told>) -> MutexGuard<'_, Told> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries the tiers in order; the frame and the tier that gave it.
pub(super) fn by_hash(
    kind: Kind,
    va: ambulator_base::VirtAddr,
    tiers: u32,
    told: &mut Told,
    frames: &mut BuddyAllocator,
) -> Option<Pfn> {
    told.frames = frames.total_frames();
    let found = (0..tiers as usize).find_map(|tier| {
        let at = frame(kind, va, tier, told.frames);
        frames.allocate_at(at, kind.order()).then_some((tier, at))
    });
    let tier = found.map_or(MOST_TIERS, |(tier, _)| tier);
    told.given[kind as usize][tier] += 1;
    told.version += 1;
    found.map(|(_, at)| at)
}

/// Data frames by hash.
pub struct HashPlacement {
    spec: RevelatorSpec,
    shared: Shared,
    expected: Option<f64>,
}

impl HashPlacement {
    /// Tells `shared` what it does.
    pub fn new(spec: &RevelatorSpec, shared: Shared) -> HashPlacement {
        HashPlacement { spec: spec.clone(), shared, expected: None }
    }
}

impl Placement for HashPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let taken = || 1.0 - os.frames.free_frames() as f64 / os.frames.total_frames() as f64;
        let tiers = self.spec.tiers;
        self.expected.get_or_insert_with(|| expected_success(taken(), tiers));
        let Some(kind) = Kind::of(request.page.size) else { return os.frames.allocate(request.page.size.order()) };
        let shared = Arc::clone(&self.shared);
        let mut told = lock(&shared);
        let given = by_hash(kind, request.page.start, tiers, &mut told, os.frames);
        let given = given.or_else(|| os.frames.allocate(kind.order()))?;
        told.own(given, request.page.size.frames(), Some(request.asid));
        Some(given)
    }

    fn freed(&mut self, frame: Pfn, size: PageSize) {
        lock(&self.shared).own(frame, size.frames(), None);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        let told = lock(&self.shared);
        let data = |tier: usize| told.given[Kind::Small as usize][tier] + told.given[Kind::Large as usize][tier];
        let leaf = &told.given[Kind::Leaf as usize];
        TierCounters {
            tier_1: data(0),
            tier_2: data(1),
            tier_3: data(2),
            tier_4: data(3),
            tier_5: data(4),
            tier_6: data(5),
            tier_more: data(6) + data(7),
            fallback: data(MOST_TIERS),
            table_hashed: leaf[..MOST_TIERS].iter().sum(),
            table_fallback: leaf[MOST_TIERS],
            expected_ppm: (1e6 * self.expected.unwrap_or(0.0)).round() as u64,
        }
        .report(&format!("{prefix}.tiers"), sink);
    }
}

/// Radix nodes of which those of the last level are placed by hash.
pub struct HashedLeaves {
    tiers: u32,
    shared: Shared,
}

impl Layout for HashedLeaves {
    fn allocate(
        &mut self,
        wanted: NodeWanted,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        let is_leaf = wanted.span == PageSize::SIZE_2M.shift();
        let given =
            if is_leaf { by_hash(Kind::Leaf, wanted.va, self.tiers, &mut lock(&self.shared), os.frames) } else { None };
        let frame = match given {
            Some(frame) => {
                os.memory.zero(PhysAddr(frame.0 << 12), FRAME_BYTES);
                footprint.bytes += FRAME_BYTES;
                footprint.peak_bytes = footprint.peak_bytes.max(footprint.bytes);
                footprint.largest_contiguous = footprint.largest_contiguous.max(FRAME_BYTES);
                os.ledger.charge(LedgerCause::Allocate, os.costs.allocate_4k);
                frame
            }
            None => crate::frames::allocate(0, footprint, os)?,
        };
        Some(NodePlace { frame, bits: NODE_BITS })
    }
}

/// Makes radix tables with such leaves.
pub struct HashedLeavesFactory {
    va_bits: u32,
    tiers: u32,
    shared: Shared,
}

impl HashedLeavesFactory {
    /// Tables of `va_bits` bits of address.
    pub fn new(va_bits: u32, tiers: u32, shared: Shared) -> HashedLeavesFactory {
        HashedLeavesFactory { va_bits, tiers, shared }
    }
}

impl TableFactory for HashedLeavesFactory {
    fn new_table(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        let layout = HashedLeaves { tiers: self.tiers, shared: Arc::clone(&self.shared) };
        Ok(Box::new(Tree::new(layout, self.va_bits, os)?))
    }
}
