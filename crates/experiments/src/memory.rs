//! What cells take of the sim host's memory.

use ambulator_base::FRAME_BYTES;
use ambulator_simulator::spec::Spec;

/// Bytes of the sim host's memory that a cell declares: what its machine and its pages take, by measured
/// sizes of their parts, generous rather than tight. Programs are shared by cells, and count apart
/// ([`program_bytes`]).
pub fn sim_host_bytes(spec: &Spec, footprint: u64) -> u64 {
    /// Caches, batches of records.
    const BASE: u64 = 24 << 20;
    /// Allocators; the index of frames that hold page tables.
    const PER_FRAME: u64 = 1;
    /// Page state and page-table entries.
    const PER_PAGE: u64 = 48;
    /// Caches and TLBs of one core.
    const PER_CORE: u64 = 4 << 20;
    let frames = spec.memory.bytes / FRAME_BYTES;
    let pages = footprint.min(spec.memory.bytes.saturating_mul(2)) / FRAME_BYTES;
    BASE + frames * PER_FRAME + pages * PER_PAGE + u64::from(spec.machine.cores) * PER_CORE
}

/// Bytes that programs of this footprint take: graphs lie in memory as a third of the simulated data.
pub fn program_bytes(footprint: u64) -> u64 {
    (16 << 20) + footprint / 3
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

    #[test]
    fn larger_machines_and_programs_declare_more() {
        let mut spec = Spec::default();
        let small = sim_host_bytes(&spec, 1 << 20);
        assert!((24 << 20..64 << 20).contains(&small), "{small}");
        assert!(program_bytes(1 << 30) > program_bytes(1 << 20));
        assert!(sim_host_bytes(&spec, 1 << 30) > small);
        spec.memory.bytes *= 4;
        assert!(sim_host_bytes(&spec, 1 << 20) > small);
        assert!(memory_available() > 64 << 20);
    }
}
