//! Settings without effect.

use super::*;

#[test]
fn settings_of_what_is_absent_or_off_have_no_effect() {
    for (options, key, because) in [
        (&[][..], "lvm.max_table_bytes", "\"lvm\" is not in `design.page_table`"),
        (&[], "rmm.entries", "\"rmm\" is not in `design.lookaside` or `design.placement`"),
        (&["mmu.perfect=true"], "mmu.l2_tlb.entries", "`mmu.perfect` is true"),
        (&["mmu.perfect=true"], "mmu.walkers", "`mmu.perfect` is true"),
        (&["mmu.perfect=true", "virtualization.mode=nested"], "virtualization.nested.tlb_entries", "`mmu.perfect`"),
        (&["mmu.l2_tlb.organization=unified"], "mmu.l2_tlb.entries_2m", "\"unified\""),
        (&[], "virtualization.hypervisor_table", "`virtualization.mode` is not \"nested\""),
        (&[], "kernel.promotion_threshold", "not \"reservation\""),
        (&["kernel.page_size_policy=always"], "kernel.khugepaged_period", "not \"khugepaged\""),
        (&[], "kernel.huge_share", "is \"never\""),
        (&[], "kernel.huge_limit", "is \"never\""),
        (&[], "kernel.huge_allocation", "is \"never\""),
        (&[], "kernel.watermark_low", "`kernel.swap_bytes` is 0"),
        (&[], "memory.fragmentation.grain", "memory is whole"),
        (&[], "run.advise_huge", "not \"madvise\""),
        (&[], "run.spread_threads", "`machine.cores` is 1"),
        (&[], "l2.prefetch_degree", "`prefetcher` is \"none\""),
    ] {
        assert!(tree().find(key).is_some(), "{key}");
        let why = unused(&with_options(options).unwrap(), key).unwrap_or_default();
        assert!(why.contains(because), "{key} with {options:?}: {why}");
    }
    for (options, key) in [
        (&["design.page_table=lvm"][..], "lvm.max_table_bytes"),
        (&["virtualization.mode=nested", "virtualization.hypervisor_table=lvm"], "lvm.max_table_bytes"),
        (&["design.lookaside=rmm", "design.placement=rmm"], "rmm.entries"),
        (&[], "mmu.l2_tlb.entries"),
        (&["mmu.perfect=true"], "mmu.va_bits"),
        (&["kernel.page_size_policy=khugepaged"], "kernel.khugepaged_period"),
        (&["kernel.gigantic_pages=true"], "kernel.huge_share"),
        (&["kernel.page_size_policy=always"], "kernel.huge_limit"),
        (&["kernel.swap_bytes=1GiB"], "kernel.watermark_low"),
        (&["memory.fragmentation.fmfi=0.5"], "memory.fragmentation.grain"),
        (&["machine.cores=2"], "run.spread_threads"),
        (&["l2.prefetcher=stream"], "l2.prefetch_degree"),
    ] {
        assert_eq!(unused(&with_options(options).unwrap(), key), None, "{key} with {options:?}");
    }
}

#[test]
fn errors_name_settings_that_exist() {
    let whole = serde_json::to_value(Spec::default()).unwrap();
    let mut found = 0;
    for setting in tree().leaves() {
        let Kind::Integer { least, greatest } = setting.kind else { continue };
        let pointer = format!("/{}", setting.key.replace('.', "/"));
        for value in [least, greatest] {
            let mut json = whole.clone();
            *json.pointer_mut(&pointer).unwrap() = serde_json::Number::from_i128(value).unwrap().into();
            let spec: Spec = serde_json::from_value(json).unwrap_or_else(|e| panic!("{} = {value}: {e}", setting.key));
            for wrong in spec.validate() {
                found += 1;
                for key in wrong.keys() {
                    assert!(
                        tree().find(key).is_some(),
                        "{} = {value}: there is no setting `{key}`: {wrong}",
                        setting.key
                    );
                }
            }
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn daemons_are_known_by_periods_that_have_an_effect() {
    let of = |options: &[&str]| daemon_periods(&with_options(options).unwrap());
    assert_eq!(of(&["kernel.page_size_policy=khugepaged"]), ["kernel.khugepaged_period"]);
    assert_eq!(of(&["kernel.page_size_policy=reservation"]), [""; 0]);
    assert_eq!(of(&[]), [""; 0]);
}
