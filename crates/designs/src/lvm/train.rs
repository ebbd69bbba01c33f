//! Training: from the pages of a segment to the models of its index, in integers (LVM Sec. 4.2.3, 4.3).

use super::LvmSpec;
use super::node::{FRACTION, Node, TAG_BITS};

/// Slots of a cache line.
pub const LINE_SLOTS: u64 = 8;
/// Lines before a leaf's first prediction and behind its last, so that searches stay in its table.
const SLACK_LINES: u64 = 3;
/// log2 of the pages that a child covers, at most: a slope of 2^-20 is the least that there is.
const MOST_BITS: u32 = FRACTION;
/// log2 of the pages that a child covers, at least: those of a line's slots, which are always found.
const LEAST_BITS: u32 = 3;

/// A page to be found: its first 4 KiB page, counted from the segment's start, and log2 of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// First 4 KiB page.
    pub page: u64,
    /// log2 of its frames.
    pub order: u32,
}

/// What a node of the index is to be.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Nothing is mapped there.
    Empty,
    /// A leaf with a table.
    Leaf(Leaf),
    /// Children, each of `2^bits` pages.
    Inner {
        /// log2 of a child's pages.
        bits: u32,
        /// Them.
        children: Vec<Plan>,
    },
}

/// A trained leaf.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// First page that it is responsible for.
    pub from: u64,
    /// Its model, for a table at slot 0.
    pub node: Node,
    /// Slots of its table.
    pub slots: u64,
    /// The slot of each key, in the order of the keys.
    pub places: Vec<u32>,
    /// Keys whose line is not the predicted one, and by how many lines in all.
    pub collisions: (u64, u64),
}

/// The lines that a search reads, as distances from the predicted one, in their order; `extra` of them beside it.
pub fn search_order(extra: u32) -> impl Iterator<Item = i64> {
    (0..=i64::from(extra)).map(|i| if i % 2 == 1 { (i + 1) / 2 } else { -(i / 2) })
}

/// The slot for a page, and how many lines it is from the one that the page's middle has predicted: in a line that a search from any of its 4 KiB
/// pages reads. `predictions` are those of its first, its middle and its last 4 KiB page.
pub fn place(predictions: [u64; 3], extra: u32, is_free: impl Fn(u64) -> bool) -> Option<(u64, u64)> {
    let [first, middle, last] = predictions;
    let line_of = |slot: u64| (slot / LINE_SLOTS) as i64;
    let reaches = |from: u64, line: i64| search_order(extra).any(|distance| line_of(from) + distance == line);
    for (step, distance) in search_order(extra).enumerate() {
        let line = line_of(middle) + distance;
        if !reaches(first, line) || !reaches(last, line) {
            continue;
        }
        let base = line as u64 * LINE_SLOTS;
        let wanted = if distance == 0 { middle % LINE_SLOTS } else { 0 };
        let slot = (0..LINE_SLOTS).map(|i| base + (wanted + i) % LINE_SLOTS).find(|&slot| is_free(slot));
        if let Some(slot) = slot {
            return Some((slot, step as u64));
        }
    }
    None
}

/// What a model predicts for the first, the middle and the last 4 KiB page of a page.
pub fn predictions(node: Node, page: u64, order: u32) -> [u64; 3] {
    let frames = 1 << order;
    [0, frames / 2, frames - 1].map(|within| node.predict(page + within))
}

/// The least slope at which no two pages of `order` whose tags are the same are ever in one search: pages with the same tag are 2^12 pages
/// of their size apart, a search reaches `extra` lines to either side, and an entry lies within as many of its prediction.
pub fn least_slope(order: u32, extra: u32) -> i64 {
    let reach = (2 * (u64::from(extra) + 1) + 1) * LINE_SLOTS;
    let apart = ((1 << TAG_BITS) - 1) << order;
    ((reach << FRACTION) / apart + 1) as i64
}

/// Linear regression of position over page, in exact integers: the slope in units of 2^-20.
fn regression(keys: &[Key]) -> i64 {
    let n = keys.len() as i128;
    let origin = keys.first().map_or(0, |key| key.page);
    let (mut sx, mut sxx, mut sxy) = (0i128, 0i128, 0i128);
    for (position, key) in keys.iter().enumerate() {
        let x = i128::from(key.page - origin);
        sx += x;
        sxx += x * x;
        sxy += x * position as i128;
    }
    let sy = n * (n - 1) / 2;
    let (above, below) = (n * sxy - sx * sy, n * sxx - sx * sx);
    if below == 0 {
        return 0;
    }
    let slope = if above < 1 << 100 { (above << FRACTION) / below } else { above / (below >> FRACTION).max(1) };
    slope as i64
}

