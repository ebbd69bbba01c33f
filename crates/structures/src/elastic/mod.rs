//! The elastic cuckoo table on which ECPT and ME-HPT stand, for entries of any kind, wherever they lie.
//!
//! Sources: Skarlatos et al., "Elastic Cuckoo Page Tables", ASPLOS 2020, as ME-HPT (HPCA 2023) describes it in Sec. II; ME-HPT
//! Sec. IV-C (resizing in place) and IV-D (resizing way by way).
//!
//! - [`Elastic`] in `table.rs`: insertion and removal over an [`Arena`], which holds the slots; its resizes in `resize.rs`.
//! - [`Way`] in `way.rs`: where an entry is, also while its way is being resized. Hardware needs no more.
//! - [`hashes`] in `hash.rs`: hash functions.
//! - [`ElasticMap`] in `map.rs`: a map for programs (ME-HPT Sec. VIII).
//!
//! Choices.
//! - The new table of a resize uses the same hash functions with one more bit, in place (where it must) and out of place
//!   alike. So a rehash into a larger table never meets another entry.
//! - A rehash pointer moves over slots, taken or not: [`ElasticSpec::rehash_slots`] of them for each insertion or removal. With
//!   two, a table that doubles at 0.6 is done after 0.83 of the insertions that it takes to the next doubling (ME-HPT Sec. IV-C
//!   measures that two tables exist during 87.3% of the time).
//! - "Above" a threshold is seen by the next insertion, before it goes in.

mod hash;
mod map;
mod resize;
mod spec;
mod table;
#[cfg(test)]
mod tests;
mod way;

pub use hash::{HashKind, hashes, mixed};
pub use map::ElasticMap;
pub use spec::{ElasticSpec, MAX_SLOTS, MAX_WAYS};
pub use table::{Arena, Elastic, ElasticCounters, REINSERTION_BUCKETS, Refused, Room};
pub use way::{Place, Resize, Side, Way};
