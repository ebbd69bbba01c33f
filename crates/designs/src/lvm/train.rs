//! Training: computes the models of an index from the pages of a segment, in integers (LVM Sec. 4.2.3, 4.3).

use super::LvmSpec;
use super::node::{FRACTION, Node, TAG_BITS};

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
    /// Children, each of `2^bits` pages.
    Inner {
        /// log2 of a child's pages.
        bits: u32,
        /// The children.
        children: Vec<Plan>,
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

/// Trains a leaf of `pages` pages from `from` on, with keys in ascending order. `None` if some page would not
/// be found within the error bound.
pub(crate) fn leaf(keys: &[Run], from: u64, pages: u64, spec: &LvmSpec) -> Option<Leaf> {
    let least = keys.iter().map(|run| run.order).min().map_or(0, |order| least_slope(order, spec.max_extra));
    let most = (i128::from(spec.gap_permille) << FRACTION) / 1000;
    let scaled = i128::from(regression(keys)) * i128::from(spec.gap_permille) / 1000;
    let slope = (scaled.min(most) as i64).max(least);
    let node = Node {
        slope,
        intercept: ((SLACK_LINES * LINE_SLOTS) << FRACTION) as i64 - slope.wrapping_mul(from as i64),
        leaf: true,
    };
    let slots = (node.predict(from + pages - 1) / LINE_SLOTS + 1 + SLACK_LINES) * LINE_SLOTS;
    if slots > 1 << 31 {
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
        Plan::Inner { children, .. } => {
            children.iter().map(cost).fold(Cost { depth: 1, bytes: 16, keys: 0, collisions: (0, 0) }, |sum, one| Cost {
                depth: sum.depth.max(one.depth + 1),
                bytes: sum.bytes + one.bytes,
                keys: sum.keys + one.keys,
                collisions: (sum.collisions.0 + one.collisions.0, sum.collisions.1 + one.collisions.1),
            })
        }
    }
}

impl Cost {
    /// `C = x1 d + x2 s + x3 cr ma`, in thousandths.
    fn weighted(&self, spec: &LvmSpec) -> u64 {
        let collisions = (1000 * spec.x3 * self.collisions.1).checked_div(self.keys).unwrap_or(0);
        1000 * (spec.x1 * self.depth + spec.x2 * self.bytes) + collisions
    }
}

/// Plans a node for `pages` pages from `from` on, with at most `levels` levels of models and tables of at
/// most `most_slots` slots. `None` if no plan is within the error bound.
pub(crate) fn plan(keys: &[Run], from: u64, pages: u64, levels: u32, most_slots: u64, spec: &LvmSpec) -> Option<Plan> {
    if keys.is_empty() {
        return Some(Plan::Empty);
    }
    let trained = leaf(keys, from, pages, spec).filter(|leaf| leaf.slots <= most_slots);
    // A table whose size mostly serves to separate equal tags should be divided further.
    let wasteful = |leaf: &Leaf| leaf.slots > 512.max(16 * count(keys));
    if let Some(leaf) = &trained
        && (levels == 1
            || (!wasteful(leaf) && leaf.collisions.1 * 1000 * spec.x3 / count(keys) < 1000 * (spec.x1 + 32 * spec.x2)))
    {
        return trained.map(Plan::Leaf);
    }
    if levels == 1 {
        return None;
    }
    let least = keys.iter().map(|run| run.order).max().unwrap_or(0).max(LEAST_BITS);
    let most = MOST_BITS.min(63 - (pages - 1).leading_zeros());
    // Size of children: estimated from the spread of the pages.
    let share = (pages / spline_points(keys).max(1)).max(1);
    let estimate = share.ilog2().clamp(least, most.max(least));
    let inner = |bits: u32| -> Option<Plan> {
        let count = pages.div_ceil(1 << bits);
        if bits > most || count < 2 || count * 16 > spec.max_level_bytes {
            return None;
        }
        let mut children = Vec::with_capacity(count as usize);
        for child in 0..count {
            let start = from + (child << bits);
            let end = (start + (1 << bits)).min(from + pages);
            children.push(plan(&slice(keys, start, end, 0), start, end - start, levels - 1, most_slots, spec)?);
        }
        Some(Plan::Inner { bits, children })
    };
    let near = (estimate.saturating_sub(2).max(least)..=(estimate + 2).min(most)).rev();
    let mut best = trained.map(Plan::Leaf).map(|plan| (cost(&plan).weighted(spec) + wasted(&plan), plan));
    for bits in near {
        if let Some(plan) = inner(bits) {
            let cost = cost(&plan).weighted(spec) + wasted(&plan);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, plan));
            }
        }
    }
    if let Some((_, plan)) = best {
        return Some(plan);
    }
    // The error bound does not hold: try again with ever smaller children (Sec. 4.3.3).
    (least..estimate.saturating_sub(2).max(least)).rev().find_map(inner)
}

/// Bytes of tables beyond four times the need of their pages, in the units of a weighted cost: coverage per
/// byte (Sec. 4.2.3).
fn wasted(plan: &Plan) -> u64 {
    match plan {
        Plan::Empty => 0,
        Plan::Leaf(leaf) => 1000 * (8 * leaf.slots).saturating_sub(32 * count(&leaf.keys) + 512),
        Plan::Inner { children, .. } => children.iter().map(wasted).sum(),
    }
}
