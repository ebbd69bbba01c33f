//! Where the series of two runs part (`run.interval`): interval by interval, by the same rules as their
//! numbers.

use crate::grid::{Entry, Grid, Head};
use crate::interval::Spread;
use crate::number::count;
use crate::row::Column;
use ambulator_simulator::Series;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The name of the series that is shown first, whatever has moved most.
const CYCLES: &str = "cycles";
/// What counters of an interval are relative to: instructions.
const PER: f64 = 1000.0;

/// A number over time that moved.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parted {
    /// The counter, the state (`measures.NAME`), or `cycles`.
    pub name: String,
    /// Its unit, if that is known; counters and cycles are for each 1000 instructions.
    pub unit: String,
    /// Intervals in which it moved.
    pub moved: usize,
    /// Instructions of the measured region before the first of them.
    pub first_at: u64,
    /// Instructions of the measured region before the one in which it moved most.
    pub most_at: u64,
    /// In that interval, in the first run; over seeds the mean.
    pub a: f64,
    /// In the second.
    pub b: f64,
    /// Percent of the first; `None` where that is 0.
    pub change: Option<f64>,
}

/// Two runs over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OverTime {
    /// Instructions of an interval; of the longer ones, where those of the runs differ.
    pub interval: u64,
    /// Intervals that both have.
    pub intervals: usize,
    /// Numbers that both have over time.
    pub compared: usize,
    /// Those that moved in some interval: cycles first, then the largest relative change.
    pub parted: Vec<Parted>,
}

/// By name: a value for each interval.
type Rates = BTreeMap<String, Vec<f64>>;

impl OverTime {
    /// Of runs over seeds, which have one series each. `None` without series, or if the intervals of one are
    /// not whole multiples of the other's. `has_moved` judges the values of an interval, by seed.
    pub fn of(
        a: &[Series],
        b: &[Series],
        columns: &BTreeMap<String, Column>,
        has_moved: impl Fn(&[f64], &[f64]) -> bool,
    ) -> Option<OverTime> {
        let all = || a.iter().chain(b);
        let interval = all().map(|series| series.interval).max()?;
        if a.is_empty() || b.is_empty() || all().any(|of| of.interval == 0 || !interval.is_multiple_of(of.interval)) {
            return None;
        }
        let rates = |of: &[Series]| of.iter().map(|series| rates(series, interval)).collect::<Vec<Rates>>();
        let (one, other) = (rates(a), rates(b));
        let intervals = one.iter().chain(&other).filter_map(|of| of.get(CYCLES).map(Vec::len)).min()?;
        let names: BTreeSet<&String> = one.iter().chain(&other).flat_map(BTreeMap::keys).collect();
        let parts = |name: &&String| part(name, [&one, &other], intervals, interval, &has_moved);
        let mut parted: Vec<Parted> = names.iter().filter_map(parts).collect();
        for of in &mut parted {
            let is_state = all().any(|series| series.gauges.contains_key(&of.name));
            of.unit = unit(&of.name, is_state, columns);
        }
        let size = |of: &Parted| (of.name == CYCLES, relative(of.a, of.b), (of.a - of.b).abs());
        parted.sort_by(|one, other| {
            let ((first, share, size), (second, other_share, other_size)) = (size(one), size(other));
            second.cmp(&first).then(other_share.total_cmp(&share)).then(other_size.total_cmp(&size))
        });
        Some(OverTime { interval, intervals, compared: names.len(), parted })
    }

    /// The first `most` that moved, as a table.
    pub fn grid(&self, most: usize) -> Grid {
        let mut head = vec![Head::text("over time"), Head::text("first at"), Head::text("most at")];
        head.extend(["A", "B", "change, %"].map(|name| Head::number(name, None)));
        let number = |mean| Entry::Number(Spread { mean, half: None, seeds: 1 });
        let row = |of: &Parted| {
            let at = [of.first_at, of.most_at].map(|at| Entry::Text(count(at as f64)));
            let mut row = vec![Entry::Text(of.name.clone())];
            row.extend(at);
            row.extend([number(of.a), number(of.b), of.change.map_or(Entry::Missing, number)]);
            row
        };
        Grid { head, rows: self.parted.iter().take(most).map(row).collect() }
    }

