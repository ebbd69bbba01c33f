//! Bars and stacks of bars: where cycles, loads, memory and energy go.

use super::rows::{axis, object, rows};
use super::{Chart, Table, rounded, spec};
use crate::study::{Comparison, Study};
use crate::theme::{PALETTE, shade};
use ambulator_experiments::{CycleStack, Family};
use ambulator_simulator::RunResult;
use serde_json::{Value, json};

/// A part of a stack: its words and its colour.
struct Part {
    words: String,
    colour: String,
}

/// What a figure of stacked bars shows.
struct Stacked<'a> {
    id: &'static str,
    title: &'a str,
    caption: &'a str,
    /// The quantity, with its unit.
    axis: &'a str,
    unit: &'a str,
    /// Format of the axis.
    format: &'a str,
    /// The greatest sum that there can be, if there is one.
    most: Option<f64>,
    parts: Vec<Part>,
}

impl Stacked<'_> {
    /// The figure; `values` are those of a run, in the order of the parts. Parts that no run has are left
    /// out.
    fn chart(self, study: &Study, values: impl Fn(&RunResult) -> Option<Vec<f64>>) -> Option<Chart> {
        let runs = study.comparisons.iter().flat_map(|comparison| study.shown_runs(comparison));
        let all: Vec<Vec<f64>> = runs.filter_map(&values).collect();
        let used: Vec<usize> =
            (0..self.parts.len()).filter(|part| all.iter().any(|values| values[*part] != 0.0)).collect();
        if used.is_empty() {
            return None;
        }
        let mut table_rows = Vec::new();
        let data = rows(study, "value", 0.0, |comparison, run| {
            let Some(values) = values(run) else { return Vec::new() };
            let mut row = vec![json!(comparison.label), json!(run.design)];
            row.extend(used.iter().map(|part| rounded(values[*part])));
            row.push(rounded(values.iter().sum()));
            table_rows.push(row);
            let value = |part: &usize| {
                let words = &self.parts[*part].words;
                object([("part", json!(words)), ("value", rounded(values[*part])), ("order", json!(part))])
            };
            used.iter().map(value).collect()
        });
        let mut columns = vec![("program".to_owned(), String::new()), ("design".to_owned(), String::new())];
        columns.extend(used.iter().map(|part| (self.parts[*part].words.clone(), self.unit.to_owned())));
        columns.push(("all".to_owned(), self.unit.to_owned()));
        let domain: Vec<&str> = used.iter().map(|part| self.parts[*part].words.as_str()).collect();
        let range: Vec<&str> = used.iter().map(|part| self.parts[*part].colour.as_str()).collect();
        let say = format!(
            "datum.program + ', ' + datum.design + ': ' + format(datum.value, '.4~r') + ' {} for ' + datum.part",
            self.unit
        );
        let body = json!({
            "transform": [{"calculate": say, "as": "say"}],
            "height": {"step": 22},
            "params": [{"name": "picked", "select": {"type": "point", "fields": ["part"]}, "bind": "legend"}],
            "mark": {"type": "bar", "height": {"band": 0.72}},
            "encoding": {
                "y": axis(),
                "x": {
                    "field": "value", "type": "quantitative", "title": self.axis, "stack": "zero",
                    "axis": {"format": self.format}, "scale": scale(self.most),
                },
                "color": {
                    "field": "part", "type": "nominal", "title": null, "scale": {"domain": domain, "range": range},
                },
                "order": {"field": "order", "type": "quantitative"},
                "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
                "tooltip": [
                    {"field": "program"}, {"field": "design"}, {"field": "part"},
                    {"field": "value", "title": self.unit, "format": ",.4~r"},
                ],
                "description": {"field": "say"},
            },
        });
        Some(Chart {
            id: self.id.into(),
            kind: self.id.into(),
            title: self.title.into(),
            caption: self.caption.into(),
            program: None,
            spec: spec(&format!("{}, by program and design.", self.title), data, body),
            table: Table { columns, rows: table_rows },
        })
    }
}

/// A scale that ends where values do.
fn scale(most: Option<f64>) -> Value {
    most.map_or_else(|| json!({}), |most| json!({"domain": [0, most]}))
}

