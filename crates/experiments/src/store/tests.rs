use super::compaction::{Compaction, MOST_SMALL};
use super::*;
use std::fs::OpenOptions;
use std::io::Write;
use tempfile::tempdir;

fn run(ipc: f64) -> RunResult {
    let counters = [("mmu.walks".to_owned(), 7)].into();
    RunResult { ipc, counters, sim_host_seconds: 1.5, version: "1".into(), ..RunResult::default() }
}

fn info(key: &str) -> CellInfo {
    CellInfo { cell: key.into(), build: build().into(), machine: "m".into(), ..CellInfo::default() }
}

fn add(store: &mut Store, key: &str, run: &RunResult) {
    store.add(&info(key), run, &Schema::new()).unwrap();
}

fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    shard::shards(&folder.join("cells")).unwrap().into_iter().filter(|f| f.to_string_lossy().ends_with(end)).collect()
}

/// A store with three cells in a shard that is not finished, as a killed process leaves it: its bytes.
fn filled(folder: &Path) -> Vec<u8> {
    let mut store = Store::open(folder).unwrap();
    for (key, ipc) in [("c", 0.1 + 0.2), ("a", 1.0 / 3.0), ("b", 2.0f64.sqrt())] {
        add(&mut store, key, &run(ipc));
    }
    fs::read(&files(folder, shard::OPEN)[0]).unwrap()
}

fn reopened(bytes: &[u8]) -> (Store, tempfile::TempDir) {
    let scratch = tempdir().unwrap();
    filled(scratch.path());
    fs::remove_file(&files(scratch.path(), shard::DONE)[0]).unwrap();
    fs::write(scratch.path().join("cells/x.ndjson"), bytes).unwrap();
    (Store::open(scratch.path()).unwrap(), scratch)
}

#[test]
fn numbers_come_back_to_the_last_bit() {
    let scratch = tempdir().unwrap();
    let mut random = ambulator_base::Random::new(7);
    let values = (0..5000).map(|_| f64::from_bits(random.below(u64::MAX))).filter(|value| value.is_finite());
    let measures: BTreeMap<String, f64> = values.enumerate().map(|(at, value)| (at.to_string(), value)).collect();
    let mut store = Store::open(scratch.path()).unwrap();
    add(&mut store, "x", &RunResult { measures: measures.clone(), ..run(1.0) });
    drop(store);
    let store = Store::open(scratch.path()).unwrap();
    let (back, run) = store.get("x").unwrap();
    assert_eq!((back, run.sim_host_seconds), (info("x"), 1.5));
    for (name, value) in measures {
        assert_eq!(run.measure(&name).to_bits(), value.to_bits(), "{value:e}");
    }
}

#[test]
fn a_finished_shard_is_sorted_and_compressed() {
    let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
    let written = |folder: &Path, keys: &[&str]| {
        let mut store = Store::open(folder).unwrap();
        keys.iter().for_each(|key| add(&mut store, key, &run(0.7)));
        store.finish().unwrap();
        assert!(files(folder, shard::OPEN).is_empty());
        let [file] = &files(folder, shard::DONE)[..] else { panic!() };
        zstd::decode_all(&fs::read(file).unwrap()[..]).unwrap()
    };
    let sorted = written(first.path(), &["a", "b", "c"]);
    assert_eq!(sorted.iter().filter(|byte| **byte == b'\n').count(), 3);
    assert_eq!(written(second.path(), &["c", "a", "b"]), sorted);
    // A store that only looks writes nothing.
    drop(Store::open(second.path()).unwrap());
    assert_eq!(files(second.path(), "").len(), 1);
}

