//! Settings of memory nodes: sockets' memories, slow tiers, and the links between them.

use crate::{DramModel, DramSpec};
use ambulator_base::{Invalid, out_of_range, show_size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of a socket, and of a node.
pub const MAX_NODE: u32 = 3;

/// What a memory node is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// DRAM, as `[dram]` says, but for the timings that the node sets.
    #[default]
    Dram,
    /// Persistent memory (such as Optane): a latency of reads and of writes, and a bandwidth that both share.
    Persistent,
}

/// A memory node besides node 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSpec {
    /// Memory of the node, out of `memory.bytes`; 0 for no such node. The nodes' physical addresses follow one
    /// another, node 0 first.
    #[schemars(range(max = 16_u64 << 40), extend("x-unit" = "bytes"))]
    pub bytes: u64,
    /// The socket to which the node is attached. Cores of other sockets reach it over the interconnect.
    #[schemars(range(max = MAX_NODE), extend("x-unit" = "number"))]
    pub socket: u32,
    /// A slow tier: programs get it when faster nodes are low, and `kernel.numa` demotes pages to it.
    #[schemars(extend("x-unit" = "flag"))]
    pub slow: bool,
    /// What the node is made of.
    #[schemars(extend("x-unit" = "choice"))]
    pub medium: Medium,
    /// Channels of DRAM, a power of two; 0 for those of `dram.channels`.
    #[schemars(range(max = 64), extend("x-unit" = "count"))]
    pub channels: u32,
    /// Transfers per second of a channel's data bus; 0 for `dram.data_rate`. Timings that the node does not give take as
    /// many ns as those of `dram`, and `dram.t_cwl` keeps its ratio to `t_cl`.
    #[schemars(range(max = 100_000), extend("x-unit" = "MT/s"))]
    pub data_rate: u64,
    /// Read latency of the DRAM; 0 for the time of `dram.t_cl`.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks"))]
    pub t_cl: u32,
    /// Activate to column command; 0 for the time of `dram.t_rcd`.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks"))]
    pub t_rcd: u32,
    /// Precharge to activate; 0 for the time of `dram.t_rp`.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks"))]
    pub t_rp: u32,
    /// Activate to precharge; 0 for the time of `dram.t_ras`.
    #[schemars(range(max = 10_000), extend("x-unit" = "DRAM clocks"))]
    pub t_ras: u32,
    /// Latency of a read of persistent memory.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "Izraelevitz et al. 2019: random loads of Optane"))]
    pub read_ns: f64,
    /// Latency of a write to persistent memory. No instruction waits for it; the copy of a page does.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "Yang et al., FAST 2020: a store and its write-back, Optane"))]
    pub write_ns: f64,
    /// Bandwidth of persistent memory if it only reads.
    #[schemars(range(min = 0.01, max = 10_000.0), extend("x-unit" = "GB/s", "x-source" = "Izraelevitz et al. 2019: six interleaved Optane DIMMs"))]
    pub read_gbs: f64,
    /// Bandwidth of persistent memory if it only writes.
    #[schemars(range(min = 0.01, max = 10_000.0), extend("x-unit" = "GB/s", "x-source" = "Izraelevitz et al. 2019: six interleaved Optane DIMMs"))]
    pub write_gbs: f64,
    /// Latency that the node's own link (such as CXL) adds to a read, there and back.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns"))]
    pub link_ns: f64,
    /// Bandwidth of the node's own link in each direction; 0 for no bound.
    #[schemars(range(min = 0.0, max = 10_000.0), extend("x-unit" = "GB/s"))]
    pub link_gbs: f64,
}

impl Default for NodeSpec {
    fn default() -> Self {
        NodeSpec {
            bytes: 0,
            socket: 0,
            slow: false,
            medium: Medium::Dram,
            channels: 0,
            data_rate: 0,
            t_cl: 0,
            t_rcd: 0,
            t_rp: 0,
            t_ras: 0,
            read_ns: 305.0,
            write_ns: 94.0,
            read_gbs: 39.4,
            write_gbs: 13.9,
            link_ns: 0.0,
            link_gbs: 0.0,
        }
    }
}

impl NodeSpec {
    /// The node's DRAM on a machine with `dram`.
    pub fn dram(&self, dram: &DramSpec) -> DramSpec {
        let data_rate = if self.data_rate == 0 { dram.data_rate } else { self.data_rate };
        // Whole clocks of the node, at least as long.
        let same_time = |clocks: u32| (u64::from(clocks) * data_rate).div_ceil(dram.data_rate.max(1)) as u32;
        let own_or = |own: u32, of: u32| if own == 0 { same_time(of) } else { own };
        let t_cl = own_or(self.t_cl, dram.t_cl);
        DramSpec {
            channels: if self.channels == 0 { dram.channels } else { self.channels },
            data_rate,
            t_cl,
            t_cwl: (u64::from(t_cl) * u64::from(dram.t_cwl)).div_ceil(u64::from(dram.t_cl.max(1))) as u32,
            t_rcd: own_or(self.t_rcd, dram.t_rcd),
            t_rp: own_or(self.t_rp, dram.t_rp),
            t_ras: own_or(self.t_ras, dram.t_ras),
            t_ccd_l: same_time(dram.t_ccd_l),
            t_rtp: same_time(dram.t_rtp),
            t_wr: same_time(dram.t_wr),
            t_rrd_s: same_time(dram.t_rrd_s),
            t_rrd_l: same_time(dram.t_rrd_l),
            t_wtr_s: same_time(dram.t_wtr_s),
            t_wtr_l: same_time(dram.t_wtr_l),
            ..dram.clone()
        }
    }
}

