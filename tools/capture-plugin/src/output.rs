//! Merges all threads' records and events into one ordered stream; a thread of the emulator encodes and
//! writes it.
//!
//! Batches wait for the writer in a short queue; when it is full the program waits. Nothing is lost, and
//! memory is bounded. Whole blocks are written as they fill, so that a killed capture leaves a trace that is
//! valid up to its last block.

use crate::system_calls;
use ambulator_base::{Batch, FRAME_SHIFT, ProcessId, ProgramIdentity, Record, VirtAddr, VmEvent};
use ambulator_trace::{FirstTouches, TraceHeader, TraceWriter, TraceWriterSpec};
use std::fs::File;
use std::io::BufWriter;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Batches that may be queued for the writer.
const WAITING: usize = 8;
/// Events of a batch.
const EVENTS: usize = 1 << 14;
/// How often the status file is written.
const STATUS_PERIOD: Duration = Duration::from_millis(300);

/// Where and how the trace is written.
#[derive(Clone, Default)]
pub struct Target {
    /// The trace's path, which may be a pipe.
    pub out: String,
    /// Stem of the names of children's traces, `STEM.PID.amb`.
    pub stem: String,
    /// The program's name.
    pub name: String,
    /// zstd's level.
    pub level: i32,
    /// The file that reports instructions, accesses and bytes so far, if any.
    pub status: Option<String>,
}

/// The stream of a process.
pub struct Output {
    batch: Batch,
    sender: Option<SyncSender<Batch>>,
    writer: Option<JoinHandle<Result<(), String>>>,
    /// The thread of the stream's last records, and the number of its first record since the last switch.
    thread: u32,
    turn: u64,
    /// First touches outside windows.
    touches: FirstTouches,
    region: bool,
}

fn say(message: &str) {
    eprintln!("ambulator capture: {message}");
}

