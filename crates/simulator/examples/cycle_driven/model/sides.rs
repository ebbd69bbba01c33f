//! Midgard's two sides of the caches: look-aside buffers for areas before them, and what is known of pages behind them.

use super::events::Part;
use super::lru::LruSets;
use super::mmu::Answer;
use super::ranges::{Range, Says, look_into};
use ambulator_base::{PhysAddr, VirtAddr};
use ambulator_memory::PhysicalMemory;
use std::collections::HashMap;

/// Bits of a page number in the table of areas.
const KEY_BITS: usize = 45;
/// The first line with an intermediate address.
const INTERMEDIATE: u64 = 1 << (42 - 6);

/// Entries and cycles.
#[derive(Clone, Copy)]
pub struct SidesSettings {
    /// Pages of the first-level buffer, and its ways.
    pub pages: (usize, usize),
    /// Areas of the second-level buffer, and cycles of a look-up there.
    pub areas: usize,
    pub latency: u64,
    /// Cycles that a walker's load takes less than a core's, because it stands at the last level.
    pub nearer: u64,
}

/// The buffers of a core before the caches, and the frames of pages that have been walked.
pub struct Sides {
    pub settings: SidesSettings,
    pages: LruSets<u64>,
    /// The most recently used first.
    areas: Vec<Range>,
    root: u64,
    /// By page: who asks the second-level buffer.
    asking: HashMap<u64, Vec<(Part, VirtAddr)>>,
    frames: HashMap<u64, u64>,
    /// By a line of main memory that is read: the line of the caches that it is for.
    reads: HashMap<u64, u64>,
}

impl Sides {
    pub fn new(settings: SidesSettings) -> Sides {
        Sides {
            settings,
            pages: LruSets::new(settings.pages.0, settings.pages.1),
            areas: Vec::new(),
            root: 0,
            asking: HashMap::new(),
            frames: HashMap::new(),
            reads: HashMap::new(),
        }
    }

    /// The root of the table of areas.
    pub fn load_registers(&mut self, registers: &[u64]) {
        self.root = registers[0];
    }

    /// Whether a line of the caches has an intermediate address.
    pub fn is_intermediate(line: u64) -> bool {
        line >= INTERMEDIATE
    }

    /// The intermediate address that the first-level buffer has.
    pub fn first(&mut self, va: VirtAddr) -> Option<PhysAddr> {
        let page = va.0 >> 12;
        self.pages.lookup(page, page).map(|frame| PhysAddr(*frame << 12 | (va.0 & 0xfff)))
    }

    /// A part of an access asks the second-level buffer for an address. Returns whether it is the first to ask for that page:
    /// others join it.
    pub fn ask(&mut self, part: Part, va: VirtAddr) -> bool {
        let asking = self.asking.entry(va.0 >> 12).or_default();
        asking.push((part, va));
        asking.len() == 1
    }

    /// The intermediate addresses of a page's that have been asked for. The second-level buffer has them, or the table, whose
    /// walks cost nothing here.
    ///
    /// # Panics
    /// If no area has the page: accesses fault before they are dispatched.
    pub fn second(&mut self, page: u64, memory: &PhysicalMemory) -> Vec<Answer> {
        if let Some(place) = self.areas.iter().position(|area| area.has(page)) {
            self.areas[..=place].rotate_right(1);
        } else {
            let area = self.descend(page, memory);
            self.areas.truncate(self.settings.areas - 1);
            self.areas.insert(0, area);
        }
        let frame = self.areas[0].frame(page);
        self.pages.insert(page, page, frame);
        let asking = self.asking.remove(&page).unwrap_or_default();
        asking.into_iter().map(|(part, va)| Answer { part, at: PhysAddr(frame << 12 | (va.0 & 0xfff)) }).collect()
    }

    fn descend(&self, page: u64, memory: &PhysicalMemory) -> Range {
        let mut node = PhysAddr(self.root);
        loop {
            match look_into(node, page, KEY_BITS, memory) {
                Says::Has(area) => return area,
                Says::Child(child) => node = child,
                Says::Nothing => panic!("no area has page {page:#x}"),
            }
        }
    }

    /// The frame of the page of a line of the caches is known: the line of main memory that is read for it.
    pub fn read(&mut self, line: u64, frame: u64) -> u64 {
        self.frames.insert(line >> 6, frame);
        let read = frame << 6 | (line & 63);
        self.reads.insert(read, line);
        read
    }

    /// The line of the caches for which a line of main memory has been read.
    pub fn filled(&mut self, read: u64) -> u64 {
        self.reads.remove(&read).unwrap_or(read)
    }

    /// Where a line that the last level evicts is written.
    pub fn written(&self, line: u64) -> u64 {
        self.frames.get(&(line >> 6)).map_or(line, |frame| frame << 6 | (line & 63))
    }

    /// The buffers lose all: areas have changed.
    pub fn clear(&mut self) {
        self.areas.clear();
        self.pages.remove(|_, _| true);
    }
}
