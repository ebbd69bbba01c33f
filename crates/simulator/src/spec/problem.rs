//! Errors in a spec: what is wrong, where, and what is valid.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text with settings.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's path, a preset's path in the repository, or `--set`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// The last character boundary up to `at`.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A span of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The source.
    pub source: Arc<Source>,
    /// Bytes of the text.
    pub span: Range<usize>,
}

impl Place {
    /// A place whose span is clamped to the text and to character boundaries.
    pub(crate) fn new(source: &Arc<Source>, span: Range<usize>) -> Place {
        let start = boundary(&source.text, span.start);
        Place { source: source.clone(), span: start..boundary(&source.text, span.end).max(start) }
    }

    /// The text to show with the span in it: the whole source, or the part around the span of a very long
    /// line.
    fn shown(&self) -> (&str, Range<usize>) {
        /// Longer lines are not written by hand, and flood a terminal.
        const LONG: usize = 1000;
        const BEFORE: usize = 60;
        const AFTER: usize = 120;
        let (text, span) = (self.source.text.as_str(), self.span.clone());
        let begin = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[span.start..].find('\n').map_or(text.len(), |at| span.start + at);
        if end - begin <= LONG {
            return (text, span);
        }
        let from = boundary(text, begin.max(span.start.saturating_sub(BEFORE)));
        let to = boundary(text, end.min(span.start + AFTER));
        (&text[from..to], span.start - from..span.end.min(to) - from)
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.source.text[..self.span.start].matches('\n').count() + 1
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source.name.starts_with("--") {
            write!(f, "{} {}", self.source.name, self.source.text)
        } else {
            write!(f, "{}:{}", self.source.name, self.line())
        }
    }
}

/// The name of the source of a `--set` option's text; the names of other options begin with `--` too.
pub(crate) const OPTION: &str = "--set";

/// One error in a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The sentence: what is wrong.
    pub title: String,
    /// A few words at the caret.
    pub label: String,
    /// What is valid.
    pub help: Option<String>,
    /// Its place, if a layer wrote it.
    pub place: Option<Place>,
}

impl Problem {
    /// A problem without a place.
    pub(crate) fn new(title: impl Into<String>) -> Problem {
        Problem { title: title.into(), label: String::new(), help: None, place: None }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Problem {
        self.label = label.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn at(mut self, source: &Arc<Source>, span: Range<usize>) -> Problem {
        self.place = Some(Place::new(source, span));
        self
    }

    fn render(&self, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(&self.title);
        let mut groups = vec![match &self.place {
            Some(place) => {
                let (text, span) = place.shown();
                let mark = AnnotationKind::Primary.span(span);
                let mark = if self.label.is_empty() { mark } else { mark.label(self.label.as_str()) };
                title.element(Snippet::source(text).path(&place.source.name).annotation(mark))
            }
            None => Group::with_title(title),
        }];
        if let Some(help) = &self.help {
            groups.push(Group::with_title(Level::HELP.secondary_title(help)));
        }
        renderer.render(&groups)
    }
}

/// All errors in a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecError {
    /// The problems, at least one, in the order of the layers: the first of them.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

/// Problems that an error describes; further ones are only counted.
pub(crate) const MOST_PROBLEMS: usize = 20;

impl SpecError {
    /// Each problem with its file, line and caret, for a terminal; in colour or plain.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled().decor_style(DecorStyle::Unicode) } else { Renderer::plain() };
        let problems: Vec<String> = self.problems.iter().map(|problem| problem.render(&renderer)).collect();
        let more = match self.more {
            0 => String::new(),
            more => format!("\n\nand {} more", grouped(more)),
        };
        problems.join("\n\n") + &more
    }
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl From<Problem> for SpecError {
    fn from(problem: Problem) -> SpecError {
        SpecError { problems: vec![problem], more: 0 }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for SpecError {}
