//! Ranges of pages and their table: RMM's range TLB, beside the L2 TLB, and the walker of the range table, in the background.

use ambulator_base::{Page, PhysAddr};
use ambulator_memory::PhysicalMemory;

/// Bits of a page number in RMM's tables.
const KEY_BITS: usize = 36;

/// Pages `[base, limit)`; their frames are `offset` further.
#[derive(Clone, Copy)]
pub struct Range {
    base: u64,
    limit: u64,
    offset: u64,
}

impl Range {
    pub fn has(&self, page: u64) -> bool {
        (self.base..self.limit).contains(&page)
    }

    pub fn frame(&self, page: u64) -> u64 {
        page.wrapping_add(self.offset) & ((1 << 52) - 1)
    }
}

/// What a node of a table says of a page.
pub enum Says {
    Has(Range),
    Child(PhysAddr),
    Nothing,
}

/// What the node at `node` of a table with keys of `key_bits` says of a page.
pub fn look_into(node: PhysAddr, page: u64, key_bits: usize, memory: &PhysicalMemory) -> Says {
    let word = |number: usize| memory.read(node.offset(8 * number as u64));
    let key = |number: usize| {
        let bit = number * key_bits;
        let wide = u128::from(word(4 + bit / 64)) | u128::from(word(5 + bit / 64)) << 64;
        (wide >> (bit % 64)) as u64 & ((1 << key_bits) - 1)
    };
    let count = word(15) as usize;
    let place = (0..count).find(|place| page < key(2 * place + 1)).unwrap_or(count);
    if place < count && key(2 * place) <= page {
        return Says::Has(Range {
            base: key(2 * place),
            limit: key(2 * place + 1),
            offset: word(place) & ((1 << 52) - 1),
        });
    }
    match word(10 + place) {
        0 => Says::Nothing,
        child => Says::Child(PhysAddr(child)),
    }
}

/// A walk of the range table.
struct Walk {
    page: u64,
    node: PhysAddr,
    /// Lines of the node that are still to come.
    waits: usize,
}

/// The range TLB of a core.
pub struct Ranges {
    /// Cycles of a look-up.
    pub latency: u64,
    entries: usize,
    /// The most recently used first.
    held: Vec<Range>,
    root: u64,
    walk: Option<Walk>,
}

impl Ranges {
    /// Empty.
    pub fn new(latency: u64, entries: usize) -> Ranges {
        Ranges { latency, entries, held: Vec::new(), root: 0, walk: None }
    }

    /// The register: the root of the range table, and whether ranges are used.
    pub fn load_registers(&mut self, registers: &[u64]) {
        self.root = if registers[0] & 1 == 1 { registers[0] & !1 } else { 0 };
    }

    /// The frame of a page, if a range has it, which is the most recently used from then on.
    pub fn lookup(&mut self, page: u64) -> Option<u64> {
        let place = self.held.iter().position(|range| range.has(page))?;
        self.held[..=place].rotate_right(1);
        Some(self.held[0].frame(page))
    }

    /// The walker looks for the range of a page, unless it is busy: the lines that it loads.
    pub fn begin(&mut self, page: u64) -> Vec<PhysAddr> {
        if self.root == 0 || self.walk.is_some() {
            return Vec::new();
        }
        self.visit(page, PhysAddr(self.root))
    }

    fn visit(&mut self, page: u64, node: PhysAddr) -> Vec<PhysAddr> {
        let lines = vec![node, node.offset(64)];
        self.walk = Some(Walk { page, node, waits: lines.len() });
        lines
    }

    /// A line of a node has come: the lines that the walker loads next.
    pub fn arrived(&mut self, memory: &PhysicalMemory) -> Vec<PhysAddr> {
        let Some(walk) = &mut self.walk else { return Vec::new() };
        walk.waits -= 1;
        if walk.waits > 0 {
            return Vec::new();
        }
        let (page, node) = (walk.page, walk.node);
        self.walk = None;
        match look_into(node, page, KEY_BITS, memory) {
            Says::Has(range) => {
                self.held.retain(|old| old.limit <= range.base || range.limit <= old.base);
                self.held.truncate(self.entries - 1);
                self.held.insert(0, range);
                Vec::new()
            }
            Says::Child(child) => self.visit(page, child),
            Says::Nothing => Vec::new(),
        }
    }

    /// Drops the ranges that have a page; all without one.
    pub fn invalidate(&mut self, page: Option<Page>) {
        self.held.retain(|range| {
            page.is_some_and(|page| range.limit << 12 <= page.start.0 || page.end().0 <= range.base << 12)
        });
    }
}
