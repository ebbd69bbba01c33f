//! Settings that have no effect: what they belong to is absent from the machine or switched off.

use super::settings::{RunMode, Sampling, Spec, VirtualizationMode, WarmupMode};
use crate::catalogue::catalogue;
use ambulator_hardware::{Medium, NodesSpec, PrefetcherKind};
use ambulator_mmu::L2TlbOrganization;
use ambulator_os::{Balancing, MemoryPolicy, PageSizePolicy, TablePolicy};
use ambulator_sockets::Socket;

/// Why the setting `key` has no effect on a machine of `spec`, as a sentence's end that says what would be
/// right; `None` if it may have one.
pub fn unused(spec: &Spec, key: &str) -> Option<String> {
    let (group, rest) = key.split_once('.').unwrap_or((key, ""));
    of_absent_design(spec, group).or_else(|| switched_off(spec, group, rest).map(str::to_owned))
}

/// Why a setting of a design's group has no effect: no socket holds the design.
fn of_absent_design(spec: &Spec, group: &str) -> Option<String> {
    let design = catalogue().designs().iter().find(|design| design.group() == group)?;
    let nested = spec.virtualization.mode == VirtualizationMode::Nested;
    let in_use = spec.design.entries().iter().any(|(.., name)| *name == design.name)
        || nested && spec.virtualization.hypervisor_table == design.name;
    let sockets: Vec<String> = design.fills.iter().map(|fill| format!("`design.{}`", fill.socket)).collect();
    (!in_use).then(|| format!("\"{}\" is not in {}", design.name, sockets.join(" or ")))
}

/// Why a setting of memory nodes has no effect.
fn of_missing_node(spec: &Spec, node: &str, name: &str) -> Option<&'static str> {
    let NodesSpec { node1, node2, node3, .. } = &spec.nodes;
    let sockets = spec.nodes.sockets();
    let one_socket = sockets.iter().chain(&spec.nodes.core_sockets).all(|socket| *socket == 0);
    let (node, missing) = match node {
        "node1" => (node1, "`nodes.node1.bytes` is 0: there is no such node"),
        "node2" => (node2, "`nodes.node2.bytes` is 0: there is no such node"),
        "node3" => (node3, "`nodes.node3.bytes` is 0: there is no such node"),
        _ if one_socket => return Some("all memory nodes are of socket 0: there is no interconnect"),
        _ => return None,
    };
    let of_dram = matches!(name, "channels" | "data_rate" | "t_cl" | "t_rcd" | "t_rp" | "t_ras");
    let of_persistent = matches!(name, "read_ns" | "write_ns" | "read_gbs" | "write_gbs");
    match (name, node.medium) {
        ("bytes", _) => None,
        _ if node.bytes == 0 => Some(missing),
        (_, Medium::Persistent) if of_dram => Some("the node's `medium` is \"persistent\""),
        (_, Medium::Dram) if of_persistent => Some("the node's `medium` is \"dram\""),
        _ => None,
    }
}

/// Why a setting of the kernel's work on memory nodes has no effect.
fn of_numa(spec: &Spec, name: &str) -> Option<&'static str> {
    let numa = &spec.kernel.numa;
    let of_balancing = matches!(name, "scan_period" | "promotion_pages");
    match name {
        _ if spec.nodes.others().is_empty() => Some("`nodes.node1.bytes` is 0: the machine has one memory node"),
        "nodes" if numa.policy == MemoryPolicy::Local => Some("`kernel.numa.policy` is \"local\""),
        "table_node" if numa.table_policy != TablePolicy::Node => Some("`kernel.numa.table_policy` is not \"node\""),
        "hot_threshold" if numa.balancing != Balancing::HintFaults => {
            Some("`kernel.numa.balancing` is not \"hint-faults\"")
        }
        "hot_scans" if numa.balancing != Balancing::AccessedBits => {
            Some("`kernel.numa.balancing` is not \"accessed-bits\"")
        }
        "scan_pages" | "huge_migration" if numa.balancing == Balancing::None && !numa.demotion => {
            Some("`kernel.numa.balancing` is \"none\" and `kernel.numa.demotion` false: no page moves")
        }
        _ if of_balancing && numa.balancing == Balancing::None => Some("`kernel.numa.balancing` is \"none\""),
        _ => None,
    }
}

