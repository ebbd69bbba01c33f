//! TLB arrays of any associativity, on top of the set-associative array of `ambulator-hardware`.

use crate::{Invalidation, Translation};
use ambulator_base::watch::{Shape, Step};
use ambulator_base::{Asid, Cycle, Page, PageSize, Pfn, State, VirtAddr};
use ambulator_hardware::{Replacement, SetArray};

/// Flag of the time of an entry whose walk waits for a walker: it is not usable, and the time is the earliest from which
/// on it can be.
const WAITS: u64 = 1 << 63;

/// Whether the walk waits for a walker that fills an entry, of which this is [`TlbEntry::ready`].
#[inline(always)]
pub(crate) fn awaits_walker(ready: Cycle) -> bool {
    ready.0 >= WAITS
}

/// When a look-up that answers at `answer` may use an entry that is usable from `ready` on, as far as is known.
#[inline(always)]
pub(crate) fn usable(answer: Cycle, ready: Cycle) -> Cycle {
    if awaits_walker(ready) { usable_when_begun(answer, ready) } else { answer.max(ready) }
}

/// Not before the look-up's next cycle: until then the walk has not ended.
#[cold]
#[inline(never)]
fn usable_when_begun(answer: Cycle, ready: Cycle) -> Cycle {
    Cycle(ready.0 & !WAITS).max(answer.after(1))
}

/// How the time changes from which on an entry is usable.
#[derive(Clone, Copy, Debug)]
pub enum Retime {
    /// The walk that ends then ends later.
    Delay {
        /// As was said.
        told: Cycle,
        /// As it is.
        ready: Cycle,
    },
    /// The walk that ends then waits for a walker.
    Wait(Cycle),
    /// The walk has its walker, and ends then.
    Begin(Cycle),
}

impl Retime {
    /// What becomes of a time.
    #[inline(always)]
    pub(crate) fn apply(self, usable: Cycle) -> Cycle {
        match self {
            Retime::Delay { told, ready } if usable == told => ready,
            Retime::Wait(told) if usable == told => Cycle(told.0 | WAITS),
            Retime::Begin(ready) if awaits_walker(usable) => ready,
            _ => usable,
        }
    }
}

/// A TLB entry: a translation packed into a word, and the cycle at which the walk that fills it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct TlbEntry {
    packed: u64,
    /// When the entry becomes usable: a look-up before that joins the walk in flight.
    pub ready: Cycle,
}

const WRITABLE: u64 = 1 << 63;
const EXECUTABLE: u64 = 1 << 62;
const DIRTY: u64 = 1 << 61;
const SHIFT_AT: u32 = 52;
const FRAME_MASK: u64 = (1 << SHIFT_AT) - 1;

impl TlbEntry {
    /// The entry for `translation`, usable from `ready` on.
    #[inline(always)]
    pub fn new(translation: &Translation, ready: Cycle) -> TlbEntry {
        let packed = translation.frame.0
            | u64::from(translation.size.shift()) << SHIFT_AT
            | if translation.writable { WRITABLE } else { 0 }
            | if translation.executable { EXECUTABLE } else { 0 }
            | if translation.dirty { DIRTY } else { 0 };
        TlbEntry { packed, ready }
    }

    /// The translation in the entry.
    #[inline(always)]
    pub fn translation(self) -> Translation {
        Translation {
            frame: Pfn(self.packed & FRAME_MASK),
            size: PageSize::from_shift(((self.packed >> SHIFT_AT) & 31) as u32),
            writable: self.packed & WRITABLE != 0,
            executable: self.packed & EXECUTABLE != 0,
            dirty: self.packed & DIRTY != 0,
            ranged: false,
        }
    }
}

/// The x86 page size whose TLB array holds a page of `size`: the largest that does not exceed it. A page of a
/// size in between is cached one fragment at a time.
#[inline(always)]
pub(crate) fn tlb_page_size(size: PageSize) -> PageSize {
    if size >= PageSize::SIZE_1G {
        PageSize::SIZE_1G
    } else if size >= PageSize::SIZE_2M {
        PageSize::SIZE_2M
    } else {
        PageSize::SIZE_4K
    }
}

/// The fragment of `translation` (of a page that holds `va`) that an array for pages of `size` keeps.
#[inline(always)]
pub(crate) fn fragment(translation: &Translation, va: VirtAddr, size: PageSize) -> Translation {
    if translation.size == size {
        return *translation;
    }
    let offset = (va.0 & (translation.size.bytes() - 1)) >> size.shift() << size.order();
    Translation { frame: translation.frame.offset(offset), size, ..*translation }
}