/// A leaf for keys in ascending order that all lie in `pages` pages from `from` on; none if some key would not be found within the error bound.
pub fn leaf(keys: &[Key], from: u64, pages: u64, spec: &LvmSpec) -> Option<Leaf> {
    let least = keys.iter().map(|key| key.order).min().map_or(0, |order| least_slope(order, spec.max_extra));
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
    let mut taken = vec![0u64; (slots as usize).div_ceil(64)];
    let mut places = Vec::with_capacity(keys.len());
    let (mut count, mut lines) = (0, 0);
    for key in keys {
        let is_free = |slot: u64| taken[(slot / 64) as usize] >> (slot % 64) & 1 == 0;
        let (slot, steps) = place(predictions(node, key.page, key.order), spec.max_extra, is_free)?;
        taken[(slot / 64) as usize] |= 1 << (slot % 64);
        places.push(slot as u32);
        count += u64::from(steps > 0);
        lines += steps;
    }
    Some(Leaf { from, node, slots, places, collisions: (count, lines) })
}

/// Greedy spline: how many pieces of straight line follow the keys' positions within a line's slots. An estimate of the children that are needed.
fn spline_points(keys: &[Key]) -> u64 {
    let mut points = 1;
    let mut base = 0;
    let (mut low, mut high) = (i128::MIN, i128::MAX);
    for at in 1..keys.len() {
        let x = i128::from(keys[at].page - keys[base].page).max(1);
        let y = (at - base) as i128;
        // Slopes that pass within a line of the point, in units of 2^-40.
        let (least, greatest) = (((y - 8) << 40) / x, ((y + 8) << 40) / x);
        if least > high || greatest < low {
            points += 1;
            base = at;
            (low, high) = (i128::MIN, i128::MAX);
        } else {
            (low, high) = (low.max(least), high.min(greatest));
        }
    }
    points
}

/// What a plan costs (Sec. 4.2.3): depth, index bytes, and collisions weighted by what each takes.
struct Cost {
    depth: u64,
    bytes: u64,
    /// Keys, keys that collide, lines that these take.
    keys: u64,
    collisions: (u64, u64),
}

fn cost(plan: &Plan) -> Cost {
    match plan {
        Plan::Empty => Cost { depth: 0, bytes: 16, keys: 0, collisions: (0, 0) },
        Plan::Leaf(leaf) => Cost { depth: 1, bytes: 16, keys: leaf.places.len() as u64, collisions: leaf.collisions },
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

/// The plan of a node that is responsible for `pages` pages from `from` on, with at most `levels` levels of models and tables of at most
/// `most_slots` slots; none if no plan keeps the error bound.
pub fn plan(keys: &[Key], from: u64, pages: u64, levels: u32, most_slots: u64, spec: &LvmSpec) -> Option<Plan> {
    if keys.is_empty() {
        return Some(Plan::Empty);
    }
    let trained = leaf(keys, from, pages, spec).filter(|leaf| leaf.slots <= most_slots);
    // A table that is mostly there to keep tags apart wants a finer division.
    let wasteful = |leaf: &Leaf| leaf.slots > 512.max(16 * keys.len() as u64);
    if let Some(leaf) = &trained
        && (levels == 1
            || (!wasteful(leaf)
                && leaf.collisions.1 * 1000 * spec.x3 / (leaf.places.len() as u64) < 1000 * (spec.x1 + 32 * spec.x2)))
    {
        return trained.map(Plan::Leaf);
    }
    if levels == 1 {
        return None;
    }
    let least = keys.iter().map(|key| key.order).max().unwrap_or(0).max(LEAST_BITS);
    let most = MOST_BITS.min(63 - (pages - 1).leading_zeros());
    // Children of single pages: what the pages' own spread suggests.
    let share = (pages / spline_points(keys).max(1)).max(1);
    let estimate = share.ilog2().clamp(least, most.max(least));
    let inner = |bits: u32| -> Option<Plan> {
        let count = pages.div_ceil(1 << bits);
        if bits > most || count < 2 || count * 16 > spec.max_level_bytes {
            return None;
        }
        let mut rest = keys;
        let mut children = Vec::with_capacity(count as usize);
        for child in 0..count {
            let start = from + (child << bits);
            let end = (start + (1 << bits)).min(from + pages);
            let (own, others) = rest.split_at(rest.partition_point(|key| key.page < end));
            rest = others;
            children.push(plan(own, start, end - start, levels - 1, most_slots, spec)?);
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
    // The error bound does not hold: back to the parent, with finer and finer children (Sec. 4.3.3).
    (least..estimate.saturating_sub(2).max(least)).rev().find_map(inner)
}

/// Bytes of tables beyond four times what their pages need, in the units of a weighted cost: coverage for each byte (Sec. 4.2.3).
fn wasted(plan: &Plan) -> u64 {
    match plan {
        Plan::Empty => 0,
        Plan::Leaf(leaf) => 1000 * (8 * leaf.slots).saturating_sub(32 * leaf.places.len() as u64 + 512),
        Plan::Inner { children, .. } => children.iter().map(wasted).sum(),
    }
}