/// Cycles by what took them.
pub fn cycles(study: &Study) -> Option<Chart> {
    let runs: Vec<&RunResult> = study.comparisons.iter().flat_map(|comparison| study.shown_runs(comparison)).collect();
    let stacks: Vec<CycleStack> = runs.iter().filter_map(|run| CycleStack::of(run)).collect();
    // Causes of the operating system's cycles are few pixels each: together in the figure.
    let mut named: Vec<(Family, &str)> = Vec::new();
    for (words, _) in stacks.iter().flat_map(|stack| &stack.parts) {
        let family = Family::of(words);
        let words = if family == Family::OperatingSystem { Family::OS_WORDS } else { words };
        if !named.contains(&(family, words)) {
            named.push((family, words));
        }
    }
    named.sort_by_key(|(family, _)| *family);
    let parts = named.iter().map(|(family, words)| {
        let of_family: Vec<_> = named.iter().filter(|(other, _)| other == family).collect();
        let number = of_family.iter().position(|(_, other)| other == words).unwrap_or(0);
        Part { words: (*words).into(), colour: shade(*family as usize, number, of_family.len()) }
    });
    let stacked = Stacked {
        id: "cycles",
        title: "Where the cycles go",
        caption: "Cycles for each 1000 instructions, by what the core waited for. The parts add up to all cycles: a shorter \
                  bar is a faster run. Orange is translation, blue is data.",
        axis: "cycles per 1000 instructions",
        unit: "cycles per 1000 instructions",
        format: "~s",
        most: None,
        parts: parts.collect(),
    };
    stacked.chart(study, |run| {
        let stack = CycleStack::of(run)?;
        let value = |(family, words): &(Family, &str)| {
            let own = stack.parts.iter().filter(|(of, _)| match family {
                Family::OperatingSystem => Family::of(of) == *family,
                _ => of == words,
            });
            own.map(|(_, cycles)| cycles).sum()
        };
        Some(named.iter().map(value).collect())
    })
}

/// What served the loads of page walks.
pub fn served(study: &Study) -> Option<Chart> {
    const LEVELS: [(&str, &str); 4] = [
        ("walk_served_l1", "L1 cache"),
        ("walk_served_l2", "L2 cache"),
        ("walk_served_llc", "last-level cache"),
        ("walk_served_dram", "DRAM"),
    ];
    let parts = LEVELS.iter().enumerate();
    let stacked = Stacked {
        id: "walks-served",
        title: "Where the loads of page walks hit",
        caption: "Shares of the loads that page walks issue, by what served them. Designs without page walks have no bar.",
        axis: "loads of walks, %",
        unit: "%",
        format: "~r",
        most: Some(100.0),
        parts: parts.map(|(at, (_, words))| Part { words: (*words).into(), colour: shade(1, at, 4) }).collect(),
    };
    stacked.chart(study, |run| {
        let any = run.measure("walk_accesses_mean") > 0.0;
        any.then(|| LEVELS.iter().map(|(measure, _)| 100.0 * run.measure(measure)).collect())
    })
}

/// Energy by what takes it.
pub fn energy(study: &Study) -> Option<Chart> {
    const PARTS: [(&str, &str, usize); 5] = [
        ("energy_instructions", "instructions", 0),
        ("energy_tlbs", "TLBs, lookasides and walk caches", 1),
        ("energy_caches", "caches", 2),
        ("energy_dram", "DRAM", 3),
        ("energy_static", "static", 4),
    ];
    let parts = PARTS.iter().map(|(_, words, family)| Part { words: (*words).into(), colour: shade(*family, 0, 1) });
    let stacked = Stacked {
        id: "energy",
        title: "Energy",
        caption: "An estimate of the energy for each instruction, by the table `energy` of the spec.",
        axis: "pJ per instruction",
        unit: "pJ per instruction",
        format: "~s",
        most: None,
        parts: parts.collect(),
    };
    stacked.chart(study, |run| {
        let scale = 1000.0 / run.simulated_instructions.max(1) as f64;
        let known = run.measures.contains_key("energy");
        known.then(|| PARTS.iter().map(|(measure, ..)| scale * run.measure(measure)).collect())
    })
}

/// What a figure of plain bars shows.
struct Bars<'a> {
    id: &'static str,
    title: &'a str,
    caption: &'a str,
    axis: &'a str,
    unit: &'a str,
    format: &'a str,
    /// The greatest value that there can be, if there is one.
    most: Option<f64>,
}

