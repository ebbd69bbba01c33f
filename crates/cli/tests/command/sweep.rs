//! `sweep`, the store that commands share, and figures of a user's own.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const BRIEF: &[&str] = &["--footprint", "8MiB", "-n", "50k", "--warmup", "5k", "--no-progress"];

/// Runs a command in a folder, checks the exit status, and returns standard output and error.
fn ambulator(code: i32, folder: &Path, words: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(words).current_dir(folder).stdin(Stdio::null()).env_remove("COLUMNS").env_remove("AMBULATOR_STORE");
    let output = command.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{out}\n{err}");
    (out, err)
}

fn sweep(code: i32, folder: &Path, words: &[&str]) -> (String, String) {
    let grid =
        ["sweep", "--designs", "radix,thp", "--programs", "gups,stream", "--vary", "mmu.l2_tlb.entries=512,1024"];
    ambulator(code, folder, &[&grid, BRIEF, words].concat())
}

#[test]
fn a_sweep_does_what_is_missing_and_other_commands_find_it() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let (plan, _) = sweep(0, folder, &["--dry-run"]);
    assert!(plan.contains("8 cells (8 places, 1 seed): 0 in the store, 8 to run from 2 decoded streams"), "{plan}");
    assert!(plan.contains("8 by a trial of 100,000 instructions") && plan.contains("memory: up to "), "{plan}");
    let (first, said) = sweep(0, folder, &[]);
    assert!(first.contains("mmu.l2_tlb.entries") && first.contains("One seed"), "{first}");
    assert!(!said.contains("were in the store"), "{said}");
    let (second, said) = sweep(0, folder, &[]);
    assert_eq!(second, first);
    assert!(said.contains("8 of 8 runs were in the store out/results"), "{said}");
    let (plan, _) = sweep(0, folder, &["--dry-run", "--set", "mmu.l1d_4k.entries=32"]);
    assert!(
        plan.contains("0 in the store, 8 to run") && plan.contains("8 by stored cells of the same design"),
        "{plan}"
    );
    // A comparison of the same cells runs its bounds only.
    let compare = ["compare", "gups", "--designs", "radix,thp", "--set", "mmu.l2_tlb.entries=512", "--json", "c.json"];
    let (table, said) = ambulator(0, folder, &[&compare, BRIEF].concat());
    assert!(said.contains("2 of 4 runs were in the store"), "{said}");
    let document: Value = serde_json::from_slice(&fs::read(folder.join("c.json")).unwrap()).unwrap();
    assert_eq!(document["stored"], serde_json::json!(["radix", "thp"]));
    assert_eq!(document["schema"]["mmu.walks"]["unit"], "events");
    let fresh = ambulator(0, folder, &[&compare, BRIEF, &["--fresh"]].concat()).0;
    let without_times = |text: &str| text.split(" Simulator: ").next().unwrap().to_owned();
    assert_eq!(without_times(&fresh), without_times(&table));
    let again: Value = serde_json::from_slice(&fs::read(folder.join("c.json")).unwrap()).unwrap();
    assert_eq!(again["runs"][1]["counters"], document["runs"][1]["counters"]);
    assert!(again.get("stored").is_none());
    // The study says what its cells are.
    let study = fs::read_dir(folder.join("out/results/studies")).unwrap().next().unwrap().unwrap().path();
    let study: Value = serde_json::from_slice(&fs::read(study).unwrap()).unwrap();
    assert_eq!(study["cells"].as_array().unwrap().len(), 8);
    assert_eq!(study["axes"], serde_json::json!(["mmu.l2_tlb.entries"]));
}

#[test]
fn several_processes_use_a_store_at_once() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let grid = ["sweep", "--designs", "radix,thp", "--programs", "gups,stream", "--seeds", "2"];
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
        command.args(grid).args(BRIEF).current_dir(folder).env_remove("AMBULATOR_STORE").env_remove("COLUMNS");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let outputs = [start(), start()].map(|child| child.wait_with_output().unwrap());
    assert!(outputs.iter().all(|output| output.status.code() == Some(0)), "{outputs:?}");
    assert_eq!(outputs[0].stdout, outputs[1].stdout);
    let (out, said) = ambulator(0, folder, &[&grid, BRIEF].concat());
    assert_eq!(out.as_bytes(), outputs[0].stdout);
    assert!(said.starts_with("8 of 8 runs were in the store") && !said.contains("warning"), "{said}");
}

