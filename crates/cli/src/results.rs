//! `results`: the cells of a store.

use crate::arguments::TableArguments;
use crate::output::{JsonOutput, print, warn};
use crate::table_files::TableFiles;
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, requests, store};
use ambulator_experiments::row::{Column, HALF_OF_SAMPLED, ResultsDocument};
use ambulator_experiments::{
    Compacted, Entry, Grid, Head, SAMPLING_COLUMNS, Selected, Selection, Spread, Store, about_sampling,
    comparison_grid, comparison_table, core_table, untimed_daemons,
};
use ambulator_simulator::{RunResult, set_speedups};
use clap::Args;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Which cells, and how they are shown.
#[derive(Args)]
pub struct ResultsArguments {
    /// Cells by the first digits of their keys: one is shown whole, several are compared. Without any, cells
    /// are listed.
    #[arg(value_name = "CELL")]
    pub cells: Vec<String>,
    /// Cells of these designs, separated by commas.
    #[arg(long, short, value_name = "DESIGN,...")]
    pub design: Vec<String>,
    /// Cells of these programs.
    #[arg(long, short, value_name = "PROGRAM,...")]
    pub program: Vec<String>,
    /// Cells of these machines.
    #[arg(long, short, value_name = "MACHINE,...")]
    pub machine: Vec<String>,
    /// Cells that ended so: done, outcome or failed.
    #[arg(long, value_name = "STATUS,...", value_delimiter = ',')]
    pub status: Vec<String>,
    /// Cells of a study, by its name; --studies lists them.
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// Cells with this value of a setting or column, such as mmu.l2_tlb.entries=1024; repeatable, and all
    /// must hold.
    #[arg(long = "where", value_name = "KEY=VALUE")]
    pub conditions: Vec<String>,
    /// List the studies of the store.
    #[arg(long)]
    pub studies: bool,
    /// Put all finished files of the store together into one, for whatever reads them; Ambulator does so by
    /// itself when there are more than 64 small ones.
    #[arg(long, conflicts_with_all = ["cells", "compare", "studies"])]
    pub compact: bool,
    /// Compare the selected cells with each other; speed-ups are relative to the first.
    #[arg(long)]
    pub compare: bool,
    /// With one cell: every setting, also those of the presets.
    #[arg(long)]
    pub spec: bool,
    /// The columns of the list, separated by commas: columns of rows (columns.json in the store has them
    /// all), or settings.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', conflicts_with = "compare")]
    pub columns: Vec<String>,
    /// The folder of the store; by default that of the environment variable AMBULATOR_STORE, or else
    /// out/results.
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub table: TableArguments,
    /// Write rows, columns and specs as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub fn results(arguments: &ResultsArguments) -> Result<u8, Failure> {
    let mut store = store::existing(arguments.store.as_ref())?;
    if arguments.compact {
        print_folded(&compacted(&mut store)?, 0);
        return Ok(DONE);
    }
    if arguments.studies {
        store.studies().iter().for_each(|name| print(name));
        return Ok(DONE);
    }
    let inputs = Store::files_in(store.folder()).into_iter().collect();
    let files = TableFiles::prepare(&arguments.table, &inputs)?;
    let json = JsonOutput::prepare(arguments.json.as_deref(), &inputs)?;
    let is_quiet = files.take_standard_output() || json.as_ref().is_some_and(JsonOutput::takes_standard_output);
    let mut cells = selected(arguments, &store)?;
    let (all, brief) = if arguments.compare || arguments.cells.len() > 1 {
        let runs = runs(&mut cells)?;
        if !is_quiet {
            print(&comparison_table(&runs, terminal::width()));
            core_table(&runs, terminal::width()).iter().for_each(|table| print(table));
            about_sampling(&runs, true).iter().for_each(|sentence| print_folded(sentence, 0));
        }
        let grid = comparison_grid(&runs);
        (grid.clone(), grid)
    } else if let ([cell], 1) = (&cells[..], arguments.cells.len()) {
        let grid = whole(cell, store.columns(), arguments.spec);
        if !is_quiet {
            show(cell, &grid, arguments.spec);
        }
        (grid.clone(), grid)
    } else {
        let all = list(&cells, &arguments.columns, true)?;
        let grid = list(&cells, &arguments.columns, false)?;
        if !is_quiet {
            if !cells.is_empty() {
                print(&grid.terminal(terminal::width()));
            }
            let count = cells.len();
            let folder = store.folder().display();
            print_folded(
                &format!("{count} of {} cells in {folder}; `ambulator results CELL` shows one", store.len()),
                0,
            );
        }
        (all, grid)
    };
    let mut written = vec![files.write(&all, &brief)];
    if let Some(json) = json {
        let text = serde_json::to_vec_pretty(&document(&cells, store.columns())).map_err(Failure::failed)?;
        written.push(json.keep_if_ended(|| None).write(text));
    }
    Failure::of_outputs(written)?;
    Ok(DONE)
}

