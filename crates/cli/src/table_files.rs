//! The files that a table is written to.

use crate::Failure;
use crate::arguments::TableArguments;
use crate::output::print_bytes;
use ambulator_base::{InputFiles, OutputFile};
use ambulator_experiments::Grid;
use std::path::{Path, PathBuf};

/// Where one goes.
enum Target {
    StandardOutput,
    File(OutputFile),
}

/// The files of a table, tested before the work begins.
pub struct TableFiles {
    csv: Option<Target>,
    markdown: Option<Target>,
    latex: Option<Target>,
}

impl TableFiles {
    /// Checks that they can be written, and are none of `inputs`.
    pub fn prepare(arguments: &TableArguments, inputs: &InputFiles) -> Result<TableFiles, Failure> {
        let target = |path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) if path == Path::new("-") => Ok(Some(Target::StandardOutput)),
            Some(path) => {
                OutputFile::prepare_beside(path, inputs).map(|file| Some(Target::File(file))).map_err(Failure::bad)
            }
        };
        Ok(TableFiles {
            csv: target(&arguments.csv)?,
            markdown: target(&arguments.markdown)?,
            latex: target(&arguments.latex)?,
        })
    }

    /// Whether one of them is standard output, which then has nothing else.
    pub fn take_standard_output(&self) -> bool {
        [&self.csv, &self.markdown, &self.latex]
            .into_iter()
            .any(|target| matches!(target, Some(Target::StandardOutput)))
    }

    /// Writes them: CSV with every number, the others as the terminal has it. One that cannot be written does
    /// not stop the others.
    pub fn write(self, all: &Grid, brief: &Grid) -> Result<(), Failure> {
        let texts = [(self.csv, all.csv()), (self.markdown, brief.markdown()), (self.latex, brief.latex())];
        Failure::of_outputs(texts.into_iter().map(|(target, text)| {
            match target {
                None => {}
                Some(Target::StandardOutput) => print_bytes(text.as_bytes()),
                Some(Target::File(file)) => file.write(text.as_bytes()).map_err(Failure::failed)?,
            }
            Ok(())
        }))
    }
}
