//! Which intervals of a program are measured, and what each of them stands for.

use super::cluster::{DIMENSIONS, Point, cluster};
use super::signature::{PARTS, Signature};
use super::{PhaseProfile, StreamPlaces};
use crate::spec::RunSpec;
use ambulator_base::Random;

/// The least intervals that are measured, if there are as many: fewer have no 95% interval that is of use.
const LEAST_CHOSEN: u64 = 12;
/// Each phase has as many measured intervals in the mean, at least.
const LEAST_OF_PHASE: u64 = 3;
/// The share of a part's mean below which its changes are noise, which must not be made large.
const NOISE: f64 = 0.01;

/// An interval that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its number.
    pub interval: u64,
    /// Its phase.
    pub phase: usize,
    /// Intervals that it stands for, itself among them.
    pub weight: u64,
}

/// Phases of a program, and the intervals that are measured of each (`run.sampling = "phases"`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhasePlan {
    /// Those that are measured, in their order.
    pub(crate) chosen: Vec<Choice>,
    /// By phase: all of its intervals.
    pub(crate) sizes: Vec<u64>,
    /// Instructions of each core in an interval.
    interval: u64,
    /// By stream: where its intervals are.
    streams: Vec<StreamPlaces>,
}

impl PhasePlan {
    /// The number of streams.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Instructions of a stream, on all of its cores, from the begin of the region of interest to `position`,
    /// in instructions of each core from the end of the warm-up.
    pub(crate) fn place(&self, stream: usize, position: u64) -> u64 {
        self.streams[stream].at(position, self.interval)
    }

    /// The begin of an interval, in instructions of each core from the end of the warm-up.
    pub(crate) fn begin(&self, interval: u64) -> u64 {
        interval * self.interval
    }

    /// Chooses: as many intervals as windows of `run.sample_period` would be, of each phase by its share.
    pub(super) fn of(profile: &PhaseProfile, run: &RunSpec) -> PhasePlan {
        let intervals = profile.streams.iter().map(|stream| stream.signatures.len()).max().unwrap_or(0) as u64;
        let wanted = (intervals * run.sample_window).div_ceil(run.sample_period);
        let wanted = wanted.max(LEAST_CHOSEN).min(intervals);
        let mut random = Random::for_purpose(run.seed, "phases");
        let most = (wanted / LEAST_OF_PHASE).clamp(1, u64::from(run.sample_phases)) as usize;
        let phases = cluster(&points(profile, intervals as usize), most, &mut random);
        let count = phases.iter().max().map_or(0, |last| last + 1);
        let of_phase = |phase: usize| (0..intervals).filter(move |at| phases[*at as usize] == phase);
        let members: Vec<Vec<u64>> = (0..count).map(|phase| of_phase.clone()(phase).collect()).collect();
        let sizes: Vec<u64> = members.iter().map(|of| of.len() as u64).collect();
        let mut chosen = Vec::new();
        for (phase, (members, count)) in members.iter().zip(shares(&sizes, wanted)).enumerate() {
            chosen.extend(draw(members, count, &mut random).map(|(interval, weight)| Choice {
                interval,
                phase,
                weight,
            }));
        }
        chosen.sort_by_key(|choice| choice.interval);
        PhasePlan {
            chosen,
            sizes,
            interval: run.sample_window,
            streams: profile.streams.iter().map(|stream| stream.places.clone()).collect(),
        }
    }
}

/// How many intervals of each phase are measured: by their shares, but at least two of each, so that every
/// phase has a variance.
fn shares(sizes: &[u64], wanted: u64) -> Vec<u64> {
    let all: u64 = sizes.iter().sum();
    let share = |size: &u64| ((size * wanted + all / 2) / all.max(1)).max(2).min(*size);
    sizes.iter().map(share).collect()
}

/// Draws `count` of a phase's intervals, each from a stretch of neighbours that it stands for: the whole
/// phase is seen from its begin to its end, and a program in step with the stretches is not.
fn draw(members: &[u64], count: u64, random: &mut Random) -> impl Iterator<Item = (u64, u64)> {
    let all = members.len() as u64;
    (0..count).map(move |number| {
        let (from, to) = (number * all / count, (number + 1) * all / count);
        (members[(from + random.below(to - from)) as usize], to - from)
    })
}

