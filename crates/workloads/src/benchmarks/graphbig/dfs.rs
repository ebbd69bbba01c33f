//! Depth-first search with an explicit stack, from new roots until every vertex with edges has a number.
//!
//! ```text
//! pop    sub; mov (stack),number; mov (index,number),object; cmpq $0,order(object); jne; add; mov begin;
//!        mov end; mov order
//! edge   mov (edge),target; sub; mov (index,target),object; cmpq $0,order(object); jne; cmp; je
//! push   mov target,(stack); add
//! ```

use super::{Algorithm, How, ProgramInfo, roots, site};
use crate::benchmarks::execution::{Execution, Value};
use crate::graph::{Graph, View};

/// Depth-first search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dfs;

const ORDER: usize = 0;

impl Algorithm for Dfs {
    const INFO: ProgramInfo = ProgramInfo {
        name: "dfs",
        about: "depth-first search with an explicit stack, from root to root until all is visited",
        stands_for: "GraphBIG DFS: graph traversal without a frontier; one thread",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 1;
    /// The stack holds an unvisited vertex once for each edge to it seen so far; its mapping is touched as
    /// far as it grows.
    const ARRAYS: u64 = 8;
    const SIM_HOST_BYTES: u64 = 8;
    /// The number of each vertex in the order of visits, from 1; 0 for those without edges.
    type Output = Vec<u32>;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Vec<u32> {
        let n = graph.vertices();
        // Room for every stored edge; only a small part is used, which is known only at the end.
        let stack = on.array(8, graph.edges() + n);
        on.event(crate::layout::Array { len: n, ..stack }.touch(true));
        let mut order = vec![0; n as usize];
        let mut count = 0;
        on.begin_region();
        let mut pending: Vec<u32> = Vec::new();
        for root in roots(graph, how.seed) {
            let at = view.vertex(on, site(0), root, Value::NONE);
            let seen = view.get(on, site(1), at, ORDER);
            on.branch(site(2), site(20), order[root as usize] != 0, seen);
            on.work(3);
            if order[root as usize] != 0 {
                continue;
            }
            on.store(site(3), stack.at(0), 8, Value::NONE);
            pending.push(root);
            while let Some(u) = pending.pop() {
                on.work(1);
                let number = on.load(site(4), stack.at(pending.len() as u64), 8, Value::NONE);
                let at = view.vertex(on, site(5), u, number);
                let seen = view.get(on, site(6), at, ORDER);
                on.branch(site(7), site(18), order[u as usize] != 0, seen);
                if order[u as usize] != 0 {
                    on.work(2);
                    continue;
                }
                count += 1;
                order[u as usize] = count;
                on.work(1);
                let edges = view.edges(on, site(8), at);
                view.set(on, site(10), at, ORDER);
                on.work(2);
                for k in (0..u64::from(graph.degree(u))).rev() {
                    let v = graph.neighbour(u, k);
                    let target = view.target(on, site(11), at, k, edges);
                    on.work(1);
                    let to = view.vertex(on, site(12), v, target);
                    let seen = view.get(on, site(13), to, ORDER);
                    on.branch(site(14), site(17), order[v as usize] != 0, seen);
                    if order[v as usize] == 0 {
                        on.store(site(15), stack.at(pending.len() as u64), 8, Value::NONE);
                        pending.push(v);
                        on.work(1);
                    }
                    on.work(1);
                    on.branch(site(16), site(17), k == 0, edges);
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::on_small_graphs;
    use super::*;

    #[test]
    fn the_order_is_one_of_a_depth_first_search() {
        on_small_graphs::<Dfs>(|graph, order, _| {
            let n = order.len();
            let mut by_number = vec![u32::MAX; n + 1];
            for (u, &number) in order.iter().enumerate() {
                assert_eq!(number == 0, graph.degree(u as u32) == 0);
                if number > 0 {
                    assert_eq!(by_number[number as usize], u32::MAX, "numbers are given once");
                    by_number[number as usize] = u as u32;
                }
            }
            // A recursive search visits vertices in this order: the next one is an unvisited neighbour of the
            // deepest vertex on the path that still has one, or a new root if none has.
            let unvisited = |u: u32, number: u32| graph.neighbours_of(u).iter().any(|v| order[*v as usize] >= number);
            let mut path: Vec<u32> = Vec::new();
            for number in 1.. {
                let Some(&u) = by_number.get(number as usize).filter(|u| **u != u32::MAX) else { break };
                while path.last().is_some_and(|&last| !unvisited(last, number)) {
                    path.pop();
                }
                if let Some(&last) = path.last() {
                    assert!(graph.neighbours_of(last).contains(&u), "{u} is not a neighbour of {last}");
                }
                path.push(u);
            }
        });
    }
}
