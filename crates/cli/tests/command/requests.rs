//! Whatever options ask for is done, or it is an error that says what would be right.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(arguments).env("AMBULATOR_STORE", "none").stdin(Stdio::null()).env_remove("COLUMNS");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Checks the exit status, and returns standard output and standard error.
#[track_caller]
fn ended(code: i32, output: Output) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}

#[track_caller]
fn expect(code: i32, arguments: &[&str]) -> (String, String) {
    ended(code, command(arguments).output().expect("the binary runs"))
}

fn trace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb")
}

const SMALL: [&str; 6] = ["--footprint", "16MiB", "--instructions", "20K", "--warmup", "0"];

/// The error of a small run with these arguments.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let (out, err) = expect(2, &[arguments, &SMALL].concat());
    assert!(out.is_empty() && err.starts_with("error"), "{arguments:?}: {out}{err}");
    err
}

/// The results of a small run with these arguments.
#[track_caller]
fn runs(arguments: &[&str]) -> Vec<Value> {
    let (out, _) = expect(0, &[arguments, &SMALL, &["--json", "-"]].concat());
    let document: Value = serde_json::from_str(&out).unwrap();
    document["runs"].as_array().unwrap().clone()
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (arguments, sentence) in [
        (&["run", "gups", "--cores", "1", "--set", "machine.cores=2"][..], "`--cores 1` and `--set machine.cores=2`"),
        (&["run", "gups", "--seed", "1", "--set", "run.seed=2"], "`--seed 1` and `--set run.seed=2`"),
        (&["run", "gups", "--set", "run.instructions=5"], "`--instructions 20K` and `--set run.instructions=5`"),
        (&["run", "gups", "--set", "run={ warmup = 5 }"], "`--warmup 0` and `--set run={ warmup = 5 }`"),
        (&["run", "gups", "--functional", "--set", "run.mode=timing"], "`--functional` and `--set run.mode=timing`"),
        (&["run", "gups", "--no-oracle", "--set", "run.oracle=true"], "`--no-oracle` and `--set run.oracle=true`"),
        (&["run", "gups", "--set", "core.rob=64", "--set", "core.rob=65"], "both set `core.rob`; give one of them"),
        (&["run", "gups", "--program-set", "footprint=1MiB"], "`--footprint 16MiB` and `--program-set footprint=1MiB`"),
    ] {
        let err = refused(arguments);
        assert!(err.contains(sentence) && err.contains("contradict each other"), "{arguments:?}: {err}");
    }
    let (_, err) = expect(2, &["show-spec", "--set", "core.rob=64", "--set", "core.rob=65"]);
    assert!(err.contains("contradict each other"), "{err}");
    // The same twice is no contradiction.
    let both =
        ["run", "gups", "--cores", "2", "--set", "machine.cores=2", "--set", "core.rob=64", "--set", "core.rob=64"];
    assert_eq!(runs(&both)[0]["spec"]["machine"]["cores"], 2);
}

#[test]
fn options_without_effect_are_refused() {
    for (arguments, sentence) in [
        (&["run", "gups", "--set", "lvm.max_table_bytes=1MiB"][..], "\"lvm\" is not in `design.page_table`"),
        (
            &["compare", "gups", "--designs", "radix,thp", "--set", "rmm.entries=8"],
            "(in every design of the comparison)",
        ),
        (&["run", "gups", "--design", "perfect-tlb", "--set", "mmu.l2_tlb.entries=64"], "`mmu.perfect` is true"),
        (&["run", "gups", "--set", "kernel.promotion_threshold=0.5"], "is not \"reservation\""),
        (
            &["run", "bfs", "--program-set", "graph.vertices=5000"],
            "`graph.vertices` is 5000, which decides about the size",
        ),
        (
            &["run", "bfs", "--program-set", "layout=csr", "--program-set", "property.edge_bytes=32"],
            "`layout` is \"csr\"",
        ),
        (&["run", "gups", "--set", "run.time_slice=5000"], "every program has a core of its own"),
        (&["run", "gups", "--spread-threads"], "give more `--cores`"),
        (&["run", "gups,stream", "--spread-threads"], "give more `--cores`"),
    ] {
        let err = refused(arguments);
        assert!(err.contains("has no effect: ") && err.contains(sentence), "{arguments:?}: {err}");
    }
    // One of the designs suffices.
    assert_eq!(runs(&["compare", "gups", "--designs", "radix,lvm", "--set", "lvm.max_table_bytes=1MiB"]).len(), 2);
}

