//! Page-walk caches: entries that point to tables, split by level.

use super::{FLAT, FLAT_BITS, NODE_BITS};
use crate::pte::Pte;
use ambulator_base::{Asid, Cycle, Invalid, PhysAddr, VirtAddr};
use ambulator_hardware::{MAX_WAYS, Replacement, SetArray};
use ambulator_mmu::Invalidation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Page-walk caches: one for each level of entries that point to tables. All are probed in parallel, and the hit nearest
/// to the page is where the walk goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PwcSpec {
    /// Entries for page-directory entries, each covering 2 MiB; 0 leaves the level out.
    #[schemars(extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub pde_entries: u32,
    /// Entries for page-directory-pointer entries, each covering 1 GiB; 0 leaves the level out.
    #[schemars(extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub pdpte_entries: u32,
    /// Entries for PML4 entries, each covering 512 GiB; 0 leaves the level out.
    #[schemars(extend("x-unit" = "entries", "x-source" = "LVM Table 1"))]
    pub pml4e_entries: u32,
    /// Entries for PML5 entries, each covering 256 TiB; 0 leaves the level out. Tables of four levels have none of them.
    #[schemars(extend("x-unit" = "entries", "x-source" = "our choice: as for the other levels"))]
    pub pml5e_entries: u32,
    /// Associativity of each level; 0 is fully associative.
    #[schemars(extend("x-unit" = "ways", "x-source" = "our choice: LVM Table 1 names none"))]
    pub ways: u32,
    /// Cycles of the parallel look-up, which every walk pays, whether it hits or not.
    #[schemars(extend("x-unit" = "cycles", "x-source" = "LVM Table 1"))]
    pub latency: u64,
}

impl Default for PwcSpec {
    fn default() -> Self {
        PwcSpec { pde_entries: 32, pdpte_entries: 32, pml4e_entries: 32, pml5e_entries: 32, ways: 0, latency: 2 }
    }
}

impl PwcSpec {
    /// No page-walk caches: every walk loads an entry of each level.
    pub fn none() -> PwcSpec {
        PwcSpec { pde_entries: 0, pdpte_entries: 0, pml4e_entries: 0, pml5e_entries: 0, ..PwcSpec::default() }
    }

    fn levels(&self) -> [(&'static str, u32); LEVELS] {
        [
            ("pde_entries", self.pde_entries),
            ("pdpte_entries", self.pdpte_entries),
            ("pml4e_entries", self.pml4e_entries),
            ("pml5e_entries", self.pml5e_entries),
        ]
    }

    /// Sentences that say what is wrong with the spec at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if self.ways as usize > MAX_WAYS {
            wrong.push(Invalid::new(
                format!("{at}.ways"),
                format!("is {}: at most {MAX_WAYS} ways are compared at once; 0 is fully associative", self.ways),
            ));
            return wrong;
        }
        for (key, entries) in self.levels() {
            if self.ways == 0 && entries as usize > MAX_WAYS {
                wrong.push(
                    Invalid::new(
                        format!("{at}.{key}"),
                        format!(
                            "is {entries}, fully associative: at most {MAX_WAYS} entries are compared at once; \
                             state `{at}.ways` for more"
                        ),
                    )
                    .and(format!("{at}.ways")),
                );
            } else if self.ways != 0 && !entries.is_multiple_of(self.ways) {
                wrong.push(
                    Invalid::new(
                        format!("{at}.{key}"),
                        format!("is {entries}: it must be a multiple of `{at}.ways`, which is {}", self.ways),
                    )
                    .and(format!("{at}.ways")),
                );
            } else if entries > 1 << 20 {
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!(
                        "is {entries}: at most 1048576 entries make sense for an array that is probed in a few cycles"
                    ),
                ));
            }
        }
        wrong
    }
}

const LEVELS: usize = 4;

/// log2 of what an entry of a level covers: PDE, PDPTE, PML4E, PML5E.
const fn shift_of(level: usize) -> u32 {
    21 + 9 * level as u32
}

/// What a level holds: an entry, and when the load that brought it ends.
#[derive(Clone, Copy)]
struct Held {
    pte: Pte,
    ready: Cycle,
}

