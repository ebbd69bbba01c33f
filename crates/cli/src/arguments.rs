//! The command line.

use ambulator_trace::TraceFormat;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// A laboratory for virtual-memory address translation: runs programs' memory accesses through a modelled
/// machine and reports what each translation design costs and why.
#[derive(Parser)]
#[command(
    version,
    propagate_version = true,
    max_term_width = 110,
    after_help = "\
Examples:
  ambulator compare gups --footprint 8GiB --designs radix,thp,ideal,perfect-tlb --instructions 20M --seed 1 --json out.json
  ambulator compare traces/mummer.amb --designs radix,asap,flattened
  ambulator run bfs --footprint 1GiB --design thp --set mmu.l2_tlb.entries=1024
  ambulator list designs
  ambulator explain mmu.l2_tlb.entries
  ambulator sweep --designs radix,thp --programs gups,bfs --vary mmu.l2_tlb.entries=512,1024,2048 --dry-run
  ambulator reproduce utopia/fig2 --quick

Tables and texts fold to the width of the terminal, or to COLUMNS where it is set."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run one design on a program.
    #[command(after_help = "\
Examples:
  ambulator run gups --footprint 1GiB
  ambulator run pagerank --footprint 512MiB --design ideal --machine utopia-table1 --instructions 50M
  ambulator run traces/mummer.amb --design thp --json -")]
    Run(RunArguments),
    /// Compare several designs over one decoding of a program.
    #[command(after_help = "\
Examples:
  ambulator compare gups --footprint 8GiB --designs radix,thp,ideal,perfect-tlb --instructions 20M --seed 1 --json out.json
  ambulator compare bfs --footprint 1GiB --designs radix,thp+l2tlb-128k --program-set layout=csr
  ambulator compare gups,bfs,stream,pagerank --footprint 256MiB --designs radix,thp
  ambulator compare gups --footprint 1GiB --designs radix,lvm --seeds 5 --latex table.tex
  ambulator compare stream --footprint 4GiB --designs radix,nested,nested-thp --functional")]
    Compare(CompareArguments),
    /// Say why a program is slow: what limits it, which of its data and code cause that, and which setting of
    /// the kernel or which design would help.
    #[command(after_help = "\
Examples:
  ambulator advise gups --footprint 1GiB
  ambulator advise traces/mummer.amb
  ambulator advise traces/mummer.amb --designs lvm,utopia,revelator --json
  ambulator advise --skip 50M -- sort -n numbers.txt      # captured while it runs
  ambulator advise long.amb --sample 10M/1G -n 200M

Functions and lines need a captured program, and its files with debug information (-g) where they were.")]
    Advise(crate::advise::AdviseArguments),
    /// Inspect or convert a trace file.
    Trace(TraceArguments),
    /// Record a Linux program's execution as a trace, with qemu-user.
    #[command(after_help = "\
Examples:
  ambulator capture --out sort.amb -- sort -o /dev/null words.txt
  ambulator capture --skip 2G --take 100M -- mummer -maxmatch reference.fa query.fa
  ambulator capture --every 1G --window 10M --take 200M -- redis-server --port 7777
  ambulator compare --live --designs radix,thp,ideal --instructions 20M -- sort words.txt")]
    Capture(CaptureArguments),
    /// Analyse a real process's address space: how regular it is, and how much memory page tables would need
    /// for it.
    #[command(after_help = "\
Examples:
  ambulator layout --pid 1234           # frame numbers need root (CAP_SYS_ADMIN)
  ambulator layout --maps saved-maps.txt --json")]
    Layout(LayoutArguments),
    /// List designs, machines, programs, settings, counters or figures.
    #[command(after_help = "Examples:\n  ambulator list\n  ambulator list designs\n  ambulator list counters")]
    List(ListArguments),
    /// Explain any name that you meet: settings, designs, rows of tables, counters, columns, JSON keys, figures,
    /// units, and the papers' terms.
    #[command(after_help = "\
