//! Limits that the sim host sets this process, for errors that name the one that was met.

/// What unwinds when something outside the model ends a simulation in the middle, such as the sim host, which
/// refuses memory, or an exception of a design that is written in Python: not a mistake of Ambulator's. The run
/// fails with its sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimHostRefusal(
    /// A sentence: what was refused or went wrong, and what to change, such as the limit to raise.
    pub String,
);

impl SimHostRefusal {
    /// Ends the run of this machine, without the report of a panic.
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

/// The limits on this process's threads and address space, as the end of a sentence about what was refused.
pub fn sim_host_limits() -> String {
    let set: Vec<String> = limits::set().into_iter().map(|(what, value)| format!("{what} is {value}")).collect();
    match set.as_slice() {
        [] => "this process has no limit of its own, so the limit is that of the machine or the container".to_owned(),
        set => format!("{}; raise it, or ask for less", set.join(", and ")),
    }
}

/// Bytes of address space that this process may still reserve; `None` without a limit (`ulimit -v`).
pub fn address_space_left() -> Option<u64> {
    limits::address_space().map(|limit| limit.saturating_sub(limits::address_space_in_use()))
}

#[cfg(unix)]
mod limits {
    use rustix::process::{Resource, getrlimit};

    pub(super) fn set() -> Vec<(&'static str, String)> {
        let threads = getrlimit(Resource::Nproc).current.map(|limit| limit.to_string());
        let bytes = address_space().map(|limit| format!("{} MiB", limit >> 20));
        let threads = threads.map(|limit| ("the limit on processes and threads (`ulimit -u`)", limit));
        let bytes = bytes.map(|limit| ("the limit on address space (`ulimit -v`)", limit));
        threads.into_iter().chain(bytes).collect()
    }

    pub(super) fn address_space() -> Option<u64> {
        getrlimit(Resource::As).current
    }

    /// 0 where the system does not say.
    pub(super) fn address_space_in_use() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let kilobytes = size.and_then(|size| size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kilobytes.unwrap_or(0) << 10
    }
}

#[cfg(not(unix))]
mod limits {
    pub(super) fn set() -> Vec<(&'static str, String)> {
        Vec::new()
    }

    pub(super) fn address_space() -> Option<u64> {
        None
    }

    pub(super) fn address_space_in_use() -> u64 {
        0
    }
}
