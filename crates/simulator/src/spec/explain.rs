//! What a setting, a group of settings, a design or a counter means.

use super::layer::Layers;
use super::preset::{PresetKind, presets};
use super::problem::{Problem, SpecError};
use super::program::program_tree;
use super::quantity::{Suffixes, show_size};
use super::schema::{Choice, Kind, Setting};
use super::settings::tree;
use crate::catalogue::catalogue;
use ambulator_base::excerpt;
use ambulator_sockets::{Descriptor, Socket};
use serde_json::{Map, Value, json};
use std::fmt;

/// A counter, for [`explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// Dotted name as in results.
    pub name: String,
    /// Unit of its value.
    pub unit: String,
    /// One line: what it counts.
    pub meaning: String,
    /// Whether it depends on when things happen: functional mode has another value, or 0.
    pub timed: bool,
}

/// The value of a setting in a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetValue {
    /// Machine or design.
    pub kind: PresetKind,
    /// The preset.
    pub preset: &'static str,
    /// The value, as TOML.
    pub value: String,
}

/// What a design's descriptor says, with its settings and the presets that use it.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignInfo {
    /// Its name.
    pub name: &'static str,
    /// One line: what it is.
    pub about: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// The sockets it fills, each with one line about what it puts there.
    pub fills: Vec<(Socket, &'static str)>,
    /// Whether it must be in all of these sockets, or in none.
    pub together: bool,
    /// Why it cannot run in a virtual machine, if it cannot.
    pub native_only: Option<&'static str>,
    /// Its settings.
    pub settings: Vec<&'static Setting>,
    /// The design presets that name it.
    pub presets: Vec<&'static str>,
}

impl DesignInfo {
    fn of(design: &Descriptor) -> DesignInfo {
        let mut using = Vec::new();
        for fill in &design.fills {
            let named = preset_values(&format!("design.{}", fill.socket)).into_iter();
            using.extend(named.filter(|preset| preset.value.trim_matches('"') == design.name));
        }
        let mut presets: Vec<_> =
            using.iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.preset).collect();
        presets.sort_unstable();
        presets.dedup();
        DesignInfo {
            name: design.name,
            about: design.about,
            paper: design.paper,
            fills: design.fills.iter().map(|fill| (fill.socket, fill.about)).collect(),
            together: design.together,
            native_only: design.native_only,
            settings: tree().find(&design.group()).map(Setting::leaves).unwrap_or_default(),
            presets,
        }
    }
}

/// What [`explain`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
    /// A design.
    Design(DesignInfo),
    /// One setting.
    Setting {
        /// The setting.
        setting: &'static Setting,
        /// The presets that set it.
        presets: Vec<PresetValue>,
    },
    /// A group: the settings below it.
    Group {
        /// The group.
        group: &'static Setting,
        /// Every setting below it that takes a value.
        settings: Vec<&'static Setting>,
    },
    /// A counter of results.
    Counter(CounterInfo),
    /// A prefix of counter names: the counters below it.
    Counters {
        /// The prefix.
        prefix: String,
        /// The counters.
        counters: Vec<CounterInfo>,
    },
}