struct Level {
    array: SetArray<Held>,
    sets: u64,
}

/// A table that a walk can begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedNode {
    /// Where the table is.
    pub at: PhysAddr,
    /// log2 of its entries.
    pub bits: u32,
    /// log2 of the bytes that an entry of it covers.
    pub shift: u32,
    /// Whose entry hit: 0 PDE, 1 PDPTE, 2 PML4E, 3 PML5E.
    pub level: usize,
}

/// The page-walk caches of a core, tagged by address space.
pub struct WalkCaches {
    levels: [Option<Level>; LEVELS],
    latency: u64,
}

impl WalkCaches {
    /// Empty caches of a spec that has been validated.
    pub fn new(spec: &PwcSpec) -> WalkCaches {
        let levels = spec.levels().map(|(_, entries)| {
            (entries > 0).then(|| {
                let ways = if spec.ways == 0 { entries } else { spec.ways };
                let sets = (entries / ways).max(1);
                Level { array: SetArray::new(sets as usize, ways as usize, Replacement::Lru), sets: u64::from(sets) }
            })
        });
        // Without caches there is nothing to wait for.
        let latency = if levels.iter().any(Option::is_some) { spec.latency } else { 0 };
        WalkCaches { levels, latency }
    }

    /// Cycles of a look-up.
    pub fn latency(&self) -> u64 {
        self.latency
    }

    #[inline(always)]
    fn set_and_key(level: &Level, asid: Asid, va: VirtAddr, shift: u32) -> (usize, u64) {
        let number = va.0 >> shift;
        // At most 36 bits of number and 16 of ASID.
        ((number % level.sets) as usize, number << 16 | u64::from(asid.0))
    }

    /// The table nearest to `va`'s page whose pointer is there at `now`. A pointer whose load is still under way is not.
    #[inline]
    pub fn lookup(&mut self, asid: Asid, va: VirtAddr, now: Cycle) -> Option<CachedNode> {
        for (number, level) in self.levels.iter_mut().enumerate() {
            let Some(level) = level else { continue };
            let span = shift_of(number);
            let (set, key) = WalkCaches::set_and_key(level, asid, va, span);
            if let Some(held) = level.array.lookup(set, key)
                && held.ready <= now
            {
                let bits = if held.pte.0 & FLAT != 0 { FLAT_BITS } else { NODE_BITS };
                return Some(CachedNode { at: held.pte.frame().start(), bits, shift: span - bits, level: number });
            }
        }
        None
    }

    /// Keeps an entry that points to a table covering `2^span` bytes around `va`, loaded at `ready`.
    #[inline]
    pub fn fill(&mut self, asid: Asid, va: VirtAddr, span: u32, pte: Pte, ready: Cycle) {
        let number = (span - 21) as usize / 9;
        let Some(Some(level)) = self.levels.get_mut(number) else {
            return;
        };
        let (set, key) = WalkCaches::set_and_key(level, asid, va, span);
        // Walks are not carried out in the order of their cycles: what is there already may be there earlier.
        let ready = match level.array.peek(set, key) {
            Some(held) if held.pte.frame() == pte.frame() => ready.min(held.ready),
            _ => ready,
        };
        level.array.insert(set, key, Held { pte, ready });
    }

    /// Drops what `what` names: for a page, the entries of every level that lead to an address of it.
    pub fn invalidate(&mut self, what: Invalidation) {
        for (number, level) in self.levels.iter_mut().enumerate() {
            let Some(level) = level else { continue };
            let shift = shift_of(number);
            match what {
                Invalidation::Page { asid, page } => {
                    let (first, last) = (page.start.0 >> shift, (page.end().0 - 1) >> shift);
                    if first == last {
                        let (set, key) = WalkCaches::set_and_key(level, asid, page.start, shift);
                        level.array.remove(set, key);
                    } else {
                        level.array.retain(|key, _| key as u16 != asid.0 || !(first..=last).contains(&(key >> 16)));
                    }
                }
                Invalidation::Asid(asid) => {
                    level.array.retain(|key, _| key as u16 != asid.0);
                }
                Invalidation::All => level.array.clear(),
            }
        }
    }
}
