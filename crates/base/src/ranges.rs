//! Ranges of settings, declared once beside them: `#[schemars(range(min = 1, max = 64))]`.

use crate::{Invalid, lock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The settings that are outside of the ranges which their type declares. `at` is their key; empty for the
/// root.
///
/// ```
/// use ambulator_base::out_of_range;
///
/// #[derive(Default, serde::Serialize, schemars::JsonSchema)]
/// struct WalkerSpec {
///     /// Page walks at a time.
///     #[schemars(range(min = 1, max = 64), extend("x-unit" = "count"))]
///     walkers: u32,
///     /// Cycles of a look-up.
///     #[schemars(range(max = 10_000), extend("x-unit" = "cycles"))]
///     latency: u64,
/// }
///
/// let wrong = out_of_range(&WalkerSpec { walkers: 65, latency: u64::MAX }, "mmu");
/// assert_eq!(wrong[0].to_string(), "`mmu.walkers` is 65; it must be from 1 to 64");
/// assert_eq!(wrong[1].to_string(), "`mmu.latency` is 18446744073709551615; it must be from 0 to 10000 cycles");
/// assert!(out_of_range(&WalkerSpec { walkers: 64, latency: 0 }, "mmu").is_empty());
/// ```
pub fn out_of_range<T: JsonSchema + Serialize + 'static>(settings: &T, at: &str) -> Vec<Invalid> {
    values_out_of_range(&schema_of::<T>(), &serde_json::to_value(settings).unwrap_or_default(), at)
}

/// The same for settings that have not been read yet: numbers outside of the ranges that a JSON schema
/// declares, be it because the setting's type has no such number.
pub fn values_out_of_range(schema: &Value, settings: &Value, at: &str) -> Vec<Invalid> {
    let mut wrong = Vec::new();
    let none = Map::new();
    let definitions = schema.get("$defs").and_then(Value::as_object).unwrap_or(&none);
    check(schema, definitions, settings, (at, ""), &mut wrong);
    wrong
}

/// The schema of a type; made once.
fn schema_of<T: JsonSchema + 'static>() -> Arc<Value> {
    static SCHEMAS: Mutex<Option<HashMap<TypeId, Arc<Value>>>> = Mutex::new(None);
    let mut schemas = lock(&SCHEMAS);
    let schema = || Arc::new(serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default());
    Arc::clone(schemas.get_or_insert_default().entry(TypeId::of::<T>()).or_insert_with(schema))
}

/// Follows `$ref`, also from an optional value.
fn resolve<'a>(schema: &'a Value, definitions: &'a Map<String, Value>) -> &'a Value {
    let of_reference = |schema: &'a Value| {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        definitions.get(name)
    };
    let variants = schema.get("anyOf").and_then(Value::as_array);
    let target = variants.and_then(|all| all.iter().find(|of| of.get("$ref").is_some())).unwrap_or(schema);
    of_reference(target).unwrap_or(target)
}

/// Checks a value at a key; `unit` is the unit of the list that it is in.
fn check(
    schema: &Value,
    definitions: &Map<String, Value>,
    value: &Value,
    (at, unit): (&str, &str),
    wrong: &mut Vec<Invalid>,
) {
    let target = resolve(schema, definitions);
    let unit = schema.get("x-unit").or_else(|| target.get("x-unit")).and_then(Value::as_str).unwrap_or(unit);
    if let (Some(properties), Some(values)) = (target.get("properties").and_then(Value::as_object), value.as_object()) {
        for (name, below) in values {
            let Some(schema) = properties.get(name) else { continue };
            let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            check(schema, definitions, below, (&key, ""), wrong);
        }
    } else if let (Some(of), Some(items)) = (target.get("items"), value.as_array()) {
        for (number, item) in items.iter().enumerate() {
            check(of, definitions, item, (&format!("{at}[{number}]"), unit), wrong);
        }
    } else if let Some(range) = Range::of(target)
        && (value.is_number() || value.is_null())
        && !range.contains(value)
    {
        wrong.push(Invalid::new(at, range.refusal(value, unit)));
    }
}

/// The range of a number in a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    least: Option<serde_json::Number>,
    most: Option<serde_json::Number>,
    /// Unset is a valid value.
    optional: bool,
}

impl Range {
    /// The range that the schema of a number declares; `None` for other schemas.
    pub fn of(schema: &Value) -> Option<Range> {
        let is = |name: &str| match schema.get("type") {
            Some(Value::String(own)) => own == name,
            Some(Value::Array(all)) => all.iter().any(|own| own == name),
            _ => false,
        };
        if !is("integer") && !is("number") {
            return None;
        }
        let bound = |name: &str| schema.get(name).and_then(Value::as_number).cloned();
        Some(Range { least: bound("minimum"), most: bound("maximum"), optional: is("null") })
    }

