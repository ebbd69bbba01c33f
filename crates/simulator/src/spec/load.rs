//! Makes a [`Spec`] from presets, files and options.

use super::joined::{Joined, without_effect};
use super::layer::{Layers, Origins, settings_of_option};
use super::preset::{Preset, PresetKind, preset, presets};
use super::problem::{Place, Problem, Source, SpecError};
use super::settings::{Spec, tree};
use crate::catalogue::catalogue;
use ambulator_base::{excerpt, nearest, read_text, split_names};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default machine.
pub const DEFAULT_MACHINE: &str = "lvm-table1";

/// The default design: the preset named as the catalogue's default page table.
pub fn default_design() -> String {
    catalogue().default_spec().page_table
}

/// The layers of a spec, from the lowest to the highest: built-in defaults, `machine`, `design`, `files`,
/// `options`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecRequest {
    /// The name of a machine preset or the path of a TOML file, or several joined with `+`, none of which may
    /// contradict another. The default is the machine that a file of `files` names as its `base`, or else
    /// [`DEFAULT_MACHINE`].
    pub machine: Option<String>,
    /// The name of a design preset or the path of a TOML file, or several joined with `+` (`thp+l2tlb-128k`),
    /// none of which may contradict another or leave it without effect.
    /// The default is the design that a file of `files` names as its `base`, or else [`default_design`].
    pub design: Option<String>,
    /// Spec files (`--spec`); later ones override earlier ones.
    pub files: Vec<PathBuf>,
    /// `key=value` texts (`--set`); later ones override earlier ones.
    pub options: Vec<String>,
}

/// A spec and its origins.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSpec {
    /// The spec, validated.
    pub spec: Spec,
    /// The machine's name: the preset's, or the file's stem.
    pub machine: String,
    /// The design's name: the preset's, or the file's stem.
    pub design: String,
    /// The place of each setting that is not a built-in default.
    pub origins: Origins,
    /// The files that were read, bases included.
    pub files: Vec<PathBuf>,
}

/// Loads the spec of a request and validates it.
///
/// # Errors
/// All errors, each with its file, line and caret: unknown presets and keys with the nearest valid name,
/// wrong types, values out of range, settings that exclude each other.
pub fn load(request: &SpecRequest) -> Result<LoadedSpec, SpecError> {
    load_with(request, None)
}

/// As [`load`], with a spec text above the files: its name in errors, and the text.
///
/// # Errors
/// As [`load`].
pub fn load_with(request: &SpecRequest, text: Option<(&str, &str)>) -> Result<LoadedSpec, SpecError> {
    let mut loader = Loader::new();
    let mut files = Vec::new();
    // The bases of the files determine the presets below them, so the files are read before they are layered.
    let (mut machines, mut designs) = (Vec::new(), Vec::new());
    let text = text.map(|(name, text)| Arc::new(Source { name: name.into(), text: text.into() }));
    let named = request.files.iter().map(|path| (path.clone(), None));
    for (path, text) in named.chain(text.map(|text| (PathBuf::from(&text.name), Some(text)))) {
        match text.map_or_else(|| loader.read(&path), Ok) {
            Ok(source) => {
                for (name, _) in Layers::header(tree(), &source).base {
                    if preset(PresetKind::Machine, &name).is_some() {
                        machines.push(name);
                    } else if preset(PresetKind::Design, &name).is_some() {
                        designs.push(name);
                    }
                }
                files.push((path, source));
            }
            Err(problem) => loader.layers.problem(problem),
        }
    }
    let chosen = |requested: &Option<String>, bases: Vec<String>, default: &str| match requested {
        Some(name) => name.clone(),
        None if bases.is_empty() => default.into(),
        None => bases.join("+"),
    };
    let machine = loader.presets(PresetKind::Machine, &chosen(&request.machine, machines, DEFAULT_MACHINE));
    let design = loader.presets(PresetKind::Design, &chosen(&request.design, designs, &default_design()));
    for (path, source) in &files {
        loader.file(path, source, true);
    }
    for option in &request.options {
        loader.layers.add_option(option);
    }
    let (spec, origins) = loader.layers.finish(Spec::validate)?;
    without_effect(&spec, &loader.joined)?;
    Ok(LoadedSpec { spec, machine, design, origins, files: loader.files })
}

/// Reads a spec from one TOML text and the built-in defaults; `name` is the text's name in errors.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<Spec, SpecError> {
    let mut loader = Loader::new();
    let source = Arc::new(Source { name: name.into(), text: text.into() });
    loader.file(Path::new(name), &source, false);
    loader.layers.finish(Spec::validate).map(|(spec, _)| spec)
}

/// What the `key=value` text of a `--set` option sets, by key; nothing if the text is invalid, which [`load`]
/// reports.
pub fn option_settings(option: &str) -> Vec<(String, serde_json::Value)> {
    settings_of_option(tree(), option)
}

/// Checks the key and the value of a `key=value` text, apart from all other settings: what several settings
/// must agree on is checked by [`load`].
///
/// # Errors
/// An unknown key with the nearest one, a value of the wrong type or out of range.
pub fn check_option(option: &str) -> Result<(), SpecError> {
    let mut layers = Layers::new(tree());
    layers.add_option(option);
    layers.settings().map(drop)
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Arc<Source>, Problem> {
    /// Every setting with its meaning is a twentieth of this.
    const MOST_BYTES: u64 = 1 << 20;
    let name = path.display().to_string();
    match read_text(path, MOST_BYTES) {
        Ok(text) => Ok(Arc::new(Source { name, text })),
        Err(error) => Err(Problem::new(format!("the spec file `{name}` cannot be read: {error}"))),
    }
}

/// Whether `name` is a path.
pub(super) fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".toml")
}

