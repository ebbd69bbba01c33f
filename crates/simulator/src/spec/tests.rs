//! Tests of specs as their users meet them.

use super::layer::Layers;
use super::problem::Source;
use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

fn with_options(options: &[&str]) -> Result<Spec, String> {
    let request = SpecRequest {
        options: options.iter().map(|option| option.to_string()).collect(),
        ..SpecRequest::default()
    };
    load(&request)
        .map(|loaded| loaded.spec)
        .map_err(|error| error.to_string())
}

fn parse_text(text: &str) -> Result<Spec, String> {
    parse("mine.toml", text).map_err(|error| error.to_string())
}

#[track_caller]
fn assert_says(result: Result<Spec, String>, parts: &[&str]) {
    let message = result.expect_err("this spec is wrong");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in:\n{message}");
    }
}

#[test]
fn the_default_spec_is_sound_and_is_lvm_table_1() {
    assert_eq!(Spec::default().validate(), Vec::<String>::new());
    assert_eq!(load(&SpecRequest::default()).unwrap().spec, Spec::default());
}

#[test]
fn every_setting_says_its_unit_and_meaning() {
    for setting in tree().leaves() {
        assert!(
            !setting.meaning.is_empty(),
            "`{}` has no meaning",
            setting.key
        );
        assert!(!setting.unit.is_empty(), "`{}` has no unit", setting.key);
        assert!(
            setting.optional || !setting.default.is_null(),
            "`{}` has no default",
            setting.key
        );
    }
    assert!(tree().leaves().len() > 100);
}

#[test]
fn every_preset_loads_and_says_what_it_is() {
    let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
    for name in [
        "lvm-table1",
        "me-hpt-table3",
        "rmm-table5",
        "utopia-table1",
        "revelator-table1",
    ] {
        assert!(
            preset(PresetKind::Machine, name).is_some(),
            "{name} is not among {names:?}"
        );
    }
    for preset in presets() {
        let mut request = SpecRequest::default();
        match preset.kind {
            PresetKind::Machine => request.machine = Some(preset.name.into()),
            PresetKind::Design => request.design = Some(preset.name.into()),
        }
        if let Err(error) = load(&request) {
            panic!("{}: {error}", preset.name);
        }
        assert!(
            !preset.about.is_empty() && !preset.paper.is_empty(),
            "{}",
            preset.name
        );
    }
}

#[test]
fn every_design_goes_with_every_machine() {
    for machine in presets()
        .iter()
        .filter(|preset| preset.kind == PresetKind::Machine)
    {
        for design in presets()
            .iter()
            .filter(|preset| preset.kind == PresetKind::Design)
        {
            let request = SpecRequest {
                machine: Some(machine.name.into()),
                design: Some(design.name.into()),
                ..SpecRequest::default()
            };
            if let Err(error) = load(&request) {
                panic!("{} with {}: {error}", design.name, machine.name);
            }
        }
    }
}

#[test]
fn papers_numbers_reach_the_spec() {
    let machine = |name: &str| {
        load(&SpecRequest {
            machine: Some(name.into()),
            ..SpecRequest::default()
        })
        .unwrap()
        .spec
    };
    let me_hpt = machine("me-hpt-table3");
    assert_eq!(
        (me_hpt.core.rob, me_hpt.l2.bytes, me_hpt.mmu.l2_tlb.entries),
        (256, 512 << 10, 1024)
    );
    assert_eq!(me_hpt.memory.fragmentation.fmfi, 0.7);
    let rmm = machine("rmm-table5");
    assert_eq!(
        (
            rmm.machine.clock_mhz,
            rmm.mmu.l2_tlb.entries,
            rmm.mmu.l2_tlb.entries_2m
        ),
        (2200, 512, 0)
    );
    let revelator = machine("revelator-table1");
    assert_eq!(
        revelator.l2.replacement,
        ambulator_hardware::Replacement::Srrip
    );
    assert_eq!(machine("utopia-table1").mmu.l2_tlb.entries, 1536);
}

