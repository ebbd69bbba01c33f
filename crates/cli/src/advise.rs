//! `advise`: why a program is slow, and what would help.

use crate::arguments::{MachineArguments, ProgramArguments, StoreArguments};
use crate::compare::{self, Ran, Source};
use crate::output::{print, report, warn};
use crate::symbols::Symbols;
use crate::terminal::{self, print_folded};
use crate::{DONE, Failure, SOME_FAILED, interrupt, progress, requests, store};
use ambulator_base::Invalid;
use ambulator_experiments::advice::{Advice, Evidence, Piece, Remedy, RemedyKind};
use ambulator_experiments::{Bounds, Runner, cautions, memory_available};
use ambulator_simulator::{Comparison, Job, RunResult, Status};
use ambulator_workloads::ProgramRequest;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of the profile by which data and code are named.
const PROFILE_ROWS: u32 = 256;
/// Instructions that are measured on each design, if nobody says how many.
const INSTRUCTIONS: &str = "10M";
/// A gigabyte: programs that have less have no use for pages of that size.
const GIGABYTE: u64 = 1 << 30;

/// The program as it is today: the kernel's usual setting, by which a program gets huge pages where it asks.
const TODAY: &str = "thp-madvise";

/// A setting of today's kernel that is tried.
struct Setting {
    label: &'static str,
    design: &'static str,
    options: &'static [&'static str],
    how: &'static str,
    /// It has no effect below a gigabyte.
    large: bool,
}

const SETTINGS: [Setting; 5] = [
    Setting {
        label: "THP always",
        design: "thp",
        options: &[],
        how: "Write `always` to /sys/kernel/mm/transparent_hugepage/enabled.",
        large: false,
    },
    Setting {
        label: "THP always with defrag",
        design: "thp",
        options: &["kernel.huge_allocation=compaction"],
        how: "Write `always` to /sys/kernel/mm/transparent_hugepage/enabled and to defrag beside it: the kernel compacts \
              memory for huge pages.",
        large: false,
    },
    Setting {
        label: "madvise on all memory",
        design: TODAY,
        options: &["run.advise_huge=true"],
        how: "Call madvise(MADV_HUGEPAGE) on the large mappings, or start the program with \
              GLIBC_TUNABLES=glibc.malloc.hugetlb=1.",
        large: false,
    },
    Setting {
        label: "khugepaged alone",
        design: "thp-khugepaged",
        options: &[],
        how: "Write `always` to enabled and `0` to defrag: khugepaged promotes pages behind the program.",
        large: false,
    },
    Setting {
        label: "1 GiB pages (hugetlb)",
        design: "thp",
        options: &["kernel.gigantic_pages=true", "memory.buddy.max_order=19"],
        how: "Reserve them at boot (hugepagesz=1G hugepages=N) and map with MAP_HUGETLB | MAP_HUGE_1GB.",
        large: true,
    },
];

/// The program, and what is tried.
#[derive(Args)]
pub struct AdviseArguments {
    /// A program (`ambulator list programs`), a workload or a trace file's path. To capture a program of this
    /// machine while it runs, write its command after `--` instead.
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub program: Option<String>,
    /// A program of this machine and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Designs in hardware to try beside the settings of today's kernel: presets or TOML files, separated by
    /// commas. By default one of each family: a larger TLB, hashed and learned page tables, ranges, a
    /// restrictive mapping, speculation.
    #[arg(long, short, default_value = "l2tlb-128k,me-hpt,lvm,rmm,utopia,revelator", value_name = "DESIGN,...")]
    pub designs: Vec<String>,
    /// Run everything with this many seeds; by default 3. A trace and a captured program are the same with
    /// every seed: they run with one, and intervals are over windows of the region.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// Record the captured program in this trace file first, and simulate that. Its results are kept in the store,
    /// and it can start from checkpoints.
    #[arg(long, value_name = "FILE", requires = "command")]
    pub keep: Option<PathBuf>,
    /// Of a trace or a captured program: instructions to skip from the beginning.
    #[arg(long, value_name = "COUNT")]
    pub skip: Option<String>,
    /// Of a trace, simulate windows: the first WINDOW of every EVERY instructions, such as 10M/1G.
    #[arg(long, value_name = "WINDOW/EVERY", conflicts_with = "command")]
    pub sample: Option<String>,
    /// Bytes of data that the program works on, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    pub footprint: Option<String>,
    /// A setting of the program, such as layout=csr; repeatable.
    #[arg(long = "program-set", value_name = "KEY=VALUE")]
    pub program_set: Vec<String>,
    /// Instructions to measure on each design.
    #[arg(long, short = 'n', value_name = "COUNT", default_value = INSTRUCTIONS)]
    pub instructions: String,
    /// Warm-up instructions, which are not measured.
    #[arg(long, value_name = "COUNT")]
    pub warmup: Option<String>,
    /// Seed of everything random; the first one of several.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Threads of the simulator; 0 for as many as the machine has.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    #[command(flatten)]
    pub machine: MachineArguments,
    #[command(flatten)]
    pub store: StoreArguments,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// No progress on standard error.
    #[arg(long)]
    pub no_progress: bool,
}

