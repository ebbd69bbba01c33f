//! The memory accesses of a graph algorithm's steps, by layout: algorithms are written once over this.
//!
//! In the property layout (GraphBIG's) a vertex is named by its number, found through the index of pointers,
//! and carries its properties and the ends of its edge vector in its object; an edge's target is a number
//! again. In compressed sparse rows the number indexes offsets, neighbours and one array for each property.
//! Sites are code addresses: a step with two loads uses the site and the one four bytes later.

use super::linked::EdgeNodes;
use super::vertex_table::{Action, LOOK_UP, Operand};
use super::{Graph, PropertyGraph, Storage, vertex_field};
use crate::benchmarks::execution::{Execution, Value};
use crate::layout::Array;
use ambulator_base::prefetch_sim_host;
use std::cell::Cell;

/// The current vertex of a step.
#[derive(Clone, Copy)]
pub struct At {
    /// Its number.
    pub u: u32,
    /// The load from which its properties' addresses are computed.
    object: Value,
}

/// A graph in the address space.
pub trait View: Send {
    /// Finds vertex `u`, whose number is `from`.
    fn vertex(&self, on: &mut Execution, site: u64, u: u32, from: Value) -> At;
    /// Goes on to vertex `u` from the one before it, in a loop over all vertices.
    fn next_vertex(&self, on: &mut Execution, site: u64, u: u32) -> At {
        self.vertex(on, site, u, Value::NONE)
    }
    /// Loads the begin and end of its edges; two sites.
    fn edges(&self, on: &mut Execution, site: u64, at: At) -> Value;
    /// The target of its edge `k`.
    fn target(&self, on: &mut Execution, site: u64, at: At, k: u64, edges: Value) -> Value;
    /// The weight of its edge `k`.
    fn weight(&self, on: &mut Execution, site: u64, at: At, k: u64, edges: Value) -> Value;
    /// Loads a property.
    fn get(&self, on: &mut Execution, site: u64, at: At, field: usize) -> Value;
    /// Stores a property.
    fn set(&self, on: &mut Execution, site: u64, at: At, field: usize);
    /// Adds to a property in one instruction.
    fn add(&self, on: &mut Execution, site: u64, at: At, field: usize);
    /// Vertices are found through pointers that the compiler reads again where others may have been written.
    const POINTERS: bool = false;
    /// Whether the edges are linked lists: GraphBIG's own storage, which is compiled with -O3.
    fn is_linked(&self) -> bool {
        false
    }
    /// Goes on at `next` if the vertex has no object, as one without edges may have none. Returns whether it
    /// has one.
    fn present(&self, _on: &mut Execution, _site: u64, _next: u64, _at: At) -> bool {
        true
    }
    /// Ends the loop over a vertex's edges (add; cmp; jne) after the one of which the target was loaded last: `more`
    /// are left, and the next one begins at `again`; two sites.
    fn next_edge(&self, on: &mut Execution, site: u64, again: u64, more: bool, edges: Value) {
        on.work(2);
        on.branch(site, again, more, edges);
    }
    /// Prefetches vertex `v` into the sim host's caches (simulator speed only).
    fn prefetch_sim_host(&self, _v: u32) {}
}

/// The most vertex properties that an algorithm may use.
pub(crate) const FIELDS: usize = 5;

/// Where they are in a vertex object.
const OFFSETS: [u64; FIELDS] =
    [vertex_field::COLOUR, vertex_field::LEVEL, 40, vertex_field::CONTRIBUTION, vertex_field::SCORE];

/// Byte of an edge object that holds its weight.
const WEIGHT: u64 = 8;

/// Offsets of a graph; the one asked for last is kept, as it may be computed.
pub(crate) struct Starts<'g> {
    graph: &'g Graph,
    last: Cell<(u32, u64)>,
}

impl Starts<'_> {
    pub fn new(graph: &Graph) -> Starts<'_> {
        Starts { graph, last: Cell::new((0, 0)) }
    }

    #[inline(always)]
    fn of(&self, u: u32) -> u64 {
        let (known, offset) = self.last.get();
        if known == u {
            return offset;
        }
        let offset = self.graph.offset(u);
        self.last.set((u, offset));
        offset
    }
}

