//! The designs by name, and how a spec becomes what sits in the sockets.

use crate::asap::{self, AsapFactory, AsapSpec};
use crate::clustered_tlb::{ClusteredSpec, ClusteredTlb};
use crate::ecpt::{self, EcptFactory, EcptSpec};
use crate::flattened::{self, FlattenedFactory, FlattenedSpec};
use crate::hashed::{self, HashedFactory, HashedSpec};
use crate::ideal::{IdealDirectory, IdealFactory, IdealSpec, IdealWalker};
use crate::lvm::{self, LvmFactory, LvmSpec};
use crate::me_hpt::{self, MeHptFactory, MeHptSpec};
use crate::midgard::{AreaLookaside, AreaTableFactory, MidgardSpec};
use crate::perfect_speculation::PerfectSpeculation;
use crate::pom_tlb::{PomLookaside, PomSpec, PomTlb};
use crate::radix::{self, RadixFactory, RadixSpec};
use crate::revelator::{
    Engine, HashPlacement, HashedLeavesFactory, HostPlacement, LeavesOf, RevelatorSpec, Shared as TierShared,
};
use crate::rmm::{DirectSegment, EagerPlacement, RangeTlb, RangesFactory, RmmSpec};
use crate::spec_tlb::{SpecTlb, SpecTlbSpec};
use crate::utopia::{RestSegWalker, Segments, TagArraysFactory, UtopiaPlacement, UtopiaSpec};
use ambulator_base::lock;
use ambulator_mmu::Lookaside;
use ambulator_os::{
    BuddyPlacement, CompanionFactory, IntermediateMapFactory, Placement, TableFactory, TranslationsFactory,
};
use ambulator_sockets::{Boot, DesignParts, NewFrontSide, NewLookaside, NewSpeculator, NewWalker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Which page table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// The radix table of x86-64.
    #[default]
    Radix,
    /// Radix with pairs of levels merged (FPT).
    Flattened,
    /// Radix with contiguous last levels and prefetching walks.
    Asap,
    /// One load for each walk, by decree.
    Ideal,
    /// A hash table resized as a whole.
    Hashed,
    /// Elastic cuckoo page tables.
    Ecpt,
    /// Memory-efficient hashed page tables.
    MeHpt,
    /// Learned virtual memory.
    Lvm,
}

/// The page-table socket: which table, and the settings of each kind (those of other kinds than `kind` are idle).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TableSpec {
    /// Which table.
    #[schemars(extend("x-unit" = "choice"))]
    pub kind: TableKind,
    /// Settings of `radix`.
    pub radix: RadixSpec,
    /// Settings of `flattened`.
    pub flattened: FlattenedSpec,
    /// Settings of `asap`.
    pub asap: AsapSpec,
    /// Settings of `ideal`.
    pub ideal: IdealSpec,
    /// Settings of `hashed`.
    pub hashed: HashedSpec,
    /// Settings of `ecpt`.
    pub ecpt: EcptSpec,
    /// Settings of `me-hpt`.
    pub me_hpt: MeHptSpec,
    /// Settings of `lvm`.
    pub lvm: LvmSpec,
}

impl TableSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right. Settings of idle kinds count
    /// too: they are what the next person switches to.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong = self.radix.validate(&format!("{at}.radix"));
        wrong.extend(self.flattened.validate(&format!("{at}.flattened")));
        wrong.extend(self.asap.validate(&format!("{at}.asap")));
        wrong.extend(self.ideal.validate(&format!("{at}.ideal")));
        wrong.extend(self.hashed.validate(&format!("{at}.hashed")));
        wrong.extend(self.ecpt.validate(&format!("{at}.ecpt")));
        wrong.extend(self.me_hpt.validate(&format!("{at}.me_hpt")));
        wrong.extend(self.lvm.validate(&format!("{at}.lvm")));
        wrong
    }

    /// Bits of a virtual address that the table translates: 48 or 57.
    pub fn va_bits(&self) -> u32 {
        ambulator_structures::tree::va_bits(match self.kind {
            TableKind::Radix => self.radix.levels,
            TableKind::Flattened => self.flattened.levels,
            TableKind::Asap => self.asap.levels,
            TableKind::Ideal => self.ideal.levels,
            TableKind::Hashed => return self.hashed.va_bits,
            TableKind::Ecpt => return self.ecpt.va_bits,
            TableKind::MeHpt => return self.me_hpt.cuckoo.va_bits,
            TableKind::Lvm => return self.lvm.va_bits,
        })
    }
}

