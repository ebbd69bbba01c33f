//! k-means with as many clusters as the Bayesian information criterion finds (Pelleg and Moore, ICML 2000),
//! as SimPoint uses both (Sherwood et al., ASPLOS 2002, Sec. 4).

use ambulator_base::Random;

/// Dimensions of a point: SimPoint's 15.
pub(super) const DIMENSIONS: usize = 15;
/// Points from which the centres are found, at most; the others join them.
const MOST_POINTS: usize = 2000;
/// Beginnings that are tried for each number of clusters, and steps from each at most.
const BEGINNINGS: usize = 3;
const STEPS: usize = 40;
/// The least number of clusters counts whose score has this share of the way from the worst to the best.
const SHARE_OF_BEST: f64 = 0.9;

pub(super) type Point = [f64; DIMENSIONS];

fn distance(one: &Point, other: &Point) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The nearest centre to a point, and its squared distance.
fn nearest(point: &Point, centres: &[Point]) -> (usize, f64) {
    let all = centres.iter().enumerate().map(|(at, centre)| (at, distance(point, centre)));
    all.min_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or((0, 0.0))
}

/// Centres that are far apart: each is a point, drawn with its squared distance from the others as its weight
/// (k-means++).
fn begin(points: &[Point], k: usize, random: &mut Random) -> Vec<Point> {
    let mut centres = vec![points[random.below(points.len() as u64) as usize]];
    while centres.len() < k {
        let far: Vec<f64> = points.iter().map(|point| nearest(point, &centres).1).collect();
        let mut left = random.unit() * far.iter().sum::<f64>();
        let drawn = far.iter().position(|distance| {
            left -= distance;
            left < 0.0
        });
        centres.push(points[drawn.unwrap_or(points.len() - 1)]);
    }
    centres
}

/// Lloyd's algorithm: the centres, and the sum of squared distances.
fn improve(points: &[Point], mut centres: Vec<Point>) -> (Vec<Point>, f64) {
    let mut before = f64::MAX;
    for _ in 0..STEPS {
        let mut sums = vec![([0.0; DIMENSIONS], 0.0); centres.len()];
        let mut error = 0.0;
        for point in points {
            let (at, distance) = nearest(point, &centres);
            error += distance;
            sums[at].1 += 1.0;
            sums[at].0.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
        }
        if error >= before * (1.0 - 1e-6) {
            return (centres, error);
        }
        before = error;
        for (centre, (sum, count)) in centres.iter_mut().zip(sums).filter(|(_, (_, count))| *count > 0.0) {
            *centre = sum.map(|sum| sum / count);
        }
    }
    (centres, before)
}

/// The dimensions in which points vary: a projection has more than what it projects. That is the
/// participation ratio of the eigenvalues of their covariance, the square of its trace over the trace of its
/// square.
fn dimensions(points: &[Point]) -> f64 {
    let n = points.len() as f64;
    let mut mean = [0.0; DIMENSIONS];
    points.iter().for_each(|point| mean.iter_mut().zip(point).for_each(|(mean, value)| *mean += value / n));
    let mut covariance = [[0.0; DIMENSIONS]; DIMENSIONS];
    for point in points {
        for (row, a) in covariance.iter_mut().zip(point.iter().zip(&mean).map(|(value, mean)| value - mean)) {
            row.iter_mut().zip(point.iter().zip(&mean)).for_each(|(sum, (value, mean))| *sum += a * (value - mean));
        }
    }
    let trace: f64 = (0..DIMENSIONS).map(|at| covariance[at][at]).sum();
    let squares: f64 = covariance.iter().flatten().map(|value| value * value).sum();
    if squares > 0.0 { trace * trace / squares } else { 1.0 }
}

