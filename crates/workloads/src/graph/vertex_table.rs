//! The vertices of a graph as GraphBIG keeps them: a list of objects, and a hash table that finds an object by
//! its number.
//!
//! After `openG` of GraphBIG (Nai et al., SC 2015; `indexed_list_storage`): vertices are numbered in the order in
//! which the input lists them. Each one has a node of the list, in which the object lies, and a node of a
//! `std::tr1::unordered_map` from its number to the list node. The table hashes a number to itself, and has a
//! prime number of buckets that is never below the number of its elements, so each number has a bucket of its
//! own. `find_vertex` loads the bucket, the number in the node to which it points, the table's last bucket (which
//! is its end), and the pointer to the object. Two more tables hold the name of each vertex in the input.

use crate::heap::Heap;
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{VirtAddr, VmEvent};

/// Bytes of a table's node: the number, the list node, the next one.
pub(super) const NODE: u64 = 24;
/// Byte of it that holds the list node.
const PLACE: u64 = 8;
/// Bytes of the nodes of the two tables of names.
const NAMES: [u64; 2] = [48, 48];
/// Bytes that the list's pointers (the next node's first, the one before) have before a vertex object.
pub(super) const LIST_POINTERS: u64 = 16;
/// Bytes that the heads of a vertex's lists and tables of edges add to its object: two each.
const HEADS: u64 = 2 * 24 + 2 * 48;
/// Numbers of buckets (tr1's `_Prime_rehash_policy`): a table grows to the next one when it has as many elements.
const BUCKETS: [u64; 27] = [
    11,
    23,
    47,
    97,
    199,
    409,
    823,
    1741,
    3739,
    7517,
    15_173,
    30_727,
    62_233,
    126_271,
    256_279,
    520_241,
    1_056_323,
    2_144_977,
    4_355_707,
    8_844_859,
    17_961_079,
    36_473_443,
    74_066_549,
    150_406_843,
    305_431_229,
    620_239_453,
    1_259_520_799,
];
/// Bytes of a table's buckets when it is made: one more than their number ends it.
const FIRST_BUCKETS: u64 = 8 * (BUCKETS[0] + 1);

/// The array of a table's buckets on the heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    at: u64,
    size: u8,
}

impl Buckets {
    pub fn new(heap: &mut Heap, space: &mut AddressSpace) -> Buckets {
        Buckets { at: heap.allocate(FIRST_BUCKETS, space), size: 0 }
    }

    fn bytes(self) -> u64 {
        8 * (BUCKETS[usize::from(self.size)] + 1)
    }

    /// Makes room for one element more than `elements`.
    pub fn make_room(&mut self, elements: u64, heap: &mut Heap, space: &mut AddressSpace) {
        if elements < BUCKETS[usize::from(self.size)] || usize::from(self.size) + 1 == BUCKETS.len() {
            return;
        }
        let old = *self;
        self.size += 1;
        self.at = heap.allocate(self.bytes(), space);
        if heap.is_untouched(self.at) {
            space.push(VmEvent::Touch { start: VirtAddr(self.at), len: self.bytes(), write: true });
        }
        heap.free(old.at, old.bytes(), space);
    }
}

/// The vertices while they are read.
pub(super) struct Loading {
    vertex_bytes: u64,
    tables: [Buckets; 3],
    /// The nodes of the table, by number.
    nodes: Vec<u64>,
}

impl Loading {
    /// No vertices yet; an object has `vertex_bytes` without what its lists and tables take.
    pub fn new(vertex_bytes: u64, heap: &mut Heap, space: &mut AddressSpace) -> Loading {
        let tables = [(); 3].map(|()| Buckets::new(heap, space));
        Loading { vertex_bytes, tables, nodes: Vec::new() }
    }

    /// Adds a vertex, as `add_vertex` and `add_vertex_key` do. Returns its object, and the buckets of the tables of its
    /// edges: of those to it, and of those from it.
    pub fn add(&mut self, heap: &mut Heap, space: &mut AddressSpace) -> (u64, [Buckets; 2]) {
        let elements = self.nodes.len() as u64;
        // A vertex is made, and copied into its list node: each copy has the buckets of two tables.
        let made = [(); 2].map(|()| heap.allocate(FIRST_BUCKETS, space));
        let object = heap.allocate(LIST_POINTERS + self.vertex_bytes + HEADS, space) + LIST_POINTERS;
        let edges = [(); 2].map(|()| Buckets::new(heap, space));
        self.nodes.push(heap.allocate(NODE, space));
        self.tables[0].make_room(elements, heap, space);
        for buckets in made {
            heap.free(buckets, FIRST_BUCKETS, space);
        }
        for (table, bytes) in self.tables[1..].iter_mut().zip(NAMES) {
            heap.allocate(bytes, space);
            table.make_room(elements, heap, space);
        }
        (object, edges)
    }

    /// The table that all of them are in.
    pub fn finish(self) -> VertexTable {
        let [table, ..] = self.tables;
        let buckets = Array { base: table.at, element: 8, len: table.bytes() / 8 };
        VertexTable { buckets, nodes: self.nodes }
    }
}

/// A hash table of vertices.
#[derive(Debug)]
pub(crate) struct VertexTable {
    /// The buckets, and the end.
    buckets: Array,
    /// The node of each vertex.
    nodes: Vec<u64>,
}

