//! A table of results: for the terminal, and as CSV, Markdown and LaTeX.

use crate::interval::Spread;
use crate::number::short;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use std::fmt::Write as _;

/// What a table has at one place.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A name or a sentence.
    Text(String),
    /// A number, with its interval if there is one.
    Number(Spread),
    /// There is no number.
    Missing,
}

impl Entry {
    /// As it is shown: three digits, and the interval.
    fn shown(&self, decimals: Option<usize>) -> String {
        let digits = |value: f64| decimals.map_or_else(|| short(value), |decimals| format!("{value:.decimals$}"));
        match self {
            Entry::Text(text) => text.clone(),
            Entry::Number(Spread { mean, half: Some(half), .. }) => format!("{} ± {}", digits(*mean), digits(*half)),
            Entry::Number(spread) => digits(spread.mean),
            Entry::Missing => "-".into(),
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Its name.
    pub name: String,
    /// Decimals that are shown; three significant digits by default.
    pub decimals: Option<usize>,
    /// It has numbers.
    pub is_number: bool,
}

impl Head {
    /// A column of texts.
    pub fn text(name: &str) -> Head {
        Head { name: name.to_owned(), decimals: None, is_number: false }
    }

    /// A column of numbers.
    pub fn number(name: &str, decimals: Option<usize>) -> Head {
        Head { name: name.to_owned(), decimals, is_number: true }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Its columns.
    pub head: Vec<Head>,
    /// Its rows, each with an entry for every column.
    pub rows: Vec<Vec<Entry>>,
}

impl Grid {
    fn shown(&self, row: &[Entry]) -> Vec<String> {
        row.iter().zip(&self.head).map(|(entry, head)| entry.shown(head.decimals)).collect()
    }

    /// For the terminal, at most `width` characters wide if that is possible.
    pub fn terminal(&self, width: Option<usize>) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        let aligned = |text: &str, head: &Head| {
            Cell::new(text).set_alignment(if head.is_number { CellAlignment::Right } else { CellAlignment::Left })
        };
        table.set_header(self.head.iter().map(|head| aligned(&head.name, head)));
        for row in &self.rows {
            table.add_row(self.shown(row).iter().zip(&self.head).map(|(text, head)| aligned(text, head)));
        }
        if let Some(width) = width.filter(|width| table.lines().any(|line| line.chars().count() > *width)) {
            let width = u16::try_from(width).unwrap_or(u16::MAX);
            self.keep_words_whole(&mut table, width);
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.to_string()
    }

    /// Makes columns as wide as their longest words, if all of these fit: a setting's key is one.
    fn keep_words_whole(&self, table: &mut Table, width: u16) {
        /// Blanks around a column, and one for a border.
        const AROUND: u16 = 3;
        let longest = |text: &str| text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
        let mut widths: Vec<usize> = self.head.iter().map(|head| longest(&head.name)).collect();
        for row in &self.rows {
            let words = self.shown(row);
            widths.iter_mut().zip(&words).for_each(|(width, text)| *width = (*width).max(longest(text)));
        }
        let widths: Vec<u16> = widths.into_iter().map(|width| u16::try_from(width).unwrap_or(u16::MAX / 64)).collect();
        if widths.iter().map(|width| u32::from(width + AROUND)).sum::<u32>() > u32::from(width) {
            return;
        }
        for (column, width) in table.column_iter_mut().zip(widths) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 2)));
        }
    }

    /// As CSV with every digit. A column of numbers with intervals is followed by one with half of their
    /// widths, `NAME ±`.
    pub fn csv(&self) -> String {
        let has_half: Vec<bool> = (0..self.head.len())
            .map(|at| {
                self.rows.iter().any(|row| matches!(row.get(at), Some(Entry::Number(Spread { half: Some(_), .. }))))
            })
            .collect();
        let mut lines: Vec<Vec<String>> = vec![Vec::new()];
        for (head, half) in self.head.iter().zip(&has_half) {
            lines[0].push(head.name.clone());
            lines[0].extend(half.then(|| format!("{} ±", head.name)));
        }
        for row in &self.rows {
            let mut line = Vec::new();
            for (entry, half) in row.iter().zip(&has_half) {
                let (value, of_half) = match entry {
                    Entry::Text(text) => (text.clone(), String::new()),
                    Entry::Number(of) => {
                        (of.mean.to_string(), of.half.map(|half| half.to_string()).unwrap_or_default())
                    }
                    Entry::Missing => (String::new(), String::new()),
                };
                line.push(value);
                line.extend(half.then_some(of_half));
            }
            lines.push(line);
        }
        let quoted = |field: &String| match field.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", field.replace('"', "\"\"")),
            false => field.clone(),
        };
        lines.iter().map(|line| line.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect()
    }

    /// As a Markdown table.
    pub fn markdown(&self) -> String {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.head.iter().map(|head| escaped(&head.name)).collect());
        text += &line(self.head.iter().map(|head| if head.is_number { "---:".into() } else { "---".into() }).collect());
        self.rows.iter().for_each(|row| text += &line(self.shown(row).iter().map(|cell| escaped(cell)).collect()));
        text
    }

    /// As a LaTeX table for the package booktabs.
    pub fn latex(&self) -> String {
        let columns: String = self.head.iter().map(|head| if head.is_number { 'r' } else { 'l' }).collect();
        let line = |cells: Vec<String>| format!("  {} \\\\\n", cells.join(" & "));
        let mut text = String::from("% \\usepackage{booktabs}\n");
        let _ = write!(text, "\\begin{{tabular}}{{{columns}}}\n  \\toprule\n");
        text += &line(self.head.iter().map(|head| latex_escaped(&head.name)).collect());
        text += "  \\midrule\n";
        self.rows
            .iter()
            .for_each(|row| text += &line(self.shown(row).iter().map(|cell| latex_escaped(cell)).collect()));
        text + "  \\bottomrule\n\\end{tabular}\n"
    }
}

