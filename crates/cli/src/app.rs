//! What the command knows, beside what comes with Ambulator.

use ambulator_simulator::spec::{PresetKind, register_preset};
use ambulator_simulator::{RegistrationError, register_design};
use ambulator_sockets::Descriptor;
use std::process::ExitCode;

/// The command, before it runs: Ambulator's own designs, programs and presets, and those that are added.
#[derive(Default)]
pub struct App {
    refused: Vec<RegistrationError>,
}

/// The command with Ambulator's own designs, programs and presets.
pub fn app() -> App {
    App::default()
}

impl App {
    /// Adds a design: it can be named in specs and presets, `list` and `explain` know it, the oracle checks it.
    #[must_use]
    pub fn design(self, design: Descriptor) -> App {
        self.keep(register_design(design))
    }

    /// Adds a preset for `--design` and `--designs`, as TOML: which design is in which socket, and settings.
    #[must_use]
    pub fn design_preset(self, name: &'static str, toml: &'static str) -> App {
        self.keep(register_preset(PresetKind::Design, name, toml))
    }

    /// Adds a preset for `--machine`, as TOML.
    #[must_use]
    pub fn machine_preset(self, name: &'static str, toml: &'static str) -> App {
        self.keep(register_preset(PresetKind::Machine, name, toml))
    }

    /// Adds a workload, as TOML: a program and its settings.
    #[must_use]
    pub fn workload(self, name: &'static str, toml: &'static str) -> App {
        self.keep(register_preset(PresetKind::Workload, name, toml))
    }

    fn keep(mut self, done: Result<(), RegistrationError>) -> App {
        self.refused.extend(done.err());
        self
    }

    /// Reads the arguments of the process, does what they ask, and returns the status to exit with. What could not be
    /// added ends it before anything runs.
    pub fn run(self) -> ExitCode {
        if self.refused.is_empty() {
            return crate::run();
        }
        for refused in self.refused {
            crate::output::tell(&format!("error: {refused}"));
        }
        ExitCode::from(crate::BAD_REQUEST)
    }
}
