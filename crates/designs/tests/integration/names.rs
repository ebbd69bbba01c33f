//! No design's name in the crates that carry all designs: what they do is in general terms.
//!
//! Exceptions: where a number or a figure comes from (`x-source`, "LVM Table 1", "Utopia Sec. 5.2"), tests,
//! the preset that is the default machine, and as words in prose "radix", "ideal", "hashed" and "flattened".

use ambulator_designs::catalogue;
use std::path::{Path, PathBuf};

/// The crates below designs.
const CRATES: [&str; 9] = ["base", "memory", "hardware", "mmu", "os", "simulator", "experiments", "report", "sockets"];
/// What the papers call systems and their parts, next to the catalogue's names; as lower-case words.
const PAPERS: [&[&str]; 9] = [
    &["me", "hpt"],
    &["mehpt"],
    &["pom", "tlb"],
    &["spectlb"],
    &["rest", "seg"],
    &["rest", "segs"],
    &["flex", "seg"],
    &["range", "tlb"],
    &["tiered", "hash"],
];
/// Names that are words of English, or of the field, too: allowed in comments, not in code.
const WORDS: [&str; 4] = ["radix", "ideal", "hashed", "flattened"];
/// Identifiers and texts of code that have a design's name and mean no design.
const MEANT_OTHERWISE: [&str; 5] = ["IdealShadow", "ideal-shadow", "lvm-table1", "from_str_radix", ".radix()"];

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            files(&path, all);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

/// The words of a text, in lower case: what is joined by `_`, `-` or capitals is taken apart.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric() {
            words.last_mut().unwrap().push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The text without citations: a name (and "'s") before "Table 1", "Sec. 3", "section III", "Fig. 17".
fn without_citations(text: &str) -> String {
    let parts: Vec<&str> = text.split(' ').collect();
    let is_place = |part: &str| {
        let part = part.trim_start_matches('(').to_lowercase();
        ["table", "tables", "sec.", "secs.", "section", "sections", "fig.", "figs.", "figure"].contains(&part.as_str())
    };
    let numbered = |part: &str| part.starts_with(|c: char| c.is_ascii_digit() || "IVX".contains(c));
    let cited = |at: usize| {
        parts.get(at + 1).is_some_and(|part| is_place(part)) && parts.get(at + 2).is_some_and(|part| numbered(part))
    };
    let kept: Vec<&str> = (0..parts.len()).filter(|at| !cited(*at)).map(|at| parts[at]).collect();
    kept.join(" ")
}

fn contains(words: &[String], name: &[String]) -> bool {
    words.windows(name.len()).any(|window| window == name)
}

/// The designs' names in a line.
fn named(line: &str, names: &[Vec<String>]) -> Vec<String> {
    if line.contains("x-source") {
        return Vec::new();
    }
    let mut line = line.to_owned();
    for other in MEANT_OTHERWISE {
        line = line.replace(other, "");
    }
    let (code, comment) = line.split_once("//").unwrap_or((&line, ""));
    // In code a name is one identifier, or one word of a text.
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let code: Vec<Vec<String>> = code.split(|c| !is_part(c)).map(words).collect();
    let comment = words(&without_citations(comment));
    let is_word = |name: &[String]| name.len() == 1 && WORDS.contains(&name[0].as_str());
    let in_code = |name: &[String]| code.iter().any(|part| contains(part, name));
    let found = names.iter().filter(|name| in_code(name) || !is_word(name) && contains(&comment, name));
    found.map(|name| name.join("-")).collect()
}

fn names() -> Vec<Vec<String>> {
    let papers = PAPERS.iter().map(|name| name.iter().map(|word| (*word).to_owned()).collect());
    catalogue().designs().iter().map(|design| words(design.name)).chain(papers).collect()
}

#[test]
fn names_are_found_however_they_are_written_and_sources_are_no_names() {
    let names = names();
    for line in [
        "let table = LvmTable::new(spec);",
        "    me_hpt: MeHptSpec,",
        "if name == \"radix\" {",
        "// as Utopia does",
        "/// A direct segment in registers.",
        "use ambulator_designs::pom_tlb;",
        "    RangeTlb,",
        "fn is_ideal() -> bool {",
    ] {
        assert!(!named(line, &names).is_empty(), "{line}");
    }
    for line in [
        "#[schemars(extend(\"x-source\" = \"LVM Table 1\"))]",
        "/// Reciprocal throughput (LVM Sec. 7.2, RMM Table 2).",
        "/// The model of RMM's Table 6: walks.",
        "// A radix tree, an ideal one, hashed and flattened.",
        "VirtualizationMode::IdealShadow => shadow(),",
        "let all = realms.iter();",
        "let build = |spec: &TlbSpec| Tlb::new(spec.tlb_entries);",
        "u64::from_str_radix(text, 16)",
    ] {
        assert_eq!(named(line, &names), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn the_crates_below_designs_name_none() {
    let names = names();
    let mut found = Vec::new();
    for name in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut all = Vec::new();
        files(&folder, &mut all);
        assert!(all.len() > 3, "{} has no sources", folder.display());
        all.sort();
        for path in all {
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests of a module are at its end.
            let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate() {
                let file = path.strip_prefix(folder.parent().unwrap().parent().unwrap()).unwrap();
                let place = format!("{}:{}", file.display(), number + 1);
                found.extend(named(line, &names).iter().map(|name| format!("{place}: {name}: {}", line.trim())));
            }
        }
    }
    assert!(found.is_empty(), "{} names of designs:\n{}", found.len(), found.join("\n"));
}
