//! The VMAs that the kernel has announced: keys of the index before they are mapped (LVM Sec. 4.3.4, 5.2:
//! page tables are built ahead of time, frames are allocated on demand).

use super::table::PageEntry;
use super::train::Run;
use ambulator_base::State;
use std::collections::BTreeMap;

/// An announced area.
#[derive(Clone, Copy, Debug, Default, State)]
struct Area {
    /// The 4 KiB page after it.
    end: u64,
    /// log2 of the frames of its pages, as far as known.
    order: u32,
    /// Whether it was added directly below, or directly above, another area: more may follow on that side.
    grown: (bool, bool),
    /// The part of it for which the index has room.
    planned: (u64, u64),
}

/// All areas, by their first 4 KiB page.
#[derive(Default, State)]
pub(crate) struct Areas {
    areas: BTreeMap<u64, Area>,
    /// log2 of the frames of the page mapped last.
    usual: u32,
}

impl Areas {
    /// The kernel announces pages `[start, end)`.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        // An area adjacent to another may be followed by more.
        let above = self.areas.range(..start).next_back().is_some_and(|(_, before)| before.end == start);
        let below = self.areas.contains_key(&end);
        let (order, grown) = (self.usual, (below, above));
        self.areas.insert(start, Area { end, order, grown, planned: (start, start) });
    }

    /// Pages `[start, end)` no longer belong to an area.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let from =
            self.areas.range(..start).next_back().filter(|(_, area)| area.end > start).map_or(start, |(&at, _)| at);
        let cut: Vec<(u64, Area)> = self.areas.range(from..end).map(|(&at, &area)| (at, area)).collect();
        for (at, area) in cut {
            self.areas.remove(&at);
            let clip = |low: u64, high: u64| {
                let planned = (area.planned.0.clamp(low, high), area.planned.1.clamp(low, high));
                Area { end: high, planned, ..area }
            };
            if at < start {
                self.areas.insert(at, clip(at, start));
            }
            if area.end > end {
                self.areas.insert(end, clip(end, area.end));
            }
        }
    }

    /// A page is mapped: the pages after it in its area are likely to be as large.
    pub(crate) fn mapped(&mut self, page: u64, order: u32) {
        self.usual = order;
        if let Some((_, area)) = self.areas.range_mut(..=page).next_back()
            && page < area.end
        {
            area.order = order;
        }
    }

    /// Decides for which part of each area the index makes room. The limit is `ahead` pages for each mapped
    /// page of the area, plus `least`. Up to the limit this is the whole area; otherwise as many pages around
    /// its mapped pages, if those are close together; otherwise nothing.
    pub(crate) fn plan(&mut self, pages: &[PageEntry], ahead: u64, least: u64) {
        let mut rest = pages;
        let most_of = |frames: u64| if ahead == 0 { 0 } else { ahead * frames + least };
        for (&start, area) in &mut self.areas {
            rest = &rest[pages_below(rest, start)..];
            let (own, others) = rest.split_at(pages_below(rest, area.end));
            rest = others;
            // Its pages have a frame each at least.
            if area.end - start <= most_of(own.len() as u64) {
                area.planned = (start, area.end);
                continue;
            }
            let most = most_of(own.iter().map(|(_, order, _)| 1u64 << order).sum());
            let extent = match (own.first(), own.last()) {
                (Some((first, ..)), Some((last, order, _))) => (*first, last + (1 << order)),
                _ => (start, start),
            };
            let spread = extent.1 - extent.0;
            area.planned = if area.end - start <= most {
                (start, area.end)
            } else if spread <= most {
                // Most programs use their areas upwards.
                let before = ((most - spread) / 8).min(extent.0 - start);
                (extent.0 - before, (extent.1 + most - spread - before).min(area.end))
            } else {
                (start, start)
            };
        }
    }

    /// Plans room for areas in `[from, to)` announced since the last plan, if they have at most `least`
    /// pages.
    pub(crate) fn plan_new(&mut self, from: u64, to: u64, least: u64) {
        for (&start, area) in self.areas.range_mut(from..to) {
            if area.planned == (start, start) && area.end - start <= least {
                area.planned.1 = area.end;
            }
        }
    }

    /// The keys of `[from, to)`: the mapped pages, ascending, and the planned pages between them.
    pub(crate) fn keys(&self, pages: &[PageEntry], from: u64, to: u64) -> Vec<Run> {
        let mut keys = Vec::new();
        let mut pages = pages.iter().copied().peekable();
        let before = self.areas.range(..from).next_back().map(|(_, area)| area);
        for area in before.into_iter().chain(self.areas.range(from..to).map(|(_, area)| area)) {
            let (start, end) = (area.planned.0.max(from), area.planned.1.min(to));
            while let Some((page, order, _)) = pages.next_if(|(page, ..)| *page < start) {
                push(&mut keys, page, order, 1);
            }
            let mut at = start;
            // A page may begin before the planned part and reach into it.
            at = at.max(keys.last().map_or(0, |run| run.end()));
            while at < end {
                let next = pages.next_if(|(page, ..)| *page < end);
                let gap_end = next.map_or(end, |(page, ..)| page);
                fill(&mut keys, at, gap_end, area.order);
                let Some((page, order, _)) = next else { break };
                push(&mut keys, page, order, 1);
                at = page + (1 << order);
            }
        }
        for (page, order, _) in pages {
            push(&mut keys, page, order, 1);
        }
        keys
    }

    /// Whether pages may be mapped just before `start`, and just after `end`: not at the border of an area
    /// that has not grown.
    pub(crate) fn open_ends(&self, start: u64, end: u64) -> (bool, bool) {
        let low = self.areas.get(&start).is_none_or(|area| area.grown.0);
        let last = self.areas.range(..end).next_back().map(|(_, area)| area);
        (low, last.is_none_or(|area| area.end != end || area.grown.1))
    }
}

