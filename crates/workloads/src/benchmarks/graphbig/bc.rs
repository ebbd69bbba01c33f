//! Betweenness centrality after Brandes: from each of some roots, a breadth-first search that counts shortest
//! paths, then the dependencies back from the last vertex to the first.
//!
//! ```text
//! forward   add; mov (queue),number; mov (index,number),object; mov begin; mov end; cmp; je; mov level; lea
//!   edge    mov (edge),target; mov (index,target),object; mov level(object); test; jne; cmp; jne; add;
//!           cmp; jne
//!   found   mov level(object); mov target,(queue); mov; add; mov; lea
//!   path    movsd paths(object); addsd paths(own); movsd
//! backward  sub; mov (queue),number; mov (index,number),object; mov begin; mov end; cmp; je; mov level;
//!           pxor; lea
//!   edge    mov (edge),target; mov (index,target),object; cmp level(object); jne; add; cmp; jne
//!   below   movsd share(object); movsd paths(own); divsd paths(object); addsd; mulsd; addsd
//!   done    movsd centrality; addsd; unpcklpd; movups; test; jne
//! ```

use super::{Algorithm, How, ProgramInfo, parallel, roots, site};
use crate::benchmarks::execution::{Execution, Value};
use crate::graph::{Graph, View};
use ambulator_base::prefetch_sim_host;

/// Betweenness centrality.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bc;

const LEVEL: usize = 0;
const PATHS: usize = 1;
const SHARE: usize = 2;
const CENTRALITY: usize = 3;

/// Roots from which paths are counted. All vertices would take days; GAP uses a few as well.
const ROOTS: usize = 16;

impl Algorithm for Bc {
    const INFO: ProgramInfo = ProgramInfo {
        name: "bc",
        about: "betweenness centrality: shortest paths counted forward and shared out backward from 16 roots",
        stands_for: "GraphBIG and GAP BC (Brandes): two traversals for each root",
        default_footprint: 1 << 30,
    };
    const FIELDS: usize = 4;
    const ARRAYS: u64 = 8;
    const SIM_HOST_BYTES: u64 = 32;
    /// The centrality of each vertex: the sum over the roots.
    type Output = Vec<f64>;

