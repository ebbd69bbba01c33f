//! Layers of presets, files and options.

use super::*;
use ambulator_designs::ecpt::EcptSpec;
use ambulator_designs::me_hpt::MeHptSpec;
use std::path::PathBuf;

#[test]
fn the_default_spec_is_valid_and_is_lvm_table_1() {
    assert_eq!(Spec::default().validate(), vec![]);
    let mut table1 = load(&SpecRequest::default()).unwrap().spec;
    // Its cuckoo tables have the table's settings; the built-in defaults are those of ME-HPT, which describes
    // them.
    let mut ecpt: EcptSpec = table1.settings.get("ecpt");
    let me_hpt: MeHptSpec = table1.settings.get("me_hpt");
    assert_eq!((ecpt.initial_bytes, ecpt.cwc_latency, me_hpt.cuckoo.cwc_latency), (1 << 20, 2, 2));
    ecpt = EcptSpec::default();
    table1.settings.put("ecpt", &ecpt);
    table1.settings.put("me_hpt", &MeHptSpec::default());
    assert_eq!(table1, Spec::default());
}

#[test]
fn every_preset_loads_and_describes_itself() {
    let names: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
    for name in ["lvm-table1", "me-hpt-table3", "rmm-table5", "utopia-table1", "revelator-table1"] {
        assert!(preset(PresetKind::Machine, name).is_some(), "{name} is not among {names:?}");
    }
    for preset in presets().iter().filter(|preset| preset.kind != PresetKind::Workload) {
        let mut request = SpecRequest::default();
        match preset.kind {
            PresetKind::Machine => request.machine = Some(preset.name.into()),
            _ => request.design = Some(preset.name.into()),
        }
        if let Err(error) = load(&request) {
            panic!("{}: {error}", preset.name);
        }
        assert!(!preset.about.is_empty() && !preset.paper.is_empty(), "{}", preset.name);
    }
}

