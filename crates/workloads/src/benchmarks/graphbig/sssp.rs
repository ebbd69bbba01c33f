//! Shortest paths from one root: Dijkstra's algorithm with a binary heap (`std::priority_queue` of distance
//! and vertex); a stale entry is dropped when it is popped.
//!
//! ```text
//! pop    mov (heap); mov 8(heap); sift-down: lea; mov (child); cmp (sibling); cmov; movups (child);
//!        movups; ...
//! check  mov (index,number),object; cmp distance(object); jb; mov begin; mov end; cmp; je
//! edge   mov (edge),target; mov 8(edge),weight; add; mov (index,target),object; cmp distance(object); jae;
//!        add; cmp; jne
//! relax  mov distance(object); mov parent(object); sift-up: lea; shr; mov (parent); cmp; jbe; movups
//! ```

use super::{Algorithm, How, ProgramInfo, roots, site, weight_of};
use crate::benchmarks::execution::{Execution, Value};
use crate::graph::{Graph, View};
use crate::layout::Array;
use ambulator_base::prefetch_sim_host;

/// Single-source shortest paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sssp;

const DISTANCE: usize = 0;
const PARENT: usize = 1;

/// A binary heap in an array of 16-byte entries.
struct Heap {
    entries: Vec<(u64, u32)>,
    array: Array,
}

impl Heap {
    fn push(&mut self, on: &mut Execution, entry: (u64, u32)) {
        let mut hole = self.entries.len();
        self.entries.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / 2;
            on.work(3);
            let above = on.load(site(20), self.array.at(parent as u64), 8, Value::NONE);
            let rises = entry < self.entries[parent];
            on.work(1);
            on.branch(site(21), site(24), !rises, above);
            if !rises {
                break;
            }
            on.load(site(22), self.array.at(parent as u64), 16, Value::NONE);
            on.store(site(23), self.array.at(hole as u64), 16, Value::NONE);
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        on.store(site(24), self.array.at(hole as u64), 16, Value::NONE);
        on.work(2);
        self.entries[hole] = entry;
    }

    /// Pops the least entry, with the load that returned it.
    fn pop(&mut self, on: &mut Execution) -> Option<((u64, u32), Value)> {
        let least = *self.entries.first()?;
        let top = on.load(site(25), self.array.at(0), 16, Value::NONE);
        let last = self.entries.pop()?;
        on.load(site(26), self.array.at(self.entries.len() as u64), 16, Value::NONE);
        on.work(2);
        let len = self.entries.len();
        if len == 0 {
            return Some((least, top));
        }
        let mut hole = 0;
        loop {
            let mut child = 2 * hole + 1;
            on.work(3);
            if child >= len {
                break;
            }
            let left = on.load(site(27), self.array.at(child as u64), 16, Value::NONE);
            if child + 1 < len {
                let right = on.load(site(28), self.array.at(child as u64 + 1), 16, Value::NONE);
                on.branch(site(29), site(30), self.entries[child + 1] < self.entries[child], right);
                if self.entries[child + 1] < self.entries[child] {
                    child += 1;
                }
            }
            on.branch(site(30), site(33), self.entries[child] >= last, left);
            if self.entries[child] >= last {
                break;
            }
            on.store(site(31), self.array.at(hole as u64), 16, Value::NONE);
            self.entries[hole] = self.entries[child];
            hole = child;
        }
        on.store(site(32), self.array.at(hole as u64), 16, Value::NONE);
        self.entries[hole] = last;
        Some((least, top))
    }
}

impl Algorithm for Sssp {
    const INFO: ProgramInfo = ProgramInfo {
        name: "sssp",
        about: "shortest paths with a binary heap, from root to root until all is reached",
        stands_for: "GraphBIG SP/SSSP (Dijkstra): graph traversal with a priority queue; one thread",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 2;
    /// The heap, as far as it is touched in set-up; it may hold an entry for each relaxed edge.
    const ARRAYS: u64 = 16;
    const SIM_HOST_BYTES: u64 = 24;
    const WEIGHTS: bool = true;
    /// The distance of each vertex from the root that reached it first; `u64::MAX` for those without edges.
    type Output = Vec<u64>;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Vec<u64> {
        let n = graph.vertices();
        let array = on.array(16, graph.edges() + n);
        on.event(Array { len: n, ..array }.touch(true));
        let mut distances = vec![u64::MAX; n as usize];
        let mut heap = Heap { entries: Vec::new(), array };
        on.begin_region();
        for root in roots(graph, how.seed) {
            let at = view.vertex(on, site(0), root, Value::NONE);
            let known = view.get(on, site(1), at, DISTANCE);
            on.branch(site(2), site(40), distances[root as usize] != u64::MAX, known);
            on.work(3);
            if distances[root as usize] != u64::MAX {
                continue;
            }
            distances[root as usize] = 0;
            view.set(on, site(3), at, DISTANCE);
            heap.push(on, (0, root));
            while let Some(((distance, u), entry)) = heap.pop(on) {
                let at = view.vertex(on, site(5), u, entry);
                let known = view.get(on, site(6), at, DISTANCE);
                let overtaken = distance > distances[u as usize];
                on.branch(site(7), site(18), overtaken, known);
                on.work(2);
                if overtaken {
                    continue;
                }
                let edges = view.edges(on, site(8), at);
                on.work(2);
                for (k, &v) in graph.neighbours_of(u).iter().enumerate() {
                    graph.look_ahead(u, k as u64, |soon| {
                        view.prefetch_sim_host(soon);
                        prefetch_sim_host(&distances[soon as usize]);
                    });
                    let target = view.target(on, site(9), at, k as u64, edges);
                    view.weight(on, site(10), at, k as u64, edges);
                    on.work(1);
                    let to = view.vertex(on, site(11), v, target);
                    let known = view.get(on, site(12), to, DISTANCE);
                    let through = distance + weight_of(u, v);
                    let shorter = through < distances[v as usize];
                    on.branch(site(13), site(17), !shorter, known);
                    if shorter {
                        distances[v as usize] = through;
                        view.set(on, site(14), to, DISTANCE);
                        view.set(on, site(15), to, PARENT);
                        heap.push(on, (through, v));
                    }
                    on.work(3);
                }
            }
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::on_small_graphs;
    use super::*;
    use petgraph::graph::{NodeIndex, UnGraph};

    #[test]
    fn distances_are_those_of_an_independent_library() {
        on_small_graphs::<Sssp>(|graph, distances, _| {
            let n = graph.vertices() as u32;
            let mut edges = Vec::new();
            for u in 0..n {
                edges.extend(graph.neighbours_of(u).iter().filter(|v| u <= **v).map(|v| (u, *v, weight_of(u, *v))));
            }
            let library = UnGraph::<(), u64>::from_edges(edges);
            for root in (0..n).filter(|u| distances[*u as usize] == 0) {
                let reached = petgraph::algo::dijkstra(&library, NodeIndex::new(root as usize), None, |e| *e.weight());
                for (node, distance) in reached {
                    assert_eq!(distances[node.index()], distance, "from {root}");
                }
            }
            assert!((0..n).all(|u| (distances[u as usize] == u64::MAX) == (graph.degree(u) == 0)));
        });
    }
}
