//! The results of a study as a table, and what they say about designs.

use crate::grid::{Entry, Grid, Head};
use crate::interval::{SpeedUp, Spread, half_of};
use crate::number::numbered;
use crate::runner::Finished;
use crate::sampling::{self, about_sampling};
use crate::study::{Point, Study};
use crate::vocabulary::Term;
use ambulator_simulator::{RunResult, Status};

type Value = fn(&RunResult) -> Option<f64>;

/// A number of a run: its name, the name of what it shows, for `explain`, decimals, whether tables on the terminal
/// have it, and how it is found.
struct Number(&'static str, &'static str, Option<usize>, bool, Value);

fn timed(run: &RunResult, value: f64) -> Option<f64> {
    (run.ipc > 0.0).then_some(value)
}

fn of_walks(run: &RunResult, name: &str) -> Option<f64> {
    run.counters.get("mmu.walks").filter(|walks| **walks > 0).map(|_| run.measure(name))
}

const NUMBERS: &[Number] = &[
    Number("instructions per cycle", "ipc", Some(3), true, |run| timed(run, run.ipc)),
    Number("speed-up", "speedup", Some(3), true, |run| timed(run, run.speedup)),
    Number("L2 TLB misses per 1000 instr.", "measures.l2_tlb_mpki", None, true, |run| Some(run.measure("l2_tlb_mpki"))),
    Number("cycles a walk", "measures.walk_latency_mean", None, true, |run| {
        of_walks(run, "walk_latency_mean").filter(|_| run.ipc > 0.0)
    }),
    Number("loads a walk", "measures.walk_accesses_mean", None, false, |run| of_walks(run, "walk_accesses_mean")),
    Number("page walks", "mmu.walks", None, false, |run| run.counters.get("mmu.walks").map(|walks| *walks as f64)),
    Number("MMU cycles per access", "measures.mmu_cycles_per_access", None, false, |run| {
        timed(run, run.measure("mmu_cycles_per_access"))
    }),
    Number("L1 TLB misses per 1000 instr.", "measures.l1_tlb_mpki", None, false, |run| {
        Some(run.measure("l1_tlb_mpki"))
    }),
    Number("LLC misses per 1000 instr.", "measures.llc_mpki", None, false, |run| Some(run.measure("llc_mpki"))),
    Number("bytes of page tables", "measures.table_bytes", None, false, |run| Some(run.measure("table_bytes"))),
    Number("page faults", "measures.page_faults", None, false, |run| Some(run.measure("page_faults"))),
    Number("OS share of cycles", "measures.os_cycles_share", None, false, |run| {
        timed(run, run.measure("os_cycles_share"))
    }),
];

/// What the columns of the tables mean.
pub(crate) fn terms() -> Vec<Term> {
    let texts = ["program", "machine", "design", "status"].map(|name| Term::row(name, &[name]));
    let settings = Term::row("settings", &["set"]);
    let numbers = NUMBERS.iter().map(|number| Term::row(number.0, &[number.1]));
    let all = texts.into_iter().chain([settings]).chain(numbers).chain(sampling::terms());
    all.map(|term| term.at("tables of sweep, and their files")).collect()
}

/// How many numbers a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those that fit a terminal.
    Brief,
    /// Those, and how runs were sampled, which is a sentence on a terminal.
    Page,
    /// All.
    All,
}

