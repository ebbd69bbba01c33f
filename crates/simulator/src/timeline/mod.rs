//! Timelines: what the machines of a comparison do in a window of their runs, in one file that Perfetto
//! opens.
//!
//! `window.rs` opens and closes the window, `recording.rs` takes what happens meanwhile, and `steps.rs`,
//! `system.rs` and `memory.rs` put it onto tracks. Recording changes nothing of the run.

mod hooks;
mod memory;
mod recording;
mod steps;
mod system;
mod window;

pub(crate) use recording::Recording;
pub(crate) use system::Action;
pub(crate) use window::TimelineRun;

use ambulator_base::lock;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Nanoseconds of Perfetto's that stand for a core cycle: it shows cycles as microseconds, and 1/64 cycle,
/// the unit of main memory's times, is not rounded to 0.
pub(crate) const PER_CYCLE: u64 = 1000;

/// Which part of each run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineRequest {
    /// Instructions of the measured region before the window, all cores together.
    pub from: u64,
    /// Instructions of the window, all cores together. It ends with the region at the latest.
    pub instructions: u64,
    /// Bytes of the file, about: when there are as many, recording ends.
    pub most_bytes: u64,
}

/// How the window of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    /// After its instructions.
    Complete,
    /// With the run, before.
    RunEnded,
    /// Because the file had reached its size.
    FileFull,
    /// Because the file could not be written.
    NotWritten,
}

/// What was recorded of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedWindow {
    /// The design.
    pub design: String,
    /// Instructions of the measured region before the window; in it, as far as it went.
    pub from: u64,
    /// Instructions of the window.
    pub instructions: u64,
    /// Its cycles, on the core that took longest.
    pub cycles: u64,
    /// Events in the file; a slice has two.
    pub events: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How it ended; `None` if the run ended before the window began.
    pub end: Option<WindowEnd>,
}

/// The file, until it fails.
struct Sink {
    out: Box<dyn Write + Send>,
    bytes: u64,
    error: Option<String>,
}

/// A file of timelines: that of each design is a process of its own.
pub struct Timeline {
    request: TimelineRequest,
    sink: Mutex<Sink>,
    /// By the designs' numbers.
    windows: Mutex<BTreeMap<usize, RecordedWindow>>,
}

/// A design's part of a file of timelines.
#[derive(Clone)]
pub struct TimelinePart {
    timeline: Arc<Timeline>,
    number: usize,
}

impl Timeline {
    /// An empty file of timelines.
    pub fn new(request: TimelineRequest, out: Box<dyn Write + Send>) -> Arc<Timeline> {
        let sink = Mutex::new(Sink { out, bytes: 0, error: None });
        Arc::new(Timeline { request, sink, windows: Mutex::default() })
    }

    /// The part of a design; numbers tell designs apart.
    pub fn part(self: &Arc<Timeline>, number: usize) -> TimelinePart {
        TimelinePart { timeline: Arc::clone(self), number }
    }

    /// What has been recorded, by design. The file is complete.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn finish(&self) -> Result<Vec<RecordedWindow>, String> {
        let mut sink = lock(&self.sink);
        if sink.error.is_none() {
            sink.error = sink.out.flush().err().map(|error| error.to_string());
        }
        match &sink.error {
            Some(error) => Err(error.clone()),
            None => Ok(lock(&self.windows).values().cloned().collect()),
        }
    }
}

impl TimelinePart {
    /// Appends packets to the file. Says why nothing more may come.
    fn append(&self, bytes: &[u8]) -> Option<WindowEnd> {
        let mut sink = lock(&self.timeline.sink);
        if sink.error.is_some() {
            return Some(WindowEnd::NotWritten);
        }
        if let Err(error) = sink.out.write_all(bytes) {
            sink.error = Some(error.to_string());
            return Some(WindowEnd::NotWritten);
        }
        sink.bytes += bytes.len() as u64;
        (sink.bytes >= self.timeline.request.most_bytes).then_some(WindowEnd::FileFull)
    }

    fn ended(&self, window: RecordedWindow) {
        lock(&self.timeline.windows).insert(self.number, window);
    }
}
