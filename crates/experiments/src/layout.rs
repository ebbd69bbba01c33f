//! The address space of a real Linux process: how regular it is, and what page tables would need for it.
//!
//! `/proc/PID/maps` gives the virtual half: areas, gap-1 coverage (LVM Sec. 3.1), ranges and ranges for 99%
//! (RMM Table 2). `/proc/PID/pagemap` gives the resident pages and, with the permission to read frame numbers
//! (`CAP_SYS_ADMIN`), their frames, and so the ranges that are contiguous in both address spaces. The memory
//! for page tables is measured by mapping the resident pages into each of them.

use ambulator_base::{
    Asid, FRAME_BYTES, FRAME_SHIFT, Page, PageRuns, PageSize, Pfn, ProcessId, VirtAddr, Vpn, excerpt, read_text,
};
use ambulator_os::{Mapping, OwnedContext, PteFlags};
use ambulator_simulator::catalogue;
use ambulator_sockets::{Choice, Socket};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// First page.
    pub start: u64,
    /// The page after the last.
    pub end: u64,
    /// `rwx` as bits 4, 2, 1.
    pub rights: u8,
    /// Its file or label; empty for anonymous memory.
    pub name: String,
}

/// Reads the text of `/proc/PID/maps`; `name` names it in errors.
///
/// # Errors
/// A malformed line, which the error quotes.
pub fn parse_maps(name: &str, text: &str) -> Result<Vec<Area>, String> {
    let mut areas = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || {
            format!(
                "{name}:{}: `{}` is not a line of /proc/PID/maps, such as \
                 `7f00a000-7f00c000 rw-p 00000000 00:00 0`",
                at + 1,
                excerpt(line)
            )
        };
        let mut words = line.split_whitespace();
        let (start, end) = words.next().and_then(|range| range.split_once('-')).ok_or_else(wrong)?;
        let address = |text: &str| u64::from_str_radix(text, 16).map_err(|_| wrong());
        let (start, end) = (address(start)?, address(end)?);
        let rights = words.next().filter(|rights| rights.len() >= 3).ok_or_else(wrong)?.as_bytes();
        if start >= end || (start | end) % FRAME_BYTES != 0 {
            return Err(wrong());
        }
        let bit = |at: usize, letter: u8, bit: u8| if rights[at] == letter { bit } else { 0 };
        areas.push(Area {
            start: start >> FRAME_SHIFT,
            end: end >> FRAME_SHIFT,
            rights: bit(0, b'r', 4) | bit(1, b'w', 2) | bit(2, b'x', 1),
            name: words.nth(3).unwrap_or_default().to_owned(),
        });
    }
    // The kernel's vsyscall page does not belong to the process.
    areas.retain(|area| area.end <= 1 << (57 - FRAME_SHIFT));
    if areas.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return Err(format!("{name}: areas overlap or are out of order"));
    }
    Ok(areas)
}

/// Page tables are measured for at most this many pages, 128 GiB: each of them maps every page.
const MOST_TABLE_PAGES: u64 = 1 << 25;

/// Adjacent resident pages with the same protection and adjacent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    first: u64,
    pages: u64,
    /// Of the first page; 0 for all of them without permission to read it.
    frame: u64,
    rights: u8,
}

impl Resident {
    /// The page after the last.
    fn end(&self) -> u64 {
        self.first + self.pages
    }

    /// Whether `next` has the next page and the next frame, or no frame either.
    fn continues_at(&self, next: &Resident) -> bool {
        let frame = if self.frame == 0 { 0 } else { self.frame + self.pages };
        self.end() == next.first && frame == next.frame
    }

    /// Appends it to a list in ascending order.
    fn append_to(self, list: &mut Vec<Resident>) {
        match list.last_mut() {
            Some(last) if last.rights == self.rights && last.continues_at(&self) => last.pages += self.pages,
            _ => list.push(self),
        }
    }
}

/// The measures of an address space.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LayoutReport {
    /// Accessible areas.
    pub areas: u64,
    /// 4 KiB pages of these areas.
    pub mapped_pages: u64,
    /// Whether residency is known; otherwise every mapped page counts as resident.
    pub residency_known: bool,
    /// Resident 4 KiB pages.
    pub resident_pages: u64,
    /// Share of resident pages whose successor among them is the next page number (LVM Fig. 2).
    pub gap_1_coverage: f64,
    /// Runs of resident pages with the same protection.
    pub ranges: u64,
    /// The fewest of them that hold 99% of the resident pages (RMM Table 2).
    pub ranges_for_99_percent: u64,
    /// Whether frame numbers could be read.
    pub frames_known: bool,
    /// Runs that are contiguous in both address spaces, with the same protection.
    pub physical_ranges: u64,
    /// The fewest of these that hold 99%.
    pub physical_ranges_for_99_percent: u64,
    /// Resident pages in aligned and contiguous 2 MiB: huge pages, or candidates for them.
    pub pages_in_aligned_2m: u64,
    /// Bytes that page tables need for the resident pages at 4 KiB: name, bytes, largest contiguous
    /// allocation. Empty for more than 128 GiB: that would take minutes.
    pub tables: Vec<(String, u64, u64)>,
}

