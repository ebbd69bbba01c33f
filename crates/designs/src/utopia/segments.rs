//! RestSegs: their memory, their global tag arrays, and the owners of their ways (Utopia Sec. 5.1, 5.6).
//! Placement and tables share them.

use super::reuse::{UtopiaReuse, WayUses};
use super::rows::{ACCESSED, Filter, Row, VALID};
use super::ways::{FrameOrder, FreeWay};
use super::{SetHash, UtopiaSpec};
use ambulator_base::{FRAME_BYTES, LINE_BYTES, Page, PageSize, Pfn, PhysAddr, ProcessId, State, VirtAddr};
use ambulator_hardware::ReplacementState;
use ambulator_memory::{BuddyAllocator, PhysicalMemory};
use std::collections::BTreeMap;

/// The configuration of a RestSeg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Its page size.
    pub(crate) page: PageSize,
    /// Sets, a power of two.
    pub(crate) sets: u64,
    /// Ways of a set.
    pub(crate) ways: u32,
    /// How page numbers are mapped to sets.
    pub(crate) hash: SetHash,
    /// Where its ways lie in memory.
    pub(crate) order: FrameOrder,
    /// Layout of the rows of its tag arrays.
    pub(crate) row: Row,
    /// Layout of its set filters.
    pub(crate) filter: Filter,
}

impl Shape {
    /// Set and tag of the page that holds `va`.
    #[inline]
    pub(crate) fn set_and_tag(&self, va: VirtAddr) -> (u64, u64) {
        self.hash.set_and_tag(va.0 >> self.page.shift(), self.sets)
    }

    /// 4 KiB frames.
    pub(crate) fn frames(&self) -> u64 {
        self.sets * u64::from(self.ways) * self.page.frames()
    }

    /// The first frame of a way.
    #[inline]
    pub(crate) fn frame(&self, base: Pfn, set: u64, way: u32) -> Pfn {
        base.offset(self.order.number(set, way, self.sets, self.ways) * self.page.frames())
    }

    /// The set and the way of the frame `within` frames from the base on, and the frame's offset in the way.
    #[inline]
    pub(crate) fn place(&self, within: u64) -> (u64, u32, u64) {
        let (number, rest) = (within / self.page.frames(), within % self.page.frames());
        let (set, way) = self.order.set_and_way(number, self.sets, self.ways);
        (set, way, rest)
    }

    /// Bytes of a process's tag array, and of its set filter.
    pub(crate) fn array_bytes(&self) -> (u64, u64) {
        (self.sets * LINE_BYTES, self.filter.bytes(self.sets))
    }
}

/// A word of the global tag array: the owner of a way. Bit 63 is the valid bit, followed by 18 bits of
/// process and 45 of page number.
fn owner_word(process: ProcessId, page: u64) -> u64 {
    1 << 63 | u64::from(process.0 & 0x3_ffff) << 45 | page & ((1 << 45) - 1)
}

fn owner_of(word: u64) -> Option<(ProcessId, u64)> {
    (word >> 63 != 0).then_some((ProcessId((word >> 45 & 0x3_ffff) as u32), word & ((1 << 45) - 1)))
}

/// Frames of a global tag array: a word for each way.
fn tag_frames(ways: u64) -> u64 {
    (ways * 8).div_ceil(FRAME_BYTES)
}

/// A RestSeg.
#[derive(State)]
pub(crate) struct Segment {
    /// Its configuration.
    #[state(skip)]
    pub(crate) shape: Shape,
    /// Its first frame.
    pub(crate) base: Pfn,
    /// The global tag array: a word for each way.
    tags: PhysAddr,
    replacement: ReplacementState,
    /// 4 KiB frames in use of each way: a large page may be freed in parts.
    used: Vec<u32>,
    /// Occupied ways.
    pub(crate) taken: u64,
}

/// The addresses of a process's arrays of a RestSeg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub(crate) struct Arrays {
    /// The tag array: a line for each set.
    pub(crate) tar: PhysAddr,
    /// The set filter.
    pub(crate) sf: PhysAddr,
}

/// All RestSegs of a machine.
#[derive(State)]
pub(crate) struct Segments {
    #[state(skip)]
    shapes: Vec<Shape>,
    /// By RestSeg: how often the page of each way was found.
    #[state(each)]
    uses: Vec<WayUses>,
    #[state(skip)]
    replacement: ambulator_hardware::Replacement,
    #[state(skip)]
    free_way: FreeWay,
    /// Reuse of migrated pages.
    pub(crate) reuse: UtopiaReuse,
    /// Empty until the memory is reserved.
    #[state(each)]
    pub(crate) list: Vec<Segment>,
    /// The arrays of each process, one for each RestSeg.
    pub(crate) arrays: BTreeMap<ProcessId, Vec<Arrays>>,
}

impl Segments {
    /// RestSegs of a validated spec, not yet reserved.
    pub(crate) fn new(spec: &UtopiaSpec, va_bits: u32) -> Segments {
        let shapes = spec.shapes(va_bits);
        let uses = shapes.iter().map(|shape| WayUses::new(shape.sets * u64::from(shape.ways))).collect();
        Segments {
            shapes,
            uses,
            replacement: spec.replacement,
            free_way: spec.free_way,
            reuse: UtopiaReuse::default(),
            list: Vec::new(),
            arrays: BTreeMap::new(),
        }
    }

    /// For each RestSeg, the counts in which walkers record the ways that they find.
    pub(crate) fn uses(&self) -> Vec<WayUses> {
        self.uses.clone()
    }

