//! Reservations: 2 MiB blocks of frames, each reserved for the base pages of one aligned 2 MiB of virtual
//! memory.

use ambulator_base::{Page, PageSize, Pfn, State, VirtAddr};
use std::collections::BTreeMap;

/// Base pages of a reservation.
pub(crate) const BASE_PAGES: u64 = 512;

/// A 2 MiB block reserved for the pages of one aligned 2 MiB of virtual memory.
#[derive(Clone, Copy, Debug, Default, State)]
pub(crate) struct Reservation {
    /// First frame of the block.
    pub frame: Pfn,
    /// Mapped pages in the block.
    pub used: u64,
}

/// The reservations of a process, by the start of their 2 MiB range.
#[derive(Default, State)]
pub(crate) struct Reservations(BTreeMap<VirtAddr, Reservation>);

/// The aligned 2 MiB page around an address.
pub(crate) fn huge_page(va: VirtAddr) -> Page {
    Page::containing(va, PageSize::SIZE_2M)
}

impl Reservations {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reservation for `va`.
    pub fn find(&self, va: VirtAddr) -> Option<Reservation> {
        self.0.get(&huge_page(va).start).copied()
    }

    /// Adds or changes the reservation for `va`.
    pub fn set(&mut self, va: VirtAddr, reservation: Reservation) {
        self.0.insert(huge_page(va).start, reservation);
    }

    /// Removes the reservation for `va`.
    pub fn remove(&mut self, va: VirtAddr) -> Option<Reservation> {
        self.0.remove(&huge_page(va).start)
    }

    /// The 2 MiB pages with reservations that overlap `[start, end)`, ascending.
    pub fn overlapping(&self, start: VirtAddr, end: VirtAddr) -> Vec<Page> {
        let (first, last) = (huge_page(start).start, huge_page(VirtAddr(end.0 - 1)).start);
        self.0.range(first..=last).map(|(start, _)| huge_page(*start)).collect()
    }

    /// The 2 MiB page whose reservation has the fewest used pages; the lowest in case of a tie.
    pub fn least_used(&self) -> Option<Page> {
        let (start, _) = self.0.iter().min_by_key(|(start, reservation)| (reservation.used, **start))?;
        Some(huge_page(*start))
    }

    /// All reservations, ascending.
    pub fn all(&self) -> impl Iterator<Item = (Page, Reservation)> {
        self.0.iter().map(|(start, reservation)| (huge_page(*start), *reservation))
    }

    /// Whether `frame` is the one that a reservation, if there is one, assigns to the page.
    pub fn matches(&self, page: Page, frame: Pfn) -> bool {
        let offset = page.start.vpn().0 % PageSize::SIZE_2M.frames();
        self.find(page.start).is_none_or(|reservation| reservation.frame.offset(offset) == frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_finds_its_reservation() {
        let mut all = Reservations::default();
        let at = |number: u64| VirtAddr((number << 21) + 0x5123);
        for (number, used) in [(4, 9), (5, 2), (7, 2)] {
            all.set(at(number), Reservation { frame: Pfn(512 * number), used });
        }
        assert_eq!(all.find(at(5)).map(|reservation| reservation.frame), Some(Pfn(512 * 5)));
        assert!(all.find(at(6)).is_none());
        let starts = |pages: Vec<Page>| pages.iter().map(|page| page.start.0 >> 21).collect::<Vec<_>>();
        assert_eq!(starts(all.overlapping(at(4), VirtAddr(5 << 21))), [4]);
        assert_eq!(starts(all.overlapping(at(5), at(7))), [5, 7]);
        assert_eq!(all.least_used().map(|page| page.start.0 >> 21), Some(5));
        let third = Page { start: VirtAddr((5 << 21) + 0x3000), size: PageSize::SIZE_4K };
        assert!(all.matches(third, Pfn(512 * 5 + 3)) && !all.matches(third, Pfn(3)));
        assert!(all.remove(at(5)).is_some() && all.remove(at(5)).is_none());
    }
}
