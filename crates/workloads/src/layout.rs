//! The layout of a program's address space, and the VM events that create it.
//!
//! A position-independent executable on x86-64 Linux without address randomisation (`setarch -R`), as
//! `/proc/self/maps` shows it: the image at `0x5555_5555_4000`, the heap that `brk` moves right after it,
//! shared objects below `0x7fff_f800_0000`, anonymous mappings top-down below those, the stack below
//! `0x7fff_ffff_f000`. Large arrays come from `malloc`, which maps them one by one; the C library's header
//! makes them begin 16 bytes into their mapping.

use crate::permutation::Permutation;
use ambulator_base::{FRAME_BYTES, MapKind, PageSize, Protection, VirtAddr, VmEvent};
use std::collections::BTreeMap;

/// First address of the program's instructions. The compiled program's code lies from here on.
pub const TEXT: u64 = 0x5555_5555_5000;
/// Bytes of glibc's header before a block that has its own mapping.
pub const MMAP_HEADER: u64 = 16;

/// First address above the main thread's stack.
const STACK_END: u64 = 0x7fff_ffff_f000;
/// Where the bss, or the heap of a program without one, begins: right after the program's image.
const HEAP_START: u64 = 0x5555_5555_9000;
/// Lowest address that the shared objects take; anonymous mappings grow down from here.
const MMAP_END: u64 = 0x7fff_f7dd_2000;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;
const EXECUTE: Protection = Protection::READ_EXECUTE;

/// The image, the C library and the loader: first address, 4 KiB pages, protection, and whether they map a
/// file. Sizes of Debian 12's glibc 2.36.
const IMAGE: &[(u64, u64, Protection, MapKind)] = &[
    (0x5555_5555_4000, 1, READ, MapKind::File),
    (TEXT, 1, EXECUTE, MapKind::File),
    (0x5555_5555_6000, 1, READ, MapKind::File),
    (0x5555_5555_7000, 1, READ, MapKind::File),
    (0x5555_5555_8000, 1, WRITE, MapKind::File),
    (MMAP_END, 3, WRITE, MapKind::Anonymous),
    (0x7fff_f7dd_5000, 0x26, READ, MapKind::File),
    (0x7fff_f7df_b000, 0x156, EXECUTE, MapKind::File),
    (0x7fff_f7f5_1000, 0x53, READ, MapKind::File),
    (0x7fff_f7fa_4000, 4, READ, MapKind::File),
    (0x7fff_f7fa_8000, 2, WRITE, MapKind::File),
    (0x7fff_f7fa_a000, 13, WRITE, MapKind::Anonymous),
    (0x7fff_f7fc_0000, 2, WRITE, MapKind::Anonymous),
    (0x7fff_f7fc_2000, 6, READ, MapKind::File),
    (0x7fff_f7fc_8000, 2, EXECUTE, MapKind::File),
    (0x7fff_f7fc_a000, 1, READ, MapKind::File),
    (0x7fff_f7fc_b000, 0x26, EXECUTE, MapKind::File),
    (0x7fff_f7ff_1000, 10, READ, MapKind::File),
    (0x7fff_f7ff_b000, 2, READ, MapKind::File),
    (0x7fff_f7ff_d000, 2, WRITE, MapKind::File),
];

/// 4 KiB pages of a new stack.
const STACK_PAGES: u64 = 33;
/// Stack pages that start-up has written: arguments, environment, the first frames.
const STACK_TOUCHED: u64 = 3;

/// An array in the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Address of element 0.
    pub base: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Elements.
    pub len: u64,
}

impl Array {
    /// Address of element `index`.
    #[inline(always)]
    pub fn at(&self, index: u64) -> VirtAddr {
        debug_assert!(index < self.len, "index {index} is beyond an array of {} elements", self.len);
        VirtAddr(self.base + index * self.element)
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.element * self.len
    }

    /// A touch of the whole array in ascending order, as set-up does.
    pub fn touch(&self, write: bool) -> VmEvent {
        VmEvent::Touch { start: VirtAddr(self.base), len: self.bytes(), write }
    }
}

/// An event, or first touches of a range's pages in a random order, which are too many to be listed.
#[derive(Clone, Debug)]
enum Planned {
    Event(VmEvent),
    Pages(Box<Pages>),
}

#[derive(Clone, Debug)]
struct Pages {
    start: u64,
    end: u64,
    order: Permutation,
    next: u64,
}

impl Iterator for Pages {
    type Item = VmEvent;

    fn next(&mut self) -> Option<VmEvent> {
        if self.next >= (self.end - self.start).div_ceil(FRAME_BYTES) {
            return None;
        }
        let at = self.start + self.order.of(self.next) * FRAME_BYTES;
        self.next += 1;
        Some(VmEvent::Touch { start: VirtAddr(at), len: FRAME_BYTES.min(self.end - at), write: true })
    }
}

