//! Mistyped arguments: what was meant.

use crate::arguments::Arguments;
use ambulator_base::nearest;
use clap::CommandFactory;
use clap::builder::StyledStr;
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

/// The error with a tip, if it is about the value of an option that takes one after `=` only: `--sampling 5M`.
/// `words` are the arguments of the process.
pub fn with_equals_sign(mut error: clap::Error, words: impl Iterator<Item = String>) -> clap::Error {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let words: Vec<String> = words.collect();
    let root = Arguments::command();
    let Some(command) = words.first().and_then(|first| root.find_subcommand(first)) else { return error };
    let takes_equals = |option: &str| {
        let is_it = |argument: &&clap::Arg| argument.get_long() == option.strip_prefix("--");
        command.get_arguments().find(is_it).is_some_and(clap::Arg::is_require_equals_set)
    };
    let before = words.windows(2).find(|two| two[1] == *value && takes_equals(&two[0]));
    if let Some(option) = before.map(|two| &two[0]) {
        let tip = StyledStr::from(format!("its value follows a `=`: {option}={value}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_value_after_a_blank_has_a_tip_where_it_must_follow_an_equals_sign() {
        let told = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned());
            let error = Arguments::try_parse_from(std::iter::once("ambulator".to_owned()).chain(words.clone()));
            with_equals_sign(error.err().unwrap(), words).render().to_string()
        };
        let tip = told(&["compare", "gups", "--sampling", "5M"]);
        assert!(tip.contains("its value follows a `=`: --sampling=5M"), "{tip}");
        assert!(!told(&["compare", "gups", "5M"]).contains("follows"));
    }
}
