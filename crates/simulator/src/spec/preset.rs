//! The presets that come with Ambulator.

use super::layer::{Header, Layers};
use super::problem::Source;
use super::settings;
use ambulator_base::{RegisterError, RegisterReason, lock};
use std::sync::{Arc, Mutex, OnceLock};

/// What a preset describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetKind {
    /// A paper's machine.
    Machine,
    /// A translation design.
    Design,
    /// A program with its settings.
    Workload,
}

impl PresetKind {
    /// "machine", "design" or "workload".
    pub fn name(self) -> &'static str {
        match self {
            PresetKind::Machine => "machine",
            PresetKind::Design => "design",
            PresetKind::Workload => "workload",
        }
    }
}

/// A preset file in the binary.
struct Embedded {
    kind: PresetKind,
    name: &'static str,
    path: &'static str,
    text: &'static str,
}

const EMBEDDED: &[Embedded] = &include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// A preset that comes with Ambulator.
#[derive(Debug)]
pub struct Preset {
    /// What it describes.
    pub kind: PresetKind,
    /// The name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: String,
    /// The paper and the table or section that it follows; empty if none.
    pub paper: String,
    /// The presets on which it is based.
    pub base: Vec<String>,
    /// The program that a workload runs; empty for other presets.
    pub program: String,
    pub(crate) source: Arc<Source>,
}

impl Preset {
    /// The name of its text in errors: its path in the repository, or the name of a registered one.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }

    /// Its TOML text.
    pub fn text(&self) -> &str {
        &self.source.text
    }
}

static PRESETS: OnceLock<Vec<Preset>> = OnceLock::new();
static OWN: Mutex<Vec<Embedded>> = Mutex::new(Vec::new());

/// Registers a preset for this process: its TOML text, in the form of the presets that come with Ambulator.
///
/// # Errors
/// A name that no command line could name, a name that another preset has, or presets already in use.
pub fn register_preset(kind: PresetKind, name: &'static str, text: &'static str) -> Result<(), RegisterError> {
    let what = match kind {
        PresetKind::Machine => "machine preset",
        PresetKind::Design => "design preset",
        PresetKind::Workload => "workload",
    };
    // As in `mcf-1.7g`.
    RegisterError::check_with(what, name, |c| c == '.')?;
    if PRESETS.get().is_some() {
        return Err(RegisterError::new(what, name, RegisterReason::TooLate));
    }
    let mut own = lock(&OWN);
    if EMBEDDED.iter().chain(&*own).any(|other| other.name == name) {
        return Err(RegisterError::new("preset", name, RegisterReason::Taken));
    }
    own.push(Embedded { kind, name, path: name, text });
    Ok(())
}

/// All presets: machines, designs and workloads, each sorted by name; then the registered ones.
pub fn presets() -> &'static [Preset] {
    PRESETS.get_or_init(|| {
        let read = |of: &Embedded| {
            let source = Arc::new(Source { name: of.path.into(), text: of.text.into() });
            let Header { about, paper, base, program } = Layers::header(settings::tree(), &source);
            let base = base.into_iter().map(|(name, _)| name).collect();
            let program = program.map(|(name, _)| name).unwrap_or_default();
            Preset { kind: of.kind, name: of.name, about, paper, base, program, source }
        };
        let own = lock(&OWN);
        EMBEDDED.iter().chain(&*own).map(read).collect()
    })
}

/// The preset of this kind and name.
pub fn preset(kind: PresetKind, name: &str) -> Option<&'static Preset> {
    presets().iter().find(|preset| preset.kind == kind && preset.name == name)
}
