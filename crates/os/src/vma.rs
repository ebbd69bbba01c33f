//! Virtual memory areas: sorted, disjoint, split and merged as in Linux.

use ambulator_base::{FRAME_BYTES, MapKind, Protection, State, VirtAddr};

/// A program's advice about huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub enum HugeAdvice {
    /// No advice.
    #[default]
    None,
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`.
    NoHuge,
}

/// A virtual memory area. Both ends are multiples of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
pub struct Vma {
    /// First address.
    pub start: VirtAddr,
    /// First address after it.
    pub end: VirtAddr,
    /// Access rights.
    pub protection: Protection,
    /// The kind of memory.
    pub kind: MapKind,
    /// Advice about huge pages.
    pub huge: HugeAdvice,
}

impl Vma {
    /// Whether `va` lies in the area.
    #[inline]
    pub fn contains(&self, va: VirtAddr) -> bool {
        self.start <= va && va < self.end
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.end.0 - self.start.0
    }

    /// Never true of a VMA in a list.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn joins(&self, next: &Vma) -> bool {
        self.end == next.start && self.protection == next.protection && self.kind == next.kind && self.huge == next.huge
    }
}

/// The end of the largest address space (57 bits).
pub(crate) const TOP: VirtAddr = VirtAddr(1 << 57);

/// `[start, start + len)` widened to page boundaries. `None` if it is empty or exceeds the address space.
pub(crate) fn pages_of(start: VirtAddr, len: u64) -> Option<(VirtAddr, VirtAddr)> {
    let mask = FRAME_BYTES - 1;
    let end = start.0.checked_add(len)?.checked_add(mask)? & !mask;
    let from = start.0 & !mask;
    (from < end && end <= TOP.0).then_some((VirtAddr(from), VirtAddr(end)))
}

/// The areas of a process.
#[derive(Clone, Debug, Default, State)]
pub struct VmaList(Vec<Vma>);

impl VmaList {
    /// The areas, by address.
    pub fn as_slice(&self) -> &[Vma] {
        &self.0
    }

    /// The area that holds `va`.
    #[inline]
    pub fn find(&self, va: VirtAddr) -> Option<&Vma> {
        let at = self.0.partition_point(|vma| vma.end <= va);
        self.0.get(at).filter(|vma| vma.contains(va))
    }

    /// Adds an area to a free range, and merges it with adjacent areas of equal attributes.
    pub fn insert(&mut self, vma: Vma) {
        if vma.is_empty() {
            return;
        }
        let at = self.0.partition_point(|other| other.end <= vma.start);
        debug_assert!(self.0.get(at).is_none_or(|next| vma.end <= next.start), "VMAs overlap");
        self.0.insert(at, vma);
        self.merge_around(at);
    }

    fn merge_around(&mut self, at: usize) {
        if at + 1 < self.0.len() && self.0[at].joins(&self.0[at + 1]) {
            self.0[at].end = self.0[at + 1].end;
            self.0.remove(at + 1);
        }
        if at > 0 && self.0[at - 1].joins(&self.0[at]) {
            self.0[at - 1].end = self.0[at].end;
            self.0.remove(at);
        }
    }

    /// Removes `[start, end)`, splitting the areas at its ends. Returns the removed parts.
    pub fn remove(&mut self, start: VirtAddr, end: VirtAddr) -> Vec<Vma> {
        let mut removed = Vec::new();
        let mut at = self.0.partition_point(|vma| vma.end <= start);
        while at < self.0.len() && self.0[at].start < end {
            let vma = self.0[at];
            let part = Vma { start: vma.start.max(start), end: vma.end.min(end), ..vma };
            removed.push(part);
            let before = Vma { end: part.start, ..vma };
            let after = Vma { start: part.end, ..vma };
            let rest = [before, after].into_iter().filter(|vma| !vma.is_empty());
            let kept = self.0.splice(at..=at, rest.collect::<Vec<_>>()).count();
            debug_assert_eq!(kept, 1);
            at += usize::from(!before.is_empty());
        }
        removed
    }

    /// The parts of areas within `[start, end)`.
    pub fn parts(&self, start: VirtAddr, end: VirtAddr) -> Vec<Vma> {
        let at = self.0.partition_point(|vma| vma.end <= start);
        let within = self.0[at..].iter().take_while(|vma| vma.start < end);
        within.map(|vma| Vma { start: vma.start.max(start), end: vma.end.min(end), ..*vma }).collect()
    }

    /// Changes the parts of areas within `[start, end)`, splitting and merging as needed.
    pub fn change(&mut self, start: VirtAddr, end: VirtAddr, change: impl Fn(&mut Vma)) {
        for mut part in self.remove(start, end) {
            change(&mut part);
            self.insert(part);
        }
    }

    /// Whether no area overlaps `[start, end)`.
    pub fn is_free(&self, start: VirtAddr, end: VirtAddr) -> bool {
        let at = self.0.partition_point(|vma| vma.end <= start);
        self.0.get(at).is_none_or(|vma| end <= vma.start)
    }

    /// Describes the areas near `va`, for an error.
    pub(crate) fn describe_near(&self, va: VirtAddr) -> String {
        let at = self.0.partition_point(|vma| vma.end <= va);
        let before = at.checked_sub(1).and_then(|at| self.0.get(at));
        match (before, self.0.get(at)) {
            (Some(below), Some(above)) => format!(
                "no mapping holds it; the nearest are [{}, {}) below and [{}, {}) above",
                below.start, below.end, above.start, above.end
            ),
            (Some(below), None) => {
                format!("no mapping holds it; the nearest is [{}, {}) below", below.start, below.end)
            }
            (None, Some(above)) => {
                format!("no mapping holds it; the nearest is [{}, {}) above", above.start, above.end)
            }
            (None, None) => "the process has no mappings at all".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, end: u64) -> Vma {
        Vma {
            start: VirtAddr(start << 12),
            end: VirtAddr(end << 12),
            protection: Protection::READ_WRITE,
            kind: MapKind::Anonymous,
            huge: HugeAdvice::None,
        }
    }

    #[test]
    fn a_hole_splits_an_area_and_filling_it_merges_the_parts() {
        let mut list = VmaList::default();
        list.insert(vma(10, 20));
        assert_eq!(list.remove(VirtAddr(13 << 12), VirtAddr(15 << 12)), vec![vma(13, 15)]);
        assert_eq!(list.as_slice(), &[vma(10, 13), vma(15, 20)]);
        assert!(list.find(VirtAddr(14 << 12)).is_none());
        list.insert(vma(13, 15));
        assert_eq!(list.as_slice(), &[vma(10, 20)]);
    }

    #[test]
    fn a_change_in_the_middle_splits_an_area_into_three() {
        let mut list = VmaList::default();
        list.insert(vma(10, 20));
        list.change(VirtAddr(12 << 12), VirtAddr(14 << 12), |vma| vma.protection = Protection::READ);
        assert_eq!(list.as_slice().len(), 3);
        list.change(VirtAddr(0), VirtAddr(30 << 12), |vma| vma.protection = Protection::READ_WRITE);
        assert_eq!(list.as_slice(), &[vma(10, 20)]);
    }
}
