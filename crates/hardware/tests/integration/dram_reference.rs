//! Our DRAM beside DRAMsim3: the same streams, with the same timing.
//!
//! DRAMsim3's results are in `dram_reference/dramsim3.json`; `make dram-reference` makes them anew and shows
//! both models' numbers.

mod exceptions;
#[path = "dram_reference/harness.rs"]
mod harness;

use exceptions::{EXCEPTIONS, Exception, Quantity};
use harness::measured::{Measured, Recorded, fingerprint};
use harness::memories::MEMORIES;
use harness::ours;
use harness::streams::{Load, Stream, streams};

/// What may differ without a reason, in percent.
fn limit(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Mean => 10.0,
        Quantity::P99 => 20.0,
        Quantity::Bandwidth => 5.0,
    }
}

/// By how many percent our model is above DRAMsim3. No bandwidth if the stream itself limits it.
fn deviations(stream: &Stream, reference: Measured, ours: Measured) -> Vec<(Quantity, f64)> {
    let percent = |ours: f64, reference: f64| 100.0 * (ours / reference - 1.0);
    let mut all = vec![
        (Quantity::Mean, percent(ours.mean_ns, reference.mean_ns)),
        (Quantity::P99, percent(ours.p99_ns, reference.p99_ns)),
    ];
    if matches!(stream.load, Load::Closed(16..)) {
        all.push((Quantity::Bandwidth, percent(ours.bandwidth, reference.bandwidth)));
    }
    all
}

/// Compares all streams of `MEMORIES[number]` with what DRAMsim3 made of them.
fn compare(number: usize) {
    let recorded: Recorded = serde_json::from_str(include_str!("dram_reference/dramsim3.json")).unwrap();
    let memory = &MEMORIES[number];
    let recorded = &recorded.memories[memory.name];
    let streams = streams(memory);
    assert_eq!(recorded.fingerprint, fingerprint(memory, &streams), "memory or streams differ: `make dram-reference`");
    let mut wrong = Vec::new();
    let (mut compared, mut needed) = (0, Vec::new());
    for stream in streams {
        let Some(reference) = recorded.streams[&stream.name] else { continue };
        let ours = ours::measure(memory, stream.clone());
        for (quantity, deviation) in deviations(&stream, reference, ours) {
            compared += 1;
            let is_of =
                |it: &&Exception| it.stream == stream.name && it.quantity == quantity && it.bounds[number] != 0.0;
            let bound = EXCEPTIONS.iter().find(is_of).map_or(0.0, |found| found.bounds[number]);
            let limit = limit(quantity);
            // A number near the limit may keep its exception.
            if deviation.abs() > 0.8 * limit {
                needed.push((stream.name.clone(), quantity));
            }
            if deviation < bound.min(-limit) || deviation > bound.max(limit) {
                let at = format!("{}: {quantity:?} {deviation:+.1}%, at most {bound}%", stream.name);
                wrong.push(format!("{at}\n  ours: {ours:?}\n  DRAMsim3: {reference:?}"));
            }
        }
    }
    for Exception { stream, quantity, bounds, rule } in EXCEPTIONS {
        if bounds[number] != 0.0 && !needed.contains(&((*stream).to_owned(), *quantity)) {
            wrong.push(format!("{stream}: {quantity:?} needs no exception ({rule})"));
        }
    }
    assert!(compared > 50, "{compared} numbers compared");
    assert!(wrong.is_empty(), "{}:\n{}", memory.name, wrong.join("\n"));
}

#[test]
fn ddr4_3200_serves_streams_as_dramsim3_does() {
    compare(0);
}

#[test]
fn ddr4_2400_serves_streams_as_dramsim3_does() {
    compare(1);
}

#[test]
fn ddr3_1066_serves_streams_as_dramsim3_does() {
    compare(2);
}

#[test]
fn two_ranks_serve_streams_as_dramsim3_does() {
    compare(3);
}
