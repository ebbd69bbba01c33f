//! Whatever a command prints or writes by a name, `explain` knows.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn ambulator(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ambulator"))
        .args(arguments)
        .env("AMBULATOR_STORE", "none")
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs it, checks the exit code, and returns standard output and standard error.
fn expect(code: i32, arguments: &[&str], input: &str) -> (String, String) {
    let output = ambulator(arguments, input);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
    (out, err)
}

fn run(arguments: &[&str]) -> String {
    expect(0, arguments, "").0
}

/// Names, each with where it was met.
#[derive(Default)]
struct Names(BTreeMap<String, &'static str>);

impl Names {
    /// Adds the names of an output, of which there must be some.
    fn add(&mut self, what: &'static str, names: impl IntoIterator<Item = String>, at_least: usize) {
        let names: BTreeSet<String> = names.into_iter().filter(|name| !name.trim().is_empty()).collect();
        assert!(names.len() >= at_least, "{what}: {names:?}");
        self.0.extend(names.into_iter().map(|name| (name, what)));
    }

    /// Asks for all of them at once; none may be unknown.
    fn ask(&self) {
        let list: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let output = ambulator(&["explain", "-"], &list.join("\n"));
        let err = String::from_utf8_lossy(&output.stderr);
        let unknown = self.0.iter().filter(|(name, _)| err.contains(&format!("`{}`", name.trim())));
        assert!(output.status.success(), "{:?}\n{err}", unknown.collect::<Vec<_>>());
    }
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim_matches('│').trim();
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

/// The first column of the tables in a text, with its head.
fn labels(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with('│'));
    rows.filter_map(|line| cells(line).into_iter().next()).collect()
}

/// The heads of the tables in a text.
fn heads(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.windows(2).filter(|pair| pair[0].starts_with('┌') && pair[1].starts_with('│'));
    heads.flat_map(|pair| cells(pair[1])).collect()
}

/// Every key of a document; below `spec`, those of settings.
fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                found.push(name.clone());
                match name.as_str() {
                    "spec" if member.is_object() => settings("", member, found),
                    // Specs by their hashes.
                    "specs" => {
                        member.as_object().into_iter().flatten().for_each(|(_, spec)| settings("", spec, found));
                    }
                    _ => keys(member, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

fn settings(at: &str, value: &Value, found: &mut Vec<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        settings(&key, member, found);
        found.push(key);
    }
}

fn keys_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    keys(&serde_json::from_str(text).unwrap(), &mut found);
    found
}

const SMALL: [&str; 8] =
    ["--footprint", "16MiB", "--instructions", "60K", "--warmup", "0", "--no-progress", "--interval"];

#[test]
fn everything_that_a_comparison_says_is_explained() {
    let mut names = Names::default();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, csv, store) = (path("c.json"), path("c.csv"), path("store"));
    let compared = [
        &[
            "compare",
            "gups",
            "--designs",
            "radix,utopia,nested",
            "--cores",
            "2",
            "--json",
            &json,
            "--csv",
            &csv,
            "--store",
        ],
        &[store.as_str()][..],
        &SMALL,
        &["20K"],
    ]
    .concat();
    let table = run(&compared);
    names.add("rows", labels(&table).into_iter().chain(heads(&table)), 20);
    names.add("JSON", keys_of(&std::fs::read_to_string(&json).unwrap()), 500);
    let csv = std::fs::read_to_string(csv).unwrap();
    names.add("CSV", csv.lines().next().unwrap().split(',').map(str::to_owned), 12);

    let cells = run(&["results", "--store", &store, "--json", "-"]);
    names.add("results --json", keys_of(&cells), 300);
    names.add("results", heads(&run(&["results", "--store", &store])), 5);
    let rows: Value = serde_json::from_str(&cells).unwrap();
    let key = |at: usize| rows["rows"][at]["cell"].as_str().unwrap()[..12].to_owned();
    let whole = run(&["results", &key(0), "--store", &store]);
    names.add("results CELL", labels(&whole), 100);
    let difference = ["diff", &key(0), &key(1), "--store", &store];
    let table = run(&difference);
    names.add("diff", labels(&table).into_iter().chain(heads(&table)), 15);
    names.add("diff --json", keys_of(&run(&[&difference[..], &["--json", "-"]].concat())), 15);

    let figures = path("figures");
    run(&["plot", &json, "-o", &figures, "--format", "vl"]);
    let mut titles_of_all = Vec::new();
    for file in std::fs::read_dir(figures).unwrap() {
        let file = file.unwrap().path();
        let titles = |text: &str| {
            let mut titles = Vec::new();
            all_titles(&serde_json::from_str(text).unwrap(), &mut titles);
            titles
        };
        titles_of_all.extend(titles(&std::fs::read_to_string(&file).unwrap()));
    }
    names.add("plot", titles_of_all, 5);
    names.ask();
}