#[test]
fn a_killed_process_loses_at_most_its_last_line() {
    let scratch = tempdir().unwrap();
    let bytes = filled(scratch.path());
    let ends: Vec<usize> = (1..=bytes.len()).filter(|end| bytes[end - 1] == b'\n').collect();
    assert_eq!(ends.len(), 3);
    for (cut, cells) in [(ends[2], 3), (ends[2] - 1, 3), (ends[2] - 2, 2), (ends[1], 2), (ends[1] + 1, 2), (1, 0)] {
        let (mut store, folder) = reopened(&bytes[..cut]);
        assert_eq!(store.len(), cells, "cut at {cut}: {:?}", store.warnings());
        let torn = ![ends[2], ends[2] - 1, ends[1]].contains(&cut);
        assert_eq!(store.warnings().len(), usize::from(torn), "{:?}", store.warnings());
        add(&mut store, "d", &run(4.0));
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((store.len(), store.warnings().len()), (cells + 1, 0), "it is told once: {:?}", store.warnings());
    }
}

#[test]
fn a_shard_that_another_machine_may_write_is_read_and_stays() {
    let scratch = tempdir().unwrap();
    let bytes = filled(scratch.path());
    fs::remove_file(&files(scratch.path(), shard::DONE)[0]).unwrap();
    for name in ["another-node-77-1a2b3c-0.ndjson", "mine.ndjson"] {
        fs::write(scratch.path().join("cells").join(name), &bytes).unwrap();
    }
    let store = Store::open(scratch.path()).unwrap();
    assert_eq!((store.len(), store.warnings().len()), (3, 0));
    let left = files(scratch.path(), shard::OPEN);
    assert_eq!(left, [scratch.path().join("cells/another-node-77-1a2b3c-0.ndjson")]);
}

#[test]
fn every_damaged_line_is_named_and_left_out() {
    let scratch = tempdir().unwrap();
    let bytes = filled(scratch.path());
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let length = bytes[second..].iter().position(|byte| *byte == b'\n').unwrap();
    for at in (second..second + length).step_by(101) {
        let mut edited = bytes.clone();
        edited[at] = if edited[at] == b'1' { b'2' } else { b'1' };
        let (store, folder) = reopened(&edited);
        assert!(!store.contains("a") && store.contains("b") && store.contains("c"), "byte {at}");
        let [warning] = store.warnings() else { panic!("byte {at}: {:?}", store.warnings()) };
        assert!(warning.contains("cells/x.ndjson:2: ") && warning.ends_with("computed again"), "{warning}");
        drop(store);
        assert!(Store::open(folder.path()).unwrap().warnings().is_empty(), "it is told once");
    }
    let (store, _folder) = reopened("rubbish\n".repeat(25).as_bytes());
    assert_eq!(store.warnings().len(), 11);
    assert!(store.warnings()[10].ends_with("15 more lines are left out"), "{:?}", store.warnings());
    let (store, _folder) = reopened(b"\xff\xfe\n");
    assert!(store.warnings()[0].contains(":1: "), "{:?}", store.warnings());
}

#[test]
fn a_damaged_finished_shard_gives_what_can_be_read() {
    let scratch = tempdir().unwrap();
    filled(scratch.path());
    let file = files(scratch.path(), shard::DONE).remove(0);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let store = Store::open(scratch.path()).unwrap();
    assert!(store.len() < 3 && store.warnings().iter().any(|w| w.contains("cannot be read")), "{:?}", store.warnings());
    drop(store);
    assert!(Store::open(scratch.path()).unwrap().warnings().is_empty());
    fs::write(&file, b"nothing of zstd").unwrap();
    let store = Store::open(scratch.path()).unwrap();
    assert_eq!((store.len(), store.warnings().len()), (0, 1), "{:?}", store.warnings());
}

