//! The kernel model, without designs.

mod address_spaces;
mod companions;
mod double;
mod heap_reservations;
mod host_areas;
mod huge;
mod nodes;
mod reclaim;
mod recorded;
mod reference;
