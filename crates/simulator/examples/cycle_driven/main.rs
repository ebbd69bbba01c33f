//! Compares Ambulator with a cycle-driven model of the same machine:
//! `cycle_driven [KEY=VALUE | PROGRAM | TRACE.amb]...`.
//!
//! A program is a kernel of the list below, or a captured trace. Keys, with their defaults:
//! - `instructions=3000000`, `warmup=1000000`: of each core;
//! - `channels=4`, `cores=1`, `prefetch=off`: each takes a list, and each combination makes tables;
//! - `designs=radix,thp,perfect-tlb`: speed-ups are relative to the first;
//! - `why=0.05`: the difference in IPC from which on the rules of the cycle-driven model are off, each
//!   alone;
//! - `set=KEY=VALUE`: a setting of the machine;
//! - `mib=N`: another footprint of the kernels named after it;
//! - `rhythms=N`: instead of tables of one run, the mean over N runs whose refresh intervals differ by 10 ns, with
//!   its 95% interval: where streams fall into one rhythm with refreshes or another, one run says little;
//! - `apart=N`: each core begins its program up to N records in, as chance says, in each of these runs anew: cores that
//!   begin alike may run beside each other in one order for good;
//! - `detail=on`: more columns;
//! - `dependences=off`: programs without their dependences.
//!
//! Prints tables in Markdown: instructions per cycle, page walks, speed-ups, the causes of differences, and
//! one table of the differences on all machines if there are several.

mod model;

use ambulator_base::{Batch, ProgramIdentity, Random, RecordSource, SourceError, student_t};
use ambulator_simulator::spec::{Spec, SpecRequest, load};
use ambulator_simulator::{Comparison, Job, RunResult, Silent, compare};
use ambulator_trace::{TraceOptions, open_trace};
use ambulator_workloads::ProgramRequest;
use model::{Choices, DramChoices, Measured, Reference};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// A program: its name in the tables, and where it comes from.
#[derive(Clone)]
struct Program {
    name: String,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    /// A benchmark, its footprint in MiB, and a setting.
    Kernel {
        kernel: &'static str,
        mib: u64,
        setting: Option<(&'static str, serde_json::Value)>,
    },
    Trace(PathBuf),
}

fn kernels() -> Vec<Program> {
    let program = |name: &str, kernel, mib, setting| Program {
        name: format!("{name}, {mib} MiB"),
        origin: Origin::Kernel { kernel, mib, setting },
    };
    vec![
        program("gups", "gups", 1024, None),
        program("chase", "pointer-chase", 1024, None),
        program("chase-8", "pointer-chase", 1024, Some(("chains", 8.into()))),
        program("stream", "stream", 512, None),
        program("bfs", "bfs", 512, None),
        program("bfs-csr", "bfs", 512, Some(("layout", "csr".into()))),
        program("bfs-linked", "bfs", 512, Some(("layout", "linked".into()))),
        program("pagerank", "pagerank", 512, None),
        program("pagerank-csr", "pagerank", 512, Some(("layout", "csr".into()))),
        program("pagerank-linked", "pagerank", 512, Some(("layout", "linked".into()))),
        program("cc-linked", "cc", 512, Some(("layout", "linked".into()))),
        program("sssp-linked", "sssp", 512, Some(("layout", "linked".into()))),
        program("memcached", "memcached", 1024, None),
        program("sysbench", "sysbench-memory", 1024, None),
        program("xsbench", "xsbench", 1024, None),
        program("dlrm", "dlrm", 1024, None),
    ]
}

type Failure = Box<dyn std::error::Error>;

/// What is asked for.
struct Request {
    instructions: u64,
    warmup: u64,
    channels: Vec<String>,
    cores: Vec<usize>,
    prefetch: Vec<String>,
    designs: Vec<String>,
    why: f64,
    rhythms: u64,
    apart: u64,
    detail: bool,
    dependences: bool,
    settings: Vec<String>,
    programs: Vec<Program>,
}

impl Request {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Request, Failure> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut request = Request {
            instructions: 3_000_000,
            warmup: 1_000_000,
            channels: list("4"),
            cores: vec![1],
            prefetch: list("off"),
            designs: list("radix,thp,perfect-tlb"),
            why: 0.05,
            rhythms: 1,
            apart: 0,
            detail: false,
            dependences: true,
            settings: Vec::new(),
            programs: Vec::new(),
        };
        let mut footprint = None;
        for argument in arguments {
            let Some((key, value)) = argument.split_once('=') else {
                request.programs.push(program(&argument, footprint)?);
                continue;
            };
            let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number: {argument}"));
            match key {
                "instructions" => request.instructions = number(value)?,
                "warmup" => request.warmup = number(value)?,
                "channels" => request.channels = list(value),
                "cores" => {
                    let cores = value.split(',').map(|text| number(text).map(|cores| cores as usize));
                    request.cores = cores.collect::<Result<_, _>>()?;
                }
                "prefetch" => request.prefetch = list(value),
                "designs" => request.designs = list(value),
                "why" => request.why = value.parse().map_err(|_| format!("`{value}` is not a number"))?,
                "rhythms" => request.rhythms = number(value)?,
                "apart" => request.apart = number(value)?,
                "dependences" => request.dependences = value != "off",
                "detail" => request.detail = value == "on",
                "mib" => footprint = Some(number(value)?),
                "set" => request.settings.push(value.to_owned()),
                _ => return Err(format!("no key `{key}`; see the head of the example's main.rs").into()),
            }
        }
        if request.programs.is_empty() {
            request.programs = kernels();
        }
        Ok(request)
    }
}

