//! Functional mode: what is counted where no time passes.

use super::CoreWindow;
use ambulator_base::{Record, RecordKind};

impl CoreWindow {
    /// Counts what needs no time. Branches train the predictor.
    #[inline(always)]
    pub fn count(&mut self, record: &Record) {
        self.counters.instructions += record.instructions();
        match record.kind {
            RecordKind::Load => self.counters.loads += 1,
            RecordKind::Store => self.counters.stores += 1,
            RecordKind::BranchNotTaken | RecordKind::BranchTaken => {
                self.resolve(record);
            }
            RecordKind::Fetch => {}
        }
    }

    /// A branch trains the predictor. Its instructions are counted with others'
    /// ([`CoreWindow::count_all`]).
    #[inline(always)]
    pub fn train(&mut self, record: &Record) {
        self.resolve(record);
    }

    /// Counts instructions, and the loads and stores among them.
    #[inline(always)]
    pub fn count_all(&mut self, instructions: u64, loads: u64, stores: u64) {
        self.counters.instructions += instructions;
        self.counters.loads += loads;
        self.counters.stores += stores;
    }

    /// Counts an event that serialises.
    pub fn count_serialization(&mut self) {
        self.counters.serializations += 1;
    }
}
