//! Feeds our DRAM.

use super::measured::Measured;
use super::memories::Memory;
use super::streams::{Load, Request, Stream};
use ambulator_hardware::Dram;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Core cycles of a DRAM clock.
const CYCLES: u64 = 4;

/// What our DRAM makes of a stream.
pub fn measure(memory: &Memory, mut stream: Stream) -> Measured {
    let ns_of_cycle = memory.clock_ns() / CYCLES as f64;
    let dram = Dram::new(&memory.spec(), CYCLES * memory.data_rate / 2, true);
    let mut feed = Feed { dram, ns_of_cycle, latencies: Vec::new(), lines: 0, end: 0 };
    let mut coming = Coming::default();
    match stream.load {
        Load::Open(_) => coming.add(stream.arrival() * CYCLES, Next::Arrival),
        Load::Closed(agents) => (0..agents).for_each(|agent| coming.add(0, Next::Agent(agent))),
    }
    while let Some((at, next)) = coming.first() {
        let (agent, request) = match next {
            Next::Dependent(agent, line) => (agent, Request { line, write: false, then: None }),
            Next::Arrival | Next::Agent(_) if stream.left == 0 => continue,
            Next::Arrival => {
                let request = stream.next(0);
                coming.add(stream.arrival() * CYCLES, Next::Arrival);
                (None, request)
            }
            Next::Agent(agent) => (Some(agent), stream.next(agent)),
        };
        let mut done = feed.serve(request, at);
        let mut then = request.then;
        if stream.out_of_order
            && let Some(line) = then.take()
        {
            done = feed.serve(Request { line, write: false, then: None }, done);
        }
        match (then, agent) {
            (Some(line), _) => coming.add(done, Next::Dependent(agent, line)),
            (None, Some(agent)) => coming.add(done, Next::Agent(agent)),
            (None, None) => {}
        }
    }
    Measured::new(feed.latencies, feed.lines, feed.end as f64 * ns_of_cycle)
}

struct Feed {
    dram: Dram,
    ns_of_cycle: f64,
    /// Of the reads, in ns.
    latencies: Vec<f64>,
    lines: usize,
    /// When the last request was done, in cycles.
    end: u64,
}

impl Feed {
    /// Makes a request at cycle `at`; returns when it is done.
    fn serve(&mut self, request: Request, at: u64) -> u64 {
        self.lines += 1;
        let done = if request.write {
            self.dram.write(request.line, false, at);
            at + CYCLES
        } else {
            let done = self.dram.read(request.line, false, at);
            self.latencies.push((done - at) as f64 * self.ns_of_cycle);
            done
        };
        self.end = self.end.max(done);
        done
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
    /// The second line of a pair is read, of this agent if it has one.
    Dependent(Option<usize>, u64),
}
