#![doc = include_str!("../README.md")]

mod advise;
mod app;
mod arguments;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(not(target_os = "linux"))]
#[path = "capture/elsewhere.rs"]
mod capture;
mod checkpoints;
mod cluster;
mod compare;
mod conformance;
mod diff;
mod explain;
mod explain_walk;
mod finished;
mod inspect;
mod interrupt;
mod layout;
mod output;
mod progress;
mod report;
mod reproduce;
mod requests;
mod results;
mod rows;
mod store;
mod suggest;
mod sweep;
mod symbols;
mod table_files;
mod terminal;
mod timeline;
mod trace;
mod walk_files;
mod walk_page;

use ambulator_base::OutputFile;
use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use output::{print, report};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

pub use ambulator_base as base;
pub use ambulator_conformance as conformance_suite;
pub use ambulator_memory as memory;
pub use ambulator_mmu as mmu;
pub use ambulator_os as os;
pub use ambulator_sockets as sockets;
pub use ambulator_structures as structures;
pub use app::{App, app};

/// Everything succeeded.
const DONE: u8 = 0;
/// A run failed or stopped early, for example because its machine ran out of memory.
const SOME_FAILED: u8 = 1;
/// The command, a spec or an input is invalid; nothing ran.
const BAD_REQUEST: u8 = 2;

/// Why a command failed; the message goes to standard error.
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

    /// Of several outputs, all of which have been tried: what failed, one after the other.
    fn of_outputs(tried: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
        let mut failed: Vec<Failure> = tried.into_iter().filter_map(Result::err).collect();
        let Some(code) = failed.first().map(|failure| failure.code) else { return Ok(()) };
        let messages: Vec<String> = failed.drain(..).map(|failure| failure.message).collect();
        Err(Failure { message: messages.join("\nerror: "), code })
    }
}

/// Parses the arguments of the process, runs the command, and returns the exit status.
fn run() -> ExitCode {
    let done = match Arguments::try_parse() {
        Ok(arguments) => execute(arguments.command),
        // Requested help and versions are ordinary output; a terminal has colours.
        Err(message) if !message.use_stderr() && !std::io::stdout().is_terminal() => {
            print(message.render().to_string().trim_end());
            Ok(DONE)
        }
        Err(message) => {
            let words = || std::env::args().skip(1);
            suggest::with_equals_sign(suggest::with_nearest_command(message, words()), words()).exit()
        }
    };
    let (done, written) =
        (done.unwrap_or_else(report_failure), output::finish().map_or_else(report_failure, |()| DONE));
    ExitCode::from(if done == DONE { written } else { done })
}

/// Reports a failure on standard error, and returns its exit status.
fn report_failure(failure: Failure) -> u8 {
    let message = failure.message.trim_end();
    if message.starts_with("error") {
        report(message)
    } else {
        report(&format!("error: {message}"))
    }
    failure.code
}

fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(arguments) => compare::run(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Capture(arguments) => capture::capture(&arguments),
        Command::Layout(arguments) => layout::layout(&arguments),
        Command::Advise(arguments) => advise::advise(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::List(arguments) => inspect::list(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::ExplainWalk(arguments) => explain_walk::explain_walk(&arguments),
        Command::ShowSpec(arguments) => inspect::show_spec(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Results(arguments) => results::results(&arguments),
        Command::Checkpoints(arguments) => checkpoints::run(&arguments),
        Command::Diff(arguments) => diff::diff(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Plot(arguments) => report::plot(&arguments),
        Command::Conformance(arguments) => conformance::conformance(&arguments),
        Command::Completions { shell, out } => completions(shell, out.as_deref()),
        Command::Reference { what } => inspect::reference(what),
    }
}

/// Prints or writes the completions of a shell.
fn completions(shell: Shell, out: Option<&Path>) -> Result<u8, Failure> {
    // The generator panics on write errors, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "ambulator", &mut script);
    let Some(out) = out else {
        output::print_bytes(&script);
        return Ok(DONE);
    };
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::bad(format!("the folder {} cannot be created: {error}", folder.display())))?;
    }
    let file = OutputFile::prepare(out).map_err(Failure::bad)?;
    file.write(&script).map_err(Failure::failed)?;
    print(&format!("{}: completions for {shell}", out.display()));
    Ok(DONE)
}
