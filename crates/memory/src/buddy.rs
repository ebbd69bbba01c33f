//! The buddy allocator.

use crate::bitmap::Bitmap;
use crate::free_lists::FreeLists;
use crate::nodes::Nodes;
use ambulator_base::{Invalid, Pfn, Random, State, on_huge_pages, out_of_range, prefetch_sim_host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which free block of an order is allocated first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockOrder {
    /// The lowest one.
    #[default]
    Address,
    /// The one that was freed last. Memory that was never used is freed upwards when the machine starts, so
    /// it is allocated from the highest block on, as by Linux before 5.10. After `memory.fragmentation` or
    /// `memory.pressure` the lists are in random order: that in which other programs freed their blocks.
    Lifo,
}

/// Settings of the buddy allocator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BuddySpec {
    /// The number of orders, as Linux's MAX_ORDER before 6.4: 11 has blocks of 4 KiB (order 0) to 4 MiB
    /// (order 10), 20 has blocks up to 2 GiB (order 19).
    #[schemars(range(min = 1, max = LARGEST_MAX_ORDER), extend("x-unit" = "count", "x-source" = "Linux include/linux/mmzone.h"))]
    pub max_order: u32,
    /// The lowest frames, which are never allocated (firmware, the kernel image): 256 is the first MiB.
    #[schemars(range(max = 1 << 20), extend("x-unit" = "count"))]
    pub reserve_low: u64,
    /// Which free block of an order is allocated first.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice; Linux mm/page_alloc.c has lists, last in, first out"))]
    pub block_order: BlockOrder,
}

impl Default for BuddySpec {
    fn default() -> Self {
        BuddySpec { max_order: 11, reserve_low: 256, block_order: BlockOrder::Address }
    }
}

/// The largest `max_order`: blocks of 2 TiB.
const LARGEST_MAX_ORDER: u32 = 30;

impl BuddySpec {
    /// The invalid settings of a spec at key `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        out_of_range(self, at)
    }
}

/// The steps of [`BuddyAllocator::prefetch_sim_host`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchStep {
    /// Whether the frame is free.
    Bitmap,
    /// The places of its block, and of what is left of it, in the lists.
    Block,
    /// The places of its block's neighbours in the list.
    Neighbours,
}

/// log2 of the frames in one word of the free bitmap.
const GROUP_SHIFT: u32 = 6;
/// Blocks of orders below this lie within one word.
pub(crate) const IN_WORD: u32 = GROUP_SHIFT;

/// A buddy allocator over the frames `[0, total)`.
///
/// **State.** A bitmap has one bit per frame: free or not. Free blocks of up to 32 frames are computed from
/// its words. For each order a second bitmap finds the lowest free block: for orders 0 to 5 its bits are
/// words with such a block, for the others the blocks themselves. That takes under 1.2 bits per frame, and
/// most queries touch one cache line of the sim host.
///
/// **Policy.** The smallest sufficient order, and within it the lowest address. Linux keeps a LIFO list per
/// order below per-core caches of single frames, so its choice depends on the history of frees. Address order
/// gives the same splits and the same indices. It gives more contiguity to a program that faults its pages in
/// order in memory that has been used before. [`BlockOrder::Lifo`] keeps such lists too, for 8 bytes per
/// frame.
///
/// **Invariant.** A free block whose buddy is free is merged with it, up to the largest order.
#[derive(Clone, Debug, State)]
pub struct BuddyAllocator {
    /// Bit `f % 64` of word `f / 64`: frame `f` is free.
    words: Vec<u64>,
    /// By order: its free blocks, or the words that contain some.
    lists: Vec<Bitmap>,
    /// By order: the number of free blocks.
    counts: Vec<u64>,
    /// The blocks of each order in the order of their frees, with [`BlockOrder::Lifo`].
    recent: Option<Box<FreeLists>>,
    /// Bit `i`: `counts[i]` is not zero.
    orders: u32,
    free: u64,
    total: u64,
    reserved: u64,
    max_block: u32,
    /// The index that [`crate::fragment`] produced, if it ran.
    #[state(skip)]
    pub(crate) nominal_fmfi: Option<f64>,
    refusals: Refusals,
    /// The nodes' own allocators, if there are several nodes: then they have all frames, and this one has none.
    #[state(each)]
    nodes: Option<Box<Nodes>>,
    /// Of a node's own allocator: the first frame of the node.
    #[state(skip)]
    pub(crate) first: u64,
    /// With grouping by mobility: the first frame of the block that kernel frames come from.
    unmovable: Option<u64>,
}

