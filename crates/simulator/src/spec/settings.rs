//! The contents of a spec: the machine, its operating system, the design, the run.

use super::schema::{Choice as SettingChoice, Kind, Setting};
use crate::catalogue::catalogue;
use crate::energy::EnergySpec;
use ambulator_base::{Invalid, PageSize, out_of_range};
use ambulator_hardware::{CacheSpec, CoreSpec, DramSpec, HierarchySpec, NodesSpec};
use ambulator_memory::{BlockOrder, BuddySpec, FragmentSpec, PressureSpec};
use ambulator_mmu::{MmuSpec, NestedSpec};
use ambulator_os::{Balancing, CostTable, KernelSpec, NumaSpec, PageSizePolicy};
use ambulator_sockets::{Choice, DesignSettings, DesignSpec, Socket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Everything that defines a run, except its program. The defaults are the machine of LVM Table 1 with a
/// radix table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spec {
    /// The machine as a whole.
    pub machine: MachineSpec,
    /// Each core.
    #[schemars(extend("x-since" = "time"))]
    pub core: CoreSpec,
    /// First-level instruction cache of each core.
    pub l1i: CacheSpec,
    /// First-level data cache of each core.
    pub l1d: CacheSpec,
    /// Second-level cache of each core.
    pub l2: CacheSpec,
    /// Last-level cache, shared by all cores; `bytes` and `mshrs` are for each core.
    pub llc: CacheSpec,
    /// Main memory's channels, banks and timings.
    #[schemars(extend("x-since" = "time"))]
    pub dram: DramSpec,
    /// Memory nodes: sockets' memories and slow tiers.
    pub nodes: NodesSpec,
    /// TLBs and page walkers of each core.
    pub mmu: MmuSpec,
    /// Main memory's size and state, as the operating system sees them.
    pub memory: MemorySpec,
    /// The operating system: page sizes, promotion, swap.
    pub kernel: KernelSpec,
    /// The cost of the operating system's work.
    pub costs: CostTable,
    /// Energies of events, for an estimate of energy.
    #[schemars(extend("x-since" = "region"))]
    pub energy: EnergySpec,
    /// The translation design: the contents of each socket.
    pub design: DesignSpec,
    /// Virtual machines.
    pub virtualization: VirtualizationSpec,
    /// The run.
    pub run: RunSpec,
    /// Each design's own settings: one group per design, at the top of the spec.
    #[serde(flatten)]
    #[schemars(skip)]
    pub settings: DesignSettings,
}

impl Default for Spec {
    fn default() -> Self {
        let HierarchySpec { l1i, l1d, l2, llc, dram } = HierarchySpec::default();
        Spec {
            machine: MachineSpec::default(),
            core: CoreSpec::default(),
            l1i,
            l1d,
            l2,
            llc,
            dram,
            nodes: NodesSpec::default(),
            mmu: MmuSpec::default(),
            memory: MemorySpec::default(),
            kernel: KernelSpec::default(),
            costs: CostTable::default(),
            energy: EnergySpec::default(),
            design: catalogue().default_spec(),
            virtualization: VirtualizationSpec::default(),
            run: RunSpec::default(),
            settings: catalogue().default_settings(),
        }
    }
}

impl Spec {
    /// The spec of the caches and DRAM.
    pub fn hierarchy(&self) -> HierarchySpec {
        HierarchySpec {
            l1i: self.l1i.clone(),
            l1d: self.l1d.clone(),
            l2: self.l2.clone(),
            llc: self.llc.clone(),
            dram: self.dram.clone(),
        }
    }

