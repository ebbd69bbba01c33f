//! What a spec holds: the machine, its operating system, the design, the run.

use super::schema::Setting;
use crate::energy::EnergySpec;
use ambulator_designs::{DesignSpec, FrontSideKind, TableSpec};
use ambulator_hardware::{CacheSpec, CoreSpec, DramSpec, HierarchySpec};
use ambulator_memory::{BuddySpec, FragmentSpec, PressureSpec};
use ambulator_mmu::{MmuSpec, NestedSpec};
use ambulator_os::{CostTable, KernelSpec, PageSizePolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Everything that a run is made of, beside its program. The defaults are LVM's Table 1 machine with a radix table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The machine as a whole.
    pub machine: MachineSpec,
    /// Each core.
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
    pub dram: DramSpec,
    /// TLBs and page walkers of each core.
    pub mmu: MmuSpec,
    /// Main memory's size and state as the operating system sees it.
    pub memory: MemorySpec,
    /// The operating system: page sizes, promotion, swap.
    pub kernel: KernelSpec,
    /// What the operating system's work costs.
    pub costs: CostTable,
    /// What things take, for an estimate of energy.
    pub energy: EnergySpec,
    /// The translation design: what is in each socket.
    pub design: DesignSpec,
    /// Virtual machines.
    pub virtualization: VirtualizationSpec,
    /// The run.
    pub run: RunSpec,
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
            mmu: MmuSpec::default(),
            memory: MemorySpec::default(),
            kernel: KernelSpec::default(),
            costs: CostTable::default(),
            energy: EnergySpec::default(),
            design: DesignSpec::default(),
            virtualization: VirtualizationSpec::default(),
            run: RunSpec::default(),
        }
    }
}

impl Spec {
    /// The caches and DRAM, as the hierarchy takes them.
    pub fn hierarchy(&self) -> HierarchySpec {
        HierarchySpec {
            l1i: self.l1i.clone(),
            l1d: self.l1d.clone(),
            l2: self.l2.clone(),
            llc: self.llc.clone(),
            dram: self.dram.clone(),
        }
    }

    /// What is wrong with it, one sentence a problem, each naming its key; none when a machine can be built from it.
    pub fn validate(&self) -> Vec<String> {
        let mut wrong = self.machine.validate("machine");
        wrong.extend(self.core.validate("core"));
        let cores = self.machine.cores as usize;
        let hierarchy = self.hierarchy();
        let mut caches = hierarchy.validate("");
        // Sets and tags can be reasoned about only when the parts are sound.
        if caches.is_empty() && wrong.is_empty() {
            caches.extend(hierarchy.validate_machine("", cores, self.memory.bytes));
            let of_machine = format!(" (`machine.cores` is {cores}, `memory.bytes` is {})", self.memory.bytes);
            caches.iter_mut().for_each(|sentence| sentence.push_str(&of_machine));
        }
        // The caches are at the top level of a spec, so their keys have no group before them.
        wrong.extend(caches.into_iter().map(|sentence| sentence.replace("`.", "`")));
        wrong.extend(self.mmu.validate("mmu"));
        wrong.extend(self.memory.validate("memory"));
        wrong.extend(self.kernel.validate("kernel"));
        wrong.extend(self.costs.validate("costs"));
        wrong.extend(self.energy.validate("energy"));
        wrong.extend(self.design.validate("design"));
        wrong.extend(self.virtualization.validate("virtualization"));
        wrong.extend(self.run.validate("run"));
        if self.design.front_side.kind == FrontSideKind::Midgard {
            wrong.extend(self.validate_midgard());
        }
        let lookaside = self.design.lookaside.kind;
        if self.virtualization.mode == VirtualizationMode::Nested && lookaside.answers_for_the_machine() {
            wrong.push(format!(
                "`virtualization.mode`: with \"nested\" the answers of `design.lookaside.kind` \"{}\" would be guest-physical, and \
                 nothing translates them further; set the mode to \"none\" or \"ideal-shadow\", or the lookaside to \"none\"",
                lookaside.name()
            ));
        }
        wrong
    }

