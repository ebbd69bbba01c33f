//! Degree centrality: counts the edges that leave and enter each vertex.
//!
//! ```text
//! vertex  mov (index),object; mov end; mov begin; mov; sub; sar; imul; mov out-degree,(object); cmp; je;
//!         add; cmp; jne
//! edge    mov (edge),target; add; mov (index,target),object; addq $1,in-degree(object); cmp; jne
//! ```

use super::{Algorithm, How, ProgramInfo, parallel, site};
use crate::benchmarks::execution::Execution;
use crate::graph::{Graph, View};
use ambulator_base::prefetch_sim_host;

/// Degree centrality.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dc;

const OUT: usize = 0;
const IN: usize = 1;

impl Algorithm for Dc {
    const INFO: ProgramInfo = ProgramInfo {
        name: "dc",
        about: "degree centrality: edges in and out of each vertex, counted",
        stands_for: "GraphBIG DC: increments at random vertices",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 2;
    const ARRAYS: u64 = 0;
    const SIM_HOST_BYTES: u64 = 4;
    /// In-degree of each vertex; the out-degree is in the graph.
    type Output = Vec<u32>;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Vec<u32> {
        let mut degrees = vec![0; graph.vertices() as usize];
        on.begin_region();
        parallel(on, how.threads, graph.vertices(), |on, u| {
            let at = view.next_vertex(on, site(0), u as u32);
            let edges = view.edges(on, site(1), at);
            on.work(4);
            view.set(on, site(2), at, OUT);
            on.work(2);
            for edge in graph.edges_of(u as u32) {
                let (k, v) = (edge.k, edge.to);
                if let Some(soon) = edge.soon {
                    view.prefetch_sim_host(soon);
                    prefetch_sim_host(&degrees[soon as usize]);
                }
                let target = view.target(on, site(3), at, k, edges);
                let to = view.vertex(on, site(4), v, target);
                on.work(1);
                view.add(on, site(5), to, IN);
                on.work(1);
                on.branch(site(6), site(3), !edge.last, edges);
                degrees[v as usize] += 1;
            }
            on.work(3);
        });
        degrees
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{accesses, on_small_graphs};
    use super::*;

    #[test]
    fn degrees_are_right_and_every_edge_is_an_update() {
        on_small_graphs::<Dc>(|graph, degrees, batches| {
            let mut entering = vec![0u32; degrees.len()];
            (0..degrees.len() as u32).flat_map(|u| graph.edges_of(u)).for_each(|e| entering[e.to as usize] += 1);
            assert_eq!(degrees, entering);
            // Undirected: as many come in as go out.
            assert!((0..degrees.len()).all(|u| degrees[u] == graph.degree(u as u32)));
            let edges = graph.edges();
            // Eight in linked lists: the next edge, its target, four loads of the table of vertices, and the update.
            assert!((3 * edges..8 * edges + 5 * graph.vertices()).contains(&accesses(batches)));
        });
    }
}
