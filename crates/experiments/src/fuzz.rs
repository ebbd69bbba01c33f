//! Entry points for fuzzing: any text must give a result or an error, never a panic or a hang.

use crate::layout::{parse_maps, report};

/// Pages of an address space up to which it is measured as well: page tables are built for them.
const MOST_PAGES: u64 = 64;

/// Reads `text` as a copy of `/proc/PID/maps`. It returns for any text.
pub fn fuzz_maps(text: &str) {
    let areas = match parse_maps("maps", text) {
        Ok(areas) => areas,
        Err(error) => return assert!(error.starts_with("maps:")),
    };
    for area in &areas {
        assert!(area.start < area.end && area.rights < 8, "{area:?}");
    }
    assert!(areas.windows(2).all(|pair| pair[0].end <= pair[1].start));
    let pages: u64 = areas.iter().map(|area| area.end - area.start).sum();
    if pages <= MOST_PAGES {
        let report = report(&areas, None);
        assert!(report.ranges <= report.areas && report.resident_pages <= pages);
    }
}