/// Measures a live process.
///
/// # Errors
/// There is no such process, or no permission to inspect it.
pub fn of_process(pid: u32) -> Result<LayoutReport, String> {
    let maps = format!("/proc/{pid}/maps");
    let text = std::fs::read_to_string(&maps).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => format!("there is no process {pid}"),
        _ => format!("{maps} cannot be read: {e}"),
    })?;
    let areas = parse_maps(&maps, &text)?;
    match resident(pid, &areas) {
        Ok(resident) => Ok(report(&areas, Some(resident))),
        Err(_) => Ok(report(&areas, None)),
    }
}

/// Measures the virtual half from a copy of a process's maps.
///
/// # Errors
/// The file cannot be read, or has a malformed line.
pub fn of_maps(path: &Path) -> Result<LayoutReport, String> {
    let name = path.display().to_string();
    /// A process of a million areas has twice as much.
    const MOST_BYTES: u64 = 64 << 20;
    let text = read_text(path, MOST_BYTES).map_err(|e| format!("{name} cannot be read: {e}"))?;
    Ok(report(&parse_maps(&name, &text)?, None))
}

/// Resident pages from the kernel's `pagemap`: 8 bytes a page, bit 63 present, bits 0 to 54 the frame.
fn resident(pid: u32, areas: &[Area]) -> std::io::Result<Vec<Resident>> {
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    const AT_ONCE: u64 = 1 << 16;
    let mut pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut pages = Vec::new();
    let mut buffer = vec![0; AT_ONCE as usize * 8];
    for area in areas {
        let mut at = area.start;
        while at < area.end {
            let count = AT_ONCE.min(area.end - at);
            let bytes = &mut buffer[..count as usize * 8];
            pagemap.seek(SeekFrom::Start(at * 8))?;
            pagemap.read_exact(bytes)?;
            for (i, entry) in bytes.chunks_exact(8).enumerate() {
                let entry = entry.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
                if entry & PRESENT != 0 {
                    let page = Resident { first: at + i as u64, pages: 1, frame: entry & FRAME, rights: area.rights };
                    page.append_to(&mut pages);
                }
            }
            at += count;
        }
    }
    Ok(pages)
}

/// The runs of resident pages that are contiguous in both address spaces.
fn physical_runs(resident: &[Resident]) -> PageRuns {
    let mut runs = PageRuns::default();
    for (at, part) in resident.iter().enumerate() {
        if part.frame == 0 {
            // Pages whose frames are not known do not join.
            (part.first..part.end()).for_each(|page| runs.add(page, false));
        } else {
            let joins = at > 0 && resident[at - 1].rights == part.rights && resident[at - 1].continues_at(part);
            runs.add_run(part.first, part.pages, joins);
        }
    }
    runs
}

/// Resident pages in aligned 2 MiB that are contiguous in frames, whatever their protection.
fn pages_in_aligned_2m(resident: &[Resident]) -> u64 {
    const HUGE: u64 = 512;
    let mut joined: Vec<Resident> = Vec::new();
    for part in resident.iter().filter(|part| part.frame != 0) {
        Resident { rights: 0, ..*part }.append_to(&mut joined);
    }
    let aligned = joined.iter().filter(|part| part.first % HUGE == part.frame % HUGE);
    aligned.map(|part| part.end().saturating_sub(part.first.next_multiple_of(HUGE)) / HUGE * HUGE).sum()
}