/// The program that an argument names.
fn program(name: &str, footprint: Option<u64>) -> Result<Program, Failure> {
    if name.ends_with(".amb") {
        let path = PathBuf::from(name);
        let name = path.file_stem().map_or(name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        return Ok(Program { name, origin: Origin::Trace(path) });
    }
    let short = |program: &Program| program.name.split(',').next().unwrap_or_default().to_owned();
    let mut found = kernels().into_iter().find(|program| short(program) == name);
    if let (Some(Program { name: titled, origin: Origin::Kernel { mib, .. } }), Some(other)) = (&mut found, footprint) {
        (*titled, *mib) = (format!("{name}, {other} MiB"), other);
    }
    let known = || kernels().iter().map(short).collect::<Vec<_>>().join(", ");
    Ok(found.ok_or_else(|| format!("no program `{name}`; there are traces and {}", known()))?)
}

impl Program {
    /// Opens the program for a core.
    fn open(&self, core: usize) -> Result<Box<dyn RecordSource>, Failure> {
        match &self.origin {
            Origin::Trace(path) => Ok(open_trace(Path::new(path), &TraceOptions::default())?),
            Origin::Kernel { kernel, mib, setting } => {
                let settings = setting.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
                let footprint = Some(mib << 20);
                let (name, seed) = ((*kernel).into(), 1 + core as u64);
                let request = ProgramRequest { name, footprint, seed, settings, ..ProgramRequest::default() };
                Ok(ambulator_workloads::open(&request)?)
            }
        }
    }
}

/// A program whose accesses do not wait for each other.
struct Independent(Box<dyn RecordSource>);

impl RecordSource for Independent {
    fn identity(&self) -> ProgramIdentity {
        self.0.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.0.fill(batch)?;
        for record in &mut batch.records {
            (record.dep1, record.dep2) = (0, 0);
        }
        Ok(more)
    }
}

/// A program without its first records; what happens to its memory happens.
struct Later {
    program: Box<dyn RecordSource>,
    skipped: usize,
}

impl RecordSource for Later {
    fn identity(&self) -> ProgramIdentity {
        self.program.identity()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        while self.program.fill(batch)? {
            let skipped = self.skipped.min(batch.records.len());
            self.skipped -= skipped;
            batch.records.drain(..skipped);
            batch.events.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(skipped as u32));
            if !batch.records.is_empty() || !batch.events.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A machine on which programs are compared.
struct Machine<'a> {
    request: &'a Request,
    channels: &'a str,
    cores: usize,
    prefetch: bool,
    /// The time between two refreshes in ns, if it is not the preset's.
    refresh: Option<u64>,
    /// The number of the run, of several.
    run: u64,
}

impl Machine<'_> {
    fn spec(&self, design: &str) -> Result<Spec, Failure> {
        let mut options = vec![
            "memory.bytes=8GiB".to_owned(),
            format!("machine.cores={}", self.cores),
            format!("dram.channels={}", self.channels),
            format!("run.warmup={}", self.request.warmup),
            format!("run.instructions={}", self.request.instructions),
        ];
        if self.prefetch {
            options.extend(["l1d.prefetcher=\"ip-stride\"".to_owned(), "l2.prefetcher=\"stream\"".to_owned()]);
        }
        options.extend(self.refresh.map(|ns| format!("dram.t_refi_ns={ns}.0")));
        options.extend(self.request.settings.iter().cloned());
        let (machine, design) = (Some("lvm-table1".to_owned()), Some(design.to_owned()));
        Ok(load(&SpecRequest { machine, design, options, ..SpecRequest::default() })?.spec)
    }

    /// The program of each core.
    fn open(&self, program: &Program) -> Result<Vec<Box<dyn RecordSource>>, Failure> {
        let mut begins = Random::new(self.run);
        let open = |core| {
            let mut source = program.open(core)?;
            if self.request.apart > 0 {
                let skipped = begins.below(self.request.apart) as usize;
                source = Box::new(Later { program: source, skipped });
            }
            Ok(if self.request.dependences { source } else { Box::new(Independent(source)) as Box<dyn RecordSource> })
        };
        (0..self.cores).map(open).collect()
    }

    fn reference(&self, program: &Program, design: &str, choices: Choices) -> Result<Measured, Failure> {
        let Request { warmup, instructions, .. } = *self.request;
        Ok(Reference::new(&self.spec(design)?, self.open(program)?, choices).run(warmup, instructions))
    }

    /// Every design on a program, in both models.
    fn run(&self, program: &Program) -> Result<Vec<Pair>, Failure> {
        let job = |design: &String| Ok(Job { design: design.clone(), spec: self.spec(design)? });
        let comparison = Comparison {
            jobs: self.request.designs.iter().map(job).collect::<Result<_, Failure>>()?,
            programs: self.open(program)?,
            threads: 1,
            stop: Arc::default(),
            progress: Arc::new(Silent),
        };
        let runs = compare(comparison)?.runs;
        let pair = |(design, ours): (&String, RunResult)| {
            let theirs = self.reference(program, design, Choices::FAITHFUL)?;
            Ok(Pair { program: program.name.clone(), design: design.clone(), ours, theirs })
        };
        self.request.designs.iter().zip(runs).map(pair).collect()
    }

    /// The machine's tables.
    fn print(&self) -> Result<Vec<Vec<Pair>>, Failure> {
        println!("\n{}", self.title());
        let programs = &self.request.programs;
        let all = programs.iter().map(|program| self.run(program)).collect::<Result<Vec<_>, _>>()?;
        print_first(&all);
        print_speedups(&all);
        if self.request.detail {
            print_detail(&all);
        }
        self.print_reasons(programs, &all)?;
        Ok(all)
    }

    fn title(&self) -> String {
        let number = |n: &str, what| if n == "1" { format!("1 {what}") } else { format!("{n} {what}s") };
        let prefetchers = if self.prefetch { ", prefetchers" } else { "" };
        format!("{}, {}{prefetchers}", number(&self.cores.to_string(), "core"), number(self.channels, "channel"))
    }

    /// For large differences, the reference without one of its rules.
    fn print_reasons(&self, programs: &[Program], all: &[Vec<Pair>]) -> Result<(), Failure> {
        let faithful = Choices::FAITHFUL;
        let dram = |change: fn(&mut DramChoices)| {
            let mut choices = faithful;
            change(&mut choices.dram);
            choices
        };
        let less = [
            ("early stores", Choices { store_requests: false, ..faithful }),
            ("stores await no translation", Choices { stores_await_translation: false, ..faithful }),
            ("no ports", Choices { ports: false, ..faithful }),
            ("fetch not ahead", Choices { fetch_ahead: false, ..faithful }),
            ("no fetch", Choices { fetches: false, ..faithful }),
            ("first come", dram(|dram| dram.first_ready = false)),
            ("no batches", dram(|dram| dram.batches = false)),
            ("no turn-around", dram(|dram| dram.turn_around = false)),
            ("no tRRD", dram(|dram| dram.rrd = false)),
        ];
        if all.iter().flatten().all(|pair| pair.distance().abs() <= self.request.why) {
            return Ok(());
        }
        let titles = ["program", "design", "Ambulator", "cycle-driven"];
        header(&titles.iter().copied().chain(less.iter().map(|(title, _)| *title)).collect::<Vec<_>>());
        for (program, pairs) in programs.iter().zip(all) {
            for pair in pairs.iter().filter(|pair| pair.distance().abs() > self.request.why) {
                print!("| {} | {} | {:.4} | {:.4} |", pair.program, pair.design, pair.ours.ipc, pair.theirs.ipc());
                for (_, choices) in less {
                    print!(" {:.4} |", self.reference(program, &pair.design, choices)?.ipc());
                }
                println!();
            }
        }
        Ok(())
    }
}

/// A program on one design, in both models.
struct Pair {
    program: String,
    design: String,
    ours: RunResult,
    theirs: Measured,
}

impl Pair {
    fn distance(&self) -> f64 {
        self.ours.ipc / self.theirs.ipc() - 1.0
    }

    /// The speed-ups over another design in the cycle-driven model and in Ambulator.
    fn speedups(&self, base: &Pair) -> (f64, f64) {
        (self.theirs.ipc() / base.theirs.ipc(), self.ours.ipc / base.ours.ipc)
    }
}

fn percent(relative: f64) -> String {
    format!("{:+.1}%", 100.0 * relative)
}

fn header(columns: &[&str]) {
    println!("\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// The first design: instructions per cycle, walks and the sim host's speed.
fn print_first(all: &[Vec<Pair>]) {
    header(&[
        "program",
        "cycle-driven IPC",
        "Ambulator IPC",
        "difference",
        "cycle-driven walk, cycles",
        "Ambulator walk, cycles",
        "difference",
        "cycle-driven, M instructions/s of the sim host",
        "Ambulator, M instructions/s of the sim host",
    ]);
    for pair in all.iter().filter_map(|pairs| pairs.first()) {
        let Pair { program, ours, theirs, .. } = pair;
        print!("| {program} | {:.4} | {:.4} | {} |", theirs.ipc(), ours.ipc, percent(pair.distance()));
        if theirs.walks * 2000 < theirs.instructions {
            print!(" | | |");
        } else {
            let (a, b) = (theirs.walk_latency, ours.measure("walk_latency_mean"));
            print!(" {a:.1} | {b:.1} | {} |", percent(b / a - 1.0));
        }
        let seconds = ours.sim_host_seconds - ours.sim_host_setup_seconds;
        let (a, b) =
            (theirs.all_instructions as f64 / theirs.sim_host_seconds, ours.simulated_instructions as f64 / seconds);
        println!(" {:.2} | {:.1} |", a / 1e6, b / 1e6);
    }
}

/// Each design: walks, faults and memory traffic.
fn print_detail(all: &[Vec<Pair>]) {
    header(&[
        "program",
        "design",
        "cycle-driven IPC",
        "Ambulator IPC",
        "difference",
        "walks per 1000 instructions",
        "Ambulator",
        "cycle-driven walk",
        "Ambulator walk",
        "difference",
        "faults",
        "Ambulator",
        "lines read and written per 1000 instructions",
        "Ambulator",
        "rows opened per 1000 instructions",
        "Ambulator",
        "read of main memory, cycles",
        "Ambulator",
        "each core's cycles, thousands",
        "Ambulator",
    ]);
    for pair in all.iter().flatten() {
        let Pair { program, design, ours, theirs } = pair;
        print!("| {program} | {design} | {:.4} | {:.4} | {} |", theirs.ipc(), ours.ipc, percent(pair.distance()));
        let per_1000 = |events: u64, instructions: u64| 1000.0 * events as f64 / instructions.max(1) as f64;
        let count = |name: &str| *ours.counters.get(name).unwrap_or(&0);
        let walks = count("mmu.walks") + count("mmu.dirty_assists");
        let rate = per_1000(theirs.walks, theirs.instructions);
        print!(" {rate:.1} | {:.1} |", per_1000(walks, ours.simulated_instructions));
        if rate < 0.5 {
            print!(" | | |");
        } else {
            let (a, b) = (theirs.walk_latency, ours.measure("walk_latency_mean"));
            print!(" {a:.1} | {b:.1} | {} |", percent(b / a - 1.0));
        }
        print!(" {} | {} |", theirs.faults, count("core.page_faults"));
        let reads = count("hierarchy.dram.data_reads") + count("hierarchy.dram.table_reads");
        let writes = count("hierarchy.dram.data_writes") + count("hierarchy.dram.table_writes");
        let cycles = count("hierarchy.dram.data_read_cycles") + count("hierarchy.dram.table_read_cycles");
        print!(
            " {:.1} + {:.1} | {:.1} + {:.1} | {:.2} | {:.2} | {:.1} | {:.1} |",
            per_1000(theirs.dram_reads, theirs.instructions),
            per_1000(theirs.dram_writes, theirs.instructions),
            per_1000(reads, ours.simulated_instructions),
            per_1000(writes, ours.simulated_instructions),
            per_1000(theirs.dram_activates, theirs.instructions),
            per_1000(count("hierarchy.dram.activates"), ours.simulated_instructions),
            theirs.dram_read_latency,
            cycles as f64 / reads.max(1) as f64
        );
        let thousands = |cycles: u64| (cycles / 1000).to_string();
        let of_theirs: Vec<String> = theirs.cycles_of_cores.iter().map(|cycles| thousands(*cycles)).collect();
        let of_ours: Vec<String> = ours.cores.iter().map(|core| thousands(core.cycles)).collect();
        println!(" {} | {} |", of_theirs.join(", "), of_ours.join(", "));
    }
}

/// Speed-ups of the other designs over the first.
fn print_speedups(all: &[Vec<Pair>]) {
    let Some(designs) = all.first().map(|pairs| &pairs[1..]) else { return };
    let of = |pair: &Pair| [format!("{}, cycle-driven", pair.design), format!("{}, Ambulator", pair.design)];
    let titles = designs.iter().flat_map(|pair| of(pair).into_iter().chain(["difference".to_owned()]));
    let titles: Vec<String> = ["program".to_owned()].into_iter().chain(titles).collect();
    header(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for pairs in all {
        print!("| {} |", pairs[0].program);
        for pair in &pairs[1..] {
            let (a, b) = pair.speedups(&pairs[0]);
            print!(" {a:.3} | {b:.3} | {} |", percent(b / a - 1.0));
        }
        println!();
    }
}

/// On each machine: the difference in instructions per cycle on the first design, and those in speed-ups.
fn print_all(machines: &[(String, Vec<Vec<Pair>>)]) {
    let titles = ["program"].into_iter().chain(machines.iter().map(|(title, _)| title.as_str()));
    header(&titles.collect::<Vec<_>>());
    let programs = machines.first().map_or(0, |(_, all)| all.len());
    for program in 0..programs {
        let pairs = |machine: &(String, Vec<Vec<Pair>>)| -> String {
            let pairs = &machine.1[program];
            let speedups = pairs[1..].iter().map(|pair| pair.speedups(&pairs[0])).map(|(a, b)| percent(b / a - 1.0));
            [percent(pairs[0].distance())].into_iter().chain(speedups).collect::<Vec<_>>().join(", ")
        };
        let cells: Vec<String> = machines.iter().map(pairs).collect();
        println!("| {} | {} |", machines[0].1[program][0].program, cells.join(" | "));
    }
}

/// The mean of some runs.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How far the mean of some runs may be from that of all, with 95% confidence, as a part of the mean.
fn half_width(values: &[f64]) -> f64 {
    let (n, mean) = (values.len() as f64, mean(values));
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    student_t(n - 1.0) * (variance / n).sqrt() / mean
}

/// The difference of the means in both models, with its 95% interval.
fn difference(theirs: &[f64], ours: &[f64]) -> String {
    let half = half_width(theirs).hypot(half_width(ours));
    format!("{} ± {:.1}", percent(mean(ours) / mean(theirs) - 1.0), 100.0 * half)
}

fn print_header_of_means(designs: &[String]) {
    let titles = |of: &str| ["cycle-driven", "Ambulator", "difference"].map(|what| format!("{of}, {what}"));
    let first = ["machine".to_owned(), "program".to_owned()];
    let others = designs.iter().skip(1).flat_map(|design| titles(design));
    let all: Vec<String> = first.into_iter().chain(titles("IPC")).chain(others).collect();
    header(&all.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The machine's row of `rhythms=N` for each program.
fn print_means(machine: &mut Machine) -> Result<(), Failure> {
    let Request { rhythms, ref programs, .. } = *machine.request;
    for program in programs {
        let mut runs = Vec::new();
        for rhythm in 0..rhythms {
            machine.refresh = Some(7800 + 10 * rhythm - 5 * (rhythms - 1));
            machine.run = rhythm;
            runs.push(machine.run(program)?);
        }
        let (theirs, ours): (Vec<f64>, Vec<f64>) =
            runs.iter().map(|run| (run[0].theirs.ipc(), run[0].ours.ipc)).unzip();
        print!("| {} | {} |", machine.title(), program.name);
        print!(" {:.4} | {:.4} | {} |", mean(&theirs), mean(&ours), difference(&theirs, &ours));
        for design in 1..runs[0].len() {
            let (theirs, ours): (Vec<f64>, Vec<f64>) = runs.iter().map(|run| run[design].speedups(&run[0])).unzip();
            print!(" {:.3} | {:.3} | {} |", mean(&theirs), mean(&ours), difference(&theirs, &ours));
        }
        println!();
    }
    Ok(())
}

fn tables() -> Result<(), Failure> {
    let request = Request::parse(std::env::args().skip(1))?;
    let mut machines = Vec::new();
    if request.rhythms > 1 {
        print_header_of_means(&request.designs);
    }
    for channels in &request.channels {
        for &cores in &request.cores {
            for prefetch in &request.prefetch {
                let prefetch = match prefetch.as_str() {
                    "on" => true,
                    "off" => false,
                    other => return Err(format!("`prefetch={other}`: it is `on` or `off`").into()),
                };
                let mut machine = Machine { request: &request, channels, cores, prefetch, refresh: None, run: 0 };
                if request.rhythms > 1 {
                    print_means(&mut machine)?;
                    continue;
                }
                machines.push((machine.title(), machine.print()?));
            }
        }
    }
    if machines.len() > 1 {
        println!("\nDifferences in IPC, and in speed-ups:");
        print_all(&machines);
    }
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
