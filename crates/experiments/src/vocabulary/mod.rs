//! Everything that users see by a name, and what it means: settings, designs, counters, rows of tables,
//! columns, JSON keys, figures, units, the papers' words.
//!
//! No meaning is written here. Settings and designs explain themselves
//! ([`ambulator_simulator::spec::explain`]), keys have the doc comments of the types that are written, rows
//! name the counters and measures that they show; what has no other place is in `presets/terms.toml`.
//!
//! - `term`: a name and its meaning.
//! - `keys`: the keys of a JSON document, from its type.
//! - `sources`: all terms.

mod keys;
mod sources;
mod term;

use crate::document::counter_catalogue;
use ambulator_base::{excerpt, nearest_names};
use ambulator_simulator::catalogue;
use ambulator_simulator::spec::{CounterInfo, Explanation, Setting, explain, program_tree, tree};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

pub use keys::keys;
pub use term::{Term, TermKind};

/// What a name was found to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A setting, a group, a design, a program, or counters.
    Spec(Explanation),
    /// Anything else, and what it shows: name, unit and meaning of each.
    Term(Term, Vec<(String, String, String)>),
}

impl Found {
    /// As JSON.
    pub fn json(&self) -> Value {
        match self {
            Found::Spec(found) => found.json(),
            Found::Term(term, shows) => {
                let mut all = term.json();
                if !shows.is_empty() {
                    let of = |(name, unit, meaning): &(String, String, String)| serde_json::json!({"name": name, "unit": unit, "meaning": meaning});
                    all["shows"] = shows.iter().map(of).collect();
                }
                all
            }
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Spec(found) => write!(f, "{found}"),
            Found::Term(term, shows) => {
                write!(f, "{term}")?;
                for (at, (name, unit, meaning)) in shows.iter().enumerate() {
                    let of = if unit.is_empty() { String::new() } else { format!(" [{unit}]") };
                    let label = if at == 0 { "shows" } else { "" };
                    writeln!(f, "  {label:<9}{name}: {meaning}{of}")?;
                }
                Ok(())
            }
        }
    }
}

/// Names that are suggested for one that is not known.
const MOST_SUGGESTED: usize = 5;

/// Everything that has a name.
pub struct Vocabulary {
    terms: Vec<Term>,
    /// Numbers of terms, by their names as they are compared.
    exact: HashMap<String, Vec<usize>>,
    /// Bytes of the longest of these names.
    longest: usize,
    loose: HashMap<String, Vec<usize>>,
    counters: OnceLock<Vec<CounterInfo>>,
}

/// A name as it is compared: without quotes, case, and doubled spaces.
fn plain(name: &str) -> String {
    let name = name.trim_matches(|c: char| c.is_whitespace() || c == '`' || c == '"');
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// A path of JSON without what counts elements: `runs[0].ipc`, `runs[].ipc` and `runs.ipc` are one.
fn without_elements(name: &str) -> String {
    let mut path = String::new();
    let mut inside = false;
    for c in name.chars() {
        inside = (inside || c == '[') && c != ']';
        if !inside && c != ']' {
            path.push(c);
        }
    }
    path.trim_start_matches('.').to_owned()
}

/// A name as it is compared if no name is the same: words without the plural's `s`, however they are joined.
fn loose(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| if word.len() > 3 { word.trim_end_matches('s') } else { word }).collect::<Vec<_>>().join(" ")
}

