//! Nested paging as a port: the walker of the hypervisor's table translates every guest-physical load first,
//! whatever the guest's table is.

use crate::spec::{MAX_ENTRIES, MAX_TLB_WAYS};
use crate::{
    Invalidation, Loaded, LoadedLine, MemoryPort, Served, TableRegisters, Tlb, Translation, Walk, WalkOutcome, Walker,
    tlb::{fragment, tlb_page_size},
};
use ambulator_base::watch::{self, Field, Step, StepKind};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PageSize, PhysAddr, State, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The hardware of the second stage of nested paging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NestedSpec {
    /// Entries of the nested TLB, which holds guest-physical to host-physical translations; 0 omits it.
    #[schemars(range(max = MAX_ENTRIES), extend("x-unit" = "entries", "x-source" = "our choice: Revelator Sec. 5.5 names no size"))]
    pub tlb_entries: u32,
    /// Associativity of the nested TLB; 0 is fully associative.
    #[schemars(range(max = MAX_TLB_WAYS), extend("x-unit" = "ways", "x-source" = "our choice"))]
    pub tlb_ways: u32,
    /// Cycles of a nested TLB look-up.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub tlb_latency: u64,
}

impl Default for NestedSpec {
    fn default() -> Self {
        NestedSpec { tlb_entries: 64, tlb_ways: 4, tlb_latency: 1 }
    }
}

ambulator_base::counters! {
    /// Counters of the second stage of nested paging.
    pub struct NestedCounters {
        /// Guest-physical addresses that hit in the nested TLB.
        tlb_hits: Events,
        /// Guest-physical addresses that needed a walk of the hypervisor's table.
        tlb_misses: Events,
        /// Loads that walks of the hypervisor's table issued to the hierarchy.
        hypervisor_accesses: Events,
        /// Cycles of these walks.
        hypervisor_walk_cycles: Cycles timed,
        /// Walks of the hypervisor's table that found no page and trapped to the hypervisor.
        hypervisor_faults: Events,
    }
}

/// The second stage: the walker of the hypervisor's table and the nested TLB.
#[derive(State)]
pub struct HypervisorStage {
    walker: Box<dyn Walker>,
    #[state(each)]
    tlb: Option<Tlb>,
    #[state(skip)]
    latency: u64,
    asid: Asid,
    /// The counters so far.
    pub counters: NestedCounters,
}

const SIZES: [PageSize; 3] = [PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G];

impl HypervisorStage {
    /// A stage around the walker of the hypervisor's table.
    pub fn new(spec: &NestedSpec, walker: Box<dyn Walker>) -> HypervisorStage {
        HypervisorStage {
            walker,
            tlb: (spec.tlb_entries > 0).then(|| Tlb::new(spec.tlb_entries, spec.tlb_ways)),
            latency: spec.tlb_latency,
            asid: Asid(0),
            counters: NestedCounters::default(),
        }
    }