impl Bars<'_> {
    /// The figure. A run has bars with a name; one without a name if there is but one.
    fn chart(self, study: &Study, values: impl Fn(&Comparison, &RunResult) -> Vec<(String, f64)>) -> Option<Chart> {
        let mut table_rows = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let data = rows(study, "value", 0.0, |comparison, run| {
            let bars = values(comparison, run);
            let bar = |(name, value): &(String, f64)| {
                table_rows.push(vec![json!(comparison.label), json!(run.design), json!(name), rounded(*value)]);
                if !names.contains(name) {
                    names.push(name.clone());
                }
                object([("of", json!(name)), ("value", rounded(*value))])
            };
            bars.iter().map(bar).collect()
        });
        if table_rows.is_empty() {
            return None;
        }
        let several = names.len() > 1;
        let say = format!(
            "datum.program + ', ' + datum.design + (datum.of ? ', ' + datum.of : '') + ': ' + format(datum.value, '.4~r') + ' {}'",
            self.unit
        );
        let x = json!({
            "field": "value", "type": "quantitative", "title": self.axis, "stack": null,
            "axis": {"format": self.format}, "scale": scale(self.most),
        });
        let mut encoding = json!({
            "y": axis(),
            "x": x,
            "color": {
                "field": "of", "type": "nominal", "title": null,
                "scale": {"domain": names, "range": (0..names.len()).map(|at| PALETTE[at % PALETTE.len()]).collect::<Vec<_>>()},
                "legend": if several { json!({}) } else { Value::Null },
            },
            "tooltip": [
                {"field": "program"}, {"field": "design"}, {"field": "of", "title": "of"},
                {"field": "value", "title": self.unit, "format": ",.4~r"},
            ],
            "description": {"field": "say"},
        });
        if several {
            encoding["yOffset"] = json!({"field": "of", "type": "nominal", "sort": names});
        }
        let body = json!({
            "transform": [{"calculate": say, "as": "say"}],
            "height": {"step": if several { 12 } else { 22 }, "for": if several { "offset" } else { "position" }},
            "mark": {"type": "bar", "height": {"band": if several { 1.0 } else { 0.62 }}},
            "encoding": encoding,
        });
        let columns = [("program", ""), ("design", ""), ("of", ""), (self.axis, self.unit)];
        Some(Chart {
            id: self.id.into(),
            kind: self.id.into(),
            title: self.title.into(),
            caption: self.caption.into(),
            program: None,
            spec: spec(&format!("{}, by program and design.", self.title), data, body),
            table: Table {
                columns: columns.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into(),
                rows: table_rows,
            },
        })
    }
}

/// Memory of page tables.
pub fn tables(study: &Study) -> Option<Chart> {
    const MIB: f64 = (1u64 << 20) as f64;
    let bars = Bars {
        id: "table-bytes",
        title: "Memory of page tables",
        caption: "Bytes of the page tables of all processes at the end of the run, and the largest piece of contiguous memory \
                  that a table asked for.",
        axis: "MiB",
        unit: "MiB",
        format: "~s",
        most: None,
    };
    bars.chart(study, |_, run| {
        let of = [("all tables", "table_bytes"), ("largest contiguous piece", "table_largest_contiguous")];
        let known = of.iter().filter(|(_, measure)| run.measures.contains_key(*measure));
        known.map(|(words, measure)| ((*words).to_owned(), run.measure(measure) / MIB)).collect()
    })
}

/// How full the segments of set-associative placements are: counters `SEGMENT.taken` and `SEGMENT.ways`.
pub fn segments(study: &Study) -> Option<Chart> {
    let bars = Bars {
        id: "segments",
        title: "Use of set-associative segments",
        caption: "Shares of the ways of restrictive segments that hold a page at the end, of designs that place pages there.",
        axis: "ways in use, %",
        unit: "%",
        format: "~r",
        most: Some(100.0),
    };
    bars.chart(study, |_, run| {
        let segment = |(name, ways): (&String, &u64)| {
            let segment = name.strip_suffix(".ways")?;
            let taken = run.counters.get(&format!("{segment}.taken"))?;
            let words = segment.rsplit('.').next().unwrap_or(segment).replace('_', " ");
            (*ways > 0).then(|| (words, 100.0 * *taken as f64 / *ways as f64))
        };
        run.counters.iter().filter_map(segment).collect()
    })
}

/// What lookasides resolve.
pub fn lookaside(study: &Study) -> Option<Chart> {
    let bars = Bars {
        id: "lookaside",
        title: "Misses that a lookaside resolves",
        caption: "Of the L2 TLB misses that found a page, the share that the structure beside the L2 TLB resolved without a \
                  page walk, of designs that have one.",
        axis: "L2 TLB misses resolved, %",
        unit: "%",
        format: "~r",
        most: Some(100.0),
    };
    bars.chart(study, |_, run| {
        let probes = run.counters.get("mmu.lookaside_probes").copied().unwrap_or(0);
        let value = || (String::new(), 100.0 * run.measure("lookaside_share"));
        (probes > 0).then(value).into_iter().collect()
    })
}

/// Cache lines that hold translations.
pub fn cache_share(study: &Study) -> Option<Chart> {
    let bars = Bars {
        id: "cache-share",
        title: "Cache lines that hold translations",
        caption: "Shares of the lines of the L2 and the last-level cache that hold page-table entries or other translations, \
                  mean over the run.",
        axis: "lines with translations, %",
        unit: "%",
        format: "~r",
        most: None,
    };
    bars.chart(study, |_, run| {
        let of = [("last-level cache", "llc_translation_share"), ("L2 cache", "l2_translation_share")];
        let known = of.iter().filter(|(_, measure)| run.measures.contains_key(*measure));
        known.map(|(words, measure)| ((*words).to_owned(), 100.0 * run.measure(measure))).collect()
    })
}
