//! VM events from x86-64 Linux system calls, and the initial address space.

use ambulator_base::{Advice, FRAME_BYTES, MapKind, ProcessId, Protection, VirtAddr, VmEvent};
use std::path::Path;

const READ: i64 = 0;
const MMAP: i64 = 9;
const MPROTECT: i64 = 10;
const MUNMAP: i64 = 11;
const BRK: i64 = 12;
const PREAD64: i64 = 17;
const MREMAP: i64 = 25;
const MADVISE: i64 = 28;
const SHMAT: i64 = 30;
const CLONE: i64 = 56;
const FORK: i64 = 57;
const WAIT4: i64 = 61;
const SHMDT: i64 = 67;
const EXIT_GROUP: i64 = 231;
const WAITID: i64 = 247;

const MAP_ANONYMOUS: u64 = 0x20;
const CLONE_VM: u64 = 0x100;

/// Where qemu-user places position-independent programs, their libraries, stack and mappings.
const GUEST: std::ops::Range<u64> = 0x40_0000_0000..0x60_0000_0000;
/// Where programs that are not position-independent are linked.
const GUEST_FIXED: std::ops::Range<u64> = 0x1000..0x4000_0000;
/// The default stack of qemu-user.
const STACK_BYTES: u64 = 8 << 20;

/// The effect of a finished system call.
pub enum Outcome {
    /// It changed the address space, or the set of processes that share it.
    Events(Vec<VmEvent>),
    /// The kernel wrote these bytes into the program's memory.
    Copied { start: u64, bytes: u64 },
}

/// The state of the process as known from its system calls.
#[derive(Clone, Default)]
pub struct Process {
    heap_start: u64,
    heap_mapped: bool,
    /// Attached System V memory: first address and bytes.
    attached: Vec<(u64, u64)>,
    /// Forked children not known to have ended: their numbers in the kernel and in the trace.
    children: Vec<(i64, ProcessId)>,
    /// Children forked so far.
    forked: u32,
}

fn protection(bits: u64) -> Protection {
    Protection { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 }
}

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(FRAME_BYTES)
}

/// Whether the call may unmap pages or remove permissions (a fork makes pages copy-on-write), so that earlier
/// records of all threads must come before it.
pub fn revokes_access(number: i64) -> bool {
    matches!(number, MMAP | MUNMAP | MPROTECT | MREMAP | MADVISE | BRK | SHMDT | FORK | CLONE)
}

/// Whether the call ends the process with all of its threads.
pub fn ends_process(number: i64) -> bool {
    number == EXIT_GROUP
}

/// The event that a call causes as it begins. An unmapping is recorded before it happens: afterwards another
/// thread may get the same addresses, and would record its mapping first.
pub fn before(number: i64, [a, b, ..]: [u64; 6]) -> Option<VmEvent> {
    (number == MUNMAP && a.is_multiple_of(FRAME_BYTES) && b > 0)
        .then(|| VmEvent::Unmap { start: VirtAddr(a), len: pages(b) })
}

impl Process {
    /// The process that a fork of this one creates.
    pub fn child(&self) -> Process {
        Process { children: Vec::new(), forked: 0, ..self.clone() }
    }

