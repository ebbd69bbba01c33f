//! `--checkpoint`, and `ambulator checkpoints`.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command in a folder, checks the exit status, and returns standard output and error.
fn ambulator(code: i32, folder: &Path, words: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(words).current_dir(folder).stdin(Stdio::null()).env_remove("COLUMNS").env("AMBULATOR_STORE", "none");
    let output = command.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{out}\n{err}");
    (out, err)
}

/// The runs of a file, without the sim host's times and the checkpoints' names, and how many have those.
fn runs(path: &Path) -> (Value, usize) {
    let document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut runs = document["runs"].clone();
    let mut restored = 0;
    for run in runs.as_array_mut().unwrap() {
        let run = run.as_object_mut().unwrap();
        ["host_seconds", "host_setup_seconds"].into_iter().for_each(|name| assert!(run.remove(name).is_some()));
        restored += usize::from(run.remove("checkpoint").is_some());
    }
    (runs, restored)
}

#[test]
fn runs_start_from_checkpoints_and_have_the_same_results() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let brief = ["gups", "--footprint", "8MiB", "-n", "20k", "--warmup", "20k", "--no-progress"];
    let compare =
        |more: &[&str]| ambulator(0, folder, &[&["compare", "--designs", "radix,lvm"], &brief[..], more].concat());
    compare(&["--json", "without.json"]);
    let (_, said) = compare(&["--json", "first.json", "--checkpoint", "kept"]);
    assert!(said.contains("radix on gups has made the checkpoint kept/") && !said.contains("starts from"), "{said}");
    let (_, said) = compare(&["--json", "second.json", "--checkpoint", "kept"]);
    assert!(said.contains("lvm on gups starts from the checkpoint kept/"), "{said}");
    let [without, first, second] = ["without.json", "first.json", "second.json"].map(|name| runs(&folder.join(name)));
    assert_eq!((without.1, first.1, second.1), (0, 0, 2));
    assert!(without.0 == first.0 && without.0 == second.0);

    let (list, _) = ambulator(0, folder, &["checkpoints", "kept"]);
    assert!(list.contains("radix on gups after 20000 instructions, with time"), "{list}");
    let (json, _) = ambulator(0, folder, &["checkpoints", "kept", "--json"]);
    assert!(serde_json::from_str::<Value>(&json).unwrap().as_array().unwrap().len() >= 2);
    let mut kept = fs::read_dir(folder.join("kept")).unwrap().map(|entry| entry.unwrap().path());
    let cut = kept.find(|path| path.extension().is_some_and(|suffix| suffix == "ckpt")).unwrap();
    let whole = fs::read(&cut).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let (_, said) = ambulator(1, folder, &["checkpoints", "kept"]);
    assert!(
        said.contains("is damaged or cut off") && said.contains(cut.file_name().unwrap().to_str().unwrap()),
        "{said}"
    );
    ambulator(2, folder, &["checkpoints", "nowhere"]);
}

#[test]
fn a_study_names_its_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let study = "checkpoint = 'kept'\ndesigns = ['radix', 'thp']\nprograms = ['stream']\nfootprint = '8MiB'\n\
                 instructions = '20k'\nwarmup = '20k'\nset = ['run.warmup_mode=functional', 'run.warmup_timing=2000']\n\
                 vary.core.rob = [128, 224, 512]\n";
    fs::write(folder.join("study.toml"), study).unwrap();
    let (first, said) = ambulator(0, folder, &["sweep", "study.toml", "--no-progress"]);
    assert_eq!((said.matches("has made").count(), said.matches("starts from").count()), (2, 4), "{said}");
    let (second, said) = ambulator(0, folder, &["sweep", "study.toml", "--no-progress"]);
    assert_eq!((said.matches("has made").count(), said.matches("starts from").count()), (0, 6), "{said}");
    assert_eq!(first, second);
}
