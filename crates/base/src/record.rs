//! The elements of a program's stream: access records, and the VM events between them.

use crate::{PageSize, PhysAddr, ProcessId, State, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum AccessKind {
    /// A data read.
    Load = 0,
    /// A data write.
    Store = 1,
    /// An instruction fetch.
    Fetch = 2,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, State)]
#[repr(u8)]
pub enum RecordKind {
    /// The access of one load instruction.
    #[default]
    Load = 0,
    /// The access of one store instruction.
    Store = 1,
    /// An explicit instruction fetch (in formats that have them). It does not count as an instruction.
    Fetch = 2,
    /// A conditional branch that was not taken. `va` is its target.
    BranchNotTaken = 3,
    /// A branch that was taken. `va` is its target.
    BranchTaken = 4,
}

/// One step of a program: `gap` instructions without memory access, then this one. 32 bytes.
///
/// A dependence is the distance in records back to the load whose value determines this record's address (or
/// the branch's outcome); 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
#[repr(C)]
pub struct Record {
    /// Address of the instruction.
    pub pc: VirtAddr,
    /// Virtual address of the data (for a fetch: of the code; for a branch: of the target).
    pub va: VirtAddr,
    /// Instructions between the previous record and this one, excluding both.
    pub gap: u32,
    /// Distance in records to the first producing load, or 0.
    pub dep1: u16,
    /// Distance in records to the second producing load, or 0.
    pub dep2: u16,
    /// Bytes accessed, 1 to 64.
    pub size: u8,
    /// The kind of the record.
    pub kind: RecordKind,
}

impl Record {
    /// Instructions of this record: its gap, plus one unless it is an explicit fetch.
    #[inline(always)]
    pub fn instructions(&self) -> u64 {
        u64::from(self.gap) + u64::from(self.kind != RecordKind::Fetch)
    }

    /// Whether the record is a load or a store.
    #[inline(always)]
    pub fn is_data(&self) -> bool {
        matches!(self.kind, RecordKind::Load | RecordKind::Store)
    }
}

/// Access rights of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, State)]
pub struct Protection {
    /// Loads are allowed. (x86-64 has no unreadable present page; `PROT_NONE` is `NONE`.)
    pub read: bool,
    /// Stores are allowed.
    pub write: bool,
    /// Fetches are allowed.
    pub execute: bool,
}

impl Protection {
    /// No access at all (`PROT_NONE`).
    pub const NONE: Protection = Protection { read: false, write: false, execute: false };
    /// Read only.
    pub const READ: Protection = Protection { read: true, write: false, execute: false };
    /// Read and write.
    pub const READ_WRITE: Protection = Protection { read: true, write: true, execute: false };
    /// Read and execute.
    pub const READ_EXECUTE: Protection = Protection { read: true, write: false, execute: true };

    /// Whether an access of `kind` is allowed.
    #[inline(always)]
    pub fn allows(self, kind: AccessKind) -> bool {
        match kind {
            AccessKind::Load => self.read,
            AccessKind::Store => self.write,
            AccessKind::Fetch => self.execute,
        }
    }
}

/// The kind of memory that a mapping maps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, State,
)]
pub enum MapKind {
    /// Anonymous memory (`mmap`).
    #[default]
    Anonymous,
    /// A private file mapping: text, or data of libraries. Never huge.
    File,
    /// The heap that `brk` moves.
    Heap,
    /// A stack.
    Stack,
}

/// `madvise` advice that the modelled kernel follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Advice {
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`.
    NoHuge,
    /// `MADV_DONTNEED`: drops pages; the next touch faults a zeroed page in.
    DontNeed,
    /// `MADV_FREE`: allows pages to be dropped under memory pressure.
    Free,
}

/// A change to the address space or the schedule, between two records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VmEvent {
    /// Map `[start, start + len)` (`mmap`). The modelled kernel rounds lengths up to 4 KiB.
    Map {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// Access rights.
        protection: Protection,
        /// The kind of memory.
        kind: MapKind,
    },
    /// Unmap a range (`munmap`), splitting VMAs at its ends.
    Unmap {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
    },
    /// Change access rights (`mprotect`).
    Protect {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// The new rights.
        protection: Protection,
    },
    /// Move or resize a mapping (`mremap`). Pages keep their frames.
    Remap {
        /// Old first address.
        old: VirtAddr,
        /// Old bytes.
        old_len: u64,
        /// New first address.
        new: VirtAddr,
        /// New bytes.
        new_len: u64,
    },
    /// `madvise`.
    Advise {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// The advice.
        advice: Advice,
    },
    /// Move the end of the heap (`brk`).
    Brk {
        /// The new end.
        end: VirtAddr,
    },
    /// The current process forks. Later [`VmEvent::Switch`] events name the child by `child`.
    Fork {
        /// The stream's number for the child (the first process of a stream is 0).
        child: ProcessId,
    },
    /// A process exits: its memory is freed.
    Exit {
        /// The stream's number for the process.
        process: ProcessId,
    },
    /// The following records belong to this process and thread (a context switch if the process differs).
    Switch {
        /// The stream's number for the process.
        process: ProcessId,
        /// The thread within the process.
        thread: u32,
    },
    /// The program touches each page of the range once, in ascending order and outside timed execution. It
    /// models the first touches of a set-up phase without a record for each page.
    Touch {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// Whether it writes. (The model serves a read of untouched anonymous memory like a write.)
        write: bool,
    },
    /// On the recorded machine the range is in consecutive frames: from now on, or from its first touch on.
    /// Only a placement in recorded frames heeds it, and moves pages that are elsewhere.
    Place {
        /// First address, a multiple of the page's size.
        start: VirtAddr,
        /// Bytes, a multiple of the page's size, at most 1 GiB.
        len: u64,
        /// Physical address of `start`, a multiple of the page's size.
        at: PhysAddr,
        /// The size of the recorded machine's pages; 4 KiB if the recorder did not see it.
        page: PageSize,
    },
    /// The region of interest begins. The records before are set-up.
    RegionBegin,
    /// The region of interest ends.
    RegionEnd,
}
