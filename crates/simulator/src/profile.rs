//! Who causes page walks and page faults (`run.profile`): by mapping of the program, and by instruction.
//!
//! What a translation adds to the counters of its core goes to the mapping of its address and to the
//! instruction that made it, so that the parts add up to the counters.

use ambulator_base::{FRAME_BYTES, MapKind, NamedRange, ProcessId, State, VirtAddr, VmEvent};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What translations cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, State)]
pub struct Misses {
    /// L2 TLB misses (`mmu.l2_tlb_misses`).
    pub l2_tlb_misses: u64,
    /// Page walks (`mmu.walks`).
    pub walks: u64,
    /// Cycles of these walks (`mmu.walk_cycles`); 0 in functional mode.
    pub walk_cycles: u64,
    /// Page faults (`core.page_faults`).
    pub page_faults: u64,
    /// Cycles of the operating system for these faults.
    pub fault_cycles: u64,
}

impl Misses {
    /// The names of the numbers, in their order.
    pub const NAMES: [&str; 5] = ["l2_tlb_misses", "walks", "walk_cycles", "page_faults", "fault_cycles"];

    /// The numbers, in the order of [`Misses::NAMES`].
    pub fn values(&self) -> [u64; 5] {
        [self.l2_tlb_misses, self.walks, self.walk_cycles, self.page_faults, self.fault_cycles]
    }

    /// As [`Misses::values`], backwards.
    pub fn of_values(values: [u64; 5]) -> Misses {
        let [l2_tlb_misses, walks, walk_cycles, page_faults, fault_cycles] = values;
        Misses { l2_tlb_misses, walks, walk_cycles, page_faults, fault_cycles }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Misses) {
        let (own, other) = (self.values(), other.values());
        *self = Misses::of_values(std::array::from_fn(|at| own[at] + other[at]));
    }

    /// What has been added since `before`.
    pub(crate) fn since(&self, before: &Misses) -> Misses {
        let (own, before) = (self.values(), before.values());
        Misses::of_values(std::array::from_fn(|at| own[at].saturating_sub(before[at])))
    }

    /// By what the largest come first: cycles, then misses.
    fn weight(&self) -> (u64, u64) {
        (self.walk_cycles + self.fault_cycles, self.l2_tlb_misses)
    }
}

/// A mapping of the program: one `mmap`, the heap, a stack, or all that is mapped of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledMapping {
    /// The path of a file, or what the program calls its arrays; empty if it is not known.
    pub name: String,
    /// Its first address; 0 of addresses that no mapping holds.
    pub start: u64,
    /// Bytes, at their most.
    pub bytes: u64,
    /// What is mapped; `None` of addresses that no mapping holds.
    pub kind: Option<MapKind>,
    /// What its pages cost.
    #[serde(flatten)]
    pub misses: Misses,
}

/// An instruction, and the mapping that it accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledCode {
    /// Its address.
    pub pc: u64,
    /// The file that is mapped there; empty if it is not known.
    pub file: String,
    /// The byte of the file.
    pub file_offset: u64,
    /// The mapping that it accesses, among [`Profile::mappings`]; `None` if that is not among them.
    pub mapping: Option<usize>,
    /// What its accesses cost.
    #[serde(flatten)]
    pub misses: Misses,
}

/// Who causes page walks and page faults: the mappings and the instructions with the most cycles of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The mappings, the most expensive first.
    pub mappings: Vec<ProfiledMapping>,
    /// What the pages of all other mappings cost.
    pub other_mappings: Misses,
    /// The instructions, the most expensive first; one that accesses several mappings is listed with each.
    pub code: Vec<ProfiledCode>,
    /// What all other instructions cost.
    pub other_code: Misses,
}

impl Profile {
    /// Of all mappings.
    pub fn total(&self) -> Misses {
        let mut total = self.other_mappings;
        self.mappings.iter().for_each(|mapping| total.add(&mapping.misses));
        total
    }
}

/// A mapping as the program made it.
#[derive(Default, State)]
struct Mapping {
    start: u64,
    bytes: u64,
    kind: Option<MapKind>,
}

/// The mappings of a process.
#[derive(Clone, Default, State)]
struct AddressSpace {
    /// End and number of the mapping, by start; they do not overlap.
    ranges: BTreeMap<u64, (u64, u32)>,
    /// The heap's first address and number.
    heap: Option<(u64, u32)>,
}

