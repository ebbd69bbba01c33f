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
    /// Instructions from the begin of the region of interest to the end of the measured region.
    instructions: u64,
}

/// The signatures of the intervals of a program, or of the programs of a mix.
#[derive(Clone, Debug)]
pub struct PhaseProfile {
    streams: Vec<StreamProfile>,
    /// Cores of each stream.
    each: u64,
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
            let before: u64 = streams.iter().map(|stream| stream.instructions).sum();
            match reader.read(program.as_mut(), &mut |own| goes_on(before + own))? {
                Some(profile) => streams.push(profile),
                None => return Ok(None),
            }
        }
        Ok(Some(PhaseProfile { streams, each }))
    }

    /// The intervals that a run measures.
    pub fn plan(&self, run: &RunSpec) -> PhasePlan {
        PhasePlan::of(self, run)
    }
}

/// Reads one stream as a machine does: what comes before the last begin of the region of interest is set-up.
struct StreamReader {
    signer: Signer,
    profile: StreamProfile,
    /// Instructions of the stream: in the warm-up, in an interval, and through the end.
    warmup: u64,
    interval: u64,
    most: u64,
    /// Instructions at the end of the current interval, or of the warm-up.
    end: u64,
    has_begun: bool,
}

impl StreamReader {
    fn new(run: &RunSpec, each: u64) -> StreamReader {
        let warmup = run.warmup.saturating_mul(each);
        StreamReader {
            signer: Signer::new(),
            profile: StreamProfile::default(),
            warmup,
            interval: run.sample_window * each,
            most: warmup.saturating_add(run.instructions.saturating_mul(each)),
            end: warmup,
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
            if !goes_on(self.profile.instructions) {
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
                    VmEvent::Switch { process, .. } => self.signer.switch(*process),
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
        self.end = self.warmup;
    }

    /// Records; false at the end of the measured region.
    fn records(&mut self, records: &[ambulator_base::Record]) -> bool {
        for record in records {
            self.has_begun = true;
            self.signer.record(record);
            self.profile.instructions += record.instructions();
            if self.profile.instructions >= self.end.min(self.most) {
                while self.profile.instructions >= self.end {
                    self.end_interval();
                }
                if self.profile.instructions >= self.most {
                    return false;
                }
            }
        }
        true
    }

    fn end_interval(&mut self) {
        let signature = self.signer.take(self.interval);
        if self.end > self.warmup {
            self.profile.signatures.push(signature);
        }
        self.end = self.end.saturating_add(self.interval);
    }

    /// The stream has ended: an interval that is half over counts.
    fn ended(mut self) -> StreamProfile {
        let begun = self.end.saturating_sub(self.interval);
        let own = self.profile.instructions.saturating_sub(begun);
        if self.end > self.warmup && 2 * own >= self.interval && own < self.interval {
            self.profile.signatures.push(self.signer.take(own));
        }
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
        assert_eq!((whole.signatures.len(), whole.instructions), (5, 5000));
        let short = read(1000, Vec::new(), (700, 2000));
        assert_eq!((short.signatures.len(), short.instructions), (2, 2700), "the warm-up, and two intervals");
        let not_even = read(1000, Vec::new(), (0, 2600));
        assert_eq!((not_even.signatures.len(), not_even.instructions), (3, 2600));
        // Half of an interval counts, and less does not.
        assert_eq!(read(1100, Vec::new(), (0, u64::MAX)).signatures.len(), 6);
        assert_eq!(read(1099, Vec::new(), (0, u64::MAX)).signatures.len(), 5);
        assert_eq!(read(100, Vec::new(), (1000, u64::MAX)).signatures.len(), 0, "the warm-up took all");
    }

    #[test]
    fn set_up_does_not_count_and_the_regions_end_is_the_end() {
        let events = vec![(400, VmEvent::RegionBegin), (850, VmEvent::RegionEnd)];
        let region = read(1000, events, (250, u64::MAX));
        assert_eq!((region.signatures.len(), region.instructions), (2, 2250));
        let again = vec![(0, VmEvent::RegionBegin), (600, VmEvent::RegionBegin)];
        assert_eq!(read(1000, again, (0, u64::MAX)).signatures.len(), 2, "the last begin is the begin");
        // Each record touches a page that none before it has touched, two bins from the end of its part.
        let first = read(1000, Vec::new(), (0, u64::MAX)).signatures[3];
        assert!(first.iter().any(|rate| (*rate - 0.2).abs() < 1e-6), "a visit in five instructions: {first:?}");
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
