//! A machine with a reference model: the rights of each process, the contents of each page, and a TLB that
//! drops only the entries that the kernel shoots down.

use crate::double::Factory;
use ambulator_base::{AccessKind, Advice, Asid, Cycle, MapKind, ProcessId, Protection, VirtAddr, VmEvent};
use ambulator_memory::{BuddyAllocator, BuddySpec, PhysicalMemory};
use ambulator_os::{BuddyPlacement, CostTable, Kernel, KernelSpec, OsError, Shootdown, TranslationsFactory};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub const BASE: u64 = 0x10_0000_0000;
/// Pages that each process uses: 8 MiB.
pub const PAGES: u64 = 2048;
/// Entries of the TLB.
const TLB: usize = 256;

/// The expected contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// Zeroes: no store yet.
    Zero,
    /// The value of the store with this number.
    Stored(u64),
    /// The old contents or zeroes (after `MADV_FREE`, or an action that failed half way).
    Unknown,
}

type Pages = BTreeMap<u64, (Protection, Contents)>;

#[derive(Clone, Copy)]
struct TlbEntry {
    frame: u64,
    writable: bool,
    executable: bool,
    dirty: bool,
}

#[derive(Clone, Debug)]
pub enum Call {
    Map(u64, u64, u8),
    Unmap(u64, u64),
    Protect(u64, u64, u8),
    Move(u64, u64, u64, u64),
    Drop(u64, u64),
    Free(u64, u64),
    Huge(u64, u64, bool),
    Touch(u64, u64, bool),
    Access(u64, u8),
    Brk(u64),
    /// The heap grows by this many pages, which are touched.
    Grow(u64),
    Fork,
    Exit,
    Tick,
    /// The page table fails once, after this many more pages.
    Fail(u32, bool),
}

pub fn call() -> impl Strategy<Value = Call> {
    let page = || 0..PAGES;
    let some = || prop_oneof![1..16u64, 256..1024u64, Just(512u64)];
    let aligned = || prop_oneof![page(), (0..4u64).prop_map(|n| n * 512)];
    prop_oneof![
        6 => (aligned(), some(), any::<u8>()).prop_map(|(p, n, r)| Call::Map(p, n, r)),
        2 => (page(), some()).prop_map(|(p, n)| Call::Unmap(p, n)),
        2 => (page(), some(), any::<u8>()).prop_map(|(p, n, r)| Call::Protect(p, n, r)),
        2 => (aligned(), some(), aligned(), some()).prop_map(|(p, n, q, m)| Call::Move(p, n, q, m)),
        1 => (page(), some()).prop_map(|(p, n)| Call::Drop(p, n)),
        2 => (page(), some()).prop_map(|(p, n)| Call::Free(p, n)),
        1 => (page(), some(), any::<bool>()).prop_map(|(p, n, h)| Call::Huge(p, n, h)),
        6 => (aligned(), some(), any::<bool>()).prop_map(|(p, n, w)| Call::Touch(p, n, w)),
        12 => (page(), 0..8u8).prop_map(|(p, k)| Call::Access(p, k)),
        2 => page().prop_map(Call::Brk),
        4 => some().prop_map(Call::Grow),
        2 => Just(Call::Fork),
        1 => Just(Call::Exit),
        2 => Just(Call::Tick),
        1 => (0..600u32, any::<bool>()).prop_map(|(n, small)| Call::Fail(n, small)),
    ]
}

fn at(page: u64) -> VirtAddr {
    VirtAddr(BASE + (page << 12))
}

/// Mostly readable and writable, sometimes fewer rights.
fn rights(of: u8) -> Protection {
    match of % 8 {
        0 => Protection::READ,
        1 => Protection::READ_EXECUTE,
        _ => Protection::READ_WRITE,
    }
}

/// The first and the last page of a heap.
type Heap = Option<(u64, u64)>;

pub struct Machine {
    pub kernel: Kernel,
    zeroed_frames: u64,
    factory: Factory,
    live: Vec<(ProcessId, Pages, Heap)>,
    tlb: HashMap<(Asid, u64), TlbEntry>,
    current: ProcessId,
    /// Address spaces that have entries in the TLB at most.
    spaces: usize,
    stores: u64,
    now: u64,
    initially_free: u64,
}

impl Machine {
    pub fn new(spec: &KernelSpec, memory: u64) -> Machine {
        let factory = Factory::default();
        let frames = BuddyAllocator::new(&BuddySpec::default(), memory >> 12);
        let initially_free = frames.free_frames();
        let bytes = PhysicalMemory::new(memory).expect("a small memory");
        let translations = TranslationsFactory::plain(Box::new(factory.clone()));
        let mut kernel = Kernel::new(spec, CostTable::default(), bytes, frames, translations, Box::new(BuddyPlacement));
        kernel.record_zeroed();
        let first = kernel.spawn().expect("room for a table");
        let live = vec![(first, Pages::new(), None)];
        let tlb = HashMap::new();
        let spaces = (1 << spec.asid_bits) - 1;
        Machine {
            kernel,
            zeroed_frames: 0,
            factory,
            live,
            tlb,
            current: first,
            spaces,
            stores: 0,
            now: 0,
            initially_free,
        }
    }

