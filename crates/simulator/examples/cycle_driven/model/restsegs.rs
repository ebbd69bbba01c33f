//! Utopia's RestSeg walker and its two caches, which look a page up beside the L2 TLB.

use super::lru::LruSets;
use ambulator_base::PhysAddr;
use ambulator_memory::PhysicalMemory;
use std::collections::{HashMap, HashSet};

/// Bits of a way's metadata.
const VALID: u64 = 1;
const ACCESSED: u64 = 16;
const DIRTY: u64 = 32;
/// Lines of the RestSegs that the registers name as changed.
const CHANGED: usize = 4;

/// A RestSeg's sizes.
#[derive(Clone, Copy)]
pub struct Shape {
    /// log2 of the bytes of a page.
    pub shift: u32,
    pub sets: u64,
    pub ways: u64,
    /// Bits of a tag: of a page number without the set's.
    pub tag_bits: u32,
}

/// Where a RestSeg, its tag array and its set filter begin for the running process.
#[derive(Clone, Copy)]
struct Place {
    base: u64,
    tags: u64,
    filter: u64,
}

/// `bits` bits from bit `at` on of a line.
fn field(line: u64, at: u64, bits: u32, memory: &PhysicalMemory) -> u64 {
    (0..u64::from(bits)).fold(0, |value, bit| {
        let word = memory.read(PhysAddr(line * 64 + (at + bit) / 64 * 8));
        value | (word >> ((at + bit) % 64) & 1) << bit
    })
}

/// A page that a RestSeg has.
pub struct Found {
    pub frame: u64,
    pub shift: u32,
    pub dirty: bool,
    /// Of the accessed and dirty bits, those that are not set yet: the word, and the bits in it.
    pub missing: Option<(PhysAddr, u64)>,
}

/// A page that is looked up.
#[derive(Default)]
struct Probe {
    /// By RestSeg: lines that are still to come.
    waits: Vec<HashSet<u64>>,
    /// Lines that are loaded once the caches have answered.
    loads: Vec<u64>,
    /// They have.
    looked: bool,
}

/// What is known of a page that is looked up.
pub enum Progress {
    Found(Found),
    /// Not yet all.
    Waits,
    /// No RestSeg has it.
    Absent,
}

/// The walker of a core.
pub struct RestSegs {
    shapes: Vec<Shape>,
    /// Cycles of a look-up in either cache.
    pub latency: u64,
    places: Vec<Place>,
    /// Changes of lines by the kernel so far.
    changes: u64,
    /// Its caches: whether each line has come.
    filters: LruSets<bool>,
    tags: LruSets<bool>,
    probes: HashMap<u64, Probe>,
}

impl RestSegs {
    /// Empty caches of so many bytes.
    pub fn new(shapes: Vec<Shape>, latency: u64, (filters, tags): (u64, u64)) -> RestSegs {
        let lines = |bytes: u64| LruSets::new(bytes as usize / 64, 0);
        RestSegs {
            shapes,
            latency,
            places: Vec::new(),
            changes: 0,
            filters: lines(filters),
            tags: lines(tags),
            probes: HashMap::new(),
        }
    }

    /// The process's registers: a count of changes, the latest changed lines, and where the RestSegs are. Lines that the
    /// kernel has changed leave the caches.
    pub fn load_registers(&mut self, registers: &[u64]) {
        let changed = &registers[1..][..2 * CHANGED];
        for change in self.changes.max(registers[0].saturating_sub(CHANGED as u64))..registers[0] {
            let at = 2 * (change as usize % CHANGED);
            self.tags.remove(|line, _| line == changed[at] / 64);
            self.filters.remove(|line, _| line == changed[at + 1] / 64);
        }
        self.changes = registers[0];
        let places = registers[2 + 2 * CHANGED..].chunks_exact(3);
        self.places =
            places.map(|words| Place { base: words[0] << 12, tags: words[1] / 64, filter: words[2] / 64 }).collect();
    }

    /// The set of a page, its tag, and the line of its tags.
    fn set(&self, at: usize, page: u64) -> (u64, u64, u64) {
        let (shape, place) = (self.shapes[at], self.places[at]);
        let number = page << 12 >> shape.shift;
        let set = number % shape.sets;
        (set, number / shape.sets, place.tags + set)
    }

    /// The line of the filter of a page's set, and the pages of that set.
    fn filter(&self, at: usize, page: u64, memory: &PhysicalMemory) -> (u64, u64) {
        let (shape, place) = (self.shapes[at], self.places[at]);
        let bits = u64::BITS - shape.ways.leading_zeros();
        let per_line = 512 / u64::from(bits);
        let (set, ..) = self.set(at, page);
        let line = place.filter + set / per_line;
        (line, field(line, set % per_line * u64::from(bits), bits, memory))
    }

