//! One hash function with a seed for each tier, used by kernels to place frames and by the hardware to
//! predict them (Revelator Sec. 5.1, 5.2, 5.3.1); and the kernels' placement hints.

use ambulator_base::{
    Asid, PageSize, Pfn, PhysAddr, State, VirtAddr, mix64, mul_high, on_huge_pages, prefetch_sim_host,
};

/// The most tiers.
pub(crate) const MOST_TIERS: usize = 8;

/// The kinds of hashed frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) enum Kind {
    /// A page of 4 KiB.
    #[default]
    Small,
    /// A page of 2 MiB.
    Large,
    /// A node of the last level of a tree, for 512 pages.
    Leaf,
    /// Such a node of a hypervisor's tree, for 512 pages of guest-physical memory.
    HypervisorLeaf,
}

impl Kind {
    /// All kinds.
    const ALL: [Kind; 4] = [Kind::Small, Kind::Large, Kind::Leaf, Kind::HypervisorLeaf];
    /// The kinds of data pages.
    pub(crate) const DATA: [Kind; 2] = [Kind::Small, Kind::Large];

    /// The kind of a page of that size, if it is hashed.
    pub(crate) fn of(size: PageSize) -> Option<Kind> {
        match size {
            PageSize::SIZE_4K => Some(Kind::Small),
            PageSize::SIZE_2M => Some(Kind::Large),
            _ => None,
        }
    }

    /// Whether it is a page of data.
    pub(crate) fn is_data(self) -> bool {
        Kind::DATA.contains(&self)
    }

    /// log2 of its frames.
    pub(crate) fn order(self) -> u32 {
        if self == Kind::Large { 9 } else { 0 }
    }

    /// The number to hash: of the page, or of the 512 pages.
    #[inline]
    pub(crate) fn number(self, va: VirtAddr) -> u64 {
        va.0 >> if self == Kind::Small { 12 } else { 21 }
    }

    /// The offset for `va` from the start of the first frame: of the byte itself, or of the entry of its
    /// page.
    #[inline]
    pub(crate) fn within(self, va: VirtAddr) -> u64 {
        match self {
            Kind::Small => va.0 & 0xfff,
            Kind::Large => va.0 & 0x1f_ffff,
            Kind::Leaf | Kind::HypervisorLeaf => (va.0 >> 12 & 511) * 8,
        }
    }
}

/// A tier's frame for the page or node of `va`, among `frames` frames.
#[inline]
pub(crate) fn frame(kind: Kind, va: VirtAddr, tier: usize, frames: u64) -> Pfn {
    let hash = mix64(kind.number(va) ^ (kind as u64 + 1) << 56 ^ (tier as u64) << 48);
    Pfn(mul_high(hash, frames >> kind.order()) << kind.order())
}

/// log2 of the pages of a run.
const RUN_BITS: u32 = 9;

/// As [`frame`], for contiguous runs of 512 pages or nodes: a run is hashed to a block of as many frames, and
/// each page has its own offset in the block.
#[inline]
fn frame_of_run(kind: Kind, va: VirtAddr, tier: usize, frames: u64) -> Pfn {
    let blocks = frames >> RUN_BITS;
    if kind.order() > 0 || blocks == 0 {
        return frame(kind, va, tier, frames);
    }
    let number = kind.number(va);
    let hash = mix64(number >> RUN_BITS ^ (kind as u64 + 1) << 56 ^ 1 << 54 ^ (tier as u64) << 48);
    Pfn(mul_high(hash, blocks) << RUN_BITS | number & ((1 << RUN_BITS) - 1))
}

/// Bits of a page number.
const NUMBER_BITS: u32 = 45;

/// The use of a 4 KiB frame: a part of a page of a process, or a node of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameUse {
    /// The kind of page or node.
    pub(crate) kind: Kind,
    /// Its address space.
    pub(crate) asid: Asid,
    /// The virtual address of the frame's contents; for a node, the first address that it maps.
    pub(crate) va: VirtAddr,
}

impl FrameUse {
    /// Whether the frame is the one of this kind for `va` in this address space.
    pub(crate) fn is(self, kind: Kind, asid: Asid, va: VirtAddr) -> bool {
        let of = if kind.is_data() { PageSize::SIZE_4K } else { PageSize::SIZE_2M };
        self.kind == kind && self.asid == asid && self.va == va.align_down(of)
    }

