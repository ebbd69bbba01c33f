//! Main memory at the start of a run: fragmented, and under pressure.

use crate::error::SimError;
use crate::spec::Spec;
use ambulator_base::Random;
use ambulator_memory::{BuddyAllocator, FragmentReport, PressureReport};
use ambulator_sockets::Boot;

/// The preparation of main memory before the programs start.
pub(crate) struct MemorySetUp {
    fragmentation: Option<FragmentReport>,
    pressure: Option<PressureReport>,
}

impl MemorySetUp {
    /// The frames of `bytes` of memory in the state that the spec requests, and a report of their
    /// preparation.
    ///
    /// # Errors
    /// A design that reserves more contiguous memory at boot than is available.
    pub fn prepare(
        spec: &Spec,
        bytes: u64,
        seed: u64,
        boot: Vec<Boot>,
    ) -> Result<(BuddyAllocator, MemorySetUp), SimError> {
        let sizes = spec.nodes.sizes(bytes);
        let of_nodes: Vec<u64> = sizes.iter().map(|bytes| bytes / ambulator_base::FRAME_BYTES).collect();
        let mut frames = BuddyAllocator::with_nodes(&spec.memory.buddy, &of_nodes);
        if !boot.into_iter().all(|boot| boot(&mut frames)) {
            let nodes = match &sizes[..] {
                [_] => String::new(),
                several => {
                    let sizes: Vec<String> = several.iter().map(|bytes| crate::spec::show_size(*bytes)).collect();
                    format!(" in one memory node (they have {})", sizes.join(", "))
                }
            };
            return Err(SimError::Spec(vec![format!(
                "the design reserves contiguous memory at boot, and `memory.bytes`, {}, does not have that much{nodes}: give \
                 more memory, or smaller segments to the design",
                crate::spec::show_size(bytes)
            )]));
        }
        let target = &spec.memory.fragmentation;
        let fragmentation = (!target.is_whole()).then(|| {
            ambulator_memory::fragment(
                &mut frames,
                &spec.memory.fragmentation,
                &mut Random::for_purpose(seed, "fragmentation"),
            )
        });
        let pressure = (spec.memory.pressure.pressure > 0.0).then(|| {
            ambulator_memory::press(&mut frames, &spec.memory.pressure, &mut Random::for_purpose(seed, "pressure"))
        });
        Ok((frames, MemorySetUp { fragmentation, pressure }))
    }

    /// The measures of the preparation, by name.
    pub fn measures(&self) -> Vec<(&'static str, f64)> {
        let mut measures = Vec::new();
        if let Some(report) = &self.fragmentation {
            let reached = report.fmfi.get(report.order as usize).copied().unwrap_or(0.0);
            measures.push(("fragmentation_reached", reached));
            measures.push(("fragmentation_free_share", report.free_share));
        }
        if let Some(report) = &self.pressure {
            measures.push(("pressure_free_share", report.free_share));
        }
        measures
    }
}
