//! Translation designs: one folder for each published system, a registry that names them, and the conformance suite
//! that each of them passes.

pub mod asap;
mod catalogue;
pub mod clustered_tlb;
pub mod ecpt;
pub mod flattened;
pub mod hashed;
pub mod ideal;
pub mod lvm;
pub mod me_hpt;
pub mod midgard;
pub mod perfect_speculation;
pub mod pom_tlb;
pub mod radix;
mod registry;
pub mod revelator;
pub mod rmm;
pub mod spec_tlb;
pub mod utopia;

pub use ambulator_sockets::{Boot, DesignParts};
pub use catalogue::{DesignInfo, list};
pub use registry::{
    DesignSpec, FrontSideKind, FrontSideSpec, LookasideKind, LookasideSpec, PlacementKind, PlacementSpec,
    SpeculationKind, SpeculationSpec, TableKind, TableSpec, build, build_nested,
};
