//! Presets that are joined with `+`, or named together as the bases of a file: whatever one asks for is
//! there, or it is an error.

use super::explain::show_value;
use super::layer::Layers;
use super::problem::{Place, Problem, SpecError};
use super::settings::{Spec, tree};
use super::unused::unused;
use crate::catalogue::catalogue;
use ambulator_sockets::Socket;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What one preset writes, by key.
struct Part {
    name: String,
    written: BTreeMap<String, (Value, Place)>,
}

impl Part {
    /// The groups of settings of the designs that it puts into sockets.
    fn groups(&self) -> BTreeSet<String> {
        let sockets = self.written.iter().filter(|(key, _)| key.starts_with("design."));
        let designs = sockets.filter_map(|(_, (value, _))| catalogue().find(value.as_str()?));
        designs.map(|design| design.group()).collect()
    }
}

/// The presets of a list so far.
pub(super) struct Joined {
    parts: Vec<Part>,
    /// What the layers below them have written.
    below: BTreeMap<String, Value>,
}

impl Joined {
    /// None yet, above `layers`.
    pub(super) fn above(layers: &Layers<'_>) -> Joined {
        let below = layers.written_above(0).map(|(key, value, _)| (key.to_owned(), value.clone()));
        Joined { parts: Vec::new(), below: below.collect() }
    }

    /// Adds the preset `name`, whose layers are those above the first `height`. If it contradicts one before
    /// it, that is a problem of `layers`.
    pub(super) fn add(&mut self, layers: &mut Layers<'_>, name: &str, height: usize) {
        let written: BTreeMap<String, (Value, Place)> = (layers.written_above(height))
            .map(|(key, value, place)| (key.to_owned(), (value.clone(), place.clone())))
            .collect();
        let part = Part { name: name.to_owned(), written };
        let found = self.parts.iter().find_map(|other| self.contradiction(other, &part));
        if let Some(problem) = found {
            layers.problem(problem);
        }
        self.parts.push(part);
    }

    /// The settings on which two presets differ, as a problem. A preset that puts a design into a socket
    /// asks for the design's defaults too; they count if the other one asks for the same design.
    fn contradiction(&self, first: &Part, second: &Part) -> Option<Problem> {
        let (groups, others) = (first.groups(), second.groups());
        let both: Vec<String> = groups.intersection(&others).map(|group| format!("{group}.")).collect();
        let keys: BTreeSet<&String> = first.written.keys().chain(second.written.keys()).collect();
        let default = |key: &str| tree().find(key).map(|setting| &setting.default);
        let asked = |part: &Part, key: &str| -> Option<Value> {
            let of_both = both.iter().any(|group| key.starts_with(group));
            let implied = || if of_both { self.below.get(key).or_else(|| default(key)) } else { None };
            part.written.get(key).map(|(value, _)| value).or_else(implied).cloned()
        };
        let differing: Vec<(&String, Value, Value)> = (keys.into_iter())
            .filter_map(|key| Some((key, asked(first, key)?, asked(second, key)?)))
            .filter(|(_, one, other)| one != other)
            .collect();
        // What a socket holds says most.
        let (key, one, other) =
            differing.iter().find(|(key, ..)| key.starts_with("design.")).or_else(|| differing.first())?;
        let shown =
            |value: &Value| tree().find(key).map_or_else(|| value.to_string(), |setting| show_value(setting, value));
        let more = match differing.len() {
            1 => String::new(),
            n => format!(" (and {} settings more)", n - 1),
        };
        let title = format!(
            "`{}` and `{}` exclude each other: `{key}` would be {} and {}{more}",
            first.name,
            second.name,
            shown(one),
            shown(other)
        );
        let (place, by) = match second.written.get(*key) {
            Some((_, place)) => (place, second),
            None => (&first.written.get(*key)?.1, first),
        };
        let socket = Socket::ALL.into_iter().any(|socket| **key == format!("design.{socket}"));
        let label = if socket { "fills the socket" } else { "sets it" };
        let problem = Problem::new(title).label(format!("`{}` {label}", by.name)).help(
            "remove one of them, or compare them: `--designs` takes several, separated by commas; a value of your own \
             belongs in `--set` or a file for `--spec`",
        );
        Some(Problem { place: Some(place.clone()), ..problem })
    }

    /// What they write: preset, key and place.
    pub(super) fn written(self) -> Vec<(String, String, Place)> {
        let mut all = Vec::new();
        for part in self.parts {
            all.extend(part.written.into_iter().map(|(key, (_, place))| (part.name.clone(), key, place)));
        }
        all
    }
}

/// Checks that every one of joined presets has an effect on a machine of `spec`; `joined` is what they write.
pub(super) fn without_effect(spec: &Spec, joined: &[(String, String, Place)]) -> Result<(), SpecError> {
    let mut problems: Vec<Problem> = Vec::new();
    for of_one in joined.chunk_by(|(one, ..), (other, ..)| one == other) {
        let why: Vec<Option<String>> = of_one.iter().map(|(_, key, _)| unused(spec, key)).collect();
        let Some((name, key, place)) = of_one.first().filter(|_| why.iter().all(Option::is_some)) else { continue };
        let because = why.into_iter().next().flatten().unwrap_or_default();
        let title = format!("`{name}` has no effect with the presets that it is joined with: {because}");
        let problem = Problem::new(title).label(format!("`{key}` is set here")).help("remove one of them");
        problems.push(Problem { place: Some(place.clone()), ..problem });
    }
    if problems.is_empty() { Ok(()) } else { Err(SpecError { problems, more: 0 }) }
}
