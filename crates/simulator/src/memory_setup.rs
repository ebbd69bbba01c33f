//! Main memory as a run finds it: fragmented, and under pressure.

use crate::error::SimError;
use crate::spec::Spec;
use ambulator_base::Random;
use ambulator_memory::{BuddyAllocator, FragmentReport, PressureReport};
use ambulator_sockets::Boot;

/// What was done to main memory before the programs started.
pub(crate) struct MemorySetUp {
    fragmentation: Option<FragmentReport>,
    pressure: Option<PressureReport>,
}

impl MemorySetUp {
    /// The frames of `bytes` of memory in the state that the spec asks for, and what was done to them.
    ///
    /// # Errors
    /// A design that reserves more memory at boot than there is.
    pub fn prepare(
        spec: &Spec,
        bytes: u64,
        seed: u64,
        boot: Vec<Boot>,
    ) -> Result<(BuddyAllocator, MemorySetUp), SimError> {
        let mut frames = BuddyAllocator::new(&spec.memory.buddy, bytes / ambulator_base::FRAME_BYTES);
        if !boot.into_iter().all(|boot| boot(&mut frames)) {
            return Err(SimError::Spec(vec![format!(
                "the design reserves memory at boot, and `memory.bytes`, {}, has not so much in one piece: give it more, or the \
                 design smaller segments",
                crate::spec::show_size(bytes)
            )]));
        }
        let wanted = &spec.memory.fragmentation;
        let fragmentation = (wanted.fmfi > 0.0 || wanted.free_share < 1.0).then(|| {
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

    /// Its measures, by name.
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
