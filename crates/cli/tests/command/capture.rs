//! Captures whose emulator is this test itself: what becomes of traces and results when programs crash, disks
//! are full, and signals arrive. `scripts/test-capture.sh` captures real programs.
#![cfg(target_os = "linux")]

use ambulator_base::{MapKind, Protection, Record, RecordKind, VirtAddr, VmEvent};
use ambulator_trace::wire::{self, Cell, event_cells, record_cell, region, start_cell};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DATA: u64 = 0x10_0000_0000;
const CODE: u64 = 0x40_0000;

/// A region of the wire, written as the plugin does, but with file operations.
struct Wire {
    memory: File,
    base: u64,
    head: u64,
}

impl Wire {
    fn claim(path: &str, number: u64, origin: u64, process: u32) -> Wire {
        let memory = File::options().read(true).write(true).open(path).unwrap();
        let mut wire = Wire { memory, base: wire::region_at(number), head: 0 };
        for (word, value) in
            [(region::PROCESS, u64::from(process)), (region::ORIGIN, origin), (region::STATE, region::OPEN)]
        {
            wire.put(8 * word as u64, &[value]);
        }
        let map = |start, protection, kind| VmEvent::Map { start: VirtAddr(start), len: 1 << 20, protection, kind };
        wire.push(&event_cells(&map(CODE, Protection::READ_EXECUTE, MapKind::File)));
        wire.push(&event_cells(&map(DATA, Protection::READ_WRITE, MapKind::Anonymous)));
        wire.push(&[start_cell()]);
        wire.push(&event_cells(&VmEvent::RegionBegin));
        wire
    }

    fn put(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory.write_all_at(&bytes, self.base + at).unwrap();
    }

    fn tail(&self) -> u64 {
        let mut tail = [0; 8];
        self.memory.read_exact_at(&mut tail, self.base + 8 * region::TAIL as u64).unwrap();
        u64::from_le_bytes(tail)
    }

    fn push(&mut self, cells: &[Cell]) {
        while self.head + cells.len() as u64 - self.tail() > wire::RING_CELLS {
            std::thread::sleep(Duration::from_millis(1));
        }
        for cell in cells {
            self.put(wire::RING_AT + self.head % wire::RING_CELLS * wire::CELL_BYTES, cell);
            self.head += 1;
        }
        self.put(8 * region::HEAD as u64, &[self.head, self.head]);
    }

    /// Records of the first thread that it has not handed over, and instructions that are not counted.
    fn keep_back(&self, records: u64) {
        for at in 0..records {
            self.put(wire::chunk_at(0) + at * wire::CELL_BYTES, &load(at));
        }
        self.put(wire::THREADS_AT, &[records, 2 * records]);
    }

    fn executed(&self, instructions: u64) {
        self.put(8 * region::EXECUTED as u64, &[instructions]);
    }

    fn finish(&self) {
        self.put(8 * region::STATE as u64, &[region::FINISHED]);
    }
}

/// A load and one more instruction.
fn load(at: u64) -> Cell {
    record_cell(&Record {
        pc: VirtAddr(CODE + at % 16 * 4),
        va: VirtAddr(DATA + at * 8 % (1 << 20)),
        gap: 1,
        size: 8,
        kind: RecordKind::Load,
        ..Record::default()
    })
}

fn loads(count: u64) -> Vec<Cell> {
    (0..count).map(load).collect()
}

