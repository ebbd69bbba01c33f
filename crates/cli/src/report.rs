//! `report` and `plot`.

use crate::arguments::{PlotArguments, PlotFormat, ReportArguments};
use crate::output::print;
use crate::{DONE, Failure, store};
use ambulator_base::{InputFiles, OutputFile};
use ambulator_experiments::{Store, numbered};
use ambulator_report::{Format, plot as plot_figures, read, report as html};
use std::path::PathBuf;

pub fn report(arguments: &ReportArguments) -> Result<u8, Failure> {
    let results = store::results(&arguments.results);
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = results.iter().cloned().partition(|path| path.is_dir());
    let mut inputs: InputFiles = files.into_iter().collect();
    inputs.extend(folders.iter().flat_map(|folder| Store::files_in(folder)));
    // A report that cannot be written should not first be made.
    let file = OutputFile::prepare_beside(&arguments.out, &inputs).map_err(Failure::bad)?;
    let study = read(&results, arguments.study.as_deref()).map_err(Failure::bad)?;
    let page = html(&study);
    file.write(page.as_bytes()).map_err(Failure::failed)?;
    print(&format!(
        "{}: {} in {}, {}",
        arguments.out.display(),
        numbered(study.cells.len(), "run"),
        numbered(study.comparisons.len(), "comparison"),
        ambulator_experiments::bytes(page.len() as f64)
    ));
    Ok(DONE)
}

pub fn plot(arguments: &PlotArguments) -> Result<u8, Failure> {
    let study = read(&store::results(&arguments.results), arguments.study.as_deref()).map_err(Failure::bad)?;
    let format = |format: &PlotFormat| match format {
        PlotFormat::Svg => Format::Svg,
        PlotFormat::Pdf => Format::Pdf,
        PlotFormat::Png => Format::Png,
        PlotFormat::Vl => Format::VegaLite,
    };
    let formats: Vec<Format> = arguments.format.iter().map(format).collect();
    let plotted = plot_figures(&study, &arguments.out, &formats).map_err(Failure::failed)?;
    plotted.files.iter().for_each(|file| print(&file.display().to_string()));
    Ok(DONE)
}
