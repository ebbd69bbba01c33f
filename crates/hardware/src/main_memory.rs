//! Main memory: one DRAM, or several memory nodes, some of them behind links.
//!
//! A request of a socket's core to a node of another socket crosses the interconnect between the two, and the
//! node's own link if it has one. Both have a bandwidth in each direction: lines queue.
//!
//! Left out: routes over a third socket, the bandwidth of requests without data, coherence traffic, and the
//! blocks of persistent memory that are larger than a line.

use crate::link::{Link, Wire};
use crate::{Dram, DramCounters, DramEvent, DramSpec, Medium, NodeSpec, NodesSpec};
use ambulator_base::{CounterSink, Counters, LINE_BYTES, State, counters};

counters! {
    /// Counters of a memory node; only machines with several nodes have them.
    pub struct NodeCounters {
        /// Lines read.
        reads: Events,
        /// Of these, lines read for cores (or copies) of another socket.
        remote_reads: Events,
        /// Lines read for translation.
        table_reads: Events,
        /// Of these, lines read for cores of another socket.
        remote_table_reads: Events,
        /// Lines written.
        writes: Events,
        /// Of these, lines written from another socket.
        remote_writes: Events,
        /// Cycles that lines waited for a full link or interconnect, or for the medium of persistent memory.
        link_wait: Cycles timed,
    }
}

/// Ticks of a cycle are 2^12: a line's time on a link is exact to less than a thousandth.
const TICK_SHIFT: u32 = 12;

fn cycles(ticks: u64) -> u64 {
    (ticks + (1 << TICK_SHIFT) - 1) >> TICK_SHIFT
}

/// What serves the lines of a node.
#[derive(Clone, Debug, State)]
#[state(same)]
enum Device {
    Dram(Box<Dram>),
    Persistent(Persistent),
}

/// Persistent memory. Times are in ticks.
#[derive(Clone, Debug, State)]
struct Persistent {
    #[state(skip)]
    read: u64,
    #[state(skip)]
    write: u64,
    /// The medium's time of a line that is read, and of one that is written.
    #[state(skip)]
    read_line: u64,
    #[state(skip)]
    write_line: u64,
    medium: Wire,
}

/// A node.
#[derive(Clone, Debug, State)]
struct Node {
    /// The line after its last one.
    #[state(skip)]
    end: u64,
    #[state(skip)]
    socket: usize,
    #[state(skip)]
    slow: bool,
    /// Its own link.
    #[state(each)]
    link: Option<Link>,
    counters: NodeCounters,
}

/// The nodes of a machine that has several.
#[derive(Clone, Debug, State)]
struct Nodes {
    #[state(each)]
    nodes: Box<[Node]>,
    /// Of the nodes after node 0.
    #[state(each)]
    devices: Box<[Device]>,
    /// By socket from which lines come and socket to which they go.
    wires: [[Wire; SOCKETS]; SOCKETS],
    /// Ticks of the interconnect there and of the way back together, and of a line.
    #[state(skip)]
    interconnect: (u64, u64),
    #[state(skip)]
    core_sockets: Box<[usize]>,
    #[state(skip)]
    timing: bool,
    /// What [`Dram`]s do not count: cycles of links, and accesses of persistent memory.
    besides: DramCounters,
}

const SOCKETS: usize = crate::node_spec::MAX_NODE as usize + 1;

/// A line that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// The cycle in which it has left the links, and is in a write queue or in persistent memory.
    pub at: u64,
    /// Cycles of these for which it waited for others.
    pub waited: u64,
}

/// Main memory.
#[derive(Clone, Debug, State)]
pub(crate) struct MainMemory {
    /// Node 0, or all of it.
    first: Dram,
    #[state(each)]
    nodes: Option<Box<Nodes>>,
}

impl MainMemory {
    /// One DRAM.
    pub fn new(dram: Dram) -> MainMemory {
        MainMemory { first: dram, nodes: None }
    }

