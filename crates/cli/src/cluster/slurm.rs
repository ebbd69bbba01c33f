//! `sweep --slurm`: workers as a job array.

use crate::arguments::SweepArguments;
use crate::output::report;
use crate::terminal::quoted;
use crate::{DONE, Failure};
use ambulator_base::{OutputFile, lock};
use ambulator_experiments::{Claims, Progression, Store, Study, short_hash};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Array tasks of a study that Slurm knows.
pub struct Active {
    pub running: usize,
    pub waiting: usize,
}

/// Options of the command that are not the workers', and whether a value follows.
const NOT_OF_WORKERS: [(&str, bool); 5] =
    [("--slurm", true), ("--workers", true), ("--dry-run", false), ("--store", true), ("--out", true)];
/// Options of sbatch that this command gives.
const OWN: [&str; 5] = ["--array", "-a", "--job-name", "-J", "--wrap"];

/// Writes the script, and submits as many workers as are missing.
pub fn submit(
    arguments: &SweepArguments,
    options: &str,
    study: &Study,
    store: &Mutex<Store>,
    claims: &Claims,
) -> Result<u8, Failure> {
    check(options)?;
    let so_far = Progression::of(&study.cells, store, claims).map_err(Failure::failed)?;
    let retried = if arguments.retry_failed { so_far.failed.len() } else { 0 };
    let wanted = so_far.missing.len() + so_far.running.len() + retried;
    if wanted == 0 {
        report("nothing is missing: nothing is submitted");
        return Ok(DONE);
    }
    let active = active(study, store);
    if active.is_none() && !arguments.dry_run {
        return Err(Failure::failed(
            "squeue cannot be asked what runs: this machine does not reach Slurm. --dry-run writes the script only",
        ));
    }
    let active = active.map_or(0, |active| active.running + active.waiting);
    let workers = wanted.min(arguments.cluster.workers as usize);
    let missing = workers.saturating_sub(active);
    if missing == 0 {
        report(&format!("{active} workers are queued or running, for {wanted} cells: nothing is submitted"));
        return Ok(DONE);
    }
    let store_folder = absolute(lock(store).folder())?;
    let logs = store_folder.join("logs");
    std::fs::create_dir_all(&logs)
        .map_err(|error| Failure::failed(format!("{}: it cannot be created ({error})", logs.display())))?;
    let path = match &arguments.study {
        Some(study) => study.with_extension("slurm.sh"),
        None => PathBuf::from(format!("{}.slurm.sh", study.name)),
    };
    let script = Script {
        name: job_name(study, store)?,
        tasks: missing,
        logs: &logs,
        options,
        folder: &absolute(Path::new("."))?,
        program: &std::env::current_exe().map_err(|error| Failure::failed(format!("the program's file: {error}")))?,
        words: &worker_words(std::env::args().skip(1)),
        store: &store_folder,
        has_threads: arguments.threads != 0,
        has_memory: arguments.memory.is_some(),
    };
    OutputFile::prepare(&path)
        .and_then(|file| file.write(script.text().as_bytes()))
        .map_err(|error| Failure::failed(error.to_string()))?;
    let done = format!("{}: {missing} workers for {wanted} cells", path.display());
    if arguments.dry_run {
        report(&format!("{done}; not submitted: sbatch {} does it", path.display()));
        return Ok(DONE);
    }
    let output = Command::new("sbatch").arg("--parsable").arg(&path).output();
    let output = output.map_err(|error| Failure::failed(format!("sbatch cannot be run: {error}")))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(Failure::failed(format!("sbatch refuses {}: {}", path.display(), err.trim())));
    }
    report(&format!("{done}; submitted as job {}; logs are in {}", out.trim(), logs.display()));
    Ok(DONE)
}

fn check(options: &str) -> Result<(), Failure> {
    if options.contains(['\n', '\r']) {
        return Err(Failure::bad("--slurm: write the options of sbatch on one line"));
    }
    let own = |word: &&str| OWN.iter().any(|own| word == own || word.starts_with(&format!("{own}=")));
    match options.split_whitespace().find(own) {
        Some(word) => Err(Failure::bad(format!(
            "--slurm: `{word}` is given by this command: --workers says how many tasks the array has"
        ))),
        None => Ok(()),
    }
}

