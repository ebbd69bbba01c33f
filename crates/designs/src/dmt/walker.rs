//! The hardware half: registers, the fetcher, and the x86 walker.

use super::DmtSpec;
use super::tea::SPANS;
use ambulator_base::watch::{self, Meaning, Shape, Step};
use ambulator_base::{AccessKind, Asid, CounterSink, Counters, Cycle, PageSize, PhysAddr, State, VirtAddr};
use ambulator_mmu::{Invalidation, MemoryPort, PwcSpec, TableRegisters, Walk, WalkOutcome, Walker};
use ambulator_os::{MAX_HOST_AREAS, host_area_slot, read_host_area};
use ambulator_structures::pte::Pte;
use ambulator_structures::tree::{NODE_BITS, TreeWalker, entry_meaning, leaf_size};
use std::collections::BTreeMap;

ambulator_base::counters! {
    /// Counters of the fetcher, in addition to those of the x86 walker.
    struct DmtCounters {
        /// Walks whose address one register or more covers.
        register_hits: Events,
        /// Walks whose address no register covers.
        register_misses: Events,
        /// Entries that the fetcher loaded.
        fetches: Events,
        /// Walks that ended with an entry of the fetcher's.
        direct: Events,
        /// Walks of the radix tree: no register covers, or no entry that was fetched is present.
        fallback_walks: Events,
        /// Entries of a guest that were loaded at their host-physical address.
        host_fetches: Events,
        /// Slots of the hypervisor's table of TEAs that were read: one for a register that was loaded and is used.
        slot_loads: Events,
        /// Slots that are not in use, or cover other memory of the guest: its registers name what is not theirs.
        slots_refused: Events,
    }
}

/// What the fetcher knows of the slot that a register names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
enum Slot {
    /// The register names none.
    #[default]
    None,
    /// It has not been read since the register was loaded.
    Unread(u32),
    /// The entries are at the host-physical address of the first, and so on.
    At(PhysAddr),
}

/// A register: from `start` to before `end`, the entries of pages of one size are contiguous.
#[derive(Clone, Copy, Debug, Default, State)]
struct Mapping {
    start: u64,
    end: u64,
    /// log2 of the page size.
    page: u32,
    /// The entry for `start`.
    tea: PhysAddr,
    slot: Slot,
}

impl Mapping {
    /// The register with these contents, if it is in use.
    fn decode(&[start, end, tea]: &[u64; 3]) -> Option<Mapping> {
        let page = SPANS.get((start >> 1 & 3) as usize)? - NODE_BITS;
        let slot = (tea & 0xfff).checked_sub(1).map_or(Slot::None, |slot| Slot::Unread(slot as u32));
        (start & 1 != 0).then_some(Mapping { start: start & !0xfff, end, page, tea: PhysAddr(tea & !0xfff), slot })
    }

    /// The address of the entry for `va`.
    #[inline(always)]
    fn entry(&self, va: VirtAddr) -> PhysAddr {
        self.tea.offset(((va.0 - self.start) >> self.page) * 8)
    }

    fn covers(&self, va: VirtAddr) -> bool {
        (self.start..self.end).contains(&va.0)
    }

    /// Where the entry for `start` is in host memory, if this line has a slot at `at` that covers all entries.
    fn in_host(&self, line: &[u64; 8], at: PhysAddr) -> Option<PhysAddr> {
        let (guest, bytes, host) = read_host_area(line, at)?;
        let offset = self.tea.0.checked_sub(guest.0)?;
        let entries = ((self.end - self.start) >> self.page) * 8;
        (offset + entries <= bytes).then(|| host.offset(offset))
    }
}

/// A walker that computes the addresses of entries where a register covers, and else walks the radix tree.
#[derive(State)]
pub(crate) struct DmtWalker {
    walker: TreeWalker,
    mappings: Vec<Mapping>,
    #[state(skip)]
    limit: usize,
    #[state(skip)]
    latency: u64,
    /// The entry of the latest walk, if the fetcher found it.
    entry: Option<PhysAddr>,
    /// The hypervisor's table of TEAs, in a guest.
    host_areas: PhysAddr,
    /// By address space: the epoch of its tables that the walk caches know.
    epochs: BTreeMap<Asid, u64>,
    counters: DmtCounters,
}

