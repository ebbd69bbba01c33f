//! What a study will take: cells, time and memory, before it runs.

use crate::cell::Cell;
use crate::memory::sim_host_bytes;
use crate::runner::{Reuse, Runner};
use crate::store::Store;
use ambulator_simulator::spec::{Sampling, Spec};
use ambulator_simulator::{RunResult, Silent, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What cells will take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Different cells.
    pub cells: usize,
    /// Of them, those in the store, failed ones included.
    pub stored: usize,
    /// Of them, those in the store that have failed.
    pub failed: usize,
    /// Cells that cannot be: their settings exclude each other.
    pub impossible: usize,
    /// Programs' streams to decode.
    pub streams: usize,
    /// Seconds of one thread for those that are missing; `None` if nothing is known of any.
    pub seconds: Option<f64>,
    /// Missing cells whose time is from stored cells of the same design and program, of the same program, of
    /// others, and from a short trial.
    pub known_by: [usize; 4],
    /// Bytes that the largest cell declares, with its program.
    pub largest_cell: u64,
    /// Bytes that all missing cells of one stream declare, of the stream with most.
    pub largest_stream: u64,
}

impl Estimate {
    /// Adds that of other cells.
    pub fn add(&mut self, other: &Estimate) {
        self.cells += other.cells;
        self.stored += other.stored;
        self.failed += other.failed;
        self.impossible += other.impossible;
        self.streams += other.streams;
        self.seconds = self.seconds.zip(other.seconds).map(|(one, other)| one + other);
        self.known_by.iter_mut().zip(other.known_by).for_each(|(own, other)| *own += other);
        self.largest_cell = self.largest_cell.max(other.largest_cell);
        self.largest_stream = self.largest_stream.max(other.largest_stream);
    }
}

/// Seconds of set-up and for each instruction, of a program with so many bytes of data.
#[derive(Clone, Copy, Debug)]
struct Speed {
    setup: f64,
    instruction: f64,
    /// 0 if it is not known.
    footprint: f64,
}

/// What an instruction without time costs, relative to one with time, and one that is skipped or read for its
/// phases (`docs/src/sampling.md` has measured costs of all three).
const UNTIMED: f64 = 1.0 / 3.0;
const READ: f64 = 1.0 / 8.0;
/// Seconds of set-up for each page of 4 KiB by which a program is larger than the one that is known; most of
/// the rest is the machine's, and the same for any size. Seconds for each byte of data that a program makes.
/// Both are of a server of 2.1 GHz.
const SETUP_OF_PAGE: f64 = 1.5e-6;
const MAKE_BYTE: f64 = 3e-9;

impl Speed {
    /// Of a run: its seconds, those of them for first touches and warm-up, and the instructions of all cores
    /// in the measured region and in the warm-up.
    fn of(seconds: f64, setup: f64, instructions: f64, warmup: f64) -> Option<Speed> {
        let instruction = (seconds - setup) / instructions;
        let setup = (setup - instruction * warmup).max(0.0);
        (instructions > 0.0 && seconds > 0.0).then_some(Speed { setup, instruction, footprint: 0.0 })
    }

    fn mean(all: &[Speed]) -> Option<Speed> {
        let n = all.len() as f64;
        let sum = |of: fn(&Speed) -> f64| all.iter().map(of).sum::<f64>() / n;
        (!all.is_empty()).then(|| Speed {
            setup: sum(|of| of.setup),
            instruction: sum(|of| of.instruction),
            footprint: sum(|of| of.footprint),
        })
    }

    /// Seconds of a cell: its set-up is longer where it has more data.
    fn seconds(&self, cell: &Cell, spec: &Spec) -> f64 {
        let footprint = cell.programs.footprint as f64 / cell.programs.requests.len().max(1) as f64;
        let more = if self.footprint > 0.0 { (footprint - self.footprint).max(0.0) / 4096.0 } else { 0.0 };
        self.setup + SETUP_OF_PAGE * more + self.instruction * timed_instructions(cell, spec)
    }
}