/// Puts the files of a store together; what came of it, in a sentence.
fn compacted(store: &mut Store) -> Result<String, Failure> {
    Ok(match store.compact().map_err(Failure::failed)? {
        Some(Compacted { into, files, rows }) => {
            format!("{} has the {rows} rows of {files} files, which it replaces", into.display())
        }
        None => {
            let folder = store.folder().display();
            format!("{folder}: there is nothing to put together, or another process does it")
        }
    })
}

/// The cells that the arguments name.
fn selected(arguments: &ResultsArguments, store: &Store) -> Result<Vec<Selected>, Failure> {
    if store.is_empty() {
        warn(&format!("{} has no cells", store.folder().display()));
    }
    if !arguments.cells.is_empty() {
        let find = |prefix: &String| store.cell_by_prefix(prefix).map_err(Failure::bad);
        return arguments.cells.iter().map(find).collect();
    }
    let mut selection = Selection::default();
    let split =
        |lists: &[String]| lists.iter().flat_map(|list| list.split(',')).map(|name| name.trim().to_owned()).collect();
    let designs = if arguments.design.is_empty() { Vec::new() } else { requests::design_names(&arguments.design) };
    let programs: Vec<String> = split(&arguments.program);
    let machines: Vec<String> = split(&arguments.machine);
    let by = [("design", designs), ("program", programs), ("machine", machines), ("status", arguments.status.clone())];
    by.into_iter().for_each(|(key, values)| selection.add(key, values));
    selection.add("study", arguments.study.clone());
    for condition in &arguments.conditions {
        let part = Selection::parse(condition).map_err(|error| Failure::bad(format!("--where: {error}")))?;
        selection.conditions.extend(part.conditions);
    }
    store.select(&selection).map_err(Failure::bad)
}

/// The runs of cells, whose names tell them apart, with their speed-ups over the first.
fn runs(cells: &mut [Selected]) -> Result<Vec<RunResult>, Failure> {
    if cells.is_empty() {
        return Err(Failure::bad("no cell is selected: there is nothing to compare"));
    }
    let differing = differing(cells, &["program", "design", "machine", "seed"]);
    let run = |cell: &Selected| {
        let (_, mut run) = ambulator_experiments::row::run_of(&cell.row, cell.spec.clone())
            .map_err(|error| Failure::failed(format!("the cell {}: {error}", cell.text("cell"))))?;
        let names = differing.iter().filter(|key| *key != "design").map(|key| match key.as_str() {
            "program" | "machine" => cell.text(key),
            _ => format!("{key}={}", cell.text(key)),
        });
        run.design = [cell.text("design")].into_iter().chain(names).collect::<Vec<_>>().join(" ");
        Ok(run)
    };
    let mut runs = cells.iter().map(run).collect::<Result<Vec<_>, Failure>>()?;
    set_speedups(&mut runs);
    Ok(runs)
}

/// Of `columns` and all settings, those in which cells differ.
fn differing(cells: &[Selected], columns: &[&str]) -> Vec<String> {
    let mut keys: Vec<String> = columns.iter().map(|key| (*key).to_owned()).collect();
    for cell in cells {
        for (key, _) in cell.settings().filter(|(key, _)| *key != "run.seed") {
            if !keys.iter().any(|known| known == key) {
                keys.push(key.to_owned());
            }
        }
    }
    keys.retain(|key| cells.windows(2).any(|pair| pair[0].value(key) != pair[1].value(key)));
    keys
}

/// Columns that a list for people has under another name.
const CALLED: [(&str, &str); 2] =
    [("measures.l2_tlb_mpki", "L2 TLB misses per 1000 instr."), ("measures.walk_latency_mean", "cycles a walk")];
/// Columns that say how cells were sampled, if any was.
const SAMPLED: [&str; 3] = ["run.sampling", "sampled.windows", "sampled.covered"];

