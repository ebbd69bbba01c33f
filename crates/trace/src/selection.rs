//! Parts of a trace: what comes after a number of instructions, or windows at regular distances.

use crate::first_touch::FirstTouches;
use ambulator_base::{Batch, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VmEvent};

/// Which instructions of a trace are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Instructions from the trace's beginning that are not.
    pub skip: u64,
    /// From there on, of every so many instructions only the first `window`; 0 for all.
    pub every: u64,
    pub window: u64,
}

impl Selection {
    /// Whether the instruction with this number is delivered, and the number of the first one for which that
    /// is otherwise.
    fn at(&self, number: u64) -> (bool, u64) {
        let Some(after) = number.checked_sub(self.skip) else { return (false, self.skip) };
        if self.every == 0 {
            return (true, u64::MAX);
        }
        let period = after / self.every * self.every;
        let inside = after - period < self.window;
        let end = if inside { period + self.window } else { period + self.every };
        (inside, self.skip.saturating_add(end))
    }
}

/// A source of which only selected instructions are delivered. VM events stay; first touches of pages in
/// between become [`VmEvent::Touch`], so that the address space and the order of first touch stay the
/// program's. The region of interest begins with the first record that is delivered.
pub(crate) struct Selected {
    source: Box<dyn RecordSource>,
    name: String,
    selection: Selection,
    /// Number of the next instruction.
    number: u64,
    /// The next instruction is delivered; at `until` that changes.
    inside: bool,
    until: u64,
    touches: FirstTouches,
    /// Records delivered since the last gap: dependences do not reach across it.
    since: u64,
    begun: bool,
    input: Batch,
}

impl Selected {
    /// The selected part of `source`, which errors call `name`.
    pub fn new(source: Box<dyn RecordSource>, name: String, selection: Selection) -> Selected {
        let (inside, until) = selection.at(0);
        Selected {
            source,
            name,
            selection,
            number: 0,
            inside,
            until,
            touches: FirstTouches::default(),
            since: 0,
            begun: false,
            input: Batch::default(),
        }
    }

    fn event(&mut self, event: VmEvent, batch: &mut Batch) {
        match event {
            // The selection says where the region is.
            VmEvent::RegionBegin | VmEvent::RegionEnd => {}
            _ => {
                if let Some(run) = self.touches.event(&event) {
                    batch.push_event(run);
                }
                batch.push_event(event);
            }
        }
    }

    fn record(&mut self, mut record: Record, batch: &mut Batch) {
        let write = record.kind == RecordKind::Store;
        if self.inside {
            if !self.begun {
                self.begun = true;
                batch.push_event(VmEvent::RegionBegin);
            }
            let reaches = |distance: u16| if u64::from(distance) > self.since { 0 } else { distance };
            (record.dep1, record.dep2) = (reaches(record.dep1), reaches(record.dep2));
            self.since += 1;
            batch.records.push(record);
        }
        // What is delivered is touched, too; its own access does it.
        for (va, bytes, write) in [(record.pc, 1, false), (record.va, u64::from(record.size), write)] {
            if bytes > 0 && (va == record.pc || record.is_data()) {
                let run = self.touches.touch(va, bytes, write);
                if let Some(run) = run.filter(|_| !self.inside) {
                    batch.push_event(run);
                }
            }
        }
        self.number += record.instructions();
        if self.number >= self.until {
            let was = self.inside;
            (self.inside, self.until) = self.selection.at(self.number);
            match (was, self.inside) {
                (false, true) => {
                    self.since = 0;
                    batch.events.extend(self.touches.take_run().map(|run| (batch.records.len() as u32, run)));
                }
                (true, false) => _ = self.touches.take_run(),
                _ => {}
            }
        }
    }
}

