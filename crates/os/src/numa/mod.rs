//! The kernel on a machine with several memory nodes: from which node pages and tables come, and which pages
//! move between nodes.

mod balance;
mod demote;
mod spec;

pub use spec::{Balancing, HugeMigration, MemoryPolicy, NumaSpec, TablePolicy};

use crate::{Kernel, KernelSpec};
use ambulator_base::{CounterSink, Counters, Cycle, Page, ProcessId, State, VirtAddr};
use ambulator_memory::{BuddyAllocator, Zonelist};
use balance::Hint;
use rustc_hash::FxHashMap;

ambulator_base::counters! {
    /// Counters of the kernel's work on memory nodes.
    pub struct NumaCounters {
        /// Scans for pages to move.
        scans: Events,
        /// Pages whose entries a scan took away, so that the next access faults.
        pages_marked: Events,
        /// Page faults on such pages.
        hint_faults: Events,
        /// Pages moved from a slow tier to a fast node.
        pages_promoted: Events,
        /// Pages moved from a fast node to a slow tier.
        pages_demoted: Events,
        /// Pages moved between nodes of sockets.
        pages_balanced: Events,
        /// Pages that were to be promoted, but the fast node was low.
        promotions_without_room: Events,
        /// Pages that were to be promoted, but the limit of the period was reached.
        promotions_over_limit: Events,
        /// Huge pages split to be moved.
        splits: Events,
    }
}

ambulator_base::counters! {
    /// Counters of the kernel for a memory node.
    pub struct NodePageCounters {
        /// Blocks of frames that the node gave, for pages and structures alike.
        allocations: Events,
        /// Of these, blocks for which another node was to be preferred, but was low.
        fallbacks: Events,
        /// Bytes of pages that moved to the node.
        bytes_in: Bytes,
        /// Bytes of pages that moved away from it.
        bytes_out: Bytes,
    }
}

/// A memory node, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The socket to which it is attached.
    pub socket: u32,
    /// It is a slow tier.
    pub slow: bool,
}

/// The memory nodes of a machine, and the socket of each core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineNodes {
    /// By number.
    pub nodes: Vec<NodeInfo>,
    /// By core.
    pub core_sockets: Vec<u32>,
}

impl MachineNodes {
    /// The nodes that allocations of a socket's cores try in order: fast ones before slow tiers, and among
    /// them those of the socket first.
    pub fn by_distance(&self, socket: u32) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.nodes.len()).collect();
        nodes.sort_by_key(|node| (self.nodes[*node].slow, self.nodes[*node].socket != socket));
        nodes
    }
}

/// Watermarks of a node, in frames.
#[derive(Clone, Copy, Debug)]
struct Marks {
    /// Allocations go to other nodes below it, and demotion begins.
    low: u64,
    /// A promotion must leave so much.
    high: u64,
    /// Demotion ends: so promotions have room (Linux: `WMARK_PROMO`).
    promotion: u64,
}

/// The kernel's state for memory nodes.
#[derive(State)]
pub(crate) struct Numa {
    #[state(skip)]
    spec: NumaSpec,
    #[state(skip)]
    machine: MachineNodes,
    #[state(skip)]
    marks: Vec<Marks>,
    /// By socket.
    #[state(skip)]
    zonelists: Vec<Zonelist>,
    /// The socket of the core for which the kernel acts, and the time there.
    socket: usize,
    now: Cycle,
    /// Frames for which a promotion found no room in a fast node; 0 if none did lately.
    room_wanted: u64,
    /// When demotion that found nothing tries again, and when the next scan is due.
    retry: Cycle,
    scan: Cycle,
    /// The processes that scan and demotion visit next, and where the scan of each goes on.
    scanned: usize,
    demoted: usize,
    hands: FxHashMap<ProcessId, VirtAddr>,
    /// Base pages that may still be promoted in this period.
    allowance: u64,
    /// Pages whose entries were taken away, by process and first address.
    hints: FxHashMap<(ProcessId, VirtAddr), Hint>,
    /// Of pages that stayed where they are: the node of the core that faulted last, or the number of scans
    /// that found them accessed.
    seen: FxHashMap<(ProcessId, VirtAddr), u8>,
    counters: NumaCounters,
    moved: Vec<NodePageCounters>,
}

impl Numa {
    fn new(kernel: &KernelSpec, machine: MachineNodes, frames: &BuddyAllocator) -> Numa {
        let spec = kernel.numa.clone();
        let marks = |node| {
            let of = |share: f64| (share * frames.node_range(node).1 as f64).ceil() as u64;
            let (low, high) = (of(kernel.watermark_low), of(kernel.watermark_high));
            Marks { low, high, promotion: 2 * high - low.min(high) }
        };
        let sockets = machine.nodes.iter().map(|node| node.socket).chain(machine.core_sockets.iter().copied()).max();
        Numa {
            marks: (0..machine.nodes.len()).map(marks).collect(),
            zonelists: (0..=sockets.unwrap_or(0)).map(|socket| Zonelist::new(machine.by_distance(socket))).collect(),
            socket: machine.core_sockets.first().map_or(0, |socket| *socket as usize),
            now: Cycle(0),
            room_wanted: 0,
            retry: Cycle(0),
            scan: Cycle(spec.scan_period),
            scanned: 0,
            demoted: 0,
            hands: FxHashMap::default(),
            allowance: spec.promotion_pages,
            hints: FxHashMap::default(),
            seen: FxHashMap::default(),
            counters: NumaCounters::default(),
            moved: vec![NodePageCounters::default(); machine.nodes.len()],
            machine,
            spec,
        }
    }

