//! Cells that share checkpoints, and files that are not theirs.

use super::*;
use crate::figure::Figure;
use crate::reproduce::Size;
use crate::runner::{Finished, Reuse, Runner};
use crate::study::Study;
use ambulator_simulator::{RunResult, Silent, Status};

/// A study of 20,000 instructions after 20,000 without time.
fn cells(more: &str) -> Vec<Cell> {
    let text = format!(
        "set = ['memory.bytes=256MiB', 'memory.fragmentation.fmfi=0.0', 'run.warmup_mode=functional', \
         'run.warmup_timing=2000']\nfootprint = '4MiB'\ninstructions = '20k'\nwarmup = '20k'\n{more}"
    );
    Study::of(&Figure::parse("t.toml", &text).unwrap(), Size::Full).unwrap().cells
}

fn run(cells: &[Cell], folder: Option<&Path>) -> Finished {
    let runner = Runner {
        store: None,
        reuse: Reuse::All,
        checkpoints: folder.map(|folder| Arc::new(Checkpoints::open(folder).unwrap())),
        threads: 2,
        memory: 1 << 30,
        stop: Arc::default(),
        progress: Arc::new(Silent),
    };
    runner.run(cells.to_vec())
}

fn runs(finished: &Finished) -> Vec<RunResult> {
    finished.cells.iter().map(|ended| ended.as_ref().unwrap().run.clone()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX));
    files.sort();
    files
}

#[test]
fn cells_that_differ_in_times_only_share_a_checkpoint_and_have_the_same_results() {
    let grid = cells("designs = ['radix', 'ecpt']\nprograms = ['gups', 'bfs']\nvary.llc.latency = [30, 60]\n");
    assert_eq!(grid.len(), 8);
    let folder = tempfile::tempdir().unwrap();
    let without = run(&grid, None);
    let first = run(&grid, Some(folder.path()));
    assert_eq!(files(folder.path()).len(), 4, "one for each design and program");
    let second = run(&grid, Some(folder.path()));
    let told = |of: &Finished, what: &str| of.checkpoints.iter().filter(|told| told.contains(what)).count();
    assert_eq!(
        [" has made ", " starts from ", " is read from its recording "].map(|what| told(&first, what)),
        [4, 4, 0]
    );
    assert_eq!(
        [" has made ", " starts from ", " is read from its recording "].map(|what| told(&second, what)),
        [0, 8, 2]
    );
    let restored = |of: &Finished| runs(of).iter().filter(|run| run.checkpoint.is_some()).count();
    assert_eq!((restored(&without), restored(&first), restored(&second)), (0, 4, 8));
    for other in [&first, &second] {
        for (one, other) in runs(&without).into_iter().zip(runs(other)) {
            assert_eq!(one.status, Status::Done);
            let text = |run: RunResult| serde_json::to_string(&run.without_sim_host_times()).unwrap();
            assert_eq!(text(one), text(other));
        }
    }
    let list = Checkpoints::list(folder.path()).unwrap();
    let of: Vec<String> =
        list.into_iter().map(|one| one.unwrap().1).map(|of| format!("{} {}", of.design, of.programs)).collect();
    assert_eq!(of.len(), 4);
    assert!(of.contains(&"ecpt bfs".to_owned()), "{of:?}");
}

#[test]
fn a_checkpoint_of_another_run_or_build_and_a_damaged_one_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let [small, large] = ["512", "1024"].map(|entries| {
        cells(&format!("designs = ['radix']\nprograms = ['gups']\nvary.mmu.l2_tlb.entries = [{entries}]\n"))
    });
    run(&small, Some(folder.path()));
    let path = files(folder.path()).remove(0);
    let opened = Checkpoints::open(folder.path()).unwrap();
    let wanted = folder.path().join(format!("{}.{SUFFIX}", opened.of(&large[0]).unwrap().key()));
    fs::rename(&path, &wanted).unwrap();
    let why = |cells: &[Cell]| {
        let run = runs(&run(cells, Some(folder.path()))).remove(0);
        assert_eq!(run.status, Status::Failed);
        run.outcome.unwrap()
    };
    let error = why(&large);
    assert!(
        error.contains("is not of this run") && error.contains("mmu.l2_tlb.entries is 512 there, here 1024"),
        "{error}"
    );
    fs::rename(&wanted, &path).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    let error = why(&small);
    assert!(error.contains("damaged or cut off") && error.contains(&path.display().to_string()), "{error}");
    let mut header = {
        fs::write(&path, &whole).unwrap();
        file::open::<Header>(&path).unwrap().header
    };
    header.build = "another".into();
    header.version = "0.0.1".into();
    file::write(&path, header, &mut |_| Ok(0)).unwrap();
    let error = why(&small);
    assert!(error.contains("another build of Ambulator (version 0.0.1)"), "{error}");
}