    pub fn processes(&self) -> usize {
        self.live.len()
    }

    /// Switches the core to this process.
    pub fn run(&mut self, who: usize) {
        let to = self.live[who].0;
        if self.current != to {
            if let Some(lost) = self.kernel.context_switch(0, self.current, to) {
                self.tlb.retain(|(other, _), _| *other != lost);
            }
            self.current = to;
            self.deliver();
        }
    }

    /// Applies the pending TLB shootdowns.
    fn deliver(&mut self) {
        let mut shootdowns = Vec::new();
        self.kernel.take_shootdowns(&mut shootdowns);
        for shootdown in shootdowns {
            match shootdown {
                Shootdown { asid, page: None } => self.tlb.retain(|(other, _), _| *other != asid),
                Shootdown { asid, page: Some(page) } => {
                    for vpn in page.start.vpn().0..page.end().vpn().0 {
                        self.tlb.remove(&(asid, vpn));
                    }
                }
            }
        }
    }

    /// An access of a program, with page faults served until it succeeds.
    fn access(&mut self, who: usize, page: u64, access: AccessKind) -> Result<(), TestCaseError> {
        let process = self.live[who].0;
        let right = self.live[who].1.get(&page).map_or(Protection::NONE, |p| p.0);
        for _ in 0..4 {
            let state = self.kernel.page_state(process, at(page));
            let key = (self.kernel.asid(process), at(page).vpn().0);
            let store = access == AccessKind::Store;
            let fits = match access {
                AccessKind::Load => state.present(),
                AccessKind::Store => state.present() && state.writable(),
                AccessKind::Fetch => state.present() && state.executable(),
            };
            if fits {
                prop_assert!(right.allows(access), "{access:?} of page {page} must be denied");
                let cached = self.tlb.get(&key).copied();
                let hit = match access {
                    AccessKind::Load => cached.is_some(),
                    AccessKind::Store => cached.is_some_and(|e| e.writable && e.dirty),
                    AccessKind::Fetch => cached.is_some_and(|e| e.executable),
                };
                if !hit {
                    self.factory.tables().accessed(process, at(page), store);
                    if self.tlb.len() >= TLB {
                        let mixed = |(asid, vpn): &&(Asid, u64)| (vpn.wrapping_mul(0x9e37_79b9_7f4a_7c15), asid.0);
                        let victim = *self.tlb.keys().min_by_key(mixed).expect("the TLB is full");
                        self.tlb.remove(&victim);
                    }
                    let (writable, executable) = (state.writable(), state.executable());
                    let dirty = store || cached.is_some_and(|e| e.dirty);
                    self.tlb.insert(key, TlbEntry { frame: state.frame().0, writable, executable, dirty });
                }
                if store {
                    self.stores += 1;
                    self.live[who].1.get_mut(&page).expect("the page is mapped").1 = Contents::Stored(self.stores);
                }
                return Ok(());
            }
            let served = self.kernel.fault(process, at(page), access);
            self.deliver();
            match served {
                Ok(_) => prop_assert!(right.allows(access), "{access:?} of page {page} was served without the right"),
                Err(OsError::Segfault { .. }) => {
                    prop_assert!(!right.allows(access), "{access:?} of page {page} must be allowed");
                    return Ok(());
                }
                Err(error) => {
                    prop_assert!(error.is_outcome(), "{error}");
                    return Ok(());
                }
            }
        }
        Err(TestCaseError::fail(format!("{access:?} of page {page} faults forever")))
    }

    /// Whether the kernel executed the event. An error must be an invalid call or an outcome.
    fn event(&mut self, who: usize, event: VmEvent) -> Result<bool, TestCaseError> {
        let done = self.kernel.event(self.live[who].0, &event);
        self.deliver();
        match done {
            Ok(()) => Ok(true),
            Err(OsError::BadCall(_) | OsError::Segfault { .. }) => Ok(false),
            Err(error) if error.is_outcome() => Ok(false),
            Err(error) => Err(TestCaseError::fail(format!("{event:?}: {error}"))),
        }
    }