    /// All problems of the spec; none if a machine can be built from it.
    pub fn validate(&self) -> Vec<Invalid> {
        // What lies outside of its range may overflow where settings are combined.
        let mut wrong = out_of_range(self, "");
        if !wrong.is_empty() {
            return wrong;
        }
        wrong.extend(self.core.validate("core"));
        let cores = self.machine.cores as usize;
        let hierarchy = self.hierarchy();
        let mut caches = hierarchy.validate();
        // Sets and tags can be checked only if the parts are valid.
        if caches.is_empty() && wrong.is_empty() {
            let of_machine = format!(" (`machine.cores` is {cores}, `memory.bytes` is {})", self.memory.bytes);
            caches = hierarchy.validate_machine(cores, self.memory.bytes);
            for problem in &mut caches {
                problem.message.push_str(&of_machine);
                problem.related.extend(["machine.cores".into(), "memory.bytes".into()]);
            }
        }
        wrong.extend(caches);
        wrong.extend(self.mmu.validate("mmu"));
        wrong.extend(self.memory.validate("memory"));
        wrong.extend(self.kernel.validate("kernel"));
        wrong.extend(self.validate_nodes());
        wrong.extend(self.costs.validate("costs"));
        wrong.extend(self.energy.validate("energy"));
        let choice = self.choice();
        wrong.extend(catalogue().validate("design", &choice));
        wrong.extend(self.validate_page_sizes());
        wrong.extend(self.validate_perfect());
        wrong.extend(self.virtualization.validate("virtualization"));
        wrong.extend(self.run.validate("run"));
        if self.has_front_side() {
            wrong.extend(self.validate_front_side());
        }
        wrong
    }

    /// The design with everything that is needed to build it.
    pub fn choice(&self) -> Choice {
        let nested = self.virtualization.mode == VirtualizationMode::Nested;
        Choice {
            design: self.design.clone(),
            settings: self.settings.clone(),
            va_bits: self.mmu.va_bits,
            pwc: self.mmu.pwc.clone(),
            hypervisor_table: nested.then(|| self.virtualization.hypervisor_table.clone()),
        }
    }

    /// What is wrong with the memory nodes, and with what the kernel is to do with them.
    fn validate_nodes(&self) -> Vec<Invalid> {
        let NodesSpec { node1, node2, node3, .. } = &self.nodes;
        if [node1, node2, node3].iter().all(|node| node.bytes == 0) && self.kernel.numa == NumaSpec::default() {
            return Vec::new();
        }
        let cores = self.machine.cores as usize;
        let mut wrong = self.nodes.validate("nodes", &self.dram, cores, self.memory.bytes);
        let slow: Vec<bool> = std::iter::once(false).chain(self.nodes.others().iter().map(|node| node.slow)).collect();
        wrong.extend(self.kernel.numa.validate("kernel.numa", &slow));
        let nested = self.virtualization.mode == VirtualizationMode::Nested;
        for (key, is_set) in
            [("demotion", self.kernel.numa.demotion), ("balancing", self.kernel.numa.balancing != Balancing::None)]
        {
            if nested && is_set {
                let message = "moves pages of the machine itself, and `virtualization.mode` is \"nested\": there the hypervisor \
                               places pages by node, and moves none; choose one of them";
                wrong.push(Invalid::new(format!("kernel.numa.{key}"), message).and("virtualization.mode"));
            }
        }
        wrong
    }

    /// What is wrong with asking for pages that a page table does not hold.
    fn validate_page_sizes(&self) -> Vec<Invalid> {
        let lacks = |table: &str| {
            let design = catalogue().find(table);
            design.is_some_and(|design| !design.claims.sizes.contains(&PageSize::SIZE_2M))
        };
        let mut wrong = Vec::new();
        if self.kernel.page_size_policy != PageSizePolicy::Never && lacks(&self.design.page_table) {
            let message = format!(
                "asks for pages of 2 MiB, which the page table \"{}\" does not hold; set it to \"never\", or choose another \
                 `design.page_table`",
                self.design.page_table
            );
            wrong.push(Invalid::new("kernel.page_size_policy", message).and("design.page_table"));
        }
        let VirtualizationSpec { mode, hypervisor_page, hypervisor_table, .. } = &self.virtualization;
        let huge = *mode == VirtualizationMode::Nested && *hypervisor_page == HypervisorPageSize::Huge;
        if huge && lacks(hypervisor_table) {
            let message =
                format!("is \"2MiB\", which the page table \"{hypervisor_table}\" does not hold; set it to \"4KiB\"");
            wrong.push(Invalid::new("virtualization.hypervisor_page", message).and("virtualization.hypervisor_table"));
        }
        wrong
    }