#[test]
fn arguments_for_a_program_are_for_live_runs() {
    let (_, err) = expect(2, &["run", "gups", "--", "ls", "-l"]);
    assert!(err.contains("`gups` takes no arguments") && err.contains("write `--live -- ls -l`"), "{err}");
    for options in [["--skip", "5"], ["--sample", "1/5"]] {
        let (_, err) = expect(2, &[&["run", "gups"][..], &options].concat());
        assert!(err.contains("is for traces and `--live`, and `gups` is no trace"), "{err}");
    }
}

#[test]
fn sampling_has_a_method_and_a_period() {
    let settings = |sampling: &str| {
        let parts = ["--set", "run.sample_window=5k", "--set", "run.sample_timing=1k", "--json", "-"];
        let gups = ["run", "gups", "--footprint", "16MiB", "-n", "200k", "--warmup", "0", sampling];
        let (out, err) = expect(0, &[&gups[..], &parts].concat());
        assert!(!err.contains("ended after"), "all of it was covered: {err}");
        let document: Value = serde_json::from_str(&out).unwrap();
        let run = &document["runs"][0];
        (run["spec"]["run"].clone(), run["sampled"].clone())
    };
    for (asked, method, period) in [
        ("--sampling=20k", "windows", 20_000),
        ("--sampling=windows,20k", "windows", 20_000),
        ("--sampling=phases,20k", "phases", 20_000),
        ("--sampling=phases", "phases", 10_000_000),
    ] {
        let (run, sampled) = settings(asked);
        assert_eq!((run["sampling"].as_str(), run["sample_period"].as_u64()), (Some(method), Some(period)), "{asked}");
        let intervals = sampled["intervals"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!(intervals, if method == "phases" { sampled["windows"].as_u64().unwrap() } else { 0 }, "{sampled}");
    }
    for (asked, sentence) in [
        ("--sampling=phase", "`phase` is neither a period nor a method: write --sampling=5M"),
        ("--sampling=phases,x", "--sampling: "),
    ] {
        let (_, err) = expect(2, &["run", "gups", asked]);
        assert!(err.contains(sentence), "{err}");
    }
    let (_, err) = expect(2, &["run", "/dev/null", "--sampling=phases"]);
    assert!(err.contains("can be read once only: save it as a file, or use \"windows\""), "{err}");
    let (_, err) = expect(2, &["run", "gups", "--keep", "x.amb"]);
    assert!(err.contains("--live"), "{err}");
    let (_, err) = expect(2, &["reproduce", "utopia/fig2", "--whole=many"]);
    assert!(err.contains("--whole: "), "{err}");
}

#[test]
fn parts_of_a_trace_are_counted_in_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.amb");
    let (whole, part) = (trace(), part.to_str().unwrap());
    expect(0, &["trace", "convert", whole.to_str().unwrap(), part, "--records", "100k"]);
    let run = |options: &[&str]| {
        let fixed = ["run", part, "--warmup", "0", "--functional", "--json", "-", "-n"];
        let (out, _) = expect(0, &[&fixed, options].concat());
        let run = serde_json::from_str::<Value>(&out).unwrap()["runs"][0].clone();
        (run["simulated_instructions"].as_u64().unwrap(), run["measures"]["setup_page_faults"].as_f64().unwrap())
    };
    let (total, before) = run(&["1G"]);
    let (late, touched) = run(&["1G", "--skip", "90k"]);
    assert!(late.abs_diff(total - 90_000) < 100 && touched >= before, "{late} of {total}");
    // The first 1000 of each 10,000.
    let (sampled, _) = run(&["1G", "--sample", "1k/10k"]);
    assert!(sampled.abs_diff(total / 10) < 1500, "{sampled} of {total}");
    let (_, err) = expect(1, &["run", part, "--skip", "1G"]);
    assert!(err.contains("so nothing is left after the first 1000000000; skip fewer"), "{err}");
    for (sample, sentence) in [("10k", "is not WINDOW/EVERY"), ("2M/1M", "a window that is not longer")] {
        let (_, err) = expect(2, &["run", part, "--sample", sample]);
        assert!(err.contains(sentence), "{err}");
    }
    let (_, err) = expect(0, &["run", part, "-n", "1k", "--warmup", "0"]);
    assert!(err.contains("instructions of mummer were measured (0."), "{err}");
}

