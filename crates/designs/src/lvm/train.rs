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
    /// Keys that are not in the predicted line, and the total of additional lines to search for them.
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

/// Finds a slot for a page in a line that a search for any of its 4 KiB pages reads. Returns the slot and the
/// number of lines that a search for the page's middle reads before it. `predictions` are those of its first,
/// its middle and its last 4 KiB page.
pub(crate) fn place(predictions: [u64; 3], extra: u32, is_free: impl Fn(u64) -> bool) -> Option<(u64, u64)> {
    let [first, middle, last] = predictions;
    let line_of = |slot: u64| (slot / LINE_SLOTS) as i64;
    let reaches = |from: u64, line: i64| search_order(extra).any(|distance| line_of(from) + distance == line);
    for (step, distance) in search_order(extra).enumerate() {
        let line = line_of(middle) + distance;
        if !reaches(first, line) || !reaches(last, line) {
            continue;
        }
        let base = line as u64 * LINE_SLOTS;
        let preferred = if distance == 0 { middle % LINE_SLOTS } else { 0 };
        let slot = (0..LINE_SLOTS).map(|i| base + (preferred + i) % LINE_SLOTS).find(|&slot| is_free(slot));
        if let Some(slot) = slot {
            return Some((slot, step as u64));
        }
    }
    None
}

/// A model's predictions for the first, the middle and the last 4 KiB page of a page.
pub(crate) fn predictions(node: Node, page: u64, order: u32) -> [u64; 3] {
    let frames = 1 << order;
    [0, frames / 2, frames - 1].map(|within| node.predict(page + within))
}

/// The smallest slope at which no search covers two pages of `order` with the same tag. Pages with the same
/// tag are 2^12 pages of their size apart, a search reaches `extra` lines to either side, and an entry is
/// within as many lines of its prediction.
pub(crate) fn least_slope(order: u32, extra: u32) -> i64 {
    let reach = (2 * (u64::from(extra) + 1) + 1) * LINE_SLOTS;
    let apart = ((1 << TAG_BITS) - 1) << order;
    ((reach << FRACTION) / apart + 1) as i64
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
pub(crate) fn leaf(keys: &[Run], from: u64, pages: u64, most_slots: u64, spec: &LvmSpec) -> Option<Leaf> {
    let orders = || keys.iter().map(|run| run.order);
    let (smallest, largest) = (orders().min().unwrap_or(0), orders().max().unwrap_or(0));
    let least = least_slope(smallest, spec.max_extra);
    let gapped = |slope: i64| (i128::from(slope) * i128::from(spec.gap_permille) / 1000) as i64;
    let regression = gapped(regression(keys)).clamp(least, gapped(1 << FRACTION));
    let reach = i64::from(spec.max_extra) * LINE_SLOTS as i64 - (LINE_SLOTS as i64 - 1);
    let largest_found = ((reach << FRACTION) >> largest).clamp(least, gapped(1 << FRACTION).max(least));
    let each_its_own = gapped((1 << FRACTION) >> smallest).max(least);
    let mut tried = [regression, largest_found, each_its_own].into_iter().enumerate();
    let slopes = [regression, largest_found, each_its_own];
    tried.find_map(|(at, slope)| match slopes[..at].contains(&slope) {
        true => None,
        false => leaf_of_slope(keys, from, pages, slope, most_slots, spec),
    })
}

/// Trains a leaf with this slope. `None` as [`leaf`].
fn leaf_of_slope(keys: &[Run], from: u64, pages: u64, slope: i64, most_slots: u64, spec: &LvmSpec) -> Option<Leaf> {
    let node = Node {
        slope,
        intercept: ((SLACK_LINES * LINE_SLOTS) << FRACTION) as i64 - slope.wrapping_mul(from as i64),
        leaf: true,
    };
    let slots = (node.predict(from + pages - 1) / LINE_SLOTS + 1 + SLACK_LINES) * LINE_SLOTS;
    if slots > most_slots.min(1 << 31) {
        return None;
    }
    let keys = keys.to_vec();
    let order = keys.first().map_or(0, |run| run.order);
    // With one to two slots per page, each page has the slot that is predicted for its middle, and the
    // predictions for its ends are in this line or an adjacent one.
    let apart = (1 << FRACTION..=2 << FRACTION).contains(&(i128::from(slope) << order));
    if apart && (order == 0 || spec.max_extra >= 2) && keys.iter().all(|run| run.order == order) {
        return Some(Leaf { from, node, slots, keys, places: None, collisions: (0, 0) });
    }
    let mut used = vec![0u64; (slots as usize).div_ceil(64)];
    let mut places = Vec::with_capacity(count(&keys) as usize);
    let (mut collided, mut lines) = (0, 0);
    for run in &keys {
        for page in (0..run.count).map(|i| run.page + (i << run.order)) {
            let is_free = |slot: u64| used[(slot / 64) as usize] >> (slot % 64) & 1 == 0;
            let (slot, steps) = place(predictions(node, page, run.order), spec.max_extra, is_free)?;
            used[(slot / 64) as usize] |= 1 << (slot % 64);
            places.push(slot as u32);
            collided += u64::from(steps > 0);
            lines += steps;
        }
    }
    Some(Leaf { from, node, slots, keys, places: Some(places), collisions: (collided, lines) })
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
    /// Keys that collide, and the additional lines to search for them.
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
        let collisions = (1000 * spec.x3 * self.collisions.1).checked_div(self.keys).unwrap_or(0);
        1000 * (spec.x1 * self.depth + spec.x2 * self.bytes) + collisions
    }
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
        && (levels == 1 || leaf.collisions.1 * 1000 * spec.x3 / count(keys) < 1000 * (spec.x1 + 32 * spec.x2))
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
