//! Minimum-cost flow by the network simplex method.
//!
//! Stands for SPEC 2006's mcf (RMM Table 4: 1.7 GB), a vehicle scheduler. Layout: an array of nodes (104
//! bytes each, as mcf's `node_t`: potential, orientation, child, parent, siblings, the arc to the parent,
//! flow, depth, ...) and an array of arcs (64 bytes, `arc_t`: cost, tail, head, state, flow, ...), one
//! mapping each, filled in ascending order. Nodes are points of a line of times, alternately sources and
//! sinks of one unit of flow; arcs go from each to random later and earlier ones with costs that grow with
//! the distance, and one expensive arc from or to the root keeps the network feasible.
//!
//! The method is real: pricing goes over the arcs a block at a time and takes the arc that violates most
//! (`primal_bea_mpp`); the cycle that it closes in the spanning tree is walked to find the leaving arc; flows
//! change along the cycle; the subtree that was cut off is attached elsewhere and its potentials change
//! (`update_tree`, `refresh_potential`).
//!
//! ```text
//! price    mov ident(arc); test; jle; mov cost(arc); mov tail(arc); sub potential(tail); mov head(arc);
//!          add potential(head); cmp; jge
//! cycle    mov depth(node); cmp; mov flow; cmp; mov parent(node)
//! subtree  mov child(node); mov potential(node); add; mov; mov sibling(node)
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the network simplex method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McfSpec {
    /// Bytes of nodes and arcs; decides on the nodes.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of the network.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Arcs for each node.
    #[schemars(range(min = 1, max = 1000), extend("x-unit" = "count", "x-source" = "mcf's reference input: about 30 in its largest phase"))]
    pub arcs: u32,
    /// Arcs that pricing examines for each pivot.
    #[schemars(range(min = 1, max = 1 << 30), extend("x-unit" = "count", "x-source" = "mcf: K = 300 groups"))]
    pub block: u32,
    /// Memory of the simulator that the network may take; a larger one is rejected.
    #[schemars(range(max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub host_memory: u64,
}

impl Default for McfSpec {
    fn default() -> Self {
        McfSpec { footprint: 1700 << 20, seed: 1, arcs: 30, block: 3000, host_memory: 6 << 30 }
    }
}

const NODE_BYTES: u64 = 104;
const ARC_BYTES: u64 = 64;
/// Bytes of the simulator's memory for a node and for an arc.
const HOST_NODE: u64 = 40;
const HOST_ARC: u64 = 17;

impl McfSpec {
    fn nodes(&self) -> u64 {
        // An even number: sources and sinks alternate. Each node has an expensive arc too.
        self.footprint / (NODE_BYTES + ARC_BYTES * (u64::from(self.arcs) + 1)) / 2 * 2
    }
}

impl BenchmarkSpec for McfSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "mcf",
        about: "minimum-cost flow by the network simplex method: pricing over arcs, walks in a spanning tree",
        stands_for: "SPEC mcf; pointer-bound optimisation",
        default_footprint: 1700 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        let bytes = self.nodes() * (HOST_NODE + HOST_ARC * (u64::from(self.arcs) + 1));
        if bytes > self.host_memory || self.nodes() * (u64::from(self.arcs) + 1) > u64::from(u32::MAX) {
            let message = format!(
                "is {} MiB, and the network takes {} MiB of the simulator's memory: raise it (up to 2^32 arcs), \
                 or set a \
                 smaller footprint",
                self.host_memory >> 20,
                bytes >> 20
            );
            problems.push(Invalid::new(format!("{at}.host_memory"), message).and(format!("{at}.footprint")));
        }
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let nodes = self.nodes();
        let facts = format!("{nodes} nodes and {} arcs", nodes * (u64::from(self.arcs) + 1));
        let bytes = nodes * (NODE_BYTES + ARC_BYTES * (u64::from(self.arcs) + 1));
        ProgramSource::boxed(identity("mcf", self, &facts, bytes), AddressSpace::new(), Mcf(self.clone()))
    }
}

/// Code addresses of the compiled program.
mod pc {
    use super::TEXT;
    pub const STATE: u64 = TEXT + 0x200;
    pub const BASIC: u64 = TEXT + 0x208;
    pub const COST: u64 = TEXT + 0x210;
    pub const TAIL: u64 = TEXT + 0x218;
    pub const TAIL_POTENTIAL: u64 = TEXT + 0x220;
    pub const HEAD: u64 = TEXT + 0x228;
    pub const HEAD_POTENTIAL: u64 = TEXT + 0x230;
    pub const BETTER: u64 = TEXT + 0x238;
    pub const CYCLE: u64 = TEXT + 0x280;
    pub const DEEPER: u64 = TEXT + 0x288;
    pub const FLOW: u64 = TEXT + 0x290;
    pub const PARENT: u64 = TEXT + 0x298;
    pub const AUGMENT: u64 = TEXT + 0x2c0;
    pub const REHANG: u64 = TEXT + 0x300;
    pub const CHILD: u64 = TEXT + 0x340;
    pub const POTENTIAL: u64 = TEXT + 0x348;
    pub const SIBLING: u64 = TEXT + 0x350;
}

