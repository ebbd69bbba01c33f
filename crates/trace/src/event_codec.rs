//! VM events as bytes: a tag, then the fields as varints in the order of their declaration.

use crate::varint::{self, Cursor};
use ambulator_base::{Advice, MapKind, PageSize, PhysAddr, ProcessId, Protection, VirtAddr, VmEvent};

const MAP: u8 = 0;
const UNMAP: u8 = 1;
const PROTECT: u8 = 2;
const REMAP: u8 = 3;
const ADVISE: u8 = 4;
const BRK: u8 = 5;
const FORK: u8 = 6;
const EXIT: u8 = 7;
const SWITCH: u8 = 8;
const TOUCH: u8 = 9;
const REGION_BEGIN: u8 = 10;
const REGION_END: u8 = 11;
const PLACE: u8 = 12;

/// Bits of a physical address: the most that x86-64 has.
pub(crate) const PHYSICAL_BITS: u32 = 52;

fn rights(protection: Protection) -> u64 {
    u64::from(protection.read) | u64::from(protection.write) << 1 | u64::from(protection.execute) << 2
}

fn protection(bits: u64) -> Option<Protection> {
    (bits < 8).then_some(Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 })
}

fn map_kind(kind: MapKind) -> u64 {
    match kind {
        MapKind::Anonymous => 0,
        MapKind::File => 1,
        MapKind::Heap => 2,
        MapKind::Stack => 3,
    }
}

fn advice_number(advice: Advice) -> u64 {
    match advice {
        Advice::Huge => 0,
        Advice::NoHuge => 1,
        Advice::DontNeed => 2,
        Advice::Free => 3,
    }
}

/// Appends one event.
pub(crate) fn put(out: &mut Vec<u8>, event: &VmEvent) {
    let mut fields = |tag: u8, values: &[u64]| {
        out.push(tag);
        values.iter().for_each(|&value| varint::put(out, value));
    };
    match *event {
        VmEvent::Map { start, len, protection, kind } => {
            fields(MAP, &[start.0, len, rights(protection), map_kind(kind)]);
        }
        VmEvent::Unmap { start, len } => fields(UNMAP, &[start.0, len]),
        VmEvent::Protect { start, len, protection } => fields(PROTECT, &[start.0, len, rights(protection)]),
        VmEvent::Remap { old, old_len, new, new_len } => fields(REMAP, &[old.0, old_len, new.0, new_len]),
        VmEvent::Advise { start, len, advice } => fields(ADVISE, &[start.0, len, advice_number(advice)]),
        VmEvent::Brk { end } => fields(BRK, &[end.0]),
        VmEvent::Fork { child } => fields(FORK, &[u64::from(child.0)]),
        VmEvent::Exit { process } => fields(EXIT, &[u64::from(process.0)]),
        VmEvent::Switch { process, thread } => fields(SWITCH, &[u64::from(process.0), u64::from(thread)]),
        VmEvent::Touch { start, len, write } => fields(TOUCH, &[start.0, len, u64::from(write)]),
        VmEvent::RegionBegin => fields(REGION_BEGIN, &[]),
        VmEvent::RegionEnd => fields(REGION_END, &[]),
        VmEvent::Place { start, len, at, page } => fields(PLACE, &[start.0, len, at.0, u64::from(page.shift())]),
    }
}

/// Most bytes of a place.
pub(crate) const LONGEST_PLACE: u64 = 1 << 30;

/// Whether a place is one: whole pages at both addresses, at most [`LONGEST_PLACE`], and a physical address of
/// at most [`PHYSICAL_BITS`].
pub(crate) fn is_place(start: VirtAddr, len: u64, at: PhysAddr, page: PageSize) -> bool {
    let aligned = (start.0 | len | at.0) & (page.bytes() - 1) == 0;
    aligned && (1..=LONGEST_PLACE).contains(&len) && at.0.checked_add(len).is_some_and(|end| end <= 1 << PHYSICAL_BITS)
}

/// Decodes one event; `None` if the bytes are not one, or a range runs past the end of the address space.
pub(crate) fn take(cursor: &mut Cursor<'_>) -> Option<VmEvent> {
    let tag = cursor.byte()?;
    let mut value = || cursor.value();
    let process = |number: u64| u32::try_from(number).ok().map(ProcessId);
    let event = match tag {
        MAP => VmEvent::Map {
            start: VirtAddr(value()?),
            len: value()?,
            protection: protection(value()?)?,
            kind: match value()? {
                0 => MapKind::Anonymous,
                1 => MapKind::File,
                2 => MapKind::Heap,
                3 => MapKind::Stack,
                _ => return None,
            },
        },
        UNMAP => VmEvent::Unmap { start: VirtAddr(value()?), len: value()? },
        PROTECT => VmEvent::Protect { start: VirtAddr(value()?), len: value()?, protection: protection(value()?)? },
        REMAP => {
            VmEvent::Remap { old: VirtAddr(value()?), old_len: value()?, new: VirtAddr(value()?), new_len: value()? }
        }
        ADVISE => VmEvent::Advise {
            start: VirtAddr(value()?),
            len: value()?,
            advice: match value()? {
                0 => Advice::Huge,
                1 => Advice::NoHuge,
                2 => Advice::DontNeed,
                3 => Advice::Free,
                _ => return None,
            },
        },
        BRK => VmEvent::Brk { end: VirtAddr(value()?) },
        FORK => VmEvent::Fork { child: process(value()?)? },
        EXIT => VmEvent::Exit { process: process(value()?)? },
        SWITCH => VmEvent::Switch { process: process(value()?)?, thread: u32::try_from(value()?).ok()? },
        TOUCH => VmEvent::Touch {
            start: VirtAddr(value()?),
            len: value()?,
            write: match value()? {
                0 => false,
                1 => true,
                _ => return None,
            },
        },
        REGION_BEGIN => VmEvent::RegionBegin,
        REGION_END => VmEvent::RegionEnd,
        PLACE => {
            let (start, len, at) = (VirtAddr(value()?), value()?, PhysAddr(value()?));
            let shift = u32::try_from(value()?).ok().filter(|shift| (12..=30).contains(shift))?;
            let page = PageSize::from_shift(shift);
            is_place(start, len, at, page).then_some(VmEvent::Place { start, len, at, page })?
        }
        _ => return None,
    };
    ranges_of(&event).iter().all(|&(start, len)| start.checked_add(len).is_some()).then_some(event)
}

/// The address ranges in an event, as `(first address, bytes)`; unused ones are `(0, 0)`.
pub(crate) fn ranges_of(event: &VmEvent) -> [(u64, u64); 2] {
    match *event {
        VmEvent::Map { start, len, .. }
        | VmEvent::Unmap { start, len }
        | VmEvent::Protect { start, len, .. }
        | VmEvent::Advise { start, len, .. }
        | VmEvent::Place { start, len, .. }
        | VmEvent::Touch { start, len, .. } => [(start.0, len), (0, 0)],
        VmEvent::Remap { old, old_len, new, new_len } => [(old.0, old_len), (new.0, new_len)],
        VmEvent::Brk { end } => [(end.0, 0), (0, 0)],
        _ => [(0, 0), (0, 0)],
    }
}
