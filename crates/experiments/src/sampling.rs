//! How runs were sampled (`run.sampling`): in words, as columns of tables, and whether two were sampled alike.

use crate::grid::{Entry, Head};
use crate::interval::Spread;
use crate::number::{count, numbered};
use crate::vocabulary::{Term, TermKind};
use ambulator_simulator::{RunResult, Sampled};

/// What was measured of a sampled region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// A window of each period.
    Windows,
    /// Intervals of each phase.
    Phases,
}

impl Method {
    fn of(sampled: &Sampled) -> Method {
        if sampled.intervals.is_empty() { Method::Windows } else { Method::Phases }
    }

    /// As `run.sampling` has it.
    fn name(self) -> &'static str {
        match self {
            Method::Windows => "windows",
            Method::Phases => "phases",
        }
    }
}

/// How a run was sampled; `None` if its whole region was measured.
pub(crate) fn method_of(run: &RunResult) -> Option<Method> {
    run.sampled.as_ref().map(Method::of)
}

/// Settings that say which instructions of a program are measured.
const WHICH: [&str; 5] = ["sampling", "sample_period", "sample_window", "instructions", "warmup"];

/// Whether two runs measured the same instructions of a program, as far as their specs are known.
pub(crate) fn are_sampled_alike(one: &RunResult, other: &RunResult) -> bool {
    let setting = |run: &RunResult, name: &str| run.spec.pointer(&format!("/run/{name}")).cloned();
    let is_same = |name: &&str| setting(one, name).zip(setting(other, name)).is_none_or(|(one, other)| one == other);
    method_of(one) == method_of(other) && WHICH.iter().all(is_same)
}

/// What differs in the sampling of two runs, and what that means for their numbers, in a sentence; `None` if
/// nothing does.
pub(crate) fn sampled_differently(a: &RunResult, b: &RunResult) -> Option<String> {
    let methods = [method_of(a), method_of(b)];
    if are_sampled_alike(a, b) || methods == [None, None] {
        return None;
    }
    let how = |run: &RunResult| measured(run).unwrap_or_else(|| "not sampled".to_owned());
    let so = if methods.contains(&Some(Method::Windows)) {
        "counts and cycles of windows are sums over the windows, so compare ratios, not counts"
    } else {
        "counts and cycles of both are for the whole region"
    };
    Some(format!("A and B were sampled differently (A: {}; B: {}): {so}.", how(a), how(b)))
}

/// What was measured of a sampled region, in words.
fn measured(run: &RunResult) -> Option<String> {
    let sampled = run.sampled.as_ref()?;
    let covered = count(sampled.covered as f64);
    let phases = sampled.phases();
    if phases.is_empty() {
        let (windows, own) = (numbered(sampled.windows as usize, "window"), count(run.simulated_instructions as f64));
        return Some(format!("{windows} with {own} of {covered} instructions measured"));
    }
    let all: u64 = phases.iter().map(|(intervals, _)| intervals).sum();
    let share = |(own, _): &(u64, u64)| format!("{:.0}%", 100.0 * *own as f64 / all as f64);
    let shares: Vec<String> = phases.iter().map(share).collect();
    let own: u64 = sampled.intervals.iter().map(|of| of.instructions).sum();
    Some(format!(
        "{} of {} measured, of {} ({}), with {} of {covered} instructions",
        sampled.windows,
        numbered(all as usize, "interval"),
        numbered(phases.len(), "phase"),
        shares.join(", "),
        count(own as f64)
    ))
}

/// How a run was sampled, in words; `None` if its whole region was measured.
pub fn sampled_as(run: &RunResult) -> Option<String> {
    with_intervals(run, run.over_seeds.is_empty())
}

/// With what its intervals are, if tables have those of the run and not those over seeds.
fn with_intervals(run: &RunResult, are_own: bool) -> Option<String> {
    let about = match &run.sampled {
        _ if !are_own => "",
        Some(sampled) if sampled.half.is_empty() => ", too few for 95% intervals",
        _ => " (± half of the 95% interval)",
    };
    measured(run).map(|measured| measured + about)
}

/// Ways in which runs were sampled that are told; tables have them all.
const MOST_TOLD: usize = 5;

/// How runs were sampled: a sentence for each program and way. `own_intervals` are those of a run, not over seeds.
pub fn about_sampling<'a>(runs: impl IntoIterator<Item = &'a RunResult>, own_intervals: bool) -> Vec<String> {
    let mut ways: Vec<(&str, String)> = Vec::new();
    for run in runs {
        let way = with_intervals(run, own_intervals).map(|text| (run.program.as_str(), text));
        ways.extend(way.filter(|way| !ways.contains(way)));
    }
    if let [(_, way)] = &ways[..] {
        return vec![format!("Sampled: {way}.")];
    }
    let more = ways.len().saturating_sub(MOST_TOLD);
    let mut told: Vec<String> =
        ways.iter().take(MOST_TOLD).map(|(program, way)| format!("Sampled, {program}: {way}.")).collect();
    if more > 0 {
        told.push(format!("The others were sampled in {}: --csv has each.", numbered(more, "other way")));
    }
    told
}

