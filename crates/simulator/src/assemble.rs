//! Assembles a machine from a spec.

use crate::awaited::OthersInFlight;
use crate::behind::WalksBehind;
use crate::catalogue::catalogue;
use crate::checkpoint::CheckpointPlace;
use crate::core::{Core, CorePhase, CoreRunCounters, FRONT_END_LINES};
use crate::error::SimError;
use crate::hardware::Hardware;
use crate::look_ahead::LookAhead;
use crate::machine::Machine;
use crate::memory_setup::MemorySetUp;
use crate::oracle::Checker;
use crate::os_events::{Hypervisor, OperatingSystem, OsSettings};
use crate::path::TranslationPath;
use crate::sampling::Sampler;
use crate::scheduler::{Scheduler, ThreadPlacement};
use crate::spec::{HypervisorPageSize, RunMode, Spec, VirtualizationMode};
use crate::statistics::Statistics;
use crate::stream::SharedStream;
use ambulator_base::{Batch, ProcessId, VirtAddr, VmEvent};
use ambulator_hardware::{CoreWindow, EntryLevel, Hierarchy};
use ambulator_memory::{BuddyAllocator, PhysicalMemory};
use ambulator_mmu::{AwaitedTable, HypervisorStage, INTERMEDIATE, Mmu, Sockets, WalkEntry, WalkTraffic};
use ambulator_os::{HostAreas, Kernel, KernelSpec, MachineNodes, NodeInfo, PageSizePolicy};
use ambulator_sockets::{DesignParts, TRACE_PLACEMENT};
use std::sync::Arc;

impl Machine {
    /// A machine of `spec` whose core `i` reads `programs[i]` (a stream and the machine's reader number in
    /// it). With `run.spread_threads`, each program has an equal share of consecutive cores.
    ///
    /// # Errors
    /// An invalid spec, or a sim host that cannot provide the memory.
    pub fn new(spec: &Spec, programs: Vec<(Arc<SharedStream>, usize)>) -> Result<Machine, SimError> {
        let bad = |message: String| SimError::Spec(vec![message]);
        if spec.design.placement == TRACE_PLACEMENT
            && let Some((stream, _)) = programs.iter().find(|(stream, _)| !stream.may_place())
        {
            return Err(bad(format!(
                "`design.placement` is \"{TRACE_PLACEMENT}\", and {} has no physical addresses: run a trace that records \
                 them (`ambulator trace info` tells), give a file that has them (`--program-set physical=FILE`), or choose \
                 another placement",
                stream.identity().name
            )));
        }
        let seed = spec.run.seed;
        let physical_bytes = spec.memory.bytes;
        let nested = spec.virtualization.mode == VirtualizationMode::Nested;
        let timing = spec.run.mode == RunMode::Timing;
        let (mut parts, hypervisor_parts) = if nested {
            let (guest, hypervisor) = catalogue().build_nested(&spec.choice());
            (guest, Some(hypervisor))
        } else {
            (catalogue().build(&spec.choice()), None)
        };
        // Designs reserve the machine's memory, that of the hypervisor if there is one.
        let boot = std::mem::take(&mut parts.boot);
        let (frames, memory_setup) = MemorySetUp::prepare(spec, physical_bytes, seed, boot)?;
        let (kernel_frames, guest_bytes) = if nested {
            let bytes = guest_bytes(physical_bytes);
            (BuddyAllocator::new(&spec.memory.buddy, bytes / ambulator_base::FRAME_BYTES), bytes)
        } else {
            (frames.clone(), physical_bytes)
        };
        let memory = PhysicalMemory::new(guest_bytes).map_err(|e| bad(format!("`memory.bytes`: {e}")))?;
        let DesignParts {
            translations,
            placement,
            mut new_walker,
            mut new_lookaside,
            mut new_speculator,
            mut new_tlb_prefetcher,
            mut new_front_side,
            ..
        } = parts;
        let mut kernel = Kernel::new(&spec.kernel, spec.costs.clone(), memory, kernel_frames, translations, placement);
        let spread = spec.run.spread_threads;
        let each = if spread { (spec.machine.cores as usize / programs.len().max(1)).max(1) } else { 1 };
        let core_count = programs.len() * each;
        kernel.cores = core_count as u32;
        kernel.use_nodes(machine_nodes(spec, core_count));

        let mut hypervisor = None;
        let mut new_hypervisor_walker = None;
        if let Some(hypervisor_parts) = hypervisor_parts {
            let hypervisor_spec = KernelSpec {
                page_size_policy: match spec.virtualization.hypervisor_page {
                    HypervisorPageSize::Base => PageSizePolicy::Never,
                    HypervisorPageSize::Huge => PageSizePolicy::Always,
                },
                zeroing: spec.kernel.zeroing,
                numa: spec.kernel.numa.clone(),
                ..KernelSpec::default()
            };
            let memory = PhysicalMemory::new(physical_bytes).map_err(|e| bad(format!("`memory.bytes`: {e}")))?;
            let mut hypervisor_kernel = Kernel::new(
                &hypervisor_spec,
                spec.costs.clone(),
                memory,
                frames,
                hypervisor_parts.translations,
                hypervisor_parts.placement,
            );
            hypervisor_kernel.cores = core_count as u32;
            hypervisor_kernel.use_nodes(machine_nodes(spec, core_count));
            let machine = hypervisor_kernel.spawn().map_err(|e| bad(e.to_string()))?;
            let map = VmEvent::Map {
                start: VirtAddr(0),
                len: guest_bytes,
                protection: ambulator_base::Protection::READ_WRITE,
                kind: ambulator_base::MapKind::Anonymous,
            };
            hypervisor_kernel.event(machine, &map).map_err(|e| bad(e.to_string()))?;
            let areas = HostAreas::new(hypervisor_parts.host_areas);
            hypervisor = Some(Hypervisor { kernel: hypervisor_kernel, machine, areas });
            new_hypervisor_walker = Some(hypervisor_parts.new_walker);
        }

        let mut processes = Vec::with_capacity(programs.len());
        for _ in &programs {
            processes.push(kernel.spawn().map_err(|e| bad(e.to_string()))?);
        }
        let mut cores = Vec::with_capacity(core_count);
        for number in 0..core_count {
            let process = processes[number / each];
            let (stream, reader) = programs[number / each].clone();
            let sockets = Sockets {
                walker: new_walker(number),
                hypervisor: new_hypervisor_walker
                    .as_mut()
                    .map(|new_walker| HypervisorStage::new(&spec.virtualization.nested, new_walker(number))),
                lookaside: new_lookaside.as_mut().map(|new| new(number)),
                speculator: new_speculator.as_mut().map(|new| new(number)),
                tlb_prefetcher: new_tlb_prefetcher.as_mut().map(|new| new(number)),
                front_side: new_front_side.as_mut().map(|new| new(number)),
            };
            let mmu = Mmu::new(&spec.mmu, sockets, timing);
            // One cycle of the look-up overlaps the indexing of the L1 cache; a front side's first level is part of it.
            let sides = mmu.has_front_side();
            let l1_tlb = if sides { 0 } else { spec.mmu.l1_latency.saturating_sub(1) };
            cores.push(Core {
                window: CoreWindow::new(&spec.core).with_l1_tlb(l1_tlb, sides),
                mmu,
                traffic: WalkTraffic::default(),
                slowest_walk_load: 0,
                awaited_table: AwaitedTable::default(),
                joined: Vec::new(),
                behind: WalksBehind::new(),
                others: OthersInFlight::new(),
                process,
                processes: vec![(ProcessId(0), process)],
                generation: u64::MAX,
                hypervisor_generation: u64::MAX,
                stream,
                reader,
                batch: Arc::new(Batch::default()),
                batch_number: 0,
                at: 0,
                end: 0,
                event_at: 0,
                waits_until: 0,
                phase: CorePhase::Setup,
                front_end: [u64::MAX; FRONT_END_LINES],
                look_ahead: LookAhead::new(core_count),
                counters: CoreRunCounters::default(),
                executed: 0,
                budget_end: u64::MAX,
                stop_at: u64::MAX,
                untimed_from: 0,
                pace: Core::PACE,
                untimed_misses: 0,
                measured_from: 0,
                finished_at: 0,
            });
        }
        let path = if spec.mmu.perfect {
            TranslationPath::Perfect
        } else if cores.iter().any(|core| core.mmu.has_front_side()) {
            TranslationPath::Intermediate
        } else {
            TranslationPath::Conventional
        };
        let own =
            |(program, (stream, reader))| ThreadPlacement::new(stream, reader, program * each..(program + 1) * each);
        let placements = if spread { programs.into_iter().enumerate().map(own).collect() } else { Vec::new() };
        let entry = match spec.mmu.walk_entry {
            WalkEntry::L1 => EntryLevel::L1,
            WalkEntry::L2 => EntryLevel::L2,
            WalkEntry::Llc => EntryLevel::Llc,
        };
        let settings = OsSettings {
            populate: spec.run.populate,
            advise_huge: spec.run.advise_huge,
            shared_tables: spread,
            lock_hold: spec.costs.lock_hold,
            profile: spec.run.profile,
        };
        let os = OperatingSystem::new(kernel, hypervisor, settings);
        cores.iter_mut().for_each(|core| os.load_registers(core));
        let hierarchy = hierarchy(spec, cores.len(), path);
        let hw = Hardware::new(cores, hierarchy, path, entry, timing);
        Ok(Machine {
            hw,
            os,
            checker: Checker::new(spec.run.oracle),
            scheduler: Scheduler::new(&spec.run, placements),
            statistics: Statistics::new(spec.run.interval),
            sampler: Sampler::new(&spec.run),
            memory: memory_setup,
            timeline: None,
            checkpoint: CheckpointPlace::default(),
            measures_since: None,
        })
    }
}