#[test]
fn every_design_loads_with_every_machine() {
    for machine in presets().iter().filter(|preset| preset.kind == PresetKind::Machine) {
        for design in presets().iter().filter(|preset| preset.kind == PresetKind::Design) {
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
fn numbers_of_papers_reach_the_spec() {
    let machine =
        |name: &str| load(&SpecRequest { machine: Some(name.into()), ..SpecRequest::default() }).unwrap().spec;
    let me_hpt = machine("me-hpt-table3");
    assert_eq!((me_hpt.core.rob, me_hpt.l2.bytes, me_hpt.mmu.l2_tlb.entries), (256, 512 << 10, 1024));
    assert_eq!(me_hpt.memory.fragmentation.fmfi, 0.7);
    let rmm = machine("rmm-table5");
    assert_eq!((rmm.machine.clock_mhz, rmm.mmu.l2_tlb.entries, rmm.mmu.l2_tlb.entries_2m), (2200, 512, 0));
    let revelator = machine("revelator-table1");
    assert_eq!(revelator.l2.replacement, ambulator_hardware::Replacement::Srrip);
    assert_eq!(machine("utopia-table1").mmu.l2_tlb.entries, 1536);
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
    let machine =
        write("machine.toml", "core = { rob = 1, width = 1, load_queue = 1, store_queue = 1, mispredict_penalty = 1 }");
    let design = write("design.toml", "core = { rob = 2, width = 2, load_queue = 2, store_queue = 2 }");
    let first = write("first.toml", "core = { rob = 3, width = 3, load_queue = 3 }");
    let second = write("second.toml", "core = { rob = 4, width = 4 }");
    let loaded = load(&SpecRequest {
        machine: Some(machine.display().to_string()),
        design: Some(design.display().to_string()),
        files: vec![first.clone(), second],
        options: vec!["core.rob=6".into(), "core.rob=5".into()],
    })
    .unwrap();
    let core = &loaded.spec.core;
    assert_eq!((core.rob, core.width, core.load_queue, core.store_queue, core.mispredict_penalty), (5, 4, 3, 2, 1));
    assert_eq!((loaded.machine.as_str(), loaded.design.as_str()), ("machine", "design"));
    assert_eq!(loaded.origins["core.rob"].to_string(), "--set core.rob=5");
    assert_eq!(loaded.origins["core.load_queue"].to_string(), format!("{}:1", first.display()));
    assert_eq!(loaded.spec.llc, Spec::default().llc);
}

#[test]
fn a_base_is_layered_below_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "base = [\"me-hpt-table3\", \"perfect-tlb\"]\ncore.rob = 300").unwrap();
    let mut request = SpecRequest { files: vec![path.clone()], ..SpecRequest::default() };
    let loaded = load(&request).unwrap();
    assert_eq!((loaded.machine.as_str(), loaded.design.as_str()), ("me-hpt-table3", "perfect-tlb"));
    assert_eq!((loaded.spec.core.rob, loaded.spec.l2.bytes, loaded.spec.mmu.perfect), (300, 512 << 10, true));
    // A preset requested by name replaces the file's base.
    request.machine = Some("lvm-table1".into());
    request.design = Some("radix".into());
    let loaded = load(&request).unwrap();
    assert_eq!((loaded.spec.core.rob, loaded.spec.l2.bytes, loaded.spec.mmu.perfect), (300, 1 << 20, false));
    // A machine file based on a machine preset, and a chain of files in one folder.
    let variant = folder.path().join("variant.toml");
    std::fs::write(&variant, "base = \"me-hpt-table3\"\nl2.latency = 17").unwrap();
    std::fs::write(&path, "base = \"./variant.toml\"").unwrap();
    for machine in [&variant, &path] {
        let spec =
            load(&SpecRequest { machine: Some(machine.display().to_string()), ..SpecRequest::default() }).unwrap().spec;
        assert_eq!((spec.l2.latency, spec.l2.bytes), (17, 512 << 10));
    }
    std::fs::write(&variant, "base = \"./mine.toml\"").unwrap();
    let circle = load(&SpecRequest { machine: Some(path.display().to_string()), ..SpecRequest::default() });
    assert!(circle.unwrap_err().to_string().contains("is based on itself"));
}

#[test]
fn design_presets_set_their_designs() {
    use ambulator_os::PageSizePolicy;
    let design = |name: &str| {
        let request = SpecRequest {
            machine: Some("revelator-table1".into()),
            design: Some(name.into()),
            ..SpecRequest::default()
        };
        load(&request).unwrap().spec
    };
    for (name, page_table, policy) in [
        ("radix", "radix", PageSizePolicy::Never),
        ("radix-5level", "radix", PageSizePolicy::Never),
        ("thp", "radix", PageSizePolicy::Always),
        ("thp-madvise", "radix", PageSizePolicy::Madvise),
        ("thp-khugepaged", "radix", PageSizePolicy::Khugepaged),
        ("thp-reservation", "radix", PageSizePolicy::Reservation),
        ("flattened", "flattened", PageSizePolicy::Never),
        ("asap", "asap", PageSizePolicy::Never),
        ("ideal", "ideal", PageSizePolicy::Never),
        ("ideal-thp", "ideal", PageSizePolicy::Always),
        ("asap+thp", "asap", PageSizePolicy::Always),
        ("flattened-thp", "flattened", PageSizePolicy::Always),
        ("nested", "radix", PageSizePolicy::Never),
        ("nested-thp", "radix", PageSizePolicy::Always),
        ("ideal-shadow", "radix", PageSizePolicy::Never),
    ] {
        let spec = design(name);
        let chosen = (spec.design.page_table.as_str(), spec.kernel.page_size_policy);
        assert_eq!(chosen, (page_table, policy), "{name}");
        // The machine's page-walk caches stay, whatever the table.
        assert_eq!(spec.mmu.pwc.ways, 4, "{name}");
    }
    assert_eq!(design("radix-5level").mmu.va_bits, 57);
    assert_eq!(design("nested").virtualization.mode, VirtualizationMode::Nested);
    assert_eq!(design("nested-thp").virtualization.hypervisor_page, HypervisorPageSize::Huge);
}

#[test]
fn presets_join_with_a_plus() {
    let design = |name: &str| load(&SpecRequest { design: Some(name.into()), ..SpecRequest::default() });
    let loaded = design("l2tlb-128k + lvm").unwrap();
    assert_eq!(loaded.design, "l2tlb-128k+lvm");
    assert_eq!((loaded.spec.mmu.l2_tlb.entries, loaded.spec.design.page_table.as_str()), (131_072, "lvm"));
    let message = design("radix+perfect-tbl").unwrap_err().to_string();
    assert!(message.contains("did you mean `perfect-tlb`?"), "{message}");
}

#[test]
fn unknown_presets_and_files_are_reported() {
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
    assert!(message(Some("radix"), None, None).contains("`radix` is a design preset, not a machine"));
    assert!(message(Some("no/such.toml"), None, None).contains("`no/such.toml` cannot be read"));
    assert!(message(None, None, Some("no-such-file")).contains("`no-such-file` cannot be read"));
    assert_says(
        parse_text("base = \"lvm-tabel1\""),
        &["there is no preset `lvm-tabel1`", "mine.toml:1:8", "`lvm-table1`"],
    );
}
