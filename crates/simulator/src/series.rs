//! The counters of the measured region over time: what each interval of `run.interval` instructions added.

use crate::counter_index::CounterIndex;
use crate::hardware::Hardware;
use crate::os_events::OperatingSystem;
use crate::report::report_counters;
use ambulator_base::{CounterDef, CounterSink, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Intervals that are kept at most.
const MOST_INTERVALS: usize = 4096;

/// The counters of the measured region over time ([`crate::RunResult::series`]). All lists have one element
/// an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Instructions of an interval, all cores together: `run.interval`, doubled whenever there would be more
    /// than 4096 intervals. An interval ends within some thousand accesses after a multiple of it; the last
    /// one ends with the region.
    pub interval: u64,
    /// Instructions of all cores since the region began, at the end of each interval.
    pub instructions: Vec<u64>,
    /// Cycles since the region began, on the core that takes longest, at the end of each interval; 0 in
    /// functional mode.
    pub cycles: Vec<u64>,
    /// What each counter that changes in the region has added in each interval. With `before`, the sum is the
    /// run's counter.
    pub counters: BTreeMap<String, Vec<u64>>,
    /// Of these, the values at the region's begin that are not 0: counters of placements and tables count
    /// from the machine's start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<String, u64>,
    /// States at the end of each interval that are not always 0: counters that are gauges
    /// ([`crate::CounterMeaning::gauge`]), without those for which whole tables must be read; and of the
    /// measures, as `measures.NAME`: `table_bytes`, `pages_mapped`, and, as they are at that moment,
    /// `l2_translation_share` and `llc_translation_share`.
    pub gauges: BTreeMap<String, Vec<f64>>,
}

/// A counter at all points: at the region's begin, and at the end of each interval.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    gauge: bool,
    /// Its value at the point that is being taken, summed over cores.
    now: u64,
    values: Vec<u64>,
}

/// Columns, and where each counter's is.
#[derive(Clone, Debug, Default)]
struct Columns {
    columns: Vec<Column>,
    index: CounterIndex,
    /// Times mean nothing: functional mode.
    without_time: bool,
    points: usize,
}

impl Columns {
    /// The column of the counter that is reported now.
    fn find(&mut self, prefix: &str, def: &'static CounterDef) -> usize {
        let (column, new) = self.index.find(prefix, def);
        if let Some(name) = new {
            self.columns.push(Column { name, gauge: def.gauge, now: 0, values: vec![0; self.points] });
        }
        column
    }

    /// Takes a point of everything that `report` reports.
    fn take(&mut self, report: impl FnOnce(&mut Columns)) {
        self.index.begin();
        report(self);
        for column in &mut self.columns {
            column.values.push(std::mem::take(&mut column.now));
        }
        self.points += 1;
    }
}

impl CounterSink for Columns {
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64) {
        let column = self.find(prefix, def);
        let is_time = def.timed && def.unit == Unit::Cycles;
        self.columns[column].now += if self.without_time && is_time { 0 } else { value };
    }
}

/// States that are measures, in the order of their values in [`Recorder`].
const MEASURED: [&str; 4] = [
    "measures.table_bytes",
    "measures.pages_mapped",
    "measures.l2_translation_share",
    "measures.llc_translation_share",
];

/// Records the series of a run.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    interval: u64,
    /// Instructions at which the interval ends.
    end: u64,
    /// Instructions and cycles at the end of each interval.
    ends: Vec<(u64, u64)>,
    columns: Columns,
    measured: Vec<[f64; 4]>,
}

impl Recorder {
    /// A recorder for intervals of `interval` instructions, at the region's begin. Counters have just been
    /// set to zero.
    pub fn begin(interval: u64, hw: &Hardware, os: &OperatingSystem) -> Recorder {
        let mut columns = Columns { without_time: !hw.timing(), ..Columns::default() };
        columns.take(|sink| report_counters(hw, os, sink));
        Recorder { interval, end: interval, ends: Vec::new(), columns, measured: Vec::new() }
    }

    /// Ends the interval if it is over.
    #[inline]
    pub fn take_point(&mut self, hw: &Hardware, os: &OperatingSystem) {
        let executed = hw.instructions();
        if executed >= self.end {
            self.take((executed, hw.measured_cycles()), measured(hw, os), |sink| report_counters(hw, os, sink));
        }
    }

    fn take(&mut self, end: (u64, u64), measured: [f64; 4], report: impl FnOnce(&mut Columns)) {
        self.ends.push(end);
        self.measured.push(measured);
        self.columns.take(report);
        if self.ends.len() == MOST_INTERVALS {
            self.merge();
        }
        self.end = (end.0 / self.interval + 1) * self.interval;
    }

    /// Merges each two intervals.
    fn merge(&mut self) {
        self.interval *= 2;
        keep_every_second(&mut self.ends);
        keep_every_second(&mut self.measured);
        for column in &mut self.columns.columns {
            let begin = column.values.remove(0);
            keep_every_second(&mut column.values);
            column.values.insert(0, begin);
        }
        self.columns.points = self.ends.len() + 1;
    }

    /// The series so far; the last interval ends now.
    pub fn series(&self, hw: &Hardware, os: &OperatingSystem) -> Series {
        let mut all = self.clone();
        let end = (hw.instructions(), hw.measured_cycles());
        if all.ends.last().is_some_and(|(instructions, _)| *instructions == end.0) {
            // Nothing has run since, but what was under way may have ended.
            all.remove_last();
        }
        all.take(end, measured(hw, os), |sink| report_counters(hw, os, sink));
        all.into_series()
    }