/// What is probed beside the L2 TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookasideKind {
    /// Nothing.
    #[default]
    None,
    /// RMM's range TLB; the operating system keeps a range table beside the page table.
    RangeTlb,
    /// The largest range of the process, in registers; settings and ranges are RMM's.
    DirectSegment,
    /// A TLB whose entries hold eight neighbouring pages in one cluster of frames.
    ClusteredTlb,
    /// A very large TLB in main memory, looked up between the L2 TLB and the walk.
    PomTlb,
    /// Utopia's RestSegs: pages of sets, found by their tags.
    RestSegs,
}

impl LookasideKind {
    /// Whether it answers with addresses from tables of its own, which in a virtual machine would be the guest's. The others hold
    /// what a two-dimensional walk came to.
    pub fn answers_for_the_machine(self) -> bool {
        matches!(self, LookasideKind::DirectSegment | LookasideKind::RestSegs)
    }

    /// The name that specs use.
    pub fn name(self) -> &'static str {
        match self {
            LookasideKind::None => "none",
            LookasideKind::RangeTlb => "range-tlb",
            LookasideKind::DirectSegment => "direct-segment",
            LookasideKind::ClusteredTlb => "clustered-tlb",
            LookasideKind::PomTlb => "pom-tlb",
            LookasideKind::RestSegs => "rest-segs",
        }
    }
}

/// The lookaside socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LookasideSpec {
    /// What is probed beside the L2 TLB.
    #[schemars(extend("x-unit" = "choice"))]
    pub kind: LookasideKind,
    /// The range TLB, the range table behind it, and eager paging (RMM).
    pub rmm: RmmSpec,
    /// Settings of `clustered-tlb`.
    pub clustered: ClusteredSpec,
    /// Settings of `pom-tlb`.
    pub pom: PomSpec,
    /// RestSegs, their structures and caches, and who goes into them (Utopia).
    pub utopia: UtopiaSpec,
}

/// What guesses on an L2 TLB miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpeculationKind {
    /// Nothing.
    #[default]
    None,
    /// Revelator's engine: the tiers of the kernel's hash allocation.
    Revelator,
    /// The block of the page's neighbours.
    SpecTlb,
    /// Where the data is, always.
    Perfect,
}

/// The speculation socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeculationSpec {
    /// What guesses on an L2 TLB miss.
    #[schemars(extend("x-unit" = "choice"))]
    pub kind: SpeculationKind,
    /// Tiers of hash allocation, and what is guessed from them (Revelator).
    pub revelator: RevelatorSpec,
    /// Settings of `spec-tlb`.
    pub spec_tlb: SpecTlbSpec,
}

/// Where the kernel places pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementKind {
    /// Wherever the buddy allocator has room.
    #[default]
    Buddy,
    /// RMM's eager paging: pages of a whole request at once, in blocks as large as there are; its settings are
    /// `design.lookaside.rmm`.
    Eager,
    /// Revelator's: the frames that a hash of the page names, tier by tier, then wherever the buddy allocator has room; its settings are
    /// `design.speculation.revelator`.
    TieredHash,
    /// Utopia's: into a RestSeg where its set has room or makes some, otherwise wherever the buddy allocator has room; its settings are
    /// `design.lookaside.utopia`.
    RestSegs,
}

/// The placement socket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementSpec {
    /// Where the kernel places pages.
    #[schemars(extend("x-unit" = "choice"))]
    pub kind: PlacementKind,
}

/// What translates before the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FrontSideKind {
    /// Nothing: pages are translated before the caches.
    #[default]
    None,
    /// Midgard: areas before the caches, pages behind the last level.
    Midgard,
}

/// The socket before the caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FrontSideSpec {
    /// What translates before the caches.
    #[schemars(extend("x-unit" = "choice"))]
    pub kind: FrontSideKind,
    /// Settings of `midgard`.
    pub midgard: MidgardSpec,
}

