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
    for (design, file) in [("radix", "a.json"), ("thp", "b.json")] {
        done(folder, &format!("run {small} --interval 5k --design {design} --json {file}"));
    }
    let told = done(folder, "diff a.json b.json --json d.json");
    assert!(told.contains(" over time ") && told.contains("of 2 intervals of 5000 instructions"), "{told}");
    let json: Value = serde_json::from_slice(&std::fs::read(folder.join("d.json")).unwrap()).unwrap();
    let over_time = &json["differences"][0]["over_time"];
    let series = |file: &str| {
        let text = std::fs::read(folder.join(file)).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["runs"][0]["series"].clone()
    };
    let parted = over_time["parted"].as_array().unwrap();
    let walks = parted.iter().find(|of| of["name"] == "mmu.walks").unwrap();
    let at = (walks["most_at"].as_u64().unwrap() / 5000) as usize;
    for (file, side) in [("a.json", "a"), ("b.json", "b")] {
        let of = series(file);
        let end = |at: usize| of["instructions"][at].as_u64().unwrap();
        let instructions = end(at) - if at > 0 { end(at - 1) } else { 0 };
        let rate = of["counters"]["mmu.walks"][at].as_f64().unwrap_or(0.0) * 1000.0 / instructions as f64;
        assert!((walks[side].as_f64().unwrap() - rate).abs() < 1e-9, "{side}: {walks}, not {rate}");
    }
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
fn many_files_are_put_together_and_read_as_before() {
    let scratch = with_study();
    let folder = scratch.path();
    let small = "gups --footprint 4MiB -n 5k --warmup 0 --set memory.bytes=256MiB --quiet --no-progress";
    for seed in 1..=3 {
        done(folder, &format!("run {small} --seed {seed}"));
    }
    let before = done(folder, "results --csv -");
    let files = || std::fs::read_dir(folder.join("store/cells")).unwrap().count();
    assert_eq!(files(), 3);
    let told = done(folder, "results --compact");
    assert!(told.contains("has the 3 rows of 3"), "{told}");
    assert_eq!((files(), done(folder, "results --csv -")), (1, before));
    assert!(done(folder, "results --compact").contains("nothing to put together"));
    assert_eq!(run(folder, "results --compact --studies").0, 2);
}

#[test]
fn rows_name_the_machine_that_a_file_is_based_on() {
    let scratch = with_study();
    let folder = scratch.path();
    std::fs::write(folder.join("mine.toml"), "base = \"utopia-table1\"\n[mmu.l2_tlb]\nentries = 768\n").unwrap();
    let small = "--designs radix,thp --footprint 4MiB -n 5k --warmup 0 --set memory.bytes=256MiB --quiet --no-progress";
    let columns = |words: &str| {
        done(folder, words);
        let rows: Value = serde_json::from_str(&done(folder, "results --design radix --json -")).unwrap();
        std::fs::remove_dir_all(folder.join("store")).unwrap();
        let row = rows["rows"][0].as_object().unwrap().clone();
        let set: Vec<String> = row.keys().filter_map(|key| key.strip_prefix("set.").map(str::to_owned)).collect();
        (row["machine"].as_str().unwrap().to_owned(), set)
    };
    let own = ["memory.bytes", "run.instructions", "run.warmup"].map(str::to_owned).to_vec();
    let of_file = [&["mmu.l2_tlb.entries".to_owned()], &own[..]].concat();
    assert_eq!(columns(&format!("compare gups --spec mine.toml {small}")), ("utopia-table1".to_owned(), of_file));
    assert_eq!(columns(&format!("compare gups --machine rmm-table5 {small}")), ("rmm-table5".to_owned(), own.clone()));
    assert_eq!(columns(&format!("compare gups {small}")), ("lvm-table1".to_owned(), own.clone()));
    // A machine that is a file is known by its name, as in a study.
    std::fs::write(folder.join("machine.toml"), "base = \"utopia-table1\"\n[l2]\nlatency = 13\n").unwrap();
    assert_eq!(columns(&format!("compare gups --machine ./machine.toml {small}")), ("machine".to_owned(), own));
}

#[test]
fn a_warm_up_without_time_is_named_for_daemons() {
    let scratch = with_study();
    let folder = scratch.path();
    let daemon = "--set run.warmup_mode=functional --set memory.bytes=256MiB --set kernel.page_size_policy=khugepaged";
    let small = format!("--footprint 4MiB -n 5k --warmup 200k --no-progress {daemon}");
    let warning = "was warmed up without time for 100 k instructions";
    for words in [
        format!("sweep --designs radix --programs gups {small}"),
        format!("compare gups --designs radix {small} --json a.json"),
    ] {
        let (code, _, err) = run(folder, &words);
        let found = err.split_whitespace().collect::<Vec<_>>().join(" ").matches(warning).count();
        assert_eq!((code, found), (0, 1), "{words}: {err}");
    }
    let document = std::fs::read_to_string(folder.join("a.json")).unwrap();
    assert_eq!(document.matches(warning).count(), 1, "results carry it");
    let key = done(folder, "results --columns cell --csv -").lines().nth(1).unwrap()[..8].to_owned();
    assert!(run(folder, &format!("results {key}")).2.contains(warning));
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