    pub fn step(&mut self, who: usize, call: &Call) -> Result<(), TestCaseError> {
        self.run(who);
        let end = |page: u64, n: u64| (page + n).min(PAGES);
        let len = |page: u64, n: u64| (end(page, n) - page) << 12;
        match *call {
            Call::Map(page, n, r) => {
                let (start, len, protection) = (at(page), len(page, n), rights(r));
                // The first heap's rights are those by which `brk` extends it.
                let is_heap = r < 64 && protection == Protection::READ_WRITE;
                let kind = if is_heap { MapKind::Heap } else { MapKind::Anonymous };
                if self.event(who, VmEvent::Map { start, len, protection, kind })? {
                    if is_heap && self.live[who].2.is_none() {
                        self.live[who].2 = Some((page, end(page, n)));
                    }
                    let fresh = (page..end(page, n)).map(|p| (p, (protection, Contents::Zero)));
                    self.live[who].1.extend(fresh);
                }
            }
            Call::Unmap(page, n) => {
                if self.event(who, VmEvent::Unmap { start: at(page), len: len(page, n) })? {
                    self.live[who].1.retain(|p, _| !(page..end(page, n)).contains(p));
                }
            }
            Call::Protect(page, n, r) => {
                let protection = rights(r);
                if self.event(who, VmEvent::Protect { start: at(page), len: len(page, n), protection })? {
                    for (_, expected) in self.live[who].1.range_mut(page..end(page, n)) {
                        expected.0 = protection;
                    }
                }
            }
            Call::Move(page, n, to, m) => self.remap(who, page, n, to, m)?,
            Call::Drop(page, n) => {
                let (start, len) = (at(page), len(page, n));
                if self.event(who, VmEvent::Advise { start, len, advice: Advice::DontNeed })? {
                    self.live[who].1.range_mut(page..end(page, n)).for_each(|(_, p)| p.1 = Contents::Zero);
                }
            }
            Call::Free(page, n) => {
                let (start, len) = (at(page), len(page, n));
                if self.event(who, VmEvent::Advise { start, len, advice: Advice::Free })? {
                    self.live[who].1.range_mut(page..end(page, n)).for_each(|(_, p)| p.1 = Contents::Unknown);
                }
            }
            Call::Huge(page, n, huge) => {
                let advice = if huge { Advice::Huge } else { Advice::NoHuge };
                self.event(who, VmEvent::Advise { start: at(page), len: len(page, n), advice })?;
            }
            Call::Touch(page, n, write) => {
                let done = self.event(who, VmEvent::Touch { start: at(page), len: len(page, n), write })?;
                if write {
                    for (_, expected) in self.live[who].1.range_mut(page..end(page, n)) {
                        self.stores += 1;
                        expected.1 = if done { Contents::Stored(self.stores) } else { Contents::Unknown };
                    }
                }
            }
            Call::Access(page, kind) => {
                let kind = match kind {
                    0 => AccessKind::Fetch,
                    1..=3 => AccessKind::Load,
                    _ => AccessKind::Store,
                };
                self.access(who, page, kind)?;
            }
            Call::Brk(page) => self.brk(who, page)?,
            Call::Grow(n) => {
                let (_, from) = self.live[who].2.unwrap_or_default();
                self.brk(who, end(from, n))?;
                if from < end(from, n) {
                    self.step(who, &Call::Touch(from, n, true))?;
                }
            }
            Call::Fork if self.live.len() < 4 => {
                let forked = self.kernel.fork(self.live[who].0);
                self.deliver();
                match forked {
                    Ok(child) => self.live.push((child, self.live[who].1.clone(), self.live[who].2)),
                    Err(error) => prop_assert!(error.is_outcome(), "{error}"),
                }
            }
            Call::Exit if self.live.len() > 1 => {
                prop_assert!(self.event(who, VmEvent::Exit { process: self.live[who].0 })?, "a process cannot exit");
                self.live.remove(who);
                self.run(0);
            }
            Call::Tick => {
                self.now += 1_000_000;
                let ticked = self.kernel.tick(self.live[who].0, Cycle(self.now));
                self.deliver();
                prop_assert!(ticked.as_ref().err().is_none_or(OsError::is_outcome), "{ticked:?}");
            }
            Call::Fail(after, small) => {
                self.factory.tables().fail = Some((after, if small { 4096 } else { 1 << 16 }));
            }
            Call::Fork | Call::Exit => {}
        }
        Ok(())
    }

    fn remap(&mut self, who: usize, page: u64, n: u64, to: u64, m: u64) -> Result<(), TestCaseError> {
        let (n, m) = (n.min(PAGES - page), m.min(PAGES - to));
        let event = VmEvent::Remap { old: at(page), old_len: n << 12, new: at(to), new_len: m << 12 };
        let done = self.event(who, event)?;
        let (process, pages) = (self.live[who].0, &mut self.live[who].1);
        if !done {
            // Mappings at the destination may be gone, as in Linux. The rest is unchanged.
            pages.retain(|p, _| !(to..to + m).contains(p) || self.kernel.vmas(process).find(at(*p)).is_some());
            return Ok(());
        }
        let protection = pages.get(&page).expect("the moved range is mapped").0;
        let moved: Vec<_> = (0..n).filter_map(|i| pages.remove(&(page + i)).map(|p| (to + i, p))).collect();
        prop_assert_eq!(moved.len() as u64, n, "a hole was moved");
        for p in to..to + m {
            pages.insert(p, (protection, Contents::Zero));
        }
        pages.extend(moved.into_iter().filter(|(p, _)| *p < to + m));
        Ok(())
    }