#[test]
fn a_mix_has_the_cores_that_a_spec_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("four.toml");
    std::fs::write(&spec, "machine.cores = 4\n").unwrap();
    let cores = |more: &[&str]| runs(&[&["run", "gups,stream"], more].concat())[0]["spec"]["machine"]["cores"].clone();
    assert_eq!(cores(&[]), 2);
    assert_eq!(cores(&["--machine", "utopia-table1"]), 2);
    assert_eq!(cores(&["--spec", spec.to_str().unwrap()]), 4);
}

#[test]
fn designs_of_a_comparison_agree_about_their_programs() {
    let folder = tempfile::tempdir().unwrap();
    let seeded = folder.path().join("seeded, twice.toml");
    std::fs::write(&seeded, "base = \"thp\"\nrun.seed = 7\n").unwrap();
    let seeded = seeded.to_str().unwrap();
    let err = refused(&["compare", "gups", "--designs", &format!("radix,{seeded}")]);
    assert!(err.contains("`run.seed` is 1 with `radix` and 7 with"), "{err}");
    // Alone it is a design like any other, comma or not.
    assert_eq!(runs(&["compare", "gups", "--designs", seeded])[0]["seed"], 7);
}

#[test]
fn a_setting_may_be_for_one_program_of_a_mix() {
    let runs =
        runs(&["run", "gups,stream", "--program-set", "gups.streams=1", "--program-set", "stream.operation=copy"]);
    let detail = runs[0]["identity"].to_string();
    assert!(detail.contains("streams = 1"), "{detail}");
    let err = refused(&["run", "gups", "--program-set", "bfs.layout=csr"]);
    assert!(err.contains("`bfs`, which is not a program of this run"), "{err}");
    let err = refused(&["run", "gups", "--program-set", "streams"]);
    assert!(err.contains("`--program-set footprint=8GiB`") && !err.contains("tlb"), "{err}");
}

#[test]
fn names_with_commas_are_files_if_they_exist() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a,b.amb");
    let part = part.to_str().unwrap();
    expect(0, &["trace", "convert", trace().to_str().unwrap(), part, "--records", "30000"]);
    for (list, name) in [(part.to_owned(), "mummer"), (format!("gups,{part}"), "gups+mummer")] {
        let (out, _) = expect(0, &["run", &list, "-n", "10K", "--warmup", "0", "--json", "-"]);
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["runs"][0]["program"], name, "{list}");
    }
    let (_, err) = expect(0, &["run", part, "-n", "10M", "--warmup", "0"]);
    assert!(
        err.contains("mummer ended after ") && err.contains("of the 10000000 instructions that --instructions"),
        "{err}"
    );
    let (_, err) = expect(2, &["run", "no,such.amb"]);
    assert!(err.contains("`no`"), "{err}");
}

#[test]
fn conversions_are_what_the_name_and_the_range_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (from, packed) = (trace(), path("t.champsim.zst"));
    let from = from.to_str().unwrap();
    expect(0, &["trace", "convert", from, &packed, "--format", "champsim", "--records", "1000"]);
    assert!(expect(0, &["trace", "info", &packed]).0.contains("ChampSim, zstd"));
    for (to, options, sentence) in [
        ("t.bz2", &["--format", "champsim"][..], "traces are not written with the compression `.bz2`"),
        ("t.champsim.xz", &[], "write `--format champsim`"),
        ("t.amb.gz", &[], "Ambulator's format has its own compression"),
        ("t.amb", &["--skip", "100G"], "nothing is left after the first 100000000000"),
        ("t.amb", &["--records", "0"], "keep at least 1"),
    ] {
        let (out, err) = expect(2, &[&["trace", "convert", from, &path(to)], options].concat());
        assert!(out.is_empty() && err.contains(sentence) && !Path::new(&path(to)).exists(), "{err}");
    }
    let (_, err) = expect(0, &["trace", "convert", &packed, &path("all.amb"), "--records", "1M"]);
    assert!(err.contains("kept of the 1000000 asked for"), "{err}");
    let (_, err) = expect(2, &["trace", "info", from, "--va-bits", "57"]);
    assert!(err.contains("is an Ambulator trace") && err.contains("omit va_bits"), "{err}");
    let (_, err) = expect(2, &["trace", "info", "/bin/ls"]);
    assert!(err.contains("is not a trace of a known format"), "{err}");
}