impl RecordSource for Selected {
    fn identity(&self) -> ProgramIdentity {
        let Selection { skip, every, window } = self.selection;
        let mut identity = self.source.identity();
        identity.detail += &format!(", after {skip} instructions");
        if every > 0 {
            identity.detail += &format!(", the first {window} of every {every}");
        }
        for part in [skip, every, window] {
            identity.digest = (identity.digest ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        identity
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let mut input = std::mem::take(&mut self.input);
        // Parts that are not delivered may have no event for many batches.
        while batch.is_empty() {
            if !self.source.fill(&mut input)? {
                if !self.begun {
                    return Err(SourceError::new(format!(
                        "{}: has {} instructions, so nothing is left after the first {}; skip fewer",
                        self.name, self.number, self.selection.skip
                    )));
                }
                return Ok(false);
            }
            let mut events = input.events.drain(..).peekable();
            for (at, record) in input.records.iter().enumerate() {
                while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
                    self.event(event, batch);
                }
                self.record(*record, batch);
            }
            events.for_each(|(_, event)| self.event(event, batch));
        }
        self.input = input;
        Ok(true)
    }

    fn inner(&self) -> Option<&dyn RecordSource> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{MapKind, Protection, VirtAddr};

    /// 100 loads of four instructions each, each dependent on the one before, of a page each; region marks at
    /// 0.
    struct Counting(u64);

    impl RecordSource for Counting {
        fn identity(&self) -> ProgramIdentity {
            ProgramIdentity { detail: "counting".into(), ..ProgramIdentity::default() }
        }

        fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            if self.0 == 0 {
                let (start, protection) = (VirtAddr(0), Protection::READ_WRITE);
                batch.push_event(VmEvent::Map { start, len: 1 << 30, protection, kind: MapKind::Anonymous });
                batch.push_event(VmEvent::RegionBegin);
            }
            for _ in 0..10 {
                let (pc, va) = (VirtAddr(0), VirtAddr((self.0 + 1) << 12));
                batch.records.push(Record { pc, va, gap: 3, dep1: 1, size: 8, ..Record::default() });
                self.0 += 1;
            }
            Ok(self.0 <= 100)
        }
    }

    fn selected(skip: u64, every: u64, window: u64) -> (Vec<(u64, u16)>, Vec<VmEvent>, Option<String>) {
        let selection = Selection { skip, every, window };
        let mut source = Selected::new(Box::new(Counting(0)), "t.amb".into(), selection);
        let (mut records, mut events, mut batch) = (Vec::new(), Vec::new(), Batch::default());
        loop {
            match source.fill(&mut batch) {
                Ok(true) => {}
                Ok(false) => return (records, events, None),
                Err(error) => return (records, events, Some(error.message)),
            }
            records.extend(batch.records.iter().map(|record| (record.va.0 >> 12, record.dep1)));
            events.extend(
                batch.events.drain(..).map(|(_, event)| event).skip_while(|e| matches!(e, VmEvent::Map { .. })),
            );
        }
    }

    #[test]
    fn what_comes_after_the_skipped_part_keeps_its_pages() {
        let (records, events, error) = selected(200, 0, 0);
        assert_eq!(error, None);
        assert_eq!(records.len(), 50);
        assert_eq!(&records[..2], [(51, 0), (52, 1)], "the first depends on what was skipped");
        let touch =
            |first: u64, pages: u64| VmEvent::Touch { start: VirtAddr(first << 12), len: pages << 12, write: false };
        assert_eq!(events, [touch(0, 51), VmEvent::RegionBegin]);
    }

    #[test]
    fn windows_come_at_regular_distances() {
        // Of every 100 instructions (25 loads) after 40 (10 loads), 20 (5 loads).
        let (records, events, _) = selected(40, 100, 20);
        let expected: Vec<u64> = (0..4).flat_map(|w| (0..5).map(move |i| 11 + 25 * w + i)).collect();
        assert_eq!(records.iter().map(|(page, _)| *page).collect::<Vec<_>>(), expected);
        assert_eq!(records.iter().filter(|(_, dep)| *dep == 0).count(), 4);
        assert_eq!(events.iter().filter(|event| **event == VmEvent::RegionBegin).count(), 1);
        let touched: u64 = events.iter().map(|e| if let VmEvent::Touch { len, .. } = e { len >> 12 } else { 0 }).sum();
        // Page 0 and all pages that no window accesses itself, but for those after the last window.
        assert_eq!(touched, 1 + 10 + 3 * 20);
    }

    #[test]
    fn nothing_left_is_an_error_and_nothing_skipped_changes_nothing() {
        let error = selected(500, 0, 0).2.unwrap();
        assert_eq!(error, "t.amb: has 400 instructions, so nothing is left after the first 500; skip fewer");
        assert_eq!(selected(0, 0, 0).0.len(), 100);
    }
}
