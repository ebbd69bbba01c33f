//! A benchmark as a record source: its set-up events, the region of interest, its end.

use ambulator_base::{Batch, ProgramIdentity, Record, RecordSource, SourceError, VmEvent};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// The region of interest of a program.
pub(crate) trait Benchmark: Send {
    /// Appends the next records, about [`Batch::TARGET_RECORDS`]; none if the program has ended.
    fn run(&mut self, records: &mut Vec<Record>);

    /// What went wrong in the sim host while it ran, if anything did.
    fn failure(&mut self) -> Option<String> {
        None
    }
}

/// Set-up events emitted at a time.
const SETUP_EVENTS: usize = 1 << 14;

/// The events before the region of interest.
pub(crate) type Setup = Box<dyn Iterator<Item = VmEvent> + Send>;

impl Benchmark for Box<dyn Benchmark> {
    fn run(&mut self, records: &mut Vec<Record>) {
        (**self).run(records);
    }

    fn failure(&mut self) -> Option<String> {
        (**self).failure()
    }
}

pub(crate) struct BenchmarkSource<K> {
    identity: ProgramIdentity,
    setup: Option<Setup>,
    benchmark: K,
    ended: bool,
}

impl<K: Benchmark + 'static> BenchmarkSource<K> {
    pub(crate) fn boxed(identity: ProgramIdentity, setup: Setup, benchmark: K) -> Box<dyn RecordSource> {
        Box::new(BenchmarkSource { identity, setup: Some(setup), benchmark, ended: false })
    }
}

impl<K: Benchmark> RecordSource for BenchmarkSource<K> {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if let Some(setup) = &mut self.setup {
            batch.events.extend(setup.take(SETUP_EVENTS).map(|event| (0, event)));
            if batch.events.len() < SETUP_EVENTS {
                batch.push_event(VmEvent::RegionBegin);
                self.setup = None;
            }
            return Ok(true);
        }
        if self.ended {
            return Ok(false);
        }
        batch.records.reserve(Batch::TARGET_RECORDS);
        self.benchmark.run(&mut batch.records);
        if let Some(what) = self.benchmark.failure() {
            return Err(SourceError::new(format!("{}: {what}", self.identity.name)));
        }
        if batch.records.is_empty() {
            self.ended = true;
            batch.push_event(VmEvent::RegionEnd);
        }
        Ok(true)
    }
}

/// The identity of a benchmark with these settings. `facts` are derived sizes.
pub(crate) fn identity(name: &str, spec: &impl Serialize, facts: &str, footprint: u64) -> ProgramIdentity {
    let settings = serde_json::to_value(spec).unwrap_or_default();
    let mut detail: Vec<String> =
        settings.as_object().into_iter().flatten().map(|(key, value)| format!("{key} = {value}")).collect();
    detail.push(facts.to_string());
    let digest = xxh3_64(format!("{name} {settings}").as_bytes());
    ProgramIdentity { name: name.into(), detail: detail.join(", "), footprint, digest }
}
