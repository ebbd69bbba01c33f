//! Checks the counts against a plain map.

use super::*;
use crate::benchmarks::execution::trace_of;

#[test]
fn counts_are_those_of_a_plain_map() {
    let small = KmerSpec { footprint: 4 << 20, genome: 5000, read_length: 500, reads: 60, ..KmerSpec::default() };
    // A table that is almost full moves entries about.
    let tight = KmerSpec { footprint: 72 * 1200, error_rate: 0.0, genome: 4200, reads: 100, ..small.clone() };
    for spec in [small, tight] {
        let mut plain: FxHashMap<u64, u64> = FxHashMap::default();
        let (table, _) =
            trace_of(AddressSpace::new(), |on| Kmer(spec).count(on, |k| *plain.entry(k).or_default() += 1));
        let mut counted: FxHashMap<u64, u64> = FxHashMap::default();
        for (place, bucket) in &table.held {
            for (kmer, count) in bucket.iter().flatten() {
                assert!(table.places(*kmer).contains(place), "a k-mer is in one of its buckets");
                assert!(counted.insert(*kmer, *count).is_none(), "a k-mer is in one slot");
            }
        }
        assert_eq!(counted, plain);
        assert!(plain.values().any(|n| *n > 3), "reads overlap");
    }
}
