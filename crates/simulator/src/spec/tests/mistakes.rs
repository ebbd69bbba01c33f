//! Errors in specs, and their messages.

use super::*;
use ambulator_hardware::CoreSpec;

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
    assert_says(parse_text("mmu.l2_tbl.entries = 4"), &["mine.toml:1:5", "the nearest setting is `mmu.l2_tlb`"]);
    assert_says(parse_text("[mmu]\nrob = 4"), &["the nearest setting is `core.rob`"]);
    assert_says(
        parse_text("[virtualization]\nxyzzyxyzzy = 4"),
        &["`virtualization` has: mode, hypervisor_page, hypervisor_table, nested"],
    );
    assert_says(parse_text("core.rob.size = 4"), &["`core.rob` is", "mine.toml:1"].map(|_| "`core.rob`"));
}

#[test]
fn former_keys_are_reported_with_their_new_names() {
    for (old, new) in [
        ("design.lookaside.rmm.entries=64", "rmm.entries"),
        ("design.lookaside.rmm.va_bits=57", "mmu.va_bits"),
        ("design.page_table.kind=lvm", "design.page_table"),
        ("design.page_table.radix.levels=5", "mmu.va_bits"),
        ("design.page_table.asap.pwc.ways=4", "mmu.pwc.ways"),
        ("design.page_table.me_hpt.l2p_entries=8", "me_hpt.l2p_entries"),
        ("design.speculation.spec_tlb.entries=8", "spec_tlb.entries"),
        ("revelator.least_share=0.3", "revelator.wrong_data_cost"),
        ("revelator.wrong_cost=45", "revelator.wrong_data_cost"),
        ("design.lookaside.utopia.ranges=true", "design.second_lookaside"),
        ("virtualization.host_page=2MiB", "virtualization.hypervisor_page"),
        ("virtualization.host_table.kind=lvm", "virtualization.hypervisor_table"),
        ("virtualization.host_table.ecpt.ways=4", "ecpt.ways"),
    ] {
        let key = old.split('=').next().unwrap();
        let now = format!("the setting `{key}` is called `{new}` now");
        assert_says(with_options(&[old]), &[&now, &format!("write `{new}`"), old]);
    }
    // As tables of a file, at their places.
    assert_says(
        parse_text("[design.page_table]\nkind = \"lvm\"\nlvm.max_extra = 2\n"),
        &[
            "`design.page_table.kind` is called `design.page_table` now",
            "mine.toml:2:1",
            "`design.page_table.lvm.max_extra` is called `lvm.max_extra` now",
            "mine.toml:3:5",
        ],
    );
    assert_says(
        parse_text("[design.lookaside]\nrmm = { entries = 64 }"),
        &["`design.lookaside.rmm.entries` is called `rmm.entries` now", "mine.toml:2:9"],
    );
    // Names of designs.
    for (old, new) in [
        ("design.lookaside=range-tlb", "rmm"),
        ("design.lookaside=rest-segs", "utopia"),
        ("design.placement=rest-segs", "utopia"),
        ("design.placement=eager", "rmm"),
        ("design.placement=tiered-hash", "revelator"),
    ] {
        assert_says(with_options(&[old]), &[&format!("it is called \"{new}\" now"), old]);
    }
}

