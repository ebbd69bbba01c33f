//! Stored cells are listed, shown, compared and told apart; workers and shards fill a store as one process does.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

const STUDY: &str = "designs = ['radix', 'thp']\nprograms = ['gups']\nfootprint = '4MiB'\ninstructions = '20k'\n\
                     warmup = '0'\nset = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0']\n\
                     vary.mmu.l2_tlb.entries = [512, 1024]\n";

/// Runs the command at 80 columns; its exit status, standard output and standard error.
fn run(folder: &Path, words: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(words.split_whitespace()).current_dir(folder).env("COLUMNS", "80").env("AMBULATOR_STORE", "store");
    let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn done(folder: &Path, words: &str) -> String {
    let (code, out, err) = run(folder, words);
    assert_eq!(code, 0, "{words}: {out}{err}");
    let is_for_people = !words.contains("--csv -") && !words.contains("--json -");
    assert!(!is_for_people || out.lines().all(|line| line.chars().count() <= 80), "{words}: {out}");
    out
}

fn with_study() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("study.toml"), STUDY).unwrap();
    scratch
}

#[test]
fn stored_cells_are_listed_shown_and_compared() {
    let scratch = with_study();
    let folder = scratch.path();
    done(folder, "sweep study.toml --no-progress --quiet");
    assert!(done(folder, "results").contains("4 of 4 cells in store"));
    let csv = done(folder, "results --design radix --columns cell,mmu.l2_tlb.entries,mmu.walks --csv -");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[1][1], lines[2][1]), (3, "512", "1024"));
    let (one, other) = (&lines[1][0][..8], &lines[2][0][..8]);
    let shown = done(folder, &format!("results {one}"));
    assert!(shown.contains("mmu.l2_tlb.entries  512") && shown.contains(" mmu.walks "), "{shown}");
    let both = done(folder, &format!("results {one} {other}"));
    assert!(both.contains("radix mmu.l2_tlb.entries=512") && both.contains("speed-up"), "{both}");
    let json: Value =
        serde_json::from_str(&done(folder, "results --study study --where status=done --json -")).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 4);
    assert_eq!(json["columns"]["mmu.walks"]["unit"], "events");
    assert_eq!(json["specs"][json["rows"][0]["spec"].as_str().unwrap()]["memory"]["bytes"], 256 << 20);
    assert_eq!(done(folder, "results --studies"), "study\n");
}

#[test]
fn differences_are_told_settings_first() {
    let scratch = with_study();
    let folder = scratch.path();
    done(folder, "sweep study.toml --no-progress --quiet");
    let told = done(folder, "diff design=radix,mmu.l2_tlb.entries=512 design=thp,mmu.l2_tlb.entries=512 --json d.json");
    let (settings, numbers) = (told.find("kernel.page_size_policy").unwrap(), told.find(" moved ").unwrap());
    assert!(settings < numbers && told.contains("A: radix on gups\nB: thp on gups\n"), "{told}");
    let json: Value = serde_json::from_slice(&std::fs::read(folder.join("d.json")).unwrap()).unwrap();
    let walks = json["differences"][0]["moved"].as_array().unwrap().iter().find(|of| of["column"] == "mmu.walks");
    assert!(walks.unwrap()["change"].as_f64().unwrap() < -50.0, "{json}");
    assert!(done(folder, "diff design=radix design=thp").matches("A: radix on gups").count() == 2);
    assert!(done(folder, "diff store store").contains("4 of 4 pairs do not differ."));
    let small = "gups --footprint 4MiB -n 20k --warmup 0 --set memory.bytes=256MiB --quiet --no-progress --store none";
    for (design, file) in [("radix", "a.json"), ("thp", "b.json")] {
        done(folder, &format!("run {small} --design {design} --json {file}"));
    }
    assert!(done(folder, "diff a.json b.json --csv -").contains(",number,mmu.walks,events,"));
    assert!(done(folder, "diff a.json a.json").contains("Nothing differs."));
}

#[test]
fn workers_and_merged_shards_are_as_one_process() {
    let scratch = with_study();
    let folder = scratch.path();
    let rows = |store: &str| {
        let csv = done(folder, &format!("results --store {store} --columns cell,ipc,cycles,mmu.walks,status --csv -"));
        assert_eq!(csv.lines().count(), 5, "{csv}");
        csv
    };
    done(folder, "sweep study.toml --store alone --no-progress --quiet");
    let (code, out, _) = run(folder, "sweep study.toml --status");
    assert_eq!(code, 1);
    assert!(out.contains("4 cells in store: 0 done, 0 running, 0 failed, 4 missing"), "{out}");
    let (code, _, err) = run(folder, "sweep study.toml --worker --batch 2 --no-progress");
    assert_eq!((code, err.contains("4 cells computed in "), err.contains("no cells left")), (0, true, true), "{err}");
    assert!(done(folder, "sweep study.toml --status").contains("4 done, 0 running"));
    assert_eq!(rows("store"), rows("alone"));
    std::fs::create_dir(folder.join("merged")).unwrap();
    for part in ["1", "2", "3"] {
        done(folder, &format!("sweep study.toml --shard {part}/3 --store part-{part} --no-progress --quiet"));
        let copied = Command::new("cp").args(["-r", &format!("part-{part}/."), "merged"]).current_dir(folder).status();
        assert!(copied.unwrap().success());
    }
    assert_eq!(rows("merged"), rows("alone"));
}

#[test]
fn what_is_wrong_is_said() {
    let scratch = with_study();
    let folder = scratch.path();
    for (words, wrong) in [
        ("results", "store: this is no store"),
        ("sweep study.toml --shard 4/3", "such as 1/16 to 16/16"),
        ("sweep study.toml --shard x", "such as 1/16 to 16/16"),
        ("sweep study.toml --worker --store none", "need a store"),
        ("sweep study.toml --slurm --array=1-9", "`--array=1-9` is given by this command"),
        ("sweep study.toml --slurm --time=1 --worker", "cannot be used with"),
    ] {
        let (code, _, err) = run(folder, words);
        assert!(code == 2 && err.contains(wrong), "{words}: {code} {err}");
    }
    done(folder, "sweep study.toml --no-progress --quiet");
    for (words, wrong) in [
        ("results 0", "4 or more of its first digits"),
        ("results --columns mmu.wlaks", "did you mean `mmu.walks`?"),
        ("results --where ipx=1", "did you mean `ipc`?"),
        ("results --study other", "it has study"),
        ("diff nothing store", "no study of the store, no file, no folder"),
        ("diff study.toml store", "no JSON document of `ambulator compare --json`"),
        ("diff design=lvm store", "no such cell"),
        ("diff store store --threshold=-1", "percent"),
    ] {
        let (code, _, err) = run(folder, words);
        assert!(code == 2 && err.contains(wrong), "{words}: {code} {err}");
    }
}