/// A row for each design of a comparison, with every number.
pub fn runs_grid(runs: &[RunResult]) -> Grid {
    let mut head = vec![Head::text("program"), Head::text("design"), Head::text("status")];
    head.extend(NUMBERS.iter().map(|number| Head::number(number.0, number.2)));
    let with_sampling = runs.iter().any(|run| run.sampled.is_some());
    head.extend(sampling::heads().filter(|_| with_sampling));
    let row = |run: &RunResult| {
        let texts = [run.program.clone(), run.design.clone(), status(run.status).to_owned()];
        let number = |Number(.., value): &Number| {
            let of_seeds = if run.over_seeds.is_empty() { std::slice::from_ref(run) } else { &run.over_seeds };
            let ran = of_seeds.iter().filter(|run| run.simulated_instructions > 0);
            let mut spread = Spread::of(&ran.filter_map(value).collect::<Vec<f64>>());
            if let Some(spread) = spread.as_mut().filter(|_| run.over_seeds.is_empty()) {
                // Speed-ups are over the first design.
                spread.half = half_of(value, run, runs.first());
            }
            spread.map_or(Entry::Missing, |spread| Entry::Number(without_trivial(spread)))
        };
        let sampled = sampling::entries(Some(run)).into_iter().filter(|_| with_sampling);
        texts.into_iter().map(Entry::Text).chain(NUMBERS.iter().map(number)).chain(sampled).collect()
    };
    Grid { head, rows: runs.iter().map(row).collect() }
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Done => "done",
        Status::Interrupted => "interrupted",
        Status::Outcome => "stopped",
        Status::Failed => "failed",
    }
}

impl Study {
    /// A row for each point: its place and its numbers, over the seeds. [`Study::set_speedups`] must have been
    /// called. A column of machines or settings that are all the same is left out.
    pub fn grid(&self, finished: &Finished, extent: Extent) -> Grid {
        let differ = |of: &dyn Fn(&Point) -> String| self.points.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
        let with_machine = differ(&|point| point.place.machine.clone());
        let with_own = self.points.iter().any(|point| !point.place.own.is_empty());
        let ended = |point: &Point| {
            point.cells.iter().all(|at| matches!(&finished.cells[*at], Some(of) if of.run.status == Status::Done))
        };
        let with_status = !self.points.iter().all(ended);
        let with_sampling = extent != Extent::Brief && sampled(finished).next().is_some();
        let mut head = vec![Head::text("program")];
        head.extend(with_machine.then(|| Head::text("machine")));
        head.extend(self.axes.iter().map(|axis| Head::text(axis)));
        head.extend(with_own.then(|| Head::text("settings")));
        head.push(Head::text("design"));
        let numbers: Vec<&Number> = NUMBERS.iter().filter(|number| extent == Extent::All || number.3).collect();
        head.extend(numbers.iter().map(|number| Head::number(number.0, number.2)));
        head.extend(sampling::heads().filter(|_| with_sampling));
        head.extend(with_status.then(|| Head::text("status")));
        let row = |point: &Point| {
            let place = &point.place;
            let mut texts = vec![place.program.clone()];
            texts.extend(with_machine.then(|| place.machine.clone()));
            texts.extend(place.varied.iter().cloned());
            texts.extend(with_own.then(|| place.own.join(" ")));
            texts.push(place.design.clone());
            let mut row: Vec<Entry> = texts.into_iter().map(Entry::Text).collect();
            let runs = self.runs(point, finished);
            let has_base = self.base(point).is_some_and(|base| self.runs(base, finished).iter().all(Option::is_some));
            for Number(name, .., value) in &numbers {
                let values: Vec<f64> = runs.iter().flatten().filter_map(|run| value(run)).collect();
                let mut known = (*name != "speed-up" || has_base).then(|| Spread::of(&values)).flatten();
                if let (Some(spread), [Some(run)]) = (known.as_mut(), &runs[..]) {
                    let base = self.base(point).and_then(|base| self.runs(base, finished).into_iter().next()?);
                    spread.half = half_of(value, run, base);
                }
                row.push(known.map_or(Entry::Missing, |spread| Entry::Number(without_trivial(spread))));
            }
            let first = runs.iter().flatten().next().copied();
            row.extend(sampling::entries(first).into_iter().filter(|_| with_sampling));
            row.extend(with_status.then(|| Entry::Text(self.status(point, finished))));
            row
        };
        Grid { head, rows: self.points.iter().map(row).collect() }
    }

    fn status(&self, point: &Point, finished: &Finished) -> String {
        let of = |at: &usize| finished.cells[*at].as_ref().map_or("not run", |ended| status(ended.run.status));
        let mut all: Vec<&str> = point.cells.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all.join(", ")
    }