#[test]
fn two_processes_see_each_others_cells() {
    let scratch = tempdir().unwrap();
    let (mut one, mut two) = (Store::open(scratch.path()).unwrap(), Store::open(scratch.path()).unwrap());
    add(&mut one, "a", &run(1.0));
    assert_eq!(two.refresh(), Ok(1));
    assert!(two.contains("a") && two.warnings().is_empty());
    // The shard of a living process is not taken over by one that opens the store.
    assert_eq!(Store::open(scratch.path()).unwrap().len(), 1);
    assert_eq!(files(scratch.path(), shard::OPEN).len(), 1);
    add(&mut one, "b", &run(2.0));
    add(&mut two, "c", &run(3.0));
    // What another process is about to write is neither read nor damaged.
    let mut half = OpenOptions::new().append(true).open(&files(scratch.path(), shard::OPEN)[0]).unwrap();
    half.write_all(b"{\"xxh3\":\"0123").unwrap();
    assert_eq!((two.refresh(), two.refresh()), (Ok(1), Ok(0)));
    assert!(two.warnings().is_empty(), "{:?}", two.warnings());
    assert_eq!(two.missing(["a", "b", "d"], false), ["d"]);
    assert_eq!(one.refresh(), Ok(1));
    one.finish().unwrap();
    assert_eq!(two.refresh(), Ok(0), "the same cells under another name");
    drop((one, two));
    let merged = Store::open(scratch.path()).unwrap();
    assert_eq!((merged.len(), files(scratch.path(), shard::OPEN).len()), (3, 0));
}

#[test]
fn stores_merge_by_copying_and_different_numbers_are_named() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    for (folder, other, seconds) in [(&one, 2.0, 1.0), (&two, 3.0, 5.0)] {
        let mut store = Store::open(folder.path()).unwrap();
        add(&mut store, "same", &RunResult { sim_host_seconds: seconds, ..run(1.0) });
        add(&mut store, "other", &RunResult { design: "thp".into(), program: "gups".into(), ..run(other) });
    }
    for file in files(two.path(), shard::DONE) {
        fs::copy(&file, one.path().join("cells").join(format!("copy-{}", file.file_name().unwrap().to_str().unwrap())))
            .unwrap();
    }
    let store = Store::open(one.path()).unwrap();
    assert_eq!(store.len(), 2);
    let [warning] = store.warnings() else { panic!("{:?}", store.warnings()) };
    assert!(warning.contains("the cell other (thp on gups) is there twice"), "{warning}");
    assert!(warning.contains("`ipc` is"), "{warning}");
}

#[test]
fn merged_stores_have_the_specs_and_the_columns_of_both() {
    fn copy(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap().flatten() {
            let there = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy(&entry.path(), &there),
                false => _ = fs::copy(entry.path(), there).unwrap(),
            }
        }
    }
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    for (name, folder) in ["one", "two"].iter().zip(&folders) {
        let meaning = CounterMeaning {
            unit: ambulator_base::Unit::Events,
            meaning: format!("Of {name}."),
            timed: false,
            gauge: false,
        };
        let counters = [(format!("x.{name}"), 1)].into();
        let run = RunResult { counters, spec: serde_json::json!({"a": name}), ..run(1.0) };
        let mut store = Store::open(folder.path()).unwrap();
        store.add(&info(name), &run, &Schema::from([(format!("x.{name}"), meaning)])).unwrap();
    }
    copy(folders[1].path(), folders[0].path());
    for _ in 0..2 {
        let merged = Store::open(folders[0].path()).unwrap();
        assert!(merged.get("one").is_some() && merged.get("two").is_some() && merged.warnings().is_empty());
        let columns: BTreeMap<String, Column> =
            serde_json::from_slice(&fs::read(folders[0].path().join("columns.json")).unwrap()).unwrap();
        assert_eq!((&columns["x.one"].meaning[..], &columns["x.two"].meaning[..]), ("Of one.", "Of two."));
        assert_eq!(*merged.columns(), columns);
    }
}

#[test]
fn a_cell_that_failed_is_there_until_it_succeeds() {
    let scratch = tempdir().unwrap();
    let mut store = Store::open(scratch.path()).unwrap();
    let failed = RunResult { status: Status::Failed, outcome: Some("no memory".into()), ..run(0.0) };
    add(&mut store, "a", &failed);
    drop(store);
    let mut store = Store::open(scratch.path()).unwrap();
    assert!(store.missing(["a"], false).is_empty());
    assert_eq!(store.missing(["a"], true), ["a"]);
    assert_eq!(store.get("a").unwrap().1.outcome.as_deref(), Some("no memory"));
    add(&mut store, "a", &run(1.0));
    drop(store);
    let store = Store::open(scratch.path()).unwrap();
    assert_eq!(store.get("a").unwrap().1.status, Status::Done);
    assert!(store.warnings().is_empty() && store.missing(["a"], true).is_empty());
}

