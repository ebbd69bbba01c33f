//! The right name next to a wrong one, for messages.

/// The candidate most like `name`, if any is like it at all.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::jaro_winkler(name, c), c))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}

/// Adds the nearest right key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_nearest_key(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field")
        && let Some(wrong) = quoted.next()
        && let Some(right) = nearest(wrong, quoted)
    {
        return format!("{message}; did you mean `{right}`?");
    }
    message.to_string()
}
