//! SpecTLB: predicts that a page is in the same reservation as adjacent pages.
//!
//! Source: Barr et al., "SpecTLB: A Mechanism for Speculative Address Translation", ISCA 2011; compared with
//! in Revelator with 64 and 1024 entries.
//!
//! With reservation-based huge pages, the 4 KiB pages of a 2 MiB region that is not promoted yet are in one
//! block, each at its own offset. An entry records this block when a walk finds a page at its offset. On an
//! L2 TLB miss of another page of the region, the predicted frame is at that page's offset in the block. The
//! walk verifies the prediction, as in Revelator.

use ambulator_base::watch::{self, Shape, Step};
use ambulator_base::{
    AccessKind, Asid, CounterSink, Counters, Cycle, Invalid, PageSize, Pfn, PhysAddr, State, VirtAddr,
};
use ambulator_hardware::{Replacement, SetArray};
use ambulator_mmu::{Bus, Invalidation, Speculation, Speculator, TableRegisters, Translation};
use ambulator_sockets::{Descriptor, Parts, Settings, Socket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the SpecTLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SpecTlbSpec {
    /// Entries.
    #[schemars(range(min = 1, max = 1 << 20), extend("x-unit" = "entries", "x-source" = "Revelator Sec. 6.3 (64; Large-SpecTLB 1024)"))]
    pub(crate) entries: u32,
    /// Associativity.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "ways", "x-source" = "Revelator Table 1 (4)"))]
    pub(crate) ways: u32,
    /// Cycles of a look-up.
    #[schemars(range(max = 100), extend("x-unit" = "cycles", "x-source" = "Revelator Table 1 (4)"))]
    pub(crate) latency: u8,
}

impl Default for SpecTlbSpec {
    fn default() -> Self {
        SpecTlbSpec { entries: 64, ways: 4, latency: 4 }
    }
}

impl Settings for SpecTlbSpec {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let sets = self.entries.checked_div(self.ways).unwrap_or(0);
        if sets.is_power_of_two() && sets * self.ways == self.entries {
            return Vec::new();
        }
        vec![
            Invalid::new(
                format!("{at}.entries"),
                format!("is {} and `{at}.ways` {}: entries must be a power of two of sets", self.entries, self.ways),
            )
            .and(format!("{at}.ways")),
        ]
    }
}

ambulator_base::counters! {
    /// Counters of a SpecTLB.
    struct SpecTlbCounters {
        /// L2 TLB misses.
        probes: Events,
        /// Of these, misses with a block for their 2 MiB region.
        guesses: Events,
        /// Correct predictions.
        right: Events,
        /// Wrong predictions.
        wrong: Events,
        /// Blocks recorded.
        fills: Events,
    }
}

/// A core's SpecTLB.
#[derive(State)]
struct SpecTlb {
    #[state(skip)]
    spec: SpecTlbSpec,
    blocks: SetArray<Pfn>,
    #[state(skip)]
    sets: u64,
    asid: Asid,
    counters: SpecTlbCounters,
}

impl SpecTlb {
    /// An empty SpecTLB.
    pub(crate) fn new(spec: &SpecTlbSpec) -> SpecTlb {
        let sets = u64::from(spec.entries / spec.ways);
        SpecTlb {
            blocks: SetArray::new(sets as usize, spec.ways as usize, Replacement::Lru),
            sets,
            asid: Asid(0),
            counters: SpecTlbCounters::default(),
            spec: spec.clone(),
        }
    }

    fn place(&self, asid: Asid, va: VirtAddr) -> (usize, u64) {
        let number = va.0 >> PageSize::SIZE_2M.shift();
        ((number & (self.sets - 1)) as usize, number << 16 | u64::from(asid.0))
    }
}

impl Speculator for SpecTlb {
    fn load_registers(&mut self, asid: Asid, _registers: &TableRegisters) {
        self.asid = asid;
    }

