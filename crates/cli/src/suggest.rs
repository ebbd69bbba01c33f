//! A mistyped command: which one was meant.

use crate::arguments::Arguments;
use ambulator_base::nearest;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error with the nearest command, if it is about an unknown one that clap finds nothing like (`rnu`).
/// `words` are the arguments of the process.
pub fn with_nearest_command(mut error: clap::Error, words: impl Iterator<Item = String>) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand || error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let Some(ContextValue::String(mistyped)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let mut command = &Arguments::command();
    let root = Arguments::command();
    for word in words {
        match root.find_subcommand(&word) {
            Some(below) => command = below,
            None => break,
        }
    }
    let names = command.get_subcommands().filter(|below| !below.is_hide_set()).map(clap::Command::get_name);
    if let Some(meant) = nearest(mistyped, names) {
        let suggestion = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, suggestion);
    }
    error
}
