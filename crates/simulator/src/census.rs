//! The layout of the address spaces at the end of a run: how regular and how contiguous they are, and how
//! often keys would collide in a hash table.

use ambulator_base::{PageRuns, PageSize};
use ambulator_os::Kernel;
use blake2::{Blake2b512, Digest};

/// The census of a run, over all live processes: derived measures by name.
pub(crate) type Census = Vec<(&'static str, f64)>;

/// The load factor of the hash table, 0.6: keys and slots.
const LOAD: (u64, u64) = (6, 10);

/// Takes the census: a walk through all mapped pages.
pub(crate) fn census(kernel: &Kernel) -> Census {
    let (mut pages, mut gaps, mut keys, mut collided) = (0, 0.0, 0, 0);
    let (mut runs, mut runs_99, mut ranges, mut ranges_99, mut large, mut longest) = (0, 0, 0, 0, 0, 0);
    for process in kernel.live_processes() {
        let (mut virtually, mut physically) = (PageRuns::default(), PageRuns::default());
        let mut own = Vec::new();
        let mut last = None;
        kernel.for_each_page(process, |page, state| {
            own.push(page.start.0 >> 12 >> page.size.order());
            large += if page.size > PageSize::SIZE_4K { page.size.frames() } else { 0 };
            for i in 0..page.size.frames() {
                let (number, frame) = (page.start.vpn().0 + i, state.frame().0 + i);
                let rights = (state.writable(), state.executable());
                virtually.add(number, last.is_none_or(|(_, before)| before == rights));
                physically.add(number, last == Some((frame.wrapping_sub(1), rights)));
                last = Some((frame, rights));
            }
        });
        pages += virtually.pages();
        gaps += virtually.gap_1_coverage() * virtually.pages() as f64;
        runs += virtually.runs();
        runs_99 += virtually.runs_for_99_percent();
        longest = longest.max(virtually.longest());
        ranges += physically.runs();
        ranges_99 += physically.runs_for_99_percent();
        keys += own.len() as u64;
        collided += collisions(&own);
    }
    let share = |part: f64, all: u64| if all == 0 { 0.0 } else { part / all as f64 };
    vec![
        ("census_pages", pages as f64),
        ("census_gap_1_coverage", share(gaps, pages)),
        ("census_virtual_runs", runs as f64),
        ("census_virtual_runs_99", runs_99 as f64),
        ("census_largest_run", share(longest as f64, pages)),
        ("census_entries", keys as f64),
        ("census_ranges", ranges as f64),
        ("census_ranges_99", ranges_99 as f64),
        ("census_large_share", share(large as f64, pages)),
        ("census_blake2_collisions", share(collided as f64, keys)),
    ]
}

/// Number of these page numbers whose slot, by their Blake2 hash, is taken by another in a table with a load
/// factor of 0.6.
fn collisions(keys: &[u64]) -> u64 {
    let slots = (keys.len() as u64 * LOAD.1).div_ceil(LOAD.0).max(1);
    let mut taken = vec![0u64; slots.div_ceil(64) as usize];
    let mut collided = 0;
    for key in keys {
        let digest = Blake2b512::digest(key.to_le_bytes());
        let word = digest.iter().take(8).fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let slot = ambulator_base::mul_high(word, slots);
        let (at, bit) = ((slot / 64) as usize, 1 << (slot % 64));
        collided += u64::from(taken[at] & bit != 0);
        taken[at] |= bit;
    }
    collided
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_function_at_six_tenths_collides_as_theory_predicts() {
        let keys: Vec<u64> = (0..60_000).collect();
        // Of n keys in m slots, m (1 - e^(-n/m)) slots are taken: the other keys have collided.
        let expected = 60_000.0 - 100_000.0 * (1.0 - (-0.6f64).exp());
        let found = collisions(&keys) as f64;
        assert!((found / expected - 1.0).abs() < 0.03, "{found} instead of {expected}");
        assert_eq!(collisions(&[]), 0);
    }
}
