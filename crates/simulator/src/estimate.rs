//! Estimates from a sample: numbers of the whole region with their 95% intervals.
//!
//! What was measured belongs to strata: windows to one, intervals to that of their phase. Each number is
//! computed as a function of weighted sums, and again without one group of a stratum at a time. The spread of
//! these is the jackknife's variance (Efron and Stein, Annals of Statistics 1981), which is that of ratios
//! too; that of strata adds up (Jones, JRSS B 1974). A percentile is no smooth function of sums, but the share
//! of what is at most as large is a ratio: the ends of its interval, read off the distribution, are those of the
//! percentile (Woodruff, JASA 1952).

use crate::measured::{Measured, share};
use crate::result::{MEASURES, PERCENTILES};
use crate::spec::Spec;
use ambulator_base::{Histogram, student_t};
use std::collections::BTreeMap;

/// A stratum's samples are dealt out to this many groups at most.
const GROUPS: usize = 30;
/// Fewer groups say nothing about the spread.
const LEAST_GROUPS: usize = 8;
/// What is left of a stratum without a group stands for all of it: weights grow, in whole numbers of this
/// part.
const PART: u64 = 1 << 10;

/// Sums of counters by name.
pub(crate) type Counts = BTreeMap<String, u64>;

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub measured: Measured,
    pub counts: Counts,
}

impl Sample {
    /// Adds another one, so many times.
    fn add(&mut self, other: &Sample, times: u64) {
        let mut power = other.measured.clone();
        let mut left = times;
        while left > 0 {
            if left % 2 == 1 {
                self.measured.add(&power);
            }
            left /= 2;
            if left > 0 {
                let same = power.clone();
                power.add(&same);
            }
        }
        for (name, value) in &other.counts {
            match self.counts.get_mut(name) {
                Some(sum) => *sum += value * times,
                None => _ = self.counts.insert(name.clone(), value * times),
            }
        }
    }
}

/// What is alike: the windows, or the intervals of a phase.
#[derive(Clone, Debug, Default)]
struct Stratum {
    /// With their weights.
    groups: Vec<(Sample, u64)>,
    samples: u64,
    /// The sum of the weights: the size of the stratum, once all of it is there.
    weight: u64,
    /// How many there are in the region, if the estimate is of no more than these.
    of: Option<u64>,
}

impl Stratum {
    /// The factor of the sum of squares of what its groups change.
    fn factor(&self) -> f64 {
        let n = self.groups.len() as f64;
        let measured = self.of.map_or(0.0, |of| self.samples as f64 / of.max(1) as f64);
        (1.0 - measured).max(0.0) * (n - 1.0) / n
    }

    /// Whether its samples say how much they differ.
    fn has_spread(&self) -> bool {
        self.groups.len() > 1 && self.factor() > 0.0
    }
}

/// Samples of a region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    strata: Vec<Stratum>,
    sum: Sample,
    count: u64,
}

impl Samples {
    /// None yet, in one stratum that goes on beyond the region.
    pub fn of_windows() -> Samples {
        Samples { strata: vec![Stratum::default()], ..Samples::default() }
    }

    /// None yet, in strata of these sizes.
    pub fn of_phases(sizes: &[u64]) -> Samples {
        let stratum = |size: &u64| Stratum { of: Some(*size), ..Stratum::default() };
        Samples { strata: sizes.iter().map(stratum).collect(), ..Samples::default() }
    }

