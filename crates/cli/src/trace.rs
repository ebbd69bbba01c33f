//! `trace info`, `trace convert`, `trace head`.

use crate::arguments::{TraceArguments, TraceCommand, WidthArguments};
use crate::output::{check_standard_output, print, warn};
use crate::rows::{Row, labelled, rows_terms, show};
use crate::{DONE, Failure, SOME_FAILED, interrupt};
use ambulator_base::InputFiles;
use ambulator_experiments::{Term, bytes, count};
use ambulator_simulator::spec::parse_count;
use ambulator_trace::{self as trace, Compression, Conversion, TraceOptions};
use std::path::Path;
use std::sync::atomic::Ordering;

pub fn trace(arguments: &TraceArguments) -> Result<u8, Failure> {
    let (TraceCommand::Info { file, .. } | TraceCommand::Head { file, .. } | TraceCommand::Convert { from: file, .. }) =
        &arguments.command;
    check_standard_output(&InputFiles::from_iter([file]))?;
    match &arguments.command {
        TraceCommand::Info { file, full, json, width } => {
            // A file that cannot be read is reported below, with what it is.
            let bytes = std::fs::metadata(file).map_or(0, |meta| meta.len());
            if !full
                && bytes > READ_WHOLE
                && let Some(index) = trace::trace_index(file).map_err(Failure::bad)?
            {
                return index_info(&index, *json);
            }
            info(file, &options(width), *json)
        }
        TraceCommand::Head { file, count, width } => {
            let head = trace::head(file, &options(width), *count).map_err(Failure::bad)?;
            head.notes.iter().for_each(|note| warn(note));
            head.lines.iter().for_each(|line| print(&line.to_string()));
            Ok(DONE)
        }
        TraceCommand::Convert { from, to, format, skip, records, width } => {
            let number = |name: &str, text: &str| parse_count(text).map_err(|e| Failure::bad(format!("--{name}: {e}")));
            let first = number("skip", skip)?;
            let records = records.as_ref().map(|text| number("records", text)).transpose()?;
            let (format, _) = format.format();
            let conversion = Conversion {
                format,
                compression: Compression::of_name(to, format).map_err(Failure::bad)?,
                range: first..records.map_or(u64::MAX, |n| first.saturating_add(n)),
                reader: options(width),
                stop: interrupt::stop_flag(),
                ..Conversion::default()
            };
            let made = trace::convert(from, to, &conversion);
            let stopped = conversion.stop.load(Ordering::Relaxed);
            let report = made.map_err(|error| if stopped { Failure::failed(error) } else { Failure::bad(error) })?;
            report.notes.iter().for_each(|note| warn(note));
            print(&format!(
                "{}: {} records and {} events in {}",
                to.display(),
                report.records,
                report.events,
                bytes(report.bytes as f64)
            ));
            if report.left_out > 0 {
                print(&format!(
                    "{} records and events have no equivalent in this format and were omitted",
                    report.left_out
                ));
            }
            Ok(DONE)
        }
    }
}

/// Bytes of a trace up to which `trace info` reads all of it.
const READ_WHOLE: u64 = 64 << 20;