#[test]
fn mistyped_names_of_every_kind_get_the_nearest() {
    for (arguments, meant) in [
        (&["rnu", "gups"][..], "'run'"),
        (&["trace", "covnert"], "'convert'"),
        (&["run", "GUPS"], "`gups`"),
        (&["run", "gups-8gb"], "`gups-8g`"),
        (&["run", "gups", "--design", "UTOPIA"], "`utopia`"),
        (&["run", "gups", "--design", "utopa"], "`utopia`"),
        (&["run", "gups", "--machine", "Lvm-Tabel1"], "`lvm-table1`"),
        (&["run", "gups", "--set", "MMU.walkers=2"], "`mmu`"),
        (&["run", "gups", "--set", "design.page_table=Radix"], "\"radix\""),
        (&["explain", "Utopa"], "`utopia`"),
        (&["reproduce", "utopa"], "`utopia`"),
        (&["reproduce", "Utopia/Fig2"], "`utopia/fig2`"),
        (&["conformance", "lmv"], "`lvm`"),
        (&["list", "desings"], "'designs'"),
    ] {
        let (out, err) = expect(2, arguments);
        assert!(out.is_empty() && err.contains(meant), "{arguments:?}: {err}");
        assert!(
            err.contains("did you mean") || err.contains("nearest") || err.contains("similar"),
            "{arguments:?}: {err}"
        );
    }
}

#[test]
fn completions_create_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("share/completions/ambulator");
    let (out, _) = expect(0, &["completions", "bash", "--out", file.to_str().unwrap()]);
    assert!(out.contains("completions for bash"), "{out}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expect(0, &["completions", "bash"]).0);
    let below = file.join("not/a/folder");
    let (_, err) = expect(2, &["completions", "bash", "--out", below.to_str().unwrap()]);
    assert!(err.contains("cannot be created"), "{err}");
}

#[test]
fn a_run_without_results_prints_only_why() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short.amb");
    let short = short.to_str().unwrap();
    expect(0, &["trace", "convert", trace().to_str().unwrap(), short, "--records", "20000"]);
    let (out, err) = expect(1, &["compare", short, "--designs", "radix,thp", "-n", "10K", "--warmup", "100M"]);
    assert_eq!(out, "");
    assert_eq!(err.matches("the warm-up consumed the whole program").count(), 2, "{err}");
}

#[test]
fn outputs_fold_to_the_terminal() {
    let designs = "radix,thp,ideal,perfect-tlb,thp-reservation,l2tlb-128k,nested";
    let compare = [&["compare", "gups", "--designs", designs], &SMALL[..]].concat();
    let out = tempfile::tempdir().unwrap();
    let reproduce = ["reproduce", "lvm/flatness", "--quick", "--no-progress", "--out", out.path().to_str().unwrap()];
    for arguments in [&compare[..], &reproduce, &["list"], &["explain", "dram"], &["explain", "lvm"]] {
        let whole = ended(0, command(arguments).output().unwrap()).0;
        assert!(whole.lines().any(|line| line.chars().count() > 80), "{arguments:?} is narrow");
        let folded = ended(0, command(arguments).env("COLUMNS", "80").output().unwrap()).0;
        for line in folded.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
            let (begins, ends) = (line.starts_with(['┌', '│', '╞', '└']), line.ends_with(['┐', '│', '╡', '┘']));
            assert_eq!(begins, ends, "{line}");
        }
    }
}
