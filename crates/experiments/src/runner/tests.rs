use super::*;
use crate::cell::Programs;
use ambulator_simulator::Silent;
use ambulator_simulator::spec::SpecRequest;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use tempfile::tempdir;

fn programs(name: &str) -> Arc<Programs> {
    let request = ProgramRequest { name: name.into(), footprint: Some(1 << 20), seed: 1, ..ProgramRequest::default() };
    Arc::new(Programs::identify(None, vec![request]).unwrap())
}

fn cell(design: &str, more: &str, programs: &Arc<Programs>) -> Cell {
    let brief = "memory.bytes=256MiB memory.fragmentation.fmfi=0.0 run.instructions=20k run.warmup=1k";
    let options = brief.split(' ').chain(more.split_whitespace()).map(str::to_owned).collect();
    let request = SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() };
    Cell::of(&request, design, programs)
}

/// Counts the runs that are not from the store.
#[derive(Default)]
struct Counting {
    advanced: AtomicUsize,
    finished: AtomicUsize,
}

impl Progress for Counting {
    fn advanced(&self, _job: usize, _phase: Phase, _instructions: u64, _of: Option<u64>) {
        self.advanced.fetch_add(1, Ordering::SeqCst);
    }

    fn finished(&self, _job: usize, _result: &RunResult, _schema: &Schema) {
        self.finished.fetch_add(1, Ordering::SeqCst);
    }
}

fn runner(folder: Option<&Path>, reuse: Reuse) -> Runner {
    let store = folder.map(|folder| Arc::new(Mutex::new(Store::open(folder).unwrap())));
    let progress = Arc::new(Silent);
    Runner { store, reuse, checkpoints: None, threads: 2, memory: 1 << 30, stop: Arc::default(), progress }
}

fn numbers(finished: &Finished) -> Vec<String> {
    let text = |ended: &Option<Ended>| {
        let run = ended.clone().unwrap().run.without_sim_host_times();
        serde_json::to_string(&run).unwrap()
    };
    finished.cells.iter().map(text).collect()
}

#[test]
fn cells_are_the_same_however_they_run() {
    let (gups, stream) = (programs("gups"), programs("stream"));
    let all = || {
        let mut cells = vec![cell("radix", "", &gups), cell("thp", "", &gups), cell("radix", "", &stream)];
        cells.push(cell("radix", "run.seed=2", &gups));
        let mut renamed = cell("radix", "", &gups);
        renamed.design = "mine".into();
        cells.push(renamed);
        cells
    };
    let folder = tempdir().unwrap();
    let first = runner(Some(folder.path()), Reuse::Final).run(all());
    assert!(first.cells.iter().all(|ended| ended.as_ref().is_some_and(|ended| ended.run.status == Status::Done)));
    assert_eq!(first.cells[4].as_ref().unwrap().run.design, "mine");
    assert!(first.not_stored.is_none() && first.schema(0..5).contains_key("mmu.walks"));
    // One at a time, without a store.
    let alone = Runner { threads: 1, memory: 0, ..runner(None, Reuse::Final) }.run(all());
    assert_eq!(numbers(&first), numbers(&alone));
    // All from the store, though it has other names.
    let again = runner(Some(folder.path()), Reuse::Final).run(all());
    assert!(again.cells.iter().all(|ended| ended.as_ref().is_some_and(|ended| ended.stored)));
    assert_eq!(numbers(&first), numbers(&again));
    assert_eq!(again.schema(0..5), first.schema(0..5));
    let fresh = runner(Some(folder.path()), Reuse::Nothing).run(all());
    assert!(fresh.cells.iter().all(|ended| ended.as_ref().is_some_and(|ended| !ended.stored)));
    assert_eq!(Store::open(folder.path()).unwrap().len(), 4);
}

#[test]
fn cells_that_share_a_stream_are_one_batch_as_far_as_memory_allows() {
    let (gups, stream) = (programs("gups"), programs("stream"));
    let cells = vec![
        cell("radix", "", &gups),
        cell("thp", "", &gups),
        cell("radix", "", &stream),
        cell("radix", "mmu.l2_tlb.entries=512", &gups),
        cell("radix", "machine.cores=2", &gups),
    ];
    let of = |memory: u64| {
        let batches = Runner { memory, ..runner(None, Reuse::Final) }.batches(&cells, (0..5).collect());
        batches.into_iter().map(|batch| batch.cells).collect::<Vec<_>>()
    };
    assert_eq!(of(1 << 40), [vec![0, 1, 3], vec![2], vec![4]]);
    assert_eq!(of(0), [[0], [1], [3], [2], [4]]);
    let spec = cells[0].spec.as_ref().unwrap();
    assert_eq!(
        of(2 * sim_host_bytes(spec, 1 << 20) + gups.sim_host_bytes_on(spec)),
        [vec![0, 1], vec![3], vec![2], vec![4]]
    );
}

