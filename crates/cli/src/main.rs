//! The `ambulator` command.

mod arguments;
mod capture;
mod compare;
mod inspect;
mod interrupt;
mod layout;
mod progress;
mod reproduce;
mod trace;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Run(arguments) => compare::run(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Capture(arguments) => capture::capture(&arguments),
        Command::Layout(arguments) => layout::layout(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::List(arguments) => inspect::list(&arguments),
        Command::Explain(arguments) => inspect::explain(&arguments),
        Command::ShowSpec(arguments) => inspect::show_spec(&arguments),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "ambulator", &mut std::io::stdout());
            Ok(DONE)
        }
        Command::Reference { what } => inspect::reference(what),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let message = failure.message.trim_end();
            if message.starts_with("error") {
                eprintln!("{message}")
            } else {
                eprintln!("error: {message}")
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Prints to standard output; a reader that has gone away (`| head`) is no error.
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"));
}
