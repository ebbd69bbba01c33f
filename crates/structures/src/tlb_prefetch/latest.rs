//! The latest distances between missing pages.

use super::distance;
use ambulator_base::State;

/// Remembers the page that missed last and the distance that led to it.
#[derive(Clone, Copy, Debug, Default, State)]
pub struct LatestDistances {
    page: Option<u64>,
    distance: Option<i64>,
}

impl LatestDistances {
    /// The distance to `page` from the page that missed before it, and the distance before that one, as far
    /// as there are any.
    pub fn to(&self, page: u64) -> (Option<i64>, Option<i64>) {
        (self.page.map(|before| distance(before, page)), self.distance)
    }

    /// `page` has missed.
    pub fn push(&mut self, page: u64) {
        self.distance = self.to(page).0;
        self.page = Some(page);
    }

    /// Forgets both.
    pub fn clear(&mut self) {
        *self = LatestDistances::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_distances_follow_from_three_pages() {
        let mut latest = LatestDistances::default();
        let mut known = Vec::new();
        for page in [100, 104, 105, 95] {
            known.push(latest.to(page));
            latest.push(page);
        }
        assert_eq!(known, [(None, None), (Some(4), None), (Some(1), Some(4)), (Some(-10), Some(1))]);
        latest.clear();
        assert_eq!(latest.to(95), (None, None));
    }
}
