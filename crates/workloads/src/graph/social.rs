//! Graphs like a social network's, with communities: degrees vary less than a Kronecker graph's, and most
//! edges are local.
//!
//! After the LDBC Social Network Benchmark's generator (Erling et al., SIGMOD 2015, Sec. 2.3), simplified.
//! Each person has a target degree from a bounded heavy-tailed distribution. Persons are ordered by place of
//! study, by interests, and at random; 45%, 45% and 10% of a person's edges are drawn in these orders, with a
//! probability that falls geometrically with the distance. The generator's degrees are those of Facebook
//! (Ugander et al., 2011); here they follow a bounded Pareto distribution with the same mean, from an eighth
//! of it to fifty times it.

use super::kronecker::GraphSpec;
use crate::permutation::Permutation;
use ambulator_base::Random;

/// Shares of edges in the two orders by similarity; the rest are random.
const SHARES: [f64; 2] = [0.45, 0.45];
/// Mean distance of the two ends of an edge in an order.
const NEAR: f64 = 64.0;
/// Shape of the degrees' distribution, and its ends as multiples of the mean.
const SHAPE: f64 = 1.1;
const LEAST: f64 = 0.125;
const MOST: f64 = 50.0;

/// A degree's share of the mean: a bounded Pareto variate, not yet scaled.
fn variate(random: &mut Random) -> f64 {
    let (low, high) = (LEAST.powf(SHAPE), MOST.powf(SHAPE));
    let u = random.unit();
    ((high - u * (high - low)) / (high * low)).powf(-1.0 / SHAPE)
}

/// Mean of [`variate`].
fn mean() -> f64 {
    let ratio = LEAST.powf(SHAPE) / (1.0 - (LEAST / MOST).powf(SHAPE));
    ratio * SHAPE / (SHAPE - 1.0) * (LEAST.powf(1.0 - SHAPE) - MOST.powf(1.0 - SHAPE))
}

/// Passes the edges to `edge` in the order in which persons are generated, which is always the same.
pub fn for_each_edge(spec: &GraphSpec, vertices: u64, seed: u64, mut edge: impl FnMut(u32, u32)) {
    let labels = Permutation::new(vertices, seed, "vertex labels");
    // A place in the second order for each in the first, and back by the same permutation of places.
    let interests = Permutation::new(vertices, seed, "interests");
    let mut random = Random::for_purpose(seed, "social edges");
    let scale = f64::from(spec.edge_factor) / mean();
    for place in 0..vertices {
        let wanted = variate(&mut random) * scale;
        let count = wanted as u64 + u64::from(random.chance(wanted.fract()));
        for _ in 0..count {
            let draw = random.unit();
            let step = 1 + (-(1.0 - random.unit()).ln() * NEAR) as u64;
            let other = if draw < SHARES[0] {
                (place + step) % vertices
            } else if draw < SHARES[0] + SHARES[1] {
                // Similar interests: persons whose images are adjacent.
                interests.of((interests.of(place) + step) % vertices)
            } else {
                random.below(vertices)
            };
            edge(labels.of(place) as u32, labels.of(other) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_have_their_mean_and_a_tail_and_most_edges_are_local() {
        let spec = GraphSpec { edge_factor: 16, ..GraphSpec::default() };
        let n = 1 << 14;
        let labels = Permutation::new(n, 5, "vertex labels");
        let mut place = vec![0u64; n as usize];
        (0..n).for_each(|i| place[labels.of(i) as usize] = i);
        let (mut made, mut degrees, mut near) = (0u64, vec![0u64; n as usize], 0u64);
        for_each_edge(&spec, n, 5, |u, v| {
            made += 1;
            degrees[u as usize] += 1;
            near += u64::from(place[u as usize].abs_diff(place[v as usize]) < 300);
        });
        let average = made as f64 / n as f64;
        assert!((average - 16.0).abs() < 1.5, "{average}");
        assert!(degrees.iter().max().unwrap() > &150, "a tail: {:?}", degrees.iter().max());
        let few = degrees.iter().filter(|d| **d < 4).count() as f64 / n as f64;
        assert!((0.03..0.6).contains(&few), "{few} have few");
        let share = near as f64 / made as f64;
        assert!((0.43..0.52).contains(&share), "{share} of the edges are near in the first order");
    }
}