/// Columns of tables that say how runs were sampled: name, and the column of a row that it shows.
pub const SAMPLING_COLUMNS: [(&str, &str); 5] = [
    ("sampling", "run.sampling"),
    ("windows or intervals", "sampled.windows"),
    ("phases", "sampled.intervals.phase"),
    ("instructions covered", "sampled.covered"),
    ("instructions with time", "sampled.timed"),
];

/// The heads of the columns.
pub(crate) fn heads() -> impl Iterator<Item = Head> {
    let [method, numbers @ ..] = SAMPLING_COLUMNS;
    std::iter::once(Head::text(method.0)).chain(numbers.map(|(name, _)| Head::number(name, None)))
}

/// What the columns have for a run.
pub(crate) fn entries(run: Option<&RunResult>) -> [Entry; 5] {
    let Some(run) = run else { return [const { Entry::Missing }; 5] };
    let Some(sampled) = &run.sampled else {
        return [Entry::Text("none".to_owned()), Entry::Missing, Entry::Missing, Entry::Missing, Entry::Missing];
    };
    let number = |value: u64| Entry::Number(Spread { mean: value as f64, half: None, seeds: 1 });
    let method = Method::of(sampled);
    let phases = sampled.phases().len() as u64;
    [
        Entry::Text(method.name().to_owned()),
        number(sampled.windows),
        if method == Method::Phases { number(phases) } else { Entry::Missing },
        number(sampled.covered),
        number(sampled.timed),
    ]
}

/// The columns as rows of a table with a column for each run; none if no run was sampled.
pub(crate) fn rows(runs: &[&RunResult]) -> Vec<Vec<Entry>> {
    if runs.iter().all(|run| run.sampled.is_none()) {
        return Vec::new();
    }
    let of_runs: Vec<[Entry; 5]> = runs.iter().map(|run| entries(Some(run))).collect();
    let row = |(at, (name, _)): (usize, &(&str, &str))| {
        let label = Entry::Text((*name).to_owned());
        std::iter::once(label).chain(of_runs.iter().map(|of| of[at].clone())).collect()
    };
    SAMPLING_COLUMNS.iter().enumerate().map(row).collect()
}

/// What the columns mean.
pub(crate) fn terms() -> impl Iterator<Item = Term> {
    let [(method, setting), numbers @ ..] = SAMPLING_COLUMNS;
    let meaning = "How the region was sampled: none, windows of each period, or intervals of its phases.";
    let method = Term { see: vec![setting.to_owned()], ..Term::new(TermKind::Row, method, meaning) };
    std::iter::once(method).chain(numbers.into_iter().map(|(name, shows)| Term::row(name, &[shows])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_simulator::MeasuredInterval;

    fn run(program: &str, sampled: Sampled) -> RunResult {
        RunResult {
            program: program.into(),
            simulated_instructions: 20_000,
            sampled: Some(sampled),
            ..RunResult::default()
        }
    }

    fn windows(count: u64) -> Sampled {
        let half = [("ipc".to_owned(), 0.1)].into();
        Sampled { windows: count, covered: 1_000_000, timed: 30_000, half, ..Sampled::default() }
    }

    fn phases() -> Sampled {
        let interval = |phase, weight| MeasuredInterval { phase, weight, instructions: 1000, ..Default::default() };
        let intervals = vec![interval(0, 7), interval(0, 8), interval(1, 5)];
        Sampled { windows: 3, covered: 20_000, timed: 4000, intervals, ..Sampled::default() }
    }

    #[test]
    fn a_sentence_says_how_much_was_measured() {
        let (of_windows, of_phases) = (run("gups", windows(20)), run("bfs", phases()));
        assert_eq!(
            about_sampling([&of_windows, &of_windows, &RunResult::default()], true),
            ["Sampled: 20 windows with 20.0 k of 1.00 M instructions measured (± half of the 95% interval)."]
        );
        assert_eq!(
            about_sampling([&of_windows, &of_phases], true)[1],
            "Sampled, bfs: 3 of 20 intervals measured, of 2 phases (75%, 25%), with 3000 of 20.0 k instructions, too few \
             for 95% intervals."
        );
        let many: Vec<RunResult> = (1..=7).map(|count| run("gups", windows(count))).collect();
        let told = about_sampling(&many, true);
        assert!(told.len() == 6 && told[5].contains("2 other ways") && told[0].contains("1 window with"), "{told:?}");
        let over_seeds = RunResult { over_seeds: vec![of_windows.clone(); 2], ..of_windows };
        assert!(sampled_as(&over_seeds).unwrap().ends_with("measured"), "its intervals are over seeds");
    }

    #[test]
    fn columns_have_what_was_measured() {
        let text = |run: &RunResult| format!("{:?}", entries(Some(run)));
        assert!(text(&RunResult::default()).starts_with("[Text(\"none\"), Missing"));
        assert!(text(&run("gups", windows(20))).starts_with("[Text(\"windows\"), Number(Spread { mean: 20.0"));
        let Entry::Number(Spread { mean, .. }) = entries(Some(&run("bfs", phases())))[2] else { panic!() };
        assert_eq!((mean, heads().count()), (2.0, SAMPLING_COLUMNS.len()));
    }
}
