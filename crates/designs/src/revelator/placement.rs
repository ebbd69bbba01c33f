//! The OS half: tiered hash allocation in the buddy allocator (Revelator Sec. 5.1, 5.2).

use super::RevelatorSpec;
use super::tiers::{FrameUse, Kind, MOST_TIERS, PlacementHints, Space, expected_success};
use ambulator_base::{Asid, CounterSink, Counters, PageSize, Pfn, State, VirtAddr, falls_within, lock, mix64};
use ambulator_memory::{BuddyAllocator, PrefetchStep};
use ambulator_os::{Footprint, PlaceContext, PlaceRequest, Placement, TableContext};
use ambulator_sockets::NewNodes;
use ambulator_structures::tree::{Layout, NODE_BITS, NodePlace, NodeRequest, Plain};
use std::sync::{Arc, Mutex};

ambulator_base::counters! {
    /// Frames allocated by hash.
    pub(crate) struct TierCounters {
        /// Data frames allocated by the first tier.
        tier_1: Events,
        /// By the second tier.
        tier_2: Events,
        /// By the third tier.
        tier_3: Events,
        /// By the fourth tier.
        tier_4: Events,
        /// By the fifth tier.
        tier_5: Events,
        /// By the sixth tier.
        tier_6: Events,
        /// By later tiers.
        tier_more: Events,
        /// Data frames chosen by the buddy allocator because no tier had a free one.
        fallback: Events,
        /// Last-level table frames allocated by a tier.
        table_hashed: Events,
        /// Last-level table frames that no tier could allocate.
        table_fallback: Events,
        /// Hashed frames per million expected by the analytical model at the first allocation.
        expected_ppm: Events gauge,
    }
}

/// The hints, shared by both halves.
pub(crate) type Shared = Arc<Mutex<PlacementHints>>;

/// A kernel's allocation by hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashing {
    /// Tiers to try; with none, the allocator chooses.
    pub(crate) tiers: u32,
    /// Share of frames that hashing treats as allocated although they are free, chosen by a hash of the
    /// frame.
    pub(crate) taken: f64,
    /// Share of pages that hashing may place.
    pub(crate) hashable: f64,
    /// Share of last-level nodes that hashing may place.
    pub(crate) hashable_nodes: f64,
}

impl Hashing {
    pub(crate) fn new(spec: &RevelatorSpec) -> Hashing {
        Hashing { tiers: spec.tiers, taken: spec.taken, hashable: spec.hashable, hashable_nodes: spec.hashable_nodes }
    }

    /// The share of pages that the tiers allocate, as the analytical model expects it now.
    pub(crate) fn expected(self, frames: &BuddyAllocator) -> f64 {
        let free = frames.free_frames() as f64 / frames.total_frames() as f64;
        self.hashable * expected_success(1.0 - free * (1.0 - self.taken), self.tiers)
    }

    /// A guest's, which hashes in its own memory only if entries of nested walks are predicted.
    pub(crate) fn of_guest(spec: &RevelatorSpec) -> Hashing {
        Hashing { tiers: if spec.nested { spec.tiers } else { 0 }, taken: 0.0, ..Hashing::new(spec) }
    }

    /// The tiers' frames for the page or node of `va`, in order, but for those that count as allocated.
    #[inline]
    fn candidates(self, kind: Kind, va: VirtAddr, space: &Space) -> impl Iterator<Item = (usize, Pfn)> {
        let share = if kind.is_data() { self.hashable } else { self.hashable_nodes };
        let may = falls_within(mix64(kind.number(va) ^ (kind as u64 + 1) << 56 ^ 1 << 55), share);
        let tiers = if may { self.tiers as usize } else { 0 };
        (0..tiers)
            .map(move |tier| (tier, space.frame(kind, va, tier)))
            .filter(move |(_, at)| !falls_within(mix64(at.0 ^ 1 << 63), self.taken))
    }

