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
        let text = &source.text;
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = floor(span.start);
        Place { source: source.clone(), span: start..floor(span.end).max(start) }
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
                let mark = AnnotationKind::Primary.span(place.span.clone());
                let mark = if self.label.is_empty() { mark } else { mark.label(self.label.as_str()) };
                title.element(Snippet::source(&place.source.text).path(&place.source.name).annotation(mark))
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
    /// The problems, at least one, in the order of the layers.
    pub problems: Vec<Problem>,
}

impl SpecError {
    /// Each problem with its file, line and caret, for a terminal; in colour or plain.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled().decor_style(DecorStyle::Unicode) } else { Renderer::plain() };
        let problems: Vec<String> = self.problems.iter().map(|problem| problem.render(&renderer)).collect();
        problems.join("\n\n")
    }
}

impl From<Problem> for SpecError {
    fn from(problem: Problem) -> SpecError {
        SpecError { problems: vec![problem] }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for SpecError {}
