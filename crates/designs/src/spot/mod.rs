//! SpOT: an instruction's next access has the same offset between virtual and physical address as its last
//! one, where mappings are contiguous. So a small table, indexed by the instruction, predicts translations.
//!
//! Source: Alverti et al., "Enhancing and Exploiting Contiguity for Fast Memory Virtualization", ISCA 2020,
//! its hardware half. Its software half is the placement `ca-paging`. The text at hand was the abstract; what
//! the table does comes from descriptions of the paper and from a public implementation that cites its page
//! 521, and says so.
//!
//! - Hardware half: `predictor.rs`, the prediction table.
//! - OS half: `marks.rs`, the contiguity bit in entries, which keeps small mappings out of the table.
//!
//! On an L2 TLB miss of a load, the table predicts the physical address. The load asks for its data at once
//! and its value goes to the instructions that wait for it, while the walk verifies in the background
//! (`Speculation::computes`). The load commits no earlier than the walk ends. If the prediction was wrong,
//! the pipeline is flushed. Nested walks are verified as a whole: the offset is that from guest-virtual to
//! host-physical addresses, and the bit counts if both stages have set it.
//!
//! Choices.
//! - The contiguity bit is a software bit of x86-64 entries, the one that ranges use. An entry gets it if
//!   `contiguity_pages` pages of the process have its offset, this one included. It is a hint: it stays when
//!   others go. Beside the ranges of `rmm` or `direct-segment`, theirs is the bit.
//! - Stores are predicted, and their lines fetched, but no instruction waits for a store; fetches are not
//!   predicted.
//! - A flush lets nothing more dispatch until the walk has ended and `flush_cycles` have passed. What was
//!   dispatched before stays in the window: its second execution is not simulated.
//! - Until the walk ends, further accesses to the page use the predicted translation too.
//! - The set is chosen by a hash of the instruction's address. Entries carry the address space.
//! - A machine inside another simulator fetches the predicted line and does not compute with it.

mod marks;
mod predictor;
#[cfg(test)]
mod tests;

use marks::MarksFactory;
use predictor::Predictor;

use ambulator_base::Invalid;
use ambulator_os::CompanionFactory;
use ambulator_sockets::{Descriptor, Parts, Settings, Socket, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of SpOT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SpotSpec {
    /// Entries of the prediction table.
    #[schemars(range(min = 1, max = 1 << 16), extend("x-unit" = "entries", "x-source" = "SpOT (32), not verified in its text"))]
    pub(crate) entries: u32,
    /// Associativity.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "ways", "x-source" = "SpOT (4), not verified in its text"))]
    pub(crate) ways: u32,
    /// Cycles from the L2 TLB miss to the predicted address.
    #[schemars(range(max = 100), extend("x-unit" = "cycles", "x-source" = "our choice: a subtraction"))]
    pub(crate) latency: u8,
    /// The confidence, of 0 to 3, from which on an entry predicts. New entries have 1.
    #[schemars(range(max = 3), extend("x-unit" = "count", "x-source" = "SpOT: a 2-bit counter that predicts above 1"))]
    pub(crate) confidence: u8,
    /// Whether an entry with confidence is never replaced: a new one waits until one of its set is wrong
    /// often enough.
    #[schemars(extend("x-unit" = "flag", "x-source" = "a public implementation, which cites page 521 of the paper"))]
    pub(crate) keep_confident: bool,
    /// Whether the table gets only translations with the contiguity bit.
    #[schemars(extend("x-unit" = "flag", "x-source" = "SpOT: the contiguity bit filters"))]
    pub(crate) marked_only: bool,
    /// Pages with the same offset from which on the operating system sets the contiguity bit.
    #[schemars(range(min = 1, max = 1_u64 << 30), extend("x-unit" = "count", "x-source" = "SpOT (32), not verified in its text"))]
    pub(crate) contiguity_pages: u64,
    /// Cycles of a pipeline flush after a wrong prediction.
    #[schemars(range(max = 1000), extend("x-unit" = "cycles", "x-source" = "SpOT (20), not verified in its text"))]
    pub(crate) flush_cycles: u16,
}

impl Default for SpotSpec {
    fn default() -> Self {
        SpotSpec {
            entries: 32,
            ways: 4,
            latency: 1,
            confidence: 2,
            keep_confident: true,
            marked_only: true,
            contiguity_pages: 32,
            flush_cycles: 20,
        }
    }
}

impl Settings for SpotSpec {
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

/// The design.
pub fn descriptor() -> Descriptor {
    Descriptor::new(
        "spot",
        "predicts translations by the offset of the same instruction's last one, and computes ahead of the walk",
        "Alverti et al., Enhancing and Exploiting Contiguity for Fast Memory Virtualization, ISCA 2020",
    )
    .fills(Socket::Speculation, "a table of offsets by instruction: loads compute while the walk verifies")
    .settings::<SpotSpec>()
    .build(|spec, site| {
        let hardware = spec.clone();
        let marks = || Some(Box::new(MarksFactory::new(spec)) as Box<dyn CompanionFactory>);
        let mut parts =
            Parts { speculator: Some(Box::new(move |_| Box::new(Predictor::new(&hardware)))), ..Parts::default() };
        // Ranges mark their entries themselves.
        if !["rmm", "direct-segment"].iter().any(|ranges| site.design.holds(Socket::Lookaside, ranges)) {
            parts.companion = marks();
        }
        if matches!(site.stage, Stage::Guest { .. }) {
            parts.hypervisor.companion = marks();
        }
        parts
    })
}
