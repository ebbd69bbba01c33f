//! One hash function, a seed for each tier: what the kernel tries in order, and the hardware guesses (Revelator Sec. 5.1, 5.2, 5.3.1).

use ambulator_base::{Asid, PageSize, Pfn, VirtAddr, mix64};

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
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Small, Kind::Large, Kind::Leaf];

    /// The kind of a page of that size, if it is hashed.
    pub fn of(size: PageSize) -> Option<Kind> {
        match size {
            PageSize::SIZE_4K => Some(Kind::Small),
            PageSize::SIZE_2M => Some(Kind::Large),
            _ => None,
        }
    }

    /// log2 of its frames.
    pub fn order(self) -> u32 {
        if self == Kind::Large { 9 } else { 0 }
    }
}

/// The frame that a tier gives to what holds `va`, among `frames` frames.
#[inline]
pub fn frame(kind: Kind, va: VirtAddr, tier: usize, frames: u64) -> Pfn {
    let number = va.0 >> if kind == Kind::Small { 12 } else { 21 };
    let hash = mix64(number ^ (kind as u64 + 1) << 56 ^ (tier as u64) << 48);
    let blocks = frames >> kind.order();
    Pfn((((u128::from(hash) * u128::from(blocks)) >> 64) as u64) << kind.order())
}

/// What the kernel has done, as it tells the hardware: how often each tier gave frames, and whose they are.
#[derive(Debug, Default)]
pub struct Told {
    /// 4 KiB frames of the machine; 0 until the kernel knows.
    pub frames: u64,
    /// By kind: frames given by each tier, and, last, by the allocator's own choice.
    pub given: [[u64; MOST_TIERS + 1]; 3],
    /// Changes with `given`.
    pub version: u64,
    /// Owners of data frames, one more than their identifier; 0 for nobody. For counting, and for confining, speculation.
    owners: Vec<u16>,
}

impl Told {
    /// A page's frames belong to a process, or to nobody.
    pub fn own(&mut self, frame: Pfn, frames: u64, owner: Option<Asid>) {
        if self.owners.len() < self.frames as usize {
            self.owners.resize(self.frames as usize, 0);
        }
        let range = frame.0 as usize..(frame.0 + frames) as usize;
        if let Some(owners) = self.owners.get_mut(range) {
            owners.fill(owner.map_or(0, |asid| asid.0.wrapping_add(1)));
        }
    }

    /// Whether a frame is this process's.
    #[inline]
    pub fn is_own(&self, frame: Pfn, asid: Asid) -> bool {
        self.owners.get(frame.0 as usize) == Some(&asid.0.wrapping_add(1))
    }

    /// The share of frames of a kind that a tier gave; 0 before any was given.
    pub fn share(&self, kind: Kind, tier: usize) -> f64 {
        let given = &self.given[kind as usize];
        let all: u64 = given.iter().sum();
        if all == 0 { 0.0 } else { given[tier] as f64 / all as f64 }
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
        assert!((expected_success(0.4, 3) - 0.936).abs() < 1e-9);
    }
}
