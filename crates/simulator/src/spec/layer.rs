//! Layers of settings: each text is checked key by key against the tree of settings, later texts override
//! earlier ones, and the result becomes a spec.

use super::explain::show_value;
use super::moved::{new_choice, new_key};
use super::problem::{MOST_PROBLEMS, OPTION, Place, Problem, Source, SpecError};
use super::schema::{Kind, Setting};
use super::value::{Mistake, convert, found};
use ambulator_base::{Invalid, excerpt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The place where each setting was last written by a layer.
pub type Origins = BTreeMap<String, Place>;

/// What a spec file says about itself, other than its settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Header {
    /// A description in one line.
    pub(crate) about: String,
    /// The paper and the table or section that it follows.
    pub(crate) paper: String,
    /// Presets (or files) on which it is based.
    pub(crate) base: Vec<(String, Place)>,
    /// For a workload: the program that it runs.
    pub(crate) program: Option<(String, Place)>,
}

const HEADER_KEYS: [&str; 4] = ["about", "paper", "base", "program"];

/// The layers so far.
pub(crate) struct Layers<'s> {
    schema: &'s Setting,
    /// By key: the value, the place where it was written, and the number of its layer, from 1.
    values: BTreeMap<String, (Value, Place, usize)>,
    layers: usize,
    /// The first problems.
    problems: Vec<Problem>,
    /// How many more there are: describing each takes long, and nobody reads thousands.
    more_problems: usize,
    /// The name of options on the command line.
    option: &'static str,
}