    fn pack(self) -> u64 {
        let number = self.va.0 >> 12 & ((1 << NUMBER_BITS) - 1);
        (self.kind as u64 + 1) << 61 | u64::from(self.asid.0) << NUMBER_BITS | number
    }

    fn unpack(word: u64) -> Option<FrameUse> {
        let kind = Kind::ALL.get((word >> 61).checked_sub(1)? as usize)?;
        let va = VirtAddr((word & ((1 << NUMBER_BITS) - 1)) << 12);
        Some(FrameUse { kind: *kind, asid: Asid((word >> NUMBER_BITS) as u16), va })
    }
}

/// A kernel's use of its physical memory: the frames allocated by each tier, and the use of each frame.
#[derive(Debug, Default, State)]
pub(crate) struct Space {
    /// Number of 4 KiB frames; 0 before the first allocation.
    pub(crate) frames: u64,
    /// Whether runs of 512 pages stay contiguous.
    in_runs: bool,
    /// By kind: frames allocated by each tier and, last, frames chosen by the allocator.
    pub(crate) given: [[u64; MOST_TIERS + 1]; 4],
    /// Uses of frames; 0 if unknown.
    #[state(sparse)]
    uses: Vec<u64>,
}

impl Space {
    /// A tier's frame for the page or node of `va`.
    #[inline]
    pub(crate) fn frame(&self, kind: Kind, va: VirtAddr, tier: usize) -> Pfn {
        if self.in_runs { frame_of_run(kind, va, tier, self.frames) } else { frame(kind, va, tier, self.frames) }
    }

    /// A tier's address for `va`: of the byte itself, or of the entry of its page.
    #[inline]
    pub(crate) fn place(&self, kind: Kind, va: VirtAddr, tier: usize) -> PhysAddr {
        self.frame(kind, va, tier).start().offset(kind.within(va))
    }

    /// Sets or clears the use of the frames of a page or node; each frame gets its own address.
    pub(crate) fn set_use(&mut self, frame: Pfn, frames: u64, of: Option<FrameUse>) {
        if self.uses.len() < self.frames as usize {
            // Lazily zeroed memory (simulator speed only); `resize` would zero it at once.
            let mut uses = on_huge_pages(vec![0; self.frames as usize]);
            uses[..self.uses.len()].copy_from_slice(&self.uses);
            self.uses = uses;
        }
        let first = frame.0 as usize;
        let Some(uses) = self.uses.get_mut(first..first + frames as usize) else { return };
        for (number, word) in uses.iter_mut().enumerate() {
            *word = of.map_or(0, |of| FrameUse { va: of.va.offset((number as u64) << 12), ..of }.pack());
        }
    }

    /// Prefetches the use of a frame into the sim host's caches.
    #[inline]
    pub(crate) fn prefetch_sim_host(&self, frame: Pfn) {
        if let Some(word) = self.uses.get(frame.0 as usize) {
            prefetch_sim_host(word);
        }
    }

    /// The use of a frame.
    #[inline]
    pub(crate) fn use_of(&self, frame: Pfn) -> Option<FrameUse> {
        FrameUse::unpack(*self.uses.get(frame.0 as usize)?)
    }

    /// Whether a frame has data of this process.
    #[inline]
    pub(crate) fn is_own(&self, frame: Pfn, asid: Asid) -> bool {
        self.use_of(frame).is_some_and(|of| of.asid == asid && of.kind.is_data())
    }

    /// A tier's share of the allocated frames of a kind; 0 before the first allocation.
    pub(crate) fn share(&self, kind: Kind, tier: usize) -> f64 {
        let given = &self.given[kind as usize];
        let all: u64 = given.iter().sum();
        if all == 0 { 0.0 } else { given[tier] as f64 / all as f64 }
    }

    /// The share of one kind in the memory allocated to these kinds.
    pub(crate) fn weight(&self, kind: Kind, kinds: &[Kind]) -> f64 {
        let given = |kind: Kind| self.given[kind as usize].iter().sum::<u64>() << kind.order();
        let all: u64 = kinds.iter().map(|kind| given(*kind)).sum();
        if all == 0 { 0.0 } else { given(kind) as f64 / all as f64 }
    }
}

