//! DMT: the entries that map the pages of a VMA are contiguous in physical memory, so that hardware computes
//! the address of an entry and loads it, instead of walking to it.
//!
//! Source: Zhang et al., "Direct Memory Translation for Virtualized Clouds", ASPLOS 2024. The text at hand
//! was its abstract, and the kernel and the scripts that its authors published (`mm/hyperlane.c`); what comes
//! from the kernel says so, and what neither says is a choice.
//!
//! - OS half: [`Tree`] with the `Teas` of its process, in `teas.rs`. A Translation Entry Area (TEA,
//!   `tea.rs`) is a run of frames that are at the same time the tables of a level of the radix tree, in the
//!   order of their addresses. So both stay coherent at no cost: an entry exists once. There is a TEA for
//!   each page size: the tables of the last level, of the directories, and of the directory pointers.
//! - VMAs are clustered (`areas.rs`, `teas.rs`): neighbours share a TEA if at most a share `bubbles` of its
//!   tables belongs to no VMA (2% in the kernel: `HPL_MERGE_THRESHOLD`). VMAs below `min_vma` have no TEA
//!   (`HPL_VMA_THRESHOLD`).
//! - A TEA grows in place if the frames next to it are free, and otherwise migrates to a larger run, which it
//!   doubles if memory allows (`hpl_seg_append`, `hpl_seg_migrate`, `hpl_page_check`). It shrinks and splits
//!   with its VMAs. Without contiguous memory it is divided in halves.
//! - Paravirtualisation (pvDMT): the tables of a guest ask the hypervisor, through a hypercall, to back the frames
//!   of a TEA with contiguous host frames and to pin them (`KVM_HC_ALLOC_TEA` in the authors' kernel, which says
//!   `gva`, `gpa`, the number of pages, and whether they are freed). The hypervisor puts guest-physical and
//!   host-physical address and length into a slot of its table (`ambulator_os::HostAreas`, the gTEA table), of
//!   which there are 16 (`TEA_MAX_CNT`), and returns the number of the slot. A register of the guest holds that
//!   number and no host-physical address. A walk is two loads then: the guest's entry, and the hypervisor's entry
//!   for the page. Refused (no slot, no contiguous memory), it is three, as without.
//! - Hardware half: `DmtWalker` in `walker.rs`: 16 registers, the fetcher, and the x86 walker for what no
//!   register covers.
//!
//! Choices.
//! - A TEA is reserved when its VMA is created; the authors' kernel does so when the VMA needs its first
//!   table.
//! - A TEA takes at most an eighth of free memory, and a VMA is divided into no more TEAs than there are
//!   registers.
//! - A register covers whole tables. A table that two VMAs share is in one TEA, and serves both.
//! - A register is in use only while its TEA holds entries of pages: those of 2 MiB cost a process nothing
//!   that has none.
//! - An entry that is not present is looked for by the x86 walker: a page fault is never the fetcher's word,
//!   because the page may have a size without a TEA.
//! - The guest asks when a TEA gets its first entries of pages, not when it is reserved: TEAs of page sizes that
//!   it does not use take no slot.
//! - Host frames are not freed with a TEA, but unpinned: they stay the guest's memory. In the authors' kernel
//!   TEAs have guest-physical addresses of their own, and the frames are freed.
//! - The fetcher reads a slot at the first use of a register after it was loaded, and keeps it: one more load
//!   then. It uses the slot only for guest-physical addresses that the slot covers, and else translates them.
//! - Tables that move are told to the walk caches by an epoch in the registers: a core that loads the
//!   registers of a process with a new epoch drops what its walk caches have of it. Cores that run it at that
//!   moment are interrupted; the ledger is charged for a shootdown.

mod areas;
mod tea;
mod teas;
#[cfg(test)]
mod tests;
mod walker;

use teas::Teas;
use walker::DmtWalker;

