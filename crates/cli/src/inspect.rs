//! `list`, `show-spec`, and the reference chapters.

use crate::arguments::{ListArguments, ListOf, ReferenceOf, SpecArguments};
use crate::output::print;
use crate::terminal::print_folded;
use crate::{DONE, Failure, explain, requests};
use ambulator_experiments::{counter_catalogue, figures};
use ambulator_simulator::spec::{
    self, PresetKind, SpecRequest, designs_markdown, presets, program_reference_markdown, reference_markdown,
};

fn section(title: &str, rows: &[(String, String)]) {
    print(title);
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, about) in rows {
        print_folded(&format!("  {name:width$}  {about}"), width + 2);
    }
    print("");
}

fn preset_rows(kind: PresetKind) -> Vec<(String, String)> {
    let of_kind = presets().iter().filter(|preset| preset.kind == kind);
    of_kind
        .map(|preset| {
            let paper = if preset.paper.is_empty() { String::new() } else { format!(" [{}]", preset.paper) };
            (preset.name.to_owned(), format!("{}{paper}", preset.about))
        })
        .collect()
}

pub fn list(arguments: &ListArguments) -> Result<u8, Failure> {
    let wanted = |what| arguments.what.is_none_or(|asked| asked == what);
    if wanted(ListOf::Designs) {
        section("designs (--design, --designs; they join with +)", &preset_rows(PresetKind::Design));
    }
    if wanted(ListOf::Machines) {
        section("machines (--machine)", &preset_rows(PresetKind::Machine));
    }
    if wanted(ListOf::Programs) {
        let rows: Vec<_> = ambulator_workloads::programs()
            .iter()
            .map(|program| &program.info)
            .map(|info| (info.name.to_owned(), format!("{}; stands for {}", info.about, info.stands_for)))
            .collect();
        section("programs (or a trace file's path)", &rows);
    }
    if wanted(ListOf::Workloads) {
        section("workloads: programs with the papers' settings", &preset_rows(PresetKind::Workload));
    }
    if wanted(ListOf::Figures) {
        let rows: Vec<_> = figures()
            .iter()
            .map(|figure| (format!("{}/{}", figure.paper, figure.name), figure.title.clone()))
            .collect();
        section("figures (ambulator reproduce)", &rows);
    }
    if arguments.what == Some(ListOf::Settings) {
        print_folded(&spec::explain("", &[]).map_err(Failure::bad)?.to_string(), 4);
    }
    if arguments.what == Some(ListOf::Counters) {
        let rows: Vec<_> =
            counter_catalogue().into_iter().map(|c| (c.name, format!("{} [{}]", c.meaning, c.unit))).collect();
        section("counters and measures of a result", &rows);
    }
    Ok(DONE)
}

pub fn show_spec(arguments: &SpecArguments) -> Result<u8, Failure> {
    requests::check_set(&arguments.machine)?;
    let loaded = spec::load(&SpecRequest {
        machine: arguments.machine.machine.clone(),
        design: arguments.design.clone(),
        files: arguments.machine.spec.clone(),
        options: arguments.machine.set.clone(),
    })
    .map_err(Failure::bad)?;
    print(spec::show_spec(&loaded.spec).trim_end());
    Ok(DONE)
}

pub fn reference(what: ReferenceOf) -> Result<u8, Failure> {
    match what {
        ReferenceOf::Designs => print(&designs_markdown()),
        ReferenceOf::Settings => print(&reference_markdown()),
        ReferenceOf::Programs => print(&program_reference_markdown()),
        ReferenceOf::Counters => {
            print(
                "# Counters and measures\n\nEvery name in a result, with its unit. Counters of several cores are \
                 added up.\n",
            );
            print("| name | unit | meaning |\n|---|---|---|");
            for counter in counter_catalogue() {
                print(&format!("| `{}` | {} | {} |", counter.name, counter.unit, counter.meaning));
            }
        }
        ReferenceOf::Terms => print(explain::glossary().trim_end()),
    }
    Ok(DONE)
}