    /// What the table is about, in a sentence.
    pub fn summary(&self) -> String {
        format!(
            "Over time: {} of {} numbers moved in some of {} intervals of {} instructions. Places are instructions of the \
             measured region; counters are for each {PER} instructions.",
            self.parted.len(),
            self.compared,
            self.intervals,
            count(self.interval as f64)
        )
    }
}

/// The values of a series in intervals of that length: of counters for each 1000 instructions, of states at
/// the end. What was not counted is 0.
fn rates(series: &Series, interval: u64) -> Rates {
    let together = (interval / series.interval.max(1)).max(1) as usize;
    // Without a begin, the first interval begins at 0.
    let ends = |of: &[u64]| of.chunks(together).filter_map(|chunk| chunk.last().copied()).collect::<Vec<u64>>();
    let steps = |of: &[u64]| {
        let ends = ends(of);
        let begins = std::iter::once(0).chain(ends.iter().copied());
        begins.zip(&ends).map(|(begin, end)| end.saturating_sub(begin) as f64).collect::<Vec<f64>>()
    };
    let instructions = steps(&series.instructions);
    let per = |values: Vec<f64>| {
        let of =
            |(value, instructions): (f64, &f64)| if *instructions > 0.0 { PER * value / instructions } else { 0.0 };
        values.into_iter().zip(&instructions).map(of).collect::<Vec<f64>>()
    };
    let sums = |of: &[u64]| of.chunks(together).map(|chunk| chunk.iter().sum::<u64>() as f64).collect::<Vec<f64>>();
    let states = |of: &[f64]| of.chunks(together).filter_map(|chunk| chunk.last().copied()).collect::<Vec<f64>>();
    let mut all: Rates = series.counters.iter().map(|(name, values)| (name.clone(), per(sums(values)))).collect();
    all.extend(series.gauges.iter().map(|(name, values)| (name.clone(), states(values))));
    all.insert(CYCLES.to_owned(), per(steps(&series.cycles)));
    all
}