impl Output {
    /// Starts a trace of the process in its current state.
    pub fn new(target: &Target) -> Result<Output, String> {
        let file = File::create(&target.out).map_err(|e| format!("{}: cannot be created: {e}", target.out))?;
        let identity = ProgramIdentity {
            name: target.name.clone(),
            detail: std::env::var("AMBULATOR_DETAIL").unwrap_or_default(),
            footprint: 0,
            digest: 0,
        };
        let header = TraceHeader { identity, start: system_calls::address_space(), ..TraceHeader::default() };
        let spec = TraceWriterSpec { level: target.level, va_bits: 48 };
        let trace =
            TraceWriter::new(BufWriter::with_capacity(1 << 20, file), header, &spec).map_err(|e| e.to_string())?;
        let (sender, receiver) = sync_channel::<Batch>(WAITING);
        let status = target.status.clone();
        let writer = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || write_all(trace, &receiver, status.as_deref()))
            .map_err(|e| format!("cannot start the writer's thread: {e}"))?;
        Ok(Output {
            batch: Batch::default(),
            sender: Some(sender),
            writer: Some(writer),
            thread: 0,
            turn: 0,
            touches: FirstTouches::default(),
            region: false,
        })
    }

    fn submit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let full = std::mem::take(&mut self.batch);
        if let Some(sender) = &self.sender
            && sender.send(full).is_err()
        {
            // The writer has ended and reported why. There is nothing more to capture.
            let reason = self.writer.take().and_then(|writer| writer.join().ok()).and_then(Result::err);
            match reason {
                Some(reason) => {
                    say(&reason);
                    std::process::exit(74)
                }
                None => std::process::exit(0),
            }
        }
    }

    /// Appends an event of `thread`.
    pub fn event(&mut self, thread: u32, event: VmEvent) {
        self.switch(thread);
        if let Some(run) = self.touches.event(&event) {
            self.batch.push_event(run);
        }
        self.batch.push_event(event);
        if self.batch.events.len() >= EVENTS {
            self.submit();
        }
    }

    /// A page is touched outside a window, or by the operating system.
    pub fn touch(&mut self, va: u64, write: bool) {
        if let Some(run) = self.touches.touch(VirtAddr(va >> FRAME_SHIFT << FRAME_SHIFT), 1, write) {
            self.batch.push_event(run);
            if self.batch.events.len() >= EVENTS {
                self.submit();
            }
        }
    }

    /// A window opens.
    pub fn open_window(&mut self) {
        if let Some(run) = self.touches.take_run() {
            self.batch.push_event(run);
        }
        if !self.region {
            self.region = true;
            self.batch.push_event(VmEvent::RegionBegin);
        }
    }

    fn switch(&mut self, thread: u32) {
        if thread != self.thread {
            self.thread = thread;
            self.turn = u64::MAX;
            if let Some(run) = self.touches.take_run() {
                self.batch.push_event(run);
            }
            self.batch.push_event(VmEvent::Switch { process: ProcessId(0), thread });
        }
    }

    /// Appends records of `thread`, from its `first`-th on. Dependences that reach back across another
    /// thread's records are dropped, because their distances would count those.
    pub fn records(&mut self, thread: u32, first: u64, records: &mut Vec<Record>) {
        if records.is_empty() {
            return;
        }
        self.switch(thread);
        if let Some(run) = self.touches.take_run() {
            self.batch.push_event(run);
        }
        // A new thread may reuse the number of an ended one; its records are counted from 1 again.
        if self.turn == u64::MAX || first < self.turn || first == 1 {
            self.turn = first;
        }
        let reach = |at: usize| first + at as u64 - self.turn;
        if reach(0) < u64::from(u16::MAX) {
            for (at, record) in records.iter_mut().enumerate() {
                let reach = reach(at);
                record.dep1 = if u64::from(record.dep1) > reach { 0 } else { record.dep1 };
                record.dep2 = if u64::from(record.dep2) > reach { 0 } else { record.dep2 };
            }
        }
        self.batch.records.append(records);
        if self.batch.records.len() >= Batch::TARGET_RECORDS {
            self.submit();
        }
    }

    /// Ends the trace and waits until it is written; `exited` if the process has ended or has become another
    /// program.
    pub fn finish(&mut self, exited: bool) {
        if let Some(run) = self.touches.take_run() {
            self.batch.push_event(run);
        }
        if self.region {
            self.batch.push_event(VmEvent::RegionEnd);
        }
        if exited {
            self.batch.push_event(VmEvent::Exit { process: ProcessId(0) });
        }
        self.submit();
        self.sender = None;
        if let Some(writer) = self.writer.take()
            && let Ok(Err(reason)) = writer.join()
        {
            say(&reason);
        }
    }

    /// 4 KiB pages touched outside windows.
    pub fn pages(&self) -> u64 {
        self.touches.pages()
    }
}

/// Encodes and writes batches until all senders are gone.
fn write_all(
    mut trace: TraceWriter<BufWriter<File>>,
    batches: &std::sync::mpsc::Receiver<Batch>,
    status: Option<&str>,
) -> Result<(), String> {
    let (mut instructions, mut accesses) = (0u64, 0u64);
    let mut told = Instant::now();
    let tell = |instructions: u64, accesses: u64, bytes: u64| {
        if let Some(path) = status {
            let _ = std::fs::write(path, format!("{instructions} {accesses} {bytes}\n"));
        }
    };
    for batch in batches {
        let mut events = batch.events.into_iter().peekable();
        for (at, record) in batch.records.iter().enumerate() {
            while let Some((_, event)) = events.next_if(|(place, _)| *place as usize <= at) {
                trace.event(event).map_err(|e| e.to_string())?;
            }
            instructions += record.instructions();
            accesses += u64::from(record.is_data());
            trace.push(record).map_err(|e| e.to_string())?;
        }
        for (_, event) in events {
            trace.event(event).map_err(|e| e.to_string())?;
        }
        if told.elapsed() > STATUS_PERIOD {
            told = Instant::now();
            tell(instructions, accesses, trace.bytes());
        }
    }
    tell(instructions, accesses, trace.bytes());
    trace.finish().map(|_| ()).map_err(|e| e.to_string())
}
