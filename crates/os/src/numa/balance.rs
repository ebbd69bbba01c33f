//! Balancing: pages that are accessed move to a nearer or faster node.

use super::{Balancing, Marks};
use crate::{Kernel, Mapping, Migration, OsError, PageState, PteFlags};
use ambulator_base::{Cycle, Page, ProcessId, State, VirtAddr};

/// What the kernel keeps of an entry that a scan took away.
#[derive(Clone, Copy, Debug, Default, State)]
pub(super) struct Hint {
    /// When.
    at: Cycle,
    dirty: bool,
}

impl Kernel {
    /// Scans the next pages of all processes in turn.
    pub(super) fn scan_for_balancing(&mut self) -> Result<(), OsError> {
        let Some(numa) = &self.numa else { return Ok(()) };
        let (mut left, mut at_process) = (numa.spec.scan_pages, numa.scanned);
        let processes = self.processes.len();
        for _ in 0..processes {
            let process = ProcessId((at_process % processes) as u32);
            if self.is_alive(process) && !self.scan_process(process, &mut left)? {
                break;
            }
            at_process += 1;
        }
        if let Some(numa) = &mut self.numa {
            numa.scanned = at_process % processes.max(1);
        }
        Ok(())
    }

    /// Scans a process from where the last scan ended. False if the number of pages ends the scan early.
    fn scan_process(&mut self, process: ProcessId, left: &mut u64) -> Result<bool, OsError> {
        let mut at = self.numa.as_ref().and_then(|numa| numa.hands.get(&process).copied()).unwrap_or(VirtAddr(0));
        while let Some((page, state)) = self.next_page(process, at, crate::vma::TOP) {
            if *left == 0 {
                self.set_scan_hand(process, at);
                return Ok(false);
            }
            at = page.end();
            *left = left.saturating_sub(page.size.frames());
            if state.present() && self.is_worth_a_scan(state) && self.may_change_node(process, page) {
                match self.numa.as_ref().map(|numa| numa.spec.balancing) {
                    Some(Balancing::HintFaults) => self.take_entry_away(process, page)?,
                    Some(Balancing::AccessedBits) => self.count_access(process, page)?,
                    Some(Balancing::None) | None => {}
                }
            }
        }
        self.set_scan_hand(process, VirtAddr(0));
        Ok(true)
    }

    fn set_scan_hand(&mut self, process: ProcessId, at: VirtAddr) {
        if let Some(numa) = &mut self.numa {
            numa.hands.insert(process, at);
        }
    }

    /// Whether a page may have to move: one in a slow tier, or by faults any on a machine with several sockets.
    fn is_worth_a_scan(&self, state: PageState) -> bool {
        let Some(numa) = &self.numa else { return false };
        let sockets = || numa.machine.nodes.iter().any(|node| node.socket != numa.machine.nodes[0].socket);
        let slow = numa.machine.nodes[self.frames.node_of(state.frame())].slow;
        slow || numa.spec.balancing == Balancing::HintFaults && sockets()
    }

    /// Takes the entry of a page away; the page keeps its frames, and the next access faults. (Linux clears
    /// the entry's present bit. Whatever a design keeps of the page goes here too: no lookaside may translate
    /// it.)
    fn take_entry_away(&mut self, process: ProcessId, page: Page) -> Result<(), OsError> {
        let state = self.page_state(process, page.start);
        let entry = self.unmap_page(process, page)?;
        self.process_mut(process).pages.fill(page.start.vpn(), page.size, state.hinted());
        if let Some(numa) = &mut self.numa {
            numa.counters.pages_marked += 1;
            numa.hints.insert((process, page.start), Hint { at: numa.now, dirty: entry.flags.dirty });
        }
        Ok(())
    }

    /// Counts the scans that find a page accessed, and promotes one that is hot.
    fn count_access(&mut self, process: ProcessId, page: Page) -> Result<(), OsError> {
        let entry = self.entry(process, page.start)?;
        if entry.flags.accessed {
            self.set_page_flags(process, page, PteFlags { accessed: false, ..entry.flags })?;
        }
        let Some(numa) = &mut self.numa else { return Ok(()) };
        if !entry.flags.accessed {
            numa.seen.remove(&(process, page.start));
            return Ok(());
        }
        let seen = numa.seen.entry((process, page.start)).or_default();
        *seen = seen.saturating_add(1);
        if u32::from(*seen) < numa.spec.hot_scans {
            return Ok(());
        }
        let socket = numa.machine.nodes[self.frames.node_of(entry.frame)].socket as usize;
        // The daemon need not fail as a fault must: it demotes first.
        let Some(numa) = &self.numa else { return Ok(()) };
        let is_low = numa.zonelists[socket]
            .nodes()
            .next()
            .is_some_and(|node| self.frames.node_free_frames(node) < numa.marks[node].high + page.size.frames());
        if is_low && numa.spec.demotion && numa.now >= numa.retry {
            self.make_room_for_promotion(page.size.frames())?;
        }
        let Some(target) = self.promotion_target(socket, page) else { return Ok(()) };
        let moved = self.move_to_node(process, page, target)?;
        self.count_promotion(moved);
        Ok(())
    }

    fn count_promotion(&mut self, moved: u64) {
        if let (Some(numa), 1..) = (&mut self.numa, moved) {
            numa.counters.pages_promoted += 1;
            numa.allowance = numa.allowance.saturating_sub(moved);
        }
    }

