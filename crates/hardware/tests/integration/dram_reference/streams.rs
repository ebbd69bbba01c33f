//! Streams of requests. Times are in DRAM clocks.

use super::memories::{BURST, Memory, ROW_LINES};

/// When requests come.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// As time passes, whatever is under way; mean clocks between two, exponentially distributed.
    Open(f64),
    /// From so many agents, each with one request under way. A write ends when it is accepted.
    Closed(usize),
}

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Random,
    Sequential,
    /// Random rows and columns of one bank.
    OneBank,
    /// A read in the first 64 MiB, and a random one that waits for it, as a tree's last two levels.
    Pairs,
    /// Random reads and writes, so many of each in turn. Writes go to lines that were read some time before.
    Mix {
        reads: u64,
        writes: u64,
    },
    /// Cores that read two arrays and write a third one.
    Triad {
        cores: usize,
        one_bank: bool,
    },
}

/// A request for a line.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub line: u64,
    pub write: bool,
    /// A line that is read when this one has arrived.
    pub then: Option<u64>,
}

/// A stream. A clone of it has the same requests.
#[derive(Clone, Debug)]
pub struct Stream {
    pub name: String,
    pub load: Load,
    /// Pairs only: our model is asked for the second line as soon as it has told when the first one arrives,
    /// out of the order of time, as the simulator asks.
    pub out_of_order: bool,
    /// Requests that are still to come.
    pub left: usize,
    pattern: Pattern,
    row_stride: u64,
    state: u64,
    gaps: u64,
    arrival: f64,
    made: u64,
    of_core: [u64; 4],
    read: Vec<u64>,
}

/// Requests of a stream: enough for a hundred refreshes at low loads, few enough for a test.
const REQUESTS: usize = 8000;
/// Lines of 4 GiB, all that the smallest of the memories has.
const LINES: u64 = 1 << 26;
/// Lines read between the read of a line and its write.
const WRITTEN_AFTER: usize = 64;

/// SplitMix64 (Steele et al., OOPSLA 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    fn new(name: String, load: Load, pattern: Pattern, memory: &Memory) -> Stream {
        Stream {
            name,
            load,
            out_of_order: false,
            // These are served fast, and few refreshes would meet them.
            left: if matches!(pattern, Pattern::Sequential) { 3 * REQUESTS } else { REQUESTS },
            pattern,
            row_stride: memory.row_stride(),
            state: 1,
            gaps: 99,
            arrival: 0.0,
            made: 0,
            of_core: [0; 4],
            read: Vec::new(),
        }
    }

    /// The next arrival of an open load, in whole clocks.
    pub fn arrival(&mut self) -> u64 {
        let Load::Open(mean) = self.load else { panic!("agents ask when they are free") };
        let uniform = (random(&mut self.gaps) >> 11) as f64 / (1u64 << 53) as f64;
        self.arrival -= mean * (1.0 - uniform).ln();
        self.arrival.ceil() as u64
    }

    /// The next request, of an agent if the load is closed.
    pub fn next(&mut self, agent: usize) -> Request {
        let n = self.made;
        self.made += 1;
        self.left -= 1;
        let (mut write, mut then) = (false, None);
        let line = match self.pattern {
            Pattern::Random => self.random(LINES),
            Pattern::Sequential => n,
            Pattern::OneBank => self.random(LINES / self.row_stride) * self.row_stride + self.random(ROW_LINES),
            Pattern::Pairs => {
                self.left = self.left.saturating_sub(1);
                then = Some(self.random(LINES));
                self.random(1 << 20)
            }
            Pattern::Mix { reads, writes } => {
                let before = |requests| requests * writes / (reads + writes);
                write = before(n + 1) > before(n) && self.read.len() > WRITTEN_AFTER;
                if write {
                    self.read.remove(0)
                } else {
                    let line = self.random(LINES);
                    self.read.push(line);
                    if self.read.len() > 2 * WRITTEN_AFTER {
                        self.read.remove(0);
                    }
                    line
                }
            }
            Pattern::Triad { cores, one_bank } => {
                // Cores take turns where no agents ask for them.
                let core = if matches!(self.load, Load::Open(_)) { n as usize } else { agent } % cores;
                let element = self.of_core[core] / 3;
                let array = self.of_core[core] % 3;
                self.of_core[core] += 1;
                write = array == 2;
                let apart = if one_bank { 0 } else { 5 * ROW_LINES };
                core as u64 * ((1 << 24) + 3 * ROW_LINES) + array * ((1 << 22) + apart) + element
            }
        };
        Request { line, write, then }
    }

    fn random(&mut self, below: u64) -> u64 {
        random(&mut self.state) % below
    }
}

