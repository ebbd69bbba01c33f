//! Where output goes: full disks, closed pipes, devices, links, and interruptions on the way.
#![cfg(unix)]

use serde_json::Value;
use std::fs::{self, File};
use std::io::{PipeReader, Write, pipe};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SMALL_RUN: [&str; 9] =
    ["run", "gups", "--footprint", "16MiB", "--instructions", "100K", "--warmup", "0", "--no-progress"];
/// Longer than any test waits.
const ENDLESS_RUN: [&str; 8] = ["run", "gups", "--footprint", "16MiB", "--instructions", "100G", "--warmup", "0"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(arguments).env("AMBULATOR_STORE", "none").stdin(Stdio::null());
    command
}

fn ambulator(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary runs")
}

fn spawn(arguments: &[&str]) -> Child {
    command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb")
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until something holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks the exit status and returns standard error.
fn ended(child: Child, code: i32) -> String {
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[cfg(target_os = "linux")]
#[test]
fn every_command_reports_a_full_standard_output() {
    let trace = trace();
    let (trace, folder) = (trace.to_str().unwrap(), tempfile::tempdir().unwrap());
    let (out, converted) = (folder.path().join("cells"), folder.path().join("t.amb"));
    let reproduce = ["reproduce", "lvm/flatness", "--quick", "--no-progress", "--out", out.to_str().unwrap()];
    for arguments in [
        &["--help"] as &[&str],
        &["list"],
        &["explain", "dram"],
        &["show-spec"],
        &["completions", "bash"],
        &["trace", "info", trace],
        &["trace", "info", trace, "--json"],
        &["trace", "head", trace],
        &["trace", "convert", trace, converted.to_str().unwrap(), "--records", "1000"],
        &SMALL_RUN,
        &["compare", "gups", "--footprint", "16MiB", "-n", "100K", "--warmup", "0", "--designs", "radix"],
        &reproduce,
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let child = command(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let said = ended(child, 1);
        assert!(said.contains("error: standard output cannot be written: No space left"), "{arguments:?}: {said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn results_for_a_full_standard_output_are_kept_elsewhere() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = command(&[&SMALL_RUN[..], &["--json", "-"]].concat()).stdout(full).stderr(Stdio::piped()).spawn();
    let said = ended(child.unwrap(), 1);
    let kept = said.split("The results are in ").nth(1).and_then(|rest| rest.split(" instead").next()).expect(&said);
    let document: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "done");
    fs::remove_file(kept).unwrap();
    assert_eq!(said.matches("error").count(), 2, "it is reported once (`os error 28` is the other): {said}");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    for arguments in [&["list"] as &[&str], &["list", "settings"], &["completions", "zsh"], &SMALL_RUN] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let child = command(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(ended(child, 0), "", "{arguments:?}");
    }
}

#[test]
fn a_link_stays_and_its_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (link, real) = (folder.path().join("link.json"), folder.path().join("real.json"));
    fs::write(&real, "what was there before").unwrap();
    symlink("real.json", &link).unwrap();
    let output = ambulator(&[&SMALL_RUN[..], &["--json", link.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let document: Value = serde_json::from_slice(&fs::read(&real).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "done");
    assert_eq!(names(folder.path()), ["link.json", "real.json"]);
}

#[test]
fn pipes_receive_the_same_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
    make_fifo(&pipe);
    let (from, shown) = (trace(), pipe.to_str().unwrap().to_owned());
    let read = |arguments: &[&str]| {
        let path = pipe.clone();
        let reader = std::thread::spawn(move || fs::read(path).unwrap());
        let output = ambulator(arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo(), "the pipe is not a pipe any more");
        reader.join().unwrap()
    };
    let convert = |to: &str| {
        let options = ["--records", "50000"];
        [&["trace", "convert", from.to_str().unwrap(), to], &options[..]]
            .concat()
            .iter()
            .map(|s| s.to_string())
            .collect()
    };
    let as_words = |arguments: &[String]| read(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let (to_pipe, to_file): (Vec<String>, Vec<String>) = (convert(&shown), convert(file.to_str().unwrap()));
    let piped = as_words(&to_pipe);
    assert!(ambulator(&to_file.iter().map(String::as_str).collect::<Vec<_>>()).status.success());
    assert!(piped == fs::read(&file).unwrap(), "{} bytes came through the pipe", piped.len());
    // The reader already waits: the first writer to open the pipe must write the result.
    let piped = read(&[&SMALL_RUN[..], &["--json", &shown]].concat());
    let document: Value = serde_json::from_slice(&piped).expect("the reader gets the whole result");
    assert_eq!(document["runs"][0]["status"], "done");
}

/// The results that were saved elsewhere, by what was said on standard error.
fn kept_elsewhere(said: &str) -> Value {
    let kept = said.split("The results are in ").nth(1).and_then(|rest| rest.split(" instead").next()).expect(said);
    let document = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    fs::remove_file(kept).unwrap();
    document
}

#[test]
fn a_pipe_without_a_reader_does_not_block_a_signal_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    make_fifo(&pipe);
    for name in ["-INT", "-TERM"] {
        let mut child = spawn(&[&SMALL_RUN[..], &["--json", pipe.to_str().unwrap()]].concat());
        std::thread::sleep(Duration::from_millis(1500));
        assert!(child.try_wait().unwrap().is_none(), "it waits for a reader");
        signal(&child, name);
        wait_for("the end", || child.try_wait().unwrap().is_some());
        let said = ended(child, 1);
        assert!(said.contains("stopping") && said.contains("nobody reads this pipe"), "{said}");
        assert_eq!(kept_elsewhere(&said)["runs"][0]["status"], "done");
    }
}

#[test]
fn an_interrupted_conversion_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (trace(), folder.path().join("t.champsim.xz"));
    let child = spawn(&["trace", "convert", from.to_str().unwrap(), to.to_str().unwrap(), "--format", "champsim"]);
    wait_for("the half-written file", || names(folder.path()).iter().any(|name| name.contains(".part")));
    signal(&child, "-INT");
    let said = ended(child, 1);
    assert!(said.contains("stopping") && said.contains("t.champsim.xz: the conversion was interrupted"), "{said}");
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

/// A full pipe.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = pipe().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut filled = writer.try_clone().unwrap();
    std::thread::spawn(move || {
        while filled.write_all(b"x").is_ok() {
            let _ = sender.send(());
        }
    });
    while receiver.recv_timeout(Duration::from_millis(200)).is_ok() {}
    writer.flush().unwrap();
    (reader, writer.into())
}

#[test]
fn a_second_interrupt_keeps_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    // Standard output blocks: the run waits there, its result not yet written.
    let (_reader, out) = full_pipe();
    let mut child = command(&[&SMALL_RUN[..], &["--json", json.to_str().unwrap()]].concat())
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the half-written file", || names(folder.path()).iter().any(|name| name.contains(".part")));
    std::thread::sleep(Duration::from_millis(700));
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none());
    signal(&child, "-INT");
    let said = ended(child, 130);
    assert!(said.contains("the results that were finished are in"), "{said}");
    let document: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "done");
    assert_eq!(names(folder.path()), ["out.json"], "nothing half-written");
}

#[test]
fn an_interrupt_while_a_graph_is_generated_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let began = Instant::now();
    let child =
        spawn(&["run", "bfs", "--footprint", "4GiB", "-n", "100G", "--no-progress", "--json", json.to_str().unwrap()]);
    std::thread::sleep(Duration::from_millis(400));
    signal(&child, "-INT");
    let said = ended(child, 1);
    assert!(said.contains("stopping") && said.contains("interrupted before anything ran"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn an_interrupted_run_keeps_its_results_for_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    make_fifo(&pipe);
    let path = pipe.clone();
    let reader = std::thread::spawn(move || fs::read(path).unwrap());
    let child = spawn(&[&ENDLESS_RUN[..], &["--json", pipe.to_str().unwrap()]].concat());
    std::thread::sleep(Duration::from_millis(1500));
    signal(&child, "-TERM");
    ended(child, 1);
    let document: Value = serde_json::from_slice(&reader.join().unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "interrupted");
}
