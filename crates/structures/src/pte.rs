//! The x86-64 page-table entry, for every table that keeps its translations in that format.

use ambulator_base::watch::{Field, Meaning};
use ambulator_base::{PageSize, Pfn, PhysAddr, State};
use ambulator_mmu::Translation;
use ambulator_os::PteFlags;

/// An 8-byte entry as stored in memory (Intel SDM volume 3, section 4.5), with 46-bit physical addresses.
///
/// Bits 9 to 11 and 52 to 62 are ignored by x86-64 hardware and free for a design's own use:
/// [`Pte::LOW_SOFTWARE`] and [`Pte::HIGH_SOFTWARE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
#[repr(transparent)]
pub struct Pte(pub u64);

impl Pte {
    /// The entry translates, or points to a table.
    pub const PRESENT: u64 = 1 << 0;
    /// Stores are allowed.
    pub const WRITABLE: u64 = 1 << 1;
    /// User mode may access the page.
    pub const USER: u64 = 1 << 2;
    /// Accessed.
    pub const ACCESSED: u64 = 1 << 5;
    /// Dirty.
    pub const DIRTY: u64 = 1 << 6;
    /// PS: the entry maps a large page instead of pointing to a table.
    pub const LARGE: u64 = 1 << 7;
    /// Fetches are not allowed.
    pub const NO_EXECUTE: u64 = 1 << 63;
    /// Bits 12 to 45: the frame's address.
    pub const FRAME: u64 = ((1 << 46) - 1) & !0xfff;
    /// Bit 9, a software bit: a range translation covers the page too (RMM Sec. 4.3).
    pub const RANGED: u64 = 1 << 9;
    /// Bits 9 to 11, free for software; [`Pte::RANGED`] is the first of them.
    pub const LOW_SOFTWARE: u64 = 0b111 << 9;
    /// Bits 52 to 62, free for software.
    pub const HIGH_SOFTWARE: u64 = ((1 << 11) - 1) << 52;

    /// An entry that maps a page at `frame`; `large` sets PS.
    #[inline(always)]
    pub fn leaf(frame: Pfn, flags: PteFlags, large: bool) -> Pte {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        Pte(Pte::PRESENT
            | (frame.start().0 & Pte::FRAME)
            | bit(flags.writable, Pte::WRITABLE)
            | bit(flags.user, Pte::USER)
            | bit(flags.accessed, Pte::ACCESSED)
            | bit(flags.dirty, Pte::DIRTY)
            | bit(flags.ranged, Pte::RANGED)
            | bit(!flags.executable, Pte::NO_EXECUTE)
            | bit(large, Pte::LARGE))
    }

    /// An entry that points to a table at `frame`. As in Linux (`_PAGE_TABLE`), it grants every right, so the
    /// leaf decides. It is accessed and dirty from the start, so walks do not write to it.
    #[inline(always)]
    pub fn table(frame: Pfn) -> Pte {
        Pte(frame.start().0 | Pte::PRESENT | Pte::WRITABLE | Pte::USER | Pte::ACCESSED | Pte::DIRTY)
    }

    /// Whether the entry translates or points to a table.
    #[inline(always)]
    pub fn present(self) -> bool {
        self.0 & Pte::PRESENT != 0
    }

    /// Whether PS is set.
    #[inline(always)]
    pub fn large(self) -> bool {
        self.0 & Pte::LARGE != 0
    }

    /// The frame in the entry.
    #[inline(always)]
    pub fn frame(self) -> Pfn {
        PhysAddr(self.0 & Pte::FRAME).pfn()
    }

    /// The architectural flags of a leaf.
    #[inline(always)]
    pub fn flags(self) -> PteFlags {
        PteFlags {
            writable: self.0 & Pte::WRITABLE != 0,
            executable: self.0 & Pte::NO_EXECUTE == 0,
            user: self.0 & Pte::USER != 0,
            accessed: self.0 & Pte::ACCESSED != 0,
            dirty: self.0 & Pte::DIRTY != 0,
            ranged: self.0 & Pte::RANGED != 0,
        }
    }

    /// The accessed and dirty bits that an access must still set. Only a store that the entry allows sets
    /// dirty.
    #[inline(always)]
    pub fn missing_bits(self, store: bool) -> u64 {
        let dirty = if store && self.0 & Pte::WRITABLE != 0 { Pte::DIRTY } else { 0 };
        (Pte::ACCESSED | dirty) & !self.0
    }

    /// The fields of the entry, as the architecture names them.
    pub fn fields(self) -> Vec<Field> {
        let flags = self.flags();
        if !self.present() {
            return Meaning::default().field("present", false).address("word", self.0).into_fields();
        }
        let fields = Meaning::default()
            .field("present", true)
            .address("frame", self.frame().0)
            .field("writable", flags.writable)
            .field("executable", flags.executable)
            .field("accessed", flags.accessed)
            .field("dirty", flags.dirty)
            .field("PS", self.large());
        if flags.ranged { fields.field("range bit (RMM Sec. 4.3)", true) } else { fields }.into_fields()
    }

    /// The translation that hardware takes from the leaf of a page of `size`.
    #[inline(always)]
    pub fn translation(self, size: PageSize) -> Translation {
        Translation {
            frame: self.frame(),
            size,
            writable: self.0 & Pte::WRITABLE != 0,
            executable: self.0 & Pte::NO_EXECUTE == 0,
            dirty: self.0 & Pte::DIRTY != 0,
            ranged: self.0 & Pte::RANGED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_where_the_architecture_has_them() {
        let flags =
            PteFlags { writable: true, executable: false, user: true, accessed: false, dirty: false, ranged: false };
        assert_eq!(Pte::leaf(Pfn(0x12345), flags, false).0, 0x8000_0000_1234_5007);
        assert_eq!(Pte::leaf(Pfn(0x200), PteFlags::default(), true).0, 0x8000_0000_0020_0081);
        assert_eq!(Pte::table(Pfn(1)).0, 0x1067);
    }

    proptest! {
        #[test]
        fn an_entry_round_trips(
            frame in 0u64..1 << 34,
            bits in any::<[bool; 5]>(),
            large in any::<bool>(),
            junk in any::<u64>(),
        ) {
            let [writable, executable, user, accessed, dirty] = bits;
            let flags = PteFlags { writable, executable, user, accessed, dirty, ranged: junk & Pte::RANGED != 0 };
            let software = junk & (Pte::LOW_SOFTWARE | Pte::HIGH_SOFTWARE);
            let pte = Pte(Pte::leaf(Pfn(frame), flags, large).0 | software);
            prop_assert!(pte.present());
            prop_assert_eq!((pte.frame(), pte.flags(), pte.large()), (Pfn(frame), flags, large));
            prop_assert_eq!(pte.missing_bits(false), if accessed { 0 } else { Pte::ACCESSED });
            let dirt = if writable && !dirty { Pte::DIRTY } else { 0 };
            prop_assert_eq!(pte.missing_bits(true) & Pte::DIRTY, dirt);
        }
    }
}
