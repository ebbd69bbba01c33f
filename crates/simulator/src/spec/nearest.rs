//! How near two names are in spelling, for suggestions.

/// The number of edits from `name` to `candidate`, if there are at most `most`. A name that is too long or
/// too short for that is not read: texts of any length may stand where a name is expected.
pub(super) fn edits(name: &str, candidate: &str, most: usize) -> Option<usize> {
    let length = candidate.chars().count();
    let read = name.chars().take(length + most + 1).count();
    if read.abs_diff(length) > most {
        return None;
    }
    Some(strsim::damerau_levenshtein(name, candidate)).filter(|edits| *edits <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_far_as_they_matter() {
        for (name, candidate, edits_) in [("entires", "entries", 1), ("", "rob", 3), ("é", "e", 1), ("same", "same", 0)]
        {
            assert_eq!(edits(name, candidate, edits_), Some(edits_), "{name}");
            assert_eq!(edits(name, candidate, 100), Some(edits_), "{name}");
            assert_eq!(edits_.checked_sub(1).and_then(|most| edits(name, candidate, most)), None, "{name}");
        }
        // This would take minutes if the letters were compared.
        assert_eq!(edits(&"x".repeat(10 << 20), "entries", 1000), None);
    }
}