    fn speculate(&mut self, _pc: VirtAddr, va: VirtAddr, _access: AccessKind, now: Cycle, _bus: Bus) -> Speculation {
        self.counters.probes += 1;
        let mut guess = Speculation { latency: self.spec.latency, ..Speculation::default() };
        let (set, key) = self.place(self.asid, va);
        if let Some(block) = self.blocks.lookup(set, key) {
            self.counters.guesses += 1;
            guess.data[0] = block.start().offset(va.0 & (PageSize::SIZE_2M.bytes() - 1));
            guess.data_count = 1;
        }
        watch::step(|| {
            let until = now.after(u64::from(self.spec.latency));
            let step =
                Step::look_up("SpecTLB", guess.data_count > 0, now, until).source("Barr et al., ISCA 2011").behind();
            let step = step.shape(Shape::Ways {
                set: set as u64,
                sets: self.sets,
                ways: self.blocks.ways() as u64,
                first: 0,
                used: Vec::new(),
                way: None,
            });
            match guess.data_count {
                0 => step.says("no reservation is known for this 2 MiB region"),
                _ => step.address("guessed address", guess.data[0].0),
            }
        });
        guess
    }

    fn learn(&mut self, va: VirtAddr, guessed: &Speculation, found: &Translation, _entry: Option<PhysAddr>) {
        if guessed.data_count > 0 {
            let right = guessed.data[0] == found.physical(va);
            self.counters.right += u64::from(right);
            self.counters.wrong += u64::from(!right);
        }
        let frames = PageSize::SIZE_2M.frames() - 1;
        let (set, key) = self.place(self.asid, va);
        if found.size == PageSize::SIZE_4K && (found.frame.0 ^ va.vpn().0) & frames == 0 {
            self.counters.fills += u64::from(!self.blocks.contains(set, key));
            self.blocks.insert(set, key, Pfn(found.frame.0 & !frames));
        } else if found.size == PageSize::SIZE_4K {
            self.blocks.remove(set, key);
        }
    }

    fn invalidate(&mut self, what: Invalidation) {
        match what {
            Invalidation::Page { asid, page } if page.size <= PageSize::SIZE_2M => {
                let (set, key) = self.place(asid, page.start);
                self.blocks.remove(set, key);
            }
            Invalidation::Page { asid, .. } | Invalidation::Asid(asid) => {
                self.blocks.retain(|key, _| key as u16 != asid.0);
            }
            Invalidation::All => self.blocks.clear(),
        }
    }

    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        self.counters.report(prefix, sink);
    }

    fn reset_counters(&mut self) {
        self.counters.reset();
    }
}

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "spec-tlb",
        "predicts that a page is in the same reservation as adjacent pages",
        "Barr et al., SpecTLB, ISCA 2011",
    )
    .fills(Socket::Speculation, "a table of recent reservations")
    .formerly("design.speculation.spec_tlb.", "spec_tlb.")
    .settings::<SpecTlbSpec>()
    .build(|spec, _| {
        let spec = spec.clone();
        Parts { speculator: Some(Box::new(move |_| Box::new(SpecTlb::new(&spec)))), ..Parts::default() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_reservation_are_predicted_and_others_are_not() {
        let mut tlb = SpecTlb::new(&SpecTlbSpec::default());
        let bus = Bus::default();
        let guess = |tlb: &mut SpecTlb, va: u64| {
            let guess = tlb.speculate(VirtAddr(0), VirtAddr(va), AccessKind::Load, Cycle(0), bus);
            (guess.data_count > 0).then_some(guess.data[0].0)
        };
        let found = |frame: u64, size| Translation {
            frame: Pfn(frame),
            size,
            writable: true,
            executable: false,
            dirty: false,
            ranged: false,
        };
        let block = 512 * 9;
        let va = (7 << 21) + 0x3000;
        assert_eq!(guess(&mut tlb, va), None);
        tlb.learn(VirtAddr(va), &Speculation::default(), &found(block + 3, PageSize::SIZE_4K), None);
        let other = (7 << 21) + 0x1f_e123;
        assert_eq!(guess(&mut tlb, other), Some((block << 12) + 0x1f_e123));
        let guessed = tlb.speculate(VirtAddr(0), VirtAddr(other), AccessKind::Load, Cycle(0), bus);
        tlb.learn(VirtAddr(other), &guessed, &found(block + 0x1fe, PageSize::SIZE_4K), None);
        assert_eq!((tlb.counters.right, tlb.counters.wrong), (1, 0));
        // A page elsewhere shows that there is no reservation.
        tlb.learn(VirtAddr(va), &guessed, &found(77, PageSize::SIZE_4K), None);
        assert_eq!((guess(&mut tlb, other), tlb.counters.wrong), (None, 1));
        assert_eq!(SpecTlbSpec { entries: 100, ..SpecTlbSpec::default() }.invalid("s").len(), 1);
        for def in SpecTlbCounters::DEFS {
            assert!(def.meaning.ends_with('.'), "{}", def.name);
        }
    }
}
