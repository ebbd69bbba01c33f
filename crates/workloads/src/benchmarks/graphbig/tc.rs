//! Triangle count: for each edge `u` < `v`, the common neighbours above `v` of the two ascending lists.
//!
//! ```text
//! edge   mov (edge),target; cmp; jae; mov (index,target),object; mov begin; mov end
//! merge  mov (a); mov (b); cmp; jb; add; cmp; jb; cmp; adc; add; cmp; je; cmp; jne
//! ```

use super::{Algorithm, How, ProgramInfo, parallel, site};
use crate::benchmarks::execution::Execution;
use crate::graph::{Graph, View};

/// Triangle count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tc;

const COUNT: usize = 0;

impl Algorithm for Tc {
    const INFO: ProgramInfo = ProgramInfo {
        name: "tc",
        about: "triangle count, by merging ascending lists of neighbours",
        stands_for: "GraphBIG and GAP TC: set intersections, mostly in order",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 1;
    const ARRAYS: u64 = 0;
    const SIM_HOST_BYTES: u64 = 0;
    const SORTED: bool = true;
    /// Triangles.
    type Output = u64;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> u64 {
        let mut triangles = 0;
        on.begin_region();
        parallel(on, how.threads, graph.vertices(), |on, u| {
            let u = u as u32;
            let own = graph.neighbours_of(u);
            let at = view.next_vertex(on, site(0), u);
            let edges = view.edges(on, site(1), at);
            on.work(4);
            let mut before = u;
            for (k, &v) in own.iter().enumerate() {
                let target = view.target(on, site(2), at, k as u64, edges);
                on.work(1);
                // Below it, itself, and the second of parallel edges.
                let skip = v <= u || v == before;
                on.branch(site(3), site(20), skip, target);
                on.work(2);
                if skip {
                    continue;
                }
                before = v;
                let to = view.vertex(on, site(4), v, target);
                let their_edges = view.edges(on, site(5), to);
                let theirs = graph.neighbours_of(v);
                let (mut i, mut j, mut found, mut last) = (k, 0, 0, v);
                while i < own.len() && j < theirs.len() {
                    let a = view.target(on, site(6), at, i as u64, edges);
                    let b = view.target(on, site(7), to, j as u64, their_edges);
                    on.work(1);
                    let (x, y) = (own[i], theirs[j]);
                    on.branch(site(8), site(12), x < y, a);
                    if x < y {
                        i += 1;
                    } else {
                        on.work(2);
                        on.branch(site(9), site(13), y < x, b);
                        j += 1;
                        if x == y {
                            on.work(2);
                            // A common neighbour above both, once.
                            if x > last {
                                found += 1;
                                last = x;
                            }
                            i += 1;
                        }
                    }
                    // add; cmp; je; cmp; jne
                    on.work(2);
                    on.branch(site(10), site(14), i == own.len(), edges);
                    if i < own.len() {
                        on.work(1);
                        on.branch(site(11), site(6), j < theirs.len(), their_edges);
                    }
                }
                triangles += found;
            }
            view.add(on, site(15), at, COUNT);
            on.work(3);
        });
        triangles
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{on_small_graphs, taken};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn triangles_are_those_of_the_definition() {
        let mut most = 0;
        on_small_graphs::<Tc>(|graph, triangles, batches| {
            let n = graph.vertices() as u32;
            let sets: Vec<BTreeSet<u32>> = (0..n).map(|u| graph.neighbours_of(u).iter().copied().collect()).collect();
            let mut expected = 0;
            for u in 0..n {
                for &v in sets[u as usize].range(u + 1..) {
                    expected += sets[v as usize].range(v + 1..).filter(|w| sets[u as usize].contains(w)).count() as u64;
                }
            }
            assert_eq!(triangles, expected);
            most = most.max(expected);
            assert!(taken(batches) > 0);
        });
        assert!(most > 100, "some graph has triangles");
    }
}
