//! The settings on which the state of a machine depends that has been warmed: two runs with equal ones can
//! start from one checkpoint.

use super::schema::Since;
use super::{RunMode, Spec, tree};
use serde_json::{Map, Value};

impl Spec {
    /// Whether time is not simulated in the warm-up, or in its part that a checkpoint holds.
    pub fn warms_up_without_time(&self) -> bool {
        self.run.mode == RunMode::Functional || self.run.untimed_warmup() > 0
    }

    /// By dotted key: the settings that count before the measured region, in the order of the spec; with
    /// `timed` false, those that count before an instruction takes time. Settings that the tree does not
    /// know, of a program's own designs, count.
    pub fn settings_of_warmup(&self, timed: bool) -> Map<String, Value> {
        let mut found = Map::new();
        put("", &serde_json::to_value(self).unwrap_or_default(), timed, &mut found);
        found
    }
}

fn put(at: &str, value: &Value, timed: bool, found: &mut Map<String, Value>) {
    let setting = tree().find(at);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                put(&if at.is_empty() { name.clone() } else { format!("{at}.{name}") }, member, timed, found);
            }
        }
        _ => {
            let counts = match setting.map(|setting| setting.since) {
                Some(Since::Region) => false,
                Some(Since::Time) => timed,
                _ => true,
            };
            if counts {
                found.insert(at.to_owned(), value.clone());
            }
        }
    }
}