impl DmtWalker {
    /// A walker with empty registers and page-walk caches.
    pub(crate) fn new(spec: &DmtSpec, pwc: &PwcSpec) -> DmtWalker {
        DmtWalker {
            walker: TreeWalker::new(pwc),
            mappings: Vec::new(),
            limit: spec.registers as usize,
            latency: spec.latency,
            entry: None,
            host_areas: PhysAddr(0),
            epochs: BTreeMap::new(),
            counters: DmtCounters::default(),
        }
    }

    /// Loads the entries for `va` of all page sizes that registers cover, at once. The walk, if one of them
    /// is a page's; else the cycle at which the last is there, and the loads.
    #[inline]
    fn fetch(
        &mut self,
        va: VirtAddr,
        access: AccessKind,
        now: Cycle,
        port: &mut dyn MemoryPort,
    ) -> Result<Walk, (Cycle, u32)> {
        let (mut all, mut loads, mut found) = (now, 0, None);
        for index in 0..self.mappings.len() {
            if !self.mappings[index].covers(va) {
                continue;
            }
            let (in_host, from) = self.resolve(index, now, port, &mut loads);
            let mapping = &self.mappings[index];
            let at = mapping.entry(va);
            let in_host = in_host.map(|first| first.offset(at.0 - mapping.tea.0));
            let loaded = match in_host {
                Some(host) => port.load_guest(at, host, from),
                None => port.load(at, from),
            };
            loads += 1;
            self.counters.fetches += 1;
            self.counters.host_fetches += u64::from(in_host.is_some());
            all = all.max(loaded.ready);
            let pte = Pte(loaded.value);
            watch::meaning(at, || {
                let meaning = entry_meaning(pte, va.0 >> mapping.page & 511, NODE_BITS, mapping.page);
                meaning.address("TEA from", mapping.tea.0)
            });
            // At most one of them is a page's: sizes do not overlap.
            if let Some(size) = leaf_size(pte, mapping.page).filter(|_| pte.present()) {
                found = Some((at, in_host, pte, size, loaded.ready));
            }
        }
        let Some((at, in_host, mut pte, size, ready)) = found else { return Err((all, loads)) };
        self.counters.direct += 1;
        self.entry = Some(at);
        let bits = pte.missing_bits(access == AccessKind::Store);
        if bits != 0 {
            self.walker.counters.bit_updates += 1;
            match in_host {
                Some(host) => port.update_guest(at, host, bits, ready),
                None => port.update(at, bits, ready),
            }
            pte.0 |= bits;
        }
        port.decide(&[(in_host.unwrap_or(at), ready)]);
        Ok(Walk { outcome: WalkOutcome::Mapped(pte.translation(size)), ready, accesses: loads })
    }

    /// Where the first entry of a register is in host memory, if the hypervisor has pinned its TEA, and when that
    /// is known: at once, but for the first use after the register was loaded, which reads the slot.
    #[inline]
    fn resolve(
        &mut self,
        index: usize,
        now: Cycle,
        port: &mut dyn MemoryPort,
        loads: &mut u32,
    ) -> (Option<PhysAddr>, Cycle) {
        match self.mappings[index].slot {
            Slot::None => (None, now),
            Slot::At(host) => (Some(host), now),
            Slot::Unread(number) => self.read_slot(index, number, now, port, loads),
        }
    }

    #[cold]
    fn read_slot(
        &mut self,
        index: usize,
        number: u32,
        now: Cycle,
        port: &mut dyn MemoryPort,
        loads: &mut u32,
    ) -> (Option<PhysAddr>, Cycle) {
        // The hypervisor has no table yet, or no such slot in it.
        if self.host_areas == PhysAddr(0) || number >= MAX_HOST_AREAS {
            self.counters.slots_refused += 1;
            self.mappings[index].slot = Slot::None;
            return (None, now);
        }
        let at = host_area_slot(self.host_areas, number);
        let line = port.load_line_host(at, now);
        *loads += 1;
        if port.faulted() {
            return (None, line.ready);
        }
        self.counters.slot_loads += 1;
        let in_host = self.mappings[index].in_host(&line.words, at);
        watch::meaning(at, || {
            let meaning = Meaning::new("slots of the gTEA table", "Zhang et al., ASPLOS 2024: pvDMT");
            let meaning = meaning.field("slot", u64::from(number));
            match in_host {
                Some(host) => meaning.address("host-physical TEA from", host.0),
                None => meaning.field("covers the TEA", "no"),
            }
        });
        self.counters.slots_refused += u64::from(in_host.is_none());
        self.mappings[index].slot = in_host.map_or(Slot::None, Slot::At);
        (in_host, line.ready)
    }

