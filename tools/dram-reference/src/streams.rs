//! The streams.
#[derive(Clone, Copy)]
pub enum Load {
    /// Mean ns between requests, exponentially distributed.
    Open(f64),
    /// So many agents, each with one read under way.
    Closed(usize),
}

#[derive(Clone, Copy)]
pub enum Pattern {
    Random,
    Sequential,
    OneBank,
    /// Reads, writes of a cycle; random lines, each write to the line read some time before.
    Mix(u64, u64),
    /// Read two arrays, write a third: agents' arrays apart; `bool`: rows of the three in one bank.
    Triad(usize, bool),
}

pub struct Stream {
    pub name: String,
    pub load: Load,
    pub requests: u64,
    pattern: Pattern,
    state: u64,
    gaps: u64,
    made: u64,
    of_agent: Vec<u64>,
    recent: Vec<u64>,
}

/// A peak of 25.6 GB/s: 2.5 ns a line.
const LINE_NS: f64 = 2.5;
const LINES: u64 = 1 << 26;

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    fn new(name: String, load: Load, pattern: Pattern) -> Stream {
        let mut stream = Stream { name, load, requests: 20_000, pattern, state: 0, gaps: 0, made: 0, of_agent: vec![], recent: vec![] };
        stream.restart();
        stream
    }
    pub fn restart(&mut self) {
        self.state = 1;
        self.gaps = 99;
        self.made = 0;
        self.of_agent = vec![0; 256];
        self.recent.clear();
    }
    pub fn gap(&mut self, mean: f64) -> f64 {
        let u = (random(&mut self.gaps) >> 11) as f64 / (1u64 << 53) as f64;
        -mean * (1.0 - u).ln()
    }
    pub fn next(&mut self, agent: usize) -> (u64, bool) {
        let n = self.made;
        self.made += 1;
        match self.pattern {
            Pattern::Random => (random(&mut self.state) % LINES, false),
            Pattern::Sequential => (n, false),
            // Row bits from 2^11 lines on (7 column bits, 4 bank bits).
            Pattern::OneBank => ((random(&mut self.state) % 32768) << 11 | random(&mut self.state) % 128, false),
            Pattern::Mix(reads, writes) => {
                let k = n % (reads + writes);
                let write = k * writes / (reads + writes) != (k + 1) * writes / (reads + writes);
                if write && self.recent.len() > 64 {
                    let which = self.recent.len() - 64;
                    let line = self.recent.swap_remove(which);
                    (line, true)
                } else {
                    let line = random(&mut self.state) % LINES;
                    self.recent.push(line);
                    if self.recent.len() > 4096 { self.recent.drain(..2048); }
                    (line, false)
                }
            }
            Pattern::Triad(cores, same_bank) => {
                let core = agent % cores;
                let i = self.of_agent[core];
                self.of_agent[core] += 1;
                let (element, array) = (i / 3, i % 3);
                let apart = if same_bank { 1 << 22 } else { (1 << 22) + 128 * 5 };
                let base = core as u64 * ((1 << 24) + 128 * 3) + array * apart;
                // The written line trails, as a cache writes it back later.
                let line = if array == 2 { base + element.saturating_sub(0) } else { base + element };
                (line, array == 2)
            }
        }
    }
}

pub fn streams() -> Vec<Stream> {
    let mut all = vec![];
    let mut open = |name: &str, pattern, loads: &[u32]| {
        for percent in loads {
            all.push(Stream::new(format!("{name}, {percent}% of peak"), Load::Open(LINE_NS * 100.0 / f64::from(*percent)), pattern));
        }
    };
    open("random reads", Pattern::Random, &[5, 20, 30, 40]);
    open("sequential reads", Pattern::Sequential, &[5, 20, 40, 60]);
    open("random 2:1", Pattern::Mix(2, 1), &[5, 20, 30, 40]);
    open("random 3:2", Pattern::Mix(3, 2), &[5, 20, 30]);
    // tRC = 74 clocks = 46.25 ns a line.
    for percent in [10, 30, 50, 70, 90] {
        all.push(Stream::new(format!("one bank, {percent}% of 1/tRC"), Load::Open(46.25 * 100.0 / f64::from(percent)), Pattern::OneBank));
    }
    for agents in [1, 4, 16, 64] {
        all.push(Stream::new(format!("random reads, {agents} at once"), Load::Closed(agents), Pattern::Random));
        all.push(Stream::new(format!("random 2:1, {agents} at once"), Load::Closed(agents), Pattern::Mix(2, 1)));
        all.push(Stream::new(format!("random 3:2, {agents} at once"), Load::Closed(agents), Pattern::Mix(3, 2)));
        all.push(Stream::new(format!("sequential reads, {agents} at once"), Load::Closed(agents), Pattern::Sequential));
    }
    for (cores, name) in [(1, "one triad"), (4, "four triads")] {
        all.push(Stream::new(format!("{name}, 16 at once"), Load::Closed(16), Pattern::Triad(cores, false)));
        all.push(Stream::new(format!("{name}, rows in one bank"), Load::Closed(16), Pattern::Triad(cores, true)));
    }
    all
}
