//! The page tables that walkers read, a radix tree, cuckoo hash tables (ECPT, ME-HPT) of 4 KiB pages or a learned index
//! (LVM), a TLB in memory before them, and Revelator's predictions beside them.

use super::learned::{Learned, LearnedSettings};
use ambulator_base::{PhysAddr, VirtAddr, mix64, mul_high};
use ambulator_memory::PhysicalMemory;
use ambulator_structures::elastic::{HashKind, hashes};

/// Bits of a page-table entry (Intel SDM volume 3, chapter 4).
pub const PRESENT: u64 = 1;
pub const FRAME: u64 = ((1 << 46) - 1) & !0xfff;

/// The registers of a process's page table.
pub enum Tables {
    /// The root, and log2 of the bytes that one of its entries covers.
    Radix {
        root: u64,
        shift: u32,
    },
    Cuckoo(Cuckoo),
    Learned(Learned),
}

/// The kind of table, and its settings.
#[derive(Clone, Copy)]
pub enum Kind {
    Radix,
    /// A radix table of 4 KiB pages, whose entries of the last two levels are prefetched as a walk begins.
    Asap,
    Cuckoo {
        hash: HashKind,
        /// Cycles from the start of a walk until its loads: hashing, and the cuckoo walk caches.
        latency: u64,
    },
    Learned(LearnedSettings),
}

impl Tables {
    /// From the words of the kernel's registers.
    pub fn new(kind: Kind, registers: &[u64]) -> Tables {
        match kind {
            Kind::Radix | Kind::Asap => {
                Tables::Radix { root: registers[0] & FRAME, shift: (registers[1] - (registers[0] & !FRAME)) as u32 }
            }
            Kind::Cuckoo { hash, .. } => Tables::Cuckoo(Cuckoo::new(hash, &registers[1..])),
            Kind::Learned(settings) => {
                let mut learned = Learned::new(settings);
                learned.load_registers(registers);
                Tables::Learned(learned)
            }
        }
    }

    /// The registers have changed.
    pub fn load_registers(&mut self, kind: Kind, registers: &[u64]) {
        match self {
            Tables::Learned(learned) => learned.load_registers(registers),
            _ => *self = Tables::new(kind, registers),
        }
    }
}

/// The table of 4 KiB pages: eight entries in a line, and a line in one of the ways.
///
/// The cuckoo walk caches are left out: they always know that a page is small, as those of the simulator do when their
/// 16 entries cover a program's data (2 GiB) and it has no large pages.
pub struct Cuckoo {
    hash: HashKind,
    ways: Vec<Way>,
}

/// A way, which may be moving into a larger one: its lines below `moved` have moved.
struct Way {
    lines: u64,
    moved: u64,
    larger: u64,
    now: Chunks,
    /// Where lines that have moved are.
    then: Chunks,
}

/// The memory of a way: one block (ECPT), or the chunks that the L2P table lists (ME-HPT).
#[derive(Clone)]
struct Chunks {
    /// log2 of the bytes of each.
    shift: u32,
    begins: Vec<u64>,
}

impl Chunks {
    fn new(next: &mut impl FnMut() -> u64) -> Chunks {
        let head = next();
        Chunks { shift: (head >> 32) as u32, begins: (0..head as u32).map(|_| next()).collect() }
    }

    fn line(&self, number: u64) -> PhysAddr {
        let offset = number * 64;
        PhysAddr(self.begins[(offset >> self.shift) as usize] + (offset & ((1 << self.shift) - 1)))
    }
}

impl Way {
    fn new(next: &mut impl FnMut() -> u64) -> Way {
        let (lines, resize, moved) = (next(), next(), next());
        let (resizes, in_place) = (resize >> 63 == 1, resize >> 62 & 1 == 1);
        let (now, other) = (Chunks::new(next), Chunks::new(next));
        let then = if in_place { now.clone() } else { other };
        Way { lines, moved: if resizes { moved } else { 0 }, larger: resize & (u64::MAX >> 2), now, then }
    }

    fn line(&self, hash: u32) -> PhysAddr {
        let number = u64::from(hash) & (self.lines - 1);
        if number < self.moved { self.then.line(u64::from(hash) & (self.larger - 1)) } else { self.now.line(number) }
    }
}

impl Cuckoo {
    fn new(hash: HashKind, registers: &[u64]) -> Cuckoo {
        let mut words = registers.iter().copied();
        let mut next = || words.next().expect("a word of the registers");
        let ways = next();
        Cuckoo { hash, ways: (0..ways).map(|_| Way::new(&mut next)).collect() }
    }

    /// The lines that a walk for a page reads at the same time, and which of them has its entry, with its address.
    ///
    /// # Panics
    /// If none has: accesses fault before they are dispatched.
    pub fn probes(&self, page: u64, memory: &PhysicalMemory) -> (Vec<PhysAddr>, usize, PhysAddr) {
        let key = page / 8;
        let hashes = hashes(self.hash, key);
        let lines: Vec<PhysAddr> = self.ways.iter().zip(hashes).map(|(way, hash)| way.line(hash)).collect();
        // Six bits of the key in each entry.
        let tag = |line: PhysAddr| {
            (0..8).fold(0, |key, word| key | (memory.read(line.offset(8 * word)) >> 52 & 63) << (6 * word))
        };
        let entry = |line: PhysAddr| line.offset(page % 8 * 8);
        let found = lines.iter().position(|line| tag(*line) == key && memory.read(entry(*line)) & PRESENT != 0);
        let found = found.unwrap_or_else(|| panic!("a walk finds no entry of page {:#x}", page << 12));
        let at = entry(lines[found]);
        (lines, found, at)
    }
}

/// A part-of-memory TLB (POM-TLB), which has all 4 KiB pages: as after a warm-up, if they find room.
#[derive(Clone, Copy)]
pub struct MemoryTlb {
    pub begins: u64,
    pub sets: u64,
    /// Of a set.
    pub lines: u64,
}

impl MemoryTlb {
    /// The lines that are read at the same time for a page.
    pub fn of(self, page: u64) -> impl Iterator<Item = PhysAddr> {
        let first = self.begins + page % self.sets * self.lines * 64;
        (0..self.lines).map(move |line| PhysAddr(first + line * 64))
    }
}

/// Revelator's predictions of 4 KiB pages and of the nodes that map them, without a filter: all tiers are fetched.
#[derive(Clone, Copy)]
pub struct Tiers {
    pub tiers: u64,
    /// What is predicted.
    pub entries: bool,
    pub data: bool,
    /// Of main memory.
    pub frames: u64,
    /// Cycles from the miss of the L2 TLB to the fetches.
    pub latency: u64,
}

impl Tiers {
    /// The lines that are fetched for an address: entries, then data, each once.
    pub fn of(self, va: VirtAddr) -> Vec<u64> {
        // A tier's frame for the page or node of a number. Kinds have numbers of their own.
        let frame =
            |number: u64, kind: u64, tier: u64| mul_high(mix64(number ^ kind << 56 ^ tier << 48), self.frames) << 12;
        let entries = (0..self.tiers).map(|tier| frame(va.0 >> 21, 3, tier) + (va.0 >> 12 & 511) * 8);
        let data = (0..self.tiers).map(|tier| frame(va.0 >> 12, 1, tier) + (va.0 & 0xfff));
        let entries = entries.filter(|_| self.entries);
        entries.chain(data.filter(|_| self.data)).map(|at| at >> 6).collect()
    }
}
