//! Building an index: segments, models and tables for all pages of a process (LVM Sec. 4.3.1, 4.3.2).

use super::node::{FRACTION, NODE_BYTES, Node, entry};
use super::store::Store;
use super::table::{LvmTable, PageEntry, Segment, Table};
use super::train::{self, Bounds, Leaf, Plan, Run, count, slice};
use super::{LEVELS, MAX_SEGMENTS};
use ambulator_base::{FRAME_BYTES, PhysAddr};
use ambulator_os::{LedgerCause, MapError, TableContext, TableLock};

/// Weight of a run's page at a change of page size, compared with a page of a gap.
const CHANGE_WEIGHT: u64 = 16;

/// A part of the address space for a segment.
struct Part {
    segment: Segment,
    /// The segment's pages if its root is an inner node, whose range cannot be extended.
    if_inner: u64,
}

impl LvmTable {
    /// Divides the address space into segments, at the gaps of its random layout (Sec. 5.2, ASLR); with
    /// `by_size` also where the page size changes. If there are more borders than registers, only the most
    /// significant are used. Each segment begins and ends with room to grow.
    fn divide(&self, keys: &[Run], by_size: bool) -> Vec<Part> {
        // Runs without a border: first page, end, log2 of the largest page's frames.
        let mut runs: Vec<(u64, u64, u32)> = Vec::new();
        for key in keys {
            let (from, to, order) = (key.page, key.end(), key.order);
            match runs.last_mut() {
                Some((_, end, most)) if (!by_size || *most == order) && from - *end <= self.spec.segment_gap_pages => {
                    (*end, *most) = (to, order.max(*most));
                }
                _ => runs.push((from, to, order)),
            }
        }
        let significance = |at: usize| {
            let ((left, end, one), (from, right, other)) = (runs[at], runs[at + 1]);
            let (gap, shorter) = (from - end, (end - left).min(right - from));
            let change = if one != other { CHANGE_WEIGHT * shorter } else { 0 };
            gap + if by_size { change } else { 0 }
        };
        let mut cuts: Vec<(u64, usize)> = (0..runs.len().saturating_sub(1)).map(|at| (significance(at), at)).collect();
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        cuts.truncate(MAX_SEGMENTS - 1);
        let mut parts: Vec<(u64, u64, u32)> = Vec::new();
        for (at, &(from, to, order)) in runs.iter().enumerate() {
            match parts.last_mut() {
                Some((_, end, most)) if !cuts.iter().any(|(_, cut)| cut + 1 == at) => {
                    (*end, *most) = (to, order.max(*most));
                }
                _ => parts.push((from, to, order)),
            }
        }
        // A segment begins at a multiple of its largest page, so that children do not split pages. Parts
        // without room for that alignment are merged.
        let mut at = 1;
        while at < parts.len() {
            let ((_, before, _), (from, end, order)) = (parts[at - 1], parts[at]);
            if from >> order << order >= before {
                at += 1;
                continue;
            }
            parts.remove(at);
            (parts[at - 1].1, parts[at - 1].2) = (end, parts[at - 1].2.max(order));
            at = at.saturating_sub(1).max(1);
        }
        // Room to grow where pages may follow: the minimum insertion distance. Where no leaf's table can grow
        // without a new index, downwards and after an inner root, a quarter of the size if that is more.
        let most = |from: u64, to: u64| self.spec.insertion_pages.max((to - from) / 4);
        let open: Vec<(bool, bool)> = parts.iter().map(|&(from, to, _)| self.areas.open_ends(from, to)).collect();
        let starts: Vec<u64> = parts
            .iter()
            .enumerate()
            .map(|(at, &(from, to, order))| {
                let before = if at == 0 { 0 } else { parts[at - 1].1 };
                // The lower half of the gap belongs to the part below.
                let room = if open[at].0 { most(from, to) } else { 0 };
                let low = from.saturating_sub(room).max(before + (from - before) / 2);
                let aligned = low >> order.max(9) << order.max(9);
                if aligned >= before { aligned } else { from >> order << order }
            })
            .collect();
        let end = 1 << (self.va_bits - 12);
        parts
            .iter()
            .enumerate()
            .map(|(at, &(_, to, _))| {
                let (start, limit) = (starts[at], starts.get(at + 1).copied().unwrap_or(end));
                let pages = |room: u64| (to + if open[at].1 { room } else { 0 }).min(limit) - start;
                Part {
                    segment: Segment { start, pages: pages(self.spec.insertion_pages) },
                    if_inner: pages(most(start, to)),
                }
            })
            .collect()
    }

