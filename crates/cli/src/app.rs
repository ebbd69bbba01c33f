//! Extends the command with a user's own designs, programs and presets.

use ambulator_base::RegisterError;
use ambulator_simulator::register_design;
use ambulator_simulator::spec::{PresetKind, register_preset};
use ambulator_sockets::Descriptor;
use ambulator_workloads::{BenchmarkSpec, register_program};
use std::process::ExitCode;

/// The command before it runs: Ambulator's designs, programs and presets, and additional ones.
#[derive(Default)]
pub struct App {
    rejected: Vec<String>,
}

/// The command with Ambulator's designs, programs and presets.
pub fn app() -> App {
    App::default()
}

impl App {
    /// Adds a design: specs and presets can name it, `list` and `explain` show it, and the oracle checks it.
    #[must_use]
    pub fn design(self, design: Descriptor) -> App {
        self.keep(register_design(design))
    }

    /// Adds a program by the type of its settings; it can be named like the built-in ones.
    #[must_use]
    pub fn program<T: BenchmarkSpec>(self) -> App {
        self.keep(register_program::<T>())
    }

    /// Adds a preset for `--design` and `--designs`, as TOML: the designs in the sockets, and settings.
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

    fn keep(mut self, done: Result<(), RegisterError>) -> App {
        self.rejected.extend(done.err().map(|error| error.to_string()));
        self
    }

    /// Parses the arguments of the process, runs the command, and returns the exit status. If an addition was
    /// rejected, reports it instead and runs nothing.
    pub fn run(self) -> ExitCode {
        if self.rejected.is_empty() {
            return crate::run();
        }
        for rejected in self.rejected {
            crate::output::report(&format!("error: {rejected}"));
        }
        ExitCode::from(crate::BAD_REQUEST)
    }
}
