//! Settings of designs: a type for each design, and all of them together as data.

use crate::Site;
use ambulator_base::Invalid;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A design's settings. Units, sources and meanings come from the fields' `x-unit`, `x-source` and doc comments,
/// defaults from `Default`.
pub trait Settings: Default + Serialize + DeserializeOwned + JsonSchema + 'static {
    /// What is wrong with the settings, whose group has the key `at`. Asked also when no socket holds the design.
    fn validate(&self, _at: &str) -> Vec<Invalid> {
        Vec::new()
    }

    /// What is wrong with them on this machine. Asked of designs in sockets, with settings that are right.
    fn validate_on(&self, _at: &str, _site: &Site) -> Vec<Invalid> {
        Vec::new()
    }
}

/// The settings of all designs: a group for each, by its key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DesignSettings(pub Map<String, Value>);

impl DesignSettings {
    /// The settings of the design whose group is `group`, or the defaults if the group is not there or not of the type.
    pub fn get<T: Settings>(&self, group: &str) -> T {
        self.0.get(group).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default()
    }

    /// Sets one value by its dotted key, the design's group first: `my_table.entries`.
    ///
    /// # Errors
    /// The key, when there is no such setting.
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
