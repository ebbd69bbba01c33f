//! The writing end of the wire: one region of the memory that the program shares with its recorder.
//!
//! Other threads of the emulator write to a region only what is theirs: a thread its own entry and chunk, and
//! whoever holds the capture's lock the ring and the header. The recorder writes only the tail.

use crate::host;
use ambulator_base::{Record, VmEvent};
use ambulator_trace::wire::{
    CELL_BYTES, CHUNK_CELLS, Cell, MAGIC, MAX_NAME, PAGE_BYTES, REGION_BYTES, RING_AT, RING_CELLS, THREAD_WORDS,
    THREADS, THREADS_AT, chunk_at, event_cells, page, record_cell, region, region_at,
};
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pauses while the ring is full.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// A mapped region, for as long as the process lives.
#[derive(Clone, Copy)]
pub struct Region {
    page: *const AtomicU64,
    base: *mut u8,
}

// SAFETY: the memory stays mapped, words are accessed atomically, and cells by one thread at a time (see
// above).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Claims the next free region of the memory at `path`.
    pub fn claim(path: &str) -> Result<Region, String> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| format!("the recorder's memory {path} cannot be opened: {e}"))?;
        let cannot = |e| format!("the recorder's memory cannot be mapped: {e}");
        let page = host::map_shared(&file, 0, PAGE_BYTES as usize).map_err(cannot)?.cast::<AtomicU64>();
        let word = |at: usize| {
            // SAFETY: a word of the page just mapped, which stays mapped.
            unsafe { &*page.add(at) }
        };
        if word(page::MAGIC).load(Ordering::SeqCst) != MAGIC {
            return Err(format!("{path} is not the memory of a recorder of this version"));
        }
        let number = word(page::CLAIMED).fetch_add(1, Ordering::SeqCst);
        if number >= word(page::REGIONS).load(Ordering::SeqCst) {
            return Err(format!("{number} processes have been recorded, and there is no room for another"));
        }
        let base = host::map_shared(&file, region_at(number), REGION_BYTES as usize).map_err(cannot)?;
        Ok(Region { page, base })
    }

    /// A region of its own, that no recorder reads.
    #[cfg(test)]
    pub fn in_file(file: &std::fs::File) -> Region {
        file.set_len(region_at(1)).unwrap();
        let page = host::map_shared(file, 0, PAGE_BYTES as usize).unwrap().cast::<AtomicU64>();
        Region { page, base: host::map_shared(file, region_at(0), REGION_BYTES as usize).unwrap() }
    }

    fn word(&self, at: usize) -> &'static AtomicU64 {
        // SAFETY: within the region, aligned, and mapped for the life of the process.
        unsafe { &*self.base.cast::<AtomicU64>().add(at) }
    }

    fn cell(&self, at: u64) -> *mut Cell {
        // SAFETY: callers pass places within the region.
        unsafe { self.base.add(at as usize).cast() }
    }

    /// Whether the recorder wants the process to end.
    pub fn must_end(&self) -> bool {
        // SAFETY: a word of the mapped page.
        let stop = unsafe { &*self.page.add(page::STOP) };
        stop.load(Ordering::Relaxed) != 0
    }

    /// Shows the region to the recorder.
    pub fn open(&self, process: u32, origin: u64, name: &str) {
        let name = &name.as_bytes()[..name.len().min(MAX_NAME)];
        // SAFETY: the name's place in the region, which only this process writes.
        unsafe { self.base.add(8 * region::NAME).copy_from(name.as_ptr(), name.len()) };
        self.word(region::PROCESS).store(u64::from(process), Ordering::SeqCst);
        self.word(region::ORIGIN).store(origin, Ordering::SeqCst);
        self.word(region::NAME_BYTES).store(name.len() as u64, Ordering::SeqCst);
        self.word(region::STATE).store(region::OPEN, Ordering::SeqCst);
    }

    /// The trace is complete.
    pub fn finish(&self) {
        self.word(region::STATE).store(region::FINISHED, Ordering::SeqCst);
    }

    /// Instructions executed so far.
    pub fn set_executed(&self, instructions: u64) {
        self.word(region::EXECUTED).store(instructions, Ordering::SeqCst);
    }

    /// The run of first touches that is not in the ring yet.
    pub fn set_run(&self, run: Option<VmEvent>) {
        let (start, len, write) = match run {
            Some(VmEvent::Touch { start, len, write }) => (start.0, len, write),
            _ => (0, 0, false),
        };
        self.word(region::RUN + 1).store(0, Ordering::Release);
        self.word(region::RUN).store(start, Ordering::Release);
        self.word(region::RUN + 2).store(u64::from(write), Ordering::Release);
        self.word(region::RUN + 1).store(len, Ordering::Release);
    }

    /// The instructions of a thread have been counted.
    pub fn clear_uncounted(&self, thread: usize) {
        self.thread(thread)[1].store(0, Ordering::Release);
    }

    /// The entry of a thread: records in its chunk, and instructions not counted.
    fn thread(&self, number: usize) -> [&'static AtomicU64; THREAD_WORDS] {
        assert!(number < THREADS);
        let at = THREADS_AT as usize / 8 + THREAD_WORDS * number;
        [self.word(at), self.word(at + 1)]
    }
}