    /// Loads the registers of the hypervisor's table for this virtual machine.
    pub fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        self.asid = asid;
        self.walker.load_registers(asid, registers);
    }

    /// Removes translations of the hypervisor's table.
    pub fn invalidate(&mut self, what: Invalidation) {
        self.walker.invalidate(what);
        if let Some(tlb) = &mut self.tlb {
            tlb.invalidate(what, &SIZES);
        }
    }

    /// Reports the counters of the stage and of its walker to `sink`.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
        self.walker.report(&format!("{prefix}.walker"), sink);
    }

    /// Sets counters to zero.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
        self.walker.reset_counters();
    }

    /// Guest-physical to host-physical: the translation, when it is known, and the number of loads. `None` if
    /// the hypervisor has not mapped the address.
    fn translate(
        &mut self,
        guest: PhysAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Option<Translation>, Cycle, u32) {
        watch::open(|| {
            Step::new(StepKind::Translate, format!("guest-physical {guest}"), now, now)
                .address("guest-physical", guest.0)
        });
        let translated = self.translate_guest(guest, access, now, port);
        watch::close(|step| {
            let (found, ready, _) = &translated;
            step.until = ready.0.max(step.from);
            step.says = match found.map(|found| found.physical(VirtAddr(guest.0))) {
                Some(at) => {
                    step.fields.push(Field { name: "host-physical".into(), value: at.to_string().into() });
                    format!("is at host-physical {at}")
                }
                None => "is not mapped by the hypervisor".to_owned(),
            };
        });
        translated
    }

    /// [`HypervisorStage::translate`], which tells a watch of it.
    #[inline(always)]
    fn translate_guest(
        &mut self,
        guest: PhysAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> (Option<Translation>, Cycle, u32) {
        let va = VirtAddr(guest.0); // the hypervisor sees guest-physical memory as one address space
        let mut now = now;
        if let Some(tlb) = &mut self.tlb {
            let began = now;
            now = now.after(self.latency);
            for size in SIZES {
                watch::step(|| tlb.look_up_step("nested TLB", self.asid, va, size, began, now));
                if let Some(entry) = tlb.lookup(self.asid, va, size) {
                    let found = entry.translation();
                    if access != AccessKind::Store || (found.writable && found.dirty) {
                        if entry.ready > now {
                            watch::step(|| Step::new(StepKind::Wait, "walk in flight", now, entry.ready));
                        }
                        self.counters.tlb_hits += 1;
                        return (Some(found), now.max(entry.ready), 0);
                    }
                }
            }
        }
        self.counters.tlb_misses += 1;
        watch::open(|| Step::new(StepKind::Walk, "walk of the hypervisor's table", now, now));
        let walk = self.walker.walk(va, access, now, port);
        watch::close(|step| walk.complete(va, step));
        self.counters.hypervisor_accesses += u64::from(walk.accesses);
        self.counters.hypervisor_walk_cycles += walk.ready.since(now);
        let WalkOutcome::Mapped(found) = walk.outcome else {
            self.counters.hypervisor_faults += 1;
            return (None, walk.ready, walk.accesses);
        };
        if access == AccessKind::Store && !found.writable {
            self.counters.hypervisor_faults += 1;
            return (None, walk.ready, walk.accesses);
        }
        let found = fragment(&found, va, tlb_page_size(found.size));
        if let Some(tlb) = &mut self.tlb {
            watch::step(|| tlb.fill_step("nested TLB", self.asid, va, found.size, walk.ready));
            tlb.fill(self.asid, va, &found, walk.ready);
        }
        (Some(found), walk.ready, walk.accesses)
    }

    /// A two-dimensional walk: `guest` finds `va` in the guest's table while the hypervisor's table
    /// translates each of its loads, and then the address of the page itself. With four levels each and no
    /// caches, that is 24 loads.
    pub fn walk(
        &mut self,
        guest: &mut dyn Walker,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Walk {
        let mut nested = NestedPort { stage: self, port, fault: None, hypervisor_accesses: 0 };
        let walk = guest.walk(va, access, now, &mut nested);
        let NestedPort { fault, hypervisor_accesses, .. } = nested;
        let mut accesses = walk.accesses + hypervisor_accesses;
        if let Some(guest_physical) = fault {
            return Walk { outcome: WalkOutcome::HypervisorFault(guest_physical), ready: walk.ready, accesses };
        }
        let WalkOutcome::Mapped(first_stage) = walk.outcome else { return Walk { accesses, ..walk } };
        // A store to a page that the guest write-protects faults in the guest: the hypervisor need not make
        // the page writable.
        let hypervisor_access =
            if access == AccessKind::Store && !first_stage.writable { AccessKind::Load } else { access };
        let hypervisor_access =
            if hypervisor_access == AccessKind::Fetch { AccessKind::Load } else { hypervisor_access };
        let guest_physical = first_stage.physical(va);
        let (second_stage, ready, more) = self.translate(guest_physical, hypervisor_access, walk.ready, port);
        accesses += more;
        let Some(second_stage) = second_stage else {
            return Walk { outcome: WalkOutcome::HypervisorFault(guest_physical), ready, accesses };
        };
        let size = tlb_page_size(first_stage.size).min(second_stage.size);
        let at = second_stage.physical(VirtAddr(guest_physical.0));
        let combined = Translation {
            frame: PhysAddr(at.0 & !(size.bytes() - 1)).pfn(),
            size,
            writable: first_stage.writable && second_stage.writable,
            executable: first_stage.executable,
            dirty: first_stage.dirty && second_stage.dirty,
            ranged: first_stage.ranged && second_stage.ranged,
        };
        Walk { outcome: WalkOutcome::Mapped(combined), ready, accesses }
    }
}

/// A guest walker's path to memory: the hypervisor's table translates each guest-physical address before it
/// is read, unless the walker knows where it is.
struct NestedPort<'a> {
    stage: &'a mut HypervisorStage,
    port: &'a mut dyn MemoryPort,
    fault: Option<PhysAddr>,
    hypervisor_accesses: u32,
}

