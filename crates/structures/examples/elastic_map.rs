//! An index that resizes incrementally: `cargo run --release -p ambulator-structures --example elastic_map
//! [KEYS]`.
//!
//! Inserts that many keys (16 million by default) into an [`ElasticMap`] and into the map of the standard
//! library. Prints the mean time and the slowest single insertion on this machine, and the counters of the
//! map. The standard map copies everything whenever it grows. The elastic map rehashes a few slots with each
//! insertion, in place, each way on its own (ME-HPT Sec. IV and VIII).

use ambulator_structures::elastic::ElasticMap;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The mean time of an insertion in nanoseconds, and the slowest insertion.
fn time(keys: u64, mut insert: impl FnMut(u64)) -> (f64, Duration) {
    let mut slowest = Duration::ZERO;
    let begin = Instant::now();
    for key in 0..keys {
        let from = Instant::now();
        insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        slowest = slowest.max(from.elapsed());
    }
    (begin.elapsed().as_secs_f64() * 1e9 / keys as f64, slowest)
}

fn main() {
    let keys = match std::env::args().nth(1).map(|text| text.parse()) {
        None => 16_000_000,
        Some(Ok(keys)) => keys,
        Some(Err(error)) => {
            eprintln!("the argument is the number of keys: {error}");
            std::process::exit(2);
        }
    };
    let mut elastic = ElasticMap::new();
    let (each, slowest) = time(keys, |key| assert!(elastic.insert(key, key).is_none()));
    println!(
        "elastic map:  {each:.0} ns per insertion, the slowest {slowest:?}; {:.1} s in all",
        each * keys as f64 * 1e-9
    );
    let counters = elastic.counters();
    println!(
        "              ways of {:?} slots after {:?} upsizes; {:.2} entries displaced per insertion; \
         {:.0}% of rehashed entries stayed",
        elastic.way_slots(),
        counters.upsizes,
        counters.reinsertions as f64 / keys.max(1) as f64,
        100.0 * counters.upsize_stayed as f64 / (counters.upsize_stayed + counters.upsize_moved).max(1) as f64
    );
    let mut standard = HashMap::new();
    let (each, slowest) = time(keys, |key| assert!(standard.insert(key, key).is_none()));
    println!("standard map: {each:.0} ns per insertion, the slowest {slowest:?}");
    assert!(elastic.iter().all(|(key, value)| standard.get(key) == Some(value)) && elastic.len() == standard.len());
}
