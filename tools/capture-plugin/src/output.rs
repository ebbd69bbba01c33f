//! Merges all threads' records and events into one ordered stream on the wire; the recorder encodes and
//! writes it.
//!
//! When the ring is full the program waits. Nothing is lost, and memory is bounded.

use crate::system_calls;
use crate::wire::{Chunk, Region, Ring};
use ambulator_base::{FRAME_SHIFT, ProcessId, VirtAddr, VmEvent};
use ambulator_trace::FirstTouches;
use ambulator_trace::wire::{RING_CELLS, start_cell, trim_dependences};

/// Where the stream goes.
#[derive(Clone, Default)]
pub struct Target {
    /// The path of the recorder's memory.
    pub wire: String,
    /// How the process came to run the program: 0 started, 1 forked, 2 by `execve`.
    pub origin: u64,
    /// The program's name, if it was executed by a captured one.
    pub name: String,
}

/// The stream of a process.
pub struct Output {
    region: Region,
    ring: Ring,
    /// The thread of the stream's last records, and the number of its first record since the last switch.
    thread: u32,
    turn: u64,
    /// First touches outside windows.
    touches: FirstTouches,
    in_window: bool,
}

impl Output {
    /// Starts the stream of the process in its current state.
    pub fn new(target: &Target) -> Result<Output, String> {
        Region::claim(&target.wire).map(|region| Output::on(region, target, &system_calls::address_space()))
    }

    /// Starts a stream in `region`.
    pub fn on(region: Region, target: &Target, start: &[VmEvent]) -> Output {
        let mut ring = Ring::new(region);
        region.open(std::process::id(), target.origin, &target.name);
        start.iter().for_each(|event| ring.push_event(event));
        ring.push(&start_cell());
        ring.publish();
        Output { region, ring, thread: 0, turn: 0, touches: FirstTouches::default(), in_window: false }
    }

    /// The region on the wire.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Appends an event of `thread`.
    pub fn event(&mut self, thread: u32, event: VmEvent) {
        self.switch(thread);
        if let Some(run) = self.touches.event(&event) {
            self.ring.push_event(&run);
        }
        self.ring.push_event(&event);
        self.publish();
    }

    /// A page is touched outside a window, or by the operating system.
    pub fn touch(&mut self, va: u64, write: bool) {
        if let Some(run) = self.touches.touch(VirtAddr(va >> FRAME_SHIFT << FRAME_SHIFT), 1, write) {
            self.ring.push_event(&run);
        }
        self.publish();
    }

    /// A window opens.
    pub fn open_window(&mut self) {
        self.push_run();
        if !self.in_window {
            self.in_window = true;
            self.ring.push_event(&VmEvent::RegionBegin);
        }
        self.publish();
    }

    fn publish(&mut self) {
        self.ring.publish();
        self.region.set_run(self.touches.run());
    }

    fn push_run(&mut self) {
        if let Some(run) = self.touches.take_run() {
            self.ring.push_event(&run);
        }
    }

    fn switch(&mut self, thread: u32) {
        if thread != self.thread {
            self.thread = thread;
            self.turn = u64::MAX;
            self.push_run();
            self.ring.push_event(&VmEvent::Switch { process: ProcessId(0), thread });
        }
    }

    /// Appends the records of `thread`, from its `first`-th on. Dependences that reach back across another
    /// thread's records are dropped, because their distances would count those.
    pub fn records(&mut self, thread: u32, first: u64, records: &mut Chunk) {
        if records.len() == 0 {
            return;
        }
        self.switch(thread);
        self.push_run();
        // A new thread may reuse the number of an ended one; its records are counted from 1 again.
        if self.turn == u64::MAX || first < self.turn || first == 1 {
            self.turn = first;
        }
        // A process that is killed while it waits has these records in the chunk, and none of them in the
        // ring.
        self.ring.reserve((records.len() as u64).min(RING_CELLS / 2));
        let mut reach = first - self.turn;
        let ring = &mut self.ring;
        let append = |mut cell| {
            if reach < u64::from(u16::MAX) {
                trim_dependences(&mut cell, reach);
            }
            reach += 1;
            ring.push(&cell);
        };
        let region = self.region;
        records.drain(append, || region.set_run(None));
        self.ring.publish();
    }

    /// Ends the stream; `exited` if the process has ended or has become another program.
    pub fn finish(&mut self, exited: bool) {
        self.push_run();
        if self.in_window {
            self.ring.push_event(&VmEvent::RegionEnd);
        }
        if exited {
            self.ring.push_event(&VmEvent::Exit { process: ProcessId(0) });
        }
        self.publish();
        self.region.finish();
    }
}
