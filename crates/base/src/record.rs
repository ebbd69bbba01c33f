//! What a program's stream is made of: access records, and the VM events between them.

use crate::{ProcessId, VirtAddr};
use serde::{Deserialize, Serialize};

/// What the memory system is asked to do at an address.
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

/// What a record stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum RecordKind {
    /// One load instruction's access.
    #[default]
    Load = 0,
    /// One store instruction's access.
    Store = 1,
    /// An explicit instruction fetch (formats that have them); it is not an instruction by itself.
    Fetch = 2,
    /// A conditional branch that was not taken. `va` is its target.
    BranchNotTaken = 3,
    /// A branch that was taken. `va` is its target.
    BranchTaken = 4,
}

/// One step of a program: `gap` instructions that touch no memory, then this one. 32 bytes.
///
/// Dependences are distances in records of the same stream, counted back from this one; 0 is none. They name
/// the loads whose values this record's address (or a branch's outcome) is computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Address of the instruction.
    pub pc: VirtAddr,
    /// Virtual address of the data (for a fetch: of the code; for a branch: of the target).
    pub va: VirtAddr,
    /// Instructions since the previous record, neither of the two counted.
    pub gap: u32,
    /// Distance in records to the first producing load, or 0.
    pub dep1: u16,
    /// Distance in records to the second producing load, or 0.
    pub dep2: u16,
    /// Bytes accessed, 1 to 64.
    pub size: u8,
    /// What this record is.
    pub kind: RecordKind,
}

impl Record {
    /// Instructions that this record stands for: its gap, and itself unless it is an explicit fetch.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// What lies behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MapKind {
    /// Anonymous memory (`mmap`).
    Anonymous,
    /// Private file mapping: text, data of libraries. Never huge.
    File,
    /// The heap that `brk` moves.
    Heap,
    /// A stack.
    Stack,
}

/// `madvise` advice that the kernel model acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Advice {
    /// `MADV_HUGEPAGE`.
    Huge,
    /// `MADV_NOHUGEPAGE`.
    NoHuge,
    /// `MADV_DONTNEED`: pages are dropped; the next touch faults a zeroed page in.
    DontNeed,
    /// `MADV_FREE`: pages may be dropped under pressure.
    Free,
}

/// A change to the address space or the schedule, between two records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VmEvent {
    /// Map `[start, start + len)` (`mmap`); lengths are rounded up to 4 KiB by the kernel model.
    Map {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// Access rights.
        protection: Protection,
        /// What lies behind it.
        kind: MapKind,
    },
    /// Unmap a range (`munmap`), splitting VMAs where it cuts them.
    Unmap {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
    },
    /// Change rights (`mprotect`).
    Protect {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// The new rights.
        protection: Protection,
    },
    /// Move or resize a mapping (`mremap`): pages keep their frames.
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
        /// What is advised.
        advice: Advice,
    },
    /// Move the end of the heap (`brk`).
    Brk {
        /// The new end.
        end: VirtAddr,
    },
    /// The current process forks; the child is known by `child` in later [`VmEvent::Switch`] events.
    Fork {
        /// The stream's own number for the child (the first process of a stream is 0).
        child: ProcessId,
    },
    /// A process exits: everything that it mapped is freed.
    Exit {
        /// The stream's own number of the process.
        process: ProcessId,
    },
    /// From here on records belong to this process and thread (a context switch if the process differs).
    Switch {
        /// The stream's own number of the process.
        process: ProcessId,
        /// Thread within it.
        thread: u32,
    },
    /// The program touches each page of the range once, in ascending order, outside timed execution: set-up
    /// phases in the program's own order of first touch, without a record for each page.
    Touch {
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u64,
        /// Whether it writes (a read of untouched anonymous memory is served as a write by the model too).
        write: bool,
    },
    /// The region of interest begins: what came before is set-up.
    RegionBegin,
    /// The region of interest ends.
    RegionEnd,
}
