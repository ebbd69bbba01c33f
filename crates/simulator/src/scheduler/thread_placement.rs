//! The threads of one program on several cores: thread `t` runs on core `t` modulo the program's cores.
//!
//! In a stream, [`VmEvent::Switch`] names the thread of the records that follow. The segments of the stream
//! are distributed to the cores of their threads. Each core runs at its own pace; the core with the smallest
//! local time runs first. A VM event waits until everything before it in the stream has run, and delays
//! everything after it: address spaces change in the stream's order. (No other synchronisation between
//! threads is modelled: between two VM events, the cores determine the order.) Dependences count within a
//! thread's segment: they do not reach across a switch.

use crate::Stop;
use crate::core::{Core, CorePhase};
use crate::hardware::Hardware;
use crate::machine::Phase;
use crate::os_events::OperatingSystem;
use crate::scheduler::Scheduler;
use crate::stream::SharedStream;
use ambulator_base::{Archive, Batch, ProcessId, State, VmEvent};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of records that wait for the cores of a program: how far the fastest thread may be ahead of
/// the slowest.
const MAX_WAITING: usize = 8 * Batch::TARGET_RECORDS;

/// Consecutive records of one thread in the stream.
struct Segment {
    batch: Arc<Batch>,
    /// Its number in the stream.
    number: usize,
    records: Range<usize>,
    /// The process, by the stream's number.
    process: ProcessId,
}

/// A program whose threads are placed on cores.
pub(crate) struct ThreadPlacement {
    stream: Arc<SharedStream>,
    reader: usize,
    cores: Range<usize>,
    batch: Arc<Batch>,
    /// Its number in the stream.
    number: usize,
    at: usize,
    event_at: usize,
    process: ProcessId,
    thread: u32,
    /// Waiting segments, by core of the program.
    queues: Vec<VecDeque<Segment>>,
    /// Records in all queues.
    waiting: usize,
    ended: bool,
}

impl ThreadPlacement {
    /// A program that reads `stream` as `reader` and runs on `cores`.
    pub fn new(stream: Arc<SharedStream>, reader: usize, cores: Range<usize>) -> ThreadPlacement {
        ThreadPlacement {
            stream,
            reader,
            batch: Arc::new(Batch::default()),
            number: 0,
            at: 0,
            event_at: 0,
            process: ProcessId(0),
            thread: 0,
            queues: cores.clone().map(|_| VecDeque::new()).collect(),
            cores,
            waiting: 0,
            ended: false,
        }
    }

    /// The program's cores.
    pub fn cores(&self) -> Range<usize> {
        self.cores.clone()
    }

    /// Whether the program runs on this core.
    pub fn has_core(&self, number: usize) -> bool {
        self.cores.contains(&number)
    }

    /// A core has finished: its waiting segments will not run. The last core to finish leaves the stream.
    pub fn leave(&mut self, number: usize, cores: &mut [Core]) {
        let queue = &mut self.queues[number - self.cores.start];
        self.waiting -= queue.iter().map(|segment| segment.records.len()).sum::<usize>();
        queue.clear();
        cores[number].end = cores[number].at;
        if cores[self.cores.clone()].iter().all(|core| core.phase == CorePhase::Finished) {
            self.stream.leave(self.reader);
        }
    }

    /// The core of the thread whose records come next in the stream.
    fn core(&self) -> usize {
        self.cores.start + self.thread as usize % self.cores.len()
    }
}

/// Whether a core of a program with placed threads has records to run.
#[inline(always)]
fn has_records(core: &Core) -> bool {
    core.at < core.end
}

/// Whether some core has run and all cores that have run have finished: the others wait for threads that the
/// program does not have.
fn only_idle_left(cores: &[Core]) -> bool {
    let finished = |core: &Core| core.phase == CorePhase::Finished;
    cores.iter().any(finished) && cores.iter().all(|core| finished(core) || core.executed == 0)
}

impl Scheduler {
    /// Gives cores without records their next segment, and reads the streams as far as necessary.
    pub fn supply(&mut self, hw: &mut Hardware, os: &mut OperatingSystem) -> Result<(), Stop> {
        for program in 0..self.placements.len() {
            while self.supply_step(hw, os, program)? {}
        }
        Ok(())
    }

