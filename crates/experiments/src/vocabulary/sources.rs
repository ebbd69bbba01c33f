//! Where meanings come from: the types that are written, the rows that are shown, the presets, the papers'
//! words.

use super::keys::keys;
use super::term::{Term, TermKind};
use crate::difference::DiffDocument;
use crate::document::Document;
use crate::figure::{MetricKind, figures};
use crate::layout::LayoutReport;
use crate::reproduce::FigureResult;
use crate::row::{self, Column, ResultsDocument};
use crate::study::StudyDescription;
use crate::{difference, profile_columns, reproduce, series_columns, stack, study_table, table};
use ambulator_simulator::WalkSteps;
use ambulator_simulator::spec::presets;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The words of the papers and of the field, and the units.
const WORDS: &str = include_str!("../../../../presets/terms.toml");

/// Everything but settings and counters, which have trees of their own.
pub(super) fn terms() -> Vec<Term> {
    let mut all: Vec<Term> = of_presets().collect();
    all.extend(table::terms());
    all.extend(study_table::terms());
    all.extend(stack::terms());
    all.extend(difference::terms());
    all.extend(reproduce::terms());
    all.extend(of_columns());
    all.extend(of_documents());
    all.extend(of_figures());
    all.extend(of_words());
    joined(all)
}

fn of_presets() -> impl Iterator<Item = Term> {
    let designs: Vec<&str> = ambulator_simulator::catalogue().designs().iter().map(|design| design.name).collect();
    presets().iter().filter(move |preset| !designs.contains(&preset.name)).map(|preset| Term {
        of: format!("{} preset", preset.kind.name()),
        source: preset.paper.clone(),
        see: preset.base.iter().cloned().chain(Some(preset.program.clone()).filter(|of| !of.is_empty())).collect(),
        ..Term::new(TermKind::Preset, preset.name, preset.about.clone())
    })
}

fn of_columns() -> impl Iterator<Item = Term> {
    let patterns = row::PATTERNS.iter().map(|(name, meaning)| Term {
        holds_names: true,
        ..Term::new(TermKind::Column, name.trim_end_matches('.'), *meaning)
    });
    let series = series_columns::FIXED.iter().map(|(name, unit, meaning)| ((*name).to_owned(), *unit, *meaning));
    let samples = row::OF_SAMPLES
        .iter()
        .chain(&row::OF_INTERVALS)
        .map(|(name, unit, meaning)| ((*name).to_owned(), *unit, *meaning));
    let series = series.chain(samples).map(|(name, unit, meaning)| (name, Column::new(unit, meaning)));
    let columns =
        row::columns().into_iter().chain(series).chain(profile_columns::columns()).map(|(name, column)| Term {
            unit: column.unit,
            also: name.strip_prefix(row::MEASURE).map(str::to_owned).into_iter().collect(),
            ..Term::new(TermKind::Column, name, column.meaning)
        });
    let histograms = row::HISTOGRAMS.iter().map(|(name, unit, of)| Term {
        unit: (*unit).to_owned(),
        see: row::OF_HISTOGRAM.iter().map(|(part, _)| format!("{name}{part}")).collect(),
        ..Term::new(TermKind::Column, *name, format!("Histogram of the {of}."))
    });
    patterns.chain(columns).chain(histograms)
}

fn of_documents() -> Vec<Term> {
    let mut all = keys::<Document>("compare --json, run --json");
    all.extend(keys::<ResultsDocument>("results --json"));
    all.extend(keys::<DiffDocument>("diff --json"));
    all.extend(keys::<Vec<WalkSteps>>("explain-walk --json"));
    all.extend(keys::<Vec<FigureResult>>("reproduce --json"));
    all.extend(keys::<LayoutReport>("layout --json"));
    all.extend(keys::<StudyDescription>("studies/NAME.json of a store"));
    all
}

/// The doc comment of a value of an enumeration, whose terms are `values`.
fn meaning_of(values: &[Term], value: impl Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    values.iter().find(|of| name == of.name.as_str()).map(|of| of.meaning.clone()).unwrap_or_default()
}

fn of_figures() -> Vec<Term> {
    let kinds = keys::<MetricKind>("studies and figures");
    let mut all = Vec::new();
    for figure in figures() {
        let id = format!("{}/{}", figure.paper, figure.name);
        let designs = figure.designs.iter().chain(figure.variants.iter().map(|variant| &variant.design));
        let mut see: Vec<String> = Vec::new();
        for design in designs.flat_map(|joined| joined.split('+')) {
            if !see.iter().any(|known| known == design) {
                see.push(design.to_owned());
            }
        }
        all.push(Term {
            see,
            places: vec![format!("ambulator reproduce {id}")],
            source: figure.metrics.first().map(|metric| metric.source.clone()).unwrap_or_default(),
            also: vec![figure.title.clone()],
            ..Term::new(TermKind::Figure, id.clone(), figure.title.clone())
        });
        for metric in &figure.metrics {
            let measure = metric.measure.iter().filter(|name| *name != "ipc").map(|name| format!("measures.{name}"));
            let counters = metric.over.iter().chain(&metric.under).cloned();
            all.push(Term {
                shows: measure
                    .chain(counters)
                    .chain(metric.measure.iter().filter(|of| *of == "ipc").cloned())
                    .collect(),
                source: metric.source.clone(),
                unit: metric.unit.clone(),
                places: vec![format!("reproduce {id}")],
                of: "number of a figure".into(),
                ..Term::new(TermKind::Row, metric.name.clone(), meaning_of(&kinds, metric.kind))
            });
        }
    }
    all
}

/// An entry of `terms.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    name: String,
    #[serde(default)]
    also: Vec<String>,
    meaning: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    see: Vec<String>,
}

/// `terms.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    unit: Vec<Word>,
    row: Vec<Word>,
    term: Vec<Word>,
}

fn of_words() -> Vec<Term> {
    let words: Words = toml::from_str(WORDS).unwrap_or_else(|error| panic!("presets/terms.toml: {error}"));
    let term = |kind: TermKind| {
        move |word: Word| Term {
            also: word.also,
            source: word.source,
            see: word.see,
            ..Term::new(kind, word.name, word.meaning)
        }
    };
    let units = words.unit.into_iter().map(term(TermKind::Unit));
    let rows = words.row.into_iter().map(term(TermKind::Row));
    units.chain(rows).chain(words.term.into_iter().map(term(TermKind::Word))).collect()
}

/// Terms of one name, kind and meaning as one, with all of their places.
pub(super) fn joined(terms: Vec<Term>) -> Vec<Term> {
    let mut at: BTreeMap<(String, TermKind, String, Vec<String>), usize> = BTreeMap::new();
    let mut all: Vec<Term> = Vec::new();
    for term in terms {
        let key = (term.name.clone(), term.kind, term.meaning.clone(), term.shows.clone());
        match at.get(&key) {
            Some(known) => {
                let known = &mut all[*known];
                let new = |list: &[String], of: Vec<String>| of.into_iter().filter(|one| !list.contains(one)).collect();
                let (also, places): (Vec<String>, Vec<String>) =
                    (new(&known.also, term.also), new(&known.places, term.places));
                known.also.extend(also);
                known.places.extend(places);
                known.holds_names |= term.holds_names;
                if !term.source.is_empty() && !known.source.contains(&term.source) {
                    known.source = format!("{}; {}", known.source, term.source).trim_start_matches("; ").to_owned();
                }
            }
            None => {
                at.insert(key, all.len());
                all.push(term);
            }
        }
    }
    all
}