/// Compressed sparse rows.
pub(crate) struct Rows<'g> {
    /// Where each vertex's neighbours begin.
    pub starts: Starts<'g>,
    pub offsets: Array,
    pub neighbours: Array,
    pub weights: Option<Array>,
    /// One array for each property.
    pub fields: Vec<Array>,
}

impl View for Rows<'_> {
    #[inline(always)]
    fn vertex(&self, on: &mut Execution, _site: u64, u: u32, from: Value) -> At {
        // lea
        on.work(1);
        At { u, object: from }
    }

    #[inline(always)]
    fn edges(&self, on: &mut Execution, site: u64, at: At) -> Value {
        let begin = on.load(site, self.offsets.at(u64::from(at.u)), 8, at.object);
        on.load(site + 4, self.offsets.at(u64::from(at.u) + 1), 8, at.object);
        begin
    }

    #[inline(always)]
    fn target(&self, on: &mut Execution, site: u64, at: At, k: u64, edges: Value) -> Value {
        on.load(site, self.neighbours.at(self.starts.of(at.u) + k), 4, edges)
    }

    #[inline(always)]
    fn weight(&self, on: &mut Execution, site: u64, at: At, k: u64, edges: Value) -> Value {
        match &self.weights {
            Some(weights) => on.load(site, weights.at(self.starts.of(at.u) + k), 4, edges),
            None => Value::NONE,
        }
    }

    #[inline(always)]
    fn get(&self, on: &mut Execution, site: u64, at: At, field: usize) -> Value {
        on.load(site, self.fields[field].at(u64::from(at.u)), 8, at.object)
    }

    #[inline(always)]
    fn set(&self, on: &mut Execution, site: u64, at: At, field: usize) {
        on.store(site, self.fields[field].at(u64::from(at.u)), 8, at.object);
    }

    #[inline(always)]
    fn add(&self, on: &mut Execution, site: u64, at: At, field: usize) {
        on.update(site, self.fields[field].at(u64::from(at.u)), 8, at.object);
    }
}

/// A property graph.
pub(crate) struct Objects {
    graph: PropertyGraph,
    /// The pointers into the two linked lists that were followed last, the latest one first.
    pointers: Cell<[Pointer; 2]>,
    /// The pointer into the list of vertices that was followed last.
    vertex: Cell<Pointer>,
}

/// A pointer to an edge of a linked list: the vertex, the edge's number, and the load that it is from. Or one to the
/// vertex itself.
#[derive(Clone, Copy)]
struct Pointer {
    u: u32,
    k: u64,
    value: Value,
}

impl Objects {
    pub fn new(graph: PropertyGraph) -> Objects {
        let none = Pointer { u: u32::MAX, k: 0, value: Value::NONE };
        Objects { graph, pointers: Cell::new([none; 2]), vertex: Cell::new(none) }
    }

    /// The pointer to edge `k`; the first is that of `edges`, which the vertex has. If the one before it is known,
    /// and it is not, the pointer is loaded from there at `site`.
    #[inline(always)]
    fn pointer(&self, on: &mut Execution, site: u64, (at, k): (At, u64), lists: &EdgeNodes, edges: Value) -> Value {
        let mut known = self.pointers.get();
        if known[0].u != at.u {
            known.swap(0, 1);
        }
        let last = if known[0].u == at.u { known[0] } else { Pointer { u: at.u, k: 0, value: edges } };
        let value = match k {
            0 => edges,
            _ if last.k == k => last.value,
            _ => on.load(site, lists.next(at.u, k - 1), 8, last.value),
        };
        known[0] = Pointer { u: at.u, k, value };
        self.pointers.set(known);
        value
    }
}

impl View for Objects {
    const POINTERS: bool = true;

    fn is_linked(&self) -> bool {
        self.graph.linked().is_some()
    }

    #[inline(always)]
    fn present(&self, on: &mut Execution, site: u64, next: u64, at: At) -> bool {
        if self.graph.linked().is_some() {
            return true; // the list has only vertices with objects
        }
        // test; je
        let none = self.graph.places[at.u as usize].object == 0;
        on.work(1);
        on.branch(site, next, none, at.object);
        !none
    }

