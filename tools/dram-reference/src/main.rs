//! Feeds DRAMsim3 and Ambulator's DRAM the same streams.
mod reference;
mod streams;

use ambulator_hardware::{Dram, DramSpec};
use reference::Reference;
use streams::{Load, Stream, streams};

/// Core clock of our model in MHz.
const CLOCK: u64 = 6400;

#[derive(Default)]
struct Measured {
    latencies: Vec<f64>,
    bytes: f64,
    ns: f64,
}

impl Measured {
    fn mean(&self) -> f64 {
        self.latencies.iter().sum::<f64>() / self.latencies.len().max(1) as f64
    }
    fn p99(&mut self) -> f64 {
        self.latencies.sort_by(f64::total_cmp);
        self.latencies.get(self.latencies.len() * 99 / 100).copied().unwrap_or(0.0)
    }
    fn bandwidth(&self) -> f64 {
        self.bytes / self.ns
    }
}

/// Something that serves requests; times in ns.
trait Memory {
    fn run(&mut self, stream: &mut Stream) -> Measured;
}

struct Ours(Dram);

impl Memory for Ours {
    fn run(&mut self, stream: &mut Stream) -> Measured {
        let ns = |cycle: u64| cycle as f64 * 1000.0 / CLOCK as f64;
        let mut measured = Measured::default();
        let (mut now, mut end) = (1u64, 0u64);
        match stream.load {
            Load::Open(mean) => {
                let mut at = 1.0f64;
                for _ in 0..stream.requests {
                    at += stream.gap(mean);
                    let (line, write) = stream.next(0);
                    now = (at * CLOCK as f64 / 1000.0) as u64;
                    if write {
                        self.0.write(line, false, now);
                    } else {
                        let done = self.0.read(line, false, now);
                        measured.latencies.push(ns(done - now));
                        end = end.max(done);
                    }
                    measured.bytes += 64.0;
                }
            }
            Load::Closed(agents) => {
                let mut free: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>> =
                    (0..agents).map(|agent| std::cmp::Reverse((1 + agent as u64, agent))).collect();
                for _ in 0..stream.requests {
                    let std::cmp::Reverse((at, agent)) = free.pop().unwrap();
                    now = at;
                    let (line, write) = stream.next(agent);
                    measured.bytes += 64.0;
                    if write {
                        self.0.write(line, false, at);
                        free.push(std::cmp::Reverse((at + 4, agent)));
                    } else {
                        let done = self.0.read(line, false, at);
                        measured.latencies.push(ns(done - at));
                        end = end.max(done);
                        free.push(std::cmp::Reverse((done, agent)));
                    }
                }
            }
        }
        measured.ns = ns(end.max(now));
        measured
    }
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    println!("{:40} {:>8} {:>8} {:>7}  {:>8} {:>8} {:>7}  {:>6} {:>6} {:>7}", "stream", "ref mean", "ours", "", "ref p99", "ours", "", "GB/s", "ours", "");
    for mut stream in streams().into_iter().filter(|stream| stream.name.contains(&only)) {
        let spec = DramSpec {
            channels: 1, ranks: 1, bank_groups: 4, banks: 4, t_faw_ns: 21.25, controller_ns: std::env::var("CTRL").map_or(1.875, |v| v.parse().unwrap()),
            write_high: 32, write_low: 0, write_idle: 8, row_hit_cap: std::env::var("CAP").map_or(4, |v| v.parse().unwrap()), t_rtrs: 1, read_queue: std::env::var("RQ").map_or(160, |v| v.parse().unwrap()),
            ..DramSpec::default()
        };
        let mut reference = Reference::new().run(&mut stream);
        stream.restart();
        let mut ours = Ours(Dram::new(&spec, CLOCK, true)).run(&mut stream);
        let off = |a: f64, b: f64| format!("{:+.0}%", 100.0 * (b / a - 1.0));
        let (m, p, b) = (reference.mean(), reference.p99(), reference.bandwidth());
        println!("{:40} {m:8.1} {:8.1} {:>7}  {p:8.1} {:8.1} {:>7}  {b:6.2} {:6.2} {:>7}", stream.name,
            ours.mean(), off(m, ours.mean()), ours.p99(), off(p, ours.p99()), ours.bandwidth(), off(b, ours.bandwidth()));
    }
}
