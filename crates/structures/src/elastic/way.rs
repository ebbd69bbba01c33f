//! One way of an elastic table: how large it is, how full, and how far its resize has come.

/// Which of a way's two tables: while a resize goes on out of place there are two, otherwise only [`Side::Old`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The table that there always is; the one being left while a resize goes on.
    Old,
    /// The table that a resize out of place moves into.
    New,
}

/// A slot of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the way.
    pub way: usize,
    /// Which of its tables.
    pub side: Side,
    /// Number of the slot in it.
    pub index: u64,
}

/// A resize that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Slots when it is done: twice or half of what there are.
    pub to: u64,
    /// The rehash pointer: slots of the old table below it have been moved (ME-HPT Sec. II-B, the migrated region).
    pub pointer: u64,
    /// Old and new share their memory (ME-HPT Sec. IV-C).
    pub in_place: bool,
}

/// What tells where a way's entries are: all that hardware needs to know of it, its memory apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Slots of the (old) table, a power of two; 0 if the way does not exist yet.
    pub slots: u64,
    /// The resize that is under way.
    pub resize: Option<Resize>,
}

impl Way {
    /// Slots when the resize that is under way, if any, is done.
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

    /// The one slot in which an entry of this hash can be (ME-HPT Sec. IV-C "Other Operations"): by the old size if
    /// that lies in the live region, else by the new one, which has one more or one fewer bit of the same hash.
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
