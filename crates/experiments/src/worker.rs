//! Workers: processes that share the cells of a study, on any number of machines with a common folder.

use crate::cell::Cell;
use crate::claims::{Claim, Claims};
use crate::runner::{Reuse, Runner};
use crate::store::Store;
use crate::study::Study;
use ambulator_base::{distinct_notes, lock};
use ambulator_simulator::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Cells of one stream that a worker takes at a time, at least: they share one decoding.
pub const LEAST_BATCH: usize = 4;
/// How often a stop is looked for.
const GLANCE: Duration = Duration::from_millis(100);

/// The cells of shard `number` of `of`, from 1: their numbers. Shards depend on the study alone, have as many
/// cells as each other, and cut through as few streams as that allows.
pub fn shard_of(cells: &[Cell], number: usize, of: usize) -> Vec<usize> {
    let all: Vec<usize> = by_stream(cells, &distinct(cells)).into_iter().flatten().collect();
    let part: Range<usize> = (number - 1) * all.len() / of..number * all.len() / of;
    all[part].to_vec()
}

/// The first cell with each key.
fn distinct(cells: &[Cell]) -> Vec<usize> {
    let mut keys = BTreeSet::new();
    (0..cells.len()).filter(|at| keys.insert(cells[*at].key())).collect()
}

/// Cells that one decoding can serve, together; in the order of the study.
fn by_stream(cells: &[Cell], of: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for at in of {
        let group = *known.entry(cells[*at].stream()).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(*at),
            None => groups.push(vec![*at]),
        }
    }
    groups
}

/// What a worker has done.
#[derive(Clone, Debug, Default)]
pub struct Worked {
    /// Cells that it has computed.
    pub computed: usize,
    /// Of them, those that have failed.
    pub failed: usize,
    /// Claims of workers that had ended, which it took over.
    pub taken_over: usize,
    /// Cells that are left: other workers have them, or the stop came first.
    pub left: usize,
    /// Sentences on programs, each once.
    pub notes: Vec<String>,
    /// What was read from checkpoints and written to them, one sentence each.
    pub checkpoints: Vec<String>,
    /// Why the simulator had fewer threads than asked for.
    pub fewer_threads: Option<String>,
}

/// A process that takes cells of a study until none is left.
pub struct Worker<'r> {
    /// How cells are run, and the store, which it must have.
    pub runner: &'r Runner,
    /// The claims of that store.
    pub claims: Claims,
    /// Cells of one stream to take at a time.
    pub batch: usize,
    /// Runs cells again that failed before it began.
    pub retry_failed: bool,
}

impl Worker<'_> {
    /// Takes cells and runs them. Ends when every cell is in the store or with another living worker; waits for
    /// a worker that may have ended, to take its cells over. After each batch, `told` gets what has been done.
    ///
    /// # Errors
    /// Claims or results cannot be written. Cells that are in the store stay there.
    pub fn work(&mut self, cells: &[Cell], mut told: impl FnMut(&Worked)) -> Result<Worked, String> {
        let store = self.runner.store.clone().ok_or("a worker needs a store")?;
        let mut worked = Worked::default();
        let mut tried: BTreeSet<String> = BTreeSet::new();
        let began = self.claims.server_time();
        let all = distinct(cells);
        // Results that stand are left out before; a cell that is tried again has one that does not.
        let runner = Runner {
            store: Some(Arc::clone(&store)),
            reuse: if self.retry_failed { Reuse::Final } else { Reuse::All },
            stop: Arc::clone(&self.runner.stop),
            progress: Arc::clone(&self.runner.progress),
            checkpoints: self.runner.checkpoints.clone(),
            ..*self.runner
        };
        while !runner.stop.load(Ordering::Relaxed) {
            lock(&store).refresh()?;
            let is_open =
                |at: &usize| !tried.contains(cells[*at].key()) && self.is_open(&lock(&store), &cells[*at], began);
            let open: Vec<usize> = all.iter().copied().filter(is_open).collect();
            worked.left = open.len();
            if open.is_empty() {
                break;
            }
            let claims: BTreeMap<String, Claim> =
                self.claims.all()?.into_iter().map(|claim| (claim.cell.clone(), claim)).collect();
            let claim = |at: usize| claims.get(cells[at].key());
            let is_free = |at: &usize| claim(*at).is_none_or(|claim| claim.is_abandoned);
            if !open.iter().any(is_free) {
                if open.iter().filter_map(|at| claim(*at)).any(|claim| self.claims.is_doubtful(claim)) {
                    self.pause();
                    continue;
                }
                break;
            }
            let mut groups = by_stream(cells, &open);
            // Streams of other workers come last: each worker has its own as long as there are enough.
            groups.sort_by_key(|group| group.iter().any(|at| !is_free(at)));
            groups.iter_mut().for_each(|group| group.retain(is_free));
            let taken = self.take(cells, &groups)?;
            // Another may have finished some between the look at the store and the claim.
            lock(&store).refresh()?;
            let (wanted, done): (Vec<usize>, Vec<usize>) =
                taken.into_iter().partition(|at| self.is_open(&lock(&store), &cells[*at], began));
            done.iter().for_each(|at| self.claims.release(cells[*at].key()));
            if wanted.is_empty() {
                continue;
            }
            worked.taken_over += wanted.iter().filter(|at| claim(**at).is_some()).count();
            let finished = runner.run(wanted.iter().map(|at| cells[*at].clone()).collect());
            for (at, ended) in wanted.iter().zip(&finished.cells) {
                let key = cells[*at].key();
                match ended.as_ref().map(|ended| ended.run.status) {
                    None | Some(Status::Interrupted) => {}
                    Some(status) => {
                        tried.insert(key.to_owned());
                        worked.computed += 1;
                        worked.left -= 1;
                        if status == Status::Failed {
                            worked.failed += 1;
                            self.claims.note_failed(key);
                        }
                    }
                }
                self.claims.release(key);
            }
            worked.notes = distinct_notes(std::mem::take(&mut worked.notes).into_iter().chain(finished.notes));
            worked.checkpoints.extend(finished.checkpoints);
            worked.fewer_threads = worked.fewer_threads.take().or(finished.fewer_threads);
            told(&worked);
            if let Some(error) = finished.not_stored {
                return Err(error);
            }
        }
        Ok(worked)
    }

    /// Whether a cell is to be computed.
    fn is_open(&self, store: &Store, cell: &Cell, began: Option<std::time::SystemTime>) -> bool {
        let key = cell.key();
        if !store.contains(key) {
            return true;
        }
        let again = self.retry_failed && !store.missing([key], true).is_empty();
        again && !self.claims.has_failed_since(key, began)
    }

    /// Claims a batch: cells of one stream, and of further streams while threads are idle.
    fn take(&mut self, cells: &[Cell], groups: &[Vec<usize>]) -> Result<Vec<usize>, String> {
        let threads = match self.runner.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            threads => threads,
        };
        let mut taken = Vec::new();
        for group in groups {
            let of_group = taken.len();
            for at in group {
                if taken.len() - of_group >= self.batch {
                    break;
                }
                if self.claims.take(cells[*at].key())? {
                    taken.push(*at);
                }
            }
            if taken.len() >= threads.min(self.batch) {
                break;
            }
        }
        Ok(taken)
    }

    /// Waits for a heartbeat, or a stop.
    fn pause(&self) {
        let mut left = self.claims.between_beats();
        while left > Duration::ZERO && !self.runner.stop.load(Ordering::Relaxed) {
            let part = left.min(GLANCE);
            std::thread::sleep(part);
            left -= part;
        }
    }
}

