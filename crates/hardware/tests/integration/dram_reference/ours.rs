//! Feeds our DRAM.

use super::measured::Measured;
use super::memories::Memory;
use super::streams::{Load, Request, Stream};
use ambulator_hardware::Dram;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Core cycles of a DRAM clock.
const CYCLES: u64 = 4;

/// What our DRAM makes of a stream. Who waits for a line asks again when the time has come that it was told.
pub fn measure(memory: &Memory, mut stream: Stream) -> Measured {
    let ns_of_cycle = memory.clock_ns() / CYCLES as f64;
    let dram = Dram::new(&memory.spec(), CYCLES * memory.data_rate / 2, true);
    let mut feed = Feed { dram, coming: Coming::default(), latencies: Vec::new(), lines: 0, end: 0 };
    match stream.load {
        Load::Open(_) => feed.coming.add(stream.arrival() * CYCLES, Next::Arrival),
        Load::Closed(agents) => (0..agents).for_each(|agent| feed.coming.add(0, Next::Agent(agent))),
    }
    while let Some((at, next)) = feed.coming.first() {
        let (agent, request) = match next {
            Next::Told(read) => {
                feed.ask_again(at, read);
                continue;
            }
            Next::Queued(write) => {
                feed.ask_for_room(at, write);
                continue;
            }
            Next::Arrival | Next::Agent(_) if stream.left == 0 => continue,
            Next::Arrival => {
                let request = stream.next(0);
                feed.coming.add(stream.arrival() * CYCLES, Next::Arrival);
                (None, request)
            }
            Next::Agent(agent) => (Some(agent), stream.next(agent)),
        };
        match request.then.filter(|_| stream.out_of_order) {
            Some(second) => {
                let told = feed.serve(Request { then: None, ..request }, None, at);
                feed.serve(Request { line: second, write: false, then: None }, agent, told);
            }
            None => _ = feed.serve(request, agent, at),
        }
    }
    let latencies = feed.latencies.iter().map(|cycles| *cycles as f64 * ns_of_cycle).collect();
    Measured::new(latencies, feed.lines, feed.end as f64 * ns_of_cycle)
}

struct Feed {
    dram: Dram,
    coming: Coming,
    /// Of the reads, in cycles.
    latencies: Vec<u64>,
    lines: usize,
    /// When the last request was done, in cycles.
    end: u64,
}

impl Feed {
    /// Makes a request of an agent, if it is one's, at cycle `at`; returns when it is said to be done.
    fn serve(&mut self, request: Request, agent: Option<usize>, at: u64) -> u64 {
        self.lines += 1;
        let Request { line, write, then } = request;
        if write {
            let queued = self.dram.write(line, false, at);
            if queued > at {
                self.coming.add(queued, Next::Queued(Asked { line, asked: at, then, agent }));
            } else {
                self.done(queued + CYCLES, then, agent);
            }
            return queued + CYCLES;
        }
        let told = self.dram.read(line, false, at);
        self.coming.add(told, Next::Told(Asked { line, asked: at, then, agent }));
        told
    }

    /// A write was said to have room in the queue at cycle `at`.
    fn ask_for_room(&mut self, at: u64, write: Asked) {
        let queued = self.dram.entry(write.line, at);
        if queued > at {
            self.coming.add(queued, Next::Queued(write));
        } else {
            self.done(at + CYCLES, write.then, write.agent);
        }
    }

    /// The line of a read was said to arrive at cycle `at`.
    fn ask_again(&mut self, at: u64, read: Asked) {
        match self.dram.arrival(read.line, false) {
            Some(later) if later > at => self.coming.add(later, Next::Told(read)),
            _ => {
                self.latencies.push(at - read.asked);
                self.done(at, read.then, read.agent);
            }
        }
    }

    /// A request is done at cycle `at`: the second line of its pair is read, or its agent goes on.
    fn done(&mut self, at: u64, then: Option<u64>, agent: Option<usize>) {
        self.end = self.end.max(at);
        if let Some(line) = then {
            self.serve(Request { line, write: false, then: None }, agent, at);
        } else if let Some(agent) = agent {
            self.coming.add(at, Next::Agent(agent));
        }
    }
}

/// What is still to happen: by time in cycles; at one time in the order in which it was added.
#[derive(Default)]
struct Coming {
    heap: BinaryHeap<Reverse<(u64, u64, Next)>>,
    added: u64,
}

impl Coming {
    fn add(&mut self, at: u64, next: Next) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, next)));
    }

    fn first(&mut self) -> Option<(u64, Next)> {
        self.heap.pop().map(|Reverse((at, _, next))| (at, next))
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// A request of an open load comes.
    Arrival,
    /// An agent asks.
    Agent(usize),
    /// A line was said to arrive.
    Told(Asked),
    /// A write was said to have room in the queue.
    Queued(Asked),
}

/// A read under way or a write that waits, when it was asked, the second line of its pair, and its agent if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    line: u64,
    asked: u64,
    then: Option<u64>,
    agent: Option<usize>,
}
