//! Round-robin multiprogramming: several programs on one core, each in its own process.

use ambulator_base::{Batch, NamedRange, ProcessId, ProgramIdentity, Record, RecordSource, SourceError, VmEvent};

/// One of the programs.
struct Job {
    source: Box<dyn RecordSource>,
    batch: Batch,
    /// The next record and the next event of the batch.
    at: usize,
    event_at: usize,
    /// The process, as numbered in the combined stream, and the thread to run when it is scheduled.
    running: (ProcessId, u32),
    ended: bool,
}

/// A program's next step.
enum Next<'a> {
    Record(Record),
    Event(&'a VmEvent),
    End,
}

impl Job {
    /// The next step; it stays the next until it is consumed.
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.at == self.batch.records.len() && self.event_at == self.batch.events.len() {
            (self.at, self.event_at) = (0, 0);
            if !self.source.fill(&mut self.batch)? {
                self.batch.clear();
                self.ended = true;
                return Ok(Next::End);
            }
        }
        Ok(match self.batch.events.get(self.event_at) {
            Some((place, event)) if *place as usize <= self.at => Next::Event(event),
            _ => match self.batch.records.get(self.at) {
                Some(record) => Next::Record(*record),
                // Events that come after the last record.
                None => self.batch.events.get(self.event_at).map_or(Next::End, |(_, event)| Next::Event(event)),
            },
        })
    }
}

/// Programs on one core. First each sets up; then they run round-robin, `slice` instructions at a time, until
/// all have ended.
///
/// Each program is its own process with its own address space, and each time slice begins with a context
/// switch. A record never depends on one of an earlier slice: that producer completed long ago.
pub struct TimeShared {
    programs: Vec<Job>,
    slice: u64,
    /// The running program, and the instructions left in its time slice.
    current: usize,
    left: u64,
    /// Records since the time slice began, up to the longest dependence.
    since: u16,
    begun: bool,
}

impl TimeShared {
    /// Schedules the programs in this order; `slice` is in instructions, at least 1.
    pub fn new(programs: Vec<Box<dyn RecordSource>>, slice: u64) -> TimeShared {
        let job = |(number, source)| Job {
            source,
            batch: Batch::default(),
            at: 0,
            event_at: 0,
            running: (ProcessId(number as u32), 0),
            ended: false,
        };
        let programs = programs.into_iter().enumerate().map(job).collect();
        TimeShared { programs, slice: slice.max(1), current: 0, left: 0, since: 0, begun: false }
    }

    /// The number in the combined stream of process `process` of program `of`.
    fn process(&self, of: usize, process: ProcessId) -> ProcessId {
        ProcessId(process.0 * self.programs.len() as u32 + of as u32)
    }

    /// Renumbers an event for the combined stream.
    fn renumbered(&mut self, of: usize, event: &VmEvent) -> Option<VmEvent> {
        match event {
            VmEvent::RegionBegin => None,
            VmEvent::RegionEnd => {
                self.programs[of].ended = true;
                None
            }
            VmEvent::Fork { child } => Some(VmEvent::Fork { child: self.process(of, *child) }),
            VmEvent::Exit { process } => Some(VmEvent::Exit { process: self.process(of, *process) }),
            VmEvent::Switch { process, thread } => {
                let process = self.process(of, *process);
                self.programs[of].running = (process, *thread);
                Some(VmEvent::Switch { process, thread: *thread })
            }
            other => Some(other.clone()),
        }
    }

    fn switch(&self, to: usize) -> VmEvent {
        let (process, thread) = self.programs[to].running;
        VmEvent::Switch { process, thread }
    }

    /// Starts every program and sets it up, until its region of interest or its first record.
    fn set_up(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        for number in 1..self.programs.len() {
            batch.push_event(VmEvent::Fork { child: ProcessId(number as u32) });
        }
        for number in 0..self.programs.len() {
            batch.push_event(self.switch(number));
            while let Next::Event(event) = self.programs[number].next()? {
                let event = event.clone();
                self.programs[number].event_at += 1;
                if event == VmEvent::RegionBegin {
                    break;
                }
                let event = self.renumbered(number, &event);
                batch.events.extend(event.map(|event| (0, event)));
            }
        }
        batch.push_event(VmEvent::RegionBegin);
        self.current = self.programs.len() - 1;
        Ok(())
    }

    /// Switches to the next program that has not ended; false if all have.
    fn switch_to_next(&mut self, batch: &mut Batch) -> bool {
        let count = self.programs.len();
        let Some(next) =
            (1..=count).map(|step| (self.current + step) % count).find(|number| !self.programs[*number].ended)
        else {
            return false;
        };
        self.current = next;
        self.left = self.slice;
        self.since = 0;
        batch.push_event(self.switch(next));
        true
    }
}