fn kill(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

fn wait_forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Not a test: the stand-in for the emulator. The program's last argument says what it does.
#[test]
fn stand_in_for_the_emulator() {
    let Ok(line) = std::env::var("STAND_IN") else { return };
    let process = std::process::id();
    fs::write(std::env::var("STAND_IN_RAN").unwrap(), process.to_string()).unwrap();
    let what = line.rsplit(' ').next().unwrap();
    let path = line.split("wire=").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let claim = || Wire::claim(path, 0, 0, process);
    match what {
        "nothing" => std::process::exit(3),
        "hangs" => wait_forever(),
        "empty" => {
            let wire = claim();
            wire.executed(77);
            wire.finish();
        }
        "finishes" => {
            let mut wire = claim();
            wire.push(&loads(1000));
            wire.executed(2000);
            wire.finish();
        }
        "crashes" => {
            let mut wire = claim();
            wire.push(&loads(1000));
            wire.executed(2000);
            wire.keep_back(234);
            kill("-ABRT", process);
            wait_forever();
        }
        "pauses" => {
            claim().push(&loads(1000));
            wait_forever();
        }
        "endless" => {
            let mut wire = claim();
            loop {
                wire.push(&loads(4096));
            }
        }
        "forks" => {
            let mut wire = claim();
            let mut child = Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            let mut other = Wire::claim(path, 1, 1, child.id());
            fs::write(std::env::var("STAND_IN_RAN").unwrap(), child.id().to_string()).unwrap();
            other.push(&loads(50));
            // One that has ended before there was anything to record.
            Wire::claim(path, 2, 1, child.id()).finish();
            wire.push(&loads(1000));
            wire.finish();
        }
        _ => panic!("what is `{what}`?"),
    }
    std::process::exit(0);
}

/// A folder with the stand-in, in which commands run.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let scene = Scene { folder: tempfile::tempdir().unwrap() };
        let emulator = scene.at("bin/qemu-x86_64");
        fs::create_dir(scene.at("bin")).unwrap();
        fs::create_dir(scene.at("out")).unwrap();
        fs::write(scene.at("bin/plugin.so"), "").unwrap();
        let this = std::env::current_exe().unwrap();
        let text = format!(
            "#!/bin/sh\nSTAND_IN=\"$*\" exec '{}' --exact capture::stand_in_for_the_emulator --nocapture >/dev/null\n",
            this.display()
        );
        fs::write(&emulator, text).unwrap();
        fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)).unwrap();
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The command, run in the folder `out` with this command line: words without spaces.
    fn command(&self, line: &str, does: &str) -> Command {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
        command.args(line.split(' ')).arg("--no-progress").arg("--").arg(program).arg(does);
        command.current_dir(self.at("out")).stdin(Stdio::null()).env("PATH", path);
        command.env("AMBULATOR_CAPTURE_PLUGIN", self.at("bin/plugin.so")).env("STAND_IN_RAN", self.at("ran"));
        command.env("TMPDIR", self.at("out"));
        command
    }

    fn run(&self, line: &str, does: &str) -> (Option<i32>, String) {
        said(&self.command(line, does).output().unwrap())
    }

    /// Runs the command up to where `ready` holds, sends it signals, and returns how it ended.
    fn interrupt(&self, line: &str, does: &str, signals: u32, ready: impl Fn() -> bool) -> (Option<i32>, String) {
        let child = self.command(line, does).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("what it waits for", ready);
        for _ in 0..signals {
            kill("-TERM", child.id());
            std::thread::sleep(Duration::from_millis(50));
        }
        said(&ended(child))
    }

    /// Whether the emulator was started, and by now has ended.
    fn emulator_has_ended(&self) -> bool {
        let process = fs::read_to_string(self.at("ran")).unwrap();
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with('Z'))
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("out")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn info(&self, file: &str) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
        let output = command.args(["trace", "info", "--json"]).arg(self.at("out").join(file)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

fn ended(mut child: Child) -> Output {
    wait_for("the end", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_program_runs() {
    let scene = Scene::new();
    fs::create_dir(scene.at("out/folder.amb")).unwrap();
    let program = std::env::current_exe().unwrap();
    std::os::unix::fs::symlink(&program, scene.at("out/link")).unwrap();
    for (out, why) in [
        ("nowhere/x.amb", "nowhere/x.amb: it cannot be written (No such file"),
        ("folder.amb", "folder.amb: this is a folder"),
        ("link", "link: the trace would replace the program"),
    ] {
        let (code, said) = scene.run(&format!("capture -o {out}"), "finishes");
        assert!(code == Some(2) && said.contains(why), "{out}: {code:?}: {said}");
        assert!(!scene.at("ran").exists(), "{out}: the program ran");
    }
    assert_eq!(scene.files(), ["folder.amb", "link"]);
}

#[test]
fn a_capture_writes_its_trace_and_touches_nothing_else() {
    let scene = Scene::new();
    let others = ["x.status", "x.capture.amb", "y.champsim.capture.amb", "y.champsim.status", "z.amb"];
    others.iter().for_each(|name| fs::write(scene.at("out").join(name), "precious").unwrap());
    for line in ["capture -o x.amb", "capture -o y.champsim.xz --format champsim", "capture -o z.status"] {
        let (code, said) = scene.run(line, "finishes");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("2000 of 2000 instructions recorded"), "{said}");
    }
    for name in others {
        assert_eq!(fs::read(scene.at("out").join(name)).unwrap(), b"precious", "{name}");
    }
    assert_eq!(scene.files().len(), others.len() + 3, "{:?}", scene.files());
    for name in ["x.amb", "z.status"] {
        let info = scene.info(name);
        assert_eq!((&info["records"], &info["instructions"]), (&1000.into(), &2000.into()));
        assert_eq!((&info["cut_short"], &info["outside_mappings"]), (&Value::Null, &0.into()));
    }
    assert_eq!(scene.info("y.champsim.xz")["loads"], 1000);
}

#[test]
fn a_crash_keeps_everything_recorded_and_says_so() {
    let scene = Scene::new();
    fs::write(scene.at("out/x.amb"), "an earlier trace").unwrap();
    let (code, said) = scene.run("capture -o x.amb", "crashes");
    assert_eq!(code, Some(1), "{said}");
    let info = scene.info("x.amb");
    assert_eq!((&info["records"], &info["damage"]), (&1234.into(), &Value::Null));
    let why = "the program was ended by SIGABRT after 2468 instructions";
    assert_eq!(info["cut_short"], why);
    assert!(said.contains(&format!("x.amb: the trace was cut short: {why}")), "{said}");
    let text =
        Command::new(env!("CARGO_BIN_EXE_ambulator")).args(["trace", "info"]).arg(scene.at("out/x.amb")).output();
    assert!(String::from_utf8_lossy(&text.unwrap().stdout).contains(&format!("was cut short: {why}\n")));
    assert_eq!(scene.files(), ["x.amb"]);
}

#[test]
fn a_capture_of_nothing_leaves_the_earlier_trace() {
    let scene = Scene::new();
    fs::write(scene.at("out/x.amb"), "an earlier trace").unwrap();
    for (does, why) in [
        ("nothing", "qemu-x86_64 ended with exit status 3 before the program ran"),
        ("empty", "nothing was recorded: the program ended after 77 instructions, before the 100 to skip"),
    ] {
        let (code, said) = scene.run("capture -o x.amb --skip 100", does);
        assert!(code == Some(1) && said.contains(why), "{code:?}: {said}");
        assert!(!said.contains("x.amb: 16 B"), "the old file is announced as the result: {said}");
        assert_eq!(fs::read(scene.at("out/x.amb")).unwrap(), b"an earlier trace");
    }
    assert_eq!(scene.files(), ["x.amb"]);
}

#[test]
fn a_full_disk_ends_an_endless_program() {
    let scene = Scene::new();
    let (code, said) = scene.run("capture -o /dev/full", "endless");
    assert!(code == Some(1) && said.contains("/dev/full: the trace cannot be written: No space left"), "{said}");
    assert!(scene.emulator_has_ended());
}

#[test]
fn a_limit_of_file_sizes_is_named() {
    let scene = Scene::new();
    let inner = scene.command("capture -o x.amb", "finishes");
    let words: Vec<_> = [inner.get_program()].into_iter().chain(inner.get_args()).collect();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 100; exec \"$@\"", "sh"]).args(words).current_dir(scene.at("out"));
    limited.envs(inner.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let (code, said) = said(&limited.output().unwrap());
    assert!(code == Some(1) && said.contains("ulimit -f") && scene.files().is_empty(), "{code:?}: {said}");
}

#[test]
fn an_interrupted_capture_keeps_what_it_has() {
    let scene = Scene::new();
    // One signal, as `kill` sends it; two, as `timeout` does.
    for (signals, file) in [(1, "one.amb"), (2, "two.amb")] {
        let part =
            || scene.files().iter().any(|name| name.contains(".part") && size(&scene.at("out").join(name)) > 9999);
        let (code, said) = scene.interrupt(&format!("capture -o {file}"), "endless", signals, part);
        assert_eq!(code, Some(1), "{said}");
        let info = scene.info(file);
        let why = info["cut_short"].as_str().unwrap();
        assert!(why.starts_with("the capture was interrupted after "), "{why}");
        assert!(info["records"].as_u64().unwrap() >= 32768 && info["damage"].is_null());
        assert!(scene.emulator_has_ended());
    }
    assert_eq!(scene.files(), ["one.amb", "two.amb"]);
}

#[test]
fn an_interrupted_program_that_does_nothing_is_ended() {
    let scene = Scene::new();
    let (code, said) = scene.interrupt("capture -o x.amb", "hangs", 2, || scene.at("ran").exists());
    assert!(code == Some(1) && said.contains("nothing was recorded"), "{code:?}: {said}");
    assert!(scene.emulator_has_ended() && scene.files().is_empty(), "{:?}", scene.files());
}

#[test]
fn every_process_gets_a_trace() {
    let scene = Scene::new();
    let (code, said) = scene.run("capture --follow -o x.amb", "forks");
    let child = fs::read_to_string(scene.at("ran")).unwrap();
    let file = format!("x.{child}.amb");
    assert_eq!((code, scene.files()), (Some(1), vec![file.clone(), "x.amb".into()]), "{said}");
    let info = scene.info(&file);
    assert_eq!(
        (&info["records"], &info["cut_short"]),
        (&50.into(), &"the process was ended by a signal after 0 instructions".into())
    );
    assert!(said.contains(&format!("x.{child}.2.amb: nothing was recorded")), "{said}");
    assert_eq!((&scene.info("x.amb")["records"], &scene.info("x.amb")["cut_short"]), (&1000.into(), &Value::Null));
}

#[test]
fn a_live_crash_keeps_the_result_and_names_the_signal() {
    let scene = Scene::new();
    let (code, said) = scene.run("run --live --design radix --warmup 0 -n 1M --json out.json", "crashes");
    assert_eq!(code, Some(1), "{said}");
    let document = document(&scene.at("out/out.json"));
    let run = &document["runs"][0];
    assert_eq!((&run["status"], &run["simulated_instructions"]), (&"done".into(), &2468.into()));
    let note = "was ended by SIGABRT after 2468 instructions; the simulation covers what it executed until then";
    assert!(document["notes"][0].as_str().unwrap().ends_with(note), "{}", document["notes"]);
    assert!(said.contains(note), "{said}");
    assert_eq!(scene.files(), ["out.json"]);
}

#[test]
fn a_live_simulation_waits_for_no_more_than_it_needs() {
    let scene = Scene::new();
    let (code, said) = scene.run("run --live --design radix --warmup 0 -n 500 --json out.json", "pauses");
    assert_eq!(code, Some(0), "{said}");
    assert!(scene.emulator_has_ended());
    assert_eq!(scene.files(), ["out.json"]);
}

#[test]
fn an_interrupted_live_simulation_keeps_its_result_and_ends_the_program() {
    let scene = Scene::new();
    let line = "run --live --design radix --warmup 0 -n 100G --json out.json";
    let (code, said) = scene.interrupt(line, "pauses", 1, || scene.at("ran").exists() && scene.files().len() == 1);
    assert_eq!(code, Some(1), "{said}");
    assert!(scene.emulator_has_ended());
    assert_eq!(scene.files(), ["out.json"]);
    let document = document(&scene.at("out/out.json"));
    assert_eq!(document["runs"][0]["status"], "interrupted");
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn phases_of_a_live_program_are_read_from_a_trace_that_goes_with_the_run() {
    let scene = Scene::new();
    let line = "run --live --design radix --warmup 1k -n 200k --sampling=phases,10k --set run.sample_window=1000 \
                --set run.sample_timing=1000 --store none --json out.json";
    let (code, said) = scene.run(line, "endless");
    assert_eq!(code, Some(0), "{said}");
    let run = &document(&scene.at("out/out.json"))["runs"][0];
    let sampled = &run["sampled"];
    let intervals = sampled["intervals"].as_array().unwrap().len();
    assert!(run["status"] == "done" && (20..30).contains(&intervals), "{intervals} intervals");
    let covered = sampled["covered"].as_u64().unwrap();
    assert!((190_000..210_000).contains(&covered), "{covered}");
    assert!(scene.emulator_has_ended());
    assert_eq!(scene.files(), ["out.json"]);
}

#[test]
fn a_live_program_that_is_kept_has_checkpoints_and_the_results_of_its_trace() {
    let scene = Scene::new();
    let options = "--design radix --warmup 10k -n 50k --store none --checkpoint checkpoints --no-progress";
    let live = format!("run --live --keep kept.amb {} --json live.json", options.trim_end_matches(" --no-progress"));
    let (code, said) = scene.run(&live, "endless");
    assert_eq!(code, Some(0), "{said}");
    assert!(scene.emulator_has_ended());
    assert_eq!(scene.files(), ["checkpoints", "kept.amb", "live.json"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(["run", "kept.amb", "--json", "trace.json"]).args(options.split(' ')).current_dir(scene.at("out"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [live, trace] =
        ["live.json", "trace.json"].map(|name| document(&scene.at("out").join(name))["runs"][0].clone());
    let instructions = live["simulated_instructions"].as_u64().unwrap();
    assert!(instructions >= 50_000, "{instructions}: the trace has all that the run needs");
    assert!(trace["checkpoint"].is_string(), "{}", trace["checkpoint"]);
    assert!(live["identity"]["detail"].as_str().unwrap().starts_with("live: "), "{}", live["identity"]);
    for same in ["cycles", "counters", "measures", "identity", "status"] {
        assert_eq!(live[same], trace[same], "{same}");
    }
    // What runs now has no place to go back to.
    let (code, said) = scene.run("run --live --design radix --store none --checkpoint checkpoints", "pauses");
    assert!(code == Some(2) && said.contains("--keep FILE"), "{said}");
}

#[test]
fn a_crash_of_a_program_that_is_kept_is_told_and_an_interrupted_one_leaves_nothing() {
    let scene = Scene::new();
    let line = "run --live --keep kept.amb --design radix --warmup 0 -n 1M --store none --json out.json";
    let (code, said) = scene.run(line, "crashes");
    assert!(code == Some(1) && said.contains("was ended by SIGABRT after 2468 instructions"), "{said}");
    let run = &document(&scene.at("out/out.json"))["runs"][0];
    assert_eq!((&run["status"], &run["simulated_instructions"]), (&"done".into(), &2468.into()));
    assert!(scene.info("kept.amb")["cut_short"].as_str().unwrap().contains("SIGABRT"));
    let other = Scene::new();
    let (code, said) = other.interrupt(&line.replace("1M", "100G"), "pauses", 1, || {
        other.at("ran").exists() && other.files().iter().any(|name| name.contains("kept.amb"))
    });
    assert!(code == Some(1) && said.contains("interrupted before anything ran"), "{said}");
    assert!(other.emulator_has_ended());
    assert_eq!(other.files(), Vec::<String>::new());
}

#[test]
fn a_live_program_is_not_kept_over_itself() {
    let scene = Scene::new();
    let program = scene.at("out/program");
    fs::copy("/bin/true", &program).unwrap();
    let before = fs::read(&program).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambulator"));
    command.args(["run", "--live", "--keep", "program", "--design", "radix", "--store", "none", "--", "./program"]);
    let (code, said) = said(&command.current_dir(scene.at("out")).output().unwrap());
    assert!(code == Some(2) && said.contains("program"), "{said}");
    assert_eq!(fs::read(&program).unwrap(), before, "the program is as it was");
}
