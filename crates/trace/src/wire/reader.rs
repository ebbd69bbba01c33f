//! The reading end of the wire.

use super::cell::{Cell, Content, content, event, trim_dependences};
use super::{
    CELL_BYTES, CHUNK_CELLS, MAGIC, MAX_NAME, PAGE_BYTES, REGION_BYTES, RING_AT, RING_CELLS, THREAD_WORDS, THREADS,
    THREADS_AT, chunk_at, page, region, region_at,
};
use ambulator_base::{Batch, ProcessId, SourceError, VirtAddr, VmEvent};
use std::io;

/// The most cells that one call takes from the ring.
const MOST_CELLS: u64 = 1 << 13;
/// The most events of an initial address space: an address space has at most as many mappings.
const MOST_START_EVENTS: usize = 1 << 17;
/// Attempts to read a head that is stored twice the same.
const ATTEMPTS: u32 = 1000;

/// Memory that is shared with the writer.
pub trait WireMemory {
    /// Copies bytes from the memory.
    ///
    /// # Errors
    /// The memory ends before, or cannot be read.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Copies bytes to the memory.
    ///
    /// # Errors
    /// The memory cannot be written.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

#[cfg(unix)]
impl WireMemory for std::fs::File {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, bytes, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, at)
    }
}

impl<T: WireMemory> WireMemory for std::sync::Arc<T> {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        T::read(self, at, bytes)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        T::write(self, at, bytes)
    }
}

fn words<const N: usize>(memory: &impl WireMemory, at: u64) -> io::Result<[u64; N]> {
    let mut bytes = vec![0; 8 * N];
    memory.read(at, &mut bytes)?;
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(words)
}

#[inline]
fn cell(bytes: &[u8; 32]) -> Cell {
    let mut cell = [0; 4];
    for (word, bytes) in cell.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    cell
}

/// Prepares empty memory of as many regions as fit into `bytes`, and returns their number.
///
/// # Errors
/// Not even one fits, or the memory cannot be written.
pub fn initialise(memory: &impl WireMemory, bytes: u64) -> io::Result<u64> {
    let regions = bytes.saturating_sub(PAGE_BYTES) / REGION_BYTES;
    if regions == 0 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    memory.write(8 * page::REGIONS as u64, &regions.to_le_bytes())?;
    memory.write(8 * page::MAGIC as u64, &MAGIC.to_le_bytes())?;
    Ok(regions)
}

/// Asks all processes on the wire to end.
///
/// # Errors
/// The memory cannot be written.
pub fn request_stop(memory: &impl WireMemory) -> io::Result<()> {
    memory.write(8 * page::STOP as u64, &1u64.to_le_bytes())
}

/// How a process came to run its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The capture started it.
    Started,
    /// A captured process forked it.
    Forked,
    /// A captured process became it by `execve`.
    Executed,
}

/// Reads one region: the records and events of one process while it runs, and after its death the rest.
///
/// Read with [`WireReader::take`] until it gives nothing and the process has ended, then call
/// [`WireReader::rest`].
pub struct WireReader<M> {
    memory: M,
    base: u64,
    /// What errors call the process.
    name: String,
    tail: u64,
    bytes: Vec<u8>,
    /// The first half of an event.
    half: Option<Cell>,
    /// The initial address space; complete once `started`.
    start: Vec<VmEvent>,
    started: bool,
    thread: u32,
    /// Records of the current thread since its turn began.
    turn: u64,
    in_region: bool,
}

impl<M: WireMemory> WireReader<M> {
    /// Reads region number `number`; errors call it `name`.
    pub fn new(memory: M, number: u64, name: &str) -> WireReader<M> {
        WireReader {
            memory,
            base: region_at(number),
            name: name.to_owned(),
            tail: 0,
            bytes: Vec::new(),
            half: None,
            start: Vec::new(),
            started: false,
            thread: 0,
            turn: 0,
            in_region: false,
        }
    }

