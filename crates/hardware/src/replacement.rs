//! Replacement policies of set-associative arrays: which way of a full set is evicted.
//!
//! The state of a set is one `u64` wherever it fits (LRU up to 16 ways, tree-PLRU up to 64, RRIP up to 32),
//! so that a look-up touches one sim-host cache line for it. No policy needs a dynamic call.

use ambulator_base::{Random, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of ways of a set of any array.
pub const MAX_WAYS: usize = 256;

/// A replacement policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// Least recently used, exactly.
    #[default]
    Lru,
    /// Tree of one-bit nodes that point away from the last use. If the number of ways is not a power of two,
    /// the tree is that of the next power of two and never points to the ways that do not exist.
    TreePlru,
    /// Static re-reference interval prediction with 2 bits (Jaleel et al., ISCA 2010): fills predict "long",
    /// hits predict "near".
    Srrip,
    /// Dynamic RRIP (same paper): set duelling between SRRIP and bimodal RRIP, which fills at "distant"
    /// except for one fill in 32.
    Drrip,
    /// A uniformly random way, from a seeded generator.
    Random,
}

/// RRIP counters per state word (2 bits each).
const RRPV_PER_WORD: usize = 32;
const LOW_BITS: u64 = 0x5555_5555_5555_5555;
/// A re-reference prediction of "distant": the next victim.
const DISTANT: u64 = 3;
/// A re-reference prediction of "long": where SRRIP fills.
const LONG: u64 = 2;
/// Leader sets of each of the two duelling policies (Qureshi et al., ISCA 2007 use 32).
const LEADERS: usize = 32;
/// Greatest value of the duelling counter (10 bits).
const SELECT_MAX: u16 = 1023;
/// BRRIP fills at "long" once in this many fills.
const BIMODAL: u32 = 32;

/// How the state of a set is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nibbles of one word, most recent way lowest (up to 16 ways).
    PackedLru,
    /// One byte a way: its rank, 0 for the most recent. Sets have whole vectors of [`LANES`] ranks; those
    /// beyond the ways never change.
    ByteLru,
    /// Bits of a binary tree.
    Tree,
    /// 2-bit predictions.
    Rrip { dynamic: bool },
    /// No state.
    Random,
}

/// The replacement state of all sets of an array.
#[derive(Clone, Debug, State)]
pub struct ReplacementState {
    #[state(skip)]
    kind: Kind,
    #[state(skip)]
    ways: usize,
    #[state(skip)]
    sets: usize,
    /// State words of a set (none for random and byte LRU).
    #[state(skip)]
    stride: usize,
    words: Box<[u64]>,
    ages: Box<[u8]>,
    random: Random,
    select: u16,
    bimodal: u32,
    /// log2 of the leaves of the tree.
    #[state(skip)]
    depth: u32,
}

/// Nibbles of LRU before the first use.
pub(crate) const NEW_ORDER: u64 = 0xfedc_ba98_7654_3210;
const NIBBLES: u64 = 0x1111_1111_1111_1111;

/// Ranks that the sim host compares at once.
const LANES: usize = 16;
/// The rank of places beyond the ways, which no way of a set with such places has.
const NO_RANK: u8 = u8::MAX;

impl ReplacementState {
    /// The state of `sets` empty sets of `ways` ways. `seed` is used by [`Replacement::Random`] only.
    ///
    /// # Panics
    /// When `ways` is 0 or above [`MAX_WAYS`]: specs are validated before anything is built.
    pub fn new(policy: Replacement, sets: usize, ways: usize, seed: u64) -> ReplacementState {
        assert!((1..=MAX_WAYS).contains(&ways), "an array has 1 to {MAX_WAYS} ways, not {ways}");
        let leaves = ways.next_power_of_two();
        let kind = match policy {
            Replacement::Lru if ways <= 16 => Kind::PackedLru,
            Replacement::Lru => Kind::ByteLru,
            Replacement::TreePlru => Kind::Tree,
            Replacement::Srrip => Kind::Rrip { dynamic: false },
            Replacement::Drrip => Kind::Rrip { dynamic: true },
            Replacement::Random => Kind::Random,
        };
        let (stride, initial) = match kind {
            Kind::PackedLru => (1, NEW_ORDER),
            Kind::Tree => (leaves.div_ceil(64), 0),
            Kind::Rrip { .. } => (ways.div_ceil(RRPV_PER_WORD), u64::MAX),
            Kind::ByteLru | Kind::Random => (0, 0),
        };
        let ages = match kind {
            Kind::ByteLru => {
                let set = (0..ways.next_multiple_of(LANES)).map(|way| if way < ways { way as u8 } else { NO_RANK });
                std::iter::repeat_n(set, sets).flatten().collect()
            }
            _ => Box::default(),
        };
        ReplacementState {
            kind,
            ways,
            sets,
            stride,
            words: vec![initial; sets * stride].into_boxed_slice(),
            ages,
            random: Random::for_purpose(seed, "replacement"),
            select: SELECT_MAX / 2,
            bimodal: 0,
            depth: leaves.trailing_zeros(),
        }
    }