impl<'s> Layers<'s> {
    /// No layer yet: the built-in defaults of `schema`.
    pub(crate) fn new(schema: &'s Setting) -> Layers<'s> {
        Layers { schema, values: BTreeMap::new(), layers: 0, problems: Vec::new(), more_problems: 0, option: OPTION }
    }

    /// The same, for options with another name on the command line.
    pub(crate) fn with_option(self, option: &'static str) -> Layers<'s> {
        Layers { option, ..self }
    }

    /// Adds a problem that was found elsewhere.
    pub(crate) fn problem(&mut self, problem: Problem) {
        if !self.only_counts() {
            self.problems.push(problem);
        }
    }

    /// Whether a problem that is about to be added need not be described; then it is counted here.
    fn only_counts(&mut self) -> bool {
        let enough = self.problems.len() >= MOST_PROBLEMS;
        self.more_problems += usize::from(enough);
        enough
    }

    /// The header of a TOML text, without its settings; [`Layers::add_toml`] reports its errors.
    pub(crate) fn header(schema: &'s Setting, source: &Arc<Source>) -> Header {
        Layers::new(schema).read_toml(source, false)
    }

    /// The keys that the layers have written so far, with their values.
    pub(crate) fn written(self) -> impl Iterator<Item = (String, Value)> {
        self.values.into_iter().map(|(key, (value, ..))| (key, value))
    }

    /// Number of layers.
    pub(crate) fn height(&self) -> usize {
        self.layers
    }

    /// What layers above the first `layers` have written: key, value and place.
    pub(crate) fn written_above(&self, layers: usize) -> impl Iterator<Item = (&str, &Value, &Place)> {
        let above = self.values.iter().filter(move |(_, (_, _, layer))| *layer > layers);
        above.map(|(key, (value, place, _))| (key.as_str(), value, place))
    }

    /// Adds a TOML text as the top layer.
    pub(crate) fn add_toml(&mut self, source: &Arc<Source>) -> Header {
        self.read_toml(source, true)
    }

    /// Reads a TOML text, with its `settings` or its header only.
    fn read_toml(&mut self, source: &Arc<Source>, settings: bool) -> Header {
        self.layers += 1;
        let mut header = Header::default();
        let table = match DeTable::parse(&source.text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let title = format!("`{}` is not TOML: {}", source.name, error.message().trim().replace('\n', "; "));
                self.problem(Problem::new(title).at(source, error.span().unwrap_or(0..0)));
                return header;
            }
        };
        let mut reader = Reader { layers: self, source: source.clone(), offset: 0 };
        for (key, value) in in_order(&table) {
            if HEADER_KEYS.contains(&key.get_ref().as_ref()) {
                reader.header(key.get_ref(), value, &mut header);
            } else if settings {
                reader.child(reader.layers.schema, key, value);
            }
        }
        header
    }

    /// Adds a `key=value` option as the top layer.
    pub(crate) fn add_option(&mut self, option: &str) {
        self.layers += 1;
        let name = self.option;
        let source = Arc::new(Source { name: name.into(), text: option.into() });
        let Some((key, _)) = option.split_once('=') else {
            let title = format!("`{name} {}` has no `=`", excerpt(option));
            let help = format!("write `{name} key=value`, such as `{name} {}`", self.example());
            self.problem(Problem::new(title).help(help).at(&source, 0..option.len()));
            return;
        };
        let schema = self.schema;
        let mut reader = Reader { layers: self, source, offset: 0 };
        let mut setting = schema;
        let mut start = 0;
        for part in key.split('.') {
            let span = trimmed(option, start..start + part.len());
            start += part.len() + 1;
            match setting.child(&option[span.clone()]) {
                Some(child) => setting = child,
                None => {
                    let root = Some(schema.key.as_str()).filter(|key| !key.is_empty());
                    let whole: Vec<&str> = root.into_iter().chain(key.split('.').map(str::trim)).collect();
                    return reader.unknown(setting, &option[span.clone()], &whole.join("."), span);
                }
            }
        }
        let key_span = trimmed(option, 0..key.len());
        let value_span = trimmed(option, key.len() + 1..option.len());
        let text_value = &option[value_span.clone()];
        let quoted = text_value.starts_with(['"', '\'']);
        let bare = || DeValue::String(Cow::Borrowed(text_value));
        let value = match DeValue::parse(text_value) {
            // A name or a text may look like a number or a flag.
            Ok(_) if matches!(setting.kind, Kind::Choice(_) | Kind::Text) && !quoted => bare(),
            Ok(value) => value.into_inner(),
            Err(_) if !quoted && !matches!(setting.kind, Kind::Group(_) | Kind::List(_)) => bare(),
            Err(error) => {
                let title = format!(
                    "the value of `{name} {}` is not TOML: {}",
                    excerpt(option),
                    error.message().trim().replace('\n', "; ")
                );
                reader.offset = value_span.start;
                return reader.push(Problem::new(title), error.span().unwrap_or(0..text_value.len()));
            }
        };
        reader.offset = value_span.start;
        // Spans inside the value count from its start, those of the option from the option's start.
        let end = value_span.len();
        reader.value(setting, &value, 0..end, Place::new(&reader.source, key_span));
    }

    /// An option that sets one of the settings of the tree.
    fn example(&self) -> String {
        if self.option == OPTION {
            return "mmu.l2_tlb.entries=2048".into();
        }
        let leaves = self.schema.leaves();
        let Some(leaf) = leaves.first() else { return "key=value".into() };
        let key = leaf.key.strip_prefix(&self.schema.key).unwrap_or(&leaf.key).trim_start_matches('.');
        format!("{key}={}", show_value(leaf, &leaf.default).trim_matches('"'))
    }

    /// The values that the layers have written, by key: for settings that do not become a spec.
    pub(crate) fn settings(self) -> Result<Vec<(String, Value)>, SpecError> {
        if !self.problems.is_empty() {
            return Err(SpecError { problems: self.problems, more: self.more_problems });
        }
        Ok(self.written().collect())
    }

    /// The spec of the layers: the overridden defaults, checked by `validate`.
    pub(crate) fn finish<T: DeserializeOwned>(
        mut self,
        validate: impl FnOnce(&T) -> Vec<Invalid>,
    ) -> Result<(T, Origins), SpecError> {
        if !self.problems.is_empty() {
            return Err(SpecError { problems: self.problems, more: self.more_problems });
        }
        let mut json = self.schema.default.clone();
        for (key, (value, ..)) in &self.values {
            if let Some(slot) = json.pointer_mut(&format!("/{}", key.replace('.', "/"))) {
                *slot = value.clone();
            }
        }
        let spec: T = serde_json::from_value(json)
            .map_err(|error| Problem::new(format!("the settings together are not a valid spec: {error}")))?;
        for wrong in validate(&spec) {
            let mut problem = Problem::new(wrong.to_string());
            if let Some((key, place)) = self.written_last(&wrong) {
                problem.label = format!("`{key}` is set here");
                problem.place = Some(place);
            }
            self.problem(problem);
        }
        let origins = self.values.into_iter().map(|(key, (_, place, _))| (key, place)).collect();
        let (problems, more) = (self.problems, self.more_problems);
        if problems.is_empty() { Ok((spec, origins)) } else { Err(SpecError { problems, more }) }
    }

    /// Of the settings that a problem concerns (a group means all its settings), the one written by the
    /// highest layer; of several in that layer, the one at fault, or else the first related one.
    fn written_last(&self, wrong: &Invalid) -> Option<(String, Place)> {
        let mut last: Option<(usize, &String, &Place)> = None;
        for concerned in wrong.keys() {
            for (key, (_, place, layer)) in &self.values {
                let rest = key.strip_prefix(concerned);
                let meant = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                if meant && last.is_none_or(|(highest, ..)| *layer > highest) {
                    last = Some((*layer, key, place));
                }
            }
        }
        last.map(|(_, key, place)| (key.clone(), place.clone()))
    }
}

/// What a `key=value` option sets below `schema`, by key; nothing if it is invalid.
pub(crate) fn settings_of_option(schema: &Setting, option: &str) -> Vec<(String, Value)> {
    let mut layers = Layers::new(schema);
    layers.add_option(option);
    layers.settings().unwrap_or_default()
}

/// The entries of a table in the order of the text.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Spanned<Cow<'i, str>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// The span without white space at its ends.
fn trimmed(text: &str, span: Range<usize>) -> Range<usize> {
    let part = &text[span.clone()];
    let start = span.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

/// Reads one source into the layers.
struct Reader<'l, 's> {
    layers: &'l mut Layers<'s>,
    source: Arc<Source>,
    /// Added to spans.
    offset: usize,
}

impl<'s> Reader<'_, 's> {
    fn place(&self, span: Range<usize>) -> Place {
        Place::new(&self.source, span.start + self.offset..span.end + self.offset)
    }

    fn push(&mut self, problem: Problem, span: Range<usize>) {
        let place = self.place(span);
        self.layers.problem(Problem { place: Some(place), ..problem });
    }

    fn header(&mut self, key: &str, value: &Spanned<DeValue<'_>>, header: &mut Header) {
        let bases: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(array) if key == "base" => array.iter().collect(),
            _ => vec![value],
        };
        for of in bases {
            let Some(text) = of.get_ref().as_str() else {
                let expected =
                    if key == "base" { "the name of a preset, the path of a file, or a list of them" } else { "text" };
                self.push(Problem::new(format!("`{key}` takes {expected}, not {}", found(of.get_ref()))), of.span());
                continue;
            };
            match key {
                "about" => header.about = text.to_string(),
                "paper" => header.paper = text.to_string(),
                "program" => header.program = Some((text.to_string(), self.place(of.span()))),
                _ => header.base.push((text.to_string(), self.place(of.span()))),
            }
        }
    }

