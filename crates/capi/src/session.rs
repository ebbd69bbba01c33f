//! A machine, and what C keeps of it.

use crate::abi::{self, Counter, Effect, Failure, Info, Status, Step, Translation};
use ambulator_base::{AccessKind, Advice, MapKind, Protection, VirtAddr, VmEvent};
use ambulator_simulator::hosted::{self, HostedMachine, HostedOptions};
use ambulator_simulator::spec::{SpecRequest, load_with};
use std::ffi::CString;

/// A configuration with Rust's types.
pub struct Request {
    pub spec: SpecRequest,
    pub text: Option<String>,
    pub options: HostedOptions,
}

/// A machine that C has.
pub struct Session {
    machine: HostedMachine,
    names: [CString; 2],
    va_bits: u32,
    memory_bytes: u64,
    latencies: [u64; 2],
    steps: Vec<Step>,
    effects: Vec<Effect>,
    /// The texts that `counters` points to, and the counters.
    texts: Vec<[CString; 3]>,
    counters: Vec<Counter>,
    /// Why the latest call failed, if it did.
    pub error: CString,
    /// Why the machine has stopped.
    pub stopped: Option<String>,
}

/// Text for C.
pub fn text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

impl Session {
    /// Makes a machine.
    ///
    /// # Errors
    /// All problems of the spec.
    pub fn new(request: &Request) -> Result<Session, Failure> {
        let fail = |text: String| Failure { status: Status::Spec, text };
        let given = request.text.as_deref().map(|text| ("spec text", text));
        let loaded = load_with(&request.spec, given).map_err(|error| fail(error.to_string()))?;
        let spec = &loaded.spec;
        let machine = HostedMachine::new(spec, request.options.clone()).map_err(|error| fail(error.to_string()))?;
        let latencies = match request.options.host_tlbs {
            true => [0, 0],
            false => [spec.mmu.l1_latency, spec.mmu.l2_tlb.latency],
        };
        Ok(Session {
            machine,
            names: [text(&loaded.machine), text(&loaded.design)],
            va_bits: spec.mmu.va_bits,
            memory_bytes: spec.memory.bytes,
            latencies,
            steps: Vec::new(),
            effects: Vec::new(),
            texts: Vec::new(),
            counters: Vec::new(),
            error: CString::default(),
            stopped: None,
        })
    }

    pub fn info(&self) -> Info {
        Info {
            struct_size: size_of::<Info>() as u32,
            cores: self.machine.cores() as u32,
            walkers: self.machine.walkers(),
            va_bits: self.va_bits,
            memory_bytes: self.memory_bytes,
            l1_tlb_latency: self.latencies[0],
            l2_tlb_latency: self.latencies[1],
            machine: self.names[0].as_ptr(),
            design: self.names[1].as_ptr(),
        }
    }

    fn check_va(&self, va: u64) -> Result<VirtAddr, Failure> {
        if va >> self.va_bits == 0 {
            return Ok(VirtAddr(va));
        }
        let bits = self.va_bits;
        Err(Failure::argument(format!("{va:#x} has more than the {bits} bits of a virtual address (`mmu.va_bits`)")))
    }

    /// An access by the instruction at `pc`, which nothing but predictors look at: any value will do.
    pub fn translate(&mut self, core: u32, pc: u64, va: u64, access: u32, now: u64) -> Result<Translation, Failure> {
        let (va, access) = (self.check_va(va)?, abi::access(access)?);
        if now >> 60 != 0 {
            return Err(Failure::argument(format!("cycle {now} is too late: cycles end at 2^60")));
        }
        let found = self.machine.translate_at(core as usize, VirtAddr(pc), va, access, now)?;
        self.steps.clear();
        self.steps.extend(self.machine.steps().iter().map(Step::new));
        Ok(Translation::new(&found, &self.steps))
    }

    pub fn complete(&mut self, core: u32, walk: u64, at: u64) -> Result<(), Failure> {
        Ok(self.machine.complete(core as usize, walk, at)?)
    }

    fn event(&mut self, core: u32, event: &VmEvent) -> Result<u64, Failure> {
        Ok(self.machine.event(core as usize, event)?)
    }

    pub fn map(&mut self, core: u32, start: u64, bytes: u64, rights: u32, kind: u32) -> Result<u64, Failure> {
        let kind = match kind {
            0 => MapKind::Anonymous,
            1 => MapKind::File,
            2 => MapKind::Heap,
            3 => MapKind::Stack,
            _ => return Err(Failure::argument(format!("{kind} is no kind of mapping: give 0 to 3"))),
        };
        let (start, protection) = (self.check_range(start, bytes)?, protection(rights)?);
        self.event(core, &VmEvent::Map { start, len: bytes, protection, kind })
    }

    fn check_range(&self, start: u64, bytes: u64) -> Result<VirtAddr, Failure> {
        let last = start.checked_add(bytes.saturating_sub(1));
        let Some(last) = last else {
            return Err(Failure::argument(format!("{bytes} bytes from {start:#x} on go beyond the last address")));
        };
        self.check_va(last)?;
        self.check_va(start)
    }

    pub fn unmap(&mut self, core: u32, start: u64, bytes: u64) -> Result<u64, Failure> {
        let start = self.check_range(start, bytes)?;
        self.event(core, &VmEvent::Unmap { start, len: bytes })
    }