    /// A hit on `way` of `set`.
    #[inline(always)]
    pub fn touch(&mut self, set: usize, way: usize) {
        if self.kind == Kind::PackedLru {
            // Written unconditionally: the sim host cannot predict a branch on whether the way was the most
            // recent already.
            let order = &mut self.words[set];
            *order = to_front(*order, way);
        } else {
            self.touch_other(set, way);
        }
    }

    /// Whether a hit on the way that was hit or filled last changes nothing. (RRIP fills at "long", and a hit
    /// predicts "near".)
    pub fn ignores_repeated_hits(&self) -> bool {
        !matches!(self.kind, Kind::Rrip { .. })
    }

    /// A fill of `way` of `set` after a miss.
    #[inline(always)]
    pub fn fill(&mut self, set: usize, way: usize) {
        if self.kind == Kind::PackedLru {
            let order = &mut self.words[set];
            *order = to_front(*order, way);
        } else {
            self.fill_other(set, way);
        }
    }

    /// The way of a full `set` that a fill replaces. (RRIP ages the set here.)
    #[inline(always)]
    pub fn victim(&mut self, set: usize) -> usize {
        if self.kind == Kind::PackedLru {
            (self.words[set] >> (4 * (self.ways - 1)) & 15) as usize
        } else {
            self.victim_other(set)
        }
    }

    /// The way of a full `set` that a fill replaces, which is filled: [`ReplacementState::victim`] and
    /// [`ReplacementState::fill`] in one step.
    #[inline(always)]
    pub fn replace(&mut self, set: usize) -> usize {
        if self.kind == Kind::PackedLru {
            oldest_to_front(&mut self.words[set], self.ways)
        } else {
            self.replace_other(set)
        }
    }

    #[inline(never)]
    fn replace_other(&mut self, set: usize) -> usize {
        if self.kind == Kind::ByteLru {
            let way = self.victim_bytes(set);
            self.touch_bytes(set, way);
            return way;
        }
        let way = self.victim_other(set);
        self.fill_other(set, way);
        way
    }

    /// Out of line, as are the other uncommon policies, so that the common policy stays short in its callers.
    #[inline(never)]
    fn touch_other(&mut self, set: usize, way: usize) {
        match self.kind {
            Kind::ByteLru => self.touch_bytes(set, way),
            Kind::Tree => self.touch_tree(set, way),
            Kind::Rrip { .. } => {
                let word = &mut self.words[set * self.stride + way / RRPV_PER_WORD];
                *word &= !(3 << (2 * (way % RRPV_PER_WORD)));
            }
            Kind::Random | Kind::PackedLru => {}
        }
    }

    #[inline(never)]
    fn fill_other(&mut self, set: usize, way: usize) {
        let Kind::Rrip { dynamic } = self.kind else { return self.touch_other(set, way) };
        let prediction = if dynamic { self.duel(set) } else { LONG };
        let word = &mut self.words[set * self.stride + way / RRPV_PER_WORD];
        let shift = 2 * (way % RRPV_PER_WORD);
        *word = (*word & !(3 << shift)) | (prediction << shift);
    }

    #[inline(never)]
    fn victim_other(&mut self, set: usize) -> usize {
        match self.kind {
            Kind::Tree => self.victim_tree(set),
            Kind::Rrip { .. } => self.victim_rrip(set),
            Kind::Random => self.random.below(self.ways as u64) as usize,
            Kind::ByteLru | Kind::PackedLru => self.victim_bytes(set),
        }
    }

    /// Prefetches the state of `set` into the sim host's caches.
    #[inline(always)]
    pub fn prefetch_sim_host(&self, set: usize) {
        if self.stride > 0 {
            crate::sim_host::prefetch(&self.words, set * self.stride);
        } else if self.kind == Kind::ByteLru {
            crate::sim_host::prefetch(&self.ages, set * self.ways.next_multiple_of(LANES));
        }
    }

    fn touch_bytes(&mut self, set: usize, way: usize) {
        let stride = self.ways.next_multiple_of(LANES);
        let ages = &mut self.ages[set * stride..][..stride];
        let age = ages[way];
        if age == 0 {
            return;
        }
        for lanes in ages.as_chunks_mut::<LANES>().0 {
            for other in lanes {
                *other += u8::from(*other < age);
            }
        }
        ages[way] = 0;
    }

