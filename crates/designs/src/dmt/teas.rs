//! The TEAs of a process: they follow its VMAs, and give the radix tree the frames of its tables.

use super::DmtSpec;
use super::areas::Areas;
use super::tea::{Backing, SPANS, Tea, is_dense, join};
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Page, Pfn, ProcessId, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Footprint, Hypercall, LedgerCause, TableContext};
use ambulator_structures::frames;
use ambulator_structures::pte::Pte;
use ambulator_structures::tree::{Layout, NODE_BITS, NodeMove, NodePlace, NodeRequest, Plain};
use std::ops::Range;

ambulator_base::counters! {
    /// Counters of TEAs.
    struct TeaCounters {
        /// TEAs reserved for VMAs that had none.
        teas_created: Events,
        /// Times that a TEA grew into free frames next to it.
        grown_in_place: Events,
        /// Times that TEAs moved to a larger run of frames, to grow or to merge.
        migrations: Events,
        /// Tables that moved into a TEA: from another one, or from anywhere.
        tables_moved: Events,
        /// TEAs that were divided or became smaller because VMAs went.
        shrunk: Events,
        /// Times that a reservation was divided in halves for lack of contiguous memory.
        halved: Events,
        /// Tables of VMAs without a TEA for lack of contiguous memory.
        tables_without_tea: Events,
        /// Tables of the three lowest levels allocated in a TEA.
        tables_in_tea: Events,
        /// Those allocated anywhere.
        tables_scattered: Events,
        /// Times that the guest asked the hypervisor for contiguous pinned memory for a TEA.
        backing_asked: Events,
        /// Times that the hypervisor refused it: walks translate the address of the entry then.
        backing_refused: Events,
    }
}

ambulator_base::counters! {
    /// The current TEAs.
    struct TeasNow {
        /// TEAs.
        teas: Events gauge,
        /// Mappings in registers.
        registers: Events gauge,
        /// Bytes of all TEAs.
        tea_bytes: Bytes gauge,
        /// Bytes of them that are tables of the tree.
        used_bytes: Bytes gauge,
        /// TEAs of a guest in contiguous pinned memory of the hypervisor's.
        teas_pinned: Events gauge,
    }
}

/// The TEAs of one process, as the layout of its radix tree.
#[derive(State)]
pub(crate) struct Teas {
    #[state(skip)]
    registers: usize,
    #[state(skip)]
    min_vma: u64,
    #[state(skip)]
    bubbles: f64,
    #[state(skip)]
    switch_cycles: u64,
    /// The process, in a guest that asks the hypervisor for contiguous memory.
    #[state(skip)]
    caller: Option<ProcessId>,
    areas: Areas,
    teas: Vec<Tea>,
    /// Tables to move, and runs of frames that are free once they have moved.
    moves: Vec<NodeMove>,
    retired: Vec<(Pfn, u64)>,
    /// Tables have moved in this change.
    stale: bool,
    /// Counts the changes that moved tables: walk caches of an earlier epoch are stale.
    epoch: u64,
    generation: u64,
    counters: TeaCounters,
}

