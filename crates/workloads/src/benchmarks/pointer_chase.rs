//! Pointer chase: `p = *p` along one random cycle through all nodes.
//!
//! Stands for linked lists, trees and hash chains: each address is the result of the previous load, so
//! nothing overlaps and the program is exposed to every cycle of a TLB miss. Several chains are independent
//! chases, interleaved round-robin; an out-of-order core can overlap them.
//!
//! Layout: one array of nodes from `malloc` (its own mapping), the pointer first in each node. The set-up
//! links them in ascending order and then shuffles (Sattolo), so that the order of first touch is ascending.
//! A bijection computes the cycle, so the simulator stores nothing at any footprint.
//!
//! The compiled loop, 3 instructions a step: `mov (%rax),%rax; sub $1,%rdx; jae`.

use super::{Benchmark, BenchmarkSource, BenchmarkSpec, ProgramInfo, identity, load};
use crate::layout::{AddressSpace, Array, TEXT};
use crate::permutation::Permutation;
use ambulator_base::{Batch, Invalid, Record, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Code address of the first chain's load; each further chain's is three bytes on.
const PC_STEP: u64 = TEXT + 0x320;
const STEP_CODE_BYTES: u64 = 3;
/// `sub` and `jae` once a round.
const LOOP_INSTRUCTIONS: u32 = 2;

/// Settings of the pointer chase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PointerChaseSpec {
    /// Bytes of all nodes, rounded down to whole nodes.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Which of the random cycles.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Bytes of a node, a multiple of 8; 64 gives each node its own cache line, 4096 its own page.
    #[schemars(range(min = 8, max = 1 << 16), extend("x-unit" = "bytes"))]
    pub node_bytes: u64,
    /// Independent chases, one step of each round-robin, 1 to 12 (as many as fit in registers).
    #[schemars(range(min = 1, max = 12), extend("x-unit" = "count"))]
    pub chains: u32,
}

impl Default for PointerChaseSpec {
    fn default() -> Self {
        PointerChaseSpec { footprint: 8 << 30, seed: 1, node_bytes: 64, chains: 1 }
    }
}

impl BenchmarkSpec for PointerChaseSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "pointer-chase",
        about: "loads along one random cycle, each address loaded by the one before",
        stands_for: "linked lists, trees, hash chains: latency that nothing hides",
        default_footprint: 8 << 30,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        if !self.node_bytes.is_multiple_of(8) {
            problems.push(Invalid::new(
                format!("{at}.node_bytes"),
                format!("is {}; it must be a multiple of 8", self.node_bytes),
            ));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let mut space = AddressSpace::new();
        let nodes = space.allocate_array(self.node_bytes, self.footprint / self.node_bytes);
        space.push(nodes.touch(true));
        let facts = format!("nodes = {}", nodes.len);
        let setup = Box::new(space.take_events());
        BenchmarkSource::boxed(identity("pointer-chase", self, &facts, nodes.bytes()), setup, Chase::new(self, nodes))
    }
}

/// The running benchmark.
struct Chase {
    nodes: Array,
    cycle: Permutation,
    /// For each chain, the place on the cycle of the node that it loads next.
    places: Vec<u64>,
}

impl Chase {
    fn new(spec: &PointerChaseSpec, nodes: Array) -> Chase {
        let chains = u64::from(spec.chains);
        Chase {
            nodes,
            cycle: Permutation::new(nodes.len, spec.seed, "pointer chase"),
            places: (0..chains).map(|c| nodes.len / chains * c).collect(),
        }
    }
}

impl Benchmark for Chase {
    fn run(&mut self, records: &mut Vec<Record>) {
        let chains = self.places.len();
        for _ in 0..Batch::TARGET_RECORDS / chains {
            for (chain, place) in self.places.iter_mut().enumerate() {
                let gap = if chain == 0 { LOOP_INSTRUCTIONS } else { 0 };
                let va = self.nodes.at(self.cycle.of(*place));
                records.push(load(PC_STEP + STEP_CODE_BYTES * chain as u64, va, 8, gap, chains as u16));
                *place += 1;
                if *place == self.nodes.len {
                    *place = 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(spec: &PointerChaseSpec, n: usize) -> (Array, Vec<Record>) {
        let nodes = AddressSpace::new().allocate_array(spec.node_bytes, spec.footprint / spec.node_bytes);
        let mut chase = Chase::new(spec, nodes);
        let mut records = Vec::new();
        while records.len() < n {
            chase.run(&mut records);
        }
        (nodes, records)
    }

    #[test]
    fn a_cycle_visits_every_node_once_and_then_repeats() {
        let spec = PointerChaseSpec { footprint: 1_234_567, ..PointerChaseSpec::default() };
        let n = 1_234_567 / 64;
        let (nodes, records) = addresses(&spec, 2 * n);
        let mut met = vec![false; n];
        for r in &records[..n] {
            let node = ((r.va.0 - nodes.base) / 64) as usize;
            assert_eq!((r.va.0 - nodes.base) % 64, 0);
            assert!(!std::mem::replace(&mut met[node], true), "node {node} is met twice");
            assert_eq!((r.dep1, r.instructions()), (1, 3));
        }
        assert!(records[..n].iter().zip(&records[n..]).all(|(a, b)| a.va == b.va));
    }

    #[test]
    fn each_chain_depends_on_itself_alone() {
        let spec = PointerChaseSpec { footprint: 1 << 20, chains: 4, ..PointerChaseSpec::default() };
        let (_, records) = addresses(&spec, 1 << 16);
        // Chain 1 starts a quarter of the cycle ahead: chain 0 gets there after a quarter of the steps.
        let (chain0, chain1): (Vec<_>, Vec<_>) =
            (records.iter().step_by(4).collect(), records[1..].iter().step_by(4).collect());
        let quarter = (1 << 20) / 64 / 4;
        assert!((0..1000).all(|i| chain0[i + quarter].va == chain1[i].va));
        assert!(records.iter().all(|r| r.dep1 == 4));
    }
}
