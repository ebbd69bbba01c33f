//! Which data structures and which code cause page walks and page faults, by a run's profile.

use ambulator_base::{MapKind, PageSize};
use ambulator_simulator::{Misses, Profile, ProfiledMapping};
use serde::Serialize;

/// Rows that a page has of each.
const ROWS: usize = 6;
/// What a row must have of one of the costs to be shown.
const LEAST: f64 = 0.01;

/// What page walks and page faults cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// L2 TLB misses.
    pub l2_tlb_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Cycles of page walks.
    pub walk_cycles: u64,
    /// Page faults.
    pub page_faults: u64,
    /// Cycles of page faults.
    pub fault_cycles: u64,
}

impl From<&Misses> for Cost {
    fn from(misses: &Misses) -> Cost {
        let Misses { l2_tlb_misses, walks, walk_cycles, page_faults, fault_cycles } = *misses;
        Cost { l2_tlb_misses, walks, walk_cycles, page_faults, fault_cycles }
    }
}

/// Shares of what all page walks and page faults cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Of all L2 TLB misses.
    pub l2_tlb_misses: f64,
    /// Of all cycles of page walks.
    pub walk_cycles: f64,
    /// Of all cycles of page faults.
    pub fault_cycles: f64,
}

impl Shares {
    fn of(misses: &Misses, total: &Misses) -> Shares {
        let share = |part: u64, all: u64| if all > 0 { part as f64 / all as f64 } else { 0.0 };
        Shares {
            l2_tlb_misses: share(misses.l2_tlb_misses, total.l2_tlb_misses),
            walk_cycles: share(misses.walk_cycles, total.walk_cycles),
            fault_cycles: share(misses.fault_cycles, total.fault_cycles),
        }
    }

    fn most(&self) -> f64 {
        self.l2_tlb_misses.max(self.walk_cycles).max(self.fault_cycles)
    }
}

/// A mapping of the program with its part of the costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Structure {
    /// What it is.
    pub name: String,
    /// Its first address; `None` of all others together.
    pub start: Option<u64>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its part.
    #[serde(flatten)]
    pub shares: Shares,
}

/// Where an instruction is in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The function; empty if it is not known.
    pub function: String,
    /// The source file; empty if it is not known.
    pub source: String,
    /// The line; 0 if it is not known.
    pub line: u32,
}

/// Code with its part of the costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodeShare {
    /// The address of the first instruction; `None` of all other code together.
    pub pc: Option<u64>,
    /// The file that is mapped there; empty if it is not known.
    pub file: String,
    /// The byte of that file.
    pub file_offset: u64,
    /// Where it is in the source, if that is known.
    pub place: Option<Place>,
    /// The data that it accesses.
    pub structure: String,
    /// Its part.
    #[serde(flatten)]
    pub shares: Shares,
}

/// The cost of everything.
pub(super) fn total(profile: &Profile) -> Cost {
    (&profile.total()).into()
}

/// What a mapping is called.
fn name_of(mapping: &ProfiledMapping) -> String {
    let kind = match mapping.kind {
        Some(MapKind::Anonymous) => "anonymous mapping",
        Some(MapKind::File) => "mapped file",
        Some(MapKind::Heap) => "heap",
        Some(MapKind::Stack) => "stack",
        None => "no mapping",
    };
    match mapping.name.is_empty() {
        true => format!("{kind} at {:#x}", mapping.start),
        false => mapping.name.clone(),
    }
}

/// The mappings, the most expensive first; the last row stands for all others.
pub(super) fn structures(profile: &Profile) -> Vec<Structure> {
    let total = profile.total();
    let mut rows: Vec<Structure> = Vec::new();
    let mut rest = profile.other_mappings;
    for mapping in &profile.mappings {
        let shares = Shares::of(&mapping.misses, &total);
        if rows.len() == ROWS || shares.most() < LEAST {
            rest.add(&mapping.misses);
            continue;
        }
        let start = Some(mapping.start);
        rows.push(Structure { name: name_of(mapping), start, bytes: mapping.bytes, shares });
    }
    if rest != Misses::default() {
        let shares = Shares::of(&rest, &total);
        rows.push(Structure { name: "all others".into(), start: None, bytes: 0, shares });
    }
    rows
}

/// The code, the most expensive first: instructions of one line that access one structure are a row. The last
/// row stands for all other code.
pub(super) fn code(
    profile: &Profile,
    structures: &[Structure],
    place: &mut dyn FnMut(&str, u64) -> Option<Place>,
) -> Vec<CodeShare> {
    let total = profile.total();
    let mut rows: Vec<(CodeShare, Misses)> = Vec::new();
    for code in &profile.code {
        let place = if code.file.is_empty() { None } else { place(&code.file, code.file_offset) };
        let mapping = code.mapping.and_then(|at| profile.mappings.get(at));
        let known = mapping.filter(|mapping| structures.iter().any(|one| one.start == Some(mapping.start)));
        let structure = known.map_or_else(|| "others".to_owned(), name_of);
        let known = rows.iter_mut().find(|(row, _)| {
            row.structure == structure && row.place.is_some() && row.place == place && row.file == code.file
        });
        match known {
            Some((_, misses)) => misses.add(&code.misses),
            None => rows.push((
                CodeShare {
                    pc: Some(code.pc),
                    file: code.file.clone(),
                    file_offset: code.file_offset,
                    place,
                    structure,
                    shares: Shares::default(),
                },
                code.misses,
            )),
        }
    }
    rows.sort_by_key(|(_, misses)| std::cmp::Reverse((misses.walk_cycles + misses.fault_cycles, misses.walks)));
    let mut rest = profile.other_code;
    let mut shown = Vec::new();
    for (mut row, misses) in rows {
        row.shares = Shares::of(&misses, &total);
        if shown.len() == ROWS || row.shares.most() < LEAST {
            rest.add(&misses);
        } else {
            shown.push(row);
        }
    }
    if rest != Misses::default() {
        shown.push(CodeShare {
            pc: None,
            file: String::new(),
            file_offset: 0,
            place: None,
            structure: String::new(),
            shares: Shares::of(&rest, &total),
        });
    }
    shown
}

/// The share of the walk cycles in mapped files.
pub(super) fn in_files(profile: &Profile) -> f64 {
    let of_files = profile.mappings.iter().filter(|mapping| mapping.kind == Some(MapKind::File));
    let (files, all) = (of_files.map(|of| of.misses.walk_cycles).sum::<u64>(), profile.total().walk_cycles);
    if all > 0 { files as f64 / all as f64 } else { 0.0 }
}

/// The share of the walk cycles, if they are spread evenly over each mapping, in parts of anonymous memory
/// that no whole aligned 2 MiB covers: huge pages do not reach them.
pub(super) fn outside_2m(profile: &Profile) -> f64 {
    let all = profile.total().walk_cycles as f64;
    let huge = PageSize::SIZE_2M.bytes();
    let outside = |mapping: &ProfiledMapping| {
        if !matches!(mapping.kind, Some(MapKind::Anonymous | MapKind::Heap)) || mapping.bytes == 0 {
            return 0.0;
        }
        let (first, end) = (mapping.start.next_multiple_of(huge), (mapping.start + mapping.bytes) / huge * huge);
        let inside = end.saturating_sub(first) as f64;
        mapping.misses.walk_cycles as f64 * (1.0 - inside / mapping.bytes as f64)
    };
    if all > 0.0 { profile.mappings.iter().map(outside).sum::<f64>() / all } else { 0.0 }
}