impl AdviseArguments {
    /// The program, with more settings.
    fn program(&self, options: &[&str]) -> ProgramArguments {
        let mut machine = self.machine.clone();
        machine.set.extend(options.iter().map(|option| (*option).to_owned()));
        ProgramArguments {
            program: self.program.clone(),
            live: !self.command.is_empty(),
            command: self.command.clone(),
            keep: self.keep.clone(),
            skip: self.skip.clone(),
            sample: self.sample.clone(),
            footprint: self.footprint.clone(),
            program_set: self.program_set.clone(),
            instructions: Some(self.instructions.clone()),
            warmup: self.warmup.clone(),
            seed: self.seed,
            machine,
            store: self.store.clone(),
            ..ProgramArguments::default()
        }
    }

    /// The job of a design with more settings, and its machine.
    fn on_machine(&self, design: &str, options: &[&str]) -> Result<(Job, requests::Jobs), Failure> {
        let mut all = requests::jobs(&self.program(options), &[design.to_owned()])?;
        Ok((all.jobs.remove(0), all))
    }

    /// The job of a design with more settings.
    fn job(&self, design: &str, options: &[&str]) -> Result<Job, Failure> {
        Ok(self.on_machine(design, options)?.0)
    }
}

/// What is tried, before it has run.
struct Trial {
    label: String,
    how: String,
    kind: RemedyKind,
    job: Job,
}

pub fn advise(arguments: &AdviseArguments) -> Result<u8, Failure> {
    let program = arguments.program(&[]);
    requests::check_live(&program)?;
    let (base, requests::Jobs { machine, machine_preset, .. }) = arguments.on_machine(TODAY, &[])?;
    let spec = base.spec.clone();
    let failed = Arc::new(AtomicBool::new(false));
    let stop = interrupt::stop_flag();
    let source = Source::of(&program, &spec, &failed)?;
    let (lengths, notes, footprint) = source.known(&spec);
    notes.iter().for_each(|note| warn(note));
    let mut doubtful = Vec::new();
    let trials = trials(arguments, footprint, &mut doubtful)?;
    let mut jobs = vec![base];
    let mut remedies = Vec::new();
    for Trial { label, how, kind, job } in trials {
        remedies.push((label, how, kind));
        jobs.push(job);
    }
    for job in &jobs {
        let problems = job.spec.validate_footprint(footprint);
        if !problems.is_empty() {
            return Err(Failure::bad(Invalid::lines(&problems)));
        }
    }
    // Only today's pages are of interest for the bound.
    let (_, mut bound) = Bounds::of(&jobs[..1]);
    jobs[0].spec.run.profile = PROFILE_ROWS;
    let designs = jobs.len();
    jobs.append(&mut bound);
    let names: Vec<String> = jobs.iter().map(|job| job.design.clone()).collect();
    let wanted = !arguments.no_progress;
    let ran = match source {
        Source::Stream(programs) => {
            store::no_checkpoint_of_a_live_program(&arguments.store)?;
            if arguments.seeds.is_some_and(|seeds| seeds > 1) {
                return Err(Failure::bad(
                    "--seeds: what comes from a captured program or a pipe can be read once only",
                ));
            }
            let progress = progress::bars(&names, wanted && !arguments.json);
            let comparison = Comparison { jobs, programs, threads: arguments.threads, stop, progress };
            let outcome = ambulator_simulator::compare(comparison).map_err(Failure::bad)?;
            Ran { outcome, stored: Vec::new(), told: Vec::new(), status: DONE }
        }
        Source::Known(programs, _while_it_runs) => {
            // A trace is the same with every seed.
            let generated = |request: &ProgramRequest| ambulator_workloads::program(&request.name).is_some();
            let generated = programs.requests.iter().all(generated);
            let seeds = arguments.seeds.unwrap_or(if generated { 3 } else { 1 });
            let runner = Runner {
                store: store::open(&arguments.store)?,
                reuse: store::reuse(&arguments.store),
                checkpoints: store::checkpoints(arguments.store.checkpoint.as_deref())?,
                threads: arguments.threads,
                memory: memory_available(),
                stop,
                progress: progress::cells(jobs.len() * seeds as usize, wanted),
            };
            compare::run_cells(jobs, (&machine, &machine_preset), &programs, &program, &runner, seeds)?
        }
    };
    let Ran { outcome, told, status, .. } = ran;
    outcome.fewer_threads.iter().for_each(|why| warn(why));
    outcome.notes.iter().filter(|note| !notes.contains(note)).for_each(|note| warn(note));
    let (runs, bounds) = outcome.runs.split_at(designs.min(outcome.runs.len()));
    let Some((base, tried)) = runs.split_first() else {
        return Err(Failure::failed("nothing ran"));
    };
    let remedies = remedies.into_iter().zip(tried);
    let remedies: Vec<Remedy<'_>> =
        remedies.map(|((label, how, kind), run)| Remedy { label, how, kind, run }).collect();
    doubtful.extend(cautions(&named(base, &remedies), &lengths).into_iter().map(sentence));
    let mut symbols = Symbols::default();
    let advice = Advice::of(Evidence {
        base,
        bound: bounds.first(),
        remedies,
        place: &mut |file, offset| symbols.place(file, offset),
        doubts: doubtful,
    });
    let Some(advice) = advice else {
        let why = base.outcome.as_deref().unwrap_or("it did not complete");
        return Err(Failure::failed(format!(
            "there is no advice, because {} did not run to its end: {why}",
            base.program
        )));
    };
    if arguments.json {
        print(&serde_json::to_string_pretty(&advice).map_err(Failure::failed)?);
    } else {
        show(&advice, base);
        told.iter().for_each(|told| report(told));
    }
    let all_done = runs.iter().chain(bounds).all(|run| run.status == Status::Done);
    Ok(if all_done && !failed.load(Ordering::SeqCst) { status } else { SOME_FAILED })
}