#[test]
fn a_misspelt_key_shows_file_line_and_the_nearest() {
    let text = "[machine]\ncores = 2\n\n[mmu.l2_tlb]\nentires = 2048\n";
    assert_says(
        parse_text(text),
        &[
            "there is no setting `mmu.l2_tlb.entires`",
            "mine.toml:5:1",
            "5 | entires = 2048",
            "^^^^^^^",
            "`mmu.l2_tlb.entries`",
        ],
    );
    assert_says(
        parse_text("mmu.l2_tbl.entries = 4"),
        &["mine.toml:1:5", "the nearest setting is `mmu.l2_tlb`"],
    );
    assert_says(
        parse_text("[mmu]\nrob = 4"),
        &["the nearest setting is `core.rob`"],
    );
    assert_says(
        parse_text("[virtualization]\nxyzzyxyzzy = 4"),
        &["`virtualization` has: mode, nested"],
    );
    assert_says(
        parse_text("core.rob.size = 4"),
        &["`core.rob` is", "mine.toml:1"].map(|_| "`core.rob`"),
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let message =
        parse_text("[core]\nwidht = 1\nrob = true\n[dram]\nchannels = \"many\"\n").unwrap_err();
    assert_eq!(message.matches("error:").count(), 3, "{message}");
}

#[test]
fn wrong_types_are_told_with_what_is_right() {
    assert_says(
        parse_text("core.rob = true"),
        &[
            "`core.rob` takes an integer (entries), not `true`",
            "mine.toml:1:12",
        ],
    );
    assert_says(
        parse_text("core.rob = 2.5"),
        &["takes an integer (entries), not the number 2.5"],
    );
    assert_says(
        parse_text("core.rob = -1"),
        &["`core.rob` is -1, and it must be from 0 to 4294967295"],
    );
    assert_says(
        parse_text("core.rob = 5_000_000_000"),
        &["is 5000000000, and it must be from 0 to"],
    );
    assert_says(
        parse_text("run.seed = 99999999999999999999999999999999999999999999"),
        &["must be from 0 to 18446744073709551615"],
    );
    assert_says(
        parse_text("run.oracle = 1"),
        &["`run.oracle` takes true or false, not the integer 1"],
    );
    assert_says(
        parse_text("mmu = 5"),
        &[
            "`mmu` is a group of settings, not the integer 5",
            "l1d_4k, ",
        ],
    );
    assert_says(parse_text("dram.t_faw_ns = nan"), &["must be finite"]);
    assert_says(
        parse_text("dram.t_faw_ns = \"4\""),
        &["takes a number (ns), not the text \"4\""],
    );
    assert_says(
        parse_text("core.rob = 2024-01-01"),
        &["not the date 2024-01-01"],
    );
    assert_says(
        parse_text("[core\nrob = 1"),
        &["`mine.toml` is not TOML", "mine.toml:1"],
    );
    assert_says(
        parse_text("core.rob = 1\ncore.rob = 2"),
        &["is not TOML", "mine.toml:2"],
    );
    assert_says(
        parse_text("base = 4"),
        &["`base` takes the name of a preset"],
    );
}

#[test]
fn wrong_choices_list_the_right_ones() {
    assert_says(
        parse_text("mmu.walk_entry = \"l3\""),
        &[
            "`mmu.walk_entry` is \"l3\", and it must be one of \"l1\", \"l2\", \"llc\"",
            "did you mean \"l1\"?",
        ],
    );
    assert_says(
        with_options(&["llc.replacement=lur"]),
        &["\"lru\"", "--set:1:17", "did you mean \"lru\"?"],
    );
    assert_says(
        with_options(&["llc.replacement=plru"]),
        &["did you mean \"tree-plru\"?"],
    );
}

#[test]
fn suffixes_are_read_by_unit() {
    let spec = parse_text(
        "memory.bytes = \"8GiB\"\nrun.instructions = \"20M\"\nmmu.l2_tlb.entries = \"4Ki\"\nrun.seed = \"18446744073709551615\"",
    );
    let spec = spec.unwrap();
    assert_eq!(
        (
            spec.memory.bytes,
            spec.run.instructions,
            spec.mmu.l2_tlb.entries,
            spec.run.seed
        ),
        (8 << 30, 20_000_000, 4096, u64::MAX)
    );
    assert_says(
        parse_text("memory.bytes = \"8GB\""),
        &["\"8GB\" is none", "write `GiB` for 1024"],
    );
    assert_says(
        parse_text("mmu.l2_tlb.entries = \"4K\""),
        &["entries take `Ki`"],
    );
    assert_says(
        parse_text("run.instructions = \"20MiB\""),
        &["`MiB` is not a suffix of counts"],
    );
}

#[test]
fn absurd_specs_get_a_sentence_each() {
    for (option, sentence) in [
        ("l1d.ways=0", "`l1d.ways` is 0, which is outside 1 to 32"),
        (
            "l2.bytes=48KiB",
            "the number of sets must be a power of two",
        ),
        ("machine.cores=0", "a machine has 1 to 16 cores"),
        ("machine.cores=3", "power of two of cores"),
        ("machine.clock_mhz=1", "100 to 10000 MHz"),
        ("memory.bytes=4097KiB", "memory can be 16 MiB"),
        ("memory.bytes=16385KiB", "no multiple of 2 MiB"),
        ("memory.fragmentation.fmfi=1.5", "must be from 0 to 1"),
        ("memory.buddy.max_order=99", "it must be from 1"),
        ("mmu.l2_tlb.ways=12", "do not divide into sets of 12 ways"),
        ("mmu.walkers=0", "give a number between 1 and 64"),
        ("dram.channels=3", "must be a power of two"),
        ("run.instructions=0", "must simulate something"),
        (
            "virtualization.nested.tlb_entries=65",
            "`virtualization.nested.tlb_entries`",
        ),
    ] {
        assert_says(with_options(&[option]), &[sentence, "is set here", option]);
    }
    let message = with_options(&["l1d.ways=0", "core.rob=0"]).unwrap_err();
    assert!(
        message.contains("`l1d.ways`") && message.contains("`core.rob`"),
        "{message}"
    );
}

#[test]
fn a_footprint_above_memory_is_refused() {
    let spec = Spec::default();
    assert!(spec.validate_footprint(64 << 30).is_empty());
    assert!(
        spec.validate_footprint(256 << 30)[0]
            .contains("256GiB does not fit: `memory.bytes` is 128GiB")
    );
    let pressed = with_options(&["memory.pressure.pressure=0.6"]).unwrap();
    assert_eq!(pressed.validate_footprint(64 << 30).len(), 1);
}

#[test]
fn later_layers_win() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // Each layer sets one key more than those above it.
    let machine = write(
        "machine.toml",
        "core = { rob = 1, width = 1, load_queue = 1, store_queue = 1, mispredict_penalty = 1 }",
    );
    let design = write(
        "design.toml",
        "core = { rob = 2, width = 2, load_queue = 2, store_queue = 2 }",
    );
    let first = write(
        "first.toml",
        "core = { rob = 3, width = 3, load_queue = 3 }",
    );
    let second = write("second.toml", "core = { rob = 4, width = 4 }");
    let loaded = load(&SpecRequest {
        machine: Some(machine.display().to_string()),
        design: Some(design.display().to_string()),
        files: vec![first.clone(), second],
        options: vec!["core.rob=6".into(), "core.rob=5".into()],
    })
    .unwrap();
    let core = &loaded.spec.core;
    assert_eq!(
        (
            core.rob,
            core.width,
            core.load_queue,
            core.store_queue,
            core.mispredict_penalty
        ),
        (5, 4, 3, 2, 1)
    );
    assert_eq!(
        (loaded.machine.as_str(), loaded.design.as_str()),
        ("machine", "design")
    );
    assert_eq!(loaded.origins["core.rob"].to_string(), "--set core.rob=5");
    assert_eq!(
        loaded.origins["core.load_queue"].to_string(),
        format!("{}:1", first.display())
    );
    assert_eq!(loaded.spec.llc, Spec::default().llc);
}

