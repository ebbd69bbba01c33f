//! A program that bytes spell: whatever they are, it asks only for what a kernel grants.

use ambulator_base::{
    Advice, Batch, MapKind, ProcessId, ProgramIdentity, Protection, Record, RecordKind, RecordSource, SourceError,
    VirtAddr, VmEvent,
};

/// All within a gigabyte, of which the kernel model keeps one array of pages.
const DATA: u64 = 0x10_0000_0000;
const CODE: u64 = DATA + (768 << 20);
const PAGE: u64 = 4096;
/// Bytes from one place for areas to the next.
const PLACE: u64 = 16 << 20;
/// Places for areas, and the most pages of one.
const PLACES: u64 = 12;
const MOST_PAGES: u64 = 2048;
/// Where the heap begins, and its most pages.
const HEAP: u64 = DATA + (512 << 20);
const HEAP_PAGES: u64 = 1024;
/// Processes of a program at once.
const PROCESSES: usize = 4;
/// Records of a batch, about.
const BATCH: usize = 512;

/// Pages that are mapped with the same rights and advice: they lie in one area of the kernel's.
#[derive(Clone, Copy, Debug)]
struct Area {
    start: u64,
    pages: u64,
    writable: bool,
}

/// What the program knows of one of its processes.
#[derive(Clone, Debug)]
struct Space {
    number: u32,
    areas: Vec<Area>,
    heap_pages: u64,
}

/// A program of four bytes an operation: what, in which area, from which page, how much.
pub(super) struct SpelledProgram {
    bytes: Vec<u8>,
    at: usize,
    /// Live processes.
    spaces: Vec<Space>,
    current: usize,
    thread: u32,
    forked: u32,
}

impl SpelledProgram {
    pub fn new(bytes: &[u8]) -> SpelledProgram {
        let whole = bytes.len() / 4 * 4;
        let first = Space { number: 0, areas: Vec::new(), heap_pages: 0 };
        SpelledProgram { bytes: bytes[..whole].to_vec(), at: 0, spaces: vec![first], current: 0, thread: 0, forked: 0 }
    }

    fn set_up(&mut self, batch: &mut Batch) {
        let map = |start, len, protection, kind| VmEvent::Map { start: VirtAddr(start), len, protection, kind };
        batch.push_event(map(CODE, PAGE, Protection::READ_EXECUTE, MapKind::File));
        batch.push_event(VmEvent::Touch { start: VirtAddr(CODE), len: PAGE, write: false });
        batch.push_event(map(DATA, 2 << 20, Protection::READ_WRITE, MapKind::Anonymous));
        batch.push_event(VmEvent::Brk { end: VirtAddr(HEAP) });
        batch.push_event(VmEvent::RegionBegin);
        self.spaces[0].areas.push(Area { start: DATA, pages: 512, writable: true });
    }

    fn areas(&mut self) -> &mut Vec<Area> {
        &mut self.spaces[self.current].areas
    }

    /// An area by number, and a piece of it: its first address, its pages.
    fn piece(&self, area: u8, from: u8, pages: u8) -> Option<(Area, u64, u64)> {
        let areas = &self.spaces[self.current].areas;
        let area = *areas.get(usize::from(area) % areas.len().max(1))?;
        let from = u64::from(from) * 7 % area.pages;
        let all = area.pages - from;
        let pages = if pages >= 0xe0 { all } else { (1 + u64::from(pages)).min(all) };
        Some((area, area.start + from * PAGE, pages))
    }

    /// Takes `pages` from `start` on out of what is mapped.
    fn cut(&mut self, start: u64, pages: u64) {
        let end = start + pages * PAGE;
        let cut = |area: Area| {
            let area_end = area.start + area.pages * PAGE;
            if end <= area.start || area_end <= start {
                return vec![area];
            }
            let below = Area { pages: start.saturating_sub(area.start) / PAGE, ..area };
            let above = Area { start: end, pages: area_end.saturating_sub(end) / PAGE, ..area };
            [below, above].into_iter().filter(|area| area.pages > 0).collect()
        };
        let pieces: Vec<Area> = self.areas().drain(..).flat_map(cut).collect();
        *self.areas() = pieces;
    }

    /// A place for an area where nothing is mapped: the first address, a few pages past an aligned one.
    fn place(&self, wanted: u8) -> Option<u64> {
        let base = DATA + (1 + u64::from(wanted) % PLACES) * PLACE;
        let free = |area: &Area| area.start + area.pages * PAGE <= base || base + PLACE <= area.start;
        let shift = [0, 0, 1, 5][usize::from(wanted) / 64];
        self.spaces[self.current].areas.iter().all(free).then_some(base + shift * PAGE)
    }

    fn access(&self, batch: &mut Batch, at: u64, kind: RecordKind, gap: u32) {
        let pc = VirtAddr(CODE + batch.records.len() as u64 * 4 % 256);
        batch.records.push(Record { pc, va: VirtAddr(at), gap, size: 8, kind, ..Record::default() });
    }

