//! One translation of a running machine, step by step, on several designs.

use crate::error::{SimError, Stop};
use crate::machine::{Machine, Phase};
use crate::path::{TranslationPath, Translator};
use crate::spec::{RunMode, Spec};
use crate::stream::SharedStream;
use crate::walk_steps::{DataAccess, LoadSummary, WalkEnd, WalkSteps, attempts};
use crate::{Job, Progress};
use ambulator_base::watch::{self, StepKind};
use ambulator_base::{AccessKind, Invalid, RecordKind, RecordSource, VirtAddr};
use ambulator_hardware::Served;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which translation to explain.
#[derive(Clone, Debug, Default)]
pub struct WalkRequest {
    /// The address; without one, that of the next data access whose page no TLB has, on any of the designs.
    pub at: Option<VirtAddr>,
    /// The kind of access; without one, that of the program, or a load.
    pub access: Option<AccessKind>,
    /// Instructions of the region of interest that the program runs before.
    pub after: u64,
}

/// Records that a machine runs between two looks at its phase.
const SLICE: usize = 256;
/// Records among which an access is sought whose page no TLB has.
const SEARCHED: usize = 1 << 18;
/// The machines stop before the end of this many instructions more.
const MORE_INSTRUCTIONS: u64 = 1 << 32;

