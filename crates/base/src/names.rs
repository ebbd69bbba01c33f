//! Names that users give and types of names that they type: which are valid, and which one was meant.

use std::borrow::Cow;
use std::fmt;

/// Why a user's own design, program or preset cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError {
    /// What was to be registered, as a noun: `"design"`, `"program"`, `"machine preset"`.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub reason: RegisterReason,
}

/// What is wrong with a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterReason {
    /// The name would not work on a command line or as a key of settings.
    Malformed,
    /// The name already has a meaning, which this says.
    Reserved(&'static str),
    /// Another one has the name.
    Taken,
    /// All of them have been listed, explained or used already: earlier uses would have missed this one.
    TooLate,
    /// It lacks what this sentence asks for.
    Incomplete(&'static str),
}

impl RegisterError {
    /// The error of registering a `what` of that name.
    pub fn new(what: &'static str, name: impl Into<String>, reason: RegisterReason) -> RegisterError {
        RegisterError { what, name: name.into(), reason }
    }

    /// Checks that a name consists of lower-case letters and digits, in words joined with `-`, a letter
    /// first.
    ///
    /// # Errors
    /// [`RegisterReason::Malformed`].
    pub fn check(what: &'static str, name: &str) -> Result<(), RegisterError> {
        RegisterError::check_with(what, name, |_| false)
    }

    /// [`RegisterError::check`] for names whose words may have other characters, too.
    ///
    /// # Errors
    /// [`RegisterReason::Malformed`].
    pub fn check_with(what: &'static str, name: &str, also: impl Fn(char) -> bool) -> Result<(), RegisterError> {
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || also(c))
        };
        if name.starts_with(|first: char| first.is_ascii_lowercase()) && name.split('-').all(is_word) {
            Ok(())
        } else {
            Err(RegisterError::new(what, name, RegisterReason::Malformed))
        }
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegisterError { what, name, reason } = self;
        match reason {
            RegisterReason::Malformed => write!(
                f,
                "`{name}` is not a valid name of a {what}: use lower-case letters and digits, a letter first, and \
                 join words with `-`, such as `my-own`"
            ),
            RegisterReason::Reserved(meaning) => {
                write!(f, "`{name}` is not a valid name of a {what}: it is {meaning}; choose another name")
            }
            RegisterReason::Taken => write!(f, "a {what} named `{name}` exists already: choose another name"),
            RegisterReason::TooLate => write!(
                f,
                "the {what} `{name}` is registered too late: register your own before anything is listed, explained \
                 or run"
            ),
            RegisterReason::Incomplete(lacks) => write!(f, "the {what} `{name}` {lacks}"),
        }
    }
}

impl std::error::Error for RegisterError {}

/// The number of edits from `name` to `candidate`, in any letter case, if there are at most `most`; an exchange
/// of neighbours is one edit. A name that is too long or too short for that is not read: texts of any length
/// may stand where a name is expected.
///
/// ```
/// use ambulator_base::edits;
/// assert_eq!(edits("Entires", "entries", 2), Some(1));
/// assert_eq!(edits("rob", "entries", 2), None);
/// ```
pub fn edits(name: &str, candidate: &str, most: usize) -> Option<usize> {
    let length = candidate.chars().count();
    let read = name.chars().take(length + most + 1).count();
    if read.abs_diff(length) > most {
        return None;
    }
    if letters_apart(name, candidate) > most {
        return None;
    }
    Some(strsim::damerau_levenshtein(&lower_case(name), &lower_case(candidate))).filter(|edits| *edits <= most)
}

/// A lower bound of [`edits`] that costs little, for ASCII: an edit takes at most one letter away and adds at most
/// one, and an exchange of neighbours does neither.
fn letters_apart(name: &str, candidate: &str) -> usize {
    if !name.is_ascii() || !candidate.is_ascii() {
        return 0;
    }
    let mut counts = [0i32; 128];
    name.bytes().for_each(|byte| counts[usize::from(byte.to_ascii_lowercase()) % 128] += 1);
    candidate.bytes().for_each(|byte| counts[usize::from(byte.to_ascii_lowercase()) % 128] -= 1);
    let more: i32 = counts.iter().map(|count| (*count).max(0)).sum();
    let less: i32 = counts.iter().map(|count| (-*count).max(0)).sum();
    more.max(less) as usize
}

