//! `explain`: what a name means, wherever a user has met it.

use crate::arguments::{Arguments, ExplainArguments};
use crate::output::print;
use crate::terminal::print_folded;
use crate::{DONE, Failure, explain_walk, layout, trace};
use ambulator_experiments::{Found, Term, TermKind, Vocabulary};
use ambulator_simulator::catalogue;
use ambulator_simulator::spec::{program_tree, tree};
use clap::{Command, CommandFactory};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub fn explain(arguments: &ExplainArguments) -> Result<u8, Failure> {
    let name = arguments.name.join(" ");
    if name.trim().is_empty() {
        if arguments.json {
            print(&serde_json::to_string_pretty(&everything(&vocabulary())).map_err(Failure::failed)?);
        } else {
            print_folded(overview(&vocabulary()).trim_end(), 29);
            print_folded(HOW_TO_ASK, 0);
        }
        return Ok(DONE);
    }
    if name == STANDARD_INPUT {
        return explain_lines(&vocabulary(), arguments.json);
    }
    // The figures of reports take a moment.
    let found = brief_vocabulary().explain(&name).or_else(|_| vocabulary().explain(&name)).map_err(Failure::bad)?;
    if arguments.json {
        print(&serde_json::to_string_pretty(&answer(&name, &found)).map_err(Failure::failed)?);
    } else {
        print_folded(&in_words(&found), 11);
    }
    Ok(DONE)
}

/// The name that stands for the names on standard input.
const STANDARD_INPUT: &str = "-";

fn answer(name: &str, found: &[Found]) -> Value {
    json!({ "asked": name, "found": found.iter().map(Found::json).collect::<Vec<_>>() })
}

fn in_words(found: &[Found]) -> String {
    let texts: Vec<String> = found.iter().map(|found| found.to_string().trim_end().to_owned()).collect();
    texts.join("\n\n")
}

/// Explains the names on standard input, one in a line.
fn explain_lines(vocabulary: &Vocabulary, as_json: bool) -> Result<u8, Failure> {
    let (mut answers, mut unknown) = (Vec::new(), Vec::new());
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| Failure::bad(format!("standard input cannot be read: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        match vocabulary.explain(&line) {
            Ok(found) if as_json => answers.push(answer(line.trim(), &found)),
            Ok(found) => print_folded(&format!("{}\n", in_words(&found)), 11),
            Err(why) => unknown.push(why),
        }
    }
    if as_json {
        print(&serde_json::to_string_pretty(&answers).map_err(Failure::failed)?);
    }
    if unknown.is_empty() { Ok(DONE) } else { Err(Failure::bad(unknown.join("\n"))) }
}

/// Everything that has a name in any command's output or input.
pub fn vocabulary() -> Vocabulary {
    Vocabulary::with(terms().into_iter().chain(ambulator_report::terms()))
}

/// The same without the figures of reports.
fn brief_vocabulary() -> Vocabulary {
    Vocabulary::with(terms())
}

fn terms() -> Vec<Term> {
    let mut terms = commands(&Arguments::command(), "ambulator");
    terms.extend(trace::terms());
    terms.extend(layout::terms());
    terms.extend(explain_walk::terms());
    terms
}

/// The commands below one, and their options, whose meanings are their help.
fn commands(of: &Command, path: &str) -> Vec<Term> {
    let mut all = Vec::new();
    for command in of.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let name = path.trim_start_matches("ambulator ").to_owned();
        let places = vec![format!("{path} --help")];
        all.push(Term { places, ..Term::new(TermKind::Command, name.clone(), about) });
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            let (Some(long), Some(help)) = (option.get_long(), option.get_help()) else { continue };
            all.push(Term {
                also: vec![format!("{name} --{long}"), format!("{path} --{long}")],
                of: "option".into(),
                places: vec![path.clone()],
                ..Term::new(TermKind::Command, format!("--{long}"), help.to_string())
            });
        }
        all.extend(commands(command, &path));
    }
    all
}

