//! The settings of a spec type as a tree, made from its JSON schema: the single description for checking,
//! explaining, showing and the reference.

use ambulator_base::Range;
use ambulator_base::edits;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// One allowed value of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its name in a spec.
    pub name: String,
    /// What it means; may be empty.
    pub meaning: String,
}

/// The values that a setting takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// No value: the settings below it.
    Group(Vec<Setting>),
    /// An integer in the range, both ends included.
    Integer {
        /// Minimum.
        least: i128,
        /// Maximum.
        greatest: i128,
    },
    /// A number in the range, both ends included.
    Float {
        /// Minimum; minus infinity if there is none.
        least: f64,
        /// Maximum; infinity if there is none.
        greatest: f64,
    },
    /// `true` or `false`.
    Flag,
    /// Free text.
    Text,
    /// One of these names.
    Choice(Vec<Choice>),
    /// A list of such values.
    List(Box<Kind>),
}

impl Kind {
    /// The range of a number; `None` for others.
    pub fn range(&self) -> Option<Range> {
        match self {
            Kind::Integer { least, greatest } => Some(Range::of_integers(*least, *greatest)),
            Kind::Float { least, greatest } => Some(Range::of_numbers(*least, *greatest)),
            Kind::List(of) => of.range(),
            _ => None,
        }
    }

    /// The kind in words: "integer", "one of ...".
    pub fn name(&self) -> String {
        match self {
            Kind::Group(_) => "group".into(),
            Kind::Integer { .. } => "integer".into(),
            Kind::Float { .. } => "number".into(),
            Kind::Flag => "true or false".into(),
            Kind::Text => "text".into(),
            Kind::Choice(choices) => {
                let names: Vec<String> = choices.iter().map(|choice| format!("\"{}\"", choice.name)).collect();
                format!("one of {}", names.join(", "))
            }
            Kind::List(of) => format!("list of {}", of.name()),
        }
    }
}

/// From when on a setting counts in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// The assembly of the machine.
    #[default]
    Begin,
    /// The first instruction that takes time: a machine that has been warmed without time does not depend on
    /// it.
    Time,
    /// The measured region: a machine that has been warmed does not depend on it.
    Region,
}

/// One key of the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Dotted key from the root; empty for the root itself.
    pub key: String,
    /// Its meaning, from the doc comment, on one line.
    pub meaning: String,
    /// Unit: bytes, cycles, entries, choice, flag, ...; empty if none is stated.
    pub unit: String,
    /// The origin of the default: a paper's table, or the reason for the choice.
    pub source: Option<String>,
    /// The built-in default.
    pub default: Value,
    /// Whether the setting can be left unset.
    pub optional: bool,
    /// The values that it takes.
    pub kind: Kind,
    /// From when on it counts. A setting without the attribute `x-since`, in a group without it, counts from
    /// the begin on.
    pub since: Since,
}

impl Setting {
    /// The tree of `T`, whose root is a group without a key.
    pub fn tree<T: JsonSchema + Serialize + Default>() -> Setting {
        let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default();
        let default = serde_json::to_value(T::default()).unwrap_or_default();
        Setting::below(String::new(), &schema, default)
    }

    /// The tree of a JSON schema, whose root has this key.
    pub fn below(key: String, schema: &Value, default: Value) -> Setting {
        let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
        read(key, schema, default, Since::Begin, &definitions)
    }

    /// Last part of the key.
    pub fn name(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or_default()
    }

    /// The settings right below a group; none for others.
    pub fn children(&self) -> &[Setting] {
        match &self.kind {
            Kind::Group(children) => children,
            _ => &[],
        }
    }

    /// The setting with this dotted key relative to this one.
    pub fn find(&self, key: &str) -> Option<&Setting> {
        key.split('.').try_fold(self, |at, name| at.child(name))
    }

    /// The setting of this name right below.
    pub fn child(&self, name: &str) -> Option<&Setting> {
        self.children().iter().find(|child| child.name() == name)
    }

    /// Every setting that takes a value, in the order of the types.
    pub fn leaves(&self) -> Vec<&Setting> {
        let mut found = Vec::new();
        self.visit(&mut |setting| {
            if !matches!(setting.kind, Kind::Group(_)) {
                found.push(setting);
            }
        });
        found
    }

    /// Calls `f` for this setting and everything below it, parents first.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Setting)) {
        f(self);
        for child in self.children() {
            child.visit(f);
        }
    }

    /// The setting nearest in spelling to `name`, which was not found below `self`: a child, or else the same
    /// or a similar name elsewhere in `root`.
    pub(crate) fn nearest<'a>(&'a self, name: &str, root: &'a Setting) -> Option<&'a Setting> {
        let most = (name.chars().count() / 3).max(1);
        let near = |candidate: &Setting| edits(name, candidate.name(), most);
        let siblings = self.children().iter().filter_map(|child| Some((near(child)?, child)));
        if let Some((_, found)) = siblings.min_by_key(|(distance, _)| *distance) {
            return Some(found);
        }
        let mut elsewhere: Option<(usize, &Setting)> = None;
        root.visit(&mut |setting| {
            if !setting.key.is_empty()
                && let Some(distance) = near(setting)
                && elsewhere.is_none_or(|(least, _)| distance < least)
            {
                elsewhere = Some((distance, setting));
            }
        });
        elsewhere.map(|(_, setting)| setting)
    }
}

