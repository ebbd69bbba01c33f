//! The walk along a vertex's stored edges that BFS and PageRank share: how far the batch has room, and which loads the
//! records of an edge depend on.

use super::{Out, distance};
use crate::graph::Graph;

/// A stored edge that is looked at.
#[derive(Clone, Copy)]
pub(crate) struct StoredEdge {
    /// Its number among all stored edges.
    pub index: u64,
    /// Its number among the edges of its vertex.
    pub k: u64,
    /// Where it leads.
    pub to: u32,
    /// How many records before the edge's first one the load was made that names the vertex's first edge.
    pub edges_from: u16,
}

/// Records since the loads of the current vertex's object and of its first edge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeWalk {
    object_from: u32,
    edges_from: u32,
}

impl EdgeWalk {
    /// A walk that begins: how many records ago, from the next record on, the vertex's object and its first edge were named.
    pub(crate) fn new((object_from, edges_from): (u32, u32)) -> EdgeWalk {
        EdgeWalk { object_from, edges_from }
    }

    /// Visits the edges of `u` from stored edge `from` on, as far as the batch has room for `most` records of each. `soon`
    /// is given vertices that will be visited soon, as a hint to the host. Returns where it stopped, and whether that is
    /// the last edge's end.
    #[inline(always)]
    pub(crate) fn go(
        &mut self,
        (graph, u): (&Graph, u32),
        from: u64,
        most: usize,
        out: &mut Out<'_>,
        soon: impl Fn(u32),
        mut visit: impl FnMut(StoredEdge, &mut Out<'_>),
    ) -> (u64, bool) {
        let (first, end) = (u64::from(graph.offsets[u as usize]), u64::from(graph.offsets[u as usize + 1]));
        let stop = end.min(from + out.room(most));
        let before = out.records.len();
        for index in from..stop {
            let k = index - first;
            let to = graph.neighbours[index as usize];
            graph.look_ahead(u, k, &soon);
            let edges_from = distance(self.edges_from + (out.records.len() - before) as u32);
            visit(StoredEdge { index, k, to, edges_from }, out);
        }
        let made = (out.records.len() - before) as u32;
        self.edges_from += made;
        self.object_from += made;
        (stop, stop == end)
    }

    /// How many records before the next one the vertex's object was named.
    #[inline(always)]
    pub(crate) fn object_from(&self) -> u16 {
        distance(self.object_from)
    }
}