    fn brk(&mut self, who: usize, page: u64) -> Result<(), TestCaseError> {
        let done = self.event(who, VmEvent::Brk { end: at(page) })?;
        let (_, pages, heap) = &mut self.live[who];
        if !done {
            return Ok(());
        }
        let (start, end) = heap.unwrap_or((page, page));
        for p in end..page {
            prop_assert!(pages.insert(p, (Protection::READ_WRITE, Contents::Zero)).is_none(), "brk over a mapping");
        }
        let page = page.max(start);
        pages.retain(|p, _| !(page..end).contains(p));
        *heap = Some((start, page));
        Ok(())
    }

    /// Compares kernel, reference model and TLB.
    pub fn verify(&mut self, whole: bool) -> Result<(), String> {
        let mut zeroed = Vec::new();
        self.kernel.take_zeroed(&mut zeroed);
        self.zeroed_frames += zeroed.iter().map(|one| one.frames).sum::<u64>();
        if self.zeroed_frames << 12 != self.kernel.counters.zeroed_bytes {
            return Err(format!("{} frames were zeroed, and other bytes charged", self.zeroed_frames));
        }
        let mut frames: HashMap<u64, (Contents, u64)> = HashMap::new();
        for (process, pages, _) in &self.live {
            for (page, (right, contents)) in pages {
                let state = self.kernel.page_state(*process, at(*page));
                let lost = matches!(contents, Contents::Stored(_)) && !state.present() && !state.swapped();
                if lost {
                    return Err(format!("page {page} of process {process} has lost its contents"));
                }
                if whole {
                    let area = self.kernel.vmas(*process).find(at(*page));
                    if area.is_none_or(|vma| vma.protection != *right) {
                        return Err(format!(
                            "page {page} of process {process} should have {right:?}, but lies in {area:?}"
                        ));
                    }
                }
                if !state.present() {
                    continue;
                }
                let other = frames.entry(state.frame().0).or_insert((*contents, 0));
                other.1 += 1;
                let alike = other.0 == *contents || other.0 == Contents::Unknown || *contents == Contents::Unknown;
                if other.1 > 1 && (state.writable() || !alike) {
                    return Err(format!("page {page} of process {process} shares a frame with different contents"));
                }
            }
            if whole {
                let areas: u64 = self.kernel.vmas(*process).as_slice().iter().map(|vma| vma.len() >> 12).sum();
                if areas != pages.len() as u64 {
                    return Err(format!("process {process} has areas of {areas} pages instead of {}", pages.len()));
                }
            }
        }
        let spaces: BTreeSet<Asid> = self.tlb.keys().map(|(asid, _)| *asid).collect();
        if spaces.len() > self.spaces {
            return Err(format!("the TLB has {spaces:?}, and the core has {} identifiers", self.spaces));
        }
        for ((asid, vpn), entry) in &self.tlb {
            let mut users = self.live.iter().map(|one| one.0).filter(|p| self.kernel.asid(*p) == *asid);
            let Some(user) = users.next() else {
                return Err(format!("the TLB has {vpn:#x} of address space {asid}, which has ended"));
            };
            if let Some(other) = users.next() {
                return Err(format!("the processes {user} and {other} share the identifier {asid}"));
            }
            let state = self.kernel.page_state(user, VirtAddr(*vpn << 12));
            let stale = !state.present()
                || state.frame().0 != entry.frame
                || entry.writable && !state.writable()
                || entry.executable && !state.executable();
            if stale {
                return Err(format!("the TLB of process {user} still has {vpn:#x}, and the page is {state:?}"));
            }
        }
        if whole {
            self.kernel.check()?;
            self.kernel.check_frames()?;
        }
        Ok(())
    }

    /// All processes exit, which must free all frames.
    pub fn end(mut self) -> Result<(), TestCaseError> {
        if std::env::var("COVER").is_ok() {
            eprintln!("COVER {:?}", self.kernel.counters);
        }
        while let Some((process, ..)) = self.live.pop() {
            self.kernel.event(process, &VmEvent::Exit { process }).map_err(|e| TestCaseError::fail(e.to_string()))?;
        }
        prop_assert_eq!(self.kernel.frames.free_frames(), self.initially_free, "frames have leaked");
        self.kernel.check().map_err(TestCaseError::fail)
    }
}