Examples:
  ambulator explain                       # what can be asked
  ambulator explain lvm
  ambulator explain mmu.l2_tlb.entries
  ambulator explain dram
  ambulator explain MMU cycles per access
  ambulator explain walk_latency.p99
  ambulator explain utopia/fig11
  ambulator explain RestSeg --json
  head -n 1 results.csv | tr ',' '\\n' | ambulator explain -")]
    Explain(ExplainArguments),
    /// Show one address translation step by step: look-ups, loads with their decoded bytes, speculation,
    /// faults, refills.
    #[command(after_help = "\
Examples:
  ambulator explain-walk --design lvm
  ambulator explain-walk --design radix,lvm,utopia --program bfs --footprint 256MiB --after 10M
  ambulator explain-walk --design nested --at 0x100000000 --access store
  ambulator explain-walk --design revelator --program traces/mummer.amb --json
  ambulator explain-walk --design radix,lvm --svg walk.svg     # slides: walk-radix.svg, walk-lvm.svg
  ambulator explain-walk --design radix,lvm,nested --html walks.html   # a page to step through them")]
    ExplainWalk(ExplainWalkArguments),
    /// Print the complete spec of a run, with units and meanings, as TOML for `--spec`.
    #[command(after_help = "\
Examples:
  ambulator show-spec --machine utopia-table1 --design thp > mine.toml
  ambulator show-spec --set core.rob=512")]
    ShowSpec(SpecArguments),
    /// Run a study: a grid of designs, programs, machines, settings and seeds. A second run does only what is
    /// missing.
    #[command(after_help = "\
Examples:
  ambulator sweep --designs radix,thp --programs gups,bfs --vary mmu.l2_tlb.entries=512,1024,2048 --dry-run
  ambulator sweep --designs radix,lvm --programs gups --footprint 1GiB --machine lvm-table1,utopia-table1 --seeds 5
  ambulator sweep study.toml --csv study.csv --latex table.tex
  ambulator sweep study.toml --retry-failed
  ambulator sweep study.toml --slurm \"--time=4:00:00 --cpus-per-task=8 --mem=32G\"
  ambulator sweep study.toml --status
  ambulator sweep study.toml --shard 3/16 --store part-3")]
    Sweep(SweepArguments),
    /// List, filter, show and compare the finished cells of a store.
    #[command(after_help = "\
Examples:
  ambulator results
  ambulator results --design radix,thp --program gups --where mmu.l2_tlb.entries=1024
  ambulator results --study study --columns design,program,ipc,mmu.walks --csv walks.csv
  ambulator results 3f8a --spec            # one cell whole
  ambulator results 3f8a 91c2              # two side by side
  ambulator results --program gups --compare")]
    Results(crate::results::ResultsArguments),
    /// List the checkpoints of a folder: what each is of, its size, and whether this version can use it.
    #[command(after_help = "\
Examples:
  ambulator compare gups --designs radix,thp --checkpoint out/checkpoints --set run.warmup_mode=functional
  ambulator checkpoints out/checkpoints")]
    Checkpoints(crate::checkpoints::CheckpointsArguments),
    /// Say what differs between two runs, stores or studies: settings first, then the numbers that moved.
    #[command(after_help = "\
Examples:
  ambulator diff 3f8a 91c2
  ambulator diff design=radix,program=gups design=thp,program=gups
  ambulator diff mmu.l2_tlb.entries=512 mmu.l2_tlb.entries=1024 --csv moved.csv
  ambulator diff out/before out/after
  ambulator diff monday.json tuesday.json --threshold 5")]
    Diff(crate::diff::DiffArguments),
    /// Reproduce the papers' figures: the published numbers next to ours.
    #[command(after_help = "\
