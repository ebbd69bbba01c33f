//! Prints what each program executes for each unit of its work, beside the compiled program's numbers:
//! `cargo run -p ambulator-workloads --example kernel_density [--graph EDGES TIMES] [PROGRAM ...]`.
//!
//! `EDGES` is a file with the graph on which graph programs run, which has `TIMES` as many edges as the one
//! of the recorded numbers.
//!
//! Lines are tab-separated: program, settings, the compiled program's command, unit, where from,
//! instructions, loads, stores, branches. `tools/kernel-density/measure.py` reads them.

use ambulator_workloads::benchmarks::Counts;
use ambulator_workloads::programs;
use serde_json::{Map, Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut graph = None;
    if arguments.first().is_some_and(|a| a == "--graph") {
        let [_, file, times] = arguments.get(..3).ok_or("--graph takes a file and a number")? else { unreachable!() };
        graph = Some((file.clone(), times.parse::<u64>()?));
        arguments.drain(..3);
    }
    for program in programs() {
        let name = program.info.name;
        if !arguments.is_empty() && !arguments.iter().any(|a| a == name) {
            continue;
        }
        for density in program.densities {
            let mut settings: Map<String, Value> = serde_json::from_str(density.settings)?;
            let mut density = *density;
            if let Some((file, times)) = &graph
                && settings.contains_key("graph")
            {
                settings.insert("graph".into(), json!({ "input": file }));
                density.skip *= times;
                density.units = density.units.saturating_mul(*times);
            }
            let ours = density.measure(&program.program(&settings, None, 1)?)?;
            print(name, &density, "kernel", &ours);
            print(name, &density, "recorded", &density.compiled);
        }
    }
    Ok(())
}

fn print(name: &str, density: &ambulator_workloads::benchmarks::Density, from: &str, counts: &Counts) {
    let numbers: Vec<String> = counts.named().iter().map(|(_, number)| format!("{number:.4}")).collect();
    let (settings, command, unit) = (density.settings, density.compiled_program, density.unit);
    println!("{name}\t{settings}\t{command}\t{unit}\t{from}\t{}", numbers.join("\t"));
}
