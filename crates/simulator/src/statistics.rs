//! Statistics of a run other than the counters of its parts: samples at epochs, and the cost of set-up.

use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use crate::series::{Recorder, Series};
use crate::windows::{Point, Windows};
use ambulator_base::State;

/// Instructions of an epoch; occupancies are sampled at its end.
const EPOCH_INSTRUCTIONS: u64 = 1_000_000;

/// Shares of the caches that hold translations, summed over samples at the ends of epochs.
#[derive(Clone, Debug, Default, State)]
pub(crate) struct Occupancies {
    pub samples: u64,
    pub l2: f64,
    pub llc: f64,
}

/// Epochs and set-up.
#[derive(Default, State)]
pub(crate) struct Statistics {
    /// Instructions at which the epoch ends.
    epoch_end: u64,
    occupancies: Occupancies,
    windows: Windows,
    /// `run.interval`; 0 records no series.
    #[state(skip)]
    interval: u64,
    #[state(skip)]
    series: Option<Recorder>,
    setup_faults: u64,
    /// Cycles that the operating system spent on page tables before counting began: memory and upkeep.
    setup_table_cycles: u64,
    /// All of the operating system's cycles before counting began.
    setup_os_cycles: u64,
}

impl Statistics {
    /// Statistics with a series of intervals of `interval` instructions; 0 for none.
    pub fn new(interval: u64) -> Statistics {
        Statistics { interval, ..Statistics::default() }
    }

    /// Counting begins: everything before was set-up, and the first epoch starts.
    pub fn begin_counting(&mut self, os: &OperatingSystem) {
        let (tables, all) = os.cycles_so_far();
        self.setup_table_cycles += tables;
        self.setup_os_cycles += all;
        self.epoch_end = EPOCH_INSTRUCTIONS;
        self.occupancies = Occupancies::default();
        self.windows = Windows::default();
    }

    /// All counters have been set to zero: the series begins.
    pub fn begin_series(&mut self, hw: &Hardware, os: &OperatingSystem) {
        self.series = (self.interval > 0).then(|| Recorder::begin(self.interval, hw, os));
    }

    /// Adds faults of a phase that is not measured.
    pub fn add_setup_faults(&mut self, faults: u64) {
        self.setup_faults += faults;
    }

    /// A window of a sampled region begins: its samples are its own.
    pub fn begin_window(&mut self) {
        self.occupancies = Occupancies::default();
    }

    /// Samples the caches.
    pub fn sample_now(&mut self, hw: &Hardware) {
        let now = occupancies(hw);
        self.occupancies.samples += 1;
        self.occupancies.l2 += now.l2;
        self.occupancies.llc += now.llc;
    }

    /// Samples the caches if an epoch has ended.
    pub fn sample(&mut self, hw: &Hardware) {
        let executed = hw.instructions();
        if executed >= self.epoch_end {
            self.epoch_end = executed + EPOCH_INSTRUCTIONS;
            self.sample_now(hw);
        }
    }

    /// Takes a point of the measured region, if one is due, and of the series. What is in flight counts as far
    /// as it has come: at most a reorder buffer.
    pub fn take_point(&mut self, hw: &Hardware, os: &OperatingSystem) {
        if self.windows.is_due() {
            self.windows.take(Point::of_machine(hw));
        }
        if let Some(series) = &mut self.series {
            series.take_point(hw, os);
        }
    }

    /// The counters over time so far, if `run.interval` asks for them ([`crate::RunResult::series`]).
    pub fn series(&self, hw: &Hardware, os: &OperatingSystem) -> Option<Series> {
        self.series.as_ref().map(|series| series.series(hw, os))
    }

    /// The points of the measured region so far, its end included ([`crate::RunResult::windows`]).
    pub fn windows(&self, hw: &Hardware) -> Vec<Point> {
        self.windows.until(Point::of_machine(hw))
    }

    /// The samples so far; for a run shorter than an epoch, the caches' current state.
    pub fn occupancies(&self, hw: &Hardware) -> Occupancies {
        if self.occupancies.samples > 0 { self.occupancies.clone() } else { occupancies(hw) }
    }

    /// Page faults before counting began.
    pub fn setup_faults(&self) -> u64 {
        self.setup_faults
    }

    /// Cycles of the operating system before counting began: those of page tables, and in total.
    pub fn setup_cycles(&self) -> (u64, u64) {
        (self.setup_table_cycles, self.setup_os_cycles)
    }
}

fn occupancies(hw: &Hardware) -> Occupancies {
    let (l2, llc) = hw.hierarchy.translation_share();
    Occupancies { samples: 1, l2, llc }
}