#[test]
fn a_base_is_layered_below_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(
        &path,
        "base = [\"me-hpt-table3\", \"perfect-tlb\"]\ncore.rob = 300",
    )
    .unwrap();
    let mut request = SpecRequest {
        files: vec![path.clone()],
        ..SpecRequest::default()
    };
    let loaded = load(&request).unwrap();
    assert_eq!(
        (loaded.machine.as_str(), loaded.design.as_str()),
        ("me-hpt-table3", "perfect-tlb")
    );
    assert_eq!(
        (
            loaded.spec.core.rob,
            loaded.spec.l2.bytes,
            loaded.spec.mmu.perfect
        ),
        (300, 512 << 10, true)
    );
    // What is asked for by name takes the place of what the file builds on.
    request.machine = Some("lvm-table1".into());
    request.design = Some("radix".into());
    let loaded = load(&request).unwrap();
    assert_eq!(
        (
            loaded.spec.core.rob,
            loaded.spec.l2.bytes,
            loaded.spec.mmu.perfect
        ),
        (300, 1 << 20, false)
    );
    // A machine file on a machine preset, and a chain of files beside each other.
    let variant = folder.path().join("variant.toml");
    std::fs::write(&variant, "base = \"me-hpt-table3\"\nl2.latency = 17").unwrap();
    std::fs::write(&path, "base = \"./variant.toml\"").unwrap();
    for machine in [&variant, &path] {
        let spec = load(&SpecRequest {
            machine: Some(machine.display().to_string()),
            ..SpecRequest::default()
        })
        .unwrap()
        .spec;
        assert_eq!((spec.l2.latency, spec.l2.bytes), (17, 512 << 10));
    }
    std::fs::write(&variant, "base = \"./mine.toml\"").unwrap();
    let circle = load(&SpecRequest {
        machine: Some(path.display().to_string()),
        ..SpecRequest::default()
    });
    assert!(
        circle
            .unwrap_err()
            .to_string()
            .contains("is based on itself")
    );
}

