//! Rows of means over seeds: each number beside half of the width of its 95% interval.

use crate::interval::{Spread, whole_mean};
use crate::row::{CellInfo, Column, HOST, Row, SET, row_of};
use ambulator_simulator::RunResult;
use serde_json::{Number, Value};

/// What the name of such a column ends with, after that of its number; CSV has the same.
pub const HALF: &str = " ±";
/// The column with the number of seeds.
pub const SEEDS: &str = "seeds";
/// Numbers that are the same with every seed, that name it, or that count all seeds together.
const WITHOUT: [&str; 3] = ["footprint", "seed", "checked_translations"];

/// The row of a mean over seeds ([`crate::mean_over_seeds`]), in which each number is the mean. The column
/// after it, `NAME ±`, has half of its interval ([`Spread`]); `seeds` is how many there are. Lists, and
/// names of one run such as its key, are those of the first seed. The row of a single run is [`row_of`].
pub fn row_over_seeds(info: &CellInfo, run: &RunResult) -> Row {
    let row = row_of(info, run);
    if run.over_seeds.is_empty() {
        return row;
    }
    let rows: Vec<Row> = run.over_seeds.iter().map(|of_seed| row_of(info, of_seed)).collect();
    let mut with_halves = Row::new();
    for (name, value) in row {
        let has_half = value.is_number() && ![HOST, SET].iter().any(|of| name.starts_with(of));
        let values = rows.iter().filter_map(|row| row.get(&name)?.as_f64());
        let spread = Spread::of(&values.collect::<Vec<_>>()).filter(|_| has_half && !WITHOUT.contains(&&*name));
        let seed = name == "seed";
        match spread {
            Some(Spread { mean, half, .. }) => {
                with_halves.insert(name.clone(), like(&value, mean));
                with_halves.insert(format!("{name}{HALF}"), half.into());
            }
            None => _ = with_halves.insert(name, value),
        }
        if seed {
            with_halves.insert(SEEDS.to_owned(), rows.len().into());
        }
    }
    with_halves
}

/// A mean as a number like those of single runs: whole numbers stay whole.
fn like(value: &Value, mean: f64) -> Value {
    if value.is_u64() { whole_mean(mean).into() } else { Number::from_f64(mean).into() }
}

/// Unit and meaning of [`SEEDS`].
pub fn seeds_column() -> Column {
    Column::new("seeds", "How many seeds the numbers are means over.")
}

/// Unit and meaning of the column with half of the interval of `name`.
pub fn half_column(name: &str, column: &Column) -> Column {
    Column::new(column.unit.clone(), format!("Half of the width of the 95% interval of `{name}` over the seeds."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::mean_over_seeds;
    use ambulator_simulator::HistogramResult;

    #[test]
    fn each_number_has_its_mean_and_half_of_its_interval() {
        let of = |seed: u64, ipc: f64, walks: u64, p99: u64| RunResult {
            seed,
            ipc,
            counters: [("mmu.walks".to_owned(), walks)].into(),
            histograms: [("walk_latency".to_owned(), HistogramResult { p99, ..HistogramResult::default() })].into(),
            checked_translations: 10,
            sim_host_seconds: 1.0,
            ..RunResult::default()
        };
        let runs = vec![of(1, 0.5, 10, 100), of(2, 0.6, 20, 200), of(3, 0.7, 31, 301)];
        let row = row_over_seeds(&CellInfo::default(), &mean_over_seeds(runs.clone()).unwrap());
        let number = |name: &str| row[name].as_f64().unwrap();
        // 4.303 * 0.1 / sqrt(3).
        assert!((number("ipc") - 0.6).abs() < 1e-12 && (number("ipc ±") - 0.2484).abs() < 0.001, "{row:?}");
        assert_eq!((&row["mmu.walks"], &row["walk_latency.p99"]), (&20.into(), &200.into()));
        assert!(number("mmu.walks ±") > 20.0 && number("walk_latency.p99 ±") > 200.0);
        assert_eq!((&row["seed"], &row["seeds"]), (&1.into(), &3.into()));
        for without in ["seed ±", "host.seconds ±", "checked_translations ±", "windows.cycles ±", "design ±"] {
            assert!(!row.contains_key(without), "{without}");
        }
        let names: Vec<&String> = row.keys().collect();
        let at = names.iter().position(|name| *name == "ipc").unwrap();
        assert_eq!(names[at + 1], "ipc ±", "beside each other");
        let one = mean_over_seeds(runs[..1].to_vec()).unwrap();
        assert_eq!(row_over_seeds(&CellInfo::default(), &one), row_of(&CellInfo::default(), &runs[0]));
    }
}
