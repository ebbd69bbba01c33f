//! The walk along a vertex's stored edges, common to BFS and PageRank: how many fit the batch, and the loads
//! on which the records of an edge depend.

use super::{Out, branch, distance, load};
use crate::graph::{Action, Graph, LOOK_UP, Operand, PropertyGraph, Storage};
use ambulator_base::VirtAddr;

/// The stored edge being visited.
#[derive(Clone, Copy)]
pub(crate) struct StoredEdge {
    /// Its number among all stored edges.
    pub index: u64,
    /// Its number among the edges of its vertex.
    pub k: u64,
    /// Its target.
    pub to: u32,
    /// It is the last edge of its vertex.
    pub last: bool,
    /// Distance in records from the edge's first one back to the load of the pointer to the vertex's first
    /// edge.
    pub begin_from: u16,
    /// Distance in records from the edge's first one back to the load of the pointer to the end of the
    /// vertex's edges.
    pub end_from: u16,
}

impl StoredEdge {
    /// Distance in records from the edge's first one back to the load that says where the edge is: of the
    /// pointer to the next one in a linked list, which is the last record but one of the edge before
    /// ([`StoredEdge::end`]), of the pointer to the first edge otherwise.
    #[inline(always)]
    pub(crate) fn pointer_from(&self, is_linked: bool) -> u16 {
        if is_linked && self.k > 0 { 2 } else { self.begin_from }
    }

    /// Ends the loop over a vertex's edges at `pc`, `records` after the edge's first record: the next edge begins at
    /// `again`. The branch compares the running pointer with the end, which took two instructions before it; in a
    /// linked list, whose pointer to the next edge is at `next`, it compares that one with the list's head.
    #[inline(always)]
    pub(crate) fn end(&self, (pc, again): (u64, u64), records: u16, next: Option<VirtAddr>, out: &mut Out<'_>) {
        // Without overflow: a distance too long to be counted is none.
        let after = |from: u16| if from == 0 { 0 } else { from.checked_add(records).unwrap_or(0) };
        match next {
            None => {
                out.push(branch(pc, again, !self.last, [after(self.end_from), after(self.begin_from)]), 0);
            }
            Some(next) => {
                // mov (node),%node; cmp
                out.push(load(pc, next, 8, 0, after(self.pointer_from(true))), 1);
                out.push(branch(pc + 4, again, !self.last, [1, 0]), 0);
            }
        }
    }
}

/// The most records of [`find`].
pub(crate) const MOST_TO_FIND: usize = LOOK_UP;

/// Finds the object of vertex `u` by its number, which a load `from` records before gave: the last record loads the
/// pointer to it. Returns how many records it took.
#[inline(always)]
pub(crate) fn find(graph: &PropertyGraph, pc: u64, u: u32, from: u16, out: &mut Out<'_>) -> u16 {
    let table = match graph.storage() {
        Storage::Vectors { index, .. } => {
            out.push(load(pc, index.at(u64::from(u)), 8, 0, from), 0);
            return 1;
        }
        Storage::Lists { table, .. } => table,
    };
    for (i, record) in table.look_up(pc, u).into_iter().enumerate() {
        let [dep1, dep2] = record.from.map(|operand| match operand {
            Operand::None => 0,
            Operand::Sought if from == 0 => 0,
            Operand::Sought => from.checked_add(i as u16).unwrap_or(0),
            Operand::Record(of) => (i - of) as u16,
        });
        out.gap += record.before;
        let record = match record.action {
            Action::Load(va) => load(record.pc, va, 8, 0, dep1),
            Action::Branch { target, taken } => branch(record.pc, target, taken, [dep1, dep2]),
        };
        out.push(record, 0);
    }
    LOOK_UP as u16
}

/// Distances in records from the next one back to the loads by which a vertex's edges were found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgesFrom {
    /// Of the pointer to the vertex's object, or whatever stands for it.
    pub object: u32,
    /// Of the pointer to its first edge.
    pub begin: u32,
    /// Of the pointer to their end.
    pub end: u32,
}

/// Records since the loads by which the current vertex's edges were found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EdgeWalk {
    from: EdgesFrom,
}

impl EdgeWalk {
    /// Starts a walk along edges that were found by the loads `from`.
    pub(crate) fn new(from: EdgesFrom) -> EdgeWalk {
        EdgeWalk { from }
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
        let (first, end) = graph.ends(u);
        let stop = end.min(from + out.room(most));
        let before = out.records.len();
        for edge in graph.edges_within((first, end), from, stop) {
            if let Some(soon) = edge.soon {
                prefetch(soon);
            }
            let (index, k, to, last) = (first + edge.k, edge.k, edge.to, edge.last);
            let made = (out.records.len() - before) as u32;
            let (begin_from, end_from) = (distance(self.from.begin + made), distance(self.from.end + made));
            visit(StoredEdge { index, k, to, last, begin_from, end_from }, out);
        }
        let made = (out.records.len() - before) as u32;
        self.from.object += made;
        self.from.begin += made;
        self.from.end += made;
        (stop, stop == end)
    }

    /// Distance in records from the next one back to the load of the vertex's object.
    #[inline(always)]
    pub(crate) fn object_from(&self) -> u16 {
        distance(self.from.object)
    }
}
