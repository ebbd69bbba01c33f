//! Physical addresses that a trace records: where its pages really were.

use crate::event_codec::{LONGEST_PLACE, PHYSICAL_BITS, is_place};
use ambulator_base::{FRAME_SHIFT, PageRuns, PageSize, PhysAddr, VirtAddr, VmEvent};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

/// log2 of the 4 KiB pages in an aligned 2 MiB.
const HUGE_SHIFT: u32 = 9;

/// Most pages that are remembered: 64 GiB.
const MOST: usize = 1 << 24;

/// Most bytes of a line of `v2p.textproto`.
const LONGEST_LINE: u64 = 4096;

/// Bits of a page's number, below those of its process's.
const PAGE_BITS: u32 = 57 - FRAME_SHIFT;

/// The frame of each page, as far as a trace says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhysicalPages {
    /// By the page's number and, above that, the process's.
    frames: FxHashMap<u64, u64>,
    moved: u64,
}

/// How pages lie in physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PhysicalReport {
    /// 4 KiB pages whose physical address the trace records; the first 16 Mi of them.
    pub pages: u64,
    /// Times that a page was somewhere else than before.
    pub moved: u64,
    /// Runs of pages that are contiguous in virtual and in physical memory.
    pub runs: u64,
    /// The fewest of them that hold 99% of the pages.
    pub runs_for_99_percent: u64,
    /// Pages of the longest.
    pub longest_run: u64,
    /// Aligned 2 MiB regions whose recorded pages all lie where one huge page would have them.
    pub huge_regions: u64,
    /// Aligned 2 MiB regions with a recorded page.
    pub regions: u64,
}

impl PhysicalPages {
    /// `bytes` from a page's virtual address on, in this process of the stream, are at a physical one. Returns
    /// whether that is new.
    pub(crate) fn add(&mut self, process: usize, va: u64, pa: u64, bytes: u64) -> bool {
        let first = (process as u64) << PAGE_BITS | va >> FRAME_SHIFT;
        let mut new = false;
        for page in 0..bytes.div_ceil(1 << FRAME_SHIFT).max(1) {
            if self.frames.len() == MOST && !self.frames.contains_key(&(first + page)) {
                break;
            }
            let frame = (pa >> FRAME_SHIFT) + page;
            let before = self.frames.insert(first + page, frame);
            self.moved += u64::from(before.is_some_and(|before| before != frame));
            new |= before != Some(frame);
        }
        new
    }

    /// The page of this size that holds `va` is at the one that holds `pa`: the event that says so, if that is
    /// new.
    pub(crate) fn place(&mut self, process: usize, va: u64, pa: u64, page: PageSize) -> Option<VmEvent> {
        let within = page.bytes() - 1;
        let (va, pa) = (va & !within, pa & !within);
        let new = self.add(process, va, pa, page.bytes());
        let (start, at) = (VirtAddr(va), PhysAddr(pa));
        (new && is_place(start, page.bytes(), at, page)).then_some(VmEvent::Place {
            start,
            len: page.bytes(),
            at,
            page,
        })
    }

    /// Adds what an event says.
    pub(crate) fn event(&mut self, process: usize, event: &VmEvent) {
        if let VmEvent::Place { start, len, at, .. } = *event {
            self.add(process, start.0, at.0, len);
        }
    }

    /// Adds what drmemtrace's `v2p.textproto` says: page sizes, each followed by pairs of a virtual and a
    /// physical address, one `key: value` in a line. A missing virtual address is 0. Returns the places in the
    /// order of their virtual addresses; of more than 64 GiB, the first.
    ///
    /// # Errors
    /// A number cannot be read, or a line is too long; says in which line.
    pub(crate) fn add_textproto(&mut self, mut text: impl BufRead) -> Result<Vec<VmEvent>, String> {
        let (mut page, mut va, mut places) = (PageSize::SIZE_4K, 0, BTreeMap::new());
        // A line may name a page that is many small ones: they bound the work.
        let mut pages = 0;
        let mut line = Vec::new();
        for number in 1_u64.. {
            let wrong = |what: &dyn std::fmt::Display| format!("line {number} cannot be read: {what}");
            line.clear();
            if (&mut text).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(|e| wrong(&e))? == 0 {
                break;
            }
            if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
                return Err(wrong(&format!("it has {LONGEST_LINE} bytes or more, where lines are `key: value`")));
            }
            let line = str::from_utf8(&line).map_err(|e| wrong(&e))?.trim_end();
            let Some((key, value)) = line.split('#').next().unwrap_or_default().split_once(':') else { continue };
            let value = value.trim().trim_end_matches(['}', ' ']);
            let parsed = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let key = key.trim().rsplit(['{', ' ']).next().unwrap_or_default();
            if !matches!(key, "page_size" | "virtual_address" | "physical_address") {
                continue;
            }
            let value = parsed.map_err(|e| wrong(&format!("{key} is `{value}`: {e}")))?;
            match key {
                "page_size" if value.is_power_of_two() && (1 << FRAME_SHIFT..=1 << 30).contains(&value) => {
                    page = PageSize::from_shift(value.ilog2());
                }
                "page_size" => return Err(wrong(&format!("pages of {value} bytes, where they have 4 KiB to 1 GiB"))),
                "virtual_address" => va = value,
                _ => {
                    if va >> 57 != 0 || value >> PHYSICAL_BITS != 0 {
                        return Err(wrong(&format!(
                            "{va:#x} at {value:#x}: virtual addresses have up to 57 bits, physical ones up to \
                             {PHYSICAL_BITS}"
                        )));
                    }
                    pages += page.frames();
                    if pages <= MOST as u64 {
                        places.extend(self.place(0, va, value, page).map(|place| (va, place)));
                    }
                    va = 0;
                }
            }
        }
        Ok(joined(places.into_values()))
    }

    /// The report; `None` if nothing is recorded.
    pub(crate) fn report(&self) -> Option<PhysicalReport> {
        let ordered: BTreeMap<u64, u64> = self.frames.iter().map(|(page, frame)| (*page, *frame)).collect();
        let (first, _) = ordered.first_key_value()?;
        let (mut runs, mut regions, mut last) = (PageRuns::default(), BTreeMap::new(), (*first, 0));
        for (&page, &frame) in &ordered {
            runs.add(page, frame == last.1 + (page - last.0));
            last = (page, frame);
            let offset = frame.wrapping_sub(page);
            let aligned = offset % (1 << HUGE_SHIFT) == 0;
            let huge = regions.entry(page >> HUGE_SHIFT).or_insert((offset, true));
            huge.1 &= aligned && huge.0 == offset;
        }
        Some(PhysicalReport {
            pages: ordered.len() as u64,
            moved: self.moved,
            runs: runs.runs(),
            runs_for_99_percent: runs.runs_for_99_percent(),
            longest_run: runs.longest(),
            huge_regions: regions.values().filter(|huge| huge.1).count() as u64,
            regions: regions.len() as u64,
        })
    }
}

