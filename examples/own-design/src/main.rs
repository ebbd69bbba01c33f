//! The whole of Ambulator's command, with one page table more: two-choice hashing. A bucket is a line of four
//! slots, a slot a tag and an x86-64 entry; a page is in one of two buckets.

mod table;

use ambulator::base::{AccessKind, Asid, Cycle, PageSize, PhysAddr, State, VirtAddr, mix64, watch, watch::Meaning};
use ambulator::mmu::{Invalidation, MemoryPort, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator::sockets::{Claims, Descriptor, Parts, Socket, TableParts};
use ambulator::structures::pte::Pte;

/// Where the buckets are: what both halves know.
#[derive(Clone, Copy, Default, State)]
struct Buckets {
    base: PhysAddr,
    /// A power of two; 0 before the first page.
    count: u64,
}

impl Buckets {
    /// The two buckets that can hold the page with this tag.
    fn of(self, tag: u64) -> [PhysAddr; 2] {
        let hash = mix64(tag);
        [hash, hash.rotate_left(32)].map(|hash| self.base.offset((hash & (self.count - 1)) * 64))
    }
}

/// The tag of a page; never 0, which is an empty slot's.
fn tag(va: VirtAddr) -> u64 {
    va.0 >> 12 | 1 << 63
}

/// The place of a tag among a bucket's eight words.
fn slot_of(words: &[u64; 8], tag: u64) -> Option<usize> {
    (0..8).step_by(2).find(|at| words[*at] == tag)
}

/// The hardware's half: a core's walker, which has nothing to invalidate.
#[derive(Default, State)]
struct TwoChoiceWalker(Buckets);

impl Walker for TwoChoiceWalker {
    fn load_registers(&mut self, _asid: Asid, registers: &TableRegisters) {
        self.0 = Buckets { base: PhysAddr(registers.0[0]), count: registers.0[1] };
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        if self.0.count == 0 {
            return Walk { outcome: WalkOutcome::NotMapped, ready: now, accesses: 0 };
        }
        let lines = self.0.of(tag(va)).map(|line| (line, port.load_line(line, now)));
        let both = lines[0].1.ready.max(lines[1].1.ready);
        let mut walk = Walk { outcome: WalkOutcome::NotMapped, ready: both, accesses: 2 };
        for (line, loaded) in lines {
            let slot = slot_of(&loaded.words, tag(va));
            let mut pte = Pte(slot.map_or(0, |at| loaded.words[at + 1]));
            watch::meaning(line, || Meaning::new("bucket of four slots", "Azar et al. 1999").fields(pte.fields()));
            let Some(at) = slot else { continue };
            let bits = pte.missing_bits(access == AccessKind::Store);
            if bits != 0 {
                port.update(line.offset(at as u64 * 8 + 8), bits, loaded.ready);
                pte.0 |= bits;
            }
            (walk.outcome, walk.ready) = (WalkOutcome::Mapped(pte.translation(PageSize::SIZE_4K)), loaded.ready);
        }
        walk
    }

    fn invalidate(&mut self, _what: Invalidation) {}
}

fn descriptor() -> Descriptor {
    Descriptor::new(
        "two-choice",
        "each page is in one of two buckets that two hash functions name, the first that has room",
        "Azar et al., Balanced Allocations, SIAM J. Computing 1999",
    )
    .fills(Socket::PageTable, "two lines loaded at once, always")
    .claims(Claims { sizes: vec![PageSize::SIZE_4K], max_loads: 2, ..Claims::default() })
    .build(|_, _| {
        let table =
            TableParts::new(|_, _, _| Ok(Box::<table::Table>::default()), |_| Box::<TwoChoiceWalker>::default());
        Parts { page_table: Some(table), ..Parts::default() }
    })
}

fn main() -> std::process::ExitCode {
    ambulator::app().design(descriptor()).design_preset("two-choice", include_str!("../two-choice.toml")).run()
}
