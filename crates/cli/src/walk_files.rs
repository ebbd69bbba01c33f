//! The files that explained translations are drawn into.

use crate::Failure;
use crate::output::{print, print_bytes};
use ambulator_base::OutputFile;
use ambulator_report::walk_slide;
use ambulator_simulator::{Job, WalkSteps};
use std::path::{Path, PathBuf};

/// Where slides go: one for each design, in the designs' order.
pub enum Slides {
    /// None are asked for, or that of the only design goes to standard output.
    None,
    StandardOutput,
    Files(Vec<OutputFile>),
}

/// The path of a design's own file.
fn beside(path: &Path, design: &str) -> PathBuf {
    let plain: String =
        design.chars().map(|c| if c.is_alphanumeric() || "-_+.".contains(c) { c } else { '-' }).collect();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or("svg".into(), |extension| extension.to_string_lossy());
    path.with_file_name(format!("{stem}-{plain}.{extension}"))
}

impl Slides {
    /// Checks that they can be written.
    pub fn prepare(path: Option<&Path>, jobs: &[Job]) -> Result<Slides, Failure> {
        let file = |path: &Path| OutputFile::prepare(path).map_err(Failure::bad);
        match path {
            None => Ok(Slides::None),
            Some(path) if path == Path::new("-") => match jobs {
                [_] => Ok(Slides::StandardOutput),
                _ => Err(Failure::bad("--svg -: standard output has room for the slide of one design only")),
            },
            Some(path) if jobs.len() == 1 => Ok(Slides::Files(vec![file(path)?])),
            Some(path) => {
                let files: Result<Vec<_>, _> = jobs.iter().map(|job| file(&beside(path, &job.design))).collect();
                Ok(Slides::Files(files?))
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Slides::None)
    }

    /// Draws them. `quiet` if standard output is for something else.
    pub fn write(self, walks: &[WalkSteps], quiet: bool) -> Result<(), Failure> {
        match self {
            Slides::None => {}
            Slides::StandardOutput => {
                walks.iter().for_each(|walk| print_bytes(walk_slide(walk).as_bytes()));
            }
            Slides::Files(files) => {
                for (file, walk) in files.into_iter().zip(walks) {
                    let path = file.path().display().to_string();
                    file.write(walk_slide(walk).as_bytes()).map_err(Failure::failed)?;
                    if !quiet {
                        print(&format!("{path}: {} on {}, a slide", walk.address, walk.design));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_design_has_its_name() {
        let named = |path: &str, design: &str| beside(Path::new(path), design).display().to_string();
        assert_eq!(named("out/walk.svg", "lvm"), "out/walk-lvm.svg");
        assert_eq!(named("walk", "thp+nested"), "walk-thp+nested.svg");
        assert_eq!(named("walk.svg", "../mine.toml"), "walk-..-mine.toml.svg");
    }
}