/// The hints that kernels pass to each other and to the hardware.
#[derive(Debug, State)]
pub(crate) struct PlacementHints {
    /// Hints about the machine's memory, from its kernel or from the hypervisor.
    pub(crate) machine: Space,
    /// Hints about guest-physical memory, from a guest's kernel.
    pub(crate) guest: Space,
    /// Changes with every allocation.
    pub(crate) version: u64,
    /// Runs of frames that the guest has freed.
    pub(crate) released: Vec<(Pfn, u64)>,
}

impl Default for PlacementHints {
    /// A guest's runs stay contiguous, so the hypervisor's entries for adjacent pages share lines, as with
    /// contiguous guest memory.
    fn default() -> PlacementHints {
        let guest = Space { in_runs: true, ..Space::default() };
        PlacementHints { machine: Space::default(), guest, version: 0, released: Vec::new() }
    }
}

impl PlacementHints {
    /// The hints about guest-physical memory, or about the machine's.
    pub(crate) fn space(&mut self, guest: bool) -> &mut Space {
        if guest { &mut self.guest } else { &mut self.machine }
    }

    /// Clears the use of frames; those of a guest are released to the hypervisor.
    pub(crate) fn freed(&mut self, guest: bool, frame: Pfn, frames: u64) {
        self.space(guest).set_use(frame, frames, None);
        if guest {
            self.released.push((frame, frames));
        }
    }
}

/// The probability that one of `tiers` tiers finds a free frame if a share `pressure` is allocated (Sec.
/// 5.1.1): `1 - p^N`.
pub(crate) fn expected_success(pressure: f64, tiers: u32) -> f64 {
    1.0 - pressure.powi(tiers as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_and_kinds_are_independent_and_spread_evenly() {
        let frames = 1 << 16;
        let mut hits = vec![0u32; 64];
        let mut same = 0;
        for page in 0..64_000u64 {
            let va = VirtAddr(page << 12);
            hits[(frame(Kind::Small, va, 0, frames).0 >> 10) as usize] += 1;
            same += u32::from(frame(Kind::Small, va, 0, frames) == frame(Kind::Small, va, 1, frames));
        }
        assert!(hits.iter().all(|n| (850..1150).contains(n)), "{hits:?}");
        assert!(same < 10);
        assert_eq!(frame(Kind::Large, VirtAddr(77 << 21), 2, frames).0 % 512, 0);
        // Runs: adjacent pages have adjacent frames, and runs spread evenly.
        let (mut blocks, large) = (vec![0u32; 128], VirtAddr(77 << 21));
        for run in 0..64_000u64 {
            let at = |page: u64| frame_of_run(Kind::Small, VirtAddr((run << 9 | page) << 12), 1, frames).0;
            assert_eq!((at(0) % 512, at(511)), (0, at(0) + 511));
            blocks[(at(0) >> 9) as usize] += 1;
        }
        assert!(blocks.iter().all(|n| (400..600).contains(n)), "{blocks:?}");
        assert_eq!(frame_of_run(Kind::Large, large, 2, frames), frame(Kind::Large, large, 2, frames));
        assert_eq!(frame_of_run(Kind::Small, large, 2, 511), frame(Kind::Small, large, 2, 511), "less than a block");
        assert!((expected_success(0.4, 3) - 0.936).abs() < 1e-9);
    }

    #[test]
    fn uses_of_frames_are_those_that_were_set() {
        let mut space = Space { frames: 2048, ..Space::default() };
        let va = VirtAddr((1 << 56) + (5 << 21));
        let large = FrameUse { kind: Kind::Large, asid: Asid(u16::MAX), va };
        space.set_use(Pfn(512), 512, Some(large));
        assert_eq!(space.use_of(Pfn(513)), Some(FrameUse { va: va.offset(4096), ..large }));
        assert!(space.is_own(Pfn(1023), Asid(u16::MAX)) && !space.is_own(Pfn(1024), Asid(u16::MAX)));
        let leaf = FrameUse { kind: Kind::Leaf, asid: Asid(3), va };
        space.set_use(Pfn(7), 1, Some(leaf));
        assert_eq!(space.use_of(Pfn(7)), Some(leaf));
        assert!(!space.is_own(Pfn(7), Asid(3)), "a node is not data");
        space.set_use(Pfn(512), 512, None);
        assert_eq!((space.use_of(Pfn(512)), space.use_of(Pfn(5000))), (None, None));
    }
}