#[test]
fn a_full_disk_loses_nothing_that_there_is_room_for_at_the_end() {
    let scratch = tempdir().unwrap();
    let mut store = Store::open(scratch.path()).unwrap();
    add(&mut store, "a", &run(1.0));
    store.break_writes();
    let error = store.add(&info("b"), &run(2.0), &Schema::new()).unwrap_err();
    assert!(error.contains("a result could not be added") && error.contains("the others are kept"), "{error}");
    assert!(store.get("b").is_some(), "it is there until the store is closed");
    drop(store);
    let store = Store::open(scratch.path()).unwrap();
    assert!(store.contains("a") && store.contains("b") && store.warnings().is_empty(), "{:?}", store.warnings());
}

#[test]
fn a_spec_that_was_edited_or_lost_is_not_taken() {
    let scratch = tempdir().unwrap();
    let spec = serde_json::json!({"machine": {"cores": 1}});
    let mut store = Store::open(scratch.path()).unwrap();
    add(&mut store, "a", &RunResult { spec: spec.clone(), ..run(1.0) });
    let file = store.spec_file(&spec_hash(&spec));
    assert_eq!(store.get("a").unwrap().1.spec, spec);
    fs::write(&file, r#"{"machine":{"cores":2}}"#).unwrap();
    assert!(store.get("a").is_none());
    fs::remove_file(&file).unwrap();
    assert!(store.get("a").is_none() && store.row("a").is_some());
}

#[test]
fn columns_have_units_and_meanings_of_every_shard() {
    let scratch = tempdir().unwrap();
    let schema = |meaning: &str| {
        let unit = ambulator_base::Unit::Events;
        let meaning = CounterMeaning { unit, meaning: meaning.into(), timed: false, gauge: false };
        Schema::from([("mmu.walks".to_owned(), meaning)])
    };
    let (mut one, mut two) = (Store::open(scratch.path()).unwrap(), Store::open(scratch.path()).unwrap());
    one.add(&info("a"), &run(1.0), &schema("Walks.")).unwrap();
    two.add(&info("b"), &run(1.0), &schema("Other walks.")).unwrap();
    drop((one, two));
    let store = Store::open(scratch.path()).unwrap();
    assert_eq!(store.columns()["mmu.walks"].meaning, "Walks. / Other walks.");
    assert_eq!(store.columns()["cycles"].unit, "cycles");
    assert_eq!(store.schema_of(&run(1.0))["mmu.walks"].unit, ambulator_base::Unit::Events);
}

#[test]
fn a_store_of_an_earlier_version_stays_and_is_said() {
    let scratch = tempdir().unwrap();
    fs::write(scratch.path().join("cells.jsonl"), "x").unwrap();
    let store = Store::open(scratch.path()).unwrap();
    assert!(store.warnings()[0].contains("an earlier version wrote these cells"), "{:?}", store.warnings());
    drop(store);
    assert_eq!(fs::read(scratch.path().join("cells.jsonl")).unwrap(), b"x");
}

#[test]
fn cells_of_another_build_stay_and_are_said() {
    let scratch = tempdir().unwrap();
    let mut store = Store::open(scratch.path()).unwrap();
    let of_other = CellInfo { build: "another".into(), ..info("a") };
    store.add(&of_other, &run(1.0), &Schema::new()).unwrap();
    drop(store);
    let mut store = Store::open(scratch.path()).unwrap();
    let [warning] = store.warnings() else { panic!("{:?}", store.warnings()) };
    assert!(warning.contains("its 1 cells are of other builds of Ambulator (version 1; this is "), "{warning}");
    // With the code of a design, it is of this build nevertheless.
    let with_code = CellInfo { build: format!("{}-0123", build()), ..info("b") };
    store.add(&with_code, &run(1.0), &Schema::new()).unwrap();
    drop(store);
    let store = Store::open(scratch.path()).unwrap();
    assert_eq!((store.len(), store.warnings().len()), (2, 0));
}

#[test]
fn a_folder_that_is_a_file_is_refused() {
    let scratch = tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(Store::open(&file).err().unwrap().contains("the store's folder cannot be created"));
}

/// A store whose folder has so many finished shards, with a cell of its own and one that all of them have.
fn of_many(folder: &Path, count: usize) {
    for number in 0..count {
        let mut store = Store::open(folder).unwrap();
        add(&mut store, &format!("{number:04}"), &run(number as f64));
        add(&mut store, "of all", &run(1.0));
    }
}

/// A store's rows, which it must have without a warning.
fn all_of(folder: &Path) -> Vec<Row> {
    let store = Store::open(folder).unwrap();
    assert!(store.warnings().is_empty(), "{:?}", store.warnings());
    store.rows().collect()
}

#[test]
fn many_small_shards_become_one() {
    let scratch = tempdir().unwrap();
    of_many(scratch.path(), MOST_SMALL);
    assert_eq!(files(scratch.path(), shard::DONE).len(), MOST_SMALL, "as many as there may be");
    let before = all_of(scratch.path());
    assert_eq!(before.len(), MOST_SMALL + 1);
    let mut store = Store::open(scratch.path()).unwrap();
    add(&mut store, "last", &run(0.5));
    store.finish().unwrap();
    let [one] = &files(scratch.path(), "")[..] else { panic!("{:?}", files(scratch.path(), "")) };
    let text = zstd::decode_all(&fs::read(one).unwrap()[..]).unwrap();
    assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), MOST_SMALL + 2, "each row once");
    assert_eq!(all_of(scratch.path())[..MOST_SMALL], before[..MOST_SMALL]);
    assert_eq!((store.refresh(), store.len()), (Ok(0), MOST_SMALL + 2));
    let left: Vec<_> = fs::read_dir(scratch.path().join("cells")).unwrap().collect();
    assert_eq!(left.len(), 1, "no note stays: {left:?}");
    assert!(!scratch.path().join("claims/compaction").exists());
}

