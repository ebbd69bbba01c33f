//! A reproduction that was killed and resumed gives the bytes of one that was not.

use crate::figure::Figure;
use crate::reproduce::{Size, reproduce};
use crate::row::{HOST, Row};
use crate::runner::{Reuse, Runner};
use crate::store::Store;
use crate::whole::Whole;
use ambulator_base::lock;
use ambulator_simulator::{Phase, Progress, RunResult, Schema, Silent};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::tempdir;

/// Two programs with three designs each.
fn figure(programs: &str) -> Figure {
    let text = format!(
        "title = 'tiny'\nmachine = 'lvm-table1'\ndesigns = ['radix', 'thp', 'ideal']\n\
         set = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0']\n\
         instructions = '20k'\nquick_instructions = '20k'\nwarmup = '1k'\nprograms = [{programs}]\n\
         [[metrics]]\nname = 'ratio'\nkind = 'geomean-ratio'\ndesign = 'ideal'\nbase = 'radix'\nmeasure = 'ipc'\n\
         unit = 'x'\nsource = '-'\n\
         [[metrics]]\nname = 'walk'\nkind = 'mean'\ndesign = 'thp'\nmeasure = 'access_latency_mean'\n\
         unit = 'cycles'\nsource = '-'\n"
    );
    toml::from_str(&text).unwrap()
}

const TWO: &str = "{ name = 'gups', footprint = '1MiB', quick = '1MiB' }, \
                   { name = 'stream', footprint = '2MiB', quick = '2MiB' }";

/// Reproduces with the store in `folder`; returns the result as JSON.
fn reproduced(figure: &Figure, folder: &Path, progress: Arc<dyn Progress>, stop: &Arc<AtomicBool>) -> String {
    let store = Some(Arc::new(Mutex::new(Store::open(folder).unwrap())));
    let (reuse, stop) = (Reuse::Final, Arc::clone(stop));
    let runner = Runner { store, reuse, checkpoints: None, threads: 2, memory: 1 << 30, stop, progress };
    serde_json::to_string_pretty(&reproduce(figure, Size::Quick, None, &runner).unwrap()).unwrap()
}

/// The rows of a store without the columns in which equal cells may differ.
fn rows(folder: &Path) -> Vec<Row> {
    let compared = |row: Row| row.into_iter().filter(|(name, _)| !name.starts_with(HOST)).collect();
    Store::open(folder).unwrap().rows().map(compared).collect()
}

/// The same to its end: the result and the rows of the store.
fn completed(figure: &Figure, folder: &Path) -> (String, Vec<Row>) {
    (reproduced(figure, folder, Arc::new(Silent), &Arc::default()), rows(folder))
}