#[test]
fn compare_over_seeds_has_intervals() {
    let scratch = tempfile::tempdir().unwrap();
    let words = ["compare", "gups", "--designs", "radix,thp", "--seeds", "3", "--json", "c.json", "--csv", "c.csv"];
    let (out, _) = ambulator(0, scratch.path(), &[&words, BRIEF].concat());
    assert!(out.contains("seeds 1 to 3, means ± half of the 95% interval"), "{out}");
    assert!(out.lines().any(|line| line.contains("instructions per cycle") && line.contains(" ± ")), "{out}");
    let document: Value = serde_json::from_slice(&fs::read(scratch.path().join("c.json")).unwrap()).unwrap();
    let seeds = document["runs"][1]["over_seeds"].as_array().unwrap();
    assert_eq!(seeds.iter().map(|run| run["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let mean = seeds.iter().map(|run| run["ipc"].as_f64().unwrap()).sum::<f64>() / 3.0;
    assert!((document["runs"][1]["ipc"].as_f64().unwrap() - mean).abs() < 1e-12);
    let csv = fs::read_to_string(scratch.path().join("c.csv")).unwrap();
    assert!(csv.starts_with("program,design,status,instructions per cycle,instructions per cycle ±"), "{csv}");
    // One seed is the cell that a comparison without --seeds has.
    let (_, said) = ambulator(0, scratch.path(), &[&["compare", "gups", "--designs", "radix,thp"], BRIEF].concat());
    assert!(said.contains("4 of 4 runs were in the store"), "{said}");
}

#[test]
fn a_study_file_has_errors_with_places_and_tables_as_files() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let study = "title = 'L2 TLB'\ndesigns = ['radix', 'thp']\nprograms = ['gups']\nfootprint = '8MiB'\n\
                 instructions = '50k'\nwarmup = '5k'\nseeds = 3\n[vary]\nmmu.l2_tlb.entries = [512, 513]\n";
    fs::write(folder.join("wrong.toml"), study.replace("entries", "entires")).unwrap();
    let (_, said) = ambulator(2, folder, &["sweep", "wrong.toml"]);
    assert!(said.contains("wrong.toml:9:") && said.contains("mmu.l2_tlb.entries") && said.contains('^'), "{said}");
    fs::write(folder.join("mine.toml"), study).unwrap();
    let files = ["--csv", "t.csv", "--markdown", "t.md", "--latex", "t.tex", "--no-progress", "--store", "s"];
    // 513 entries cannot be: six cells are results with a reason, and the other six are there.
    let (out, said) = ambulator(1, folder, &[&["sweep", "mine.toml"], &files[..]].concat());
    assert!(out.contains("±") && out.contains("Means over 3 seeds") && out.contains("failed"), "{out}");
    assert!(said.contains("mmu.l2_tlb") && said.contains("(and 5 cells more)"), "{said}");
    let csv = fs::read_to_string(folder.join("t.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert!(
        csv.starts_with("program,mmu.l2_tlb.entries,design,instructions per cycle,instructions per cycle ±,"),
        "{csv}"
    );
    assert!(fs::read_to_string(folder.join("t.md")).unwrap().contains("| gups | 512 | thp | "));
    assert!(fs::read_to_string(folder.join("t.tex")).unwrap().contains("mmu.l2\\_tlb.entries & design"));
    let (_, said) = ambulator(1, folder, &["sweep", "mine.toml", "--no-progress", "--store", "s"]);
    assert!(said.contains("12 of 12 runs were in the store") && said.contains("--retry-failed"), "{said}");
    let (_, said) = ambulator(2, folder, &["sweep", "mine.toml", "--csv", "mine.toml"]);
    assert!(said.contains("input"), "{said}");
}

#[test]
fn what_has_no_effect_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let words =
        ["sweep", "--designs", "radix,thp", "--programs", "gups", "--vary", "lvm.max_table_bytes=128KiB,256KiB"];
    let (_, said) = ambulator(2, scratch.path(), &words);
    assert!(said.contains("has no effect in any cell of the study"), "{said}");
    let (_, said) = ambulator(2, scratch.path(), &["sweep", "--designs", "radix"]);
    assert!(said.contains("--programs") && said.contains("the file of a study"), "{said}");
}

#[test]
fn a_figure_of_ones_own_is_reproduced() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let study = "title = 'mine'\ndesigns = ['radix', 'ideal']\nprograms = ['gups']\nfootprint = '8MiB'\n\
                 instructions = '50k'\nwarmup = '5k'\n";
    fs::write(folder.join("study.toml"), study).unwrap();
    let (_, said) = ambulator(2, folder, &["reproduce", "study.toml"]);
    assert!(said.contains("it has no metrics"), "{said}");
    let metric = "[[metrics]]\nname = 'ideal over radix'\nkind = 'geomean-ratio'\ndesign = 'ideal'\nbase = 'radix'\n\
                  measure = 'ipc'\nunit = 'x'\npublished = 1.1\nsource = 'my paper'\n";
    fs::write(folder.join("mine.toml"), format!("{study}{metric}")).unwrap();
    let (out, _) = ambulator(0, folder, &["reproduce", "mine.toml", "--no-progress"]);
    assert!(out.contains("mine: mine") && out.contains("ideal over radix") && out.contains("1.10"), "{out}");
    let (_, said) = ambulator(2, folder, &["reproduce", "no.toml"]);
    assert!(said.contains("no.toml"), "{said}");
    fs::write(folder.join("seeds.toml"), format!("seeds = 2\n{study}{metric}")).unwrap();
    let (out, _) = ambulator(0, folder, &["reproduce", "seeds.toml", "--no-progress"]);
    assert!(out.contains(" ± "), "{out}");
}

#[test]
fn a_store_that_cannot_be_made_loses_no_result() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::write(folder.join("out"), "a file").unwrap();
    let run = [&["run", "gups"], BRIEF].concat();
    let (out, said) = ambulator(0, folder, &run);
    assert!(out.contains("instructions per cycle") && said.contains("results are not kept"), "{said}");
    let (_, said) = ambulator(2, folder, &[&run[..], &["--store", "out"]].concat());
    assert!(said.contains("the store's folder cannot be created"), "{said}");
}