    /// Reserves the memory of all RestSegs and of their global tag arrays at boot. False if there is not
    /// enough; then nothing is reserved.
    pub(crate) fn reserve(&mut self, frames: &mut BuddyAllocator) -> bool {
        if !self.list.is_empty() {
            return true;
        }
        for shape in self.shapes.clone() {
            let ways = shape.sets * u64::from(shape.ways);
            let base = frames.allocate_run(shape.frames(), shape.page.order());
            let tags = base.and_then(|_| frames.allocate_run(tag_frames(ways), 0));
            let (Some(base), Some(tags)) = (base, tags) else {
                if let Some(base) = base {
                    frames.free_range(base, shape.frames());
                }
                self.release(frames);
                return false;
            };
            self.list.push(Segment {
                shape,
                base,
                tags: tags.start(),
                replacement: ReplacementState::new(self.replacement, shape.sets as usize, shape.ways as usize, 1),
                used: vec![0; ways as usize],
                taken: 0,
            });
        }
        true
    }

    fn release(&mut self, frames: &mut BuddyAllocator) {
        for segment in self.list.drain(..) {
            let shape = segment.shape;
            frames.free_range(segment.base, shape.frames());
            frames.free_range(segment.tags.pfn(), tag_frames(shape.sets * u64::from(shape.ways)));
        }
    }

    /// The RestSeg, set and way of a frame, and the frame's offset in the way.
    pub(crate) fn locate(&self, frame: Pfn) -> Option<(usize, u64, u32, u64)> {
        self.list.iter().enumerate().find_map(|(at, segment)| {
            let within = frame.0.checked_sub(segment.base.0).filter(|within| *within < segment.shape.frames())?;
            let (set, way, rest) = segment.shape.place(within);
            Some((at, set, way, rest))
        })
    }

    fn of_size(&self, size: PageSize) -> impl Iterator<Item = usize> + '_ {
        (0..self.list.len()).filter(move |at| self.list[*at].shape.page == size)
    }

    /// Allocates a free way for a page; `migrates` if the page migrates there.
    pub(crate) fn take(
        &mut self,
        process: ProcessId,
        page: Page,
        migrates: bool,
        memory: &mut PhysicalMemory,
    ) -> Option<Pfn> {
        for at in 0..self.list.len() {
            let segment = &mut self.list[at];
            if segment.shape.page != page.size {
                continue;
            }
            let (set, _) = segment.shape.set_and_tag(page.start);
            let ways = segment.shape.ways;
            let (first, start) = (set * u64::from(ways), self.free_way.first(set, ways));
            let mut order = (start..ways).chain(0..start);
            let free = order.find(|way| segment.used[(first + u64::from(*way)) as usize] == 0);
            if let Some(way) = free {
                let number = first + u64::from(way);
                segment.used[number as usize] = page.size.frames() as u32;
                segment.taken += 1;
                if migrates {
                    self.uses[at].entered(number);
                }
                segment.replacement.fill(set as usize, way as usize);
                memory.write(segment.tags.offset(number * 8), owner_word(process, page.start.0 >> page.size.shift()));
                return Some(segment.shape.frame(segment.base, set, way));
            }
        }
        None
    }

    /// Frees frames of a RestSeg. False if they are in none.
    pub(crate) fn give_back(&mut self, frame: Pfn, size: PageSize) -> bool {
        let Some((at, set, way, _)) = self.locate(frame) else { return false };
        let segment = &mut self.list[at];
        let number = (set * u64::from(segment.shape.ways) + u64::from(way)) as usize;
        segment.used[number] -= size.frames() as u32;
        if segment.used[number] == 0 {
            segment.taken -= 1;
            self.uses[at].left(number as u64, &mut self.reuse);
        }
        true
    }

    /// The pages of a full set, in the order in which the replacement policy would evict them. The policy
    /// uses the accessed bits set since the last call, and clears them. Empty if a way is free.
    pub(crate) fn eviction_candidates(&mut self, page: Page, memory: &mut PhysicalMemory) -> Vec<(ProcessId, Page)> {
        let candidates: Vec<usize> = self.of_size(page.size).collect();
        let mut listed = Vec::new();
        for at in candidates {
            let arrays = &self.arrays;
            let segment = &mut self.list[at];
            let (set, _) = segment.shape.set_and_tag(page.start);
            let (first, ways) = (set * u64::from(segment.shape.ways), segment.shape.ways);
            if (0..ways).any(|way| segment.used[(first + u64::from(way)) as usize] == 0) {
                return Vec::new();
            }
            let owner = |way: u32| owner_of(memory.read(segment.tags.offset((first + u64::from(way)) * 8)));
            let owners: Vec<Option<(ProcessId, u64)>> = (0..ways).map(owner).collect();
            for (way, owner) in (0..ways).zip(&owners) {
                let Some(own) = owner.and_then(|(process, _)| arrays.get(&process)) else { continue };
                let line = own[at].tar.offset(set * LINE_BYTES);
                let (word, shift) = segment.shape.row.metadata_word(line, way);
                let seen = memory.read(word);
                let metadata = (seen >> shift) as u8;
                if metadata & VALID != 0 && metadata & ACCESSED != 0 {
                    segment.replacement.touch(set as usize, way as usize);
                    memory.write(word, seen & !(u64::from(ACCESSED) << shift));
                }
            }
            let chosen = segment.replacement.victim(set as usize) as u32;
            for way in (0..ways).map(|i| (chosen + i) % ways) {
                if let Some((process, number)) = owners[way as usize] {
                    listed.push((process, Page { start: VirtAddr(number << page.size.shift()), size: page.size }));
                }
            }
        }
        listed
    }
}