/// The text of the shards in a store that no process uses.
fn shard_text(folder: &Path) -> Vec<u8> {
    let shards = fs::read_dir(folder.join("cells")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    shards.flat_map(|packed| zstd::decode_all(&packed[..]).unwrap()).collect()
}

#[test]
fn a_run_killed_at_any_write_resumes_to_the_same_bytes() {
    let (figure, folder) = (figure(TWO), tempdir().unwrap());
    let expected = completed(&figure, folder.path());
    let written = shard_text(folder.path());
    assert!(expected.0.contains("\"missing\": []"), "{}", expected.0);
    let mut ends: Vec<usize> = (1..=written.len()).filter(|end| written[end - 1] == b'\n').collect();
    assert_eq!((ends.len(), expected.1.len()), (6, 6), "a line for each cell");
    ends.insert(0, 0);
    let within = |pair: &[usize]| [pair[0], pair[0] + 1, (pair[0] + pair[1]) / 2, pair[1] - 1];
    for cut in ends.windows(2).flat_map(within) {
        let killed = tempdir().unwrap();
        fs::create_dir_all(killed.path().join("cells")).unwrap();
        fs::create_dir_all(killed.path().join("specs")).unwrap();
        for spec in fs::read_dir(folder.path().join("specs")).unwrap().map(|entry| entry.unwrap().path()) {
            fs::copy(&spec, killed.path().join("specs").join(spec.file_name().unwrap())).unwrap();
        }
        fs::write(killed.path().join("cells/killed.ndjson"), &written[..cut]).unwrap();
        assert!(completed(&figure, killed.path()) == expected, "killed after {cut} bytes");
    }
}

/// Checks at the end of each run that its cell is on disk, and stops the others.
struct Watching {
    cells: std::path::PathBuf,
    ended: AtomicUsize,
    stop: Arc<AtomicBool>,
}

impl Progress for Watching {
    fn advanced(&self, _job: usize, _phase: Phase, _instructions: u64, _of: Option<u64>) {}

    fn finished(&self, _job: usize, result: &RunResult, _schema: &Schema) {
        if result.status == ambulator_simulator::Status::Done {
            let ended = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
            let shard = fs::read_dir(&self.cells).unwrap().next().unwrap().unwrap().path();
            let lines = fs::read_to_string(shard).unwrap().lines().count();
            assert!(lines >= ended, "{lines} lines of {ended} cells");
            self.stop.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn each_cell_is_stored_when_it_ends_not_with_its_row() {
    let (figure, folder, whole) = (figure(TWO), tempdir().unwrap(), tempdir().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let (cells, ended) = (folder.path().join("cells"), AtomicUsize::new(0));
    let watching = Arc::new(Watching { cells, ended, stop: Arc::clone(&stop) });
    let result = reproduced(&figure, folder.path(), Arc::clone(&watching) as Arc<dyn Progress>, &stop);
    assert!(watching.ended.load(Ordering::SeqCst) >= 1);
    assert!(result.contains("stream with radix: interrupted before it started"), "{result}");
    assert_eq!(completed(&figure, folder.path()), completed(&figure, whole.path()));
}

#[test]
fn a_trace_is_known_by_its_contents() {
    let folder = tempdir().unwrap();
    let trace = folder.path().join("t.lackey");
    let figure = figure(&format!("{{ name = '{}', footprint = '0', quick = '0' }}", trace.display()));
    let write = |stride: u64| {
        let loads = (0..30_000u64).map(|i| format!("I  1000,4\n L {:x},8\n", 0x10_0000 + i * stride % (8 << 20)));
        fs::write(&trace, loads.collect::<String>()).unwrap();
    };
    let store = folder.path().join("store");
    write(8);
    let first = completed(&figure, &store);
    write(4160);
    let swapped = completed(&figure, &store);
    assert_ne!(first.0, swapped.0, "the other trace has other results");
    write(8);
    let again = completed(&figure, &store);
    assert!(again == (first.0, swapped.1), "both are in the store");
    // Elsewhere, it is the same trace.
    let moved = folder.path().join("moved.lackey");
    fs::rename(&trace, &moved).unwrap();
    let how = self::figure(&format!("{{ name = '{}', footprint = '0', quick = '0' }}", moved.display()));
    assert!(completed(&how, &store).1 == again.1);
}

#[test]
fn a_trace_that_was_cut_short_is_said_also_by_a_resumed_run() {
    let folder = tempdir().unwrap();
    let trace = folder.path().join("cut.amb");
    let whole = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/mummer.amb")).unwrap();
    fs::write(&trace, &whole[..whole.len() / 3]).unwrap();
    let figure = figure(&format!("{{ name = '{}', footprint = '0', quick = '0' }}", trace.display()));
    let store = folder.path().join("store");
    let first = completed(&figure, &store);
    assert!(first.0.contains("the file has no sound footer"), "{}", first.0);
    assert!(first.0.contains("\"missing\": []"), "{}", first.0);
    assert!(completed(&figure, &store) == first);
}

#[test]
fn a_store_that_cannot_be_written_loses_no_result() {
    let (figure, folder, whole) = (figure(TWO), tempdir().unwrap(), tempdir().unwrap());
    let store = Arc::new(Mutex::new(Store::open(folder.path()).unwrap()));
    lock(&store).break_writes();
    let (stop, progress) = (Arc::default(), Arc::new(Silent));
    let runner =
        Runner { store: Some(store), reuse: Reuse::Final, checkpoints: None, threads: 1, memory: 0, stop, progress };
    let result = reproduce(&figure, Size::Quick, None, &runner).unwrap();
    assert_eq!(result.missing.len(), 1, "one sentence for all: {:?}", result.missing);
    assert!(result.missing[0].contains("a result could not be added"), "{:?}", result.missing);
    let complete: serde_json::Value = serde_json::from_str(&completed(&figure, whole.path()).0).unwrap();
    assert_eq!(serde_json::to_value(&result.metrics).unwrap(), complete["metrics"]);
}

#[test]
fn whole_programs_stand_beside_the_regions_with_their_intervals() {
    let (figure, folder) = (figure(TWO), tempdir().unwrap());
    let whole = Some(Whole { instructions: Some(600_000) });
    let reproduced = |whole| {
        let store = Some(Arc::new(Mutex::new(Store::open(folder.path()).unwrap())));
        let (stop, progress) = (Arc::default(), Arc::new(Silent));
        let runner =
            Runner { store, reuse: Reuse::Final, checkpoints: None, threads: 2, memory: 1 << 30, stop, progress };
        reproduce(&figure, Size::Quick, whole, &runner).unwrap()
    };
    let both = reproduced(whole);
    assert!(both.missing.is_empty(), "{:?}", both.missing);
    assert_eq!(Store::open(folder.path()).unwrap().len(), 12, "each cell, and each over the whole program");
    for metric in &both.metrics {
        let of_whole = metric.whole.as_ref().unwrap();
        assert!(metric.half.is_empty() && of_whole.half.len() == 1 && of_whole.program_half.len() == 2, "{metric:?}");
        assert!(of_whole.half[0] >= 0.0 && of_whole.half[0] < 0.5 * of_whole.ours[0], "{metric:?}");
        assert_ne!(of_whole.ours, metric.ours, "regions of 20,000 instructions are no whole programs");
    }
    assert_eq!(both.whole.len(), 2);
    for program in &both.whole {
        assert!(program.instructions.abs_diff(600_000) < 2000 && program.timed < 0.4 && program.measured >= 50);
    }
    let table = both.table(None);
    let head = table.lines().nth(2).unwrap();
    assert!(head.contains("whole programs ") && table.contains("; whole: gups "), "{table}");
    assert!(table.contains("\n  whole programs: gups 600 k instructions ("), "{table}");
    // The store has all of it, and the regions alone are as without the whole.
    assert_eq!(serde_json::to_value(reproduced(whole)).unwrap(), serde_json::to_value(&both).unwrap());
    let regions = reproduced(None);
    assert!(regions.whole.is_empty() && regions.metrics.iter().all(|metric| metric.whole.is_none()));
    assert!(!regions.table(None).contains("whole"), "{}", regions.table(None));
    let ours = |of: &crate::FigureResult| of.metrics.iter().map(|metric| metric.ours.clone()).collect::<Vec<_>>();
    assert_eq!(ours(&regions), ours(&both));
}
