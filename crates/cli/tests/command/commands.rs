//! The commands, from the outside.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn ambulator(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ambulator"))
        .env("AMBULATOR_STORE", "none")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it, checks the exit code, and returns standard output and standard error.
fn expect(code: i32, arguments: &[&str]) -> (String, String) {
    let output = ambulator(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
    (out, err)
}

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb")
}

const SMALL: [&str; 4] = ["--footprint", "16MiB", "--instructions", "200K"];

fn small(first: &[&'static str], more: &[&'static str]) -> Vec<&'static str> {
    [first, &SMALL, more].concat()
}

#[test]
fn the_interface_for_scripts_is_stable() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let (out, _) = expect(
        0,
        &[
            "compare",
            "gups",
            "--footprint",
            "64MiB",
            "--designs",
            "radix,thp,ideal,perfect-tlb",
            "--instructions",
            "1M",
            "--seed",
            "1",
            "--json",
            json.to_str().unwrap(),
        ],
    );
    assert!(out.contains("speed-up") && out.contains("perfect-tlb"), "{out}");
    let document: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let designs: Vec<_> = runs.iter().map(|run| run["design"].as_str().unwrap()).collect();
    assert_eq!(designs, ["radix", "thp", "ideal", "perfect-tlb"]);
    for run in runs {
        assert_eq!((run["program"].as_str(), run["status"].as_str()), (Some("gups"), Some("done")));
        assert!(run["simulated_instructions"].as_u64().unwrap() >= 1_000_000);
        assert!(run["checked_translations"].as_u64().unwrap() > 0);
        for number in ["ipc", "speedup", "host_seconds"] {
            assert!(run[number].as_f64().unwrap() > 0.0, "{number}");
        }
        for name in run["counters"].as_object().unwrap().keys() {
            let schema = &document["schema"][name];
            assert!(schema["unit"].is_string() && schema["meaning"].is_string(), "{name} has no schema");
        }
    }
    assert_eq!(runs[0]["speedup"].as_f64(), Some(1.0));
    for run in runs {
        let windows = run["windows"].as_array().unwrap();
        assert!(windows.len() >= 10, "{windows:?}");
        assert_eq!(
            (&windows[windows.len() - 1][0], &windows[windows.len() - 1][1]),
            (&run["simulated_instructions"], &run["cycles"])
        );
        assert_eq!(run["cores"][0]["cycles"], run["cycles"]);
    }
    // The perfect TLB of the comparison bounds those of its paging policy; the other policy has one of its
    // own.
    let bounds = document["bounds"].as_array().unwrap();
    assert_eq!((bounds.len(), bounds[0]["of"].to_string()), (1, "[\"thp\"]".into()));
    let verdict = document["verdict"][0].as_str().unwrap();
    assert!(verdict.starts_with("Translation costs gups at most "), "{verdict}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left next to the result");
}

#[test]
fn json_on_standard_output_is_alone_and_does_not_depend_on_threads() {
    let run = |threads: &'static str| {
        let (out, _) = expect(
            0,
            &small(&["compare", "gups", "--designs", "radix,thp,asap"], &["--json", "-", "--threads", threads]),
        );
        let mut document: Value = serde_json::from_str(&out).expect("nothing but JSON");
        document["command"] = Value::Null;
        let without_times = |run: &mut Value| {
            run["host_seconds"] = Value::Null;
            run["host_setup_seconds"] = Value::Null;
        };
        document["runs"].as_array_mut().unwrap().iter_mut().for_each(without_times);
        document["bounds"].as_array_mut().unwrap().iter_mut().for_each(|bound| without_times(&mut bound["run"]));
        document.to_string()
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
fn mistyped_names_are_rejected_with_the_nearest_valid_one() {
    for (arguments, wanted) in [
        (vec!["run", "gups", "--set", "mmu.l2_tlb.entrys=3"], "mmu.l2_tlb.entries"),
        (vec!["run", "gups", "--set", "mmu.l2_tlb.entries=many"], "mmu.l2_tlb.entries"),
        (vec!["run", "gups", "--design", "radx"], "radix"),
        (vec!["run", "gups", "--machine", "lvm-table2"], "lvm-table1"),
        (vec!["run", "gusp"], "gups"),
        (vec!["run", "gups", "--program-set", "indx=mask"], "index"),
        (vec!["run", "gups", "--footprint", "8XB"], "--footprint"),
        (vec!["run", "gups", "--instructions", "lots"], "--instructions"),
        (vec!["run", "gups", "--footprint", "1GiB", "--set", "memory.bytes=512MiB"], "does not fit"),
        (vec!["run", "gups", "--set", "l1d.ways=0"], "l1d.ways"),
        (vec!["run", "gups", "--set", "l2.bytes=1000000"], "l2"),
        (vec!["compare", "gups", "--designs", "thp,thp"], "named twice"),
        (vec!["explain", "mmu.l2_tlb.entrys"], "mmu.l2_tlb.entries"),
        (vec!["reproduce", "utopia/fig99"], "utopia/fig2"),
        (vec!["run", "gups", "--json", "/no/such/folder/out.json"], "/no/such/folder/out.json"),
        (vec!["run", "gups", "--spec", "/no/such.toml"], "/no/such.toml"),
    ] {
        let (out, err) = expect(2, &arguments);
        assert!(err.contains(wanted), "{arguments:?} should name {wanted}: {err}");
        assert!(err.starts_with("error"), "{err}");
        assert!(out.is_empty(), "nothing should have run: {out}");
    }
}

#[test]
fn an_unknown_key_in_a_file_is_shown_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "[mmu.l2_tlb]\nentries = 512\nentrees_2m = 512\n").unwrap();
    let (_, err) = expect(2, &["run", "gups", "--spec", file.to_str().unwrap()]);
    assert!(err.contains("mine.toml:3") && err.contains("entries_2m"), "{err}");
}

