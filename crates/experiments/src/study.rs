//! A study: the cells of a figure's or a user's file, with their places on its axes.

use crate::cell::{Cell, Programs};
use crate::figure::{Figure, FigureProgram};
use crate::reproduce::{Size, find_trace};
use crate::runner::{Ended, Finished};
use ambulator_simulator::RunResult;
use ambulator_simulator::spec::{SpecRequest, load, parse_size, program_request, unused};
use ambulator_workloads::ProgramRequest;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Where a cell lies on the axes of its study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The machine.
    pub machine: String,
    /// The program, by its name in the study.
    pub program: String,
    /// Values of the varied settings, as they are written, in the order of [`Study::axes`].
    pub varied: Vec<String>,
    /// Settings of a cell that is named by itself.
    pub own: Vec<String>,
    /// The design, by its name in the study.
    pub design: String,
}

impl Place {
    /// Whether cells at two places differ in their designs only.
    pub fn is_beside(&self, other: &Place) -> bool {
        let rest = |of: &Place| (of.machine.clone(), of.program.clone(), of.varied.clone(), of.own.clone());
        rest(self) == rest(other)
    }
}

/// The cells at one place, one for each seed.
#[derive(Clone, Debug)]
pub struct Point {
    /// The place.
    pub place: Place,
    /// Numbers of its cells in [`Study::cells`], in the order of the seeds.
    pub cells: Vec<usize>,
}

/// Every cell of a study.
#[derive(Debug, Default)]
pub struct Study {
    /// Its name: a file's stem.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Keys of the varied settings.
    pub axes: Vec<String>,
    /// The seeds; one, unless the study says otherwise.
    pub seeds: Vec<u64>,
    /// The cells.
    pub cells: Vec<Cell>,
    /// Their places; by program, machine, varied settings and design.
    pub points: Vec<Point>,
    /// Programs that cannot be opened, and why.
    pub missing: Vec<String>,
}

/// What `studies/NAME.json` of a store says.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StudyDescription {
    /// The study's name.
    name: String,
    /// Its title.
    title: String,
    /// The command line that asked for it, word by word.
    command: Vec<String>,
    /// Version of Ambulator.
    version: String,
    /// Hash of the sources that results depend on.
    build: String,
    /// The settings that are varied.
    axes: Vec<String>,
    /// The seeds.
    seeds: Vec<u64>,
    /// The cells, a place after the other.
    cells: Vec<DescribedCell>,
}

/// A cell of a study.
#[derive(Serialize, JsonSchema)]
struct DescribedCell {
    /// Its key, as in the rows of the store.
    cell: String,
    /// The machine.
    machine: String,
    /// The design.
    design: String,
    /// The program.
    program: String,
    /// Its values of the study's `axes`.
    varied: Vec<String>,
    /// Its own settings beyond them.
    set: Vec<String>,
    /// Its seed.
    seed: u64,
}

