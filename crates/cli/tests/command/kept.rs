//! Nothing is lost: inputs are never replaced, finished results are kept, limits end in errors.
#![cfg(unix)]

use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_ambulator");
const SMALL: [&str; 7] = ["--footprint", "16MiB", "--instructions", "100K", "--warmup", "0", "--no-progress"];

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(words).current_dir(folder).env("AMBULATOR_STORE", "none").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks the exit status and returns standard output and error.
fn ended(output: Output, code: i32) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}

fn small(first: &[&'static str]) -> Vec<&'static str> {
    [first, &SMALL].concat()
}

/// A shell that does something and then becomes the program.
fn through_shell(before: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.env("AMBULATOR_STORE", "none");
    command.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), BINARY]).args(words).stdin(Stdio::null());
    command
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb")
}

#[test]
fn no_output_replaces_an_input() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::create_dir_all(folder.join("traces")).unwrap();
    fs::create_dir_all(folder.join("store/cells")).unwrap();
    fs::copy(trace(), folder.join("traces/mummer.amb")).unwrap();
    fs::write(folder.join("t.lackey"), "I  1000,4\n L 8000,8\nI  1004,4\n S 8008,8\n".repeat(50)).unwrap();
    fs::write(folder.join("s.toml"), "base = \"./below.toml\"\nrun.warmup = 0\n").unwrap();
    fs::write(folder.join("below.toml"), "run.oracle = true\n").unwrap();
    fs::write(folder.join("w.toml"), "program = \"gups\"\n").unwrap();
    fs::write(folder.join("store/cells/x.ndjson.zst"), "").unwrap();
    symlink("t.lackey", folder.join("soft")).unwrap();
    fs::hard_link(folder.join("t.lackey"), folder.join("hard")).unwrap();
    let all = || -> Vec<(String, Vec<u8>)> {
        let files = ["traces/mummer.amb", "t.lackey", "s.toml", "below.toml", "w.toml", "store/cells/x.ndjson.zst"];
        files.iter().map(|name| ((*name).to_owned(), fs::read(folder.join(name)).unwrap())).collect()
    };
    let before = all();
    for words in [
        &["run", "t.lackey", "--json", "t.lackey"] as &[&str],
        &["run", "t.lackey", "--json", "soft"],
        &["run", "soft", "--json", "hard"],
        &["run", "gups,t.lackey", "--json", "store/../t.lackey"],
        &["compare", "t.lackey", "--designs", "radix,thp", "--json", "hard"],
        &["run", "gups", "--footprint", "1MiB", "--spec", "s.toml", "--json", "s.toml"],
        &["run", "gups", "--footprint", "1MiB", "--spec", "s.toml", "--json", "below.toml"],
        &["run", "gups", "--footprint", "1MiB", "--machine", "./below.toml", "--json", "below.toml"],
        &["run", "gups", "--footprint", "1MiB", "--design", "./below.toml", "--json", "below.toml"],
        &["run", "w.toml", "--footprint", "1MiB", "--json", "w.toml"],
        &["trace", "convert", "t.lackey", "hard"],
        &["trace", "convert", "t.lackey", "./soft", "--format", "champsim"],
        &["reproduce", "utopia/fig1", "--quick", "--store", "store", "--json", "store/cells/x.ndjson.zst"],
        &["reproduce", "lvm/fig2", "--quick", "--store", "store", "--json", "traces/mummer.amb"],
    ] {
        let (out, err) = ended(command(folder, words).output().unwrap(), 2);
        assert!(err.contains("input") && err.contains("name another file"), "{words:?}: {err}");
        assert!(out.is_empty(), "{words:?}: {out}");
        assert!(all() == before, "{words:?} changed an input");
    }
    // Standard output that a shell appends to the input.
    for words in [
        &["trace", "head", "t.lackey"] as &[&str],
        &["trace", "info", "t.lackey", "--json"],
        &["run", "t.lackey", "--warmup", "0", "-n", "10", "--json", "-"],
    ] {
        let input = File::options().append(true).open(folder.join("hard")).unwrap();
        let child = command(folder, words).stdout(input).stderr(Stdio::piped()).spawn().unwrap();
        let (_, err) = ended(child.wait_with_output().unwrap(), 2);
        assert!(err.contains("standard output goes to t.lackey, which is an input"), "{err}");
        assert!(all() == before, "{words:?} changed an input");
    }
}

#[test]
fn two_outputs_in_one_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = File::create(folder.path().join("out")).unwrap();
    let mut run = command(folder.path(), &small(&["run", "gups", "--json", "./out"]));
    let (_, err) = ended(run.stdout(out).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap(), 2);
    assert!(err.contains("standard output goes to this file already") && err.contains("`-`"), "{err}");
    assert_eq!(names(folder.path()), ["out"]);
}