/// Byte offsets in a node and an arc.
mod field {
    pub const POTENTIAL: u64 = 0;
    pub const CHILD: u64 = 16;
    pub const PARENT: u64 = 24;
    pub const SIBLING: u64 = 32;
    pub const ARC: u64 = 48;
    pub const FLOW: u64 = 80;
    pub const DEPTH: u64 = 88;
    pub const COST: u64 = 0;
    pub const TAIL: u64 = 8;
    pub const HEAD: u64 = 16;
    pub const STATE: u64 = 24;
}

/// The network, its spanning tree and flow. All capacities are unbounded, so a non-basic arc has no flow.
struct Network {
    cost: Vec<i64>,
    ends: Vec<(u32, u32)>,
    basic: Vec<bool>,
    /// Of each node (the last is the root): potential, parent, the arc to it, the flow on that arc, depth.
    potential: Vec<i64>,
    parent: Vec<u32>,
    arc: Vec<u32>,
    flow: Vec<i64>,
    depth: Vec<u32>,
    children: Vec<Vec<u32>>,
    nodes_at: Array,
    arcs_at: Array,
}

/// The cost of an expensive arc: more than any path that avoids it.
const DEAR: i64 = 1 << 40;

impl Network {
    fn new(spec: &McfSpec, on: &mut Execution) -> Network {
        let n = spec.nodes();
        let mut random = Random::for_purpose(spec.seed, "mcf network");
        let (mut cost, mut ends) = (Vec::new(), Vec::new());
        for u in 0..n {
            for _ in 0..spec.arcs {
                let v = (u + 1 + random.below(n - 1)) % n;
                cost.push((1 + u.abs_diff(v) / 8 + random.below(1000)) as i64);
                ends.push((u as u32, v as u32));
            }
        }
        let root = n as u32;
        let first_dear = ends.len();
        let supply = |u: u64| if u.is_multiple_of(2) { 1i64 } else { -1 };
        for u in 0..n {
            // From a source to the root, from the root to a sink.
            cost.push(DEAR);
            ends.push(if supply(u) > 0 { (u as u32, root) } else { (root, u as u32) });
        }
        let mut basic = vec![false; ends.len()];
        basic[first_dear..].fill(true);
        let mut children = vec![Vec::new(); n as usize + 1];
        children[root as usize] = (0..root).collect();
        // A basic arc's reduced cost, cost - potential of its tail + potential of its head, is 0.
        let mut potential: Vec<i64> = (0..n).map(|u| supply(u) * DEAR).collect();
        potential.push(0);
        let mut depth = vec![1; n as usize + 1];
        depth[root as usize] = 0;
        Network {
            basic,
            potential,
            parent: vec![root; n as usize + 1],
            arc: (0..=n as u32).map(|u| first_dear as u32 + u.min(root - 1)).collect(),
            flow: vec![1; n as usize + 1],
            depth,
            children,
            nodes_at: on.filled_array(NODE_BYTES, n + 1),
            arcs_at: on.filled_array(ARC_BYTES, ends.len() as u64),
            cost,
            ends,
        }
    }

    fn reduced(&self, arc: usize) -> i64 {
        let (tail, head) = self.ends[arc];
        self.cost[arc] - self.potential[tail as usize] + self.potential[head as usize]
    }

    fn load_node(&self, on: &mut Execution, code: u64, node: u32, field: u64, from: Value) -> Value {
        on.load(code, self.nodes_at.at(u64::from(node)).offset(field), 8, from)
    }

