//! Spelling suggestions for error messages.

/// The candidate most similar to `name`, if any is similar enough.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|c| (strsim::jaro_winkler(name, c), c))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, c)| c)
}

/// Appends the nearest valid key to serde's "unknown field `x`, expected one of `a`, `b`".
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