#[test]
fn a_dry_run_of_a_figure_says_what_it_takes_and_runs_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let figure = "title = 'tiny'\ndesigns = ['radix', 'thp']\n\
                  set = ['memory.bytes=512MiB', 'memory.fragmentation.fmfi=0.0']\n\
                  instructions = '9M'\nquick_instructions = '20k'\nwarmup = '1k'\n\
                  programs = [{ name = 'gups', footprint = '128MiB', quick = '1MiB' }, { name = 'stream', \
                  footprint = '96MiB', quick = '2MiB' }]\n\
                  [[metrics]]\nname = 'ratio'\nkind = 'geomean-ratio'\ndesign = 'thp'\nbase = 'radix'\n\
                  measure = 'ipc'\nunit = 'x'\nsource = '-'\n";
    fs::write(folder.join("one.toml"), figure).unwrap();
    let plan = |more: &[&str]| ambulator(0, folder, &[&["reproduce", "one.toml", "--dry-run"], more].concat()).0;
    let said = plan(&[]).replace("\n  ", " ");
    assert!(said.starts_with("one: 4 runs, 0 of them in the store, 4 to run: about "), "{said}");
    assert!(said.contains("4 by a trial of 100,000 instructions") && said.contains("MiB of memory for one"), "{said}");
    assert!(plan(&["--whole"]).starts_with("one: 8 runs, 0 of them in the store, 8 to run"));
    let cells = || fs::read_dir(folder.join("out/results/cells")).map_or(0, Iterator::count);
    assert_eq!(cells(), 0);
    ambulator(0, folder, &["reproduce", "one.toml", "--quick", "--no-progress"]);
    assert_eq!(plan(&["--quick"]), "one: 4 runs, 4 of them in the store, 0 to run\n");
    let said = plan(&[]).replace("\n  ", " ");
    assert!(said.contains("4 to run: about ") && said.contains("4 by stored cells of the same design"), "{said}");
    let (_, error) = ambulator(2, folder, &["reproduce", "one.toml", "--dry-run", "--json", "one.json"]);
    assert!(error.contains("--dry-run") && error.contains("--json"), "{error}");
}