    /// Prefetches into the sim host's caches what the pages after that of `va` need: programs mostly touch new memory
    /// in order, and their frames are all over it.
    #[inline]
    fn prefetch_sim_host(self, va: VirtAddr, space: &Space, frames: &BuddyAllocator) {
        const AHEAD: [(u64, PrefetchStep); 3] =
            [(12, PrefetchStep::Bitmap), (8, PrefetchStep::Block), (4, PrefetchStep::Neighbours)];
        for (pages, step) in AHEAD {
            if let Some((_, at)) = self.candidates(Kind::Small, va.offset(pages << 12), space).next() {
                frames.prefetch_sim_host(at, step);
                if step == PrefetchStep::Bitmap {
                    space.prefetch_sim_host(at);
                }
            }
        }
    }

    /// Tries the tiers in order.
    pub(crate) fn allocate(
        self,
        kind: Kind,
        va: VirtAddr,
        space: &mut Space,
        frames: &mut BuddyAllocator,
    ) -> Option<Pfn> {
        space.frames = frames.total_frames();
        let found = self.candidates(kind, va, space).find(|(_, at)| frames.allocate_at(*at, kind.order()));
        let tier = found.map_or(MOST_TIERS, |(tier, _)| tier);
        space.given[kind as usize][tier] += 1;
        found.map(|(_, at)| at)
    }
}

/// Places data frames by hash, for the kernel of a machine or of a guest.
#[derive(State)]
pub(crate) struct HashPlacement {
    #[state(skip)]
    hashing: Hashing,
    shared: Shared,
    #[state(skip)]
    guest: bool,
    expected: Option<f64>,
}

impl HashPlacement {
    /// Placement of a machine's kernel, which records its hints in `shared`.
    pub(crate) fn new(spec: &RevelatorSpec, shared: Shared) -> HashPlacement {
        HashPlacement { hashing: Hashing::new(spec), shared, guest: false, expected: None }
    }

    /// Placement of a guest's kernel: it passes the pages of its frames to the hypervisor, and hashes in its
    /// own memory only if entries of nested walks are predicted.
    pub(crate) fn of_guest(spec: &RevelatorSpec, shared: Shared) -> HashPlacement {
        HashPlacement { hashing: Hashing::of_guest(spec), shared, guest: true, expected: None }
    }
}

impl Placement for HashPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let hashing = self.hashing;
        self.expected.get_or_insert_with(|| hashing.expected(os.frames));
        let Some(kind) = Kind::of(request.page.size) else { return os.frames.allocate(request.page.size.order()) };
        let shared = Arc::clone(&self.shared);
        let mut hints = lock(&shared);
        hints.version += 1;
        let space = hints.space(self.guest);
        if kind == Kind::Small {
            hashing.prefetch_sim_host(request.page.start, space, os.frames);
        }
        let given = hashing.allocate(kind, request.page.start, space, os.frames);
        let given = given.or_else(|| os.frames.allocate(kind.order()))?;
        let of = FrameUse { kind, asid: request.asid, va: request.page.start };
        space.set_use(given, request.page.size.frames(), Some(of));
        Some(given)
    }

    fn freed(&mut self, frame: Pfn, size: PageSize) {
        lock(&self.shared).freed(self.guest, frame, size.frames());
    }

    fn take_released(&mut self, released: &mut Vec<(Pfn, u64)>) {
        if self.guest {
            released.append(&mut lock(&self.shared).released);
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        let mut hints = lock(&self.shared);
        report_tiers(hints.space(self.guest), self.expected, prefix, sink);
    }
}

fn report_tiers(space: &Space, expected: Option<f64>, prefix: &str, sink: &mut dyn CounterSink) {
    let data = |tier: usize| space.given[Kind::Small as usize][tier] + space.given[Kind::Large as usize][tier];
    let table = |tier: usize| space.given[Kind::Leaf as usize][tier] + space.given[Kind::HypervisorLeaf as usize][tier];
    TierCounters {
        tier_1: data(0),
        tier_2: data(1),
        tier_3: data(2),
        tier_4: data(3),
        tier_5: data(4),
        tier_6: data(5),
        tier_more: data(6) + data(7),
        fallback: data(MOST_TIERS),
        table_hashed: (0..MOST_TIERS).map(table).sum(),
        table_fallback: table(MOST_TIERS),
        expected_ppm: (1e6 * expected.unwrap_or(0.0)).round() as u64,
    }
    .report(&format!("{prefix}.tiers"), sink);
}