struct Loader {
    layers: Layers<'static>,
    /// What presets that are joined with others write: preset, key and place.
    joined: Vec<(String, String, Place)>,
    /// Names of the sources that are being layered, each followed by its base.
    chain: Vec<String>,
    /// Files that were read.
    files: Vec<PathBuf>,
}

impl Loader {
    fn new() -> Loader {
        Loader { layers: Layers::new(tree()), joined: Vec::new(), chain: Vec::new(), files: Vec::new() }
    }

    fn read(&mut self, path: &Path) -> Result<Arc<Source>, Problem> {
        self.files.push(path.to_owned());
        read(path)
    }

    /// Adds the presets that `names` joins with `+` as layers, and returns the name to show.
    fn presets(&mut self, kind: PresetKind, names: &str) -> String {
        let known = |name: &str| preset(kind, name).is_some();
        let names = split_names(names, '+', known, |name| is_path(name) && Path::new(name).exists());
        let mut joined = Joined::above(&self.layers);
        let mut shown: Vec<String> = Vec::new();
        for name in &names {
            let layer = self.layers.height();
            shown.push(self.preset(kind, name));
            if names.len() > 1 {
                joined.add(&mut self.layers, name, layer);
            }
        }
        self.joined.extend(joined.written());
        shown.join("+")
    }

    /// Adds a preset or file of a kind as a layer, and returns the name to show.
    fn preset(&mut self, kind: PresetKind, name: &str) -> String {
        if let Some(found) = preset(kind, name) {
            self.layer(&found.source, None, false);
            return name.into();
        }
        let path = Path::new(name);
        if is_path(name) {
            match self.read(path) {
                Ok(source) => self.file(path, &source, false),
                Err(problem) => self.layers.problem(problem),
            }
            return path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        }
        let other = presets().iter().find(|preset| preset.name == name);
        self.layers.problem(match other {
            Some(other) => Problem::new(format!("`{name}` is a {} preset, not a {}", other.kind.name(), kind.name())),
            None => {
                unknown_preset(&format!("there is no {} preset `{}`", kind.name(), excerpt(name)), name, |preset| {
                    preset.kind == kind
                })
            }
        });
        name.into()
    }

    /// Adds a file as a layer: its bases, then itself. With `presets_done`, bases that are presets are
    /// skipped.
    fn file(&mut self, path: &Path, source: &Arc<Source>, presets_done: bool) {
        self.layer(source, path.parent(), presets_done);
    }

    fn layer(&mut self, source: &Arc<Source>, folder: Option<&Path>, presets_done: bool) {
        self.chain.push(source.name.clone());
        let bases = Layers::header(tree(), source).base;
        let mut siblings: Vec<(PresetKind, Joined)> = Vec::new();
        if bases.len() > 1 {
            siblings.extend([PresetKind::Machine, PresetKind::Design].map(|kind| (kind, Joined::above(&self.layers))));
        }
        for (name, place) in bases {
            let embedded = presets().iter().find(|preset| preset.name == name);
            let height = self.layers.height();
            let base = match embedded {
                Some(_) if presets_done => continue,
                Some(found) => Ok((found.source.clone(), None)),
                None if is_path(&name) => {
                    let path = folder.unwrap_or(Path::new("")).join(&name);
                    self.read(&path).map(|source| (source, path.parent().map(Path::to_path_buf)))
                }
                None => Err(unknown_preset(
                    &format!("there is no preset `{}` to use as the base", excerpt(&name)),
                    &name,
                    |_| true,
                )),
            };
            match base {
                Ok((base, _)) if self.chain.contains(&base.name) || self.chain.len() > 16 => {
                    let title =
                        format!("`{}` is based on itself: {} -> {}", base.name, self.chain.join(" -> "), base.name);
                    self.layers.problem(Problem { place: Some(place), ..Problem::new(title) });
                }
                Ok((base, folder)) => self.layer(&base, folder.as_deref(), false),
                Err(problem) => self.layers.problem(Problem { place: Some(place), ..problem }),
            }
            let kind = embedded.map(|preset| preset.kind);
            if let Some((_, joined)) = siblings.iter_mut().find(|(of, _)| Some(*of) == kind) {
                joined.add(&mut self.layers, &name, height);
            }
        }
        if let Some((_, place)) = self.layers.add_toml(source).program {
            let title = "`program` belongs in a workload, not in a spec";
            let problem = Problem::new(title).help("name the program on the command line");
            self.layers.problem(Problem { place: Some(place), ..problem });
        }
        self.chain.pop();
    }
}

pub(super) fn unknown_preset(title: &str, name: &str, eligible: impl Fn(&Preset) -> bool) -> Problem {
    let known: Vec<&str> = presets().iter().filter(|preset| eligible(preset)).map(|preset| preset.name).collect();
    Problem::new(title).help(match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`? The path of a TOML file is also accepted"),
        None => format!("there are: {}; the path of a TOML file is also accepted", known.join(", ")),
    })
}
