//! Graphs that are computed instead of stored: the same stream as the same graph from memory, whatever the
//! program; and when they are used.

use ambulator_base::{Batch, RecordSource, VmEvent};
use ambulator_workloads::{ProgramRequest, open};
use serde_json::{Value, json};

fn source(name: &str, settings: Value, footprint: u64) -> Result<Box<dyn RecordSource>, String> {
    let settings = settings.as_object().cloned().unwrap_or_default();
    let request = ProgramRequest { name: name.into(), settings, footprint: Some(footprint), seed: 5, label: None };
    open(&request).map_err(|error| error.to_string())
}

/// Programs that can run on a computed graph.
const PROGRAMS: [&str; 8] = ["bc", "bfs", "cc", "dc", "dfs", "gc", "pagerank", "sssp"];

#[test]
fn a_computed_graph_has_the_addresses_of_the_same_graph_in_memory() {
    for name in PROGRAMS {
        let of = |kind: &str, storage: &str| {
            let graph = json!({ "kind": kind, "storage": storage, "edge_factor": 5 });
            let settings = json!({ "layout": "csr", "edge_list": "file", "graph": graph });
            source(name, settings, 4 << 20).unwrap()
        };
        let (mut stored, mut computed) = (of("configuration", "memory"), of("kronecker", "streaming"));
        let (told, size) = (computed.identity().detail, stored.identity().footprint);
        assert!(told.contains("computed instead of stored"), "{told}");
        assert_eq!(computed.identity().footprint, size);
        // To 1.5 percent: degrees are drawn.
        assert!((3 << 20..=4_260_000).contains(&size), "{name}: {size} bytes");
        let (mut a, mut b, mut records, mut touched) = (Batch::default(), Batch::default(), 0, 0);
        while records < 1_000_000 {
            let more = (stored.fill(&mut a).unwrap(), computed.fill(&mut b).unwrap());
            assert!(a == b && more.0 == more.1, "{name} differs after {records} records");
            records += a.records.len();
            for (_, event) in &a.events {
                if let VmEvent::Touch { len, .. } = event {
                    touched += len;
                }
            }
            if !more.0 {
                break;
            }
        }
        assert!(records > 100_000, "{name}: {records} records");
        assert!(touched > size, "{name}: {touched} bytes are touched in set-up");
    }
}

#[test]
fn graphs_beyond_the_simulators_memory_are_computed_without_being_asked() {
    for (name, gigabytes) in [("bfs", 75), ("pagerank", 64), ("cc", 50), ("sssp", 75)] {
        let footprint = gigabytes * 1_000_000_000;
        let found = source(name, json!({ "layout": "csr" }), footprint).unwrap().identity();
        assert!(found.detail.contains("computed instead of stored"), "{}", found.detail);
        let share = found.footprint as f64 / footprint as f64;
        assert!((0.98..1.005).contains(&share), "{name} has {} bytes", found.footprint);
    }
    // Small ones are stored, and those that are said to be.
    for (graph, computed) in [(json!({}), false), (json!({ "storage": "streaming" }), true)] {
        let found = source("bfs", json!({ "layout": "csr", "graph": graph }), 4 << 20).unwrap().identity();
        assert_eq!(found.detail.contains("computed instead of stored"), computed, "{}", found.detail);
    }
}

#[test]
fn what_cannot_be_computed_is_refused_with_a_way_out() {
    let refused = |name: &str, settings: Value| source(name, settings, 4 << 20).err().unwrap_or_default();
    for (name, settings, says) in [
        (
            "bfs",
            json!({ "graph": { "storage": "streaming" } }),
            ["`bfs.graph.storage` is \"streaming\"", "`bfs.layout` to \"csr\""],
        ),
        (
            "bfs",
            json!({ "graph": { "kind": "configuration" } }),
            ["`bfs.graph.kind` is \"configuration\"", "to \"csr\""],
        ),
        (
            "cc",
            json!({ "layout": "csr", "graph": { "storage": "streaming", "kind": "social" } }),
            ["\"social\", which must be stored", "to \"kronecker\""],
        ),
        ("tc", json!({ "layout": "csr", "graph": { "storage": "streaming" } }), ["neighbours sorted", "\"memory\""]),
    ] {
        let error = refused(name, settings);
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
    }
    let lopsided = json!({ "layout": "csr", "graph": { "a": 0.9, "b": 0.05, "c": 0.05 } });
    let error = source("bfs", lopsided, 75_000_000_000).err().unwrap();
    assert!(error.contains("`bfs.graph.a` is 0.9") && error.contains("nearer to each other"), "{error}");
    let error = source("bfs", json!({ "layout": "csr" }), 4 << 40).err().unwrap();
    assert!(error.contains("numbered below 2^31") && error.contains("set at most"), "{error}");
}
