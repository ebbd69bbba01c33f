use super::*;
use crate::claims::{CLAIM_TIMEOUT, Holder};
use crate::figure::Figure;
use crate::reproduce::Size;
use crate::study::Study;
use ambulator_simulator::Silent;
use serde_json::Value;
use std::path::Path;

fn study(rest: &str) -> Study {
    let text = format!(
        "designs = ['radix', 'thp']\nfootprint = '1MiB'\ninstructions = '5k'\nwarmup = '0'\n\
         set = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0']\n{rest}"
    );
    Study::of(&Figure::parse("t.toml", &text).unwrap(), Size::Full).unwrap()
}

fn runner(folder: &Path, threads: usize) -> Runner {
    Runner {
        store: Some(Arc::new(Mutex::new(Store::open(folder).unwrap()))),
        reuse: Reuse::All,
        checkpoints: None,
        threads,
        memory: 1 << 30,
        stop: Arc::default(),
        progress: Arc::new(Silent),
    }
}

fn claims(folder: &Path) -> Claims {
    Claims::open(folder, Holder::this(1), CLAIM_TIMEOUT).unwrap()
}

/// The rows of a store without the sim host's times.
fn rows(store: &Store) -> Vec<Value> {
    let own = |mut row: crate::row::Row| {
        row.retain(|name, _| !name.starts_with(crate::row::HOST));
        Value::Object(row)
    };
    store.rows().map(own).collect()
}

#[test]
fn shards_divide_the_cells_and_cut_few_streams() {
    let study = study("programs = ['gups', 'stream', 'bfs']\nvary.mmu.l2_tlb.entries = [512, 1024]\n");
    for of in [1, 2, 3, 5, 12, 20] {
        let shards: Vec<Vec<usize>> = (1..=of).map(|number| shard_of(&study.cells, number, of)).collect();
        let mut all = shards.concat();
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>(), "each cell in one of {of}");
        let sizes = shards.iter().map(Vec::len);
        assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
    }
    for number in 1..=3 {
        let streams: BTreeSet<_> =
            shard_of(&study.cells, number, 3).iter().map(|at| study.cells[*at].stream()).collect();
        assert_eq!(streams.len(), 1, "three streams, three shards");
    }
}

#[test]
fn cells_of_one_stream_stay_together_though_others_stand_between_them() {
    let study = study("programs = ['gups']\nvary.core.rob = [128, 224]\nvary.machine.cores = [1, 2]\n");
    let cores = |at: &usize| study.cells[*at].spec.as_ref().unwrap().machine.cores;
    let order: Vec<usize> = (0..8).filter(|at| cores(at) == 1).chain((0..8).filter(|at| cores(at) == 2)).collect();
    assert_ne!(order, (0..8).collect::<Vec<_>>(), "streams alternate in the study");
    for of in 1..=8 {
        let shards: Vec<usize> = (1..=of).flat_map(|number| shard_of(&study.cells, number, of)).collect();
        assert_eq!(shards, order, "{of} shards, one after the other: stream by stream, in the study's order");
    }
    assert_eq!(shard_of(&study.cells, 2, 2), order[4..]);
    // A cell that stands twice in a study is in one shard, at its first place.
    let twice = [&study.cells[..], &study.cells[..]].concat();
    assert_eq!([shard_of(&twice, 1, 2), shard_of(&twice, 2, 2)].concat(), order);
}

