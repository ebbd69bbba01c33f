//! The walk along a vertex's stored edges, common to BFS and PageRank: how many fit the batch, and the loads
//! on which the records of an edge depend.

use super::{Out, distance};
use crate::graph::Graph;

/// The stored edge being visited.
#[derive(Clone, Copy)]
pub(crate) struct StoredEdge {
    /// Its number among all stored edges.
    pub index: u64,
    /// Its number among the edges of its vertex.
    pub k: u64,
    /// Its target.
    pub to: u32,
    /// Distance in records from the edge's first one back to the load of the pointer to the vertex's first
    /// edge.
    pub edges_from: u16,
    /// Distance in records from the edge's first one back to that of the edge before it; that to the pointer
    /// for the first edge.
    pub previous_from: u16,
}

impl StoredEdge {
    /// Distance in records from the edge's first one back to the load that says where the edge is: of the
    /// edge before it in a linked list, of the pointer to the first edge otherwise.
    #[inline(always)]
    pub(crate) fn pointer_from(&self, is_linked: bool) -> u16 {
        if is_linked { self.previous_from } else { self.edges_from }
    }
}

/// Records since the loads of the current vertex's object and of its first edge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeWalk {
    object_from: u32,
    edges_from: u32,
    /// Records of the last edge visited; 0 before the first.
    last: u32,
}

impl EdgeWalk {
    /// Starts a walk, given the distances in records from the next one back to the loads of the vertex's
    /// object and of its first edge.
    pub(crate) fn new((object_from, edges_from): (u32, u32)) -> EdgeWalk {
        EdgeWalk { object_from, edges_from, last: 0 }
    }

    /// Visits the edges of `u` from stored edge `from` on, as far as the batch has room for `most` records of
    /// each. `prefetch` receives upcoming vertices, as a hint to the sim host. Returns where it stopped, and
    /// whether that is the last edge's end.
    #[inline(always)]
    pub(crate) fn go(
        &mut self,
        (graph, u): (&Graph, u32),
        from: u64,
        most: usize,
        out: &mut Out<'_>,
        prefetch: impl Fn(u32),
        mut visit: impl FnMut(StoredEdge, &mut Out<'_>),
    ) -> (u64, bool) {
        let (first, end) = (u64::from(graph.offsets[u as usize]), u64::from(graph.offsets[u as usize + 1]));
        let stop = end.min(from + out.room(most));
        let before = out.records.len();
        for index in from..stop {
            let k = index - first;
            let to = graph.neighbours[index as usize];
            graph.look_ahead(u, k, &prefetch);
            let edges_from = distance(self.edges_from + (out.records.len() - before) as u32);
            let previous_from = if self.last == 0 { edges_from } else { distance(self.last) };
            let at = out.records.len();
            visit(StoredEdge { index, k, to, edges_from, previous_from }, out);
            self.last = (out.records.len() - at) as u32;
        }
        let made = (out.records.len() - before) as u32;
        self.edges_from += made;
        self.object_from += made;
        (stop, stop == end)
    }

    /// Distance in records from the next one back to the load of the vertex's object.
    #[inline(always)]
    pub(crate) fn object_from(&self) -> u16 {
        distance(self.object_from)
    }
}