    fn remove_last(&mut self) {
        self.ends.pop();
        self.measured.pop();
        self.columns.columns.iter_mut().for_each(|column| column.values.truncate(self.ends.len() + 1));
        self.columns.points = self.ends.len() + 1;
    }

    fn into_series(self) -> Series {
        let mut series = Series { interval: self.interval, ..Series::default() };
        (series.instructions, series.cycles) = self.ends.into_iter().unzip();
        for Column { name, gauge, mut values, .. } in self.columns.columns {
            if gauge {
                let values: Vec<f64> = values.into_iter().skip(1).map(|value| value as f64).collect();
                put_gauge(&mut series, name, values);
                continue;
            }
            // Some counts are taken back: of commands that main memory planned and plans again, of processes
            // that exit. They count where they are never taken back any more.
            let mut least = u64::MAX;
            for value in values.iter_mut().rev() {
                least = least.min(*value);
                *value = least;
            }
            let added: Vec<u64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
            if added.iter().any(|added| *added > 0) {
                if values[0] > 0 {
                    series.before.insert(name.clone(), values[0]);
                }
                series.counters.insert(name, added);
            }
        }
        for (at, name) in MEASURED.into_iter().enumerate() {
            let values = self.measured.iter().map(|values| values[at]).collect();
            put_gauge(&mut series, name.to_owned(), values);
        }
        series
    }
}

fn put_gauge(series: &mut Series, name: String, values: Vec<f64>) {
    if values.iter().any(|value| *value != 0.0) {
        series.gauges.insert(name, values);
    }
}

/// Keeps the second, the fourth, and so on.
fn keep_every_second<T>(list: &mut Vec<T>) {
    let mut number = 0;
    list.retain(|_| {
        number += 1;
        number % 2 == 0
    });
}

/// The values of [`MEASURED`].
fn measured(hw: &Hardware, os: &OperatingSystem) -> [f64; 4] {
    let footprint = os.kernel().total_table_footprint();
    let (l2, llc) = hw.hierarchy.translation_share();
    [footprint.bytes as f64, footprint.entries as f64, l2, llc]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Counters;

    ambulator_base::counters! {
        /// Counters.
        struct Counted {
            /// Events.
            events: Events,
            /// Events that are taken back.
            planned: Events,
            /// Events that do not happen.
            nothing: Events,
            /// A state.
            state: Bytes gauge,
        }
    }

    fn recorder(interval: u64) -> Recorder {
        let mut columns = Columns::default();
        columns.take(|sink| Counted { events: 5, planned: 2, ..Counted::default() }.report("a", sink));
        Recorder { interval, end: interval, ends: Vec::new(), columns, measured: Vec::new() }
    }

    fn take(recorder: &mut Recorder, instructions: u64, counted: Counted) {
        // Two cores add up.
        recorder.take((instructions, 2 * instructions), [0.0, 1.0, 0.0, 0.0], |sink| {
            counted.report("a", sink);
            Counted { events: 1, ..Counted::default() }.report("a", sink);
        });
    }

    #[test]
    fn increments_and_the_begin_add_up_to_the_last_value() {
        let mut recorder = recorder(100);
        for (instructions, events, planned, state) in [(103, 9, 12, 40), (200, 9, 10, 30), (250, 11, 11, 7)] {
            take(&mut recorder, instructions, Counted { events, planned, state, ..Counted::default() });
        }
        let series = recorder.into_series();
        assert_eq!(series.instructions, [103, 200, 250]);
        assert_eq!(series.cycles, [206, 400, 500]);
        assert_eq!(series.counters["a.events"], [5, 0, 2], "the first is 10 - 5");
        assert_eq!(series.counters["a.planned"], [8, 0, 1], "12 became 10");
        assert_eq!(series.before, [("a.events".to_owned(), 5), ("a.planned".to_owned(), 2)].into());
        assert_eq!(series.gauges["a.state"], [40.0, 30.0, 7.0]);
        let names: Vec<&String> = series.gauges.keys().chain(series.counters.keys()).collect();
        assert_eq!(names, ["a.state", "measures.pages_mapped", "a.events", "a.planned"]);
    }

    #[test]
    fn long_runs_have_longer_intervals_and_nothing_is_lost() {
        let mut recorder = recorder(10);
        let mut executed = 0;
        while executed < 3 * 10 * MOST_INTERVALS as u64 {
            executed += 7;
            if executed >= recorder.end {
                take(&mut recorder, executed, Counted { events: executed, state: executed, ..Counted::default() });
            }
        }
        take(&mut recorder, executed, Counted { events: executed, ..Counted::default() });
        let series = recorder.into_series();
        assert_eq!(series.interval, 40);
        let points = series.instructions.len();
        assert!((MOST_INTERVALS / 2..MOST_INTERVALS).contains(&points), "{points}");
        assert!(series.instructions.windows(2).rev().skip(1).all(|pair| (34..=46).contains(&(pair[1] - pair[0]))));
        let added = &series.counters["a.events"];
        assert_eq!((added.len(), added.iter().sum::<u64>() + 5), (points, executed + 1));
        assert_eq!(series.gauges["a.state"].len(), points);
    }

    #[test]
    fn a_counter_that_appears_late_was_zero_before() {
        let mut recorder = recorder(100);
        take(&mut recorder, 100, Counted { events: 5, ..Counted::default() });
        recorder.take((200, 0), [0.0; 4], |sink| {
            Counted { events: 3, ..Counted::default() }.report("new", sink);
            Counted { events: 8, ..Counted::default() }.report("a", sink);
        });
        let series = recorder.into_series();
        assert_eq!(series.counters["a.events"], [1, 2]);
        assert_eq!(series.counters["new.events"], [0, 3]);
    }
}