/// Joins places that continue the one before.
pub(crate) fn joined(places: impl Iterator<Item = VmEvent>) -> Vec<VmEvent> {
    let mut all: Vec<VmEvent> = Vec::new();
    for next in places {
        if let (
            Some(VmEvent::Place { start, len, at, page }),
            VmEvent::Place { start: next_start, len: next_len, at: next_at, page: next_page },
        ) = (all.last_mut(), &next)
            && (start.0 + *len, at.0 + *len, *page) == (next_start.0, next_at.0, *next_page)
            && *len + next_len <= LONGEST_PLACE
        {
            *len += next_len;
        } else {
            all.push(next);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguity_is_in_both_address_spaces() {
        let mut pages = PhysicalPages::default();
        assert_eq!(pages.report(), None);
        // A huge page; ten pages that are contiguous, but not as a huge page is; one alone; one that moves.
        assert!(pages.add(0, 0x4020_0000, 0x20_0000, 2 << 20));
        assert!(!pages.add(0, 0x4020_1000, 0x20_1000, 8), "that is known");
        pages.add(0, 0x4060_0000, 0x1000, 10 << 12);
        pages.add(0, 0x4060_a000, 0x8000_0000, 8);
        pages.add(0, 0x4080_0000, 0x9000_0000, 4096);
        pages.add(0, 0x4080_0000, 0x9000_1000, 4096);
        let report = pages.report().unwrap();
        assert_eq!((report.pages, report.moved, report.runs, report.longest_run), (524, 1, 4, 512));
        assert_eq!((report.huge_regions, report.regions), (1, 3));
    }

    #[test]
    fn a_text_of_mappings_is_read() {
        let text = "# VirtualToPhysical\naddress_mapping_group {\n  page_size: 0x200000\n  address_mapping {\n\
                    virtual_address: 4194304\n physical_address: 0x600000\n }\n address_mapping {\n # none: 0\n\
                    physical_address: 2097152\n }\n information { page_count: 2 }\n}\n";
        let mut pages = PhysicalPages::default();
        let place = |start, len, at| {
            let page = PageSize::SIZE_2M;
            VmEvent::Place { start: VirtAddr(start), len, at: PhysAddr(at), page }
        };
        let places = pages.add_textproto(text.as_bytes()).unwrap();
        assert_eq!(places, [place(0, 2 << 20, 0x20_0000), place(4 << 20, 2 << 20, 0x60_0000)]);
        let report = pages.report().unwrap();
        assert_eq!((report.pages, report.regions, report.huge_regions), (1024, 2, 2));
        let wrong = pages.add_textproto(text.replace("4194304", "many").as_bytes()).unwrap_err();
        assert!(wrong.starts_with("line 5 cannot be read: virtual_address is `many`"), "{wrong}");
        let wrong = pages.add_textproto(text.replace("0x600000", "0x10000000000000").as_bytes()).unwrap_err();
        assert!(wrong.starts_with("line 6 cannot be read: 0x400000 at 0x10000000000000"), "{wrong}");
        // Pages that continue each other are one place.
        let text = text
            .replace("4194304", "2097152")
            .replace("0x600000", "0x400000")
            .replace("2097152\n }\n inf", "0x200000\n }\n inf");
        let places = PhysicalPages::default().add_textproto(text.as_bytes()).unwrap();
        assert_eq!(places, [place(0, 4 << 20, 0x20_0000)]);
    }
}