    #[inline(always)]
    fn vertex(&self, on: &mut Execution, site: u64, u: u32, from: Value) -> At {
        let table = match self.graph.storage() {
            Storage::Vectors { index, .. } => {
                return At { u, object: on.load(site, index.at(u64::from(u)), 8, from) };
            }
            Storage::Lists { table, .. } => table,
        };
        let mut loaded = [Value::NONE; LOOK_UP];
        for (i, record) in table.look_up(site, u).into_iter().enumerate() {
            let operands = record.from.map(|operand| match operand {
                Operand::None => Value::NONE,
                Operand::Sought => from,
                Operand::Record(of) => loaded[of],
            });
            on.work(record.before);
            match record.action {
                Action::Load(va) => loaded[i] = on.load(record.pc, va, 8, operands[0]),
                Action::Branch { target, taken } => on.branch2(record.pc, target, taken, operands),
            }
        }
        At { u, object: loaded[LOOK_UP - 1] }
    }

    #[inline(always)]
    fn next_vertex(&self, on: &mut Execution, site: u64, u: u32) -> At {
        if self.graph.linked().is_none() {
            return self.vertex(on, site, u, Value::NONE);
        }
        if u == 0 {
            return At { u, object: Value::NONE }; // the list's head is at hand
        }
        let last = self.vertex.get();
        let from = if last.u.wrapping_add(1) == u { last.value } else { Value::NONE };
        let value = on.load(site, self.graph.next_vertex(u - 1), 8, from);
        self.vertex.set(Pointer { u, k: 0, value });
        At { u, object: value }
    }

    #[inline(always)]
    fn edges(&self, on: &mut Execution, site: u64, at: At) -> Value {
        if self.graph.places[at.u as usize].object == 0 {
            return Value::NONE; // an isolated vertex has no object: its pointer was compared with zero
        }
        let begin = on.load(site, self.graph.field(at.u, vertex_field::EDGES_BEGIN), 8, at.object);
        if self.graph.linked().is_some() {
            // lea: a list ends at its head
            on.work(1);
        } else {
            on.load(site + 4, self.graph.field(at.u, vertex_field::EDGES_END), 8, at.object);
        }
        begin
    }

    #[inline(always)]
    fn target(&self, on: &mut Execution, site: u64, at: At, k: u64, edges: Value) -> Value {
        let from = match self.graph.linked() {
            Some(lists) => self.pointer(on, site + 2, (at, k), lists, edges),
            None => edges,
        };
        on.load(site, self.graph.edge(at.u, k), 8, from)
    }

    #[inline(always)]
    fn next_edge(&self, on: &mut Execution, site: u64, again: u64, more: bool, edges: Value) {
        let Some(lists) = self.graph.linked() else {
            on.work(2);
            on.branch(site, again, more, edges);
            return;
        };
        // mov (node),%node; cmp; jne
        let [latest, other] = self.pointers.get();
        let value = on.load(site, lists.next(latest.u, latest.k), 8, latest.value);
        self.pointers.set([Pointer { u: latest.u, k: latest.k + 1, value }, other]);
        on.work(1);
        on.branch(site + 4, again, more, value);
    }

    #[inline(always)]
    fn weight(&self, on: &mut Execution, site: u64, at: At, k: u64, edges: Value) -> Value {
        let Some(lists) = self.graph.linked() else {
            return on.load(site, self.graph.edge(at.u, k).offset(WEIGHT), 8, edges);
        };
        let node = self.pointer(on, site + 2, (at, k), lists, edges);
        let property = on.load(site, lists.property_pointer(at.u, k), 8, node);
        on.load(site + 4, lists.property(at.u, k), 8, property)
    }

    #[inline(always)]
    fn get(&self, on: &mut Execution, site: u64, at: At, field: usize) -> Value {
        if self.graph.places[at.u as usize].object == 0 {
            return Value::NONE;
        }
        on.load(site, self.graph.field(at.u, OFFSETS[field]), 8, at.object)
    }

    #[inline(always)]
    fn set(&self, on: &mut Execution, site: u64, at: At, field: usize) {
        if self.graph.places[at.u as usize].object != 0 {
            on.store(site, self.graph.field(at.u, OFFSETS[field]), 8, at.object);
        }
    }

    #[inline(always)]
    fn prefetch_sim_host(&self, v: u32) {
        prefetch_sim_host(&self.graph.places[v as usize]);
    }

    #[inline(always)]
    fn add(&self, on: &mut Execution, site: u64, at: At, field: usize) {
        if self.graph.places[at.u as usize].object != 0 {
            on.update(site, self.graph.field(at.u, OFFSETS[field]), 8, at.object);
        }
    }
}