    /// The reasons of cells that are not done, one sentence each, equal ones once with their number.
    pub fn failures(&self, finished: &Finished) -> Vec<String> {
        let mut reasons: Vec<(String, String, usize)> = Vec::new();
        for point in &self.points {
            for ended in point.cells.iter().filter_map(|at| finished.cells[*at].as_ref()) {
                if ended.run.status == Status::Done {
                    continue;
                }
                let why = ended.run.outcome.clone().unwrap_or_else(|| "it did not complete".into());
                match reasons.iter_mut().find(|(_, other, _)| *other == why) {
                    Some((.., count)) => *count += 1,
                    None => {
                        let settings =
                            self.axes.iter().zip(&point.place.varied).map(|(key, value)| format!(" {key}={value}"));
                        let settings: String = settings.collect();
                        let name = format!("{} on {}{settings}", point.place.design, point.place.program);
                        reasons.push((name, why, 1));
                    }
                }
            }
        }
        let more = |count: usize| {
            if count > 1 { format!(" (and {} more)", numbered(count - 1, "cell")) } else { String::new() }
        };
        reasons.into_iter().map(|(name, why, count)| format!("{name}{}: {why}", more(count))).collect()
    }

    /// A sentence for each design but the first: where it is faster and where slower, beyond the intervals.
    pub fn summary(&self, finished: &Finished) -> Vec<String> {
        let Some(first) = self.points.first().map(|point| point.place.design.clone()) else { return Vec::new() };
        let mut designs: Vec<&str> = Vec::new();
        for point in &self.points {
            if point.place.design != first && !designs.contains(&point.place.design.as_str()) {
                designs.push(&point.place.design);
            }
        }
        let mut sentences = Vec::new();
        for design in designs {
            let (mut faster, mut slower, mut logs) = (0, 0, Vec::new());
            for point in self.points.iter().filter(|point| point.place.design == design) {
                let Some(base) = self.base(point).filter(|base| base.place.design == first) else { continue };
                let Some((ratio, differs)) = speed_up(&self.runs(base, finished), &self.runs(point, finished)) else {
                    continue;
                };
                logs.push(ratio.ln());
                faster += usize::from(differs && ratio > 1.0);
                slower += usize::from(differs && ratio < 1.0);
            }
            if logs.is_empty() {
                continue;
            }
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            let same = logs.len() - faster - slower;
            sentences.push(format!(
                "{design} is {mean:.3} times as fast as {first} (geometric mean of {}): faster in {faster}, slower in \
                 {slower}, no difference beyond the 95% interval in {same}.",
                logs.len()
            ));
        }
        sentences
    }

    /// What the intervals are over, and how runs were sampled, a sentence each.
    pub fn about_intervals(&self, finished: &Finished) -> Vec<String> {
        let mut sentences = vec![self.about_seeds(finished)];
        sentences.extend(about_sampling(sampled(finished), self.seeds.len() == 1));
        sentences
    }

    fn about_seeds(&self, finished: &Finished) -> String {
        match self.seeds.len() {
            1 if sampled(finished).next().is_some() => {
                "One seed: intervals are over what was sampled (--seeds 5 gives those over seeds).".to_owned()
            }
            1 => {
                "One seed: there are no intervals over seeds (--seeds 5 gives them); differences are judged by windows \
                  of the measured region."
                    .to_owned()
            }
            count => format!("Means over {count} seeds, ± half of the 95% interval (Student's t)."),
        }
    }
}

/// The runs that were sampled.
fn sampled(finished: &Finished) -> impl Iterator<Item = &RunResult> {
    finished.cells.iter().flatten().map(|ended| &ended.run).filter(|run| run.sampled.is_some())
}

/// A base has no interval around its speed-up of 1.
fn without_trivial(spread: Spread) -> Spread {
    if spread.half == Some(0.0) && spread.mean == 1.0 { Spread { half: None, ..spread } } else { spread }
}

