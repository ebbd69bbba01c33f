//! Checks one TOML value against its setting.

use super::quantity::Suffixes;
use super::schema::{Choice, Kind};
use ambulator_base::{Range, edits, excerpt};
use serde_json::{Number, Value};
use toml::de::DeValue;

/// Why a value does not fit its setting.
pub(crate) struct Mistake {
    /// The part of the sentence after the key.
    pub(crate) what: String,
    /// A few words at the caret.
    pub(crate) label: String,
    /// A valid alternative.
    pub(crate) help: Option<String>,
}

impl Mistake {
    fn new(what: String, label: &str) -> Mistake {
        Mistake { what, label: label.into(), help: None }
    }
}

/// A value in words.
pub(crate) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text \"{}\"", excerpt(text)),
        DeValue::Integer(number) => format!("the integer {}", excerpt(&number.to_string())),
        DeValue::Float(number) => format!("the number {}", excerpt(&number.to_string())),
        DeValue::Boolean(flag) => format!("`{flag}`"),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// The value as JSON, if it is of `kind`; `unit` determines its suffixes.
pub(crate) fn convert(kind: &Kind, unit: &str, value: &DeValue<'_>) -> Result<Value, Mistake> {
    let wrong_type = || {
        let with_unit = if unit.is_empty() || matches!(kind, Kind::Choice(_) | Kind::Flag | Kind::Text) {
            String::new()
        } else {
            format!(" ({unit})")
        };
        let article = if matches!(kind, Kind::Integer { .. }) {
            "an "
        } else if matches!(kind, Kind::Float { .. } | Kind::List(_)) {
            "a "
        } else {
            ""
        };
        let what = format!("takes {article}{}{with_unit}, not {}", kind.name(), found(value));
        Mistake::new(what, "wrong type")
    };
    match (kind, value) {
        (Kind::Integer { least, greatest }, DeValue::Integer(number)) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            in_range(parsed.unwrap_or(i128::MAX), &number.to_string(), *least, *greatest, unit)
        }
        (Kind::Integer { least, greatest }, DeValue::String(text)) => match Suffixes::of_unit(unit).parse(text) {
            Ok(number) => in_range(i128::from(number), text, *least, *greatest, unit),
            Err(sentence) => Err(Mistake {
                help: Some(sentence),
                ..Mistake::new(
                    format!("takes an integer ({unit}), but \"{}\" is not one", excerpt(text)),
                    "not a valid number",
                )
            }),
        },
        (Kind::Float { .. }, DeValue::Float(number)) => real(number.as_str())
            .ok_or_else(|| Mistake::new(format!("must be finite, not {number}"), "not finite"))
            .and_then(|value| real_in_range(kind, value, unit)),
        (Kind::Float { .. }, DeValue::Integer(number)) if number.radix() == 10 => {
            real(number.as_str()).ok_or_else(wrong_type).and_then(|value| real_in_range(kind, value, unit))
        }
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Bool(*flag)),
        (Kind::Text, DeValue::String(text)) => Ok(Value::String(text.to_string())),
        (Kind::Choice(choices), DeValue::String(text)) => {
            if choices.iter().any(|choice| choice.name == *text) {
                return Ok(Value::String(text.to_string()));
            }
            let distance = |choice: &Choice| edits(text, &choice.name, (choice.name.len() / 3).max(1));
            let contains = |choice: &&Choice| text.len() > 1 && choice.name.contains(text.as_ref());
            let near = choices.iter().filter_map(|choice| Some((distance(choice)?, choice)));
            let nearest = choices.iter().find(contains).or_else(|| Some(near.min_by_key(|(distance, _)| *distance)?.1));
            let help = nearest.map(|choice| format!("did you mean \"{}\"?", choice.name));
            Err(Mistake {
                help,
                ..Mistake::new(
                    format!("is \"{}\"; it must be {}", excerpt(text), kind.name()),
                    "not one of the choices",
                )
            })
        }
        (Kind::List(of), DeValue::Array(items)) => items
            .iter()
            .map(|item| convert(of, unit, item.get_ref()))
            .collect::<Result<Vec<Value>, Mistake>>()
            .map(Value::Array),
        _ => Err(wrong_type()),
    }
}

fn in_range(number: i128, shown: &str, least: i128, greatest: i128, unit: &str) -> Result<Value, Mistake> {
    let range = Range::of_integers(least, greatest).words(unit).unwrap_or_default();
    let out = || Mistake::new(format!("is {}; it must be {range}", excerpt(shown)), "out of range");
    if !(least..=greatest).contains(&number) {
        return Err(out());
    }
    Number::from_i128(number).map(Value::Number).ok_or_else(out)
}

fn real_in_range(kind: &Kind, value: Value, unit: &str) -> Result<Value, Mistake> {
    match kind.range().filter(|range| !range.contains(&value)) {
        Some(range) => Err(Mistake::new(range.refusal(&value, unit), "out of range")),
        None => Ok(value),
    }
}

fn real(text: &str) -> Option<Value> {
    Number::from_f64(text.parse().ok()?).map(Value::Number)
}
