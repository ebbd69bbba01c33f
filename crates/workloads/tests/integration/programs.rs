//! Invariants of every program's stream, checked through the public interface.

use ambulator_base::{Batch, Record, RecordKind, VmEvent};
use ambulator_workloads::{OpenError, ProgramRequest, open, programs as known_programs};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Small, so that all open fast; memcached needs two slab pages for each size of values.
fn footprint(name: &str) -> u64 {
    if name == "memcached" { 24 << 20 } else { 12 << 20 }
}

fn request(name: &str, settings: Value) -> ProgramRequest {
    let settings = settings.as_object().cloned().unwrap_or_default();
    ProgramRequest { name: name.into(), settings, footprint: Some(footprint(name)), seed: 3, label: None }
}

/// Every program, with its settings that change the stream's shape.
fn programs() -> Vec<ProgramRequest> {
    let mut all: Vec<ProgramRequest> = known_programs().iter().map(|k| request(k.info.name, json!({}))).collect();
    all.push(request("gups", json!({ "streams": 1, "index": "multiply-shift" })));
    all.push(request("pointer-chase", json!({ "chains": 5, "node_bytes": 4096 })));
    all.push(request("stream", json!({ "operation": "triad" })));
    for name in ["bc", "cc", "dc", "dfs", "gc", "sssp", "tc"] {
        all.push(request(name, json!({ "layout": "csr" })));
        all.push(request(name, json!({ "threads": 4 })));
    }
    for name in ["bfs", "cc", "pagerank", "sssp"] {
        all.push(request(name, json!({ "layout": "csr", "graph": { "storage": "streaming" } })));
    }
    all.push(request("bfs", json!({ "layout": "linked" })));
    all.push(request("dc", json!({ "layout": "linked" })));
    for name in ["bfs", "pagerank"] {
        all.push(request(name, json!({ "layout": "csr" })));
        all.push(request(name, json!({ "layout": "csr", "edge_list": "file", "graph": { "edge_factor": 5 } })));
        // Hubs whose edge vectors outgrow the heap.
        all.push(request(name, json!({ "property": { "vertex_bytes": 200, "edge_bytes": 96 } })));
    }
    all
}

/// The address space that the stream's own events create.
#[derive(Default)]
struct Space {
    /// First address to (end, read, write, execute).
    areas: BTreeMap<u64, (u64, bool, bool, bool)>,
    heap: Option<u64>,
    touched: FxHashSet<u64>,
    /// The program allocates while it runs, so first touches may occur anywhere.
    grows: bool,
}

/// Programs that allocate in their region of interest.
const GROWING: &[&str] = &["astar", "dfs", "omnetpp", "sssp"];

impl Space {
    fn apply(&mut self, event: &VmEvent) {
        match *event {
            VmEvent::Map { start, len, protection: p, kind } => {
                assert!(start.0.is_multiple_of(4096) && len > 0, "{event:?}");
                let (start, end) = (start.0, (start.0 + len).next_multiple_of(4096));
                let overlaps = self.areas.range(..end).next_back().is_some_and(|(_, area)| area.0 > start);
                assert!(!overlaps, "{event:?} overlaps a mapping");
                self.areas.insert(start, (end, p.read, p.write, p.execute));
                if kind == ambulator_base::MapKind::Heap {
                    assert!(self.heap.replace(start).is_none(), "one heap");
                }
            }
            VmEvent::Brk { end } => {
                let heap = self.heap.expect("a heap is mapped before its end moves");
                let area = self.areas.get_mut(&heap).unwrap();
                assert!(end.0 > area.0, "{event:?} does not grow the heap");
                area.0 = end.0;
            }
            VmEvent::Unmap { start, len } => {
                let area = self.areas.remove(&start.0).expect("programs unmap what they mapped");
                assert_eq!(area.0, start.0 + len);
                (start.0 / 4096..area.0 / 4096).for_each(|page| {
                    self.touched.remove(&page);
                });
            }
            VmEvent::Touch { start, len, write } => {
                assert!(len > 0);
                let area = self.area(start.0);
                assert!(start.0 + len <= area.0, "{event:?} leaves its mapping");
                assert!(area.1 && (area.2 || !write), "{event:?} is not allowed");
                self.touched.extend(start.0 / 4096..=(start.0 + len - 1) / 4096);
            }
            VmEvent::RegionBegin | VmEvent::RegionEnd | VmEvent::Switch { .. } => {}
            ref other => panic!("{other:?}: programs have no such event"),
        }
    }

