//! Presets joined with `+`.

use super::*;

fn design(name: &str) -> Result<LoadedSpec, SpecError> {
    load(&SpecRequest { design: Some(name.into()), ..SpecRequest::default() })
}

#[test]
fn every_pair_of_presets_is_there_whole_or_is_one_error() {
    let names: Vec<&str> =
        presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name).collect();
    let alone: Vec<Spec> = names.iter().map(|name| design(name).unwrap().spec).collect();
    let sockets = |spec: &Spec| spec.design.entries().map(|(key, _, name)| (key, name.to_owned()));
    let default = sockets(&Spec::default());
    let (mut joined, mut refused) = (0, 0);
    for (one, first) in names.iter().zip(&alone) {
        for (other, second) in names.iter().zip(&alone).filter(|(other, _)| *other > one) {
            let both = [format!("{one}+{other}"), format!("{other}+{one}")].map(|name| (design(&name), name));
            let [(there, name), (back, _)] = &both;
            match (there, back) {
                (Ok(there), Ok(back)) => {
                    joined += 1;
                    assert_eq!(there.spec, back.spec, "{name}: the order matters");
                    // Whatever one of them puts into a socket is there.
                    for part in [first, second] {
                        for (at, (key, asked)) in sockets(part).into_iter().enumerate() {
                            let got = &sockets(&there.spec)[at].1;
                            assert!(asked == default[at].1 || asked == *got, "{name}: `{key}` is {got}, not {asked}");
                        }
                    }
                }
                (Err(there), Err(back)) => {
                    refused += 1;
                    for error in [there, back] {
                        // Presets that exclude each other get one sentence.
                        let exclude = error.problems.iter().filter(|p| p.title.contains("exclude each other")).count();
                        assert!(exclude == 0 || error.problems.len() == 1, "{name}: {error}");
                        assert!(exclude == 0 || error.problems[0].place.is_some(), "{name}: {error}");
                    }
                }
                _ => panic!("{name} is accepted in one order only"),
            }
        }
    }
    assert!(joined > 300 && refused > 300, "{joined} joined, {refused} refused");
}

#[test]
fn what_a_preset_asks_for_is_done_or_refused() {
    for (name, sentence) in [
        ("lvm+ecpt", "`lvm` and `ecpt` exclude each other: `design.page_table` would be \"lvm\" and \"ecpt\""),
        ("asap+flattened", "`design.page_table` would be \"asap\" and \"flattened\""),
        ("clustered-tlb+rmm", "`design.lookaside` would be \"clustered-tlb\" and \"rmm\""),
        ("thp+spec-tlb", "`kernel.page_size_policy` would be \"always\" and \"reservation\""),
        ("utopia-4k+thp", "`kernel.page_size_policy` would be \"never\" and \"always\""),
        ("rmm-1+rmm-16", "`rmm.entries` would be 1 and 16"),
        // The default of a design counts as asked for.
        ("rmm+rmm-64", "`rmm.entries` would be 32 and 64"),
        ("spec-tlb-1024+spec-tlb", "`spec_tlb.entries` would be 1024 and 64"),
        ("revelator-data+revelator", "`revelator.table` would be false and true"),
        ("rmm-demand+rmm", "`design.placement` would be \"buddy\" and \"rmm\""),
        ("nested+nested-thp", "`virtualization.hypervisor_page` would be \"4KiB\" and \"2MiB\""),
        ("nested+ideal-shadow", "`virtualization.mode` would be \"nested\" and \"ideal-shadow\""),
        ("l2tlb-128k+perfect-tlb", "`l2tlb-128k` has no effect with the presets that it is joined with: `mmu.perfect`"),
        ("perfect-tlb+pom-tlb", "`mmu.perfect` is true and leaves nothing to do for `design.lookaside`, \"pom-tlb\""),
        ("perfect-tlb+midgard", "`mmu.perfect` is true and leaves nothing to do for `design.front_side`"),
    ] {
        assert_says(design(name), &[sentence]);
    }
    for name in
        ["thp+l2tlb-128k", "radix+thp", "asap+thp", "thp+asap-thp", "perfect-tlb+lvm", "nested+hashed", "me-hpt+rmm"]
    {
        assert_eq!(design(name).unwrap().design, name);
    }
    // Some machines have one array for pages of 4 KiB and 2 MiB: the rest of the preset counts.
    let request = SpecRequest {
        machine: Some("utopia-table1".into()),
        design: Some("thp+l2tlb-128k".into()),
        ..SpecRequest::default()
    };
    assert_eq!(load(&request).unwrap().spec.mmu.l2_tlb.entries, 128 << 10);
}

#[test]
fn machines_and_bases_of_a_file_do_not_contradict_each_other_either() {
    let machine = |name: &str| load(&SpecRequest { machine: Some(name.into()), ..SpecRequest::default() });
    assert_says(machine("lvm-table1+utopia-table1"), &["exclude each other", "settings more)"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a+b.toml");
    std::fs::write(&path, "base = [\"lvm\", \"ecpt\"]\n").unwrap();
    let file = path.display().to_string();
    assert_says(design(&file), &["`lvm` and `ecpt` exclude each other"]);
    // A file may change what it is based on, and a file's name may contain the sign that joins.
    std::fs::write(&path, "base = [\"lvm\", \"thp\"]\nkernel.page_size_policy = \"madvise\"\n").unwrap();
    let changed = design(&format!("{file}+l2tlb-128k")).unwrap().spec;
    assert_eq!(changed.kernel.page_size_policy, ambulator_os::PageSizePolicy::Madvise);
    assert_eq!((changed.design.page_table.as_str(), changed.mmu.l2_tlb.entries), ("lvm", 128 << 10));
    // A machine below a design may be overridden by it.
    std::fs::write(&path, "base = [\"me-hpt-table3\", \"l2tlb-128k\"]\n").unwrap();
    assert_eq!(design(&file).unwrap().spec.mmu.l2_tlb.entries, 128 << 10);
}
