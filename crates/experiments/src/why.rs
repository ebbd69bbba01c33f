//! Why designs differ, in sentences generated from counters.

use crate::number::short;
use ambulator_simulator::RunResult;

fn cycles_per_kilo(run: &RunResult, counter: &str) -> f64 {
    let n = run.counters.get(counter).copied().unwrap_or(0) as f64;
    1000.0 * n / run.simulated_instructions.max(1) as f64
}

fn change(from: f64, to: f64) -> String {
    if from == 0.0 {
        return format!("{} instead of 0", short(to));
    }
    let percent = 100.0 * (to / from - 1.0);
    match percent {
        p if p < 0.0 => format!("{:.0}% fewer", -p),
        p if p > 300.0 => format!("{} times as many", short(to / from)),
        p => format!("{p:.0}% more"),
    }
}

/// One sentence for each design after the first, on its differences from the first.
pub fn reasons(runs: &[RunResult]) -> Vec<String> {
    let Some((base, others)) = runs.split_first() else { return Vec::new() };
    others
        .iter()
        .filter(|run| run.simulated_instructions > 0 && base.simulated_instructions > 0)
        .map(|run| reason(base, run))
        .collect()
}

fn reason(base: &RunResult, run: &RunResult) -> String {
    let mut parts = Vec::new();
    let (walks0, walks1) = (cycles_per_kilo(base, "mmu.walks"), cycles_per_kilo(run, "mmu.walks"));
    if walks1 == 0.0 {
        parts.push(format!("no page walks at all ({} per 1000 instructions in {})", short(walks0), base.design));
    } else {
        if (walks1 / walks0 - 1.0).abs() < 0.01 {
            parts.push("the same number of page walks".into());
        } else {
            parts.push(format!(
                "{} page walks ({} versus {} per 1000 instructions)",
                change(walks0, walks1),
                short(walks1),
                short(walks0)
            ));
        }
        let (loads0, loads1) = (base.measure("walk_accesses_mean"), run.measure("walk_accesses_mean"));
        let (latency0, latency1) = (base.measure("walk_latency_mean"), run.measure("walk_latency_mean"));
        if run.ipc > 0.0 {
            parts.push(format!(
                "a walk takes {} cycles versus {} ({} versus {} loads, {:.0}% versus {:.0}% of them from DRAM)",
                short(latency1),
                short(latency0),
                short(loads1),
                short(loads0),
                100.0 * run.measure("walk_served_dram"),
                100.0 * base.measure("walk_served_dram"),
            ));
        }
    }
    let (os0, os1) = (base.measure("os_cycles_share"), run.measure("os_cycles_share"));
    if (os1 - os0).abs() > 0.005 {
        parts.push(format!("the operating system takes {:.1}% of the time versus {:.1}%", 100.0 * os1, 100.0 * os0));
    }
    let (llc0, llc1) = (base.measure("llc_mpki"), run.measure("llc_mpki"));
    if llc0 > 0.0 && (llc1 / llc0 - 1.0).abs() > 0.02 {
        parts.push(format!("{} last-level misses per 1000 instructions versus {}", short(llc1), short(llc0)));
    }
    let head = if run.ipc > 0.0 && base.ipc > 0.0 {
        format!("{} is {:.3} times as fast as {}", run.design, run.ipc / base.ipc, base.design)
    } else {
        format!("{} versus {}", run.design, base.design)
    };
    format!("{head}: {}.", parts.join("; "))
}