/// Why a setting below `group` has no effect, where another setting decides about it.
fn switched_off(spec: &Spec, group: &str, rest: &str) -> Option<&'static str> {
    let kernel = &spec.kernel;
    let l2_tlb = &spec.mmu.l2_tlb;
    let nested = spec.virtualization.mode == VirtualizationMode::Nested;
    let (of, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    match group {
        "nodes" => of_missing_node(spec, of, name),
        "kernel" if of == "numa" => of_numa(spec, name),
        "mmu" if spec.mmu.perfect && !matches!(rest, "perfect" | "va_bits") => {
            Some("`mmu.perfect` is true: there are neither TLBs nor walks")
        }
        "mmu" if of == "l2_tlb" => match name {
            "entries_2m" | "ways_2m" if l2_tlb.organization == L2TlbOrganization::Unified => {
                Some("`mmu.l2_tlb.organization` is \"unified\": `mmu.l2_tlb.entries` holds pages of 2 MiB too")
            }
            _ => None,
        },
        "mmu" if of == "prefetch_queue" && Socket::TlbPrefetch.empty() == Some(&spec.design.tlb_prefetch) => {
            Some("`design.tlb_prefetch` is \"none\"")
        }
        "virtualization" if rest != "mode" && !nested => Some("`virtualization.mode` is not \"nested\""),
        "virtualization" if of == "nested" && spec.mmu.perfect => {
            Some("`mmu.perfect` is true: there are neither TLBs nor walks")
        }
        "kernel" => match rest {
            "promotion_threshold" if kernel.page_size_policy != PageSizePolicy::Reservation => {
                Some("`kernel.page_size_policy` is not \"reservation\"")
            }
            _ if rest.starts_with("khugepaged_") && kernel.page_size_policy != PageSizePolicy::Khugepaged => {
                Some("`kernel.page_size_policy` is not \"khugepaged\"")
            }
            "huge_share" | "huge_limit" | "huge_allocation"
                if kernel.page_size_policy == PageSizePolicy::Never && !kernel.gigantic_pages =>
            {
                Some(
                    "`kernel.page_size_policy` is \"never\" and `kernel.gigantic_pages` false: there are no huge pages",
                )
            }
            "watermark_low" | "watermark_high" if !spec.nodes.others().is_empty() => None,
            "watermark_min" | "watermark_low" | "watermark_high" if kernel.swap_bytes == 0 => {
                Some("`kernel.swap_bytes` is 0: without swap there are no watermarks")
            }
            _ => None,
        },
        "memory" if matches!(rest, "fragmentation.order" | "fragmentation.grain") => spec
            .memory
            .fragmentation
            .is_whole()
            .then_some("`memory.fragmentation.fmfi` is 0 and `memory.fragmentation.free_share` 1: memory is whole"),
        "run" if rest == "advise_huge" && kernel.page_size_policy != PageSizePolicy::Madvise => {
            Some("`kernel.page_size_policy` is not \"madvise\"")
        }
        "run" if rest == "warmup_mode" && spec.run.mode == RunMode::Functional => {
            Some("`run.mode` is \"functional\": time is not simulated at all")
        }
        "run" if rest == "warmup_timing" && spec.run.warmup_mode != WarmupMode::Functional => {
            Some("`run.warmup_mode` is not \"functional\"")
        }
        "run" if rest.starts_with("sample_") && spec.run.sampling == Sampling::None => {
            Some("`run.sampling` is \"none\"")
        }
        "run" if rest == "sample_phases" && spec.run.sampling != Sampling::Phases => {
            Some("`run.sampling` is not \"phases\"")
        }
        "run" if rest == "spread_threads" && spec.machine.cores == 1 => Some("`machine.cores` is 1"),
        "l1i" | "l1d" | "l2" | "llc" if rest.starts_with("prefetch_") => {
            let cache = match group {
                "l1i" => &spec.l1i,
                "l1d" => &spec.l1d,
                "l2" => &spec.l2,
                _ => &spec.llc,
            };
            (cache.prefetcher == PrefetcherKind::None).then_some("this cache's `prefetcher` is \"none\"")
        }
        _ => None,
    }
}