/// The memory nodes as the kernel knows them.
fn machine_nodes(spec: &Spec, cores: usize) -> MachineNodes {
    let slow = std::iter::once(false).chain(spec.nodes.others().into_iter().map(|node| node.slow));
    let nodes = spec.nodes.sockets().into_iter().zip(slow).map(|(socket, slow)| NodeInfo { socket, slow });
    MachineNodes { nodes: nodes.collect(), core_sockets: spec.nodes.core_sockets(cores) }
}

/// The caches and main memory.
fn hierarchy(spec: &Spec, cores: usize, path: TranslationPath) -> Hierarchy {
    let intermediate = path == TranslationPath::Intermediate;
    let addresses = if intermediate { INTERMEDIATE.end.0 } else { spec.memory.bytes };
    let timing = spec.run.mode == RunMode::Timing;
    let mut hierarchy = Hierarchy::new(&spec.hierarchy(), cores, spec.machine.clock_mhz, addresses, timing);
    hierarchy.use_nodes(
        &spec.nodes,
        &spec.nodes.sizes(spec.memory.bytes),
        &spec.hierarchy(),
        spec.machine.clock_mhz,
        timing,
    );
    if intermediate {
        hierarchy.use_intermediate_addresses(INTERMEDIATE.start);
    }
    hierarchy
}

/// Guest memory of a virtual machine on a machine with `physical` bytes: seven eighths, in multiples of 2
/// MiB. The hypervisor keeps the rest for its tables.
fn guest_bytes(physical: u64) -> u64 {
    (physical / 8 * 7) & !((2 << 20) - 1)
}
