//! Checks the search against a textbook's, and its records against the compiled loops.

use super::*;
use crate::graph::{GraphSpec, PropertySpec};
use crate::layout::AddressSpace;
use ambulator_base::{Batch, RecordKind};
use std::collections::VecDeque;

fn graph() -> Arc<Graph> {
    Graph::shared(&GraphSpec::default(), 3000, 11, false)
}

fn objects(graph: &Graph) -> Objects {
    let mut space = AddressSpace::new();
    let property = PropertyGraph::build(&PropertySpec::default(), &GraphSpec::default(), graph, 11, &mut space);
    let queue = space.allocate_array(8, graph.vertices());
    Objects { graph: property, queue }
}

fn arrays(graph: &Graph) -> Arrays {
    let mut space = AddressSpace::new();
    let mut array = |element, len| space.allocate_array(element, len);
    Arrays {
        offsets: array(8, graph.vertices() + 1),
        neighbours: array(4, graph.edges()),
        parent: array(4, graph.vertices()),
        queue: array(4, graph.vertices()),
    }
}

/// Runs one whole search and returns its records.
fn search<S: Steps + 'static>(bfs: &mut Bfs<S>) -> Vec<Record> {
    let mut records = Vec::new();
    let mut out = Out { records: &mut records, gap: 0 };
    loop {
        bfs.step(&mut out);
        if bfs.phase == Phase::Take && bfs.head == bfs.queue.len() {
            return records;
        }
        // Batches of the stream end anywhere; a nearly full one makes each step small.
        if out.records.len() >= Batch::TARGET_RECORDS {
            let mut rest = search(bfs);
            records.append(&mut rest);
            return records;
        }
    }
}

/// Distance of every vertex from `root` by a plain search.
fn depths(graph: &Graph, root: u32) -> Vec<Option<u32>> {
    let mut depth = vec![None; graph.vertices() as usize];
    depth[root as usize] = Some(0);
    let mut queue = VecDeque::from([root]);
    while let Some(u) = queue.pop_front() {
        for &v in graph.neighbours_of(u) {
            if depth[v as usize].is_none() {
                depth[v as usize] = depth[u as usize].map(|d| d + 1);
                queue.push_back(v);
            }
        }
    }
    depth
}

fn check_tree<S: Steps + 'static>(graph: Arc<Graph>, steps: S) {
    let stored = graph.stored();
    let mut bfs = Bfs::new(graph.clone(), 4, steps);
    for _ in 0..3 {
        let mut parents = vec![u32::MAX; graph.vertices() as usize];
        let mut records = Vec::new();
        loop {
            records.clear();
            let (head, known) = (bfs.head, bfs.queue.len());
            bfs.step(&mut Out { records: &mut records, gap: 0 });
            for &v in &bfs.queue[known..] {
                parents[v as usize] = if known == 0 { v } else { bfs.queue[head] };
            }
            if bfs.phase == Phase::Take && bfs.head == bfs.queue.len() {
                break;
            }
        }
        let expected = depths(&stored, bfs.root);
        assert!(expected.iter().flatten().count() > 1000, "the root is in the large component");
        for v in 0..graph.vertices() as u32 {
            let parent = parents[v as usize];
            match expected[v as usize] {
                None => assert_eq!(parent, u32::MAX),
                Some(0) => assert_eq!(parent, v),
                Some(depth) => assert_eq!(expected[parent as usize], Some(depth - 1), "vertex {v} under {parent}"),
            }
        }
        bfs.next_root();
    }
}

#[test]
fn the_tree_is_a_breadth_first_tree() {
    check_tree(graph(), arrays(&graph()));
    check_tree(graph(), objects(&graph()));
    let computed = Graph::shared(&GraphSpec::default(), 3000, 11, true);
    check_tree(computed.clone(), arrays(&computed));
}

#[test]
fn rows_are_searched_as_the_compiled_loop_does() {
    let graph = graph();
    let mut bfs = Bfs::new(graph.clone(), 4, arrays(&graph));
    let records = search(&mut bfs);
    let a = arrays(&graph);
    let mut at = records.iter().enumerate().skip_while(|(_, r)| r.pc.0 != csr_pc::QUEUE).peekable();
    let mut seen = vec![false; graph.vertices() as usize];
    seen[bfs.root as usize] = true;
    let mut tail = 1;
    for (head, &u) in bfs.queue.iter().enumerate() {
        let mut next = || at.next().unwrap();
        assert_eq!(next().1.va, a.queue.at(head as u64));
        let (offset_at, offset) = next();
        assert_eq!((offset.va, offset.dep1), (a.offsets.at(u64::from(u)), 1));
        let (end_at, end) = next();
        assert_eq!(end.va, a.offsets.at(u64::from(u) + 1));
        assert_eq!((next().1.kind, graph.degree(u) > 0), (RecordKind::BranchNotTaken, true), "it has edges");
        let degree = graph.degree(u) as usize;
        for (k, &v) in graph.neighbours_of(u).iter().enumerate() {
            let edge = graph.offset(u) + k as u64;
            let (i, neighbour) = next();
            assert_eq!(neighbour.va, a.neighbours.at(edge));
            assert_eq!(usize::from(neighbour.dep1), i - offset_at);
            let (_, parent) = next();
            assert_eq!((parent.va, parent.dep1, parent.gap), (a.parent.at(u64::from(v)), 1, 2));
            let (_, branch) = next();
            let new = !std::mem::replace(&mut seen[v as usize], true);
            assert_eq!(branch.kind == RecordKind::BranchNotTaken, new);
            if new {
                let (_, set) = next();
                assert_eq!((set.va, set.kind, set.dep1), (a.parent.at(u64::from(v)), RecordKind::Store, 3));
                assert_eq!(next().1.va, a.queue.at(tail));
                tail += 1;
            }
            let (i, again) = next();
            assert_eq!((again.pc.0, again.gap), (csr_pc::EDGE_LOOP, if new { 3 } else { 2 }));
            assert_eq!(again.kind == RecordKind::BranchTaken, k + 1 < degree, "the loop ends with the last edge");
            assert_eq!(usize::from(again.dep1), i - end_at, "it compares with the end of the edges");
        }
        let (_, again) = next();
        assert_eq!(again.kind == RecordKind::BranchTaken, head + 1 < bfs.queue.len(), "the queue is not empty");
    }
    assert!(at.peek().is_none());
}

