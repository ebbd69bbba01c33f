//! Calls of `walk`: through the timed port of a machine, or as the kernel's look-up.

use crate::borrowed::{Reads, lend_port};
use crate::table::{Instance, Instances};
use ambulator_base::{AccessKind, Archive, Asid, Cycle, Page, PageSize, PhysAddr, SimHostRefusal, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::Mapping;
use ambulator_structures::pte::Pte;
use std::sync::Arc;

/// An entry says in the first bits that x86-64 leaves to software how large its page is: log2 of its frames.
const ORDER_SHIFT: u32 = Pte::HIGH_SOFTWARE.trailing_zeros();
const ORDER_MASK: u64 = 31;

/// The entry of a page.
pub fn entry_of(mapping: &Mapping) -> Pte {
    let size = mapping.page.size;
    let leaf = Pte::leaf(mapping.frame, mapping.flags, size != PageSize::SIZE_4K);
    Pte(leaf.0 | u64::from(size.order()) << ORDER_SHIFT)
}

/// The size of an entry's page; 4 KiB for words that are no entry.
fn size_of(entry: Pte) -> PageSize {
    let order = (entry.0 >> ORDER_SHIFT & ORDER_MASK) as u32;
    PageSize::from_shift((12 + order).min(PageSize::SIZE_1G.shift()))
}

/// What a walk has found: where the entry is, and the entry.
pub struct Found {
    /// The entry's address.
    pub at: PhysAddr,
    /// The entry.
    pub entry: Pte,
}

impl Found {
    /// The entry as the kernel's.
    pub fn mapping(&self, va: VirtAddr) -> Mapping {
        let size = size_of(self.entry);
        Mapping { page: Page::containing(va, size), frame: self.entry.frame(), flags: self.entry.flags() }
    }
}

/// Checks an address that Python gives.
pub fn checked(at: u64, bytes: u64) -> Result<PhysAddr, String> {
    if !at.is_multiple_of(8) {
        return Err(format!("the address {at:#x} is not a multiple of 8: entries and tags are words of 8 bytes"));
    }
    if at >= bytes {
        return Err(format!("the address {at:#x} is beyond the end of memory, {bytes:#x}"));
    }
    Ok(PhysAddr(at))
}

/// Words that a walk has read.
#[derive(Default)]
struct Words {
    read: Vec<(u64, u64)>,
    most: usize,
}

impl Words {
    fn keep(&mut self, at: u64, word: u64) -> Result<u64, String> {
        if self.read.len() >= self.most {
            return Err(format!("this walk has read {} words and more: does it end? (`max_loads`)", self.most));
        }
        self.read.push((at, word));
        Ok(word)
    }

    fn of(&self, at: u64) -> Option<u64> {
        self.read.iter().rev().find(|(known, _)| *known == at).map(|(_, word)| *word)
    }
}

/// Memory without time.
struct Untimed<'a> {
    memory: &'a PhysicalMemory,
    words: Words,
}

impl Reads for Untimed<'_> {
    fn read(&mut self, at: &[u64]) -> Result<Vec<u64>, String> {
        let memory = self.memory;
        at.iter().map(|at| self.words.keep(*at, memory.read(checked(*at, memory.bytes())?))).collect()
    }

    fn now(&self) -> u64 {
        0
    }
}

/// The kernel's look-up: the walk, without time.
pub fn look_up(instance: &Instance, va: VirtAddr, memory: &PhysicalMemory) -> Option<Found> {
    let mut reads = Untimed { memory, words: Words { most: instance.most_words(), ..Words::default() } };
    let at = called(instance, va, &mut reads).unwrap_or_else(|sentence| SimHostRefusal(sentence).raise())?;
    let entry = reads.words.of(at).map_or_else(|| reads.read(&[at]).map(|words| words[0]), Ok);
    let entry = entry.unwrap_or_else(|sentence| instance.refuse("walk", &sentence));
    Some(Found { at: PhysAddr(at), entry: Pte(entry) }).filter(|found| found.entry.present())
}

/// The address that `walk` returns, or the sentence of its exception.
fn called(instance: &Instance, va: VirtAddr, reads: &mut dyn Reads) -> Result<Option<u64>, String> {
    lend_port(reads, || instance.walk(va.0))
}

/// A port with the time of a walk.
struct Timed<'a> {
    port: &'a mut dyn MemoryPort,
    now: Cycle,
    bytes: u64,
    words: Words,
}

impl Reads for Timed<'_> {
    fn read(&mut self, at: &[u64]) -> Result<Vec<u64>, String> {
        let begin = self.now;
        let mut words = Vec::with_capacity(at.len());
        for at in at {
            let loaded = self.port.load(checked(*at, self.bytes)?, begin);
            self.now = self.now.max(loaded.ready);
            words.push(self.words.keep(*at, loaded.value)?);
        }
        Ok(words)
    }

    fn now(&self) -> u64 {
        self.now.0
    }
}

/// A core's walker, which calls `walk` of the current process's table.
pub struct PythonWalker {
    instances: Arc<Instances>,
    current: Option<Arc<Instance>>,
}

impl PythonWalker {
    /// A walker for tables among these.
    pub fn new(instances: Arc<Instances>) -> PythonWalker {
        PythonWalker { instances, current: None }
    }
}

/// It has none: its table's number is in the registers, which are loaded again.
impl State for PythonWalker {
    fn state(&mut self, _archive: &mut Archive<'_>) {}
}

impl Walker for PythonWalker {
    fn load_registers(&mut self, _asid: Asid, registers: &TableRegisters) {
        self.current = registers.0.first().and_then(|number| self.instances.get(*number));
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        let not_mapped = |ready: Cycle, words: &Words| Walk {
            outcome: WalkOutcome::NotMapped,
            ready,
            accesses: words.read.len() as u32,
        };
        let Some(instance) = self.current.as_deref() else { return not_mapped(now, &Words::default()) };
        let words = Words { most: instance.most_words(), ..Words::default() };
        let mut reads = Timed { port, now, bytes: instance.memory_bytes, words };
        let found = called(instance, va, &mut reads);
        // Below a guest, a load may have failed: its value means nothing, and neither does what came of it.
        if reads.port.faulted() {
            return not_mapped(reads.now, &reads.words);
        }
        let found = found.unwrap_or_else(|sentence| SimHostRefusal(sentence).raise());
        let Some(at) = found else { return not_mapped(reads.now, &reads.words) };
        let entry = reads.words.of(at).map_or_else(|| reads.read(&[at]).map(|words| words[0]), Ok);
        let mut entry = Pte(entry.unwrap_or_else(|sentence| instance.refuse("walk", &sentence)));
        if !entry.present() || reads.port.faulted() {
            return not_mapped(reads.now, &reads.words);
        }
        let missing = entry.missing_bits(access == AccessKind::Store);
        if missing != 0 {
            reads.port.update(PhysAddr(at), missing, reads.now);
            entry.0 |= missing;
        }
        Walk {
            outcome: WalkOutcome::Mapped(entry.translation(size_of(entry))),
            ready: reads.now,
            accesses: reads.words.read.len() as u32,
        }
    }

    fn invalidate(&mut self, _what: Invalidation) {}
}
