//! A spec as annotated TOML, and the reference of all settings.

use super::explain::{allowed_range, show_value};
use super::program::program_tree;
use super::schema::{Kind, Setting};
use super::settings::{Spec, tree};
use crate::catalogue::catalogue;
use serde_json::Value;
use std::fmt::Write as _;

/// The spec as TOML with the unit and meaning of each setting. Read as a spec file, it gives the same spec.
pub fn show_spec(spec: &Spec) -> String {
    show(tree(), &serde_json::to_value(spec).unwrap_or_default())
}

/// Any value of the tree's type as annotated TOML.
pub(crate) fn show(setting: &Setting, value: &Value) -> String {
    let mut text = String::new();
    show_group(&mut text, setting, value);
    text
}

fn show_group(text: &mut String, group: &Setting, value: &Value) {
    let below = |child: &Setting| value.get(child.name()).cloned().unwrap_or_default();
    let (groups, values): (Vec<&Setting>, Vec<&Setting>) =
        group.children().iter().partition(|child| matches!(child.kind, Kind::Group(_)));
    if !group.key.is_empty() && !values.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        comment(text, &group.meaning);
        let _ = writeln!(text, "[{}]", group.key);
    }
    for child in values {
        let unit = match child.unit.as_str() {
            "" | "flag" | "choice" | "text" => String::new(),
            unit => format!(" ({unit})"),
        };
        comment(text, &format!("{}{unit}", child.meaning));
        let child_value = below(child);
        // An unset setting has no value in TOML.
        let off = if child_value.is_null() { "# " } else { "" };
        let _ = writeln!(text, "{off}{} = {}", child.name(), show_value(child, &child_value));
    }
    for child in groups {
        show_group(text, child, &below(child));
    }
}

/// Comment lines of at most 100 characters.
fn comment(text: &mut String, sentence: &str) {
    let mut line = String::from("#");
    for word in sentence.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        let _ = writeln!(text, "{line}");
    }
}

/// Every design as Markdown: its description, its paper, the sockets that it fills, its settings.
pub fn designs_markdown() -> String {
    let mut text = String::from("# Designs\n\nEvery design, generated from its descriptor.\n");
    for design in catalogue().designs() {
        let _ = writeln!(text, "\n## {}\n\n{}. Source: {}.\n", design.name, design.about, design.paper);
        for fill in &design.fills {
            let _ = writeln!(text, "- `design.{} = \"{}\"`: {}.", fill.socket, design.name, fill.about);
        }
        if design.together {
            let _ = writeln!(text, "- It fills all of these sockets or none.");
        }
        if let Some(why) = design.native_only {
            let _ = writeln!(text, "- It cannot run in a virtual machine: {why}.");
        }
        if design.has_settings() {
            let _ = writeln!(text, "- Its settings are `{}` (`ambulator explain {0}`).", design.group());
        }
    }
    text
}

/// Every setting as Markdown: one section per group, one table row per setting.
pub fn reference_markdown() -> String {
    let mut text = String::from(
        "# Settings\n\nEvery setting of a spec, generated from its types. Sizes take `KiB`, `MiB`, `GiB`, `TiB`; counts, instructions \
         and cycles take `K`, `M`, `G` (powers of 1000) and `Ki`, `Mi`, `Gi` (powers of 1024); entries take only the latter.\n",
    );
    groups_markdown(&mut text, tree());
    text
}

/// Every program's settings as Markdown, in the same form.
pub fn program_reference_markdown() -> String {
    let mut text = String::from(
        "# Program settings\n\nThe settings of each program and of traces, for `--program-set` and workload files. Keys begin here with \
         the program's name; on the command line they omit it: `--program-set layout=csr`.\n",
    );
    groups_markdown(&mut text, program_tree());
    text
}

fn groups_markdown(text: &mut String, tree: &Setting) {
    tree.visit(&mut |group| {
        let values: Vec<&Setting> =
            group.children().iter().filter(|child| !matches!(child.kind, Kind::Group(_))).collect();
        let Kind::Group(_) = group.kind else { return };
        if group.key.is_empty() {
            return;
        }
        let level = if group.key.contains('.') { "###" } else { "##" };
        let _ = writeln!(text, "\n{level} `{}`\n\n{}", group.key, cell(&group.meaning));
        if values.is_empty() {
            return;
        }
        text.push_str(
            "\n| setting | type | unit | allowed | default | meaning | source |\n|---|---|---|---|---|---|---|\n",
        );
        for setting in values {
            let mut meaning = setting.meaning.clone();
            if let Kind::Choice(choices) = &setting.kind {
                for choice in choices.iter().filter(|choice| !choice.meaning.is_empty()) {
                    let _ = write!(meaning, "<br>`{}`: {}", choice.name, choice.meaning);
                }
            }
            let kind = if matches!(setting.kind, Kind::Choice(_)) { "choice".into() } else { setting.kind.name() };
            let default = show_value(setting, &setting.default);
            let source = setting.source.clone().unwrap_or_default();
            let allowed = allowed_range(setting).unwrap_or_default();
            let cells = [kind, setting.unit.clone(), allowed, format!("`{default}`"), meaning, source];
            let _ = writeln!(text, "| `{}` | {} |", setting.key, cells.map(|text| cell(&text)).join(" | "));
        }
    });
}

/// Text with the delimiters of table cells escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
