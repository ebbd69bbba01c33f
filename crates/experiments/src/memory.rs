//! What cells take of the sim host's memory.

use ambulator_base::FRAME_BYTES;
use ambulator_memory::BlockOrder;
use ambulator_simulator::spec::{Spec, VirtualizationMode};
use ambulator_workloads::Program;

/// Bytes of the sim host's memory that a cell declares: what its machine and its pages take, by measured
/// sizes of their parts. Programs are shared by cells, and count apart
/// ([`crate::Programs::sim_host_bytes_on`]).
pub fn sim_host_bytes(spec: &Spec, footprint: u64) -> u64 {
    /// The last-level cache, main memory; records that wait for a slower cell.
    const BASE: u64 = 5 << 20;
    /// Caches and TLBs of one core.
    const PER_CORE: u64 = 4 << 20;
    /// Page state and page-table entries.
    const PER_PAGE: u64 = 32;
    /// Arrays of the kernel's and a design's uses of frames. They are zero, and take nothing, where no frame
    /// is in use.
    const PER_FRAME: u64 = 12;
    /// Of these arrays, what a page takes that lies alone: a page of the sim host of each.
    const PER_LONE_PAGE: u64 = 8 << 10;
    /// The free lists in the order of frees, which begin all over memory, and the bits of broken blocks.
    const PER_LISTED_FRAME: u64 = 12;
    const PER_BROKEN_FRAME: u64 = 2;
    let frames = spec.memory.bytes / FRAME_BYTES;
    let pages = footprint.min(spec.memory.bytes.saturating_mul(2)) / FRAME_BYTES;
    let kernels = if spec.virtualization.mode == VirtualizationMode::Nested { 2 } else { 1 };
    let of_kernels = kernels * (BASE + pages * PER_PAGE);
    // Where the design that guesses addresses also places pages, they lie all over memory.
    let scatters = spec.design.speculation == spec.design.placement;
    let of_frames = if scatters { (frames * PER_FRAME).min(pages * PER_LONE_PAGE) } else { 0 };
    let listed = if spec.memory.buddy.block_order == BlockOrder::Lifo { PER_LISTED_FRAME } else { 0 };
    let whole = spec.memory.fragmentation.is_whole();
    let of_allocator = frames * (listed + if whole { 0 } else { PER_BROKEN_FRAME });
    of_kernels + of_frames + of_allocator + u64::from(spec.machine.cores) * PER_CORE
}

/// What programs that cannot tell keep in the sim host's memory, measured: a fixed part in MiB, and bytes for
/// each byte of data. Programs that compute their data when it is read keep hardly any.
const KEPT: [(&str, u64, f64); 16] = [
    ("astar", 1, 0.03),
    ("canneal", 6, 0.3),
    ("cg", 4, 0.03),
    ("dlrm", 3, 0.01),
    ("gups", 0, 0.0),
    ("kmer", 1, 0.02),
    ("mcf", 6, 0.29),
    ("memcached", 5, 0.03),
    ("mummer", 2, 2.25),
    ("omnetpp", 6, 0.08),
    ("pointer-chase", 0, 0.0),
    ("stencil", 2, 1.03),
    ("stream", 1, 0.01),
    ("streamcluster", 5, 0.02),
    ("sysbench-memory", 3, 0.01),
    ("xsbench", 3, 0.03),
];

/// Bytes that a process takes for its programs, whatever they are: its own code, decoders, batches of
/// records.
pub(crate) const OF_PROGRAMS: u64 = 20 << 20;

/// What a program that can tell takes beside its data, measured: what its data are made with.
const OF_MAKING: u64 = 40 << 20;

/// Bytes of the sim host's memory that a program of this footprint takes, beyond [`OF_PROGRAMS`]. A third of
/// the footprint for those of other crates that cannot tell.
pub(crate) fn program_bytes(program: &Program, footprint: u64) -> u64 {
    if let Some(data) = program.sim_host_bytes() {
        return OF_MAKING + data;
    }
    let known = KEPT.iter().find(|(of, ..)| *of == program.name());
    let (fixed, share) = known.map_or((0, 1.0 / 3.0), |(_, fixed, share)| (*fixed, *share));
    (fixed << 20) + (footprint as f64 * share) as u64
}