#[test]
fn a_machine_without_memory_ends_in_an_outcome_and_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let path = json.to_str().unwrap().to_owned();
    let (out, err) = expect(
        1,
        &[
            "run",
            "stream",
            "--footprint",
            "60MiB",
            "--set",
            "memory.bytes=64MiB",
            "--set",
            "memory.pressure.pressure=0.0",
            "--set",
            "memory.buddy.reserve_low=4096",
            "-n",
            "1M",
            "--json",
            &path,
        ],
    );
    assert!(err.contains("no memory left"), "{out}{err}");
    let document: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "outcome");
}

#[test]
fn a_full_disk_loses_nothing() {
    let (_, err) = expect(1, &small(&["run", "gups"], &["--json", "/dev/full"]));
    let kept = err.split("The results are in ").nth(1).and_then(|rest| rest.split(" instead").next()).expect(&err);
    let document: Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "done");
    std::fs::remove_file(kept).unwrap();
}

#[test]
fn damaged_traces_are_reported_with_file_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(trace()).unwrap();
    let mut corrupt = whole.clone();
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 0x55;
    let cases: [(&str, &[u8], &[&str]); 4] = [
        ("empty.amb", b"", &["empty.amb"]),
        ("text.amb", b"this is not a trace but a letter\n", &["text.amb"]),
        ("corrupt.amb", &corrupt, &["corrupt.amb", "block"]),
        ("header.amb", &whole[..20], &["header.amb"]),
    ];
    for (name, bytes, wanted) in cases {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let output = ambulator(&["run", file.to_str().unwrap(), "-n", "100M"]);
        let err = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name}: {err}");
        for word in wanted {
            assert!(err.contains(word), "{name}: {word}: {err}");
        }
    }
    let (_, err) = expect(2, &["run", folder.path().to_str().unwrap()]);
    assert!(err.contains("folder") || err.contains("directory"), "{err}");
}

#[test]
fn a_trace_that_is_cut_short_runs_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(trace()).unwrap();
    let cut = folder.path().join("cut.amb");
    std::fs::write(&cut, &whole[..whole.len() * 2 / 3]).unwrap();
    let cut = cut.to_str().unwrap();
    let warning = format!("warning: {cut}: the file has no sound footer");
    for arguments in [
        vec!["run", cut, "-n", "100K", "--warmup", "10K", "--json", "-"],
        vec!["compare", cut, "--designs", "radix,thp", "-n", "100K", "--warmup", "10K", "--json", "-"],
    ] {
        let (out, err) = expect(0, &arguments);
        assert_eq!(err.matches(&warning).count(), 1, "{err}");
        assert!(err.contains(&format!("of {} bytes", whole.len() * 2 / 3)), "{err}");
        let document: Value = serde_json::from_str(&out).unwrap();
        assert!(document["notes"][0].as_str().unwrap().contains("last whole block"), "{}", document["notes"]);
        assert_eq!(document["runs"][0]["status"], "done");
    }
    for arguments in [
        vec!["trace", "info", cut],
        vec!["trace", "head", cut],
        vec!["trace", "convert", cut, "/dev/null", "--records", "10"],
    ] {
        assert!(expect(0, &arguments).1.contains(&warning), "{arguments:?}");
    }
    let info: Value = serde_json::from_str(&expect(0, &["trace", "info", cut, "--json"]).0).unwrap();
    assert!(info["notes"][0].as_str().unwrap().contains("last whole block"), "{}", info["notes"]);
    let document: Value =
        serde_json::from_str(&expect(0, &small(&["run", "gups"], &["--warmup", "0", "--json", "-"])).0).unwrap();
    assert_eq!(document["notes"], serde_json::json!([]));
}

