#![doc = include_str!("../README.md")]

pub mod elastic;
pub mod frames;
pub mod pte;
pub mod ranges;
pub mod tlb_prefetch;
pub mod tree;
