//! Benchmarks: the real algorithm on real data, laid out in a modelled address space.
//!
//! Each benchmark states which program it stands for, its layout, its order of first touch, and the compiled
//! inner loop (gcc 12 -O2, x86-64) from which its gaps, access sizes and dependences were read. An
//! instruction that both reads and writes memory is two records; one of their gaps is shorter, so that the
//! instruction count stays that of the compiled code. Conditional branches are records, those that end a loop
//! among them; jumps and calls count towards a gap.
//!
//! What the compiled program executes for each unit of work is in `DENSITIES` of its settings; see
//! [`Density`].

mod astar;
mod bfs;
mod canneal;
mod cg;
mod density;
mod dlrm;
mod edges;
pub(crate) mod execution;
pub mod graphbig;
mod gups;
mod kmer;
mod mcf;
mod memcached;
mod mummer;
mod omnetpp;
mod pagerank;
mod pointer_chase;
mod scratch;
mod source;
mod stencil;
mod stream;
mod streamcluster;
mod sysbench_memory;
mod xsbench;
mod zipf;

pub use astar::AstarSpec;
pub use bfs::BfsSpec;
pub use canneal::CannealSpec;
pub use cg::CgSpec;
pub use density::{Counts, Density};
pub use dlrm::DlrmSpec;
pub use gups::{GupsIndex, GupsSpec};
pub use kmer::KmerSpec;
pub use mcf::McfSpec;
pub use memcached::MemcachedSpec;
pub use mummer::MummerSpec;
pub use omnetpp::OmnetppSpec;
pub use pagerank::PageRankSpec;
pub use pointer_chase::PointerChaseSpec;
pub(crate) use source::{Benchmark, BenchmarkSource, identity};
pub use stencil::{StencilPattern, StencilSpec};
pub use stream::{StreamOperation, StreamSpec};
pub use streamcluster::StreamclusterSpec;
pub use sysbench_memory::{MemoryAccessMode, MemoryOperation, MemoryScope, SysbenchMemorySpec};
pub use xsbench::{XsbenchSize, XsbenchSpec};

use crate::program::{BenchmarkSpec, ProgramDescriptor, ProgramInfo};
use ambulator_base::{Batch, Invalid, Record, RecordKind, VirtAddr};
use graphbig::{Bc, Cc, Dc, Dfs, Gc, GraphBigSpec, Sssp, Tc};

/// Every built-in program, sorted by name, one line each.
pub(crate) static BUILT_IN: &[ProgramDescriptor] = &[
    ProgramDescriptor::of::<AstarSpec>(),
    ProgramDescriptor::of::<GraphBigSpec<Bc>>(),
    ProgramDescriptor::of::<BfsSpec>(),
    ProgramDescriptor::of::<CannealSpec>(),
    ProgramDescriptor::of::<GraphBigSpec<Cc>>(),
    ProgramDescriptor::of::<CgSpec>(),
    ProgramDescriptor::of::<GraphBigSpec<Dc>>(),
    ProgramDescriptor::of::<GraphBigSpec<Dfs>>(),
    ProgramDescriptor::of::<DlrmSpec>(),
    ProgramDescriptor::of::<GraphBigSpec<Gc>>(),
    ProgramDescriptor::of::<GupsSpec>(),
    ProgramDescriptor::of::<KmerSpec>(),
    ProgramDescriptor::of::<McfSpec>(),
    ProgramDescriptor::of::<MemcachedSpec>(),
    ProgramDescriptor::of::<MummerSpec>(),
    ProgramDescriptor::of::<OmnetppSpec>(),
    ProgramDescriptor::of::<PageRankSpec>(),
    ProgramDescriptor::of::<PointerChaseSpec>(),
    ProgramDescriptor::of::<GraphBigSpec<Sssp>>(),
    ProgramDescriptor::of::<StencilSpec>(),
    ProgramDescriptor::of::<StreamSpec>(),
    ProgramDescriptor::of::<StreamclusterSpec>(),
    ProgramDescriptor::of::<SysbenchMemorySpec>(),
    ProgramDescriptor::of::<GraphBigSpec<Tc>>(),
    ProgramDescriptor::of::<XsbenchSpec>(),
];

