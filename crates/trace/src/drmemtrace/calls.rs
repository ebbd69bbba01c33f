//! What a trace records of calls that change an address space, as VM events.
//!
//! Two options of the tracer record calls, as markers with a number of the function, its arguments and its
//! result:
//!
//! - `-record_syscall`: system calls, whose numbers begin at 2^32. Their result says only whether they
//!   succeeded, so the address of an `mmap` is known where the program chose it (`MAP_FIXED`).
//! - `-record_function`: functions of libraries, by the names of `funclist.log`, with their real results.
//!
//! Derived are mappings and unmappings (`mmap`, `munmap`, `mremap`, `brk`) and advice (`madvise`). Rights are
//! not: all are granted, as for synthesised mappings. A page that `mremap` moves is touched anew.

use crate::implicit_maps::ImplicitMaps;
use ambulator_base::{Advice, Batch, FRAME_BYTES, MapKind, Protection, VmEvent};
use rustc_hash::FxHashMap;

/// The number of system call 0 among the functions.
const SYSTEM_CALLS: u64 = 1 << 32;
/// Arguments that are kept.
const ARGUMENTS: usize = 6;
/// The result of a system call that succeeded.
pub(super) const SUCCEEDED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const MREMAP_MAYMOVE: u64 = 1;
const MREMAP_FIXED: u64 = 2;
/// Advice, by `madvise`'s number.
const ADVICE: [(u64, Advice); 4] = [(4, Advice::DontNeed), (8, Advice::Free), (14, Advice::Huge), (15, Advice::NoHuge)];

/// A call that changes an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Map,
    Unmap,
    Remap,
    Advise,
    Brk,
}

impl Function {
    fn of_name(name: &str) -> Option<Function> {
        Some(match name {
            "mmap" | "mmap64" => Function::Map,
            "munmap" => Function::Unmap,
            "mremap" => Function::Remap,
            "madvise" => Function::Advise,
            "brk" => Function::Brk,
            _ => return None,
        })
    }

    /// By its number on x86-64, or on AArch64.
    fn of_system_call(number: u64, arm: bool) -> Option<Function> {
        Some(match (number, arm) {
            (9, false) | (222, true) => Function::Map,
            (11, false) | (215, true) => Function::Unmap,
            (25, false) | (216, true) => Function::Remap,
            (28, false) | (233, true) => Function::Advise,
            (12, false) | (214, true) => Function::Brk,
            _ => return None,
        })
    }
}

/// The system call of x86-64 that makes this change, by its number among the functions, and its arguments.
pub(super) fn system_call(event: &VmEvent) -> Option<(u64, Vec<u64>)> {
    let rights = |of: &Protection| u64::from(of.read) | u64::from(of.write) << 1 | u64::from(of.execute) << 2;
    let (number, arguments) = match event {
        VmEvent::Map { start, len, protection, kind } => {
            let (anonymous, file) = if *kind == MapKind::File { (0, 3) } else { (MAP_ANONYMOUS, u64::MAX) };
            let flags = MAP_PRIVATE | MAP_FIXED | anonymous;
            (9, vec![start.0, *len, rights(protection), flags, file, 0])
        }
        VmEvent::Unmap { start, len } => (11, vec![start.0, *len]),
        VmEvent::Protect { start, len, protection } => (10, vec![start.0, *len, rights(protection)]),
        VmEvent::Remap { old, old_len, new, new_len } => {
            (25, vec![old.0, *old_len, *new_len, MREMAP_MAYMOVE | MREMAP_FIXED, new.0])
        }
        VmEvent::Advise { start, len, advice } => {
            let number = ADVICE.into_iter().find(|(_, known)| known == advice)?.0;
            (28, vec![start.0, *len, number])
        }
        VmEvent::Brk { end } => (12, vec![end.0]),
        _ => return None,
    };
    Some((SYSTEM_CALLS + number, arguments))
}

/// A call of a thread whose result has not come yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    id: u64,
    arguments: [u64; ARGUMENTS],
    count: usize,
}

impl Call {
    /// The following markers are of this function.
    pub(crate) fn function(&mut self, id: u64) {
        if id != self.id {
            *self = Call { id, ..Call::default() };
        }
    }

    pub(crate) fn argument(&mut self, value: u64) {
        if self.count < ARGUMENTS {
            self.arguments[self.count] = value;
            self.count += 1;
        }
    }

    /// The call's result has come: the call, and this one forgotten.
    pub(crate) fn returned(&mut self) -> Call {
        std::mem::take(self)
    }
}

/// The functions of a trace, and what was derived from their calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Functions of libraries, by their numbers.
    named: FxHashMap<u64, Function>,
    /// The end of each process's heap, as far as it is known.
    heaps: FxHashMap<u64, u64>,
    /// Events derived.
    pub(crate) derived: u64,
    /// Calls of `mmap` and `mremap` whose addresses the trace does not say.
    pub(crate) without_address: u64,
}