/// A kind of name, how many there are, and a few of them.
type Group = (&'static str, usize, Vec<String>);

fn groups(vocabulary: &Vocabulary) -> Vec<Group> {
    let few = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let designs = catalogue();
    let designs: Vec<&str> = designs.designs().iter().map(|design| design.name).collect();
    let programs: Vec<&str> = program_tree().children().iter().map(|program| program.name()).collect();
    let mut all = vec![
        ("designs", designs.len(), few(&designs)),
        ("programs", programs.len(), few(&programs)),
        ("settings", tree().leaves().len(), few(&["mmu.l2_tlb.entries", "dram", "bfs.layout"])),
        ("counters and measures", vocabulary.counters().len(), few(&["mmu.walks", "kernel.cycles"])),
    ];
    let examples: [(TermKind, &'static str, &[&str]); 10] = [
        (TermKind::Preset, "presets", &["thp", "utopia-table1", "gups-8g"]),
        (
            TermKind::Row,
            "rows of tables",
            &["MMU cycles per access", "cycles a walk", "page walks and look-ups served by DRAM"],
        ),
        (TermKind::Column, "columns of files", &["cores.ipc", "walk_latency.p99", "set.mmu.l2_tlb.entries"]),
        (TermKind::Key, "JSON keys", &["runs.histograms", "weighted_speedup", "attempts.steps"]),
        (TermKind::Value, "values", &["interrupted", "seeds"]),
        (TermKind::Figure, "figures of papers", &["utopia/fig11", "lvm/fig9"]),
        (TermKind::Chart, "figures of reports", &["Where the cycles go", "walk-latency"]),
        (TermKind::Command, "commands and options", &["sweep", "seeds", "compare --no-bounds"]),
        (TermKind::Unit, "units", &["MT/s", "MPKI"]),
        (TermKind::Word, "terms of the papers", &["RestSeg", "L2P", "gapped page table", "FMFI", "eager paging"]),
    ];
    for (kind, words, names) in examples {
        all.push((words, vocabulary.terms().iter().filter(|term| term.kind == kind).count(), few(names)));
    }
    all
}

/// What can be asked.
fn overview(vocabulary: &Vocabulary) -> String {
    let mut text = "`ambulator explain NAME` says what a name means, wherever you have met it.\n\n".to_owned();
    for (kind, count, names) in groups(vocabulary) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {kind:22} {count:>4}  {}", names.join(", "));
    }
    text
}

/// What is said below the overview.
const HOW_TO_ASK: &str = "
A name may have spaces, and case does not matter. `ambulator list` lists designs, machines, programs and figures; \
                          `ambulator list settings` and `ambulator list counters` have a line for each; --json has \
                          everything.";

/// Every name with its kind and meaning.
fn everything(vocabulary: &Vocabulary) -> Value {
    let mut all: Vec<Value> = vocabulary.terms().iter().map(Term::json).collect();
    let one = |name: &str, kind: &str, unit: &str, meaning: &str| json!({ "name": name, "kind": kind, "unit": unit, "meaning": meaning });
    all.extend(catalogue().designs().iter().map(|design| one(design.name, "design", "", design.about)));
    for (tree, kind) in [(tree(), "setting"), (program_tree(), "setting of a program")] {
        all.extend(tree.leaves().iter().map(|of| one(&of.key, kind, &of.unit, &of.meaning)));
    }
    all.extend(vocabulary.counters().iter().map(|of| one(&of.name, "counter", &of.unit, &of.meaning)));
    json!({ "names": all })
}

/// The terms of the papers and of the field, as a chapter of the book.
pub fn glossary() -> String {
    let mut text = "# Glossary\n\nThe words that this book, the program and the papers use, with the place where a \
                    paper explains them. `ambulator explain` knows them, too.\n\n| term | meaning | source |\n|---|---|---|\n"
        .to_owned();
    let vocabulary = vocabulary();
    for term in vocabulary.terms().iter().filter(|term| term.kind == TermKind::Word) {
        let also = if term.also.is_empty() { String::new() } else { format!(" ({})", term.also.join(", ")) };
        let _ = writeln!(text, "| **{}**{also} | {} | {} |", term.name, term.meaning, term.source);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_terms_name_is_known_with_those_of_commands_and_reports() {
        let all = vocabulary();
        for term in all.terms() {
            for name in term.see.iter().chain(&term.shows) {
                assert!(all.explain(name).is_ok(), "{} names `{name}`", term.name);
            }
        }
        for (_, count, names) in groups(&all) {
            assert!(count > 0);
            names.iter().for_each(|name| assert!(all.explain(name).is_ok(), "{name}"));
        }
    }

    #[test]
    fn every_option_of_every_command_is_explained() {
        let all = vocabulary();
        fn visit(command: &Command, path: &str, all: &Vocabulary) -> usize {
            let mut count = 0;
            for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
                let path = format!("{path} {}", command.get_name());
                assert!(all.explain(path.trim_start()).is_ok(), "{path}");
                for option in command.get_arguments().filter_map(|option| option.get_long()) {
                    assert!(all.explain(&format!("--{option}")).is_ok(), "{path} --{option}");
                    count += 1;
                }
                count += visit(command, &path, all);
            }
            count
        }
        assert!(visit(&Arguments::command(), "", &all) > 60);
    }
}
