//! Scripted programs, and machines small enough to reason about.
#![allow(dead_code)]

use ambulator_base::{
    Batch, MapKind, PageSize, PhysAddr, ProgramIdentity, Protection, Record, RecordKind, RecordSource, SourceError,
    VirtAddr, VmEvent,
};
use ambulator_simulator::spec::{SpecRequest, load};
use ambulator_simulator::{Comparison, Job, Outcome, RunResult, Silent, compare, spec::Spec};
use std::sync::Arc;

/// Where scripted programs keep their data, and their code.
pub const DATA: u64 = 0x10_0000_0000;
pub const CODE: u64 = 0x40_0000;

/// A step of a scripted program.
#[derive(Clone, Debug)]
pub enum Step {
    Access(Record),
    Event(VmEvent),
}

/// A program that does its steps once, in batches of `batch` records.
#[derive(Clone, Debug)]
pub struct Scripted {
    pub steps: Vec<Step>,
    pub batch: usize,
    pub fails_at_end: bool,
    at: usize,
}

impl Scripted {
    /// Maps code and `data_bytes` of data, touches the code, and begins its region.
    pub fn new(data_bytes: u64) -> Scripted {
        let mut program = Scripted { steps: Vec::new(), batch: 64, fails_at_end: false, at: 0 };
        program.map(CODE, 4096, Protection::READ_EXECUTE, MapKind::File);
        program.touch(CODE, 4096, false);
        program.map(DATA, data_bytes, Protection::READ_WRITE, MapKind::Anonymous);
        program
    }

    pub fn event(&mut self, event: VmEvent) -> &mut Self {
        self.steps.push(Step::Event(event));
        self
    }

    pub fn map(&mut self, start: u64, len: u64, protection: Protection, kind: MapKind) -> &mut Self {
        self.event(VmEvent::Map { start: VirtAddr(start), len, protection, kind })
    }

    pub fn touch(&mut self, start: u64, len: u64, write: bool) -> &mut Self {
        self.event(VmEvent::Touch { start: VirtAddr(start), len, write })
    }

    pub fn place(&mut self, start: u64, len: u64, at: u64, page: PageSize) -> &mut Self {
        self.event(VmEvent::Place { start: VirtAddr(start), len, at: PhysAddr(at), page })
    }

    pub fn begin(&mut self) -> &mut Self {
        self.event(VmEvent::RegionBegin)
    }

    pub fn access(&mut self, kind: RecordKind, va: u64, gap: u32, dep1: u16) -> &mut Self {
        let pc = VirtAddr(CODE);
        self.steps.push(Step::Access(Record { pc, va: VirtAddr(va), gap, dep1, dep2: 0, size: 8, kind }));
        self
    }

    pub fn load(&mut self, va: u64) -> &mut Self {
        self.access(RecordKind::Load, va, 0, 0)
    }

    pub fn store(&mut self, va: u64) -> &mut Self {
        self.access(RecordKind::Store, va, 0, 0)
    }

    /// `gap` instructions, so that everything before has ended.
    pub fn pause(&mut self) -> &mut Self {
        self.access(RecordKind::Load, DATA, 100_000, 0)
    }
}

impl RecordSource for Scripted {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: "scripted".into(), ..ProgramIdentity::default() }
    }

    fn may_place(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Event(VmEvent::Place { .. })))
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.at == self.steps.len() {
            return if self.fails_at_end {
                Err(SourceError::new("the script is damaged at its end"))
            } else {
                Ok(false)
            };
        }
        while self.at < self.steps.len() && batch.records.len() < self.batch {
            match &self.steps[self.at] {
                Step::Access(record) => batch.records.push(*record),
                Step::Event(event) => batch.push_event(event.clone()),
            }
            self.at += 1;
        }
        Ok(true)
    }
}

/// The spec of a design on the default machine with a gigabyte, no warm-up, and these settings.
pub fn spec(design: &str, settings: &[&str]) -> Spec {
    let mut options: Vec<String> =
        ["memory.bytes=1GiB", "run.warmup=0", "run.instructions=1000000000"].map(str::to_owned).to_vec();
    options.extend(settings.iter().map(|s| (*s).to_owned()));
    load(&SpecRequest { design: Some(design.into()), options, ..SpecRequest::default() })
        .unwrap_or_else(|e| panic!("{design} with {settings:?}: {e}"))
        .spec
}

/// Runs designs with their settings over one program on each core.
pub fn outcome(jobs: &[(&str, &[&str])], programs: Vec<Scripted>, threads: usize) -> Outcome {
    let jobs = jobs
        .iter()
        .enumerate()
        .map(|(i, (design, settings))| Job { design: format!("{i}-{design}"), spec: spec(design, settings) })
        .collect();
    let programs = programs.into_iter().map(|p| Box::new(p) as Box<dyn RecordSource>).collect();
    compare(Comparison { jobs, programs, threads, stop: Arc::default(), progress: Arc::new(Silent) })
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Runs one design over one program.
pub fn run(design: &str, settings: &[&str], program: &Scripted) -> RunResult {
    outcome(&[(design, settings)], vec![program.clone()], 1).runs.remove(0)
}

/// A counter, which must exist.
pub fn counter(run: &RunResult, name: &str) -> u64 {
    *run.counters.get(name).unwrap_or_else(|| panic!("no counter {name}; there are {:?}", run.counters.keys()))
}
