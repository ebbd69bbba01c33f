//! One hash function, a seed for each tier: what kernels try in order, and the hardware guesses (Revelator Sec. 5.1, 5.2, 5.3.1); and what kernels tell of it.

use ambulator_base::{Asid, PageSize, Pfn, PhysAddr, VirtAddr, mix64, mul_high};

/// Most tiers.
pub const MOST_TIERS: usize = 8;

/// What frames are hashed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page of 4 KiB.
    Small,
    /// A page of 2 MiB.
    Large,
    /// A node of the last level of a tree, for 512 pages.
    Leaf,
    /// Such a node of a hypervisor's tree, for 512 pages of guest-physical memory.
    HostLeaf,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Small, Kind::Large, Kind::Leaf, Kind::HostLeaf];
    /// Those of data.
    pub const DATA: [Kind; 2] = [Kind::Small, Kind::Large];

    /// The kind of a page of that size, if it is hashed.
    pub fn of(size: PageSize) -> Option<Kind> {
        match size {
            PageSize::SIZE_4K => Some(Kind::Small),
            PageSize::SIZE_2M => Some(Kind::Large),
            _ => None,
        }
    }

    /// Whether it is a page of data.
    pub fn is_data(self) -> bool {
        Kind::DATA.contains(&self)
    }

    /// log2 of its frames.
    pub fn order(self) -> u32 {
        if self == Kind::Large { 9 } else { 0 }
    }

    /// The number that is hashed: that of the page, or of the 512 pages.
    #[inline]
    pub fn number(self, va: VirtAddr) -> u64 {
        va.0 >> if self == Kind::Small { 12 } else { 21 }
    }

    /// Where in its first frame's memory what is wanted of `va` lies: the byte itself, or the entry of its page.
    #[inline]
    pub fn within(self, va: VirtAddr) -> u64 {
        match self {
            Kind::Small => va.0 & 0xfff,
            Kind::Large => va.0 & 0x1f_ffff,
            Kind::Leaf | Kind::HostLeaf => (va.0 >> 12 & 511) * 8,
        }
    }
}

/// The frame that a tier gives to what holds `va`, among `frames` frames.
#[inline]
pub fn frame(kind: Kind, va: VirtAddr, tier: usize, frames: u64) -> Pfn {
    let hash = mix64(kind.number(va) ^ (kind as u64 + 1) << 56 ^ (tier as u64) << 48);
    Pfn(mul_high(hash, frames >> kind.order()) << kind.order())
}

/// log2 of a run.
const RUN_BITS: u32 = 9;

/// The same where runs of 512 pages, or nodes, stay together: a run is hashed to a block of as many frames, and each has its own place in that.
#[inline]
pub fn frame_of_run(kind: Kind, va: VirtAddr, tier: usize, frames: u64) -> Pfn {
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

/// What a frame is used for: a page of a process, or a node of its tree. The first 4 KiB frame of a page is the page's, as are all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Data or node, and of which size.
    pub kind: Kind,
    /// Whose.
    pub asid: Asid,
    /// The address of the frame in the process's memory; of a node, the first that it maps.
    pub va: VirtAddr,
}

impl Use {
    /// Whether this is the use of the frame where a kind of thing that is wanted of `va` lies.
    pub fn is(self, kind: Kind, asid: Asid, va: VirtAddr) -> bool {
        let of = if kind.is_data() { PageSize::SIZE_4K } else { PageSize::SIZE_2M };
        self.kind == kind && self.asid == asid && self.va == va.align_down(of)
    }

    fn pack(self) -> u64 {
        let number = self.va.0 >> 12 & ((1 << NUMBER_BITS) - 1);
        (self.kind as u64 + 1) << 61 | u64::from(self.asid.0) << NUMBER_BITS | number
    }

    fn unpack(word: u64) -> Option<Use> {
        let kind = Kind::ALL.get((word >> 61).checked_sub(1)? as usize)?;
        let va = VirtAddr((word & ((1 << NUMBER_BITS) - 1)) << 12);
        Some(Use { kind: *kind, asid: Asid((word >> NUMBER_BITS) as u16), va })
    }
}

/// What a kernel has done with its physical memory: how often each tier gave frames, and what frames are used for.
#[derive(Debug, Default)]
pub struct Space {
    /// 4 KiB frames of it; 0 until the kernel knows.
    pub frames: u64,
    /// Runs of 512 pages stay together.
    pub in_runs: bool,
    /// By kind: frames given by each tier, and, last, by the allocator's own choice.
    pub given: [[u64; MOST_TIERS + 1]; 4],
    /// Uses of frames, 0 for none that is told here.
    uses: Vec<u64>,
}

impl Space {
    /// The frame that a tier gives to what holds `va`.
    #[inline]
    pub fn frame(&self, kind: Kind, va: VirtAddr, tier: usize) -> Pfn {
        if self.in_runs { frame_of_run(kind, va, tier, self.frames) } else { frame(kind, va, tier, self.frames) }
    }