/// Instructions of a cell, all cores together, each as what it costs relative to one with time.
fn timed_instructions(cell: &Cell, spec: &Spec) -> f64 {
    let run = &spec.run;
    let (untimed, period) = (run.untimed_warmup() as f64, run.sample_period as f64);
    let timed = (run.sample_window + run.sample_timing) as f64 / period;
    let warmed = if run.sample_warming == 0 { 1.0 - timed } else { run.sample_warming as f64 / period };
    let sampled = timed + warmed * UNTIMED + (1.0 - timed - warmed).max(0.0) * READ;
    let each = match run.sampling {
        Sampling::None => 1.0,
        Sampling::Windows => sampled,
        Sampling::Phases => sampled + READ,
    };
    let of_core = |length: Option<u64>| {
        // A trace ends before.
        let share = if run.spread_threads { f64::from(spec.machine.cores) } else { 1.0 };
        let most = length.map_or(f64::INFINITY, |length| (length as f64 / share - run.warmup as f64).max(0.0));
        (run.warmup as f64 - untimed) + untimed * UNTIMED + each * (run.instructions as f64).min(most)
    };
    let lengths = cell.programs.instructions_on(spec);
    let mean = lengths.iter().map(|length| of_core(*length)).sum::<f64>() / lengths.len().max(1) as f64;
    mean * f64::from(spec.machine.cores)
}

/// Short runs of programs of which nothing is known.
#[derive(Debug, Default)]
pub struct Trials {
    /// By the key of a cell: the one that is tried in its place.
    instead: BTreeMap<String, Cell>,
    /// By the program that was tried: its speed, unless the trial has failed.
    done: BTreeMap<String, Option<Speed>>,
}

impl Trials {
    /// In the place of `cell`, `other` is tried, with the same program of another size.
    pub fn try_instead(&mut self, cell: &Cell, other: &Cell) {
        self.instead.insert(cell.key().to_owned(), other.clone());
    }

    fn speed(&mut self, cell: &Cell, runner: &Runner) -> Option<Speed> {
        let tried = self.instead.get(cell.key()).unwrap_or(cell);
        let program = tried.programs.identity();
        if let Some(known) = self.done.get(program) {
            return *known;
        }
        let speed = trial(tried, runner);
        self.done.insert(program.to_owned(), speed);
        speed
    }
}

/// Instructions of a trial, after at most as many that warm it up: the first of a run are the slowest.
const TRIAL: u64 = 100_000;

/// Estimates what `cells` will take with `runner`. Programs of which the store has no cell are tried, with
/// the first of their cells, for some instructions, if there are `trials`.
pub fn estimate(
    cells: &[Cell],
    store: Option<&Store>,
    reuse: Reuse,
    runner: &Runner,
    mut trials: Option<&mut Trials>,
) -> Estimate {
    let mut different: BTreeMap<&str, &Cell> = BTreeMap::new();
    cells.iter().for_each(|cell| _ = different.entry(cell.key()).or_insert(cell));
    let mut estimate = Estimate { cells: different.len(), ..Estimate::default() };
    let mut missing: Vec<&Cell> = Vec::new();
    for cell in different.into_values() {
        let row = store.filter(|_| reuse != Reuse::Nothing).and_then(|store| store.row(cell.key()));
        let failed = row.as_ref().is_some_and(|row| row.get("status").is_some_and(|status| status == "failed"));
        if row.is_some() && !(failed && reuse == Reuse::Final) {
            estimate.stored += 1;
            estimate.failed += usize::from(failed);
        } else if cell.spec.is_err() {
            estimate.impossible += 1;
        } else {
            missing.push(cell);
        }
    }
    let (mut streams, mut made): (BTreeMap<String, u64>, f64) = (BTreeMap::new(), 0.0);
    for cell in &missing {
        let (Ok(spec), Some(stream)) = (&cell.spec, cell.stream()) else { continue };
        let footprint = cell.programs.footprint_on(spec);
        let (own, of_program) = (sim_host_bytes(spec, footprint), cell.programs.sim_host_bytes_on(spec));
        estimate.largest_cell = estimate.largest_cell.max(own + of_program);
        *streams.entry(stream).or_insert_with(|| {
            made += MAKE_BYTE * of_program as f64;
            of_program
        }) += own;
    }
    estimate.streams = streams.len();
    estimate.largest_stream = streams.into_values().max().unwrap_or(0);
    let known = store.filter(|_| !missing.is_empty()).map(speeds).unwrap_or_default();
    let mut total = Some(made);
    for cell in missing {
        let Ok(spec) = &cell.spec else { continue };
        let program = cell.programs.label.as_str();
        let mean = |of: &dyn Fn(&str, &str) -> bool| {
            let of = known.iter().filter(|(design, program, _)| of(design, program)).map(|(.., speed)| *speed);
            Speed::mean(&of.collect::<Vec<_>>())
        };
        let ways: [&dyn Fn() -> Option<Speed>; 2] =
            [&|| mean(&|design, of| design == cell.design && of == program), &|| mean(&|_, of| of == program)];
        let mut found = ways.iter().enumerate().find_map(|(way, speed)| Some((way, speed()?)));
        if found.is_none()
            && let Some(trials) = &mut trials
        {
            found = trials.speed(cell, runner).map(|speed| (3, speed));
        }
        let found = found.or_else(|| Some((2, mean(&|_, _| true)?)));
        match found {
            Some((way, speed)) => {
                estimate.known_by[way] += 1;
                total = total.map(|total| total + speed.seconds(cell, spec));
            }
            None => total = None,
        }
    }
    estimate.seconds = total;
    estimate
}

