//! Moves between nodes, and demotion: pages that were not accessed lately go to a slow tier.

use super::HugeMigration;
use crate::{Kernel, MapError, OsError, PageState, PteFlags};
use ambulator_base::{Page, PageSize, Pfn, ProcessId, VirtAddr};

/// Rounds over the processes' pages within one demotion: the first clears accessed bits.
const ROUNDS: u32 = 2;

impl Kernel {
    /// Demotes until every fast node has room again, or nothing more can move.
    pub(super) fn demote_in_background(&mut self) -> Result<(), OsError> {
        let Some(numa) = &mut self.numa else { return Ok(()) };
        let wanted: Vec<u64> = (0..numa.marks.len()).map(|node| numa.frames_to_demote(node, &self.frames)).collect();
        numa.room_wanted = 0;
        let demoted = self.demote(wanted)?;
        if demoted == 0
            && let Some(numa) = &mut self.numa
        {
            numa.retry = numa.now.after(numa.spec.scan_period);
        }
        Ok(())
    }

    /// Demotes until the fast nodes have room for the promotion of so many frames.
    pub(super) fn make_room_for_promotion(&mut self, frames: u64) -> Result<(), OsError> {
        if let Some(numa) = &mut self.numa {
            numa.room_wanted = numa.room_wanted.max(frames);
        }
        self.demote_in_background()
    }

    /// Demotes for an allocation that may only use fast nodes. Returns the frames freed.
    pub(crate) fn demote_for_allocation(&mut self) -> Result<u64, OsError> {
        let Some(numa) = &self.numa else { return Ok(0) };
        if !numa.spec.demotion {
            return Ok(0);
        }
        let each = self.spec.reclaim_pages;
        let wanted = numa.machine.nodes.iter().map(|node| if node.slow { 0 } else { each }).collect();
        self.demote(wanted)
    }

    /// Moves up to so many frames of each node to slow tiers, and returns how many have moved.
    fn demote(&mut self, mut wanted: Vec<u64>) -> Result<u64, OsError> {
        let mut demoted = 0;
        let processes = self.processes.len();
        let Some(numa) = &self.numa else { return Ok(0) };
        let mut visits = numa.spec.scan_pages;
        let mut at_process = numa.demoted;
        for _ in 0..processes {
            let process = ProcessId((at_process % processes) as u32);
            if self.is_alive(process) {
                demoted += self.demote_from(process, &mut wanted, &mut visits)?;
            }
            if visits == 0 || wanted.iter().all(|frames| *frames == 0) {
                break;
            }
            at_process += 1;
        }
        if let Some(numa) = &mut self.numa {
            numa.demoted = at_process % processes.max(1);
        }
        Ok(demoted)
    }

    /// The clock of a process over its pages in nodes from which frames are wanted.
    fn demote_from(&mut self, process: ProcessId, wanted: &mut [u64], visits: &mut u64) -> Result<u64, OsError> {
        let (mut demoted, mut rounds) = (0, 0);
        let mut at = self.process(process).clock;
        while *visits > 0 && wanted.iter().any(|frames| *frames > 0) {
            let Some((page, state)) = self.next_page(process, at, crate::vma::TOP) else {
                rounds += 1;
                if rounds > ROUNDS {
                    break;
                }
                at = VirtAddr(0);
                continue;
            };
            at = page.end();
            let node = self.frames.node_of(state.frame());
            if !state.present() || wanted[node] == 0 || !self.may_change_node(process, page) {
                continue;
            }
            *visits = visits.saturating_sub(page.size.frames());
            let entry = self.entry(process, page.start)?;
            if entry.flags.accessed {
                self.set_page_flags(process, page, PteFlags { accessed: false, ..entry.flags })?;
                continue;
            }
            let Some(target) = self.demotion_target(node) else {
                wanted[node] = 0;
                continue;
            };
            let moved = self.move_to_node(process, page, target)?;
            if moved > 0 {
                at = page.start.offset(moved * ambulator_base::FRAME_BYTES);
                demoted += moved;
                wanted[node] = wanted[node].saturating_sub(moved);
                if let Some(numa) = &mut self.numa {
                    numa.counters.pages_demoted += 1;
                }
            }
        }
        self.process_mut(process).clock = at;
        Ok(demoted)
    }