impl AddressSpace {
    fn find(&self, va: u64) -> u32 {
        let below = self.ranges.range(..=va).next_back();
        below.filter(|(_, (end, _))| va < *end).map_or(NO_MAPPING, |(_, (_, number))| *number)
    }

    fn remove(&mut self, start: u64, end: u64) {
        let overlapping = self.ranges.range(..end).rev().take_while(|(_, (to, _))| *to > start);
        let overlapping: Vec<(u64, u64, u32)> = overlapping.map(|(from, (to, number))| (*from, *to, *number)).collect();
        for (from, to, number) in overlapping {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, (start, number));
            }
            if to > end {
                self.ranges.insert(end, (to, number));
            }
        }
    }

    fn insert(&mut self, start: u64, end: u64, number: u32) {
        self.remove(start, end);
        if start < end {
            self.ranges.insert(start, (end, number));
        }
    }
}

/// The number of addresses that no mapping holds.
const NO_MAPPING: u32 = 0;

/// Gathers a profile while a machine runs.
#[derive(State)]
pub(crate) struct Profiler {
    /// Rows of the profile.
    #[state(skip)]
    most: usize,
    spaces: Vec<(ProcessId, AddressSpace)>,
    mappings: Vec<Mapping>,
    /// Numbers of mappings by first address, bytes and kind: what is mapped again is the same one.
    numbers: FxHashMap<(u64, u64, MapKind), u32>,
    costs: FxHashMap<(u64, u32), Misses>,
}

impl Profiler {
    /// A profiler of `most` rows; `None` for 0.
    pub fn new(most: u32) -> Option<Box<Profiler>> {
        let none = Mapping { start: 0, bytes: 0, kind: None };
        (most > 0).then(|| {
            Box::new(Profiler {
                most: most as usize,
                spaces: Vec::new(),
                mappings: vec![none],
                numbers: FxHashMap::default(),
                costs: FxHashMap::default(),
            })
        })
    }

    /// Counting begins.
    pub fn reset(&mut self) {
        self.costs.clear();
    }

    /// A translation of `va` for the instruction at `pc` has cost this.
    #[cold]
    pub fn charge(&mut self, process: ProcessId, pc: VirtAddr, va: VirtAddr, cost: &Misses) {
        let space = self.spaces.iter().find(|(of, _)| *of == process);
        let mapping = space.map_or(NO_MAPPING, |(_, space)| space.find(va.0));
        self.costs.entry((pc.0, mapping)).or_default().add(cost);
    }

    /// A process has forked a child.
    pub fn fork(&mut self, parent: ProcessId, child: ProcessId) {
        let space = self.space(parent).clone();
        self.spaces.retain(|(process, _)| *process != child);
        self.spaces.push((child, space));
    }

    /// A process has exited.
    pub fn exit(&mut self, process: ProcessId) {
        self.spaces.retain(|(other, _)| *other != process);
    }

    fn space(&mut self, process: ProcessId) -> &mut AddressSpace {
        let at = self.spaces.iter().position(|(of, _)| *of == process).unwrap_or_else(|| {
            self.spaces.push((process, AddressSpace::default()));
            self.spaces.len() - 1
        });
        &mut self.spaces[at].1
    }

    fn number(&mut self, start: u64, bytes: u64, kind: MapKind) -> u32 {
        let next = self.mappings.len() as u32;
        let number = *self.numbers.entry((start, bytes, kind)).or_insert(next);
        if number == next {
            self.mappings.push(Mapping { start, bytes, kind: Some(kind) });
        }
        number
    }

    /// A change of the address space of `process`.
    pub fn event(&mut self, process: ProcessId, event: &VmEvent) {
        let page = |at: u64| at & !(FRAME_BYTES - 1);
        let pages = |start: VirtAddr, len: u64| (page(start.0), page(start.0 + len + FRAME_BYTES - 1));
        match *event {
            VmEvent::Map { start, len, kind, .. } => {
                let (from, to) = pages(start, len);
                let number = self.number(from, to - from, kind);
                let space = self.space(process);
                space.insert(from, to, number);
                if kind == MapKind::Heap && space.heap.is_none() {
                    space.heap = Some((from, number));
                }
            }
            VmEvent::Unmap { start, len } => {
                let (from, to) = pages(start, len);
                self.space(process).remove(from, to);
            }
            VmEvent::Remap { old, old_len, new, new_len } => {
                let ((from, to), (new_from, new_to)) = (pages(old, old_len), pages(new, new_len));
                let space = self.space(process);
                let number = space.find(from);
                space.remove(from, to);
                space.insert(new_from, new_to, number);
                let known = &mut self.mappings[number as usize];
                known.bytes = known.bytes.max(new_to - new_from);
            }
            VmEvent::Brk { end } => {
                let to = page(end.0 + FRAME_BYTES - 1);
                let space = self.space(process);
                let Some((start, number)) = space.heap else { return };
                let own = space.ranges.iter().filter(|(_, (_, of))| *of == number).map(|(at, _)| *at);
                own.collect::<Vec<_>>().iter().for_each(|at| _ = space.ranges.remove(at));
                space.insert(start, to.max(start), number);
                let known = &mut self.mappings[number as usize];
                known.bytes = known.bytes.max(to.saturating_sub(start));
            }
            _ => {}
        }
    }

