//! The files that a captured program maps: the emulator's own list of mappings has them, at the program's
//! addresses.

use ambulator_base::{Batch, MapKind, NamedRange, VirtAddr, VmEvent};
use std::collections::HashSet;
use std::ops::Range;

/// Where the emulator places programs, their libraries and their mappings.
const GUEST: [Range<u64>; 2] = [0x1000..0x4000_0000, 0x40_0000_0000..0x60_0000_0000];
/// Mappings of files that are remembered.
const MOST: usize = 1 << 14;

/// The files that a process has mapped so far.
pub struct MappedFiles {
    process: u32,
    known: Vec<NamedRange>,
    /// Of the known ones: first address, byte of the file, and name.
    seen: HashSet<(u64, u64, String)>,
}

impl MappedFiles {
    /// The files of a process, by its number in the kernel.
    pub fn of(process: u32) -> MappedFiles {
        let mut files = MappedFiles { process, known: Vec::new(), seen: HashSet::new() };
        files.look();
        files
    }

    /// Looks again if the program has mapped a file.
    pub fn follow(&mut self, batch: &Batch) {
        let maps_file = |event: &VmEvent| matches!(event, VmEvent::Map { kind: MapKind::File, .. });
        if batch.events.iter().any(|(_, event)| maps_file(event)) {
            self.look();
        }
    }

    /// Looks what is mapped now. A process that has ended has nothing mapped.
    pub fn look(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process)).unwrap_or_default();
        for range in maps.lines().filter_map(mapped_file) {
            let key = (range.start.0, range.file_offset.unwrap_or(0), range.name.clone());
            if self.known.len() < MOST && self.seen.insert(key) {
                self.known.push(range);
            }
        }
    }

    /// What is known so far.
    pub fn known(&self) -> &[NamedRange] {
        &self.known
    }
}

/// A line of `/proc/PID/maps`, if it is a file's and in the program's part of the address space.
fn mapped_file(line: &str) -> Option<NamedRange> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let path = rest.find('/').map(|at| &rest[at..])?;
    let offset = number(rest.split_ascii_whitespace().nth(1)?)?;
    let name = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
    let of_program = GUEST.iter().any(|guest| guest.contains(&start));
    let len = end.checked_sub(start)?;
    of_program.then_some(NamedRange { start: VirtAddr(start), len, name, file_offset: Some(offset) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_from_lines_of_mappings() {
        let line = "4002a1e000-4002a22000 r--p 001cf000 fe:00 326269                 /opt/my app/libc.so.6 (deleted)";
        let expected = NamedRange {
            start: VirtAddr(0x40_02a1_e000),
            len: 0x4000,
            name: "/opt/my app/libc.so.6".into(),
            file_offset: Some(0x1c_f000),
        };
        assert_eq!(mapped_file(line), Some(expected));
        for other in [
            "4002842000-4002844000 rw-p 00000000 00:00 0 ",
            "400200d000-400280d000 rw-p 00000000 00:00 0                              [stack]",
            "7fe56c26a000-7fe56c275000 r--p 00000000 fe:00 326450                     /usr/lib/libgmp.so.10",
            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
            "nonsense",
            "",
        ] {
            assert_eq!(mapped_file(other), None, "{other}");
        }
    }
}
