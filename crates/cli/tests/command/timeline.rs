//! `--trace-events`, from the outside.

use ambulator_timeline::read;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the command, checks the exit code, and returns standard output and standard error.
fn expect(code: i32, arguments: &[&str]) -> (String, String) {
    let command =
        [arguments, &["--footprint", "16MiB", "--instructions", "20K", "--warmup", "0", "--no-progress"]].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_ambulator"))
        .args(&command)
        .env("AMBULATOR_STORE", "none")
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{out}\n{err}");
    (out, err)
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn designs_are_side_by_side_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pftrace");
    let name = file.to_str().unwrap();
    let designs = ["compare", "gups", "--designs", "radix,lvm", "--trace-events", name, "--trace-for", "2K"];
    let (out, err) = expect(0, &designs);
    assert!(out.contains("lvm") && err.contains("timeline in") && err.contains("events"), "{out}\n{err}");
    let trace = read(&std::fs::read(&file).unwrap()).unwrap();
    let tops: Vec<&str> =
        trace.tracks.values().filter(|track| track.parent.is_none()).map(|track| track.name.as_str()).collect();
    assert_eq!(tops, ["radix", "lvm"], "the bounds are not recorded");
    let windows: Vec<_> = trace.slices.iter().filter(|slice| slice.name == "window").collect();
    assert_eq!(windows.len(), 2);
    assert!(windows.iter().all(|window| (2000..3000).contains(&window.number("instructions").unwrap())), "{windows:?}");
    assert_eq!(files(folder.path()), ["a.pftrace"]);
}

#[test]
fn what_cannot_be_recorded_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pftrace");
    let name = file.to_str().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["--trace-events", "/nowhere/at/all.pftrace"], "/nowhere/at/all.pftrace"),
        (&["--trace-events", name, "--trace-from", "20K"], "20000 are measured"),
        (&["--trace-events", name, "--trace-for", "0"], "--trace-for"),
        (&["--trace-events", name, "--trace-limit", "much"], "--trace-limit"),
        (&["--trace-events", name, "--functional"], "--functional"),
        (&["--trace-for", "1K"], "--trace-events"),
    ];
    for (arguments, said) in cases {
        let (out, err) = expect(2, &[&["run", "gups", "--design", "radix"], arguments].concat());
        assert!(out.is_empty() && err.contains(said), "{arguments:?}: {out}\n{err}");
    }
    assert!(files(folder.path()).is_empty());
}

#[test]
fn results_outlive_a_timeline_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("results.json");
    let run = ["run", "gups", "--design", "radix", "--json", json.to_str().unwrap(), "--trace-events"];
    let (out, err) = expect(1, &[&run[..], &["/dev/full"]].concat());
    assert!(out.contains("radix") && err.contains("/dev/full: writing failed"), "{out}\n{err}");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "done");
    // A size that was asked for is a warning.
    let file = folder.path().join("a.pftrace");
    let small = [file.to_str().unwrap(), "--trace-limit", "100KiB"];
    let (_, err) = expect(0, &[&run[..], &small].concat());
    assert!(err.contains("because the file had 100 KiB") && err.contains("--trace-limit"), "{err}");
    assert!((100 << 10..400 << 10).contains(&std::fs::metadata(&file).unwrap().len()));
}