impl RecordSource for TimeShared {
    fn identity(&self) -> ProgramIdentity {
        let all: Vec<ProgramIdentity> = self.programs.iter().map(|program| program.source.identity()).collect();
        let join = |part: fn(&ProgramIdentity) -> &str, by: &str| all.iter().map(part).collect::<Vec<_>>().join(by);
        ProgramIdentity {
            name: join(|identity| &identity.name, "|"),
            detail: format!("{}\ntime_slice = {}", join(|identity| &identity.detail, "\n"), self.slice),
            footprint: all.iter().map(|identity| identity.footprint).sum(),
            digest: all.iter().fold(self.slice, |digest, identity| digest.rotate_left(17) ^ identity.digest),
        }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if !self.begun {
            self.begun = true;
            self.set_up(batch)?;
        }
        while batch.records.len() < Batch::TARGET_RECORDS {
            if (self.left == 0 || self.programs[self.current].ended) && !self.switch_to_next(batch) {
                break;
            }
            let current = self.current;
            match self.programs[current].next()? {
                Next::End => {}
                Next::Event(event) => {
                    let event = event.clone();
                    self.programs[current].event_at += 1;
                    if let Some(event) = self.renumbered(current, &event) {
                        batch.push_event(event);
                    }
                }
                Next::Record(mut record) => {
                    self.programs[current].at += 1;
                    let reaches = |distance: u16| if distance > self.since { 0 } else { distance };
                    (record.dep1, record.dep2) = (reaches(record.dep1), reaches(record.dep2));
                    self.since = self.since.saturating_add(1);
                    self.left = self.left.saturating_sub(record.instructions());
                    batch.records.push(record);
                }
            }
        }
        Ok(!batch.is_empty())
    }

    fn instructions(&self) -> Option<u64> {
        self.programs.iter().map(|program| program.source.instructions()).sum()
    }

    fn may_place(&self) -> bool {
        self.programs.iter().any(|program| program.source.may_place())
    }

    fn progress(&self) -> Option<f64> {
        self.programs.iter().filter_map(|program| program.source.progress()).reduce(f64::min)
    }

    fn notes(&self) -> Vec<String> {
        self.programs.iter().flat_map(|program| program.source.notes()).collect()
    }

    fn named_ranges(&self) -> Vec<NamedRange> {
        self.programs.iter().flat_map(|program| program.source.named_ranges()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{RecordKind, VirtAddr};

    /// `records` loads of four instructions each, each dependent on the previous one; forks once.
    struct Counting {
        base: u64,
        records: u64,
        done: bool,
    }

    impl RecordSource for Counting {
        fn identity(&self) -> ProgramIdentity {
            ProgramIdentity { name: "counting".into(), footprint: 4096, ..ProgramIdentity::default() }
        }

        fn notes(&self) -> Vec<String> {
            vec![format!("counts from {}", self.base)]
        }

        fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            if self.done {
                return Ok(false);
            }
            self.done = true;
            batch.push_event(VmEvent::Brk { end: VirtAddr(self.base) });
            batch.push_event(VmEvent::RegionBegin);
            for i in 0..self.records {
                if i == 5 {
                    batch.push_event(VmEvent::Fork { child: ProcessId(1) });
                    batch.push_event(VmEvent::Switch { process: ProcessId(1), thread: 0 });
                }
                let va = VirtAddr(self.base + i);
                batch.records.push(Record { va, gap: 3, dep1: 1, kind: RecordKind::Load, ..Record::default() });
            }
            Ok(true)
        }
    }

    #[test]
    fn programs_run_round_robin_in_their_own_processes() {
        let program = |base, records| Box::new(Counting { base, records, done: false }) as Box<dyn RecordSource>;
        let mut shared = TimeShared::new(vec![program(1000, 10), program(2000, 3)], 16);
        let mut batch = Batch::default();
        assert!(shared.fill(&mut batch).unwrap());
        let switch = |process| VmEvent::Switch { process: ProcessId(process), thread: 0 };
        let events: Vec<(u32, VmEvent)> = batch.events.clone();
        let brk = |end| VmEvent::Brk { end: VirtAddr(end) };
        let expected = vec![
            (0, VmEvent::Fork { child: ProcessId(1) }),
            (0, switch(0)),
            (0, brk(1000)),
            (0, switch(1)),
            (0, brk(2000)),
            (0, VmEvent::RegionBegin),
            (0, switch(0)),
            (4, switch(1)),
            // The second ends with its third record. The first continues and forks a child, whose number does
            // not collide with the other's.
            (7, switch(0)),
            (8, VmEvent::Fork { child: ProcessId(2) }),
            (8, switch(2)),
            (11, switch(2)),
        ];
        assert_eq!(events, expected);
        let records: Vec<(u64, u16)> = batch.records.iter().map(|r| (r.va.0, r.dep1)).collect();
        let first = [(1000, 0), (1001, 1), (1002, 1), (1003, 1), (2000, 0), (2001, 1), (2002, 1)];
        let then = [(1004, 0), (1005, 1), (1006, 1), (1007, 1), (1008, 0), (1009, 1)];
        assert_eq!(records, [first.as_slice(), &then].concat());
        assert!(!shared.fill(&mut batch).unwrap() || batch.records.is_empty());
        assert_eq!(shared.notes(), ["counts from 1000", "counts from 2000"]);
        assert_eq!((shared.identity().name.as_str(), shared.identity().footprint), ("counting|counting", 8192));
    }
}
