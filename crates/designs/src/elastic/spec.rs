//! How an elastic table behaves.

use ambulator_base::Invalid;

/// The most ways that a table may have.
pub const MAX_WAYS: usize = 4;
/// The most slots that a way may have: hashes have 32 bits.
pub const MAX_SLOTS: u64 = 1 << 32;

/// How an elastic cuckoo table behaves. The defaults are those of ME-HPT (Table III), which are ECPT's but for
/// [`ElasticSpec::per_way`], and resizes that go on twice as fast as page tables' here: a map has no operating system's entry to pay.
#[derive(Clone, Debug, PartialEq)]
pub struct ElasticSpec {
    /// Ways, 2 to [`MAX_WAYS`].
    pub ways: usize,
    /// Slots of each way at the start, and the fewest that it ever has: a power of two.
    pub initial_slots: u64,
    /// Share of slots taken above which a way (or the table, without [`ElasticSpec::per_way`]) doubles.
    pub upsize_at: f64,
    /// Share of slots taken below which it halves; less than half of `upsize_at`.
    pub downsize_at: f64,
    /// Slots over which the rehash pointers of all resizing ways together advance with each insertion and removal.
    pub rehash_slots: u64,
    /// Entries that one insertion may push on before the table grows instead (ECPT: bounded re-insertions).
    pub max_reinsertions: u32,
    /// Ways resize one by one, and insertions prefer those with more free slots (ME-HPT Sec. IV-D); without it all ways
    /// resize together, and insertions choose any.
    pub per_way: bool,
    /// An insertion looks at its slots in all ways and takes an empty one if there is any, before it pushes anything on. The papers' page
    /// tables choose a way first; a program that has just looked a key up has all its slots at hand.
    pub look_first: bool,
    /// Seed of the choice of ways.
    pub seed: u64,
}

impl Default for ElasticSpec {
    fn default() -> Self {
        ElasticSpec {
            ways: 3,
            initial_slots: 128,
            upsize_at: 0.6,
            downsize_at: 0.2,
            rehash_slots: 4,
            max_reinsertions: 128,
            per_way: true,
            look_first: true,
            seed: 1,
        }
    }
}

impl ElasticSpec {
    /// Sentences that say what is wrong with it at key `at`, none when it is right.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !(2..=MAX_WAYS).contains(&self.ways) {
            wrong.push(Invalid::new(
                format!("{at}.ways"),
                format!("is {}: cuckoo hashing here has 2 to {MAX_WAYS} ways", self.ways),
            ));
        }
        if !self.initial_slots.is_power_of_two() || self.initial_slots > MAX_SLOTS / 2 {
            wrong.push(Invalid::new(
                format!("{at}.initial_slots"),
                format!("is {}: it must be a power of two of at most {}", self.initial_slots, MAX_SLOTS / 2),
            ));
        }
        if !(self.upsize_at > 0.0 && self.upsize_at <= 0.9) {
            wrong.push(Invalid::new(
                format!("{at}.upsize_at"),
                format!(
                    "is {}: a share of the slots, above 0 and at most 0.9 (fuller cuckoo tables push \
                     entries on for ever)",
                    self.upsize_at
                ),
            ));
        }
        if !(self.downsize_at >= 0.0 && self.downsize_at < self.upsize_at / 2.0) {
            wrong.push(
                Invalid::new(
                    format!("{at}.downsize_at"),
                    format!(
                        "is {}: it must lie below half of `{at}.upsize_at`, or a table that has just halved \
                         would double again",
                        self.downsize_at
                    ),
                )
                .and(format!("{at}.upsize_at")),
            );
        }
        if self.rehash_slots == 0 {
            wrong.push(Invalid::new(
                format!("{at}.rehash_slots"),
                "is 0: a resize would never end; 1 or more slots an insertion",
            ));
        }
        if self.max_reinsertions == 0 {
            wrong.push(Invalid::new(format!("{at}.max_reinsertions"), "is 0: it must be 1 or more"));
        }
        wrong
    }
}