/// A row for each cell. Without `columns`, those by which the cells differ, and the main results; for files
/// under their `exact` names.
fn list(cells: &[Selected], columns: &[String], exact: bool) -> Result<Grid, Failure> {
    let names: Vec<String> = if columns.is_empty() {
        let differing = differing(cells, &["machine", "seed", "version", "build"]);
        let mut names: Vec<String> = ["cell", "program", "design"].map(str::to_owned).to_vec();
        names.extend(differing.into_iter().map(|key| if key == "build" { "build".to_owned() } else { key }));
        if cells.iter().any(|cell| cell.text("status") != "done") {
            names.push("status".to_owned());
        }
        names.extend(["ipc", "measures.l2_tlb_mpki", "measures.walk_latency_mean"].map(str::to_owned));
        if cells.iter().any(|cell| cell.value("sampled.windows").is_some()) {
            names.extend(SAMPLED.map(str::to_owned));
            let mut known = BTreeSet::new();
            names.retain(|name| known.insert(name.clone()));
        }
        names
    } else {
        columns.iter().map(|name| name.trim().to_owned()).collect()
    };
    for name in columns {
        if !cells.is_empty() && cells.iter().all(|cell| cell.value(name).is_none()) {
            let known = cells.iter().flat_map(|cell| cell.row.keys()).map(String::as_str);
            let meant = ambulator_base::nearest(name, known).map(|of| format!("; did you mean `{of}`?"));
            return Err(Failure::bad(format!(
                "--columns: no selected cell has a column or a setting `{name}`{}",
                meant.unwrap_or_default()
            )));
        }
    }
    let entry = |cell: &Selected, name: &String| match (name.as_str(), cell.value(name)) {
        ("cell" | "build", Some(_)) if columns.is_empty() && !exact => {
            Entry::Text(cell.text(name).chars().take(8).collect())
        }
        (_, Some(value)) => match entry(value) {
            Entry::Number(number) => Entry::Number(Spread {
                half: cell.value(&format!("{HALF_OF_SAMPLED}{name}")).and_then(Value::as_f64),
                ..number
            }),
            other => other,
        },
        (_, None) => Entry::Missing,
    };
    let head = |name: &String| {
        let is_number = cells.iter().any(|cell| cell.value(name).is_some_and(Value::is_number));
        let all = CALLED.into_iter().chain(SAMPLING_COLUMNS.map(|(called, of)| (of, called)));
        let called = all.filter(|_| columns.is_empty() && !exact).find(|(of, _)| of == name);
        let text = called.map_or(name.as_str(), |(_, called)| called);
        if is_number { Head::number(text, (name == "ipc").then_some(3)) } else { Head::text(text) }
    };
    let rows = cells.iter().map(|cell| names.iter().map(|name| entry(cell, name)).collect()).collect();
    Ok(Grid { head: names.iter().map(head).collect(), rows })
}

fn entry(value: &Value) -> Entry {
    match value {
        Value::Number(number) => {
            let mean = number.as_f64().unwrap_or(f64::NAN);
            Entry::Number(Spread { mean, half: None, seeds: 1 })
        }
        Value::Null => Entry::Missing,
        Value::String(text) => Entry::Text(text.clone()),
        other => Entry::Text(other.to_string()),
    }
}

/// Every column of a cell, with its unit; with `with_spec` also every setting.
fn whole(cell: &Selected, columns: &BTreeMap<String, Column>, with_spec: bool) -> Grid {
    let head = vec![Head::text("column"), Head::number("value", None), Head::text("unit")];
    let unit = |name: &str| columns.get(name).map_or(String::new(), |column| column.unit.clone());
    let row = |(name, value): (&String, &Value)| {
        // Whole numbers are shown with every digit.
        let value = if value.is_u64() { Entry::Text(value.to_string()) } else { entry(value) };
        vec![Entry::Text(name.clone()), value, Entry::Text(unit(name))]
    };
    let mut rows: Vec<Vec<Entry>> = cell.row.iter().map(row).collect();
    if with_spec {
        let mut settings = Map::new();
        flatten("spec", &cell.spec, &mut settings);
        rows.extend(settings.iter().map(row));
    }
    Grid { head, rows }
}

fn flatten(at: &str, value: &Value, found: &mut Map<String, Value>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| flatten(&format!("{at}.{name}"), member, found));
        }
        _ => _ = found.insert(at.to_owned(), value.clone()),
    }
}

/// Prints a cell: what ran, its settings, and its numbers that are not 0.
fn show(cell: &Selected, grid: &Grid, with_spec: bool) {
    // Units of what is no quantity.
    const NAMES: [&str; 6] = ["text", "key", "name", "choice", "seed", ""];
    let zero = Entry::Text("0".to_owned());
    let mut zeros = 0;
    let mut numbers = Grid { head: grid.head.clone(), rows: Vec::new() };
    for row in &grid.rows {
        let [Entry::Text(name), value, Entry::Text(unit)] = &row[..] else { continue };
        let shown = match value {
            Entry::Missing => continue,
            Entry::Text(text) if text.starts_with('[') => continue,
            Entry::Text(text) => text.clone(),
            Entry::Number(number) => number.mean.to_string(),
        };
        if NAMES.contains(&unit.as_str()) {
            print_folded(&format!("{}  {shown}", name.strip_prefix("set.").unwrap_or(name)), 4);
        } else if *value == zero {
            zeros += 1;
        } else {
            numbers.rows.push(row.clone());
        }
    }
    print(&numbers.terminal(terminal::width()));
    let with_spec = if with_spec { "" } else { "; --spec shows the settings of the presets" };
    print_folded(
        &format!(
            "{zeros} columns that are 0, and lists, are left out: --csv and --json have them{with_spec}; `ambulator \
             explain COLUMN` says what one means"
        ),
        0,
    );
    if cell.spec.is_null() {
        warn("the spec of this cell is not in the store");
    }
    let run = ambulator_experiments::row::run_of(&cell.row, cell.spec.clone());
    run.ok().and_then(|(_, run)| untimed_daemons(&run)).iter().for_each(|caution| warn(caution));
}

/// Rows, columns and specs.
fn document(cells: &[Selected], columns: &BTreeMap<String, Column>) -> ResultsDocument {
    ResultsDocument {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        columns: columns.clone(),
        rows: cells.iter().map(|cell| cell.row.clone()).collect(),
        specs: cells.iter().map(|cell| (cell.text("spec"), cell.spec.clone())).collect(),
    }
}
