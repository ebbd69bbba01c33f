//! The two levels of TLBs, each with an array for each page size.

use crate::{
    Invalidation, L2TlbOrganization, L2TlbSpec, Retime, Tlb, TlbSpec, Translation,
    recent::Recent,
    tlb::{TlbEntry, fragment, tlb_page_size},
};
use ambulator_base::watch::{self, Step};
use ambulator_base::{Asid, Cycle, PageSize, State, VirtAddr};

/// The first-level TLBs for one kind of access, split by page size.
#[derive(State)]
pub(crate) struct FirstLevel {
    small: Tlb,
    large: Tlb,
    huge: Tlb,
    #[state(skip)]
    has_large: bool,
    #[state(skip)]
    has_huge: bool,
    large_held: bool,
    huge_held: bool,
    /// The most recent translations.
    #[state(skip)]
    pub recent: Recent,
}

impl FirstLevel {
    pub fn new(small: &TlbSpec, large: &TlbSpec, huge: &TlbSpec) -> FirstLevel {
        let build = |spec: &TlbSpec| Tlb::new(spec.entries.max(1), spec.effective_ways().max(1));
        let small = build(small);
        FirstLevel {
            recent: Recent::new(small.sets()),
            small,
            large: build(large),
            huge: build(huge),
            has_large: large.entries > 0,
            has_huge: huge.entries > 0,
            large_held: false,
            huge_held: false,
        }
    }

    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, va: VirtAddr) -> Option<TlbEntry> {
        if let Some(entry) = self.small.lookup(asid, va, PageSize::SIZE_4K) {
            self.recent.remember(va, &entry.translation(), entry.ready);
            return Some(entry);
        }
        if self.large_held
            && let Some(entry) = self.large.lookup(asid, va, PageSize::SIZE_2M)
        {
            return Some(entry);
        }
        if self.huge_held { self.huge.lookup(asid, va, PageSize::SIZE_1G) } else { None }
    }

    /// The entry of a page of `va`. Changes nothing.
    pub fn peek(&self, asid: Asid, va: VirtAddr) -> Option<TlbEntry> {
        self.arrays().into_iter().find_map(|(tlb, size)| tlb.peek(asid, va, size))
    }

    /// Changes when the entries of pages of `va` are usable.
    pub fn retime(&mut self, asid: Asid, va: VirtAddr, change: Retime) {
        self.recent.retime(va, change);
        self.small.retime(asid, va, PageSize::SIZE_4K, change);
        if self.large_held {
            self.large.retime(asid, va, PageSize::SIZE_2M, change);
        }
        if self.huge_held {
            self.huge.retime(asid, va, PageSize::SIZE_1G, change);
        }
    }

    fn arrays(&self) -> [(&Tlb, PageSize); 3] {
        [(&self.small, PageSize::SIZE_4K), (&self.large, PageSize::SIZE_2M), (&self.huge, PageSize::SIZE_1G)]
    }

    /// For a watch: what a look-up finds in each array. All are looked up at once.
    #[cold]
    pub fn tell_look_up(&self, name: &str, asid: Asid, va: VirtAddr, from: Cycle, until: Cycle) {
        let exist = [true, self.has_large, self.has_huge];
        for ((tlb, size), _) in self.arrays().into_iter().zip(exist).filter(|(_, exists)| *exists) {
            watch::step(|| tlb.look_up_step(name, asid, va, size, from, until));
        }
    }

    /// Whether an array holds a page of `va`. Changes nothing.
    pub fn holds(&self, asid: Asid, va: VirtAddr) -> bool {
        self.peek(asid, va).is_some()
    }

    /// For a watch: where [`FirstLevel::fill`] puts a page.
    #[cold]
    pub fn tell_fill(&self, name: &str, asid: Asid, va: VirtAddr, found: &Translation, ready: Cycle) {
        let (tlb, size) = match tlb_page_size(found.size) {
            PageSize::SIZE_1G if self.has_huge => (&self.huge, PageSize::SIZE_1G),
            PageSize::SIZE_1G | PageSize::SIZE_2M if self.has_large => (&self.large, PageSize::SIZE_2M),
            _ => (&self.small, PageSize::SIZE_4K),
        };
        watch::step(|| tlb.fill_step(name, asid, va, size, ready));
    }

    #[inline]
    pub fn fill(&mut self, asid: Asid, va: VirtAddr, found: &Translation, ready: Cycle) {
        let size = tlb_page_size(found.size);
        if size == PageSize::SIZE_1G && self.has_huge {
            self.huge_held = true;
            self.huge.fill(asid, va, &fragment(found, va, size), ready);
        } else if size >= PageSize::SIZE_2M && self.has_large {
            self.large_held = true;
            self.large.fill(asid, va, &fragment(found, va, PageSize::SIZE_2M), ready);
        } else {
            let kept = fragment(found, va, PageSize::SIZE_4K);
            self.recent.remember(va, &kept, ready);
            self.small.fill(asid, va, &kept, ready);
        }
    }

    /// [`FirstLevel::fill`] after a look-up that missed.
    #[inline(always)]
    pub fn fill_missed(&mut self, asid: Asid, va: VirtAddr, found: &Translation, ready: Cycle) {
        if found.size >= PageSize::SIZE_2M {
            return self.fill(asid, va, found, ready);
        }
        let kept = fragment(found, va, PageSize::SIZE_4K);
        self.recent.remember(va, &kept, ready);
        self.small.fill_new(asid, va, &kept, ready);
    }

    pub fn invalidate(&mut self, what: Invalidation) {
        self.recent.forget();
        self.small.invalidate(what, &[PageSize::SIZE_4K]);
        if self.large_held {
            self.large.invalidate(what, &[PageSize::SIZE_2M]);
        }
        if self.huge_held {
            self.huge.invalidate(what, &[PageSize::SIZE_1G]);
        }
    }
}

