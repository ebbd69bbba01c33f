//! The elastic cuckoo table of ECPT and ME-HPT, for entries of any type in any storage.
//!
//! Sources: Skarlatos et al., "Elastic Cuckoo Page Tables", ASPLOS 2020, as ME-HPT (HPCA 2023) describes it
//! in Sec. II; ME-HPT Sec. IV-C (resizing in place) and IV-D (resizing way by way).
//!
//! - [`Elastic`] in `table.rs`: insertion and removal over an [`Arena`], which stores the slots; resizes are
//!   in `resize.rs`.
//! - [`Way`] in `way.rs`: where an entry is, also during a resize. Hardware needs no more.
//! - [`hashes`] in `hash.rs`: hash functions.
//! - [`ElasticMap`] in `map.rs`: a map for programs (ME-HPT Sec. VIII).
//!
//! Choices.
//! - The new table of a resize uses the same hash functions with one bit more or less, in place (which
//!   requires it) and out of place. So a rehash into a larger table never finds its slot occupied.
//! - The rehash pointer advances over slots, occupied or not: [`ElasticSpec::rehash_slots`] for each
//!   insertion or removal. With two, a table that doubles at 0.6 completes the resize after 0.83 of the
//!   insertions until the next doubling (ME-HPT Sec. IV-C measures that two tables exist during 87.3% of the
//!   time).
//! - The next insertion detects that a threshold was exceeded, before it inserts.

mod hash;
mod map;
mod resize;
mod spec;
mod table;
#[cfg(test)]
mod tests;
mod way;

use hash::mixed;
pub use hash::{HashKind, hashes};
pub use map::ElasticMap;
pub use spec::{ElasticSpec, MAX_SLOTS, MAX_WAYS, Resizing};
pub use table::{Arena, Elastic, ElasticCounters, InsertError, REINSERTION_BUCKETS, ResizeMode};
pub use way::{Place, Resize, Side, Way};