    /// A call with these arguments returns.
    pub fn end(&mut self, number: i64, arguments: [u64; 6], result: i64) -> Option<Outcome> {
        let [a, b, c, d, ..] = arguments;
        if number == BRK {
            return self.brk(result as u64).map(|event| Outcome::Events(vec![event]));
        }
        if (-4095..0).contains(&result) {
            return None;
        }
        let event = match number {
            SHMAT => {
                // The call does not give the segment's length: the emulator's own mappings do.
                let map = address_space()
                    .into_iter()
                    .find(|map| matches!(map, VmEvent::Map { start, .. } if start.0 == result as u64));
                let Some(VmEvent::Map { start, len, .. }) = map else { return None };
                self.attached.push((start.0, len));
                VmEvent::Map { start, len, protection: Protection::READ_WRITE, kind: MapKind::Anonymous }
            }
            SHMDT => {
                let at = self.attached.iter().position(|(start, _)| *start == a)?;
                let (start, len) = self.attached.swap_remove(at);
                VmEvent::Unmap { start: VirtAddr(start), len }
            }
            MMAP => VmEvent::Map {
                start: VirtAddr(result as u64),
                len: pages(b),
                protection: protection(c),
                kind: if d & MAP_ANONYMOUS != 0 { MapKind::Anonymous } else { MapKind::File },
            },
            MPROTECT => VmEvent::Protect { start: VirtAddr(a), len: pages(b), protection: protection(c) },
            MREMAP => {
                VmEvent::Remap { old: VirtAddr(a), old_len: pages(b), new: VirtAddr(result as u64), new_len: pages(c) }
            }
            MADVISE => VmEvent::Advise {
                start: VirtAddr(a),
                len: pages(b),
                advice: match c {
                    4 => Advice::DontNeed,
                    8 => Advice::Free,
                    14 => Advice::Huge,
                    15 => Advice::NoHuge,
                    _ => return None,
                },
            },
            FORK if result > 0 => self.fork(result),
            // A thread, or a child that shares this address space until its `execve`, copies nothing.
            CLONE if result > 0 && a & CLONE_VM == 0 => self.fork(result),
            WAIT4 | WAITID => return self.ended_children(),
            READ | PREAD64 if result > 0 => {
                return Some(Outcome::Copied { start: b, bytes: result as u64 });
            }
            _ => return None,
        };
        Some(Outcome::Events(vec![event]))
    }

    fn fork(&mut self, kernel_number: i64) -> VmEvent {
        self.forked += 1;
        let child = ProcessId(self.forked);
        self.children.push((kernel_number, child));
        VmEvent::Fork { child }
    }

    /// Removes the children that have been reaped; stopped ones still exist.
    fn ended_children(&mut self) -> Option<Outcome> {
        let mut ended = Vec::new();
        self.children.retain(|&(kernel_number, process)| {
            let lives = Path::new(&format!("/proc/{kernel_number}")).exists();
            if !lives {
                ended.push(VmEvent::Exit { process });
            }
            lives
        });
        Some(Outcome::Events(ended))
    }

    /// `brk` returns the heap's end, moved or not. The heap is mapped when it first grows.
    fn brk(&mut self, end: u64) -> Option<VmEvent> {
        let end = pages(end);
        if self.heap_start == 0 {
            self.heap_start = end;
            None
        } else if self.heap_mapped {
            Some(VmEvent::Brk { end: VirtAddr(end) })
        } else if end > self.heap_start {
            self.heap_mapped = true;
            Some(VmEvent::Map {
                start: VirtAddr(self.heap_start),
                len: end - self.heap_start,
                protection: Protection::READ_WRITE,
                kind: MapKind::Heap,
            })
        } else {
            None
        }
    }
}

/// The program's current mappings, as `Map` events: those of the emulator's process in the ranges of
/// qemu-user's guest.
pub fn address_space() -> Vec<VmEvent> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<VmEvent> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    if !(GUEST.contains(&start) || GUEST_FIXED.contains(&start)) {
        return None;
    }
    let rights = fields.next()?.as_bytes();
    let has = |at: usize, letter: u8| rights.get(at) == Some(&letter);
    // The emulator keeps the program's text without execute permission; readable and not writable file pages
    // may be text.
    let file = fields.nth(3).is_some();
    let (read, write) = (has(0, b'r'), has(1, b'w'));
    let kind = match file {
        true => MapKind::File,
        false if write && end - start == STACK_BYTES => MapKind::Stack,
        false => MapKind::Anonymous,
    };
    let protection = Protection { read, write, execute: has(2, b'x') || (file && read && !write) };
    Some(VmEvent::Map { start: VirtAddr(start), len: end - start, protection, kind })
}