    fn run(graph: &Graph, view: &impl View, how: &How, on: &mut Execution) -> Vec<f64> {
        let n = graph.vertices();
        let queue = on.filled_array(8, n);
        let mut centrality = vec![0.0; n as usize];
        let (mut levels, mut paths, mut shares) =
            (vec![0u32; n as usize], vec![0.0; n as usize], vec![0.0; n as usize]);
        let mut queued: Vec<u32> = Vec::with_capacity(n as usize);
        on.begin_region();
        for (search, root) in roots(graph, how.seed).take(ROOTS).enumerate() {
            levels.fill(0);
            paths.fill(0.0);
            queued.clear();
            // Levels and paths of the last search are reset; set-up has done so for the first.
            if search > 0 {
                parallel(on, how.threads, n, |on, u| {
                    let at = view.next_vertex(on, site(0), u as u32);
                    view.set(on, site(1), at, LEVEL);
                    view.set(on, site(2), at, PATHS);
                    on.work(3);
                });
            }
            let at = view.vertex(on, site(3), root, Value::NONE);
            view.set(on, site(4), at, LEVEL);
            view.set(on, site(5), at, PATHS);
            on.store(site(6), queue.at(0), 8, Value::NONE);
            (levels[root as usize], paths[root as usize]) = (1, 1.0);
            queued.push(root);
            let mut starts = vec![0];
            let mut head = 0;
            while head < queued.len() {
                let level = head..queued.len();
                head = level.end;
                starts.push(head);
                parallel(on, how.threads, level.len() as u64, |on, i| {
                    let place = level.start + i as usize;
                    let u = queued[place] as usize;
                    on.work(1);
                    let number = on.load(site(7), queue.at(place as u64), 8, Value::NONE);
                    let at = view.vertex(on, site(8), u as u32, number);
                    let edges = view.edges(on, site(9), at);
                    on.work(2);
                    view.get(on, site(10), at, LEVEL);
                    on.work(1);
                    for edge in graph.edges_of(u as u32) {
                        let (k, v) = (edge.k, edge.to);
                        if let Some(soon) = edge.soon {
                            view.prefetch_sim_host(soon);
                            prefetch_sim_host(&levels[soon as usize]);
                        }
                        let target = view.target(on, site(11), at, k, edges);
                        let to = view.vertex(on, site(12), v, target);
                        let seen = view.get(on, site(13), to, LEVEL);
                        on.work(1);
                        let found = levels[v as usize] == 0;
                        on.branch(site(14), site(17), !found, seen);
                        if found {
                            levels[v as usize] = levels[u] + 1;
                            view.set(on, site(15), to, LEVEL);
                            on.store(site(16), queue.at(queued.len() as u64), 8, Value::NONE);
                            queued.push(v);
                            on.work(4);
                        }
                        on.work(1);
                        let below = levels[v as usize] == levels[u] + 1;
                        on.branch(site(17), site(20), !below, seen);
                        if below {
                            paths[v as usize] += paths[u];
                            view.get(on, site(18), to, PATHS);
                            view.get(on, site(19), at, PATHS);
                            view.set(on, site(21), to, PATHS);
                        }
                        view.next_edge(on, site(37), site(11), !edge.last, edges);
                    }
                    on.work(2);
                });
            }
            for level in starts.windows(2).rev() {
                let level = level[0]..level[1];
                parallel(on, how.threads, level.len() as u64, |on, i| {
                    let place = level.end - 1 - i as usize;
                    let u = queued[place] as usize;
                    on.work(1);
                    let number = on.load(site(22), queue.at(place as u64), 8, Value::NONE);
                    let at = view.vertex(on, site(23), u as u32, number);
                    let edges = view.edges(on, site(24), at);
                    on.work(2);
                    view.get(on, site(25), at, LEVEL);
                    on.work(2);
                    let mut share = 0.0;
                    for edge in graph.edges_of(u as u32) {
                        let (k, v) = (edge.k, edge.to);
                        if let Some(soon) = edge.soon {
                            view.prefetch_sim_host(soon);
                            prefetch_sim_host(&levels[soon as usize]);
                        }
                        let target = view.target(on, site(26), at, k, edges);
                        let to = view.vertex(on, site(27), v, target);
                        let seen = view.get(on, site(28), to, LEVEL);
                        let below = levels[v as usize] == levels[u] + 1;
                        on.branch(site(29), site(33), !below, seen);
                        if below {
                            share += paths[u] / paths[v as usize] * (1.0 + shares[v as usize]);
                            view.get(on, site(30), to, SHARE);
                            view.get(on, site(31), at, PATHS);
                            view.get(on, site(32), to, PATHS);
                            on.work(3);
                        }
                        view.next_edge(on, site(38), site(26), !edge.last, edges);
                    }
                    shares[u] = share;
                    view.get(on, site(34), at, CENTRALITY);
                    on.work(2);
                    view.set(on, site(35), at, SHARE);
                    view.set(on, site(36), at, CENTRALITY);
                    on.work(2);
                    if u != root as usize {
                        centrality[u] += share;
                    }
                });
            }
        }
        centrality
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::on_small_graphs;
    use super::*;

    /// By the definition: for each root and target, the share of shortest paths through each vertex.
    fn by_definition(graph: &Graph, roots: &[u32]) -> Vec<f64> {
        let n = graph.vertices() as usize;
        let search = |from: u32| {
            let (mut distance, mut paths) = (vec![u32::MAX; n], vec![0.0f64; n]);
            (distance[from as usize], paths[from as usize]) = (0, 1.0);
            let mut level = vec![from];
            while !level.is_empty() {
                let mut next = Vec::new();
                for &u in &level {
                    for &v in graph.neighbours_of(u) {
                        if distance[v as usize] == u32::MAX {
                            distance[v as usize] = distance[u as usize] + 1;
                            next.push(v);
                        }
                        if distance[v as usize] == distance[u as usize] + 1 {
                            paths[v as usize] += paths[u as usize];
                        }
                    }
                }
                level = next;
            }
            (distance, paths)
        };
        let from: Vec<_> = (0..n as u32).map(search).collect();
        let mut centrality = vec![0.0; n];
        for &root in roots {
            let (distance, paths) = &from[root as usize];
            for target in (0..n).filter(|t| distance[*t] != u32::MAX && *t != root as usize) {
                let (back, from_target) = &from[target];
                for via in (0..n).filter(|v| *v != root as usize && *v != target) {
                    if distance[via] != u32::MAX && distance[via] + back[via] == distance[target] {
                        centrality[via] += paths[via] * from_target[via] / paths[target];
                    }
                }
            }
        }
        centrality
    }

    #[test]
    fn centrality_is_that_of_the_definition() {
        let mut known = Vec::new();
        on_small_graphs::<Bc>(|graph, centrality, _| {
            if graph.vertices() > 300 {
                return;
            }
            let rows: Vec<Vec<u32>> = (0..graph.vertices() as u32).map(|u| graph.neighbours_of(u).to_vec()).collect();
            if !known.iter().any(|(same, _): &(Vec<Vec<u32>>, Vec<f64>)| *same == rows) {
                let seed = if graph.vertices() <= 60 { 1 } else { 2 };
                let roots: Vec<u32> = roots(graph, seed).take(ROOTS).collect();
                known.push((rows.clone(), by_definition(graph, &roots)));
            }
            let (_, expected) = known.iter().find(|(same, _)| *same == rows).unwrap();
            for (ours, theirs) in centrality.iter().zip(expected) {
                assert!((ours - theirs).abs() < 1e-6 * (1.0 + theirs), "{ours} and {theirs}");
            }
        });
    }
}
