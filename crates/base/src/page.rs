//! Pages, frames and page sizes.

use crate::{PhysAddr, State, VirtAddr};
use serde::{Deserialize, Serialize};
use std::fmt;

/// log2 of the bytes of a base frame.
pub const FRAME_SHIFT: u32 = 12;
/// Bytes of a base frame (4 KiB).
pub const FRAME_BYTES: u64 = 1 << FRAME_SHIFT;

/// A virtual page number, in units of 4 KiB whatever the size of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, State)]
#[serde(transparent)]
pub struct Vpn(pub u64);

/// A physical frame number, in units of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, State)]
#[serde(transparent)]
pub struct Pfn(pub u64);

/// A page size: any power of two from 4 KiB to 1 GiB (x86-64 has three of them).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, State)]
#[serde(transparent)]
pub struct PageSize(u8);

impl PageSize {
    /// 4 KiB, the base page.
    pub const SIZE_4K: PageSize = PageSize(12);
    /// 2 MiB, a page-directory leaf.
    pub const SIZE_2M: PageSize = PageSize(21);
    /// 1 GiB, a page-directory-pointer leaf.
    pub const SIZE_1G: PageSize = PageSize(30);

    /// The size of `1 << shift` bytes.
    ///
    /// # Panics
    /// When `shift` is outside 12 to 30, which is a bug: user input is validated before.
    #[inline(always)]
    pub fn from_shift(shift: u32) -> PageSize {
        assert!((12..=30).contains(&shift), "page size 2^{shift} is outside 4 KiB to 1 GiB");
        PageSize(shift as u8)
    }

    /// log2 of the size in bytes.
    #[inline(always)]
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// The size in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The number of 4 KiB frames of a page of this size.
    #[inline(always)]
    pub const fn frames(self) -> u64 {
        1 << (self.0 as u32 - FRAME_SHIFT)
    }

    /// The buddy order of a page of this size: log2 of its frames.
    #[inline(always)]
    pub const fn order(self) -> u32 {
        self.0 as u32 - FRAME_SHIFT
    }
}

/// The base page.
impl Default for PageSize {
    fn default() -> Self {
        PageSize::SIZE_4K
    }
}

impl fmt::Debug for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s < 20 => write!(f, "{} KiB", 1u64 << (s - 10)),
            s if s < 30 => write!(f, "{} MiB", 1u64 << (s - 20)),
            s => write!(f, "{} GiB", 1u64 << (s - 30)),
        }
    }
}

/// A virtual page. `start` is aligned to `size`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, State)]
pub struct Page {
    /// Lowest address of the page.
    pub start: VirtAddr,
    /// Its size.
    pub size: PageSize,
}

impl Page {
    /// The page of `size` that holds `va`.
    #[inline(always)]
    pub fn containing(va: VirtAddr, size: PageSize) -> Page {
        Page { start: va.align_down(size), size }
    }

    /// The first address after the page.
    #[inline(always)]
    pub fn end(self) -> VirtAddr {
        self.start.offset(self.size.bytes())
    }
}

impl Vpn {
    /// Lowest address of the page.
    #[inline(always)]
    pub fn start(self) -> VirtAddr {
        VirtAddr(self.0 << FRAME_SHIFT)
    }

    /// The first 4 KiB page of the page of `size` around this one.
    #[inline(always)]
    #[must_use]
    pub fn align_down(self, size: PageSize) -> Vpn {
        Vpn(self.0 & !(size.frames() - 1))
    }
}

impl Pfn {
    /// Lowest address of the frame.
    #[inline(always)]
    pub fn start(self) -> PhysAddr {
        PhysAddr(self.0 << FRAME_SHIFT)
    }

    /// The frame `frames` frames higher.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, frames: u64) -> Pfn {
        Pfn(self.0 + frames)
    }
}