impl Study {
    /// The cells of a figure at a size.
    ///
    /// # Errors
    /// Counts and sizes that are none; [`Figure::read`] has checked them.
    pub fn of(figure: &Figure, size: Size) -> Result<Study, String> {
        let seeds = figure.seeds.as_ref().map(|seeds| seeds.all());
        let axes = figure.axes();
        let mut study = Study {
            name: figure.full_name().replace('/', "-"),
            title: figure.title.clone(),
            axes: axes.iter().map(|(key, _)| key.clone()).collect(),
            seeds: seeds.clone().unwrap_or_else(|| vec![1]),
            ..Study::default()
        };
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for (_, values) in &axes {
            let with =
                |of: &Vec<String>| values.iter().map(|value| [&of[..], std::slice::from_ref(value)].concat()).collect();
            combinations = combinations.iter().flat_map(|of| -> Vec<Vec<String>> { with(of) }).collect();
        }
        let length = figure.length(size)?;
        let asked: Vec<Option<u64>> = seeds.map_or_else(|| vec![None], |seeds| seeds.into_iter().map(Some).collect());
        let mut opened: Vec<(&str, Vec<Arc<Programs>>)> = Vec::new();
        for program in figure.programs() {
            let of_seed = |seed: &Option<u64>| identify(figure, program, size, seed.unwrap_or(1));
            match asked.iter().map(of_seed).collect::<Result<Vec<_>, _>>() {
                Ok(programs) => opened.push((program.label(), programs)),
                Err(error) => study.missing.push(format!("{}: {error}", program.label())),
            }
        }
        let common = |of: &[&[String]], seed: &Option<u64>| {
            let mut options = [&[figure.set.as_slice(), length.as_slice()], of].concat().concat();
            options.extend(seed.map(|seed| format!("run.seed={seed}")));
            options
        };
        for (label, programs) in &opened {
            for machine in figure.machines() {
                for varied in &combinations {
                    let of_axes: Vec<String> =
                        study.axes.iter().zip(varied).map(|(key, value)| format!("{key}={value}")).collect();
                    for (name, design, own) in figure.designs_and_variants() {
                        let place = Place {
                            machine: machine.to_owned(),
                            program: (*label).to_owned(),
                            varied: varied.clone(),
                            own: Vec::new(),
                            design: name.to_owned(),
                        };
                        let requests = asked.iter().map(|seed| SpecRequest {
                            machine: Some(machine.to_owned()),
                            design: Some(design.to_owned()),
                            options: common(&[own, &of_axes], seed),
                            ..SpecRequest::default()
                        });
                        let requests: Vec<SpecRequest> = requests.collect();
                        study.add(place, &requests, programs);
                    }
                }
            }
        }
        for cell in &figure.cells {
            let machine = cell.machine.clone().unwrap_or_else(|| figure.machines()[0].to_owned());
            let known = opened.iter().find(|(label, _)| *label == cell.program).map(|(_, programs)| programs.clone());
            let alone = FigureProgram { name: cell.program.clone(), ..FigureProgram::default() };
            let identified = || asked.iter().map(|seed| identify(figure, &alone, size, seed.unwrap_or(1))).collect();
            let programs = match known.map_or_else(identified, Ok) {
                Ok(programs) => programs,
                Err(error) => {
                    let error: String = error;
                    study.missing.push(format!("{}: {error}", cell.program));
                    continue;
                }
            };
            let requests = asked.iter().map(|seed| SpecRequest {
                machine: Some(machine.clone()),
                design: Some(cell.design.clone()),
                options: common(&[&cell.set], seed),
                ..SpecRequest::default()
            });
            let requests: Vec<SpecRequest> = requests.collect();
            let place = Place {
                machine: machine.clone(),
                program: cell.program.clone(),
                varied: vec!["-".to_owned(); study.axes.len()],
                own: cell.set.clone(),
                design: cell.design.clone(),
            };
            study.add(place, &requests, &programs);
        }
        Ok(study)
    }

    fn add(&mut self, place: Place, requests: &[SpecRequest], programs: &[Arc<Programs>]) {
        let first = self.cells.len();
        let cells = requests.iter().zip(programs).map(|(request, programs)| Cell::of(request, &place.design, programs));
        self.cells.extend(cells);
        self.points.push(Point { place, cells: (first..self.cells.len()).collect() });
    }

    /// The point that speed-ups of another are relative to: the first design at the same place.
    pub fn base(&self, point: &Point) -> Option<&Point> {
        self.points.iter().find(|other| other.place.is_beside(&point.place))
    }