/// The second-level TLB.
#[derive(State)]
pub(crate) struct SecondLevel {
    #[state(each)]
    small: Option<Tlb>,
    /// `None` when 2 MiB pages share `small`.
    #[state(each)]
    large: Option<Tlb>,
    #[state(each)]
    huge: Option<Tlb>,
    #[state(skip)]
    unified: bool,
    large_held: bool,
    huge_held: bool,
    /// Cycles of a look-up.
    #[state(skip)]
    pub latency: u64,
}

impl SecondLevel {
    pub fn new(spec: &L2TlbSpec) -> SecondLevel {
        let build = |entries: u32, ways: u32| (entries > 0).then(|| Tlb::new(entries, ways));
        let unified = spec.organization == L2TlbOrganization::Unified;
        SecondLevel {
            small: build(spec.entries, spec.ways),
            large: if unified { None } else { build(spec.entries_2m, spec.ways_2m) },
            huge: build(spec.entries_1g, spec.ways_1g),
            unified,
            large_held: false,
            huge_held: false,
            latency: spec.latency,
        }
    }

    fn array_for(&mut self, size: PageSize) -> Option<&mut Tlb> {
        match size {
            PageSize::SIZE_1G => self.huge.as_mut(),
            PageSize::SIZE_2M if !self.unified => self.large.as_mut(),
            _ => self.small.as_mut(),
        }
    }

    #[inline]
    pub fn lookup(&mut self, asid: Asid, va: VirtAddr) -> Option<TlbEntry> {
        if let Some(entry) = self.small.as_mut().and_then(|tlb| tlb.lookup(asid, va, PageSize::SIZE_4K)) {
            return Some(entry);
        }
        if self.large_held
            && let Some(entry) =
                self.array_for(PageSize::SIZE_2M).and_then(|tlb| tlb.lookup(asid, va, PageSize::SIZE_2M))
        {
            return Some(entry);
        }
        if self.huge_held { self.huge.as_mut().and_then(|tlb| tlb.lookup(asid, va, PageSize::SIZE_1G)) } else { None }
    }

