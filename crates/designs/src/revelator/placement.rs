//! The operating system's half: tiered hash allocation over the buddy allocator (Revelator Sec. 5.1, 5.2).

use super::RevelatorSpec;
use super::tiers::{Kind, MOST_TIERS, Space, Told, Use, expected_success};
use ambulator_base::{Asid, CounterSink, Counters, PageSize, Pfn, VirtAddr, falls_within, lock, mix64};
use ambulator_memory::BuddyAllocator;
use ambulator_os::{Footprint, PlaceContext, PlaceRequest, Placement, TableContext};
use ambulator_sockets::NewNodes;
use ambulator_structures::tree::{Layout, NODE_BITS, NodePlace, NodeRequest, Plain};
use std::sync::{Arc, Mutex};

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

/// How a kernel allocates by hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashing {
    /// Tiers tried; with none, the allocator chooses.
    pub tiers: u32,
    /// Share of frames that hashing finds taken though they are not: those whose own hash falls into it.
    pub taken: f64,
    /// Share of what hashing may place.
    pub hashable: f64,
}

impl Hashing {
    pub fn new(spec: &RevelatorSpec) -> Hashing {
        Hashing { tiers: spec.tiers, taken: spec.taken, hashable: spec.hashable }
    }

    /// What the analytical model expects now: the share of pages that the tiers give.
    pub fn expected(self, frames: &BuddyAllocator) -> f64 {
        let free = frames.free_frames() as f64 / frames.total_frames() as f64;
        self.hashable * expected_success(1.0 - free * (1.0 - self.taken), self.tiers)
    }

    /// A guest's, which hashes in its own memory only where entries of nested walks are guessed.
    pub fn of_guest(spec: &RevelatorSpec) -> Hashing {
        Hashing { tiers: if spec.nested { spec.tiers } else { 0 }, taken: 0.0, ..Hashing::new(spec) }
    }

    /// Tries the tiers in order.
    pub fn allocate(self, kind: Kind, va: VirtAddr, space: &mut Space, frames: &mut BuddyAllocator) -> Option<Pfn> {
        space.frames = frames.total_frames();
        let may = falls_within(mix64(kind.number(va) ^ (kind as u64 + 1) << 56 ^ 1 << 55), self.hashable);
        let tiers = if may { self.tiers as usize } else { 0 };
        let found = (0..tiers).find_map(|tier| {
            let at = space.frame(kind, va, tier);
            let is_free = !falls_within(mix64(at.0 ^ 1 << 63), self.taken);
            (is_free && frames.allocate_at(at, kind.order())).then_some((tier, at))
        });
        let tier = found.map_or(MOST_TIERS, |(tier, _)| tier);
        space.given[kind as usize][tier] += 1;
        found.map(|(_, at)| at)
    }
}

/// Data frames by hash: the kernel's of a machine, or of a guest.
pub struct HashPlacement {
    hashing: Hashing,
    shared: Shared,
    guest: bool,
    expected: Option<f64>,
}

impl HashPlacement {
    /// Tells `shared` what it does.
    pub fn new(spec: &RevelatorSpec, shared: Shared) -> HashPlacement {
        HashPlacement { hashing: Hashing::new(spec), shared, guest: false, expected: None }
    }

    /// A guest's: it tells the hypervisor which pages its frames hold, and hashes in its own memory only where entries of nested walks are guessed.
    pub fn of_guest(spec: &RevelatorSpec, shared: Shared) -> HashPlacement {
        HashPlacement { hashing: Hashing::of_guest(spec), shared, guest: true, expected: None }
    }
}

impl Placement for HashPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let hashing = self.hashing;
        self.expected.get_or_insert_with(|| hashing.expected(os.frames));
        let Some(kind) = Kind::of(request.page.size) else { return os.frames.allocate(request.page.size.order()) };
        let shared = Arc::clone(&self.shared);
        let mut told = lock(&shared);
        told.version += 1;
        let space = told.space(self.guest);
        let given = hashing.allocate(kind, request.page.start, space, os.frames);
        let given = given.or_else(|| os.frames.allocate(kind.order()))?;
        let of = Use { kind, asid: request.asid, va: request.page.start };
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
        let mut told = lock(&self.shared);
        report_tiers(told.space(self.guest), self.expected, prefix, sink);
    }
}