/// What the index of a trace says.
fn index_info(index: &trace::TraceInfo, as_json: bool) -> Result<u8, Failure> {
    let notes: Vec<&String> = index.recovered.iter().chain(&index.cut_short).collect();
    if as_json {
        let document = index.summary();
        print(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        return Ok(DONE);
    }
    show(INDEX_ROWS, WIDTH, index);
    notes.iter().for_each(|note| print(&labelled(NOTE.0, WIDTH, note)));
    print(&labelled(
        NOTE.0,
        WIDTH,
        "this is what the index says; --full reads the whole trace, for loads, stores, pages and damage",
    ));
    Ok(DONE)
}

fn options(width: &WidthArguments) -> TraceOptions {
    TraceOptions { va_bits: width.va_bits, ..TraceOptions::default() }
}

fn info(file: &Path, options: &TraceOptions, json: bool) -> Result<u8, Failure> {
    let summary = trace::info(file, options).map_err(Failure::bad)?;
    summary.warnings.iter().for_each(|warning| warn(warning));
    let damaged = summary.damage.is_some();
    if json {
        print(&serde_json::to_string_pretty(&summary).map_err(Failure::failed)?);
        return Ok(if damaged { SOME_FAILED } else { DONE });
    }
    show(ROWS, WIDTH, &summary);
    summary.notes.iter().for_each(|note| print(&labelled(NOTE.0, WIDTH, note)));
    Ok(if damaged { SOME_FAILED } else { DONE })
}

/// Columns of the labels.
const WIDTH: usize = 26;
/// The row of remarks, and its key.
const NOTE: (&str, &str) = ("note", "notes");

/// A count, and one in brackets behind it.
fn with(one: u64, other: String) -> Option<String> {
    Some(format!("{one} ({other})"))
}

fn number(value: u64) -> Option<String> {
    Some(count(value as f64))
}

/// Pages, with their bytes.
fn of_pages(pages: u64) -> Option<String> {
    with(pages, bytes(pages as f64 * 4096.0))
}

const INDEX_ROWS: &[Row<trace::TraceInfo>] = &[
    Row("format", &["format"], |_| Some("Ambulator".into())),
    Row("program", &["program.name", "program.detail"], |of| {
        Some(format!("{} {}", of.header.identity.name, of.header.identity.detail))
    }),
    Row("file", &["bytes"], |of| Some(bytes(of.bytes as f64))),
    Row("records", &["records"], |of| number(of.records)),
    Row("instructions", &["instructions"], |of| number(of.instructions)),
    Row("events", &["events"], |of| number(of.events)),
    Row("blocks", &["blocks"], |of| Some(of.blocks.to_string())),
    Row("bytes a record", &["bytes", "records"], |of| {
        Some(format!("{:.2}", of.bytes as f64 / of.records.max(1) as f64))
    }),
];

const ROWS: &[Row<trace::TraceSummary>] = &[
    Row("format", &["format", "compression"], |of| {
        Some(format!("{:?}{}", of.format, of.compression.map(|c| format!(", {c}")).unwrap_or_default()))
    }),
    Row("program", &["program.name"], |of| Some(of.program.name.clone())),
    Row("file", &["bytes"], |of| Some(bytes(of.bytes as f64))),
    Row("records", &["records"], |of| number(of.records)),
    Row("  loads / stores", &["loads", "stores"], |of| {
        Some(format!("{} / {}", count(of.loads as f64), count(of.stores as f64)))
    }),
    Row("  branches (taken)", &["branches", "taken"], |of| {
        Some(format!("{} ({})", count(of.branches as f64), count(of.taken as f64)))
    }),
    Row("  explicit fetches", &["fetches"], |of| number(of.fetches)),
    Row("  with a dependence", &["dependent"], |of| number(of.dependent)),
    Row("instructions (in region)", &["instructions", "region_instructions"], |of| {
        Some(format!("{} ({})", count(of.instructions as f64), count(of.region_instructions as f64)))
    }),
    Row("pages touched", &["touched_pages", "footprint"], |of| of_pages(of.touched_pages)),
    Row("  as 2 MiB / 1 GiB pages", &["touched_2m", "touched_1g"], |of| {
        Some(format!("{} / {}", of.touched_2m, of.touched_1g))
    }),
    Row("  reused within pages", &["reuse.within"], |of| {
        let shares: Vec<_> = of.reuse.within.iter().map(|(_, share)| format!("{:.1}%", 100.0 * share)).collect();
        let limits: Vec<_> = of.reuse.within.iter().map(|(pages, _)| pages.to_string()).collect();
        Some(format!("{} ({})", shares.join(" / "), limits.join(" / ")))
    }),
    Row("  prepared before", &["prepared_pages"], |of| of_pages(of.prepared_pages)),
    Row("threads (processes)", &["threads", "processes"], |of| with(of.threads, of.processes.to_string())),
    Row("largest address space", &["regularity.pages"], |of| {
        Some(format!("{} pages mapped and touched", of.regularity.pages))
    }),
    Row("  gap-1 coverage", &["regularity.gap_1_coverage"], |of| {
        Some(format!("{:.1}%", 100.0 * of.regularity.gap_1_coverage))
    }),
    Row("  ranges (for 99%)", &["regularity.ranges", "regularity.ranges_for_99_percent"], |of| {
        with(of.regularity.ranges, of.regularity.ranges_for_99_percent.to_string())
    }),
    Row("physical addresses", &["physical.pages", "physical.moved"], |of| {
        of.physical.as_ref().map(|of| format!("{} pages, {} moved", of.pages, of.moved))
    }),
    Row("  contiguous in both", &["physical.runs", "physical.runs_for_99_percent", "physical.longest_run"], |of| {
        let physical = of.physical.as_ref()?;
        let (runs, most, longest) = (physical.runs, physical.runs_for_99_percent, physical.longest_run);
        Some(format!("{runs} runs ({most} for 99%), the longest of {longest} pages"))
    }),
    Row("  as huge pages lie", &["physical.huge_regions", "physical.regions"], |of| {
        of.physical.as_ref().map(|of| format!("{} of {} regions of 2 MiB", of.huge_regions, of.regions))
    }),
    Row("events", &["events"], |of| {
        let events: Vec<_> = of.events.iter().map(|(name, n)| format!("{n} {name}")).collect();
        Some(if events.is_empty() { "none".into() } else { events.join(", ") })
    }),
    Row("outside its mappings", &["outside_mappings"], |of| number(of.outside_mappings)),
    Row("bytes an access", &["bytes_per_access"], |of| Some(format!("{:.2}", of.bytes_per_access))),
    Row("blocks whole", &["blocks_good", "blocks"], |of| Some(format!("{} of {}", of.blocks_good?, of.blocks?))),
    Row("damage", &["damage"], |of| of.damage.clone()),
];

/// What the rows and keys of `trace info` mean.
pub fn terms() -> Vec<Term> {
    let mut all = rows_terms(ROWS, "trace info");
    all.extend(rows_terms(INDEX_ROWS, "trace info"));
    all.push(Term::row(NOTE.0, &[NOTE.1]).at("trace info"));
    all.extend(ambulator_experiments::keys::<trace::TraceSummary>("trace info --json"));
    all.extend(ambulator_experiments::keys::<trace::IndexSummary>("trace info --json"));
    all
}