    pub fn protect(&mut self, core: u32, start: u64, bytes: u64, rights: u32) -> Result<u64, Failure> {
        let (start, protection) = (self.check_range(start, bytes)?, protection(rights)?);
        self.event(core, &VmEvent::Protect { start, len: bytes, protection })
    }

    pub fn advise(&mut self, core: u32, start: u64, bytes: u64, advice: u32) -> Result<u64, Failure> {
        let advice = match advice {
            0 => Advice::Huge,
            1 => Advice::NoHuge,
            2 => Advice::DontNeed,
            3 => Advice::Free,
            _ => return Err(Failure::argument(format!("{advice} is no advice: give 0 to 3"))),
        };
        let start = self.check_range(start, bytes)?;
        self.event(core, &VmEvent::Advise { start, len: bytes, advice })
    }

    pub fn touch(&mut self, core: u32, start: u64, bytes: u64, access: u32) -> Result<u64, Failure> {
        let write = abi::access(access)? == AccessKind::Store;
        let start = self.check_range(start, bytes)?;
        self.event(core, &VmEvent::Touch { start, len: bytes, write })
    }

    pub fn spawn(&mut self) -> Result<u32, Failure> {
        Ok(self.machine.spawn()? as u32)
    }

    pub fn fork(&mut self, core: u32) -> Result<(u32, u64), Failure> {
        let (child, cycles) = self.machine.fork(core as usize)?;
        Ok((child as u32, cycles))
    }

    pub fn exit(&mut self, core: u32, process: u32) -> Result<u64, Failure> {
        Ok(self.machine.exit(core as usize, process as usize)?)
    }

    pub fn switch(&mut self, core: u32, process: u32) -> Result<u64, Failure> {
        Ok(self.machine.switch(core as usize, process as usize)?)
    }

    pub fn tick(&mut self, core: u32, now: u64) -> Result<u64, Failure> {
        Ok(self.machine.tick(core as usize, now)?)
    }

    pub fn lookup(&self, process: u32, va: u64) -> Result<u64, Failure> {
        let va = self.check_va(va)?;
        Ok(self.machine.lookup(process as usize, va)?.map_or(u64::MAX, |at| at.0))
    }

    pub fn set_bus_load(&mut self, permille: u32) -> Result<(), Failure> {
        if permille > 1000 {
            return Err(Failure::argument(format!("a load of {permille} thousandths is more than all")));
        }
        self.machine.set_bus_load(u64::from(permille));
        Ok(())
    }

    pub fn check(&self) -> Result<(), Failure> {
        Ok(self.machine.check()?)
    }

    pub fn reset_counters(&mut self) {
        self.machine.reset_counters();
    }

    /// All effects since the last call.
    pub fn take_effects(&mut self) -> &[Effect] {
        let taken = self.machine.take_effects();
        self.effects = taken.iter().map(|effect| for_c(effect, &self.machine)).collect();
        &self.effects
    }

    /// All counters, in the order of their names.
    pub fn counters(&mut self) -> &[Counter] {
        let all = self.machine.gather();
        let entry = |(name, value): (&String, &u64)| {
            let (unit, meaning) = match all.meanings.get(name) {
                Some(known) => (known.unit.to_string(), known.meaning.as_str()),
                None => (String::new(), ""),
            };
            ([text(name), text(&unit), text(meaning)], *value)
        };
        let (texts, values): (Vec<_>, Vec<_>) = all.values.iter().map(entry).unzip();
        self.texts = texts;
        let counter = |([name, unit, meaning], value): (&[CString; 3], u64)| Counter {
            name: name.as_ptr(),
            unit: unit.as_ptr(),
            meaning: meaning.as_ptr(),
            value,
        };
        self.counters = self.texts.iter().zip(values).map(counter).collect();
        &self.counters
    }

    /// The value of a counter.
    ///
    /// # Errors
    /// A name that no counter has.
    pub fn counter(&self, name: &str) -> Result<u64, Failure> {
        let all = self.machine.gather();
        all.values.get(name).copied().ok_or_else(|| {
            let known = all.values.keys().map(String::as_str);
            let nearest = ambulator_base::nearest(name, known).unwrap_or("hosted.translations");
            Failure::argument(format!("there is no counter `{name}`; the nearest is `{nearest}`"))
        })
    }
}

fn for_c(effect: &hosted::Effect, machine: &HostedMachine) -> Effect {
    let of = |process: Option<_>| {
        process.and_then(|process| machine.process_number(process)).map_or(abi::ALL_PROCESSES, |number| number as u32)
    };
    let (kind, address, to, bytes, process) = match *effect {
        hosted::Effect::InvalidatePage { process, page } => (0, page.start.0, 0, page.size.bytes(), of(process)),
        hosted::Effect::InvalidateProcess { process } => (1, 0, 0, 0, of(process)),
        hosted::Effect::Copy { from, to, bytes } => (2, from.0, to.0, bytes, abi::ALL_PROCESSES),
        hosted::Effect::Zero { at, bytes } => (3, at.0, 0, bytes, abi::ALL_PROCESSES),
    };
    Effect { address, to, bytes, process, kind }
}

fn protection(rights: u32) -> Result<Protection, Failure> {
    if rights > 7 {
        return Err(Failure::argument(format!(
            "{rights:#x} has rights that do not exist: combine AMBULATOR_READ (1), AMBULATOR_WRITE (2) and \
             AMBULATOR_EXECUTE (4)"
        )));
    }
    Ok(Protection { read: rights & 1 != 0, write: rights & 2 != 0, execute: rights & 4 != 0 })
}
