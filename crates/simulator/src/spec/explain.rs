//! Explains a setting, a group of settings or a counter.

use super::layer::Layers;
use super::preset::{PresetKind, presets};
use super::problem::{Problem, SpecError};
use super::program::program_tree;
use super::quantity::{Suffixes, show_size};
use super::schema::{Choice, Kind, Setting};
use super::settings::tree;
use serde_json::Value;
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

/// The result of [`explain`].
#[derive(Clone, Debug, PartialEq)]
pub enum Explanation {
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

/// Explains a setting's key, a group's key, a program's name or setting (`bfs.layout`), a counter's name or a
/// prefix of counters. An empty key explains all settings.
///
/// # Errors
/// If there is no such key or counter: the nearest one.
pub fn explain(key: &str, counters: &[CounterInfo]) -> Result<Explanation, SpecError> {
    let root = tree();
    let key = key.trim().trim_end_matches(['.', '*']);
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
    let problem = Problem::new(format!("there is no setting or counter `{key}`"));
    Err(match nearest(key, root, counters) {
        Some(nearest) => problem.help(format!("the nearest is `{nearest}`")),
        None => problem.help("`ambulator explain` without a name lists all settings"),
    }
    .into())
}

/// The nearest name: among settings by the first part that is wrong, among counters by the whole name.
fn nearest(key: &str, root: &Setting, counters: &[CounterInfo]) -> Option<String> {
    let counter = counters
        .iter()
        .map(|counter| (strsim::damerau_levenshtein(key, &counter.name), &counter.name))
        .filter(|(distance, name)| *distance <= (name.len() / 4).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.clone());
    let mut at = root;
    for part in key.split('.') {
        match at.child(part) {
            Some(child) => at = child,
            None => {
                return counter
                    .or_else(|| at.nearest(part, root).map(|setting| setting.key.clone()))
                    .or_else(|| nearest_program_setting(key));
            }
        }
    }
    counter
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

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Explanation::Setting { setting, presets } => {
                writeln!(f, "{}", setting.key)?;
                line(f, "meaning", &setting.meaning)?;
                line(f, "unit", &setting.unit)?;
                line(f, "default", &show_value(setting, &setting.default))?;
                match &setting.kind {
                    Kind::Choice(allowed) => choices(f, allowed)?,
                    Kind::Integer { least, greatest } if *greatest < i128::from(u32::MAX) || *least > 0 => {
                        line(f, "allowed", &format!("{least} to {greatest}"))?;
                    }
                    kind => line(f, "type", &kind.name())?,
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
                let width = settings.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
                for setting in settings {
                    let value = show_value(setting, &setting.default);
                    let unit = if ["choice", "flag", "text", ""].contains(&setting.unit.as_str()) {
                        String::new()
                    } else {
                        format!(" {}", setting.unit)
                    };
                    writeln!(f, "  {:<width$}  {value}{unit}: {}", setting.key, setting.meaning)?;
                }
                Ok(())
            }
            Explanation::Counter(counter) => {
                writeln!(f, "{} (counter)", counter.name)?;
                line(f, "meaning", &counter.meaning)?;
                line(f, "unit", &counter.unit)
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
