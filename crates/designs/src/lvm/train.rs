//! Training: computes the models of an index from the pages of a segment, in integers (LVM Sec. 4.2.3, 4.3).

use super::node::{FRACTION, NODE_BYTES, Node, TAG_BITS};
use super::{LEVELS, LvmSpec};

/// Slots of a cache line.
pub(crate) const LINE_SLOTS: u64 = 8;
/// Lines before a leaf's first prediction and after its last, so that searches stay within its table.
const SLACK_LINES: u64 = 3;
/// log2 of the most pages of a child: 2^-20 is the smallest slope.
const MOST_BITS: u32 = FRACTION;
/// log2 of the fewest pages of a child: as many as a line's slots, which a search always finds.
const LEAST_BITS: u32 = 3;

/// Consecutive pages of one size: keys of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First 4 KiB page: absolute, or counted from the segment's start.
    pub(crate) page: u64,
    /// log2 of a page's 4 KiB frames.
    pub(crate) order: u32,
    /// Number of pages.
    pub(crate) count: u64,
}

impl Run {
    /// The 4 KiB page after the last.
    pub(crate) fn end(self) -> u64 {
        self.page + (self.count << self.order)
    }
}

/// The number of pages.
pub(crate) fn count(keys: &[Run]) -> u64 {
    keys.iter().map(|run| run.count).sum()
}

/// The pages of `[from, to)`, counted from `origin`. No page may cross the borders.
pub(crate) fn slice(keys: &[Run], from: u64, to: u64, origin: u64) -> Vec<Run> {
    let first = keys.partition_point(|run| run.end() <= from);
    let clip = |run: &Run| {
        let (low, high) = (run.page.max(from), run.end().min(to));
        Run { page: low - origin, order: run.order, count: (high - low) >> run.order }
    };
    keys[first..].iter().take_while(|run| run.page < to).map(clip).collect()
}

/// A planned node of the index.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Nothing is mapped there.
    Empty,
    /// A leaf with a table.
    Leaf(Leaf),
    /// Children, which divide the pages evenly.
    Inner {
        /// Its model, for children that begin at number 0.
        node: Node,
        /// The children, each with its first page.
        children: Vec<(u64, Plan)>,
    },
}

/// A trained leaf.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// First page of the leaf.
    pub(crate) from: u64,
    /// Its model, for a table at slot 0.
    pub(crate) node: Node,
    /// Slots of its table.
    pub(crate) slots: u64,
    /// The pages that it was trained with.
    pub(crate) keys: Vec<Run>,
    /// The slot of each of them; `None` if each is the prediction for the page's middle.
    pub(crate) places: Option<Vec<u32>>,
    /// Look-ups that do not find their entry in the predicted line, and the additional lines that they read,
    /// in units of 2^-20. A page is one look-up, of which each of its 4 KiB pages has an equal share.
    pub(crate) collisions: (u64, u64),
}

impl Leaf {
    /// The slots of some of its pages, ascending, each given by its first 4 KiB page and log2 of its frames.
    pub(crate) fn slots_of<'a>(
        &'a self,
        pages: impl Iterator<Item = (u64, u32)> + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        let (mut run, mut before) = (0, 0);
        pages.map(move |(page, order)| {
            let Some(places) = &self.places else { return self.node.predict(page + (1 << order) / 2) };
            while self.keys[run].end() <= page {
                before += self.keys[run].count;
                run += 1;
            }
            let within = (page - self.keys[run].page) >> self.keys[run].order;
            u64::from(places[(before + within) as usize])
        })
    }
}

/// The lines that a search reads, in order, as distances from the predicted one; `extra` lines in addition to
/// it.
pub(crate) fn search_order(extra: u32) -> impl Iterator<Item = i64> {
    (0..=i64::from(extra)).map(|i| if i % 2 == 1 { (i + 1) / 2 } else { -(i / 2) })
}

/// Finds a slot for a page in a line that a search for any of its 4 KiB pages reads. `predictions` are those
/// of its first, its middle and its last 4 KiB page.
pub(crate) fn place(predictions: [u64; 3], extra: u32, is_free: impl Fn(u64) -> bool) -> Option<u64> {
    let [first, middle, last] = predictions;
    let line_of = |slot: u64| (slot / LINE_SLOTS) as i64;
    let reaches = |from: u64, line: i64| search_order(extra).any(|distance| line_of(from) + distance == line);
    for distance in search_order(extra) {
        let line = line_of(middle) + distance;
        if !reaches(first, line) || !reaches(last, line) {
            continue;
        }
        let base = line as u64 * LINE_SLOTS;
        let preferred = if distance == 0 { middle % LINE_SLOTS } else { 0 };
        let slot = (0..LINE_SLOTS).map(|i| base + (preferred + i) % LINE_SLOTS).find(|&slot| is_free(slot));
        if slot.is_some() {
            return slot;
        }
    }
    None
}

