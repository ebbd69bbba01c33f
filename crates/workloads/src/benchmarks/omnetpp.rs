//! Discrete-event simulation of a switched network.
//!
//! Stands for SPEC 2006's omnetpp (RMM Table 4: 165 MB), a large Ethernet simulation: hosts send frames
//! through switches; frames are objects that are created and deleted, and every step is an event. Layout:
//! module objects (hosts and switches, 256 bytes) with a vector of gates (48 bytes each) on the heap;
//! messages of 192 bytes, allocated and freed; the future event set, a growing binary heap of pointers to
//! messages; hash chains of the switches' address tables (32 bytes an entry).
//!
//! The events are real. A host whose timer fires creates a frame for another host and sends it to its switch.
//! A switch looks up the frame's host and forwards the frame to that host or to the next switch on the path
//! (switches form a tree). The host receives the frame, deletes it, and sets its timer to a random time.
//!
//! ```text
//! event    pop: mov (heap),message; mov time(message) for each comparison: two dependent loads a step
//! deliver  mov module(message); mov vtable; mov gates(module); ...; malloc or free of a message
//! ```

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, check_sim_host_bytes, identity};
use crate::heap::HeapModel;
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Invalid, Random, RecordSource, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the network simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OmnetppSpec {
    /// Bytes of modules, address tables and pending messages; sets the number of hosts.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of the traffic.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Hosts of a switch, 2 to 1024.
    #[schemars(range(min = 2, max = 1024), extend("x-unit" = "count"))]
    pub ports: u32,
    /// Events, after which the program ends.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count"))]
    pub events: u64,
    /// The heap that allocates the objects.
    #[schemars(extend("x-unit" = "choice", "x-source" = "our choice; RMM's programs use TCMalloc"))]
    pub heap: HeapModel,
}

impl Default for OmnetppSpec {
    fn default() -> Self {
        OmnetppSpec { footprint: 165 << 20, seed: 1, ports: 16, events: 1 << 40, heap: HeapModel::default() }
    }
}

const MODULE_BYTES: u64 = 256;
const GATE_BYTES: u64 = 48;
const MESSAGE_BYTES: u64 = 192;
const ADDRESS_BYTES: u64 = 32;
/// Average bytes of a heap chunk's header and alignment.
const CHUNK_BYTES: u64 = 16;
/// Cycles of simulated time for a hop, and between a host's frames on average.
const HOP: u64 = 100;
const PAUSE: u64 = 20_000;
/// Bytes of the simulator's memory for a host: its modules, address, messages and the hops of its frames.
const SIM_HOST_BYTES_A_HOST: u128 = 128;

impl OmnetppSpec {
    /// Bytes for each host: itself with a gate, its pending message, its entry in its switch, its share of
    /// the switch.
    fn hosts(&self) -> u64 {
        let own = MODULE_BYTES + GATE_BYTES + MESSAGE_BYTES + ADDRESS_BYTES + 4 * CHUNK_BYTES + 16;
        let ports = u64::from(self.ports.max(1));
        let shared = (MODULE_BYTES + 2 * CHUNK_BYTES + GATE_BYTES * (2 * ports + 1)) / ports;
        self.footprint / (own + shared)
    }
}

impl BenchmarkSpec for OmnetppSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "omnetpp",
        about: "discrete-event simulation of a switched network: a heap of events, messages created and deleted",
        stands_for: "SPEC omnetpp; event-driven simulators: pointers to small objects",
        default_footprint: 165 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut problems = Vec::new();
        check_sim_host_bytes(at, "footprint", u128::from(self.hosts()) * SIM_HOST_BYTES_A_HOST, &mut problems);
        problems
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let facts = format!("{} hosts", self.hosts());
        let bytes = self.footprint / 20 * 19;
        ProgramSource::boxed(identity("omnetpp", self, &facts, bytes), AddressSpace::new(), Omnetpp(self.clone()))
    }
}

