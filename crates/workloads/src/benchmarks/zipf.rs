//! Zipf's law: the `k`-th most popular of `n` items has a probability proportional to a negative power of
//! `k`.

use ambulator_base::Random;

/// A sampler by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 1996): constant time and no tables.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    exponent: f64,
    /// The integral of the density from 1 to 1.5, less 1; and to n + 0.5.
    least: f64,
    greatest: f64,
    squeeze: f64,
}

impl Zipf {
    /// A sampler of `n` items, with an exponent above 0.
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { n: n.max(1) as f64, exponent, least: 0.0, greatest: 0.0, squeeze: 0.0 };
        zipf.least = zipf.integral(1.5) - 1.0;
        zipf.greatest = zipf.integral(zipf.n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-exponent));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        // (x^(1-e) - 1) / (1 - e), which tends to ln x.
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { power.exp_m1() / power * log }
    }

    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        if t.abs() < 1e-8 { (x * (1.0 - t / 2.0)).exp() } else { (t.ln_1p() / t * x).exp() }
    }

    /// A number from 0 to `n - 1`; 0 is the most likely.
    pub fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.greatest + random.unit() * (self.least - self.greatest);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - k.powf(-self.exponent) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        for (n, exponent) in [(10, 0.5), (1000, 0.99), (1000, 1.0), (50, 2.0)] {
            let zipf = Zipf::new(n, exponent);
            let mut random = Random::new(7);
            let draws = 400_000;
            let mut counts = vec![0u32; n as usize];
            for _ in 0..draws {
                counts[zipf.sample(&mut random) as usize] += 1;
            }
            let sum: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
            for k in [1, 2, 3, 10, n] {
                let expected = f64::from(draws) * (k as f64).powf(-exponent) / sum;
                let got = f64::from(counts[k as usize - 1]);
                assert!(
                    (got - expected).abs() < 5.0 * expected.sqrt() + 3.0,
                    "{n} {exponent} {k}: {got} for {expected}"
                );
            }
        }
    }
}