#[test]
fn unknown_presets_and_files_are_told() {
    let message = |machine: Option<&str>, design: Option<&str>, file: Option<&str>| {
        let request = SpecRequest {
            machine: machine.map(Into::into),
            design: design.map(Into::into),
            files: file.map(PathBuf::from).into_iter().collect(),
            options: Vec::new(),
        };
        load(&request).unwrap_err().to_string()
    };
    assert!(message(Some("lvm-tabel1"), None, None).contains("did you mean `lvm-table1`?"));
    assert!(message(None, Some("quantum-tunnelling"), None).contains("there are: "));
    assert!(
        message(Some("radix"), None, None).contains("`radix` is a design preset, not a machine")
    );
    assert!(message(Some("no/such.toml"), None, None).contains("`no/such.toml` cannot be read"));
    assert!(message(None, None, Some("no-such-file")).contains("`no-such-file` cannot be read"));
    assert_says(
        parse_text("base = \"lvm-tabel1\""),
        &[
            "there is no preset `lvm-tabel1`",
            "mine.toml:1:8",
            "`lvm-table1`",
        ],
    );
}

#[test]
fn options_take_values_with_and_without_quotes() {
    let spec = with_options(&[
        " mmu.l2_tlb.entries = 4096 ",
        "mmu.walk_entry=llc",
        "l2.replacement=\"srrip\"",
        "memory.bytes=8GiB",
        "run.instructions=1_000",
        "run.oracle=false",
        "memory.pressure.pressure=0.25",
        "mmu.l1d_4k={ entries = 32, ways = 2 }",
    ])
    .unwrap();
    assert_eq!(
        (
            spec.mmu.l2_tlb.entries,
            spec.memory.bytes,
            spec.run.instructions
        ),
        (4096, 8 << 30, 1000)
    );
    assert_eq!(
        (spec.mmu.walk_entry, spec.run.oracle),
        (ambulator_mmu::WalkEntry::Llc, false)
    );
    assert_eq!((spec.mmu.l1d_4k.entries, spec.mmu.l1d_4k.ways), (32, 2));
    assert_eq!(spec.memory.pressure.pressure, 0.25);
    assert_says(
        with_options(&["core.rob"]),
        &["`--set core.rob` has no `=`", "write `--set key=value`"],
    );
    assert_says(
        with_options(&["mmu.l2_tlb.entires=4"]),
        &["--set:1:12", "mmu.l2_tlb.entires=4", "`mmu.l2_tlb.entries`"],
    );
    assert_says(with_options(&["=4"]), &["there is no setting ``"]);
    assert_says(
        with_options(&["core.rob="]),
        &["`core.rob` takes an integer (entries), and \"\" is none"],
    );
    assert_says(
        with_options(&["mmu={ l2_tlb = { latnecy = 4 } }"]),
        &["--set:1:18", "`mmu.l2_tlb.latency`"],
    );
    assert_says(with_options(&["mmu={"]), &["is not TOML"]);
    assert_says(
        with_options(&["core.rob = many"]),
        &["--set:1:12", "\"many\" is none"],
    );
}

