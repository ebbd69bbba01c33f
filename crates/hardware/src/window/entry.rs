//! What a core's window knows of a record in flight.

use super::awaited_walk::AwaitedWalk;
use crate::Served;
use crate::cycle_stack::Cause;
use crate::events::EventKind;
use ambulator_base::{AccessKind, Cycle, LINE_BYTES, PhysAddr, Record, RecordKind, State, VirtAddr};

/// Flag of a value that is not known yet; the other bits are the place of the record that produces it.
pub(super) const AWAITED: u64 = 1 << 63;
/// No record.
pub(super) const NONE: u32 = u32::MAX;

/// A record in flight. Its parts fill two of the sim host's cache lines. Only those are written that its kind
/// and its state need; the others are what an earlier record left there.
#[derive(Clone, Copy, Debug, Default, State)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub(super) pc: VirtAddr,
    pub(super) va: VirtAddr,
    /// Its instructions, less one. (An explicit fetch without a gap takes no place.)
    pub(super) more: u32,
    /// Position in the stream of records; the low bits.
    pub(super) position: u32,
    pub(super) size: u8,
    pub(super) kind: RecordKind,
    /// Operands that are not known yet.
    pub(super) unknown: u8,
    /// A branch that was predicted wrongly.
    pub(super) mispredicted: bool,
    /// How it was translated.
    pub(super) translation: u8,
    /// What served a load's line.
    pub(super) served: Served,
    /// Why it dispatched late, if it did.
    pub(super) late: Cause,
    /// A load or a store that crosses a line.
    pub(super) splits: bool,
    /// Index of the record's instruction, counted from 1.
    pub(super) index: u64,
    /// Slot of dispatch. When all records before this one have committed: the slot `base` such that the
    /// `k`-th instruction of the gap commits at `base + k`.
    pub(super) base: u64,
    /// Cycle in which the record can commit, or `UNKNOWN`. Once it has committed: the slot in which it did.
    pub(super) done: u64,
    /// Cycle from which on its operands are known, as far as they are known; then the cycle of its issue.
    pub(super) issued: u64,
    /// When its address is translated; before that, the cycle of dispatch.
    pub(super) translated: u64,
    /// A load that computes with a prediction: the cycle before which it does not commit; once its value is
    /// ready, the cycles between. Else 0.
    pub(super) verified: u64,
    /// Cycle in which a store leaves the store queue, or a load's value arrives from there; else `UNKNOWN`.
    pub(super) drained: u64,
    /// Where its data are.
    pub(super) at: PhysAddr,
    /// Where the second line is, of a store that crosses a line.
    pub(super) second: PhysAddr,
    /// The first operand that waits for this record's value, and the next ones that wait for the same values
    /// as this record's operands: `2 * place + operand`.
    pub(super) next: [u32; 2],
    pub(super) waiter: u32,
    /// A load: the number of the youngest older store to the same word, or `NONE`. A store: its place in the
    /// store queue.
    pub(super) link: u32,
    /// The page walk that it waits for to be translated, until it asks for its line.
    pub(super) walk: AwaitedWalk,
}

impl Entry {
    /// Its instructions.
    #[inline(always)]
    pub(super) fn instructions(&self) -> u64 {
        u64::from(self.more) + 1
    }

    /// Whether it is a load or a store.
    #[inline(always)]
    pub(super) fn is_data(&self) -> bool {
        matches!(self.kind, RecordKind::Load | RecordKind::Store)
    }

    /// The event in which it asks for its line when it is translated.
    #[inline(always)]
    pub(super) fn asks(&self) -> EventKind {
        if self.walk.is_joined() { EventKind::Join } else { EventKind::Ask }
    }

    /// The record, a load or a store, without its dependences.
    #[inline(always)]
    pub(super) fn record(&self) -> Record {
        let Entry { pc, va, more, size, kind, .. } = *self;
        Record { pc, va, gap: more, dep1: 0, dep2: 0, size, kind }
    }
}

/// A store in the table of forwarding stores, which is direct-mapped by 8-byte word.
#[derive(Clone, Copy, Debug, Default, State)]
pub(super) struct Forward {
    pub(super) word: u64,
    pub(super) number: u32,
}

/// Entries of the table of forwarding stores.
pub(super) const FORWARDS: usize = 128;

/// A record in flight as the machine sees it.
#[derive(Clone, Copy, Debug)]
pub struct InFlight {
    /// The record, without its dependences.
    pub record: Record,
    /// When it issued.
    pub issued: Cycle,
    /// Where its data are, once it is translated.
    pub at: PhysAddr,
    /// Where its second line is, if it is a store that crosses a line and asks at commit.
    pub second: PhysAddr,
    /// When both are known.
    pub translated: Cycle,
    /// A load does not commit before: it computes with an address that is verified only then.
    pub verified: Cycle,
    /// How it was translated, in the low three bits: 0 by the L1 TLB, 1 plus the [`Served`] of the slowest load of the
    /// walk or the lookaside, [`crate::BY_L2_TLB`] or [`crate::BY_JOINED_WALK`]. The others are the machine's.
    pub translation: u8,
    /// What it waits for in main memory to be translated.
    pub walk: AwaitedWalk,
}

/// A load or a store that accesses one line, or two, as the machine sees it when one of its events happens.
#[derive(Clone, Copy, Debug, Default, State)]
pub struct InFlightAccess {
    /// The instruction.
    pub pc: VirtAddr,
    /// What it accesses.
    pub va: VirtAddr,
    /// Whether it is a store.
    pub is_store: bool,
    /// Whether it crosses into the next line, and where that is.
    pub crosses: bool,
    /// See `crosses`.
    pub second: PhysAddr,
    /// When it issued, where its data are, and when that is known: once it is translated.
    pub issued: Cycle,
    /// See `issued`.
    pub at: PhysAddr,
    /// See `issued`.
    pub translated: Cycle,
    /// As [`InFlight::translation`].
    pub translation: u8,
    /// As [`InFlight::walk`].
    pub walk: AwaitedWalk,
}

impl InFlight {
    /// A load or a store that accesses one line, or two of a page.
    pub fn of_one_page(&self) -> InFlightAccess {
        self.of_two_pages(PhysAddr((self.at.line() + 1) * LINE_BYTES))
    }

    /// A load or a store that accesses one line, or two, of which `second` is the second.
    pub fn of_two_pages(&self, second: PhysAddr) -> InFlightAccess {
        let InFlight { record, issued, at, translated, translation, walk, .. } = *self;
        let (Record { pc, va, .. }, is_store, crosses) = (record, record.kind == RecordKind::Store, splits(&record));
        InFlightAccess { pc, va, is_store, crosses, second, issued, at, translated, translation, walk }
    }
}

impl InFlightAccess {
    /// A load of one line, `record`, that issued at `issued` and that a TLB translated to `at` at `translated`.
    #[inline(always)]
    pub fn translated_load(record: &Record, issued: Cycle, at: PhysAddr, translated: Cycle) -> InFlightAccess {
        InFlightAccess { pc: record.pc, va: record.va, issued, at, translated, ..InFlightAccess::default() }
    }

    /// Whether it loads or stores.
    #[inline(always)]
    pub fn kind(&self) -> AccessKind {
        if self.is_store { AccessKind::Store } else { AccessKind::Load }
    }
}

/// Whether a load or a store accesses two lines.
#[inline(always)]
pub(super) fn splits(record: &Record) -> bool {
    let last = record.va.0.wrapping_add(u64::from(record.size.max(1)) - 1);
    (last ^ record.va.0) >> 6 != 0
}
