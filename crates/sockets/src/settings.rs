//! Settings of designs: one type for each design, and the settings of all designs as JSON.

use crate::Site;
use ambulator_base::{Invalid, out_of_range};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings of a design. Units, sources and meanings come from the `x-unit`, `x-source` and doc comments
/// of the fields, ranges from `range(...)`, defaults from `Default`.
pub trait Settings: Default + Serialize + DeserializeOwned + JsonSchema + 'static {
    /// The errors in settings that are all in the ranges which their fields declare
    /// (`#[schemars(range(...))]`); their group has the key `at`. Also called when no socket holds the design.
    fn validate(&self, _at: &str) -> Vec<Invalid> {
        Vec::new()
    }

    /// The settings outside of their ranges; if there are none, the errors of [`Settings::validate`].
    fn invalid(&self, at: &str) -> Vec<Invalid> {
        let wrong = out_of_range(self, at);
        if wrong.is_empty() { self.validate(at) } else { wrong }
    }

    /// The errors in the settings on this machine. Called only for designs in sockets, with settings that
    /// pass [`Settings::validate`].
    fn validate_on(&self, _at: &str, _site: &Site) -> Vec<Invalid> {
        Vec::new()
    }
}

/// The settings of all designs: one group for each, by its key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DesignSettings(pub Map<String, Value>);

impl DesignSettings {
    /// The settings in `group`, or the defaults if the group is missing or not of type `T`.
    pub fn get<T: Settings>(&self, group: &str) -> T {
        self.0.get(group).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default()
    }

    /// Sets one value by its dotted key, the design's group first: `my_table.entries`.
    ///
    /// # Errors
    /// The key, if there is no such setting.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<(), String> {
        let (group, rest) = key.split_once('.').ok_or_else(|| key.to_owned())?;
        let within = self.0.get_mut(group).and_then(|settings| {
            let pointer = format!("/{}", rest.replace('.', "/"));
            settings.pointer_mut(&pointer)
        });
        *within.ok_or_else(|| key.to_owned())? = value.into();
        Ok(())
    }

    /// Replaces the settings of a group.
    pub fn put<T: Settings>(&mut self, group: &str, settings: &T) {
        self.0.insert(group.into(), serde_json::to_value(settings).unwrap_or_default());
    }
}