/// The hypervisor's placement for a guest that passes the page of each guest frame: by the hash of the
/// guest-virtual page, so that the hardware can predict system-physical from guest-virtual addresses (Sec.
/// 5.5).
#[derive(State)]
pub(crate) struct HypervisorPlacement {
    #[state(skip)]
    hashing: Hashing,
    shared: Shared,
    expected: Option<f64>,
}

impl HypervisorPlacement {
    /// Placement that reads the guest's hints in `shared`.
    pub(crate) fn new(spec: &RevelatorSpec, shared: Shared) -> HypervisorPlacement {
        HypervisorPlacement { hashing: Hashing::new(spec), shared, expected: None }
    }
}

impl Placement for HypervisorPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let Some(kind) = Kind::of(request.page.size) else { return os.frames.allocate(request.page.size.order()) };
        let mut hints = lock(&self.shared);
        let hashing = self.hashing;
        self.expected.get_or_insert_with(|| hashing.expected(os.frames));
        let of = hints.guest.use_of(Pfn(request.page.start.0 >> 12));
        // A 4 KiB page may back a part of a larger guest page, hashed by the part's own address. A larger
        // page can only back a guest page of the same size.
        let of = of.map(|of| if of.kind.is_data() && kind == Kind::Small { FrameUse { kind, ..of } } else { of });
        let hashed = of.filter(|of| of.kind.order() == kind.order());
        let given = hashed.and_then(|of| {
            hints.version += 1;
            hashing.allocate(of.kind, of.va, &mut hints.machine, os.frames)
        });
        let given = given.or_else(|| os.frames.allocate(kind.order()))?;
        hints.machine.frames = os.frames.total_frames();
        hints.machine.set_use(given, request.page.size.frames(), hashed);
        Some(given)
    }

    fn freed(&mut self, frame: Pfn, size: PageSize) {
        lock(&self.shared).freed(false, frame, size.frames());
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        report_tiers(&lock(&self.shared).machine, self.expected, prefix, sink);
    }
}

/// The owner of trees with leaves placed by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeavesOf {
    /// Processes of a machine.
    Machine,
    /// Processes of a guest.
    Guest,
    /// A hypervisor, for its virtual machines.
    Hypervisor,
}

/// Radix nodes; those of the last level are placed by hash.
#[derive(State)]
pub(crate) struct HashedLeaves {
    #[state(skip)]
    of: LeavesOf,
    asid: Asid,
    #[state(skip)]
    hashing: Hashing,
    shared: Shared,
}

impl HashedLeaves {
    /// Creates the layouts of processes' trees. A guest's leaves are hashed in its own memory only if entries
    /// of nested walks are predicted.
    pub(crate) fn of_processes(of: LeavesOf, spec: &RevelatorSpec, shared: Shared) -> NewNodes {
        let hashing = if of == LeavesOf::Guest { Hashing::of_guest(spec) } else { Hashing::new(spec) };
        Box::new(move |_, asid| Box::new(HashedLeaves { of, asid, hashing, shared: Arc::clone(&shared) }))
    }
}

impl Layout for HashedLeaves {
    fn allocate(
        &mut self,
        request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        if request.span != PageSize::SIZE_2M.shift() {
            return Plain.allocate(request, footprint, os);
        }
        let mut hints = lock(&self.shared);
        hints.version += 1;
        let space = hints.space(self.of == LeavesOf::Guest);
        let kind = if self.of == LeavesOf::Hypervisor { Kind::HypervisorLeaf } else { Kind::Leaf };
        let frame = match self.hashing.allocate(kind, request.va, space, os.frames) {
            Some(frame) => {
                ambulator_structures::frames::adopt(frame, 1, footprint, os);
                frame
            }
            None => ambulator_structures::frames::allocate(0, footprint, os)?,
        };
        space.set_use(frame, 1, Some(FrameUse { kind, asid: self.asid, va: request.va.align_down(PageSize::SIZE_2M) }));
        Some(NodePlace { frame, bits: NODE_BITS })
    }

    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        lock(&self.shared).freed(self.of == LeavesOf::Guest, node.frame, node.frames());
        ambulator_structures::frames::release(node.frame, node.frames(), footprint, os);
    }
}