pub(crate) fn report(areas: &[Area], resident: Option<Vec<Resident>>) -> LayoutReport {
    // Inaccessible areas hold nothing: guard pages, reserved space.
    let usable: Vec<&Area> = areas.iter().filter(|area| area.rights != 0).collect();
    let mapped_pages = usable.iter().map(|area| area.end - area.start).sum();
    let residency_known = resident.is_some();
    let resident = resident.unwrap_or_else(|| {
        let whole =
            |area: &&Area| Resident { first: area.start, pages: area.end - area.start, frame: 0, rights: area.rights };
        usable.iter().map(whole).collect()
    });
    let all = resident.iter().map(|part| part.pages).sum();
    let mut virtual_runs = PageRuns::default();
    for (at, part) in resident.iter().enumerate() {
        virtual_runs.add_run(part.first, part.pages, at > 0 && resident[at - 1].rights == part.rights);
    }
    let frames_known = resident.iter().any(|part| part.frame != 0);
    let physical_runs = if frames_known { physical_runs(&resident) } else { PageRuns::default() };
    LayoutReport {
        areas: usable.len() as u64,
        mapped_pages,
        residency_known,
        resident_pages: all,
        gap_1_coverage: virtual_runs.gap_1_coverage(),
        ranges: virtual_runs.runs(),
        ranges_for_99_percent: virtual_runs.runs_for_99_percent(),
        frames_known,
        physical_ranges: physical_runs.runs(),
        physical_ranges_for_99_percent: physical_runs.runs_for_99_percent(),
        pages_in_aligned_2m: pages_in_aligned_2m(&resident),
        tables: if all <= MOST_TABLE_PAGES { tables(&resident, all, frames_known) } else { Vec::new() },
    }
}