/// Explains a design's name, a setting's key, a group's key, a program's name or setting (`bfs.layout`), a
/// counter's name or a prefix of counters. An empty key explains all settings. A name that is both a design's
/// and a group's is the design's: its explanation lists the group.
///
/// # Errors
/// No such name: the error suggests the nearest.
pub fn explain(key: &str, counters: &[CounterInfo]) -> Result<Explanation, SpecError> {
    let root = tree();
    let key = key.trim().trim_end_matches(['.', '*']);
    if let Some(design) = catalogue().find(key) {
        return Ok(Explanation::Design(DesignInfo::of(design)));
    }
    let found = if key.is_empty() { Some(root) } else { root.find(key) };
    if let Some(setting) = found {
        return Ok(match setting.kind {
            Kind::Group(_) => Explanation::Group { group: setting, settings: setting.leaves() },
            _ => Explanation::Setting { setting, presets: preset_values(&setting.key) },
        });
    }
    if let Some(setting) = program_tree().find(key) {
        return Ok(match setting.kind {
            Kind::Group(_) => Explanation::Group { group: setting, settings: setting.leaves() },
            _ => Explanation::Setting { setting, presets: workload_values(&setting.key) },
        });
    }
    if let Some(counter) = counters.iter().find(|counter| counter.name == key) {
        return Ok(Explanation::Counter(counter.clone()));
    }
    let below: Vec<CounterInfo> = counters
        .iter()
        .filter(|counter| counter.name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
        .cloned()
        .collect();
    if !below.is_empty() {
        return Ok(Explanation::Counters { prefix: key.into(), counters: below });
    }
    let problem = Problem::new(format!("there is no setting, design or counter `{}`", excerpt(key)));
    Err(match nearest(key, root, counters) {
        Some(nearest) => problem.help(format!("the nearest is `{nearest}`")),
        None => problem.help("`ambulator explain` without a name lists all settings"),
    }
    .into())
}

/// The nearest name: by the first part that is wrong among settings, by the whole name among counters and
/// designs.
fn nearest(key: &str, root: &Setting, counters: &[CounterInfo]) -> Option<String> {
    let programs = program_tree().children().iter().map(Setting::name);
    let designs = catalogue().designs().iter().map(|design| design.name);
    let whole_name = if key.contains('.') {
        nearest_counter(&key.to_lowercase(), counters)
    } else {
        ambulator_base::nearest(key, designs.chain(programs))
    };
    let whole_name = whole_name.map(str::to_owned);
    let mut at = root;
    for part in key.split('.') {
        match at.child(part) {
            Some(child) => at = child,
            None => {
                return whole_name
                    .or_else(|| at.nearest(part, root).map(|setting| setting.key.clone()))
                    .or_else(|| nearest_program_setting(key));
            }
        }
    }
    whole_name
}

/// The counter whose name differs from the key in at most a quarter of its characters.
fn nearest_counter<'a>(key: &str, counters: &'a [CounterInfo]) -> Option<&'a str> {
    let names = counters.iter().map(|counter| counter.name.as_str());
    names
        .filter_map(|name| Some((ambulator_base::edits(key, name, (name.len() / 4).max(1))?, name)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The nearest setting of a program, if the key begins with a program's name or a similar one.
fn nearest_program_setting(key: &str) -> Option<String> {
    let mut at = program_tree();
    for part in key.split('.') {
        match at.child(part) {
            Some(child) => at = child,
            None => return at.nearest(part, at).map(|setting| setting.key.clone()),
        }
    }
    None
}

/// The values of a program's setting in workloads.
fn workload_values(key: &str) -> Vec<PresetValue> {
    let mut values = Vec::new();
    for preset in presets().iter().filter(|preset| preset.kind == PresetKind::Workload) {
        let Some(program) = program_tree().child(&preset.program) else { continue };
        let mut layers = Layers::new(program);
        layers.add_toml(&preset.source);
        let value = layers.written().find(|(written, _)| written == key);
        if let (Some((_, value)), Some(setting)) = (value, program_tree().find(key)) {
            values.push(PresetValue { kind: preset.kind, preset: preset.name, value: show_value(setting, &value) });
        }
    }
    values
}

/// The values of a setting in presets, each in its own text (not in its base's).
pub fn preset_values(key: &str) -> Vec<PresetValue> {
    let mut values = Vec::new();
    for preset in presets().iter().filter(|preset| preset.kind != PresetKind::Workload) {
        let mut layers = Layers::new(tree());
        layers.add_toml(&preset.source);
        let value = layers.written().find(|(written, _)| written == key);
        if let (Some((_, value)), Some(setting)) = (value, tree().find(key)) {
            values.push(PresetValue { kind: preset.kind, preset: preset.name, value: show_value(setting, &value) });
        }
    }
    values
}

/// A value as written in a spec; sizes with their suffix.
pub(crate) fn show_value(setting: &Setting, value: &Value) -> String {
    match value {
        Value::Null => "unset".into(),
        Value::Number(number) => match number.as_u64() {
            Some(bytes)
                if Suffixes::of_unit(&setting.unit) == Suffixes::Size
                    && bytes >= 1024
                    && bytes.is_multiple_of(1024) =>
            {
                format!("\"{}\"", show_size(bytes))
            }
            // TOML's integers are signed.
            Some(large) if large > i64::MAX as u64 => format!("\"{large}\""),
            Some(whole) => whole.to_string(),
            None => number
                .as_i64()
                .map_or_else(|| format!("{:?}", number.as_f64().unwrap_or(0.0)), |number| number.to_string()),
        },
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| show_value(setting, item)).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// The range of a setting in words, without its unit, which stands beside it; `None` if any number will do.
pub(crate) fn allowed_range(setting: &Setting) -> Option<String> {
    let unit = if setting.unit == "bytes" { "bytes" } else { "" };
    let range = setting.kind.range().filter(|_| setting.unit != "seed")?;
    Some(range.words(unit)?.trim_start_matches("from ").to_owned())
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    if value.is_empty() { Ok(()) } else { writeln!(f, "  {name:<9}{value}") }
}

fn choices(f: &mut fmt::Formatter<'_>, choices: &[Choice]) -> fmt::Result {
    for (at, choice) in choices.iter().enumerate() {
        let name = if at == 0 { "allowed" } else { "" };
        let meaning = if choice.meaning.is_empty() { String::new() } else { format!(": {}", choice.meaning) };
        writeln!(f, "  {name:<9}\"{}\"{meaning}", choice.name)?;
    }
    Ok(())
}

fn list_settings(f: &mut fmt::Formatter<'_>, settings: &[&Setting]) -> fmt::Result {
    let width = settings.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
    for setting in settings {
        let value = show_value(setting, &setting.default);
        let unit = match setting.unit.as_str() {
            "choice" | "flag" | "text" | "" => String::new(),
            unit => format!(" {unit}"),
        };
        writeln!(f, "  {:<width$}  {value}{unit}: {}", setting.key, setting.meaning)?;
    }
    Ok(())
}

impl fmt::Display for DesignInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (design)", self.name)?;
        line(f, "about", self.about)?;
        line(f, "paper", self.paper)?;
        for (at, (socket, about)) in self.fills.iter().enumerate() {
            let name = if at == 0 { "fills" } else { "" };
            line(f, name, &format!("design.{socket} = \"{}\": {about}", self.name))?;
        }
        if self.together {
            line(f, "together", "it must be in all of these sockets, or in none")?;
        }
        if let Some(why) = self.native_only {
            line(f, "native", &format!("it cannot run in a virtual machine: {why}"))?;
        }
        line(f, "presets", &self.presets.join(", "))?;
        if !self.settings.is_empty() {
            writeln!(f, "settings")?;
        }
        list_settings(f, &self.settings)
    }
}

fn settings_json(settings: &[&Setting]) -> Value {
    settings.iter().map(|setting| setting_json(setting)).collect()
}

fn setting_json(setting: &Setting) -> Value {
    let mut all = json!({
        "name": setting.key, "kind": "setting", "meaning": setting.meaning, "unit": setting.unit,
        "default": setting.default, "type": setting.kind.name(),
    });
    if let Some(range) = allowed_range(setting) {
        all["allowed"] = range.into();
    }
    if let Some(source) = &setting.source {
        all["source"] = source.as_str().into();
    }
    all
}

fn counter_json(counter: &CounterInfo) -> Value {
    json!({
        "name": counter.name, "kind": "counter", "meaning": counter.meaning, "unit": counter.unit,
        "timed": counter.timed,
    })
}

impl Explanation {
    /// As JSON: `name`, `kind`, `meaning` and what else is known.
    pub fn json(&self) -> Value {
        match self {
            Explanation::Design(design) => {
                let fills: Map<String, Value> =
                    design.fills.iter().map(|(socket, about)| (format!("design.{socket}"), json!(about))).collect();
                json!({
                    "name": design.name, "kind": "design", "meaning": design.about, "source": design.paper,
                    "fills": fills, "native_only": design.native_only, "presets": design.presets,
                    "settings": settings_json(&design.settings),
                })
            }
            Explanation::Setting { setting, presets } => {
                let mut all = setting_json(setting);
                let of = |value: &PresetValue| (format!("{} {}", value.kind.name(), value.preset), json!(value.value));
                all["presets"] = presets.iter().map(of).collect::<Map<_, _>>().into();
                all
            }
            Explanation::Group { group, settings } => json!({
                "name": group.key, "kind": "group of settings", "meaning": group.meaning,
                "settings": settings_json(settings),
            }),
            Explanation::Counter(counter) => counter_json(counter),
            Explanation::Counters { prefix, counters } => json!({
                "name": prefix, "kind": "group of counters",
                "counters": counters.iter().map(counter_json).collect::<Vec<_>>(),
            }),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Explanation::Design(design) => write!(f, "{design}"),
            Explanation::Setting { setting, presets } => {
                writeln!(f, "{}", setting.key)?;
                line(f, "meaning", &setting.meaning)?;
                line(f, "unit", &setting.unit)?;
                line(f, "default", &show_value(setting, &setting.default))?;
                match &setting.kind {
                    Kind::Choice(allowed) => choices(f, allowed)?,
                    kind => {
                        line(f, "type", &kind.name())?;
                        line(f, "allowed", &allowed_range(setting).unwrap_or_default())?;
                    }
                }
                line(f, "source", setting.source.as_deref().unwrap_or_default())?;
                for (at, value) in presets.iter().enumerate() {
                    let name = if at == 0 { "presets" } else { "" };
                    writeln!(f, "  {name:<9}{} {}: {}", value.kind.name(), value.preset, value.value)?;
                }
                Ok(())
            }
            Explanation::Group { group, settings } => {
                if !group.key.is_empty() {
                    writeln!(f, "{}", group.key)?;
                    line(f, "meaning", &group.meaning)?;
                }
                list_settings(f, settings)
            }
            Explanation::Counter(counter) => {
                writeln!(f, "{} (counter)", counter.name)?;
                line(f, "meaning", &counter.meaning)?;
                line(f, "unit", &counter.unit)?;
                let timed = "it depends on when things happen: functional mode has another value, or 0";
                line(f, "time", if counter.timed { timed } else { "" })
            }
            Explanation::Counters { prefix, counters } => {
                writeln!(f, "{prefix} (counters)")?;
                let width = counters.iter().map(|counter| counter.name.len()).max().unwrap_or(0);
                for counter in counters {
                    writeln!(f, "  {:<width$}  {}: {}", counter.name, counter.unit, counter.meaning)?;
                }
                Ok(())
            }
        }
    }
}
