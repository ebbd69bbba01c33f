//! Reads a study or a figure from a user's file: what is wrong with it, where, and what would be right.

use crate::deviation::is_meant;
use crate::figure::{Figure, MetricKind, Programs, is_shared_list};
use crate::study::{check_presets, mix_names};
use ambulator_base::{nearest, read_text};
use ambulator_simulator::MEASURES;
use ambulator_simulator::spec::{Place, Problem, Source, SpecError, SpecRequest, load, option_settings};
use ambulator_simulator::spec::{parse_count, parse_size, program_request};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl Figure {
    /// Reads a user's file, which has what `presets/papers/PAPER/FIGURE.toml` has; a study may leave out its
    /// metrics.
    ///
    /// # Errors
    /// Every problem with its line, a caret and what would be right.
    pub fn read(path: &Path) -> Result<Figure, SpecError> {
        /// A study is written by hand.
        const MOST_BYTES: u64 = 1 << 20;
        let name = path.display().to_string();
        let text = read_text(path, MOST_BYTES).map_err(|error| SpecError {
            problems: vec![plain(format!("the study `{name}` cannot be read: {error}"))],
            more: 0,
        })?;
        let figure = Figure::parse(&name, &text)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Figure { name: stem, ..figure })
    }

    /// Reads the text of a file; `name` is the file's in errors.
    ///
    /// # Errors
    /// As [`Figure::read`].
    pub fn parse(name: &str, text: &str) -> Result<Figure, SpecError> {
        let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
        let figure: Figure = toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| Place { source: Arc::clone(&source), span });
            let problem = Problem { place, ..plain(error.message().trim().replace('\n', "; ")) };
            SpecError { problems: vec![problem], more: 0 }
        })?;
        let mut check = Check { source: &source, table: DeTable::parse(text).ok(), problems: Vec::new() };
        check.figure(&figure);
        match check.problems {
            problems if problems.is_empty() => Ok(figure),
            problems => Err(SpecError { problems, more: 0 }),
        }
    }

    /// Checks a study that was not read from a file. Problems have no places.
    ///
    /// # Errors
    /// Every problem.
    pub fn check(&self) -> Result<(), SpecError> {
        let source = Arc::new(Source { name: String::new(), text: String::new() });
        let mut check = Check { source: &source, table: None, problems: Vec::new() };
        check.figure(self);
        let problems = check.problems;
        if problems.is_empty() { Ok(()) } else { Err(SpecError { problems, more: 0 }) }
    }
}

fn plain(title: String) -> Problem {
    Problem { title, label: String::new(), help: None, place: None }
}