    /// Where a tier puts what is wanted of `va`: the byte itself, or the entry of its page.
    #[inline]
    pub fn place(&self, kind: Kind, va: VirtAddr, tier: usize) -> PhysAddr {
        self.frame(kind, va, tier).start().offset(kind.within(va))
    }

    /// Frames of a page or node have a use, or none any more; each of a page's frames its own address.
    pub fn set_use(&mut self, frame: Pfn, frames: u64, of: Option<Use>) {
        if self.uses.len() < self.frames as usize {
            // Memory that the host zeroes when it is first touched, which `resize` would do at once.
            let mut uses = vec![0; self.frames as usize];
            uses[..self.uses.len()].copy_from_slice(&self.uses);
            self.uses = uses;
        }
        let first = frame.0 as usize;
        let Some(uses) = self.uses.get_mut(first..first + frames as usize) else { return };
        for (number, word) in uses.iter_mut().enumerate() {
            *word = of.map_or(0, |of| Use { va: of.va.offset((number as u64) << 12), ..of }.pack());
        }
    }

    /// What a frame is used for.
    #[inline]
    pub fn use_of(&self, frame: Pfn) -> Option<Use> {
        Use::unpack(*self.uses.get(frame.0 as usize)?)
    }

    /// Whether a frame holds data of this process.
    #[inline]
    pub fn is_own(&self, frame: Pfn, asid: Asid) -> bool {
        self.use_of(frame).is_some_and(|of| of.asid == asid && of.kind.is_data())
    }

    /// The share of frames of a kind that a tier gave; 0 before any was given.
    pub fn share(&self, kind: Kind, tier: usize) -> f64 {
        let given = &self.given[kind as usize];
        let all: u64 = given.iter().sum();
        if all == 0 { 0.0 } else { given[tier] as f64 / all as f64 }
    }

    /// How much of what was given to these kinds was of one.
    pub fn weight(&self, kind: Kind, kinds: &[Kind]) -> f64 {
        let given = |kind: Kind| self.given[kind as usize].iter().sum::<u64>() << kind.order();
        let all: u64 = kinds.iter().map(|kind| given(*kind)).sum();
        if all == 0 { 0.0 } else { given(kind) as f64 / all as f64 }
    }
}

/// What kernels tell each other and the hardware.
#[derive(Debug)]
pub struct Told {
    /// Of the machine's memory: by the kernel, or by the hypervisor of virtual machines.
    pub machine: Space,
    /// Of guest-physical memory: by a guest's kernel.
    pub guest: Space,
    /// Changes with what was given.
    pub version: u64,
    /// Guest frames, and how many, that the guest uses no more.
    pub released: Vec<(Pfn, u64)>,
}

impl Default for Told {
    /// A guest's runs stay together: the hypervisor's entries for neighbours then share lines, as those of contiguous guest memory do.
    fn default() -> Told {
        let guest = Space { in_runs: true, ..Space::default() };
        Told { machine: Space::default(), guest, version: 0, released: Vec::new() }
    }
}

impl Told {
    /// Guest-physical memory, or the machine's.
    pub fn space(&mut self, guest: bool) -> &mut Space {
        if guest { &mut self.guest } else { &mut self.machine }
    }

    /// Frames have no use any more; those of a guest go back to the hypervisor.
    pub fn freed(&mut self, guest: bool, frame: Pfn, frames: u64) {
        self.space(guest).set_use(frame, frames, None);
        if guest {
            self.released.push((frame, frames));
        }
    }
}

/// The probability that one of `tiers` tiers finds a free frame where a share `pressure` is taken (Sec. 5.1.1): `1 - p^N`.
pub fn expected_success(pressure: f64, tiers: u32) -> f64 {
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
        // Runs: neighbours are neighbours, and runs spread evenly.
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
    fn uses_of_frames_are_told_as_they_were_set() {
        let mut space = Space { frames: 2048, ..Space::default() };
        let va = VirtAddr((1 << 56) + (5 << 21));
        let large = Use { kind: Kind::Large, asid: Asid(u16::MAX), va };
        space.set_use(Pfn(512), 512, Some(large));
        assert_eq!(space.use_of(Pfn(513)), Some(Use { va: va.offset(4096), ..large }));
        assert!(space.is_own(Pfn(1023), Asid(u16::MAX)) && !space.is_own(Pfn(1024), Asid(u16::MAX)));
        let leaf = Use { kind: Kind::Leaf, asid: Asid(3), va };
        space.set_use(Pfn(7), 1, Some(leaf));
        assert_eq!(space.use_of(Pfn(7)), Some(leaf));
        assert!(!space.is_own(Pfn(7), Asid(3)), "a node is nobody's data");
        space.set_use(Pfn(512), 512, None);
        assert_eq!((space.use_of(Pfn(512)), space.use_of(Pfn(5000))), (None, None));
    }
}