Examples:
  ambulator reproduce                   # every figure, at the papers' sizes
  ambulator reproduce utopia            # one paper
  ambulator reproduce utopia/fig2 --quick
  ambulator reproduce utopia/fig2 --quick --whole    # whole programs beside the regions
  ambulator reproduce mine.toml         # a figure of your own
  ambulator reproduce utopia --report utopia.html")]
    Reproduce(ReproduceArguments),
    /// Make a report of results: one HTML file that opens with the answer, works offline, and has figures,
    /// any two runs side by side, and every setting.
    #[command(after_help = "\
Examples:
  ambulator report                      # every run of the store out/results
  ambulator report --study tlb-sizes    # the cells of one sweep
  ambulator compare gups --footprint 1GiB --designs radix,thp,lvm --json gups.json
  ambulator report gups.json -o gups.html")]
    Report(ReportArguments),
    /// Draw the figures of a report as files for papers: SVG, PDF or Vega-Lite, in the widths of one column
    /// (3.33 inches) and of the page (7 inches).
    #[command(after_help = "\
Examples:
  ambulator plot --study tlb-sizes -o figures
  ambulator plot gups.json bfs.json -o figures --format pdf
  ambulator plot gups.json -o figures --format vl    # needs no other program

SVG, PDF and PNG are drawn by the Python package vl-convert-python:
  python3 -m pip install vl-convert-python")]
    Plot(PlotArguments),
    /// Run the conformance suite on page tables: random operations compared with a reference model.
    #[command(after_help = "\
Examples:
  ambulator conformance
  ambulator conformance lvm --operations 5000 --seed 7")]
    Conformance(ConformanceArguments),
    /// Print completions for a shell.
    #[command(after_help = "\
Examples:
  ambulator completions bash --out ~/.local/share/bash-completion/completions/ambulator
  ambulator completions fish --out ~/.config/fish/completions/ambulator.fish
  ambulator completions zsh")]
    Completions {
        /// Which shell.
        shell: Shell,
        /// Write them to a file, whose folder is created if it is missing.
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the reference chapters of the book.
    #[command(hide = true)]
    Reference {
        /// Which chapter.
        what: ReferenceOf,
    },
}

/// The page tables and the script of the suite.
#[derive(Args)]
pub struct ConformanceArguments {
    /// Page tables by name; all by default.
    pub designs: Vec<String>,
    /// Operations of the random script.
    #[arg(long, value_name = "COUNT", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1..))]
    pub operations: u32,
    /// Seed of the script.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ReferenceOf {
    Designs,
    Settings,
    Programs,
    Counters,
    Terms,
}

