//! Graph programs over linked edge lists: the same algorithm, with a chain of loads along each list.

use ambulator_base::{Batch, Record, RecordKind};
use ambulator_workloads::{ProgramRequest, open};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn records(name: &str, layout: &str) -> Vec<Record> {
    let settings = json!({ "layout": layout, "graph": { "vertices": 3000 } }).as_object().cloned().unwrap();
    let request = ProgramRequest { name: name.into(), settings, footprint: Some(64 << 20), seed: 3, label: None };
    let mut source = open(&request).unwrap();
    let (mut batch, mut records) = (Batch::default(), Vec::new());
    while records.len() < 200_000 && source.fill(&mut batch).unwrap() {
        records.extend_from_slice(&batch.records);
    }
    records
}

/// Shares of the loads of an instruction whose address a load of the same instruction gave, by code address.
fn chains(records: &[Record]) -> BTreeMap<u64, f64> {
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (i, record) in records.iter().enumerate().filter(|(_, record)| record.kind == RecordKind::Load) {
        let (all, chained) = counts.entry(record.pc.0).or_default();
        *all += 1;
        let from = i.checked_sub(usize::from(record.dep1)).filter(|_| record.dep1 > 0);
        *chained += u64::from(from.is_some_and(|from| records[from].pc == record.pc));
    }
    counts.retain(|_, (all, _)| *all > 1000);
    counts.into_iter().map(|(pc, (all, chained))| (pc, chained as f64 / all as f64)).collect()
}

#[test]
fn each_edge_of_a_linked_list_waits_for_the_one_before() {
    for name in ["bfs", "pagerank", "dc", "cc", "sssp"] {
        let (vectors, lists) = (records(name, "property"), records(name, "linked"));
        assert!(chains(&vectors).values().all(|share| *share < 0.01), "{name}: {:?}", chains(&vectors));
        let chained = chains(&lists).into_values().filter(|share| *share > 0.7).count();
        assert!(chained >= 1, "{name}: {:?}", chains(&lists));
        let instructions = |all: &[Record]| all.iter().map(|record| record.instructions()).sum::<u64>() as f64;
        // The load of the next pointer takes the place of an addition, and eleven instructions in seven records look
        // a target up: about as many instructions for each record.
        let share = instructions(&lists) / lists.len() as f64 / (instructions(&vectors) / vectors.len() as f64);
        assert!((0.9..1.2).contains(&share), "{name}: {share} of the instructions for each record");
    }
}

#[test]
fn lists_that_are_too_large_are_named() {
    let error = |settings: Value, footprint: u64| {
        let settings = settings.as_object().cloned().unwrap();
        let request = ProgramRequest { name: "bfs".into(), settings, footprint: Some(footprint), seed: 3, label: None };
        open(&request).err().unwrap().to_string()
    };
    let graph = json!({ "edge_factor": 1, "vertices": 1 << 29 });
    let wide = json!({ "layout": "linked", "graph": graph, "property": { "vertex_bytes": 65536 } });
    let error_of_addresses = error(wide, 1 << 40);
    assert!(error_of_addresses.contains("take more than 16 TiB; set at most"), "{error_of_addresses}");
    assert!(error_of_addresses.contains("graph.edge_factor"), "{error_of_addresses}");
    let small = json!({ "layout": "linked", "host_memory": 1 << 20 });
    let error_of_memory = error(small, 70 << 30);
    assert!(error_of_memory.contains("host_memory") && error_of_memory.contains("set at most"), "{error_of_memory}");
}