    /// The arc of a block that violates most; `next` is where the block begins.
    fn price(&self, on: &mut Execution, next: &mut usize, block: usize) -> Option<usize> {
        let mut best = None;
        let mut looked = 0;
        while looked < self.ends.len() {
            for _ in 0..block.min(self.ends.len() - looked) {
                let arc = *next;
                *next = if arc + 1 == self.ends.len() { 0 } else { arc + 1 };
                looked += 1;
                let at = self.arcs_at.at(arc as u64);
                let state = on.load(pc::STATE, at.offset(field::STATE), 4, Value::NONE);
                on.branch(pc::BASIC, pc::BETTER, self.basic[arc], state);
                on.work(3);
                if self.basic[arc] {
                    continue;
                }
                on.load(pc::COST, at.offset(field::COST), 8, Value::NONE);
                let (tail, head) = self.ends[arc];
                let named = on.load(pc::TAIL, at.offset(field::TAIL), 8, Value::NONE);
                self.load_node(on, pc::TAIL_POTENTIAL, tail, field::POTENTIAL, named);
                let named = on.load(pc::HEAD, at.offset(field::HEAD), 8, Value::NONE);
                let last = self.load_node(on, pc::HEAD_POTENTIAL, head, field::POTENTIAL, named);
                let reduced = self.reduced(arc);
                let violates = reduced < best.map_or(0, |(_, least)| least);
                on.branch(pc::BETTER, pc::STATE, !violates, last);
                on.work(3);
                if violates {
                    best = Some((arc, reduced));
                }
            }
            if best.is_some() {
                break;
            }
        }
        best.map(|(arc, _)| arc)
    }

    /// Brings an arc into the tree. Returns by how much the cost falls.
    fn pivot(&mut self, on: &mut Execution, entering: usize) -> i64 {
        let (tail, head) = self.ends[entering];
        // Flow goes tail -> head on the new arc and so around: from the head up to the join, and down to the
        // tail. On the path up from the head, arcs that point up gain and those that point down lose; on the
        // tail's side it is the reverse.
        let (mut a, mut b) = (tail, head);
        let mut loses: Option<(i64, u32, bool)> = None;
        let mut cycle: Vec<(u32, bool)> = Vec::new();
        while a != b {
            let from_tail = self.depth[a as usize] >= self.depth[b as usize];
            let node = if from_tail { a } else { b };
            let depth = self.load_node(on, pc::CYCLE, node, field::DEPTH, Value::NONE);
            on.branch(pc::DEEPER, pc::PARENT, from_tail, depth);
            let up = self.ends[self.arc[node as usize] as usize].0 == node;
            let gains = up != from_tail;
            cycle.push((node, gains));
            self.load_node(on, pc::FLOW, node, field::FLOW, Value::NONE);
            self.load_node(on, pc::FLOW + 4, node, field::ARC, Value::NONE);
            on.work(4);
            let flow = self.flow[node as usize];
            if !gains && loses.is_none_or(|(least, ..)| flow < least) {
                loses = Some((flow, node, from_tail));
            }
            let parent = self.parent[node as usize];
            self.load_node(on, pc::PARENT, node, field::PARENT, Value::NONE);
            if from_tail {
                a = parent;
            } else {
                b = parent;
            }
        }
        // Without an arc that loses, costs would fall without end: costs are not negative, so there is one.
        let Some((delta, leaving, cut_at_tail)) = loses else { return 0 };
        for &(node, gains) in &cycle {
            let flow = &mut self.flow[node as usize];
            *flow += if gains { delta } else { -delta };
            on.update(pc::AUGMENT, self.nodes_at.at(u64::from(node)).offset(field::FLOW), 8, Value::NONE);
            on.work(3);
        }
        let gain = -self.reduced(entering) * delta;
        // The leaving arc's subtree is attached at the entering arc: the path from there up to the cut is
        // reversed.
        let (mut node, mut onto) = if cut_at_tail { (tail, head) } else { (head, tail) };
        let change = if cut_at_tail { self.reduced(entering) } else { -self.reduced(entering) };
        let moved = node;
        self.basic[self.arc[leaving as usize] as usize] = false;
        self.basic[entering] = true;
        let (mut arc, mut flow) = (entering as u32, delta);
        loop {
            let parent = self.parent[node as usize];
            let siblings = &mut self.children[parent as usize];
            if let Some(at) = siblings.iter().position(|child| *child == node) {
                siblings.swap_remove(at);
            }
            self.children[onto as usize].push(node);
            self.parent[node as usize] = onto;
            for (n, at) in
                [field::PARENT, field::ARC, field::FLOW, field::CHILD, field::SIBLING].into_iter().enumerate()
            {
                let va = self.nodes_at.at(u64::from(node)).offset(at);
                on.load(pc::REHANG + 4 * n as u64, va, 8, Value::NONE);
                on.store(pc::REHANG + 20 + 4 * n as u64, va, 8, Value::NONE);
            }
            on.work(8);
            arc = std::mem::replace(&mut self.arc[node as usize], arc);
            flow = std::mem::replace(&mut self.flow[node as usize], flow);
            if node == leaving {
                break;
            }
            onto = node;
            node = parent;
        }
        // Potentials and depths of all that was moved.
        let mut pending = vec![moved];
        while let Some(node) = pending.pop() {
            self.potential[node as usize] += change;
            self.depth[node as usize] = self.depth[self.parent[node as usize] as usize] + 1;
            let child = self.load_node(on, pc::CHILD, node, field::CHILD, Value::NONE);
            on.update(pc::POTENTIAL, self.nodes_at.at(u64::from(node)).offset(field::POTENTIAL), 8, child);
            on.store(pc::POTENTIAL + 4, self.nodes_at.at(u64::from(node)).offset(field::DEPTH), 8, child);
            self.load_node(on, pc::SIBLING, node, field::SIBLING, child);
            on.work(4);
            pending.extend_from_slice(&self.children[node as usize]);
        }
        gain
    }