#[test]
fn explain_tells_everything_about_a_setting() {
    let text = explain("mmu.l2_tlb.entries", &[]).unwrap().to_string();
    for part in [
        "entries",
        "default  2048",
        "LVM Table 1",
        "machine me-hpt-table3: 1024",
        "design l2tlb-128k: 131072",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    let text = explain("llc.replacement", &[]).unwrap().to_string();
    assert!(text.contains("allowed  \"lru\""), "{text}");
    let text = explain("mmu.l2_tlb", &[]).unwrap().to_string();
    assert!(text.contains("mmu.l2_tlb.ways_2m"), "{text}");
    assert!(explain("", &[]).unwrap().to_string().contains("core.rob"));
    let counter = |name: &str| CounterInfo {
        name: name.into(),
        unit: "events".into(),
        meaning: "Walks.".into(),
    };
    let counters = [counter("mmu.walks.started"), counter("mmu.walks.merged")];
    assert_eq!(
        explain("mmu.walks.started", &counters),
        Ok(Explanation::Counter(counters[0].clone()))
    );
    assert!(
        explain("mmu.walks", &counters)
            .unwrap()
            .to_string()
            .contains("mmu.walks.merged   events: Walks.")
    );
    assert!(
        explain("mmu.walks.starred", &counters)
            .unwrap_err()
            .to_string()
            .contains("`mmu.walks.started`")
    );
    assert!(
        explain("mmu.l2_tlb.entires", &counters)
            .unwrap_err()
            .to_string()
            .contains("`mmu.l2_tlb.entries`")
    );
}

#[test]
fn the_reference_has_every_setting() {
    let reference = reference_markdown();
    for setting in tree().leaves() {
        assert!(
            reference.contains(&format!("| `{}` |", setting.key)),
            "{}",
            setting.key
        );
    }
    let rows = reference.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 7, "{row}");
    }
}

/// A value that the setting takes, told by a number.
fn some_value(setting: &Setting, seed: u64) -> Option<Value> {
    Some(match &setting.kind {
        Kind::Integer { least, greatest } => {
            let span = (greatest - least) as u128 + 1;
            serde_json::from_str(&(least + (u128::from(seed) % span) as i128).to_string()).unwrap()
        }
        Kind::Float => Value::from(f64::from_bits(seed))
            .as_f64()
            .map_or(Value::from(0.1), Value::from),
        Kind::Flag => Value::Bool(seed % 2 == 1),
        Kind::Choice(choices) => Value::String(choices[seed as usize % choices.len()].name.clone()),
        Kind::Text => Value::String(format!("a \"text\" with \\ and\nlines {seed}")),
        Kind::Group(_) | Kind::List(_) => return None,
    })
}

