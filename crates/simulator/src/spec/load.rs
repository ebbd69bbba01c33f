//! From presets, files and options to a [`Spec`].

use super::layer::{Layers, Origins};
use super::preset::{Preset, PresetKind, preset, presets};
use super::problem::{Place, Problem, Source, SpecError};
use super::settings::{Spec, tree};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The machine when none is named.
pub const DEFAULT_MACHINE: &str = "lvm-table1";
/// The design when none is named.
pub const DEFAULT_DESIGN: &str = "radix";

/// What a spec is made of, from the lowest layer to the highest: built-in defaults, `machine`, `design`, `files`, `options`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecRequest {
    /// A machine preset's name or a TOML file's path, or several joined with `+`, later ones over earlier ones. Without it, the machine that a file of `files` names as its `base`,
    /// or else [`DEFAULT_MACHINE`].
    pub machine: Option<String>,
    /// A design preset's name or a TOML file's path, or several joined with `+` (`thp+l2tlb-128k`). Without it, the design that a file of `files` names as its `base`, or
    /// else [`DEFAULT_DESIGN`].
    pub design: Option<String>,
    /// Spec files (`--spec`), later ones over earlier ones.
    pub files: Vec<PathBuf>,
    /// `key=value` texts (`--set`), later ones over earlier ones.
    pub options: Vec<String>,
}

/// A spec, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSpec {
    /// The spec, validated.
    pub spec: Spec,
    /// The machine's name: the preset's, or the file's stem.
    pub machine: String,
    /// The design's name: the preset's, or the file's stem.
    pub design: String,
    /// Where each setting that is no built-in default was written.
    pub origins: Origins,
}

/// Loads the spec of a request and validates it.
///
/// # Errors
/// Everything that is wrong, each with its file, line and caret: unknown presets and keys with the nearest right name,
/// wrong types, values outside their range, settings that do not go together.
pub fn load(request: &SpecRequest) -> Result<LoadedSpec, SpecError> {
    let mut loader = Loader { layers: Layers::new(tree()), chain: Vec::new() };
    let mut files = Vec::new();
    // What the files call their base decides the presets below them, so they are read before they are layered.
    let (mut machines, mut designs) = (Vec::new(), Vec::new());
    for path in &request.files {
        match read(path) {
            Ok(source) => {
                for (name, _) in Layers::header(tree(), &source).base {
                    if preset(PresetKind::Machine, &name).is_some() {
                        machines.push(name);
                    } else if preset(PresetKind::Design, &name).is_some() {
                        designs.push(name);
                    }
                }
                files.push((path.clone(), source));
            }
            Err(problem) => loader.layers.problem(problem),
        }
    }
    let chosen = |asked: &Option<String>, bases: Vec<String>, default: &str| match asked {
        Some(name) => name.clone(),
        None if bases.is_empty() => default.into(),
        None => bases.join("+"),
    };
    let machine = loader.presets(PresetKind::Machine, &chosen(&request.machine, machines, DEFAULT_MACHINE));
    let design = loader.presets(PresetKind::Design, &chosen(&request.design, designs, DEFAULT_DESIGN));
    for (path, source) in &files {
        loader.file(path, source, true);
    }
    for option in &request.options {
        loader.layers.add_option(option);
    }
    let (spec, origins) = loader.layers.finish(Spec::validate)?;
    Ok(LoadedSpec { spec, machine, design, origins })
}

/// Reads a spec from one TOML text alone, over the built-in defaults; `name` is what errors call it.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<Spec, SpecError> {
    let mut loader = Loader { layers: Layers::new(tree()), chain: Vec::new() };
    let source = Arc::new(Source { name: name.into(), text: text.into() });
    loader.file(Path::new(name), &source, false);
    loader.layers.finish(Spec::validate).map(|(spec, _)| spec)
}

/// The file's text.
pub(super) fn read(path: &Path) -> Result<Arc<Source>, Problem> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Arc::new(Source { name, text })),
            Err(_) => Err(Problem::new(format!("the spec file `{name}` is not UTF-8 text"))),
        },
        Err(error) => Err(Problem::new(format!("the spec file `{name}` cannot be read: {error}"))),
    }
}

/// Whether `name` is meant as a path.
pub(super) fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name.ends_with(".toml")
}

struct Loader {
    layers: Layers<'static>,
    /// Names of the sources that are being layered, the base of each after it.
    chain: Vec<String>,
}

impl Loader {
    /// Layers what `names` joins with `+`, one over the other, and returns the name to show for it.
    fn presets(&mut self, kind: PresetKind, names: &str) -> String {
        if is_path(names) && Path::new(names).exists() {
            return self.preset(kind, names);
        }
        let mut shown: Vec<String> = Vec::new();
        let mut filled: BTreeMap<String, (String, String)> = BTreeMap::new();
        for name in names.split('+').map(str::trim) {
            let layer = self.layers.height();
            shown.push(self.preset(kind, name));
            self.sockets_filled_twice(name, layer, &mut filled);
        }
        shown.join("+")
    }

