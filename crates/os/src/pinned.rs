//! Pages that must stay in their frames: hardware has the addresses of the frames.

use ambulator_base::{Page, ProcessId, State, VirtAddr};

/// A range of pinned addresses of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
struct Pinned {
    process: ProcessId,
    start: VirtAddr,
    end: VirtAddr,
}

/// Ranges of pinned pages: few, and none on most machines.
#[derive(Debug, Default, State)]
pub(crate) struct PinnedPages(Vec<Pinned>);

impl PinnedPages {
    /// Pins `[start, end)`.
    pub fn pin(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) {
        self.0.push(Pinned { process, start, end });
    }

    /// Ends the pin of exactly this range. False if there is none.
    pub fn unpin(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> bool {
        let range = Pinned { process, start, end };
        let found = self.0.iter().position(|own| *own == range);
        found.map(|at| self.0.swap_remove(at)).is_some()
    }

    /// Whether any part of a page is pinned.
    #[inline]
    pub fn holds(&self, process: ProcessId, page: Page) -> bool {
        self.0.iter().any(|own| own.process == process && own.start < page.end() && page.start < own.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::PageSize;

    #[test]
    fn a_page_is_pinned_if_a_part_of_it_is() {
        let mut pinned = PinnedPages::default();
        let (one, other) = (ProcessId(1), ProcessId(2));
        pinned.pin(one, VirtAddr(0x5000), VirtAddr(0x8000));
        let page = |start| Page { start: VirtAddr(start), size: PageSize::SIZE_4K };
        let held: Vec<u64> = (0..12).filter(|n| pinned.holds(one, page(n << 12))).collect();
        assert_eq!(held, [5, 6, 7]);
        assert!(pinned.holds(one, Page { start: VirtAddr(0), size: PageSize::SIZE_2M }));
        assert!(!pinned.holds(other, page(0x5000)));
        assert!(!pinned.unpin(one, VirtAddr(0x5000), VirtAddr(0x7000)), "not this range");
        assert!(pinned.unpin(one, VirtAddr(0x5000), VirtAddr(0x8000)));
        assert!(!pinned.holds(one, page(0x5000)));
    }
}