    fn victim_bytes(&self, set: usize) -> usize {
        let stride = self.ways.next_multiple_of(LANES);
        let (chunks, _) = self.ages[set * stride..][..stride].as_chunks::<LANES>();
        let oldest = (self.ways - 1) as u8;
        // Exactly one way has the rank.
        let marks = chunks.iter().map(|lanes| crate::sim_host::matching_bytes(lanes, oldest));
        let found = marks.enumerate().find(|(_, marks)| *marks != 0);
        found.map_or(0, |(chunk, marks)| chunk * LANES + marks.trailing_zeros() as usize)
    }

    fn touch_tree(&mut self, set: usize, way: usize) {
        let words = &mut self.words[set * self.stride..][..self.stride];
        let mut node = 1usize;
        for level in (0..self.depth).rev() {
            let right = way >> level & 1;
            let (word, bit) = (node / 64, node % 64);
            // The node points to the half that was not used.
            words[word] = (words[word] & !(1 << bit)) | (((right ^ 1) as u64) << bit);
            node = 2 * node + right;
        }
    }

    fn victim_tree(&self, set: usize) -> usize {
        let words = &self.words[set * self.stride..][..self.stride];
        let (mut node, mut way) = (1usize, 0usize);
        for level in (0..self.depth).rev() {
            let mut right = (words[node / 64] >> (node % 64) & 1) as usize;
            if way + (1 << level) >= self.ways {
                right = 0;
            }
            way += right << level;
            node = 2 * node + right;
        }
        way
    }

    fn victim_rrip(&mut self, set: usize) -> usize {
        let words = &mut self.words[set * self.stride..][..self.stride];
        loop {
            for (i, word) in words.iter().enumerate() {
                let ways = (self.ways - i * RRPV_PER_WORD).min(RRPV_PER_WORD);
                let present = u64::MAX >> (64 - 2 * ways);
                let distant = *word & (*word >> 1) & LOW_BITS & present;
                if distant != 0 {
                    return i * RRPV_PER_WORD + distant.trailing_zeros() as usize / 2;
                }
            }
            for word in words.iter_mut() {
                // Fields beyond the last way may be "distant" already: they do not change.
                *word += !(*word & (*word >> 1)) & LOW_BITS;
            }
        }
    }

    /// The prediction with which DRRIP fills `set`, after it counts the miss of a leader set.
    fn duel(&mut self, set: usize) -> u64 {
        let period = (self.sets / LEADERS).max(2);
        let bimodal = if self.sets < 2 {
            false
        } else if set.is_multiple_of(period) {
            self.select = (self.select + 1).min(SELECT_MAX);
            false
        } else if set % period == period - 1 {
            self.select = self.select.saturating_sub(1);
            true
        } else {
            self.select > SELECT_MAX / 2
        };
        if !bimodal {
            return LONG;
        }
        self.bimodal = (self.bimodal + 1) % BIMODAL;
        if self.bimodal == 0 { LONG } else { DISTANT }
    }
}

/// `order` with nibble `way` moved to the lowest place.
#[inline(always)]
pub(crate) fn to_front(order: u64, way: usize) -> u64 {
    let differing = order ^ (NIBBLES * way as u64);
    let zero = differing.wrapping_sub(NIBBLES) & !differing & (NIBBLES << 3);
    // The lowest mark is exact: borrows propagate upwards only. It is the top bit of the way's nibble.
    let moved = zero ^ zero.wrapping_sub(1);
    (order & !moved) | (order << 4 & moved) | way as u64
}