    /// The slow tier, nearest first, that has room for pages of a node.
    fn demotion_target(&self, from: usize) -> Option<usize> {
        let numa = self.numa.as_ref()?;
        let near = numa.machine.by_distance(numa.machine.nodes[from].socket);
        let has_room = |node: &usize| self.frames.node_free_frames(*node) > numa.marks[*node].low;
        near.into_iter().filter(|node| numa.machine.nodes[*node].slow).find(has_room)
    }

    /// Whether a page that is present may move to another node: neither shared, nor reserved, nor in a
    /// segment of the placement, nor to be dropped.
    pub(super) fn may_change_node(&self, process: ProcessId, page: Page) -> bool {
        let state = self.page_state(process, page.start);
        !state.copy_on_write()
            && !self.pinned.holds(process, page)
            && !state.lazily_free()
            && !self.owners.is_shared(state.frame(), page.size)
            && !self.placement.owns(state.frame())
            && self.process(process).reservations.find(page.start).is_none()
    }

    /// Frames of a node for a page; `None` if there are none, or if huge pages do not move as a whole.
    pub(super) fn frames_on(&mut self, node: usize, size: PageSize) -> Option<Pfn> {
        let whole = self.numa.as_ref().is_some_and(|numa| numa.spec.huge_migration == HugeMigration::Whole);
        if size > PageSize::SIZE_4K && !whole { None } else { self.frames.allocate_on(node, size.order()) }
    }

    /// Moves a page to a node. A huge page that cannot move as a whole is split, and its first base page
    /// moves. Returns the base pages that have moved.
    pub(super) fn move_to_node(&mut self, process: ProcessId, page: Page, node: usize) -> Result<u64, OsError> {
        let Some(frame) = self.frames_on(node, page.size) else {
            if page.size == PageSize::SIZE_4K {
                return Ok(0);
            }
            return match self.try_split(process, page.start)? {
                Ok(()) => {
                    if let Some(numa) = &mut self.numa {
                        numa.counters.splits += 1;
                    }
                    let part = self.mapped_page(process, page.start);
                    self.move_to_node(process, part, node)
                }
                Err((_, MapError::NoMemory { .. })) => Ok(0),
                Err((page, error)) => Err(self.table_error(error, page)),
            };
        };
        let from = self.page_state(process, page.start).frame();
        if !self.migrate(process, page, frame)? {
            return Ok(0);
        }
        self.page_has_moved(process, page, from, frame);
        Ok(page.size.frames())
    }

    /// Counts a page that has moved between nodes, and lets its bytes follow it.
    pub(super) fn page_has_moved(&mut self, process: ProcessId, page: Page, from: Pfn, to: Pfn) {
        let bytes = page.size.bytes();
        self.memory.copy(from.start(), to.start(), bytes);
        self.memory.zero(from.start(), bytes);
        let (from, to) = (self.frames.node_of(from), self.frames.node_of(to));
        if let Some(numa) = &mut self.numa {
            numa.moved[from].bytes_out += bytes;
            numa.moved[to].bytes_in += bytes;
            numa.seen.remove(&(process, page.start));
        }
        self.counters.copied_bytes += bytes;
    }

    /// Clears the state of a page whose entry a scan took away, and frees its frames.
    pub(crate) fn drop_hinted(&mut self, process: ProcessId, page: Page, state: PageState) {
        self.process_mut(process).pages.clear(page.start.vpn(), page.size);
        self.forget_hint(process, page);
        self.release_frames(state.frame(), page.size);
    }
}