    /// What is wrong with a perfect MMU next to designs that only act where a translation takes time. One
    /// that places pages too does that under a perfect MMU as well.
    fn validate_perfect(&self) -> Vec<Invalid> {
        let idle = self.design.entries().into_iter().filter(|(_, socket, name)| {
            let acts =
                matches!(socket, Socket::Lookaside | Socket::Speculation | Socket::TlbPrefetch | Socket::FrontSide);
            self.mmu.perfect && acts && socket.empty() != Some(*name) && self.design.placement != *name
        });
        idle.map(|(key, _, name)| {
            let message =
                format!("is true and leaves nothing to do for `design.{key}`, \"{name}\"; choose one of them");
            Invalid::new("mmu.perfect", message).and(format!("design.{key}"))
        })
        .collect()
    }

    /// Whether accesses are translated before the caches, into an intermediate address space.
    pub fn has_front_side(&self) -> bool {
        Some(self.design.front_side.as_str()) != Socket::FrontSide.empty()
    }

    /// The problems of an intermediate address space on this machine.
    fn validate_front_side(&self) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        let name = &self.design.front_side;
        let most = ambulator_mmu::INTERMEDIATE.start.0;
        if self.memory.bytes > most {
            let message = format!(
                "is {}; with `design.front_side` \"{name}\" it must be at most {}, because intermediate addresses begin there",
                super::quantity::show_size(self.memory.bytes),
                super::quantity::show_size(most)
            );
            wrong.push(Invalid::new("memory.bytes", message).and("design.front_side"));
        }
        if self.virtualization.mode == VirtualizationMode::IdealShadow {
            let message = format!(
                ": an intermediate address space is modelled only without virtualization; set it to \"none\", or \
                 `design.front_side`, \"{name}\", to \"none\""
            );
            wrong.push(Invalid::new("virtualization.mode", message).and("design.front_side"));
        }
        let cores = self.machine.cores as usize;
        for mut problem in self.hierarchy().validate_machine(cores, ambulator_mmu::INTERMEDIATE.end.0) {
            problem
                .message
                .push_str(&format!(": they hold the intermediate addresses of `design.front_side`, \"{name}\""));
            problem.related.push("design.front_side".into());
            wrong.push(problem);
        }
        wrong
    }

    /// The problems of running programs of `footprint` bytes in total on this machine.
    pub fn validate_footprint(&self, footprint: u64) -> Vec<Invalid> {
        let usable = (self.memory.bytes as f64
            * self.memory.fragmentation.free_share
            * (1.0 - self.memory.pressure.pressure)) as u64;
        // At least eight bytes for each 4 KiB page.
        let tables = if self.kernel.page_size_policy == PageSizePolicy::Never { footprint / 512 } else { 0 };
        if footprint + tables <= usable.saturating_add(self.kernel.swap_bytes) {
            return Vec::new();
        }
        let size = super::quantity::show_size;
        let message = format!(
            "is {}: a footprint of {} does not fit, because about {} are free for programs and their page tables, and \
             `kernel.swap_bytes` is {}; give a smaller footprint, more memory or more swap",
            size(self.memory.bytes),
            size(footprint),
            if usable == self.memory.bytes { "all".to_string() } else { format!("{} MiB", usable >> 20) },
            size(self.kernel.swap_bytes)
        );
        vec![Invalid::new("memory.bytes", message).and("kernel.swap_bytes")]
    }
}

/// Most instructions of a run: years of simulation.
const MOST_INSTRUCTIONS: u64 = 1 << 50;

/// The machine as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// The clock of the cores and caches.
    #[schemars(range(min = 100, max = 10_000), extend("x-unit" = "MHz", "x-source" = "LVM Table 1 (2 GHz)"))]
    pub clock_mhz: u64,
    /// Cores, each with its own L1 and L2 caches, TLBs and walkers; 1 to 16.
    #[schemars(range(min = 1, max = 16), extend("x-unit" = "count", "x-source" = "our choice: one program on one core"))]
    pub cores: u32,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec { clock_mhz: 2000, cores: 1 }
    }
}

impl MachineSpec {
    /// All problems of the spec, one sentence each; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        out_of_range(self, at)
    }
}