    /// Plans the index of each part. `None` if some part has none within the error bound.
    fn plan(&self, parts: &mut [Part], keys: &[Run], most_slots: u64) -> Option<Vec<Plan>> {
        let plan = |part: &mut Part| {
            let of = |Segment { start, pages }| {
                let keys = slice(keys, start, start + pages, start);
                let plan =
                    |waste| train::plan(&keys, 0, pages, LEVELS as u32, Bounds { most_slots, waste }, &self.spec);
                plan(false).or_else(|| plan(true))
            };
            match of(part.segment)? {
                Plan::Inner { .. } if part.if_inner > part.segment.pages => {
                    part.segment.pages = part.if_inner;
                    of(part.segment)
                }
                plan => Some(plan),
            }
        };
        parts.iter_mut().map(plan).collect()
    }

    /// Segments and plans for all keys. Page sizes share segments, unless it is cheaper (by the cost model)
    /// to divide between them: where no leaf finds both within the error bound, an even division needs many
    /// children. `None` if some page has no place within the bounds.
    fn plan_all(&self, keys: &[Run], most_slots: u64) -> Option<(Vec<Segment>, Vec<Plan>)> {
        let planned = |by_size: bool| {
            let mut parts = self.divide(keys, by_size);
            let plans = self.plan(&mut parts, keys, most_slots)?;
            let cost: u64 = plans.iter().map(|plan| train::weighted_cost(plan, &self.spec)).sum();
            Some((cost, (parts.into_iter().map(|part| part.segment).collect(), plans)))
        };
        let shared = planned(false);
        let mixed = keys.windows(2).any(|pair| pair[0].order != pair[1].order);
        // Without a plan for shared segments there is no choice.
        let divided = if mixed && (self.spec.divide_by_page_size || shared.is_none()) { planned(true) } else { None };
        shared.into_iter().chain(divided).min_by_key(|(cost, _)| *cost).map(|(_, planned)| planned)
    }

    /// Rebuilds the index for these pages, ascending. The old index stays until all memory for the new one is
    /// allocated.
    pub(super) fn build(&mut self, pages: &[PageEntry], os: &mut TableContext<'_>) -> Result<(), MapError> {
        self.areas.plan(pages, self.spec.plan_ahead, self.spec.insertion_pages);
        let keys = self.areas.keys(pages, 0, 1 << (self.va_bits - 12));
        let mut most_slots = self.spec.max_table_bytes / 8;
        loop {
            let Some((segments, plans)) = self.plan_all(&keys, most_slots) else {
                return Err(MapError::NoMemory { bytes: FRAME_BYTES });
            };
            match self.try_build(pages, &keys, &segments, plans, os) {
                Err(MapError::NoMemory { bytes }) if bytes > FRAME_BYTES && most_slots > FRAME_BYTES / 8 => {
                    // Without such contiguity: more leaves with smaller tables (Sec. 4.3.2).
                    most_slots = (bytes / 8 / 2).min(most_slots / 2).max(FRAME_BYTES / 8);
                }
                done => return done,
            }
        }
    }

