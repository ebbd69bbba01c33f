//! What translation designs share, below the sockets: nothing here is a design.
//!
//! ```text
//! tree      page tables that are trees of x86-64 nodes   elastic   cuckoo tables that resize little by little
//! ranges    a B-tree of range translations               pte       the bytes of an x86-64 entry
//! frames    the frames of a structure, counted in its footprint
//! ```
//!
//! Start with [`pte`] and [`frames`], which every structure uses, then [`tree`].

pub mod elastic;
pub mod frames;
pub mod pte;
pub mod ranges;
pub mod tree;