/// A translation design: what is in each socket. A published system is a preset of this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DesignSpec {
    /// The page table.
    pub page_table: TableSpec,
    /// What is probed beside the L2 TLB.
    pub lookaside: LookasideSpec,
    /// What guesses on an L2 TLB miss.
    pub speculation: SpeculationSpec,
    /// Where the kernel places pages.
    pub placement: PlacementSpec,
    /// What translates before the caches.
    pub front_side: FrontSideSpec,
}

impl DesignSpec {
    /// Sentences that say what is wrong with the spec at key `at`, none when it is right. A spec without any can be built.
    pub fn validate(&self, at: &str) -> Vec<String> {
        let mut wrong = self.page_table.validate(&format!("{at}.page_table"));
        wrong.extend(self.lookaside.rmm.validate(&format!("{at}.lookaside.rmm")));
        wrong.extend(self.lookaside.clustered.validate(&format!("{at}.lookaside.clustered")));
        wrong.extend(self.front_side.midgard.validate(&format!("{at}.front_side.midgard")));
        if self.front_side.kind == FrontSideKind::Midgard
            && (self.lookaside.kind != LookasideKind::None || self.speculation.kind != SpeculationKind::None)
        {
            wrong.push(format!(
                "`{at}.front_side.kind` is \"midgard\": there is no L2 TLB before the caches beside which something could be probed, or guess; leave \
                 `{at}.lookaside.kind` and `{at}.speculation.kind` at \"none\""
            ));
        }
        let (table, ranges) = (self.page_table.va_bits(), self.lookaside.rmm.va_bits);
        wrong.extend(self.speculation.revelator.validate(&format!("{at}.speculation.revelator")));
        wrong.extend(self.speculation.spec_tlb.validate(&format!("{at}.speculation.spec_tlb")));
        wrong.extend(self.lookaside.pom.validate(&format!("{at}.lookaside.pom")));
        wrong.extend(self.lookaside.utopia.validate(&format!("{at}.lookaside.utopia")));
        let (walked, placed) =
            (self.lookaside.kind == LookasideKind::RestSegs, self.placement.kind == PlacementKind::RestSegs);
        if walked != placed {
            wrong.push(format!(
                "`{at}.lookaside.kind` and `{at}.placement.kind` must both be \"rest-segs\", or neither: pages in RestSegs are found by their walker alone"
            ));
        }
        if walked && self.lookaside.utopia.va_bits != self.page_table.va_bits() {
            wrong.push(format!(
                "`{at}.lookaside.utopia.va_bits` is {} and the page table translates {} bits: make them the same",
                self.lookaside.utopia.va_bits,
                self.page_table.va_bits()
            ));
        }
        let ranged = matches!(self.lookaside.kind, LookasideKind::RangeTlb | LookasideKind::DirectSegment);
        if ranged && table != ranges {
            wrong.push(format!(
                "`{at}.lookaside.rmm.va_bits` is {ranges} and the page table translates {table} bits: make them the same"
            ));
        }
        wrong
    }
}

fn build_table(spec: &TableSpec) -> (Box<dyn TableFactory>, NewWalker) {
    match spec.kind {
        TableKind::Radix => {
            let spec = spec.radix.clone();
            (Box::new(RadixFactory::new(&spec)), Box::new(move |_| radix::walker(&spec)))
        }
        TableKind::Flattened => {
            let spec = spec.flattened.clone();
            (Box::new(FlattenedFactory::new(&spec)), Box::new(move |_| flattened::walker(&spec)))
        }
        TableKind::Asap => {
            let spec = spec.asap.clone();
            (Box::new(AsapFactory::new(&spec)), Box::new(move |_| asap::walker(&spec)))
        }
        TableKind::Ideal => {
            let directory = IdealDirectory::default();
            (
                Box::new(IdealFactory::new(&spec.ideal, directory.clone())),
                Box::new(move |_| Box::new(IdealWalker::new(directory.clone()))),
            )
        }
        TableKind::Hashed => {
            let spec = spec.hashed.clone();
            (Box::new(HashedFactory::new(&spec)), Box::new(move |_| hashed::walker(&spec)))
        }
        TableKind::Ecpt => {
            let spec = spec.ecpt.clone();
            (Box::new(EcptFactory::new(&spec)), Box::new(move |_| ecpt::walker(&spec)))
        }
        TableKind::MeHpt => {
            let spec = spec.me_hpt.clone();
            (Box::new(MeHptFactory::new(&spec)), Box::new(move |_| me_hpt::walker(&spec)))
        }
        TableKind::Lvm => {
            let spec = spec.lvm.clone();
            (Box::new(LvmFactory::new(&spec)), Box::new(move |_| lvm::walker(&spec)))
        }
    }
}

