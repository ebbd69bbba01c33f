//! Parameters of an elastic table.

use ambulator_base::Invalid;

/// Largest number of ways.
pub const MAX_WAYS: usize = 4;
/// Largest number of slots of a way: hashes have 32 bits.
pub const MAX_SLOTS: u64 = 1 << 32;

/// Which ways resize together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resizing {
    /// All of them, when the table is full or empty (ECPT).
    AllWays,
    /// Each way when it is full or empty itself, also while others resize. Insertions prefer ways with more
    /// free slots, as in [`Resizing::OneWay`].
    EachWay,
    /// As [`Resizing::EachWay`], but a way waits until no other resizes (ME-HPT Sec. IV-D: "upsize or
    /// downsize only one way at a time"). Only an insertion that found no slot does not wait.
    OneWay,
}

/// Parameters of an elastic cuckoo table. The defaults are those of ME-HPT (Table III), which are ECPT's
/// except for [`ElasticSpec::resizing`]. Resizes advance twice as fast as those of the page tables here,
/// because a map does not enter the kernel for an insertion.
#[derive(Clone, Debug, PartialEq)]
pub struct ElasticSpec {
    /// Ways, 2 to [`MAX_WAYS`].
    pub ways: usize,
    /// Initial slots of each way, and its minimum: a power of two.
    pub initial_slots: u64,
    /// Occupancy above which a way (or the table, with [`Resizing::AllWays`]) doubles.
    pub upsize_at: f64,
    /// Occupancy below which it halves; less than half of `upsize_at`.
    pub downsize_at: f64,
    /// Slots by which the rehash pointers of all resizing ways together advance with each insertion and
    /// removal.
    pub rehash_slots: u64,
    /// Entries that one insertion may displace before the table grows instead (ECPT: bounded re-insertions).
    pub max_reinsertions: u32,
    /// Which ways resize together.
    pub resizing: Resizing,
    /// An insertion probes its slots in all ways and takes an empty one, if any, before it displaces an
    /// entry. The page tables of the papers choose a way first. A program that has just looked up a key has
    /// all slots in its caches.
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
            resizing: Resizing::EachWay,
            look_first: true,
            seed: 1,
        }
    }
}

impl ElasticSpec {
    /// The errors in the spec at key `at`.
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
                    "is {}: a share of the slots, above 0 and at most 0.9 (fuller cuckoo tables displace \
                     entries for ever)",
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