    /// The profile so far. `names` are those of parts of the address space.
    pub fn profile(&self, names: &[NamedRange]) -> Profile {
        let mut of_mappings: BTreeMap<u32, Misses> = BTreeMap::new();
        for ((_, mapping), cost) in &self.costs {
            of_mappings.entry(*mapping).or_default().add(cost);
        }
        // All mappings of a file are one.
        let mut rows: Vec<(ProfiledMapping, Vec<u32>)> = Vec::new();
        for (number, misses) in of_mappings {
            let Mapping { start, bytes, kind } = self.mappings[number as usize];
            let name = name_of(start, bytes, kind, names);
            match rows.iter_mut().find(|(row, _)| !name.is_empty() && row.name == name) {
                Some((row, numbers)) => {
                    row.start = row.start.min(start);
                    row.bytes += bytes;
                    row.misses.add(&misses);
                    numbers.push(number);
                }
                None => rows.push((ProfiledMapping { name, start, bytes, kind, misses }, vec![number])),
            }
        }
        rows.sort_by_key(|(row, _)| (std::cmp::Reverse(row.misses.weight()), row.start));
        let mut profile = Profile::default();
        let rest = rows.split_off(self.most.min(rows.len()));
        rest.iter().for_each(|(row, _)| profile.other_mappings.add(&row.misses));
        let mut of_code: BTreeMap<(u64, Option<usize>), Misses> = BTreeMap::new();
        for ((pc, mapping), cost) in &self.costs {
            let row = rows.iter().position(|(_, numbers)| numbers.contains(mapping));
            of_code.entry((*pc, row)).or_default().add(cost);
        }
        let mut code: Vec<ProfiledCode> = of_code
            .into_iter()
            .map(|((pc, mapping), misses)| {
                let (file, file_offset) = place_in_file(pc, names).unwrap_or_default();
                ProfiledCode { pc, file, file_offset, mapping, misses }
            })
            .collect();
        code.sort_by_key(|row| (std::cmp::Reverse(row.misses.weight()), row.pc, row.mapping));
        let rest = code.split_off(self.most.min(code.len()));
        rest.iter().for_each(|row| profile.other_code.add(&row.misses));
        profile.code = code;
        profile.mappings = rows.into_iter().map(|(row, _)| row).collect();
        profile
    }
}

/// The most names that a mapping with several arrays shows.
const NAMES_SHOWN: usize = 3;