    /// Divides main memory into nodes of these sizes, in bytes, node 0 with the DRAM that there is.
    pub fn use_nodes(
        &mut self,
        spec: &NodesSpec,
        sizes: &[u64],
        dram: &DramSpec,
        cores: usize,
        clock_mhz: u64,
        timing: bool,
    ) {
        if sizes.len() < 2 {
            return;
        }
        let of_ns = |ns: f64| (ns * clock_mhz as f64 / 1000.0 * (1u64 << TICK_SHIFT) as f64).round() as u64;
        // Of links: whole cycles, so that a read's latency is the sum of its parts.
        let of_link_ns = |ns: f64| ((ns * clock_mhz as f64 / 1000.0).round() as u64) << TICK_SHIFT;
        let of_line = |gbs: f64| if gbs == 0.0 { 0 } else { of_ns(LINE_BYTES as f64 / gbs).max(1) };
        let others = spec.others();
        let device = |node: &&NodeSpec| match node.medium {
            Medium::Dram => Device::Dram(Box::new(Dram::new(&node.dram(dram), clock_mhz, timing))),
            Medium::Persistent => Device::Persistent(Persistent {
                read: of_ns(node.read_ns),
                write: of_ns(node.write_ns),
                read_line: of_line(node.read_gbs),
                write_line: of_line(node.write_gbs),
                medium: Wire::new(),
            }),
        };
        let mut end = 0;
        let node = |(number, bytes): (usize, &u64)| {
            end += bytes / LINE_BYTES;
            let own = number.checked_sub(1).map(|other| others[other]);
            let link = own.filter(|node| node.link_ns > 0.0 || node.link_gbs > 0.0);
            Node {
                end,
                socket: own.map_or(0, |node| node.socket as usize),
                slow: own.is_some_and(|node| node.slow),
                link: link.map(|node| Link::new(of_link_ns(node.link_ns), of_line(node.link_gbs))),
                counters: NodeCounters::default(),
            }
        };
        self.nodes = Some(Box::new(Nodes {
            nodes: sizes.iter().enumerate().map(node).collect(),
            devices: others.iter().map(device).collect(),
            wires: std::array::from_fn(|_| std::array::from_fn(|_| Wire::new())),
            interconnect: (of_link_ns(spec.interconnect_ns), of_line(spec.interconnect_gbs)),
            core_sockets: spec.core_sockets(cores).into_iter().map(|socket| socket as usize).collect(),
            timing,
            besides: DramCounters::default(),
        }));
    }

