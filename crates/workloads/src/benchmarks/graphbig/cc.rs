//! Connected components: a breadth-first search from every vertex not reached yet.
//!
//! ```text
//! root    mov (index),object; test; je; cmpq $0,visited(object); jne; ...; add; cmp; jb
//! vertex  mov (queue),number; mov (index,number),object; jmp; mov begin; mov end; add; cmp; je; ...; cmp;
//!          jge
//! edge    mov (edge),target; mov (index,target),object; cmpq $0,visited(object); jne; ...; add; cmp; jne
//! found   movq $1,visited(object); mov label,(object); mov target,(queue); add
//! ```

use super::{Algorithm, Counts, Density, How, ProgramInfo, parallel, site};
use crate::benchmarks::execution::{Execution, Value};
use crate::graph::{Graph, View};
use ambulator_base::prefetch_sim_host;

/// Connected components.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cc;

/// The components found: one flood after another, each from its smallest vertex. A vertex takes 4 bytes and two
/// bits, and only when it has been reached.
#[derive(Debug)]
pub struct Components {
    /// Vertices in the order in which they were reached.
    reached: Vec<u32>,
    /// A bit for each of them: a flood begins with it.
    begins: Vec<u64>,
    /// A bit for each vertex that has been reached.
    visited: Vec<u64>,
}

impl Components {
    fn new(vertices: u64) -> Components {
        let bits = || vec![0; vertices.div_ceil(64) as usize];
        Components { reached: Vec::with_capacity(vertices as usize), begins: bits(), visited: bits() }
    }

    #[inline(always)]
    fn has(&self, u: u32) -> bool {
        self.visited[u as usize / 64] >> (u % 64) & 1 != 0
    }

    #[inline(always)]
    fn reach(&mut self, u: u32) {
        self.visited[u as usize / 64] |= 1 << (u % 64);
        self.reached.push(u);
    }

    /// Starts a flood; returns its first place.
    fn begin(&mut self, root: u32) -> usize {
        let place = self.reached.len();
        self.begins[place / 64] |= 1 << (place % 64);
        self.reach(root);
        place
    }

    /// The component of each vertex, by its smallest vertex.
    #[cfg(test)]
    pub fn labels(&self) -> Vec<u32> {
        let mut labels = vec![u32::MAX; self.reached.len()];
        let mut root = 0;
        for (place, &u) in self.reached.iter().enumerate() {
            if self.begins[place / 64] >> (place % 64) & 1 != 0 {
                root = u;
            }
            labels[u as usize] = root;
        }
        labels
    }
}

const VISITED: usize = 0;
const LABEL: usize = 1;

impl Algorithm for Cc {
    const INFO: ProgramInfo = ProgramInfo {
        name: "cc",
        about: "connected components, by a breadth-first flood from each vertex not yet reached",
        stands_for: "GraphBIG CC: graph traversal from many roots",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 2;
    const ARRAYS: u64 = 8;
    const SIM_HOST_BYTES: u64 = 5;
    const DENSITIES: &[Density] = &[
        Density {
            compiled_program: "cc csr EDGES",
            settings: r#"{ "layout": "csr", "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: site(9),
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 7.665, loads: 2.159, stores: 0.095, branches: 2.126 },
        },
        Density {
            compiled_program: "cc property EDGES",
            settings: r#"{ "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: site(9),
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 7.601, loads: 3.152, stores: 0.073, branches: 2.135 },
        },
        Density {
            compiled_program: "cc linked EDGES",
            settings: r#"{ "layout": "linked", "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: site(9),
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 19.077, loads: 7.322, stores: 0.095, branches: 5.220 },
        },
    ];
    type Output = Components;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Components {
        let n = graph.vertices();
        let queue = on.filled_array(8, n);
        let mut found = Components::new(n);
        on.begin_region();
        for root in 0..n as u32 {
            let next_root = |on: &mut Execution| {
                on.work(2);
                on.branch(site(22), site(0), u64::from(root) + 1 < n, Value::NONE);
            };
            let at = view.next_vertex(on, site(0), root);
            if !view.present(on, site(20), site(21), at) {
                found.begin(root);
                next_root(on);
                continue;
            }
            let visited = view.get(on, site(1), at, VISITED);
            on.branch(site(2), site(21), found.has(root), visited);
            if found.has(root) {
                next_root(on);
                continue;
            }
            on.work(3);
            view.set(on, site(3), at, VISITED);
            view.set(on, site(4), at, LABEL);
            on.store(site(5), queue.at(0), 8, Value::NONE);
            let first = found.begin(root);
            // Level by level, each divided among the threads.
            let mut head = first;
            while head < found.reached.len() {
                let level = head..found.reached.len();
                head = level.end;
                parallel(on, how.threads, level.len() as u64, |on, i| {
                    let place = level.start + i as usize;
                    let u = found.reached[place];
                    on.work(1);
                    let number = on.load(site(6), queue.at((place - first) as u64), 8, Value::NONE);
                    let at = view.vertex(on, site(7), u, number);
                    let edges = view.edges(on, site(8), at);
                    on.work(1);
                    on.branch(site(17), site(18), graph.degree(u) == 0, edges);
                    on.work(1);
                    for edge in graph.edges_of(u) {
                        let (k, v) = (edge.k, edge.to);
                        if let Some(soon) = edge.soon {
                            view.prefetch_sim_host(soon);
                            prefetch_sim_host(&found.visited[soon as usize / 64]);
                        }
                        let target = view.target(on, site(9), at, k, edges);
                        let to = view.vertex(on, site(10), v, target);
                        let visited = view.get(on, site(11), to, VISITED);
                        let new = !found.has(v);
                        on.branch(site(12), site(16), !new, visited);
                        if new {
                            view.set(on, site(13), to, VISITED);
                            view.set(on, site(14), to, LABEL);
                            on.store(site(15), queue.at((found.reached.len() - first) as u64), 8, Value::NONE);
                            found.reach(v);
                            on.work(1);
                        }
                        view.next_edge(on, site(16), site(9), !edge.last, edges);
                    }
                    on.work(1);
                    on.branch(site(18), site(19), place + 1 == found.reached.len(), Value::NONE);
                });
            }
            next_root(on);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{accesses, on_small_graphs};
    use super::*;
    use petgraph::unionfind::UnionFind;

    #[test]
    fn components_are_those_of_a_union_find() {
        on_small_graphs::<Cc>(|graph, components, batches| {
            let labels = components.labels();
            let mut sets = UnionFind::<u32>::new(labels.len());
            for u in 0..labels.len() as u32 {
                graph.neighbours_of(u).iter().for_each(|v| {
                    sets.union(u, *v);
                });
            }
            for u in 0..labels.len() as u32 {
                assert!(sets.equiv(u, labels[u as usize]), "{u} has label {}", labels[u as usize]);
                assert!(labels[u as usize] <= u, "a component is named by its smallest vertex");
                assert_eq!(labels[labels[u as usize] as usize], labels[u as usize]);
            }
            assert!(accesses(batches) > 2 * graph.edges(), "each stored edge is looked at");
        });
    }
}