    /// The sum, each sample as often as it counts.
    pub fn sum(&self) -> &Sample {
        &self.sum
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds one of a stratum, which counts `weight` times.
    pub fn add(&mut self, sample: &Sample, stratum: usize, weight: u64) {
        self.count += 1;
        self.sum.add(sample, weight);
        let stratum = &mut self.strata[stratum];
        let group = stratum.samples as usize % GROUPS;
        stratum.samples += 1;
        stratum.weight += weight;
        if stratum.groups.len() <= group {
            stratum.groups.push((Sample::default(), 0));
        }
        let (sum, of_group) = &mut stratum.groups[group];
        sum.add(sample, weight);
        *of_group += weight;
    }

    /// Half of the 95% interval of every number by name; empty if there are too few groups for one.
    pub fn halves(&self, spec: &Spec) -> BTreeMap<String, f64> {
        let spread: Vec<usize> = (0..self.strata.len()).filter(|at| self.strata[*at].has_spread()).collect();
        let groups: usize = self.strata.iter().map(|stratum| stratum.groups.len()).sum();
        let whole = numbers(&self.sum, &self.sum, spec);
        if groups < LEAST_GROUPS {
            return BTreeMap::new();
        }
        if spread.is_empty() {
            // All of it was measured.
            return whole.into_keys().map(|name| (name, 0.0)).collect();
        }
        let mut variances: BTreeMap<String, f64> = BTreeMap::new();
        for at in &spread {
            let mut others = Sample::default();
            for stratum in self.strata.iter().enumerate().filter(|(other, _)| other != at).map(|(_, stratum)| stratum) {
                stratum.groups.iter().for_each(|(group, _)| others.add(group, PART));
            }
            let stratum = &self.strata[*at];
            let n = stratum.groups.len();
            let without = |left_out: usize| {
                let left = stratum.weight - stratum.groups[left_out].1;
                let part = (PART * stratum.weight + left / 2) / left.max(1);
                let mut rest = others.clone();
                let kept = stratum.groups.iter().enumerate().filter(|(group, _)| *group != left_out);
                kept.for_each(|(_, (group, _))| rest.add(group, part));
                numbers(&rest, &self.sum, spec)
            };
            let replicates: Vec<BTreeMap<String, f64>> = (0..n).map(without).collect();
            for name in whole.keys() {
                let values = || replicates.iter().map(|of| of.get(name).copied().unwrap_or(0.0));
                let mean = values().sum::<f64>() / n as f64;
                let squares: f64 = values().map(|value| (value - mean).powi(2)).sum();
                *variances.entry(name.clone()).or_default() += stratum.factor() * squares;
            }
        }
        let freedom: usize = spread.iter().map(|at| self.strata[*at].groups.len() - 1).sum();
        let t = student_t(freedom as f64);
        let half = |(name, variance): (String, f64)| (name, t * variance.sqrt());
        let mut halves: BTreeMap<String, f64> = variances.into_iter().map(half).collect();
        let weight: u64 = self.strata.iter().map(|stratum| stratum.weight).sum();
        for (name, histogram) in self.sum.measured.histograms() {
            let measured = histogram.count() as f64 * self.count as f64 / weight.max(1) as f64;
            for (percentile, share) in PERCENTILES {
                let name = format!("{name}.{percentile}");
                // Of few samples, none may be beyond the percentile: then they say nothing of how far it can be.
                let least = t * (share * (1.0 - share) / measured.max(1.0)).sqrt();
                let of_share = halves.remove(&name).unwrap_or(0.0).max(least);
                halves.extend(half_of_percentile(histogram, share, of_share).map(|half| (name, half)));
            }
        }
        halves
    }
}

/// Half of the 95% interval of a percentile: as far as it is from those of the shares at the ends of the interval
/// around its own. What is within a bucket of the histogram is the same. `None` if an end is beyond all samples.
fn half_of_percentile(histogram: &Histogram, share: f64, half_of_share: f64) -> Option<f64> {
    let own = histogram.percentile(share);
    let (low, high) = (share - half_of_share, share + half_of_share);
    let ends = [low, high].map(|end| histogram.percentile(end).abs_diff(own) as f64);
    (histogram.count() == 0 || (low > 0.0 && high < 1.0)).then_some(ends[0].max(ends[1]))
}

/// Every number of a sample. A sum is what its rate makes of the instructions of `whole`. In the place of a
/// percentile is the share of what is at most as large as that of `whole`.
fn numbers(sample: &Sample, whole: &Sample, spec: &Spec) -> BTreeMap<String, f64> {
    let instructions = |of: &Sample| of.measured.totals.run.instructions.max(1) as f64;
    let scale = instructions(whole) / instructions(sample);
    let Measured { totals, cores, cycles, .. } = &sample.measured;
    let mut all = BTreeMap::from([
        ("ipc".to_owned(), sample.measured.ipc()),
        ("cycles".to_owned(), *cycles as f64 * scale),
        ("accesses".to_owned(), (totals.run.loads + totals.run.stores) as f64 * scale),
    ]);
    for (name, value) in sample.measured.measures(spec, true) {
        all.insert(format!("measures.{name}"), if is_sum(name) { value * scale } else { value });
    }
    all.extend(sample.counts.iter().map(|(name, value)| (name.clone(), *value as f64 * scale)));
    for ((name, own), (_, of_whole)) in sample.measured.histograms().into_iter().zip(whole.measured.histograms()) {
        all.insert(format!("{name}.count"), own.count() as f64 * scale);
        all.insert(format!("{name}.mean"), own.mean());
        for (percentile, share) in PERCENTILES {
            all.insert(format!("{name}.{percentile}"), own.share_up_to(of_whole.percentile(share)));
        }
    }
    for (number, core) in cores.iter().enumerate() {
        let mut put = |name: &str, value: f64| _ = all.insert(format!("cores.{number}.{name}"), value);
        put("instructions", core.instructions as f64 * scale);
        put("cycles", core.cycles as f64 * scale);
        put("ipc", share(core.instructions, core.cycles));
        core.stack().for_each(|(part, cycles)| put(&format!("stack.{part}"), cycles as f64 * scale));
    }
    all
}

/// Whether a measure of [`Measured::measures`] is a sum over the region, and no ratio.
fn is_sum(name: &str) -> bool {
    MEASURES.iter().any(|of| of.name == name && ["events", "nJ"].contains(&of.unit))
}
