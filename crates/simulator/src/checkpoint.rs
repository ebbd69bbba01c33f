//! Checkpoints: the state of a machine at the end of its warm-up, from which other runs start.
//!
//! A checkpoint of a warm-up without time holds nothing that depends on times: it is taken before time is
//! switched on, and fits machines with other times too.

use crate::machine::{Machine, Phase};
use ambulator_base::{Archive, Batch, State};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;

/// Where a machine stands with its checkpoint.
#[derive(Debug, Default)]
pub(crate) struct CheckpointPlace {
    /// It stops where a checkpoint is taken.
    pub wanted: bool,
    /// Records of the slice in which it stopped that are left.
    pub rest_of_slice: Option<usize>,
}

/// What a checkpoint needs before its machine is assembled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStart {
    /// The first batch that the machine needs of each of its streams; `None` if it has left the stream.
    pub batches: Vec<Option<u64>>,
    /// Whether time has been simulated before: then the state depends on all settings.
    pub timed: bool,
}

/// Calls back with what to read a state from.
pub type LoadState<'a> = dyn FnMut(&mut dyn Read) -> Result<u64, String> + 'a;
/// Calls back with what to write a state to.
pub type SaveState<'a> = dyn FnMut(&mut dyn Write) -> Result<u64, String> + 'a;

/// The checkpoint of a run: there, or to be made.
pub trait Checkpoint: Send + Sync {
    /// What the run needs to know of a checkpoint that is there; `None` if it is to be made.
    ///
    /// # Errors
    /// It is there and cannot be used: a sentence that names the file.
    fn start(&self) -> Result<Option<CheckpointStart>, String>;

    /// What results say of a run that started from it.
    fn name(&self) -> String;

    /// Reads the state.
    ///
    /// # Errors
    /// A sentence that names the file.
    fn load(&self, load: &mut LoadState<'_>) -> Result<(), String>;

    /// Writes the state.
    ///
    /// # Errors
    /// A sentence that names the file.
    fn save(&self, start: &CheckpointStart, save: &mut SaveState<'_>) -> Result<(), String>;
}

impl Machine {
    /// From now on the machine stops where a checkpoint is taken, until it has been.
    pub fn stop_at_checkpoint(&mut self) {
        self.checkpoint.wanted = true;
    }

    /// Whether the machine has stopped because a checkpoint is to be taken.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.checkpoint.wanted
            && self.phase() == Phase::Warmup
            && self.scheduler.at_checkpoint(&self.hw.cores, self.hw.timing())
    }

    /// The machine has its checkpoint and goes on.
    pub fn pass_checkpoint(&mut self) {
        self.checkpoint.wanted = false;
    }

    /// What a checkpoint taken now needs beside the state.
    pub fn checkpoint_start(&mut self) -> CheckpointStart {
        let mut batches = Vec::new();
        self.for_each_stream(|stream, reader, needed| {
            let position = stream.position(reader);
            let first = needed.into_iter().map(|(number, _)| number).min().unwrap_or(position);
            batches.push((position != usize::MAX).then_some(first.min(position) as u64));
        });
        CheckpointStart { batches, timed: self.hw.depends_on_times() }
    }

    /// Saves the state; returns its bytes before compression.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_state(&mut self, to: &mut dyn Write) -> Result<u64, String> {
        let mut archive = Archive::save(to, self.hw.depends_on_times());
        self.state(&mut archive);
        archive.end()
    }

    /// Loads a state into a machine that has just been assembled with the same settings, whose streams begin
    /// at [`CheckpointStart::batches`].
    ///
    /// # Errors
    /// The bytes are no state of such a machine, or cannot be read; the machine is then of no use.
    pub fn load_state(&mut self, start: &CheckpointStart, from: &mut dyn Read) -> Result<u64, String> {
        let mut archive = Archive::load(from, start.timed);
        self.state(&mut archive);
        let bytes = archive.end()?;
        self.statistics.begin_series(&self.hw, &self.os);
        Ok(bytes)
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        let mut rest = self.checkpoint.rest_of_slice.unwrap_or(0);
        rest.state(archive);
        self.os.state(archive);
        for core in &mut self.hw.cores {
            core.process_state(archive);
            if archive.loads() && !archive.failed() {
                (core.generation, core.hypervisor_generation) = (u64::MAX, u64::MAX);
                self.os.load_registers(core);
            }
        }
        self.hw.state(archive);
        self.checker.state(archive);
        self.scheduler.state(archive);
        self.statistics.state(archive);
        self.streams(archive);
        if archive.loads() {
            self.checkpoint.rest_of_slice = Some(rest);
        }
    }

    /// The positions in the streams; when loading, reads the batches that are needed again.
    fn streams(&mut self, archive: &mut Archive<'_>) {
        self.for_each_stream(|stream, reader, needed| {
            let mut next = stream.position(reader) as u64;
            next.state(archive);
            if !archive.loads() || archive.failed() {
                return;
            }
            if next == u64::MAX {
                return stream.leave(reader);
            }
            let mut read: BTreeMap<usize, Arc<Batch>> = BTreeMap::new();
            let mut at = stream.position(reader);
            while at < next as usize {
                match stream.next(reader) {
                    Ok(Some(batch)) => _ = read.insert(at, batch),
                    Ok(None) => {
                        return archive.fail("the program ends before the place where the checkpoint was taken");
                    }
                    Err(error) => return archive.fail(error.message),
                }
                at += 1;
            }
            for (number, batch) in needed {
                if let Some(found) = read.get(&number) {
                    *batch = Arc::clone(found);
                }
            }
        });
    }

    /// Calls `act` for each stream that this machine reads: the stream, the reader's number in it, and the
    /// batches that are in use, by their numbers.
    fn for_each_stream(
        &mut self,
        mut act: impl FnMut(&crate::stream::SharedStream, usize, Vec<(usize, &mut Arc<Batch>)>),
    ) {
        let Machine { hw, scheduler, .. } = self;
        if !scheduler.places_threads() {
            for core in &mut hw.cores {
                let (stream, reader) = (Arc::clone(&core.stream), core.reader);
                act(&stream, reader, vec![(core.batch_number, &mut core.batch)]);
            }
            return;
        }
        for placement in scheduler.placements_mut() {
            let (stream, reader) = placement.stream();
            let (stream, cores) = (Arc::clone(stream), placement.cores());
            let of_cores = hw.cores[cores].iter_mut().filter(|core| core.at < core.end);
            let of_cores = of_cores.map(|core| (core.batch_number, &mut core.batch));
            let needed = of_cores.chain(placement.batches()).collect();
            act(&stream, reader, needed);
        }
    }
}