use ambulator_base::Invalid;
use ambulator_os::MAX_HOST_AREAS;
use ambulator_sockets::{Claims, Descriptor, HypervisorParts, Parts, Settings, Site, Socket, Stage, TableParts};
use ambulator_structures::tree::Tree;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of DMT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DmtSpec {
    /// Registers with mappings from VMAs to TEAs; the largest VMAs get them.
    #[schemars(range(max = 256), extend("x-unit" = "entries", "x-source" = "DMT: 16, as HPL_SEG_LIMIT in the authors' kernel"))]
    pub(crate) registers: u32,
    /// Cycles to compare an address with all registers and to compute the addresses of its entries.
    #[schemars(range(max = 100), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub(crate) latency: u64,
    /// The smallest VMA that has a TEA.
    #[schemars(range(min = 4096, max = 1_u64 << 57), extend("x-unit" = "bytes", "x-source" = "HPL_VMA_THRESHOLD in the authors' kernel (64 MiB)"))]
    pub(crate) min_vma: u64,
    /// The largest share of a TEA's tables that belong to no VMA, where VMAs share the TEA.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "HPL_MERGE_THRESHOLD in the authors' kernel (98% occupied)"))]
    pub(crate) bubbles: f64,
    /// Cycles to save or to restore a register at a context switch.
    #[schemars(range(max = 10_000), extend("x-unit" = "cycles", "x-source" = "our choice: three words of a register each"))]
    pub(crate) switch_cycles: u64,
    /// The page tables of a guest ask the hypervisor for contiguous host memory (pvDMT), so that a walk
    /// loads their entries without translating the address of the entry.
    #[schemars(extend("x-unit" = "flag", "x-source" = "DMT: KVM_HC_ALLOC_TEA in the authors' kernel"))]
    pub(crate) paravirtual: bool,
    /// TEAs of a guest that the hypervisor backs with contiguous memory at once: slots of its table.
    #[schemars(range(max = MAX_HOST_AREAS), extend("x-unit" = "entries", "x-source" = "DMT: TEA_MAX_CNT in the authors' kernel"))]
    pub(crate) gteas: u32,
}

impl Default for DmtSpec {
    fn default() -> Self {
        DmtSpec {
            registers: 16,
            latency: 1,
            min_vma: 64 << 20,
            bubbles: 0.02,
            switch_cycles: 3,
            paravirtual: false,
            gteas: 16,
        }
    }
}

impl Settings for DmtSpec {
    fn validate_on(&self, at: &str, site: &Site) -> Vec<Invalid> {
        let alone = self.paravirtual && site.stage == Stage::Native;
        let wrong = || {
            let message = "is true, and there is no hypervisor to ask: set `virtualization.mode` to \"nested\"";
            Invalid::new(format!("{at}.paravirtual"), message).and("virtualization.mode")
        };
        alone.then(wrong).into_iter().collect()
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "dmt",
        "entries contiguous for each VMA and page size: hardware computes an entry's address and loads it",
        "Zhang et al., Direct Memory Translation for Virtualized Clouds, ASPLOS 2024",
    )
    .fills(Socket::PageTable, "one load for each page size in use; a radix walk where no register covers")
    // One for each page size, and then a walk of five levels.
    .claims(Claims { max_loads: 8, ..Claims::default() })
    .settings::<DmtSpec>()
    .build(|spec, site| {
        let (os, hardware, va_bits, pwc) = (spec.clone(), spec.clone(), site.va_bits, site.pwc);
        let calls = spec.paravirtual && matches!(site.stage, Stage::Guest { .. });
        let page_table = TableParts::new(
            move |process, _, context| {
                let caller = calls.then_some(process);
                Ok(Box::new(Tree::new(Teas::new(&os, caller), va_bits, context)?))
            },
            move |_| Box::new(DmtWalker::new(&hardware, &pwc)),
        );
        let host_areas = if calls { spec.gteas } else { 0 };
        let hypervisor = HypervisorParts { host_areas, ..HypervisorParts::default() };
        Parts { page_table: Some(page_table), hypervisor, ..Parts::default() }
    })
}