/// Smallest and largest footprint of a benchmark in bytes: less is all overhead, more exceeds the address
/// space. Programs are made for 64 MiB to 128 GiB.
pub const FOOTPRINTS: std::ops::RangeInclusive<u64> = 1 << 20..=16 << 40;

/// Most events of one sort in a program: years of them.
pub(crate) const MOST_EVENTS: u64 = 1 << 50;

/// Bytes that the state of a program may take in the simulator's own memory, if no setting says more.
const MOST_SIM_HOST_BYTES: u64 = 6 << 30;

/// The problem of a footprint whose program takes too much of the simulator's own memory; `bytes` may exceed
/// 64 bits.
pub(crate) fn check_sim_host_bytes(at: &str, key: &str, bytes: u128, problems: &mut Vec<Invalid>) {
    if bytes > u128::from(MOST_SIM_HOST_BYTES) {
        problems.push(Invalid::new(
            format!("{at}.{key}"),
            format!(
                "takes {} MiB of the simulator's own memory, and the most is {} MiB: set a smaller one",
                bytes >> 20,
                MOST_SIM_HOST_BYTES >> 20
            ),
        ));
    }
}

/// A load; `dep1` as in [`Record`].
#[inline(always)]
pub(crate) fn load(pc: u64, va: VirtAddr, size: u8, gap: u32, dep1: u16) -> Record {
    Record { pc: VirtAddr(pc), va, gap, dep1, dep2: 0, size, kind: RecordKind::Load }
}

/// A store; `dep1` as in [`Record`].
#[inline(always)]
pub(crate) fn store(pc: u64, va: VirtAddr, size: u8, gap: u32, dep1: u16) -> Record {
    Record { pc: VirtAddr(pc), va, gap, dep1, dep2: 0, size, kind: RecordKind::Store }
}

/// A conditional branch at `pc` whose outcome was computed from the loads `dep1` and `dep2` records before.
#[inline(always)]
pub(crate) fn branch(pc: u64, target: u64, taken: bool, [dep1, dep2]: [u16; 2]) -> Record {
    let kind = if taken { RecordKind::BranchTaken } else { RecordKind::BranchNotTaken };
    Record { pc: VirtAddr(pc), va: VirtAddr(target), gap: 0, dep1, dep2, size: 1, kind }
}

/// Output records, and the instructions since the last one.
pub(crate) struct Out<'a> {
    pub records: &'a mut Vec<Record>,
    pub gap: u32,
}

impl Out<'_> {
    /// Fills a batch by steps of a few records each. Takes the gap left by earlier records and returns the
    /// new one.
    #[inline(always)]
    pub fn fill(records: &mut Vec<Record>, gap: u32, mut step: impl FnMut(&mut Out<'_>)) -> u32 {
        let mut out = Out { records, gap };
        while out.records.len() < Batch::TARGET_RECORDS {
            step(&mut out);
        }
        out.gap
    }

    /// How many steps of up to `most` records the batch has room for, at least one.
    #[inline(always)]
    pub fn room(&self, most: usize) -> u64 {
        (Batch::TARGET_RECORDS.saturating_sub(self.records.len()) / most + 1) as u64
    }

    /// Adds a record; `gap_after` instructions follow it.
    #[inline(always)]
    pub fn push(&mut self, mut record: Record, gap_after: u32) {
        record.gap += self.gap;
        self.gap = gap_after;
        self.records.push(record);
    }
}

/// A distance in records as a dependence; none if it is too long to matter.
#[inline(always)]
pub(crate) fn distance(records: u32) -> u16 {
    u16::try_from(records).unwrap_or(0)
}
