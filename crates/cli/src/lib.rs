//! The `ambulator` command, as a library: a program of a user's own is the same command with more designs.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     ambulator::app()
//!         // .design(my_table::descriptor())
//!         // .design_preset("my-table", include_str!("../my-table.toml"))
//!         .run()
//! }
//! ```
//!
//! ```text
//!   app()          what the command knows beside Ambulator's own designs, programs and presets
//!     .run()       arguments -> a command of this crate -> experiments, simulator
//! ```
//!
//! What a design is made of is re-exported here, so that a crate of a design's own depends on this one alone. Start with
//! [`App`]; `examples/own-design` is such a crate.

mod app;
mod arguments;
mod capture;
mod compare;
mod conformance;
mod inspect;
mod interrupt;
mod layout;
mod output;
mod progress;
mod reproduce;
mod trace;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use output::{print, tell};
use std::io::IsTerminal;
use std::process::ExitCode;

pub use ambulator_base as base;
pub use ambulator_conformance as conformance_suite;
pub use ambulator_memory as memory;
pub use ambulator_mmu as mmu;
pub use ambulator_os as os;
pub use ambulator_sockets as sockets;
pub use ambulator_structures as structures;
pub use app::{App, app};

/// All was done.
const DONE: u8 = 0;
/// A run failed, or ended in an outcome of its machine.
const SOME_FAILED: u8 = 1;
/// The command, a spec or an input is wrong; nothing ran.
const BAD_REQUEST: u8 = 2;

/// Why a command did not do what was asked: the sentence goes to standard error.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn bad(message: impl std::fmt::Display) -> Failure {
        Failure { message: message.to_string(), code: BAD_REQUEST }
    }

    fn failed(message: impl std::fmt::Display) -> Failure {
        Failure { message: message.to_string(), code: SOME_FAILED }
    }
}

/// Reads the arguments of the process, does what they ask, and returns the status to exit with.
fn run() -> ExitCode {
    let done = match Arguments::try_parse() {
        Ok(arguments) => execute(arguments.command),
        // Help and versions that somebody asked for are output like any other; a terminal has colours.
        Err(told) if !told.use_stderr() && !std::io::stdout().is_terminal() => {
            print(told.render().to_string().trim_end());
            Ok(DONE)
        }
        Err(told) => told.exit(),
    };
    let (done, written) = (done.unwrap_or_else(told), output::finish().map_or_else(told, |()| DONE));
    ExitCode::from(if done == DONE { written } else { done })
}

/// Says on standard error why something failed, and returns the exit status for it.
fn told(failure: Failure) -> u8 {
    let message = failure.message.trim_end();
    if message.starts_with("error") {
        tell(message)
    } else {
        tell(&format!("error: {message}"))
    }
    failure.code
}

fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(arguments) => compare::run(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Capture(arguments) => capture::capture(&arguments),
        Command::Layout(arguments) => layout::layout(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::List(arguments) => inspect::list(&arguments),
        Command::Explain(arguments) => inspect::explain(&arguments),
        Command::ShowSpec(arguments) => inspect::show_spec(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Conformance(arguments) => conformance::conformance(&arguments),
        Command::Completions { shell } => {
            // The generator panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "ambulator", &mut script);
            output::print_bytes(&script);
            Ok(DONE)
        }
        Command::Reference { what } => inspect::reference(what),
    }
}