/// The machine and the run.
#[derive(Args, Clone, Default)]
pub struct MachineArguments {
    /// Machine preset, or a TOML file's path.
    #[arg(long, short, value_name = "PRESET|FILE")]
    pub machine: Option<String>,
    /// A spec file that overrides the presets; repeatable, later ones override earlier ones.
    #[arg(long, value_name = "FILE")]
    pub spec: Vec<PathBuf>,
    /// Override one setting, such as mmu.l2_tlb.entries=2048; repeatable. A setting that has no effect, or
    /// that another option gives another value, is an error.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Where finished runs are kept.
#[derive(Args, Clone, Default)]
pub struct StoreArguments {
    /// The folder where finished runs are kept and found, by this command and others at the same time; `none`
    /// for no store. By default that of the environment variable AMBULATOR_STORE, or else out/results.
    #[arg(long, alias = "out", value_name = "FOLDER|none")]
    pub store: Option<PathBuf>,
    /// Run everything, also what is in the store.
    #[arg(long)]
    pub fresh: bool,
    /// Start each run from the checkpoint of its machine after the warm-up in this folder; where there is
    /// none yet, make it.
    #[arg(long, value_name = "FOLDER")]
    pub checkpoint: Option<PathBuf>,
}

/// The program and the length of the run.
#[derive(Args, Clone, Default)]
pub struct ProgramArguments {
    /// A program (`ambulator list programs`), a workload (`ambulator list workloads`, or a TOML file) or a
    /// trace file's path. Several, separated by commas, are a mix, one on each core; with fewer --cores than
    /// programs, the programs of a core run round-robin. The path of an existing file may contain commas.
    #[arg(required_unless_present = "live")]
    pub program: Option<String>,
    /// Capture a program while it runs and simulate it at once: `--live -- program arguments`.
    #[arg(long, requires = "command", conflicts_with = "program")]
    pub live: bool,
    /// With --live: record what is captured in this trace file first, and simulate that. Its results are kept in
    /// the store, and it can start from checkpoints.
    #[arg(long, value_name = "FILE", requires = "live")]
    pub keep: Option<PathBuf>,
    /// With --live and traces: instructions to skip from the beginning, before the simulation. The pages that
    /// they touch stay touched.
    #[arg(long, value_name = "COUNT")]
    pub skip: Option<String>,
    /// Of a trace, simulate windows: the first WINDOW of every EVERY instructions, such as 10M/1G.
    #[arg(long, value_name = "WINDOW/EVERY", conflicts_with = "live")]
    pub sample: Option<String>,
    /// With --live: the program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", requires = "live")]
    pub command: Vec<String>,
    /// Bytes of data that the program works on, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    pub footprint: Option<String>,
    /// A setting of the program, such as layout=csr; repeatable. In a mix, the key may begin with the program
    /// that it is for: bfs.layout=csr.
    #[arg(long = "program-set", value_name = "KEY=VALUE")]
    pub program_set: Vec<String>,
    /// Instructions to measure on each core, such as 20M.
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub instructions: Option<String>,
    /// Warm-up instructions on each core, which are not measured.
    #[arg(long, value_name = "COUNT")]
    pub warmup: Option<String>,
    /// Record every counter each COUNT instructions of the measured region, such as 1M: `series` of --json.
    #[arg(long, value_name = "COUNT")]
    pub interval: Option<String>,
    /// Measure windows only, one each PERIOD instructions (5M), or intervals of each phase of the program (phases,
    /// or phases,5M), and simulate no time between them: faster, and every number has a 95% interval. `ambulator
    /// explain run.sampling` has more.
    #[arg(long, value_name = "PERIOD|phases", num_args = 0..=1, default_missing_value = "10M", require_equals = true)]
    pub sampling: Option<String>,
    /// Seed of everything random.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Cores, each running the program with its own seed.
    #[arg(long)]
    pub cores: Option<u32>,
    /// Where the kernel places pages, as `--set design.placement=NAME`; `trace`: where they were when the
    /// trace was recorded.
    #[arg(long, value_name = "NAME")]
    pub placement: Option<String>,
    /// Run the threads of one program on all cores, thread t on core t modulo the cores.
    #[arg(long)]
    pub spread_threads: bool,
    /// Do not model time: faster, with all counts that do not depend on it.
    #[arg(long)]
    pub functional: bool,
    /// Do not check translations against the kernel's page state.
    #[arg(long)]
    pub no_oracle: bool,
    #[command(flatten)]
    pub machine: MachineArguments,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub timeline: TimelineArguments,
    /// Write everything as JSON; `-` for standard output, which then has nothing else.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// No progress on standard error.
    #[arg(long)]
    pub no_progress: bool,
    /// No table on standard output.
    #[arg(long, short)]
    pub quiet: bool,
}

/// A window of the runs as a timeline.
#[derive(Args, Clone, Default)]
pub struct TimelineArguments {
    /// Write TLB misses, page walks, faults, kernel events and main memory's commands of a window of the
    /// measured region as a timeline, which Perfetto (ui.perfetto.dev) opens. Nothing is taken from the store.
    #[arg(long, value_name = "FILE")]
    pub trace_events: Option<PathBuf>,
    /// Instructions of the measured region before the window, all cores together; by default 0.
    #[arg(long, value_name = "COUNT", requires = "trace_events")]
    pub trace_from: Option<String>,
    /// Instructions of the window, all cores together; by default 100K.
    #[arg(long, value_name = "COUNT", requires = "trace_events")]
    pub trace_for: Option<String>,
    /// Size of the file at which recording ends; by default 256MiB.
    #[arg(long, value_name = "SIZE", requires = "trace_events")]
    pub trace_limit: Option<String>,
}

#[derive(Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub program: ProgramArguments,
    /// Design preset, or a TOML file's path.
    #[arg(long, short, value_name = "PRESET|FILE")]
    pub design: Option<String>,
}

