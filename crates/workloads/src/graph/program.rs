//! What every graph program shares: its choice of layout, how large a graph fits, and the set-up that builds
//! it.

use super::built::{Built, Plan, kept_or_new};
use super::configuration::ConfigurationGraph;
use super::csr::{Graph, sim_host_bytes};
use super::kronecker::{GraphKind, GraphSpec, GraphStorage, MAX_VERTICES};
use super::linked;
use super::property::{PropertyGraph, PropertySpec};
use super::settings::GraphNeeds;
use crate::layout::{AddressSpace, Array};
use ambulator_base::Invalid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a graph lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphLayout {
    /// Vertex objects on the heap, each with a growing vector of edges (GraphBIG with vectors).
    #[default]
    Property,
    /// A list of vertex objects on the heap with a hash table of their numbers, each with a linked list of edges
    /// and a hash table of them (GraphBIG's default).
    Linked,
    /// Compressed sparse rows: 8-byte offsets, 4-byte neighbours, one array for each vertex property (as in
    /// GAP).
    Csr,
}

/// Where the edges are while compressed sparse rows are built from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeList {
    /// In an array, freed before the region of interest begins: it needs memory together with the graph. (The
    /// edges of a graph that is computed instead of stored come from a file.)
    #[default]
    Memory,
    /// Read twice from a file: only the graph needs memory.
    File,
}

/// The settings of a graph program that determine the graph.
pub(crate) struct GraphChoice<'a> {
    pub footprint: u64,
    pub seed: u64,
    pub layout: GraphLayout,
    pub graph: &'a GraphSpec,
    pub property: &'a PropertySpec,
    pub edge_list: EdgeList,
    /// Bytes of the simulator's memory that graph and program may take.
    pub host_memory: u64,
    /// The program's memory in addition to the graph.
    pub needs: GraphNeeds,
}

/// The graph's place in the address space.
#[derive(Clone)]
pub(crate) enum Placed {
    Csr { offsets: Array, neighbours: Array },
    Property(PropertyGraph),
}

/// Bytes of an entry of the offsets, of a neighbour, and of an edge in the edge list.
const OFFSET_BYTES: u64 = 8;
const ID_BYTES: u64 = 4;
const LISTED_EDGE_BYTES: u64 = 8;