/// The candidate that `name` was probably meant to be: the same in other letter case, one that differs in at
/// most a third of its characters (an exchange of neighbours counts as one), or the only one that begins with
/// `name`. Of several as near, the first.
///
/// ```
/// use ambulator_base::nearest;
/// let programs = ["gups", "pagerank", "stream"];
/// assert_eq!(nearest("GUPS", programs), Some("gups"));
/// assert_eq!(nearest("gpus", programs), Some("gups"));
/// assert_eq!(nearest("page", programs), Some("pagerank"));
/// assert_eq!(nearest("quicksort", programs), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() {
        return None;
    }
    let mut near: Option<(usize, &str)> = None;
    let mut beginnings: Vec<&str> = Vec::new();
    for candidate in candidates {
        let limit = (candidate.chars().count() / 3).max(1);
        if let Some(distance) = edits(name, candidate, limit)
            && near.is_none_or(|(least, _)| distance < least)
        {
            near = Some((distance, candidate));
        }
        let beginning = candidate.get(..name.len());
        if name.len() > 2 && beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(name)) {
            beginnings.push(candidate);
        }
    }
    match (near, beginnings.as_slice()) {
        (Some((_, found)), _) => Some(found),
        (None, [only]) => Some(only),
        _ => None,
    }
}

/// Candidates like `name`, the most alike first, at most `most` of them: those that differ in at most a third of
/// their characters, then those with its words, then those with words like its words.
///
/// ```
/// use ambulator_base::nearest_names;
/// let names = ["page walks", "mmu.walk_cycles", "cycles a walk", "footprint"];
/// assert_eq!(nearest_names("pagewalks", names, 2), ["page walks"]);
/// assert_eq!(nearest_names("walk cycles", names, 2), ["mmu.walk_cycles", "cycles a walk"]);
/// assert_eq!(nearest_names("fotprint", names, 2), ["footprint"]);
/// ```
pub fn nearest_names<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    /// No name is longer than this.
    const LONGEST: usize = 200;
    if name.trim().is_empty() || name.len() > LONGEST {
        return Vec::new();
    }
    let asked = words(name);
    let mut found: Vec<(f64, &str)> =
        candidates.into_iter().filter_map(|candidate| Some((distance(name, &asked, candidate)?, candidate))).collect();
    found.sort_by(|(one, a), (other, b)| one.total_cmp(other).then(a.len().cmp(&b.len())).then(a.cmp(b)));
    let mut names: Vec<&str> = Vec::new();
    for (_, candidate) in found {
        if names.len() < most && !names.iter().any(|known| known.eq_ignore_ascii_case(candidate)) {
            names.push(candidate);
        }
    }
    names
}

/// How far a candidate is from a name of these words: below 1 by its letters, below 2 if it has the words, below 3
/// if it has words like them, else `None`.
fn distance(name: &str, asked: &[String], candidate: &str) -> Option<f64> {
    let length = candidate.chars().count().max(1);
    if let Some(edits) = edits(name, candidate, (length / 3).max(1)).filter(|edits| *edits < length) {
        return Some(edits as f64 / length as f64);
    }
    let own = words(candidate);
    let near = |word: &String| {
        let by_edits = own.iter().filter_map(|of| edits(word, of, of.chars().count() / 4)).min();
        own.iter().any(|of| of.starts_with(word.as_str())).then_some(0).or(by_edits)
    };
    let edits: usize = asked.iter().map(near).sum::<Option<usize>>()?;
    let others = own.len().saturating_sub(asked.len()) as f64 / (own.len() + 1) as f64;
    (!asked.is_empty()).then_some(if edits == 0 { 1.0 + others } else { 2.0 + others })
}