/// The array tasks of a study; `None` where Slurm cannot be asked.
pub fn active(study: &Study, store: &Mutex<Store>) -> Option<Active> {
    let name = job_name(study, store).ok()?;
    let output = Command::new("squeue").args(["-h", "-r", "-t", "PD,R,CF,S", "-o", "%t", "-n", &name]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let states: Vec<&str> = text.lines().map(str::trim).filter(|state| !state.is_empty()).collect();
    let waiting = states.iter().filter(|state| **state == "PD").count();
    Some(Active { running: states.len() - waiting, waiting })
}

/// The name of a study's jobs, which differs between stores.
fn job_name(study: &Study, store: &Mutex<Store>) -> Result<String, Failure> {
    let folder = absolute(lock(store).folder())?;
    Ok(format!("ambulator-{}-{:08x}", study.name, short_hash(&folder.display().to_string())))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// The words of this command that are also those of its workers.
fn worker_words(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut own = Vec::new();
    let mut skip = false;
    for word in words {
        if std::mem::take(&mut skip) {
            continue;
        }
        let (name, has_value) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        match NOT_OF_WORKERS.iter().find(|(of, _)| *of == name) {
            Some((_, takes_value)) => skip = *takes_value && !has_value,
            None => own.push(word),
        }
    }
    own
}

/// What a script says.
struct Script<'s> {
    name: String,
    tasks: usize,
    logs: &'s Path,
    options: &'s str,
    folder: &'s Path,
    program: &'s Path,
    words: &'s [String],
    store: &'s Path,
    has_threads: bool,
    has_memory: bool,
}

impl Script<'_> {
    fn text(&self) -> String {
        let quoted = |path: &Path| quoted(&path.display().to_string());
        let words: Vec<String> = self.words.iter().map(|word| crate::terminal::quoted(word)).collect();
        let mut command =
            format!("{} {} --store {} --worker", quoted(self.program), words.join(" "), quoted(self.store));
        if !self.has_threads {
            command += " \\\n    --threads \"${SLURM_CPUS_PER_TASK:-1}\"";
        }
        if !self.has_memory {
            // A tenth is for what cells do not declare.
            command += " \\\n    ${SLURM_MEM_PER_NODE:+--memory \"$((SLURM_MEM_PER_NODE * 9 / 10))MiB\"}";
        }
        let options = self.options.trim();
        let options = if options.is_empty() { String::new() } else { format!("#SBATCH {options}\n") };
        format!(
            "#!/bin/bash\n# Written by `ambulator sweep --slurm`. Each task is a worker: it takes cells until none is \
             left.\n#SBATCH --job-name={}\n#SBATCH --array=1-{}\n#SBATCH --output=\"{}/%A_%a.log\"\n{options}\
             cd {} || exit 1\nexec {command}\n",
            self.name,
            self.tasks,
            self.logs.display(),
            quoted(self.folder),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_the_words_of_the_command_but_those_of_its_own() {
        let words = "sweep my.toml --slurm --time=1 --workers=3 --store s --dry-run --set a=b --seeds 2 --out=x";
        let own = worker_words(words.split(' ').map(str::to_owned));
        assert_eq!(own, ["sweep", "my.toml", "--set", "a=b", "--seeds", "2"]);
    }

    #[test]
    fn a_shell_reads_the_script_as_it_is_meant() {
        let words = ["sweep", "it's mine.toml", "--set", "a=$HOME"].map(str::to_owned);
        let script = Script {
            name: "n".into(),
            tasks: 3,
            logs: Path::new("/l"),
            options: "--time=1:00 --comment='a b'",
            folder: Path::new("/"),
            program: Path::new("/bin/echo"),
            words: &words,
            store: Path::new("/s s"),
            has_threads: false,
            has_memory: false,
        };
        let text = script.text();
        assert!(
            text.contains("\n#SBATCH --array=1-3\n#SBATCH --output=\"/l/%A_%a.log\"\n#SBATCH --time=1:00 "),
            "{text}"
        );
        let run = |memory: &str| {
            let mut shell = Command::new("bash");
            shell.args(["-c", &text]).env("SLURM_CPUS_PER_TASK", "5").env("SLURM_MEM_PER_NODE", memory);
            String::from_utf8(shell.output().unwrap().stdout).unwrap()
        };
        assert_eq!(run("100"), "sweep it's mine.toml --set a=$HOME --store /s s --worker --threads 5 --memory 90MiB\n");
        assert_eq!(run(""), "sweep it's mine.toml --set a=$HOME --store /s s --worker --threads 5\n");
    }

    #[test]
    fn options_that_the_command_gives_itself_are_refused() {
        assert!(check("--time=1 -p main").is_ok());
        for wrong in ["--array=1-3", "-a 1-3", "--time=1\n#SBATCH -n 3", "-J x"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
