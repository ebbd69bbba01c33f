//! Compares Ambulator with a cycle-driven model of the same machine: `cycle_driven [INSTRUCTIONS
//! [PROGRAM...]]`.
//!
//! Prints tables in Markdown: instructions per cycle, page walks, speed-ups, the causes of differences, and
//! the sim host's speed.

mod model;

use ambulator_base::RecordSource;
use ambulator_simulator::spec::{Spec, SpecRequest, load};
use ambulator_simulator::{Comparison, Job, RunResult, Silent, compare};
use ambulator_workloads::ProgramRequest;
use model::{Choices, Measured, Reference};
use std::process::ExitCode;
use std::sync::Arc;

/// A program: its name in the tables, its benchmark, its footprint in MiB, and a setting.
struct Program {
    name: &'static str,
    kernel: &'static str,
    mib: u64,
    setting: Option<(&'static str, serde_json::Value)>,
}

fn programs() -> [Program; 9] {
    let program = |name, kernel, mib, setting| Program { name, kernel, mib, setting };
    [
        program("gups", "gups", 1024, None),
        program("chase", "pointer-chase", 1024, None),
        program("chase-8", "pointer-chase", 1024, Some(("chains", 8.into()))),
        program("stream", "stream", 512, None),
        program("bfs", "bfs", 512, None),
        program("bfs-csr", "bfs", 512, Some(("layout", "csr".into()))),
        program("pagerank", "pagerank", 512, None),
        program("sysbench", "sysbench-memory", 1024, None),
        program("xsbench", "xsbench", 1024, None),
    ]
}

/// Speed-ups are relative to the first.
const DESIGNS: [&str; 3] = ["radix", "thp", "perfect-tlb"];
/// Instructions before anything is counted.
const WARMUP: u64 = 1_000_000;
/// The relative difference above which the last table shows its causes.
const NOTABLE: f64 = 0.05;

type Failure = Box<dyn std::error::Error>;

fn spec(design: &str, instructions: u64) -> Result<Spec, Failure> {
    let options =
        ["memory.bytes=8GiB".to_owned(), format!("run.warmup={WARMUP}"), format!("run.instructions={instructions}")];
    let (machine, design) = (Some("lvm-table1".to_owned()), Some(design.to_owned()));
    Ok(load(&SpecRequest { machine, design, options: options.into(), ..SpecRequest::default() })?.spec)
}

fn open(program: &Program) -> Result<Box<dyn RecordSource>, Failure> {
    let settings = program.setting.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let request = ProgramRequest {
        name: program.kernel.into(),
        footprint: Some(program.mib << 20),
        seed: 1,
        settings,
        ..ProgramRequest::default()
    };
    Ok(ambulator_workloads::open(&request)?)
}

/// A program on one design, in both models.
struct Pair {
    program: String,
    design: &'static str,
    ours: RunResult,
    theirs: Measured,
}

impl Pair {
    fn distance(&self) -> f64 {
        self.ours.ipc / self.theirs.ipc() - 1.0
    }
}

/// Every design on a program, in both models.
fn run(program: &Program, instructions: u64) -> Result<Vec<Pair>, Failure> {
    let job = |design: &&str| Ok(Job { design: (*design).into(), spec: spec(design, instructions)? });
    let comparison = Comparison {
        jobs: DESIGNS.iter().map(job).collect::<Result<_, Failure>>()?,
        programs: vec![open(program)?],
        threads: 1,
        stop: Arc::default(),
        progress: Arc::new(Silent),
    };
    let runs = compare(comparison)?.runs;
    let pair = |(design, ours): (&&'static str, RunResult)| {
        let theirs = reference(program, design, instructions, Choices::FAITHFUL)?;
        Ok(Pair { program: format!("{}, {} MiB", program.name, program.mib), design, ours, theirs })
    };
    DESIGNS.iter().zip(runs).map(pair).collect()
}

fn reference(program: &Program, design: &str, instructions: u64, choices: Choices) -> Result<Measured, Failure> {
    Ok(Reference::new(&spec(design, instructions)?, open(program)?, choices).run(WARMUP, instructions))
}

fn percent(relative: f64) -> String {
    format!("{:+.1}%", 100.0 * relative)
}

fn header(columns: &[&str]) {
    println!("\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

fn print_runs(all: &[Vec<Pair>]) {
    header(&[
        "program",
        "design",
        "cycle-driven IPC",
        "Ambulator IPC",
        "difference",
        "walks per 1000 instructions",
        "cycle-driven walk",
        "Ambulator walk",
        "difference",
    ]);
    for pair in all.iter().flatten() {
        let Pair { program, design, ours, theirs } = pair;
        print!("| {program} | {design} | {:.4} | {:.4} | {} |", theirs.ipc(), ours.ipc, percent(pair.distance()));
        let rate = 1000.0 * theirs.walks as f64 / theirs.instructions.max(1) as f64;
        if rate < 0.5 {
            println!(" {rate:.1} | | | |");
        } else {
            let (a, b) = (theirs.walk_latency, ours.measure("walk_latency_mean"));
            println!(" {rate:.1} | {a:.1} | {b:.1} | {} |", percent(b / a - 1.0));
        }
    }
}

fn print_speedups(all: &[Vec<Pair>]) {
    header(&["program", "speed-up of", "cycle-driven", "Ambulator", "difference"]);
    for pairs in all {
        let (base, rest) = (&pairs[0], &pairs[1..]);
        for pair in rest {
            let (a, b) = (pair.theirs.ipc() / base.theirs.ipc(), pair.ours.ipc / base.ours.ipc);
            println!("| {} | {} | {a:.3} | {b:.3} | {} |", pair.program, pair.design, percent(b / a - 1.0));
        }
    }
}

/// For large differences, the reference with Ambulator's modelling choices, one at a time.
fn print_reasons(programs: &[&Program], all: &[Vec<Pair>], instructions: u64) -> Result<(), Failure> {
    let faithful = Choices::FAITHFUL;
    let less = [
        Choices { stores_commit_first: false, ..faithful },
        Choices { reads_first: false, ..faithful },
        Choices { first_ready: false, ..faithful },
        Choices { turn_around: false, ..faithful },
        Choices::SIMPLE,
    ];
    header(&[
        "program",
        "design",
        "Ambulator",
        "cycle-driven",
        "early stores",
        "writes in order",
        "no reordering",
        "no turn-around",
        "all four",
    ]);
    for (program, pairs) in programs.iter().zip(all) {
        for pair in pairs.iter().filter(|pair| pair.distance().abs() > NOTABLE) {
            print!("| {} | {} | {:.4} | {:.4} |", pair.program, pair.design, pair.ours.ipc, pair.theirs.ipc());
            for choices in less {
                print!(" {:.4} |", reference(program, pair.design, instructions, choices)?.ipc());
            }
            println!();
        }
    }
    Ok(())
}

fn print_sim_host_speed(all: &[Vec<Pair>]) {
    header(&["program", "cycle-driven, M instructions/s", "Ambulator, M instructions/s"]);
    for Pair { program, ours, theirs, .. } in all.iter().filter_map(|pairs| pairs.first()) {
        let seconds = ours.sim_host_seconds - ours.sim_host_setup_seconds;
        let (a, b) =
            (theirs.all_instructions as f64 / theirs.sim_host_seconds, ours.simulated_instructions as f64 / seconds);
        println!("| {program} | {:.2} | {:.1} |", a / 1e6, b / 1e6);
    }
}

fn tables() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let instructions = match arguments.first() {
        Some(text) => text.parse().map_err(|_| format!("`{text}` is not a number of instructions"))?,
        None => 3_000_000,
    };
    let programs = programs();
    if let Some(unknown) = arguments.iter().skip(1).find(|name| programs.iter().all(|program| program.name != **name)) {
        return Err(format!("no program `{unknown}`; there are {}", programs.map(|p| p.name).join(", ")).into());
    }
    let requested = |program: &&Program| arguments.len() < 2 || arguments[1..].iter().any(|name| name == program.name);
    let chosen: Vec<&Program> = programs.iter().filter(requested).collect();
    let all = chosen.iter().map(|program| run(program, instructions)).collect::<Result<Vec<_>, _>>()?;
    print_runs(&all);
    print_speedups(&all);
    print_reasons(&chosen, &all, instructions)?;
    print_sim_host_speed(&all);
    Ok(())
}

fn main() -> ExitCode {
    match tables() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