/// The signatures of all streams, interval by interval, as points: each part of a signature has the same
/// variance, and a random projection adds them up (SimPoint has 15 dimensions too).
fn points(profile: &PhaseProfile, intervals: usize) -> Vec<Point> {
    let mut random = Random::for_purpose(0, "phases' projection");
    let mut points = vec![[0.0; DIMENSIONS]; intervals];
    for stream in &profile.streams {
        let signatures = &stream.signatures;
        let n = signatures.len().max(1) as f64;
        let mut means = [0.0; super::signature::LENGTH];
        for signature in signatures {
            means.iter_mut().zip(signature).for_each(|(mean, value)| *mean += f64::from(*value) / n);
        }
        for part in PARTS {
            let off = |signature: &Signature, at: usize| f64::from(signature[at]) - means[at];
            let squares: f64 = signatures.iter().flat_map(|of| part.clone().map(|at| off(of, at).powi(2))).sum();
            let least: f64 = NOISE * means[part.clone()].iter().sum::<f64>();
            let scale = (squares / n).sqrt().max(least);
            for at in part {
                let projected: [f64; DIMENSIONS] = std::array::from_fn(|_| 2.0 * random.unit() - 1.0);
                if scale == 0.0 {
                    continue;
                }
                for (point, signature) in points.iter_mut().zip(signatures) {
                    let value = off(signature, at) / scale;
                    point.iter_mut().zip(&projected).for_each(|(sum, factor)| *sum += value * factor);
                }
            }
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::super::StreamProfile;
    use super::super::signature::LENGTH;
    use super::*;

    /// Intervals of two sorts: `pattern` says which; the second sort has other numbers in the first part.
    fn profile(pattern: impl Iterator<Item = bool>, end: u64) -> PhaseProfile {
        let mut random = Random::new(2);
        let signature = |other: bool| {
            let mut signature = [0.0; LENGTH];
            signature[if other { 12 } else { 2 }] = 0.3 + 0.01 * random.unit() as f32;
            signature
        };
        let signatures: Vec<Signature> = pattern.map(signature).collect();
        let bounds = (0..=signatures.len() as u64).map(|number| 500 + 1000 * number).collect();
        PhaseProfile { streams: vec![StreamProfile { signatures, places: StreamPlaces { bounds, end } }] }
    }

    fn run(settings: &[(&str, u64)]) -> RunSpec {
        let mut run = RunSpec { sample_window: 1000, sample_period: 10_000, warmup: 500, ..RunSpec::default() };
        for (name, value) in settings {
            match *name {
                "period" => run.sample_period = *value,
                "seed" => run.seed = *value,
                _ => run.sample_phases = *value as u32,
            }
        }
        run
    }

    #[test]
    fn phases_are_found_and_each_has_its_share() {
        // A quarter of 400 intervals is of the second sort, in two stretches.
        let pattern = |at: u64| (100..150).contains(&at) || (300..350).contains(&at);
        let plan = PhasePlan::of(&profile((0..400).map(pattern), 400_500), &run(&[]));
        assert_eq!(plan.sizes, [300, 100]);
        assert!(plan.chosen.iter().all(|choice| usize::from(pattern(choice.interval)) == choice.phase));
        let of_phase = |phase| plan.chosen.iter().filter(move |choice| choice.phase == phase);
        assert_eq!((of_phase(0).count(), of_phase(1).count()), (30, 10), "40 windows of a period of ten intervals");
        for phase in 0..2 {
            assert_eq!(of_phase(phase).map(|choice| choice.weight).sum::<u64>(), plan.sizes[phase]);
        }
        assert!(plan.chosen.is_sorted_by_key(|choice| choice.interval));
    }

    #[test]
    fn a_rare_phase_has_two_and_a_single_interval_one() {
        let one = |at: u64| at == 200;
        let plan = PhasePlan::of(&profile((0..400).map(one), 400_500), &run(&[]));
        assert_eq!(plan.sizes, [399, 1]);
        assert!(plan.chosen.contains(&Choice { interval: 200, phase: 1, weight: 1 }));
        let few = |at: u64| at % 80 == 3;
        let plan = PhasePlan::of(&profile((0..400).map(few), 400_500), &run(&[("period", 50_000)]));
        assert_eq!(plan.chosen.iter().filter(|choice| choice.phase == 1).count(), 2, "{plan:?}");
    }

    #[test]
    fn a_choice_is_of_its_seed_and_short_programs_are_measured_whole() {
        let of = |seed| PhasePlan::of(&profile((0..400).map(|_| false), 400_500), &run(&[("seed", seed)]));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let short = PhasePlan::of(&profile((0..7).map(|_| false), 7_500), &run(&[]));
        assert_eq!(
            short.chosen.iter().map(|choice| (choice.interval, choice.weight)).collect::<Vec<_>>(),
            (0..7).map(|at| (at, 1)).collect::<Vec<_>>()
        );
        let none = PhasePlan::of(&profile(std::iter::empty(), 100), &run(&[]));
        assert!(none.chosen.is_empty() && none.sizes.is_empty());
    }

    #[test]
    fn places_are_those_of_each_stream_until_it_ends() {
        let mut both = profile((0..40).map(|_| false), 40_700);
        // This one has two cores, of which one ends after the first interval, and ends with the second.
        let places = StreamPlaces { bounds: vec![1000, 3000, 4000], end: 4300 };
        both.streams.push(StreamProfile { signatures: Vec::new(), places });
        both.streams.push(StreamProfile { signatures: Vec::new(), places: StreamPlaces { bounds: vec![], end: 70 } });
        let plan = PhasePlan::of(&both, &run(&[("phases", 1)]));
        let places = |position| [0, 1, 2].map(|stream| plan.place(stream, position));
        assert_eq!((places(0), places(500)), ([500, 1000, 70], [1000, 2000, 70]));
        assert_eq!((places(1500), places(2200)), ([2000, 3500, 70], [2700, 4200, 70]));
        assert_eq!((places(5000), places(40_400)), ([5500, 4300, 70], [40_700, 4300, 70]));
        assert_eq!((plan.begin(7), plan.streams()), (7000, 3));
    }
}
