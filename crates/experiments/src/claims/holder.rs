//! Who holds a claim.

use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// A worker, as its claims name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Differs between any two workers.
    pub token: String,
    /// The name of its machine.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// The job or array task that it runs in.
    pub job: Option<String>,
    /// The array of that task.
    pub array: Option<String>,
    /// Threads of the simulator.
    pub threads: usize,
    /// Seconds since 1970 when it started.
    pub since: u64,
    /// By which others on its machine know whether it lives.
    pub process: Process,
}

/// A process beyond its number, which another gets after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The boot of its machine.
    boot: String,
    /// The namespace of its number.
    namespace: String,
    /// Clock ticks from the boot to its start.
    started: u64,
}

impl Holder {
    /// This process, as a worker with `threads`.
    pub fn this(threads: usize) -> Holder {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let (pid, now) = (std::process::id(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let array = variable("SLURM_ARRAY_JOB_ID");
        let task = array.clone().zip(variable("SLURM_ARRAY_TASK_ID")).map(|(job, task)| format!("{job}_{task}"));
        let of_hyperqueue = || variable("HQ_JOB_ID").zip(variable("HQ_TASK_ID")).map(|(j, t)| format!("{j}_{t}"));
        Holder {
            token: format!("{host}-{pid}-{:x}", now.as_nanos()),
            host,
            pid,
            job: task.or_else(|| variable("SLURM_JOB_ID")).or_else(of_hyperqueue),
            array,
            threads,
            since: now.as_secs(),
            process: Process { boot: boot(), namespace: namespace(), started: started(pid).unwrap_or(0) },
        }
    }

    pub(super) fn text(&self) -> String {
        // A struct of texts and numbers is JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn parse(text: &str) -> Option<Holder> {
        serde_json::from_str(text).ok()
    }

    /// Whether the process is known to have ended: it ran on this machine, and is no more.
    pub fn has_ended(&self) -> bool {
        let Process { boot: of_boot, namespace: of_namespace, started: of_start } = &self.process;
        let is_here = !of_boot.is_empty() && *of_boot == boot() && *of_namespace == namespace();
        is_here && *of_start != 0 && started(self.pid) != Some(*of_start)
    }

    /// As a status names it: `node7, process 1234, job 5_1`.
    pub fn described(&self) -> String {
        let job = self.job.as_ref().map(|job| format!(", job {job}")).unwrap_or_default();
        format!("{}, process {}{job}", self.host, self.pid)
    }
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default()
}

/// Clock ticks from the boot to the start of a process; `None` if it is not there, or has ended and is waited
/// for.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have anything in it.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}