/// The level whose tables cover `2^span` bytes each; `None` for those above.
fn level_of(span: u32) -> Option<usize> {
    SPANS.iter().position(|own| *own == span)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Teas {
    /// No TEAs yet. `caller` is the process, if its guest asks the hypervisor for contiguous memory.
    pub(crate) fn new(spec: &DmtSpec, caller: Option<ProcessId>) -> Teas {
        Teas {
            registers: spec.registers as usize,
            min_vma: spec.min_vma,
            bubbles: spec.bubbles,
            switch_cycles: spec.switch_cycles,
            caller,
            areas: Areas::default(),
            teas: Vec::new(),
            moves: Vec::new(),
            retired: Vec::new(),
            stale: false,
            epoch: 0,
            generation: 0,
            counters: TeaCounters::default(),
        }
    }

    /// Sees to it that TEAs cover the tables of an area.
    fn cover(&mut self, level: usize, area: &Range<u64>, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let span = SPANS[level];
        let tables = area.start >> span..((area.end - 1) >> span) + 1;
        let missing = self.uncovered(level, &tables);
        if missing.is_empty() {
            return;
        }
        if let Some(cluster) = self.cluster(level, &tables)
            && self.grow(level, cluster, footprint, os)
        {
            return;
        }
        for part in missing {
            self.create(level, part, 1, footprint, os);
        }
    }

    /// The parts of `tables` that no TEA covers.
    fn uncovered(&self, level: usize, tables: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = vec![tables.clone()];
        for tea in self.teas.iter().filter(|tea| tea.level == level) {
            let outside = |part: &Range<u64>| {
                let before = part.start..part.end.min(tea.tables.start);
                let after = part.start.max(tea.tables.end)..part.end;
                if overlap(part, &tea.tables) { [before, after] } else { [part.clone(), 0..0] }
            };
            parts = parts.iter().flat_map(outside).filter(|part| !part.is_empty()).collect();
        }
        parts
    }

    /// The range of tables that these tables may share with the TEAs next to them; `None` if it would have
    /// too many bubbles with any of them.
    fn cluster(&self, level: usize, tables: &Range<u64>) -> Option<Range<u64>> {
        let own = || self.teas.iter().filter(|tea| tea.level == level);
        let before = own().filter(|tea| tea.tables.start < tables.end).max_by_key(|tea| tea.tables.start);
        let after = own().filter(|tea| tea.tables.end > tables.start).min_by_key(|tea| tea.tables.end);
        let hull = |tea: &Tea| tea.tables.start.min(tables.start)..tea.tables.end.max(tables.end);
        let both = before.zip(after).map(|(before, after)| hull(before).start..hull(after).end);
        let wanted = [both, before.map(hull), after.map(hull)];
        wanted.into_iter().flatten().find(|range| {
            let held: u64 = self.areas.tables(range.clone(), SPANS[level]).iter().map(|own| own.end - own.start).sum();
            // It takes TEAs as a whole.
            let is_whole = own().all(|tea| {
                !overlap(&tea.tables, range) || (range.start <= tea.tables.start && tea.tables.end <= range.end)
            });
            is_whole && is_dense(held, range.end - range.start, self.bubbles)
        })
    }

    /// Makes one TEA of those within `tables`, that covers all of them. False if there is no memory for it.
    fn grow(&mut self, level: usize, tables: Range<u64>, footprint: &mut Footprint, os: &mut TableContext<'_>) -> bool {
        let is_within = |tea: &Tea| tea.level == level && overlap(&tea.tables, &tables);
        let within: Vec<usize> = (0..self.teas.len()).filter(|at| is_within(&self.teas[*at])).collect();
        if let [only] = within[..]
            && self.grow_in_place(only, &tables, footprint, os)
        {
            return true;
        }
        // Room for as much again on the side on which it grows.
        let count = tables.end - tables.start;
        let grown = within.iter().map(|at| self.teas[*at].tables.clone());
        let downwards =
            grown.clone().all(|old| old.start > tables.start) && grown.clone().all(|old| old.end == tables.end);
        let spare = count.min(tables.start);
        let wider = if downwards { tables.start - spare..tables.end } else { tables.start..tables.end + count };
        let found = [wider, tables.clone()].into_iter().find_map(|room| {
            let frames = room.end - room.start;
            let affordable = frames <= os.frames.free_frames() / 8;
            Some((affordable.then(|| frames::allocate_run(frames, 0, footprint, os)).flatten()?, room))
        });
        let Some((base, room)) = found else { return false };
        let tea = Tea::new(level, tables.clone(), base, room.start, room.end - room.start);
        for &at in within.iter().rev() {
            let old = self.teas.remove(at);
            self.give_up(&old, os);
            self.retired.push((old.base, old.frames()));
        }
        self.moves.extend(tables.map(|table| move_to(&tea, table)));
        self.teas.push(tea);
        self.counters.migrations += 1;
        self.generation += 1;
        true
    }

    /// The same, if the frames on both sides that it lacks are free.
    fn grow_in_place(
        &mut self,
        at: usize,
        tables: &Range<u64>,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> bool {
        let tea = &self.teas[at];
        let room = tea.room();
        let (below, above) = (room.start.saturating_sub(tables.start), tables.end.saturating_sub(room.end));
        let Some(first) = tea.base.0.checked_sub(below) else { return false };
        let end = tea.base.offset(tea.frames());
        if below > 0 && !os.frames.allocate_range(Pfn(first), below) {
            return false;
        }
        if above > 0 && !os.frames.allocate_range(end, above) {
            if below > 0 {
                os.frames.free_range(Pfn(first), below);
            }
            return false;
        }
        for (at, frames) in [(Pfn(first), below), (end, above)] {
            if frames > 0 {
                frames::adopt(at, frames, footprint, os);
            }
        }
        if below + above > 0 {
            self.give_up(&self.teas[at], os);
        }
        let tea = &mut self.teas[at];
        if below + above > 0 {
            tea.backing = Backing::NotAsked;
        }
        let mut used = vec![false; below as usize];
        used.append(&mut tea.used);
        used.resize(used.len() + above as usize, false);
        let old = std::mem::replace(&mut tea.tables, tables.clone());
        (tea.base, tea.first, tea.used) = (Pfn(first), room.start - below, used);
        let added = [tables.start..old.start, old.end..tables.end].into_iter().flatten();
        let moves: Vec<NodeMove> = added.map(|table| move_to(tea, table)).collect();
        self.moves.extend(moves);
        self.counters.grown_in_place += 1;
        self.generation += 1;
        true
    }

    /// Reserves a TEA for tables that no TEA covers, or several smaller ones: these tables are one of `pieces`
    /// pieces, of which there are no more than registers. No TEA takes more than an eighth of free memory.
    fn create(
        &mut self,
        level: usize,
        tables: Range<u64>,
        pieces: usize,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) {
        let count = tables.end - tables.start;
        let affordable = count <= os.frames.free_frames() / 8;
        if let Some(base) = affordable.then(|| frames::allocate_run(count, 0, footprint, os)).flatten() {
            let tea = Tea::new(level, tables.clone(), base, tables.start, count);
            self.moves.extend(tables.map(|table| move_to(&tea, table)));
            self.teas.push(tea);
            self.counters.teas_created += 1;
            self.generation += 1;
            return;
        }
        if count << SPANS[level] < 2 * self.min_vma || count == 1 || 2 * pieces > self.registers {
            self.counters.tables_without_tea += count;
            return;
        }
        self.counters.halved += 1;
        let middle = tables.start + count / 2;
        self.create(level, tables.start..middle, 2 * pieces, footprint, os);
        self.create(level, middle..tables.end, 2 * pieces, footprint, os);
    }

    /// Lets a TEA keep only tables that VMAs or the tree need.
    fn fit(&mut self, at: usize, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let tea = &self.teas[at];
        let mut held = self.areas.tables(tea.tables.clone(), tea.span());
        if tea.in_use > 0 {
            // Tables in use without a VMA, which keep their frames until they go.
            held.extend(tea.tables.clone().filter(|table| tea.uses(*table)).map(|table| table..table + 1));
            held.sort_by_key(|range| range.start);
            held = merged(held);
        }
        let kept = join(&held, self.bubbles);
        if kept.as_slice() == std::slice::from_ref(&tea.tables) {
            return;
        }
        let old = self.teas.remove(at);
        self.give_up(&old, os);
        let mut freed = old.room().start;
        let mut free = |from: u64, to: u64, os: &mut TableContext<'_>| {
            if from < to {
                frames::release(old.frame_of(from), to - from, footprint, os);
            }
        };
        for tables in kept {
            free(freed, tables.start, os);
            freed = tables.end;
            let frames = tables.end - tables.start;
            let mut tea = Tea::new(old.level, tables.clone(), old.frame_of(tables.start), tables.start, frames);
            for table in tables.filter(|table| old.uses(*table)) {
                tea.mark(table, true);
                tea.pages += pages_in(old.level, old.frame_of(table), os.memory);
            }
            self.teas.push(tea);
        }
        free(freed, old.room().end, os);
        self.counters.shrunk += 1;
        self.generation += 1;
    }

    /// Asks the hypervisor for contiguous pinned memory for the TEAs that have become of use to hardware.
    fn ask(&mut self, os: &mut TableContext<'_>) {
        let Some(process) = self.caller else { return };
        for tea in self.teas.iter_mut().filter(|tea| tea.backing == Backing::NotAsked && tea.serves()) {
            tea.backing = Backing::Asked;
            os.ledger.call_hypervisor(Hypercall::Back { process, first: tea.base, frames: tea.frames() });
            self.counters.backing_asked += 1;
        }
    }

    /// The frames of a TEA go, or become others.
    fn give_up(&self, tea: &Tea, os: &mut TableContext<'_>) {
        if matches!(tea.backing, Backing::Asked | Backing::Slot(_)) {
            os.ledger.call_hypervisor(Hypercall::Release { first: tea.base });
        }
    }

    /// The TEA of a level that covers a table.
    fn tea_for(&mut self, level: usize, table: u64) -> Option<&mut Tea> {
        self.teas.iter_mut().find(|tea| tea.level == level && tea.tables.contains(&table))
    }

    /// A page of that size was mapped (1) or unmapped (-1).
    fn count_page(&mut self, page: Page, change: i64) {
        let level = (page.size.shift() as usize - 12) / 9;
        let Some(span) = SPANS.get(level) else { return };
        let table = page.start.0 >> span;
        if let Some(tea) = self.tea_for(level, table) {
            let served = tea.serves();
            tea.pages = tea.pages.saturating_add_signed(change);
            self.generation += u64::from(served != self.serves(level, table));
        }
    }

    fn serves(&mut self, level: usize, table: u64) -> bool {
        self.tea_for(level, table).is_some_and(|tea| tea.serves())
    }

    /// The TEAs whose mappings are in registers: those that serve the most bytes of VMAs.
    fn in_registers(&self) -> Vec<&Tea> {
        let bytes = |tea: &Tea| self.areas.bytes(tea.tables.start << tea.span(), tea.tables.end << tea.span());
        let mut serving: Vec<&Tea> = self.teas.iter().filter(|tea| tea.serves()).collect();
        serving.sort_by_cached_key(|tea| (std::cmp::Reverse(bytes(tea)), tea.tables.start << tea.span(), tea.level));
        serving.truncate(self.registers);
        serving
    }
}

/// A table of the tree that is elsewhere is to move to its frame of the TEA.
fn move_to(tea: &Tea, table: u64) -> NodeMove {
    NodeMove { va: VirtAddr(table << tea.span()), span: tea.span(), to: tea.frame_of(table) }
}

/// Joins sorted ranges that overlap or touch.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Pages that the entries of a table of this level map; not counted for those of 4 KiB.
fn pages_in(level: usize, frame: Pfn, memory: &PhysicalMemory) -> u64 {
    if level == 0 {
        return 0;
    }
    let words = (0..FRAME_BYTES / 64).flat_map(|line| memory.line(frame.start().offset(line * 64)));
    words.filter(|word| Pte(*word).present() && Pte(*word).large()).count() as u64
}

impl Layout for Teas {
    fn allocate(
        &mut self,
        request: NodeRequest,
        footprint: &mut Footprint,
        os: &mut TableContext<'_>,
    ) -> Option<NodePlace> {
        let level = level_of(request.span);
        let table = request.va.0 >> request.span;
        if let Some(level) = level
            && let Some(tea) = self.tea_for(level, table)
        {
            let (served, frame) = (tea.serves(), tea.frame_of(table));
            tea.mark(table, true);
            let changed = served != tea.serves();
            self.generation += u64::from(changed);
            self.counters.tables_in_tea += 1;
            if changed {
                self.ask(os);
            }
            return Some(NodePlace { frame, bits: NODE_BITS });
        }
        let place = Plain.allocate(request, footprint, os)?;
        self.counters.tables_scattered += u64::from(level.is_some());
        Some(place)
    }

    fn release(&mut self, node: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let owner = self.teas.iter().position(|tea| tea.table_in(node.frame).is_some_and(|table| tea.uses(table)));
        let Some(at) = owner else {
            frames::release(node.frame, node.frames(), footprint, os);
            return;
        };
        let tea = &mut self.teas[at];
        let (table, span, served) = (tea.first + (node.frame.0 - tea.base.0), tea.span(), tea.serves());
        tea.mark(table, false);
        self.generation += u64::from(served != tea.serves());
        if self.areas.within(table << span, (table + 1) << span).next().is_none() {
            self.fit(at, footprint, os);
            self.ask(os);
        }
    }

    fn vma_added(&mut self, start: VirtAddr, len: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let area = self.areas.add(start.0, start.0 + len);
        // Which TEAs are the largest may have changed.
        self.generation += u64::from(!self.teas.is_empty());
        if area.end - area.start < self.min_vma {
            return;
        }
        for level in 0..SPANS.len() {
            self.cover(level, &area, footprint, os);
        }
        self.ask(os);
    }

    fn vma_removed(&mut self, start: VirtAddr, len: u64, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        self.areas.remove(start.0, start.0 + len);
        self.generation += u64::from(!self.teas.is_empty());
        let end = start.0 + len;
        let affected = |tea: &Tea| tea.tables.start << tea.span() < end && start.0 < tea.tables.end << tea.span();
        // A TEA that becomes smaller leaves its place; its parts are the last ones.
        for at in (0..self.teas.len()).rev().filter(|at| affected(&self.teas[*at])).collect::<Vec<_>>() {
            self.fit(at, footprint, os);
        }
        self.ask(os);
    }

    fn take_moves(&mut self) -> Vec<NodeMove> {
        std::mem::take(&mut self.moves)
    }

    fn moved(&mut self, node: NodeMove, from: NodePlace, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        let Some(level) = level_of(node.span) else { return };
        let pages = pages_in(level, node.to, os.memory);
        if let Some(tea) = self.tea_for(level, node.va.0 >> node.span) {
            tea.mark(node.va.0 >> node.span, true);
            tea.pages += pages;
        }
        self.counters.tables_moved += 1;
        self.stale = true;
        // The frames of former TEAs are freed all together.
        if !self.retired.iter().any(|(base, frames)| (base.0..base.0 + frames).contains(&from.frame.0)) {
            frames::release(from.frame, 1, footprint, os);
        }
    }

    fn moves_done(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for (base, frames) in self.retired.drain(..) {
            frames::release(base, frames, footprint, os);
        }
        if std::mem::take(&mut self.stale) {
            // Cores that run the process drop what their walk caches have of it.
            self.epoch += 1;
            self.generation += 1;
            os.ledger.charge(LedgerCause::Shootdown, os.costs.shootdown_of(1, os.cores));
        }
        self.ask(os);
    }

    fn large_page_mapped(&mut self, page: Page, os: &mut TableContext<'_>) {
        self.count_page(page, 1);
        self.ask(os);
    }

    fn area_answered(&mut self, first: Pfn, slot: Option<u32>) {
        let asked = |tea: &&mut Tea| tea.base == first && tea.backing == Backing::Asked;
        let Some(tea) = self.teas.iter_mut().find(asked) else { return };
        tea.backing = slot.map_or(Backing::Refused, Backing::Slot);
        self.counters.backing_refused += u64::from(slot.is_none());
        self.generation += 1;
    }

    fn large_page_unmapped(&mut self, page: Page) {
        self.count_page(page, -1);
    }

    fn destroy(&mut self, footprint: &mut Footprint, os: &mut TableContext<'_>) {
        for tea in std::mem::take(&mut self.teas) {
            self.give_up(&tea, os);
            frames::release(tea.base, tea.frames(), footprint, os);
        }
        self.areas = Areas::default();
        self.generation += 1;
    }

    /// The epoch, and then each register ([`Tea::register`]).
    fn registers(&self, registers: &mut Vec<u64>) {
        registers.push(self.epoch);
        registers.extend(self.in_registers().into_iter().flat_map(Tea::register));
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn switch_cycles(&self) -> u64 {
        self.switch_cycles * self.in_registers().len() as u64
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
        let now = TeasNow {
            teas: self.teas.len() as u64,
            registers: self.in_registers().len() as u64,
            tea_bytes: self.teas.iter().map(Tea::bytes).sum(),
            used_bytes: self.teas.iter().map(|tea| tea.in_use * FRAME_BYTES).sum(),
            teas_pinned: self.teas.iter().filter(|tea| matches!(tea.backing, Backing::Slot(_))).count() as u64,
        };
        now.report(prefix, sink);
    }
}
