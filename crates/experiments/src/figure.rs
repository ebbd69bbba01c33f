//! A figure or table of a paper as data: its sweep, its metrics, the published numbers.

use crate::deviation::Deviation;
use crate::reproduce::Size;
use ambulator_base::nearest;
use ambulator_simulator::spec::{DEFAULT_MACHINE, parse_count};
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A program of a figure's sweep: in its file a table, or just a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureProgram {
    /// Program, workload or trace file; with `+` between those of a mix, each on a core of its own.
    pub name: String,
    /// Name in the figure; defaults to the program's.
    #[serde(default)]
    pub label: Option<String>,
    /// Footprint at the paper's size; by default the file's, or else the program's own. 0 for a trace.
    #[serde(default)]
    pub footprint: Option<String>,
    /// Footprint of a quick run; by default as at the paper's size.
    #[serde(default)]
    pub quick: Option<String>,
    /// Settings of the program.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// Settings of a quick run, which override those.
    #[serde(default)]
    pub quick_settings: serde_json::Map<String, serde_json::Value>,
    /// Programs that run alongside it, each on its own core (a mix).
    #[serde(default, deserialize_with = "program_list")]
    pub co_runners: Vec<FigureProgram>,
}

/// A design with additional settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in the figure.
    pub name: String,
    /// The design preset.
    pub design: String,
    /// Settings beyond the figure's.
    pub set: Vec<String>,
}

/// Programs, each a table or just a name.
fn program_list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<FigureProgram>, D::Error> {
    struct Named(FigureProgram);
    impl<'de> Deserialize<'de> for Named {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Named, D::Error> {
            from.deserialize_any(NameOrTable).map(Named)
        }
    }
    struct NameOrTable;
    impl<'de> Visitor<'de> for NameOrTable {
        type Value = FigureProgram;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a program's name, or a table with its `name`")
        }

        fn visit_str<E>(self, name: &str) -> Result<FigureProgram, E> {
            Ok(FigureProgram { name: name.to_owned(), ..FigureProgram::default() })
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FigureProgram, A::Error> {
            FigureProgram::deserialize(MapAccessDeserializer::new(map))
        }
    }
    Ok(Vec::<Named>::deserialize(from)?.into_iter().map(|named| named.0).collect())
}

impl FigureProgram {
    /// Its name in the figure.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }
}

/// How a metric is computed from runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// Arithmetic mean over programs.
    Mean,
    /// Geometric mean, over programs, of the ratio to the base design. Programs whose ratio is 0 are not in it.
    GeomeanRatio,
    /// Minimum and maximum over programs.
    Range,
    /// Arithmetic mean over programs of the time beyond the base design's, as a share of it: the cost of
    /// translation by timing.
    Overhead,
    /// Arithmetic mean over programs of a page-walk overhead by the model of RMM's Table 6: page walks of the
    /// design, at the mean cost of those of `base` (4 KiB pages), over the ideal time, which is that of
    /// `huge` (2 MiB pages) without its walks.
    WalkModel,
}

/// A published number or range.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// One number.
    Value(f64),
    /// Minimum and maximum.
    Range([f64; 2]),
}

/// One number of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// How it is computed from runs.
    pub kind: MetricKind,
    /// The design that is measured.
    pub design: String,
    /// The design that a ratio is relative to.
    #[serde(default)]
    pub base: Option<String>,
    /// The design with huge pages of `walk-model`.
    #[serde(default)]
    pub huge: Option<String>,
    /// Only these programs, by label; all by default.
    #[serde(default)]
    pub programs: Vec<String>,
    /// The measure: a name of the results' measures, or `ipc`.
    #[serde(default)]
    pub measure: Option<String>,
    /// Alternatively a quotient of counters: the sum of these ...
    #[serde(default)]
    pub over: Vec<String>,
    /// ... divided by the sum of these.
    #[serde(default)]
    pub under: Vec<String>,
    /// Factor of the value (100 for percent, 1e-6 for MB).
    #[serde(default = "one")]
    pub scale: f64,
    /// Unit after scaling.
    pub unit: String,
    /// The published number; absent if the paper has only a plot.
    #[serde(default)]
    pub published: Option<Published>,
    /// Its place in the paper.
    pub source: String,
    /// What a reader must know about it.
    #[serde(default)]
    pub note: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// The criterion by which a paper chose its programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The design of the figure that is measured.
    pub design: String,
    /// The measure: a name of the results' measures.
    pub measure: String,
    /// The least value of a program that the paper would have chosen.
    pub least: f64,
    /// Its place in the paper.
    pub source: String,
}