#[test]
fn a_closed_standard_output_is_an_error_and_loses_nothing() {
    let words = small(&["run", "gups", "--json", "-"]);
    let (_, err) = ended(through_shell("exec >&-", &words).output().unwrap(), 1);
    assert!(err.contains("standard output cannot be written: it is closed"), "{err}");
    let kept = err.split("The results are in ").nth(1).and_then(|rest| rest.split(" instead").next()).expect(&err);
    let document: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "done");
    fs::remove_file(kept).unwrap();
    let (_, err) = ended(through_shell("exec >&-", &["list", "designs"]).output().unwrap(), 1);
    assert!(err.contains("it is closed"), "{err}");
    // Whoever wants to see nothing gets that.
    ended(through_shell("exec >/dev/null", &words).output().unwrap(), 0);
}

/// Sends signals in one go, as `timeout` does, which signals the process and its group.
fn signal(child: &Child, times: usize) {
    let id = child.id().to_string();
    let ids = vec![id.as_str(); times];
    assert!(Command::new("kill").arg("-TERM").args(ids).status().unwrap().success());
}

#[test]
fn two_signals_at_once_are_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let endless = ["compare", "gups", "--footprint", "16MiB", "--designs", "radix,thp", "-n", "100G", "--warmup", "0"];
    let words = [&endless[..], &["--json", "out.json", "--set", "run.populate=false"]].concat();
    let child = command(folder.path(), &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the beginning", || names(folder.path()).iter().any(|name| name.contains(".part")));
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, 2);
    let (_, err) = ended(child.wait_with_output().unwrap(), 1);
    assert_eq!(err.matches("stopping").count(), 1, "{err}");
    let document: Value = serde_json::from_slice(&fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
    assert_eq!(document["runs"][0]["status"], "interrupted");
    assert_eq!(names(folder.path()), ["out.json"]);
}

#[test]
fn temporary_files_of_killed_runs_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let endless = ["run", "gups", "--footprint", "16MiB", "-n", "100G", "--json", "out.json"];
    let spawn = || command(folder.path(), &endless).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parts = || names(folder.path()).into_iter().filter(|name| name.ends_with(".part")).count();
    let mut killed = spawn();
    wait_for("the temporary file", || parts() == 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut living = spawn();
    // The killed one's is gone, the living one's is there.
    wait_for("the other temporary file", || {
        parts() == 1 && names(folder.path())[0].contains(&format!("-{}-", living.id()))
    });
    fs::write(folder.path().join("out.json.part-1"), "of somebody else").unwrap();
    let words = small(&["run", "gups", "--json", "out.json"]);
    ended(command(folder.path(), &words).output().unwrap(), 0);
    assert_eq!(parts(), 1, "{:?}", names(folder.path()));
    living.kill().unwrap();
    living.wait().unwrap();
    ended(command(folder.path(), &words).output().unwrap(), 0);
    assert_eq!(names(folder.path()), ["out.json", "out.json.part-1"]);
}

#[test]
fn too_little_address_space_is_an_error_that_names_the_limit() {
    let mut refused = 0;
    for megabytes in (640..1000).step_by(12) {
        let words = small(&["run", "gups", "--json", "-", "--set", "memory.bytes=512MiB"]);
        let output = through_shell(&format!("ulimit -v {}", megabytes << 10), &words).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        if output.status.code() == Some(0) {
            assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["runs"][0]["status"], "done");
            continue;
        }
        refused += 1;
        assert_eq!(output.status.code(), Some(1), "{megabytes} MiB: {err}");
        assert!(err.contains("ulimit -v") && !err.contains("panicked") && !err.contains("invariant"), "{err}");
    }
    assert!(refused > 0, "the limits are too high to matter");
}

#[test]
fn too_few_threads_are_an_error_that_names_the_limit() {
    // The limit does not hold for root, and other users may not see the binary where it is.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("ambulator");
    fs::copy(BINARY, &copy).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let run = |most: u32, words: &[&str]| {
        let mut command = Command::new(if root { "setpriv" } else { "prlimit" });
        if root {
            command.args(["--reuid=64123", "--regid=64123", "--clear-groups", "prlimit"]);
        }
        command.env("AMBULATOR_STORE", "none");
        command.arg(format!("--nproc={most}:{most}")).arg(&copy).args(words).output().unwrap()
    };
    for most in [1, 2] {
        let (_, err) = ended(run(most, &small(&["run", "gups", "--json", "-"])), 1);
        let wanted = format!("the limit on processes and threads (`ulimit -u`) is {most}; raise it");
        assert!(err.contains(&wanted) && !err.contains("panicked"), "{err}");
    }
    // Enough for the program, whose opening takes a thread for a moment, but not for all helpers of the comparison: it
    // takes longer.
    let words = ["compare", "gups", "--designs", "radix,thp,ideal,perfect-tlb", "--threads", "4", "--json", "-"];
    let (out, err) = ended(run(4, &[&words[..], &SMALL].concat()), 0);
    assert!(err.contains("warning: not all 4 threads could be started"), "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert!(document["runs"].as_array().unwrap().iter().all(|run| run["status"] == "done"), "{err}");
}

#[test]
fn endless_and_huge_inputs_end_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for device in ["/dev/zero", "/dev/urandom"] {
        for words in [
            &["run", "gups", "--spec", device] as &[&str],
            &["show-spec", "--spec", device],
            &["layout", "--maps", device],
        ] {
            let (_, err) = ended(command(folder.path(), words).output().unwrap(), 2);
            assert!(err.contains(device) && err.contains("MiB, the most that is read"), "{words:?}: {err}");
        }
    }
    // Ten thousand errors are described by the first of them.
    let wrong: String = (0..10_000).map(|i| format!("unknwon_{i} = {i}\n")).collect();
    fs::write(folder.path().join("wrong.toml"), &wrong).unwrap();
    let (_, err) = ended(command(folder.path(), &["show-spec", "--spec", "wrong.toml"]).output().unwrap(), 2);
    assert_eq!(err.matches("there is no setting").count(), 20, "{err}");
    assert!(err.trim_end().ends_with("and 9,980 more"), "{err}");
    // Names and lines of a hundred thousand characters.
    let long = "mmu.".repeat(25_000);
    fs::write(folder.path().join("long.toml"), format!("x = [{}]\n", "1, ".repeat(200_000))).unwrap();
    for words in [
        &["explain", &long] as &[&str],
        &["explain", &long.replace('.', "x")],
        &["run", &long.replace('.', "x")],
        &["run", "gups", "--design", &long.replace('.', "x")],
        &["run", "gups", "--set", &format!("{long}=1")],
        &["run", "gups", "--set", &format!("design.page_table={}", long.replace('.', "x"))],
        &["run", "gups", "--set", &format!("mmu.l2_tlb.entries={}", "9".repeat(100_000))],
        &["run", "gups", "--program-set", &format!("{}=1", long.replace('.', "x"))],
        &["show-spec", "--spec", "long.toml"],
    ] {
        let (_, err) = ended(command(folder.path(), words).output().unwrap(), 2);
        assert!(err.len() < 4000, "{} bytes about {}: {}", err.len(), words[0], &err[..4000]);
    }
}

