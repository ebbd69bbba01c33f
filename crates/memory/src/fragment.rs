//! The fragmenter: produces a given fragmentation index and a given share of free memory.

use crate::BuddyAllocator;
use crate::selection::Selection;
use ambulator_base::{Invalid, Random, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest order of a spec: blocks of 2 TiB, the largest of any allocator.
const LARGEST_ORDER: u32 = 29;

/// The fragmentation of memory before the programs start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FragmentSpec {
    /// The free memory fragmentation index to reach at `order`, 0 (all free memory serves a request) to 1
    /// (none).
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "ME-HPT Table III has 0.7; LVM section 7.3 has 0.8 to 0.9"))]
    pub fmfi: f64,
    /// The buddy order of `fmfi`: 9 is 2 MiB.
    #[schemars(range(min = 1, max = LARGEST_ORDER), extend("x-unit" = "count"))]
    pub order: u32,
    /// Share of all frames that is free afterwards, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio"))]
    pub free_share: f64,
    /// The order of the aligned parts of a broken block that are taken, below `order`: 0 takes single frames
    /// at random and leaves hardly any contiguous run, 6 leaves runs of 256 KiB.
    #[schemars(range(max = LARGEST_ORDER - 1), extend("x-unit" = "count", "x-source" = "LVM Figure 3: 256 KiB runs are 30% of free memory in fragmented data centres"))]
    pub grain: u32,
}

impl Default for FragmentSpec {
    fn default() -> Self {
        FragmentSpec { fmfi: 0.0, order: 9, free_share: 1.0, grain: 0 }
    }
}

impl FragmentSpec {
    /// Whether it leaves memory as it is.
    pub fn is_whole(&self) -> bool {
        self.fmfi == 0.0 && self.free_share == 1.0
    }

    /// The invalid settings of a spec at key `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        if self.grain >= self.order.max(1) {
            wrong.push(
                Invalid::new(
                    format!("{at}.grain"),
                    format!(
                        "is {}: it must be below `{at}.order`, which is {}, for a block to be broken by it",
                        self.grain, self.order
                    ),
                )
                .and(format!("{at}.order")),
            );
        }
        wrong
    }
}

/// The result of [`fragment`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FragmentReport {
    /// `fmfi[order]` afterwards, for each order of the allocator.
    pub fmfi: Vec<f64>,
    /// The requested order, or the allocator's largest if that is less.
    pub order: u32,
    /// Share of all frames that is free afterwards.
    pub free_share: f64,
    /// Frames taken, which are never freed.
    pub taken: u64,
}

/// Memory that stays free.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Entirely free blocks of the spec's order that stay free.
    whole: u64,
    /// Free frames that stay free in other blocks.
    scattered: u64,
}

/// Memory that is free now.
#[derive(Debug)]
struct Stock {
    total: u64,
    /// Entirely free blocks.
    whole: u64,
    /// Free frames in other blocks.
    scattered: u64,
    /// Frames of a block.
    block: u64,
    /// Frames of a grain.
    grain: u64,
}

impl Stock {
    /// The frames that can be free in other blocks if `whole` blocks stay entirely free: a broken block lacks
    /// one grain.
    fn room(&self, whole: u64) -> u64 {
        self.scattered + (self.whole - whole) * (self.block - self.grain)
    }

    /// Memory to keep. If index and share exclude each other, the index has priority and less stays free.
    fn plan(&self, fmfi: f64, free_share: f64) -> Plan {
        let free = self.whole * self.block + self.scattered;
        let wanted = ((free_share * self.total as f64).round() as u64).min(free);
        let usable = (1.0 - fmfi) * wanted as f64;
        let whole = (usable / self.block as f64).round() as u64;
        if whole > self.whole {
            // Too few entirely free blocks for so much free memory at this index.
            let whole = self.whole;
            let scattered = (whole * self.block) as f64 * fmfi / (1.0 - fmfi);
            return Plan { whole, scattered: (scattered.round() as u64).min(self.room(whole)) };
        }
        let scattered = wanted.saturating_sub(whole * self.block);
        if scattered <= self.room(whole) {
            return Plan { whole, scattered };
        }
        // Too much free memory for so little usable memory. The solution of
        // whole * block = (1 - fmfi) * (whole * block + room(whole)):
        let most = (self.scattered + self.whole * (self.block - self.grain)) as f64;
        let whole = (1.0 - fmfi) * most / (self.block as f64 - (1.0 - fmfi) * self.grain as f64);
        let whole = (whole.round() as u64).min(self.whole);
        Plan { whole, scattered: self.room(whole) }
    }
}