    /// What is wrong with having Midgard on this machine.
    fn validate_midgard(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let most = ambulator_mmu::INTERMEDIATE.start.0;
        if self.memory.bytes > most {
            wrong.push(format!(
                "`memory.bytes` is {}; with `design.front_side.kind` \"midgard\" it must be {} at most, for Midgard addresses begin there",
                super::quantity::show_size(self.memory.bytes),
                super::quantity::show_size(most)
            ));
        }
        if self.virtualization.mode != VirtualizationMode::None {
            wrong.push(
                "`virtualization.mode`: Midgard is modelled for programs that run on the machine itself; set it to \"none\", or \
                 `design.front_side.kind` to \"none\""
                    .into(),
            );
        }
        if self.mmu.perfect {
            wrong.push(
                "`mmu.perfect` leaves no translation for `design.front_side.kind` \"midgard\"; choose one".into(),
            );
        }
        let cores = self.machine.cores as usize;
        wrong.extend(self.hierarchy().validate_machine("", cores, ambulator_mmu::INTERMEDIATE.end.0));
        wrong
    }

    /// What is wrong with running programs of `footprint` bytes altogether on this machine: a sentence, or none.
    pub fn validate_footprint(&self, footprint: u64) -> Vec<String> {
        let usable = (self.memory.bytes as f64
            * self.memory.fragmentation.free_share
            * (1.0 - self.memory.pressure.pressure)) as u64;
        // Eight bytes for each page of 4 KiB, at the least.
        let tables = if self.kernel.page_size_policy == PageSizePolicy::Never { footprint / 512 } else { 0 };
        if footprint + tables <= usable.saturating_add(self.kernel.swap_bytes) {
            return Vec::new();
        }
        let size = super::quantity::show_size;
        vec![format!(
            "a footprint of {} does not fit: `memory.bytes` is {}, of which about {} are free for programs and their page tables, and \
             `kernel.swap_bytes` is {}; give a smaller footprint, more memory or more swap",
            size(footprint),
            size(self.memory.bytes),
            if usable == self.memory.bytes { "all".to_string() } else { format!("{} MiB", usable >> 20) },
            size(self.kernel.swap_bytes)
        )]
    }
}

/// The machine as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// The clock of the cores and caches.
    #[schemars(extend("x-unit" = "MHz", "x-source" = "LVM Table 1 (2 GHz)"))]
    pub clock_mhz: u64,
    /// Cores, each with its own L1 and L2 caches, TLBs and walkers; 1 to 16.
    #[schemars(extend("x-unit" = "count", "x-source" = "our choice: one program on one core"))]
    pub cores: u32,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec { clock_mhz: 2000, cores: 1 }
    }
}

/// Most cores of a machine.
const MOST_CORES: u32 = 16;

impl MachineSpec {
    /// What is wrong with it, one sentence a problem; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if !(100..=10_000).contains(&self.clock_mhz) {
            wrong.push(format!("`{at}.clock_mhz` is {}; it must be 100 to 10000 MHz", self.clock_mhz));
        }
        if !(1..=MOST_CORES).contains(&self.cores) {
            wrong.push(format!("`{at}.cores` is {}; a machine has 1 to {MOST_CORES} cores", self.cores));
        }
        wrong
    }
}

/// Main memory as the operating system sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySpec {
    /// Physical memory, for data and translation structures alike.
    #[schemars(extend("x-unit" = "bytes", "x-source" = "LVM Table 1 (128 GB)"))]
    pub bytes: u64,
    /// The buddy allocator.
    pub buddy: BuddySpec,
    /// How fragmented memory is before programs start.
    pub fragmentation: FragmentSpec,
    /// How much of memory others hold before programs start.
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

/// Least and greatest physical memory, in bytes: below it no program runs, above it the simulated bytes find no address space.
const MEMORY_RANGE: std::ops::RangeInclusive<u64> = 16 << 20..=16 << 40;

impl MemorySpec {
    /// What is wrong with it, one sentence a problem; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if !MEMORY_RANGE.contains(&self.bytes) {
            wrong.push(format!(
                "`{at}.bytes` is {}; memory can be 16 MiB to 16 TiB",
                super::quantity::show_size(self.bytes)
            ));
        } else if !self.bytes.is_multiple_of(2 << 20) {
            wrong.push(format!(
                "`{at}.bytes` is {}, which is no multiple of 2 MiB; {} or {} MiB would be",
                self.bytes,
                self.bytes >> 21 << 1,
                (self.bytes >> 21 << 1) + 2
            ));
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
    /// On the machine itself.
    #[default]
    None,
    /// Nested paging: each guest-physical address of a walk, and of the data, is translated by the host's table.
    Nested,
    /// Shadow paging whose upkeep is free: one table from guest-virtual to host-physical addresses.
    IdealShadow,
}

/// The size of the pages that the hypervisor backs guest memory with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostPageSize {
    /// 4 KiB.
    #[default]
    #[serde(rename = "4KiB")]
    Base,
    /// 2 MiB where an aligned block is free, else 4 KiB.
    #[serde(rename = "2MiB")]
    Huge,
}

/// Virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VirtualizationSpec {
    /// Whether programs run in a virtual machine, and how its memory is translated.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 7.3"))]
    pub mode: VirtualizationMode,
    /// The size of the pages that the hypervisor backs guest memory with, with `mode = "nested"`.
    #[schemars(extend("x-unit" = "choice", "x-source" = "Revelator Sec. 7.3"))]
    pub host_page: HostPageSize,
    /// The host's page table, with `mode = "nested"`; the guest's is `design.page_table`.
    pub host_table: TableSpec,
    /// The hardware of the second stage, with `mode = "nested"`.
    pub nested: NestedSpec,
}

impl VirtualizationSpec {
    /// What is wrong with it, one sentence a problem; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let tlb = ambulator_mmu::TlbSpec::new(self.nested.tlb_entries, self.nested.tlb_ways);
        let tlb = tlb.validate(&format!("{at}.nested"));
        let mut wrong = self.host_table.validate(&format!("{at}.host_table"));
        wrong.extend(
            tlb.into_iter()
                .map(|sentence| sentence.replace(".entries`", ".tlb_entries`").replace(".ways`", ".tlb_ways`")),
        );
        wrong
    }
}

/// Whether time is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunMode {
    /// Cycles, and everything that has a latency.
    #[default]
    Timing,
    /// No time: every count that does not need it.
    Functional,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// The seed of everything that is random: the program's data, fragmentation, hash functions, replacement.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Instructions that are measured, on each core, after warm-up; a program that ends earlier ends the run.
    #[schemars(extend("x-unit" = "instructions", "x-source" = "our choice: minutes of the papers' 300M to 1G in seconds"))]
    pub instructions: u64,
    /// Instructions that each core runs, from the program's region of interest on, before anything is counted.
    #[schemars(extend("x-unit" = "instructions", "x-source" = "our choice"))]
    pub warmup: u64,
    /// Whether pages that a program touches before its region of interest are there when that begins. Without, the region finds memory as it was booted and
    /// takes the faults itself.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice; Utopia's runs begin without (Fig. 19: RestSegs fill up in a few epochs)"))]
    pub populate: bool,
    /// Whether programs ask for huge pages (`MADV_HUGEPAGE`) wherever they map 2 MiB and more, as glibc does with its tunable
    /// `glibc.malloc.hugetlb=1`. It is what `kernel.page_size_policy = "madvise"` waits for; captured programs bring advice of their own.
    #[schemars(extend("x-unit" = "flag", "x-source" = "our choice: programs as they come do not ask"))]
    pub advise_huge: bool,
    /// Whether time is simulated.
    #[schemars(extend("x-unit" = "choice"))]
    pub mode: RunMode,
    /// Whether every translation is compared with what the kernel knows.
    #[schemars(extend("x-unit" = "flag"))]
    pub oracle: bool,
    /// When the run ends, count how regular and how contiguous the address spaces are, and how often their pages would collide in a hash
    /// table: the measures that begin with `census_`. Takes a second or two for each 10 GiB mapped.
    #[schemars(extend("x-unit" = "flag", "x-source" = "LVM Sec. 3.1, 7.3; RMM Table 2"))]
    pub census: bool,
    /// Instructions after which a core goes on with its next program, where it has several: a context switch.
    #[schemars(extend("x-unit" = "instructions", "x-source" = "our choice: about a millisecond, between Linux's least and usual slices"))]
    pub time_slice: u64,
    /// Whether the threads of one program run on several cores: thread `t` on core `t` modulo `machine.cores` (of a mix, each
    /// program has an equal share of the cores). Otherwise each core runs a program of its own, whose threads take turns.
    #[schemars(extend("x-unit" = "flag"))]
    pub spread_threads: bool,
}

impl Default for RunSpec {
    fn default() -> Self {
        RunSpec {
            seed: 1,
            instructions: 20_000_000,
            warmup: 2_000_000,
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
    /// What is wrong with it, one sentence a problem; `at` is its key.
    pub fn validate(&self, at: &str) -> Vec<String> {
        if self.instructions == 0 {
            return vec![format!("`{at}.instructions` is 0: a run must simulate something; give at least 1")];
        }
        if self.time_slice < 1000 {
            return vec![format!(
                "`{at}.time_slice` is {}; a program's turn has 1000 instructions at the least",
                self.time_slice
            )];
        }
        Vec::new()
    }
}

/// The settings of [`Spec`] as a tree.
pub fn tree() -> &'static Setting {
    static TREE: OnceLock<Setting> = OnceLock::new();
    TREE.get_or_init(Setting::tree::<Spec>)
}
