//! What the structure of a step looks like: enough for a picture of the place that is touched.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The place in a structure that a step looks at. A picture of it needs to know nothing of the design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Shape {
    /// An entry of a node of a radix tree.
    TreeEntry {
        /// Which entry.
        index: u64,
        /// Entries of the node.
        entries: u64,
        /// The lowest bit of the address that selects the entry; the others follow above it.
        low_bit: u64,
    },
    /// A bucket, a line or a slot of a table that a hash selects.
    Bucket {
        /// Which way of the table, from 0.
        way: u64,
        /// Ways of the table: more than one for cuckoo tables.
        ways: u64,
        /// Which bucket of the way.
        bucket: u64,
        /// Buckets of the way.
        buckets: u64,
        /// The bucket has what is sought.
        found: bool,
    },
    /// A node of a chain, which the one before points to.
    ChainNode {
        /// The node has what is sought.
        found: bool,
        /// No node follows.
        last: bool,
    },
    /// A line of a table whose slots a model predicts, and of which some are left free.
    Gapped {
        /// The tags in its slots; none in a gap.
        slots: Vec<Option<u64>>,
        /// The slot of the line that the model predicts.
        predicted: u64,
        /// The slot that has the page.
        found: Option<u64>,
        /// Lines that were read before this one: 0 for the predicted line.
        beyond: u64,
    },
    /// A linear model: output = slope times key plus intercept.
    Model {
        /// Its slope.
        slope: f64,
        /// Its intercept.
        intercept: f64,
        /// What it is asked for: the page's number in its segment.
        key: u64,
        /// What it predicts: a slot, or a node of the next level.
        output: u64,
        /// It predicts a slot.
        leaf: bool,
    },
    /// A node of a B-tree of ranges, as its comparators see it.
    Ranges {
        /// First page of each range, and the page after its last.
        ranges: Vec<[u64; 2]>,
        /// The range that has the page.
        range: Option<u64>,
        /// The child to go on with, if none has.
        child: Option<u64>,
    },
    /// Ways of a set.
    Ways {
        /// Which set.
        set: u64,
        /// Sets of the structure.
        sets: u64,
        /// Ways of a set.
        ways: u64,
        /// The first way that is looked at.
        first: u64,
        /// Of the ways that are looked at, which are in use; empty if that is not told.
        used: Vec<bool>,
        /// The way that has what is sought.
        way: Option<u64>,
    },
    /// A counter among those of a line.
    Counter {
        /// Which counter.
        index: u64,
        /// Counters of the line.
        counters: u64,
        /// Its value.
        value: u64,
    },
    /// An interval in a register, and the point that is compared with it.
    Interval {
        /// Its begin.
        base: u64,
        /// Its end, which is outside.
        limit: u64,
        /// The point.
        at: u64,
    },
    /// Candidates of a guess.
    Candidates {
        /// How often each was right, from 0 to 1, by its name.
        shares: Vec<(String, f64)>,
    },
}