/// What is tried on a program of that footprint, 0 if it is not known.
///
/// # Errors
/// A design that is asked for cannot be. A setting of the kernel that cannot be, because of other settings, is
/// left out, and `doubts` says why.
fn trials(arguments: &AdviseArguments, footprint: u64, doubts: &mut Vec<String>) -> Result<Vec<Trial>, Failure> {
    let mut trials = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| !setting.large || footprint == 0 || footprint >= GIGABYTE) {
        match arguments.job(setting.design, setting.options) {
            Ok(job) => trials.push(Trial {
                label: setting.label.to_owned(),
                how: setting.how.to_owned(),
                kind: RemedyKind::KernelSetting,
                job,
            }),
            Err(failure) => doubts.push(format!("{} was not tried: {}", setting.label, failure.message.trim_end())),
        }
    }
    for design in requests::design_names(&arguments.designs) {
        let job = arguments.job(&design, &[])?;
        trials.push(Trial { label: design, how: String::new(), kind: RemedyKind::Design, job });
    }
    Ok(trials)
}

/// The runs by the names that the page has for them: several settings run on one design.
fn named(base: &RunResult, remedies: &[Remedy<'_>]) -> Vec<RunResult> {
    let tried = remedies.iter().map(|remedy| (remedy.label.as_str(), remedy.run));
    let all = std::iter::once(("today's kernel", base)).chain(tried);
    all.map(|(name, run)| RunResult { design: name.to_owned(), ..run.clone() }).collect()
}

/// A caution as a sentence of the page.
fn sentence(text: String) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// Prints the page.
fn show(advice: &Advice, base: &RunResult) {
    let seeds = match &base.over_seeds[..] {
        [one, .., last] => format!("seeds {} to {}", one.seed, last.seed),
        _ => format!("seed {}", base.seed),
    };
    let heading = format!(
        "{} ({}): {} instructions on each design, {seeds}. Today is a kernel with 4 KiB pages, and huge pages where \
         the program asks for them.",
        advice.program,
        advice.detail.replace('\n', ", "),
        ambulator_experiments::count(advice.instructions as f64),
    );
    print_folded(&heading, 0);
    for piece in advice.page(terminal::width()) {
        match piece {
            Piece::Heading(text) => print(&format!("\n{text}\n{}", "-".repeat(text.chars().count()))),
            Piece::Sentence(text) => print_folded(&text, 0),
            Piece::Table(text) => print(&text),
        }
    }
}