/// Allocations that fail though there is memory; see [`BuddyAllocator::refuse`].
#[derive(Clone, Copy, Debug, Default, State)]
struct Refusals {
    /// Allocations that are served before.
    served: u64,
    /// Allocations that fail after them.
    left: u64,
    /// Allocations that have failed.
    refused: u64,
}

impl Refusals {
    #[cold]
    fn next(&mut self) -> bool {
        let refuses = self.served == 0;
        if refuses {
            self.left -= 1;
            self.refused += 1;
        } else {
            self.served -= 1;
        }
        refuses
    }
}

/// A mask of `2^order` low bits, for orders within a word.
#[inline(always)]
fn ones(order: u32) -> u64 {
    debug_assert!(order < IN_WORD);
    (1 << (1 << order)) - 1
}

/// By order: the bits of a word at which a block may start.
const STARTS: [u64; 6] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
];

impl BuddyAllocator {
    /// An allocator over `total_frames` frames. All frames from `spec.reserve_low` on are free.
    ///
    /// `spec` should be valid. A `max_order` outside its range is clamped.
    pub fn new(spec: &BuddySpec, total_frames: u64) -> Self {
        let max_block = spec.max_order.clamp(1, LARGEST_MAX_ORDER) - 1;
        let groups = total_frames.div_ceil(64) as usize;
        let lists = (0..=max_block)
            .map(|order| Bitmap::new(if order < IN_WORD { groups } else { groups >> (order - IN_WORD) }))
            .collect();
        let reserved = spec.reserve_low.min(total_frames);
        let mut frames = BuddyAllocator {
            words: on_huge_pages(vec![0; groups]),
            lists,
            counts: vec![0; max_block as usize + 1],
            recent: (spec.block_order == BlockOrder::Lifo).then(|| Box::new(FreeLists::new(total_frames))),
            orders: 0,
            free: 0,
            total: total_frames,
            reserved,
            max_block,
            nominal_fmfi: None,
            refusals: Refusals::default(),
            nodes: None,
            first: 0,
            unmovable: None,
        };
        frames.free_range(Pfn(reserved), total_frames - reserved);
        frames
    }