/// Main memory as the operating system sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySpec {
    /// Physical memory, for data and translation structures alike.
    #[schemars(range(min = *MEMORY_RANGE.start(), max = *MEMORY_RANGE.end()), extend("x-unit" = "bytes", "x-source" = "LVM Table 1 (128 GB)"))]
    pub bytes: u64,
    /// The buddy allocator.
    pub buddy: BuddySpec,
    /// How fragmented memory is before programs start.
    pub fragmentation: FragmentSpec,
    /// How much memory is in use before programs start.
    pub pressure: PressureSpec,
}

impl Default for MemorySpec {
    fn default() -> Self {
        MemorySpec {
            bytes: 128 << 30,
            buddy: BuddySpec::default(),
            fragmentation: FragmentSpec::default(),
            pressure: PressureSpec::default(),
        }
    }
}

/// Minimum and maximum of physical memory, in bytes: with less no program runs, and more exceeds the sim
/// host's address space.
const MEMORY_RANGE: std::ops::RangeInclusive<u64> = 16 << 20..=16 << 40;

/// Most memory with lists of free blocks, in bytes.
const MOST_IN_LISTS: u64 = 1 << 40;

impl MemorySpec {
    /// All problems of the spec, one sentence each; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if !self.bytes.is_multiple_of(2 << 20) {
            wrong.push(Invalid::new(
                format!("{at}.bytes"),
                format!(
                    "is {}, which is not a multiple of 2 MiB; {} or {} MiB would be",
                    self.bytes,
                    self.bytes >> 21 << 1,
                    (self.bytes >> 21 << 1) + 2
                ),
            ));
        }
        if self.buddy.block_order == BlockOrder::Lifo && self.bytes > MOST_IN_LISTS {
            wrong.push(
                Invalid::new(
                    format!("{at}.buddy.block_order"),
                    format!(
                        "is `lifo`, whose lists take 8 bytes of the simulator's memory for each 4 KiB: `{at}.bytes` must \
                         be 1 TiB at most"
                    ),
                )
                .and(format!("{at}.bytes")),
            );
        }
        wrong.extend(self.buddy.validate(&format!("{at}.buddy")));
        wrong.extend(self.fragmentation.validate(&format!("{at}.fragmentation")));
        wrong.extend(self.pressure.validate(&format!("{at}.pressure")));
        wrong
    }
}

/// Whether programs run in a virtual machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VirtualizationMode {
    /// No: on the machine itself.
    #[default]
    None,
    /// Nested paging: the hypervisor's table translates each guest-physical address of a walk and of the
    /// data.
    Nested,
    /// Shadow paging without cost of updates: one table from guest-virtual to host-physical addresses.
    IdealShadow,
}

/// The size of the pages with which the hypervisor backs guest memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HypervisorPageSize {
    /// 4 KiB.
    #[default]
    #[serde(rename = "4KiB")]
    Base,
    /// 2 MiB if an aligned block is free, else 4 KiB.
    #[serde(rename = "2MiB")]
    Huge,
}

/// Virtual machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VirtualizationSpec {
    /// Whether programs run in a virtual machine, and how its memory is translated.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 7.3"))]
    pub mode: VirtualizationMode,
    /// The size of the pages with which the hypervisor backs guest memory (`mode = "nested"`).
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 7.3"))]
    pub hypervisor_page: HypervisorPageSize,
    /// The hypervisor's page table (`mode = "nested"`); the guest's is `design.page_table`. Both use the
    /// settings of their designs.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 7.3 (radix)"))]
    pub hypervisor_table: String,
    /// The hardware of the second stage (`mode = "nested"`).
    pub nested: NestedSpec,
}

impl Default for VirtualizationSpec {
    fn default() -> Self {
        VirtualizationSpec {
            mode: VirtualizationMode::default(),
            hypervisor_page: HypervisorPageSize::default(),
            hypervisor_table: catalogue().default_spec().page_table,
            nested: NestedSpec::default(),
        }
    }
}