/// The programs of a figure, as in its file.
#[derive(Clone, Debug)]
pub(crate) enum Programs {
    /// A list of `presets/papers/programs.toml`, by name.
    Shared(String),
    /// The figure's own list.
    Own(Vec<FigureProgram>),
}

/// The form in which a paper draws a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartForm {
    /// Bars in groups of a program.
    #[default]
    Bars,
    /// Lines over the last number in the names of the metrics.
    Lines,
}

impl Default for Programs {
    fn default() -> Programs {
        Programs::Own(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Programs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Programs, D::Error> {
        struct NameOrList;
        impl<'de> Visitor<'de> for NameOrList {
            type Value = Programs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of programs, or the name of one that figures share")
            }

            fn visit_str<E>(self, name: &str) -> Result<Programs, E> {
                Ok(Programs::Shared(name.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Programs, A::Error> {
                program_list(SeqAccessDeserializer::new(list)).map(Programs::Own)
            }
        }
        from.deserialize_any(NameOrList)
    }
}

/// The seeds of a study: how many, from 1 on, or which.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a number of seeds, such as 5, or a list of seeds, such as [1, 7]")]
pub enum Seeds {
    /// 1 to this.
    Count(u32),
    /// These.
    List(Vec<u64>),
}

impl Seeds {
    /// Each of them.
    pub fn all(&self) -> Vec<u64> {
        match self {
            Seeds::Count(count) => (1..=u64::from(*count)).collect(),
            Seeds::List(list) => list.clone(),
        }
    }
}

/// A study as data: what is run; and, with metrics, a figure or table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The paper's short name; empty for a user's file.
    #[serde(skip)]
    pub paper: String,
    /// The figure's short name, or a file's stem.
    #[serde(skip)]
    pub name: String,
    /// Its title.
    #[serde(default)]
    pub title: String,
    /// The form in which the paper draws it.
    #[serde(default)]
    pub chart: ChartForm,
    /// The machine: a preset or a file.
    #[serde(default)]
    pub machine: Option<String>,
    /// Alternatively, several machines.
    #[serde(default)]
    pub machines: Vec<String>,
    /// The designs of the sweep.
    #[serde(default)]
    pub designs: Vec<String>,
    /// Settings in addition to the machine's and the designs'.
    #[serde(default)]
    pub set: Vec<String>,
    /// Settings that are varied, each over a list of values: every combination is run.
    #[serde(default)]
    pub vary: Map<String, Value>,
    /// Seeds; by default one.
    #[serde(default)]
    pub seeds: Option<Seeds>,
    /// The folder of checkpoints, from which runs start and where they are made; by default none.
    #[serde(default)]
    pub checkpoint: Option<PathBuf>,
    /// Designs of the sweep with additional settings.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Instructions at full size; by default the machine's.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Instructions of a quick run; by default as at full size.
    #[serde(default)]
    pub quick_instructions: Option<String>,
    /// Warm-up instructions; by default the machine's.
    #[serde(default)]
    pub warmup: Option<String>,
    /// Footprint of the programs that have none of their own.
    #[serde(default)]
    pub footprint: Option<String>,
    /// The programs: its own, or the name of a list that several figures share.
    #[serde(default)]
    pub(crate) programs: Programs,
    /// Programs in addition to the list's.
    #[serde(default, deserialize_with = "program_list")]
    pub(crate) more_programs: Vec<FigureProgram>,
    /// Cells in addition to the grid of all those, one by one.
    #[serde(default)]
    pub cells: Vec<FigureCell>,
    /// The criterion by which the paper chose its programs; those below it are marked.
    #[serde(default)]
    pub selection: Option<Selection>,
    /// Its numbers.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// Why numbers are not the published ones.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
    /// A note on the whole figure.
    #[serde(default)]
    pub note: Option<String>,
}

/// A cell that is named by itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureCell {
    /// The machine; by default that of the file.
    #[serde(default)]
    pub machine: Option<String>,
    /// The design.
    pub design: String,
    /// The program, by its name in the results if it is one of the file's.
    pub program: String,
    /// Settings beyond the file's.
    #[serde(default)]
    pub set: Vec<String>,
}

impl Figure {
    /// The programs of the sweep.
    pub fn programs(&self) -> impl Iterator<Item = &FigureProgram> {
        let programs = match &self.programs {
            Programs::Shared(name) => shared_programs().get(name).map_or(&[][..], Vec::as_slice),
            Programs::Own(programs) => programs,
        };
        programs.iter().chain(&self.more_programs)
    }

    /// Paper and figure, or the name of a user's file.
    pub fn full_name(&self) -> String {
        if self.paper.is_empty() { self.name.clone() } else { format!("{}/{}", self.paper, self.name) }
    }

    /// The number of its cells.
    pub fn count(&self) -> usize {
        let combinations: usize = self.axes().iter().map(|(_, values)| values.len()).product();
        let places = self.programs().count() * self.machines().len() * self.designs_and_variants().len() * combinations;
        (places + self.cells.len()) * self.seeds.as_ref().map_or(1, |seeds| seeds.all().len())
    }

    /// A study of every combination; `vary` has lists of values by key.
    pub fn grid(
        name: String,
        machines: Vec<String>,
        designs: Vec<String>,
        programs: Vec<FigureProgram>,
        vary: Map<String, Value>,
    ) -> Figure {
        Figure { name, machines, designs, programs: Programs::Own(programs), vary, ..Figure::default() }
    }

    /// The machines of the sweep.
    pub fn machines(&self) -> Vec<&str> {
        let all = self.machine.iter().chain(&self.machines);
        let mut all: Vec<&str> = all.map(String::as_str).collect();
        if all.is_empty() {
            all.push(DEFAULT_MACHINE);
        }
        all
    }

    /// The settings of the run's length at a size.
    ///
    /// # Errors
    /// The file has something else than counts.
    pub(crate) fn length(&self, size: Size) -> Result<Vec<String>, String> {
        let quick = self.quick_instructions.as_ref().filter(|_| size == Size::Quick);
        let count = |text: &String| parse_count(text);
        let instructions = quick.or(self.instructions.as_ref()).map(count).transpose()?;
        let warmup = self.warmup.as_ref().map(count).transpose()?;
        // A quick run has a quick warm-up.
        let most = instructions.filter(|_| quick.is_some()).unwrap_or(u64::MAX);
        let warmup = warmup.map(|warmup| warmup.min(most));
        let settings = [("instructions", instructions), ("warmup", warmup)];
        Ok(settings.into_iter().filter_map(|(key, of)| Some(format!("run.{key}={}", of?))).collect())
    }

    /// The axes of varied settings: key and values, as the texts of `--set` options take them.
    pub fn axes(&self) -> Vec<(String, Vec<String>)> {
        let mut axes = Vec::new();
        flatten("", &self.vary, &mut axes);
        axes
    }

    /// Every design of the sweep: its name in the figure, its preset, its additional settings.
    pub fn designs_and_variants(&self) -> Vec<(&str, &str, &[String])> {
        let plain = self.designs.iter().map(|design| (design.as_str(), design.as_str(), [].as_slice()));
        let own = self.variants.iter().map(|v| (v.name.as_str(), v.design.as_str(), v.set.as_slice()));
        plain.chain(own).collect()
    }
}

/// Varied settings by dotted key, whether the file has the key dotted or as tables.
fn flatten(at: &str, table: &Map<String, Value>, axes: &mut Vec<(String, Vec<String>)>) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (name, value) in table {
        let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match value {
            Value::Object(below) => flatten(&key, below, axes),
            Value::Array(values) => axes.push((key, values.iter().map(text).collect())),
            single => axes.push((key, vec![text(single)])),
        }
    }
}

/// The lists of programs that figures share, by name.
///
/// # Panics
/// As [`figures`].
fn shared_programs() -> &'static BTreeMap<String, Vec<FigureProgram>> {
    static LISTS: OnceLock<BTreeMap<String, Vec<FigureProgram>>> = OnceLock::new();
    const TEXT: &str = include_str!("../../../presets/papers/programs.toml");
    LISTS.get_or_init(|| toml::from_str(TEXT).unwrap_or_else(|error| panic!("presets/papers/programs.toml: {error}")))
}

