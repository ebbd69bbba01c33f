use super::*;
use crate::row::{CellInfo, row_of};
use crate::sample_runs;
use ambulator_simulator::spec::{PresetKind, presets};
use std::collections::BTreeSet;

fn vocabulary() -> &'static Vocabulary {
    static ALL: OnceLock<Vocabulary> = OnceLock::new();
    ALL.get_or_init(|| Vocabulary::with([]))
}

fn text(name: &str) -> String {
    let found = vocabulary().explain(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    found.iter().map(Found::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_kind_of_name_is_explained() {
    for (name, wanted) in [
        ("thp", "thp (design preset)"),
        ("utopia-table1", "utopia-table1 (machine preset)"),
        ("gups-8g", "gups-8g (workload preset)"),
        ("gups", "gups"),
        ("mmu.l2_tlb.entries", "mmu.l2_tlb.entries\n"),
        ("mmu.walks", "mmu.walks (counter)"),
        ("MMU cycles per access", "measures.mmu_cycles_per_access: Cycles in the MMU per load"),
        ("  from L2/LLC/DRAM, %", "measures.walk_served_dram: Share of walk loads served by DRAM. [ratio]"),
        ("page walks and look-ups served by DRAM", "core.window.stack_walk_dram: "),
        ("core 3, bfs", "cores.ipc: By core: instructions per cycle."),
        ("set.mmu.l2_tlb.entries", "Settings that differ"),
        ("series.counters.mmu.walks", "mmu.walks (counter)"),
        ("runs[0].cores[1].ipc", "compare --json, run --json: runs[].cores[].ipc"),
        ("runs.counters.mmu.walks", "mmu.walks (counter)"),
        ("walk_latency.p99", "99th percentile"),
        ("l2_tlb_mpki", "L2 TLB misses per 1000 instructions."),
        ("instructions per cycle ±", "95% interval"),
        ("stopped", "could not continue"),
        ("utopia/fig11", "ambulator reproduce utopia/fig11"),
        ("events", "(unit)"),
        ("RESTSEGS", "RestSeg (term)"),
        ("change, %", "differences.moved.change: Percent of the first"),
    ] {
        assert!(text(name).contains(wanted), "{name}: {}", text(name));
    }
}

#[test]
fn unknown_names_have_the_nearest_ones() {
    for (name, near) in [
        ("mmu.l2_tlb.entrys", "`mmu.l2_tlb.entries`"),
        ("MMU cycles per acess", "`MMU cycles per access`"),
        ("restsegg", "`RestSeg`"),
        ("utopia/fig99", "`utopia/fig"),
        ("mmu.walkz", "`mmu.walks`"),
        ("walk latency of page", "walk"),
    ] {
        let error = vocabulary().explain(name).unwrap_err();
        assert!(error.contains(&format!("nothing is called `{name}`")) && error.contains(near), "{error}");
    }
    for name in ["", "qqqqqqqqqqqqq", &"x".repeat(100_000)] {
        let error = vocabulary().explain(name).unwrap_err();
        assert!(error.contains("without a name") && error.len() < 400, "{error}");
    }
}

#[test]
fn every_column_of_every_preset_is_explained() {
    let runs = sample_runs();
    let set = [("mmu.l2_tlb.entries".to_owned(), 512.into())].into_iter().collect();
    let info = CellInfo { set, ..CellInfo::default() };
    let columns: BTreeSet<String> =
        runs.iter().flat_map(|run| row_of(&info, run).keys().cloned().collect::<Vec<_>>()).collect();
    assert!(columns.len() > 300 && columns.iter().any(|name| name.starts_with("series.gauges.")), "{}", columns.len());
    for column in columns {
        assert!(!text(&column).is_empty());
    }
}

#[test]
fn all_that_a_term_names_is_known_and_everything_has_a_meaning() {
    let all = vocabulary();
    for term in all.terms() {
        for name in term.see.iter().chain(&term.shows) {
            assert!(!all.find(name, 0).is_empty(), "{} names `{name}`", term.name);
        }
        let Found::Term(_, shows) = all.found(all.terms().iter().position(|of| of == term).unwrap()) else { panic!() };
        assert_eq!(shows.len(), term.shows.len(), "{term:?}");
        assert!(!term.meaning.is_empty() || !shows.is_empty(), "{term:?}");
        if term.kind == TermKind::Word {
            assert!(term.meaning.ends_with('.') && term.meaning.len() < 600, "{term:?}");
        }
    }
}

#[test]
fn every_unit_is_explained() {
    let mut units: BTreeSet<String> = vocabulary().counters().iter().map(|counter| counter.unit.clone()).collect();
    for tree in [tree(), program_tree()] {
        tree.visit(&mut |setting| _ = units.insert(setting.unit.clone()));
    }
    units.extend(vocabulary().terms().iter().map(|term| term.unit.clone()));
    units.remove("");
    let is_unit = |found: &Found| matches!(found, Found::Term(term, _) if term.kind == TermKind::Unit);
    let unknown: Vec<&String> = units.iter().filter(|unit| !vocabulary().find(unit, 0).iter().any(is_unit)).collect();
    assert!(unknown.is_empty(), "presets/terms.toml lacks the units {unknown:?}");
}

#[test]
fn every_preset_and_figure_is_explained() {
    for preset in presets() {
        assert!(text(preset.name).contains(preset.name), "{}", preset.name);
        assert!(preset.kind != PresetKind::Machine || text(preset.name).contains("machine preset"));
    }
    for figure in crate::figures() {
        let found = text(&format!("{}/{}", figure.paper, figure.name));
        assert!(found.contains(&figure.title), "{found}");
        for metric in &figure.metrics {
            assert!(text(&metric.name).contains(&metric.source), "{}", metric.name);
        }
    }
}

#[test]
fn patterns_stand_for_any_text() {
    for (pattern, name, wanted) in [
        ("core <number>, <program>", "core 12, a, b", true),
        ("core <number>, <program>", "core , bfs", false),
        ("core <number>", "core 1", true),
        ("core <number>", "core", false),
        ("<a> cells", "3 cells", true),
        ("a", "a", true),
        ("a", "ab", false),
    ] {
        assert_eq!(fits(pattern, name), wanted, "{pattern}: {name}");
    }
}