impl VirtualizationSpec {
    /// All problems of the spec, one sentence each; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        let tlb = ambulator_mmu::TlbSpec::new(self.nested.tlb_entries, self.nested.tlb_ways);
        wrong.extend(tlb.validate_keys(&format!("{at}.nested.tlb_entries"), &format!("{at}.nested.tlb_ways")));
        wrong
    }
}

/// Whether time is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunMode {
    /// Simulates cycles and all latencies.
    #[default]
    Timing,
    /// Simulates no time: only counts that do not depend on it.
    Functional,
}

/// How the warm-up runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarmupMode {
    /// As the measured region runs.
    #[default]
    Timing,
    /// Without time, as in functional mode, which is faster; but for its last `run.warmup_timing`
    /// instructions.
    Functional,
}

/// Which parts of the measured region are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// All of it.
    #[default]
    None,
    /// Windows, one each `run.sample_period` instructions. Between them, time is not simulated.
    Windows,
    /// As many intervals of `run.sample_window` instructions as there would be windows, but of each phase of
    /// the program by its share. Phases are told apart by how pages are reused, in a pass over the program
    /// before the run. Between the intervals, time is not simulated.
    Phases,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// The seed of all random choices: the program's data, fragmentation, hash functions, replacement.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Measured instructions on each core, after warm-up; a program that ends earlier ends the run.
    #[schemars(range(min = 1, max = MOST_INSTRUCTIONS), extend("x-since" = "region", "x-unit" = "instructions", "x-source" = "our choice: minutes of the papers' 300M to 1G in seconds"))]
    pub instructions: u64,
    /// Instructions that each core runs in the program's region of interest before counting begins (with
    /// `run.spread_threads`, the program's cores on average, those without a thread included).
    #[schemars(range(max = MOST_INSTRUCTIONS), extend("x-unit" = "instructions", "x-source" = "our choice"))]
    pub warmup: u64,
    /// Whether time is simulated in the warm-up. Without, TLBs, walk caches, caches, prefetchers, branch
    /// predictors and page tables are warmed all the same. For the kernel's daemons an instruction then takes
    /// a cycle, so khugepaged has promoted fewer pages when the measured region begins.
    #[schemars(extend("x-unit" = "choice"))]
    pub warmup_mode: WarmupMode,
    /// With `run.warmup_mode = "functional"`: the last instructions of the warm-up, in which time is
    /// simulated nevertheless. They fill the core's window, main memory's queues and banks, and what a design
    /// learns from latencies.
    #[schemars(range(max = MOST_INSTRUCTIONS), extend("x-unit" = "instructions", "x-source" = "our choice: several times what main memory's queues and a speculator's running means of 64 walks need"))]
    pub warmup_timing: u64,
    /// Instructions, all cores together, after which the result's `series` has a point of every counter: what
    /// the counters have added since the last one. 0 for no series. After 4096 points, intervals are twice as
    /// long.
    #[schemars(range(max = MOST_INSTRUCTIONS), extend("x-since" = "region", "x-unit" = "instructions", "x-source" = "our choice"))]
    pub interval: u64,
    /// Which parts of the measured region are measured. Counters are then those of the windows, or with
    /// phases, estimates for the region, and every number has a 95% interval.
    #[schemars(extend("x-since" = "region", "x-unit" = "choice", "x-source" = "windows: SMARTS (Wunderlich et al., ISCA 2003), Sec. 3; phases: SimPoint (Sherwood et al., ASPLOS 2002), with pages instead of basic blocks"))]
    pub sampling: Sampling,
    /// With `run.sampling`: instructions of each core from the begin of a window to the begin of the next
    /// one; with phases, for each interval that is measured.
    #[schemars(range(min = 10_000, max = MOST_INSTRUCTIONS), extend("x-since" = "region", "x-unit" = "instructions", "x-source" = "our choice: 100 windows in 1G instructions"))]
    pub sample_period: u64,
    /// With `run.sampling`: measured instructions of each core in a window, or the length of an interval. A
    /// window ends within some hundred instructions after it.
    #[schemars(range(min = 1_000, max = MOST_INSTRUCTIONS), extend("x-since" = "region", "x-unit" = "instructions", "x-source" = "our choice: long beside what is under way at its ends; SMARTS has 1000 without main memory's queues"))]
    pub sample_window: u64,
    /// With `run.sampling`: instructions of each core before a window with time, which are not measured. They
    /// fill the core's window, main memory's queues and banks, and what a design learns from latencies.
    #[schemars(range(max = MOST_INSTRUCTIONS), extend("x-since" = "region", "x-unit" = "instructions", "x-source" = "our choice: half of `run.warmup_timing`; SMARTS has 2000 to 4000 without main memory's queues"))]
    pub sample_timing: u64,
    /// With `run.sampling`: instructions of each core before these that warm everything without time: TLBs,
    /// walk caches, caches, prefetchers, branch predictors. What comes before, from the last window's end on,
    /// is skipped: pages are mapped, and nothing else happens. 0 skips nothing.
    #[schemars(range(max = MOST_INSTRUCTIONS), extend("x-since" = "region", "x-unit" = "instructions", "x-source" = "our choice: warming that never ends has no bias (SMARTS Sec. 4.3)"))]
    pub sample_warming: u64,
    /// With `run.sampling = "phases"`: the most phases that are told apart. There are fewer if the program
    /// has fewer, or if a phase had less than three measured intervals in the mean.
    #[schemars(range(min = 1, max = 100), extend("x-unit" = "count", "x-source" = "SimPoint (Sherwood et al., ASPLOS 2002), Sec. 4: 1 to 10"))]
    pub sample_phases: u32,
    /// Rows of the result's `profile`, which says which mappings of the program and which of its instructions
    /// cause page walks and page faults: the mappings and the instructions with the most cycles of both. 0
    /// for no profile.
    #[schemars(range(max = 10_000), extend("x-unit" = "count", "x-source" = "our choice"))]
    pub profile: u32,
    /// Whether pages that a program touches before its region of interest are mapped when the region begins.
    /// Otherwise memory is as after boot, and the region takes the faults itself.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice; Utopia's runs begin without (Fig. 19: RestSegs fill up in a few epochs)"))]
    pub populate: bool,
    /// Whether programs request huge pages (`MADV_HUGEPAGE`) wherever they map 2 MiB or more, as glibc does
    /// with its tunable `glibc.malloc.hugetlb=1`. `kernel.page_size_policy = "madvise"` needs these requests;
    /// captured programs contain their own.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: programs as they come do not ask"))]
    pub advise_huge: bool,
    /// Whether time is simulated.
    #[schemars(extend("x-unit" = "choice"))]
    pub mode: RunMode,
    /// Whether every translation is compared with the kernel's page state.
    #[schemars(extend("x-unit" = "flag"))]
    pub oracle: bool,
    /// Whether to measure, at the end of the run, how regular and how contiguous the address spaces are, and
    /// how often their pages would collide in a hash table: the measures that begin with `census_`. It takes
    /// a second or two for each 10 GiB mapped.
    #[schemars(extend("x-since" = "region", "x-unit" = "flag", "x-source" = "LVM Sec. 3.1, 7.3; RMM Table 2"))]
    pub census: bool,
    /// Time slice of round-robin multiprogramming: the instructions after which a core with several programs
    /// switches context to its next program.
    #[schemars(range(min = 1000, max = MOST_INSTRUCTIONS), extend("x-unit" = "instructions", "x-source" = "our choice: about a millisecond, between Linux's least and usual slices"))]
    pub time_slice: u64,
    /// Whether the threads of one program run on several cores: thread `t` on core `t` modulo `machine.cores`
    /// (in a mix, each program has an equal share of the cores). Otherwise each core runs its own program,
    /// with its threads in the order of the program's stream.
    #[schemars(extend("x-unit" = "flag"))]
    pub spread_threads: bool,
}