#[test]
fn a_warm_up_longer_than_the_program_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (from, short) = (trace(), folder.path().join("s.amb"));
    let short = short.to_str().unwrap();
    expect(0, &["trace", "convert", from.to_str().unwrap(), short, "--skip", "1M", "--records", "100k"]);
    let (_, err) = expect(1, &["run", short, "-n", "50k"]);
    assert!(err.contains("the warm-up consumed the whole program") && err.contains("2000000"), "{err}");
    let instructions = err.split("it has ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let info: Value = serde_json::from_str(&expect(0, &["trace", "info", short, "--json"]).0).unwrap();
    assert_eq!(instructions, info["instructions"].to_string(), "{err}");
    // The suggested warm-up works.
    let suggested = err.split("--warmup ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let (out, _) = expect(0, &["run", short, "-n", "50k", "--warmup", suggested, "--json", "-"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert!(document["runs"][0]["simulated_instructions"].as_u64().unwrap() >= 50_000);
}

#[test]
fn wide_addresses_are_kept_on_request_and_their_loss_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (wide, to) = (folder.path().join("wide.lackey"), folder.path().join("wide.amb"));
    std::fs::write(&wide, "I  1000,4\n L 12340000008000,8\nI  1004,4\n S 7fff00000000,8\n").unwrap();
    let (wide, to) = (wide.to_str().unwrap(), to.to_str().unwrap());
    for command in [vec!["trace", "info", wide], vec!["trace", "head", wide], vec!["trace", "convert", wide, to]] {
        let (_, err) = expect(0, &command);
        assert!(err.contains("warning") && err.contains("beyond the lowest 48, which were cut off: 1;"), "{err}");
        let (_, err) = expect(0, &[&command[..], &["--va-bits", "57"]].concat());
        assert_eq!(err, "", "{command:?}");
    }
    assert!(expect(0, &["trace", "head", to]).0.contains("0x12340000008000"));
    let (_, err) = expect(2, &["trace", "info", wide, "--va-bits", "58"]);
    assert!(err.contains("32..=57"), "{err}");
    let (out, err) = expect(0, &["run", wide, "--warmup", "0", "-n", "10", "--json", "-"]);
    assert!(
        err.contains("beyond the lowest 48, which were cut off: 1;") && out.contains("that had bits beyond"),
        "{err}"
    );
    // Beyond the end there is nothing.
    let end = folder.path().join("end.lackey");
    std::fs::write(&end, "I  1000,4\n L ffffffffffffffff,8\n").unwrap();
    let (_, err) = expect(0, &["run", end.to_str().unwrap(), "--warmup", "0", "-n", "10"]);
    assert!(err.contains("crossed the end of the address space of 48 bits") && err.contains("left out: 1"), "{err}");
}

#[test]
fn all_settings_are_listed_with_their_meanings() {
    let (out, _) = expect(0, &["list", "settings"]);
    assert!(out.contains("mmu.l2_tlb.entries") && out.contains("run.warmup"), "{out}");
}

#[test]
fn a_design_is_explained_by_its_name() {
    let (out, _) = expect(0, &["explain", "lvm"]);
    for wanted in [
        "lvm (design)",
        "a learned index of linear models",
        "Learned Virtual Memory, MICRO 2025",
        "design.page_table = \"lvm\": ",
        "lvm.max_table_bytes",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    // A design without settings.
    let (out, _) = expect(0, &["explain", "perfect-speculation"]);
    assert!(out.contains("design.speculation = \"perfect-speculation\"") && !out.contains("settings"), "{out}");
    // A design for native runs, and one that must be in all its sockets.
    assert!(expect(0, &["explain", "midgard"]).0.contains("it cannot run in a virtual machine: "));
    let (out, _) = expect(0, &["explain", "utopia"]);
    assert!(out.contains("together") && out.contains("design.lookaside") && out.contains("design.placement"), "{out}");
    assert!(out.contains("presets") && out.contains("utopia-"), "{out}");
    // Every design of the book has an explanation.
    let (designs, _) = expect(0, &["reference", "designs"]);
    let names: Vec<&str> = designs.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(expect(0, &["explain", name]).0.starts_with(&format!("{name} (design)\n")), "{name}");
    }
    for (wrong, right) in [("perfect-speculatoin", "perfect-speculation"), ("clusterd-tlb", "clustered-tlb")] {
        let (_, err) = expect(2, &["explain", wrong]);
        assert!(err.contains(&format!("the nearest is `{right}`")), "{err}");
    }
}

