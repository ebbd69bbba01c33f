//! Looking ahead in the stream, so that the sim host's own cache misses overlap. Changes nothing but speed.

use ambulator_base::{ProcessId, Record};
use ambulator_hardware::Hierarchy;
use ambulator_os::Kernel;

/// Records ahead at which the kernel's state and the table's entry are asked for.
const PAGES_AHEAD: usize = 24;
/// Records ahead at which the model's cache sets are asked for: the state is there by then.
const LINES_AHEAD: usize = 8;
/// Pages and lines asked for lately, which need not be asked for again.
const REMEMBERED: usize = 64;

/// What has been asked for lately.
pub(crate) struct LookAhead {
    pages: [u64; REMEMBERED],
    lines: [u64; REMEMBERED],
    /// Whether cache sets are asked for: the model of one core's caches lies in the sim host's own L2, and
    /// asking costs more than it brings (BFS at 1 GiB: 4 to 8% slower with it); the shared cache of several
    /// cores does not.
    sets: bool,
}

impl LookAhead {
    /// For a machine of that many cores.
    pub fn new(cores: usize) -> LookAhead {
        LookAhead { pages: [u64::MAX; REMEMBERED], lines: [u64::MAX; REMEMBERED], sets: cores > 1 }
    }

    /// Asks the sim host for what records soon after `records[i]` will need.
    #[inline(always)]
    pub fn ask(
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
