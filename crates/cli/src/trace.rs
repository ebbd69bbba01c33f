//! `trace info`, `trace convert`, `trace head`.

use crate::arguments::{FormatArgument, TraceArguments, TraceCommand, WidthArguments};
use crate::output::{check_standard_output, print, warn};
use crate::{DONE, Failure, SOME_FAILED, interrupt};
use ambulator_base::InputFiles;
use ambulator_experiments::{bytes, count};
use ambulator_simulator::spec::parse_count;
use ambulator_trace::{self as trace, Compression, Conversion, TraceFormat, TraceOptions};
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
            let format = match format {
                FormatArgument::Amb => TraceFormat::Ambulator,
                FormatArgument::Champsim => TraceFormat::ChampSim,
            };
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
                    "{} events and fetches have no equivalent in this format and were omitted",
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
    let identity = &index.header.identity;
    let notes: Vec<&String> = index.recovered.iter().chain(&index.cut_short).collect();
    if as_json {
        let document = serde_json::json!({
            "format": TraceFormat::Ambulator,
            "program": identity,
            "bytes": index.bytes,
            "records": index.records,
            "instructions": index.instructions,
            "events": index.events,
            "blocks": index.blocks,
            "from_index": true,
            "notes": notes,
        });
        print(&serde_json::to_string_pretty(&document).map_err(Failure::failed)?);
        return Ok(DONE);
    }
    let row = |name: &str, value: String| print(&format!("{name:<26} {value}"));
    row("format", "Ambulator".into());
    row("program", format!("{} {}", identity.name, identity.detail));
    row("file", bytes(index.bytes as f64));
    row("records", count(index.records as f64));
    row("instructions", count(index.instructions as f64));
    row("events", count(index.events as f64));
    row("blocks", index.blocks.to_string());
    row("bytes a record", format!("{:.2}", index.bytes as f64 / index.records.max(1) as f64));
    notes.iter().for_each(|note| row("note", (*note).clone()));
    row(
        "note",
        "this is what the index says; --full reads the whole trace, for loads, stores, pages and damage".into(),
    );
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
    let row = |name: &str, value: String| print(&format!("{name:26} {value}"));
    let packing = summary.compression.map(|c| format!(", {c}")).unwrap_or_default();
    row("format", format!("{:?}{packing}", summary.format));
    row("program", summary.program.name.clone());
    row("file", bytes(summary.bytes as f64));
    row("records", count(summary.records as f64));
    row("  loads / stores", format!("{} / {}", count(summary.loads as f64), count(summary.stores as f64)));
    row("  branches (taken)", format!("{} ({})", count(summary.branches as f64), count(summary.taken as f64)));
    row("  explicit fetches", count(summary.fetches as f64));
    row("  with a dependence", count(summary.dependent as f64));
    row(
        "instructions (in region)",
        format!("{} ({})", count(summary.instructions as f64), count(summary.region_instructions as f64)),
    );
    row("pages touched", format!("{} ({})", summary.touched_pages, bytes(summary.touched_pages as f64 * 4096.0)));
    row("  as 2 MiB / 1 GiB pages", format!("{} / {}", summary.touched_2m, summary.touched_1g));
    let shares: Vec<_> = summary.reuse.within.iter().map(|(_, share)| format!("{:.1}%", 100.0 * share)).collect();
    let limits: Vec<_> = summary.reuse.within.iter().map(|(pages, _)| pages.to_string()).collect();
    row("  reused within pages", format!("{} ({})", shares.join(" / "), limits.join(" / ")));
    row("  prepared before", format!("{} ({})", summary.prepared_pages, bytes(summary.prepared_pages as f64 * 4096.0)));
    let events: Vec<_> = summary.events.iter().map(|(name, n)| format!("{n} {name}")).collect();
    row("threads (processes)", format!("{} ({})", summary.threads, summary.processes));
    let regular = &summary.regularity;
    row("largest address space", format!("{} pages mapped and touched", regular.pages));
    row("  gap-1 coverage", format!("{:.1}%", 100.0 * regular.gap_1_coverage));
    row("  ranges (for 99%)", format!("{} ({})", regular.ranges, regular.ranges_for_99_percent));
    if let Some(physical) = &summary.physical {
        row("physical addresses", format!("{} pages, {} moved", physical.pages, physical.moved));
        row(
            "  contiguous in both",
            format!(
                "{} runs ({} for 99%), the longest of {} pages",
                physical.runs, physical.runs_for_99_percent, physical.longest_run
            ),
        );
        row("  as huge pages lie", format!("{} of {} regions of 2 MiB", physical.huge_regions, physical.regions));
    }
    row("events", if events.is_empty() { "none".into() } else { events.join(", ") });
    row("outside its mappings", count(summary.outside_mappings as f64));
    row("bytes an access", format!("{:.2}", summary.bytes_per_access));
    if let (Some(good), Some(all)) = (summary.blocks_good, summary.blocks) {
        row("blocks whole", format!("{good} of {all}"));
    }
    for note in &summary.notes {
        row("note", note.clone());
    }
    if let Some(damage) = &summary.damage {
        row("damage", damage.clone());
    }
    Ok(if damaged { SOME_FAILED } else { DONE })
}