#[test]
fn a_cell_that_fails_is_a_result_and_the_others_go_on() {
    let gups = programs("gups");
    let large = ProgramRequest { name: "gups".into(), footprint: Some(1 << 30), seed: 1, ..ProgramRequest::default() };
    let large = Arc::new(Programs::identify(None, vec![large]).unwrap());
    let cells = || {
        let no_such = cell("radix", "mmu.l2_tlb.entries=513", &gups);
        vec![no_such, cell("radix", "", &gups), cell("radix", "machine.cores=3", &large), cell("thp", "", &gups)]
    };
    let folder = tempdir().unwrap();
    let finished = runner(Some(folder.path()), Reuse::All).run(cells());
    let of = |at: usize| &finished.cells[at].as_ref().unwrap().run;
    assert_eq!((of(0).status, of(1).status, of(3).status), (Status::Failed, Status::Done, Status::Done));
    assert!(of(0).outcome.as_ref().unwrap().contains("mmu.l2_tlb"), "{:?}", of(0).outcome);
    assert_ne!(of(2).status, Status::Done, "three programs of 1 GiB in 256 MiB");
    assert!(of(2).outcome.is_some());
    let counting = Arc::new(Counting::default());
    let again = |reuse: Reuse| {
        let runner = runner(Some(folder.path()), reuse);
        let finished = Runner { progress: Arc::clone(&counting) as Arc<dyn Progress>, ..runner }.run(cells());
        finished.cells.iter().filter(|ended| ended.as_ref().is_some_and(|ended| ended.stored)).count()
    };
    assert_eq!(again(Reuse::All), 4, "a failure is not repeated");
    assert_eq!((counting.advanced.load(Ordering::SeqCst), counting.finished.load(Ordering::SeqCst)), (0, 4));
    assert!(again(Reuse::Final) < 4, "unless it is asked for");
}

#[test]
fn a_stop_keeps_what_is_finished_and_starts_nothing() {
    let gups = programs("gups");
    let folder = tempdir().unwrap();
    runner(Some(folder.path()), Reuse::Final).run(vec![cell("radix", "", &gups)]);
    let stopped = runner(Some(folder.path()), Reuse::Final);
    stopped.stop.store(true, Ordering::SeqCst);
    let finished = stopped.run(vec![cell("radix", "", &gups), cell("thp", "", &gups)]);
    assert!(finished.cells[0].as_ref().unwrap().stored && finished.cells[1].is_none());
}

#[test]
fn a_cell_without_a_key_runs_each_time_and_is_not_kept() {
    let folder = tempdir().unwrap();
    let gups = programs("gups");
    let cells = || vec![cell("radix", "", &gups).without_key(), cell("thp", "", &gups).without_key()];
    for _ in 0..2 {
        let runner = runner(Some(folder.path()), Reuse::Final);
        let finished = runner.run(cells());
        assert!(finished.cells.iter().flatten().all(|ended| !ended.stored && ended.run.status == Status::Done));
        assert_eq!(
            finished.cells.iter().flatten().map(|ended| ended.run.design.as_str()).collect::<Vec<_>>(),
            ["radix", "thp"]
        );
        assert!(lock(runner.store.as_ref().unwrap()).is_empty());
    }
}

#[test]
fn a_program_is_read_once_for_the_phases_of_all_its_cells() {
    use crate::cell::{GivenProgram, ProgramSource};
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let given = GivenProgram::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let footprint = Some((1 << 20) + 4096);
        let request = ProgramRequest { name: "gups".into(), footprint, seed: 1, ..ProgramRequest::default() };
        ambulator_workloads::open(&request).unwrap()
    });
    let programs = Arc::new(Programs::identify_sources(None, vec![ProgramSource::Given(given)]).unwrap());
    opened.store(0, Ordering::SeqCst);
    let phases = "run.sampling=phases run.instructions=300k run.sample_period=15k run.sample_window=2k \
                  run.sample_timing=1k";
    let of = |design: &str, more: &str| cell(design, &format!("{phases} {more}"), &programs);
    let cells =
        vec![of("radix", ""), of("thp", ""), of("radix", "run.sample_period=30k"), cell("radix", "", &programs)];
    let finished = Runner { memory: u64::MAX, ..runner(None, Reuse::Nothing) }.run(cells);
    let run = |at: usize| finished.cells[at].as_ref().unwrap().run.clone();
    let intervals =
        |at: usize| -> Vec<u64> { run(at).sampled.unwrap().intervals.iter().map(|of| of.interval).collect() };
    assert!((0..4).all(|at| run(at).status == Status::Done), "{:?}", run(0).outcome);
    assert_eq!(intervals(0), intervals(1), "designs are measured in the same intervals");
    assert!(intervals(0).len() > intervals(2).len() && run(3).sampled.is_none());
    let speed_up = crate::SpeedUp::of(&run(0), &run(1)).unwrap();
    assert_eq!(speed_up.over, Some(crate::Over::Intervals(intervals(0).len())));
    // Once for the phases, and once for all four machines.
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    // A stop while the program is read leaves cells that did not start.
    let stopped = Runner { stop: Arc::new(AtomicBool::new(true)), ..runner(None, Reuse::Nothing) };
    let finished = stopped.run(vec![of("radix", "run.warmup=7k")]);
    assert!(finished.cells[0].is_none());
}