/// Moves the last of the nibbles of `ways` ways to the lowest place; returns it.
#[inline(always)]
pub(crate) fn oldest_to_front(order: &mut u64, ways: usize) -> usize {
    let last = 4 * (ways as u32 - 1);
    let way = *order >> last & 15;
    // The nibbles of the set's ways turn by one place; those above them stay.
    let own = u64::MAX >> (60 - last);
    *order = (*order & !own) | (*order << 4 & own) | way;
    way as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills all ways, performs the touches, and returns the victim.
    fn victim_after(policy: Replacement, ways: usize, touches: &[usize]) -> usize {
        let mut state = ReplacementState::new(policy, 4, ways, 1);
        (0..ways).for_each(|way| state.fill(2, way));
        touches.iter().for_each(|&way| state.touch(2, way));
        state.victim(2)
    }

    #[test]
    fn lru_order_packed_and_in_bytes() {
        for ways in [1, 2, 3, 8, 12, 16, 17, 31, 32, 128, 256] {
            let mut state = ReplacementState::new(Replacement::Lru, 1, ways, 0);
            (0..ways).for_each(|way| state.fill(0, way));
            let order: Vec<usize> = (0..ways).map(|i| (i * 7 + 3) % ways).collect();
            if ways % 7 != 0 {
                order.iter().for_each(|&way| state.touch(0, way));
                for &way in &order {
                    assert_eq!(state.victim(0), way, "{ways} ways");
                    state.fill(0, way);
                }
            }
        }
    }

    #[test]
    fn replacing_a_way_is_taking_the_victim_and_filling_it() {
        let policies =
            [Replacement::Lru, Replacement::TreePlru, Replacement::Srrip, Replacement::Drrip, Replacement::Random];
        for policy in policies {
            for ways in [1, 2, 3, 8, 12, 15, 16, 17, 32, 33, 64] {
                let mut once = ReplacementState::new(policy, 3, ways, 7);
                let mut twice = once.clone();
                for step in 0..400 {
                    let set = step % 3;
                    let way = twice.victim(set);
                    twice.fill(set, way);
                    assert_eq!(once.replace(set), way, "step {step} of {policy:?} with {ways} ways");
                    once.touch(set, step * 5 % ways);
                    twice.touch(set, step * 5 % ways);
                }
                assert_eq!((once.words, once.ages), (twice.words, twice.ages), "{policy:?} with {ways} ways");
            }
        }
    }

    #[test]
    fn byte_lru_is_a_list_with_the_latest_use_in_front() {
        for ways in [17, 31, 32, 33, 200, 255, 256] {
            let mut state = ReplacementState::new(Replacement::Lru, 2, ways, 0);
            let mut list: Vec<usize> = (0..ways).collect();
            let mut random = Random::new(ways as u64);
            for _ in 0..2000 {
                assert_eq!(state.victim(1), list[ways - 1], "{ways} ways");
                let way = random.below(ways as u64) as usize;
                list.retain(|other| *other != way);
                list.insert(0, way);
                state.touch(1, way);
            }
            assert_eq!(state.victim(0), ways - 1, "the other set of {ways} ways has not changed");
        }
    }

    #[test]
    fn tree_plru_points_away_from_the_last_uses() {
        // Four ways filled in order: the root points left, the left node to way 0.
        assert_eq!(victim_after(Replacement::TreePlru, 4, &[]), 0);
        // 0 used: the root points right, where the node points away from 3, the last fill.
        assert_eq!(victim_after(Replacement::TreePlru, 4, &[0]), 2);
        assert_eq!(victim_after(Replacement::TreePlru, 4, &[0, 2]), 1);
        // Not LRU: after 2, 3, 1 the tree takes from the right half although 0 is older.
        assert_eq!(victim_after(Replacement::TreePlru, 4, &[2, 3, 1]), 2);
        assert_eq!(victim_after(Replacement::Lru, 4, &[2, 3, 1]), 0);
    }

    #[test]
    fn tree_plru_of_twelve_ways_uses_all_and_only_those() {
        let mut state = ReplacementState::new(Replacement::TreePlru, 1, 12, 0);
        let mut seen = [0; 12];
        for _ in 0..120 {
            let way = state.victim(0);
            seen[way] += 1;
            state.fill(0, way);
        }
        assert!(seen.iter().all(|&n| n > 0), "{seen:?}");
    }

    #[test]
    fn srrip_evicts_a_line_that_was_not_hit() {
        // All at "long"; 0 and 1 hit: ageing makes 2 "distant" first.
        assert_eq!(victim_after(Replacement::Srrip, 4, &[0, 1]), 2);
        // All hit: ageing three times, then the first.
        assert_eq!(victim_after(Replacement::Srrip, 4, &[0, 1, 2, 3]), 0);
        assert_eq!(victim_after(Replacement::Srrip, 40, &(0..39).collect::<Vec<_>>()), 39);
    }

    #[test]
    fn srrip_keeps_a_hot_line_through_a_scan() {
        let mut state = ReplacementState::new(Replacement::Srrip, 1, 8, 0);
        (0..8).for_each(|way| state.fill(0, way));
        state.touch(0, 5);
        for _ in 0..7 {
            let way = state.victim(0);
            assert_ne!(way, 5);
            state.fill(0, way);
        }
    }

    #[test]
    fn drrip_switches_to_bimodal_when_srrip_leaders_miss_more() {
        let mut state = ReplacementState::new(Replacement::Drrip, 1024, 4, 0);
        let follower = 5;
        state.fill(follower, 0);
        assert_eq!(state.words[follower] & 3, LONG);
        for _ in 0..8 {
            state.fill(0, 0); // leader of SRRIP
        }
        state.fill(follower, 0);
        assert_eq!(state.words[follower] & 3, DISTANT);
        for _ in 0..16 {
            state.fill(31, 0); // leader of BRRIP
        }
        state.fill(follower, 0);
        assert_eq!(state.words[follower] & 3, LONG);
    }

    #[test]
    fn random_is_seeded_and_reaches_every_way() {
        let draw = |seed| {
            let mut state = ReplacementState::new(Replacement::Random, 1, 12, seed);
            (0..200).map(|_| state.victim(0)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((0..12).all(|way| draw(7).contains(&way)));
    }
}