impl NestedPort<'_> {
    fn host_physical(&mut self, at: PhysAddr, access: AccessKind, now: Cycle) -> (Option<PhysAddr>, Cycle) {
        if self.fault.is_some() {
            return (None, now);
        }
        let (found, ready, accesses) = self.stage.translate(at, access, now, self.port);
        self.hypervisor_accesses += accesses;
        if found.is_none() {
            self.fault = Some(at);
        }
        (found.map(|t| t.physical(VirtAddr(at.0))), ready)
    }
}

impl MemoryPort for NestedPort<'_> {
    fn load(&mut self, at: PhysAddr, now: Cycle) -> Loaded {
        match self.host_physical(at, AccessKind::Load, now) {
            (Some(physical), ready) => self.port.load_guest(at, physical, ready),
            // Zero means "not present" in every table: the walk ends, and its outcome is ignored.
            (None, ready) => Loaded { value: 0, ready, served: Served::L1 },
        }
    }

    fn load_line(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        match self.host_physical(at, AccessKind::Load, now) {
            (Some(physical), ready) => self.port.load_line_guest(at, physical, ready),
            (None, ready) => LoadedLine { words: [0; 8], ready, served: Served::L1 },
        }
    }

    fn faulted(&self) -> bool {
        self.fault.is_some()
    }

    fn fetch(&mut self, at: PhysAddr, now: Cycle) -> Cycle {
        if self.fault.is_some() {
            return now;
        }
        // Hardware drops a prefetch that the hypervisor's table cannot translate.
        let (found, ready, accesses) = self.stage.translate(at, AccessKind::Load, now, self.port);
        self.hypervisor_accesses += accesses;
        match found {
            Some(translation) => self.port.fetch(translation.physical(VirtAddr(at.0)), ready),
            None => ready,
        }
    }

    fn load_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> Loaded {
        if self.fault.is_some() {
            return Loaded { value: 0, ready: now, served: Served::L1 };
        }
        self.port.load_guest(guest, at, now)
    }

    fn load_line_guest(&mut self, guest: PhysAddr, at: PhysAddr, now: Cycle) -> LoadedLine {
        if self.fault.is_some() {
            return LoadedLine { words: [0; 8], ready: now, served: Served::L1 };
        }
        self.port.load_line_guest(guest, at, now)
    }

    fn load_line_host(&mut self, at: PhysAddr, now: Cycle) -> LoadedLine {
        if self.fault.is_some() {
            return LoadedLine { words: [0; 8], ready: now, served: Served::L1 };
        }
        self.port.load_line_host(at, now)
    }

    fn update_guest(&mut self, guest: PhysAddr, at: PhysAddr, bits: u64, now: Cycle) {
        if self.fault.is_none() {
            self.port.update_guest(guest, at, bits, now);
        }
    }

    fn update(&mut self, at: PhysAddr, bits: u64, now: Cycle) {
        if let (Some(physical), ready) = self.host_physical(at, AccessKind::Store, now) {
            self.port.update_guest(at, physical, bits, ready);
        }
    }
}