    /// The nodes for a page, by the policy.
    fn zonelist_of(&self, page: Page) -> Zonelist {
        let local = self.zonelists[self.socket];
        let named = |node: &u32| *node as usize;
        match self.spec.policy {
            MemoryPolicy::Local => local,
            MemoryPolicy::Bind => Zonelist::new(local.nodes().filter(|node| self.spec.nodes.contains(&(*node as u32)))),
            MemoryPolicy::Preferred => first(self.spec.nodes.first().map_or(0, named), &local),
            MemoryPolicy::Interleave => {
                let turn = page.start.0 / page.size.bytes();
                let node = match self.spec.nodes.len() as u64 {
                    0 => (turn % self.machine.nodes.len() as u64) as usize,
                    len => self.spec.nodes[(turn % len) as usize] as usize,
                };
                first(node, &local)
            }
        }
    }

    /// The nodes for translation structures.
    fn table_zonelist(&self) -> Zonelist {
        let local = self.zonelists[self.socket];
        match self.spec.table_policy {
            TablePolicy::Local => local,
            TablePolicy::Interleave => local.in_turn(),
            TablePolicy::Node => first(self.spec.table_node as usize, &local),
        }
    }

    /// Whether demotion has something to do.
    fn demotion_is_due(&self, frames: &BuddyAllocator, now: Cycle) -> bool {
        self.spec.demotion
            && now >= self.retry
            && (0..self.marks.len()).any(|node| self.frames_to_demote(node, frames) > 0)
    }

    /// Frames that demotion should free in a node.
    fn frames_to_demote(&self, node: usize, frames: &BuddyAllocator) -> u64 {
        let free = frames.node_free_frames(node);
        let Marks { low, high, promotion } = self.marks[node];
        let enough = promotion + self.room_wanted.saturating_sub(1);
        // Allocations leave `low`: they have turned to other nodes by then.
        let begins = free <= low || self.room_wanted > 0 && free < high + self.room_wanted;
        if begins && !self.machine.nodes[node].slow { enough - free.min(enough) } else { 0 }
    }
}

/// A node before the others of a list.
fn first(node: usize, others: &Zonelist) -> Zonelist {
    Zonelist::new(std::iter::once(node).chain(others.nodes().filter(|other| *other != node)))
}

impl Kernel {
    /// The machine has these memory nodes, those of the kernel's frames. With one node, nothing changes.
    pub fn use_nodes(&mut self, machine: MachineNodes) {
        if self.frames.node_count() < 2 {
            return;
        }
        let numa = Numa::new(&self.spec, machine, &self.frames);
        (0..numa.marks.len()).for_each(|node| self.frames.set_node_floor(node, numa.marks[node].low));
        self.numa = Some(Box::new(numa));
    }

    /// The kernel acts for this core from now on, at its time `now`.
    #[inline]
    pub fn run_on(&mut self, core: usize, now: Cycle) {
        if let Some(numa) = &mut self.numa {
            numa.socket = numa.machine.core_sockets.get(core).map_or(0, |socket| *socket as usize);
            numa.now = numa.now.max(now);
        }
    }

    /// Lets allocations of frames follow the policy for a page.
    #[inline]
    pub(crate) fn prefer_nodes_of_page(&mut self, page: Page) {
        if let Some(numa) = &self.numa {
            self.frames.set_zonelist(numa.zonelist_of(page));
        }
    }

    /// Lets allocations of frames follow the policy of translation structures.
    #[inline]
    pub(crate) fn prefer_nodes_of_tables(&mut self) {
        if let Some(numa) = &self.numa {
            self.frames.set_zonelist(numa.table_zonelist());
        }
    }

    /// Whether work on memory nodes is due at `now`.
    #[inline]
    pub(crate) fn numa_is_due(&self, now: Cycle) -> bool {
        self.numa.as_ref().is_some_and(|numa| {
            numa.spec.balancing != Balancing::None && now >= numa.scan || numa.demotion_is_due(&self.frames, now)
        })
    }

    /// Runs what is due on memory nodes: demotion, and the scan for pages to move.
    pub(crate) fn run_numa(&mut self, now: Cycle) -> Result<(), crate::OsError> {
        let Some(numa) = &mut self.numa else { return Ok(()) };
        numa.now = numa.now.max(now);
        if numa.demotion_is_due(&self.frames, now) {
            self.demote_in_background()?;
        }
        let Some(numa) = &mut self.numa else { return Ok(()) };
        if numa.spec.balancing != Balancing::None && now >= numa.scan {
            numa.scan = now.after(numa.spec.scan_period);
            numa.allowance = numa.spec.promotion_pages;
            numa.counters.scans += 1;
            self.scan_for_balancing()?;
        }
        Ok(())
    }

    /// Faults on pages whose entries a scan had taken away.
    pub(crate) fn hint_faults(&self) -> u64 {
        self.numa.as_ref().map_or(0, |numa| numa.counters.hint_faults)
    }

    /// Reports the counters of memory nodes to `sink`, if there are several.
    pub(crate) fn report_numa(&self, prefix: &str, sink: &mut dyn CounterSink) {
        let Some(numa) = &self.numa else { return };
        numa.counters.report(&format!("{prefix}.numa"), sink);
        for (node, moved) in numa.moved.iter().enumerate() {
            let allocated = self.frames.node_allocations(node);
            let counters =
                NodePageCounters { allocations: allocated.given, fallbacks: allocated.fallbacks, ..moved.clone() };
            counters.report(&format!("{prefix}.node{node}"), sink);
        }
    }

    /// Sets the counters of memory nodes to zero.
    pub(crate) fn reset_numa_counters(&mut self) {
        if let Some(numa) = &mut self.numa {
            numa.counters.reset();
            numa.moved.iter_mut().for_each(|moved| moved.reset());
            self.frames.reset_node_allocations();
        }
    }
}
