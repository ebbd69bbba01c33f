//! Spelling suggestions for error messages.

use ambulator_base::nearest;

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