    /// The runs of a point that are done, in the order of the seeds; `None` for those that are not.
    pub fn runs<'f>(&self, point: &Point, finished: &'f Finished) -> Vec<Option<&'f RunResult>> {
        let done = |ended: &'f Ended| (ended.run.status == ambulator_simulator::Status::Done).then_some(&ended.run);
        point.cells.iter().map(|at| finished.cells.get(*at)?.as_ref().and_then(done)).collect()
    }

    /// Sets the speed-ups of every run over those of the same seed at [`Study::base`].
    pub fn set_speedups(&self, finished: &mut Finished) {
        for point in &self.points {
            let Some(base) = self.base(point) else { continue };
            for (own, of_base) in point.cells.iter().zip(&base.cells) {
                let run = |at: usize| finished.cells[at].as_ref().map(|ended| ended.run.clone());
                let (Some(base), Some(run)) = (run(*of_base), run(*own)) else { continue };
                let mut pair = [base, run];
                ambulator_simulator::set_speedups(&mut pair);
                let [_, run] = pair;
                if let Some(ended) = &mut finished.cells[*own] {
                    ended.run = run;
                }
            }
        }
    }

    /// Settings of the study, as `key=value`, that have an effect in none of its cells, and why.
    pub fn without_effect(&self, options: &[String]) -> Vec<(String, String)> {
        let specs: Vec<_> = self.cells.iter().filter_map(|cell| cell.spec.as_ref().ok()).collect();
        let why = |option: &String| {
            let key = option.split('=').next().unwrap_or_default().trim();
            let why: Option<Vec<String>> = specs.iter().map(|spec| unused(spec, key)).collect();
            Some((option.clone(), why?.into_iter().next()?))
        };
        options.iter().filter_map(why).collect()
    }

    /// The study as its store describes it: `studies/NAME.json`. `command` is what asked for it.
    pub fn description(&self, command: &[String]) -> Value {
        let cells = self
            .points
            .iter()
            .flat_map(|point| point.cells.iter().zip(&self.seeds).map(move |(at, seed)| (&point.place, *at, *seed)))
            .map(|(place, at, seed)| DescribedCell {
                cell: self.cells[at].key().to_owned(),
                machine: place.machine.clone(),
                design: place.design.clone(),
                program: place.program.clone(),
                varied: place.varied.clone(),
                set: place.own.clone(),
                seed,
            })
            .collect();
        let description = StudyDescription {
            name: self.name.clone(),
            title: self.title.clone(),
            command: command.to_vec(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: crate::cell::build().to_string(),
            axes: self.axes.clone(),
            seeds: self.seeds.clone(),
            cells,
        };
        serde_json::to_value(description).unwrap_or_default()
    }
}

/// The programs of an entry, with a seed.
fn identify(figure: &Figure, program: &FigureProgram, size: Size, seed: u64) -> Result<Arc<Programs>, String> {
    let names = mix_names(&program.name);
    let mut requests = Vec::new();
    for (number, name) in names.iter().enumerate() {
        requests.push(request_of(figure, program, name, size, seed.wrapping_add(number as u64))?);
    }
    for other in &program.co_runners {
        requests.push(request_of(figure, other, &other.name, size, seed)?);
    }
    Programs::identify(Some(program.label().to_owned()), requests).map(Arc::new)
}

/// The programs of a mix that is written with `+`; paths and known names may have one in them.
pub(crate) fn mix_names(name: &str) -> Vec<&str> {
    let known = |name: &str| program_request(name, &[], None, 1).is_ok();
    if known(name) { vec![name] } else { name.split('+').map(str::trim).collect() }
}

fn request_of(
    figure: &Figure,
    program: &FigureProgram,
    name: &str,
    size: Size,
    seed: u64,
) -> Result<ProgramRequest, String> {
    let quick = program.quick.as_ref().filter(|_| size == Size::Quick);
    let is_trace = ambulator_workloads::program(name).is_none() && std::path::Path::new(&*find_trace(name)).exists();
    let own = quick.or(program.footprint.as_ref());
    let footprint = own.or(figure.footprint.as_ref().filter(|_| !is_trace || name.ends_with(".toml")));
    // A trace has the footprint of its recording: 0 in the figure.
    let footprint = footprint.map(|text| parse_size(text)).transpose()?.filter(|bytes| *bytes > 0);
    let mut request = program_request(&find_trace(name), &[], footprint, seed).map_err(|e| e.to_string())?;
    request.settings.extend(program.settings.clone());
    if size == Size::Quick {
        request.settings.extend(program.quick_settings.clone());
    }
    Ok(request)
}

/// Whether a preset or file gives a spec, and if not, why.
pub(crate) fn check_presets(machine: &str, design: Option<&str>) -> Result<(), String> {
    let request =
        SpecRequest { machine: Some(machine.to_owned()), design: design.map(str::to_owned), ..SpecRequest::default() };
    load(&request).map(|_| ()).map_err(|error| error.to_string())
}