/// Events of an address space, in order.
#[derive(Clone, Debug)]
pub struct Events {
    planned: std::vec::IntoIter<Planned>,
    pages: Option<Box<Pages>>,
}

impl Iterator for Events {
    type Item = VmEvent;

    fn next(&mut self) -> Option<VmEvent> {
        loop {
            if let Some(touch) = self.pages.as_mut().and_then(|pages| pages.next()) {
                return Some(touch);
            }
            match self.planned.next()? {
                Planned::Event(event) => return Some(event),
                Planned::Pages(pages) => self.pages = Some(pages),
            }
        }
    }
}

/// The address space of one process, and the VM events that created it.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    events: Vec<Planned>,
    /// Everything between this and the shared objects is either mapped or a hole.
    lowest: u64,
    /// Unmapped ranges above `lowest`: first address to bytes.
    holes: BTreeMap<u64, u64>,
    heap_start: u64,
    heap_end: u64,
}

impl Default for AddressSpace {
    fn default() -> Self {
        AddressSpace::new()
    }
}

impl AddressSpace {
    /// A process just before `main`: image, shared objects and stack are mapped, and the loader has done its
    /// touches.
    pub fn new() -> AddressSpace {
        let mut events = Vec::new();
        for &(start, pages, protection, kind) in IMAGE {
            events.push(VmEvent::Map { start: VirtAddr(start), len: pages * FRAME_BYTES, protection, kind });
        }
        let stack = STACK_PAGES * FRAME_BYTES;
        events.push(VmEvent::Map {
            start: VirtAddr(STACK_END - stack),
            len: stack,
            protection: WRITE,
            kind: MapKind::Stack,
        });
        let touched = STACK_TOUCHED * FRAME_BYTES;
        events.push(VmEvent::Touch { start: VirtAddr(STACK_END - touched), len: touched, write: true });
        // The loader relocates the writable parts. libc's text is paged in on calls, too little to matter
        // here.
        for &(start, pages, protection, _) in IMAGE.iter().rev().filter(|(_, _, p, _)| p.write || p.execute) {
            let pages = if protection.execute { 1 } else { pages };
            events.push(VmEvent::Touch { start: VirtAddr(start), len: pages * FRAME_BYTES, write: protection.write });
        }
        let events = events.into_iter().map(Planned::Event).collect();
        AddressSpace { events, lowest: MMAP_END, holes: BTreeMap::new(), heap_start: HEAP_START, heap_end: HEAP_START }
    }

    /// A process whose program has static arrays of these element sizes and lengths: consecutive in its bss,
    /// each aligned to 32 bytes, above the image and below the heap.
    pub fn with_static_arrays<const N: usize>(arrays: [(u64, u64); N]) -> (AddressSpace, [Array; N]) {
        let mut space = AddressSpace::new();
        let mut end = HEAP_START;
        let arrays = arrays.map(|(element, len)| {
            let array = Array { base: end, element, len };
            end = (end + array.bytes()).next_multiple_of(32);
            array
        });
        let len = (end - HEAP_START).next_multiple_of(FRAME_BYTES);
        space.push(VmEvent::Map { start: VirtAddr(HEAP_START), len, protection: WRITE, kind: MapKind::Anonymous });
        space.heap_start = HEAP_START + len;
        space.heap_end = space.heap_start;
        (space, arrays)
    }

    /// `mmap` of anonymous memory: the highest hole that fits, else below everything. Lengths that are a
    /// multiple of 2 MiB are aligned to it (Linux 6.7 and later).
    pub fn map(&mut self, len: u64) -> VirtAddr {
        let len = len.next_multiple_of(FRAME_BYTES);
        let huge = PageSize::SIZE_2M.bytes();
        let align = if len.is_multiple_of(huge) { huge } else { FRAME_BYTES };
        let place = |start: u64, hole: u64| {
            let at = (start + hole).checked_sub(len)? / align * align;
            (at >= start).then_some(at)
        };
        let found = self.holes.iter().rev().find_map(|(&start, &hole)| Some((start, hole, place(start, hole)?)));
        let at = match found {
            Some((start, hole, at)) => {
                self.holes.remove(&start);
                self.add_hole(start, at - start);
                self.add_hole(at + len, start + hole - (at + len));
                at
            }
            None => {
                let at = (self.lowest - len) / align * align;
                let above = self.lowest;
                self.lowest = at;
                self.add_hole(at + len, above - (at + len));
                at
            }
        };
        let start = VirtAddr(at);
        self.push(VmEvent::Map { start, len, protection: WRITE, kind: MapKind::Anonymous });
        start
    }

    /// `munmap` of a range from [`AddressSpace::map`].
    pub fn unmap(&mut self, start: VirtAddr, len: u64) {
        let len = len.next_multiple_of(FRAME_BYTES);
        self.push(VmEvent::Unmap { start, len });
        self.add_hole(start.0, len);
    }

