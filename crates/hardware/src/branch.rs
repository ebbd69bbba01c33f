//! Branch direction predictors.

use crate::{CoreSpec, PredictorKind};
use ambulator_base::{State, VirtAddr};

/// A predictor of branch directions: two-bit saturating counters.
#[derive(Clone, Debug, State)]
pub struct BranchPredictor {
    #[state(skip)]
    kind: PredictorKind,
    counters: Box<[u8]>,
    history: u64,
}

const WEAKLY_TAKEN: u8 = 2;
const STRONGLY_TAKEN: u8 = 3;

impl BranchPredictor {
    /// A predictor with every counter at "weakly taken".
    pub fn new(spec: &CoreSpec) -> BranchPredictor {
        let entries = if spec.predictor == PredictorKind::Perfect { 1 } else { spec.predictor_entries.max(1) as usize };
        BranchPredictor {
            kind: spec.predictor,
            counters: vec![WEAKLY_TAKEN; entries.next_power_of_two()].into_boxed_slice(),
            history: 0,
        }
    }

    /// Predicts the branch at `pc`, trains on its outcome, and returns whether the prediction was correct.
    #[inline]
    pub fn resolve(&mut self, pc: VirtAddr, taken: bool) -> bool {
        let history = match self.kind {
            PredictorKind::Perfect => return true,
            PredictorKind::Bimodal => 0,
            PredictorKind::Gshare => self.history,
        };
        // Instructions have at least one byte: the lowest bits matter too.
        let index = (pc.0 ^ (pc.0 >> 16) ^ history) as usize & (self.counters.len() - 1);
        let counter = &mut self.counters[index];
        let right = (*counter >= WEAKLY_TAKEN) == taken;
        *counter = if taken { (*counter + 1).min(STRONGLY_TAKEN) } else { counter.saturating_sub(1) };
        self.history = self.history << 1 | u64::from(taken);
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(kind: PredictorKind, outcomes: impl Iterator<Item = bool>) -> usize {
        let mut predictor = BranchPredictor::new(&CoreSpec { predictor: kind, ..CoreSpec::default() });
        outcomes.filter(|&taken| !predictor.resolve(VirtAddr(0x40_1000), taken)).count()
    }

    #[test]
    fn bimodal_mispredicts_a_loop_branch_once_a_round_and_gshare_learns_it() {
        let outcomes = || (0..8000).map(|i| i % 8 != 7);
        assert_eq!(wrong(PredictorKind::Bimodal, outcomes()), 1000);
        assert!(wrong(PredictorKind::Gshare, outcomes()) < 40);
        assert_eq!(wrong(PredictorKind::Perfect, outcomes()), 0);
    }
}