/// How many of these pages, which ascend, begin before page `end`: mostly few.
fn pages_below(pages: &[PageEntry], end: u64) -> usize {
    let is_below = |at: usize| pages.get(at).is_some_and(|(page, ..)| *page < end);
    let mut most = 1;
    while is_below(most - 1) {
        most *= 2;
    }
    let least = most / 2;
    least + pages[least..pages.len().min(most - 1)].partition_point(|(page, ..)| *page < end)
}

/// Appends consecutive pages of `order`.
fn push(keys: &mut Vec<Run>, page: u64, order: u32, count: u64) {
    match keys.last_mut() {
        Some(run) if run.order == order && run.end() == page => run.count += count,
        _ => keys.push(Run { page, order, count }),
    }
}

/// Appends pages of `order` where they are aligned, and 4 KiB pages before and after them.
fn fill(keys: &mut Vec<Run>, from: u64, to: u64, order: u32) {
    if from >= to {
        return;
    }
    let (first, last) = (from.next_multiple_of(1 << order), to >> order << order);
    if order == 0 || first >= last {
        push(keys, from, 0, to - from);
        return;
    }
    if from < first {
        push(keys, from, 0, first - from);
    }
    push(keys, first, order, (last - first) >> order);
    if last < to {
        push(keys, last, 0, to - last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_structures::pte::Pte;

    fn run(page: u64, order: u32, count: u64) -> Run {
        Run { page, order, count }
    }

    #[test]
    fn areas_join_and_split() {
        let mut areas = Areas::default();
        areas.add(100, 200);
        areas.add(300, 400);
        assert_eq!((areas.open_ends(100, 400), areas.open_ends(50, 450)), ((false, false), (true, true)));
        areas.add(400, 410);
        assert_eq!(areas.open_ends(100, 410), (false, true));
        areas.add(90, 100);
        areas.add(200, 300);
        areas.plan(&[], 64, 1000);
        assert_eq!(areas.keys(&[], 0, 1000), [run(90, 0, 320)]);
        assert_eq!(areas.open_ends(90, 410), (true, true));
        areas.remove(90, 100);
        areas.remove(150, 160);
        areas.plan(&[], 64, 1000);
        assert_eq!(areas.keys(&[], 0, 1000), [run(100, 0, 50), run(160, 0, 250)]);
        assert_eq!(areas.keys(&[], 120, 170), [run(120, 0, 30), run(160, 0, 10)]);
    }

    #[test]
    fn gaps_between_the_pages_of_an_area_are_planned_in_its_page_size() {
        let mut areas = Areas::default();
        areas.add(1000, 5000);
        areas.mapped(1536, 9);
        let pages = [(500, 0, Pte(1)), (1536, 9, Pte(1)), (2100, 0, Pte(1)), (6000, 0, Pte(1))];
        areas.plan(&pages, 64, 512);
        let keys = areas.keys(&pages, 0, 10_000);
        let expected = [
            run(500, 0, 1),
            run(1000, 0, 24),
            run(1024, 9, 2),
            run(2048, 0, 512),
            run(2560, 9, 4),
            run(4608, 0, 392),
            run(6000, 0, 1),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn plans_are_bounded_by_the_mapped_pages() {
        let mut areas = Areas::default();
        areas.add(0, 1 << 30);
        areas.plan(&[(4096, 0, Pte(1))], 64, 512);
        assert_eq!(areas.keys(&[(4096, 0, Pte(1))], 0, 1 << 30), [run(4096 - 71, 0, 576)]);
        // Few and far apart: no plan.
        let far = [(0, 0, Pte(1)), (1 << 20, 0, Pte(1))];
        areas.plan(&far, 64, 512);
        assert_eq!(areas.keys(&far, 0, 1 << 30), [run(0, 0, 1), run(1 << 20, 0, 1)]);
        areas.plan(&far, 0, 512);
        assert_eq!(areas.keys(&far, 0, 1 << 30), [run(0, 0, 1), run(1 << 20, 0, 1)]);
    }
}
