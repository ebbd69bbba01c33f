//! Errors of the modelled kernel.

use ambulator_base::{AccessKind, Asid, PageSize, VirtAddr};

/// An error of the modelled kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OsError {
    /// No frame is left, and none can be reclaimed.
    #[error(
        "the simulated machine has no memory left: {needed} bytes were needed at {va}, {free_bytes} bytes are \
         free, and swap has {swap_free} bytes left; give the machine more memory (`memory.bytes`) or swap \
         (`kernel.swap_bytes`), or the program a smaller footprint"
    )]
    OutOfMemory {
        /// The address that needed memory.
        va: VirtAddr,
        /// Bytes needed.
        needed: u64,
        /// Free bytes: too few, or too fragmented.
        free_bytes: u64,
        /// Bytes of swap that are free.
        swap_free: u64,
    },
    /// A page table could not allocate contiguous memory.
    #[error(
        "the page table needed {bytes} contiguous bytes to map {va}, and {}",
        if largest < bytes {
            format!(
                "the largest free block has {largest} bytes; give the machine more memory (`memory.bytes`), or less \
                 fragmentation"
            )
        } else if *bytes >= 64 << 20 {
            "memory is too fragmented for so large an allocation (`costs.allocate_64m_fails_above`)".to_owned()
        } else {
            "none was left; give the machine more memory (`memory.bytes`)".to_owned()
        }
    )]
    TableMemory {
        /// The address to be mapped.
        va: VirtAddr,
        /// Bytes of the failed allocation.
        bytes: u64,
        /// Largest free block.
        largest: u64,
    },
    /// An access outside all VMAs, or without the right for it.
    #[error("{access:?} of {va} is not allowed: {why}. The program's accesses do not match its mappings")]
    Segfault {
        /// The address.
        va: VirtAddr,
        /// The kind of access.
        access: AccessKind,
        /// The nearest VMAs, or the rights of the VMA.
        why: String,
    },
    /// The page table does not support this page size at this address.
    #[error(
        "the page table cannot hold a {size} page at {va}: it does not support the size or the alignment, or the \
         address is too wide"
    )]
    PageSize {
        /// The address of the page.
        va: VirtAddr,
        /// Its size.
        size: PageSize,
    },
    /// As many processes are alive as the kernel can tell apart.
    #[error(
        "the simulated kernel cannot create another process: {} are alive, as many as it can tell apart; let some exit \
         before others start",
        Asid::MAX.0
    )]
    Processes,
    /// An invalid system call.
    #[error("{0}")]
    BadCall(String),
    /// A page table that violated an invariant.
    #[error("the page table violated an invariant: {0}")]
    Table(String),
}

impl OsError {
    /// Whether this is an outcome of the modelled machine, which ran out of a resource, and not a bug.
    pub fn is_outcome(&self) -> bool {
        matches!(self, OsError::OutOfMemory { .. } | OsError::TableMemory { .. } | OsError::Processes)
    }
}