    /// The integers from `least` to `most`.
    pub fn of_integers(least: i128, most: i128) -> Range {
        let number = serde_json::Number::from_i128;
        Range { least: number(least), most: number(most), optional: false }
    }

    /// The numbers from `least` to `most`; an end that is not finite is open.
    pub fn of_numbers(least: f64, most: f64) -> Range {
        let number = serde_json::Number::from_f64;
        Range { least: number(least), most: number(most), optional: false }
    }

    /// Whether a value is a number in the range. What is not finite is none.
    pub fn contains(&self, value: &Value) -> bool {
        let Value::Number(number) = value else { return self.optional && value.is_null() };
        let order = |a: &serde_json::Number, b: &serde_json::Number| match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        };
        self.least.as_ref().is_none_or(|least| order(least, number).is_some_and(std::cmp::Ordering::is_le))
            && self.most.as_ref().is_none_or(|most| order(number, most).is_some_and(std::cmp::Ordering::is_le))
    }

    /// The range in words, if it has both ends: "from 1 to 64", with the unit of times and sizes.
    pub fn words(&self, unit: &str) -> Option<String> {
        let (least, most) = (self.least.as_ref()?, self.most.as_ref()?);
        let unit_behind = match unit {
            "bytes" => return Some(format!("from {} to {}", shown(least, unit), shown(most, unit))),
            "cycles" | "ns" | "DRAM clocks" | "MHz" | "MT/s" | "instructions" | "pages" => format!(" {unit}"),
            _ => String::new(),
        };
        Some(format!("from {least} to {most}{unit_behind}"))
    }

    /// The part of an error's sentence after the key.
    pub fn refusal(&self, value: &Value, unit: &str) -> String {
        let found = match value {
            Value::Number(number) => shown(number, unit),
            _ => return "is not a finite number".into(),
        };
        match (self.words(unit), &self.least, &self.most) {
            (Some(words), ..) => format!("is {found}; it must be {words}"),
            (None, Some(least), _) => format!("is {found}; it must be at least {}", shown(least, unit)),
            (None, None, Some(most)) => format!("is {found}; it must be at most {}", shown(most, unit)),
            (None, None, None) => format!("is {found}"),
        }
    }
}

fn shown(number: &serde_json::Number, unit: &str) -> String {
    match number.as_u64() {
        Some(bytes) if unit == "bytes" => show_size(bytes),
        _ => number.to_string(),
    }
}

/// Bytes as `2MiB`, exactly, in the largest unit that divides them.
pub fn show_size(bytes: u64) -> String {
    for (shift, suffix) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Part {
        #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio"))]
        share: f64,
    }

    #[derive(Serialize, JsonSchema)]
    struct Whole {
        #[schemars(inner(range(min = 4096, max = 1 << 30)), extend("x-unit" = "bytes"))]
        sizes: Vec<u64>,
        part: Part,
        #[schemars(range(min = 1, max = 8))]
        ways: Option<u32>,
        free: u64,
    }

    fn whole(share: f64, ways: Option<u32>) -> Whole {
        Whole { sizes: vec![4096], part: Part { share }, ways, free: u64::MAX }
    }

    fn sentences(of: &Whole) -> Vec<String> {
        out_of_range(of, "").iter().map(Invalid::to_string).collect()
    }

    #[test]
    fn both_ends_are_in_the_range_and_what_is_not_finite_is_not() {
        for share in [0.0, 1.0, 0.5] {
            assert!(sentences(&whole(share, None)).is_empty(), "{share}");
        }
        for share in [-f64::MIN_POSITIVE, 1.0 + f64::EPSILON, f64::NAN, f64::INFINITY] {
            assert_eq!(sentences(&whole(share, None)).len(), 1, "{share}");
        }
        assert_eq!(sentences(&whole(f64::NAN, None)), ["`part.share` is not a finite number"]);
        assert_eq!(sentences(&whole(2.0, None)), ["`part.share` is 2.0; it must be from 0.0 to 1.0"]);
    }

    #[test]
    fn groups_lists_and_optional_settings_are_checked() {
        assert_eq!(sentences(&whole(0.0, Some(9))), ["`ways` is 9; it must be from 1 to 8"]);
        assert!(sentences(&whole(0.0, Some(8))).is_empty());
        let listed = Whole { sizes: vec![4096, 1 << 31], ..whole(0.0, None) };
        assert_eq!(sentences(&listed), ["`sizes[1]` is 2GiB; it must be from 4KiB to 1GiB"]);
    }
}
