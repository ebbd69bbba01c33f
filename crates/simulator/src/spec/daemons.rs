//! Daemons: what the operating system does in the background whenever some cycles have passed.

use super::schema::Setting;
use super::settings::{Spec, tree};
use super::unused::unused;
use crate::catalogue::catalogue;
use std::sync::OnceLock;

/// Keys of the settings that say after how many cycles a daemon of this machine runs again; empty without
/// one. They are those of the kernel and of designs that are called a period, have cycles as their unit, and
/// have an effect here.
pub fn daemon_periods(spec: &Spec) -> Vec<&'static str> {
    static ALL: OnceLock<Vec<&'static Setting>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let of_designs: Vec<String> = catalogue().designs().iter().map(|design| design.group()).collect();
        let is_of_os = |group: &&Setting| group.key == "kernel" || of_designs.contains(&group.key);
        let leaves = tree().children().iter().filter(is_of_os).flat_map(Setting::leaves);
        leaves.filter(|setting| setting.unit == "cycles" && setting.name().ends_with("period")).collect()
    });
    let in_use = all.iter().filter(|setting| unused(spec, &setting.key).is_none());
    in_use.map(|setting| setting.key.as_str()).collect()
}