/// Code addresses of the compiled program.
mod pc {
    use super::TEXT;
    pub const HEAP_UP: u64 = TEXT + 0x200;
    pub const TIME_UP: u64 = TEXT + 0x208;
    pub const RISES: u64 = TEXT + 0x210;
    pub const PUT: u64 = TEXT + 0x218;
    pub const TOP: u64 = TEXT + 0x240;
    pub const HEAP_DOWN: u64 = TEXT + 0x250;
    pub const TIME_DOWN: u64 = TEXT + 0x258;
    pub const SIDE: u64 = TEXT + 0x260;
    pub const SINKS: u64 = TEXT + 0x268;
    pub const MODULE: u64 = TEXT + 0x300;
    pub const STATE: u64 = TEXT + 0x308;
    pub const GATE: u64 = TEXT + 0x310;
    pub const KIND: u64 = TEXT + 0x318;
    pub const ADDRESS: u64 = TEXT + 0x330;
    pub const LOCAL: u64 = TEXT + 0x338;
    pub const MAKE: u64 = TEXT + 0x380;
    pub const COUNT: u64 = TEXT + 0x3c0;
    pub const SEND: u64 = TEXT + 0x3e0;
}

/// A message: its due time, its number, its next module and its destination.
#[derive(Clone, Copy)]
struct Message {
    time: u64,
    number: u64,
    /// The module it is delivered to: hosts first, then switches.
    module: u32,
    /// The destination host; for a host's timer, the host itself.
    destination: u32,
    object: VirtAddr,
}

impl Message {
    fn key(&self) -> (u64, u64) {
        (self.time, self.number)
    }
}

/// The future event set.
struct Future {
    heap: Vec<Message>,
    array: Array,
}

impl Future {
    fn push(&mut self, on: &mut Execution, message: Message) {
        if self.heap.len() as u64 == self.array.len {
            let larger = on.array(8, 2 * self.array.len);
            for i in 0..self.array.len {
                on.load(pc::PUT + 8, self.array.at(i), 8, Value::NONE);
                on.store(pc::PUT + 12, larger.at(i), 8, Value::NONE);
                on.work(2);
            }
            on.free_array(&self.array);
            self.array = larger;
        }
        let mut hole = self.heap.len();
        self.heap.push(message);
        while hole > 0 {
            let above = (hole - 1) / 2;
            on.work(3);
            let pointer = on.load(pc::HEAP_UP, self.array.at(above as u64), 8, Value::NONE);
            let time = on.load(pc::TIME_UP, self.heap[above].object.offset(64), 8, pointer);
            let rises = message.key() < self.heap[above].key();
            on.branch(pc::RISES, pc::PUT, !rises, time);
            if !rises {
                break;
            }
            on.store(pc::HEAP_UP + 4, self.array.at(hole as u64), 8, Value::NONE);
            self.heap[hole] = self.heap[above];
            hole = above;
        }
        on.store(pc::PUT, self.array.at(hole as u64), 8, Value::NONE);
        self.heap[hole] = message;
    }

    fn pop(&mut self, on: &mut Execution) -> Option<(Message, Value)> {
        let first = *self.heap.first()?;
        let top = on.load(pc::TOP, self.array.at(0), 8, Value::NONE);
        let last = self.heap.pop()?;
        let len = self.heap.len();
        if len == 0 {
            return Some((first, top));
        }
        on.load(pc::TOP + 4, self.array.at(len as u64), 8, Value::NONE);
        let mut hole = 0;
        while 2 * hole + 1 < len {
            let mut child = 2 * hole + 1;
            on.work(3);
            let pointer = on.load(pc::HEAP_DOWN, self.array.at(child as u64), 8, Value::NONE);
            let mut time = on.load(pc::TIME_DOWN, self.heap[child].object.offset(64), 8, pointer);
            if child + 1 < len {
                let pointer = on.load(pc::HEAP_DOWN + 4, self.array.at(child as u64 + 1), 8, Value::NONE);
                let other = on.load(pc::TIME_DOWN + 4, self.heap[child + 1].object.offset(64), 8, pointer);
                let right = self.heap[child + 1].key() < self.heap[child].key();
                on.branch(pc::SIDE, pc::SINKS, right, other);
                if right {
                    child += 1;
                    time = other;
                }
            }
            let sinks = self.heap[child].key() < last.key();
            on.branch(pc::SINKS, pc::MODULE, !sinks, time);
            if !sinks {
                break;
            }
            on.store(pc::HEAP_DOWN + 8, self.array.at(hole as u64), 8, Value::NONE);
            self.heap[hole] = self.heap[child];
            hole = child;
        }
        on.store(pc::HEAP_DOWN + 12, self.array.at(hole as u64), 8, Value::NONE);
        self.heap[hole] = last;
        Some((first, top))
    }
}