/// How the look-ups of a page find its entry in `slot`, as [`Leaf::collisions`].
fn collisions_of(node: Node, page: u64, order: u32, slot: u64, extra: u32) -> (u64, u64) {
    let (mut at, end) = (page, page + (1 << order));
    let (mut collided, mut lines) = (0, 0);
    while at < end {
        let line = node.predict(at) / LINE_SLOTS;
        // The 4 KiB pages for which this line is predicted.
        let next =
            if node.predict(end - 1) / LINE_SLOTS == line { end } else { node.first_page((line + 1) * LINE_SLOTS) };
        let distance = (slot / LINE_SLOTS) as i64 - line as i64;
        let steps = search_order(extra).position(|searched| searched == distance).unwrap_or_default() as u64;
        let share = (next - at) << FRACTION >> order;
        collided += if steps > 0 { share } else { 0 };
        lines += steps * share;
        at = next;
    }
    (collided, lines)
}

/// A model's predictions for the first, the middle and the last 4 KiB page of a page.
pub(crate) fn predictions(node: Node, page: u64, order: u32) -> [u64; 3] {
    let frames = 1 << order;
    [0, frames / 2, frames - 1].map(|within| node.predict(page + within))
}

/// The smallest slope at which pages of `order` with the same tag are not confused. They are 2^12 pages of their
/// size apart. An entry's slot tells which of them it is if that is less than half as far from its prediction;
/// it is within as many lines as a search reads after the predicted one, and a line. Then no search covers two of
/// them either.
pub(crate) fn least_slope(order: u32, extra: u32) -> i64 {
    let reach = (u64::from(extra).div_ceil(2) + 1) * LINE_SLOTS;
    let half_apart = ((1 << (TAG_BITS - 1)) - 1) << order;
    ((reach << FRACTION) / half_apart + 1) as i64
}

/// Linear regression of position over page, in exact integers: the slope in units of 2^-20.
fn regression(keys: &[Run]) -> i64 {
    let n = i128::from(count(keys));
    let origin = keys.first().map_or(0, |run| run.page);
    let (mut sx, mut sxx, mut sxy) = (0i128, 0i128, 0i128);
    let mut position = 0i128;
    for run in keys {
        // Sums over i = 0 .. m-1 of x + d i and its products with position + i.
        let (x, d, m) = (i128::from(run.page - origin), 1i128 << run.order, i128::from(run.count));
        let (si, sii) = (m * (m - 1) / 2, (m - 1) * m * (2 * m - 1) / 6);
        sx += m * x + d * si;
        sxx += m * x * x + 2 * x * d * si + d * d * sii;
        sxy += m * x * position + (x + d * position) * si + d * sii;
        position += m;
    }
    let sy = n * (n - 1) / 2;
    let (above, below) = (n * sxy - sx * sy, n * sxx - sx * sx);
    if below == 0 {
        return 0;
    }
    let slope = if above < 1 << 100 { (above << FRACTION) / below } else { above / (below >> FRACTION).max(1) };
    slope as i64
}