/// Bytes of memory that this process may take: what the sim host has free, within the limits of the
/// container, less a fifth for other processes. 4 GiB where that cannot be known.
pub fn memory_available() -> u64 {
    const UNKNOWN: u64 = 4 << 30;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |line: &str| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok();
    let free = text.lines().find_map(|line| of(line.strip_prefix("MemAvailable:")?)).map(|kilobytes| kilobytes << 10);
    let group = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    let of_group = group("memory.max").map(|max| max.saturating_sub(group("memory.current").unwrap_or(0)));
    let left = [free, of_group, ambulator_base::address_space_left()].into_iter().flatten().min();
    // Other processes have some use for the rest.
    left.map_or(UNKNOWN, |left| left / 10 * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With edges of `edge_bytes`, if it has any.
    fn opened(name: &str, footprint: u64, edge_bytes: u64) -> Program {
        let program = ambulator_workloads::program(name).unwrap();
        let mut settings = serde_json::Map::new();
        if program.default_settings().get("property").is_some() {
            settings.insert("property".into(), serde_json::json!({ "edge_bytes": edge_bytes }));
        }
        program.program(&settings, Some(footprint), 1).unwrap()
    }

    #[test]
    fn larger_machines_and_programs_declare_more() {
        let mut spec = Spec::default();
        let small = sim_host_bytes(&spec, 1 << 20);
        assert!((4 << 20..16 << 20).contains(&small), "{small}");
        assert!(sim_host_bytes(&spec, 1 << 30) > small);
        let with = |cores: u32| {
            let mut spec = spec.clone();
            spec.machine.cores = cores;
            sim_host_bytes(&spec, 1 << 20)
        };
        assert!(with(4) > with(1));
        spec.virtualization.mode = VirtualizationMode::Nested;
        assert!(sim_host_bytes(&spec, 1 << 20) > small);
        assert!(memory_available() > 64 << 20);
    }

    /// What whole processes took at their peak, in MiB: measured with runs of a million instructions and
    /// more.
    #[test]
    fn what_is_declared_is_near_to_what_was_measured() {
        use ambulator_simulator::spec::{SpecRequest, load};
        const WHOLE: &[&str] = &[];
        const BROKEN: &[&str] = &[
            "memory.buddy.block_order=lifo",
            "memory.fragmentation.free_share=0.95",
            "memory.fragmentation.fmfi=0.25",
        ];
        for (program, footprint, edge_bytes, design, measured, options) in [
            ("gups", 1 << 30, 24, "radix", 34.0, WHOLE),
            ("gups", 2 << 30, 24, "lvm", 42.0, WHOLE),
            ("gups", 64 << 20, 24, "revelator", 143.0, WHOLE),
            ("gups", 512 << 20, 24, "revelator", 375.0, WHOLE),
            ("gups", 512 << 20, 24, "nested", 38.9, WHOLE),
            ("bfs", 1 << 30, 24, "utopia", 218.0, WHOLE),
            ("bfs", 256 << 20, 24, "radix", 115.0, WHOLE),
            ("pagerank", 1 << 30, 24, "lvm", 218.0, WHOLE),
            ("pagerank", 512 << 20, 24, "utopia", 145.0, WHOLE),
            ("bfs", 64 << 30, 152, "radix", 1444.0, WHOLE),
            ("mummer", 256 << 20, 24, "radix", 584.0, WHOLE),
            ("stencil", 256 << 20, 24, "radix", 287.0, WHOLE),
            ("mcf", 256 << 20, 24, "radix", 104.0, WHOLE),
            ("gups", 512 << 20, 24, "radix", 422.0, BROKEN.split_at(1).0),
            ("gups", 512 << 20, 24, "radix", 491.0, BROKEN),
            ("gups", 512 << 20, 24, "revelator", 653.0, BROKEN),
        ] {
            let own = options.iter().map(|option| option.to_string()).collect();
            let request = SpecRequest { design: Some(design.into()), options: own, ..SpecRequest::default() };
            let spec = load(&request).unwrap().spec;
            let own = program_bytes(&opened(program, footprint, edge_bytes), footprint);
            let declared = sim_host_bytes(&spec, footprint) + OF_PROGRAMS + own;
            let ratio = declared as f64 / f64::from(1 << 20) / measured;
            assert!(
                (0.9..1.5).contains(&ratio),
                "{program} of {footprint} on {design} {options:?}: {ratio:.2} of what was measured"
            );
        }
    }

    #[test]
    fn every_built_in_program_has_been_measured_or_can_tell() {
        for program in ambulator_workloads::programs() {
            let name = program.info.name;
            let tells = opened(name, 64 << 20, 24).sim_host_bytes().is_some();
            assert_ne!(tells, KEPT.iter().any(|(of, ..)| *of == name), "{name}");
        }
        assert!(KEPT.is_sorted_by_key(|(name, ..)| *name));
    }
}
