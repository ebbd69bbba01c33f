//! Midgard: areas of virtual memory are translated before the caches, pages after them.
//!
//! Source: Gupta et al., "Rebooting Virtual Memory with Midgard", ISCA 2021; compared with in LVM Sec. 7.5.2.
//!
//! - The Midgard address space, and the allocation of areas in it: `space.rs`.
//! - OS half: `AreaTable` in `table.rs` maintains a B-tree of areas (the VMA table). Any page table may then
//!   map Midgard addresses.
//! - Hardware half: `AreaLookaside` in `front_side.rs` (the VLBs and their walker). The MMU does the page
//!   walk after the last-level cache (`ambulator_mmu::Mmu::back_side`), with the page table's walker.
//!
//! Choices.
//! - The VMA table is RMM's B-tree of ranges: the same entries (base, limit, offset), in the same bytes.
//! - Each VMA, as the kernel has merged it, is one Midgard area, with room on both sides to grow by as much
//!   as it has. One that grows beyond that goes on in another area, with as much room again. Areas are not
//!   moved, and their addresses are not reused, so a hole that is filled has an area of its own. VMAs shared
//!   after a fork have one area in each process.
//! - The page walker stands at the last-level cache. Its loads take that cache's latency without the way from
//!   the core, for which the L2's latency stands (`walker_nearer`).
//! - "An ideal Midgard that does not include any OS overheads" (LVM Sec. 7.5.2): rights are the area's; a
//!   page that is not present, or must be copied, faults as in the other designs. Write-backs from the
//!   last-level cache know their page without a walk.
//! - Each process has its own page table, indexed by Midgard address.

mod front_side;
mod space;
mod table;
#[cfg(test)]
mod tests;

use front_side::AreaLookaside;
use space::MidgardSpace;
use table::AreaTable;

use ambulator_base::{Asid, FRAME_BYTES, Invalid, ProcessId};
use ambulator_os::{IntermediateMap, IntermediateMapFactory, MapError, TableContext};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Settings of Midgard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MidgardSpec {
    /// Pages of the first-level VMA look-aside buffer, looked up in parallel with the L1 cache's index.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "entries", "x-source" = "Midgard Sec. 5 (as the L1 TLB)"))]
    pub(crate) l1_entries: u32,
    /// Its associativity; 0 is fully associative.
    #[schemars(range(max = 256), extend("x-unit" = "ways", "x-source" = "Midgard Sec. 5"))]
    pub(crate) l1_ways: u32,
    /// Areas of the second-level VMA look-aside buffer, fully associative.
    #[schemars(range(min = 1, max = 4096), extend("x-unit" = "entries", "x-source" = "Midgard Sec. 5 (16)"))]
    pub(crate) l2_entries: u32,
    /// Cycles of a look-up in the second-level buffer.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend("x-unit" = "cycles", "x-source" = "Midgard Sec. 5 (3)"))]
    pub(crate) l2_latency: u64,
    /// Pages of a look-aside buffer after the last-level cache (the MLB); 0 for no such buffer.
    #[schemars(range(max = 1 << 20), extend("x-unit" = "entries", "x-source" = "our choice: none; Midgard Sec. 5 has it as an option"))]
    pub(crate) mlb_entries: u32,
    /// Cycles that a load of the page walker saves because the walker stands at the last-level cache: what is
    /// left of that cache's latency, which is a round trip from the core, is the look-up. 0 for a walker at
    /// the core.
    #[schemars(range(max = ambulator_hardware::MAX_LATENCY), extend(
        "x-unit" = "cycles",
        "x-source" = "Midgard Sec. 4: the walker is at the last level; LVM Table 1's L2 latency, the way to it"
    ))]
    pub(crate) walker_nearer: u64,
}

impl Default for MidgardSpec {
    fn default() -> Self {
        MidgardSpec { l1_entries: 64, l1_ways: 4, l2_entries: 16, l2_latency: 3, mlb_entries: 0, walker_nearer: 20 }
    }
}

impl Settings for MidgardSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let mut wrong = ambulator_mmu::TlbSpec::new(self.l1_entries, self.l1_ways)
            .validate_keys(&format!("{at}.l1_entries"), &format!("{at}.l1_ways"));
        if self.mlb_entries > 0 {
            // The associativity is fixed.
            let entries = format!("{at}.mlb_entries");
            wrong.extend(ambulator_mmu::TlbSpec::new(self.mlb_entries, 4).validate_keys(&entries, &entries));
        }
        wrong
    }
}

/// Creates the VMA tables of processes, which share the Midgard address space.
#[derive(Default)]
struct AreaTableFactory {
    space: Arc<Mutex<MidgardSpace>>,
}

impl IntermediateMapFactory for AreaTableFactory {
    fn new_map(
        &mut self,
        _process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn IntermediateMap>, MapError> {
        match AreaTable::new(Arc::clone(&self.space), os) {
            Some(areas) => Ok(Box::new(areas)),
            None => Err(MapError::NoMemory { bytes: FRAME_BYTES }),
        }
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "midgard",
        "areas are translated before the caches, pages after the last level by any page table",
        "Gupta et al., Rebooting Virtual Memory with Midgard, ISCA 2021",
    )
    .fills(Socket::FrontSide, "look-aside buffers for areas, and a B-tree of them")
    .native_only("it is modelled only for programs that run on the machine itself")
    .formerly("design.front_side.midgard.", "midgard.")
    .settings::<MidgardSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts {
            intermediate: Some(Box::new(AreaTableFactory::default())),
            front_side: Some(Box::new(move |_| (Box::new(AreaLookaside::new(&spec)), spec.mlb_entries))),
            ..Parts::default()
        }
    })
}
