//! Pending TLB shootdowns, collected during an action of the kernel.

use ambulator_base::{Asid, Page, PageSize, State, VirtAddr};

/// One TLB shootdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Shootdown {
    /// The address space.
    pub asid: Asid,
    /// The page, or `None` for the whole address space.
    pub page: Option<Page>,
}

/// Pending TLB shootdowns. Above a ceiling, a flush of the address space replaces single pages, as in Linux.
#[derive(State)]
pub(crate) struct Shootdowns {
    pending: Vec<Shootdown>,
    #[state(skip)]
    ceiling: usize,
    /// Pages and address spaces pushed since the last [`Shootdowns::take_counts`].
    pages: u64,
    spaces: u64,
}

impl Shootdowns {
    pub fn new(ceiling: u32) -> Shootdowns {
        Shootdowns { pending: Vec::new(), ceiling: ceiling as usize, pages: 0, spaces: 0 }
    }

    pub fn push_page(&mut self, asid: Asid, page: Page) {
        if self.pending.iter().rev().take(1).any(|last| last.asid == asid && last.page.is_none()) {
            return; // the address space is flushed already
        }
        let pages = self.pending.iter().filter(|one| one.asid == asid && one.page.is_some()).count();
        if pages >= self.ceiling {
            self.push_space(asid);
            return;
        }
        self.pages += 1;
        self.pending.push(Shootdown { asid, page: Some(page) });
    }

    /// An area whose pages have been pushed, those that were there. Hardware that holds the area itself drops
    /// it with any page of it: if none was there, the first is named.
    pub fn push_area(&mut self, asid: Asid, start: VirtAddr, len: u64) {
        let covers = |one: &Shootdown| {
            let within = |page: Page| start < page.end() && page.start < start.offset(len);
            one.asid == asid && one.page.is_none_or(within)
        };
        if !self.pending.iter().any(covers) {
            self.push_page(asid, Page { start, size: PageSize::SIZE_4K });
        }
    }

    pub fn push_space(&mut self, asid: Asid) {
        self.pending.retain(|one| one.asid != asid);
        self.spaces += 1;
        self.pending.push(Shootdown { asid, page: None });
    }

    /// Pages and address spaces pushed since the last call.
    pub fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.pages), std::mem::take(&mut self.spaces))
    }

    #[inline]
    pub fn take(&mut self, into: &mut Vec<Shootdown>) {
        into.append(&mut self.pending);
    }
}