    /// Applies an event and says whether the region of interest has begun.
    fn happens(&mut self, event: &VmEvent, region: bool, name: &str) -> bool {
        let usual = matches!(event, VmEvent::Switch { .. } | VmEvent::RegionEnd);
        assert!(!region || usual || self.grows, "{name}: {event:?} within the region of interest");
        self.apply(event);
        region || *event == VmEvent::RegionBegin
    }

    fn area(&self, va: u64) -> (u64, bool, bool, bool) {
        match self.areas.range(..=va).next_back() {
            Some((_, area)) if va < area.0 => *area,
            _ => panic!("{va:#x} is not mapped"),
        }
    }

    fn check(&self, r: &Record) {
        assert!(self.area(r.pc.0).3, "{r:?}: the program counter is not in mapped text");
        match r.kind {
            RecordKind::Load | RecordKind::Store => {
                let area = self.area(r.va.0);
                assert!(r.va.0 + u64::from(r.size) <= area.0, "{r:?} leaves its mapping");
                assert!(area.1 && (area.2 || r.kind == RecordKind::Load), "{r:?} is not allowed");
                let last = (r.va.0 + u64::from(r.size) - 1) / 4096;
                assert!(
                    self.grows || self.touched.contains(&(r.va.0 / 4096)) && self.touched.contains(&last),
                    "{r:?} is the first touch of its page: the set-up has missed it"
                );
            }
            RecordKind::BranchTaken | RecordKind::BranchNotTaken => {
                assert!(self.area(r.va.0).3, "{r:?}")
            }
            RecordKind::Fetch => panic!("{r:?}: programs have no explicit fetches"),
        }
        assert!((1..=64).contains(&r.size), "{r:?}");
    }
}

fn show(request: &ProgramRequest) -> String {
    format!("{} {:?}", request.name, request.settings)
}

/// Checks the beginning of a program's stream.
fn check_stream(request: &ProgramRequest) {
    let name = show(request);
    let mut source = open(request).unwrap_or_else(|e| panic!("{name}: {e}"));
    let grows = GROWING.contains(&request.name.as_str());
    let (mut space, mut batch) = (Space { grows, ..Space::default() }, Batch::default());
    let (mut records, mut region) = (0u64, false);
    let mut ended = false;
    while records < 400_000 && !ended {
        ended = !source.fill(&mut batch).unwrap();
        let mut events = batch.events.iter().peekable();
        for (i, r) in batch.records.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= i) {
                region = space.happens(event, region, &name);
            }
            assert!(region, "{name}: a record before the region of interest");
            space.check(r);
            for dep in [r.dep1, r.dep2].into_iter().filter(|d| *d > 0).map(u64::from) {
                if let Some(producer) = (i as u64).checked_sub(dep) {
                    let producer = &batch.records[producer as usize];
                    assert_eq!(producer.kind, RecordKind::Load, "{name}: {r:?} depends on {producer:?}");
                }
            }
        }
        for (_, event) in events {
            region = space.happens(event, region, &name);
        }
        records += batch.records.len() as u64;
        let usual = batch.records.len() <= Batch::TARGET_RECORDS + 12;
        assert!(usual, "{name}: a batch of {} records", batch.records.len());
    }
    assert!(records >= 400_000 || ended && records > 50_000, "{name} ended after {records} records");
}

#[test]
fn every_access_is_mapped_allowed_and_on_a_page_touched_in_the_set_up() {
    on_both_cores(check_stream);
}

/// Calls `check` with each program, in two threads.
fn on_both_cores(check: fn(&ProgramRequest)) {
    let all = programs();
    std::thread::scope(|scope| {
        for half in [0, 1] {
            let own = all.iter().skip(half).step_by(2);
            scope.spawn(move || own.for_each(check));
        }
    });
}

#[test]
fn footprints_are_as_requested() {
    const FOOTPRINT: u64 = 24 << 20;
    for request in programs() {
        let request = ProgramRequest { footprint: Some(FOOTPRINT), ..request };
        let identity = open(&request).unwrap().identity();
        let share = identity.footprint as f64 / FOOTPRINT as f64;
        // GUPS with its mask takes the power of two below 24 MiB; graphs stay a little below.
        let least = if request.name == "gups" && request.settings.is_empty() { 0.66 } else { 0.8 };
        assert!((least..=1.0).contains(&share), "{}: {share} of the footprint", show(&request));
        assert_eq!(identity.name, request.name);
        assert!(identity.detail.contains("seed = 3"), "{}", identity.detail);
    }
}

