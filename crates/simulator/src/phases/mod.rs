//! Phases: a program's stream is read once without a machine, cut into intervals, and the intervals with like
//! signatures are a phase. A run then measures some intervals of each phase (`run.sampling = "phases"`).
//!
//! This is two-phase stratified sampling (Wunderlich et al., WPED 2006; Cochran, Sampling Techniques, Ch. 5):
//! the phases are the strata, and an interval is drawn at random from them, so that every estimate has an
//! interval that does not depend on how good the phases are. Good ones make it narrower.

mod cluster;
mod plan;
mod signature;

pub use plan::PhasePlan;

use crate::spec::{RunSpec, Spec};
use ambulator_base::{Batch, RecordSource, SourceError, VmEvent};
use signature::{Signature, Signer};

/// A stream's intervals.
#[derive(Clone, Debug, Default)]
struct StreamProfile {
    /// By interval of the measured region.
    signatures: Vec<Signature>,
    /// Where they are.
    places: StreamPlaces,
}

/// Where a stream's intervals begin and end, in its instructions on all of its cores since the begin of the
/// region of interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamPlaces {
    /// The end of the warm-up, and the end of each interval. Empty if the stream ends in the warm-up.
    bounds: Vec<u64>,
    /// The end of the measured region.
    end: u64,
}

impl StreamPlaces {
    /// Where the stream is after `position` instructions of each core since the warm-up, of which intervals
    /// have `interval`.
    pub(crate) fn at(&self, position: u64, interval: u64) -> u64 {
        let (number, rest) = ((position / interval) as usize, position % interval);
        match (self.bounds.get(number), self.bounds.get(number + 1)) {
            (Some(begin), Some(end)) => {
                let part = u128::from(end - begin) * u128::from(rest) / u128::from(interval);
                begin + part as u64
            }
            (Some(begin), None) => begin.saturating_add(rest).min(self.end),
            (None, _) => self.end,
        }
    }
}

/// The signatures of the intervals of a program, or of the programs of a mix.
#[derive(Clone, Debug)]
pub struct PhaseProfile {
    streams: Vec<StreamProfile>,
}

/// What a profile depends on, beside the programs: runs for which it is equal share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhaseKey {
    warmup: u64,
    instructions: u64,
    interval: u64,
    cores: u32,
    spread_threads: bool,
    time_slice: u64,
}

impl PhaseKey {
    /// Of a run's spec.
    pub fn of(spec: &Spec) -> PhaseKey {
        let RunSpec { warmup, instructions, sample_window, spread_threads, time_slice, .. } = spec.run;
        PhaseKey {
            warmup,
            instructions,
            interval: sample_window,
            cores: spec.machine.cores,
            spread_threads,
            time_slice,
        }
    }
}

impl PhaseProfile {
    /// Reads the programs of a run, which [`crate::Comparison`] takes in the same form, through the end of
    /// its measured region. `goes_on` is told from time to time how many instructions it has read; once it
    /// says no, there is no profile.
    ///
    /// # Errors
    /// Of a source.
    pub fn read(
        spec: &Spec,
        programs: Vec<Box<dyn RecordSource>>,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<PhaseProfile>, SourceError> {
        let each = match spec.run.spread_threads {
            true => (u64::from(spec.machine.cores) / programs.len().max(1) as u64).max(1),
            false => 1,
        };
        let mut streams: Vec<StreamProfile> = Vec::with_capacity(programs.len());
        for mut program in programs {
            let reader = StreamReader::new(&spec.run, each);
            let before: u64 = streams.iter().map(|stream| stream.places.end).sum();
            match reader.read(program.as_mut(), &mut |own| goes_on(before + own))? {
                Some(profile) => streams.push(profile),
                None => return Ok(None),
            }
        }
        Ok(Some(PhaseProfile { streams }))
    }

    /// The intervals that a run measures.
    pub fn plan(&self, run: &RunSpec) -> PhasePlan {
        PhasePlan::of(self, run)
    }
}

/// A core of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct CoreOfStream {
    /// Instructions since the region of interest began, and as many as end the core's measured region.
    executed: u64,
    end: u64,
}

impl CoreOfStream {
    fn has_finished(&self) -> bool {
        self.executed >= self.end
    }
}

/// Reads one stream as a machine does: what comes before the last begin of the region of interest is set-up;
/// thread `t` runs on core `t` modulo the stream's cores; and a core that has run its instructions is
/// finished, so that what its threads do later is not run.
struct StreamReader {
    signer: Signer,
    profile: StreamProfile,
    cores: Vec<CoreOfStream>,
    /// The core of the records that come next.
    core: usize,
    /// Instructions of the stream: in the region of interest so far, and in the warm-up.
    executed: u64,
    warmup: u64,
    /// Instructions of a core in an interval, and in the measured region.
    interval: u64,
    instructions: u64,
    /// Where the current interval, or the warm-up, began and ends.
    begun: u64,
    end: u64,
    is_warm: bool,
    has_begun: bool,
}

