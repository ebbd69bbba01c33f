//! An invalid setting.

use std::fmt;

/// An invalid setting and the reason.
///
/// Its `Display` form is one sentence that begins with the key: `` `mmu.walkers` is 65; it must be 1 to 64
/// ``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The dotted key of the invalid setting or group of settings, such as `mmu.l2_tlb.ways`.
    pub key: String,
    /// The rest of the sentence: what is wrong and what is valid.
    pub message: String,
    /// Keys of settings or groups that could change instead, such as the other end of a range.
    pub related: Vec<String>,
}

impl Invalid {
    /// An invalid setting. `message` continues a sentence that begins with the key, such as "is 65; it must
    /// be 1 to 64". A message that begins with a colon or a comma follows the key without a space.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Invalid {
        Invalid { key: key.into(), message: message.into(), related: Vec::new() }
    }

    /// Adds a setting or group that could change instead.
    #[must_use]
    pub fn and(mut self, key: impl Into<String>) -> Invalid {
        self.related.push(key.into());
        self
    }

    /// All keys concerned, the invalid one first.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.key).chain(&self.related).map(String::as_str)
    }

    /// The sentences of `all`, one per line.
    pub fn lines(all: &[Invalid]) -> String {
        let sentences: Vec<String> = all.iter().map(Invalid::to_string).collect();
        sentences.join("\n")
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.message.starts_with([':', ',']) { "" } else { " " };
        write!(f, "`{}`{space}{}", self.key, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_with_the_invalid_key() {
        let range = Invalid::new("a.least", "is 3 and `a.most` 2").and("a.most");
        assert_eq!(range.to_string(), "`a.least` is 3 and `a.most` 2");
        assert_eq!(range.keys().collect::<Vec<_>>(), ["a.least", "a.most"]);
        let colon = Invalid::new("a.ways", ": 3 ways do not divide 4 entries");
        assert_eq!(colon.to_string(), "`a.ways`: 3 ways do not divide 4 entries");
        assert_eq!(Invalid::lines(&[range, colon]).lines().count(), 2);
    }
}
