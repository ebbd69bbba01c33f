//! `explain-walk`: one translation, step by step.

use crate::arguments::{AccessArgument, ExplainWalkArguments, ProgramArguments};
use crate::output::{print, report, warn};
use crate::terminal::{self, print_folded};
use crate::walk_files::Slides;
use crate::{DONE, Failure, SOME_FAILED, compare, interrupt, progress, requests, walk_page};
use ambulator_base::{AccessKind, VirtAddr, distinct_notes};
use ambulator_experiments::Term;
use ambulator_simulator::spec::{parse_count, program_request, unused_by_program};
use ambulator_simulator::{WalkEnd, WalkRequest, WalkSteps};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// The footprint of a generated program of which none is asked for: small, but larger than any TLB reaches.
const FOOTPRINT: &str = "64MiB";
/// Instructions before the translation.
const AFTER: &str = "100K";

/// The program that is asked for.
pub fn program(arguments: &ExplainWalkArguments, footprint: &str) -> ProgramArguments {
    ProgramArguments {
        program: Some(arguments.program.clone()),
        footprint: arguments.footprint.clone().or_else(|| default_footprint(arguments, footprint)),
        program_set: arguments.program_set.clone(),
        seed: arguments.seed,
        machine: arguments.machine.clone(),
        ..ProgramArguments::default()
    }
}

/// The designs that are asked for.
pub fn designs(arguments: &ExplainWalkArguments, otherwise: &str) -> Vec<String> {
    match arguments.design.is_empty() {
        true => requests::design_names(&[otherwise.to_owned()]),
        false => requests::design_names(&arguments.design),
    }
}

/// The instructions before the translation.
pub fn after(arguments: &ExplainWalkArguments, otherwise: &str) -> Result<u64, Failure> {
    let text = arguments.after.as_deref().unwrap_or(otherwise);
    parse_count(text).map_err(|e| Failure::bad(format!("--after: {e}")))
}

pub fn explain_walk(arguments: &ExplainWalkArguments) -> Result<u8, Failure> {
    if let Some(html) = &arguments.html {
        return walk_page::walk_page(arguments, html);
    }
    let request = WalkRequest {
        at: address(&arguments.at)?,
        access: arguments.access.map(|access| match access {
            AccessArgument::Load => AccessKind::Load,
            AccessArgument::Store => AccessKind::Store,
            AccessArgument::Fetch => AccessKind::Fetch,
        }),
        after: after(arguments, AFTER)?,
    };
    let program = program(arguments, FOOTPRINT);
    let jobs = requests::jobs(&program, &designs(arguments, "radix"))?.jobs;
    let slides = Slides::prepare(arguments.svg.as_deref(), &jobs)?;
    let stop = interrupt::stop_flag();
    let programs = compare::open_programs(&program, &jobs[0].spec)?;
    distinct_notes(programs.iter().flat_map(|program| program.notes())).iter().for_each(|note| warn(note));
    let names: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    let shown = progress::bars(&names, !arguments.no_progress && !arguments.json);
    let walks = ambulator_simulator::explain_walk(&jobs, programs, &request, &stop, shown.as_ref());
    drop(shown);
    let walks = walks.map_err(Failure::bad)?;
    if arguments.json {
        print(&serde_json::to_string_pretty(&walks).map_err(Failure::failed)?);
    } else if slides.is_empty() {
        show(&walks);
    }
    slides.write(&walks, arguments.json)?;
    let failures: Vec<String> = walks.iter().filter_map(failure).collect();
    failures.iter().for_each(|failure| report(&format!("error: {failure}")));
    Ok(if failures.is_empty() { DONE } else { SOME_FAILED })
}

/// The footprint where none is asked for: only of programs on which it has an effect.
fn default_footprint(arguments: &ExplainWalkArguments, footprint: &str) -> Option<String> {
    let named = |option: &String| option.split('=').next().is_some_and(|key| key.trim().ends_with("footprint"));
    if ambulator_workloads::program(&arguments.program).is_none() || arguments.program_set.iter().any(named) {
        return None;
    }
    let request = program_request(&arguments.program, &arguments.program_set, None, 0).ok()?;
    unused_by_program(&request, "footprint").is_none().then(|| footprint.to_owned())
}

/// The address that is asked for; `None` for `next`.
fn address(text: &str) -> Result<Option<VirtAddr>, Failure> {
    if text == "next" {
        return Ok(None);
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let parsed = digits.and_then(|digits| u64::from_str_radix(&digits.replace('_', ""), 16).ok());
    parsed.map(|at| Some(VirtAddr(at))).ok_or_else(|| {
        Failure::bad(format!(
            "--at: `{text}` is not an address; write it in hexadecimal, such as 0x7f0012345678, or `next`"
        ))
    })
}

/// Why a translation has no address, in a sentence.
fn failure(walk: &WalkSteps) -> Option<String> {
    match &walk.end {
        WalkEnd::Translated if walk.agrees => None,
        WalkEnd::Translated => Some(format!("{}: {}", walk.design, walk.oracle)),
        WalkEnd::SegmentationFault(why) => {
            Some(format!("{}: the kernel would end the program by SIGSEGV: {why}", walk.design))
        }
        WalkEnd::Failed(why) => Some(format!("{}: {why}", walk.design)),
    }
}

fn show(walks: &[WalkSteps]) {
    for walk in walks {
        print_folded(&walk.text(), 2);
    }
    if walks.len() > 1 {
        print(&table(walks));
    }
}

/// Heads of the table of several designs, and the keys of `--json` whose values are below them.
const HEADS: [(&str, &[&str]); 7] = [
    ("design", &["design"]),
    ("cycles", &["[].cycles"]),
    ("loads", &["[].loads.count"]),
    ("loads in a chain", &["[].loads.rounds"]),
    ("served by", &["[].loads.l1", "[].loads.l2", "[].loads.llc", "[].loads.dram"]),
    ("kernel cycles", &["[].kernel_cycles"]),
    ("data from", &["[].data.served", "[].data.cycles"]),
];

/// What the heads mean.
pub fn terms() -> Vec<Term> {
    HEADS.iter().map(|(head, keys)| Term::row(head, keys).at("explain-walk of several designs")).collect()
}

/// The designs side by side.
fn table(walks: &[WalkSteps]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = terminal::width() {
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    table.set_header(HEADS.map(|(head, _)| head));
    for walk in walks {
        let number = |value: u64| Cell::new(value).set_alignment(CellAlignment::Right);
        let data = walk.data.as_ref().map_or("-".to_owned(), |data| format!("{}, +{}", data.served, data.cycles));
        table.add_row([
            Cell::new(&walk.design),
            number(walk.cycles),
            number(walk.loads.count),
            number(walk.loads.rounds),
            Cell::new(walk.loads.served()),
            number(walk.kernel_cycles),
            Cell::new(data),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_or_the_next() {
        let parsed = |text| address(text).map_err(|failure| failure.message);
        assert_eq!(parsed("next"), Ok(None));
        assert_eq!(parsed("0x7f00_1000"), Ok(Some(VirtAddr(0x7f00_1000))));
        for wrong in ["", "7f00", "0x", "0xgg", "0x1_0000_0000_0000_0000", "soon"] {
            let message = parsed(wrong).unwrap_err();
            assert!(message.contains(&format!("`{wrong}`")) && message.contains("0x7f0012345678"), "{message}");
        }
    }
}