/// Trains a leaf of `pages` pages from `from` on, with keys in ascending order. `None` if no slope finds each
/// page within the error bound, with at most `most_slots` slots.
///
/// The slope is the regression's. If that misses a page, it is the steepest at which the search for any part
/// of the largest page reaches the same line, and then the one that gives each of the smallest pages slots of
/// its own: pages of several sizes share a leaf where one of these holds.
///
/// All look-ups in a large page are rounded down to one position (Sec. 4.4). So a leaf of large pages of one size
/// has one slot for each place for such a page; it needs no gaps, as each later page has its slot. With smaller
/// pages among them, each place for one of the largest has a line. Where that is more than twice as many slots as
/// the regression has, or fewer with pages of several sizes, the regression is preferred.
pub(crate) fn leaf(keys: &[Run], from: u64, pages: u64, most_slots: u64, spec: &LvmSpec) -> Option<Leaf> {
    let orders = || keys.iter().map(|run| run.order);
    let (smallest, largest) = (orders().min().unwrap_or(0), orders().max().unwrap_or(0));
    let least = least_slope(smallest, spec.max_extra);
    let gapped = |slope: i64| (i128::from(slope) * i128::from(spec.gap_permille) / 1000) as i64;
    let most = gapped(1 << FRACTION);
    let regression = gapped(regression(keys)).clamp(least, most);
    let reach = i64::from(spec.max_extra) * LINE_SLOTS as i64 - (LINE_SLOTS as i64 - 1);
    let largest_found = ((reach << FRACTION) >> largest).clamp(least, most.max(least));
    let each_its_own = if smallest == 0 { most.max(least) } else { one_slot(smallest) };
    let whole = one_slot(largest) * if smallest == largest { 1 } else { LINE_SLOTS as i64 };
    let is_near = whole <= (2 * regression).min(most) && (smallest == largest || regression <= whole);
    let rounded = if largest > 0 && is_near { whole } else { regression };
    let slopes = [rounded, regression, largest_found, each_its_own];
    let tried = (0..slopes.len()).filter(|&at| !slopes[..at].contains(&slopes[at]));
    tried.map(|at| slopes[at]).find_map(|slope| leaf_of_slope(keys, from, pages, slope, most_slots, spec))
}

/// The slope with one slot for each place for a page of `order`.
fn one_slot(order: u32) -> i64 {
    1 << FRACTION >> order
}

/// Trains a leaf with this slope. `None` as [`leaf`].
fn leaf_of_slope(keys: &[Run], from: u64, pages: u64, slope: i64, most_slots: u64, spec: &LvmSpec) -> Option<Leaf> {
    // Predictions count from where a page of the largest size can begin: with one slot or line for each, none has
    // a part of the next page's.
    let largest = keys.iter().max_by_key(|run| run.order).copied().unwrap_or(Run { page: 0, order: 0, count: 0 });
    let origin = from as i64 - (from as i64 - largest.page as i64).rem_euclid(1 << largest.order);
    let node = Node {
        slope,
        intercept: ((SLACK_LINES * LINE_SLOTS) << FRACTION) as i64 - slope.wrapping_mul(origin),
        leaf: true,
    };
    let slots = (node.predict(from + pages - 1) / LINE_SLOTS + 1 + SLACK_LINES) * LINE_SLOTS;
    if slots > most_slots.min(1 << 31) {
        return None;
    }
    let keys = keys.to_vec();
    // With one slot for each page, or up to two for each of 4 KiB, each page has the slot that is predicted.
    let one = one_slot(largest.order);
    let apart = slope == one || (largest.order == 0 && (one..=2 * one).contains(&slope));
    if apart && keys.iter().all(|run| run.order == largest.order) {
        return Some(Leaf { from, node, slots, keys, places: None, collisions: (0, 0) });
    }
    let mut used = vec![0u64; (slots as usize).div_ceil(64)];
    let mut places = Vec::with_capacity(count(&keys) as usize);
    let mut collisions = (0, 0);
    for run in &keys {
        for page in (0..run.count).map(|i| run.page + (i << run.order)) {
            let is_free = |slot: u64| used[(slot / 64) as usize] >> (slot % 64) & 1 == 0;
            let slot = place(predictions(node, page, run.order), spec.max_extra, is_free)?;
            used[(slot / 64) as usize] |= 1 << (slot % 64);
            places.push(slot as u32);
            let (collided, lines) = collisions_of(node, page, run.order, slot, spec.max_extra);
            collisions = (collisions.0 + collided, collisions.1 + lines);
        }
    }
    Some(Leaf { from, node, slots, keys, places: Some(places), collisions })
}

/// Greedy spline: the number of straight lines that approximate the keys' positions within the slots of a
/// line. It estimates the number of children. Consecutive pages are a straight line, so only their ends need
/// checking.
fn spline_points(keys: &[Run]) -> u64 {
    let mut points = 1;
    let Some(first) = keys.first() else { return points };
    let mut base = (first.page, 0i128);
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    let mut position = 0i128;
    for run in keys {
        let last = run.count as i128 - 1;
        for (page, at) in [(run.page, position), (run.end() - (1 << run.order), position + last)] {
            let x = i128::from(page - base.0).max(1);
            let y = at - base.1;
            // Slopes that pass within a line of the point, in units of 2^-40.
            let (least, greatest) = (((y - 8) << 40) / x, ((y + 8) << 40) / x);
            if least > high || greatest < low {
                points += 1;
                base = (page, at);
                (low, high) = (i128::MIN, i128::MAX);
            } else {
                (low, high) = (low.max(least), high.min(greatest));
            }
        }
        position += last + 1;
    }
    points
}