    /// The fast node to which a page of a slow tier is promoted: the nearest of a socket, if it has room and
    /// the period's limit allows it.
    fn promotion_target(&mut self, socket: usize, page: Page) -> Option<usize> {
        let numa = self.numa.as_mut()?;
        if numa.spec.promotion_pages > 0 && numa.allowance < page.size.frames() {
            numa.counters.promotions_over_limit += 1;
            return None;
        }
        let target = numa.zonelists[socket].nodes().next()?;
        let Marks { high, .. } = numa.marks[target];
        if self.frames.node_free_frames(target) < high + page.size.frames() {
            numa.counters.promotions_without_room += 1;
            numa.room_wanted = numa.room_wanted.max(page.size.frames());
            return None;
        }
        Some(target)
    }

    /// The node to which the page of a hint fault moves, if it does.
    fn target_of_hint(&mut self, process: ProcessId, page: Page, state: PageState, hint: Hint) -> Option<usize> {
        let from = self.frames.node_of(state.frame());
        let numa = self.numa.as_mut()?;
        let socket = numa.socket;
        if numa.machine.nodes[from].slow {
            let is_hot = numa.now.since(hint.at) <= numa.spec.hot_threshold;
            return if is_hot { self.promotion_target(socket, page) } else { None };
        }
        if numa.machine.nodes[from].socket as usize == socket {
            numa.seen.remove(&(process, page.start));
            return None;
        }
        // Two faults in a row from the same node: one alone may be a chance (Linux: should_numa_migrate_memory).
        let target = numa.zonelists[socket].nodes().next()?;
        let before = numa.seen.insert((process, page.start), target as u8);
        (before == Some(target as u8)).then_some(target)
    }

    /// Serves the fault of a page whose entry a scan took away: maps it again, in another node if it should
    /// move.
    pub(crate) fn hint_fault(&mut self, process: ProcessId, va: VirtAddr) -> Result<(), OsError> {
        let state = self.page_state(process, va);
        let page = Page::containing(va, state.size());
        let state = self.page_state(process, page.start);
        let Some(numa) = &mut self.numa else { return Ok(()) };
        numa.counters.hint_faults += 1;
        let hint = numa.hints.get(&(process, page.start)).copied().unwrap_or(Hint { at: numa.now, dirty: true });
        if let Some(target) = self.target_of_hint(process, page, state, hint)
            && let Some(to) = self.frames_on(target, page.size)
        {
            let from = state.frame();
            let mapping = self.mapping_of_hint(process, page, true);
            if self.try_map_page(process, Mapping { frame: to, ..mapping }, false).is_ok() {
                self.forget_hint(process, page);
                self.release_frames(from, page.size);
                self.migrations.push(Migration { asid: self.process(process).asid(), page, from, to });
                let was_slow = self.is_slow(self.frames.node_of(from));
                self.page_has_moved(process, page, from, to);
                if was_slow {
                    self.count_promotion(page.size.frames());
                } else if let Some(numa) = &mut self.numa {
                    numa.counters.pages_balanced += 1;
                }
                return Ok(());
            }
            self.return_frames(to, page.size);
        }
        self.restore_hinted(process, page, true)
    }

    fn is_slow(&self, node: usize) -> bool {
        self.numa.as_ref().is_some_and(|numa| numa.machine.nodes[node].slow)
    }

    /// The mapping that a page had before a scan took it away.
    fn mapping_of_hint(&self, process: ProcessId, page: Page, accessed: bool) -> Mapping {
        let hint = self.numa.as_ref().and_then(|numa| numa.hints.get(&(process, page.start)));
        let dirty = hint.is_none_or(|hint| hint.dirty);
        let protection =
            self.process(process).vmas.find(page.start).map_or_else(Default::default, |vma| vma.protection);
        let flags = PteFlags { accessed, dirty, ..PteFlags::user(protection) };
        Mapping { page, frame: self.page_state(process, page.start).frame(), flags }
    }

    /// Maps a page where it was before a scan took its entry away.
    ///
    /// # Errors
    /// No memory for the table. The page is as before.
    pub(crate) fn restore_hinted(&mut self, process: ProcessId, page: Page, accessed: bool) -> Result<(), OsError> {
        let mapping = self.mapping_of_hint(process, page, accessed);
        self.map_page(process, mapping, false)?;
        self.forget_hint(process, page);
        Ok(())
    }

    /// As [`Kernel::restore_hinted`], for reclaim, which must not need it itself. False if the table lacks
    /// memory.
    pub(crate) fn try_restore_hinted(&mut self, process: ProcessId, page: Page) -> bool {
        let mapping = self.mapping_of_hint(process, page, false);
        let mapped = self.try_map_page(process, mapping, false).is_ok();
        if mapped {
            self.forget_hint(process, page);
        }
        mapped
    }

    /// Maps the pages of `[start, end)` whose entries scans took away: a system call is about to change them.
    pub(crate) fn restore_hints(&mut self, process: ProcessId, start: VirtAddr, end: VirtAddr) -> Result<(), OsError> {
        if self.numa.as_ref().is_none_or(|numa| numa.hints.is_empty()) {
            return Ok(());
        }
        let mut at = start;
        while let Some((page, state)) = self.next_page(process, at, end) {
            at = page.end();
            if state.is_hinted() {
                self.restore_hinted(process, page, false)?;
            }
        }
        Ok(())
    }

    pub(super) fn forget_hint(&mut self, process: ProcessId, page: Page) {
        if let Some(numa) = &mut self.numa {
            numa.hints.remove(&(process, page.start));
        }
    }
}