/// The words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Maximum number of separators that are tried as parts of one path, so that a long list takes no time.
const MOST_PARTS: usize = 32;

/// The names of a list, between `separator`s. The path of a file may contain the separator: of the names that
/// begin at a place, the longest that `exists` is one name, unless each of its parts is `known` as a name.
///
/// ```
/// use ambulator_base::split_names;
/// let file = |name: &str| name == "a,b.amb";
/// assert_eq!(split_names("gups, a,b.amb", ',', |name| name == "gups", file), ["gups", "a,b.amb"]);
/// assert_eq!(split_names("gups,bfs", ',', |_| true, |_| true), ["gups", "bfs"]);
/// ```
pub fn split_names(
    list: &str,
    separator: char,
    known: impl Fn(&str) -> bool,
    exists: impl Fn(&str) -> bool,
) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = Some(list);
    while let Some(list) = rest {
        let ends = list.match_indices(separator).map(|(at, _)| at).chain([list.len()]).take(MOST_PARTS);
        let first = list.find(separator).unwrap_or(list.len());
        let is_file = |end: &usize| {
            let name = list[..*end].trim();
            *end > first && exists(name) && !name.split(separator).all(|part| known(part.trim()))
        };
        let end = ends.filter(is_file).last().unwrap_or(first);
        names.push(list[..end].trim());
        rest = list.get(end + separator.len_utf8()..);
    }
    names
}

fn lower_case(name: &str) -> Cow<'_, str> {
    if name.chars().any(char::is_uppercase) { Cow::Owned(name.to_lowercase()) } else { Cow::Borrowed(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_lower_case_words_joined_with_hyphens() {
        for name in ["", "Table", "my_table", "my table", "-table", "table-", "my--table", "2nd-table", "täbel", "a.b"]
        {
            let error = RegisterError::check("design", name).unwrap_err();
            assert_eq!(error, RegisterError::new("design", name, RegisterReason::Malformed));
            assert!(error.to_string().starts_with(&format!("`{name}` is not a valid name of a design: ")), "{error}");
        }
        for name in ["t", "table2", "my-other-table", "t-2"] {
            assert_eq!(RegisterError::check("design", name), Ok(()), "{name}");
        }
        assert_eq!(RegisterError::check_with("workload", "mcf-1.7g", |c| c == '.'), Ok(()));
    }

    #[test]
    fn edits_are_counted_as_far_as_they_matter() {
        for (name, candidate, number) in [("entires", "entries", 1), ("", "rob", 3), ("é", "e", 1), ("Same", "same", 0)]
        {
            assert_eq!(edits(name, candidate, number), Some(number), "{name}");
            assert_eq!(edits(name, candidate, 100), Some(number), "{name}");
            assert_eq!(number.checked_sub(1).and_then(|most| edits(name, candidate, most)), None, "{name}");
        }
        // This would take minutes if the letters were compared.
        assert_eq!(edits(&"x".repeat(10 << 20), "entries", 1000), None);
    }

    #[test]
    fn the_nearest_name_ignores_case_and_allows_slips() {
        let names = ["run", "reproduce", "reference", "gups", "gups-8g", "utopia", "utopia-4k", "lvm-table1"];
        for (name, meant) in [
            ("rnu", "run"),
            ("RUN", "run"),
            ("GUPS", "gups"),
            ("gups-8G", "gups-8g"),
            ("utopa", "utopia"),
            ("Utopia_4K", "utopia-4k"),
            ("lvm_tabel1", "lvm-table1"),
            ("repro", "reproduce"),
        ] {
            assert_eq!(nearest(name, names), Some(meant), "{name}");
        }
        for name in ["", "re", "quantum-tunnelling", "ÄÖÜ", &"run".repeat(100_000)] {
            assert_eq!(nearest(name, names), None, "{name:.20}");
        }
    }
}