impl Default for RunSpec {
    fn default() -> Self {
        RunSpec {
            seed: 1,
            instructions: 20_000_000,
            warmup: 2_000_000,
            warmup_mode: WarmupMode::Timing,
            warmup_timing: 100_000,
            interval: 0,
            sampling: Sampling::None,
            sample_period: 10_000_000,
            sample_window: 100_000,
            sample_timing: 50_000,
            sample_warming: 0,
            sample_phases: 10,
            profile: 0,
            populate: true,
            advise_huge: false,
            mode: RunMode::Timing,
            oracle: true,
            census: false,
            time_slice: 1_000_000,
            spread_threads: false,
        }
    }
}

impl RunSpec {
    /// Of the warm-up, instructions of each core without time; 0 if time is not switched.
    pub fn untimed_warmup(&self) -> u64 {
        let switches = self.mode == RunMode::Timing && self.warmup_mode == WarmupMode::Functional;
        if switches { self.warmup.saturating_sub(self.warmup_timing) } else { 0 }
    }

    /// All problems of the spec, one sentence each; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        if !wrong.is_empty() || self.sampling == Sampling::None {
            return wrong;
        }
        let RunSpec { sample_period, sample_window, sample_timing, sample_warming, .. } = *self;
        let parts = sample_window + sample_timing + sample_warming;
        if parts > sample_period {
            wrong.push(Invalid::new(
                format!("{at}.sample_period"),
                format!(
                    "is {sample_period}; it must be at least {parts}, the sum of `{at}.sample_window`, \
                     `{at}.sample_timing` and `{at}.sample_warming`"
                ),
            ));
        }
        if self.mode == RunMode::Functional {
            let (sampling, what) = match self.sampling {
                Sampling::Phases => ("\"phases\"", "intervals are measured with time"),
                _ => ("\"windows\"", "windows are what is measured with time"),
            };
            wrong.push(Invalid::new(
                format!("{at}.sampling"),
                format!("is {sampling}, and `{at}.mode` \"functional\": {what}"),
            ));
        }
        if self.profile > 0 {
            wrong.push(Invalid::new(
                format!("{at}.profile"),
                format!("is {}; it must be 0 with `{at}.sampling`: a profile is of a whole region", self.profile),
            ));
        }
        if self.interval > 0 {
            wrong.push(Invalid::new(
                format!("{at}.interval"),
                format!(
                    "is {}; it must be 0 with `{at}.sampling`: the time between windows is not known",
                    self.interval
                ),
            ));
        }
        wrong
    }
}