#[derive(Args)]
pub struct CompareArguments {
    #[command(flatten)]
    pub program: ProgramArguments,
    /// Design presets or TOML files, separated by commas; speed-ups are relative to the first. `+` joins
    /// presets that do not contradict each other. The path of an existing file may contain commas.
    #[arg(long, short, default_value = "radix,thp,ideal,perfect-tlb", value_name = "DESIGN,...")]
    pub designs: Vec<String>,
    /// Do not run the bounds: for each paging policy among the designs, a machine with a perfect TLB, by
    /// which the verdict says what translation costs at most.
    #[arg(long)]
    pub no_bounds: bool,
    /// Run everything with this many seeds, from --seed on: numbers become means with 95% intervals.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "live")]
    pub seeds: u32,
    /// Threads of the simulator; 0 for as many as the machine has.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    #[command(flatten)]
    pub table: TableArguments,
}

/// What to capture.
#[derive(Args, Clone)]
pub struct CaptureArguments {
    /// The trace to write; by default PROGRAM.amb in this folder.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Instructions to skip before recording; their mappings and first touches are kept.
    #[arg(long, value_name = "COUNT", default_value = "0")]
    pub skip: String,
    /// Instructions to record, after which the program is ended; by default all.
    #[arg(long, value_name = "COUNT")]
    pub take: Option<String>,
    /// Record one window in every COUNT instructions.
    #[arg(long, value_name = "COUNT", requires = "window")]
    pub every: Option<String>,
    /// Instructions of each window.
    #[arg(long, value_name = "COUNT", requires = "every")]
    pub window: Option<String>,
    /// Record forked processes, and programs that they execute, in separate traces, NAME.PID.amb and
    /// NAME.PID.PROGRAM.amb. The capture lasts until all have ended.
    #[arg(long)]
    pub follow: bool,
    /// The format to write.
    #[arg(long, value_enum, default_value = "amb")]
    pub format: FormatArgument,
    /// zstd level of the trace, 1 (fast) to 22 (small).
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: i32,
    /// The processor that the program sees; libraries choose their code accordingly.
    #[arg(long, default_value = crate::capture::CPU)]
    pub cpu: String,
    /// The program's name in the trace.
    #[arg(long)]
    pub name: Option<String>,
    /// No progress on standard error.
    #[arg(long)]
    pub no_progress: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<String>,
}

/// The address space to analyse.
#[derive(Args)]
pub struct LayoutArguments {
    /// A live process.
    #[arg(long, required_unless_present = "maps", conflicts_with = "maps")]
    pub pid: Option<u32>,
    /// A copy of /proc/PID/maps.
    #[arg(long, value_name = "FILE")]
    pub maps: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SpecArguments {
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Design preset, or a TOML file's path.
    #[arg(long, short, value_name = "PRESET|FILE")]
    pub design: Option<String>,
}

#[derive(Args)]
pub struct TraceArguments {
    #[command(subcommand)]
    pub command: TraceCommand,
}

#[derive(Subcommand)]
pub enum TraceCommand {
    /// Summarise a trace: format, records, instructions, threads, pages, reuse, contiguity, events, damage.
    ///
    /// Read are Ambulator's traces, ChampSim's and CloudSuite's, Valgrind lackey's, DynamoRIO's drmemtrace (a file, or
    /// a directory with a file for each thread), gem5's packet and elastic traces, and samples of `perf script`.
    #[command(
        after_help = "Examples:\n  ambulator trace info traces/mummer.amb\n  ambulator trace info drmemtrace.app.1234.5678.dir"
    )]
    Info {
        /// The trace.
        file: PathBuf,
        /// Read the whole trace. Without it, an Ambulator trace of more than 64 MiB is summarised from its
        /// index, at once: records, instructions and blocks, but no loads, stores and pages.
        #[arg(long)]
        full: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: WidthArguments,
    },
    /// Convert a trace to Ambulator's format, or to one of ChampSim, DynamoRIO or gem5.
    #[command(after_help = "\