/// Runs the program on each design to the same point, and translates one address there, step by step. Core 0
/// translates. All machines are alive at once.
///
/// # Errors
/// An invalid spec, a program that ends too early or does not fit the machine, a design that fails on the way.
/// A translation that faults for good is not an error: see [`WalkEnd`].
pub fn explain_walk(
    jobs: &[Job],
    programs: Vec<Box<dyn RecordSource>>,
    request: &WalkRequest,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Vec<WalkSteps>, SimError> {
    let (mut machines, program) = start(jobs, programs, request, stop, progress)?;
    let (va, access) = match request.at {
        Some(va) => (va, request.access.unwrap_or(AccessKind::Load)),
        None => {
            let (va, access) = next_miss(&mut machines, jobs)?;
            (va, request.access.unwrap_or(access))
        }
    };
    machines
        .iter_mut()
        .zip(jobs)
        .map(|(machine, job)| {
            if va.0 >> job.spec.mmu.va_bits != 0 {
                return Err(SimError::Program(format!(
                    "{va} has more than the {} bits of a virtual address of `{}` (`mmu.va_bits`)",
                    job.spec.mmu.va_bits, job.design
                )));
            }
            let steps = machine.explain(&job.spec, va, access).map_err(|why| failed(job, &why))?;
            Ok(WalkSteps { design: job.design.clone(), program: program.clone(), ..steps })
        })
        .collect()
}

/// A machine for each design, which has run to the point of the translation, and the program's name.
///
/// # Errors
/// As [`explain_walk`].
pub(crate) fn start(
    jobs: &[Job],
    programs: Vec<Box<dyn RecordSource>>,
    request: &WalkRequest,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(Vec<Machine>, String), SimError> {
    let footprint: u64 = programs.iter().map(|program| program.identity().footprint).sum();
    let streams: Vec<_> = programs.into_iter().map(|source| SharedStream::new(source, jobs.len())).collect();
    let mut machines = Vec::with_capacity(jobs.len());
    for (number, job) in jobs.iter().enumerate() {
        let mut problems = job.spec.validate_footprint(footprint);
        if job.spec.run.mode != RunMode::Timing {
            let message = "is \"functional\": steps have cycles, which functional mode does not model";
            problems.push(Invalid::new("run.mode", message));
        }
        let mut spec = job.spec.clone();
        spec.run.warmup = request.after;
        spec.run.instructions = MORE_INSTRUCTIONS;
        problems.extend(spec.validate());
        if !problems.is_empty() {
            return Err(SimError::Spec(problems.iter().map(|p| format!("design `{}`: {p}", job.design)).collect()));
        }
        let programs = streams.iter().map(|stream| (Arc::clone(stream), number)).collect();
        machines.push(Machine::new(&spec, programs)?);
    }
    advance_all(&mut machines, jobs, request, stop, progress)?;
    let program = streams.first().map_or_else(String::new, |stream| stream.identity().name.clone());
    Ok((machines, program))
}

fn failed(job: &Job, why: &Stop) -> SimError {
    let (Stop::Outcome(why) | Stop::Failed(why)) = why;
    SimError::Program(format!("{}: {why}", job.design))
}

/// Runs every machine to the point of the translation.
fn advance_all(
    machines: &mut [Machine],
    jobs: &[Job],
    request: &WalkRequest,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), SimError> {
    let before = |machine: &Machine| matches!(machine.phase(), Phase::Setup | Phase::Warmup);
    while machines.iter().any(before) {
        if stop.load(Ordering::Relaxed) {
            return Err(SimError::Program("interrupted before the translation".into()));
        }
        for (number, machine) in machines.iter_mut().enumerate().filter(|(_, machine)| before(machine)) {
            for _ in 0..64 {
                let goes_on = machine.advance(SLICE).map_err(|why| failed(&jobs[number], &why))?;
                if !before(machine) {
                    break;
                }
                if !goes_on {
                    return Err(too_short(machine, request.after));
                }
            }
            let (done, of) = machine.progress();
            progress.advanced(number, machine.phase(), done, of);
        }
    }
    match machines.iter().find(|machine| machine.phase() == Phase::Done) {
        Some(machine) => Err(too_short(machine, request.after)),
        None => Ok(()),
    }
}

fn too_short(machine: &Machine, after: u64) -> SimError {
    let executed = machine.hw.cores.first().map_or(0, |core| core.executed);
    SimError::Program(format!(
        "the program ends after {executed} instructions, and the translation is to be after {after} of its region of \
         interest: ask for one earlier, or take a longer program"
    ))
}

/// The next data access of core 0 on the first machine whose page no machine's TLBs have; the first machine's
/// own next miss if there is none among many; else its next access.
fn next_miss(machines: &mut [Machine], jobs: &[Job]) -> Result<(VirtAddr, AccessKind), SimError> {
    let mut best: Option<(usize, VirtAddr, AccessKind)> = None;
    let mut searched = 0;
    while searched < SEARCHED {
        let upcoming = machines[0].upcoming();
        for &(va, access) in &upcoming {
            let missing = machines.iter().take_while(|machine| machine.misses(va, access)).count();
            if missing == machines.len() {
                return Ok((va, access));
            }
            if best.is_none_or(|(most, ..)| missing.min(1) > most) {
                best = Some((missing.min(1), va, access));
            }
        }
        let records = upcoming.len().clamp(1, SLICE);
        for (machine, job) in machines.iter_mut().zip(jobs) {
            let goes_on = machine.advance(records).map_err(|why| failed(job, &why))?;
            if !goes_on || machine.phase() == Phase::Done {
                searched = SEARCHED;
            }
        }
        searched += records;
    }
    best.map(|(_, va, access)| (va, access))
        .ok_or_else(|| SimError::Program("the program has no data access there: name an address (--at 0x...)".into()))
}

impl Machine {
    /// The next data accesses of core 0, as far as they are decoded and no VM event comes before them.
    pub(crate) fn upcoming(&self) -> Vec<(VirtAddr, AccessKind)> {
        let core = &self.hw.cores[0];
        let event = core.batch.events.get(core.event_at).map_or(usize::MAX, |(at, _)| *at as usize);
        let end = core.batch.records.len().min(event).min(core.at + SLICE);
        let records = core.batch.records.get(core.at..end).unwrap_or_default();
        let data = records.iter().filter(|record| record.is_data());
        let access = |kind: RecordKind| if kind == RecordKind::Store { AccessKind::Store } else { AccessKind::Load };
        data.map(|record| (record.va, access(record.kind))).collect()
    }

    /// Whether an access needs more than the TLBs: no L1 or L2 TLB has its page; behind a front side, no cache
    /// has its line.
    pub(crate) fn misses(&self, va: VirtAddr, access: AccessKind) -> bool {
        let core = &self.hw.cores[0];
        match self.hw.path() {
            TranslationPath::Perfect => true,
            TranslationPath::Conventional => !core.mmu.holds(va, access),
            TranslationPath::Intermediate => {
                let kernel = self.os.kernel();
                let registers = ambulator_mmu::TableRegisters(kernel.intermediate_registers(core.process));
                let at = core.mmu.locate(&registers, va, &kernel.memory);
                at.is_none_or(|at| !self.hw.hierarchy.holds(0, at, access))
            }
        }
    }

    /// Translates an address on core 0, after everything before it has completed, and tells all steps. The
    /// machine cannot go on with its program in the same way afterwards.
    ///
    /// # Errors
    /// What precedes the translation fails.
    fn explain(&mut self, spec: &Spec, va: VirtAddr, access: AccessKind) -> Result<WalkSteps, Stop> {
        self.carry_out_everywhere()?;
        self.hw.explain();
        let core = &mut self.hw.cores[0];
        // The last translation of a set is kept for the simulator's speed: hardware looks it up.
        core.mmu.forget_recent();
        let now = core.window.now().max(core.window.retired_cycle());
        let (mmu, kernel) = (core.mmu.counters.mmu_cycles, core.counters.os_cycles);
        let (executed, process) = (core.counters.instructions, core.process);
        let after = if self.scheduler.warmup() > 0 { executed + self.scheduler.warmup() } else { executed };
        let Machine { hw, os, checker, scheduler, .. } = self;
        let phase = scheduler.phase();
        let (located, steps) =
            watch::watch(|| Translator { hw: &mut *hw, os: &mut *os, checker, phase }.translate(0, va, access, now));
        let end = located.as_ref().ok().map(|located| located.ready.max(located.known).0);
        let cached = steps.iter().any(|step| step.kind == StepKind::Caches && step.hit == Some(true));
        let (attempts, unexplained_cycles) = attempts(steps, end);
        let state = os.kernel().page_state(process, va);
        let guest = state.frame().start().offset(va.0 & 0xfff);
        let expected = if state.present() { os.host_physical(guest, access) } else { None };
        let by_intermediate = hw.path() == TranslationPath::Intermediate;
        // Behind a front side, the path itself has compared the frame with the kernel's.
        let physical = match &located {
            Ok(_) if by_intermediate => expected.filter(|_| !cached),
            Ok(located) => Some(located.at),
            Err(_) => None,
        };
        let agrees = located.is_ok() && (cached || (physical.is_some() && physical == expected));
        let oracle = match (&located, expected) {
            (Ok(_), _) if cached => "The caches have the line by its intermediate address.".to_owned(),
            (Ok(_), Some(at)) if agrees => format!("The kernel agrees: {at}, part of a {} page.", state.size()),
            (Ok(_), Some(at)) => format!("The kernel does not agree: it has the data at {at}."),
            (Ok(_), None) => "The kernel does not agree: it has no page there.".to_owned(),
            (Err(_), _) => "There is no translation.".to_owned(),
        };
        let kernel_cycles = hw.cores[0].counters.os_cycles - kernel;
        let end = match &located {
            Ok(_) => WalkEnd::Translated,
            Err(Stop::Failed(why))
                if os.kernel().vmas(process).find(va).is_none_or(|vma| !permits(vma.protection, access)) =>
            {
                WalkEnd::SegmentationFault(why.clone())
            }
            Err(Stop::Failed(why) | Stop::Outcome(why)) => WalkEnd::Failed(why.clone()),
        };
        let data = located.ok().map(|located| {
            let known = located.ready.max(located.known);
            let done = hw.hierarchy.access(0, located.at, access, VirtAddr(0), known);
            let cycles = done.ready.since(known);
            // A line in flight counts as found in the cache that waits for it.
            let cache = match done.served {
                Served::L1 => Some(&spec.l1d),
                Served::L2 => Some(&spec.l2),
                Served::Llc => Some(&spec.llc),
                Served::Dram => None,
            };
            let in_flight = cache.is_some_and(|cache| cycles > cache.latency);
            DataAccess { served: ambulator_mmu::level(done.served).to_owned(), cycles, in_flight }
        });
        Ok(WalkSteps {
            design: String::new(),
            program: String::new(),
            after,
            address: va.to_string(),
            access: format!("{access:?}").to_lowercase(),
            end,
            physical: physical.map(|at| at.to_string()),
            oracle,
            agrees,
            cycles: attempts.iter().map(|attempt| attempt.cycles).sum(),
            mmu_cycles: hw.cores[0].mmu.counters.mmu_cycles - mmu,
            kernel_cycles,
            unexplained_cycles,
            loads: LoadSummary::of(&attempts),
            attempts,
            data,
        })
    }
}

fn permits(protection: ambulator_base::Protection, access: AccessKind) -> bool {
    match access {
        AccessKind::Load => protection.read,
        AccessKind::Store => protection.write,
        AccessKind::Fetch => protection.execute,
    }
}