fn all_titles(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("title").and_then(Value::as_str).map(str::to_owned));
            members.iter().filter(|(name, _)| *name != "data").for_each(|(_, member)| all_titles(member, found));
        }
        Value::Array(values) => values.iter().for_each(|value| all_titles(value, found)),
        _ => {}
    }
}

#[test]
fn everything_that_a_sweep_says_is_explained() {
    let mut names = Names::default();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").to_str().unwrap().to_owned();
    let sweep = ["sweep", "--designs", "radix,thp", "--programs", "gups", "--vary", "mmu.l2_tlb.entries=512,1024"];
    let small =
        ["--footprint", "4MiB", "-n", "20K", "--warmup", "0", "--seeds", "2", "--no-progress", "--store", &store];
    let table = run(&[&sweep[..], &small].concat());
    names.add("sweep", heads(&table), 6);
    let csv = run(&[&sweep[..], &small, &["--csv", "-"]].concat());
    names.add("sweep --csv", csv.lines().next().unwrap().split(',').map(|name| name.trim_matches('"').to_owned()), 12);
    let studies = std::fs::read_dir(Path::new(&store).join("studies")).unwrap();
    for study in studies {
        names.add("study", keys_of(&std::fs::read_to_string(study.unwrap().path()).unwrap()), 12);
    }
    let columns = keys_of(&std::fs::read_to_string(Path::new(&store).join("columns.json")).unwrap());
    names.add("columns.json", columns, 200);
    names.ask();
}

#[test]
fn everything_that_is_said_of_a_trace_an_address_space_and_a_walk_is_explained() {
    let mut names = Names::default();
    let folder = tempfile::tempdir().unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb");
    let trace = trace.to_str().unwrap();
    // Labels begin a line and end before the value.
    let begins = |text: &str, width: usize| -> Vec<String> {
        let lines = text.lines().filter(|line| line.chars().count() > width);
        lines.map(|line| line.chars().take(width).collect::<String>()).filter(|label| label.ends_with("  ")).collect()
    };
    names.add("trace info", begins(&run(&["trace", "info", trace]), 27), 15);
    names.add("trace info --json", keys_of(&run(&["trace", "info", trace, "--json"])), 25);
    let maps = folder.path().join("maps");
    std::fs::write(&maps, "7f0000000000-7f0000400000 rw-p 00000000 00:00 0\n").unwrap();
    let layout = ["layout", "--maps", maps.to_str().unwrap()];
    let text = run(&layout);
    let quantities = text.split("memory for the resident pages").next().unwrap();
    names.add("layout", begins(quantities, 35), 4);
    names.add("layout --json", keys_of(&run(&[&layout[..], &["--json"]].concat())), 10);
    let walk = ["explain-walk", "--design", "radix,revelator", "--after", "20K", "--footprint", "32MiB"];
    names.add("explain-walk", heads(&run(&walk)), 7);
    names.add("explain-walk --json", keys_of(&run(&[&walk[..], &["--json"]].concat())), 30);
    names.ask();
}

#[test]
fn without_a_name_it_says_what_can_be_asked() {
    let text = run(&["explain"]);
    for wanted in
        ["ambulator explain NAME", "rows of tables", "MMU cycles per access", "utopia/fig11", "RestSeg", "lvm"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let all: Value = serde_json::from_str(&run(&["explain", "--json"])).unwrap();
    let names = all["names"].as_array().unwrap();
    assert!(names.len() > 1000 && names.iter().all(|of| of["name"].is_string() && of["kind"].is_string()));
}

#[test]
fn names_may_have_spaces_and_json_has_all_that_the_text_has() {
    assert_eq!(run(&["explain", "MMU", "cycles", "per", "access"]), run(&["explain", "mmu cycles per access"]));
    let found: Value = serde_json::from_str(&run(&["explain", "RestSeg", "--json"])).unwrap();
    assert_eq!((&found["asked"], &found["found"][0]["source"]), (&"RestSeg".into(), &"Utopia Sec. 5.1".into()));
    let (out, err) = expect(2, &["explain", "-"], "mmu.walks\nno such thing as this\n\nRestSegg\n");
    assert!(out.contains("mmu.walks (counter)") && err.contains("the nearest is `RestSeg`"), "{out}{err}");
    assert!(err.contains("nothing is called `no such thing as this`"), "{err}");
}
