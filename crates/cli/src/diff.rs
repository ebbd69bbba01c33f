//! `diff`: what differs between two runs.

use crate::arguments::TableArguments;
use crate::output::{JsonOutput, print};
use crate::table_files::TableFiles;
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, store};
use ambulator_base::InputFiles;
use ambulator_experiments::row::Column;
use ambulator_experiments::{DiffDocument, Difference, Document, Runs, Selection, Store, differences_grid, pairs};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The two sides, and what counts as a difference.
#[derive(Args)]
pub struct DiffArguments {
    /// The first: the first digits of a cell's key, conditions such as design=radix,program=gups, the name of
    /// a study, the folder of another store, or a JSON document of `compare`.
    #[arg(value_name = "A")]
    pub one: String,
    /// The second. Where both have several cells, those with the same machine, program, design and settings
    /// are compared.
    #[arg(value_name = "B")]
    pub two: String,
    /// Without intervals, numbers have moved that change by more than this, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub threshold: f64,
    /// Show every number that moved; by default the 15 that moved most, and 5 each for several pairs.
    #[arg(long)]
    pub all: bool,
    /// The folder of the store; by default that of the environment variable AMBULATOR_STORE, or else
    /// out/results.
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub table: TableArguments,
    /// Write everything as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// One of the two.
#[derive(Default)]
struct Side {
    runs: Vec<Runs>,
    columns: BTreeMap<String, Column>,
    /// Columns and settings that were asked for.
    fixed: Vec<String>,
    inputs: Vec<PathBuf>,
}

pub fn diff(arguments: &DiffArguments) -> Result<u8, Failure> {
    if !(0.0..1000.0).contains(&arguments.threshold) {
        return Err(Failure::bad("--threshold: write percent from 0 to 1000, such as 1"));
    }
    let threshold = arguments.threshold / 100.0;
    let (one, two) = (side(arguments, &arguments.one)?, side(arguments, &arguments.two)?);
    let inputs: InputFiles = one.inputs.iter().chain(&two.inputs).cloned().collect();
    let files = TableFiles::prepare(&arguments.table, &inputs)?;
    let json = JsonOutput::prepare(arguments.json.as_deref(), &inputs)?;
    let is_quiet = files.take_standard_output() || json.as_ref().is_some_and(JsonOutput::takes_standard_output);
    let columns: BTreeMap<String, Column> = one.columns.into_iter().chain(two.columns).collect();
    let fixed: BTreeSet<&str> = one.fixed.iter().chain(&two.fixed).map(String::as_str).collect();
    let (pairs, alone) = pairs(one.runs, two.runs, &fixed);
    let differences: Vec<Difference> = pairs.iter().map(|(a, b)| Difference::of(a, b, &columns, threshold)).collect();
    if differences.is_empty() {
        return Err(Failure::bad(format!("A and B have no cells in common:\n  {}", alone.join("\n  "))));
    }
    if !is_quiet {
        show(&differences, &alone, arguments.all, threshold);
    }
    let grid = differences_grid(&differences);
    let mut written = vec![files.write(&grid, &grid)];
    if let Some(json) = json {
        let text = DiffDocument {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            a: arguments.one.clone(),
            b: arguments.two.clone(),
            threshold_percent: arguments.threshold,
            differences,
            without_partner: alone,
        };
        written.push(json.keep_if_ended(|| None).write(serde_json::to_vec_pretty(&text).map_err(Failure::failed)?));
    }
    Failure::of_outputs(written)?;
    Ok(DONE)
}

fn show(differences: &[Difference], alone: &[String], all: bool, threshold: f64) {
    const ONE: usize = 15;
    const SEVERAL: usize = 5;
    let most = if all {
        usize::MAX
    } else if differences.len() == 1 {
        ONE
    } else {
        SEVERAL
    };
    for of in differences.iter().filter(|of| !of.is_none()) {
        print_folded(&format!("A: {}\nB: {}", of.a, of.b), 3);
        of.speed.iter().chain(&of.sampling).for_each(|sentence| print_folded(sentence, 0));
        if of.settings.is_empty() {
            print("The settings are the same.");
        } else {
            print(&of.settings_grid().terminal(terminal::width()));
        }
        if !of.moved.is_empty() {
            let whole = of.moved_grid(most, true).terminal(None);
            let fits = |width| whole.lines().all(|line| line.chars().count() <= width);
            let with_unit = terminal::width().is_none_or(fits);
            print(&of.moved_grid(most, with_unit).terminal(terminal::width()));
        }
        let more = match of.moved.len().saturating_sub(most) {
            0 => String::new(),
            more => format!(" ({more} are not shown: --all shows them)"),
        };
        let one_sided = match of.one_sided {
            0 => String::new(),
            count => format!(" {count} are of one side only, and 0 in the other."),
        };
        let (moved, compared) = (of.moved.len(), of.compared);
        print_folded(&format!("{moved} of {compared} numbers moved{more}.{one_sided}"), 0);
        if let Some(over_time) = &of.over_time {
            if !over_time.parted.is_empty() {
                print(&over_time.grid(if all { usize::MAX } else { SEVERAL }).terminal(terminal::width()));
            }
            print_folded(&over_time.summary(), 0);
        }
        print_folded(&format!("{}\n", of.judged_by(threshold)), 0);
    }
    let equal = differences.iter().filter(|of| of.is_none()).count();
    match (equal, differences.len()) {
        (0, _) => {}
        (1, 1) => print_folded(&format!("Nothing differs. {}", differences[0].judged_by(threshold)), 0),
        (equal, count) => print_folded(&format!("{equal} of {count} pairs do not differ."), 0),
    }
    if !alone.is_empty() {
        print_folded(&format!("Without a partner:\n  {}", alone.join("\n  ")), 2);
    }
}

/// The runs that a word names.
fn side(arguments: &DiffArguments, word: &str) -> Result<Side, Failure> {
    let path = Path::new(word);
    if path.is_file() {
        return of_document(path);
    }
    if path.is_dir() {
        let store = store::existing(Some(&path.to_path_buf()))?;
        return of_store(&store, &Selection::default(), word);
    }
    let store = store::existing(arguments.store.as_ref())?;
    if word.contains('=') {
        return of_store(&store, &Selection::parse(word).map_err(Failure::bad)?, word);
    }
    if store.studies().iter().any(|name| name == word) {
        let conditions = vec![("study".to_owned(), vec![word.to_owned()])];
        return of_store(&store, &Selection { conditions }, word);
    }
    let cell = store.cell_by_prefix(word).map_err(|error| {
        Failure::bad(format!("{error}; and it is no study of the store, no file, no folder and no condition with `=`"))
    })?;
    let inputs = Store::files_in(store.folder());
    Ok(Side { runs: Runs::of_cells(vec![cell]), columns: store.columns().clone(), fixed: Vec::new(), inputs })
}

fn of_store(store: &Store, selection: &Selection, word: &str) -> Result<Side, Failure> {
    let mut cells = store.select(selection).map_err(Failure::bad)?;
    // What did not run to its end has no numbers to compare.
    cells.retain(|cell| cell.text("status") != "failed");
    if cells.is_empty() {
        let folder = store.folder().display();
        let which = if selection.conditions.is_empty() { "cell" } else { "such cell" };
        let of = if *word == *folder.to_string() { String::new() } else { format!("{word}: ") };
        return Err(Failure::bad(format!("{of}{folder} has no {which} that has run")));
    }
    let fixed = selection.conditions.iter().map(|(key, _)| key.clone()).collect();
    let inputs = Store::files_in(store.folder());
    Ok(Side { runs: Runs::of_cells(cells), columns: store.columns().clone(), fixed, inputs })
}

fn of_document(path: &Path) -> Result<Side, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::bad(format!("{name}: {error}")))?;
    let document: Document = serde_json::from_str(&text).map_err(|error| {
        Failure::bad(format!("{name}: it is no JSON document of `ambulator compare --json` ({error})"))
    })?;
    let mut columns = ambulator_experiments::row::columns();
    columns.extend(ambulator_experiments::row::counter_columns(&document.schema));
    let runs = document.runs.iter().map(Runs::of_run).collect();
    Ok(Side { runs, columns, fixed: Vec::new(), inputs: vec![path.to_path_buf()] })
}