#[test]
fn sizes_that_no_sim_host_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, wanted) in [
        ("llc.bytes=1TiB", "`llc.bytes` is 1TiB; it must be from 64 to 1GiB"),
        ("l1d.bytes=8GiB", "it must be from 64 to 1GiB"),
        ("mmu.l2_tlb.entries=4294967295", "it must be from 0 to 1048576"),
    ] {
        let (_, err) = ended(command(folder.path(), &small(&["run", "gups", "--set", setting])).output().unwrap(), 2);
        assert!(err.contains(wanted), "{setting}: {err}");
    }
    let many = ["run", "gups", "--set", "llc.bytes=1GiB", "--cores", "16"];
    let (_, err) = ended(command(folder.path(), &small(&many)).output().unwrap(), 2);
    assert!(err.contains("the caches of all cores have"), "{err}");
}

#[test]
fn meanings_of_counters_do_not_depend_on_which_design_ends_first() {
    let folder = tempfile::tempdir().unwrap();
    let meaning = |designs: &str| {
        let words = ["compare", "gups", "--designs", designs, "--json", "-"];
        let words = [&words[..], &SMALL].concat();
        let (out, _) = ended(command(folder.path(), &words).output().unwrap(), 0);
        let document: Value = serde_json::from_str(&out).unwrap();
        document["schema"]["mmu.lookaside.hits"]["meaning"].as_str().unwrap().to_owned()
    };
    let (rmm, clustered) = (meaning("rmm"), meaning("clustered-tlb"));
    assert_ne!(rmm, clustered, "the designs differ about this counter");
    assert_eq!(meaning("rmm,clustered-tlb"), format!("{rmm} / {clustered}"));
    assert_eq!(meaning("clustered-tlb,rmm"), format!("{clustered} / {rmm}"));
}

#[test]
fn a_damaged_store_is_told_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["reproduce", "lvm/flatness", "--quick", "--store", "store", "--no-progress"];
    let run = || ended(command(folder.path(), &words).output().unwrap(), 0);
    let first = run();
    assert!(first.0.contains("80.0") && first.0.contains("published"), "{}", first.0);
    assert_eq!(first.1, "");
    let cells = folder.path().join("store/cells");
    let shards = || fs::read_dir(&cells).unwrap().map(|entry| entry.unwrap().path());
    let whole: Vec<u8> = shards().flat_map(|shard| zstd::decode_all(&fs::read(shard).unwrap()[..]).unwrap()).collect();
    let whole = String::from_utf8(whole).unwrap();
    shards().for_each(|shard| fs::remove_file(shard).unwrap());
    // A digit is edited in the first line, and the last one has lost its end.
    let at = whole.find("\"cycles\":").unwrap() + "\"cycles\":".len();
    let digit = if &whole[at..=at] == "9" { "8" } else { "9" };
    let edited = format!("{}{digit}{}", &whole[..at], &whole[at + 1..whole.len() - 100]);
    fs::write(cells.join("killed.ndjson"), edited).unwrap();
    let second = run();
    assert_eq!(second.0, first.0);
    let last = whole.lines().count();
    assert!(second.1.contains("killed.ndjson:1: this line is left out: its checksum does not fit"), "{}", second.1);
    assert!(
        second.1.contains(&format!("killed.ndjson:{last}: this line is left out: it is incomplete")),
        "{}",
        second.1
    );
    assert_eq!(run(), first, "it is told once");
}
