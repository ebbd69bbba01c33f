//! Random system calls, touches and stores over several processes, on the kernel model with every page table
//! of the catalogue, against a plain model of what each process may access and what it must see there.

use ambulator_base::{AccessKind, Advice, Cycle, MapKind, ProcessId, Protection, VirtAddr, VmEvent};
use ambulator_designs::catalogue;
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{
    Balancing, CostTable, FaultKind, Kernel, KernelSpec, MachineNodes, NodeInfo, NumaSpec, OsError, PageSizePolicy,
};
use ambulator_sockets::Socket;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

const BASE: u64 = 0x10_0000_0000;
const PAGES: u64 = 2048;
const MEMORY: u64 = 64 << 20;

/// The memory of the machine: one node, or a small fast one and a slow one, between which pages move.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Uniform,
    Tiers,
}

fn frames(memory: Memory) -> BuddyAllocator {
    match memory {
        Memory::Uniform => BuddyAllocator::new(&BuddySpec::default(), MEMORY >> 12),
        Memory::Tiers => BuddyAllocator::with_nodes(&BuddySpec::default(), &[3072, (MEMORY >> 12) - 3072]),
    }
}

/// What one process must see: its rights, page by page, and which contents (a number for each store) each
/// page has.
#[derive(Clone, Default)]
struct Plain {
    rights: BTreeMap<u64, Protection>,
    contents: HashMap<u64, u64>,
}

#[derive(Clone, Debug)]
enum Call {
    Map(u64, u64, bool, bool),
    Unmap(u64, u64),
    Protect(u64, u64, bool),
    Move(u64, u64, u64),
    Drop(u64, u64),
    Free(u64, u64),
    Huge(u64, u64, bool),
    Touch(u64, u64),
    Store(u64),
    Load(u64),
    Fork,
    Exit,
    Tick,
}

fn call() -> impl Strategy<Value = Call> {
    let page = || 0..PAGES;
    let some = || prop_oneof![1..16u64, 256..1024u64];
    prop_oneof![
        4 => (page(), some(), any::<bool>(), any::<bool>()).prop_map(|(p, n, w, h)| Call::Map(p, n, w, h)),
        2 => (page(), some()).prop_map(|(p, n)| Call::Unmap(p, n)),
        2 => (page(), some(), any::<bool>()).prop_map(|(p, n, w)| Call::Protect(p, n, w)),
        1 => (page(), some(), page()).prop_map(|(p, n, q)| Call::Move(p, n, q)),
        1 => (page(), some()).prop_map(|(p, n)| Call::Drop(p, n)),
        1 => (page(), some()).prop_map(|(p, n)| Call::Free(p, n)),
        1 => (page(), some(), any::<bool>()).prop_map(|(p, n, h)| Call::Huge(p, n, h)),
        4 => (page(), some()).prop_map(|(p, n)| Call::Touch(p, n)),
        8 => page().prop_map(Call::Store),
        4 => page().prop_map(Call::Load),
        1 => Just(Call::Fork),
        1 => Just(Call::Exit),
        1 => Just(Call::Tick),
    ]
}

fn at(page: u64) -> VirtAddr {
    VirtAddr(BASE + (page << 12))
}

/// The kernel next to the plain model, and which contents each frame has.
struct Pair {
    kernel: Kernel,
    live: Vec<(ProcessId, Plain)>,
    frames: HashMap<u64, u64>,
    stores: u64,
    rounds: u64,
}

impl Pair {
    fn new(table: usize, policy: PageSizePolicy, swap: u64, kind: Memory) -> Pair {
        let numa = NumaSpec {
            demotion: true,
            balancing: Balancing::HintFaults,
            scan_period: 1_000_000,
            scan_pages: 1024,
            hot_threshold: 2_000_000,
            ..NumaSpec::default()
        };
        let numa = if kind == Memory::Tiers { numa } else { NumaSpec::default() };
        let spec = KernelSpec {
            page_size_policy: policy,
            swap_bytes: swap,
            khugepaged_period: 1,
            numa,
            ..KernelSpec::default()
        };
        let catalogue = catalogue();
        let tables: Vec<&str> = catalogue.filling(Socket::PageTable).map(|design| design.name).collect();
        let parts = catalogue.build(&catalogue.choice(tables[table % tables.len()]));
        let memory = PhysicalMemory::new(MEMORY).unwrap();
        let mut kernel =
            Kernel::new(&spec, CostTable::default(), memory, frames(kind), parts.translations, parts.placement);
        let nodes = [false, true].map(|slow| NodeInfo { socket: 0, slow }).to_vec();
        kernel.use_nodes(MachineNodes { nodes, core_sockets: vec![0] });
        let first = kernel.spawn().unwrap();
        Pair { kernel, live: vec![(first, Plain::default())], frames: HashMap::new(), stores: 0, rounds: 0 }
    }