#[test]
fn designs_that_exclude_each_other_get_one_sentence() {
    for (options, key, sentence) in [
        (
            vec!["design.front_side=midgard", "design.lookaside=rmm"],
            "design.lookaside",
            "`design.front_side` is \"midgard\": there is no L2 TLB before the caches for `design.lookaside`, \"rmm\";",
        ),
        (
            vec!["design.front_side=midgard", "design.speculation=spec-tlb"],
            "design.speculation",
            "for `design.speculation`, \"spec-tlb\";",
        ),
        (
            vec!["design.front_side=midgard", "design.tlb_prefetch=tlb-stride"],
            "design.tlb_prefetch",
            "for `design.tlb_prefetch`, \"tlb-stride\";",
        ),
        (
            vec!["mmu.perfect=true", "design.tlb_prefetch=tlb-stride"],
            "design.tlb_prefetch",
            "leaves nothing to do for `design.tlb_prefetch`, \"tlb-stride\"",
        ),
        (
            vec!["design.lookaside=utopia"],
            "design.lookaside",
            "`design.placement` is \"buddy\", and \"utopia\" needs it too: it is in `design.lookaside`",
        ),
        (
            vec!["design.placement=utopia"],
            "design.placement",
            "`design.lookaside` is \"none\", and \"utopia\" needs it too: it is in `design.placement`",
        ),
        (
            vec!["design.second_lookaside=rmm"],
            "design.second_lookaside",
            "`design.second_lookaside` is \"rmm\", and `design.lookaside` is \"none\": name two different ones",
        ),
        (
            vec!["design.lookaside=rmm", "design.second_lookaside=rmm"],
            "design.second_lookaside",
            "`design.second_lookaside` is \"rmm\", and `design.lookaside` is \"rmm\": name two different ones",
        ),
        (
            vec!["virtualization.mode=nested", "design.lookaside=direct-segment"],
            "design.lookaside",
            "`design.lookaside` is \"direct-segment\", which cannot run in a virtual machine: its registers would hold",
        ),
        (
            vec!["virtualization.mode=nested", "design.front_side=midgard"],
            "design.front_side",
            "`design.front_side` is \"midgard\", which cannot run in a virtual machine: ",
        ),
    ] {
        assert_says(with_options(&options), &[sentence, &format!("^ `{key}` is set here")]);
    }
    // The same for joined presets.
    let design = |name: &str| load(&SpecRequest { design: Some(name.into()), ..SpecRequest::default() }).map(drop);
    assert_says(design("midgard+rmm"), &["`design.front_side` is \"midgard\"", "there is no L2 TLB before the caches"]);
    assert_says(design("utopia+nested"), &["`design.lookaside` is \"utopia\", which cannot run in a virtual machine"]);
}

#[test]
fn mistakes_in_tlb_prefetching_are_reported_with_what_would_be_right() {
    for (options, sentences) in [
        (
            "design.tlb_prefetch=tlb-strid",
            ["it must be one of \"none\", \"tlb-sequential\", \"tlb-stride\"", "did you mean \"tlb-stride\"?"],
        ),
        ("mmu.prefetch_queue.entries=0", ["mmu.prefetch_queue.entries", "1"]),
        ("mmu.prefetch_queue.pending=65", ["mmu.prefetch_queue.pending", "64"]),
        ("tlb_distance.slots=9", ["tlb_distance.slots", "8"]),
        ("tlb_stride.ways=5", ["`tlb_stride.entries`: 64 entries do not divide into sets of 5 ways", "60 or 65"]),
        ("tlb_agile.free=some", ["tlb_agile.free", "sampled"]),
    ] {
        assert_says(with_options(&[options]), &sentences);
    }
    let why = |options: &[&str]| {
        let spec = with_options(options).unwrap_or_else(|wrong| panic!("{wrong}"));
        crate::spec::unused::unused(&spec, "mmu.prefetch_queue.entries")
    };
    assert_eq!(why(&[]).as_deref(), Some("`design.tlb_prefetch` is \"none\""));
    assert_eq!(why(&["design.tlb_prefetch=tlb-h2"]), None);
}

#[test]
fn all_problems_are_reported_at_once() {
    let message = parse_text("[core]\nwidht = 1\nrob = true\n[dram]\nchannels = \"many\"\n").unwrap_err();
    assert_eq!(message.matches("error:").count(), 3, "{message}");
}

