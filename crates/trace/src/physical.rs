//! Physical addresses that a trace records: where its pages really were.

use ambulator_base::{FRAME_SHIFT, PageRuns};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::BufRead;

/// log2 of the 4 KiB pages in an aligned 2 MiB.
const HUGE_SHIFT: u32 = 9;

/// Most pages that are remembered: 64 GiB.
const MOST: usize = 1 << 24;

/// The frame of each page, as far as a trace says it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhysicalPages {
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
    /// `bytes` from a virtual address on are at a physical one.
    pub(crate) fn add(&mut self, va: u64, pa: u64, bytes: u64) {
        for page in 0..bytes.div_ceil(1 << FRAME_SHIFT).max(1) {
            if self.frames.len() == MOST {
                return;
            }
            let frame = (pa >> FRAME_SHIFT) + page;
            let before = self.frames.insert((va >> FRAME_SHIFT) + page, frame);
            self.moved += u64::from(before.is_some_and(|before| before != frame));
        }
    }

    /// Adds what drmemtrace's `v2p.textproto` says: page sizes, each followed by pairs of a virtual and a
    /// physical address, one `key: value` in a line. A missing virtual address is 0.
    ///
    /// # Errors
    /// A number cannot be read; says in which line.
    pub(crate) fn add_textproto(&mut self, text: impl BufRead) -> Result<(), String> {
        let (mut page_bytes, mut va) = (1u64 << FRAME_SHIFT, 0);
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &dyn std::fmt::Display| format!("line {} cannot be read: {what}", number + 1);
            let line = line.map_err(|e| wrong(&e))?;
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
                    page_bytes = value;
                }
                "page_size" => return Err(wrong(&format!("pages of {value} bytes, where they have 4 KiB to 1 GiB"))),
                "virtual_address" => va = value,
                _ => {
                    self.add(va & !(page_bytes - 1), value & !(page_bytes - 1), page_bytes);
                    va = 0;
                }
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguity_is_in_both_address_spaces() {
        let mut pages = PhysicalPages::default();
        assert_eq!(pages.report(), None);
        // A huge page; ten pages that are contiguous, but not as a huge page is; one alone; one that moves.
        pages.add(0x4020_0000, 0x20_0000, 2 << 20);
        pages.add(0x4060_0000, 0x1000, 10 << 12);
        pages.add(0x4060_a000, 0x8000_0000, 8);
        pages.add(0x4080_0000, 0x9000_0000, 4096);
        pages.add(0x4080_0000, 0x9000_1000, 4096);
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
        pages.add_textproto(text.as_bytes()).unwrap();
        let report = pages.report().unwrap();
        assert_eq!((report.pages, report.regions, report.huge_regions), (1024, 2, 2));
        let wrong = pages.add_textproto(text.replace("4194304", "many").as_bytes()).unwrap_err();
        assert!(wrong.starts_with("line 5 cannot be read: virtual_address is `many`"), "{wrong}");
    }
}