    /// One step of reading a program's stream. False when its cores have records or must wait.
    fn supply_step(&mut self, hw: &mut Hardware, os: &mut OperatingSystem, program: usize) -> Result<bool, Stop> {
        let cores = self.placements[program].cores.clone();
        if self.phase == Phase::Setup && hw.cores[cores.start].phase != CorePhase::Setup {
            return Ok(false); // the region begins when all programs have set up
        }
        if self.phase == Phase::Measure && only_idle_left(&hw.cores[cores.clone()]) {
            for number in cores.filter(|number| hw.cores[*number].phase != CorePhase::Finished).collect::<Vec<_>>() {
                self.finish(number, &mut hw.cores);
            }
            return Ok(false);
        }
        let mut starved = false;
        for number in cores.clone() {
            if hw.cores[number].phase == CorePhase::Finished || has_records(&hw.cores[number]) {
                continue;
            }
            match self.placements[program].queues[number - cores.start].pop_front() {
                Some(segment) => self.begin_segment(hw, os, program, number, segment)?,
                None => starved = true,
            }
        }
        let placement = &mut self.placements[program];
        if !starved || placement.waiting >= MAX_WAITING {
            return Ok(false);
        }
        if placement.at >= placement.batch.records.len() && placement.event_at >= placement.batch.events.len() {
            return self.next_batch_of(hw, program);
        }
        match placement.batch.events.get(placement.event_at) {
            Some((at, event)) if *at as usize <= placement.at => {
                let event = event.clone();
                self.event_of(hw, os, program, &event)
            }
            next => {
                let to = next.map_or(placement.batch.records.len(), |(at, _)| *at as usize);
                let segment = Segment {
                    batch: Arc::clone(&placement.batch),
                    number: placement.number,
                    records: placement.at..to,
                    process: placement.process,
                };
                placement.at = to;
                let number = placement.core();
                if hw.cores[number].phase != CorePhase::Finished {
                    placement.waiting += segment.records.len();
                    placement.queues[number - cores.start].push_back(segment);
                }
                for core in cores.filter(|core| hw.cores[*core].phase == CorePhase::Setup).collect::<Vec<_>>() {
                    // A stream with records before any region has no set-up: all of it is measured.
                    hw.cores[core].phase = CorePhase::Region;
                }
                Ok(true)
            }
        }
    }

    fn begin_segment(
        &mut self,
        hw: &mut Hardware,
        os: &mut OperatingSystem,
        program: usize,
        number: usize,
        segment: Segment,
    ) -> Result<(), Stop> {
        self.placements[program].waiting -= segment.records.len();
        if hw.cores[number].kernel_process(segment.process) != Some(hw.cores[number].process) {
            self.event(hw, os, number, &VmEvent::Switch { process: segment.process, thread: 0 })?;
        }
        let core = &mut hw.cores[number];
        core.batch = segment.batch;
        core.batch_number = segment.number;
        core.at = segment.records.start;
        core.end = segment.records.end;
        Ok(())
    }

    fn next_batch_of(&mut self, hw: &mut Hardware, program: usize) -> Result<bool, Stop> {
        let placement = &mut self.placements[program];
        let next = if placement.ended {
            None
        } else {
            placement.stream.next(placement.reader).map_err(|e| Stop::Failed(e.message))?
        };
        if let Some(batch) = next {
            placement.batch = batch;
            placement.number = placement.stream.position(placement.reader).saturating_sub(1);
            placement.at = 0;
            placement.event_at = 0;
            return Ok(true);
        }
        placement.ended = true;
        let done: Vec<usize> = placement
            .cores
            .clone()
            .filter(|number| !has_records(&hw.cores[*number]) && hw.cores[*number].phase != CorePhase::Finished)
            .collect();
        for number in done {
            self.finish(number, &mut hw.cores);
        }
        Ok(false)
    }

    /// An event of a program with placed threads. False if it must wait for earlier records.
    fn event_of(
        &mut self,
        hw: &mut Hardware,
        os: &mut OperatingSystem,
        program: usize,
        event: &VmEvent,
    ) -> Result<bool, Stop> {
        let placement = &mut self.placements[program];
        if let VmEvent::Switch { process, thread } = event {
            placement.process = *process;
            placement.thread = *thread;
            placement.event_at += 1;
            return Ok(true);
        }
        let (cores, number, process) = (placement.cores.clone(), placement.core(), placement.process);
        if placement.waiting > 0 || cores.clone().any(|core| has_records(&hw.cores[core])) {
            return Ok(false);
        }
        self.placements[program].event_at += 1;
        match event {
            VmEvent::RegionBegin | VmEvent::RegionEnd => {
                for core in cores {
                    self.event(hw, os, core, event)?;
                }
            }
            _ => {
                if hw.cores[number].kernel_process(process) != Some(hw.cores[number].process) {
                    self.event(hw, os, number, &VmEvent::Switch { process, thread: 0 })?;
                }
                self.event(hw, os, number, event)?;
                if matches!(event, VmEvent::Fork { .. } | VmEvent::Exit { .. }) {
                    let known = hw.cores[number].processes.clone();
                    for core in cores {
                        hw.cores[core].processes.clone_from(&known);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Its place in the stream. The batches that it needs are read again.
impl ThreadPlacement {
    /// The state, without batches.
    pub fn state(&mut self, archive: &mut Archive<'_>) {
        self.number.state(archive);
        self.at.state(archive);
        self.event_at.state(archive);
        self.process.state(archive);
        self.thread.state(archive);
        self.waiting.state(archive);
        self.ended.state(archive);
        for queue in &mut self.queues {
            let mut segments: Vec<(usize, usize, (usize, ProcessId))> =
                queue.iter().map(|of| (of.number, of.records.start, (of.records.end, of.process))).collect();
            segments.state(archive);
            if archive.loads() {
                let segment = |(number, start, (end, process))| Segment {
                    batch: Arc::default(),
                    number,
                    records: start..end,
                    process,
                };
                *queue = segments.into_iter().map(segment).collect();
            }
        }
    }

    /// The stream and the reader.
    pub fn stream(&self) -> (&Arc<SharedStream>, usize) {
        (&self.stream, self.reader)
    }

    /// The batches that it needs, by their numbers.
    pub fn batches(&mut self) -> impl Iterator<Item = (usize, &mut Arc<Batch>)> {
        let waiting = self.queues.iter_mut().flatten().map(|segment| (segment.number, &mut segment.batch));
        waiting.chain([(self.number, &mut self.batch)])
    }
}
