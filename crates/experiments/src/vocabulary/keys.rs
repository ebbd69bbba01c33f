//! The keys of a JSON document and what they mean, from the types that are written: a field's doc comment is
//! its meaning.

use super::term::{Term, TermKind};
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// Every key of the documents of type `T`, with its path and `place`, where users meet them; and the values
/// of keys that have few.
pub fn keys<T: JsonSchema>(place: &str) -> Vec<Term> {
    let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default();
    let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut reader = Reader { definitions: &definitions, place, open: Vec::new(), found: Vec::new() };
    reader.read(&schema, "");
    reader.found
}

struct Reader<'s> {
    definitions: &'s Map<String, Value>,
    place: &'s str,
    /// Names of the types that are being read: a step has steps.
    open: Vec<String>,
    found: Vec<Term>,
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A doc comment on one line, its links as plain names.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`")
}

impl<'s> Reader<'s> {
    /// Reads what is below a schema; `path` leads to it.
    fn read(&mut self, schema: &'s Value, path: &str) {
        if let Some(name) = text(schema, "$ref").strip_prefix("#/$defs/") {
            if self.open.iter().any(|open| open == name) {
                return;
            }
            if let Some(definition) = self.definitions.get(name) {
                self.open.push(name.to_owned());
                self.read(definition, path);
                self.open.pop();
            }
            return;
        }
        for variants in ["anyOf", "oneOf", "allOf"] {
            for variant in schema.get(variants).and_then(Value::as_array).into_iter().flatten() {
                self.value(variant, path);
                self.read(variant, path);
            }
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.key(name, property, schema, path);
        }
        if let Some(items) = schema.get("items") {
            self.read(items, &format!("{path}[]"));
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            self.read(values, &format!("{path}.NAME"));
        }
    }

    /// A key of the object that `of` describes.
    fn key(&mut self, name: &str, property: &'s Value, of: &'s Value, path: &str) {
        let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let holds_names = property.get("additionalProperties").is_some_and(|values| *values != Value::Bool(false))
            || property.as_bool() == Some(true)
            || (property.get("type").is_none() && property.get("$ref").is_none() && property.get("anyOf").is_none());
        // The key that tells the variants of an enumeration apart has no doc comment of its own.
        let whole =
            self.open.last().and_then(|name| self.definitions.get(name)).map_or("", |of| text(of, "description"));
        let is_tag = property.get("const").is_some();
        let own = self.description(property);
        let meaning = [if is_tag { whole } else { own }, text(of, "description"), whole];
        let meaning = meaning.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        if let Some(tag) = property.get("const").and_then(Value::as_str) {
            self.found.push(Term {
                of: format!("value of `{name}`"),
                places: vec![format!("{}: {full}", self.place)],
                ..Term::new(TermKind::Value, tag, one_line(text(of, "description")))
            });
        }
        self.found.push(Term {
            also: if full == name { Vec::new() } else { vec![full.clone()] },
            places: vec![format!("{}: {full}", self.place)],
            holds_names,
            ..Term::new(TermKind::Key, name, one_line(meaning))
        });
        self.read(property, &full);
    }

    /// A key's own description, or that of its type.
    fn description(&self, schema: &'s Value) -> &'s str {
        let own = text(schema, "description");
        if !own.is_empty() {
            return own;
        }
        let name = text(schema, "$ref").strip_prefix("#/$defs/");
        name.and_then(|name| self.definitions.get(name)).map_or("", |definition| text(definition, "description"))
    }

    /// A value of an enumeration.
    fn value(&mut self, variant: &Value, path: &str) {
        let Some(name) = variant.get("const").and_then(Value::as_str) else { return };
        let key = path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
        self.found.push(Term {
            of: format!("value of `{key}`"),
            places: vec![format!("{}: {path}", self.place)],
            ..Term::new(TermKind::Value, name, one_line(text(variant, "description")))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn keys_have_the_meanings_of_the_fields_and_the_paths_to_them() {
        let keys = keys::<Document>("compare --json");
        let of = |path: &str| keys.iter().find(|key| key.names().any(|name| name == path)).unwrap();
        assert_eq!(of("runs[].ipc").meaning, "Instructions per cycle, all cores together; 0 in functional mode.");
        assert_eq!(of("runs[].ipc").places, ["compare --json: runs[].ipc"]);
        assert!(of("runs[].counters").holds_names && !of("runs[].cores").holds_names && of("runs[].spec").holds_names);
        assert!(of("runs[].cores[].ipc").meaning.starts_with("Instructions per cycle;"));
        assert!(of("runs[].histograms.NAME.p99").meaning.starts_with("99th percentile"));
        let done = keys.iter().find(|key| key.name == "interrupted").unwrap();
        assert_eq!((done.kind, done.of.as_str()), (TermKind::Value, "value of `status`"));
        for key in &keys {
            assert!(!key.meaning.is_empty(), "{key:?} has no doc comment");
        }
    }
}