Examples:
  ambulator trace convert program.champsimtrace.xz program.amb
  ambulator trace convert traces/mummer.amb mummer.champsim.xz --format champsim --records 1000000
  ambulator trace convert traces/mummer.amb mummer.trace.gz --format drmemtrace")]
    Convert {
        /// The trace to read; its format is recognised by its contents.
        from: PathBuf,
        /// The trace to write.
        to: PathBuf,
        /// The format to write. A file for another tool is compressed according to its name's extension (.gz; for
        /// ChampSim also .xz and .zst); Ambulator's format has its own compression.
        #[arg(long, value_enum, default_value_t = FormatArgument::Amb)]
        format: FormatArgument,
        /// Records to skip at the beginning, such as 10M.
        #[arg(long, default_value = "0", value_name = "COUNT")]
        skip: String,
        /// Records to keep, at least 1.
        #[arg(long, value_name = "COUNT")]
        records: Option<String>,
        #[command(flatten)]
        width: WidthArguments,
    },
    /// Print the first records and events of a trace.
    #[command(after_help = "Example:\n  ambulator trace head traces/mummer.amb -n 20")]
    Head {
        /// The trace.
        file: PathBuf,
        /// How many records.
        #[arg(short = 'n', long, default_value_t = 10)]
        count: usize,
        #[command(flatten)]
        width: WidthArguments,
    },
}