/// The speeds of stored cells: design, program, speed.
fn speeds(store: &Store) -> Vec<(String, String, Speed)> {
    let mut warmups: BTreeMap<String, f64> = BTreeMap::new();
    let mut speed = |row: crate::row::Row| {
        let number = |name: &str| row.get(name)?.as_f64();
        let text = |name: &str| row.get(name)?.as_str().map(str::to_owned);
        let warmup = *warmups.entry(text("spec")?).or_insert_with_key(|hash| {
            let spec = store.spec(hash).unwrap_or_default();
            let of = |key: &str| spec.pointer(key).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
            of("/run/warmup") * of("/machine/cores")
        });
        let (seconds, setup) = (number("host.seconds")?, number("host.setup_seconds")?);
        let speed = Speed::of(seconds, setup, number("instructions")?, warmup)?;
        let speed = Speed { footprint: number("footprint").unwrap_or(0.0), ..speed };
        // Most of a sampled run is cheaper than its instructions say, and one from a checkpoint has no set-up.
        if row.contains_key("sampled.covered") || row.contains_key("host.checkpoint") {
            return None;
        }
        (text("status")? == "done").then_some((text("design")?, text("program")?, speed))
    };
    store.rows().filter_map(&mut speed).collect()
}

/// Runs a cell for some instructions.
fn trial(cell: &Cell, runner: &Runner) -> Option<Speed> {
    let mut spec = (**cell.spec.as_ref().ok()?).clone();
    spec.run.warmup = spec.run.warmup.min(TRIAL);
    spec.run.instructions = spec.run.instructions.min(TRIAL);
    (spec.run.sampling, spec.run.interval) = (Sampling::None, 0);
    let warmup = spec.run.warmup as f64 * f64::from(spec.machine.cores);
    let short = Cell { spec: Ok(Arc::new(spec)), ..cell.clone() };
    let alone = Runner {
        store: None,
        reuse: Reuse::Nothing,
        checkpoints: None,
        threads: 1,
        memory: runner.memory,
        stop: Arc::clone(&runner.stop),
        progress: Arc::new(Silent),
    };
    let finished = alone.run(vec![short]);
    let run: &RunResult = &finished.cells[0].as_ref()?.run;
    let done = run.status == Status::Done;
    let instructions = run.simulated_instructions as f64;
    let speed = Speed::of(run.sim_host_seconds, run.sim_host_setup_seconds, instructions, warmup).filter(|_| done)?;
    Some(Speed { footprint: run.identity.footprint as f64, ..speed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;
    use crate::reproduce::Size;
    use crate::study::Study;
    use std::sync::Mutex;

    #[test]
    fn a_warm_up_is_not_counted_twice() {
        // 2 s for set-up, and 1 us for each of 3M instructions of warm-up and 5M of the region.
        let speed = Speed::of(10.0, 5.0, 5e6, 3e6).unwrap();
        assert!((speed.setup - 2.0).abs() < 1e-9 && (speed.instruction - 1e-6).abs() < 1e-15, "{speed:?}");
        assert_eq!(Speed::of(10.0, 1.0, 9e6, 3e6).unwrap().setup, 0.0, "a warm-up without time is faster");
        assert!(Speed::of(0.0, 0.0, 5e6, 0.0).is_none() && Speed::of(1.0, 0.0, 0.0, 0.0).is_none());
    }

    #[test]
    fn what_is_there_and_what_is_missing_is_counted_and_timed() {
        let text = "designs = ['radix', 'thp']\nprograms = ['gups', 'stream']\nfootprint = '1MiB'\ninstructions = '20k'\n\
                    warmup = '1k'\nset = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0']\n\
                    vary.mmu.l2_tlb.entries = [512, 513]\n";
        let study = Study::of(&Figure::parse("t.toml", text).unwrap(), Size::Full).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Mutex::new(Store::open(folder.path()).unwrap()));
        let runner = Runner {
            store: Some(Arc::clone(&store)),
            reuse: Reuse::All,
            checkpoints: None,
            threads: 1,
            memory: 1 << 30,
            stop: Arc::default(),
            progress: Arc::new(Silent),
        };
        let of = |mut trials: Option<Trials>| {
            let store = ambulator_base::lock(&store);
            estimate(&study.cells, Some(&store), Reuse::All, &runner, trials.as_mut())
        };
        let before = of(None);
        assert_eq!((before.cells, before.stored, before.impossible, before.streams), (8, 0, 4, 2));
        assert_eq!((before.seconds, before.known_by), (None, [0; 4]));
        assert!(before.largest_cell > 24 << 20 && before.largest_stream > before.largest_cell);
        let tried = of(Some(Trials::default()));
        assert!(tried.seconds.unwrap() > 0.0);
        assert_eq!(tried.known_by, [0, 0, 0, 4]);
        // One cell of gups: the other is of the same program, those of stream are of others.
        runner.run(study.cells[..1].to_vec());
        let after = of(None);
        assert_eq!((after.cells, after.stored), (8, 1));
        assert_eq!(after.known_by, [0, 1, 2, 0]);
        assert!(after.seconds.unwrap() > 0.0);
    }

    #[test]
    fn an_instruction_counts_as_what_it_costs_and_set_up_by_its_data() {
        let cells = |more: &str| {
            let text = format!(
                "designs = ['radix']\nfootprint = '4MiB'\ninstructions = '800k'\nwarmup = '200k'\n\
                 set = ['memory.bytes=256MiB', {more}]\nprograms = ['gups']\n"
            );
            Study::of(&Figure::parse("t.toml", &text).unwrap(), Size::Full).unwrap().cells
        };
        let of = |more: &str| {
            let cell = cells(more).remove(0);
            timed_instructions(&cell, cell.spec.as_ref().unwrap())
        };
        assert_eq!((of(""), of("'machine.cores=2'")), (1e6, 2e6));
        let functional = of("'run.warmup_mode=functional', 'run.warmup_timing=50k'");
        assert!((functional - (850_000.0 + 150_000.0 * UNTIMED)).abs() < 1.0, "{functional}");
        let parts =
            "'run.sample_period=100k', 'run.sample_window=5k', 'run.sample_timing=5k', 'run.sample_warming=30k'";
        let windows = of(&format!("'run.sampling=windows', {parts}"));
        assert!((windows - 200_000.0 - 800_000.0 * (0.1 + 0.3 * UNTIMED + 0.6 * READ)).abs() < 1.0, "{windows}");
        let phases = of(&format!("'run.sampling=phases', {parts}"));
        assert!((phases - windows - 800_000.0 * READ).abs() < 1.0, "{phases}");
        let cell = cells("").remove(0);
        let speed = Speed { setup: 3.0, instruction: 1e-6, footprint: f64::from(1 << 20) };
        // Three MiB more than what is known.
        assert_eq!(speed.seconds(&cell, cell.spec.as_ref().unwrap()), 3.0 + 768.0 * SETUP_OF_PAGE + 1.0);
    }

    #[test]
    fn a_cell_of_another_size_is_tried_instead_and_each_program_once() {
        let cells = |footprint: &str| {
            let text = format!(
                "designs = ['radix', 'thp']\nfootprint = '{footprint}'\ninstructions = '20k'\nwarmup = '1k'\n\
                 set = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0']\nprograms = ['gups']\n"
            );
            Study::of(&Figure::parse("t.toml", &text).unwrap(), Size::Full).unwrap().cells
        };
        // The large ones cannot run: they do not fit into memory.
        let (large, small) = (cells("1GiB"), cells("1MiB"));
        let runner = Runner {
            store: None,
            reuse: Reuse::All,
            checkpoints: None,
            threads: 1,
            memory: 1 << 30,
            stop: Arc::default(),
            progress: Arc::new(Silent),
        };
        let mut trials = Trials::default();
        large.iter().zip(&small).for_each(|(large, small)| trials.try_instead(large, small));
        let found = estimate(&large, None, Reuse::All, &runner, Some(&mut trials));
        assert_eq!((found.known_by, trials.done.len()), ([0, 0, 0, 2], 1));
        // Set-up is not taken for the region's, however short both are.
        assert!(trials.done.values().all(|speed| speed.unwrap().setup > 0.0), "{trials:?}");
        let alone = estimate(&large, None, Reuse::All, &runner, Some(&mut Trials::default()));
        assert!(alone.seconds.is_none() && found.seconds.unwrap() > 0.0);
    }
}
