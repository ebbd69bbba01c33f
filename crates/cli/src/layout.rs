//! `layout`: the address space of a real process.

use crate::arguments::LayoutArguments;
use crate::output::{check_standard_output, print};
use crate::rows::{Row, labelled, rows_terms, show};
use crate::{DONE, Failure};
use ambulator_base::InputFiles;
use ambulator_experiments::layout::LayoutReport;
use ambulator_experiments::{Term, bytes, layout as experiments};

pub fn layout(arguments: &LayoutArguments) -> Result<u8, Failure> {
    let inputs: InputFiles = arguments.maps.iter().collect();
    check_standard_output(&inputs)?;
    let report = match (arguments.pid, &arguments.maps) {
        (Some(pid), _) => experiments::of_process(pid),
        (None, Some(path)) => experiments::of_maps(path),
        (None, None) => Err("name a process with --pid or a file with --maps".into()),
    }
    .map_err(Failure::bad)?;
    if arguments.json {
        print(&serde_json::to_string_pretty(&report).map_err(Failure::failed)?);
        return Ok(DONE);
    }
    show(AREAS, WIDTH, &report);
    if !report.residency_known {
        print("it is not known which pages are resident: everything below counts all mapped pages as resident");
    }
    show(RUNS, WIDTH, &report);
    if report.frames_known {
        show(FRAMES, WIDTH, &report);
    } else {
        print("frame numbers cannot be read (that needs root): this is the virtual half only");
    }
    if report.tables.is_empty() && report.resident_pages > 0 {
        print("\npage tables are not measured for more than 128 GiB");
        return Ok(DONE);
    }
    print("\nmemory for the resident pages, as 4 KiB pages:");
    for (name, size, contiguous) in &report.tables {
        let both = format!("{:>10}, {} of it contiguous", bytes(*size as f64), bytes(*contiguous as f64));
        print(&labelled(&format!("  {name}"), WIDTH, &both));
    }
    Ok(DONE)
}

/// Columns of the labels.
const WIDTH: usize = 34;

fn pages(count: u64) -> Option<String> {
    Some(format!("{count} pages ({})", bytes(count as f64 * 4096.0)))
}

fn with(all: u64, most: u64) -> Option<String> {
    Some(format!("{all} ({most})"))
}

const AREAS: &[Row<LayoutReport>] = &[
    Row("accessible areas", &["areas"], |of| Some(of.areas.to_string())),
    Row("mapped", &["mapped_pages"], |of| pages(of.mapped_pages)),
    Row("resident", &["resident_pages"], |of| of.residency_known.then(|| pages(of.resident_pages))?),
];

const RUNS: &[Row<LayoutReport>] = &[
    Row("gap-1 coverage", &["gap_1_coverage"], |of| Some(format!("{:.1}%", 100.0 * of.gap_1_coverage))),
    Row("ranges of pages (for 99%)", &["ranges", "ranges_for_99_percent"], |of| {
        with(of.ranges, of.ranges_for_99_percent)
    }),
];

const FRAMES: &[Row<LayoutReport>] = &[
    Row("  contiguous in frames as well", &["physical_ranges", "physical_ranges_for_99_percent"], |of| {
        with(of.physical_ranges, of.physical_ranges_for_99_percent)
    }),
    Row("in aligned and contiguous 2 MiB", &["pages_in_aligned_2m"], |of| pages(of.pages_in_aligned_2m)),
];

/// What the rows of `layout` mean.
pub fn terms() -> Vec<Term> {
    [AREAS, RUNS, FRAMES].into_iter().flat_map(|rows| rows_terms(rows, "layout")).collect()
}
