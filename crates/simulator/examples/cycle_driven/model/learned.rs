//! LVM's index of linear models and its gapped page tables, and the walk cache of models.

use super::lru::LruSets;
use super::tables::PRESENT;
use ambulator_base::PhysAddr;
use ambulator_memory::PhysicalMemory;

/// Levels of models.
const LEVELS: usize = 3;
/// Bits of a model's parameters after the point.
const FRACTION: u32 = 20;
/// Marks a leaf, in the word of its slope.
const LEAF: u64 = 1 << 63;
/// Entries of a line.
const SLOTS: u64 = 8;

/// Sizes and cycles.
#[derive(Clone, Copy)]
pub struct LearnedSettings {
    /// Models that the walk cache holds.
    pub entries: usize,
    /// Of a look-up there.
    pub look_up: u64,
    /// Of a multiplication and an addition.
    pub evaluation: u64,
    /// Lines that a search reads beyond the predicted one, at most.
    pub extra: u64,
}

/// Where a walk is.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// At a model: its level and its number in that.
    Model(usize, u64),
    /// At a line of a gapped table: the number of the predicted one, and how many it has searched before.
    Slots(u64, u64),
}

/// A model's key in the walk cache, and in the register that names the one that has changed.
fn key(level: usize, number: u64) -> u64 {
    (level as u64) << 32 | number
}

/// The registers of a process's index, and the walk cache.
pub struct Learned {
    pub settings: LearnedSettings,
    levels: [u64; LEVELS],
    /// First page and number of pages of each segment.
    segments: Vec<(u64, u64)>,
    /// The number of the index, and of its changes.
    version: (u64, u64),
    cached: LruSets<()>,
}

impl Learned {
    /// No index; an empty walk cache.
    pub fn new(settings: LearnedSettings) -> Learned {
        Learned {
            settings,
            levels: [0; LEVELS],
            segments: Vec::new(),
            version: (0, 0),
            cached: LruSets::new(settings.entries, 0),
        }
    }

    /// The process's registers come before the kernel's. The walk cache loses the model that has changed, or all of another
    /// index or after several changes.
    pub fn load_registers(&mut self, registers: &[u64]) {
        let own = &registers[1..=registers[0] as usize];
        let (old, version) = (self.version, (own[0], own[1]));
        self.version = version;
        let all = version.0 != old.0 || version.1 - old.1 > 1;
        self.cached.remove(|model, ()| all || (version.1 != old.1 && model == own[2]));
        self.levels.copy_from_slice(&own[3..][..LEVELS]);
        self.segments = own[3 + LEVELS..].chunks_exact(2).map(|words| (words[0], words[1])).collect();
    }

    /// The page's segment, and its number in it.
    fn segment(&self, page: u64) -> (u64, u64) {
        let found = self.segments.iter().position(|(first, pages)| (*first..first + pages).contains(&page));
        let segment = found.unwrap_or_else(|| panic!("no segment has page {:#x}", page << 12));
        (segment as u64, page - self.segments[segment].0)
    }

    /// Where the walk of a page begins.
    pub fn first(&self, page: u64) -> Stage {
        Stage::Model(0, self.segment(page).0)
    }

    /// The line that a walk reads.
    pub fn line(&self, stage: Stage) -> PhysAddr {
        match stage {
            Stage::Model(level, number) => PhysAddr(self.levels[level] + number * 16),
            // One after, one before, two after.
            Stage::Slots(line, searched) => {
                let apart = searched.div_ceil(2);
                PhysAddr(64 * if searched % 2 == 1 { line + apart } else { line - apart })
            }
        }
    }

    /// Whether the walk cache has the model that a walk is at.
    pub fn knows(&mut self, stage: Stage) -> bool {
        matches!(stage, Stage::Model(level, number) if self.cached.lookup(0, key(level, number)).is_some())
    }

    /// A model has come.
    pub fn learn(&mut self, level: usize, number: u64) {
        self.cached.insert(0, key(level, number), ());
    }

    /// Where a walk goes from a model.
    pub fn next(&self, level: usize, number: u64, page: u64, memory: &PhysicalMemory) -> Stage {
        let at = self.line(Stage::Model(level, number));
        let (slope, intercept) = (memory.read(at), memory.read(at.offset(8)));
        let y = i128::from(slope & !LEAF) * i128::from(self.segment(page).1) + i128::from(intercept as i64);
        let output = (y >> FRACTION) as u64;
        if slope & LEAF == 0 { Stage::Model(level + 1, output) } else { Stage::Slots(output / SLOTS, 0) }
    }

    /// The entry of a page in the line that a walk has read: its address, and log2 of the page's bytes.
    pub fn entry(&self, stage: Stage, page: u64, memory: &PhysicalMemory) -> Option<(PhysAddr, u32)> {
        let line = self.line(stage);
        (0..SLOTS).map(|slot| line.offset(8 * slot)).find_map(|at| {
            let word = memory.read(at);
            let order = word >> 52 & 31;
            // Twelve bits of the page's number: six below the size's, six above.
            let tag = (word >> 46 & 63) | (word >> 57 & 63) << 6;
            let is_its = word & PRESENT != 0 && tag == page >> order & 0xfff;
            is_its.then_some((at, 12 + order as u32))
        })
    }

    /// The walk cache loses all models.
    pub fn clear(&mut self) {
        self.cached.remove(|_, ()| true);
    }
}
