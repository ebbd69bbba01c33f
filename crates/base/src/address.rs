//! Addresses, time and the small identifiers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a cache line, of a DRAM burst, and of a walker's line load.
pub const LINE_BYTES: u64 = 64;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal, $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ambulator_derive::State)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, $format), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

word!(
    /// A virtual address, in bytes. It is not sign-extended: bits above the modelled width are zero.
    VirtAddr(u64), "va:", "{:#x}"
);
word!(
    /// A physical address, in bytes.
    PhysAddr(u64), "pa:", "{:#x}"
);
word!(
    /// A point in simulated time or a duration, in core clock cycles.
    Cycle(u64), "cycle:", "{}"
);
word!(
    /// An address-space identifier, the tag of a TLB entry: no two live address spaces have the same.
    Asid(u16), "asid:", "{}"
);
word!(
    /// A process of the modelled kernel: an index that a run never reuses.
    ProcessId(u32), "pid:", "{}"
);
word!(
    /// A simulated core, counted from zero.
    CoreId(u8), "core:", "{}"
);

impl Asid {
    /// Bits of an identifier, as structures store it in their tags.
    pub const BITS: u32 = 14;
    /// The largest identifier.
    pub const MAX: Asid = Asid((1 << Self::BITS) - 1);
}

impl VirtAddr {
    /// The 4 KiB page that holds this address.
    #[inline(always)]
    pub fn vpn(self) -> crate::Vpn {
        crate::Vpn(self.0 >> crate::FRAME_SHIFT)
    }

    /// This address plus `bytes`.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, bytes: u64) -> VirtAddr {
        VirtAddr(self.0 + bytes)
    }

    /// Rounds down to a page boundary of `size`.
    #[inline(always)]
    #[must_use]
    pub fn align_down(self, size: crate::PageSize) -> VirtAddr {
        VirtAddr(self.0 & !(size.bytes() - 1))
    }

    /// Rounds up to a page boundary of `size`.
    #[inline(always)]
    #[must_use]
    pub fn align_up(self, size: crate::PageSize) -> VirtAddr {
        VirtAddr((self.0 + size.bytes() - 1) & !(size.bytes() - 1))
    }
}

impl PhysAddr {
    /// The 4 KiB frame that holds this address.
    #[inline(always)]
    pub fn pfn(self) -> crate::Pfn {
        crate::Pfn(self.0 >> crate::FRAME_SHIFT)
    }

    /// The number of the 64-byte line that holds this address.
    #[inline(always)]
    pub fn line(self) -> u64 {
        self.0 / LINE_BYTES
    }

    /// This address plus `bytes`.
    #[inline(always)]
    #[must_use]
    pub fn offset(self, bytes: u64) -> PhysAddr {
        PhysAddr(self.0 + bytes)
    }
}

impl Cycle {
    /// The point `cycles` cycles later.
    #[inline(always)]
    #[must_use]
    pub fn after(self, cycles: u64) -> Cycle {
        Cycle(self.0 + cycles)
    }

    /// Cycles from `earlier` to this point, or zero if `earlier` is later.
    #[inline(always)]
    pub fn since(self, earlier: Cycle) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
