//! The hypervisor's side of paravirtualised tables: areas of guest memory in contiguous pinned frames, and the
//! table in host memory that tells hardware of them.
//!
//! A guest names an area by its slot and never by an address of the machine, and hardware compares the guest
//! addresses that it is asked for with the slot: so no guest reads what is not its own.

use crate::{Kernel, LedgerCause, OsError};
use ambulator_base::{CounterSink, Counters, FRAME_BYTES, Pfn, PhysAddr, ProcessId, State, VirtAddr};

/// Bytes of a slot: the first guest-physical address with "present" in bit 0, the bytes of the area, its first
/// host-physical address, and a word that is 0.
const SLOT_BYTES: u64 = 32;
/// The most slots: the table is a frame.
pub const MAX_HOST_AREAS: u32 = (FRAME_BYTES / SLOT_BYTES) as u32;

/// The address of a slot in the table of host areas.
pub fn host_area_slot(table: PhysAddr, slot: u32) -> PhysAddr {
    table.offset(u64::from(slot) * SLOT_BYTES)
}

/// What hardware reads of a slot in the line that holds it, if it is in use: the area's first guest-physical
/// address, its bytes, and its first host-physical address.
pub fn read_host_area(line: &[u64; 8], slot: PhysAddr) -> Option<(PhysAddr, u64, PhysAddr)> {
    let at = (slot.0 % 64 / 8) as usize;
    let [guest, bytes, host] = [line[at], line[at + 1], line[at + 2]];
    (guest & 1 != 0).then_some((PhysAddr(guest & !1), bytes, PhysAddr(host)))
}

ambulator_base::counters! {
    /// Counters of the hypervisor's work for the tables of its guests.
    pub struct HostAreaCounters {
        /// Calls of guests to the hypervisor.
        hypercalls: Events,
        /// Areas of guest memory backed with contiguous frames, and pinned.
        areas_backed: Events,
        /// Areas that the guest needed no more.
        areas_released: Events,
        /// Requests refused because all slots of the table were in use.
        refused_no_slot: Events,
        /// Requests refused for lack of contiguous memory.
        refused_no_memory: Events,
        /// Base pages that moved into an area's frames.
        pages_moved: Events,
        /// Base pages of areas that were not backed before.
        pages_fresh: Events,
    }
}

ambulator_base::counters! {
    /// The current areas.
    pub struct HostAreasNow {
        /// Areas of guest memory in contiguous pinned frames.
        areas: Events gauge,
        /// Bytes of them.
        area_bytes: Bytes gauge,
    }
}

/// An area; one without frames is a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, State)]
struct Area {
    /// The first guest frame.
    first: Pfn,
    frames: u64,
    /// The first host frame.
    host: Pfn,
}

impl Area {
    fn start(self) -> VirtAddr {
        VirtAddr(self.first.start().0)
    }
}

/// The areas of a virtual machine, by slot.
#[derive(Default, State)]
pub struct HostAreas {
    slots: Vec<Area>,
    /// The frame of the table, once there was an area.
    table: Option<Pfn>,
    /// The counters so far.
    pub counters: HostAreaCounters,
}

impl HostAreas {
    /// A table of so many slots, at most [`MAX_HOST_AREAS`], all free.
    pub fn new(slots: u32) -> HostAreas {
        let slots = vec![Area::default(); slots.min(MAX_HOST_AREAS) as usize];
        HostAreas { slots, table: None, counters: HostAreaCounters::default() }
    }

    /// The address of the table in host memory; `None` before the first area.
    pub fn table(&self) -> Option<PhysAddr> {
        self.table.map(Pfn::start)
    }

