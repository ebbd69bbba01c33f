//! Every run of a study for the page: its settings and counters in columns, in which what is equal in all
//! runs stands once.

use crate::charts::rounded;
use crate::study::{Study, flatten};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One value if all are equal, or else `{"each": [...]}`, with null where a run has none.
fn column(values: Vec<Value>) -> Value {
    match values.first() {
        Some(first) if values.iter().all(|value| value == first) => first.clone(),
        _ => json!({ "each": values }),
    }
}

/// Columns of named values: a map for each run becomes a column for each name.
fn columns(runs: &[BTreeMap<String, Value>]) -> Map<String, Value> {
    let names: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
    let value = |run: &BTreeMap<String, Value>, name: &String| run.get(name).cloned().unwrap_or(Value::Null);
    names.into_iter().map(|name| (name.clone(), column(runs.iter().map(|run| value(run, name)).collect()))).collect()
}

/// The runs of a study.
pub fn cells(study: &Study) -> Value {
    let label = |number: usize| {
        let of = study.comparisons.iter().find(|one| {
            one.bounds.contains(&number) || one.designs.iter().any(|design| design.cells.contains(&number))
        });
        of.map_or("", |one| one.label.as_str())
    };
    let run = |number: usize| {
        let cell = &study.cells[number];
        let run = &cell.run;
        json!({
            "program": label(number),
            "design": run.design,
            "seed": run.seed,
            "status": run.status,
            "outcome": run.outcome,
            "detail": run.identity.detail,
            "machine": cell.machine,
            "version": run.version,
        })
    };
    let settings = study.cells.iter().map(|cell| flatten(&cell.run.spec).into_iter().collect()).collect::<Vec<_>>();
    let counters = study.cells.iter().map(|cell| {
        let run = &cell.run;
        let mut values: BTreeMap<String, Value> =
            run.counters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        values.extend(run.measures.iter().map(|(name, value)| (format!("measures.{name}"), rounded(*value))));
        for (name, of) in &run.histograms {
            for (part, value) in [("p50", of.p50), ("p90", of.p90), ("p99", of.p99), ("max", of.max)] {
                values.insert(format!("{name}.{part}"), json!(value));
            }
        }
        values.insert("ipc".into(), rounded(run.ipc));
        values.insert("cycles".into(), json!(run.cycles));
        values.insert("instructions".into(), json!(run.simulated_instructions));
        values.insert("accesses".into(), json!(run.simulated_accesses));
        values
    });
    let counters = columns(&counters.collect::<Vec<_>>());
    let mut meanings = Map::new();
    for name in counters.keys() {
        let measures = Study::measures();
        let known = study.schema.get(name).map(|of| json!([of.unit.to_string(), of.meaning]));
        let measure = || {
            let of = measures.get(name.strip_prefix("measures.")?)?;
            Some(json!([of.unit, of.meaning]))
        };
        if let Some(meaning) = known.or_else(measure) {
            meanings.insert(name.clone(), meaning);
        }
    }
    json!({
        "runs": (0..study.cells.len()).map(run).collect::<Vec<_>>(),
        "settings": columns(&settings),
        "counters": counters,
        "meanings": meanings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::cell;

    #[test]
    fn what_is_equal_stands_once_and_what_differs_by_run() {
        let mut cells_of = vec![cell("gups", "radix", 1000), cell("gups", "thp", 500)];
        for (cell, entries) in cells_of.iter_mut().zip([512, 1024]) {
            cell.run.spec = json!({"mmu": {"entries": entries, "ways": 4}});
        }
        cells_of[1].run.counters.insert("mmu.walks".into(), 7);
        let found = cells(&Study::new(cells_of));
        assert_eq!(found["settings"], json!({"mmu.entries": {"each": [512, 1024]}, "mmu.ways": 4}));
        assert_eq!(found["counters"]["mmu.walks"], json!({"each": [null, 7]}));
        assert_eq!(found["runs"][1]["design"], "thp");
    }
}