/// What a mapping is called: the names of what lies in it.
fn name_of(start: u64, bytes: u64, kind: Option<MapKind>, names: &[NamedRange]) -> String {
    let of_file = kind == Some(MapKind::File);
    let overlaps = |range: &&NamedRange| {
        let overlaps = range.start.0 < start + bytes && start < range.start.0 + range.len;
        overlaps && range.file_offset.is_some() == of_file
    };
    let mut found: Vec<&str> = Vec::new();
    for range in names.iter().filter(overlaps) {
        if !found.contains(&range.name.as_str()) {
            found.push(&range.name);
        }
    }
    let more = found.len().saturating_sub(NAMES_SHOWN);
    found.truncate(NAMES_SHOWN);
    let shown = found.join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// The file that is mapped at an address, and the byte of it.
fn place_in_file(at: u64, names: &[NamedRange]) -> Option<(String, u64)> {
    let range = names
        .iter()
        .find(|range| range.file_offset.is_some() && range.start.0 <= at && at < range.start.0 + range.len)?;
    Some((range.name.clone(), range.file_offset? + (at - range.start.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::Protection;

    const PROCESS: ProcessId = ProcessId(3);

    fn map(start: u64, len: u64, kind: MapKind) -> VmEvent {
        VmEvent::Map { start: VirtAddr(start), len, protection: Protection::READ_WRITE, kind }
    }

    fn walk(cycles: u64) -> Misses {
        Misses { l2_tlb_misses: 1, walks: 1, walk_cycles: cycles, ..Misses::default() }
    }

    fn profiler(most: u32) -> Box<Profiler> {
        let mut profiler = Profiler::new(most).unwrap();
        profiler.event(PROCESS, &map(0x10_0000, 0x4000, MapKind::Anonymous));
        profiler.event(PROCESS, &map(0x10_4000, 0x8000, MapKind::Anonymous));
        profiler.event(PROCESS, &map(0x40_0000, 0x1000, MapKind::Heap));
        profiler
    }

    #[test]
    fn adjacent_mappings_stay_apart_and_the_parts_add_up() {
        let mut profiler = profiler(1);
        for (pc, va, cycles) in [(1, 0x10_3ff8, 10), (1, 0x10_4000, 200), (2, 0x10_4000, 30), (3, 0x90_0000, 4)] {
            profiler.charge(PROCESS, VirtAddr(pc), VirtAddr(va), &walk(cycles));
        }
        let profile = profiler.profile(&[]);
        let [row] = &profile.mappings[..] else { panic!("{profile:?}") };
        assert_eq!((row.start, row.bytes, row.misses.walk_cycles), (0x10_4000, 0x8000, 230));
        assert_eq!((profile.other_mappings.walk_cycles, profile.total().walk_cycles), (14, 244));
        assert_eq!(
            (profile.code[0].pc, profile.code[0].mapping, profile.code[0].misses.walk_cycles),
            (1, Some(0), 200)
        );
        assert_eq!((profile.other_code.walk_cycles, profile.other_code.walks), (44, 3));
    }

    #[test]
    fn the_heap_grows_and_what_moves_keeps_its_row() {
        let mut profiler = profiler(9);
        profiler.event(PROCESS, &VmEvent::Brk { end: VirtAddr(0x40_9000) });
        profiler.charge(PROCESS, VirtAddr(1), VirtAddr(0x40_8000), &walk(1));
        let (old, new) = (VirtAddr(0x10_4000), VirtAddr(0x70_0000));
        profiler.event(PROCESS, &VmEvent::Remap { old, old_len: 0x8000, new, new_len: 0x1_0000 });
        profiler.charge(PROCESS, VirtAddr(1), VirtAddr(0x70_f000), &walk(2));
        profiler.event(PROCESS, &VmEvent::Brk { end: VirtAddr(0x40_2000) });
        profiler.charge(PROCESS, VirtAddr(1), VirtAddr(0x40_8000), &walk(3));
        profiler.fork(PROCESS, ProcessId(4));
        profiler.charge(ProcessId(4), VirtAddr(1), VirtAddr(0x40_1000), &walk(50));
        let rows = profiler.profile(&[]).mappings;
        let rows: Vec<_> = rows.iter().map(|row| (row.kind, row.start, row.bytes, row.misses.walk_cycles)).collect();
        let expected = [
            (Some(MapKind::Heap), 0x40_0000, 0x9000, 51),
            (None, 0, 0, 3),
            (Some(MapKind::Anonymous), 0x10_4000, 0x1_0000, 2),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn files_are_named_and_code_has_its_place_in_them() {
        let mut profiler = profiler(9);
        let file = |start: u64, offset| NamedRange {
            start: VirtAddr(start),
            len: 0x1000,
            name: "/bin/sort".into(),
            file_offset: Some(offset),
        };
        profiler.event(PROCESS, &map(0x55_0000, 0x1000, MapKind::File));
        profiler.event(PROCESS, &map(0x55_1000, 0x1000, MapKind::File));
        profiler.charge(PROCESS, VirtAddr(0x55_1234), VirtAddr(0x55_0000), &walk(1));
        profiler.charge(PROCESS, VirtAddr(0x55_1234), VirtAddr(0x55_1234), &walk(1));
        let profile = profiler.profile(&[file(0x55_0000, 0), file(0x55_1000, 0x3000)]);
        assert_eq!(profile.mappings.len(), 1);
        assert_eq!((profile.mappings[0].name.as_str(), profile.mappings[0].bytes), ("/bin/sort", 0x2000));
        assert_eq!(profile.code.len(), 1);
        assert_eq!((profile.code[0].file.as_str(), profile.code[0].file_offset), ("/bin/sort", 0x3234));
    }
}