#[test]
fn shards_are_compacted_whole_if_asked() {
    let scratch = tempdir().unwrap();
    of_many(scratch.path(), 3);
    let before = all_of(scratch.path());
    // One that a living process writes, one with other numbers for a cell, and a damaged one stay apart.
    let mut living = Store::open(scratch.path()).unwrap();
    add(&mut living, "living", &run(1.0));
    let damaged = scratch.path().join("cells/damaged.ndjson.zst");
    fs::write(&damaged, "nothing of zstd").unwrap();
    let mut store = Store::open(scratch.path()).unwrap();
    fs::write(&damaged, "nothing of zstd").unwrap();
    let compacted = store.compact().unwrap().unwrap();
    assert_eq!((compacted.files, compacted.rows), (3, 4));
    assert_eq!(fs::read(&damaged).unwrap(), b"nothing of zstd");
    fs::remove_file(&damaged).unwrap();
    assert_eq!(store.compact(), Ok(None), "one is enough");
    drop(living);
    assert_eq!(all_of(scratch.path()).len(), before.len() + 1);
}

#[test]
fn rows_with_different_numbers_are_all_kept() {
    let scratch = tempdir().unwrap();
    for ipc in [1.0, 2.0] {
        let other = tempdir().unwrap();
        let mut store = Store::open(other.path()).unwrap();
        add(&mut store, "same", &run(ipc));
        drop(store);
        fs::create_dir_all(scratch.path().join("cells")).unwrap();
        let file = files(other.path(), shard::DONE).remove(0);
        fs::copy(&file, scratch.path().join("cells").join(file.file_name().unwrap())).unwrap();
    }
    let mut store = Store::open(scratch.path()).unwrap();
    assert_eq!(store.compact().unwrap().unwrap().rows, 2);
    let warnings = Store::open(scratch.path()).unwrap().warnings().to_vec();
    assert!(warnings.len() == 1 && warnings[0].contains("is there twice with different numbers"), "{warnings:?}");
}

