//! Latency histograms: exact below 64, then 16 buckets per power of two (each at most 6.3% wide).

use crate::State;

/// A histogram of `u64` samples with exact count, sum, minimum and maximum.
#[derive(Clone, Debug, PartialEq, Eq, State)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

const EXACT: u64 = 64;
const PER_OCTAVE: u64 = 16;
const BUCKETS: usize = (EXACT + (64 - 6) * PER_OCTAVE) as usize;

#[inline(always)]
fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let octave = 63 - u64::from(value.leading_zeros());
    let within = (value >> (octave - 4)) & (PER_OCTAVE - 1);
    (EXACT + (octave - 6) * PER_OCTAVE + within) as usize
}

fn lowest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (octave, within) = ((bucket - EXACT) / PER_OCTAVE + 6, (bucket - EXACT) % PER_OCTAVE);
    (1 << octave) + (within << (octave - 4))
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Adds one sample.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket_of(value)] += 1;
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// A sample that was added as `from` is `to`, which is larger. Nothing changes if it is not among those since
    /// the histogram was last emptied. The minimum stays.
    pub fn raise(&mut self, from: u64, to: u64) {
        let old = &mut self.buckets[bucket_of(from)];
        if *old == 0 {
            return;
        }
        *old -= 1;
        self.buckets[bucket_of(to)] += 1;
        self.sum += to - from;
        self.max = self.max.max(to);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of samples.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The mean, or 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The smallest sample, or 0 without samples.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest sample, or 0 without samples.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The percentile `share` (0 to 1): the lowest value of the bucket that holds the sample of that rank.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return lowest_of(bucket);
            }
        }
        self.max
    }

    /// The share (0 to 1) of the samples that are in the bucket of `value` or in a lower one; 0 without samples.
    pub fn share_up_to(&self, value: u64) -> f64 {
        let up_to: u64 = self.buckets[..=bucket_of(value)].iter().sum();
        if self.count == 0 { 0.0 } else { up_to as f64 / self.count as f64 }
    }

    /// `(lowest value, samples)` of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().filter(|(_, n)| **n > 0).map(|(b, &n)| (lowest_of(b), n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_is_narrow() {
        for value in (0..4096).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let low = lowest_of(bucket_of(value));
            assert!(low <= value, "{value} below its bucket {low}");
            assert!(value - low <= value / 16, "{value} is far above its bucket's {low}");
        }
    }

    #[test]
    fn mean_and_percentiles() {
        let mut h = Histogram::default();
        (1..=100).for_each(|v| h.add(v));
        assert_eq!((h.count(), h.sum(), h.min(), h.max()), (100, 5050, 1, 100));
        assert_eq!(h.percentile(0.5), 50);
        assert_eq!(h.percentile(1.0), 100);
        assert_eq!((h.share_up_to(0), h.share_up_to(30), h.share_up_to(1000)), (0.0, 0.3, 1.0));
        assert_eq!((h.share_up_to(98), h.share_up_to(99)), (0.99, 0.99), "one bucket has 96 to 99");
        assert_eq!(Histogram::default().share_up_to(5), 0.0);
    }
}