    /// The socket of a core.
    pub fn socket_of_core(&self, core: usize) -> u8 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.core_sockets[core] as u8)
    }

    /// The socket of the node of a line.
    pub fn socket_of_line(&self, line: u64) -> u8 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.nodes[nodes.node_of(line)].socket as u8)
    }

    /// Whether a line is in a node of another socket than the core's, or in a slow tier.
    #[inline]
    pub fn is_remote(&self, core: usize, line: u64) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| {
            let node = &nodes.nodes[nodes.node_of(line)];
            node.slow || node.socket != nodes.core_sockets[core]
        })
    }

    /// [`Dram::set_timed`] of all nodes.
    pub fn set_timed(&mut self, timed: bool, now: u64) {
        self.first.set_timed(timed, now);
        if let Some(nodes) = &mut self.nodes {
            nodes.timing = timed;
            nodes.drams().for_each(|dram| dram.set_timed(timed, now));
        }
    }

    /// Reads a line for a core of `socket` at cycle `now`; returns the cycle of its arrival.
    #[inline(always)]
    pub fn read(&mut self, line: u64, table: bool, socket: u8, now: u64) -> u64 {
        match &mut self.nodes {
            None => self.first.read(line, table, now),
            Some(nodes) => nodes.read(&mut self.first, line, table, socket.into(), now),
        }
    }

    /// When a line arrives that was said to arrive in cycle `told`: requests that came since may delay it.
    #[inline(always)]
    pub fn arrival(&mut self, line: u64, table: bool, told: u64) -> u64 {
        match &mut self.nodes {
            None => self.first.arrival(line, table).map_or(told, |at| told.max(at)),
            // What it waits for in the node delays it, not the way.
            Some(nodes) => {
                let dram = nodes.dram(&mut self.first, line);
                dram.and_then(|dram| dram.arrival(line, table)).map_or(told, |at| told.max(at))
            }
        }
    }

    /// [`Dram::ask_ahead`] of all nodes.
    pub fn ask_ahead(&mut self, ahead: bool) {
        self.drams_mut().for_each(|dram| dram.ask_ahead(ahead));
    }

    /// Whether lines are read ahead now.
    #[inline(always)]
    pub fn asks_ahead(&self) -> bool {
        self.first.asks_ahead()
    }

    /// Whether a line was read ahead and is not sent yet.
    pub fn is_ahead(&mut self, line: u64) -> bool {
        match &mut self.nodes {
            None => self.first.is_ahead(line),
            Some(nodes) => nodes.dram(&mut self.first, line).is_some_and(|dram| dram.is_ahead(line)),
        }
    }

    /// [`Dram::send_ahead`] of the line's node.
    pub fn send_ahead(&mut self, line: u64, later: u64) {
        match &mut self.nodes {
            None => self.first.send_ahead(line, later),
            Some(nodes) => {
                if let Some(dram) = nodes.dram(&mut self.first, line) {
                    dram.send_ahead(line, later);
                }
            }
        }
    }

    /// Counts a line that is written back from `socket`, now or later.
    #[inline(always)]
    pub fn count_write(&mut self, line: u64, table: bool, socket: u8) {
        match &mut self.nodes {
            None => self.first.count_write(table),
            Some(nodes) => nodes.count_write(&mut self.first, line, table, socket.into()),
        }
    }

    /// Writes a line back from `socket` at cycle `now`.
    #[inline]
    pub fn write(&mut self, line: u64, table: bool, socket: u8, now: u64) -> Written {
        self.count_write(line, table, socket);
        self.send_write(line, table, socket, now)
    }

    /// [`MainMemory::write`] of a line that [`MainMemory::count_write`] has counted.
    #[inline(always)]
    pub fn send_write(&mut self, line: u64, table: bool, socket: u8, now: u64) -> Written {
        match &mut self.nodes {
            None => {
                let at = self.first.send_write(line, table, now);
                Written { at, waited: at - now }
            }
            Some(nodes) => nodes.send_write(&mut self.first, line, table, socket.into(), now),
        }
    }

    /// When a written line that had to wait is in the write queue, which was said to be in cycle `told`: requests that
    /// came since may delay it.
    pub fn entry(&mut self, line: u64, told: u64) -> u64 {
        match &mut self.nodes {
            None => self.first.entry(line, told),
            Some(nodes) => nodes.dram(&mut self.first, line).map_or(told, |dram| dram.entry(line, told)),
        }
    }

    /// Writes that wait in the queues of node 0.
    #[cfg(test)]
    pub fn queued_writes(&self) -> u64 {
        self.first.queued_writes()
    }

    /// All DRAMs, in the order of their nodes.
    fn drams(&self) -> impl Iterator<Item = &Dram> {
        let others = self.nodes.iter().flat_map(|nodes| nodes.devices.iter());
        std::iter::once(&self.first).chain(others.filter_map(|device| match device {
            Device::Dram(dram) => Some(&**dram),
            Device::Persistent(_) => None,
        }))
    }

    fn drams_mut(&mut self) -> impl Iterator<Item = &mut Dram> {
        std::iter::once(&mut self.first).chain(self.nodes.iter_mut().flat_map(|nodes| nodes.drams()))
    }

    /// [`Dram::keep_log`].
    pub fn keep_log(&mut self, keep: bool) {
        self.drams_mut().for_each(|dram| dram.keep_log(keep));
    }

    /// [`Dram::take_log`] of all nodes, whose channels are numbered one after another.
    pub fn take_log(&mut self, all: bool, to: &mut Vec<DramEvent>) {
        let mut before = 0;
        for dram in self.drams_mut() {
            let from = to.len();
            dram.take_log(all, to);
            for event in &mut to[from..] {
                match event {
                    DramEvent::Access(access) => access.channel += before,
                    DramEvent::Unused { channel, .. } | DramEvent::Refresh { channel, .. } => *channel += before,
                }
            }
            before += dram.bus().1 as usize;
        }
    }

    /// Performs all queued writes: no further access comes.
    pub fn drain(&mut self) {
        self.drams_mut().for_each(Dram::drain);
    }

    /// Cycles for which the buses of DRAM have carried data so far, summed over channels, and the channels.
    pub fn bus(&self) -> (u64, u32) {
        match &self.nodes {
            None => self.first.bus(),
            Some(_) => self.drams().map(Dram::bus).fold((0, 0), |sum, bus| (sum.0 + bus.0, sum.1 + bus.1)),
        }
    }

    /// The counters of all nodes together.
    pub fn counters(&self) -> DramCounters {
        let mut sum = self.first.counters();
        if let Some(nodes) = &self.nodes {
            self.drams().skip(1).for_each(|dram| sum.add(&dram.counters()));
            sum.add(&nodes.besides);
        }
        sum
    }

    /// The counters of each node, if there are several.
    pub fn node_counters(&self) -> impl Iterator<Item = &NodeCounters> {
        self.nodes.iter().flat_map(|nodes| nodes.nodes.iter().map(|node| &node.counters))
    }

    /// Reports the counters of each node to `sink`, as `prefix.node0` and so on, if there are several.
    pub fn report_nodes(&self, prefix: &str, sink: &mut dyn CounterSink) {
        for (number, counters) in self.node_counters().enumerate() {
            counters.report(&format!("{prefix}.node{number}"), sink);
        }
    }

    /// Sets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.drams_mut().for_each(Dram::reset_counters);
        if let Some(nodes) = &mut self.nodes {
            nodes.besides.reset();
            nodes.nodes.iter_mut().for_each(|node| node.counters.reset());
        }
    }
}