/// The Bayesian information criterion of clusters of one variance in `d` dimensions: how likely the points
/// are, less what the number of centres costs.
fn score(points: &[Point], centres: &[Point], error: f64, d: f64) -> f64 {
    let (n, k) = (points.len() as f64, centres.len() as f64);
    let mut sizes = vec![0.0; centres.len()];
    points.iter().for_each(|point| sizes[nearest(point, centres).0] += 1.0);
    let variance = (error / (d * (n - k).max(1.0))).max(1e-9);
    let of_sizes: f64 = sizes.iter().filter(|size| **size > 0.0).map(|size| size * (size / n).ln()).sum();
    let likelihood = of_sizes - n * d / 2.0 * (2.0 * std::f64::consts::PI * variance).ln() - d * (n - k) / 2.0;
    likelihood - (k * (d + 1.0)) / 2.0 * n.ln()
}

/// The cluster of each point, of at most `most`; numbered in the order in which they first occur.
pub(super) fn cluster(points: &[Point], most: usize, random: &mut Random) -> Vec<usize> {
    if points.is_empty() {
        return Vec::new();
    }
    let step = points.len().div_ceil(MOST_POINTS);
    let some: Vec<Point> = points.iter().copied().step_by(step).collect();
    let d = dimensions(&some);
    let best_of = |k: usize, random: &mut Random| {
        let tries = (0..BEGINNINGS).map(|_| improve(&some, begin(&some, k, random)));
        tries.min_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or_default()
    };
    let tried: Vec<(Vec<Point>, f64)> = (1..=most.clamp(1, some.len()))
        .map(|k| {
            let (centres, error) = best_of(k, random);
            let score = score(&some, &centres, error, d);
            (centres, score)
        })
        .collect();
    let scores = || tried.iter().map(|(_, score)| *score);
    let (worst, best) = (scores().fold(f64::MAX, f64::min), scores().fold(f64::MIN, f64::max));
    let enough = worst + SHARE_OF_BEST * (best - worst);
    let centres = tried.iter().find(|(_, score)| *score >= enough).map_or(&[][..], |(centres, _)| centres.as_slice());
    let mut numbers: Vec<Option<usize>> = vec![None; centres.len()];
    let mut used = 0;
    let mut number = |centre: usize| {
        *numbers[centre].get_or_insert_with(|| {
            used += 1;
            used - 1
        })
    };
    points.iter().map(|point| number(nearest(point, centres).0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points around centres, in turn.
    fn around(centres: &[f64], count: usize, spread: f64) -> Vec<Point> {
        let mut random = Random::new(7);
        let point = |at: usize| {
            std::array::from_fn(|dimension| {
                let centre = centres[at % centres.len()] * if dimension % 2 == 0 { 1.0 } else { -0.5 };
                centre + spread * (random.unit() + random.unit() - 1.0)
            })
        };
        (0..count).map(point).collect()
    }

    #[test]
    fn as_many_clusters_are_found_as_there_are() {
        for centres in [&[0.0][..], &[0.0, 9.0], &[0.0, 9.0, 30.0], &[0.0, 9.0, 30.0, 60.0, 100.0]] {
            let points = around(centres, 300, 1.0);
            let clusters = cluster(&points, 10, &mut Random::new(1));
            let right: Vec<usize> = (0..300).map(|at| at % centres.len()).collect();
            assert_eq!(clusters, right, "{} clusters", centres.len());
        }
    }

    #[test]
    fn noise_along_one_line_is_one_cluster() {
        let mut random = Random::new(3);
        let line: Vec<Point> = (0..400).map(|_| [random.unit(); DIMENSIONS]).collect();
        assert!((dimensions(&line) - 1.0).abs() < 1e-6);
        assert_eq!(cluster(&line, 10, &mut Random::new(1)), [0; 400]);
        assert!(dimensions(&around(&[0.0], 400, 1.0)) > 12.0);
    }

    #[test]
    fn few_points_and_equal_points_are_clusters_too() {
        assert!(cluster(&[], 5, &mut Random::new(1)).is_empty());
        assert_eq!(cluster(&[[1.0; DIMENSIONS]], 5, &mut Random::new(1)), [0]);
        assert_eq!(cluster(&[[1.0; DIMENSIONS]; 40], 5, &mut Random::new(1)), [0; 40]);
        let many = around(&[0.0, 50.0], 5000, 1.0);
        let clusters = cluster(&many, 6, &mut Random::new(1));
        assert!(clusters.iter().enumerate().all(|(at, cluster)| *cluster == at % 2), "those left out join");
    }
}
