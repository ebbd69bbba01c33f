//! A name that users see, and what it means.

use serde_json::{Map, Value, json};
use std::fmt;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermKind {
    /// A preset of a design, a machine or a workload.
    Preset,
    /// A row or a column of a table on the terminal.
    Row,
    /// A column of rows: stores, CSV, data frames.
    Column,
    /// A key of a JSON document.
    Key,
    /// A value of a key that has few.
    Value,
    /// A figure of a paper, for `reproduce`.
    Figure,
    /// A figure of reports, or a part of one.
    Chart,
    /// A command, or an option of it.
    Command,
    /// A unit.
    Unit,
    /// A word of the papers or of the field.
    Word,
}

impl TermKind {
    /// Every kind.
    pub const ALL: [TermKind; 10] = [
        TermKind::Preset,
        TermKind::Row,
        TermKind::Column,
        TermKind::Key,
        TermKind::Value,
        TermKind::Figure,
        TermKind::Chart,
        TermKind::Command,
        TermKind::Unit,
        TermKind::Word,
    ];

    /// In words, in the singular.
    pub fn words(self) -> &'static str {
        match self {
            TermKind::Preset => "preset",
            TermKind::Row => "row or column of a table",
            TermKind::Column => "column of a store and of files",
            TermKind::Key => "JSON key",
            TermKind::Value => "value",
            TermKind::Figure => "figure of a paper",
            TermKind::Chart => "figure of a report",
            TermKind::Command => "command",
            TermKind::Unit => "unit",
            TermKind::Word => "term",
        }
    }
}

/// A name that users see, and what it means. What its [`Term::shows`] mean is looked up when it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The name as users see it. `<...>` stands for any text: `core <number>, <program>`.
    pub name: String,
    /// What it is of.
    pub kind: TermKind,
    /// More exactly than [`TermKind::words`]; empty for those.
    pub of: String,
    /// Other names.
    pub also: Vec<String>,
    /// One line, or empty where [`Term::shows`] says it.
    pub meaning: String,
    /// Unit of its values; empty for none.
    pub unit: String,
    /// Paper and section; empty for none.
    pub source: String,
    /// The counters, measures, columns or keys whose value it shows.
    pub shows: Vec<String>,
    /// Where users meet it.
    pub places: Vec<String>,
    /// Names to ask for next.
    pub see: Vec<String>,
    /// Its values are by name: `NAME.x` means that of `x`.
    pub holds_names: bool,
}

impl Term {
    /// A term without anything but a name and a meaning.
    pub fn new(kind: TermKind, name: impl Into<String>, meaning: impl Into<String>) -> Term {
        Term {
            name: name.into(),
            kind,
            of: String::new(),
            also: Vec::new(),
            meaning: meaning.into(),
            unit: String::new(),
            source: String::new(),
            shows: Vec::new(),
            places: Vec::new(),
            see: Vec::new(),
            holds_names: false,
        }
    }

    /// A row or a column of a table that shows the values of `shows`.
    pub fn row(name: &str, shows: &[&str]) -> Term {
        let shows = shows.iter().map(|name| (*name).to_owned()).collect();
        Term { shows, ..Term::new(TermKind::Row, name.trim(), "") }
    }

    /// Says where users meet it.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Term {
        self.places.push(place.into());
        self
    }

    /// Its name and its other names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.also.iter().map(String::as_str))
    }

    /// What it is, in words.
    pub fn kind_words(&self) -> &str {
        if self.of.is_empty() { self.kind.words() } else { &self.of }
    }

    /// As JSON: everything that is not empty.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        all.insert("name".into(), json!(self.name));
        all.insert("kind".into(), json!(self.kind_words()));
        for (key, text) in [("meaning", &self.meaning), ("unit", &self.unit), ("source", &self.source)] {
            if !text.is_empty() {
                all.insert(key.into(), json!(text));
            }
        }
        let lists = [("also", &self.also), ("shows", &self.shows), ("where", &self.places), ("see", &self.see)];
        for (key, list) in lists {
            if !list.is_empty() {
                all.insert(key.into(), json!(list));
            }
        }
        Value::Object(all)
    }
}

/// At most this many places are printed; `--json` has all.
const MOST_PLACES: usize = 6;

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.name, self.kind_words())?;
        let mut line = |name: &str, value: &str| {
            if value.is_empty() { Ok(()) } else { writeln!(f, "  {name:<9}{value}") }
        };
        line("meaning", &self.meaning)?;
        line("unit", &self.unit)?;
        line("source", &self.source)?;
        // Of a key, these are the paths, which follow; of a figure, its title.
        let also: Vec<&str> = self.also.iter().map(String::as_str).filter(|name| *name != self.meaning).collect();
        line("also", &if self.kind == TermKind::Key { String::new() } else { also.join(", ") })?;
        for (at, place) in self.places.iter().take(MOST_PLACES).enumerate() {
            line(if at == 0 { "where" } else { "" }, place)?;
        }
        if self.places.len() > MOST_PLACES {
            line("", &format!("and {} more, which --json has", self.places.len() - MOST_PLACES))?;
        }
        line("see", &self.see.join(", "))
    }
}