impl Nodes {
    fn node_of(&self, line: u64) -> usize {
        self.nodes.iter().position(|node| line < node.end).unwrap_or(self.nodes.len() - 1)
    }

    fn drams(&mut self) -> impl Iterator<Item = &mut Dram> {
        self.devices.iter_mut().filter_map(|device| match device {
            Device::Dram(dram) => Some(&mut **dram),
            Device::Persistent(_) => None,
        })
    }

    /// The DRAM that holds a line, if its node has one.
    fn dram<'a>(&'a mut self, first: &'a mut Dram, line: u64) -> Option<&'a mut Dram> {
        match self.node_of(line).checked_sub(1).map(|other| &mut self.devices[other]) {
            None => Some(first),
            Some(Device::Dram(dram)) => Some(dram),
            Some(Device::Persistent(_)) => None,
        }
    }

    #[inline(never)]
    fn read(&mut self, first: &mut Dram, line: u64, table: bool, socket: usize, now: u64) -> u64 {
        let number = self.node_of(line);
        let Nodes { nodes, devices, interconnect, timing, besides, .. } = self;
        let Node { socket: home, link, counters, .. } = &mut nodes[number];
        let remote = *home != socket;
        counters.reads += 1;
        counters.remote_reads += u64::from(remote);
        counters.table_reads += u64::from(table);
        counters.remote_table_reads += u64::from(table && remote);
        let device = number.checked_sub(1).map(|other| &mut devices[other]);
        if !*timing {
            match device {
                None => return first.read(line, table, now),
                Some(Device::Dram(dram)) => return dram.read(line, table, now),
                Some(Device::Persistent(_)) => {
                    *if table { &mut besides.table_reads } else { &mut besides.data_reads } += 1;
                    return now;
                }
            }
        }
        let there = if remote { interconnect.0 / 2 } else { 0 };
        let mut at = (now << TICK_SHIFT) + there;
        if let Some(link) = link {
            at = link.request(at);
        }
        let dram = match device {
            None => &mut *first,
            Some(Device::Dram(dram)) => dram,
            Some(Device::Persistent(medium)) => {
                let begin = medium.medium.take(at, medium.read_line);
                counters.link_wait += cycles(begin - at);
                let ready = begin + medium.read;
                let (reads, cycles_of_reads) = match table {
                    true => (&mut besides.table_reads, &mut besides.table_read_cycles),
                    false => (&mut besides.data_reads, &mut besides.data_read_cycles),
                };
                *reads += 1;
                *cycles_of_reads += cycles(ready - at);
                return self.return_line(number, socket, table, (now, at), cycles(ready));
            }
        };
        let ready = dram.read(line, table, cycles(at));
        let back = self.return_line(number, socket, table, (now, at), ready);
        if let Some(dram) = self.dram(first, line) {
            dram.set_way(line, back - ready);
        }
        back
    }