/// Maps the resident pages, `all` of them, into each table and measures its memory.
fn tables(resident: &[Resident], all: u64, frames_known: bool) -> Vec<(String, u64, u64)> {
    let designs = catalogue();
    let tables = designs.filling(Socket::PageTable).map(|design| (design.name, designs.choice(design.name)));
    // Designs that extend a page table are measured with the default one.
    let base = designs.default_spec().page_table;
    let lookasides = designs.filling(Socket::Lookaside).filter(|design| !design.together);
    let lookasides = lookasides.map(|design| (design.name, designs.choice(&base).with(Socket::Lookaside, design.name)));
    let mut found = Vec::new();
    let mut base_bytes = 0;
    for (name, choice) in tables.chain(lookasides) {
        let ranged = choice.design.lookaside == name;
        let choice = Choice { va_bits: 57, ..choice };
        let bytes = (all * 256).next_power_of_two().max(1 << 30);
        let Ok(mut machine) = OwnedContext::new(bytes) else { continue };
        let factory = &mut designs.build(&choice).translations;
        let Ok(mut table) = factory.new_process(ProcessId(0), Asid(1), &mut machine.os()) else { continue };
        let before = table.footprint().bytes;
        let pages = resident.iter().flat_map(|part| {
            (0..part.pages).map(|i| (part.first + i, if part.frame == 0 { 0 } else { part.frame + i }, part.rights))
        });
        for (at, (page, frame, rights)) in pages.enumerate() {
            // Unknown frames count as contiguous as the pages, as from an ideal allocator.
            let frame = if frames_known { frame } else { (1 << 30) + page % (1 << 30) + at as u64 / (1 << 30) };
            let flags =
                PteFlags { writable: rights & 2 != 0, executable: rights & 1 != 0, user: true, ..PteFlags::default() };
            let page = Page { start: VirtAddr(Vpn(page).0 << FRAME_SHIFT), size: PageSize::SIZE_4K };
            if table.map(Mapping { page, frame: Pfn(frame), flags }, &mut machine.os()).is_err() {
                break;
            }
        }
        let footprint = table.footprint();
        if name == base {
            base_bytes = footprint.bytes;
        }
        if !ranged {
            found.push((name.to_owned(), footprint.bytes.max(before), footprint.largest_contiguous));
        } else if footprint.bytes > base_bytes {
            let name = format!("{name}, by {base}");
            found.push((name, footprint.bytes - base_bytes, footprint.largest_contiguous));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555555554000-555555556000 r--p 00000000 fe:01 123 /usr/bin/x
555555556000-55555555a000 r-xp 00002000 fe:01 123 /usr/bin/x
7ffff0000000-7ffff0400000 rw-p 00000000 00:00 0
7ffff0400000-7ffff0401000 ---p 00000000 00:00 0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

    #[test]
    fn maps_are_read_and_the_virtual_half_is_counted() {
        let areas = parse_maps("maps", MAPS).unwrap();
        assert_eq!(areas.len(), 4);
        assert_eq!((areas[1].rights, areas[1].name.as_str(), areas[2].name.as_str()), (5, "/usr/bin/x", ""));
        let report = report(&areas, None);
        assert_eq!((report.areas, report.mapped_pages, report.ranges, report.frames_known), (3, 1030, 3, false));
        assert_eq!(report.ranges_for_99_percent, 1);
        assert!((report.gap_1_coverage - 1028.0 / 1029.0).abs() < 1e-12);
        // Five levels: the root, and four nodes for the pages at each end.
        let radix = report.tables.iter().find(|t| t.0 == "radix").unwrap();
        assert_eq!(radix.1, (1 + 1 + 2 + 2 + 1 + 2) * 4096, "root, L4, two L3, two L2, one and two L1");
    }

    #[test]
    fn frames_give_physical_ranges() {
        let areas = parse_maps("maps", MAPS).unwrap();
        // 1024 pages in two runs of frames, the first of them aligned to 2 MiB.
        let first = 0x7_ffff_0000;
        let mut pages = Vec::new();
        for i in 0..1024 {
            let frame = if i < 600 { 512 * 7 + i } else { 90_001 + i };
            Resident { first: first + i, pages: 1, frame, rights: 6 }.append_to(&mut pages);
        }
        assert_eq!(pages.len(), 2);
        let report = report(&areas, Some(pages));
        assert_eq!((report.ranges, report.physical_ranges, report.physical_ranges_for_99_percent), (1, 2, 2));
        assert_eq!(report.pages_in_aligned_2m, 512);
        let ranges = report.tables.iter().find(|t| t.0.starts_with("rmm")).unwrap();
        assert_eq!(ranges.1, 4096, "two ranges fit one frame of nodes");
    }

    /// What the whole text says page by page.
    fn page_by_page(resident: &[Resident]) -> (u64, u64, u64) {
        let pages: Vec<(u64, u64, u8)> = resident
            .iter()
            .flat_map(|part| (0..part.pages).map(|i| (part.first + i, part.frame + i, part.rights)))
            .collect();
        let (mut virtual_runs, mut physical, mut huge) = (PageRuns::default(), PageRuns::default(), 0);
        for (at, page) in pages.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| pages[at]);
            virtual_runs.add(page.0, before.is_some_and(|b| b.2 == page.2));
            physical.add(page.0, before.is_some_and(|b| b.2 == page.2 && b.1 + 1 == page.1));
        }
        let mut at = 0;
        while at + 512 <= pages.len() {
            let (page, frame, _) = pages[at];
            let contiguous =
                (0..512).all(|i| pages[at + i].0 == page + i as u64 && pages[at + i].1 == frame + i as u64);
            let whole = page % 512 == 0 && frame % 512 == 0 && contiguous;
            huge += if whole { 512 } else { 0 };
            at += if whole { 512 } else { 1 };
        }
        (virtual_runs.runs(), physical.runs(), huge)
    }

    #[test]
    fn runs_are_measured_like_their_pages() {
        let mut random = ambulator_base::Random::new(3);
        for _ in 0..50 {
            let (mut resident, mut page, mut frame) = (Vec::new(), 512 * 20 + random.below(600), 512 * 3);
            for _ in 0..random.below(12) {
                let pages = 1 + random.below(1400);
                Resident { first: page, pages, frame, rights: 4 + (random.below(3) as u8) }.append_to(&mut resident);
                let step = [0, 0, 1, 512][random.below(4) as usize];
                page += pages + step;
                frame += pages + [0, 0, step, 7, 512][random.below(5) as usize];
            }
            let (virtual_runs, physical, huge) = page_by_page(&resident);
            let report = report(&[], Some(resident));
            let ours = (report.ranges, report.physical_ranges, report.pages_in_aligned_2m);
            assert_eq!(ours, (virtual_runs, physical, huge));
        }
    }

    #[test]
    fn terabytes_of_address_space_are_ranges() {
        let areas = parse_maps("m", "100000000000-120000000000 rw-p 0 0 0\n120000000000-120000001000 r--p 0 0 0\n");
        let report = report(&areas.unwrap(), None);
        assert_eq!((report.resident_pages, report.ranges), ((2 << 40 >> 12) + 1, 2));
        assert!(report.tables.is_empty());
    }

    #[test]
    fn endless_maps_and_lines_are_refused() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let error = of_maps(Path::new(device)).unwrap_err();
            assert_eq!(error, format!("{device} cannot be read: it has more than 64 MiB, the most that is read"));
        }
        assert!(parse_maps("m", &"x".repeat(1 << 20)).unwrap_err().len() < 300);
    }

    #[test]
    fn malformed_lines_are_reported() {
        assert!(parse_maps("m", "hello\n").unwrap_err().starts_with("m:1: `hello`"));
        assert!(parse_maps("m", "2000-1000 rw-p 0 0 0\n").unwrap_err().contains("m:1"));
        assert!(of_process(u32::MAX).unwrap_err().contains("there is no process"));
        let own = of_process(std::process::id()).unwrap();
        assert!(own.resident_pages > 100 && own.areas > 5);
    }
}
