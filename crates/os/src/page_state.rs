//! The kernel's state of each page: its frame and its rights.

use ambulator_base::{Archive, PageSize, Pfn, State, VirtAddr, Vpn};
use ambulator_memory::HugeWords;
use rustc_hash::FxHashMap;

/// The state of one 4 KiB page, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageState(u64);

const FRAME_BITS: u32 = 40;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;
const SIZE_AT: u32 = FRAME_BITS;
const PRESENT: u64 = 1 << 45;
const WRITABLE: u64 = 1 << 46;
const EXECUTABLE: u64 = 1 << 47;
/// Shared by a fork: a store copies the page first.
const COPY: u64 = 1 << 48;
/// Not present: the page is in swap.
const SWAPPED: u64 = 1 << 49;
/// `MADV_FREE`: reclaim may drop the page while it is clean.
const LAZY: u64 = 1 << 50;
/// Not present: a scan of NUMA balancing took the entry away; the frame and the size are still the page's.
const HINTED: u64 = 1 << 51;

impl PageState {
    /// No page.
    pub const NONE: PageState = PageState(0);

    /// A present page: `frame` holds these 4 KiB, which are part of a page of `size`.
    #[inline(always)]
    pub fn mapped(frame: Pfn, size: PageSize, writable: bool, executable: bool) -> PageState {
        PageState(
            frame.0
                | u64::from(size.shift()) << SIZE_AT
                | PRESENT
                | if writable { WRITABLE } else { 0 }
                | if executable { EXECUTABLE } else { 0 },
        )
    }

    /// A page in swap.
    pub(crate) fn in_swap() -> PageState {
        PageState(SWAPPED)
    }

    /// Whether a frame holds the page.
    #[inline(always)]
    pub fn present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// The frame of this 4 KiB page.
    #[inline(always)]
    pub fn frame(self) -> Pfn {
        Pfn(self.0 & FRAME_MASK)
    }

    /// The size of the mapped page. Meaningful only if present.
    #[inline(always)]
    pub fn size(self) -> PageSize {
        PageSize::from_shift((((self.0 >> SIZE_AT) & 31) as u32).max(12))
    }

    /// Whether the entry allows stores.
    #[inline(always)]
    pub fn writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    /// Whether the entry allows fetches.
    #[inline(always)]
    pub fn executable(self) -> bool {
        self.0 & EXECUTABLE != 0
    }

    /// Whether a store must copy the page first.
    #[inline(always)]
    pub fn copy_on_write(self) -> bool {
        self.0 & COPY != 0
    }

    /// Whether the page is in swap.
    #[inline(always)]
    pub fn swapped(self) -> bool {
        self.0 & SWAPPED != 0
    }

    /// The same page, whose entry a scan of NUMA balancing took away.
    pub(crate) fn hinted(self) -> PageState {
        self.with(PRESENT, false).with(HINTED, true)
    }

    /// Whether a scan of NUMA balancing took the page's entry away. It is not present then, and keeps its frame.
    pub fn is_hinted(self) -> bool {
        self.0 & HINTED != 0
    }

    pub(crate) fn lazily_free(self) -> bool {
        self.0 & LAZY != 0
    }

    #[inline(always)]
    fn with(self, bit: u64, on: bool) -> PageState {
        PageState(if on { self.0 | bit } else { self.0 & !bit })
    }

    pub(crate) fn with_writable(self, on: bool) -> PageState {
        self.with(WRITABLE, on)
    }

    pub(crate) fn with_executable(self, on: bool) -> PageState {
        self.with(EXECUTABLE, on)
    }

    pub(crate) fn with_copy_on_write(self, on: bool) -> PageState {
        self.with(COPY, on)
    }

    pub(crate) fn with_lazily_free(self, on: bool) -> PageState {
        self.with(LAZY, on)
    }
}

/// log2 of the pages of a region: 2^18 pages are 1 GiB. Their states take 2 MiB.
const REGION_BITS: u32 = 18;
const REGION_PAGES: usize = 1 << REGION_BITS;

/// The page states of a process, in regions of 1 GiB that are created on first use.
#[derive(Default)]
pub struct PageMap {
    regions: Vec<HugeWords>,
    /// The numbers of all regions, sorted.
    numbers: Vec<u64>,
    by_number: FxHashMap<u64, u32>,
    /// By number, for regions below 2^17 (47-bit user space): index + 1, or 0.
    direct: Vec<u32>,
    /// The number of changes so far.
    changes: u64,
}

const DIRECT: u64 = 1 << 17;

impl PageMap {
    #[inline(always)]
    fn region(&self, number: u64) -> Option<&HugeWords> {
        let at = if number < DIRECT { *self.direct.get(number as usize)? } else { *self.by_number.get(&number)? };
        if at == 0 { None } else { self.regions.get(at as usize - 1) }
    }

