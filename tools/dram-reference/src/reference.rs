//! DRAMsim3 as a memory.
use crate::streams::{Load, Stream};
use crate::{Measured, Memory};
use dramsim3::MemorySystem;
use std::collections::{HashMap, VecDeque};

const TCK: f64 = 0.625;
const CONFIG: &str = include_str!("ddr4-3200.ini");

pub struct Reference {
    system: MemorySystem,
    _folder: tempfile::TempDir,
}

impl Reference {
    pub fn new() -> Reference {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("ddr4.ini");
        std::fs::write(&config, CONFIG).unwrap();
        Reference { system: MemorySystem::new(&config, folder.path()).unwrap(), _folder: folder }
    }
}

impl Memory for Reference {
    fn run(&mut self, stream: &mut Stream) -> Measured {
        let mut measured = Measured::default();
        let mut clock = 0u64;
        // Waiting to be accepted: (wanted from ns, agent, line, write).
        let mut waiting: VecDeque<(f64, usize, u64, bool)> = VecDeque::new();
        let mut under_way: HashMap<u64, Vec<(f64, usize)>> = HashMap::new();
        let (mut issued, mut done_reads, mut reads) = (0u64, 0u64, 0u64);
        let mut next_at = 0.0;
        let mut free: Vec<usize> = match stream.load { Load::Closed(n) => (0..n).collect(), Load::Open(_) => vec![] };
        while issued < stream.requests || !waiting.is_empty() || done_reads < reads {
            let now = clock as f64 * TCK;
            match stream.load {
                Load::Open(mean) => {
                    while issued < stream.requests && next_at <= now {
                        let (line, write) = stream.next(0);
                        waiting.push_back((next_at, 0, line, write));
                        next_at += stream.gap(mean);
                        issued += 1;
                    }
                }
                Load::Closed(_) => {
                    for agent in free.drain(..) {
                        if issued < stream.requests {
                            let (line, write) = stream.next(agent);
                            waiting.push_back((now, agent, line, write));
                            issued += 1;
                        }
                    }
                }
            }
            let mut kept = VecDeque::new();
            let mut added = 0;
            while let Some((at, agent, line, write)) = waiting.pop_front() {
                if added < 4 && self.system.can_add(line * 64, write) {
                    self.system.add(line * 64, write);
                    added += 1;
                    measured.bytes += 64.0;
                    if write {
                        free.push(agent);
                    } else {
                        reads += 1;
                        under_way.entry(line).or_default().push((at, agent));
                    }
                } else {
                    kept.push_back((at, agent, line, write));
                }
            }
            waiting = kept;
            let now = (clock + 1) as f64 * TCK;
            let mut back = vec![];
            self.system.tick(|address, write| {
                if !write {
                    let list = under_way.get_mut(&(address / 64)).unwrap();
                    let (at, agent) = list.remove(0);
                    if list.is_empty() { under_way.remove(&(address / 64)); }
                    measured.latencies.push(now - at);
                    done_reads += 1;
                    back.push(agent);
                }
            });
            if matches!(stream.load, Load::Closed(_)) { free.extend(back); }
            clock += 1;
        }
        measured.ns = clock as f64 * TCK;
        measured
    }
}