/// How far a study is.
#[derive(Clone, Debug, Default)]
pub struct Progression {
    /// Different cells.
    pub cells: usize,
    /// Of them, those in the store, without those that have failed.
    pub done: usize,
    /// Those in the store that have failed: number in the study, and why.
    pub failed: Vec<(usize, String)>,
    /// Those that a worker computes: number in the study, and its claim.
    pub running: Vec<(usize, Claim)>,
    /// Those that are neither in the store nor with a living worker.
    pub missing: Vec<usize>,
    /// Claims of workers that have ended, among the missing.
    pub abandoned: usize,
}

impl Progression {
    /// Of `cells`, with a store as it is now.
    ///
    /// # Errors
    /// The store or its claims cannot be read.
    pub fn of(cells: &[Cell], store: &Mutex<Store>, claims: &Claims) -> Result<Progression, String> {
        // Claims first: one that is released meanwhile has its row in the store.
        let claims: BTreeMap<String, Claim> =
            claims.all()?.into_iter().map(|claim| (claim.cell.clone(), claim)).collect();
        let mut store = lock(store);
        store.refresh()?;
        let mut so_far = Progression::default();
        for at in distinct(cells) {
            so_far.cells += 1;
            let key = cells[at].key();
            let claim = claims.get(key);
            let row = store.row(key);
            let failed = row.as_ref().is_some_and(|row| row.get("status").is_some_and(|status| status == "failed"));
            match (row, claim) {
                (Some(_), _) if !failed => so_far.done += 1,
                (_, Some(claim)) if !claim.is_abandoned => so_far.running.push((at, claim.clone())),
                (Some(row), _) => {
                    let why = row.get("outcome").and_then(serde_json::Value::as_str).unwrap_or("it did not complete");
                    so_far.failed.push((at, why.to_owned()));
                }
                (None, claim) => {
                    so_far.missing.push(at);
                    so_far.abandoned += usize::from(claim.is_some());
                }
            }
        }
        Ok(so_far)
    }

    /// The living workers and the numbers of their cells.
    pub fn workers(&self) -> Vec<(&Claim, Vec<usize>)> {
        let mut workers: Vec<(&Claim, Vec<usize>)> = Vec::new();
        let token = |claim: &Claim| claim.holder.as_ref().map(|holder| holder.token.clone());
        for (at, claim) in &self.running {
            match workers.iter_mut().find(|(of, _)| token(of) == token(claim)) {
                Some((_, cells)) => cells.push(*at),
                None => workers.push((claim, vec![*at])),
            }
        }
        workers
    }
}

impl Study {
    /// A cell in words, by its number: `thp on gups mmu.l2_tlb.entries=512 seed 2`.
    pub fn cell_name(&self, at: usize) -> String {
        let Some(point) = self.points.iter().find(|point| point.cells.contains(&at)) else { return String::new() };
        let place = &point.place;
        let mut name = format!("{} on {}", place.design, place.program);
        let settings = self.axes.iter().zip(&place.varied).map(|(key, value)| format!(" {key}={value}"));
        name.extend(settings.chain(place.own.iter().map(|option| format!(" {option}"))));
        if self.points.iter().any(|other| other.place.machine != place.machine) {
            name += &format!(" on {}", place.machine);
        }
        let seed = point.cells.iter().position(|cell| *cell == at).and_then(|number| self.seeds.get(number));
        if let Some(seed) = seed.filter(|_| self.seeds.len() > 1) {
            name += &format!(" seed {seed}");
        }
        name
    }
}

#[cfg(test)]
mod tests;
