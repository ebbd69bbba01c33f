//! All designs beside a plain map, a kernel, and each other.

mod address_spaces;
mod conformance;
mod conformance_faults;
mod guest_and_hypervisor;
mod kernel;
mod names;
mod paravirtual;