/// The settings of [`Spec`] as a tree, with the choices and the settings of all designs.
pub fn tree() -> &'static Setting {
    static TREE: OnceLock<Setting> = OnceLock::new();
    TREE.get_or_init(|| {
        let mut tree = Setting::tree::<Spec>();
        let Kind::Group(groups) = &mut tree.kind else { return tree };
        for group in groups.iter_mut() {
            let Kind::Group(settings) = &mut group.kind else { continue };
            for setting in settings {
                if let Some(choices) = choices(&setting.key) {
                    setting.kind = Kind::Choice(choices);
                }
            }
        }
        let at = groups.iter().position(|group| group.key == "design").map_or(groups.len(), |at| at + 1);
        let of_designs = catalogue().designs().iter().filter(|design| design.has_settings()).map(|design| {
            let (schema, default) = design.settings_schema();
            let mut group = Setting::below(design.group(), schema, default.clone());
            group.source = Some(design.paper.into());
            group
        });
        groups.splice(at..at, of_designs);
        tree
    })
}

/// The designs among which a setting chooses, if it chooses a design.
fn choices(key: &str) -> Option<Vec<SettingChoice>> {
    let socket = match key {
        "virtualization.hypervisor_table" => Socket::PageTable,
        "design.second_lookaside" => Socket::Lookaside,
        _ => Socket::ALL.into_iter().find(|socket| key == format!("design.{socket}"))?,
    };
    let empty = socket.empty().map(|name| SettingChoice { name: name.into(), meaning: socket.empty_meaning().into() });
    let built_in = socket
        .built_in()
        .iter()
        .map(|(name, meaning)| SettingChoice { name: (*name).into(), meaning: (*meaning).into() });
    let designs = catalogue().filling(socket).map(|design| {
        let fill = design.fills.iter().find(|fill| fill.socket == socket);
        let meaning = fill.map_or(design.about, |fill| fill.about);
        SettingChoice { name: design.name.into(), meaning: format!("{meaning} ({})", design.paper) }
    });
    Some(empty.into_iter().chain(built_in).chain(designs).collect())
}
