#![doc = include_str!("../README.md")]

mod abi;
mod ffi;
mod session;
