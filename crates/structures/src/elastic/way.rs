//! One way of an elastic table: its size and the progress of its resize.

use ambulator_base::State;

/// Which of a way's two tables. There are two during a resize out of place, otherwise only [`Side::Old`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub enum Side {
    /// The table that always exists; during a resize, the source.
    #[default]
    Old,
    /// The destination of a resize out of place.
    New,
}

/// A slot of a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Place {
    /// Number of the way.
    pub way: usize,
    /// Which of its tables.
    pub side: Side,
    /// Number of the slot in it.
    pub index: u64,
}

/// A resize in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Resize {
    /// Slots after the resize: twice or half of the current ones.
    pub to: u64,
    /// The rehash pointer: slots of the old table below it have been moved (ME-HPT Sec. II-B, the migrated
    /// region).
    pub pointer: u64,
    /// Old and new share their memory (ME-HPT Sec. IV-C).
    pub in_place: bool,
}

/// The size and resize of a way: with the addresses of its memory, all that hardware needs to locate an
/// entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Way {
    /// Slots of the (old) table, a power of two; 0 if the way does not exist yet.
    pub slots: u64,
    /// The current resize.
    pub resize: Option<Resize>,
}

impl Way {
    /// Slots after the current resize, if any.
    #[inline]
    pub fn target(&self) -> u64 {
        self.resize.map_or(self.slots, |resize| resize.to)
    }

    /// Whether it is growing.
    pub fn grows(&self) -> bool {
        self.target() > self.slots
    }

    /// Whether it is shrinking.
    pub fn shrinks(&self) -> bool {
        self.target() < self.slots
    }

    /// The only slot that an entry with this hash can be in (ME-HPT Sec. IV-C "Other Operations"). The old
    /// size gives the slot if that is in the live region. Otherwise the new size does, with one more or one
    /// fewer bit of the same hash.
    #[inline(always)]
    pub fn locate(&self, hash: u32) -> (Side, u64) {
        let old = u64::from(hash) & (self.slots.wrapping_sub(1));
        match self.resize {
            Some(resize) if old < resize.pointer => {
                let side = if resize.in_place { Side::Old } else { Side::New };
                (side, u64::from(hash) & (resize.to - 1))
            }
            _ => (Side::Old, old),
        }
    }
}
