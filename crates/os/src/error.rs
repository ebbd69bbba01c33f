//! Why the kernel model cannot do what was asked.

use ambulator_base::{AccessKind, PageSize, VirtAddr};

/// Why the kernel model cannot do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OsError {
    /// No frame is left, and none can be reclaimed.
    #[error(
        "the simulated machine has no memory left: {needed} bytes were needed at {va}, {free_bytes} bytes are free, and swap has \
         {swap_free} bytes left; give it more memory (`memory.bytes`), swap (`kernel.swap_bytes`) or a smaller footprint"
    )]
    OutOfMemory {
        /// Where a page was needed.
        va: VirtAddr,
        /// Bytes needed.
        needed: u64,
        /// Free bytes, too scattered or too few.
        free_bytes: u64,
        /// Bytes of swap that are free.
        swap_free: u64,
    },
    /// A page table could not get the contiguous memory that it needs.
    #[error(
        "the page table needed {bytes} contiguous bytes to map {va}, and {}",
        if largest < bytes {
            format!("memory has no such block (largest free block: {largest} bytes); give it more memory (`memory.bytes`), or less fragmentation")
        } else if *bytes >= 64 << 20 {
            "memory is so fragmented that the kernel cannot give so much at once (`costs.allocate_64m_fails_above`)".to_owned()
        } else {
            "nothing was left for it; give it more memory (`memory.bytes`)".to_owned()
        }
    )]
    TableMemory {
        /// What was to be mapped.
        va: VirtAddr,
        /// Bytes of the allocation.
        bytes: u64,
        /// Largest free block.
        largest: u64,
    },
    /// An access outside every VMA, or against its rights.
    #[error("{access:?} of {va} is not allowed: {why}. The program's stream and its mappings do not belong together")]
    Segfault {
        /// The address.
        va: VirtAddr,
        /// The access.
        access: AccessKind,
        /// The VMA that is nearest, or the right that is missing.
        why: String,
    },
    /// The page table has no such pages, or none there.
    #[error(
        "the page table cannot hold a {size} page at {va}: it has no such pages, none that lie so, or the address is wider than it translates"
    )]
    PageSize {
        /// Where the page was to be.
        va: VirtAddr,
        /// Its size.
        size: PageSize,
    },
    /// A system call that makes no sense.
    #[error("{0}")]
    BadCall(String),
    /// A broken invariant of a page table, told by the kernel that met it.
    #[error("the page table violated an invariant: {0}")]
    Table(String),
}

impl OsError {
    /// Whether this is an outcome of the modelled machine (it ran out of something), and not a mistake.
    pub fn is_outcome(&self) -> bool {
        matches!(self, OsError::OutOfMemory { .. } | OsError::TableMemory { .. })
    }
}