/// Follows `$ref`, also through the wrappers of schemars.
fn resolve<'a>(schema: &'a Value, definitions: &'a Map<String, Value>) -> &'a Value {
    let mut at = schema;
    // A chain of references is at most as long as the number of definitions, unless it is a cycle.
    for _ in 0..=definitions.len() {
        let Some(name) = at.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/")) else {
            break;
        };
        let Some(next) = definitions.get(name) else {
            break;
        };
        at = next;
    }
    at
}

fn text<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    schema.get(key).and_then(Value::as_str)
}

/// A doc comment on one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An optional schema without null.
fn without_null<'a>(schema: &'a Value, definitions: &'a Map<String, Value>) -> (&'a Value, bool) {
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        let is_null = |of: &&Value| text(of, "type") == Some("null");
        if any.iter().any(|of| is_null(&of))
            && let Some(of) = any.iter().find(|of| !is_null(of))
        {
            return (resolve(of, definitions), true);
        }
    }
    let nullable =
        schema.get("type").and_then(Value::as_array).is_some_and(|types| types.iter().any(|of| of == "null"));
    (schema, nullable)
}

fn type_of(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

fn read(key: String, schema: &Value, default: Value, above: Since, definitions: &Map<String, Value>) -> Setting {
    let (target, optional) = without_null(resolve(schema, definitions), definitions);
    let attribute = |name: &str| text(schema, name).or_else(|| text(target, name));
    let meaning = attribute("description").map(one_line).unwrap_or_default();
    let since = match attribute("x-since") {
        Some("begin") => Since::Begin,
        Some("time") => Since::Time,
        Some("region") => Since::Region,
        _ => above,
    };
    let kind = kind_of(&key, target, &default, since, definitions);
    let unit = match (attribute("x-unit"), &kind) {
        (Some(unit), _) => unit.to_string(),
        (None, Kind::Group(_)) => "group".into(),
        (None, Kind::Flag) => "flag".into(),
        (None, Kind::Choice(_)) => "choice".into(),
        (None, Kind::Text) => "text".into(),
        (None, _) => String::new(),
    };
    let source = attribute("x-source").map(str::to_string);
    Setting { key, meaning, unit, source, default, optional, kind, since }
}

fn kind_of(key: &str, schema: &Value, default: &Value, since: Since, definitions: &Map<String, Value>) -> Kind {
    if let Some(choices) = choices(schema) {
        return Kind::Choice(choices);
    }
    match type_of(schema) {
        Some("object") if schema.get("properties").is_some() => {
            let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            let child = |name: &String| {
                if key.is_empty() { name.clone() } else { format!("{key}.{name}") }
            };
            // The fields are in the order of the default, which serde writes in the order of the struct.
            let mut names: Vec<&String> = properties.keys().collect();
            if let Some(fields) = default.as_object() {
                names.sort_by_key(|name| fields.keys().position(|field| field == *name).unwrap_or(usize::MAX));
            }
            let settings = names.into_iter().map(|name| {
                let value = default.get(name).cloned().unwrap_or_default();
                read(child(name), &properties[name], value, since, definitions)
            });
            Kind::Group(settings.collect())
        }
        Some("integer") => {
            let (least, greatest) = match text(schema, "format") {
                Some("uint8") => (0, i128::from(u8::MAX)),
                Some("uint16") => (0, i128::from(u16::MAX)),
                Some("uint32") => (0, i128::from(u32::MAX)),
                Some("int8") => (i128::from(i8::MIN), i128::from(i8::MAX)),
                Some("int16") => (i128::from(i16::MIN), i128::from(i16::MAX)),
                Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
                Some("int64" | "int") => (i128::from(i64::MIN), i128::from(i64::MAX)),
                _ => (0, i128::from(u64::MAX)),
            };
            let bound = |name: &str| schema.get(name).and_then(Value::as_number).and_then(|number| number.as_i128());
            Kind::Integer {
                least: bound("minimum").map_or(least, |bound| bound.max(least)),
                greatest: bound("maximum").map_or(greatest, |bound| bound.min(greatest)),
            }
        }
        Some("number") => {
            let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
            Kind::Float {
                least: bound("minimum").unwrap_or(f64::NEG_INFINITY),
                greatest: bound("maximum").unwrap_or(f64::INFINITY),
            }
        }
        Some("boolean") => Kind::Flag,
        Some("array") => {
            let item = schema.get("items").cloned().unwrap_or_default();
            Kind::List(Box::new(kind_of(key, resolve(&item, definitions), &Value::Null, since, definitions)))
        }
        _ => Kind::Text,
    }
}

/// The names of a unit-variant enum: `enum`, or `oneOf` with a `const` (documented variants) or an `enum` in
/// each.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let plain = |schema: &Value, meaning: String| -> Option<Vec<Choice>> {
        let names: Vec<&Value> = match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
            (Some(name), _) => vec![name],
            (None, Some(names)) => names.iter().collect(),
            (None, None) => return None,
        };
        let names = names.into_iter().filter_map(Value::as_str);
        Some(names.map(|name| Choice { name: name.into(), meaning: meaning.clone() }).collect())
    };
    if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
        let mut all = Vec::new();
        for variant in variants {
            all.extend(plain(variant, text(variant, "description").map(one_line).unwrap_or_default())?);
        }
        return Some(all);
    }
    plain(schema, String::new())
}