/// The cost of a plan (Sec. 4.2.3): depth, index bytes, and collisions weighted by their accesses.
struct Cost {
    depth: u64,
    bytes: u64,
    /// Number of keys.
    keys: u64,
    /// As [`Leaf::collisions`].
    collisions: (u64, u64),
}

fn cost(plan: &Plan) -> Cost {
    match plan {
        Plan::Empty => Cost { depth: 0, bytes: 16, keys: 0, collisions: (0, 0) },
        Plan::Leaf(leaf) => Cost { depth: 1, bytes: 16, keys: count(&leaf.keys), collisions: leaf.collisions },
        Plan::Inner { children, .. } => children.iter().map(|(_, plan)| cost(plan)).fold(
            Cost { depth: 1, bytes: 16, keys: 0, collisions: (0, 0) },
            |sum, one| Cost {
                depth: sum.depth.max(one.depth + 1),
                bytes: sum.bytes + one.bytes,
                keys: sum.keys + one.keys,
                collisions: (sum.collisions.0 + one.collisions.0, sum.collisions.1 + one.collisions.1),
            },
        ),
    }
}

impl Cost {
    /// `C = x1 d + x2 s + x3 cr ma`, in thousandths.
    fn weighted(&self, spec: &LvmSpec) -> u64 {
        1000 * (spec.x1 * self.depth + spec.x2 * self.bytes) + collision_cost(self.collisions, self.keys, spec)
    }
}

/// `x3 cr ma`, in thousandths: the additional lines of a look-up in the mean, weighted.
fn collision_cost((_, lines): (u64, u64), keys: u64, spec: &LvmSpec) -> u64 {
    let of_all = (u128::from(1000 * spec.x3) * u128::from(lines)) >> FRACTION;
    of_all.checked_div(keys.into()).unwrap_or(0) as u64
}

/// Children beyond the estimate, in both directions, that the cost model tries (Sec. 4.2.3).
const NEAR: u64 = 2;

/// A table whose size mostly serves to separate equal tags, or pages far apart: it should be divided further.
/// That of a root may have room for the minimum insertion distance on both sides (Sec. 4.3.4).
pub(crate) fn is_wasteful(slots: u64, keys: u64, is_root: bool, spec: &LvmSpec) -> bool {
    let room = if is_root { 2 * spec.insertion_pages * spec.gap_permille / 1000 } else { 0 };
    slots > 512.max(16 * keys) + room
}

/// What each leaf of a plan must be.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// The most slots of its table.
    pub(crate) most_slots: u64,
    /// Whether its table may be mostly empty (`is_wasteful`).
    pub(crate) waste: bool,
}

