//! `layout`: the address space of a real process.

use crate::arguments::LayoutArguments;
use crate::output::{check_standard_output, print};
use crate::{DONE, Failure};
use ambulator_base::InputFiles;
use ambulator_experiments::{bytes, layout as experiments};

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
    let row = |name: &str, value: String| print(&format!("{name:34} {value}"));
    let pages = |n: u64| format!("{n} pages ({})", bytes(n as f64 * 4096.0));
    row("accessible areas", report.areas.to_string());
    row("mapped", pages(report.mapped_pages));
    if report.residency_known {
        row("resident", pages(report.resident_pages));
    } else {
        print("it is not known which pages are resident: everything below counts all mapped pages as resident");
    }
    row("gap-1 coverage", format!("{:.1}%", 100.0 * report.gap_1_coverage));
    row("ranges of pages (for 99%)", format!("{} ({})", report.ranges, report.ranges_for_99_percent));
    if report.frames_known {
        let both = format!("{} ({})", report.physical_ranges, report.physical_ranges_for_99_percent);
        row("  contiguous in frames as well", both);
        row("in aligned and contiguous 2 MiB", pages(report.pages_in_aligned_2m));
    } else {
        print("frame numbers cannot be read (that needs root): this is the virtual half only");
    }
    if report.tables.is_empty() && report.resident_pages > 0 {
        print("\npage tables are not measured for more than 128 GiB");
        return Ok(DONE);
    }
    print("\nmemory for the resident pages, as 4 KiB pages:");
    for (name, size, contiguous) in &report.tables {
        row(
            &format!("  {name}"),
            format!("{:>10}, {} of it contiguous", bytes(*size as f64), bytes(*contiguous as f64)),
        );
    }
    Ok(DONE)
}
