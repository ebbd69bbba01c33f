//! How evenly resident pages lie over the sets of the caches: pages in few page colours conflict in them,
//! whatever their translation costs.

use crate::path::TranslationPath;
use crate::result::RunResult;
use crate::spec::{Spec, VirtualizationMode};
use ambulator_base::{FRAME_BYTES, LINE_BYTES, PageSize};
use ambulator_hardware::CacheSpec;
use ambulator_os::Kernel;

/// Colours of a cache: frames that lie side by side, whose lines fall into different sets.
fn colours(cache: &CacheSpec, shares: u64) -> u64 {
    let sets = cache.bytes * shares / LINE_BYTES / u64::from(cache.ways.max(1));
    (sets * LINE_BYTES / FRAME_BYTES).max(1)
}

/// The share of a working set that fits in a cache of `ways` ways: a working set as large as the cache, or of
/// all pages if they are fewer, drawn evenly from pages of which each colour has as many as `of` says.
fn fitting(of: &[u64], ways: u64) -> f64 {
    let pages: u64 = of.iter().sum();
    let working_set = pages.min(of.len() as u64 * ways) as f64;
    if pages == 0 {
        return 1.0;
    }
    let each = of.iter().map(|n| (*n as f64 * working_set / pages as f64).min(ways as f64));
    each.sum::<f64>() / working_set
}

/// The measures `l2_colour_share` and `llc_colour_share`; none if the caches are not indexed by the kernel's
/// frames (intermediate addresses, guests).
pub(crate) fn measures(kernel: &Kernel, path: TranslationPath, spec: &Spec) -> Vec<(&'static str, f64)> {
    if path == TranslationPath::Intermediate || spec.virtualization.mode == VirtualizationMode::Nested {
        return Vec::new();
    }
    let cores = u64::from(spec.machine.cores);
    let caches = [("l2_colour_share", &spec.l2, 1), ("llc_colour_share", &spec.llc, cores)];
    let mut of = caches.map(|(_, cache, shares)| vec![0u64; colours(cache, shares) as usize]);
    for process in kernel.live_processes() {
        kernel.for_each_page(process, |page, state| {
            for of in &mut of {
                let colours = of.len() as u64;
                // A large page has all colours alike.
                let (frames, all) =
                    (page.size.frames(), page.size > PageSize::SIZE_4K && page.size.frames() >= colours);
                if all {
                    of.iter_mut().for_each(|n| *n += frames / colours);
                } else {
                    (0..frames).for_each(|i| of[((state.frame().0 + i) % colours) as usize] += 1);
                }
            }
        });
    }
    caches.iter().zip(&of).map(|((name, cache, _), of)| (*name, fitting(of, u64::from(cache.ways)))).collect()
}

/// The share that frames drawn at random would have: sets of Poisson-distributed use lose about 0.4 of a
/// standard deviation.
fn of_random_frames(ways: f64) -> f64 {
    1.0 - 0.4 / ways.max(1.0).sqrt()
}

/// How far below random frames a share is reported, and how many more misses it must come with.
const FEW: f64 = 0.75;
const COSTLY: f64 = 1.1;

/// A sentence for each run whose resident pages lie in so few page colours that the caches miss more by it.
/// In a comparison, a run counts as such only if another, with its pages in more colours, misses that cache
/// less.
pub fn colour_warnings(runs: &[RunResult]) -> Vec<String> {
    let caches = [("l2", "L2 cache", "l2_cache_mpki"), ("llc", "last-level cache", "llc_mpki")];
    let mut warnings = Vec::new();
    for run in runs {
        for (key, name, misses) in caches {
            let share = |run: &RunResult| run.measures.get(&format!("{key}_colour_share")).copied();
            let Some(own) = share(run) else { continue };
            let ways = run.spec.pointer(&format!("/{key}/ways")).and_then(serde_json::Value::as_f64).unwrap_or(1.0);
            if own >= FEW * of_random_frames(ways) {
                continue;
            }
            let beside = |other: &&RunResult| {
                share(other).is_some_and(|share| share > own / FEW)
                    && run.measure(misses) > COSTLY * other.measure(misses)
            };
            let better = runs.iter().find(beside);
            if runs.len() > 1 && better.is_none() {
                continue;
            }
            let versus = better.map_or_else(String::new, |other| {
                let (ours, theirs) = (run.measure(misses), other.measure(misses));
                format!(" (it misses {ours:.2} times per 1000 instructions, with {} {theirs:.2} times)", other.design)
            });
            warnings.push(format!(
                "{} on {}: its pages lie in few page colours, so that only {:.0}% of a working set of the {name}'s \
                 size fits there{versus}: part of its time is that of conflicts, not of translation",
                run.design,
                run.program,
                100.0 * own
            ));
            break;
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_colour_can_use_its_share_of_a_cache() {
        assert_eq!(fitting(&[100; 16], 16), 1.0);
        let mut one = [0; 16];
        one[3] = 10_000;
        assert_eq!(fitting(&one, 16), 1.0 / 16.0);
        // So few pages fit wherever they are.
        one[3] = 16;
        assert_eq!(fitting(&one, 16), 1.0);
        // Half of the pages have one colour of two: of 2 * 8 ways the other has 4.
        assert_eq!(fitting(&[300, 100], 8), (8.0 + 4.0) / 16.0);
        assert_eq!(fitting(&[0; 4], 8), 1.0);
    }

    fn run(design: &str, share: f64, misses: f64) -> RunResult {
        let measures = [("l2_colour_share".to_owned(), share), ("l2_cache_mpki".to_owned(), misses)].into();
        let spec = serde_json::json!({ "l2": { "ways": 16 } });
        RunResult { design: design.into(), program: "p".into(), measures, spec, ..RunResult::default() }
    }

    #[test]
    fn few_colours_are_reported_where_another_run_shows_what_they_cost() {
        let told = |runs: &[RunResult]| colour_warnings(runs).len();
        assert_eq!(told(&[run("a", 0.99, 1.0), run("b", 0.1, 5.0)]), 1);
        // It misses no more than with its pages in all colours.
        assert_eq!(told(&[run("a", 0.99, 5.0), run("b", 0.1, 5.1)]), 0);
        // Frames drawn at random leave a tenth of the cache unused.
        assert_eq!(told(&[run("a", 0.99, 1.0), run("b", 0.85, 5.0)]), 0);
        // All have few; and a run alone.
        assert_eq!(told(&[run("a", 0.1, 1.0), run("b", 0.1, 5.0)]), 0);
        assert_eq!(told(&[run("b", 0.1, 5.0)]), 1);
        let text = &colour_warnings(&[run("a", 0.99, 1.0), run("b", 0.1, 5.0)])[0];
        assert!(text.starts_with("b on p: ") && text.contains("10%") && text.contains("with a 1.00 times"), "{text}");
    }
}