/// Whether `name` is what a pattern such as `core <number>, <program>` stands for.
fn fits(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    let mut parts = pattern.split('<').map(|part| part.rsplit('>').next().unwrap_or_default());
    match parts.next().and_then(|first| rest.strip_prefix(first)) {
        Some(after) => rest = after,
        None => return false,
    }
    let parts: Vec<&str> = parts.collect();
    for (at, part) in parts.iter().enumerate() {
        let found = if at + 1 == parts.len() && part.is_empty() { Some(rest.len()) } else { rest.find(part) };
        match found.filter(|at| *at > 0) {
            Some(begin) => rest = &rest[begin + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

impl Vocabulary {
    /// All names, with those of other parts of the program: commands, figures of reports.
    pub fn with(others: impl IntoIterator<Item = Term>) -> Vocabulary {
        let mut terms = sources::terms();
        terms.extend(others);
        let terms = sources::joined(terms);
        let mut all =
            Vocabulary { terms, exact: HashMap::new(), longest: 0, loose: HashMap::new(), counters: OnceLock::new() };
        for (number, term) in all.terms.iter().enumerate() {
            for name in term.names() {
                let name = without_elements(&plain(name));
                let known = all.loose.entry(loose(&name)).or_default();
                if known.last() != Some(&number) {
                    known.push(number);
                }
                all.longest = all.longest.max(name.len());
                let known = all.exact.entry(name).or_default();
                if known.last() != Some(&number) {
                    known.push(number);
                }
            }
        }
        all
    }

    /// All terms, which are everything but settings, designs, programs and counters.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// All counters and measures.
    pub fn counters(&self) -> &[CounterInfo] {
        self.counters.get_or_init(counter_catalogue)
    }

    /// What a name means; several things, if several have it.
    ///
    /// # Errors
    /// Nothing has it: a sentence, with the names that are most like it.
    pub fn explain(&self, name: &str) -> Result<Vec<Found>, String> {
        let found = self.find(name, 0);
        if !found.is_empty() {
            return Ok(found);
        }
        let near = self.nearest(name);
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        let help = match near.as_slice() {
            [] => "`ambulator explain` without a name says what can be asked".to_owned(),
            [one] => format!("the nearest is {one}"),
            [first, others @ ..] => format!("the nearest is {first}; others are {}", others.join(", ")),
        };
        Err(format!("nothing is called `{}`\n |\nhelp: {help}", excerpt(name.trim())))
    }

    fn find(&self, name: &str, depth: u32) -> Vec<Found> {
        /// Names within names: `series.counters.mmu.walks`.
        const DEEPEST: u32 = 4;
        let asked = without_elements(&plain(name));
        if asked.is_empty() || depth > DEEPEST {
            return Vec::new();
        }
        let mut found: Vec<Found> =
            explain(name, &[]).or_else(|_| explain(&asked, &[])).map(Found::Spec).into_iter().collect();
        found.extend(self.numbers(&asked, &self.exact).map(|at| self.found(at)));
        if found.is_empty() {
            found.extend(explain(&asked, self.counters()).map(Found::Spec));
        }
        if found.is_empty() {
            let fitting = self.terms.iter().enumerate();
            let fitting = fitting.filter(|(_, term)| term.name.contains('<') && fits(&plain(&term.name), &asked));
            found.extend(fitting.map(|(at, _)| self.found(at)));
        }
        if found.is_empty() {
            found.extend(self.inside(&asked, depth));
        }
        if found.is_empty() {
            found.extend(self.numbers(&loose(&asked), &self.loose).map(|at| self.found(at)));
        }
        found
    }

    /// `NAME.x`, where `NAME` holds what names mean, and `NAME ±`, its interval.
    fn inside(&self, asked: &str, depth: u32) -> Vec<Found> {
        if let Some(of) = asked.strip_suffix('±') {
            return self.find(of, depth + 1).into_iter().chain(self.find("±", depth + 1)).collect();
        }
        for (at, _) in asked.match_indices('.').take_while(|(at, _)| *at <= self.longest) {
            let holder = self.numbers(&asked[..at], &self.exact).find(|number| self.terms[*number].holds_names);
            let Some(holder) = holder else { continue };
            let inner = self.find(&asked[at + 1..], depth + 1);
            if !inner.is_empty() {
                return std::iter::once(self.found(holder)).chain(inner).collect();
            }
        }
        Vec::new()
    }

    fn numbers<'v>(&'v self, name: &str, by: &'v HashMap<String, Vec<usize>>) -> impl Iterator<Item = usize> + 'v {
        by.get(name).into_iter().flatten().copied()
    }

    fn found(&self, number: usize) -> Found {
        let term = self.terms[number].clone();
        let shown = |name: &String| {
            let asked = without_elements(&plain(name));
            let named =
                || self.numbers(&asked, &self.exact).map(|at| &self.terms[at]).filter(|of| !of.meaning.is_empty());
            // `[].cycles` and `cycles` are compared as one name, but here the whole path is known.
            let of_term = named().find(|of| of.names().any(|own| own == name)).or_else(|| named().next());
            let of_term = of_term.map(|of| (of.unit.clone(), of.meaning.clone()));
            let of_counter = || {
                let counter = self.counters().iter().find(|counter| counter.name == *name)?;
                Some((counter.unit.clone(), counter.meaning.clone()))
            };
            let (unit, meaning) = of_term.or_else(of_counter)?;
            Some((name.clone(), unit, meaning))
        };
        let shows = term.shows.iter().filter_map(shown).collect();
        Found::Term(term, shows)
    }

    /// The names most like one that is not known.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let mut names: Vec<&str> = self.terms.iter().flat_map(Term::names).collect();
        let designs = catalogue();
        names.extend(designs.designs().iter().map(|design| design.name));
        let mut settings: Vec<&Setting> = Vec::new();
        for tree in [tree(), program_tree()] {
            tree.visit(&mut |setting| settings.push(setting));
        }
        names.extend(settings.iter().map(|setting| setting.key.as_str()).filter(|key| !key.is_empty()));
        names.extend(self.counters().iter().map(|counter| counter.name.as_str()));
        nearest_names(name.trim(), names, MOST_SUGGESTED).into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests;