/// Memory nodes beside node 0, which is what they leave of `memory.bytes`, on socket 0, with the DRAM of
/// `[dram]`. Without any the machine has uniform memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodesSpec {
    /// The socket of each core, in the cores' order; empty: consecutive cores, evenly over the sockets that
    /// have a node.
    #[schemars(extend("x-unit" = "list"), inner(range(max = MAX_NODE)))]
    pub core_sockets: Vec<u32>,
    /// Latency that the interconnect of the sockets (such as UPI) adds to a read, there and back.
    #[schemars(range(min = 0.0, max = 1e6), extend("x-unit" = "ns", "x-source" = "Mitosis (ASPLOS 2020): 580 cycles against 280, at 2.2 GHz"))]
    pub interconnect_ns: f64,
    /// Bandwidth of the interconnect from any socket to any other, in each direction; 0 for no bound.
    #[schemars(range(min = 0.0, max = 10_000.0), extend("x-unit" = "GB/s", "x-source" = "Mitosis (ASPLOS 2020): 11 GB/s"))]
    pub interconnect_gbs: f64,
    /// The second node.
    pub node1: NodeSpec,
    /// The third node.
    pub node2: NodeSpec,
    /// The fourth node.
    pub node3: NodeSpec,
}

impl Default for NodesSpec {
    fn default() -> Self {
        NodesSpec {
            core_sockets: Vec::new(),
            interconnect_ns: 136.0,
            interconnect_gbs: 11.0,
            node1: NodeSpec::default(),
            node2: NodeSpec::default(),
            node3: NodeSpec::default(),
        }
    }
}

impl NodesSpec {
    /// The nodes after node 0, by number; those with memory only.
    pub fn others(&self) -> Vec<&NodeSpec> {
        [&self.node1, &self.node2, &self.node3].into_iter().take_while(|node| node.bytes > 0).collect()
    }

    /// Ranks of DRAM of all nodes, node 0 being `dram`.
    pub fn ranks(&self, dram: &DramSpec) -> u32 {
        let of = |dram: &DramSpec| dram.channels * dram.ranks;
        let others = self.others().into_iter().filter(|node| node.medium == Medium::Dram);
        of(dram) + others.map(|node| of(&node.dram(dram))).sum::<u32>()
    }

    /// Bytes of each node of a machine with `memory_bytes`.
    pub fn sizes(&self, memory_bytes: u64) -> Vec<u64> {
        let others: Vec<u64> = self.others().iter().map(|node| node.bytes).collect();
        let first = memory_bytes.saturating_sub(others.iter().sum());
        std::iter::once(first).chain(others).collect()
    }

    /// The socket of each node.
    pub fn sockets(&self) -> Vec<u32> {
        std::iter::once(0).chain(self.others().iter().map(|node| node.socket)).collect()
    }

    /// The socket of each of `cores` cores.
    pub fn core_sockets(&self, cores: usize) -> Vec<u32> {
        if !self.core_sockets.is_empty() {
            return self.core_sockets.iter().copied().chain(std::iter::repeat(0)).take(cores).collect();
        }
        let mut sockets = self.sockets();
        sockets.sort_unstable();
        sockets.dedup();
        (0..cores).map(|core| sockets[core * sockets.len() / cores.max(1)]).collect()
    }