    /// An access as a program makes it: faults are served until it succeeds. What it sees must be what was
    /// stored last.
    fn access(&mut self, who: usize, page: u64, access: AccessKind) -> Result<(), TestCaseError> {
        let (process, plain) = (self.live[who].0, &self.live[who].1);
        let right = plain.rights.get(&page).copied().unwrap_or(Protection::NONE);
        let mut tries = 0;
        loop {
            let truth = self.kernel.page_state(process, at(page));
            if truth.present() && (access != AccessKind::Store || truth.writable()) {
                prop_assert!(right.allows(access), "{access:?} of page {page} must not be allowed");
                let frame = truth.frame().0;
                let (seen, expected) = (self.frames.get(&frame), self.live[who].1.contents.get(&page));
                if let Some(expected) = expected {
                    prop_assert_eq!(seen, Some(expected), "page {} shows other contents", page);
                }
                if access == AccessKind::Store {
                    self.stores += 1;
                    self.frames.insert(frame, self.stores);
                    self.live[who].1.contents.insert(page, self.stores);
                }
                return Ok(());
            }
            tries += 1;
            prop_assert!(tries < 4, "page {page} faults for ever");
            let (frame, was_copied) = (truth.frame().0, truth.present());
            // A hint fault may move a huge page, with the contents of all its pages.
            let before = if truth.is_hinted() { self.snapshot() } else { Vec::new() };
            match self.kernel.fault(process, at(page), access) {
                Ok(kind) => {
                    prop_assert!(right.allows(access), "a fault for page {page} was served, and there is no right");
                    let now = self.kernel.page_state(process, at(page)).frame().0;
                    self.carry(&before);
                    match kind {
                        // The copy has the original's contents.
                        FaultKind::CopyOnWrite if was_copied => {
                            if let Some(contents) = self.frames.get(&frame).copied() {
                                self.frames.insert(now, contents);
                            }
                        }
                        FaultKind::Fresh(size) => {
                            // Zeroed, but for the pages that a full reservation had already: those stay in
                            // place.
                            let (first, offset) = (now & !(size.frames() - 1), now & (size.frames() - 1));
                            for i in 0..size.frames() {
                                let kept = (page + i).checked_sub(offset).is_some_and(|other| {
                                    other != page && self.live[who].1.contents.contains_key(&other)
                                });
                                if !kept {
                                    self.frames.remove(&(first + i));
                                }
                            }
                            self.live[who].1.contents.remove(&page);
                        }
                        _ => {
                            // Contents come back from swap with the page.
                            if let Some(contents) = self.live[who].1.contents.get(&page).copied() {
                                self.frames.insert(now, contents);
                            }
                        }
                    }
                }
                Err(OsError::Segfault { .. }) => {
                    prop_assert!(!right.allows(access), "{access:?} of page {page} must be allowed");
                    return Ok(());
                }
                Err(error) if error.is_outcome() => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
    }

    fn event(&mut self, who: usize, event: VmEvent) -> Result<bool, TestCaseError> {
        match self.kernel.event(self.live[who].0, &event) {
            Ok(()) => Ok(true),
            Err(OsError::BadCall(_) | OsError::Segfault { .. }) => Ok(false),
            Err(error) if error.is_outcome() => Ok(false),
            Err(error) => Err(TestCaseError::fail(error.to_string())),
        }
    }

    fn step(&mut self, who: usize, call: &Call) -> Result<(), TestCaseError> {
        let end = |page: u64, n: u64| (page + n).min(PAGES);
        let len = |page: u64, n: u64| (end(page, n) - page) << 12;
        let rights = |write| if write { Protection::READ_WRITE } else { Protection::READ };
        match *call {
            Call::Map(page, n, write, heap) => {
                let (start, len, protection) = (at(page), len(page, n), rights(write));
                let kind = if heap { MapKind::Heap } else { MapKind::Anonymous };
                self.event(who, VmEvent::Map { start, len, protection, kind })?;
                for p in page..end(page, n) {
                    self.live[who].1.rights.insert(p, protection);
                    self.live[who].1.contents.remove(&p);
                }
            }
            Call::Unmap(page, n) => {
                self.event(who, VmEvent::Unmap { start: at(page), len: len(page, n) })?;
                for p in page..end(page, n) {
                    self.live[who].1.rights.remove(&p);
                    self.live[who].1.contents.remove(&p);
                }
            }
            Call::Protect(page, n, write) => {
                self.event(who, VmEvent::Protect { start: at(page), len: len(page, n), protection: rights(write) })?;
                for p in page..end(page, n) {
                    if let Some(right) = self.live[who].1.rights.get_mut(&p) {
                        *right = rights(write);
                    }
                }
            }
            Call::Move(page, n, to) => {
                let n = n.min(PAGES - page).min(PAGES - to);
                let bytes = n << 12;
                let done =
                    self.event(who, VmEvent::Remap { old: at(page), old_len: bytes, new: at(to), new_len: bytes })?;
                if done && to != page {
                    for i in 0..n {
                        let plain = &mut self.live[who].1;
                        plain.contents.remove(&(to + i));
                        let right = plain.rights.remove(&(page + i)).expect("a move of what is mapped");
                        plain.rights.insert(to + i, right);
                        if let Some(contents) = plain.contents.remove(&(page + i)) {
                            plain.contents.insert(to + i, contents);
                        }
                    }
                }
            }
            Call::Drop(page, n) | Call::Free(page, n) => {
                let advice = if matches!(call, Call::Drop(..)) { Advice::DontNeed } else { Advice::Free };
                self.event(who, VmEvent::Advise { start: at(page), len: len(page, n), advice })?;
                // Freed contents may stay or go; dropped ones are gone.
                (page..end(page, n)).for_each(|p| {
                    self.live[who].1.contents.remove(&p);
                });
            }
            Call::Huge(page, n, huge) => {
                let advice = if huge { Advice::Huge } else { Advice::NoHuge };
                self.event(who, VmEvent::Advise { start: at(page), len: len(page, n), advice })?;
            }
            Call::Touch(page, n) => {
                for p in page..end(page, n) {
                    self.access(who, p, AccessKind::Store)?;
                }
            }
            Call::Store(page) => self.access(who, page, AccessKind::Store)?,
            Call::Load(page) => self.access(who, page, AccessKind::Load)?,
            Call::Fork if self.live.len() < 4 => match self.kernel.fork(self.live[who].0) {
                Ok(child) => self.live.push((child, self.live[who].1.clone())),
                Err(error) => prop_assert!(error.is_outcome(), "{error}"),
            },
            Call::Exit if self.live.len() > 1 => {
                self.event(who, VmEvent::Exit { process: ProcessId(0) })?;
                self.live.remove(who);
            }
            Call::Tick => {
                self.rounds += 1;
                // Promotion copies pages: contents go along with each process's own pages.
                let before = self.snapshot();
                let process = self.live[who].0;
                if let Err(error) = self.kernel.tick(process, Cycle(self.rounds * 1_000_000)) {
                    prop_assert!(error.is_outcome(), "{error}");
                }
                self.carry(&before);
            }
            Call::Fork | Call::Exit => {}
        }
        Ok(())
    }

    /// The frame of a page in memory. A page whose entry a scan took away has one, and may move.
    fn frame_of(&self, process: ProcessId, page: u64) -> Option<u64> {
        let truth = self.kernel.page_state(process, at(page));
        (truth.present() || truth.is_hinted()).then(|| truth.frame().0)
    }

    fn snapshot(&self) -> Vec<(ProcessId, u64, Option<u64>)> {
        let mut all = Vec::new();
        for (process, plain) in &self.live {
            for page in plain.contents.keys() {
                let frame = self.frame_of(*process, *page);
                all.push((*process, *page, frame.and_then(|frame| self.frames.get(&frame).copied())));
            }
        }
        all
    }

    fn carry(&mut self, before: &[(ProcessId, u64, Option<u64>)]) {
        for (process, page, contents) in before {
            if let (Some(frame), Some(contents)) = (self.frame_of(*process, *page), contents) {
                self.frames.insert(frame, *contents);
            }
        }
    }
}

fn check(
    table: usize,
    policy: PageSizePolicy,
    swap: u64,
    kind: Memory,
    calls: &[(usize, Call)],
) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(table, policy, swap, kind);
    for (number, (who, call)) in calls.iter().enumerate() {
        let who = who % pair.live.len();
        // Reclaim moves pages to swap and frames to others: contents are carried by the page.
        pair.step(who, call)?;
        pair.kernel.take_shootdowns(&mut Vec::new());
        if number % 16 == 0 || number + 1 == calls.len() {
            pair.kernel.check().map_err(|e| TestCaseError::fail(format!("after {call:?}: {e}")))?;
        }
    }
    while let Some((process, _)) = pair.live.pop() {
        pair.kernel.event(process, &VmEvent::Exit { process }).map_err(|e| TestCaseError::fail(e.to_string()))?;
    }
    let all = frames(kind).free_frames();
    prop_assert_eq!(pair.kernel.frames.free_frames(), all, "frames were lost");
    Ok(())
}

macro_rules! policies {
    ($($name:ident: $policy:ident, $swap:expr, $memory:ident;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig {
                cases: 400, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default()
            })]
            $(#[test]
            fn $name(table in any::<usize>(), calls in prop::collection::vec((0..4usize, call()), 1..120)) {
                check(table, PageSizePolicy::$policy, $swap, Memory::$memory, &calls)?;
            })*
        }
    };
}

policies! {
    base_pages: Never, 0, Uniform;
    huge_at_faults: Always, 0, Uniform;
    huge_where_advised: Madvise, 0, Uniform;
    promoted_in_the_background: Khugepaged, 0, Uniform;
    reserved_and_promoted: Reservation, 0, Uniform;
    base_pages_with_swap: Never, 16 << 20, Uniform;
    huge_at_faults_with_swap: Always, 16 << 20, Uniform;
    base_pages_between_nodes: Never, 0, Tiers;
    huge_pages_between_nodes: Always, 0, Tiers;
    promoted_between_nodes_with_swap: Khugepaged, 16 << 20, Tiers;
}