    fn try_build(
        &mut self,
        pages: &[PageEntry],
        keys: &[Run],
        segments: &[Segment],
        plans: Vec<Plan>,
        os: &mut TableContext<'_>,
    ) -> Result<(), MapError> {
        // Level by level: the nodes, and the tables of those that are leaves.
        let mut levels: [Vec<Node>; LEVELS] = Default::default();
        let mut leaves: Vec<(usize, usize, u64, Leaf, &[PageEntry])> = Vec::new();
        let mut rest = pages;
        let none = |bytes: u64| MapError::NoMemory { bytes };
        let mut open: Vec<(Plan, u64, &[PageEntry])> = Vec::new();
        for (segment, plan) in segments.iter().zip(plans) {
            let (own, others) = rest.split_at(rest.partition_point(|(page, ..)| *page < segment.start + segment.pages));
            rest = others;
            open.push((plan, segment.start, own));
        }
        for (level, nodes) in levels.iter_mut().enumerate() {
            let mut next = Vec::new();
            for (plan, start, own) in std::mem::take(&mut open) {
                match plan {
                    Plan::Empty => nodes.push(Node::EMPTY),
                    Plan::Leaf(leaf) => {
                        leaves.push((level, nodes.len(), start, leaf, own));
                        nodes.push(Node::EMPTY);
                    }
                    Plan::Inner { node, children } => {
                        let first = (next.len() as i64) << FRACTION;
                        nodes.push(Node { intercept: node.intercept.wrapping_add(first), ..node });
                        // From the last child to the first: each has the pages from its first one on.
                        let mut rest = own;
                        let mut each: Vec<_> = children.into_iter().collect();
                        let placed = next.len();
                        while let Some((from, plan)) = each.pop() {
                            let at = rest.partition_point(|(page, ..)| *page < start + from);
                            next.push((plan, start, &rest[at..]));
                            rest = &rest[..at];
                        }
                        next[placed..].reverse();
                    }
                }
            }
            open = next;
        }
        // Allocate memory for all of it, or for nothing.
        let mut store = Store::default();
        let mut arrays = [(PhysAddr(0), 0); LEVELS];
        let mut tables: Vec<Table> = Vec::new();
        let mut failed = None;
        for (array, nodes) in arrays.iter_mut().zip(&levels).filter(|(_, nodes)| !nodes.is_empty()) {
            let bytes = nodes.len() as u64 * NODE_BYTES;
            match store.allocate(bytes, &mut self.footprint, os) {
                Some(base) => *array = (base, nodes.len() as u64),
                None => failed = Some(bytes.min(FRAME_BYTES)),
            }
        }
        for (.., leaf, _) in &leaves {
            if failed.is_some() {
                break;
            }
            match store.allocate(leaf.slots * 8, &mut self.footprint, os) {
                Some(base) => tables.push(Table { base, slots: leaf.slots }),
                None => failed = Some(leaf.slots * 8),
            }
        }
        if let Some(bytes) = failed {
            for table in tables {
                store.release(table.base, table.slots * 8, &mut self.footprint, os);
            }
            for (base, count) in arrays.into_iter().filter(|(_, count)| *count > 0) {
                store.release(base, count * NODE_BYTES, &mut self.footprint, os);
            }
            store.clear(&mut self.footprint, os);
            return Err(none(bytes));
        }
        // Free the old index, whose memory may be reused; `pages` has all of its contents.
        self.release(os);
        (self.store, self.levels) = (store, arrays);
        for ((level, number, start, leaf, own), table) in leaves.into_iter().zip(tables) {
            let node = based(leaf.node, table.base);
            levels[level][number] = node;
            self.tables.insert(start + leaf.from, table);
            self.counters.trained += own.len() as u64;
            self.counters.collisions += leaf.collisions.0 >> FRACTION;
            let places = leaf.slots_of(own.iter().map(|(page, order, _)| (page - start, *order)));
            for ((page, order, pte), place) in own.iter().zip(places) {
                os.memory.write(table.base.offset(8 * place), entry(*pte, *page, *order));
            }
        }
        for ((base, _), nodes) in self.levels.iter().zip(&levels) {
            for (number, node) in nodes.iter().enumerate() {
                os.memory.write_words(base.offset(number as u64 * NODE_BYTES), &node.words());
            }
        }
        self.segments = segments.to_vec();
        self.built_for = count(keys);
        self.retrains_before = self.counters.retrains;
        self.counters.rebuilds += 1;
        self.counters.peak_index_bytes = self.counters.peak_index_bytes.max(self.index_bytes());
        self.indexes += 1;
        self.generation += 1;
        os.ledger.hold(TableLock::Whole);
        os.ledger.charge(LedgerCause::Table, (pages.len() as u64) * os.costs.table_entry);
        Ok(())
    }

    pub(super) fn index_bytes(&self) -> u64 {
        self.levels.iter().map(|(_, count)| count * NODE_BYTES).sum()
    }

    /// Frees all memory.
    pub(super) fn release(&mut self, os: &mut TableContext<'_>) {
        for (_, table) in std::mem::take(&mut self.tables) {
            self.store.release(table.base, table.slots * 8, &mut self.footprint, os);
        }
        for (base, count) in std::mem::replace(&mut self.levels, [(PhysAddr(0), 0); LEVELS]) {
            if count > 0 {
                self.store.release(base, count * NODE_BYTES, &mut self.footprint, os);
            }
        }
        self.store.clear(&mut self.footprint, os);
        self.segments.clear();
    }
}

/// A leaf's model for a table at `base`; its output is a slot of physical memory.
pub(super) fn based(node: Node, base: PhysAddr) -> Node {
    Node { intercept: node.intercept.wrapping_add(((base.0 / 8) << FRACTION) as i64), ..node }
}