    /// `malloc` of an array too large for the heap: its own mapping, with the elements 16 bytes into it.
    pub fn allocate_array(&mut self, element: u64, len: u64) -> Array {
        let mapping = self.map(element * len + MMAP_HEADER);
        Array { base: mapping.0 + MMAP_HEADER, element, len }
    }

    /// [`AddressSpace::allocate_array`], which the program then fills in ascending order.
    pub fn filled_array(&mut self, element: u64, len: u64) -> Array {
        let array = self.allocate_array(element, len);
        self.push(array.touch(true));
        array
    }

    /// `free` of an array from [`AddressSpace::allocate_array`].
    pub fn free_array(&mut self, array: &Array) {
        self.unmap(VirtAddr(array.base - MMAP_HEADER), array.bytes() + MMAP_HEADER);
    }

    /// The current end of the heap, which is empty and unmapped until the first [`AddressSpace::grow_heap`].
    pub fn heap_end(&self) -> VirtAddr {
        VirtAddr(self.heap_end)
    }

    /// `brk`: moves the heap's end up by `bytes`, a multiple of 4 KiB, and returns the old end. The first
    /// call maps the heap (`VmEvent::Map` of kind heap); later ones move its end (`VmEvent::Brk`).
    pub fn grow_heap(&mut self, bytes: u64) -> VirtAddr {
        let old = self.heap_end;
        self.heap_end += bytes;
        self.push(if old == self.heap_start {
            VmEvent::Map { start: VirtAddr(old), len: bytes, protection: WRITE, kind: MapKind::Heap }
        } else {
            VmEvent::Brk { end: VirtAddr(self.heap_end) }
        });
        VirtAddr(old)
    }

    /// An array on the stack of `main`, below what start-up wrote. It must fit the fresh stack (120 KiB).
    pub fn stack_array(&mut self, element: u64, len: u64) -> Array {
        let bytes = (element * len).next_multiple_of(64);
        debug_assert!(bytes <= (STACK_PAGES - STACK_TOUCHED) * FRAME_BYTES, "{bytes} bytes overflow the fresh stack");
        Array { base: STACK_END - STACK_TOUCHED * FRAME_BYTES - bytes, element, len }
    }

    /// Appends an event, such as a touch or advice.
    pub fn push(&mut self, event: VmEvent) {
        self.events.push(Planned::Event(event));
    }

    /// Appends first touches of the pages of `[start, end)` in this order.
    pub(crate) fn push_pages(&mut self, (start, end): (u64, u64), order: Permutation) {
        self.events.push(Planned::Pages(Box::new(Pages { start, end, order, next: 0 })));
    }

    /// Whether there are events since the last [`AddressSpace::take_events`].
    #[inline(always)]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes all events since the last call.
    pub fn take_events(&mut self) -> Events {
        Events { planned: std::mem::take(&mut self.events).into_iter(), pages: None }
    }

    fn add_hole(&mut self, mut start: u64, mut len: u64) {
        if len == 0 {
            return;
        }
        if let Some((&below, &bytes)) = self.holes.range(..start).next_back()
            && below + bytes == start
        {
            self.holes.remove(&below);
            (start, len) = (below, len + bytes);
        }
        if let Some(bytes) = self.holes.remove(&(start + len)) {
            len += bytes;
        }
        if start == self.lowest {
            self.lowest = start + len;
        } else {
            self.holes.insert(start, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_mapped_top_down_and_freed_space_is_reused() {
        let mut space = AddressSpace::new();
        let a = space.allocate_array(8, 1 << 20);
        let b = space.allocate_array(8, 1 << 21);
        let c = space.allocate_array(8, 1 << 20);
        assert_eq!(a.base % FRAME_BYTES, MMAP_HEADER);
        assert!(a.base > b.base + b.bytes() - 1 && b.base > c.base + c.bytes() - 1);
        space.free_array(&b);
        let d = space.allocate_array(8, 1 << 20);
        assert!(d.base > b.base && d.base < a.base, "the highest hole that fits is used");
        let e = space.allocate_array(8, 1 << 22);
        assert!(e.base < c.base, "an array that fits no hole goes below everything");
    }

    #[test]
    fn whole_huge_pages_are_aligned() {
        let mut space = AddressSpace::new();
        assert_eq!(space.map(64 << 20).0 % PageSize::SIZE_2M.bytes(), 0);
        let small = space.map(4096);
        assert!(small.0 > MMAP_END - (2 << 20), "the hole that alignment left is used");
    }

    #[test]
    fn freeing_the_lowest_mapping_returns_all_its_space() {
        let mut space = AddressSpace::new();
        let before = space.lowest;
        let (a, b) = (space.allocate_array(1, 100_000), space.allocate_array(1, 300_000));
        space.free_array(&a);
        space.free_array(&b);
        assert_eq!((space.lowest, space.holes.len()), (before, 0));
    }
}
