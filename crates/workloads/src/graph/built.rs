//! Graphs in their address spaces, kept for the programs that run next.
//!
//! Building one takes longer than many a run on it, and sweeps run the same program again and again.

use super::csr::Graph;
use super::kronecker::GraphSpec;
use super::program::{EdgeList, GraphLayout, Placed};
use super::property::PropertySpec;
use crate::layout::AddressSpace;
use ambulator_base::lock;
use std::sync::{Arc, Mutex};

/// A graph in its address space, in which nothing else lies yet.
#[derive(Clone)]
pub(crate) struct Built {
    pub graph: Arc<Graph>,
    pub placed: Placed,
    pub space: AddressSpace,
}

/// What determines a graph in its address space.
#[derive(Clone, PartialEq)]
pub(crate) struct Plan {
    pub layout: GraphLayout,
    pub graph: GraphSpec,
    pub property: PropertySpec,
    pub edge_list: EdgeList,
    pub vertices: u64,
    pub seed: u64,
    pub computed: bool,
}

struct Kept {
    keepers: usize,
    latest: Option<(Plan, u64, Built)>,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { keepers: 0, latest: None });

/// While one of these lives, the graph that was built last stays in memory for programs with the same graph.
pub struct GraphKeeper(&'static Mutex<Kept>);

impl GraphKeeper {
    /// Keeps the graphs that are built from now on, one at a time.
    #[allow(clippy::new_without_default)]
    pub fn new() -> GraphKeeper {
        GraphKeeper::of(&KEPT)
    }

    fn of(kept: &'static Mutex<Kept>) -> GraphKeeper {
        lock(kept).keepers += 1;
        GraphKeeper(kept)
    }

    /// Bytes of the sim host's memory that the kept graph takes.
    pub fn sim_host_bytes(&self) -> u64 {
        lock(self.0).latest.as_ref().map_or(0, |(_, bytes, _)| *bytes)
    }

    /// Keeps it no longer.
    pub fn forget(&self) {
        lock(self.0).latest = None;
    }
}

impl Drop for GraphKeeper {
    fn drop(&mut self) {
        let mut kept = lock(self.0);
        kept.keepers -= 1;
        if kept.keepers == 0 {
            kept.latest = None;
        }
    }
}

/// The kept graph if it is of this plan; or else a new one, which takes `bytes` of the sim host's memory.
pub(crate) fn kept_or_new(plan: Plan, bytes: u64, build: impl FnOnce() -> Built) -> Built {
    kept_in(&KEPT, plan, bytes, build)
}

fn kept_in(all: &Mutex<Kept>, plan: Plan, bytes: u64, build: impl FnOnce() -> Built) -> Built {
    let mut kept = lock(all);
    match &kept.latest {
        Some((of, _, built)) if *of == plan => return built.clone(),
        _ => kept.latest = None,
    }
    // Building takes long, and others ask what is kept.
    drop(kept);
    let built = build();
    let mut kept = lock(all);
    // A file may change.
    if kept.keepers > 0 && plan.graph.input.is_empty() {
        kept.latest = Some((plan, bytes, built.clone()));
    }
    built
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProgramRequest, open};
    use ambulator_base::{Batch, Record, VmEvent};
    use serde_json::{Value, json};

    fn stream(settings: &Value) -> (Vec<(u32, VmEvent)>, Vec<Record>) {
        let Value::Object(settings) = settings.clone() else { unreachable!() };
        let request = ProgramRequest { name: "bfs".into(), settings, footprint: Some(4 << 20), ..Default::default() };
        let mut source = open(&request).unwrap();
        let (mut events, mut records) = (Vec::new(), Vec::new());
        let mut batch = Batch::default();
        while records.len() < 100_000 && source.fill(&mut batch).unwrap() {
            records.append(&mut batch.records);
            events.append(&mut batch.events);
        }
        (events, records)
    }

    /// Each twice: the graph of one is not taken for another's, and that of the same one comes with its events.
    #[test]
    fn a_kept_graph_gives_the_same_program_as_a_new_one() {
        let all = [
            json!({}),
            json!({ "layout": "csr" }),
            json!({ "layout": "csr", "edge_list": "file" }),
            json!({ "layout": "linked" }),
            json!({ "property": { "edge_bytes": 96 } }),
            json!({ "seed": 7 }),
        ];
        let new = all.each_ref().map(stream);
        assert!((1..all.len()).all(|at| new[at] != new[0]));
        let _keeper = GraphKeeper::new();
        for (settings, new) in all.iter().zip(&new) {
            assert!(stream(settings) == *new, "{settings}, built");
            assert!(stream(settings) == *new, "{settings}, kept");
        }
    }

    #[test]
    fn the_latest_graph_is_kept_as_long_as_a_keeper_lives() {
        static KEPT: Mutex<Kept> = Mutex::new(Kept { keepers: 0, latest: None });
        let built = std::cell::Cell::new(0);
        let get = |vertices: u64, input: &str| {
            let graph = GraphSpec { input: input.into(), ..GraphSpec::default() };
            let plan = Plan {
                layout: GraphLayout::Csr,
                graph: graph.clone(),
                property: PropertySpec::default(),
                edge_list: EdgeList::File,
                vertices,
                seed: 1,
                computed: false,
            };
            let found = kept_in(&KEPT, plan, 100 * vertices, || {
                built.set(built.get() + 1);
                let graph = Arc::new(Graph::generate(&GraphSpec::default(), vertices, 1));
                let array = crate::layout::Array { base: 0, element: 1, len: vertices };
                let placed = Placed::Csr { offsets: array, neighbours: array };
                Built { graph, placed, space: AddressSpace::new() }
            });
            assert_eq!(found.graph.vertices(), vertices);
            built.get()
        };
        assert_eq!((get(16, ""), get(16, "")), (1, 2), "nobody keeps it");
        let keeper = GraphKeeper::of(&KEPT);
        assert_eq!((get(16, ""), get(16, ""), keeper.sim_host_bytes()), (3, 3, 1600));
        assert_eq!((get(32, ""), get(32, ""), keeper.sim_host_bytes()), (4, 4, 3200));
        assert_eq!((get(16, ""), get(16, "a-file"), get(16, "")), (5, 6, 7));
        keeper.forget();
        assert_eq!((keeper.sim_host_bytes(), get(16, "")), (0, 8));
        let other = GraphKeeper::of(&KEPT);
        drop(keeper);
        assert_eq!(get(16, ""), 8);
        drop(other);
        assert!(lock(&KEPT).latest.is_none());
    }
}