    /// The arrays by page size; all are looked up at once.
    fn arrays(&self) -> impl Iterator<Item = (&Tlb, PageSize)> {
        let large = if self.unified { &self.small } else { &self.large };
        let arrays = [(&self.small, PageSize::SIZE_4K), (large, PageSize::SIZE_2M), (&self.huge, PageSize::SIZE_1G)];
        arrays.into_iter().filter_map(|(tlb, size)| Some((tlb.as_ref()?, size)))
    }

    /// The entry of a page of `va`. Changes nothing.
    pub fn peek(&self, asid: Asid, va: VirtAddr) -> Option<TlbEntry> {
        self.arrays().find_map(|(tlb, size)| tlb.peek(asid, va, size))
    }

    /// Whether an array holds a page of `va`. Changes nothing.
    pub fn holds(&self, asid: Asid, va: VirtAddr) -> bool {
        self.peek(asid, va).is_some()
    }

    /// Changes when the entries of pages of `va` are usable.
    pub fn retime(&mut self, asid: Asid, va: VirtAddr, change: Retime) {
        let held =
            [(PageSize::SIZE_4K, true), (PageSize::SIZE_2M, self.large_held), (PageSize::SIZE_1G, self.huge_held)];
        for (size, _) in held.into_iter().filter(|(_, held)| *held) {
            if let Some(tlb) = self.array_for(size) {
                tlb.retime(asid, va, size, change);
            }
        }
    }

    /// For a watch: what a look-up from `from` on finds in each array.
    #[cold]
    pub fn tell_look_up(&self, asid: Asid, va: VirtAddr, from: Cycle) {
        let until = from.after(self.latency);
        for (tlb, size) in self.arrays() {
            watch::step(|| tlb.look_up_step("L2 TLB", asid, va, size, from, until));
        }
        if self.arrays().next().is_none() {
            watch::step(|| Step::look_up("L2 TLB", false, from, until).says("has no entries"));
        }
    }

    /// For a watch: where [`SecondLevel::fill`] puts a page.
    #[cold]
    pub fn tell_fill(&self, asid: Asid, va: VirtAddr, found: &Translation, ready: Cycle) {
        let size = tlb_page_size(found.size);
        if let Some((tlb, _)) = self.arrays().find(|(_, own)| *own == size) {
            watch::step(|| tlb.fill_step("L2 TLB", asid, va, size, ready));
        }
    }

    pub fn fill(&mut self, asid: Asid, va: VirtAddr, found: &Translation, ready: Cycle) {
        let size = tlb_page_size(found.size);
        match size {
            PageSize::SIZE_1G => self.huge_held = true,
            PageSize::SIZE_2M => self.large_held = true,
            _ => {}
        }
        let kept = fragment(found, va, size);
        if let Some(tlb) = self.array_for(size) {
            tlb.fill(asid, va, &kept, ready);
        }
    }

    /// [`SecondLevel::fill`] after a look-up that missed.
    #[inline(always)]
    pub fn fill_missed(&mut self, asid: Asid, va: VirtAddr, found: &Translation, ready: Cycle) {
        if found.size >= PageSize::SIZE_2M {
            return self.fill(asid, va, found, ready);
        }
        if let Some(tlb) = &mut self.small {
            tlb.fill_new(asid, va, &fragment(found, va, PageSize::SIZE_4K), ready);
        }
    }

    pub fn invalidate(&mut self, what: Invalidation) {
        let in_small: &[PageSize] = if self.unified && self.large_held {
            &[PageSize::SIZE_4K, PageSize::SIZE_2M]
        } else {
            &[PageSize::SIZE_4K]
        };
        if let Some(tlb) = &mut self.small {
            tlb.invalidate(what, in_small);
        }
        if let Some(tlb) = &mut self.large {
            tlb.invalidate(what, &[PageSize::SIZE_2M]);
        }
        if let Some(tlb) = &mut self.huge {
            tlb.invalidate(what, &[PageSize::SIZE_1G]);
        }
    }
}