    #[cfg(test)]
    fn total(&self) -> i64 {
        let root = self.parent.len() - 1;
        (0..root).map(|u| self.flow[u] * self.cost[self.arc[u] as usize]).sum()
    }
}

struct Mcf(McfSpec);

impl Program for Mcf {
    fn run(self: Box<Self>, on: &mut Execution) {
        let mut network = Network::new(&self.0, on);
        on.begin_region();
        self.optimise(on, &mut network);
    }
}

impl Mcf {
    /// Pivots until no arc violates; returns how often.
    fn optimise(&self, on: &mut Execution, network: &mut Network) -> u64 {
        let (mut next, mut pivots) = (0, 0);
        while let Some(entering) = network.price(on, &mut next, self.0.block as usize) {
            network.pivot(on, entering);
            pivots += 1;
        }
        pivots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    /// Successive shortest paths with Bellman-Ford: slow and plain.
    fn plain_minimum(n: usize, arcs: &[(u32, u32, i64)]) -> i64 {
        let mut residual: Vec<(usize, usize, i64, i64)> = Vec::new();
        let mut add = |u: usize, v: usize, capacity: i64, cost: i64| {
            residual.push((u, v, capacity, cost));
            residual.push((v, u, 0, -cost));
        };
        arcs.iter().for_each(|&(u, v, cost)| add(u as usize, v as usize, i64::MAX / 4, cost));
        // After the nodes comes the root, which the expensive arcs lead to and from.
        let (source, sink) = (n + 1, n + 2);
        for u in 0..n {
            if u % 2 == 0 { add(source, u, 1, 0) } else { add(u, sink, 1, 0) }
        }
        let mut total = 0;
        loop {
            let mut distance = vec![(i64::MAX / 4, usize::MAX); n + 3];
            distance[source] = (0, usize::MAX);
            let mut changed = true;
            while changed {
                changed = false;
                for (i, &(u, v, capacity, cost)) in residual.iter().enumerate() {
                    if capacity > 0 && distance[u].0 + cost < distance[v].0 && distance[u].0 < i64::MAX / 8 {
                        distance[v] = (distance[u].0 + cost, i);
                        changed = true;
                    }
                }
            }
            if distance[sink].1 == usize::MAX {
                return total;
            }
            total += distance[sink].0;
            let mut at = sink;
            while at != source {
                let i = distance[at].1;
                residual[i].2 -= 1;
                residual[i ^ 1].2 += 1;
                at = residual[i].0;
            }
        }
    }

    #[test]
    fn the_optimum_is_that_of_a_plain_method() {
        for (seed, block) in [(1, 50), (2, 7), (3, 1000)] {
            let spec = McfSpec { footprint: 24 << 10, seed, arcs: 4, block, ..McfSpec::default() };
            let n = spec.nodes() as usize;
            let ((cost, pivots, arcs, network), _) = trace_of(AddressSpace::new(), |on| {
                let mut network = Network::new(&spec, on);
                let arcs: Vec<(u32, u32, i64)> =
                    network.ends.iter().zip(&network.cost).map(|((u, v), cost)| (*u, *v, *cost)).collect();
                on.begin_region();
                let pivots = Mcf(spec.clone()).optimise(on, &mut network);
                (network.total(), pivots, arcs, network)
            });
            assert_eq!(cost, plain_minimum(n, &arcs), "seed {seed}, {n} nodes, {pivots} pivots");
            // It is a tree: every node reaches the root, flows are not negative, basic arcs have no reduced
            // cost.
            for u in 0..n {
                assert!(network.flow[u] >= 0);
                assert_eq!(network.reduced(network.arc[u] as usize), 0);
                assert_eq!(network.depth[u], network.depth[network.parent[u] as usize] + 1);
            }
        }
    }
}
