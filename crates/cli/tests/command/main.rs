//! The command as its users run it.
//!
//! One program, because each one is linked with all of Ambulator.

mod advise;
mod capture;
mod checkpoints;
mod commands;
mod explain;
mod explain_walk;
mod kept;
mod outputs;
mod requests;
mod results;
mod sweep;
mod timeline;
