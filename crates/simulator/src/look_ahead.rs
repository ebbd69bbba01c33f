//! Looks ahead in the stream to overlap the sim host's own cache misses. Affects speed only.

use ambulator_base::{ProcessId, Record};
use ambulator_hardware::Hierarchy;
use ambulator_os::Kernel;

// Measured on GUPS without time over 256 MiB, whose tables and page states have half a MiB each: without these
// prefetches the sim host executes 6% fewer instructions, and takes 25% longer.

/// Distance, in records, at which the kernel's page state and the table's entry are prefetched.
const PAGES_AHEAD: usize = 24;
/// Distance, in records, at which the model's cache sets are prefetched: the page state has arrived by then.
const LINES_AHEAD: usize = 8;
/// Number of recently prefetched pages and lines, which are not prefetched again.
const REMEMBERED: usize = 64;

/// The recent prefetches.
pub(crate) struct LookAhead {
    pages: [u64; REMEMBERED],
    lines: [u64; REMEMBERED],
    /// Whether cache sets are prefetched. The model of one core's caches fits in the sim host's own L2, and
    /// prefetching costs more than it gains (BFS at 1 GiB: 4 to 8% slower with it). The shared cache of
    /// several cores does not fit.
    sets: bool,
}

impl LookAhead {
    /// For a machine of `cores` cores.
    pub fn new(cores: usize) -> LookAhead {
        LookAhead { pages: [u64::MAX; REMEMBERED], lines: [u64::MAX; REMEMBERED], sets: cores > 1 }
    }

    /// Prefetches into the sim host's caches what records soon after `records[i]` will need.
    #[inline(always)]
    pub fn prefetch(
        &mut self,
        core: usize,
        process: ProcessId,
        records: &[Record],
        i: usize,
        kernel: &Kernel,
        hierarchy: &Hierarchy,
    ) {
        if let Some(far) = records.get(i + PAGES_AHEAD) {
            let page = far.va.0 >> 12;
            let known = &mut self.pages[page as usize % REMEMBERED];
            if *known != page && far.is_data() {
                *known = page;
                kernel.prefetch_page_state(process, far.va);
                kernel.prefetch_table(process, far.va);
            }
        }
        if self.sets
            && let Some(near) = records.get(i + LINES_AHEAD)
        {
            let line = near.va.0 >> 6;
            let known = &mut self.lines[line as usize % REMEMBERED];
            if *known != line && near.is_data() {
                *known = line;
                let state = kernel.page_state(process, near.va);
                hierarchy.prefetch_sim_host(core, state.frame().start().offset(near.va.0 & 0xfff));
            }
        }
    }
}