/// What a record of a look-up is computed from.
#[derive(Clone, Copy)]
pub(crate) enum Operand {
    None,
    /// The number that is sought.
    Sought,
    /// What an earlier record of the look-up loads.
    Record(usize),
}

/// What a record of a look-up does.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Loads eight bytes.
    Load(VirtAddr),
    Branch {
        target: u64,
        taken: bool,
    },
}

/// A record of a look-up.
#[derive(Clone, Copy)]
pub(crate) struct LookUpRecord {
    /// Instructions without memory accesses before it.
    pub before: u32,
    pub pc: u64,
    pub action: Action,
    pub from: [Operand; 2],
}

/// Records of a look-up.
pub(crate) const LOOK_UP: usize = 7;

/// Where the code of a look-up in a hash table is, seven records of it, if the loop calls it at `site`: in the second
/// half of the page of code, 32 bytes for each site of the first 64.
const fn look_up_code(site: u64) -> u64 {
    TEXT + 0x800 + 32 * ((site - TEXT) / 8 % 64)
}

impl VertexTable {
    /// Finds vertex `u` for a loop that calls it at `site`: the last record loads the pointer to its object.
    #[inline(always)]
    pub fn look_up(&self, site: u64, u: u32) -> [LookUpRecord; LOOK_UP] {
        use Operand::{None, Record, Sought};
        let code = look_up_code(site);
        let pc = |record: u64| code + 4 * record;
        let load = |va, before, record, from| LookUpRecord {
            before,
            pc: pc(record),
            action: Action::Load(va),
            from: [from, None],
        };
        let branch = |target, taken, before, record, from| LookUpRecord {
            before,
            pc: pc(record),
            action: Action::Branch { target, taken },
            from,
        };
        // xor; mov; div; mov (buckets),node; test; jne; cmp (node),number; jne; cmp (end),node; je; mov 8(node)
        [
            load(self.bucket(u), 3, 0, Sought),
            branch(pc(2), true, 1, 1, [Record(0), None]),
            load(self.number(u), 0, 2, Record(0)),
            branch(code, false, 0, 3, [Record(2), Sought]),
            load(self.end(), 0, 4, None),
            branch(code, false, 0, 5, [Record(4), Record(0)]),
            load(self.place(u), 0, 6, Record(0)),
        ]
    }

    /// The bucket of vertex `u`.
    #[inline(always)]
    pub fn bucket(&self, u: u32) -> VirtAddr {
        // There are more buckets than vertices: the remainder of a division by their number is the number itself.
        self.buckets.at(u64::from(u))
    }

    /// Where the number of vertex `u` is compared with the one that is sought.
    #[inline(always)]
    pub fn number(&self, u: u32) -> VirtAddr {
        VirtAddr(self.nodes[u as usize])
    }

    /// The pointer to the object of vertex `u`.
    #[inline(always)]
    pub fn place(&self, u: u32) -> VirtAddr {
        VirtAddr(self.nodes[u as usize] + PLACE)
    }

    /// The bucket that ends the table.
    #[inline(always)]
    pub fn end(&self) -> VirtAddr {
        self.buckets.at(self.buckets.len - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::HeapModel;
    use std::collections::BTreeSet;

    #[test]
    fn each_vertex_has_a_bucket_a_node_and_an_object_of_its_own() {
        let mut space = AddressSpace::new();
        let mut heap = Heap::new(HeapModel::Glibc, &space);
        let mut loading = Loading::new(64, &mut heap, &mut space);
        let mut taken = BTreeSet::new();
        let mut take = |start: u64, bytes: u64| {
            assert!((start..start + bytes).step_by(8).all(|word| taken.insert(word)), "{start:#x} {bytes}");
        };
        let vertices = 1000;
        for _ in 0..vertices {
            let (object, _) = loading.add(&mut heap, &mut space);
            take(object - LIST_POINTERS, LIST_POINTERS + 64 + HEADS);
        }
        let table = loading.finish();
        take(table.buckets.base, table.buckets.bytes());
        // As the library's own: 823 buckets for 823 elements, 1741 for the next one, and the end.
        assert_eq!(table.buckets.len, 1741 + 1);
        assert_eq!(table.end().0, table.buckets.base + 8 * 1741);
        for u in 0..vertices {
            take(table.number(u).0, NODE);
            assert_eq!(table.place(u).0, table.number(u).0 + 8);
            assert_eq!(table.bucket(u).0, table.buckets.base + 8 * u64::from(u));
        }
    }

    #[test]
    fn a_table_grows_when_it_is_full() {
        let mut space = AddressSpace::new();
        let mut heap = Heap::new(HeapModel::Glibc, &space);
        let mut buckets = Buckets::new(&mut heap, &mut space);
        let sizes = (0..50).map(|elements| {
            buckets.make_room(elements, &mut heap, &mut space);
            buckets.bytes() / 8 - 1
        });
        let changes: Vec<(usize, u64)> = sizes.enumerate().fold(Vec::new(), |mut all, (elements, size)| {
            if all.last().is_none_or(|(_, last)| *last != size) {
                all.push((elements, size));
            }
            all
        });
        // The twelfth element makes the table grow, and so on.
        assert_eq!(changes, [(0, 11), (11, 23), (23, 47), (47, 97)]);
    }
}