/// Plans a node for `pages` pages from `from` on, with at most `levels` levels of models and leaves within
/// the bounds. `None` if no plan is within these and the error bound.
pub(crate) fn plan(keys: &[Run], from: u64, pages: u64, levels: u32, within: Bounds, spec: &LvmSpec) -> Option<Plan> {
    if keys.is_empty() {
        return Some(Plan::Empty);
    }
    let trained = leaf(keys, from, pages, within.most_slots, spec);
    let trained = trained.filter(|leaf| {
        !is_wasteful(leaf.slots, count(keys), levels == LEVELS as u32, spec) || (within.waste && levels == 1)
    });
    if let Some(leaf) = &trained
        && (levels == 1 || collision_cost(leaf.collisions, count(keys), spec) < 1000 * (spec.x1 + 32 * spec.x2))
    {
        return trained.map(Plan::Leaf);
    }
    if levels == 1 {
        return None;
    }
    // An even division into powers of two of pages, at least as large as any page: from a segment's start on
    // it divides none.
    let least = keys.iter().map(|run| run.order).max().unwrap_or(0).max(LEAST_BITS);
    let most = MOST_BITS.min(63 - (pages - 1).leading_zeros());
    let powers = |bits: u32| inner_model(1 << (FRACTION - bits), from);
    let estimate = spline_points(keys);
    let wanted = estimate.saturating_sub(NEAR).max(2)..=estimate + NEAR;
    let even = (least..=most).rev().filter(|bits| wanted.contains(&pages.div_ceil(1 << bits))).map(powers);
    let of_number = wanted.clone().map(|children| inner_model((((children << FRACTION) / pages) as i64).max(1), from));
    let mut best = trained.map(Plan::Leaf).map(|plan| (weighted_cost(&plan, spec), plan));
    cheapest(&mut best, even.chain(of_number), keys, (from, pages), levels, within, spec);
    // Tables as large as contiguity permits (Sec. 4.3.2).
    let slots = count(keys) * spec.gap_permille / 1000 + 2 * (SLACK_LINES + 1) * LINE_SLOTS;
    let room = within.most_slots.saturating_sub(2 * (SLACK_LINES + 1) * LINE_SLOTS).max(LINE_SLOTS);
    let siblings = slots.div_ceil(room);
    if best.is_none() && siblings > *wanted.end() {
        let model = inner_model(((siblings << FRACTION) / pages) as i64 + 1, from);
        cheapest(&mut best, [model].into_iter(), keys, (from, pages), levels, within, spec);
    }
    if best.is_none() {
        // The error bound does not hold: try again with ever more children (Sec. 4.3.3).
        let mut more = (least..=most).rev().filter(|bits| pages.div_ceil(1 << bits) > *wanted.end()).map(powers);
        return more.find_map(|node| inner(node, keys, (from, pages), levels, within, spec));
    }
    best.map(|(_, plan)| plan)
}

/// The cost of a plan, in thousandths.
pub(crate) fn weighted_cost(plan: &Plan, spec: &LvmSpec) -> u64 {
    cost(plan).weighted(spec)
}

/// Plans a node with each of these models, and keeps the cheapest plan in `best`.
fn cheapest(
    best: &mut Option<(u64, Plan)>,
    models: impl Iterator<Item = Node>,
    keys: &[Run],
    range: (u64, u64),
    levels: u32,
    within: Bounds,
    spec: &LvmSpec,
) {
    let mut slopes = Vec::new();
    for node in models {
        let children = node.predict(range.0 + range.1 - 1) + 1;
        let least = 1000 * spec.x2 * NODE_BYTES * children;
        if slopes.contains(&node.slope) || best.as_ref().is_some_and(|(cost, _)| *cost <= least) {
            continue;
        }
        slopes.push(node.slope);
        if let Some(plan) = inner(node, keys, range, levels, within, spec) {
            let cost = weighted_cost(&plan, spec);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                *best = Some((cost, plan));
            }
        }
    }
}

/// The model of a node with children from `from` on, each of `2^20 / slope` pages.
fn inner_model(slope: i64, from: u64) -> Node {
    Node { slope, intercept: -slope.wrapping_mul(from as i64), leaf: false }
}

/// Plans the children of a node. `None` if there are too few or too many, a child is too small, the borders
/// divide a page, or a child has no plan.
fn inner(
    node: Node,
    keys: &[Run],
    (from, pages): (u64, u64),
    levels: u32,
    within: Bounds,
    spec: &LvmSpec,
) -> Option<Plan> {
    let count = node.predict(from + pages - 1) + 1;
    if count < 2 || count * NODE_BYTES > spec.max_level_bytes || node.slope > 1 << (FRACTION - LEAST_BITS) {
        return None;
    }
    let border = |child: u64| node.first_page(child).min(from + pages);
    let largest = keys.iter().map(|run| run.order).max().unwrap_or(0);
    if largest > 0 && (1..count).any(|child| is_within_a_page(keys, border(child))) {
        return None;
    }
    let mut next = 0;
    let child = |child: u64| {
        let (start, end) = (border(child), border(child + 1));
        while keys.get(next).is_some_and(|run| run.end() <= start) {
            next += 1;
        }
        if keys.get(next).is_none_or(|run| run.page >= end) {
            return Some((start, Plan::Empty));
        }
        let own = slice(&keys[next..], start, end, 0);
        Some((start, plan(&own, start, end - start, levels - 1, within, spec)?))
    };
    Some(Plan::Inner { node, children: (0..count).map(child).collect::<Option<_>>()? })
}