/// A set-associative TLB whose entries may be of several page sizes, tagged by address space.
#[derive(State)]
pub struct Tlb {
    array: SetArray<TlbEntry>,
    #[state(skip)]
    sets: u64,
    /// `sets - 1` if that is a power of two, or else 0.
    #[state(skip)]
    mask: u64,
}

impl Tlb {
    /// A TLB of `entries` in sets of `ways` (0: fully associative). A TLB without entries always misses.
    pub fn new(entries: u32, ways: u32) -> Tlb {
        let ways = if ways == 0 { entries.max(1) } else { ways };
        let sets = u64::from(entries / ways).max(1);
        let mask = if sets.is_power_of_two() { sets - 1 } else { 0 };
        Tlb { array: SetArray::new(sets as usize, ways as usize, Replacement::Lru), sets, mask }
    }

    /// Number of sets.
    pub fn sets(&self) -> u64 {
        self.sets
    }

    #[inline(always)]
    fn set_and_key(&self, asid: Asid, va: VirtAddr, size: PageSize) -> (usize, u64) {
        let number = va.0 >> size.shift();
        let set = if self.mask != 0 || self.sets == 1 { number & self.mask } else { number % self.sets };
        // 45 bits of page number, 14 of ASID, 5 of size: no two pages share a key.
        (set as usize, number << 19 | u64::from(asid.0 & Asid::MAX.0) << 5 | u64::from(size.shift() & 31))
    }

