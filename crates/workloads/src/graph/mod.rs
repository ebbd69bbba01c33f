//! Graphs: generated or read from files, as compressed sparse rows and in the property-graph layout.

mod built;
mod configuration;
mod csr;
pub mod input;
mod kronecker;
mod linked;
mod program;
mod property;
mod settings;
mod social;
mod vertex_table;
mod view;

pub(crate) use built::Built;
pub use built::GraphKeeper;
pub use configuration::ConfigurationGraph;
pub use csr::{Edge, EdgesOf, Graph, sim_host_bytes};
pub use kronecker::{GraphKind, GraphSpec, GraphStorage, MAX_VERTICES, for_each_edge};
pub use program::{EdgeList, GraphLayout};
pub(crate) use program::{GraphChoice, Placed};
pub(crate) use property::Storage;
pub use property::{EdgeOrder, Place, PropertyGraph, PropertySpec, vertex_field};
pub(crate) use settings::{GraphNeeds, graph_settings};
pub(crate) use vertex_table::{Action, LOOK_UP, Operand};
pub(crate) use view::{Objects, Rows, Starts, View};