impl Calls {
    /// Adds what `funclist.log` says: in each line a number first and a name last, after a `!`, with commas
    /// between. Other lines are skipped.
    pub(crate) fn add_list(&mut self, text: &str) {
        for line in text.lines() {
            let mut fields = line.split(',');
            let id = fields.next().and_then(|id| id.trim().parse().ok());
            let name = fields.next_back().map(|name| name.rsplit('!').next().unwrap_or(name).trim());
            if let (Some(id), Some(function)) = (id, name.and_then(Function::of_name)) {
                self.named.insert(id, function);
            }
        }
    }

    /// A call of the process that runs has returned. Where addresses have too many bits for `limit`, nothing
    /// is derived.
    pub(crate) fn apply(
        &mut self,
        (call, result): (Call, u64),
        (process, arm, limit): (u64, bool, u64),
        maps: &mut ImplicitMaps,
        batch: &mut Batch,
    ) {
        let system_call = call.id.checked_sub(SYSTEM_CALLS);
        let Some(function) = system_call
            .map_or_else(|| self.named.get(&call.id).copied(), |number| Function::of_system_call(number, arm))
        else {
            return;
        };
        let is_address = |value: u64| value >= FRAME_BYTES && value < limit && value.is_multiple_of(FRAME_BYTES);
        // Of a system call: 0 failed, 1 succeeded.
        let failed = match (system_call, function) {
            (Some(_), _) => result == 0 || result > limit,
            (None, Function::Map | Function::Remap) => !is_address(result),
            (None, _) => result != 0,
        };
        let [a, b, c, d, e, _] = call.arguments;
        let range = |start: u64, len: u64| {
            let len = len.checked_next_multiple_of(FRAME_BYTES)?;
            let good = len > 0 && is_address(start) && start.checked_add(len).is_some_and(|end| end <= limit);
            good.then_some((start, len))
        };
        if failed || call.count < 2 && function != Function::Brk {
            return;
        }
        match function {
            Function::Map => {
                let kind = if d & MAP_ANONYMOUS != 0 { MapKind::Anonymous } else { MapKind::File };
                let chosen = (d & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0).then_some(a);
                let start = if is_address(result) { Some(result) } else { chosen };
                match start.and_then(|start| range(start, b)) {
                    Some((start, len)) if call.count > 3 => {
                        maps.map(start, len, kind, batch);
                        self.derived += 1;
                    }
                    _ => self.without_address += 1,
                }
            }
            Function::Unmap => self.unmap(range(a, b), maps, batch),
            Function::Remap => {
                let Some((old, old_len)) = range(a, b) else { return };
                let chosen = (d & MREMAP_FIXED != 0).then_some(e);
                let start = if is_address(result) { Some(result) } else { chosen };
                match start.and_then(|start| range(start, c)).or_else(|| range(old, c).filter(|new| new.1 <= old_len)) {
                    Some((new, len)) if new != old => {
                        self.unmap(Some((old, old_len)), maps, batch);
                        maps.map(new, len, MapKind::Anonymous, batch);
                        self.derived += 1;
                    }
                    Some((_, len)) if len > old_len => {
                        maps.map(old + old_len, len - old_len, MapKind::Anonymous, batch);
                        self.derived += 1;
                    }
                    Some((_, len)) if len < old_len => self.unmap(Some((old + len, old_len - len)), maps, batch),
                    Some(_) => {}
                    None => self.without_address += 1,
                }
            }
            Function::Advise => {
                let Some((_, advice)) = ADVICE.into_iter().find(|(number, _)| *number == c) else { return };
                if let Some((start, len)) = range(a, b) {
                    ImplicitMaps::advise(start, len, advice, batch);
                    self.derived += 1;
                }
            }
            Function::Brk => self.brk(a, process, limit, maps, batch),
        }
    }

    fn unmap(&mut self, range: Option<(u64, u64)>, maps: &mut ImplicitMaps, batch: &mut Batch) {
        if let Some((start, len)) = range {
            maps.unmap(start, len, batch);
            self.derived += 1;
        }
    }

    fn brk(&mut self, end: u64, process: u64, limit: u64, maps: &mut ImplicitMaps, batch: &mut Batch) {
        let Some(end) = end.checked_next_multiple_of(FRAME_BYTES).filter(|end| *end > 0 && *end <= limit) else {
            return; // asks where the end is
        };
        match self.heaps.insert(process, end) {
            Some(before) if before < end => {
                maps.map(before, end - before, MapKind::Heap, batch);
                self.derived += 1;
            }
            Some(before) if end < before => self.unmap(Some((end, before - end)), maps, batch),
            _ => {}
        }
    }
}