#[test]
fn objects_are_searched_through_their_pointers() {
    let graph = graph();
    let o = objects(&graph);
    let mut bfs = Bfs::new(graph.clone(), 4, objects(&graph));
    let records = search(&mut bfs);
    let edges: u64 = bfs.queue.iter().map(|&u| u64::from(graph.degree(u))).sum();
    let of = |pc| records.iter().filter(move |r| r.pc.0 == pc);
    assert_eq!(of(property_pc::TARGET).count() as u64, edges);
    assert_eq!(of(property_pc::APPEND).count(), bfs.queue.len() - 1);
    assert_eq!(of(property_pc::LEAVE).count(), bfs.queue.len());
    let mut expected = bfs.queue.iter().flat_map(|&u| {
        let o = &o;
        graph.neighbours_of(u).iter().enumerate().map(move |(k, &v)| (o.graph.edge(u, k as u64), v))
    });
    let Storage::Vectors { index, .. } = o.graph.storage() else { panic!("no index") };
    for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::TARGET) {
        let (edge, v) = expected.next().unwrap();
        assert_eq!(r.va, edge);
        assert_eq!(records[i - usize::from(r.dep1)].pc.0, property_pc::BEGIN, "the edges' pointer names the edge");
        assert_eq!((records[i + 1].va, records[i + 1].dep1), (index.at(u64::from(v)), 1));
        assert_eq!((records[i + 2].va, records[i + 2].dep1), (o.graph.field(v, vertex_field::COLOUR), 1));
    }
    for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::LEAVE) {
        assert_eq!(records[i - usize::from(r.dep1)].pc.0, property_pc::OBJECT);
    }
}

#[test]
fn lists_are_searched_through_the_table_of_vertices() {
    let mut space = AddressSpace::new();
    let graph = graph();
    let property = PropertyGraph::build_linked(&PropertySpec::default(), &GraphSpec::default(), &graph, 11, &mut space);
    let queue = space.allocate_array(8, graph.vertices());
    let (o, Storage::Lists { table, .. }) = (property.clone(), property.storage()) else { panic!("no table") };
    let mut bfs = Bfs::new(graph.clone(), 4, Objects { graph: property.clone(), queue });
    let records = search(&mut bfs);
    let lists = o.linked().unwrap();
    let mut expected =
        bfs.queue.iter().flat_map(|&u| graph.neighbours_of(u).iter().enumerate().map(move |(k, &v)| (u, k as u64, v)));
    let loads = |at: &mut usize| loop {
        *at += 1;
        if records[*at].kind == RecordKind::Load {
            return (*at, records[*at].va);
        }
    };
    let from = |i: usize| i - usize::from(records[i].dep1);
    for (i, r) in records.iter().enumerate().filter(|(_, r)| r.pc.0 == property_pc::TARGET) {
        let (u, k, v) = expected.next().unwrap();
        assert_eq!(r.va, lists.target(u, k));
        let pointer = if k == 0 { property_pc::BEGIN } else { property_pc::EDGE_LOOP };
        assert_eq!(records[from(i)].pc.0, pointer, "the pointer to the edge is from the one before");
        // bucket, number, end of the table, place, colour, pointer to the next edge
        let mut at = i;
        let [bucket, number, end, place, colour, next] = [(); 6].map(|()| loads(&mut at));
        assert_eq!((bucket.1, from(bucket.0)), (table.bucket(v), i));
        assert_eq!((number.1, from(number.0)), (table.number(v), bucket.0));
        assert_eq!((end.1, records[end.0].dep1), (table.end(), 0));
        assert_eq!((place.1, from(place.0)), (table.place(v), bucket.0));
        assert_eq!((colour.1, from(colour.0)), (o.field(v, vertex_field::COLOUR), place.0));
        assert_eq!((next.1, from(next.0)), (lists.next(u, k), from(i)));
        let compared = &records[number.0 + 1];
        assert_eq!((from(number.0 + 1), number.0 + 1 - usize::from(compared.dep2)), (number.0, i));
    }
    assert_eq!(expected.next(), None);
    // The colours are reset along the list of vertices.
    bfs.step(&mut Out { records: &mut Vec::new(), gap: 0 });
    let mut reset = Vec::new();
    bfs.step(&mut Out { records: &mut reset, gap: 0 });
    let next: Vec<usize> = (0..reset.len()).filter(|i| reset[*i].pc.0 == property_pc::RESET).collect();
    for (u, at) in next.iter().enumerate() {
        assert_eq!(reset[*at].va, o.next_vertex(u as u32));
        assert_eq!(reset[at - 1].va, o.field(u as u32, vertex_field::COLOUR));
        assert!(u == 0 || at - usize::from(reset[*at].dep1) == next[u - 1]);
    }
    assert!(next.len() > 1000);
}
