//! Makes the result of a machine.

use crate::census::census;
use crate::colours;
use crate::hardware::Hardware;
use crate::machine::{Machine, Phase};
use crate::measured::{Measured, OfCore, RegionTime, share};
use crate::os_events::OperatingSystem;
use crate::profile::Profile;
use crate::result::{CoreResult, Gathered, HistogramResult, RunResult, Status};
use crate::sampling::Sampler;
use crate::spec::Spec;
use crate::stream::SharedStream;
use crate::windows::Point;
use ambulator_base::{CounterSink, Counters};
use std::collections::BTreeMap;

/// Reports every counter of the hardware to `sink`, core by core.
fn report_hardware(hw: &Hardware, sink: &mut dyn CounterSink) {
    for core in &hw.cores {
        core.counters.report("core", sink);
        core.window.report("core.window", sink);
        core.mmu.report("mmu", sink);
        core.traffic.report("mmu.walk_served", sink);
    }
    hw.hierarchy.report("hierarchy", sink);
}

/// Reports every counter to `sink`, core by core, without what must be read from the tables' bytes.
pub(crate) fn report_counters(hw: &Hardware, os: &OperatingSystem, sink: &mut dyn CounterSink) {
    report_hardware(hw, sink);
    os.report_counters(sink);
}

impl Machine {
    /// Every counter of the machine, summed over cores.
    pub fn gather(&self) -> Gathered {
        let mut all = Gathered { without_time: !self.hw.timing(), ..Gathered::default() };
        report_hardware(&self.hw, &mut all);
        self.os.report(&mut all);
        all
    }

    /// The program's name, or the names of a mix in the order of the cores.
    fn program_name(&self) -> String {
        let mut names: Vec<&str> = self.hw.cores.iter().map(|core| core.stream.identity().name.as_str()).collect();
        if names.iter().all(|name| *name == names[0]) {
            names.truncate(1);
        }
        names.join("+")
    }

    /// What each core has measured.
    fn core_results(&self, measured: &Measured, points: &[Point]) -> Vec<CoreResult> {
        let intervals = self.sampler.as_ref().map_or(&[][..], Sampler::points_of_intervals);
        let of_core = |points: &[Point], number: usize| -> Vec<(u64, u64)> {
            points.iter().filter_map(|point| point.cores.get(number).copied()).collect()
        };
        let result = |(number, (core, of)): (usize, (&crate::core::Core, &OfCore))| {
            let OfCore { instructions, cycles, .. } = *of;
            CoreResult {
                program: core.stream.identity().name.clone(),
                instructions,
                cycles,
                ipc: share(instructions, cycles),
                stack: if cycles > 0 {
                    of.stack().map(|(part, of)| (part.to_owned(), of)).collect()
                } else {
                    BTreeMap::new()
                },
                windows: of_core(points, number),
                intervals: of_core(intervals, number),
            }
        };
        self.hw.cores.iter().zip(&measured.cores).enumerate().map(result).collect()
    }

    /// Who causes page walks and page faults, with `run.profile`.
    fn profile(&self) -> Option<Profile> {
        let profiler = self.os.profiler.as_ref()?;
        let mut streams: Vec<&SharedStream> = Vec::new();
        for core in &self.hw.cores {
            if !streams.iter().any(|stream| std::ptr::eq(*stream, &*core.stream)) {
                streams.push(&core.stream);
            }
        }
        let names: Vec<_> = streams.into_iter().flat_map(SharedStream::named_ranges).collect();
        Some(profiler.profile(&names))
    }

    /// Whether time is simulated where the region is measured.
    fn has_time(&self) -> bool {
        self.hw.timing() || self.sampler.is_some()
    }

    /// The result so far. `design` and `spec` say what ran; the caller fills in the sim-host times.
    pub fn result(&self, design: &str, spec: &Spec) -> (RunResult, Gathered) {
        let mut all = self.gather();
        let timing = self.has_time();
        let measured = match &self.sampler {
            Some(sampler) => {
                sampler.put_counts(&mut all);
                sampler.measured().clone()
            }
            None => self.measured_now(),
        };
        let identity = self.hw.cores[0].stream.identity().clone();
        let run = &measured.totals.run;
        let footprint = self.os.kernel().total_table_footprint();
        let (setup_table_cycles, setup_os_cycles) = self.statistics.setup_cycles();

        let mut measures: BTreeMap<String, f64> = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            measures.insert(name.to_owned(), value);
        };
        measured.measures(spec, timing).into_iter().for_each(|(name, value)| put(name, value));
        if timing {
            let region = match &self.sampler {
                Some(sampler) => sampler.region_time(&self.hw),
                None => RegionTime {
                    instructions: run.instructions,
                    ipc_outside_os: measured.ipc_outside_os(),
                    os_cycles: run.os_cycles,
                    cores: measured.cores.len() as u64,
                },
            };
            put("region_ipc", region.ipc());
            put("region_os_share", region.os_share());
        }
        put("table_bytes", footprint.bytes as f64);
        put("table_peak_bytes", footprint.peak_bytes as f64);
        put("table_largest_contiguous", footprint.largest_contiguous as f64);
        put("pages_mapped", footprint.entries as f64);
        put("setup_page_faults", self.statistics.setup_faults() as f64);
        put("page_faults_all", (self.statistics.setup_faults() + run.page_faults) as f64);
        put("setup_table_cycles", setup_table_cycles as f64);
        put("setup_os_cycles", setup_os_cycles as f64);
        put("table_bytes_per_page", share(footprint.bytes, footprint.entries));
        if spec.run.census {
            census(self.os.kernel()).into_iter().for_each(|(name, value)| put(name, value));
        }
        colours::measures(self.os.kernel(), self.hw.path(), spec)
            .into_iter()
            .for_each(|(name, value)| put(name, value));
        self.memory.measures().into_iter().for_each(|(name, value)| put(name, value));

        let points = match &self.sampler {
            Some(sampler) => sampler.points(),
            None if timing => self.statistics.windows(&self.hw),
            None => Vec::new(),
        };
        let result = RunResult {
            design: design.to_owned(),
            program: self.program_name(),
            status: if self.phase() == Phase::Done { Status::Done } else { Status::Interrupted },
            outcome: None,
            simulated_instructions: run.instructions,
            simulated_accesses: run.loads + run.stores,
            cycles: measured.cycles,
            ipc: measured.ipc(),
            speedup: 1.0,
            weighted_speedup: 1.0,
            windows: points.iter().map(|point| point.all).collect(),
            series: self.statistics.series(&self.hw, &self.os),
            sampled: self.sampler.as_ref().map(|sampler| sampler.result(&self.hw, spec)),
            profile: self.profile(),
            cores: self.core_results(&measured, &points),
            checked_translations: self.checker.checked(),
            sim_host_seconds: 0.0,
            sim_host_setup_seconds: 0.0,
            measures,
            counters: all.values.clone(),
            histograms: measured.histograms().map(|(name, of)| (name.to_owned(), HistogramResult::from(of))).into(),
            spec: serde_json::to_value(spec).unwrap_or_default(),
            identity,
            seed: spec.run.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            over_seeds: Vec::new(),
            checkpoint: None,
        };
        (result, all)
    }
}
