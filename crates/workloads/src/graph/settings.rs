//! Settings common to all graph programs.

/// Bytes for each vertex that a program needs in addition to the graph.
#[derive(Clone, Copy)]
pub(crate) struct GraphNeeds {
    /// Of its own arrays in the address space, by layout.
    pub csr_arrays: u64,
    pub property_arrays: u64,
    /// Of the simulator's memory, while it runs.
    pub sim_host_bytes: u64,
    /// The same beside a graph that is computed instead of stored.
    pub streaming_host_bytes: u64,
    /// Whether the program can run on such a graph.
    pub can_stream: bool,
}

/// Settings of a graph program: those of the graph and its own, with defaults.
macro_rules! graph_settings {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident $(<$A:ident: $Bound:path>)? {
            $($(#[$own:meta])* $vis:vis $field:ident: $Type:ty = $default:expr,)*
        }
    ) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        $(#[$meta])*
        pub struct $Name $(<$A: $Bound>)? {
            /// Bytes of graph and arrays in the address space when the algorithm begins; sets the number of
            /// vertices unless `graph.vertices` does. The graph ends up at most a tenth smaller.
            #[schemars(range(min = *$crate::benchmarks::FOOTPRINTS.start(), max = *$crate::benchmarks::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
            pub footprint: u64,
            /// Which graph of its kind, and which roots.
            #[schemars(extend("x-unit" = "seed"))]
            pub seed: u64,
            /// How the graph lies in memory.
            #[schemars(extend("x-unit" = "choice"))]
            pub layout: $crate::graph::GraphLayout,
            /// The generated graph.
            pub graph: $crate::graph::GraphSpec,
            /// Sizes of the objects of layout `property`.
            pub property: $crate::graph::PropertySpec,
            /// Where the edges are while layout `csr` is built.
            #[schemars(extend("x-unit" = "choice"))]
            pub edge_list: $crate::graph::EdgeList,
            /// Memory of the simulator that the graph may take. A larger one is computed instead of stored where
            /// that is possible (see `graph.storage`), and rejected otherwise.
            #[schemars(range(max = *$crate::benchmarks::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
            pub host_memory: u64,
            $($(#[$own])* $vis $field: $Type,)*
        }

        impl $(<$A: $Bound>)? Default for $Name $(<$A>)? {
            fn default() -> Self {
                $Name {
                    footprint: 1 << 30,
                    seed: 1,
                    layout: Default::default(),
                    graph: Default::default(),
                    property: Default::default(),
                    edge_list: Default::default(),
                    host_memory: 6 << 30,
                    $($field: $default,)*
                }
            }
        }

        impl $(<$A: $Bound>)? $Name $(<$A>)? {
            fn choice_for(&self, needs: $crate::graph::GraphNeeds) -> $crate::graph::GraphChoice<'_> {
                $crate::graph::GraphChoice {
                    footprint: self.footprint,
                    seed: self.seed,
                    layout: self.layout,
                    graph: &self.graph,
                    property: &self.property,
                    edge_list: self.edge_list,
                    host_memory: self.host_memory,
                    needs,
                }
            }
        }
    };
}

pub(crate) use graph_settings;