/// The width of a trace's addresses.
#[derive(Args)]
pub struct WidthArguments {
    /// Bits of virtual addresses to keep, 32 to 57: for the formats of other tools, which do not state their
    /// width.
    #[arg(long, value_name = "BITS", default_value_t = 48, value_parser = clap::value_parser!(u8).range(32..=57))]
    pub va_bits: u8,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum FormatArgument {
    /// Ambulator's.
    Amb,
    /// ChampSim's, 64 bytes an instruction.
    Champsim,
    /// CloudSuite's for ChampSim, 96 bytes an instruction, with processes.
    Cloudsuite,
    /// DynamoRIO's drmemtrace, one file of all threads.
    Drmemtrace,
    /// The data file of gem5's elastic traces.
    Gem5Elastic,
    /// gem5's packets of a memory port.
    Gem5Packets,
}

impl FormatArgument {
    /// The format, and the extension of a file's name in it.
    pub fn format(self) -> (TraceFormat, &'static str) {
        match self {
            FormatArgument::Amb => (TraceFormat::Ambulator, "amb"),
            FormatArgument::Champsim => (TraceFormat::ChampSim, "champsim.xz"),
            FormatArgument::Cloudsuite => (TraceFormat::CloudSuite, "cloudsuite.xz"),
            FormatArgument::Drmemtrace => (TraceFormat::DrMemTrace, "trace.gz"),
            FormatArgument::Gem5Elastic => (TraceFormat::Gem5Elastic, "elastic.gz"),
            FormatArgument::Gem5Packets => (TraceFormat::Gem5Packets, "packets.gz"),
        }
    }
}

#[derive(Args)]
pub struct ListArguments {
    /// What to list; by default all but settings and counters.
    pub what: Option<ListOf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListOf {
    Designs,
    Machines,
    Programs,
    Workloads,
    Settings,
    Counters,
    Figures,
}

#[derive(Args)]
pub struct ExplainArguments {
    /// Any name: a setting (mmu.l2_tlb.entries), a group (dram), a design (lvm), a preset (thp), a counter
    /// (mmu.walks), a row of a table (cycles a walk), a column, a JSON key, a figure (utopia/fig11), a term of a
    /// paper (RestSeg). Without one, what can be asked; `-` for names on standard input, one in a line.
    #[arg(value_name = "NAME")]
    pub name: Vec<String>,
    /// Print JSON; without a name, every name and its meaning.
    #[arg(long)]
    pub json: bool,
}

/// The translation to show.
#[derive(Args)]
pub struct ExplainWalkArguments {
    /// Design presets or TOML files, separated by commas, shown one after another and then side by side. `+`
    /// joins presets that do not contradict each other.
    /// By default radix; with --html radix, ecpt, lvm and utopia.
    #[arg(long, short, alias = "designs", value_name = "DESIGN,...")]
    pub design: Vec<String>,
    /// The virtual address, such as 0x7f0012345678; `next` for that of the program's next load or store whose
    /// page no TLB of the designs has.
    #[arg(long, default_value = "next", value_name = "ADDRESS", conflicts_with = "html")]
    pub at: String,
    /// What runs before: a program (`ambulator list programs`), a workload or a trace file's path.
    #[arg(long, default_value = "gups", value_name = "PROGRAM|FILE")]
    pub program: String,
    /// Instructions of the program's region of interest to run before the translation, such as 10M; by default
    /// 100K, and 2K with --html.
    #[arg(long, value_name = "COUNT")]
    pub after: Option<String>,
    /// The kind of access; by default the program's own for `--at next`, and a load for an address.
    #[arg(long, value_enum, conflicts_with = "html")]
    pub access: Option<AccessArgument>,
    /// Bytes of data that the program works on; by default 64 MiB, and 2 MiB with --html, where the program has
    /// this setting.
    #[arg(long, value_name = "SIZE")]
    pub footprint: Option<String>,
    /// A setting of the program, such as layout=csr; repeatable.
    #[arg(long = "program-set", value_name = "KEY=VALUE")]
    pub program_set: Vec<String>,
    /// Seed of everything random.
    #[arg(long)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Print JSON: a list with one entry for each design.
    #[arg(long)]
    pub json: bool,
    /// Draw the translation as a slide, 16 to 9, into this SVG file; of several designs, each into a file of its
    /// own, whose name ends in that of the design.
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    pub svg: Option<PathBuf>,
    /// Make a page for a lecture, one HTML file that works offline: the translations of many addresses, to step
    /// through one or two designs at a time, each in its structures.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// With --html: present pages that can be looked up by an address, spread over all mappings.
    #[arg(long, default_value_t = 600, value_name = "COUNT", requires = "html")]
    pub pages: u32,
    /// With --html: the program's next accesses whose page a TLB misses, each on another page, to step through.
    #[arg(long, default_value_t = 50, value_name = "COUNT", requires = "html")]
    pub walks: u32,
    /// No progress on standard error.
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub enum AccessArgument {
    /// A load.
    Load,
    /// A store.
    Store,
    /// An instruction fetch.
    Fetch,
}

/// Files that a table is written to.
#[derive(Args, Clone)]
pub struct TableArguments {
    /// Write the table as CSV, with every digit.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the table as Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the table as LaTeX, for the package booktabs.
    #[arg(long, value_name = "FILE")]
    pub latex: Option<PathBuf>,
}

/// A study: a file, or a grid of options.
#[derive(Args)]
pub struct SweepArguments {
    /// The study's TOML file; without one, --designs and --programs say what runs.
    pub study: Option<PathBuf>,
    /// Design presets or TOML files, separated by commas; speed-ups are relative to the first.
    #[arg(long, short, value_name = "DESIGN,...", conflicts_with = "study")]
    pub designs: Vec<String>,
    /// Programs, workloads or traces, separated by commas; `+` joins those of a mix.
    #[arg(long, short, value_name = "PROGRAM,...", conflicts_with = "study")]
    pub programs: Vec<String>,
    /// Machine presets or TOML files, separated by commas.
    #[arg(long, short, value_name = "PRESET|FILE,...", conflicts_with = "study")]
    pub machine: Vec<String>,
    /// Vary a setting over values, such as mmu.l2_tlb.entries=512,1024; repeatable: every combination runs.
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with = "study")]
    pub vary: Vec<String>,
    /// Set one setting in every cell; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Bytes of data that each program works on, such as 8GiB.
    #[arg(long, value_name = "SIZE")]
    pub footprint: Option<String>,
    /// Instructions to measure on each core, such as 20M.
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub instructions: Option<String>,
    /// Warm-up instructions on each core, which are not measured.
    #[arg(long, value_name = "COUNT")]
    pub warmup: Option<String>,
    /// Run everything with this many seeds, 1 to COUNT: numbers become means with 95% intervals.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// With a figure's file: its quick sizes.
    #[arg(long)]
    pub quick: bool,
    /// Run nothing; say how many cells there are, how many of them are in the store, and what time and memory
    /// the others take.
    #[arg(long)]
    pub dry_run: bool,
    /// Run cells again that have failed before.
    #[arg(long)]
    pub retry_failed: bool,
    /// Memory of the sim host that cells may take together, such as 16GiB; by default what is free.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Threads of the simulator; 0 for as many as the machine has.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub table: TableArguments,
    #[command(flatten)]
    pub cluster: crate::cluster::ClusterArguments,
    /// No progress on standard error.
    #[arg(long)]
    pub no_progress: bool,
    /// No table on standard output.
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct ReproduceArguments {
    /// A paper (utopia), a figure (utopia/fig2) or the path of a TOML file; by default all figures.
    pub figure: Option<String>,
    /// Small footprints and few instructions: seconds a figure instead of minutes or hours, but not comparable
    /// with the paper.
    #[arg(long)]
    pub quick: bool,
    /// Run whole programs too, from the begin to the end, sampled by their phases: beside each number there is
    /// then one of whole programs. A program without an end runs INSTRUCTIONS on each core; by default, one for
    /// each 16 bytes of its data.
    #[arg(long, value_name = "INSTRUCTIONS", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    pub whole: Option<String>,
    /// Run nothing; say for each figure how many runs it has, how many of them are in the store, and what time
    /// and memory the others take. Programs of which the store has none are tried at quick sizes.
    #[arg(long, conflicts_with_all = ["json", "report"])]
    pub dry_run: bool,
    #[command(flatten)]
    pub store: StoreArguments,
    /// Threads of the simulator; 0 for as many as the machine has.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Write everything as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw every figure, published beside ours, in one HTML file that works offline.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// No progress on standard error.
    #[arg(long)]
    pub no_progress: bool,
}

/// The results of a report.
#[derive(Args)]
pub struct ReportArguments {
    /// Stores, and files that `compare --json` or `run --json` wrote; by default the store of the environment
    /// variable AMBULATOR_STORE, or else out/results.
    #[arg(value_name = "STORE|FILE")]
    pub results: Vec<PathBuf>,
    /// Of a store, only the cells of this study (`sweep NAME.toml`).
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// The HTML file to write.
    #[arg(long, short, default_value = "report.html", value_name = "FILE")]
    pub out: PathBuf,
}

/// The results of figures.
#[derive(Args)]
pub struct PlotArguments {
    /// Stores, and files that `compare --json` or `run --json` wrote; by default the store of the environment
    /// variable AMBULATOR_STORE, or else out/results.
    #[arg(value_name = "STORE|FILE")]
    pub results: Vec<PathBuf>,
    /// Of a store, only the cells of this study (`sweep NAME.toml`).
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// The folder of the figures, which is created if it is missing.
    #[arg(long, short, default_value = "figures", value_name = "FOLDER")]
    pub out: PathBuf,
    /// Formats, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "svg,pdf")]
    pub format: Vec<PlotFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlotFormat {
    /// Scalable Vector Graphics.
    Svg,
    /// PDF, with its fonts.
    Pdf,
    /// Pixels, 300 dots per inch.
    Png,
    /// The Vega-Lite specification.
    Vl,
}