/// The speed-up of runs over those of a base, seed by seed, and whether it differs from 1: by the interval over
/// seeds, or with one seed by that over windows.
fn speed_up(base: &[Option<&RunResult>], runs: &[Option<&RunResult>]) -> Option<(f64, bool)> {
    let pairs: Vec<(&RunResult, &RunResult)> =
        base.iter().zip(runs).filter_map(|(base, run)| Some(((*base)?, (*run)?))).collect();
    let ratios: Vec<SpeedUp> = pairs.iter().filter_map(|(base, run)| SpeedUp::of(base, run)).collect();
    match &ratios[..] {
        [] => None,
        [one] => Some((one.ratio, one.differs())),
        several => {
            let spread = Spread::of(&several.iter().map(|of| of.ratio).collect::<Vec<_>>())?;
            let away = (spread.mean - 1.0).abs();
            Some((spread.mean, spread.half.is_some_and(|half| away > half.max(0.0005))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::reproduce::Size;
    use crate::runner::{Reuse, Runner};
    use ambulator_simulator::Silent;
    use std::sync::Arc;

    fn study(text: &str) -> (Study, Finished) {
        let common = "set = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0']\nfootprint = '1MiB'\n\
                      instructions = '20k'\nwarmup = '1k'\n";
        let key = |line: &str| line.split_once(" = ").map_or_else(String::new, |(key, _)| key.to_owned());
        let own: Vec<String> = text.lines().map(key).collect();
        let common: String = common.split_inclusive('\n').filter(|line| !own.contains(&key(line))).collect();
        let study = Study::of(&Figure::parse("t.toml", &format!("{common}{text}")).unwrap(), Size::Full).unwrap();
        let runner = Runner {
            store: None,
            reuse: Reuse::All,
            checkpoints: None,
            threads: 2,
            memory: 1 << 30,
            stop: Arc::default(),
            progress: Arc::new(Silent),
        };
        let mut finished = runner.run(study.cells.clone());
        study.set_speedups(&mut finished);
        (study, finished)
    }

    #[test]
    fn a_grid_has_a_row_for_each_combination_and_its_numbers() {
        let (study, finished) = study(
            "designs = ['radix', 'ideal']\nprograms = ['gups', 'stream']\nvary.mmu.l2_tlb.entries = [512, 1024]\n",
        );
        assert_eq!((study.cells.len(), study.points.len()), (8, 8));
        let grid = study.grid(&finished, Extent::Brief);
        let names: Vec<&str> = grid.head.iter().map(|head| head.name.as_str()).collect();
        assert_eq!(names[..4], ["program", "mmu.l2_tlb.entries", "design", "instructions per cycle"]);
        let text = |row: usize, at: usize| grid.rows[row][at].clone();
        assert_eq!((text(2, 1), text(2, 2)), (Entry::Text("1024".into()), Entry::Text("radix".into())));
        let number = |row: usize, at: usize| match text(row, at) {
            Entry::Number(spread) => spread,
            other => panic!("{other:?}"),
        };
        for base in [0, 2, 4, 6] {
            let (one, other) = (number(base, 3).mean, number(base + 1, 3).mean);
            assert_eq!(number(base, 4).mean, 1.0);
            assert!((number(base + 1, 4).mean - other / one).abs() < 1e-12, "relative to the same settings");
        }
        assert!(
            number(0, 4).half.is_none() && study.about_intervals(&finished)[0].starts_with("One seed: there are no")
        );
        assert_eq!(study.summary(&finished).len(), 1);
        assert!(study.grid(&finished, Extent::All).head.len() > grid.head.len());
        assert_eq!(study.description(&[])["cells"].as_array().unwrap().len(), 8);
    }

    #[test]
    fn seeds_give_means_and_intervals() {
        let (study, finished) = study("designs = ['radix', 'thp']\nprograms = ['gups']\nseeds = 3\n");
        assert_eq!((study.cells.len(), study.points.len(), study.seeds.len()), (6, 2, 3));
        let ipc: Vec<f64> = study.runs(&study.points[1], &finished).iter().map(|run| run.unwrap().ipc).collect();
        assert!(ipc[0] != ipc[1], "other seeds, other numbers: {ipc:?}");
        let grid = study.grid(&finished, Extent::Brief);
        let Entry::Number(spread) = &grid.rows[1][2] else { panic!("{grid:?}") };
        assert_eq!(Some(*spread), Spread::of(&ipc));
        assert!(spread.half.unwrap() > 0.0 && grid.csv().contains("instructions per cycle ±"), "{}", grid.csv());
    }

    const SAMPLED: &str = "designs = ['radix', 'thp']\nprograms = ['gups']\nfootprint = '16MiB'\ninstructions = '400k'\n\
                           set = ['memory.bytes=256MiB', 'run.sampling=windows', 'run.sample_period=20k', \
                           'run.sample_window=2k', 'run.sample_timing=1k']\n";

    #[test]
    fn sampled_runs_have_intervals_with_one_seed_and_say_how_they_were_sampled() {
        let (study, finished) = study(SAMPLED);
        let said = study.about_intervals(&finished);
        assert!(said[0].starts_with("One seed: intervals are over what was sampled"), "{said:?}");
        assert!(said.len() == 2 && said[1].starts_with("Sampled: 20 windows with "), "{said:?}");
        let runs: Vec<RunResult> = finished.cells.iter().flatten().map(|ended| ended.run.clone()).collect();
        let expected = SpeedUp::of(&runs[0], &runs[1]).unwrap().half;
        assert!(expected.unwrap() > 0.0);
        for grid in [runs_grid(&runs), study.grid(&finished, Extent::All)] {
            let at = |name: &str| grid.head.iter().position(|head| head.name == name).unwrap();
            let half_of_speed_up = |row: usize| match &grid.rows[row][at("speed-up")] {
                Entry::Number(spread) => spread.half,
                other => panic!("{other:?}"),
            };
            let half = half_of_speed_up(1).unwrap();
            assert_eq!(half_of_speed_up(0), None, "the base is no faster than itself");
            assert!((half - expected.unwrap()).abs() < 1e-9, "{half} and {expected:?}");
            assert_eq!(grid.rows[0][at("sampling")], Entry::Text("windows".into()));
        }
        let names = |extent| study.grid(&finished, extent).head.into_iter().map(|head| head.name).collect::<Vec<_>>();
        let (brief, page) = (names(Extent::Brief), names(Extent::Page));
        assert_eq!((page.len(), &page[..brief.len()]), (brief.len() + 5, &brief[..]));
    }

    #[test]
    fn a_difference_within_the_interval_is_none() {
        let run = |ipc: f64| RunResult { ipc, ..RunResult::default() };
        let judged = |pairs: &[(f64, f64)]| {
            let (base, runs): (Vec<_>, Vec<_>) = pairs.iter().map(|(base, own)| (run(*base), run(*own))).unzip();
            speed_up(&base.iter().map(Some).collect::<Vec<_>>(), &runs.iter().map(Some).collect::<Vec<_>>()).unwrap().1
        };
        assert!(judged(&[(1.0, 1.10), (1.0, 1.11), (1.0, 1.09)]));
        assert!(!judged(&[(1.0, 1.10), (1.0, 0.95), (1.0, 1.04)]));
        assert!(!judged(&[(1.0, 1.004)]), "without windows a small difference is none");
    }

    #[test]
    fn cells_that_fail_have_a_reason_and_no_numbers() {
        let (study, finished) =
            study("designs = ['radix', 'thp']\nprograms = ['gups']\nvary.mmu.l2_tlb.entries = [512, 513]\n");
        let failures = study.failures(&finished);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].starts_with("radix on gups mmu.l2_tlb.entries=513 (and 1 cell more): "), "{failures:?}");
        let grid = study.grid(&finished, Extent::Brief);
        assert_eq!((&grid.rows[2][3], grid.rows[2].last()), (&Entry::Missing, Some(&Entry::Text("failed".into()))));
        assert_eq!(grid.rows[0].last(), Some(&Entry::Text("done".into())));
    }
}