#[test]
fn wrong_types_are_reported_with_the_expected_type() {
    assert_says(
        parse_text("core.rob = true"),
        &["`core.rob` takes an integer (entries), not `true`", "mine.toml:1:12"],
    );
    assert_says(parse_text("core.rob = 2.5"), &["takes an integer (entries), not the number 2.5"]);
    assert_says(parse_text("core.rob = -1"), &["`core.rob` is -1; it must be from 1 to 65536"]);
    assert_says(parse_text("core.rob = 5_000_000_000"), &["is 5000000000; it must be from 1 to 65536"]);
    assert_says(
        parse_text("run.seed = 99999999999999999999999999999999999999999999"),
        &["must be from 0 to 18446744073709551615"],
    );
    assert_says(parse_text("run.oracle = 1"), &["`run.oracle` takes true or false, not the integer 1"]);
    assert_says(parse_text("mmu = 5"), &["`mmu` is a group of settings, not the integer 5", "l1d_4k, "]);
    assert_says(parse_text("dram.t_faw_ns = nan"), &["must be finite"]);
    assert_says(parse_text("dram.t_faw_ns = \"4\""), &["takes a number (ns), not the text \"4\""]);
    assert_says(parse_text("core.rob = 2024-01-01"), &["not the date 2024-01-01"]);
    assert_says(parse_text("[core\nrob = 1"), &["`mine.toml` is not TOML", "mine.toml:1"]);
    assert_says(parse_text("core.rob = 1\ncore.rob = 2"), &["is not TOML", "mine.toml:2"]);
    assert_says(parse_text("base = 4"), &["`base` takes the name of a preset"]);
}

#[test]
fn wrong_choices_list_the_right_ones() {
    assert_says(
        parse_text("mmu.walk_entry = \"l3\""),
        &["`mmu.walk_entry` is \"l3\"; it must be one of \"l1\", \"l2\", \"llc\"", "did you mean \"l1\"?"],
    );
    assert_says(with_options(&["design.page_table=radx"]), &["\"flattened\"", "did you mean \"radix\"?"]);
    assert_says(with_options(&["llc.replacement=lur"]), &["\"lru\"", "--set:1:17", "did you mean \"lru\"?"]);
    assert_says(with_options(&["llc.replacement=plru"]), &["did you mean \"tree-plru\"?"]);
}

#[test]
fn suffixes_are_read_by_unit() {
    let spec = parse_text(
        "memory.bytes = \"8GiB\"\nrun.instructions = \"20M\"\nmmu.l2_tlb.entries = \"4Ki\"\nrun.seed = \"18446744073709551615\"",
    );
    let spec = spec.unwrap();
    assert_eq!(
        (spec.memory.bytes, spec.run.instructions, spec.mmu.l2_tlb.entries, spec.run.seed),
        (8 << 30, 20_000_000, 4096, u64::MAX)
    );
    assert_says(parse_text("memory.bytes = \"8GB\""), &["\"8GB\" is not one", "write `GiB` for 1024"]);
    assert_says(parse_text("mmu.l2_tlb.entries = \"4K\""), &["entries take `Ki`"]);
    assert_says(parse_text("run.instructions = \"20MiB\""), &["`MiB` is not a suffix of counts"]);
}