proptest! {
    /// Whatever is set, sound or not, what is shown reads back as it was.
    #[test]
    fn what_is_shown_reads_back(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0u32..64), 0..20)) {
        let leaves = tree().leaves();
        let mut json = tree().default.clone();
        for (which, seed, shift) in changes {
            let setting = leaves[which.index(leaves.len())];
            if let (Some(value), Some(slot)) =
                (some_value(setting, seed >> shift << (shift / 2)), json.pointer_mut(&format!("/{}", setting.key.replace('.', "/"))))
            {
                *slot = value;
            }
        }
        let spec: Spec = serde_json::from_value(json).unwrap();
        let shown = show_spec(&spec);
        let mut layers = Layers::new(tree());
        layers.add_toml(&Arc::new(Source { name: "shown.toml".into(), text: shown.clone() }));
        let (back, _) = layers.finish(|_: &Spec| Vec::new()).map_err(|error| TestCaseError::fail(format!("{error}\n{shown}")))?;
        prop_assert_eq!(back, spec);
    }

    /// No text brings the reader down.
    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        fuzz_spec(&text);
    }

    /// Nor does text that looks like TOML, nearly.
    #[test]
    fn toml_like_text_is_survived(parts in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "[[", "]]", "{", "}", "=", ".", ",", "\n", " ", "\"", "'", "\"\"\"", "#", "mmu", "l2_tlb", "entries", "core", "rob",
        "base", "about", "radix", "lvm-table1", "1", "-1", "1e400", "nan", "0x", "0xff", "1_0", "8GiB", "\"8GiB\"", "true", "é", "\u{200b}",
        "\t", "\r\n", "memory.bytes", "2024-01-01", "mmu.walk_entry", "\"l1\"", "1.5", "\\", "\\u", "\u{0}",
    ]), 0..40)) {
        fuzz_spec(&parts.concat());
    }
}

#[test]
fn unusual_types_are_read_too() {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Plain {
        #[default]
        One,
        TwoThree,
    }
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Unusual {
        /// Perhaps.
        perhaps: Option<u64>,
        /// Perhaps a choice.
        choice: Option<Plain>,
        /// Some.
        list: Vec<u8>,
        /// Choices.
        choices: Vec<Plain>,
        /// Signed.
        signed: i32,
        /// Text.
        text: String,
        /// The lengths.
        #[schemars(range(min = 3, max = 5))]
        bounded: u32,
    }
    let tree = Setting::tree::<Unusual>();
    let read = |text: &str| {
        let mut layers = Layers::new(&tree);
        layers.add_toml(&Arc::new(Source {
            name: "unusual.toml".into(),
            text: text.into(),
        }));
        layers
            .finish(|_: &Unusual| Vec::new())
            .map(|(spec, _)| spec)
            .map_err(|error| error.to_string())
    };
    let text = "perhaps = 4\nchoice = \"two-three\"\nlist = [1, 2]\nchoices = [\"one\"]\nsigned = -5\ntext = \"x\"\nbounded = 4";
    let spec = read(text).unwrap();
    assert_eq!(
        spec,
        Unusual {
            perhaps: Some(4),
            choice: Some(Plain::TwoThree),
            list: vec![1, 2],
            choices: vec![Plain::One],
            signed: -5,
            text: "x".into(),
            bounded: 4
        }
    );
    assert_eq!(
        read(&show::show(&tree, &serde_json::to_value(&spec).unwrap())).unwrap(),
        spec
    );
    let unset = Unusual::default();
    assert_eq!(
        read(&show::show(&tree, &serde_json::to_value(&unset).unwrap()).replace("bounded = 0", ""))
            .unwrap(),
        unset
    );
    assert!(
        read("list = [1, 256]")
            .unwrap_err()
            .contains("from 0 to 255")
    );
    assert!(
        read("choice = \"two\"")
            .unwrap_err()
            .contains("one of \"one\", \"two-three\"")
    );
    assert!(read("bounded = 6").unwrap_err().contains("from 3 to 5"));
}