    fn child(&mut self, parent: &'s Setting, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        match parent.child(key.get_ref()) {
            Some(setting) => {
                let key_place = self.place(key.span());
                self.value(setting, value.get_ref(), value.span(), key_place);
            }
            None => {
                let name: &str = key.get_ref();
                let whole = if parent.key.is_empty() { name.to_string() } else { format!("{}.{name}", parent.key) };
                if !self.moved_below(&whole, value.get_ref(), key.span()) {
                    self.unknown(parent, name, &whole, key.span());
                }
            }
        }
    }

    /// Says which keys the settings of a table have now, if it is one from before: a design's group, which
    /// lies at the top now, or `design.page_table` as a table. False if nothing of it has moved.
    fn moved_below(&mut self, whole: &str, value: &DeValue<'_>, span: Range<usize>) -> bool {
        if let DeValue::Table(table) = value {
            let mut any = false;
            for (key, value) in in_order(table) {
                any |= self.moved_below(&format!("{whole}.{}", key.get_ref()), value.get_ref(), key.span());
            }
            if any {
                return true;
            }
        }
        let moved = new_key(whole).is_some();
        if moved {
            self.moved(whole, span);
        }
        moved
    }

    /// Reports a former key.
    fn moved(&mut self, whole: &str, span: Range<usize>) {
        let Some(now) = new_key(whole) else { return };
        let title = format!("the setting `{whole}` is called `{now}` now");
        let help = format!("write `{now}`; `ambulator explain {now}` shows its values");
        self.push(Problem::new(title).label("the key of an earlier version").help(help), span);
    }

    /// Reports that there is no setting `name` below `parent`; `whole` is the key as written.
    fn unknown(&mut self, parent: &Setting, name: &str, whole: &str, span: Range<usize>) {
        if self.layers.only_counts() {
            return;
        }
        if new_key(whole).is_some() {
            return self.moved(whole, span);
        }
        let title = format!("there is no setting `{}`", excerpt(whole));
        let help = match parent.nearest(name, self.layers.schema) {
            Some(nearest) => format!("the nearest setting is `{}`", nearest.key),
            None if parent.children().is_empty() => {
                format!("`{}` takes a value, {}, and has no settings below it", parent.key, parent.kind.name())
            }
            None => {
                let names: Vec<&str> = parent.children().iter().map(Setting::name).collect();
                let at = if parent.key.is_empty() { "a spec".to_string() } else { format!("`{}`", parent.key) };
                format!("{at} has: {}", names.join(", "))
            }
        };
        self.push(Problem::new(title).label("unknown setting").help(help), span);
    }

    fn value(&mut self, setting: &'s Setting, value: &DeValue<'_>, span: Range<usize>, key: Place) {
        if let Kind::Group(children) = &setting.kind {
            if let DeValue::Table(table) = value {
                for (key, value) in in_order(table) {
                    self.child(setting, key, value);
                }
                return;
            }
            let names: Vec<&str> = children.iter().map(Setting::name).collect();
            let problem = Problem::new(format!("`{}` is a group of settings, not {}", setting.key, found(value)))
                .label("a group is expected")
                .help(format!("set one of the settings below it: {}", names.join(", ")));
            return self.push(problem, span);
        }
        match convert(&setting.kind, &setting.unit, value) {
            Ok(value) => {
                let layer = self.layers.layers;
                self.layers.values.insert(setting.key.clone(), (value, key, layer));
            }
            Err(Mistake { what, label, help }) => {
                if self.moved_below(&setting.key, value, span.clone()) {
                    return;
                }
                let now = match value {
                    DeValue::String(text) => new_choice(&setting.key, text),
                    _ => None,
                };
                let help = now.map(|name| format!("it is called \"{name}\" now")).or(help);
                let problem = Problem { help, ..Problem::new(format!("`{}` {what}", setting.key)).label(label) };
                self.push(problem, span);
            }
        }
    }
}