    /// Begins to look a page up, beside the L2 TLB, which has it (`held`) or not. If it has, nothing is loaded.
    pub fn begin(&mut self, page: u64, held: bool, memory: &PhysicalMemory) {
        let mut probe = Probe::default();
        for at in 0..self.shapes.len() {
            let mut waits = HashSet::new();
            let (line, pages) = self.filter(at, page, memory);
            let filter = self.filters.lookup(line, line).copied();
            let mut missing = Vec::new();
            match filter {
                Some(true) => {}
                Some(false) => _ = waits.insert(line),
                None => missing.push((line, true)),
            }
            let (_, _, tags) = self.set(at, page);
            if filter != Some(true) || pages > 0 {
                let row = if held && filter.is_none() { None } else { self.tags.lookup(tags, tags).copied() };
                match row {
                    Some(false) if pages > 0 => _ = waits.insert(tags),
                    Some(_) => {}
                    None => missing.push((tags, false)),
                }
            }
            if held && !missing.is_empty() {
                // Abandoned.
                continue;
            }
            for (line, is_filter) in missing {
                // Nobody waits for the tags of an empty set.
                if is_filter || pages > 0 {
                    let cache = if is_filter { &mut self.filters } else { &mut self.tags };
                    cache.insert(line, line, false);
                    waits.insert(line);
                }
                probe.loads.push(line);
            }
            probe.waits.push(waits);
        }
        if probe.waits.len() == self.shapes.len() {
            self.probes.insert(page, probe);
        }
    }

    /// The caches have answered: returns the lines to load.
    pub fn looked(&mut self, page: u64) -> Vec<u64> {
        let Some(probe) = self.probes.get_mut(&page) else { return Vec::new() };
        probe.looked = true;
        std::mem::take(&mut probe.loads)
    }

    /// A line has come: returns the pages that waited for it.
    pub fn arrived(&mut self, line: u64) -> Vec<u64> {
        for cache in [&mut self.filters, &mut self.tags] {
            if let Some(here) = cache.peek(line, line) {
                *here = true;
            }
        }
        let waited = |(page, probe): (&u64, &mut Probe)| {
            let waits = probe.waits.iter_mut().fold(false, |waited, lines| lines.remove(&line) | waited);
            waits.then_some(*page)
        };
        let mut pages: Vec<u64> = self.probes.iter_mut().filter_map(waited).collect();
        pages.sort_unstable();
        pages
    }

    /// Whether a page is looked up.
    pub fn looks(&self, page: u64) -> bool {
        self.probes.contains_key(&page)
    }

    /// What is known of a page; for a store or not.
    pub fn progress(&self, page: u64, store: bool, memory: &PhysicalMemory) -> Progress {
        let Some(probe) = self.probes.get(&page) else { return Progress::Absent };
        if !probe.looked {
            return Progress::Waits;
        }
        let known = (0..self.shapes.len()).filter(|at| probe.waits[*at].is_empty());
        let found = known.filter(|at| self.filter(*at, page, memory).1 > 0).find_map(|at| {
            let (shape, (set, tag, row)) = (self.shapes[at], self.set(at, page));
            let metadata = |way: u64| field(row, 8 * way, 8, memory);
            let tag_at = |way: u64| 8 * shape.ways + way * u64::from(shape.tag_bits);
            let is_here =
                |way: &u64| metadata(*way) & VALID != 0 && field(row, tag_at(*way), shape.tag_bits, memory) == tag;
            let way = (0..shape.ways).find(is_here)?;
            let missing = (ACCESSED | if store { DIRTY } else { 0 }) & !metadata(way);
            let word = PhysAddr(row * 64 + way / 8 * 8);
            Some(Found {
                frame: self.places[at].base + ((set * shape.ways + way) << shape.shift),
                shift: shape.shift,
                dirty: (metadata(way) | missing) & DIRTY != 0,
                missing: (missing != 0).then_some((word, missing << (way % 8 * 8))),
            })
        });
        match found {
            Some(found) => Progress::Found(found),
            None if probe.waits.iter().all(HashSet::is_empty) => Progress::Absent,
            None => Progress::Waits,
        }
    }

    /// Nobody waits for the page any longer.
    pub fn end(&mut self, page: u64) {
        self.probes.remove(&page);
    }

    /// The kernel has changed the whole address space.
    pub fn clear(&mut self) {
        for cache in [&mut self.filters, &mut self.tags] {
            cache.remove(|_, _| true);
        }
    }
}
