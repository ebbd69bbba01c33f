//! Colours of pictures: of files, which are on white, and of the page, which is light or dark.

/// The rules of a picture, with names of colours in place of colours.
const RULES: &str = include_str!("../../assets/walk-picture.css");

/// Names of colours: what they are on white, and on a dark page.
const COLOURS: [(&str, &str, &str); 17] = [
    ("paper", "#ffffff", "#15181c"),
    ("panel", "#f6f7f9", "#1e2329"),
    ("ink", "#1a1a1a", "#e8e8e8"),
    ("soft", "#555555", "#b0b4b9"),
    ("faint", "#c9ced4", "#4a515a"),
    ("held", "#d5dde6", "#39434f"),
    ("lit", "#ffd24d", "#8a6a00"),
    ("lit-edge", "#9a6b00", "#ffd24d"),
    ("good", "#1b7a3d", "#63c88a"),
    ("bad", "#b3261e", "#ff8a80"),
    ("l1", "#7fc4a3", "#2f7d5b"),
    ("l2", "#56a5d8", "#24699b"),
    ("llc", "#b48be0", "#7450a6"),
    ("dram", "#ef8354", "#b2491c"),
    ("wait", "#d3d7dc", "#4a515a"),
    ("work", "#9aa7b5", "#566270"),
    ("on-level", "#1a1a1a", "#ffffff"),
];

/// The style of a file that stands alone.
pub(super) fn of_file() -> String {
    COLOURS.iter().fold(RULES.to_owned(), |rules, (name, light, _)| rules.replace(&format!("@{name}@"), light))
}

/// The style of pictures on the page, whose colours are its variables.
pub(super) fn of_page() -> String {
    COLOURS
        .iter()
        .fold(RULES.to_owned(), |rules, (name, ..)| rules.replace(&format!("@{name}@"), &format!("var(--{name})")))
}

/// The page's variables, light and dark; paper is white.
pub(super) fn variables() -> String {
    let all = |colour: fn(&(&str, &'static str, &'static str)) -> &'static str| -> String {
        COLOURS.iter().map(|own| format!(" --{}: {};", own.0, colour(own))).collect()
    };
    format!(
        ":root {{{} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{} }} }}\n",
        all(|own| own.1),
        all(|own| own.2)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_of_the_rules_is_known() {
        assert!(RULES.contains("@ink@"));
        assert!(!of_file().contains('@'), "{}", of_file());
    }
}