/// Takes frames until `spec.free_share` of all frames is free, with the index `spec.fmfi` at `spec.order`, as
/// closely as the free memory allows. The report states the result. If the two exclude each other (such as
/// 0.99 of memory free, and 0.999 of that in broken blocks), the index has priority and less stays free.
///
/// The blocks that stay entirely free are a uniformly random set. Each other block loses a random grain.
/// Further frames are taken from all broken blocks uniformly, grain by grain. The frames are never freed:
/// they model immovable pages of other programs.
///
/// `spec` should be valid. Above the allocator's largest order the index is 1 in any case, so an `order`
/// above it is lowered to it.
pub fn fragment(frames: &mut BuddyAllocator, spec: &FragmentSpec, random: &mut Random) -> FragmentReport {
    let before = frames.free_frames();
    let total = frames.total_frames();
    let order = spec.order.min(frames.max_block_order());
    let grain = spec.grain.min(order.saturating_sub(1));
    // Blocks of one frame cannot be fragmented, only taken.
    let fmfi = if order == 0 { 0.0 } else { spec.fmfi.clamp(0.0, 1.0) };
    let free_share = spec.free_share.clamp(0.0, 1.0);
    if let Some(nodes) = frames.nodes_mut() {
        nodes.zones.iter_mut().for_each(|zone| _ = fragment(zone, spec, random));
    } else {
        let range = frames.first..total;
        frames.edit(random, |words, random| {
            let map = FrameMap { words };
            take(map, range, order, grain, |stock| stock.plan(fmfi, free_share), random);
        });
    }
    if fmfi > 0.0 {
        // The requested index, unless the result differs by more than the granularity of blocks.
        let reached = frames.fmfi(order);
        frames.nominal_fmfi = Some(if (reached - fmfi).abs() < 0.005 { fmfi } else { reached });
    }
    FragmentReport {
        fmfi: (0..=frames.max_block_order()).map(|order| frames.fmfi(order)).collect(),
        order,
        free_share: frames.free_frames() as f64 / total.max(1) as f64,
        taken: before - frames.free_frames(),
    }
}

/// The free bitmap: bit `f % 64` of word `f / 64` is frame `f`. Blocks are aligned to their size.
struct FrameMap<'a> {
    words: &'a mut [u64],
}

impl FrameMap<'_> {
    /// The number of free frames of a block.
    #[inline(always)]
    fn free_in(&self, at: u64, order: u32) -> u64 {
        if order < 6 {
            u64::from((self.words[(at / 64) as usize] >> (at % 64) & mask(order)).count_ones())
        } else {
            self.words_of(at, order).iter().map(|word| u64::from(word.count_ones())).sum()
        }
    }

    #[inline(always)]
    fn words_of(&self, at: u64, order: u32) -> &[u64] {
        let first = (at / 64) as usize;
        &self.words[first..(first + (1 << (order - 6))).min(self.words.len())]
    }

    /// Takes all frames of a block except the lowest `keep` free ones.
    #[inline(always)]
    fn take(&mut self, at: u64, order: u32, keep: u64) {
        let words = if order < 6 { 1 } else { 1 << (order - 6) };
        let mut keep = keep;
        for i in 0..words {
            let Some(word) = self.words.get_mut((at / 64) as usize + i) else {
                return;
            };
            let block = if order < 6 { mask(order) << (at % 64) } else { !0 };
            let mut taken = *word & block;
            while keep > 0 && taken != 0 {
                taken &= taken - 1;
                keep -= 1;
            }
            *word &= !taken;
        }
    }
}

#[inline(always)]
fn mask(order: u32) -> u64 {
    (1 << (1 << order)) - 1
}