    fn words<const N: usize>(&self, word: usize) -> Result<[u64; N], SourceError> {
        words(&self.memory, self.base + 8 * word as u64).map_err(|e| self.unreadable(&e))
    }

    fn unreadable(&self, error: &io::Error) -> SourceError {
        SourceError::new(format!("{}: the memory shared with the program cannot be accessed: {error}", self.name))
    }

    fn damaged(&self, what: &str) -> SourceError {
        SourceError::new(format!(
            "{}: the memory shared with the program is damaged before cell {}: {what}; are plugin and command of the \
             same version?",
            self.name, self.tail
        ))
    }

    /// Whether the process has begun its trace.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub fn is_open(&self) -> Result<bool, SourceError> {
        Ok(self.words::<1>(region::STATE)?[0] != 0)
    }

    /// Whether the process has completed its trace. More may still have to be taken.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub fn is_finished(&self) -> Result<bool, SourceError> {
        Ok(self.words::<1>(region::STATE)?[0] == region::FINISHED)
    }

    /// The process's number in the kernel, its origin, and its program's name if it was executed.
    ///
    /// # Errors
    /// The memory cannot be read, or is damaged.
    pub fn process(&self) -> Result<(u32, Origin, String), SourceError> {
        let [process, origin, len] = self.words(region::PROCESS)?;
        let origin = match origin {
            0 => Origin::Started,
            1 => Origin::Forked,
            2 => Origin::Executed,
            _ => return Err(self.damaged("the origin of the process is unknown")),
        };
        let mut name = vec![0; (len as usize).min(MAX_NAME)];
        let at = self.base + 8 * region::NAME as u64;
        self.memory.read(at, &mut name).map_err(|e| self.unreadable(&e))?;
        let number = u32::try_from(process).map_err(|_| self.damaged("the process's number is too large"))?;
        Ok((number, origin, String::from_utf8_lossy(&name).into_owned()))
    }

    /// Instructions that the process has executed, recorded or not; exact after its death, and before that
    /// some thousands too few.
    ///
    /// # Errors
    /// The memory cannot be read.
    pub fn executed(&self) -> Result<u64, SourceError> {
        let [executed] = self.words(region::EXECUTED)?;
        Ok(self.threads()?.iter().fold(executed, |all, [_, uncounted]| all.saturating_add(*uncounted)))
    }

    fn threads(&self) -> Result<Vec<[u64; THREAD_WORDS]>, SourceError> {
        let mut bytes = vec![0; THREADS * THREAD_WORDS * 8];
        self.memory.read(self.base + THREADS_AT, &mut bytes).map_err(|e| self.unreadable(&e))?;
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Ok(words.as_chunks::<THREAD_WORDS>().0.to_vec())
    }

    /// The number of cells ever written.
    fn head(&self, dead: bool) -> Result<u64, SourceError> {
        let mut head = [0; 2];
        for _ in 0..ATTEMPTS {
            head = self.words(region::HEAD)?;
            if head[0] == head[1] {
                break;
            }
            if dead {
                // It died between the two stores; the first has the new value.
                break;
            }
        }
        let written = head[0].wrapping_sub(self.tail);
        if (head[0] != head[1] && !dead) || written > RING_CELLS {
            return Err(self.damaged(&format!("{written} cells are said to be unread, of {RING_CELLS}")));
        }
        Ok(head[0])
    }

    /// Appends the cells that are there to `batch`, at most some ten thousands, and makes room for the
    /// writer. Returns whether there were any; `dead` says that the process has ended.
    ///
    /// # Errors
    /// The memory cannot be read, or is damaged.
    pub fn take(&mut self, batch: &mut Batch, dead: bool) -> Result<bool, SourceError> {
        let head = self.head(dead)?;
        let place = self.tail % RING_CELLS;
        let count = (head - self.tail).min(MOST_CELLS).min(RING_CELLS - place);
        if count == 0 {
            return Ok(false);
        }
        let bytes = self.bytes(RING_AT + place * CELL_BYTES, count)?;
        self.tail += count;
        let tail = [self.tail.to_le_bytes(), self.tail.to_le_bytes()].concat();
        let at = self.base + 8 * region::TAIL as u64;
        self.memory.write(at, &tail).map_err(|e| self.unreadable(&e))?;
        batch.records.reserve(count as usize);
        let read = bytes.as_chunks::<32>().0.iter().try_for_each(|bytes| self.cell(&cell(bytes), batch));
        self.bytes = bytes;
        read.map(|()| true)
    }

    /// Copies cells from the memory, into the buffer that this takes.
    fn bytes(&mut self, at: u64, count: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize((count * CELL_BYTES) as usize, 0);
        self.memory.read(self.base + at, &mut bytes).map_err(|e| self.unreadable(&e))?;
        Ok(bytes)
    }

    #[inline]
    fn cell(&mut self, cell: &Cell, batch: &mut Batch) -> Result<(), SourceError> {
        if let Some(first) = self.half.take() {
            let Some(event) = event(&[first, *cell]) else { return Err(self.damaged("an event is not valid")) };
            return self.event(event, batch);
        }
        match content(cell) {
            Some(Content::Record(record)) if self.started => {
                batch.records.push(record);
                self.turn += 1;
            }
            Some(Content::HalfEvent) => self.half = Some(*cell),
            Some(Content::Start) if !self.started => self.started = true,
            _ => return Err(self.damaged("a record is not valid, or not in its place")),
        }
        Ok(())
    }

    fn event(&mut self, event: VmEvent, batch: &mut Batch) -> Result<(), SourceError> {
        if !self.started {
            if self.start.len() == MOST_START_EVENTS {
                return Err(self.damaged("the initial address space has too many mappings"));
            }
            self.start.push(event);
            return Ok(());
        }
        match event {
            VmEvent::Switch { thread, .. } => (self.thread, self.turn) = (thread, 0),
            VmEvent::RegionBegin => self.in_region = true,
            VmEvent::RegionEnd => self.in_region = false,
            _ => {}
        }
        batch.push_event(event);
        Ok(())
    }

    /// The initial address space, once it is known.
    pub fn start(&self) -> Option<&[VmEvent]> {
        self.started.then_some(self.start.as_slice())
    }

    /// After the death of a process that did not finish its trace, and after the last [`WireReader::take`]:
    /// appends the records that its threads had not handed over, and the end of the process.
    ///
    /// # Errors
    /// The memory cannot be read, or is damaged.
    pub fn rest(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        if !self.started {
            return Ok(());
        }
        let [start, len, write] = self.words(region::RUN)?;
        let run = VmEvent::Touch { start: VirtAddr(start), len, write: write == 1 };
        if len > 0 {
            let Some(run) = event(&super::event_cells(&run)) else {
                return Err(self.damaged("the pending run of first touches is not valid"));
            };
            batch.push_event(run);
        }
        for (thread, [records, _]) in self.threads()?.into_iter().enumerate() {
            if records == 0 {
                continue;
            }
            if records > CHUNK_CELLS as u64 {
                return Err(self.damaged(&format!("thread {thread} is said to have {records} records")));
            }
            if thread as u32 != self.thread {
                self.event(VmEvent::Switch { process: ProcessId(0), thread: thread as u32 }, batch)?;
            }
            let bytes = self.bytes(chunk_at(thread), records)?;
            for mut cell in bytes.as_chunks::<32>().0.iter().map(cell) {
                trim_dependences(&mut cell, self.turn);
                let Some(Content::Record(record)) = content(&cell) else {
                    return Err(self.damaged(&format!("a record of thread {thread} is not valid")));
                };
                batch.records.push(record);
                self.turn += 1;
            }
        }
        if self.in_region {
            self.event(VmEvent::RegionEnd, batch)?;
        }
        self.event(VmEvent::Exit { process: ProcessId(0) }, batch)
    }
}