/// The tree of switches: switch 0 is the root, each has `ports` below it.
struct Network {
    hosts: u32,
    ports: u32,
}

impl Network {
    fn switches(&self) -> u32 {
        self.hosts.div_ceil(self.ports)
    }

    fn switch_of(&self, host: u32) -> u32 {
        host / self.ports
    }

    /// The next switch on the path from one to another.
    fn next(&self, from: u32, to: u32) -> u32 {
        // Up from the goal until just below `from`; if it is not above the goal, up.
        let mut at = to;
        while at > from {
            let above = (at - 1) / self.ports;
            if above == from {
                return at;
            }
            at = above;
        }
        (from - 1) / self.ports
    }
}

struct Omnetpp(OmnetppSpec);

impl Program for Omnetpp {
    fn run(self: Box<Self>, on: &mut Execution) {
        self.simulate(on, |_| ());
    }
}

/// A step that the simulation reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Sent { time: u64, from: u32, to: u32 },
    Arrived { time: u64, at: u32, hops: u32 },
}

impl Omnetpp {
    fn simulate(&self, on: &mut Execution, mut report: impl FnMut(Step)) {
        let spec = &self.0;
        on.use_heap(spec.heap);
        let network = Network { hosts: spec.hosts() as u32, ports: spec.ports };
        let switches = network.switches();
        let module = |on: &mut Execution, gates: u64| {
            let module = on.allocate(MODULE_BYTES);
            on.fill(module, MODULE_BYTES);
            let gates_at = on.allocate(GATE_BYTES * gates);
            on.fill(gates_at, GATE_BYTES * gates);
            [module, gates_at]
        };
        // A switch is created, then its hosts, as in a network description; then the address tables.
        let mut modules = vec![[VirtAddr(0); 2]; (network.hosts + switches) as usize];
        for switch in 0..switches {
            modules[(network.hosts + switch) as usize] = module(on, u64::from(2 * spec.ports + 1));
            for host in switch * spec.ports..((switch + 1) * spec.ports).min(network.hosts) {
                modules[host as usize] = module(on, 1);
            }
        }
        let addresses: Vec<VirtAddr> = (0..network.hosts)
            .map(|_| {
                let entry = on.allocate(ADDRESS_BYTES);
                on.fill(entry, ADDRESS_BYTES);
                entry
            })
            .collect();
        let array = on.filled_array(8, 1024);
        let mut future = Future { heap: Vec::new(), array };
        let mut random = Random::for_purpose(spec.seed, "omnetpp traffic");
        let mut number = 0;
        let mut hops = rustc_hash::FxHashMap::default();
        for host in 0..network.hosts {
            let object = on.allocate(MESSAGE_BYTES);
            on.fill(object, MESSAGE_BYTES);
            let time = random.below(2 * PAUSE);
            number += 1;
            future.push(on, Message { time, number, module: host, destination: host, object });
        }
        on.begin_region();
        for _ in 0..spec.events {
            let Some((mut message, pointer)) = future.pop(on) else { return };
            on.work(25);
            let at = message.module;
            let [module, gates] = modules[at as usize];
            let found = on.load(pc::MODULE, message.object.offset(72), 8, pointer);
            on.load(pc::STATE, module, 8, found);
            on.load(pc::STATE + 4, module.offset(128), 8, found);
            let kind = on.load(pc::KIND, message.object.offset(80), 8, pointer);
            on.work(40);
            if at < network.hosts {
                let own = message.destination == at && !hops.contains_key(&message.number);
                on.branch(pc::KIND + 4, pc::MAKE, own, kind);
                on.update(pc::COUNT, module.offset(136), 8, found);
                if own {
                    // The timer: a frame for another host, and the timer again.
                    let to = (at + 1 + random.below(u64::from(network.hosts) - 1) as u32) % network.hosts;
                    let object = on.allocate(MESSAGE_BYTES);
                    for line in 0..MESSAGE_BYTES / 32 {
                        on.store(pc::MAKE + 4 * line, object.offset(32 * line), 32, Value::NONE);
                    }
                    on.work(60);
                    on.load(pc::GATE, gates.offset(8), 8, found);
                    number += 1;
                    hops.insert(number, 0);
                    report(Step::Sent { time: message.time, from: at, to });
                    let switch = network.hosts + network.switch_of(at);
                    let sent = Message { time: message.time + HOP, number, module: switch, destination: to, object };
                    on.store(pc::SEND, object.offset(64), 16, Value::NONE);
                    future.push(on, sent);
                    message.time += 1 + random.below(2 * PAUSE);
                    on.store(pc::SEND + 4, message.object.offset(64), 8, pointer);
                    future.push(on, message);
                } else {
                    let hops = hops.remove(&message.number).unwrap_or(0);
                    report(Step::Arrived { time: message.time, at, hops });
                    on.work(40);
                    on.free(message.object, MESSAGE_BYTES);
                }
            } else {
                // A switch: the address table, then the gate that it names.
                let switch = at - network.hosts;
                let entry = addresses[message.destination as usize];
                let known = on.load(pc::ADDRESS, entry, 8, kind);
                on.load(pc::ADDRESS + 4, entry.offset(16), 8, known);
                let local = network.switch_of(message.destination) == switch;
                on.branch(pc::LOCAL, pc::SEND, local, known);
                let gate = if local { message.destination % spec.ports } else { spec.ports };
                on.load(pc::GATE, gates.offset(u64::from(gate) * GATE_BYTES + 8), 8, found);
                on.work(50);
                if let Some(hops) = hops.get_mut(&message.number) {
                    *hops += 1;
                }
                message.module = if local {
                    message.destination
                } else {
                    network.hosts + network.next(switch, network.switch_of(message.destination))
                };
                message.time += HOP;
                on.store(pc::SEND + 8, message.object.offset(64), 16, pointer);
                future.push(on, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::execution::trace_of;

    #[test]
    fn the_next_switch_is_one_step_nearer() {
        let network = Network { hosts: 1000, ports: 3 };
        let n = network.switches();
        for from in 0..n {
            for to in (0..n).step_by(7).filter(|to| *to != from) {
                let mut at = from;
                let mut steps = 0;
                while at != to {
                    let next = network.next(at, to);
                    assert!(next == at.wrapping_sub(1) / 3 || (next > 0 && (next - 1) / 3 == at), "{at} and {next}");
                    at = next;
                    steps += 1;
                    assert!(steps < 30);
                }
            }
        }
    }

    #[test]
    fn events_are_ordered_and_frames_take_the_hops_of_the_tree() {
        let spec = OmnetppSpec { footprint: 1 << 20, ports: 4, events: 60_000, ..OmnetppSpec::default() };
        let network = Network { hosts: spec.hosts() as u32, ports: 4 };
        let mut steps = Vec::new();
        trace_of(AddressSpace::new(), |on| Omnetpp(spec.clone()).simulate(on, |step| steps.push(step)));
        let time = |step: &Step| match *step {
            Step::Sent { time, .. } | Step::Arrived { time, .. } => time,
        };
        assert!(steps.windows(2).all(|pair| time(&pair[0]) <= time(&pair[1])), "time never goes backwards");
        // A plain computation of when each frame arrives: one hop to the switch, one to each further one, one
        // to the host.
        let distance = |a: u32, b: u32| {
            let path = |mut s: u32| {
                let mut all = vec![s];
                while s > 0 {
                    s = (s - 1) / 4;
                    all.push(s);
                }
                all
            };
            let (a, b) = (path(a), path(b));
            let common = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
            (a.len() + b.len() - 2 * common) as u64
        };
        let mut expected = std::collections::BTreeMap::new();
        for step in &steps {
            if let Step::Sent { time, from, to } = *step {
                let switches = distance(network.switch_of(from), network.switch_of(to)) + 1;
                *expected.entry((time + (switches + 1) * HOP, to, switches as u32)).or_insert(0) += 1;
            }
        }
        let mut arrived = 0;
        for step in &steps {
            if let Step::Arrived { time, at, hops } = *step {
                let left = expected.get_mut(&(time, at, hops)).unwrap_or_else(|| panic!("{step:?} was not expected"));
                assert!(*left > 0);
                *left -= 1;
                arrived += 1;
            }
        }
        assert!(arrived > 4000, "{arrived}");
        let last = time(steps.last().unwrap());
        assert!(expected.iter().all(|((time, ..), left)| *left == 0 || *time >= last), "all due frames have arrived");
    }
}