    /// For a watch: which registers cover `va`.
    #[cold]
    fn tell(&self, va: VirtAddr, now: Cycle, until: Cycle) {
        watch::step(|| {
            let covers = |mapping: &&Mapping| mapping.covers(va);
            let hits: Vec<&Mapping> = self.mappings.iter().filter(covers).collect();
            let mut step = Step::look_up("VMA-to-TEA registers", !hits.is_empty(), now, until)
                .source("Zhang et al., ASPLOS 2024: registers of the DMT fetcher");
            for mapping in &hits {
                let size = PageSize::from_shift(mapping.page);
                step = step
                    .address("start", mapping.start)
                    .address("end", mapping.end)
                    .address("TEA from", mapping.tea.0)
                    .address(format!("entry of a page of {size}"), mapping.entry(va).0)
                    .shape(Shape::Interval { base: mapping.start, limit: mapping.end, at: va.0 });
            }
            match hits.len() {
                0 => step.says(format!("miss among {}: the radix tree is walked", self.mappings.len())),
                1 => step.says("the address of the entry is computed"),
                sizes => step.says(format!("the addresses of the entries for {sizes} page sizes are computed")),
            }
        });
    }
}

impl Walker for DmtWalker {
    fn load_registers(&mut self, asid: Asid, registers: &TableRegisters) {
        self.walker.load_registers(asid, registers);
        let (epoch, words) = match registers.0.get(2..) {
            Some([epoch, words @ ..]) => (*epoch, words),
            _ => (0, [].as_slice()),
        };
        if self.epochs.insert(asid, epoch).is_some_and(|known| known != epoch) {
            // Tables have moved.
            self.walker.invalidate(Invalidation::Asid(asid));
        }
        self.mappings.clear();
        self.mappings.extend(words.as_chunks::<3>().0.iter().take(self.limit).filter_map(Mapping::decode));
    }

    fn load_host_areas(&mut self, table: PhysAddr) {
        self.host_areas = table;
    }

    fn walk(&mut self, va: VirtAddr, access: AccessKind, now: Cycle, port: &mut dyn MemoryPort) -> Walk {
        self.entry = None;
        let covered = self.mappings.iter().any(|mapping| mapping.covers(va));
        let (mut from, mut loads) = (now.after(self.latency), 0);
        if watch::watched() {
            self.tell(va, now, from);
        }
        if covered {
            self.counters.register_hits += 1;
            match self.fetch(va, access, from, port) {
                Ok(walk) => return walk,
                Err(fetched) => (from, loads) = fetched,
            }
            if port.faulted() {
                return Walk { outcome: WalkOutcome::NotMapped, ready: from, accesses: loads };
            }
        } else {
            self.counters.register_misses += 1;
        }
        self.counters.fallback_walks += 1;
        let walk = self.walker.walk(va, access, from, port);
        Walk { accesses: walk.accesses + loads, ..walk }
    }

    fn leaf_pte_address(&self) -> Option<PhysAddr> {
        self.entry.or_else(|| self.walker.leaf_pte_address())
    }

    fn invalidate(&mut self, what: Invalidation) {
        self.walker.invalidate(what);
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.walker.report(prefix, sink);
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.walker.reset_counters();
        self.counters.reset();
    }
}

#[cfg(test)]
impl DmtWalker {
    /// Register hits and misses, fetches, direct walks, fallback walks.
    pub(crate) fn counters_for_test(&self) -> [u64; 5] {
        self.counters.values()[..5].try_into().unwrap_or_default()
    }
}
