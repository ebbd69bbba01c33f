//! Former keys and names of settings, for the errors of old specs.

use crate::catalogue::catalogue;
use ambulator_sockets::Socket;

/// Renamed keys that belong to no design.
const MOVED: [(&str, &str); 7] = [
    ("design.page_table.kind", "design.page_table"),
    ("design.lookaside.kind", "design.lookaside"),
    ("design.speculation.kind", "design.speculation"),
    ("design.placement.kind", "design.placement"),
    ("design.front_side.kind", "design.front_side"),
    ("virtualization.host_page", "virtualization.hypervisor_page"),
    ("virtualization.host_table.kind", "virtualization.hypervisor_table"),
];

/// The current key of a setting whose former key is `old`.
pub(super) fn new_key(old: &str) -> Option<String> {
    if let Some((_, new)) = MOVED.iter().find(|(own, _)| *own == old) {
        return Some((*new).into());
    }
    // The hypervisor's table uses its design's settings, as the guest's does.
    let old = match old.strip_prefix("virtualization.host_table.") {
        Some(rest) => format!("design.page_table.{rest}"),
        None => old.into(),
    };
    let moved = |(was, now): &(&str, &str)| match was.strip_suffix('.') {
        None => (old == *was).then(|| (*now).to_owned()),
        Some(group) => {
            let rest = old.strip_prefix(group)?;
            let now = now.trim_end_matches('.');
            (rest.is_empty() || rest.starts_with('.')).then(|| format!("{now}{rest}"))
        }
    };
    catalogue().designs().iter().flat_map(|design| &design.formerly).find_map(moved)
}

/// The name of the design that the value `old` of this key formerly meant.
pub(super) fn new_choice(key: &str, old: &str) -> Option<&'static str> {
    let socket = Socket::ALL.into_iter().find(|socket| key == format!("design.{socket}"))?;
    let called = |fill: &ambulator_sockets::Fill| fill.socket == socket && fill.formerly == Some(old);
    catalogue().designs().iter().find(|design| design.fills.iter().any(called)).map(|design| design.name)
}