    /// Remembers what the preset `name`, whose layers are those above `layer`, puts into sockets, and says where one
    /// that it is joined with has put another design there.
    fn sockets_filled_twice(&mut self, name: &str, layer: usize, filled: &mut BTreeMap<String, (String, String)>) {
        let written: Vec<(String, String, Place)> = self.layers.written_above(layer, "design.").collect();
        for (key, value, place) in written {
            match filled.get(&key) {
                Some((other, before)) if *before != value => {
                    let title = format!(
                        "`{other}` and `{name}` do not go together: `{key}` would be \"{before}\" and \"{value}\", and \
                         a machine has one"
                    );
                    let problem = Problem::new(title)
                        .label(format!("`{name}` fills the socket"))
                        .help("leave one of them out, or compare them with `--designs`, which takes several by commas");
                    self.layers.problem(Problem { place: Some(place), ..problem });
                }
                _ => {
                    filled.insert(key, (name.to_owned(), value));
                }
            }
        }
    }

    /// Layers a preset or file of a kind, and returns the name to show for it.
    fn preset(&mut self, kind: PresetKind, name: &str) -> String {
        if let Some(found) = preset(kind, name) {
            self.layer(&found.source, None, false);
            return name.into();
        }
        let path = Path::new(name);
        if is_path(name) {
            match read(path) {
                Ok(source) => self.file(path, &source, false),
                Err(problem) => self.layers.problem(problem),
            }
            return path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        }
        let other = presets().iter().find(|preset| preset.name == name);
        self.layers.problem(match other {
            Some(other) => Problem::new(format!("`{name}` is a {} preset, not a {}", other.kind.name(), kind.name())),
            None => unknown_preset(&format!("there is no {} preset `{name}`", kind.name()), name, |preset| {
                preset.kind == kind
            }),
        });
        name.into()
    }

    /// Layers a file: its bases, then itself. Bases that are presets are left out where they were layered before.
    fn file(&mut self, path: &Path, source: &Arc<Source>, presets_done: bool) {
        self.layer(source, path.parent(), presets_done);
    }

    fn layer(&mut self, source: &Arc<Source>, folder: Option<&Path>, presets_done: bool) {
        self.chain.push(source.name.clone());
        for (name, place) in Layers::header(tree(), source).base {
            let embedded = presets().iter().find(|preset| preset.name == name);
            let base = match embedded {
                Some(_) if presets_done => continue,
                Some(found) => Ok((found.source.clone(), None)),
                None if is_path(&name) => {
                    let path = folder.unwrap_or(Path::new("")).join(&name);
                    read(&path).map(|source| (source, path.parent().map(Path::to_path_buf)))
                }
                None => Err(unknown_preset(&format!("there is no preset `{name}` to be the base"), &name, |_| true)),
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
        }
        if let Some((_, place)) = self.layers.add_toml(source).program {
            let title = "`program` belongs in a workload, not in a spec";
            let problem = Problem::new(title).help("name the program on the command line");
            self.layers.problem(Problem { place: Some(place), ..problem });
        }
        self.chain.pop();
    }
}

pub(super) fn unknown_preset(title: &str, name: &str, wanted: impl Fn(&Preset) -> bool) -> Problem {
    let known: Vec<&str> = presets().iter().filter(|preset| wanted(preset)).map(|preset| preset.name).collect();
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance);
    Problem::new(title).help(match nearest {
        Some((_, nearest)) => format!("did you mean `{nearest}`? A path of a TOML file works too"),
        None => format!("there are: {}; a path of a TOML file works too", known.join(", ")),
    })
}

/// Feeds `text` to everything here that reads what people write: as a spec file, as an option, as a size and a count.
/// Whatever it is, this returns; fuzzers and property tests call it.
pub fn fuzz_spec(text: &str) {
    if let Err(error) = parse("fuzz.toml", text) {
        assert!(!error.to_string().is_empty());
        assert!(!error.render(true).is_empty());
    }
    let mut layers = Layers::new(tree());
    layers.add_option(text);
    for key in
        ["mmu.l2_tlb.entries", "mmu", "mmu.walk_entry", "memory.bytes", "memory.fragmentation.fmfi", "run.oracle"]
    {
        layers.add_option(&format!("{key}={text}"));
    }
    if let Err(error) = layers.finish(Spec::validate) {
        assert!(!error.to_string().is_empty());
    }
    let _ = (super::parse_size(text), super::parse_count(text), super::explain(text, &[]));
}
