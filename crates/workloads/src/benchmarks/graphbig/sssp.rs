//! Shortest paths from one root: Dijkstra's algorithm with `std::priority_queue` of distance and vertex; a
//! stale entry is dropped when it is popped.
//!
//! ```text
//! pop    see [`PriorityQueue`]; mov (index,number),object; cmp distance(object); jb; mov begin; mov end;
//!          cmp; je
//! edge   mov index; mov (edge),target; mov 8(edge),weight; mov (index,target),object; add;
//!        cmp distance(object); jae; ...; add; cmp; je
//! relax  mov number; mov distance(object); movq; mov parent(object); movhps (edge); movaps entry; push
//! ```

use super::priority_queue::{PriorityQueue, word};
use super::{Algorithm, Counts, Density, How, ProgramInfo, roots, site, weight_of};
use crate::benchmarks::execution::{Execution, Value};
use crate::graph::{Graph, View};
use crate::layout::Array;
use ambulator_base::prefetch_sim_host;

/// Single-source shortest paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sssp;

const DISTANCE: usize = 0;
const PARENT: usize = 1;

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
    /// The distance, and 8 bytes for each entry of the heap: at its fullest it has 1.6 for each vertex of a graph of
    /// 2^16 vertices, and fewer in larger graphs, where more vertices have no edges.
    const SIM_HOST_BYTES: u64 = 16;
    const WEIGHTS: bool = true;
    const DENSITIES: &[Density] = &[
        Density {
            compiled_program: "sssp csr EDGES",
            settings: r#"{ "layout": "csr", "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: site(9),
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 38.818, loads: 7.881, stores: 3.258, branches: 5.479 },
        },
        Density {
            compiled_program: "sssp property EDGES",
            settings: r#"{ "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: site(9),
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 39.192, loads: 9.687, stores: 2.967, branches: 5.479 },
        },
        Density {
            compiled_program: "sssp linked EDGES",
            settings: r#"{ "layout": "linked", "graph": { "vertices": 16384 } }"#,
            unit: "stored edge",
            site: site(9),
            skip: 0,
            units: Density::TO_THE_END,
            compiled: Counts { instructions: 51.878, loads: 15.456, stores: 2.601, branches: 8.662 },
        },
    ];
    /// The distance of each vertex from the root that reached it first; `u32::MAX` for those without edges.
    type Output = Vec<u32>;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Vec<u32> {
        relax_all(graph, view, how, on)
    }
}

/// Runs Dijkstra's algorithm from root after root.
fn relax_all<V: View>(graph: &Graph, view: &V, how: &How, on: &mut Execution) -> Vec<u32> {
    let n = graph.vertices();
    let array = on.array(16, graph.edges() + n);
    on.event(Array { len: n, ..array }.touch(true));
    let frame = on.space.stack_array(8, word::ALL);
    on.event(frame.touch(true));
    let mut distances = vec![u32::MAX; n as usize];
    let mut queue = PriorityQueue::new(array, frame, view.is_linked());
    on.begin_region();
    for root in roots(graph, how.seed) {
        let at = view.vertex(on, site(0), root, Value::NONE);
        let known = view.get(on, site(1), at, DISTANCE);
        on.branch(site(2), site(39), distances[root as usize] != u32::MAX, known);
        on.work(3);
        if distances[root as usize] != u32::MAX {
            continue;
        }
        distances[root as usize] = 0;
        view.set(on, site(3), at, DISTANCE);
        on.store(site(4), frame.at(word::ENTRY), 16, Value::NONE);
        queue.push(on, (0, root));
        while let Some(((distance, u), entry)) = queue.pop(on) {
            if V::POINTERS {
                queue.reload(on, site(5), word::INDEX);
            }
            let at = view.vertex(on, site(6), u, entry);
            let known = view.get(on, site(7), at, DISTANCE);
            let overtaken = distance > distances[u as usize];
            on.branch(site(8), site(64), overtaken, known);
            if overtaken {
                continue;
            }
            let edges = view.edges(on, site(38), at);
            on.work(1);
            on.branch(site(37), site(64), graph.degree(u) == 0, edges);
            for edge in graph.edges_of(u) {
                let (k, v) = (edge.k, edge.to);
                if let Some(soon) = edge.soon {
                    view.prefetch_sim_host(soon);
                    prefetch_sim_host(&distances[soon as usize]);
                }
                if V::POINTERS {
                    queue.reload(on, site(20), word::INDEX);
                }
                let target = view.target(on, site(9), at, k, edges);
                view.weight(on, site(10), at, k, edges);
                let to = view.vertex(on, site(11), v, target);
                on.work(1);
                let known = view.get(on, site(12), to, DISTANCE);
                // 32 bits reach over 16 million edges of the greatest weight.
                let through = distance.saturating_add(weight_of(u, v) as u32).min(u32::MAX - 1);
                let shorter = through < distances[v as usize];
                on.branch(site(13), site(17), !shorter, known);
                if shorter {
                    distances[v as usize] = through;
                    queue.reload(on, site(21), word::LOCAL);
                    view.set(on, site(14), to, DISTANCE);
                    on.work(1);
                    view.set(on, site(15), to, PARENT);
                    if V::POINTERS {
                        view.target(on, site(22), at, k, edges);
                        on.store(site(23), frame.at(word::ENTRY), 16, Value::NONE);
                        queue.push(on, (through, v));
                        on.work(1);
                    } else {
                        // Two halves of the entry, and three registers that the call would overwrite.
                        queue.reload(on, site(24), word::LOCAL + 1);
                        queue.spill(on, site(25), word::ENTRY);
                        queue.spill(on, site(26), word::ENTRY + 1);
                        queue.spill(on, site(27), word::LOCAL + 2);
                        queue.spill(on, site(28), word::LOCAL + 3);
                        queue.push(on, (through, v));
                        queue.reload(on, site(29), word::LOCAL + 2);
                        queue.reload(on, site(30), word::LOCAL + 3);
                    }
                }
                view.next_edge(on, site(17), site(9), !edge.last, edges);
            }
        }
    }
    distances
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
                    assert_eq!(u64::from(distances[node.index()]), distance, "from {root}");
                }
            }
            assert!((0..n).all(|u| (distances[u as usize] == u32::MAX) == (graph.degree(u) == 0)));
        });
    }
}