impl GraphChoice<'_> {
    /// Validates the settings; each problem names its key under `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        problems.extend(self.graph.validate(&format!("{at}.graph")));
        problems.extend(self.property.validate(&format!("{at}.property")));
        if !problems.is_empty() {
            return problems;
        }
        problems.extend(self.wrong_storage(at));
        if !problems.is_empty() {
            return problems;
        }
        let streams = self.streams();
        let vertices = self.vertices();
        let edge_factor = self.edge_factor();
        let most = if streams { MAX_VERTICES } else { self.most_stored() };
        let per_vertex = if streams {
            self.streaming_host_bytes(1 << 20) >> 20
        } else {
            self.stored_host_bytes(vertices) / vertices.max(1)
        };
        let fits = most.min(self.host_memory / per_vertex.max(1));
        if vertices < 16 {
            problems.push(
                Invalid::new(
                    format!("{at}.footprint"),
                    format!(
                        "of {} bytes holds a graph of {vertices} vertices; set a larger one, or a smaller \
                         `{at}.graph.edge_factor`",
                        self.footprint
                    ),
                )
                .and(format!("{at}.graph.edge_factor")),
            );
        } else if vertices > most {
            let limit = if streams {
                format!("is {edge_factor}: the graph has {vertices} vertices, and vertices are numbered below 2^31")
            } else if vertices > self.most_counted() {
                format!("is {edge_factor}: a graph of {vertices} vertices has more than 2^32 stored edges")
            } else {
                format!("is {edge_factor}: linked lists of {vertices} vertices take more than 16 TiB")
            };
            let message = format!(
                "{limit}; set at most {most} vertices, a footprint of {}{}",
                size(self.footprint_of(most)),
                self.alternative(at)
            );
            problems.push(
                Invalid::new(format!("{at}.graph.edge_factor"), message)
                    .and(format!("{at}.footprint"))
                    .and(format!("{at}.graph.vertices")),
            );
        } else if vertices > fits {
            let message = format!(
                "is {}, and a graph of {vertices} vertices takes {} of the simulator's memory: raise it, or set \
                 at most {fits} vertices, a footprint of {}{}",
                size(self.host_memory),
                size(self.host_bytes_of(vertices)),
                size(self.footprint_of(fits)),
                self.alternative(at)
            );
            problems.push(
                Invalid::new(format!("{at}.host_memory"), message)
                    .and(format!("{at}.footprint"))
                    .and(format!("{at}.graph.vertices")),
            );
        }
        if problems.is_empty() && self.is_configuration() {
            /// Sums of degrees are 32-bit.
            const MOST: f64 = (1u64 << 31) as f64;
            let hub = ConfigurationGraph::most_edges_of_a_vertex(self.graph, vertices);
            if hub >= MOST {
                problems.push(
                    Invalid::new(
                        format!("{at}.graph.a"),
                        format!(
                            "is {}, `{at}.graph.b` {} and `{at}.graph.c` {}: the greatest hub of {vertices} vertices \
                             has some {hub:.1e} edges, and at most 2^31 can be computed; set them nearer to each \
                             other (Graph500 has 0.57, 0.19, 0.19), or a smaller footprint",
                            self.graph.a, self.graph.b, self.graph.c
                        ),
                    )
                    .and(format!("{at}.graph.b"))
                    .and(format!("{at}.graph.c"))
                    .and(format!("{at}.graph.edge_factor"))
                    .and(format!("{at}.footprint")),
                );
            }
        }
        problems
    }

    /// Why the graph cannot be computed although the settings say so.
    fn wrong_storage(&self, at: &str) -> Option<Invalid> {
        let generated = self.graph.input.is_empty();
        let (key, value) = match (self.graph.storage, self.graph.kind) {
            (GraphStorage::Streaming, _) => ("storage", "streaming"),
            (_, GraphKind::Configuration) if generated => ("kind", "configuration"),
            _ => return None,
        };
        let reason = if !generated {
            format!("and `{at}.graph.input` names a file: its graph must be stored; set \"memory\" or \"auto\"")
        } else if self.graph.kind == GraphKind::Social {
            format!("and `{at}.graph.kind` is \"social\", which must be stored; set `{at}.graph.kind` to \"kronecker\"")
        } else if self.layout != GraphLayout::Csr {
            format!("and only compressed rows can be computed; set `{at}.layout` to \"csr\"")
        } else if key == "storage" && !self.needs.can_stream {
            "and this program needs its neighbours sorted, which must be stored; set \"memory\" or \"auto\"".into()
        } else {
            return None;
        };
        Some(Invalid::new(format!("{at}.graph.{key}"), format!("is \"{value}\", {reason}")))
    }

    /// Stored edges of a graph of so many vertices: each twice.
    fn stored_edges(&self, vertices: u64) -> u64 {
        2 * u64::from(self.edge_factor()) * vertices
    }

    /// The most vertices of which the stored edges can be counted, in 32 bits.
    fn most_counted(&self) -> u64 {
        MAX_VERTICES.min(u64::from(u32::MAX) / self.stored_edges(1).max(2))
    }

    /// The most vertices of a stored graph.
    fn most_stored(&self) -> u64 {
        let most = self.most_counted();
        match self.layout {
            GraphLayout::Linked => {
                most.min(linked::most_vertices(self.edge_factor().max(1).into(), self.property.vertex_bytes))
            }
            _ => most,
        }
    }

    /// Whether the graph is computed instead of stored.
    fn streams(&self) -> bool {
        let possible = self.needs.can_stream
            && self.layout == GraphLayout::Csr
            && self.graph.input.is_empty()
            && self.graph.kind != GraphKind::Social;
        match self.graph.storage {
            GraphStorage::Memory => false,
            GraphStorage::Streaming => possible,
            GraphStorage::Auto => {
                let vertices = self.wanted_vertices();
                possible
                    && (vertices > self.most_stored() || vertices > self.host_memory / self.stored_host_bytes(1).max(1))
            }
        }
    }

    /// Whether the graph is a [`ConfigurationGraph`], computed or stored.
    fn is_configuration(&self) -> bool {
        self.streams() || self.graph.input.is_empty() && self.graph.kind == GraphKind::Configuration
    }

    /// An alternative to too large a graph, if there is one.
    fn alternative(&self, at: &str) -> String {
        let streamable =
            GraphChoice { graph: &GraphSpec { storage: GraphStorage::Streaming, ..self.graph.clone() }, ..*self };
        match self.layout {
            GraphLayout::Csr if !self.streams() && streamable.streams() => {
                format!(", or `{at}.graph.storage` to \"streaming\" (neighbours are computed instead of stored)")
            }
            GraphLayout::Csr => " (the layout `property` has some ten times the footprint for the same graph)".into(),
            GraphLayout::Property | GraphLayout::Linked => String::new(),
        }
    }

    /// Bytes of the simulator's memory for a graph that is computed, and its program.
    fn streaming_host_bytes(&self, vertices: u64) -> u64 {
        ConfigurationGraph::sim_host_bytes(vertices) + vertices * self.needs.streaming_host_bytes
    }

    /// Undirected edges for each vertex, rounded up, with a margin for generators that only meet it on
    /// average.
    fn edge_factor(&self) -> u32 {
        if let Ok(edges) = super::input::load(&self.graph.input) {
            return (edges.edges.len() as u64).div_ceil(edges.vertices.max(1)) as u32;
        }
        match self.graph.kind {
            GraphKind::Kronecker | GraphKind::Configuration => self.graph.edge_factor,
            GraphKind::Social => self.graph.edge_factor + self.graph.edge_factor.div_ceil(8),
        }
    }

    /// Bytes of the simulator's memory that graph and program take.
    pub fn sim_host_bytes(&self) -> u64 {
        self.host_bytes_of(self.vertices())
    }

    /// The same for a number of vertices that is known: to find it, small graphs are made.
    fn host_bytes_of(&self, vertices: u64) -> u64 {
        if self.streams() { self.streaming_host_bytes(vertices) } else { self.stored_host_bytes(vertices) }
    }

    fn stored_host_bytes(&self, vertices: u64) -> u64 {
        let places = match self.layout {
            GraphLayout::Csr => 0,
            GraphLayout::Property => vertices * PropertyGraph::SIM_HOST_BYTES_PER_VERTEX,
            GraphLayout::Linked => {
                linked::sim_host_bytes(vertices, self.stored_edges(vertices), self.property.vertex_bytes)
            }
        };
        sim_host_bytes(vertices, self.edge_factor()) + places + vertices * self.needs.sim_host_bytes
    }

    /// Vertices of the graph: as set, or as many as the footprint holds.
    pub fn vertices(&self) -> u64 {
        let wanted = self.wanted_vertices();
        // The blocks of a computed graph are whole unless a number is set.
        let whole = self.graph.vertices == 0 && wanted <= MAX_VERTICES && self.is_configuration();
        if whole { ConfigurationGraph::whole(wanted) } else { wanted }
    }

    fn wanted_vertices(&self) -> u64 {
        if !self.graph.input.is_empty() {
            return super::input::load(&self.graph.input).map_or(0, |edges| edges.vertices);
        }
        match self.graph.vertices {
            0 => (self.footprint as f64 / self.bytes_per_vertex()) as u64,
            vertices => vertices,
        }
    }

    fn footprint_of(&self, vertices: u64) -> u64 {
        (vertices as f64 * self.bytes_per_vertex()) as u64
    }

    /// Bytes in the address space for each vertex. The heap's share depends on the degrees, which vary a
    /// little between graphs, so it is measured on small ones; a large graph stays below it by up to a tenth.
    fn bytes_per_vertex(&self) -> f64 {
        /// Vertices of the measured graphs, and the margin for larger graphs' longer vectors (up to 3%
        /// measured to 2^22).
        const SAMPLES: [u64; 4] = [1 << 12, 1 << 13, 12_000, 1 << 14];
        const ROOM: f64 = 1.04;
        match self.layout {
            GraphLayout::Csr => {
                (OFFSET_BYTES + 2 * u64::from(self.edge_factor()) * ID_BYTES + self.needs.csr_arrays) as f64
            }
            GraphLayout::Property | GraphLayout::Linked => {
                let sample = |vertices| {
                    let graph = Graph::generate(self.graph, vertices, self.seed);
                    let mut space = AddressSpace::new();
                    let placed = self.build_objects(&graph, &mut space);
                    placed.footprint as f64 / vertices as f64
                };
                SAMPLES.map(sample).into_iter().fold(0.0, f64::max) * ROOM + self.needs.property_arrays as f64
            }
        }
    }

    /// Generates the graph and builds it in a new address space, in the program's order.
    pub fn build(&self) -> Built {
        let (vertices, computed) = (self.vertices(), self.streams());
        let plan = Plan {
            layout: self.layout,
            graph: self.graph.clone(),
            property: self.property.clone(),
            edge_list: self.edge_list,
            vertices,
            seed: self.seed,
            computed,
        };
        kept_or_new(plan, self.host_bytes_of(vertices), || {
            let mut space = AddressSpace::new();
            let graph = Graph::shared(self.graph, vertices, self.seed, computed);
            let placed = match self.layout {
                GraphLayout::Csr => self.build_csr(&graph, &mut space),
                GraphLayout::Property | GraphLayout::Linked => Placed::Property(self.build_objects(&graph, &mut space)),
            };
            Built { graph, placed, space }
        })
    }

    fn build_objects(&self, graph: &Graph, space: &mut AddressSpace) -> PropertyGraph {
        let build = match self.layout {
            GraphLayout::Linked => PropertyGraph::build_linked,
            _ => PropertyGraph::build,
        };
        build(self.property, self.graph, graph, self.seed, space)
    }

    /// Graph500's kernel 1 as GAP's builder does it: the edge list in ascending order; degrees; their prefix
    /// sums; then the neighbours in the order in which the edges scatter them.
    fn build_csr(&self, graph: &Graph, space: &mut AddressSpace) -> Placed {
        let (vertices, edges) = (graph.vertices(), graph.edges());
        let listed = self.edge_list == EdgeList::Memory && !self.streams();
        let list = listed.then(|| space.filled_array(LISTED_EDGE_BYTES, edges / 2));
        let degrees = space.filled_array(ID_BYTES, vertices);
        let offsets = space.filled_array(OFFSET_BYTES, vertices + 1);
        let neighbours = space.allocate_array(ID_BYTES, edges);
        graph.touch_neighbours(&neighbours, space);
        space.free_array(&degrees);
        if let Some(list) = &list {
            space.free_array(list);
        }
        Placed::Csr { offsets, neighbours }
    }
}

impl Placed {
    /// Bytes of the graph in the address space.
    pub fn footprint(&self) -> u64 {
        match self {
            Placed::Csr { offsets, neighbours } => offsets.bytes() + neighbours.bytes(),
            Placed::Property(graph) => graph.footprint,
        }
    }
}

/// Formats bytes with a unit.
fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.1} GiB", b as f64 / (1u64 << 30) as f64),
        b => format!("{:.1} MiB", b as f64 / (1u64 << 20) as f64),
    }
}