    /// Serves [`crate::Hypercall::Back`] in the hypervisor: backs the guest's frames with contiguous ones and
    /// pins them. Returns the slot; `None` if none is free, or if there is no contiguous memory.
    ///
    /// # Errors
    /// A guest that asks for memory that it does not have, or for an area that overlaps another one; a table of
    /// the hypervisor that violated an invariant.
    pub fn back(
        &mut self,
        hypervisor: &mut Kernel,
        machine: ProcessId,
        first: Pfn,
        frames: u64,
    ) -> Result<Option<u32>, OsError> {
        self.charge_call(hypervisor);
        let overlaps = |own: &Area| first.0 < own.first.0 + own.frames && own.first.0 < first.0 + frames;
        if let Some(other) = self.slots.iter().find(|own| overlaps(own)) {
            return Err(OsError::BadCall(format!(
                "the guest asked for contiguous memory for {frames} frames from {first:?} on, and {other:?} is there"
            )));
        }
        let Some(slot) = self.slots.iter().position(|own| own.frames == 0) else {
            self.counters.refused_no_slot += 1;
            return Ok(None);
        };
        if self.table.is_none() {
            self.table = hypervisor.frames.allocate_unmovable();
        }
        let start = VirtAddr(first.start().0);
        let Some(table) = self.table else {
            self.counters.refused_no_memory += 1;
            return Ok(None);
        };
        let Some((host, gathered)) = hypervisor.back_contiguously(machine, start, frames)? else {
            self.counters.refused_no_memory += 1;
            return Ok(None);
        };
        self.slots[slot] = Area { first, frames, host };
        let words = [start.0 | 1, frames * FRAME_BYTES, host.start().0, 0];
        hypervisor.memory.write_words(host_area_slot(table.start(), slot as u32), &words);
        self.counters.areas_backed += 1;
        self.counters.pages_moved += gathered.moved;
        self.counters.pages_fresh += gathered.fresh;
        Ok(Some(slot as u32))
    }

    /// Serves [`crate::Hypercall::Release`]: unpins the area that begins at this guest frame, if there is one.
    /// Its pages stay where they are.
    pub fn release(&mut self, hypervisor: &mut Kernel, machine: ProcessId, first: Pfn) {
        self.charge_call(hypervisor);
        let Some(slot) = self.slots.iter().position(|own| own.frames > 0 && own.first == first) else { return };
        let area = std::mem::take(&mut self.slots[slot]);
        hypervisor.unpin(machine, area.start(), area.frames);
        if let Some(table) = self.table {
            hypervisor.memory.write_words(host_area_slot(table.start(), slot as u32), &[0; 4]);
        }
        self.counters.areas_released += 1;
    }

    fn charge_call(&mut self, hypervisor: &mut Kernel) {
        self.counters.hypercalls += 1;
        hypervisor.ledger.charge(LedgerCause::Syscall, hypervisor.costs.hypercall);
    }

    /// Checks that the hypervisor has each page of each area where the area says, and that the bytes of the
    /// table say the same.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub fn check(&self, hypervisor: &Kernel, machine: ProcessId) -> Result<(), String> {
        for (slot, area) in self.slots.iter().enumerate() {
            let Some(table) = self.table else { continue };
            let at = host_area_slot(table.start(), slot as u32);
            let told = read_host_area(&hypervisor.memory.line(at), at);
            let is = (area.frames > 0).then(|| (area.first.start(), area.frames * FRAME_BYTES, area.host.start()));
            if told != is {
                return Err(format!("slot {slot} of the table of host areas says {told:?}, and it is {is:?}"));
            }
            if area.frames > 0 && hypervisor.contiguous(machine, area.start(), area.frames) != Some(area.host) {
                return Err(format!("{area:?} of the guest is not where it was pinned"));
            }
        }
        Ok(())
    }

    /// Sets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.counters.reset();
    }

    /// Reports the counters to `sink`, if there is a table.
    pub fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        if self.slots.is_empty() {
            return;
        }
        self.counters.report(prefix, sink);
        let now = HostAreasNow {
            areas: self.slots.iter().filter(|area| area.frames > 0).count() as u64,
            area_bytes: self.slots.iter().map(|area| area.frames * FRAME_BYTES).sum(),
        };
        now.report(prefix, sink);
    }
}
