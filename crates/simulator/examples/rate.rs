//! Sim-host speed of one design on one program: `rate PROGRAM FOOTPRINT_MIB INSTRUCTIONS [functional]
//! [DESIGN]`.

use ambulator_simulator::{Comparison, Job, Silent, compare, spec};
use std::sync::Arc;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut spec = spec::Spec::default();
    spec.run.instructions = arguments[3].parse().expect("a number of instructions");
    spec.run.warmup = 1_000_000;
    spec.memory.bytes = 256 << 30;
    if arguments.get(4).is_some_and(|a| a == "functional") {
        spec.run.mode = spec::RunMode::Functional;
    }
    if let Some(thp) = arguments.get(5) {
        match thp.as_str() {
            "thp" => spec.kernel.page_size_policy = ambulator_os::PageSizePolicy::Always,
            "perfect" => spec.mmu.perfect = true,
            "nested" => spec.virtualization.mode = spec::VirtualizationMode::Nested,
            other => panic!("{other}"),
        }
    }
    let request = ambulator_workloads::ProgramRequest {
        name: arguments[1].clone(),
        footprint: Some(arguments[2].parse::<u64>().expect("MiB") << 20),
        seed: 1,
        ..Default::default()
    };
    let source = ambulator_workloads::open(&request).expect("a program");
    let outcome = compare(Comparison {
        jobs: vec![Job { design: "radix".into(), spec }],
        programs: vec![source],
        threads: 1,
        stop: Arc::default(),
        progress: Arc::new(Silent),
    })
    .expect("a comparison");
    let run = &outcome.runs[0];
    println!("{:?} {:?}", run.status, run.outcome);
    for (name, value) in &run.measures {
        println!("{name:32} {value}");
    }
    for (name, value) in run.counters.iter().filter(|(_, v)| **v != 0) {
        println!("  {name:44} {value}");
    }
    let seconds = run.sim_host_seconds - run.sim_host_setup_seconds;
    println!(
        "ipc {:.3}; {:.2} M instructions/s, {:.2} M accesses/s, set-up {:.2} s",
        run.ipc,
        run.simulated_instructions as f64 / seconds / 1e6,
        run.simulated_accesses as f64 / seconds / 1e6,
        run.sim_host_setup_seconds
    );
}