/// The ring of a region, while the caller holds the capture's lock.
pub struct Ring {
    region: Region,
    head: u64,
    /// A tail that the recorder has reached.
    tail: u64,
}

impl Ring {
    /// The empty ring of a new region.
    pub fn new(region: Region) -> Ring {
        Ring { region, head: 0, tail: 0 }
    }

    /// Waits until there is room for `cells`, or ends the process if the recorder wants nothing more.
    pub fn reserve(&mut self, cells: u64) {
        let mut pause = SHORTEST_PAUSE;
        while self.head + cells - self.tail > RING_CELLS {
            let tail = [0, 1].map(|i| self.region.word(region::TAIL + i).load(Ordering::Acquire));
            // The recorder's store may have torn.
            if tail[0] == tail[1] && self.tail < tail[0] && tail[0] <= self.head {
                self.tail = tail[0];
                continue;
            }
            self.publish();
            if self.region.must_end() {
                host::exit(74);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Appends a cell; the recorder sees it after [`Ring::publish`], or when the ring is full.
    #[inline]
    pub fn push(&mut self, cell: &Cell) {
        if self.head + 1 - self.tail > RING_CELLS {
            self.reserve(1);
        }
        let place = RING_AT + self.head % RING_CELLS * CELL_BYTES;
        // SAFETY: within the ring; the recorder has read what was there, and the caller holds the lock.
        unsafe { self.region.cell(place).write(*cell) };
        self.head += 1;
    }

    /// Appends an event.
    pub fn push_event(&mut self, event: &VmEvent) {
        // Its halves become visible together.
        self.reserve(2);
        event_cells(event).iter().for_each(|cell| self.push(cell));
    }

    /// Shows the recorder what was pushed.
    pub fn publish(&mut self) {
        self.region.word(region::HEAD).store(self.head, Ordering::Release);
        self.region.word(region::HEAD + 1).store(self.head, Ordering::Release);
    }
}

/// A thread's records that are not in the ring yet. They are in shared memory, so that they outlive the
/// program; more than a chunk holds are kept aside until the thread's next block.
pub struct Chunk {
    cells: *mut Cell,
    records: &'static AtomicU64,
    uncounted: &'static AtomicU64,
    len: usize,
    surplus: Vec<Cell>,
}

// SAFETY: only the thread that owns the chunk accesses it.
unsafe impl Send for Chunk {}

impl Chunk {
    /// The empty chunk of a thread.
    pub fn new(region: &Region, thread: usize) -> Chunk {
        let [records, uncounted] = region.thread(thread);
        records.store(0, Ordering::Release);
        uncounted.store(0, Ordering::Release);
        Chunk { cells: region.cell(chunk_at(thread)), records, uncounted, len: 0, surplus: Vec::new() }
    }

    /// A chunk outside any region.
    #[cfg(test)]
    pub fn private() -> Chunk {
        let cells = Box::leak(vec![[0; 4]; CHUNK_CELLS].into_boxed_slice()).as_mut_ptr();
        let word = || Box::leak(Box::new(AtomicU64::new(0)));
        Chunk { cells, records: word(), uncounted: word(), len: 0, surplus: Vec::new() }
    }

    /// Records in it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len + self.surplus.len()
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, record: &Record) {
        let cell = record_cell(record);
        if self.len == CHUNK_CELLS {
            self.surplus.push(cell);
            return;
        }
        // SAFETY: below the chunk's length, and only this thread writes it.
        unsafe { self.cells.add(self.len).write(cell) };
        self.len += 1;
        self.records.store(self.len as u64, Ordering::Release);
    }

    /// The instructions that are not counted.
    #[inline(always)]
    pub fn set_uncounted(&self, instructions: u64) {
        self.uncounted.store(instructions, Ordering::Relaxed);
    }

    /// Passes all records in order to `take` and empties the chunk. Then `done` is called.
    pub fn drain(&mut self, mut take: impl FnMut(Cell), done: impl FnOnce()) {
        for at in 0..self.len {
            // SAFETY: written by `push`.
            take(unsafe { self.cells.add(at).read() });
        }
        self.surplus.drain(..).for_each(&mut take);
        self.len = 0;
        // A process that is killed here loses this chunk, instead of having it twice.
        self.records.store(0, Ordering::Release);
        done();
    }

    /// The records, for tests.
    #[cfg(test)]
    pub fn records(&self) -> Vec<Record> {
        // SAFETY: written by `push`, with the layout of `Record`.
        (0..self.len).map(|at| unsafe { *self.cells.add(at).cast::<Record>() }).collect()
    }
}
