//! `explain-walk --html`: a page on which translations are stepped through.

use crate::arguments::ExplainWalkArguments;
use crate::output::{print, warn};
use crate::terminal::quoted;
use crate::{DONE, Failure, compare, explain_walk, interrupt, progress, requests};
use ambulator_base::OutputFile;
use ambulator_report::{ShownDesign, walk_page as page};
use ambulator_simulator::spec::{PresetKind, preset};
use ambulator_simulator::{CollectionRequest, Job, collect_walks};
use std::path::Path;

/// What is shown if nothing else is asked for.
const DESIGNS: &str = "radix,ecpt,lvm,utopia";
/// A program so small that all its pages can be looked up, early enough that most pages are in no TLB.
const FOOTPRINT: &str = "2MiB";
const AFTER: &str = "2K";
/// A page that is larger than this is slow to open.
const LARGE: usize = 5_000_000;

pub fn walk_page(arguments: &ExplainWalkArguments, path: &Path) -> Result<u8, Failure> {
    let program = explain_walk::program(arguments, FOOTPRINT);
    let requests::Jobs { jobs, inputs, .. } = requests::jobs(&program, &explain_walk::designs(arguments, DESIGNS))?;
    let request = CollectionRequest {
        after: explain_walk::after(arguments, AFTER)?,
        pages: arguments.pages as usize,
        misses: arguments.walks as usize,
    };
    let file = OutputFile::prepare_beside(path, &inputs).map_err(Failure::bad)?;
    let spec = jobs[0].spec.clone();
    // The first opening says what there is to note.
    let programs = compare::open_programs(&program, &spec)?;
    ambulator_base::distinct_notes(programs.iter().flat_map(|own| own.notes())).iter().for_each(|note| warn(note));
    drop(programs);
    let open = || compare::open_programs(&program, &spec).map_err(|failure| failure.message);
    let shown = progress::translations(!arguments.no_progress);
    let collected = collect_walks(&jobs, &open, &request, &interrupt::stop_flag(), &shown).map_err(Failure::bad)?;
    let designs: Vec<ShownDesign> =
        jobs.iter().map(|job| design(job, arguments, program.footprint.as_deref())).collect();
    let html = page(&collected, &designs);
    file.write(html.as_bytes()).map_err(Failure::failed)?;
    print(&format!(
        "{}: {} translations on {} designs, {}",
        path.display(),
        collected.places.len(),
        designs.len(),
        ambulator_experiments::bytes(html.len() as f64)
    ));
    if html.len() > LARGE {
        warn("the page is large, and may be slow to open: fewer --pages or designs make it smaller");
    }
    Ok(DONE)
}

/// A design, with the command that shows one of its translations as text.
fn design(job: &Job, arguments: &ExplainWalkArguments, footprint: Option<&str>) -> ShownDesign {
    let mut words = vec!["ambulator".to_owned(), "explain-walk".into(), "--design".into(), job.design.clone()];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    };
    option("--program", Some(arguments.program.clone()));
    option("--footprint", footprint.map(str::to_owned));
    option("--after", Some(arguments.after.clone().unwrap_or_else(|| AFTER.to_owned())));
    arguments.program_set.iter().for_each(|set| option("--program-set", Some(set.clone())));
    option("--seed", arguments.seed.map(|seed| seed.to_string()));
    option("--machine", arguments.machine.machine.clone());
    arguments.machine.spec.iter().for_each(|file| option("--spec", Some(file.display().to_string())));
    arguments.machine.set.iter().for_each(|set| option("--set", Some(set.clone())));
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let about = job.design.split('+').filter_map(|name| preset(PresetKind::Design, name.trim()));
    ShownDesign {
        name: job.design.clone(),
        about: about.map(|preset| preset.about.clone()).collect::<Vec<_>>().join("; "),
        command: format!("{} --at {{at}} --access {{access}}", words.join(" ")),
    }
}