    /// The entry of the page of `size` that holds `va`; it becomes the most recently used.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, va: VirtAddr, size: PageSize) -> Option<TlbEntry> {
        let (set, key) = self.set_and_key(asid, va, size);
        self.array.lookup(set, key).map(|entry| *entry)
    }

    /// The same without a use of the entry.
    pub fn peek(&self, asid: Asid, va: VirtAddr, size: PageSize) -> Option<TlbEntry> {
        let (set, key) = self.set_and_key(asid, va, size);
        self.array.peek(set, key).copied()
    }

    /// Changes when the entry of the page of `size` is usable that holds `va`.
    pub fn retime(&mut self, asid: Asid, va: VirtAddr, size: PageSize, change: Retime) {
        let (set, key) = self.set_and_key(asid, va, size);
        if let Some(entry) = self.array.peek_mut(set, key) {
            entry.ready = change.apply(entry.ready);
        }
    }

    /// Inserts an entry in place of the same page's old entry or of the least recently used entry of its set.
    #[inline(always)]
    pub fn fill(&mut self, asid: Asid, va: VirtAddr, translation: &Translation, ready: Cycle) {
        let (set, key) = self.set_and_key(asid, va, translation.size);
        self.array.insert(set, key, TlbEntry::new(translation, ready));
    }

    /// [`Tlb::fill`] of a page that has no entry.
    #[inline(always)]
    pub fn fill_new(&mut self, asid: Asid, va: VirtAddr, translation: &Translation, ready: Cycle) {
        let (set, key) = self.set_and_key(asid, va, translation.size);
        self.array.insert_new(set, key, TlbEntry::new(translation, ready));
    }

    /// What a look-up from `from` to `until` finds, as a step for a watch. Changes nothing.
    pub fn look_up_step(
        &self,
        name: &str,
        asid: Asid,
        va: VirtAddr,
        size: PageSize,
        from: Cycle,
        until: Cycle,
    ) -> Step {
        let (set, key) = self.set_and_key(asid, va, size);
        let found = self.array.peek(set, key);
        let answer = if found.is_some() { "hit" } else { "miss" };
        let says = match (self.sets, self.array.ways()) {
            (1, ways) => format!("{answer} among {ways} entries"),
            (sets, ways) => format!("{answer} in set {set} of {sets}, {ways} ways"),
        };
        let shape = Shape::Ways {
            set: set as u64,
            sets: self.sets,
            ways: self.array.ways() as u64,
            first: 0,
            used: Vec::new(),
            way: None,
        };
        let step = Step::look_up(format!("{name}, {size}"), found.is_some(), from, until).says(says).shape(shape);
        match found {
            Some(entry) => entry.translation().fields_of(step),
            None => step,
        }
    }

    /// Where a fill puts a page, as a step for a watch.
    pub fn fill_step(&self, name: &str, asid: Asid, va: VirtAddr, size: PageSize, ready: Cycle) -> Step {
        let (set, _) = self.set_and_key(asid, va, size);
        Step::fill(format!("{name}, {size}"), ready).says(match self.sets {
            1 => "gets the entry".to_owned(),
            sets => format!("gets the entry, in set {set} of {sets}"),
        })
    }

    /// Removes the entries that `what` selects.
    pub fn invalidate(&mut self, what: Invalidation, sizes: &[PageSize]) {
        match what {
            Invalidation::Page { asid, page } => {
                for &size in sizes {
                    let fragments = page.size.bytes().max(size.bytes()) / size.bytes();
                    if fragments <= self.sets * 2 {
                        for i in 0..fragments {
                            let va = page.start.align_down(size).offset(i * size.bytes());
                            let (set, key) = self.set_and_key(asid, va, size);
                            self.array.remove(set, key);
                        }
                    } else {
                        self.array.retain(|key, _| !Self::overlaps(key, asid, page));
                    }
                }
            }
            Invalidation::Asid(asid) => {
                self.array.retain(|key, _| Self::asid_of(key) != asid.0 & Asid::MAX.0);
            }
            Invalidation::All => self.array.clear(),
        }
    }

    #[inline]
    fn asid_of(key: u64) -> u16 {
        (key >> 5) as u16 & Asid::MAX.0
    }

    fn overlaps(key: u64, asid: Asid, page: Page) -> bool {
        let shift = (key & 31) as u32;
        let start = (key >> 19) << shift;
        Self::asid_of(key) == asid.0 & Asid::MAX.0 && start < page.end().0 && page.start.0 < start + (1 << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translation(frame: u64, size: PageSize) -> Translation {
        Translation { frame: Pfn(frame), size, writable: true, executable: false, dirty: false, ranged: false }
    }

    #[test]
    fn an_entry_packs_and_unpacks_its_translation() {
        for size in [PageSize::SIZE_4K, PageSize::from_shift(16), PageSize::SIZE_2M, PageSize::SIZE_1G] {
            let t = Translation { dirty: true, ..translation(0x3_ffff_ffff, size) };
            assert_eq!(TlbEntry::new(&t, Cycle(7)).translation(), t);
        }
    }

    #[test]
    fn a_fragment_has_the_frames_of_its_offset() {
        let big = translation(512, PageSize::SIZE_2M);
        let va = VirtAddr(0x4000_5123);
        let small = fragment(&big, va, PageSize::SIZE_4K);
        assert_eq!(small.frame, Pfn(512 + 5));
        assert_eq!(small.physical(va), big.physical(va));
    }

    #[test]
    fn a_full_set_evicts_its_least_recently_used_entry() {
        let mut tlb = Tlb::new(64, 4); // 16 sets
        let page = |i: u64| VirtAddr(i * 16 * 4096); // all in set 0
        for i in 0..4 {
            tlb.fill(Asid(1), page(i), &translation(i, PageSize::SIZE_4K), Cycle(0));
        }
        assert!(tlb.lookup(Asid(1), page(0), PageSize::SIZE_4K).is_some());
        tlb.fill(Asid(1), page(4), &translation(4, PageSize::SIZE_4K), Cycle(0));
        assert!(tlb.lookup(Asid(1), page(0), PageSize::SIZE_4K).is_some(), "just used");
        assert!(tlb.lookup(Asid(1), page(1), PageSize::SIZE_4K).is_none(), "the least recently used was replaced");
        assert!(tlb.lookup(Asid(2), page(0), PageSize::SIZE_4K).is_none(), "another address space");
    }

    #[test]
    fn invalidation_removes_every_fragment_and_nothing_else() {
        let sizes = [PageSize::SIZE_4K, PageSize::SIZE_2M];
        let mut tlb = Tlb::new(1024, 8);
        for i in 0..600 {
            tlb.fill(Asid(1), VirtAddr(i * 4096), &translation(i, PageSize::SIZE_4K), Cycle(0));
        }
        tlb.fill(Asid(1), VirtAddr(0), &translation(0, PageSize::SIZE_2M), Cycle(0));
        tlb.invalidate(
            Invalidation::Page { asid: Asid(1), page: Page::containing(VirtAddr(0), PageSize::SIZE_2M) },
            &sizes,
        );
        for i in 0..600 {
            let present = tlb.lookup(Asid(1), VirtAddr(i * 4096), PageSize::SIZE_4K).is_some();
            assert_eq!(present, i >= 512, "page {i}");
        }
        assert!(tlb.lookup(Asid(1), VirtAddr(0), PageSize::SIZE_2M).is_none());
        tlb.fill(Asid(1), VirtAddr(0), &translation(0, PageSize::SIZE_2M), Cycle(0));
        tlb.invalidate(
            Invalidation::Page { asid: Asid(1), page: Page::containing(VirtAddr(0x5000), PageSize::SIZE_4K) },
            &sizes,
        );
        assert!(
            tlb.lookup(Asid(1), VirtAddr(0), PageSize::SIZE_2M).is_none(),
            "a large entry over the page is removed too"
        );
    }
}