    /// The nodes' own allocators, if there are several nodes.
    #[inline(always)]
    pub(crate) fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_deref()
    }

    #[inline(always)]
    pub(crate) fn nodes_mut(&mut self) -> Option<&mut Nodes> {
        self.nodes.as_deref_mut()
    }

    /// Gives all frames, `total`, to the allocators of nodes.
    pub(crate) fn set_nodes(&mut self, nodes: Nodes, total: u64) {
        self.nodes = Some(Box::new(nodes));
        self.total = total;
    }

    /// Allocates a block of `order`, aligned to its size: the first block of the smallest sufficient order
    /// (see [`BlockOrder`]), split as needed. `None` if no free block is large enough.
    #[inline]
    pub fn allocate(&mut self, order: u32) -> Option<Pfn> {
        if self.refuses() {
            return None;
        }
        if let Some(nodes) = self.nodes_mut() {
            return nodes.allocate(order);
        }
        let serving = self.orders & (!0u32).checked_shl(order)?;
        if serving == 0 {
            return None;
        }
        let from = serving.trailing_zeros();
        let at = match &self.recent {
            None => self.lowest(from)?,
            Some(recent) => recent.first(from)?,
        };
        self.carve(at, order, from);
        Some(Pfn(at))
    }

    /// From now on frames of the kernel ([`BuddyAllocator::allocate_unmovable`]) come from blocks of 2 MiB of
    /// their own, as in Linux, which groups pages by mobility.
    pub fn group_by_mobility(&mut self) {
        self.unmovable.get_or_insert(self.total);
    }

    /// Allocates a frame of the kernel. With [`BuddyAllocator::group_by_mobility`], the lowest free one of
    /// the current block for such frames; if that is full, of another free block; as
    /// [`BuddyAllocator::allocate`] does, if there is none.
    #[inline]
    pub fn allocate_unmovable(&mut self) -> Option<Pfn> {
        match self.unmovable {
            None => self.allocate(0),
            Some(block) => self.allocate_grouped(block),
        }
    }

    fn allocate_grouped(&mut self, block: u64) -> Option<Pfn> {
        const ORDER: u32 = 9;
        let frames = block..(block + (1 << ORDER)).min(self.total);
        let found = frames.clone().find(|frame| self.is_free(Pfn(*frame)));
        let larger = self.orders & (!0u32 << ORDER);
        let at = match found {
            Some(frame) => frame,
            None if larger == 0 => return self.allocate(0),
            None => {
                let next = self.lowest(larger.trailing_zeros())?;
                self.unmovable = Some(next);
                next
            }
        };
        (!self.refuses() && self.take_at(Pfn(at), 0)).then_some(Pfn(at))
    }

    /// The lowest free block of exactly `order`.
    #[inline(always)]
    fn lowest(&mut self, order: u32) -> Option<u64> {
        let entry = self.lists[order as usize].first()?;
        Some(if order < IN_WORD {
            (entry as u64) << GROUP_SHIFT | u64::from(self.maximal(entry, order).trailing_zeros())
        } else {
            (entry as u64) << order
        })
    }

    /// Allocates exactly the block of `order` at `at`, splitting the free block around it. False if the block
    /// is not entirely free.
    ///
    /// # Panics
    /// When `at` is not aligned to the block's size.
    #[inline]
    pub fn allocate_at(&mut self, at: Pfn, order: u32) -> bool {
        !self.refuses() && self.take_at(at, order)
    }

    /// The same, which is not refused.
    #[inline]
    pub(crate) fn take_at(&mut self, at: Pfn, order: u32) -> bool {
        if let Some(nodes) = self.nodes_mut() {
            return nodes.take_at(at, |zone| zone.take_at(at, order));
        }
        match self.containing(at.0, order) {
            Some(from) => {
                self.carve(at.0, order, from);
                true
            }
            None => false,
        }
    }

    /// Prefetches into the sim host's caches what [`BuddyAllocator::allocate_at`] of the frame `at` reads, in three
    /// steps of which each needs the one before. Affects speed only.
    #[inline]
    pub fn prefetch_sim_host(&self, at: Pfn, step: PrefetchStep) {
        let group = (at.0 >> GROUP_SHIFT) as usize;
        let Some(word) = self.words.get(group) else { return };
        if step == PrefetchStep::Bitmap {
            return prefetch_sim_host(word);
        }
        // Without lists there is nothing else to read.
        let Some(recent) = &self.recent else { return };
        let Some(from) = self.containing(at.0, 0) else { return };
        let block = at.0 >> from << from;
        if step == PrefetchStep::Neighbours {
            return recent.prefetch_neighbours_sim_host(block);
        }
        recent.prefetch_sim_host(block);
        // What is left of the block goes into the lists.
        (0..from).for_each(|half| recent.prefetch_sim_host((at.0 >> half ^ 1) << half));
    }

    /// Allocates contiguous frames for `bytes`, rounded up to a power of two of frames. `None` if no free
    /// block is large enough.
    pub fn allocate_bytes(&mut self, bytes: u64) -> Option<Pfn> {
        self.allocate(Self::order_of_bytes(bytes))
    }

    /// The order of the block that [`BuddyAllocator::allocate_bytes`] allocates.
    pub fn order_of_bytes(bytes: u64) -> u32 {
        let frames = bytes.div_ceil(ambulator_base::FRAME_BYTES).max(1);
        frames.next_power_of_two().trailing_zeros()
    }

    /// Injects faults: after the next `served` allocations, by whatever function, `failing` ones fail as if
    /// there were no such memory; those after them are served again. Returns how many have failed since the
    /// last call. 0 and 0 end it.
    pub fn refuse(&mut self, served: u64, failing: u64) -> u64 {
        std::mem::replace(&mut self.refusals, Refusals { served, left: failing, refused: 0 }).refused
    }

    /// Whether the allocation that is asked for is one that fails.
    #[inline]
    pub(crate) fn refuses(&mut self) -> bool {
        self.refusals.left != 0 && self.refusals.next()
    }

    /// Frees the block of `order` at `at`: an allocation, or an aligned part of one.
    ///
    /// # Panics
    /// When `at` is not aligned to the block's size, or a frame of the block is free, reserved or past the
    /// end.
    #[inline]
    pub fn free(&mut self, at: Pfn, order: u32) {
        let at = at.0;
        if order > self.max_block {
            for part in 0..1 << (order - self.max_block) {
                self.free(Pfn(at + (part << self.max_block)), self.max_block);
            }
            return;
        }
        if let Some(nodes) = self.nodes_mut() {
            return nodes.zone_of_mut(Pfn(at)).free(Pfn(at), order);
        }
        assert!(at.is_multiple_of(1 << order), "frame {at:#x} is not aligned to order {order}");
        assert!(
            at >= self.reserved && at + (1 << order) <= self.total,
            "frames {at:#x} of order {order} were never allocated: they are reserved or past the end"
        );
        self.free += 1 << order;
        let group = (at >> GROUP_SHIFT) as usize;
        let mut order = order;
        if order < IN_WORD {
            let mut bit = at as u32 & 63;
            let word = self.words[group];
            assert!(word >> bit & ones(order) == 0, "frame {at:#x} of order {order} is freed twice");
            self.words[group] = word | ones(order) << bit;
            while order < IN_WORD.min(self.max_block) {
                let buddy = bit ^ (1 << order);
                if word >> buddy & ones(order) != ones(order) {
                    break;
                }
                self.uncount(order);
                self.unlist(order, (group as u64) << GROUP_SHIFT | u64::from(buddy));
                if maximal(word, order, self.max_block) & !(1 << buddy) == 0 {
                    self.lists[order as usize].remove(group);
                }
                bit &= !(1 << order);
                order += 1;
            }
            if order < IN_WORD {
                self.count(order);
                self.lists[order as usize].insert(group);
                self.list(order, (group as u64) << GROUP_SHIFT | u64::from(bit));
                return;
            }
        } else {
            let words = &mut self.words[group..group + (1 << (order - GROUP_SHIFT))];
            assert!(words.iter().all(|w| *w == 0), "frame {at:#x} of order {order} is freed twice");
            words.fill(!0);
        }
        let mut block = (at >> order) as usize;
        while order < self.max_block && self.lists[order as usize].contains(block ^ 1) {
            self.lists[order as usize].remove(block ^ 1);
            self.uncount(order);
            self.unlist(order, (block as u64 ^ 1) << order);
            block >>= 1;
            order += 1;
        }
        self.count(order);
        self.lists[order as usize].insert(block);
        self.list(order, (block as u64) << order);
    }

    /// Frees `frames` frames from `at` on.
    ///
    /// # Panics
    /// As [`BuddyAllocator::free`].
    pub fn free_range(&mut self, at: Pfn, frames: u64) {
        let (mut at, end) = (at.0, at.0 + frames);
        while at < end {
            let order = at.trailing_zeros().min((end - at).ilog2()).min(self.max_block);
            self.free(Pfn(at), order);
            at += 1 << order;
        }
    }

    /// Whether the frame is free. Frames past the end are not.
    #[inline]
    pub fn is_free(&self, at: Pfn) -> bool {
        if let Some(nodes) = self.nodes() {
            return nodes.zone_of(at).is_free(at);
        }
        self.words.get((at.0 >> GROUP_SHIFT) as usize).is_some_and(|word| word >> (at.0 & 63) & 1 != 0)
    }

    /// Whether all frames of the block of `order` at `at` are free. False for orders above the largest.
    ///
    /// # Panics
    /// When `at` is not aligned to the block's size.
    #[inline]
    pub fn is_block_free(&self, at: Pfn, order: u32) -> bool {
        if let Some(nodes) = self.nodes() {
            return nodes.zone_of(at).is_block_free(at, order);
        }
        self.containing(at.0, order).is_some()
    }

    /// The number of free frames.
    #[inline]
    pub fn free_frames(&self) -> u64 {
        if let Some(nodes) = self.nodes() {
            return nodes.zones.iter().map(BuddyAllocator::free_frames).sum();
        }
        self.free
    }

    /// The number of frames, including reserved ones.
    pub fn total_frames(&self) -> u64 {
        self.total
    }

    /// The largest order with a free block.
    pub fn largest_free_order(&self) -> Option<u32> {
        if let Some(nodes) = self.nodes() {
            return nodes.zones.iter().filter_map(BuddyAllocator::largest_free_order).max();
        }
        self.orders.checked_ilog2()
    }

    /// The number of free blocks of exactly this order (parts of larger free blocks do not count).
    pub fn free_blocks(&self, order: u32) -> u64 {
        if let Some(nodes) = self.nodes() {
            return nodes.zones.iter().map(|zone| zone.free_blocks(order)).sum();
        }
        self.counts.get(order as usize).copied().unwrap_or(0)
    }

    /// The order of the largest blocks that the allocator manages.
    pub fn max_block_order(&self) -> u32 {
        self.max_block
    }

    /// The free bitmap: bit `f % 64` of word `f / 64` is frame `f`. Bits past the last frame are clear.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Lets `change` clear bits of the free bitmap (bit `f % 64` of word `f / 64` is frame `f`), then
    /// rebuilds everything else. For changes to large parts of memory, by programs whose frees have left the
    /// lists of [`BlockOrder::Lifo`] in random order.
    pub(crate) fn edit(&mut self, random: &mut Random, change: impl FnOnce(&mut [u64], &mut Random)) {
        change(&mut self.words, random);
        self.rebuild();
        if let Some(mut recent) = self.recent.take() {
            recent.clear();
            for order in 0..=self.max_block {
                let mut blocks = self.blocks(order);
                random.shuffle(&mut blocks);
                blocks.into_iter().for_each(|block| recent.insert(order, block));
            }
            self.recent = Some(recent);
        }
    }

    /// The lowest frame from `from` on at which a free block of `least` or a larger order begins; `least` is
    /// [`IN_WORD`] or more.
    pub(crate) fn next_block(&mut self, least: u32, from: u64) -> Option<u64> {
        let next = |(order, list): (usize, &mut Bitmap)| {
            Some((list.next((from.div_ceil(1 << order)) as usize)? as u64) << order)
        };
        self.lists.iter_mut().enumerate().skip(least as usize).filter_map(next).min()
    }

    /// The first frames of the free blocks of exactly `order`, in ascending order.
    fn blocks(&self, order: u32) -> Vec<u64> {
        let list = &self.lists[order as usize];
        let mut blocks = Vec::with_capacity(self.counts[order as usize] as usize);
        if order >= IN_WORD {
            blocks.extend(
                (0..self.words.len() >> (order - IN_WORD)).filter(|b| list.contains(*b)).map(|b| (b as u64) << order),
            );
            return blocks;
        }
        for group in 0..self.words.len() {
            let mut starts = self.maximal(group, order);
            while starts != 0 {
                blocks.push((group as u64) << GROUP_SHIFT | u64::from(starts.trailing_zeros()));
                starts &= starts - 1;
            }
        }
        blocks
    }

    /// Rebuilds lists and counts from the words.
    fn rebuild(&mut self) {
        self.lists.iter_mut().for_each(Bitmap::clear);
        self.counts.fill(0);
        self.orders = 0;
        self.free = 0;
        let words = std::mem::take(&mut self.words);
        for (group, &word) in words.iter().enumerate() {
            self.free += u64::from(word.count_ones());
            if word == !0 && self.max_block >= IN_WORD {
                self.count(IN_WORD);
                self.lists[IN_WORD as usize].insert(group);
                continue;
            }
            for order in 0..=self.max_block.min(IN_WORD - 1) {
                let blocks = maximal(word, order, self.max_block);
                if blocks != 0 {
                    self.lists[order as usize].insert(group);
                    self.counts[order as usize] += u64::from(blocks.count_ones());
                    self.orders |= 1 << order;
                }
            }
        }
        for order in IN_WORD..self.max_block {
            let halves = words.len() >> (order - IN_WORD);
            for block in (0..halves.saturating_sub(1)).step_by(2) {
                let list = &mut self.lists[order as usize];
                if list.contains(block) && list.contains(block + 1) {
                    list.remove(block);
                    list.remove(block + 1);
                    self.uncount(order);
                    self.uncount(order);
                    self.lists[order as usize + 1].insert(block / 2);
                    self.count(order + 1);
                }
            }
        }
        self.words = words;
    }

    /// The order of the free block that contains the block of `order` at `at`.
    #[inline(always)]
    fn containing(&self, at: u64, order: u32) -> Option<u32> {
        if order > self.max_block {
            return None;
        }
        assert!(at.is_multiple_of(1 << order), "frame {at:#x} is not aligned to order {order}");
        let word = *self.words.get((at >> GROUP_SHIFT) as usize)?;
        let mut order = order;
        if order < IN_WORD {
            let bit = at as u32 & 63;
            if word >> bit & ones(order) != ones(order) {
                return None;
            }
            if word != !0 || self.max_block < IN_WORD {
                while order < self.max_block.min(IN_WORD - 1) {
                    let parent = bit & !((2 << order) - 1);
                    if word >> parent & ones(order + 1) != ones(order + 1) {
                        break;
                    }
                    order += 1;
                }
                return Some(order);
            }
            order = IN_WORD;
        } else if word != !0 {
            return None;
        }
        (order..=self.max_block).find(|&order| self.lists[order as usize].contains((at >> order) as usize))
    }

    /// The free blocks of exactly `order` in a word: one bit at the first frame of each.
    #[inline(always)]
    fn maximal(&self, group: usize, order: u32) -> u64 {
        maximal(self.words[group], order, self.max_block)
    }

    /// Removes the block of `order` at `at` from the free block of order `from` around it.
    #[inline(always)]
    fn carve(&mut self, at: u64, order: u32, from: u32) {
        self.free -= 1 << order;
        self.uncount(from);
        let group = (at >> GROUP_SHIFT) as usize;
        if from < IN_WORD {
            let start = at as u32 & 63 & !((1 << from) - 1);
            if self.maximal(group, from) & !(1 << start) == 0 {
                self.lists[from as usize].remove(group);
            }
        } else {
            self.lists[from as usize].remove((at >> from) as usize);
        }
        self.unlist(from, at >> from << from);
        for half in (order..from).rev() {
            self.count(half);
            let other = at >> half ^ 1;
            let entry = if half < IN_WORD { group } else { other as usize };
            self.lists[half as usize].insert(entry);
            self.list(half, other << half);
        }
        if order < IN_WORD {
            self.words[group] &= !(ones(order) << (at & 63));
        } else {
            self.words[group..group + (1 << (order - GROUP_SHIFT))].fill(0);
        }
    }

    /// Puts the block of `order` at `at` first, if the order of frees matters.
    #[inline(always)]
    fn list(&mut self, order: u32, at: u64) {
        if let Some(recent) = &mut self.recent {
            recent.insert(order, at);
        }
    }

    #[inline(always)]
    fn unlist(&mut self, order: u32, at: u64) {
        if let Some(recent) = &mut self.recent {
            recent.remove(order, at);
        }
    }

    #[inline(always)]
    fn count(&mut self, order: u32) {
        self.counts[order as usize] += 1;
        self.orders |= 1 << order;
    }

    #[inline(always)]
    fn uncount(&mut self, order: u32) {
        let count = &mut self.counts[order as usize];
        *count -= 1;
        if *count == 0 {
            self.orders &= !(1 << order);
        }
    }
}

/// The free blocks of exactly `order` (below [`IN_WORD`]) in `word`: one bit at the first frame of each.
#[inline(always)]
fn maximal(word: u64, order: u32, max_block: u32) -> u64 {
    let mut blocks = word;
    for i in 0..order {
        blocks &= blocks >> (1 << i) & STARTS[i as usize + 1];
    }
    if order >= max_block {
        return blocks;
    }
    // A block whose buddy is free is part of a larger block. A pair of order 5 is the whole word.
    let pairs = blocks & blocks >> (1 << order);
    let pairs = if order + 1 < IN_WORD { pairs & STARTS[order as usize + 1] } else { pairs & 1 };
    blocks & !(pairs | pairs << (1 << order))
}