#[test]
fn a_compaction_that_is_killed_between_its_steps_loses_nothing_and_is_ended() {
    for steps in 0..=4 {
        let scratch = tempdir().unwrap();
        of_many(scratch.path(), 5);
        let before = all_of(scratch.path());
        let cells = scratch.path().join("cells");
        let compaction = Compaction::of(&cells, files(scratch.path(), shard::DONE)).unwrap();
        let old = files(scratch.path(), shard::DONE);
        if steps >= 1 {
            compaction.note().unwrap();
        }
        if steps >= 2 {
            compaction.write().unwrap();
        }
        if steps == 3 {
            old[..2].iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        if steps >= 4 {
            compaction.remove_old();
        }
        drop(compaction);
        assert_eq!(all_of(scratch.path()), before, "killed after {steps} steps");
        let left = files(scratch.path(), "").len();
        assert_eq!(left, if steps < 2 { 5 } else { 1 }, "opening the store ends it: {steps} steps");
        let notes = |cells: &Path| fs::read_dir(cells).unwrap().flatten().count() - left;
        assert_eq!(notes(&cells), usize::from(steps == 1), "a note of one that may be on its way stays");
        for entry in fs::read_dir(&cells).unwrap().flatten() {
            let old = std::time::SystemTime::now() - 2 * crate::CLAIM_TIMEOUT;
            OpenOptions::new().append(true).open(entry.path()).unwrap().set_modified(old).unwrap();
        }
        assert_eq!(all_of(scratch.path()), before);
        assert_eq!(notes(&cells), 0, "and one of a killed process goes");
    }
}

#[test]
fn a_compacted_file_that_is_damaged_replaces_nothing() {
    let scratch = tempdir().unwrap();
    of_many(scratch.path(), 3);
    let before = all_of(scratch.path());
    let compaction = Compaction::of(&scratch.path().join("cells"), files(scratch.path(), shard::DONE)).unwrap();
    compaction.note().unwrap();
    compaction.write().unwrap();
    let new = files(scratch.path(), "-compacted.ndjson.zst").remove(0);
    let whole = fs::read(&new).unwrap();
    fs::write(&new, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(Store::open(scratch.path()).unwrap().len(), before.len());
    assert_eq!(all_of(scratch.path()), before);
}

#[test]
fn a_note_removes_nothing_outside_of_the_cells() {
    let scratch = tempdir().unwrap();
    of_many(scratch.path(), 1);
    let own = files(scratch.path(), shard::DONE).remove(0);
    let outside = scratch.path().join("mine.ndjson.zst");
    fs::write(&outside, "x").unwrap();
    let name = own.file_name().unwrap().to_str().unwrap();
    let note = format!("../mine.ndjson.zst\n{}\n{name}\n", outside.display());
    fs::write(scratch.path().join("cells").join(format!(".{}.old", name.trim_end_matches(shard::DONE))), note).unwrap();
    assert_eq!(all_of(scratch.path()).len(), 2);
    assert!(outside.exists() && own.exists());
}

#[test]
fn other_processes_read_and_write_while_shards_are_compacted() {
    let scratch = tempdir().unwrap();
    of_many(scratch.path(), 2);
    let folder = scratch.path();
    std::thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            scope.spawn(move || {
                for number in 0..25 {
                    let mut store = Store::open(folder).unwrap();
                    add(&mut store, &format!("{writer}-{number:04}"), &run(1.0));
                    store.finish().unwrap();
                    store.compact().unwrap();
                    assert!(store.warnings().is_empty(), "{:?}", store.warnings());
                }
            })
        });
        let reader = scope.spawn(move || {
            let mut seen = 0;
            let mut lasting = Store::open(folder).unwrap();
            for _ in 0..60 {
                let store = Store::open(folder).unwrap();
                assert!(store.warnings().is_empty(), "{:?}", store.warnings());
                assert!(store.len() >= seen, "{} cells after {seen}", store.len());
                lasting.refresh().unwrap();
                assert!(lasting.len() >= store.len(), "{} cells after {}", lasting.len(), store.len());
                seen = store.len();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
    });
    assert_eq!(all_of(folder).len(), 3 + 50);
}