impl StreamReader {
    fn new(run: &RunSpec, each: u64) -> StreamReader {
        StreamReader {
            signer: Signer::new(),
            profile: StreamProfile::default(),
            cores: vec![CoreOfStream::default(); each as usize],
            core: 0,
            executed: 0,
            warmup: run.warmup.saturating_mul(each),
            interval: run.sample_window,
            instructions: run.instructions,
            begun: 0,
            end: 0,
            is_warm: false,
            has_begun: false,
        }
    }

    fn read(
        mut self,
        program: &mut dyn RecordSource,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<StreamProfile>, SourceError> {
        let mut batch = Batch::default();
        while program.fill(&mut batch)? {
            if !goes_on(self.executed) {
                return Ok(None);
            }
            let mut from = 0;
            for (at, event) in &batch.events {
                let to = *at as usize;
                if !self.records(&batch.records[from..to]) {
                    return Ok(Some(self.ended()));
                }
                from = to;
                match event {
                    VmEvent::Switch { process, thread } => {
                        self.signer.switch(*process);
                        self.core = *thread as usize % self.cores.len();
                    }
                    VmEvent::RegionBegin => self.begin(),
                    VmEvent::RegionEnd if self.has_begun => return Ok(Some(self.ended())),
                    _ => {}
                }
            }
            if !self.records(&batch.records[from..]) {
                return Ok(Some(self.ended()));
            }
        }
        Ok(Some(self.ended()))
    }

    /// The region of interest begins: what came before was set-up.
    fn begin(&mut self) {
        self.has_begun = true;
        self.signer.take(1);
        self.profile = StreamProfile::default();
        (self.executed, self.begun, self.end, self.is_warm) = (0, 0, self.warmup, false);
        self.cores.fill(CoreOfStream { executed: 0, end: u64::MAX });
        if self.warmup == 0 {
            self.begin_measuring();
        }
    }

    /// The warm-up has ended.
    fn begin_measuring(&mut self) {
        self.is_warm = true;
        for core in &mut self.cores {
            core.end = core.executed.saturating_add(self.instructions);
        }
        self.profile.places.bounds.push(self.warmup);
        self.begin_interval(self.warmup);
    }

    fn begin_interval(&mut self, at: u64) {
        // Those that have not run yet have no thread, unless nothing has run.
        let runs = |core: &&CoreOfStream| (core.executed > 0 || self.executed == 0) && !core.has_finished();
        let running = self.cores.iter().filter(runs).count().max(1) as u64;
        (self.begun, self.end) = (at, at.saturating_add(self.interval * running));
    }

    /// Records; false at the end of the measured region.
    fn records(&mut self, records: &[ambulator_base::Record]) -> bool {
        if records.is_empty() {
            return true;
        }
        if !self.has_begun {
            self.begin();
        }
        for record in records {
            if self.cores[self.core].has_finished() {
                return !self.have_finished();
            }
            self.signer.record(record);
            let instructions = record.instructions();
            self.cores[self.core].executed += instructions;
            self.executed += instructions;
            while self.executed >= self.end {
                self.end_interval();
            }
            if self.cores[self.core].has_finished() && self.have_finished() {
                return false;
            }
        }
        true
    }

    /// Whether every core that has run has finished: a machine does not wait for threads that a program does
    /// not have.
    fn have_finished(&self) -> bool {
        self.is_warm && self.cores.iter().all(|core| core.executed == 0 || core.has_finished())
    }

    fn end_interval(&mut self) {
        let signature = self.signer.take(self.end - self.begun);
        if !self.is_warm {
            return self.begin_measuring();
        }
        self.profile.signatures.push(signature);
        self.profile.places.bounds.push(self.end);
        self.begin_interval(self.end);
    }

    /// The stream has ended: an interval that is half over counts.
    fn ended(mut self) -> StreamProfile {
        let own = self.executed.saturating_sub(self.begun);
        if self.is_warm && 2 * own >= self.end - self.begun {
            self.profile.signatures.push(self.signer.take(own));
            self.profile.places.bounds.push(self.executed);
        }
        self.profile.places.end = self.executed;
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{ProgramIdentity, Record, VirtAddr};

    /// A stream with events before the records of these numbers.
    struct Stream {
        at: u64,
        length: u64,
        events: Vec<(u64, VmEvent)>,
    }

    impl RecordSource for Stream {
        fn identity(&self) -> ProgramIdentity {
            ProgramIdentity::default()
        }

        fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            let end = (self.at + 100).min(self.length);
            while self.at < end {
                let due = self.events.iter().filter(|(at, _)| *at == self.at).map(|(_, event)| event.clone());
                due.for_each(|event| batch.push_event(event));
                batch.records.push(Record { va: VirtAddr(self.at << 12), gap: 4, size: 8, ..Record::default() });
                self.at += 1;
            }
            Ok(!batch.is_empty())
        }
    }

    /// Five instructions a record, of which `length` have been written.
    fn read(length: u64, events: Vec<(u64, VmEvent)>, (warmup, instructions): (u64, u64)) -> StreamProfile {
        let run = RunSpec { warmup, instructions, sample_window: 1000, ..RunSpec::default() };
        let mut stream = Stream { at: 0, length, events };
        StreamReader::new(&run, 1).read(&mut stream, &mut |_| true).unwrap().unwrap()
    }

    #[test]
    fn intervals_are_those_of_the_measured_region() {
        let whole = read(1000, Vec::new(), (0, u64::MAX));
        assert_eq!((whole.signatures.len(), whole.places.end), (5, 5000));
        let short = read(1000, Vec::new(), (700, 2000));
        assert_eq!((short.signatures.len(), short.places.end), (2, 2700), "the warm-up, and two intervals");
        let not_even = read(1000, Vec::new(), (0, 2600));
        assert_eq!((not_even.signatures.len(), not_even.places.end), (3, 2600));
        // Half of an interval counts, and less does not.
        assert_eq!(read(1100, Vec::new(), (0, u64::MAX)).signatures.len(), 6);
        assert_eq!(read(1099, Vec::new(), (0, u64::MAX)).signatures.len(), 5);
        assert_eq!(read(100, Vec::new(), (1000, u64::MAX)).signatures.len(), 0, "the warm-up took all");
    }

    #[test]
    fn set_up_does_not_count_and_the_regions_end_is_the_end() {
        let events = vec![(400, VmEvent::RegionBegin), (850, VmEvent::RegionEnd)];
        let region = read(1000, events, (250, u64::MAX));
        assert_eq!((region.signatures.len(), region.places.end), (2, 2250));
        let again = vec![(0, VmEvent::RegionBegin), (600, VmEvent::RegionBegin)];
        assert_eq!(read(1000, again, (0, u64::MAX)).signatures.len(), 2, "the last begin is the begin");
        // Each record touches a page that none before it has touched, two bins from the end of its part.
        let first = read(1000, Vec::new(), (0, u64::MAX)).signatures[3];
        assert!(first.iter().any(|rate| (*rate - 0.2).abs() < 1e-6), "a visit in five instructions: {first:?}");
    }

    /// Intervals of 1000 instructions of a program of two cores, of which thread 1 runs before each record of
    /// `turns` for one record.
    fn on_two_cores(
        length: u64,
        turns: impl Iterator<Item = u64>,
        (warmup, instructions): (u64, u64),
    ) -> StreamProfile {
        let run = RunSpec { warmup, instructions, sample_window: 1000, ..RunSpec::default() };
        let switch = |thread| VmEvent::Switch { process: ambulator_base::ProcessId(0), thread };
        let events = turns.flat_map(|at| [(at, switch(1)), (at + 1, switch(0))]).collect();
        let mut stream = Stream { at: 0, length, events };
        StreamReader::new(&run, 2).read(&mut stream, &mut |_| true).unwrap().unwrap()
    }

    #[test]
    fn a_program_with_fewer_threads_than_cores_has_the_intervals_of_those_that_run() {
        // The warm-up is as long for all cores together, and the measured region for the one that runs.
        let alone = on_two_cores(10_000, std::iter::empty(), (1000, 7000));
        assert_eq!((alone.signatures.len(), alone.places.end), (7, 9000));
        assert_eq!(alone.places.bounds, [2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
        let both = on_two_cores(10_000, (0..10_000).step_by(2), (1000, 7000));
        assert_eq!((both.signatures.len(), both.places.end), (7, 16_000));
        // Without a warm-up nothing has run when the first interval begins.
        let cold = on_two_cores(10_000, std::iter::empty(), (0, 7000));
        assert_eq!(cold.places.bounds, [0, 2000, 3000, 4000, 5000, 6000, 7000]);
    }

    #[test]
    fn a_thread_that_has_run_its_instructions_is_read_no_more() {
        // Of four records, one is of thread 1: thread 0 ends first, and what it does afterwards is not run.
        let uneven = on_two_cores(10_000, (0..10_000).step_by(4), (0, 6000));
        assert_eq!(uneven.places.end, 12_000);
        let steps: Vec<u64> = uneven.places.bounds.windows(2).map(|of| of[1] - of[0]).collect();
        assert_eq!(steps, [2000, 2000, 2000, 2000, 1000, 1000, 1000, 1000]);
        // Thread 1 ends early: the other one has its region to itself.
        let early = on_two_cores(10_000, (0..800).step_by(2), (0, 6000));
        assert_eq!(early.places.end, 8000);
    }

    #[test]
    fn a_stop_leaves_no_profile() {
        let mut stream = Stream { at: 0, length: 1000, events: Vec::new() };
        let reader = StreamReader::new(&RunSpec { warmup: 0, ..RunSpec::default() }, 1);
        let mut told = Vec::new();
        let mut goes_on = |instructions| {
            told.push(instructions);
            instructions < 1000
        };
        assert!(reader.read(&mut stream, &mut goes_on).unwrap().is_none());
        assert_eq!(told, [0, 500, 1000]);
    }
}
