//! `advise`, from the outside: programs whose limits are known.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs it, checks the exit code, and returns standard output and standard error.
fn expect(code: i32, arguments: &[&str]) -> (String, String) {
    let all = [&["advise", "--store", "none", "--no-progress"], arguments].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_ambulator"))
        .args(&all)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .output();
    let output = output.expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{all:?}\n{out}\n{err}");
    (out, err)
}

/// The advice for a small run.
fn advice(arguments: &[&str]) -> Value {
    let small = ["-n", "150K", "--designs", "lvm", "--seeds", "1", "--set", "memory.bytes=8GiB", "--json"];
    let (out, _) = expect(0, &[arguments, &small].concat());
    let advice = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    shares_are_whole(&advice);
    advice
}

fn kinds(advice: &Value) -> Vec<&str> {
    advice["limits"].as_array().unwrap().iter().map(|limit| limit["kind"].as_str().unwrap()).collect()
}

fn remedy<'a>(advice: &'a Value, label: &str) -> &'a Value {
    let remedies = advice["remedies"].as_array().unwrap();
    remedies.iter().find(|one| one["label"] == label).unwrap_or_else(|| panic!("no {label}: {remedies:?}"))
}

/// Data and code each have all of a cost that there is.
fn shares_are_whole(advice: &Value) {
    for (rows, cost) in [("structures", "walk_cycles"), ("structures", "l2_tlb_misses"), ("code", "walk_cycles")] {
        let sum: f64 = advice[rows].as_array().unwrap().iter().map(|row| row[cost].as_f64().unwrap()).sum();
        let any = advice["total"][cost].as_u64().unwrap() > 0;
        assert!((sum - f64::from(u8::from(any))).abs() < 1e-9, "{rows}, {cost}: {sum} of {}", advice["total"]);
    }
}

#[test]
fn random_updates_of_much_memory_are_limited_by_translation_and_huge_pages_help() {
    let advice = advice(&["gups", "--footprint", "512MiB", "--warmup", "50K"]);
    let kinds = kinds(&advice);
    assert!(kinds.iter().any(|kind| ["tlb_reach", "walk_latency"].contains(kind)), "{advice:#}");
    let thp = remedy(&advice, "THP always");
    assert_eq!((thp["judgement"].as_str(), thp["kind"].as_str()), (Some("helps"), Some("kernel_setting")), "{thp}");
    assert!(thp["speed_up"].as_f64().unwrap() > 1.2, "{thp}");
    // The table is nearly all that is walked for.
    let table = &advice["structures"][0];
    assert_eq!(table["bytes"].as_u64().unwrap() >> 20, 512, "{table}");
    assert!(table["walk_cycles"].as_f64().unwrap() > 0.95, "{table}");
}

#[test]
fn a_chase_in_little_memory_has_no_problem_with_translation() {
    // So little that the first-level TLB holds it.
    let small = ["--footprint", "1MiB", "--set", "mmu.l1d_4k.entries=512"];
    let advice = advice(&[&["pointer-chase", "--warmup", "50K"], &small[..]].concat());
    assert_eq!(kinds(&advice), ["data_latency"], "{advice:#}");
    assert_eq!(remedy(&advice, "THP always")["judgement"], "no_difference");
}

#[test]
fn streams_are_limited_by_bandwidth() {
    let advice = advice(&["stream", "--footprint", "64MiB", "--warmup", "100K", "--set", "dram.channels=1"]);
    assert_eq!(kinds(&advice)[0], "bandwidth", "{advice:#}");
}

#[test]
fn a_program_that_only_touches_new_pages_is_limited_by_faults() {
    let advice = advice(&["gups", "--footprint", "64MiB", "--warmup", "0", "--set", "run.populate=false"]);
    assert_eq!(kinds(&advice)[0], "faults", "{advice:#}");
    assert!(advice["structures"][0]["fault_cycles"].as_f64().unwrap() > 0.9);
    let of_kernel = advice["cycles"].as_array().unwrap().iter().find(|part| part["part"] == "the operating system");
    let (now, with_thp) = (&of_kernel.unwrap()["cycles"], &remedy(&advice, "THP always")["os_cycles"]);
    assert!(with_thp.as_f64().unwrap() < now.as_f64().unwrap(), "fewer faults: {with_thp} of {now}");
}

#[test]
fn a_trace_has_its_mappings_named_and_says_that_it_has_no_symbols() {
    let advice = advice(&["traces/mummer.amb", "--warmup", "100K"]);
    let kinds = ["anonymous mapping", "heap", "mapped file", "stack"];
    let rows = advice["structures"].as_array().unwrap();
    let name = |row: &Value| row["name"].as_str().unwrap().to_owned();
    assert!(rows.len() > 1 && kinds.iter().any(|kind| name(&rows[0]).starts_with(kind)), "{rows:?}");
    assert!(rows[0]["bytes"].as_u64().unwrap() > 1 << 20, "{rows:?}");
    let doubts = advice["doubts"].to_string();
    assert!(doubts.contains("Functions and lines are not known"), "{doubts}");
}

#[test]
fn the_page_has_its_parts_in_words() {
    let (out, _) = expect(
        0,
        &["gups", "--footprint", "64MiB", "-n", "60K", "--warmup", "20K", "--designs", "ecpt", "--seeds", "2"],
    );
    for part in ["What limits gups\n----", "What causes it", "What helps, and what does not", "THP always", "ecpt"] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(out.contains("seeds 1 to 2") && out.contains("times as fast (95% interval"), "{out}");
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    let cases: [(&[&str], &str); 5] = [
        (&["gusp"], "gups"),
        (&["gups", "--designs", "lmv"], "lvm"),
        (&["gups", "--skip", "1M"], "--skip"),
        (&["gups", "--", "sort"], "--"),
        (&["--seeds", "3", "--", "/does/not/exist"], "not found"),
    ];
    for (arguments, said) in cases {
        let (out, err) = expect(2, arguments);
        assert!(out.is_empty() && err.contains(said), "{arguments:?}: {err}");
    }
}