#[test]
fn invalid_specs_get_a_sentence_each() {
    for (option, sentence) in [
        ("l2.bytes=48KiB", "the number of sets must be a power of two"),
        ("memory.bytes=16TiB", "need tags of more than 32 bits"),
        ("memory.bytes=16385KiB", "not a multiple of 2 MiB"),
        ("mmu.l2_tlb.ways=12", "do not divide into sets of 12 ways"),
        ("dram.channels=3", "must be a power of two"),
        ("kernel.promotion_threshold=0", "above 0, at most 1"),
        ("mmu.va_bits=50", "`mmu.va_bits` is 50"),
        ("mmu.pwc.ways=5", "must be a multiple of"),
        ("virtualization.nested.tlb_entries=65", "`virtualization.nested.tlb_entries`"),
    ] {
        assert_says(with_options(&[option]), &[sentence, "is set here", option]);
    }
    assert_says(
        with_options(&["memory.bytes=2TiB", "memory.buddy.block_order=lifo"]),
        &["`memory.buddy.block_order` is `lifo`", "`memory.bytes` must be 1 TiB at most"],
    );
    for (option, sentence) in [
        ("l1d.ways=0", "`l1d.ways` is 0; it must be from 1 to 32"),
        ("machine.cores=0", "it must be from 1 to 16"),
        ("machine.clock_mhz=1", "it must be from 100 to 10000 MHz"),
        ("memory.bytes=4097KiB", "`memory.bytes` is 4097KiB; it must be from 16MiB to 16TiB"),
        ("memory.fragmentation.fmfi=1.5", "`memory.fragmentation.fmfi` is 1.5; it must be from 0.0 to 1.0"),
        ("memory.buddy.max_order=99", "it must be from 1 to 30"),
        ("mmu.walkers=0", "it must be from 1 to 64"),
        ("run.instructions=0", "it must be from 1 to"),
        ("kernel.asid_bits=40", "it must be from 1 to 14"),
        ("mmu.va_bits=39", "it must be from 48 to 57"),
        ("costs.fault=9223372036854775807", "it must be from 0 to 10000000000 cycles"),
        ("mmu.l2_tlb.latency=10001", "it must be from 0 to 10000 cycles"),
    ] {
        assert_says(with_options(&[option]), &[sentence, "out of range", option]);
    }
    // A spec that was not read but made.
    let made = Spec { core: CoreSpec { rob: 0, ..CoreSpec::default() }, ..Spec::default() };
    let wrong = made.validate();
    assert_eq!(wrong[0].to_string(), "`core.rob` is 0; it must be from 1 to 65536");
    // The highest layer that wrote a concerned setting is at fault; within a layer, the setting that is named
    // first.
    let marks = "kernel.watermark_min=0.4";
    for (options, key) in [
        (vec![marks], "kernel.watermark_min"),
        (vec![marks, "kernel.watermark_high=0.3"], "kernel.watermark_high"),
        (vec!["kernel.watermark_high=0.3", marks], "kernel.watermark_min"),
        (vec!["l1d.bytes=48KiB", "l1d.ways=16"], "l1d.ways"),
        (vec!["l1d.ways=16", "l1d.bytes=48KiB", "l1d.latency=5"], "l1d.bytes"),
    ] {
        assert_says(with_options(&options), &[&format!("^ `{key}` is set here")]);
    }
    let both = parse_text("[kernel]\nwatermark_high = 0.3\nwatermark_min = 0.4");
    assert_says(both, &["^ `kernel.watermark_min` is set here"]);
    let message = with_options(&["l1d.ways=0", "core.rob=0"]).unwrap_err();
    assert!(message.contains("`l1d.ways`") && message.contains("`core.rob`"), "{message}");
}

#[test]
fn a_footprint_above_memory_is_rejected() {
    let spec = Spec::default();
    assert!(spec.validate_footprint(64 << 30).is_empty());
    assert!(
        spec.validate_footprint(256 << 30)[0]
            .to_string()
            .contains("`memory.bytes` is 128GiB: a footprint of 256GiB does not fit")
    );
    assert_eq!(spec.validate_footprint(128 << 30).len(), 1, "page tables take memory, too");
    let pressed = with_options(&["memory.pressure.pressure=0.6"]).unwrap();
    assert_eq!(pressed.validate_footprint(64 << 30).len(), 1);
    let swapping = with_options(&["memory.pressure.pressure=0.6", "kernel.swap_bytes=32GiB"]).unwrap();
    assert!(swapping.validate_footprint(64 << 30).is_empty());
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
    assert_eq!((spec.mmu.l2_tlb.entries, spec.memory.bytes, spec.run.instructions), (4096, 8 << 30, 1000));
    assert_eq!((spec.mmu.walk_entry, spec.run.oracle), (ambulator_mmu::WalkEntry::Llc, false));
    assert_eq!((spec.mmu.l1d_4k.entries, spec.mmu.l1d_4k.ways), (32, 2));
    assert_eq!(spec.memory.pressure.pressure, 0.25);
    assert_says(with_options(&["core.rob"]), &["`--set core.rob` has no `=`", "write `--set key=value`"]);
    assert_says(
        with_options(&["mmu.l2_tlb.entires=4"]),
        &["--set:1:12", "mmu.l2_tlb.entires=4", "`mmu.l2_tlb.entries`"],
    );
    assert_says(with_options(&["=4"]), &["there is no setting ``"]);
    assert_says(with_options(&["core.rob="]), &["`core.rob` takes an integer (entries), but \"\" is not one"]);
    assert_says(with_options(&["mmu={ l2_tlb = { latnecy = 4 } }"]), &["--set:1:18", "`mmu.l2_tlb.latency`"]);
    assert_says(with_options(&["mmu={"]), &["is not TOML"]);
    assert_says(with_options(&["core.rob = many"]), &["--set:1:12", "\"many\" is not one"]);
}