/// Whether figures share a list of programs of this name.
pub(crate) fn is_shared_list(name: &str) -> bool {
    shared_programs().contains_key(name)
}

struct Embedded {
    paper: &'static str,
    name: &'static str,
    text: &'static str,
}

const EMBEDDED: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/figures.rs"));

/// All figures, sorted by paper and name.
///
/// # Panics
/// A file of the repository is not a valid figure; a test reads them all.
pub fn figures() -> &'static [Figure] {
    static FIGURES: OnceLock<Vec<Figure>> = OnceLock::new();
    FIGURES.get_or_init(|| {
        let parse = |embedded: &Embedded| match toml::from_str::<Figure>(embedded.text) {
            Ok(figure) => Figure { paper: embedded.paper.into(), name: embedded.name.into(), ..figure },
            Err(error) => panic!("presets/papers/{}/{}.toml: {error}", embedded.paper, embedded.name),
        };
        EMBEDDED.iter().map(parse).collect()
    })
}

/// The figures of a paper, one figure by `paper/figure`, or all for `None`.
///
/// # Errors
/// There is no such name; the error lists the valid ones.
pub fn figures_of(what: Option<&str>) -> Result<Vec<&'static Figure>, String> {
    let Some(what) = what else { return Ok(figures().iter().collect()) };
    let named = |figure: &&Figure| figure.paper == what || format!("{}/{}", figure.paper, figure.name) == what;
    let found: Vec<_> = figures().iter().filter(named).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names: Vec<_> = figures().iter().map(|figure| format!("{}/{}", figure.paper, figure.name)).collect();
    let known = figures().iter().map(|figure| figure.paper.as_str()).chain(names.iter().map(String::as_str));
    let meant = nearest(what, known).map_or_else(String::new, |name| format!(": did you mean `{name}`?"));
    Err(format!("there is no paper or figure `{what}`{meant}; there are: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deviation::is_meant;
    use ambulator_simulator::spec::{SpecRequest, load, parse_size};

    #[test]
    fn every_figure_names_designs_measures_and_programs_that_exist() {
        assert!(figures().len() >= 6);
        for figure in figures() {
            let at = format!("{}/{}", figure.paper, figure.name);
            for (name, design, own) in figure.designs_and_variants() {
                let request = SpecRequest {
                    machine: figure.machine.clone(),
                    design: Some(design.into()),
                    options: [figure.set.as_slice(), own].concat(),
                    ..SpecRequest::default()
                };
                load(&request).unwrap_or_else(|e| panic!("{at}: {name}: {e}"));
            }
            let known = |name: &String| figure.designs_and_variants().iter().any(|(cell, ..)| cell == name);
            for text in [&figure.instructions, &figure.quick_instructions, &figure.warmup] {
                parse_count(text.as_ref().unwrap()).unwrap_or_else(|e| panic!("{at}: {e}"));
            }
            if let Programs::Shared(name) = &figure.programs {
                assert!(shared_programs().contains_key(name), "{at}: no list of programs `{name}`");
            }
            assert!(figure.programs().next().is_some(), "{at}: no programs");
            for program in figure.programs() {
                for size in [&program.footprint, &program.quick] {
                    parse_size(size.as_ref().unwrap()).unwrap_or_else(|e| panic!("{at}: {}: {e}", program.label()));
                }
            }
            if let Some(selection) = &figure.selection {
                assert!(known(&selection.design), "{at}: selection");
                let measures = ambulator_simulator::MEASURES;
                assert!(measures.iter().any(|m| m.name == selection.measure), "{at}: selection");
            }
            for metric in &figure.metrics {
                assert!(known(&metric.design), "{at}: {}", metric.name);
                assert!(metric.base.as_ref().is_none_or(known), "{at}: {}", metric.name);
                let model = matches!(metric.kind, MetricKind::Overhead | MetricKind::WalkModel);
                assert!(!model || metric.base.as_ref().is_some_and(known), "{at}: {}: no base", metric.name);
                let needs_huge = metric.kind == MetricKind::WalkModel;
                assert_eq!(metric.huge.as_ref().is_some_and(known), needs_huge, "{at}: {}: huge", metric.name);
                assert_eq!(
                    metric.measure.is_none() && !model,
                    !metric.over.is_empty(),
                    "{at}: {}: measure or counters",
                    metric.name
                );
                assert!(metric.kind != MetricKind::GeomeanRatio || metric.base.is_some(), "{at}: {}", metric.name);
                if let Some(measure) = &metric.measure {
                    let known = measure == "ipc" || ambulator_simulator::MEASURES.iter().any(|m| m.name == measure);
                    assert!(known, "{at}: {}: no measure `{measure}`", metric.name);
                }
                for label in &metric.programs {
                    assert!(
                        figure.programs().any(|p| p.label() == label),
                        "{at}: {}: no program `{label}`",
                        metric.name
                    );
                }
                let reasons = figure.deviations.iter().filter(|deviation| deviation.is_about(metric)).count();
                assert!(reasons <= 1, "{at}: {}: {reasons} reasons", metric.name);
            }
            for pattern in figure.deviations.iter().flat_map(|deviation| &deviation.of) {
                let mut published = figure.metrics.iter().filter(|metric| metric.published.is_some());
                let is_used = published.any(|metric| is_meant(pattern, &metric.name));
                assert!(is_used, "{at}: no published number is called `{pattern}`");
            }
        }
    }

    #[test]
    fn every_shared_list_is_used_by_a_figure() {
        let used =
            |list: &String| figures().iter().any(|f| matches!(&f.programs, Programs::Shared(name) if name == list));
        for list in shared_programs().keys() {
            assert!(used(list), "no figure uses `{list}`");
        }
    }

    #[test]
    fn a_warmup_is_as_long_as_the_file_says_but_for_quick_runs() {
        let figure = figures().iter().find(|of| (of.paper.as_str(), of.name.as_str()) == ("utopia", "fig11")).unwrap();
        assert!(figure.length(Size::Full).unwrap().contains(&"run.warmup=500000000".to_owned()));
        let quick = figure.length(Size::Quick).unwrap();
        let of = |key: &str| quick.iter().find_map(|of| of.strip_prefix(key)).unwrap();
        assert_eq!(of("run.warmup="), of("run.instructions="));
    }

    #[test]
    fn a_wrong_name_lists_the_right_ones() {
        let error = figures_of(Some("utopai")).unwrap_err();
        assert!(error.contains("did you mean `utopia`?") && error.contains("utopia/fig2"), "{error}");
        assert!(figures_of(Some("Utopia/FIG2")).unwrap_err().contains("did you mean `utopia/fig2`?"));
    }
}
