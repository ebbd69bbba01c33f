//! The wire between a captured program and its recorder: memory that both share and that outlives the
//! program.
//!
//! The plugin in the program's emulator writes, and the recorder in another process reads. Whatever ends the
//! program, what it had recorded is still in the memory. The recorder reads with ordinary file operations, so
//! it needs no mapping, and a hostile writer can at worst give it wrong numbers.
//!
//! ```text
//! memory := page region{regions}
//! page   := 4096 bytes of words: 0 magic "AMBWIRE1", 1 regions, 2 claimed regions, 3 stop
//! region := words at its start:
//!             0 state (0 free, 1 open, 2 finished)   1 process   2 origin (0 started, 1 forked, 2 executed)
//!             3 bytes of the name
//!             8, 9 head: cells ever written, twice   16, 17 tail: cells ever read, twice
//!             24 instructions executed               25 first byte, 26 bytes (0: none), 27 written (0/1) of the
//!             32.. name                                 run of first touches that is not in the ring yet
//!           at 4 KiB:  threads, two words each: records that it has not handed over, instructions that are not counted
//!           at 64 KiB: the ring, 2^18 cells
//!           then:      for each thread a chunk of 5120 cells, its records that it has not handed over
//! cell   := 32 bytes: a record as `ambulator_base::Record` lies in memory, or with a kind above those
//!             16 half of an event: bytes 0 to 23, and at byte 24 their number; the other half follows
//!             17 the end of the initial address space
//! ```
//!
//! All words are 64 bits, little-endian. A process claims a region by raising word 2 of the page. Its cells
//! are the events of the initial address space, a cell of kind 17, then records and events in order. The
//! halves of an event become visible together. Head and tail are stored twice, because a copy of memory may
//! tear: unequal ones are read again. A set stop word asks all processes to end.

mod cell;
mod reader;
#[cfg(test)]
mod tests;

pub use cell::{Cell, event_cells, record_cell, start_cell, trim_dependences};
pub use reader::{Origin, WireMemory, WireReader, initialise, request_stop};

/// Bytes of the page before the first region.
pub const PAGE_BYTES: u64 = 4096;
/// The first word of the page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"AMBWIRE1");
/// Words of the page.
pub mod page {
    /// Identifies the memory.
    pub const MAGIC: usize = 0;
    /// Regions that there are.
    pub const REGIONS: usize = 1;
    /// Regions that processes have claimed.
    pub const CLAIMED: usize = 2;
    /// Not 0: every process must end.
    pub const STOP: usize = 3;
}
/// Words of a region.
pub mod region {
    /// 0 free, 1 open, 2 finished.
    pub const STATE: usize = 0;
    /// The process's number in the kernel.
    pub const PROCESS: usize = 1;
    /// How the process came to run its program.
    pub const ORIGIN: usize = 2;
    /// Bytes of the name.
    pub const NAME_BYTES: usize = 3;
    /// Cells ever written, twice.
    pub const HEAD: usize = 8;
    /// Cells ever read, twice.
    pub const TAIL: usize = 16;
    /// Instructions executed so far.
    pub const EXECUTED: usize = 24;
    /// The pending run of first touches: first byte, bytes, written.
    pub const RUN: usize = 25;
    /// The name.
    pub const NAME: usize = 32;
    /// [`STATE`]: the trace has begun.
    pub const OPEN: u64 = 1;
    /// [`STATE`]: the trace is complete.
    pub const FINISHED: u64 = 2;
}
/// The most bytes of a region's name.
pub const MAX_NAME: usize = 1024;
/// The most threads of a process at the same time.
pub const THREADS: usize = 1024;
/// Bytes from a region's start to its threads.
pub const THREADS_AT: u64 = 4096;
/// Words of a thread's entry: records not handed over, instructions not counted.
pub const THREAD_WORDS: usize = 2;
/// Bytes from a region's start to its ring.
pub const RING_AT: u64 = 1 << 16;
/// Cells of a ring.
pub const RING_CELLS: u64 = 1 << 18;
/// Bytes of a cell.
pub const CELL_BYTES: u64 = 32;
/// Bytes from a region's start to its threads' chunks.
pub const CHUNKS_AT: u64 = RING_AT + RING_CELLS * CELL_BYTES;
/// Cells of a thread's chunk.
pub const CHUNK_CELLS: usize = 5120;
/// Bytes of a region. Most of them are never touched.
pub const REGION_BYTES: u64 = CHUNKS_AT + (THREADS * CHUNK_CELLS) as u64 * CELL_BYTES;
/// Bits of a virtual address on the wire.
pub const VA_BITS: u8 = 48;

/// First byte of region number `number`.
pub const fn region_at(number: u64) -> u64 {
    PAGE_BYTES + number * REGION_BYTES
}

/// First byte of a thread's chunk within its region.
pub const fn chunk_at(thread: usize) -> u64 {
    CHUNKS_AT + (thread * CHUNK_CELLS) as u64 * CELL_BYTES
}