/// All streams for a memory; with two ranks, those that tell ranks apart. Loads are in percent of the bus,
/// and for one bank in percent of a row each tRC.
pub fn streams(memory: &Memory) -> Vec<Stream> {
    assert!(u64::from(memory.rows) * memory.row_stride() >= LINES, "{}: DRAMsim3 has no such rows", memory.name);
    let mut all = vec![];
    let mut add = |name: String, load, pattern| all.push(Stream::new(name, load, pattern, memory));
    let mix = |reads, writes| Pattern::Mix { reads, writes };
    let triad = |cores, one_bank| Pattern::Triad { cores, one_bank };
    let open: [(&str, Pattern, u32, &[u32]); 10] = [
        ("random reads", Pattern::Random, BURST, &[5, 20, 30, 40, 60, 90]),
        ("sequential reads", Pattern::Sequential, BURST, &[5, 20, 40, 60, 90]),
        ("one bank", Pattern::OneBank, memory.t_ras + memory.t_rp, &[5, 10, 30, 50, 70, 90]),
        // Two reads at each arrival.
        ("dependent pairs", Pattern::Pairs, 2 * BURST, &[5, 20, 30, 40, 60, 90]),
        ("two reads to a write", mix(2, 1), BURST, &[5, 20, 30, 40, 60, 90]),
        ("three reads to two writes", mix(3, 2), BURST, &[5, 20, 30, 40, 60, 90]),
        ("a triad", triad(1, false), BURST, &[5, 20, 40, 60, 90]),
        ("a triad of rows in one bank", triad(1, true), BURST, &[5, 20, 40]),
        ("four triads", triad(4, false), BURST, &[5, 20, 40, 60, 90]),
        ("four triads of rows in one bank", triad(4, true), BURST, &[5, 20, 40, 60]),
    ];
    for (name, pattern, clocks, loads) in open {
        for percent in loads {
            let mean = f64::from(clocks) * 100.0 / f64::from(*percent);
            add(format!("{name}, {percent}%"), Load::Open(mean), pattern);
        }
    }
    let closed: [(&str, Pattern, &[usize]); 9] = [
        ("random reads", Pattern::Random, &[1, 4, 16, 64]),
        ("sequential reads", Pattern::Sequential, &[1, 4, 16, 64]),
        ("dependent pairs", Pattern::Pairs, &[1, 4, 16]),
        ("two reads to a write", mix(2, 1), &[1, 4, 16, 64]),
        ("three reads to two writes", mix(3, 2), &[1, 4, 16, 64]),
        ("a triad", triad(1, false), &[4, 16]),
        ("a triad of rows in one bank", triad(1, true), &[4, 16]),
        ("four triads", triad(4, false), &[16, 64]),
        ("four triads of rows in one bank", triad(4, true), &[16, 64]),
    ];
    for (name, pattern, agents) in closed {
        for agents in agents {
            add(format!("{name}, {agents} at once"), Load::Closed(*agents), pattern);
        }
    }
    if memory.ranks > 1 {
        all.retain(|stream| !matches!(stream.pattern, Pattern::OneBank | Pattern::Pairs));
    }
    let mut pairs: Vec<_> = all.iter().filter(|stream| matches!(stream.pattern, Pattern::Pairs)).cloned().collect();
    for stream in &mut pairs {
        stream.out_of_order = true;
        stream.name += ", out of order";
    }
    all.extend(pairs);
    all
}