fn report_tiers(space: &Space, expected: Option<f64>, prefix: &str, sink: &mut dyn CounterSink) {
    let data = |tier: usize| space.given[Kind::Small as usize][tier] + space.given[Kind::Large as usize][tier];
    let table = |tier: usize| space.given[Kind::Leaf as usize][tier] + space.given[Kind::HostLeaf as usize][tier];
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

/// Frames of the hypervisor for a guest that tells it which of its pages each guest frame holds: by the hash of the guest-virtual page, so that the hardware
/// can guess from guest-virtual to host-physical (Sec. 5.5).
pub struct HypervisorPlacement {
    hashing: Hashing,
    shared: Shared,
    expected: Option<f64>,
}

impl HypervisorPlacement {
    /// Reads in `shared` what the guest tells.
    pub fn new(spec: &RevelatorSpec, shared: Shared) -> HypervisorPlacement {
        HypervisorPlacement { hashing: Hashing::new(spec), shared, expected: None }
    }
}

impl Placement for HypervisorPlacement {
    fn place(&mut self, request: &PlaceRequest, os: &mut PlaceContext<'_>) -> Option<Pfn> {
        let Some(kind) = Kind::of(request.page.size) else { return os.frames.allocate(request.page.size.order()) };
        let mut told = lock(&self.shared);
        let hashing = self.hashing;
        self.expected.get_or_insert_with(|| hashing.expected(os.frames));
        let of = told.guest.use_of(Pfn(request.page.start.0 >> 12));
        // A page of 4 KiB may back a part of a larger one of the guest's, which has an address of its own; a larger one only the same.
        let of = of.map(|of| if of.kind.is_data() && kind == Kind::Small { Use { kind, ..of } } else { of });
        let hashed = of.filter(|of| of.kind.order() == kind.order());
        let given = hashed.and_then(|of| {
            told.version += 1;
            hashing.allocate(of.kind, of.va, &mut told.machine, os.frames)
        });
        let given = given.or_else(|| os.frames.allocate(kind.order()))?;
        told.machine.frames = os.frames.total_frames();
        told.machine.set_use(given, request.page.size.frames(), hashed);
        Some(given)
    }

    fn freed(&mut self, frame: Pfn, size: PageSize) {
        lock(&self.shared).freed(false, frame, size.frames());
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        report_tiers(&lock(&self.shared).machine, self.expected, prefix, sink);
    }
}

/// Whose trees have leaves placed by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavesOf {
    /// Processes' of a machine.
    Machine,
    /// Processes' of a guest.
    Guest,
    /// A hypervisor's of its virtual machines.
    Hypervisor,
}

/// Radix nodes of which those of the last level are placed by hash.
pub struct HashedLeaves {
    of: LeavesOf,
    asid: Asid,
    hashing: Hashing,
    shared: Shared,
}

impl HashedLeaves {
    /// Makes the layouts of processes' trees. A guest's leaves are hashed in its own memory only where entries of
    /// nested walks are guessed.
    pub fn of_processes(of: LeavesOf, spec: &RevelatorSpec, shared: Shared) -> NewNodes {
        let hashing = if of == LeavesOf::Guest { Hashing::of_guest(spec) } else { Hashing::new(spec) };
        Box::new(move |_, asid| Box::new(HashedLeaves { of, asid, hashing, shared: Arc::clone(&shared) }))
    }
}

impl Layout for HashedLeaves {
    fn allocate(
        &mut self,
        wanted: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        if wanted.span != PageSize::SIZE_2M.shift() {
            return Plain.allocate(wanted, footprint, os);
        }
        let mut told = lock(&self.shared);
        told.version += 1;
        let space = told.space(self.of == LeavesOf::Guest);
        let kind = if self.of == LeavesOf::Hypervisor { Kind::HostLeaf } else { Kind::Leaf };
        let frame = match self.hashing.allocate(kind, wanted.va, space, os.frames) {
            Some(frame) => {
                ambulator_structures::frames::adopt(frame, 1, footprint, os);
                frame
            }
            None => ambulator_structures::frames::allocate(0, footprint, os)?,
        };
        space.set_use(frame, 1, Some(Use { kind, asid: self.asid, va: wanted.va.align_down(PageSize::SIZE_2M) }));
        Some(NodePlace { frame, bits: NODE_BITS })
    }

    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        lock(&self.shared).freed(self.of == LeavesOf::Guest, node.frame, node.frames());
        ambulator_structures::frames::release(node.frame, node.frames(), footprint, os);
    }
}