    /// All problems of the spec on a machine with `cores` cores and `memory_bytes` of memory; `at` is its key.
    pub fn validate(&self, at: &str, dram: &DramSpec, cores: usize, memory_bytes: u64) -> Vec<Invalid> {
        let mut wrong = out_of_range(self, at);
        let others = self.others();
        let sum = others.iter().fold(0u64, |sum, node| sum.saturating_add(node.bytes));
        if !others.is_empty() && sum >= memory_bytes {
            let message = format!(
                "and the nodes after it have {}, and `memory.bytes` is {}: nothing is left for node 0, and there must be \
                 something; give the machine more memory, or the nodes less",
                show_size(sum),
                show_size(memory_bytes)
            );
            let problem = Invalid::new(format!("{at}.node1.bytes"), message).and("memory.bytes");
            wrong.push((2..=others.len()).fold(problem, |all, node| all.and(format!("{at}.node{node}.bytes"))));
        }
        let all = [&self.node1, &self.node2, &self.node3];
        for (number, node) in all.iter().enumerate().map(|(at, node)| (at + 1, node)) {
            let key = format!("{at}.node{number}");
            if node.bytes == 0 {
                continue;
            }
            if number > others.len() {
                let message = format!(
                    "has memory, but `{at}.node{}.bytes` is 0: nodes are numbered without gaps",
                    others.len() + 1
                );
                wrong.push(Invalid::new(format!("{key}.bytes"), message));
            }
            if !node.bytes.is_multiple_of(2 << 20) {
                let message = format!("is {}; it must be a multiple of 2MiB", show_size(node.bytes));
                wrong.push(Invalid::new(format!("{key}.bytes"), message));
            }
            wrong.extend(too_slow(&format!("{key}.link_gbs"), node.link_gbs));
            if node.medium == Medium::Dram {
                wrong.extend(node.dram(dram).validate(&key).into_iter().filter(|problem| {
                    // What `[dram]` itself says wrongly is reported there.
                    !dram.validate(&key).contains(problem)
                }));
            }
        }
        wrong.extend(too_slow(&format!("{at}.interconnect_gbs"), self.interconnect_gbs));
        let sockets = self.sockets();
        if !self.core_sockets.is_empty() && self.core_sockets.len() != cores {
            let message = format!(
                "names {} sockets, and `machine.cores` is {cores}: name one for each core, or none",
                self.core_sockets.len()
            );
            wrong.push(Invalid::new(format!("{at}.core_sockets"), message).and("machine.cores"));
        }
        if let Some((core, socket)) = self.core_sockets.iter().enumerate().find(|(_, socket)| !sockets.contains(socket))
        {
            let names: Vec<String> = sockets.iter().map(u32::to_string).collect();
            let message = format!(
                "puts core {core} on socket {socket}, which has no memory node; sockets with one: {}",
                names.join(", ")
            );
            wrong.push(Invalid::new(format!("{at}.core_sockets"), message));
        }
        if !others.is_empty() && dram.model == DramModel::Fixed && others.iter().any(|node| node.channels > 0) {
            let message = "sets channels, and `dram.model` is \"fixed\", which has none; leave it at 0".to_string();
            wrong.push(Invalid::new(format!("{at}.node1.channels"), message).and("dram.model"));
        }
        wrong
    }
}

/// Least bandwidth of a link, in GB/s.
const LEAST_GBS: f64 = 0.01;

/// What is wrong with a bandwidth that is bounded, but next to nothing.
fn too_slow(key: &str, gbs: f64) -> Option<Invalid> {
    let message = || format!("is {gbs}; it must be 0, for no bound, or at least {LEAST_GBS}");
    (gbs > 0.0 && gbs < LEAST_GBS).then(|| Invalid::new(key, message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(bytes: u64, socket: u32) -> NodeSpec {
        NodeSpec { bytes, socket, ..NodeSpec::default() }
    }

    fn problems(spec: &NodesSpec, cores: usize) -> String {
        let wrong = spec.validate("nodes", &DramSpec::default(), cores, 1 << 30);
        wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn ranks_are_those_of_all_dram() {
        let dram = DramSpec { channels: 4, ranks: 2, ..DramSpec::default() };
        assert_eq!(NodesSpec::default().ranks(&dram), 8);
        let near = NodeSpec { channels: 2, ..node(256 << 20, 1) };
        let slow = NodeSpec { medium: Medium::Persistent, ..node(128 << 20, 0) };
        assert_eq!(NodesSpec { node1: near, node2: slow, ..NodesSpec::default() }.ranks(&dram), 8 + 4);
    }

    #[test]
    fn node_0_has_what_the_others_leave_and_cores_are_spread_over_sockets() {
        let spec = NodesSpec { node1: node(256 << 20, 1), node2: node(128 << 20, 0), ..NodesSpec::default() };
        assert_eq!(spec.sizes(1 << 30), [640 << 20, 256 << 20, 128 << 20]);
        assert_eq!((spec.sockets(), spec.core_sockets(4)), (vec![0, 1, 0], vec![0, 0, 1, 1]));
        assert_eq!(problems(&spec, 4), "");
        assert_eq!(problems(&NodesSpec::default(), 1), "");
        assert_eq!(NodesSpec::default().sizes(1 << 30), [1 << 30]);
    }

    #[test]
    fn impossible_nodes_are_rejected_with_what_would_be_right() {
        let with = |node1, core_sockets: &[u32]| NodesSpec {
            node1,
            core_sockets: core_sockets.into(),
            ..NodesSpec::default()
        };
        for (spec, part) in [
            (with(node(1 << 30, 0), &[]), "nothing is left for node 0"),
            (with(node(3 << 20, 0), &[]), "`nodes.node1.bytes` is 3MiB; it must be a multiple of 2MiB"),
            (
                with(node(256 << 20, 1), &[0, 2]),
                "puts core 1 on socket 2, which has no memory node; sockets with one: 0, 1",
            ),
            (with(node(256 << 20, 1), &[0]), "names 1 sockets, and `machine.cores` is 2"),
            (
                with(NodeSpec { channels: 3, ..node(256 << 20, 1) }, &[]),
                "`nodes.node1.channels` is 3; it must be a power of two",
            ),
            (
                NodesSpec { node2: node(256 << 20, 0), ..NodesSpec::default() },
                "`nodes.node1.bytes` is 0: nodes are numbered",
            ),
        ] {
            let wrong = problems(&spec, 2);
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
    }
}