struct Check<'s> {
    source: &'s Arc<Source>,
    /// The text as a tree with places.
    table: Option<Spanned<DeTable<'s>>>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    /// The span of what lies at a path of keys and numbers, or of the last part of the path that there is.
    fn span(&self, path: &[&str]) -> Option<Range<usize>> {
        let table = self.table.as_ref()?.get_ref();
        let (first, rest) = path.split_first()?;
        let mut at: &Spanned<DeValue<'_>> = table.get(*first)?;
        for key in rest {
            let below = match at.get_ref() {
                DeValue::Table(table) => table.get(*key),
                DeValue::Array(values) => key.parse::<usize>().ok().and_then(|number| values.get(number)),
                _ => None,
            };
            match below {
                Some(below) => at = below,
                None => break,
            }
        }
        Some(at.span())
    }

    fn problem(&mut self, path: &[&str], title: impl Into<String>, help: Option<String>) {
        let place = self.span(path).map(|span| Place { source: Arc::clone(self.source), span });
        self.problems.push(Problem { place, help, ..plain(title.into()) });
    }

    /// Records the first line of an error of a part, and its advice.
    fn part(&mut self, path: &[&str], result: Result<(), String>) {
        let Err(error) = result else { return };
        let title = error.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let help = error.lines().find_map(|line| line.split_once("help: ")).map(|(_, help)| help.to_owned());
        self.problem(path, title, help);
    }

    fn figure(&mut self, figure: &Figure) {
        for (key, text) in [
            ("instructions", &figure.instructions),
            ("quick_instructions", &figure.quick_instructions),
            ("warmup", &figure.warmup),
        ] {
            let checked = text.as_ref().map_or(Ok(()), |text| parse_count(text).map(|_| ()));
            self.part(&[key], checked.map_err(|error| format!("`{key}`: {error}")));
        }
        if let Some(text) = &figure.footprint {
            self.part(&["footprint"], parse_size(text).map(|_| ()).map_err(|error| format!("`footprint`: {error}")));
        }
        if figure.seeds.as_ref().is_some_and(|seeds| seeds.all().is_empty()) {
            self.problem(&["seeds"], "`seeds` names no seed", Some("write `seeds = 5`, or leave it out".into()));
        }
        self.machines_and_designs(figure);
        self.settings(figure);
        self.programs(figure);
        self.metrics(figure);
    }

    fn machines_and_designs(&mut self, figure: &Figure) {
        let before = self.problems.len();
        if let Some(machine) = &figure.machine {
            self.part(&["machine"], check_presets(machine, None));
        }
        for (number, machine) in figure.machines.iter().enumerate() {
            self.part(&["machines", &number.to_string()], check_presets(machine, None));
        }
        if self.problems.len() > before {
            return;
        }
        let machine = figure.machines()[0];
        for (number, design) in figure.designs.iter().enumerate() {
            self.part(&["designs", &number.to_string()], check_presets(machine, Some(design)));
            if figure.designs[..number].contains(design) {
                let help = Some("name each design once".into());
                self.problem(&["designs", &number.to_string()], format!("`{design}` is named twice"), help);
            }
        }
        for (number, variant) in figure.variants.iter().enumerate() {
            let number = number.to_string();
            self.part(&["variants", &number, "design"], check_presets(machine, Some(&variant.design)));
            let others = figure.designs_and_variants().iter().filter(|(name, ..)| *name == variant.name).count();
            if others > 1 {
                let title = format!("`{}` is the name of two designs", variant.name);
                self.problem(&["variants", &number, "name"], title, Some("give the variant another name".into()));
            }
        }
        for (number, cell) in figure.cells.iter().enumerate() {
            let machine = cell.machine.as_deref().unwrap_or(machine);
            self.part(&["cells", &number.to_string(), "design"], check_presets(machine, Some(&cell.design)));
        }
        if figure.designs_and_variants().is_empty() && figure.cells.is_empty() {
            let help = "write `designs = [\"NAME\"]`; `ambulator list designs` has the names".to_owned();
            self.problem(&[], "the study has no designs", Some(help));
        }
    }

    fn settings(&mut self, figure: &Figure) {
        let lists = [(vec!["set".to_owned()], &figure.set)].into_iter();
        let variants = figure.variants.iter().enumerate();
        let of_variants = variants.map(|(n, of)| (vec!["variants".into(), n.to_string(), "set".into()], &of.set));
        let cells = figure.cells.iter().enumerate();
        let of_cells = cells.map(|(n, of)| (vec!["cells".into(), n.to_string(), "set".into()], &of.set));
        for (path, options) in lists.chain(of_variants).chain(of_cells) {
            for (number, option) in options.iter().enumerate() {
                let number = number.to_string();
                let path: Vec<&str> = path.iter().map(String::as_str).chain([number.as_str()]).collect();
                self.part(&path, check_option(option));
            }
        }
        for (key, values) in figure.axes() {
            let path: Vec<&str> = ["vary", key.as_str()].to_vec();
            let dotted: Vec<&str> = ["vary"].into_iter().chain(key.split('.')).collect();
            let quoted = figure.vary.contains_key(&key);
            let path = if quoted { path } else { dotted };
            if values.is_empty() {
                self.problem(&path, format!("`{key}` is varied over no values"), Some("give at least one".into()));
            }
            let mut told = None;
            for (number, value) in values.iter().enumerate() {
                let number = number.to_string();
                let path: Vec<&str> = path.iter().copied().chain([number.as_str()]).collect();
                let wrong = check_option(&format!("{key}={value}")).err();
                // What is wrong with the key is so for each value, and told once.
                let title = wrong.as_ref().and_then(|error| error.lines().next()).map(str::to_owned);
                if title != told {
                    self.part(&path, wrong.map_or(Ok(()), Err));
                }
                told = title;
                if values[..number.parse().unwrap_or(0)].contains(value) {
                    self.problem(&path, format!("`{key}` has the value {value} twice"), None);
                }
            }
        }
    }

    fn programs(&mut self, figure: &Figure) {
        if let Programs::Shared(name) = &figure.programs
            && !is_shared_list(name)
        {
            let help = Some(format!("write `programs = [\"{name}\"]` for a program"));
            return self.problem(&["programs"], format!("figures share no list of programs `{name}`"), help);
        }
        let own = match &figure.programs {
            Programs::Own(own) => own.as_slice(),
            Programs::Shared(_) => &[],
        };
        let lists = [("programs", own), ("more_programs", figure.more_programs.as_slice())];
        for (list, programs) in lists {
            for (number, program) in programs.iter().enumerate() {
                let number = number.to_string();
                for name in mix_names(&program.name) {
                    self.part(&[list, &number, "name"], check_program(name));
                }
                for (key, size) in [("footprint", &program.footprint), ("quick", &program.quick)] {
                    let checked = size.as_ref().map_or(Ok(()), |text| parse_size(text).map(|_| ()));
                    self.part(&[list, &number, key], checked.map_err(|error| format!("`{key}`: {error}")));
                }
            }
        }
        let labels: Vec<&str> = figure.programs().map(|program| program.label()).collect();
        if let Some(twice) = labels.iter().enumerate().find(|(at, label)| labels[..*at].contains(label)) {
            let help = Some("give one of them a `label`".to_owned());
            self.problem(&["programs", &twice.0.to_string()], format!("two programs are called `{}`", twice.1), help);
        }
        for (number, cell) in figure.cells.iter().enumerate() {
            for name in mix_names(&cell.program).into_iter().filter(|name| !labels.contains(name)) {
                self.part(&["cells", &number.to_string(), "program"], check_program(name));
            }
        }
        if labels.is_empty() && figure.cells.is_empty() {
            let help = "write `programs = [\"gups\"]`; `ambulator list programs` names them".to_owned();
            self.problem(&[], "the study has no programs", Some(help));
        }
    }

    fn metrics(&mut self, figure: &Figure) {
        let designs: Vec<&str> = figure.designs_and_variants().iter().map(|(name, ..)| *name).collect();
        let programs: Vec<String> = figure.programs().map(|program| program.label().to_owned()).collect();
        if !figure.metrics.is_empty() && (!figure.axes().is_empty() || figure.machines().len() > 1) {
            let help = Some("make a variant for each value: [[variants]] with name, design and set".to_owned());
            let title = "metrics name designs, so a file with metrics has one machine and varies no settings";
            self.problem(&[if figure.axes().is_empty() { "machines" } else { "vary" }], title, help);
        }
        for (number, metric) in figure.metrics.iter().enumerate() {
            let number = number.to_string();
            let named =
                [("design", Some(&metric.design)), ("base", metric.base.as_ref()), ("huge", metric.huge.as_ref())];
            for (key, name) in named {
                if let Some(name) = name.filter(|name| !designs.contains(&name.as_str())) {
                    self.unknown(&["metrics", &number, key], "design of this file", name, &designs);
                }
            }
            if let Some(measure) = metric.measure.as_ref().filter(|measure| *measure != "ipc") {
                let known: Vec<&str> = MEASURES.iter().map(|of| of.name).chain(["ipc"]).collect();
                if !known.contains(&measure.as_str()) {
                    self.unknown(&["metrics", &number, "measure"], "measure", measure, &known);
                }
            }
            for label in metric.programs.iter().filter(|label| !programs.contains(label)) {
                let known: Vec<&str> = programs.iter().map(String::as_str).collect();
                self.unknown(&["metrics", &number, "programs"], "program of this file", label, &known);
            }
            let by_time = matches!(metric.kind, MetricKind::Overhead | MetricKind::WalkModel);
            if (by_time || metric.kind == MetricKind::GeomeanRatio) && metric.base.is_none() {
                let title = format!("the metric `{}` is relative to a `base`, which it does not have", metric.name);
                self.problem(&["metrics", &number], title, Some("write `base = \"DESIGN\"`".into()));
            }
            if metric.kind == MetricKind::WalkModel && metric.huge.is_none() {
                let title = format!("the metric `{}` needs `huge`, the design with huge pages", metric.name);
                self.problem(&["metrics", &number], title, None);
            }
            if !by_time && metric.measure.is_none() && metric.over.is_empty() {
                let help =
                    "write `measure = \"ipc\"`, or `over = [\"COUNTER\"]` and `under = [\"COUNTER\"]`".to_owned();
                let title = format!("the metric `{}` says not what it measures", metric.name);
                self.problem(&["metrics", &number], title, Some(help));
            }
        }
        let names: Vec<&str> = figure.metrics.iter().map(|metric| metric.name.as_str()).collect();
        for (number, deviation) in figure.deviations.iter().enumerate() {
            for pattern in deviation.of.iter().filter(|pattern| !names.iter().any(|name| is_meant(pattern, name))) {
                self.unknown(&["deviations", &number.to_string(), "of"], "metric of this file", pattern, &names);
            }
        }
    }

    fn unknown(&mut self, path: &[&str], what: &str, name: &str, known: &[&str]) {
        let help = nearest(name, known.iter().copied()).map(|meant| format!("did you mean `{meant}`?"));
        let help = help.or_else(|| (known.len() < 20).then(|| format!("there are: {}", known.join(", "))));
        self.problem(path, format!("there is no {what} `{name}`"), help);
    }
}

