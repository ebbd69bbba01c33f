//! Programs by name, their settings and workloads.

use super::*;
use serde_json::json;

fn request(name: &str, options: &[&str]) -> Result<ambulator_workloads::ProgramRequest, String> {
    let options: Vec<String> = options.iter().map(|o| (*o).to_owned()).collect();
    program_request(name, &options, None, 7).map_err(|e| e.to_string())
}

#[test]
fn every_workload_makes_a_program_that_is_valid() {
    let mut seen = 0;
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Workload) {
        let request = request(preset.name, &[]).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        assert_eq!((&request.name, request.label.as_deref()), (&preset.program, Some(preset.name)));
        let program = ambulator_workloads::program(&request.name).unwrap();
        let program = program.program(&request.settings, request.footprint, request.seed);
        let program = program.unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        assert_eq!(program.validate("program"), vec![], "{}", preset.name);
        assert!(!preset.about.is_empty() && !preset.paper.is_empty(), "{}", preset.name);
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn options_override_the_workload_and_sizes_have_suffixes() {
    let gups = request("gups-64g", &["streams=1", "footprint=32GiB", "index=multiply-shift"]).unwrap();
    let expected = json!({ "footprint": 32u64 << 30, "streams": 1, "index": "multiply-shift" });
    assert_eq!(serde_json::Value::Object(gups.settings), expected);
    let bfs = request("bfs", &["graph.edge_factor=5", "graph.vertices=1M"]).unwrap();
    assert_eq!(
        serde_json::Value::Object(bfs.settings),
        json!({ "graph": { "edge_factor": 5, "vertices": 1_000_000 } })
    );
    let trace = request("some/trace.xz", &["va_bits=57"]).unwrap();
    assert_eq!(
        (trace.name.as_str(), serde_json::Value::Object(trace.settings)),
        ("some/trace.xz", json!({ "va_bits": 57 }))
    );
}

#[test]
fn errors_name_the_nearest_setting_and_the_option() {
    assert_says(
        request("bfs", &["lay_out=csr"]),
        &["there is no setting `bfs.lay_out`", "--program-set", "the nearest setting is `bfs.layout`"],
    );
    assert_says(request("bfs", &["layout=rows"]), &["`bfs.layout`", "\"property\"", "\"csr\""]);
    assert_says(
        request("gups", &["streams"]),
        &["`--program-set streams` has no `=`", "such as `--program-set footprint=8GiB`"],
    );
    assert_says(request("gups", &["footprint=8GB"]), &["`GiB`"]);
}

#[test]
fn unknown_programs_get_the_nearest_program_or_workload() {
    for (name, nearest) in [("GUPS", "gups"), ("gusp", "gups"), ("mcf-1.8g", "mcf-1.7g"), ("gups-8gb", "gups-8g")] {
        let said = format!("there is no program, workload or trace file `{name}`");
        assert_says(request(name, &[]), &[&said, &format!("did you mean `{nearest}`?")]);
    }
    assert_says(request("quicksort", &[]), &["the programs are: ", "gups", "ambulator list workloads"]);
    // Paths are opened as traces.
    assert_eq!(request("no/such/gups", &[]).unwrap().name, "no/such/gups");
    assert_eq!(request("missing.amb", &[]).unwrap().name, "missing.amb");
}

#[test]
fn options_do_not_contradict_each_other() {
    let footprint = |bytes, options: &[&str]| {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        program_request("gups", &options, Some(bytes), 7).map_err(|error| error.to_string())
    };
    assert_says(
        footprint(2 << 20, &["footprint=4MiB"]),
        &["`--footprint 2MiB` and `--program-set footprint=4MiB` contradict each other: both set `gups.footprint`"],
    );
    assert!(footprint(4 << 20, &["footprint=4MiB"]).is_ok());
    assert_says(
        request("gups", &["streams=1", "gups.streams=2"]),
        &["`--program-set streams=1` and `--program-set streams=2` contradict each other"],
    );
}

#[test]
fn an_option_may_be_for_one_program_of_a_mix() {
    let options = ["bfs.layout=csr", "gups.streams=1", "trace.va_bits=57"];
    assert_eq!(serde_json::Value::Object(request("gups", &options).unwrap().settings), json!({ "streams": 1 }));
    assert_eq!(serde_json::Value::Object(request("bfs", &options).unwrap().settings), json!({ "layout": "csr" }));
    assert_eq!(serde_json::Value::Object(request("a.champsim", &options).unwrap().settings), json!({ "va_bits": 57 }));
    assert_eq!(option_program("bfs.layout=csr"), Some("bfs"));
    assert_eq!((option_program("graph.a=1"), option_program("layout=bfs.csr")), (None, None));
}

#[test]
fn workload_files_are_read_with_their_bases() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let mine = path("mine.toml", "about = \"mine\"\nbase = \"gups-64g\"\nstreams = 2\n");
    let read = request(&mine, &[]).unwrap();
    assert_eq!((read.name.as_str(), read.label.as_deref()), ("gups", Some("mine")));
    assert_eq!(serde_json::Value::Object(read.settings), json!({ "footprint": 64u64 << 30, "streams": 2 }));
    assert_says(request(&path("a.toml", "about = \"x\"\n"), &[]), &["does not set its `program`"]);
    assert_says(request(&path("b.toml", "program = \"gusp\"\n"), &[]), &["`gusp`, which is not a program", "gups"]);
    assert_says(request(&path("c.toml", "program = \"gups\"\nstraems = 3\n"), &[]), &["c.toml:2", "`gups.streams`"]);
    assert_says(request("nowhere/d.toml", &[]), &["cannot be read"]);
    assert_says(parse_text("program = \"gups\"\n"), &["belongs in a workload"]);
}

#[test]
fn programs_settings_are_explained() {
    let text = explain("gups.streams", &[]).unwrap().to_string();
    assert!(text.contains("default  128") && text.contains("HPCC"), "{text}");
    let text = explain("gups.footprint", &[]).unwrap().to_string();
    assert!(text.contains("workload gups-64g: \"64GiB\""), "{text}");
    assert!(explain("bfs", &[]).unwrap().to_string().contains("bfs.graph.edge_factor"));
    assert_says(explain("bfs.layuot", &[]).map(|_| ()), &["`bfs.layout`"]);
    assert!(program_reference_markdown().contains("| `bfs.layout` | choice |"));
}