/// Whether a page begins before `border` and ends after it.
fn is_within_a_page(keys: &[Run], border: u64) -> bool {
    let at = keys.partition_point(|run| run.end() <= border);
    keys.get(at).is_some_and(|run| run.page < border && !(border - run.page).is_multiple_of(1 << run.order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_within_two_of_the_spline_points_in_number() {
        // Two dense parts in a sparse address space: one table would mostly be empty.
        let part = |from: u64, to: u64, apart| (from..to).step_by(apart).map(|page| Run { page, order: 0, count: 1 });
        let sparse = (part(2000, 56_000, 100), part(58_000, 112_000, 100));
        let keys: Vec<Run> = part(0, 2000, 1).chain(sparse.0).chain(part(56_000, 58_000, 1)).chain(sparse.1).collect();
        let points = spline_points(&keys);
        let within = Bounds { most_slots: 1 << 20, waste: false };
        let planned = plan(&keys, 0, 112_000, 3, within, &LvmSpec::default()).unwrap();
        let Plan::Inner { node, children } = planned else { panic!("a root with children, not {planned:?}") };
        let root = children.len() as u64;
        assert_eq!((points, root), (4, 5), "children for spline points");
        assert_eq!(node.first_page(0), 0);
        for child in 1..root {
            let border = node.first_page(child);
            assert_eq!((node.predict(border - 1), node.predict(border)), (child - 1, child), "the border is exact");
            // 5 / 112,000 is 46.8 in units of 2^-20: borders are off by up to 2%.
            assert!(border.abs_diff(child * 112_000 / root) <= 112_000 / 50, "an even division: {border}");
        }
    }

    /// The share of look-ups that do not find their entry in the predicted line, and of the lines that they
    /// read beyond it, each 4 KiB page looked up: as [`Leaf::collisions`].
    fn collisions_by_look_ups(leaf: &Leaf, extra: u32) -> (u64, u64) {
        let pages = leaf.keys.iter().flat_map(|run| (0..run.count).map(|i| (run.page + (i << run.order), run.order)));
        let slots: Vec<u64> = leaf.slots_of(pages.clone()).collect();
        let (mut collided, mut lines) = (0, 0);
        for ((page, order), slot) in pages.zip(slots) {
            for look_up in page..page + (1 << order) {
                let line = (leaf.node.predict(look_up) / LINE_SLOTS) as i64;
                let found = |distance| line + distance == (slot / LINE_SLOTS) as i64;
                let beyond = search_order(extra).position(found).expect("an entry within reach") as u64;
                collided += if beyond > 0 { 1 << FRACTION >> order } else { 0 };
                lines += beyond << FRACTION >> order;
            }
        }
        (collided, lines)
    }

    #[test]
    fn training_counts_the_collisions_of_all_look_ups() {
        let spec = LvmSpec::default();
        let run = |page, order, count| Run { page, order, count };
        let small_around_large = [run(492, 0, 20), run(512, 9, 200), run(512 + (200 << 9), 0, 12)];
        let three_sizes = [run(0, 0, 3), run(16, 4, 40), run(1024, 6, 12), run(2048, 0, 5)];
        for keys in [&small_around_large[..], &small_around_large[1..2], &three_sizes] {
            let end = keys.last().unwrap().end() + 100;
            // A slope per size: 1.3 slots for each page of it.
            for order in [0, 4, 6, 9] {
                let slope = 13 * one_slot(order) / 10;
                let Some(leaf) = leaf_of_slope(keys, 0, end, slope, 1 << 20, &spec) else { continue };
                assert_eq!(leaf.collisions, collisions_by_look_ups(&leaf, 3), "{order}: {keys:?}");
            }
            let leaf = leaf(keys, 0, end, 1 << 20, &spec).unwrap();
            assert_eq!(leaf.collisions, collisions_by_look_ups(&leaf, 3), "{keys:?}");
        }
        // Predictions for one page are spread over 1.3 slots, so that one page of six has them in two lines.
        let of_one_size = leaf_of_slope(&small_around_large[1..2], 0, 200 << 9, 13 * one_slot(9) / 10, 1 << 20, &spec);
        let share = of_one_size.unwrap().collisions.0 as f64 / f64::from(200 << FRACTION);
        assert!((0.03..0.05).contains(&share), "{share}");
    }

    #[test]
    fn all_look_ups_of_a_large_page_have_the_line_of_its_entry_predicted() {
        let spec = LvmSpec::default();
        for order in 1..=18 {
            // All pages, with holes, and counted from a page that is not aligned.
            for (first, apart) in [(0, 1), (0, 2), (1 << order >> 1, 1), (7 << order, 1), ((3 << order) + 1, 2)] {
                let keys: Vec<Run> =
                    (0..300).map(|i| Run { page: first + ((i * apart) << order), order, count: 1 }).collect();
                for from in [0, first, first / 2] {
                    let leaf = leaf(&keys, from, keys[299].end() - from + 5, 1 << 40, &spec).unwrap();
                    let slots: Vec<u64> = leaf.slots_of(keys.iter().map(|run| (run.page, order))).collect();
                    for (run, slot) in keys.iter().zip(&slots) {
                        let last = run.page + (1 << order) - 1;
                        assert_eq!([leaf.node.predict(run.page), leaf.node.predict(last)], [*slot; 2], "{order}");
                    }
                    assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "a slot for each page");
                    assert!(
                        leaf.slots >= slots[299] + SLACK_LINES * LINE_SLOTS && slots[0] >= SLACK_LINES * LINE_SLOTS
                    );
                    assert!(leaf.slots <= 2 * 300 + (first >> order) + 100, "{} slots", leaf.slots);
                    assert_eq!(leaf.collisions, (0, 0));
                }
            }
        }
    }

    #[test]
    fn small_pages_share_a_leaf_with_large_ones_that_have_a_line_each() {
        let keys = [(492, 0, 20), (512, 9, 200), (512 + (200 << 9), 0, 12)];
        let keys = keys.map(|(page, order, count)| Run { page, order, count });
        let leaf = leaf(&keys, 0, 202 << 9, 1 << 40, &LvmSpec::default()).unwrap();
        let mut pages = (1..201).map(|page| page << 9);
        assert!(pages.all(|page| {
            let lines = [0, 511].map(|within| leaf.node.predict(page + within) / LINE_SLOTS);
            lines[0] == lines[1] && lines[0] == leaf.node.predict(page - 1) / LINE_SLOTS + 1
        }));
        // 12 of the 20 small pages, and 4 of the 12, have no room in the line of their place, and the first large page
        // none beside 8 of the former.
        assert_eq!(leaf.collisions.0 >> FRACTION, 17, "{:?}", leaf.collisions);
    }

    #[test]
    fn pages_with_the_same_tag_are_told_apart_wherever_a_search_finds_them() {
        for (extra, order) in (1..=3).flat_map(|extra| [0, 9].map(|order| (extra, order))) {
            let slope = least_slope(order, extra);
            for phase in 0..64 {
                let intercept = (100 << FRACTION) + (phase << FRACTION) / 7;
                let node = Node { slope, intercept, leaf: true };
                let page = 5000_u64 << order;
                let lines_of = |page| {
                    let line = (node.predict(page) / LINE_SLOTS) as i64;
                    search_order(extra).map(move |distance| line + distance)
                };
                // Another page with its tag: neither search reads a line of the other's.
                let others = [page + (4096 << order), page + (4097 << order) - 1];
                let last = page + (1 << order) - 1;
                let is_apart = |line| others.iter().all(|&other| lines_of(other).all(|its| its > line));
                assert!(lines_of(page).chain(lines_of(last)).all(is_apart), "{extra} {order} {phase}");
                // The model's inverse is nearer to the page than to any other with its tag.
                for slot in lines_of(page).flat_map(|line| line * 8..line * 8 + 8) {
                    let inverse = ((slot << FRACTION) - intercept) / slope;
                    assert!((inverse >> order).abs_diff(5000) < 2048, "{extra} {order} {phase}: {inverse}");
                }
            }
        }
    }

    #[test]
    fn borders_divide_no_page() {
        let keys = [Run { page: 0, order: 0, count: 300 }, Run { page: 512, order: 9, count: 40 }];
        for border in 0..600 {
            assert_eq!(is_within_a_page(&keys, border), border > 512 && border < 1024, "{border}");
        }
        assert!(!is_within_a_page(&keys, 512 + (40 << 9)) && !is_within_a_page(&keys, 1 << 20));
        let within = Bounds { most_slots: 1 << 20, waste: false };
        let Some(Plan::Inner { node, children }) = plan(&keys, 0, 1 << 15, 3, within, &LvmSpec::default()) else {
            panic!("small and large pages in numbers do not share a leaf")
        };
        for child in 1..children.len() as u64 {
            assert!(!is_within_a_page(&keys, node.first_page(child)));
        }
    }
}