/// The digest of a program's identity, and its first batches.
fn beginning(request: &ProgramRequest) -> (u64, Vec<Batch>) {
    let mut source = open(request).unwrap();
    let batches = std::iter::repeat_with(|| {
        let mut batch = Batch::default();
        source.fill(&mut batch).unwrap();
        batch
    });
    let batches = batches.take(8).collect();
    (source.identity().digest, batches)
}

#[test]
fn the_same_request_gives_the_same_stream_and_another_seed_another() {
    on_both_cores(|request| {
        let once = beginning(request);
        assert!(once == beginning(request), "{} differs from itself", show(request));
        let other = beginning(&ProgramRequest { seed: 4, ..request.clone() });
        assert_ne!(once.0, other.0);
        // Their first addresses are the same whatever the data.
        if !["stream", "stencil", "streamcluster"].contains(&request.name.as_str()) {
            assert!(once.1 != other.1, "{} ignores its seed", show(request));
        }
    });
}

#[test]
fn a_short_program_ends_with_its_region() {
    let mut settings = Map::new();
    settings.insert("updates_per_word".into(), json!(1));
    let request = ProgramRequest { name: "gups".into(), settings, footprint: Some(1 << 20), seed: 1, label: None };
    let mut source = open(&request).unwrap();
    let (mut batch, mut records, mut events) = (Batch::default(), 0, Vec::new());
    while source.fill(&mut batch).unwrap() {
        assert!(!batch.is_empty());
        records += batch.records.len();
        events.extend(batch.events.iter().map(|e| e.1.clone()));
    }
    assert_eq!(records, (1 << 20) / 8 * 5);
    assert_eq!(events.iter().filter(|e| **e == VmEvent::RegionBegin).count(), 1);
    assert_eq!(events.last(), Some(&VmEvent::RegionEnd));
    assert!(batch.is_empty(), "an ended stream adds nothing");
}

#[test]
fn the_largest_footprints_open_at_once_without_simulator_memory() {
    for name in ["gups", "pointer-chase", "stream"] {
        let request = ProgramRequest { footprint: Some(128 << 30), ..request(name, json!({})) };
        let mut source = open(&request).unwrap();
        let mut batch = Batch::default();
        source.fill(&mut batch).unwrap();
        assert_eq!(source.identity().footprint >> 20, (128 << 30 >> 20) - u64::from(name == "stream"));
    }
}

fn refusal(name: &str, settings: Value, footprint: Option<u64>) -> String {
    let settings = settings.as_object().cloned().unwrap_or_default();
    match open(&ProgramRequest { name: name.into(), settings, footprint, seed: 1, label: None }) {
        Ok(_) => panic!("{name} was opened"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn errors_suggest_corrections() {
    let says = |message: String, parts: &[&str]| {
        for part in parts {
            assert!(message.contains(part), "`{message}` lacks `{part}`");
        }
    };
    says(refusal("gusp", json!({}), None), &["gusp", "did you mean `gups`?", "pointer-chase"]);
    says(refusal("gups", json!({ "steams": 4 }), None), &["gups", "steams", "did you mean `streams`?"]);
    says(refusal("gups", json!({ "index": "hash" }), None), &["hash", "multiply-shift"]);
    says(refusal("gups", json!({ "streams": 0 }), None), &["`gups.streams` is 0", "1 "]);
    says(refusal("bfs", json!({ "graph": { "edge_facto": 4 } }), None), &["edge_facto", "did you mean `edge_factor`?"]);
    says(refusal("stream", json!({}), Some(100)), &["`stream.footprint` is 100; it must be from 1MiB to 16TiB"]);
    says(refusal("pagerank", json!({ "damping": 1.5 }), None), &["`pagerank.damping` is 1.5"]);
    says(
        refusal("bfs", json!({ "layout": "csr", "graph": { "storage": "memory" } }), Some(16 << 30)),
        &["`bfs.host_memory` is", "at most", "GiB", "`bfs.graph.storage` to \"streaming\""],
    );
    says(
        refusal("tc", json!({ "layout": "csr" }), Some(16 << 30)),
        &["`tc.host_memory` is", "at most", "GiB", "property"],
    );
    says(refusal("bfs", json!({}), Some(1 << 44)), &["bfs", "2^32 stored edges"]);
    says(refusal("nothing/like/it.amb", json!({}), None), &["nothing/like/it.amb", "cannot be opened"]);
    says(refusal("Cargo.toml", json!({ "va_bit": 57 }), None), &["Cargo.toml", "did you mean `va_bits`?"]);
    says(refusal("Cargo.toml", json!({}), Some(1 << 30)), &["omit `footprint`"]);
    assert!(matches!(open(&ProgramRequest::default()), Err(OpenError::UnknownProgram { .. })));
}