/// Text in which no character is a command of LaTeX.
fn latex_escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '±' => escaped.push_str("$\\pm$"),
            '<' | '>' | '|' => {
                let _ = write!(escaped, "${c}$");
            }
            '\n' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let number = |mean: f64, half: Option<f64>| Entry::Number(Spread { mean, half, seeds: 3 });
        Grid {
            head: vec![
                Head::text("mmu.l2_tlb.entries"),
                Head::number("ipc", Some(3)),
                Head::number("50% | \"x\"", None),
            ],
            rows: vec![
                vec![Entry::Text("a,b".into()), number(1.0 / 3.0, Some(0.01)), number(12345.6, None)],
                vec![Entry::Text("c_{d}".into()), number(2.0, None), Entry::Missing],
            ],
        }
    }

    #[test]
    fn a_narrow_table_breaks_lines_between_words() {
        let mut grid = grid();
        grid.head[1] = Head::number("instructions per cycle", Some(3));
        grid.rows[0][0] = Entry::Text("some words and some more of them".into());
        let narrow = grid.terminal(Some(46));
        assert!(narrow.lines().all(|line| line.chars().count() <= 46), "{narrow}");
        for whole in ["mmu.l2_tlb.entries", "instructions", "0.333"] {
            assert!(narrow.contains(whole), "{narrow}");
        }
        // Where not even words fit, they are broken.
        assert!(grid.terminal(Some(30)).lines().all(|line| line.chars().count() <= 30), "{}", grid.terminal(Some(30)));
    }

    #[test]
    fn csv_has_every_digit_and_quotes_what_must_be() {
        assert_eq!(
            grid().csv(),
            "mmu.l2_tlb.entries,ipc,ipc ±,\"50% | \"\"x\"\"\"\n\"a,b\",0.3333333333333333,0.01,12345.6\nc_{d},2,,\n"
        );
    }

    #[test]
    fn markdown_and_latex_escape_what_they_would_read_as_their_own() {
        assert_eq!(
            grid().markdown(),
            "| mmu.l2_tlb.entries | ipc | 50% \\| \"x\" |\n| --- | ---: | ---: |\n| a,b | 0.333 ± 0.010 | 12346 |\n\
             | c_{d} | 2.000 | - |\n"
        );
        let latex = grid().latex();
        assert!(
            latex.contains("\\begin{tabular}{lrr}\n  \\toprule\n  mmu.l2\\_tlb.entries & ipc & 50\\% $|$"),
            "{latex}"
        );
        assert!(latex.contains("  a,b & 0.333 $\\pm$ 0.010 & 12346 \\\\\n  c\\_\\{d\\} & 2.000 & - \\\\\n"), "{latex}");
        assert_eq!(latex_escaped("\\^~"), "\\textbackslash{}\\textasciicircum{}\\textasciitilde{}");
    }

    #[test]
    fn a_wide_table_folds() {
        let whole = grid().terminal(None);
        assert!(whole.contains("0.333 ± 0.010"), "{whole}");
        assert!(grid().terminal(Some(40)).lines().all(|line| line.chars().count() <= 40));
    }
}