    fn region_mut(&mut self, number: u64) -> &mut HugeWords {
        if number < DIRECT && self.direct.is_empty() {
            self.direct = vec![0; DIRECT as usize];
        }
        let slot =
            if number < DIRECT { &mut self.direct[number as usize] } else { self.by_number.entry(number).or_default() };
        if *slot == 0 {
            self.regions.push(HugeWords::new(REGION_PAGES));
            let at = self.numbers.partition_point(|other| *other < number);
            self.numbers.insert(at, number);
            *slot = self.regions.len() as u32;
        }
        &mut self.regions[*slot as usize - 1]
    }

    /// The state of the page at `va`.
    #[inline(always)]
    pub fn get(&self, va: VirtAddr) -> PageState {
        let vpn = va.vpn().0;
        match self.region(vpn >> REGION_BITS) {
            Some(region) => PageState(region.get(vpn as usize & (REGION_PAGES - 1))),
            None => PageState::NONE,
        }
    }

    /// The number of changes so far. A state that was read is valid while the number stays the same.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Prefetches the state of `va` (simulator speed only).
    #[inline(always)]
    pub fn prefetch(&self, va: VirtAddr) {
        let vpn = va.vpn().0;
        if let Some(region) = self.region(vpn >> REGION_BITS) {
            region.prefetch_sim_host(vpn as usize & (REGION_PAGES - 1));
        }
    }

    /// Sets the state of one 4 KiB page.
    #[inline]
    pub(crate) fn set(&mut self, vpn: Vpn, state: PageState) {
        self.change_words(vpn, PageSize::SIZE_4K, |_, _| state.0);
    }

    /// Sets the states of a page of `size` at `vpn`. Its first 4 KiB get `head`; frames ascend from there.
    pub(crate) fn fill(&mut self, vpn: Vpn, size: PageSize, head: PageState) {
        self.change_words(vpn, size, |i, _| head.0 + i as u64);
    }

    /// Clears the states of a page of `size` at `vpn`.
    pub(crate) fn clear(&mut self, vpn: Vpn, size: PageSize) {
        self.change_words(vpn, size, |_, _| 0);
    }

    /// Changes the states of a page of `size` at `vpn`.
    pub(crate) fn change(&mut self, vpn: Vpn, size: PageSize, change: impl Fn(PageState) -> PageState) {
        self.change_words(vpn, size, |_, word| change(PageState(word)).0);
    }

    #[inline(always)]
    fn change_words(&mut self, vpn: Vpn, size: PageSize, change: impl FnMut(usize, u64) -> u64) {
        self.changes += 1;
        let region = self.region_mut(vpn.0 >> REGION_BITS);
        region.change(vpn.0 as usize & (REGION_PAGES - 1), size.frames() as usize, change);
    }

    /// The first page of `[from, to)` that is present or in swap.
    pub(crate) fn next_known(&self, from: Vpn, to: Vpn) -> Option<Vpn> {
        let first = self.numbers.partition_point(|number| *number < from.0 >> REGION_BITS);
        for &number in &self.numbers[first..] {
            let base = number << REGION_BITS;
            if base >= to.0 || from >= to {
                break;
            }
            let (start, end) = (from.0.max(base) - base, (to.0 - base).min(REGION_PAGES as u64));
            let region = self.region(number)?;
            if let Some(at) = region.first_set(start as usize, end as usize) {
                return Some(Vpn(base + at as u64));
            }
        }
        None
    }
}

impl State for PageMap {
    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut numbers = self.numbers.clone();
        numbers.state(archive);
        self.changes.state(archive);
        if archive.loads() {
            *self = PageMap { changes: self.changes, ..PageMap::default() };
        }
        for number in numbers {
            if archive.failed() {
                return;
            }
            self.region_mut(number).state(archive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_page_fills_its_frames_in_order() {
        let mut map = PageMap::default();
        let head = PageState::mapped(Pfn(1024), PageSize::SIZE_2M, true, false);
        map.fill(Vpn(512 * 7), PageSize::SIZE_2M, head);
        let state = map.get(Vpn(512 * 7 + 13).start());
        assert_eq!((state.frame(), state.size(), state.writable()), (Pfn(1024 + 13), PageSize::SIZE_2M, true));
        assert!(!map.get(Vpn(512 * 8).start()).present());
        assert_eq!(map.next_known(Vpn(0), Vpn(1 << 40)), Some(Vpn(512 * 7)));
        map.clear(Vpn(512 * 7), PageSize::SIZE_2M);
        assert_eq!(map.next_known(Vpn(0), Vpn(1 << 40)), None);
    }
}