    fn step(&mut self, [what, a, b, c]: [u8; 4], batch: &mut Batch) {
        let (start, len) = (VirtAddr, |pages: u64| pages * PAGE);
        match what % 16 {
            0..=4 => {
                let Some((area, at, pages)) = self.piece(a, b, c) else { return };
                let store = area.writable && what & 1 == 1;
                let kind = if store { RecordKind::Store } else { RecordKind::Load };
                // Far apart, next to each other, or again and again within a line.
                let (step, count) = [(PAGE, pages.min(32)), (PAGE + 64, pages.min(8)), (16, 8)][usize::from(what % 3)];
                for i in 0..count {
                    self.access(batch, at + i * step % (pages * PAGE - 8), kind, u32::from(what >> 4));
                }
            }
            5 => {
                let Some((area, at, pages)) = self.piece(a, b, 0xff) else { return };
                let kind = if area.writable && c & 1 == 1 { RecordKind::Store } else { RecordKind::Load };
                for page in 0..pages.min(1024) {
                    self.access(batch, at + page * PAGE, kind, u32::from(c >> 4));
                }
            }
            6 => {
                let (at, pages) = match self.piece(a, b, c) {
                    // Instead of what is there, as with MAP_FIXED.
                    Some((_, at, pages)) if c & 8 != 0 => {
                        self.cut(at, pages);
                        (at, pages)
                    }
                    _ => {
                        let Some(at) = self.place(a) else { return };
                        (at, ((1 + u64::from(b)) << (c & 3)).min(MOST_PAGES))
                    }
                };
                let writable = c & 0x30 != 0;
                let protection = if writable { Protection::READ_WRITE } else { Protection::READ };
                let kind = [MapKind::Anonymous, MapKind::Anonymous, MapKind::File, MapKind::Stack][usize::from(c >> 6)];
                self.areas().push(Area { start: at, pages, writable });
                batch.push_event(VmEvent::Map { start: start(at), len: len(pages), protection, kind });
            }
            7 => {
                let Some((_, at, pages)) = self.piece(a, b, c) else { return };
                self.cut(at, pages);
                batch.push_event(VmEvent::Unmap { start: start(at), len: len(pages) });
            }
            8 => {
                let Some((area, at, pages)) = self.piece(a, b, c) else { return };
                self.cut(at, pages);
                self.areas().push(Area { start: at, pages, writable: !area.writable });
                let protection = if area.writable { Protection::READ } else { Protection::READ_WRITE };
                batch.push_event(VmEvent::Protect { start: start(at), len: len(pages), protection });
            }
            9 if what & 0x80 != 0 => {
                // It shrinks where it is.
                let Some((_, at, pages)) = self.piece(a, b, c) else { return };
                let kept = pages.div_ceil(2);
                self.cut(at + len(kept), pages - kept);
                let at = start(at);
                batch.push_event(VmEvent::Remap { old: at, old_len: len(pages), new: at, new_len: len(kept) });
            }
            9 => {
                let Some(new) = self.place(c) else { return };
                let Some((area, at, pages)) = self.piece(a, b, what & 0xf0) else { return };
                self.cut(at, pages);
                let new_pages = pages + u64::from(c & 3) * 16;
                self.areas().push(Area { start: new, pages: new_pages, ..area });
                let (old, new) = (start(at), start(new));
                batch.push_event(VmEvent::Remap { old, old_len: len(pages), new, new_len: len(new_pages) });
            }
            10 => {
                let Some((area, at, pages)) = self.piece(a, b, c) else { return };
                let advice = [Advice::Huge, Advice::NoHuge, Advice::DontNeed, Advice::Free][usize::from(what >> 6)];
                // What is advised otherwise than its neighbours is an area of its own.
                self.cut(at, pages);
                self.areas().push(Area { start: at, pages, ..area });
                batch.push_event(VmEvent::Advise { start: start(at), len: len(pages), advice });
            }
            11 => {
                let Some((area, at, pages)) = self.piece(a, b, c) else { return };
                let write = area.writable && what & 16 == 0;
                batch.push_event(VmEvent::Touch { start: start(at), len: len(pages), write });
            }
            12 => {
                let space = &mut self.spaces[self.current];
                let (before, after) = (space.heap_pages, u64::from(a) * 5 % HEAP_PAGES);
                space.heap_pages = after;
                if after > before {
                    space.areas.push(Area { start: HEAP + len(before), pages: after - before, writable: true });
                } else {
                    self.cut(HEAP + len(after), before - after);
                }
                batch.push_event(VmEvent::Brk { end: VirtAddr(HEAP + len(after)) });
            }
            13 if self.spaces.len() < PROCESSES => {
                self.forked += 1;
                let space = Space { number: self.forked, ..self.spaces[self.current].clone() };
                batch.push_event(VmEvent::Fork { child: ProcessId(space.number) });
                self.spaces.push(space);
            }
            14 if self.spaces.len() > 1 && a & 3 == 0 => {
                // Itself, or another one.
                let at = if a & 4 == 0 { self.current } else { usize::from(b) % self.spaces.len() };
                let (gone, running) = (self.spaces.remove(at), self.current);
                batch.push_event(VmEvent::Exit { process: ProcessId(gone.number) });
                if at == running {
                    self.current = 0;
                    self.switch(batch);
                } else if at < running {
                    self.current -= 1;
                }
            }
            _ => {
                self.current = usize::from(a) % self.spaces.len();
                self.thread = u32::from(b % 4);
                self.switch(batch);
            }
        }
    }

    fn switch(&mut self, batch: &mut Batch) {
        let process = ProcessId(self.spaces[self.current].number);
        batch.push_event(VmEvent::Switch { process, thread: self.thread });
    }
}

impl RecordSource for SpelledProgram {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: "spelled".into(), ..ProgramIdentity::default() }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if self.at == 0 {
            self.set_up(batch);
        }
        while batch.records.len() < BATCH
            && let Some(step) = self.bytes[self.at..].first_chunk::<4>()
        {
            let step = *step;
            self.at += 4;
            self.step(step, batch);
        }
        Ok(!batch.is_empty())
    }
}