fn take(
    mut map: FrameMap<'_>,
    range: std::ops::Range<u64>,
    order: u32,
    grain: u32,
    plan: impl FnOnce(&Stock) -> Plan,
    random: &mut Random,
) {
    let (block, part) = (1u64 << order, 1u64 << grain);
    let starts = || (range.start >> order << order..range.end).step_by(1 << order);
    let mut stock = Stock { total: range.end - range.start, whole: 0, scattered: 0, block, grain: part };
    for at in starts() {
        let free = map.free_in(at, order);
        if free == block {
            stock.whole += 1;
        } else {
            stock.scattered += free;
        }
    }
    let plan = plan(&stock);
    let mut blocks = Selection::new(stock.whole, plan.whole);
    let mut parts = Selection::new(stock.room(plan.whole), plan.scattered);
    for at in starts() {
        let free = map.free_in(at, order);
        if free == 0 {
            continue;
        }
        if free == block {
            if blocks.next(1, random) == 1 {
                continue;
            }
            if order > 0 {
                map.take(at + (random.below(block / part) << grain), grain, 0);
            } else {
                map.take(at, 0, 0);
            }
        }
        for start in (at..(at + block).min(range.end)).step_by(1 << grain) {
            let free = map.free_in(start, grain);
            if free > 0 {
                let keep = parts.next(free, random);
                if keep < free {
                    map.take(start, grain, keep);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BuddySpec;

    fn memory(frames: u64, max_order: u32) -> BuddyAllocator {
        BuddyAllocator::new(&BuddySpec { max_order, ..BuddySpec::default() }, frames)
    }

    /// The index by its definition, from single frames.
    fn index(frames: &BuddyAllocator, order: u32) -> f64 {
        let free = (0..frames.total_frames()).filter(|f| frames.is_free(ambulator_base::Pfn(*f))).count() as f64;
        let usable = (0..frames.total_frames() >> order)
            .filter(|b| (0..1 << order).all(|f| frames.is_free(ambulator_base::Pfn((b << order) + f))))
            .count();
        1.0 - (usable << order) as f64 / free
    }

    #[test]
    fn index_and_share_are_reached_by_taking_memory() {
        for order in [1, 4, 6, 9, 10] {
            for grain in [0, 3, 6].into_iter().filter(|g| *g < order) {
                for fmfi in [0.0, 0.3, 0.7, 0.9, 1.0] {
                    for free_share in [0.1, 0.3, 0.45] {
                        let total = (1 << 17) + 77;
                        let mut frames = memory(total, 11);
                        let before = frames.free_frames();
                        let spec = FragmentSpec { fmfi, order, free_share, grain };
                        let report = fragment(&mut frames, &spec, &mut Random::new(7));
                        let block = (1u64 << order) as f64;
                        let near = block / (free_share * total as f64);
                        assert!((report.fmfi[order as usize] - fmfi).abs() <= near, "{spec:?}: {report:?}");
                        assert!((report.free_share - free_share).abs() <= block / total as f64, "{spec:?}: {report:?}");
                        assert_eq!(report.taken, before - frames.free_frames());
                        assert!((index(&frames, order) - report.fmfi[order as usize]).abs() < 1e-12);
                        let blocks =
                            (frames.free_frames() as f64 * (1.0 - report.fmfi[order as usize])) as u64 >> order;
                        let served = std::iter::from_fn(|| frames.allocate(order)).count() as u64;
                        assert!(
                            served.abs_diff(blocks) <= 1,
                            "{spec:?}: {served} blocks served, the index says {blocks}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_index_has_priority_over_the_share() {
        let mut frames = memory(1 << 16, 11);
        let spec = FragmentSpec { fmfi: 0.9, order: 4, free_share: 1.0, grain: 3 };
        let report = fragment(&mut frames, &spec, &mut Random::new(1));
        assert!((report.fmfi[4] - 0.9).abs() < 0.01, "{report:?}");
        // A broken block of two grains keeps one: s / (s + (1 - s) / 2) = 0.1 gives s = 1/19 and 10/19 free.
        assert!((report.free_share - 10.0 / 19.0).abs() < 0.01, "{report:?}");
        // All blocks are broken now. An index of 0.5 needs nearly all frames taken.
        let again = FragmentSpec { fmfi: 0.5, order: 4, free_share: 0.5, grain: 0 };
        let report = fragment(&mut frames, &again, &mut Random::new(1));
        assert!((report.fmfi[4] - 0.5).abs() < 0.01, "{report:?}");
        assert!((report.free_share - 2.0 / 19.0).abs() < 0.01, "{report:?}");
    }

    #[test]
    fn grains_leave_runs_of_their_size() {
        let mut frames = memory(1 << 18, 11);
        let spec = FragmentSpec { fmfi: 1.0, order: 7, free_share: 0.4, grain: 6 };
        let report = fragment(&mut frames, &spec, &mut Random::new(3));
        // One block of 256 KiB is broken to make the share exact.
        assert!(report.fmfi[6] < 0.001, "{report:?}");
        assert_eq!(report.fmfi[7], 1.0, "a run of 512 KiB is left");
    }

    #[test]
    fn the_seed_determines_the_frames() {
        let of = |seed| {
            let mut frames = memory(1 << 15, 11);
            let spec = FragmentSpec { fmfi: 0.5, free_share: 0.5, ..FragmentSpec::default() };
            fragment(&mut frames, &spec, &mut Random::new(seed));
            (0..1 << 15).map(|f| frames.is_free(ambulator_base::Pfn(f))).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn invalid_specs_are_reported_by_key() {
        let wrong = FragmentSpec { fmfi: 1.5, order: 0, free_share: f64::NAN, grain: 4 }.validate("os.fragment");
        for key in ["os.fragment.fmfi", "os.fragment.order", "os.fragment.free_share", "os.fragment.grain"] {
            assert!(wrong.iter().any(|w| w.key == key), "{key} is not reported in {wrong:?}");
        }
        assert!(FragmentSpec::default().validate("x").is_empty());
    }
}