#[cfg(unix)]
#[test]
fn make_runs_what_cargo_built() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (folder, wanted) in [(None, "target"), (Some("/else/where"), "/else/where")] {
        let mut make = Command::new("make");
        make.args(["--dry-run", "demo", "capture-plugin"]).current_dir(&root).env_remove("CARGO_TARGET_DIR");
        make.envs(folder.map(|folder| ("CARGO_TARGET_DIR", folder)));
        let said = text(&make.output().unwrap().stdout);
        assert!(said.contains(&format!("\n{wanted}/release/ambulator compare")), "{said}");
        assert!(said.contains(&format!("CARGO_TARGET_DIR={wanted}/capture-plugin ")), "{said}");
    }
}

#[test]
fn the_captured_program_runs_with_every_kind_of_table() {
    let trace = trace();
    let (out, _) = expect(
        0,
        &[
            "compare",
            trace.to_str().unwrap(),
            "--designs",
            "radix,thp,flattened,asap,ideal,nested",
            "-n",
            "300K",
            "--warmup",
            "100K",
        ],
    );
    assert!(out.contains("the oracle checked"), "{out}");
}

#[test]
fn traces_convert_to_champsim_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let (there, back) = (folder.path().join("t.champsim.xz"), folder.path().join("t.amb"));
    let (there, back) = (there.to_str().unwrap(), back.to_str().unwrap());
    let from = trace();
    expect(0, &["trace", "convert", from.to_str().unwrap(), there, "--format", "champsim", "--records", "20000"]);
    expect(0, &["trace", "convert", there, back]);
    let (info, _) = expect(0, &["trace", "info", back]);
    assert!(info.contains("Ambulator"), "{info}");
    let (head, _) = expect(0, &["trace", "head", there, "-n", "5"]);
    assert!(head.lines().count() >= 5, "{head}");
    expect(0, &["run", there, "-n", "10K", "--warmup", "0"]);
}

#[test]
fn a_mix_runs_one_program_on_each_core() {
    let (out, _) = expect(0, &small(&["compare", "gups,stream", "--designs", "radix,thp"], &["--json", "-"]));
    let document: Value = serde_json::from_str(&out).unwrap();
    for run in document["runs"].as_array().unwrap() {
        assert_eq!(run["spec"]["machine"]["cores"], 2);
        assert!(run["simulated_instructions"].as_u64().unwrap() >= 2 * 200_000);
        assert_eq!(run["program"], "gups+stream");
    }
    let (_, err) = expect(2, &small(&["run", "gups,stream"], &["--cores", "3"]));
    assert!(err.contains("2 programs for 3 cores"), "{err}");
}

#[test]
fn programs_on_one_core_run_round_robin() {
    let slice = ["--cores", "1", "--set", "run.time_slice=20k", "--json", "-"];
    let (out, _) = expect(0, &small(&["compare", "gups,stream", "--designs", "radix,lvm"], &slice));
    let document: Value = serde_json::from_str(&out).unwrap();
    for run in document["runs"].as_array().unwrap() {
        assert_eq!((&run["program"], &run["status"]), (&Value::from("gups|stream"), &Value::from("done")));
        let instructions = run["simulated_instructions"].as_u64().unwrap();
        let switches = run["counters"]["core.context_switches"].as_u64().unwrap();
        assert!(switches.abs_diff(instructions / 20_000) <= 2, "{switches} switches in {instructions} instructions");
        assert!(run["checked_translations"].as_u64().unwrap() > 0);
    }
    let (_, err) = expect(2, &small(&["run", "gups,stream,bfs"], &["--cores", "2"]));
    assert!(err.contains("3 programs for 2 cores") && err.contains("run.time_slice"), "{err}");
}

#[test]
fn show_spec_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spec.toml");
    let (shown, _) = expect(0, &["show-spec", "--machine", "utopia-table1", "--design", "thp"]);
    std::fs::write(&file, &shown).unwrap();
    let (again, _) = expect(0, &["show-spec", "--spec", file.to_str().unwrap()]);
    assert_eq!(shown, again);
}

#[test]
fn lists_explanations_and_completions_are_printed() {
    for what in ["designs", "machines", "programs", "settings", "counters", "figures"] {
        assert!(expect(0, &["list", what]).0.lines().count() > 4, "{what}");
    }
    assert!(expect(0, &["explain", "mmu.l2_tlb.entries"]).0.contains("entries"));
    assert!(expect(0, &["explain", "mmu.walks"]).0.contains("events"));
    assert!(expect(0, &["explain", "dram"]).0.contains("dram.channels"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(expect(0, &["completions", shell]).0.contains("ambulator"));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ambulator"))
        .env("AMBULATOR_STORE", "none")
        .args(["run", "gups", "--footprint", "16MiB", "-n", "100G", "--json", json.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let document: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(document["runs"][0]["status"], "interrupted");
    assert!(document["runs"][0]["simulated_instructions"].as_u64().unwrap() > 0);
}
