//! Graph colouring after Jones and Plassmann: in each round every uncoloured vertex whose random number is
//! the greatest among its uncoloured neighbours takes the round's colour.
//!
//! ```text
//! vertex  mov (index),object; cmpq $0,colour(object); jne; mov begin; mov end; cmp; je; add; cmp; je
//! edge    mov (edge),target; mov (index,target),object; mov colour(object); cmp; je; test; jne;
//!         mov number(object); cmp number(own); jb; add; cmp; jne
//! taken   mov round,colour(object); add
//! ```

use super::{Algorithm, How, ProgramInfo, parallel, site};
use crate::benchmarks::execution::Execution;
use crate::graph::{Graph, View};
use ambulator_base::mix64;
use ambulator_base::prefetch_sim_host;

/// Graph colouring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gc;

const COLOUR: usize = 0;
const NUMBER: usize = 1;

impl Algorithm for Gc {
    const INFO: ProgramInfo = ProgramInfo {
        name: "gc",
        about: "graph colouring in rounds: local maxima of random numbers take the round's colour",
        stands_for: "GraphBIG GC (Jones and Plassmann): rounds over all vertices with early exits",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 2;
    const ARRAYS: u64 = 0;
    const SIM_HOST_BYTES: u64 = 4;
    /// The colour of each vertex, from 1.
    type Output = Vec<u32>;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Vec<u32> {
        let n = graph.vertices();
        let seed = how.seed;
        // Ties are broken by the vertex.
        let number = |u: u32| (mix64(u64::from(u) ^ seed.rotate_left(32)), u);
        let mut colours = vec![0; n as usize];
        on.begin_region();
        let mut round = 0;
        loop {
            round += 1;
            let mut uncoloured = 0u64;
            parallel(on, how.threads, n, |on, u| {
                let u = u as u32;
                let at = view.next_vertex(on, site(0), u);
                let colour = view.get(on, site(1), at, COLOUR);
                on.branch(site(2), site(20), colours[u as usize] != 0, colour);
                on.work(3);
                if colours[u as usize] != 0 {
                    return;
                }
                let edges = view.edges(on, site(3), at);
                on.work(2);
                let own = view.get(on, site(4), at, NUMBER);
                let mut greatest = true;
                for edge in graph.edges_of(u) {
                    let (k, v) = (edge.k, edge.to);
                    if let Some(soon) = edge.soon {
                        view.prefetch_sim_host(soon);
                        prefetch_sim_host(&colours[soon as usize]);
                    }
                    let target = view.target(on, site(5), at, k, edges);
                    let to = view.vertex(on, site(6), v, target);
                    let colour = view.get(on, site(7), to, COLOUR);
                    on.work(1);
                    let counts = colours[v as usize] == 0 || colours[v as usize] == round;
                    on.branch(site(8), site(14), !counts, colour);
                    on.work(1);
                    if counts && v != u {
                        let theirs = view.get(on, site(9), to, NUMBER);
                        on.work(1);
                        greatest = number(v) < number(u);
                        on.branch(site(10), site(16), !greatest, if greatest { own } else { theirs });
                        if !greatest {
                            break;
                        }
                    }
                    view.next_edge(on, site(15), site(5), !edge.last, edges);
                }
                if greatest {
                    view.set(on, site(17), at, COLOUR);
                    on.work(1);
                    colours[u as usize] = round;
                } else {
                    uncoloured += 1;
                }
            });
            if uncoloured == 0 {
                return colours;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{accesses, on_small_graphs};
    use super::*;

    #[test]
    fn no_neighbours_share_a_colour_and_colours_are_few() {
        on_small_graphs::<Gc>(|graph, colours, batches| {
            for u in 0..colours.len() as u32 {
                assert!(colours[u as usize] > 0);
                for &v in graph.neighbours_of(u) {
                    assert!(u == v || colours[u as usize] != colours[v as usize], "{u} and {v}");
                }
            }
            let most = colours.iter().max().unwrap();
            let degree = (0..colours.len() as u32).map(|u| graph.degree(u)).max().unwrap();
            assert!(*most <= degree + 1);
            assert!(accesses(batches) >= 2 * graph.vertices());
        });
    }
}