#[test]
fn workers_compute_each_cell_once_and_as_one_machine_does() {
    let study = study("programs = ['gups', 'stream']\nvary.mmu.l2_tlb.entries = [512, 1024]\n");
    let (alone, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = runner(alone.path(), 1);
    one.run(study.cells.clone());
    let computed: Vec<usize> = std::thread::scope(|scope| {
        let work = |batch: usize| {
            let study = &study;
            let folder = shared.path();
            scope.spawn(move || {
                let runner = runner(folder, 1);
                let mut worker = Worker { runner: &runner, claims: claims(folder), batch, retry_failed: false };
                worker.work(&study.cells, |_| {}).unwrap().computed
            })
        };
        let workers = [work(3), work(1)];
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(computed.iter().sum::<usize>(), 8, "{computed:?}");
    let together = Store::open(shared.path()).unwrap();
    assert!(together.warnings().is_empty());
    assert_eq!(rows(&together), rows(&lock(one.store.as_ref().unwrap())));
    assert!(claims(shared.path()).all().unwrap().is_empty());
}

#[test]
fn a_worker_leaves_what_others_have_and_takes_over_what_the_dead_had() {
    let study = study("programs = ['gups', 'stream']\n");
    let scratch = tempfile::tempdir().unwrap();
    let runner = runner(scratch.path(), 1);
    let mut other = claims(scratch.path());
    assert!(other.take(study.cells[0].key()).unwrap());
    // One that was killed long ago, elsewhere.
    let left = scratch.path().join("claims").join(study.cells[2].key());
    std::fs::write(&left, "{}").unwrap();
    let old = std::time::SystemTime::now() - 2 * CLAIM_TIMEOUT;
    std::fs::File::options().write(true).open(&left).unwrap().set_modified(old).unwrap();
    let store = runner.store.clone().unwrap();
    let so_far = Progression::of(&study.cells, &store, &other).unwrap();
    assert_eq!((so_far.cells, so_far.done, so_far.running.len(), so_far.abandoned), (4, 0, 1, 1));
    assert_eq!((so_far.missing, so_far.running[0].0), (vec![1, 2, 3], 0));
    let mut batches = Vec::new();
    let mut worker = Worker { runner: &runner, claims: claims(scratch.path()), batch: 4, retry_failed: false };
    let worked = worker.work(&study.cells, |so_far| batches.push(so_far.computed)).unwrap();
    assert_eq!((worked.computed, worked.taken_over, worked.left), (3, 1, 1));
    assert_eq!(batches, [2, 3], "the stream that nobody has comes first");
    assert!(!lock(&store).contains(study.cells[0].key()));
    drop(other);
    assert_eq!(worker.work(&study.cells, |_| {}).unwrap().computed, 1);
    let so_far = Progression::of(&study.cells, &store, &worker.claims).unwrap();
    assert_eq!((so_far.done, so_far.missing.len(), so_far.running.len()), (4, 0, 0));
}

#[test]
fn failed_cells_are_tried_again_once_if_asked() {
    let study = study("programs = ['gups']\nvary.mmu.l2_tlb.entries = [512, 513]\n");
    let scratch = tempfile::tempdir().unwrap();
    let runner = runner(scratch.path(), 1);
    let work = |retry_failed: bool| {
        let mut worker = Worker { runner: &runner, claims: claims(scratch.path()), batch: 4, retry_failed };
        let worked = worker.work(&study.cells, |_| {}).unwrap();
        (worked.computed, worked.failed, worked.left)
    };
    assert_eq!(work(false), (4, 2, 0));
    let so_far = Progression::of(&study.cells, runner.store.as_ref().unwrap(), &claims(scratch.path())).unwrap();
    assert_eq!((so_far.done, so_far.failed.len()), (2, 2));
    assert!(so_far.failed[0].1.contains("513"), "{:?}", so_far.failed);
    assert_eq!(work(false), (0, 0, 0));
    assert_eq!(work(true), (2, 2, 0));
}

#[test]
fn results_that_cannot_be_kept_end_a_worker() {
    let study = study("programs = ['gups']\n");
    let scratch = tempfile::tempdir().unwrap();
    let runner = runner(scratch.path(), 1);
    lock(runner.store.as_ref().unwrap()).break_writes();
    let mut worker = Worker { runner: &runner, claims: claims(scratch.path()), batch: 1, retry_failed: false };
    let error = worker.work(&study.cells, |_| {}).unwrap_err();
    assert!(error.contains("could not be added"), "{error}");
    assert!(worker.claims.all().unwrap().is_empty());
}