/// The parts of a design. `spec` has been validated.
pub fn build(spec: &DesignSpec) -> DesignParts {
    build_for(spec, &TierShared::default(), None)
}

/// The parts of a design in a virtual machine: the guest's, and those of the hypervisor around a table of its own. `spec` has been validated.
pub fn build_nested(spec: &DesignSpec, host_table: &TableSpec) -> (DesignParts, DesignParts) {
    let tiers = TierShared::default();
    let guest = build_for(spec, &tiers, Some(host_table));
    let mut host = build(&DesignSpec { page_table: host_table.clone(), ..DesignSpec::default() });
    if spec.placement.kind == PlacementKind::TieredHash {
        let revelator = &spec.speculation.revelator;
        host.placement = Box::new(HostPlacement::new(revelator, TierShared::clone(&tiers)));
        if revelator.nested && host_table.kind == TableKind::Radix {
            host.translations.tables = Box::new(HashedLeavesFactory::new(
                LeavesOf::Host,
                host_table.va_bits(),
                revelator,
                TierShared::clone(&tiers),
            ));
        }
    }
    (guest, host)
}

/// The parts of a design; in a virtual machine, whose hypervisor has that table.
fn build_for(spec: &DesignSpec, tiers: &TierShared, host: Option<&TableSpec>) -> DesignParts {
    let (mut tables, new_walker) = build_table(&spec.page_table);
    let rmm = spec.lookaside.rmm.clone();
    let tiers = TierShared::clone(tiers);
    // Of other tables than radix no lines are guessed.
    let mut revelator = spec.speculation.revelator.clone();
    revelator.nested &= host.is_some_and(|table| table.kind == TableKind::Radix);
    let guesses = spec.speculation.kind == SpeculationKind::Revelator && spec.page_table.kind == TableKind::Radix;
    if guesses && (revelator.table || revelator.nested) {
        let of = if host.is_some() { LeavesOf::Guest } else { LeavesOf::Machine };
        let va_bits = spec.page_table.va_bits();
        tables = Box::new(HashedLeavesFactory::new(of, va_bits, &revelator, TierShared::clone(&tiers)));
    }
    let utopia = spec.lookaside.utopia.clone();
    let segments = Arc::new(Mutex::new(Segments::new(&utopia)));
    let placement: Box<dyn Placement> = match spec.placement.kind {
        PlacementKind::Buddy => Box::new(BuddyPlacement),
        PlacementKind::Eager => Box::new(EagerPlacement::new(&rmm)),
        PlacementKind::TieredHash if host.is_some() => {
            Box::new(HashPlacement::of_guest(&revelator, TierShared::clone(&tiers)))
        }
        PlacementKind::TieredHash => Box::new(HashPlacement::new(&revelator, TierShared::clone(&tiers))),
        PlacementKind::RestSegs => Box::new(UtopiaPlacement::new(&utopia, Arc::clone(&segments))),
    };
    let mut boot: Option<Boot> = None;
    let mut companions: Vec<Box<dyn CompanionFactory>> = Vec::new();
    let mut intermediate: Option<Box<dyn IntermediateMapFactory>> = None;
    let new_lookaside: NewLookaside = match spec.lookaside.kind {
        LookasideKind::None => Box::new(|_| None),
        LookasideKind::RangeTlb => {
            companions.push(Box::new(RangesFactory::new(&rmm)));
            Box::new(move |_| Some(Box::new(RangeTlb::new(&rmm))))
        }
        LookasideKind::DirectSegment => {
            companions.push(Box::new(RangesFactory::for_segment(&rmm)));
            Box::new(move |_| Some(Box::new(DirectSegment::new(&rmm))))
        }
        LookasideKind::PomTlb => {
            let shared = Arc::new(Mutex::new(PomTlb::new(&spec.lookaside.pom)));
            let reserved = Arc::clone(&shared);
            boot = Some(Box::new(move |frames| lock(&reserved).reserve(frames)));
            Box::new(move |_| Some(Box::new(PomLookaside::new(Arc::clone(&shared)))))
        }
        LookasideKind::RestSegs => {
            companions.push(Box::new(TagArraysFactory::new(Arc::clone(&segments))));
            if utopia.ranges {
                companions.push(Box::new(RangesFactory::new(&rmm)));
            }
            let uses = lock(&segments).uses();
            boot = Some(Box::new(move |frames| lock(&segments).reserve(frames)));
            Box::new(move |_| {
                let beside = || -> Box<dyn Lookaside> { Box::new(RangeTlb::new(&rmm)) };
                Some(Box::new(RestSegWalker::new(&utopia, uses.clone(), utopia.ranges.then(beside))))
            })
        }
        LookasideKind::ClusteredTlb => {
            let clustered = spec.lookaside.clustered.clone();
            Box::new(move |_| Some(Box::new(ClusteredTlb::new(&clustered))))
        }
    };
    let new_speculator: NewSpeculator = match spec.speculation.kind {
        SpeculationKind::None => Box::new(|_| None),
        SpeculationKind::Revelator => {
            let table = revelator.table && guesses;
            let (revelator, nested) = (RevelatorSpec { table, ..revelator }, host.is_some());
            Box::new(move |_| Some(Box::new(Engine::new(&revelator, nested, TierShared::clone(&tiers)))))
        }
        SpeculationKind::SpecTlb => {
            let spec = spec.speculation.spec_tlb.clone();
            Box::new(move |_| Some(Box::new(SpecTlb::new(&spec))))
        }
        SpeculationKind::Perfect => Box::new(|_| Some(Box::new(PerfectSpeculation))),
    };
    let midgard = spec.front_side.midgard.clone();
    let new_front_side: NewFrontSide = match spec.front_side.kind {
        FrontSideKind::None => Box::new(|_| None),
        FrontSideKind::Midgard => {
            intermediate = Some(Box::new(AreaTableFactory::default()));
            Box::new(move |_| Some((Box::new(AreaLookaside::new(&midgard)), midgard.mlb_entries)))
        }
    };
    let translations = TranslationsFactory { tables, companions, intermediate };
    DesignParts { translations, placement, new_walker, new_lookaside, new_speculator, new_front_side, boot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_design_is_radix_and_right() {
        let spec = DesignSpec::default();
        assert_eq!(spec.page_table.kind, TableKind::Radix);
        assert_eq!(spec.validate("design"), Vec::<String>::new());
        assert_eq!(spec.page_table.va_bits(), 48);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        let mut spec = DesignSpec::default();
        spec.page_table.radix.levels = 3;
        spec.page_table.flattened.pwc.ways = 5;
        spec.page_table.asap.pwc.pde_entries = 4096;
        spec.page_table.ideal.levels = 6;
        let wrong = spec.validate("design");
        for key in [
            "`design.page_table.radix.levels` is 3",
            "`design.page_table.flattened.pwc.pde_entries` is 32",
            "`design.page_table.asap.pwc.pde_entries` is 4096",
            "`design.page_table.ideal.levels` is 6",
        ] {
            assert!(wrong.iter().any(|said| said.contains(key)), "{key}: {wrong:?}");
        }
    }

    #[test]
    fn every_kind_has_a_line_in_the_list() {
        for name in [
            "radix",
            "flattened",
            "asap",
            "ideal",
            "hashed",
            "ecpt",
            "me-hpt",
            "lvm",
            "range-tlb",
            "midgard",
            "eager",
            "buddy",
        ] {
            assert_eq!(crate::list().iter().filter(|info| info.name == name).count(), 1);
        }
    }
}