/// Where one number parts; `None` if it does not.
fn part(
    name: &str,
    [one, other]: [&Vec<Rates>; 2],
    intervals: usize,
    interval: u64,
    has_moved: &impl Fn(&[f64], &[f64]) -> bool,
) -> Option<Parted> {
    let values = |of: &[Rates], at: usize| {
        of.iter().map(|rates| rates.get(name).and_then(|of| of.get(at)).copied().unwrap_or(0.0)).collect::<Vec<f64>>()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut found: Option<Parted> = None;
    for at in 0..intervals {
        let (of_one, of_other) = (values(one, at), values(other, at));
        let (a, b) = (mean(&of_one), mean(&of_other));
        // A share of nothing is none.
        if a.is_nan() || b.is_nan() || a == b || !has_moved(&of_one, &of_other) {
            continue;
        }
        let place = at as u64 * interval;
        let parted = found.get_or_insert_with(|| Parted {
            name: name.to_owned(),
            unit: String::new(),
            moved: 0,
            first_at: place,
            most_at: place,
            a,
            b,
            change: None,
        });
        parted.moved += 1;
        if (a - b).abs() > (parted.a - parted.b).abs() {
            (parted.a, parted.b, parted.most_at) = (a, b, place);
        }
        parted.change = (parted.a != 0.0).then(|| 100.0 * (parted.b - parted.a) / parted.a.abs());
    }
    found
}

/// The unit of a number of the series, by the columns of rows.
fn unit(name: &str, is_state: bool, columns: &BTreeMap<String, Column>) -> String {
    let of = |column: &str| columns.get(column).map(|column| column.unit.clone());
    let kind = if is_state { "series.gauges" } else { "series.counters" };
    let Some(unit) = of(&format!("{kind}.{name}")).or_else(|| of(name)) else { return String::new() };
    if is_state { unit } else { format!("{unit} per {PER} instructions") }
}

/// The change relative to the larger of two numbers, 0 to 2.
pub(crate) fn relative(a: f64, b: f64) -> f64 {
    let larger = a.abs().max(b.abs());
    if larger > 0.0 { (b - a).abs() / larger } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of so many cycles and walks for each interval of 1000 instructions.
    fn series(interval: u64, cycles: &[u64], walks: &[u64]) -> Series {
        let mut at = 0;
        let sums: Vec<u64> = cycles
            .iter()
            .map(|more| {
                at += more;
                at
            })
            .collect();
        Series {
            interval,
            instructions: (1..=cycles.len() as u64).map(|number| number * interval).collect(),
            cycles: sums,
            counters: [("mmu.walks".to_owned(), walks.to_vec())].into(),
            gauges: [("measures.table_bytes".to_owned(), walks.iter().map(|_| 4096.0).collect())].into(),
            ..Series::default()
        }
    }

    fn over(a: &[Series], b: &[Series]) -> Option<OverTime> {
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| relative(*a, *b) > 0.01);
        OverTime::of(a, b, &crate::row::columns(), apart)
    }

    #[test]
    fn the_first_interval_that_moved_and_the_largest_movement_are_named() {
        let a = series(1000, &[100, 100, 100, 100], &[5, 5, 5, 5]);
        let b = series(1000, &[100, 100, 80, 300], &[5, 4, 5, 5]);
        let found = over(std::slice::from_ref(&a), &[b]).unwrap();
        assert_eq!((found.interval, found.intervals, found.compared), (1000, 4, 3));
        let of =
            |name: &str| found.parted.iter().find(|of| of.name == name).map(|of| (of.first_at, of.most_at, of.moved));
        assert_eq!((found.parted[0].name.as_str(), found.parted.len()), ("cycles", 2));
        assert_eq!((of("cycles"), of("mmu.walks")), (Some((2000, 3000, 2)), Some((1000, 1000, 1))));
        assert_eq!((found.parted[0].a, found.parted[0].b, found.parted[0].change), (100.0, 300.0, Some(200.0)));
        assert_eq!(found.parted[0].unit, "cycles per 1000 instructions");
        assert!(found.grid(1).csv().contains("cycles,2000,3000,100,300,200"), "{}", found.grid(1).csv());
        assert!(over(std::slice::from_ref(&a), std::slice::from_ref(&a)).unwrap().parted.is_empty());
    }

    #[test]
    fn intervals_of_other_lengths_are_put_together() {
        let fine = series(1000, &[100, 100, 300, 300], &[1, 2, 3, 4]);
        let coarse = series(2000, &[200, 600], &[3, 7]);
        let found = over(std::slice::from_ref(&fine), &[coarse]).unwrap();
        assert_eq!((found.interval, found.intervals, found.parted), (2000, 2, vec![]));
        let walks = over(std::slice::from_ref(&fine), &[series(2000, &[200, 600], &[3, 14])]).unwrap().parted.remove(0);
        assert_eq!((walks.name.as_str(), walks.first_at, walks.a, walks.b), ("mmu.walks", 2000, 3.5, 7.0));
        assert!(over(std::slice::from_ref(&fine), &[series(1500, &[1], &[1])]).is_none(), "3 of these are 2 of those");
        assert!(over(std::slice::from_ref(&fine), &[]).is_none());
        assert_eq!(
            over(std::slice::from_ref(&fine), &[series(1000, &[100], &[1])]).unwrap().intervals,
            1,
            "what both have"
        );
    }

    #[test]
    fn over_seeds_values_are_judged_together() {
        let one = series(1000, &[100, 100], &[5, 5]);
        let other = |cycles| series(1000, &[100, cycles], &[5, 5]);
        assert!(over(&[one.clone(), one.clone()], &[other(100), other(200)]).unwrap().parted.is_empty());
        let both = over(&[one.clone(), one], &[other(300), other(200)]).unwrap().parted;
        assert_eq!((both[0].b, both[0].first_at), (250.0, 1000));
    }
}
