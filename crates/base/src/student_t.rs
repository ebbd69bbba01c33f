//! Student's t distribution.

/// The 97.5% quantile of Student's t with `freedom` degrees of freedom, a whole number from 1 on: from the
/// table below 9, and from there the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5), exact to
/// three digits.
pub fn student_t(freedom: f64) -> f64 {
    /// Abramowitz and Stegun, table 26.10.
    const SMALL: [f64; 8] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];
    if freedom < 9.0 {
        return SMALL[(freedom.max(1.0) as usize - 1).min(SMALL.len() - 1)];
    }
    let z: f64 = 1.959_964;
    let g1 = (z.powi(3) + z) / 4.0;
    let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + g1 / freedom + g2 / freedom.powi(2) + g3 / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_t_is_that_of_the_tables() {
        for (freedom, quantile) in
            [(1.0, 12.706), (4.0, 2.776), (8.0, 2.306), (9.0, 2.262), (19.0, 2.093), (29.0, 2.045), (1e9, 1.960)]
        {
            assert!((student_t(freedom) - quantile).abs() < 0.001, "{freedom}: {}", student_t(freedom));
        }
    }
}