/// Whether a setting exists and the value is of its type; whether it is in range depends on the rest.
fn check_option(option: &str) -> Result<(), String> {
    if !option_settings(option).is_empty() {
        return Ok(());
    }
    let request = SpecRequest { options: vec![option.to_owned()], ..SpecRequest::default() };
    load(&request).map(|_| ()).map_err(|error| error.to_string())
}

fn check_program(name: &str) -> Result<(), String> {
    program_request(&crate::reproduce::find_trace(name), &[], None, 1).map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"designs = ["radix", "thp"]
programs = ["gups", { name = "bfs", footprint = "64MiB" }]
footprint = "16MiB"
[vary]
mmu.l2_tlb.entries = [512, 1024]
"#;

    fn error(text: &str) -> String {
        Figure::parse("mine.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_key_is_told_once_for_all_of_its_values() {
        let error = error(&STUDY.replace("l2_tlb.entries", "l2_tlb.entires"));
        assert_eq!(error.matches("there is no setting").count(), 1, "{error}");
    }

    #[test]
    fn a_study_says_what_runs() {
        let study = Figure::parse("mine.toml", STUDY).unwrap();
        assert_eq!(study.axes(), [("mmu.l2_tlb.entries".to_owned(), vec!["512".to_owned(), "1024".to_owned()])]);
        let dotted = STUDY.replace("mmu.l2_tlb.entries", "\"mmu.l2_tlb.entries\"");
        assert_eq!(Figure::parse("mine.toml", &dotted).unwrap().axes(), study.axes());
        assert_eq!(study.programs().map(|program| program.label()).collect::<Vec<_>>(), ["gups", "bfs"]);
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_stands() {
        for (from, to, line, wrong, help) in [
            ("\"thp\"", "\"tph\"", 1, "there is no design preset `tph`", "did you mean `thp`?"),
            ("\"thp\"", "\"radix\"", 1, "`radix` is named twice", "once"),
            ("\"gups\"", "\"gusp\"", 2, "`gusp`", "did you mean `gups`?"),
            ("64MiB", "64MB", 2, "`footprint`", ""),
            ("l2_tlb.entries", "l2_tlb.entires", 5, "there is no setting `mmu.l2_tlb.entires`", "mmu.l2_tlb.entries"),
            ("1024", "\"many\"", 5, "mmu.l2_tlb.entries", ""),
            ("1024", "512", 5, "has the value 512 twice", ""),
            ("footprint = \"16MiB\"", "footprnt = 1", 3, "unknown field `footprnt`, expected one of", ""),
            ("footprint = \"16MiB\"", "seeds = 0", 3, "`seeds` names no seed", ""),
            ("footprint = \"16MiB\"", "seeds = \"x\"", 3, "a number of seeds", ""),
            ("footprint = \"16MiB\"", "instructions = \"1X\"", 3, "`instructions`", ""),
            ("footprint = \"16MiB\"", "machine = \"utopia-tabel1\"", 3, "no machine preset", "utopia-table1"),
        ] {
            let error = error(&STUDY.replace(from, to));
            assert!(error.contains(&format!("mine.toml:{line}:")), "{to}: {error}");
            assert!(error.contains(wrong) && error.contains(help), "{to}: {error}");
        }
        assert!(error("programs = ['gups']").contains("the study has no designs"));
        assert!(error("designs = ['radix']").contains("the study has no programs"));
    }

    #[test]
    fn metrics_name_what_is_there() {
        let with = |metric: &str| {
            let text = format!(
                "designs = ['radix', 'thp']\nprograms = ['gups']\n[[metrics]]\nname = 'x'\nunit = 'x'\nsource = '-'\n{metric}"
            );
            Figure::parse("mine.toml", &text).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(with("kind = 'geomean-ratio'\ndesign = 'thp'\nbase = 'radix'\nmeasure = 'ipc'"), Ok(()));
        for (metric, wrong) in [
            ("kind = 'mean'\ndesign = 'tph'\nmeasure = 'ipc'", "did you mean `thp`?"),
            ("kind = 'mean'\ndesign = 'thp'\nmeasure = 'walk_latency'", "did you mean `walk_latency_mean`?"),
            ("kind = 'geomean-ratio'\ndesign = 'thp'\nmeasure = 'ipc'", "is relative to a `base`"),
            ("kind = 'mean'\ndesign = 'thp'", "says not what it measures"),
            ("kind = 'men'\ndesign = 'thp'", "unknown variant `men`"),
            ("kind = 'mean'\ndesign = 'thp'\nmeasure = 'ipc'\nprograms = ['gusp']", "no program of this file `gusp`"),
        ] {
            let error = with(metric).unwrap_err();
            assert!(error.contains(wrong) && error.contains("mine.toml:"), "{metric}: {error}");
        }
    }
}