    /// Brings a line that is ready at cycle `ready` back to a socket. The request was sent at cycle `sent.0`
    /// and was there at tick `sent.1`.
    fn return_line(&mut self, number: usize, socket: usize, table: bool, sent: (u64, u64), ready: u64) -> u64 {
        let Node { socket: home, link, counters, .. } = &mut self.nodes[number];
        let (home, mut at) = (*home, ready << TICK_SHIFT);
        let mut least = at;
        if let Some(link) = link {
            least += link.latency_back();
            at = link.receive(at);
        }
        if home != socket {
            let (latency, line) = self.interconnect;
            least += latency - latency / 2;
            at = self.wires[home][socket].take(at, line) + latency - latency / 2;
        }
        counters.link_wait += cycles(at - least);
        let (sent, there) = (sent.0, cycles(sent.1));
        let links = (there - sent) + (cycles(at) - ready);
        *if table { &mut self.besides.table_read_cycles } else { &mut self.besides.data_read_cycles } += links;
        cycles(at)
    }

    #[inline(never)]
    fn count_write(&mut self, first: &mut Dram, line: u64, table: bool, socket: usize) {
        let number = self.node_of(line);
        let Node { socket: home, counters, .. } = &mut self.nodes[number];
        counters.writes += 1;
        counters.remote_writes += u64::from(*home != socket);
        match number.checked_sub(1).map(|other| &mut self.devices[other]) {
            None => first.count_write(table),
            Some(Device::Dram(dram)) => dram.count_write(table),
            Some(Device::Persistent(_)) => {
                *if table { &mut self.besides.table_writes } else { &mut self.besides.data_writes } += 1;
            }
        }
    }

    #[inline(never)]
    fn send_write(&mut self, first: &mut Dram, line: u64, table: bool, socket: usize, now: u64) -> Written {
        if !self.timing {
            return Written { at: now, waited: 0 };
        }
        let number = self.node_of(line);
        let Nodes { nodes, devices, wires, interconnect, .. } = self;
        let Node { socket: home, link, counters, .. } = &mut nodes[number];
        let remote = *home != socket;
        let device = number.checked_sub(1).map(|other| &mut devices[other]);
        let (mut at, mut least) = (now << TICK_SHIFT, now << TICK_SHIFT);
        if remote {
            least += interconnect.0 / 2;
            at = wires[socket][*home].take(at, interconnect.1) + interconnect.0 / 2;
        }
        if let Some(link) = link {
            least = link.request(least);
            at = link.send(at);
        }
        let waited = cycles(at - least);
        counters.link_wait += waited;
        let dram = match device {
            None => first,
            Some(Device::Dram(dram)) => dram,
            Some(Device::Persistent(medium)) => {
                let begin = medium.medium.take(at, medium.write_line);
                return Written { at: cycles(begin + medium.write), waited: waited + cycles(begin - at) };
            }
        };
        let sent = cycles(at);
        let at = dram.send_write(line, table, sent);
        Written { at, waited: waited + at - sent }
    }
}
