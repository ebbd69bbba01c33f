//! The processes that a captured program starts and that nothing records.

use std::collections::BTreeMap;
use std::fs;

/// The most names that a sentence lists.
const MOST_NAMED: usize = 8;

/// Processes below the emulator, as far as they lived long enough to be seen.
pub struct Children {
    emulator: u32,
    /// The program that the emulator's process ran first and last: another one is what it became.
    own: Option<(String, String)>,
    /// By number: the program's name, as last seen.
    seen: BTreeMap<u32, String>,
}

/// The file name of the program that a process runs. (Programs change the name in `comm` themselves.)
fn name_of(process: u32) -> Option<String> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    Some(program.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

/// The processes that a process has started and that live.
fn children_of(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<u32>>()).collect()
}

impl Children {
    /// The processes that the process `emulator` will start.
    pub fn of(emulator: u32) -> Children {
        Children { emulator, own: None, seen: BTreeMap::new() }
    }

    /// Looks which processes there are now.
    pub fn look(&mut self) {
        if let Some(name) = name_of(self.emulator) {
            let first = self.own.take().map_or_else(|| name.clone(), |(first, _)| first);
            self.own = Some((first, name));
        }
        let mut open = children_of(self.emulator);
        while let Some(process) = open.pop() {
            if let Some(name) = name_of(process) {
                self.seen.insert(process, name);
            }
            open.extend(children_of(process));
        }
    }

    /// Which processes were not recorded, as a sentence; `forks` of the recorded program have been counted,
    /// some of whose children may have been too quick to be seen. `program` is its name.
    pub fn unrecorded(&self, program: &str, forks: u64) -> Option<String> {
        let mut parts = Vec::new();
        let count = forks.max(self.seen.len() as u64);
        if count > 0 {
            let own = self.own.as_ref().map_or("", |(first, _)| first);
            let mut names: Vec<&str> = self.seen.values().map(String::as_str).collect();
            // A child that has become no other program has the emulator's name.
            names.iter_mut().filter(|name| **name == own).for_each(|name| *name = program);
            names.sort_unstable();
            names.dedup();
            let more = names.len().saturating_sub(MOST_NAMED);
            names.truncate(MOST_NAMED);
            let mut list = names.join(", ");
            if more > 0 {
                list += &format!(" and {more} others");
            }
            let list = if list.is_empty() { list } else { format!(" ({list})") };
            let processes = if count == 1 { "process".to_owned() } else { format!("{count} processes") };
            let article = if count == 1 { "a " } else { "" };
            parts.push(format!("started {article}{processes}{list}"));
        }
        if let Some((_, became)) = self.own.as_ref().filter(|(first, last)| first != last) {
            parts.push(format!("became `{became}`"));
        }
        let what = parts.join(" and ");
        let (were, them) = if count > 1 { ("were", "them") } else { ("was", "it") };
        (!parts.is_empty()).then(|| format!("{program} {what}, which {were} not recorded; --follow records {them}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn children_and_theirs_are_seen_by_name() {
        let mut shell = Command::new("sh").args(["-c", "sh -c 'sleep 30; :' & sleep 31; :"]).spawn().unwrap();
        let mut children = Children::of(shell.id());
        let began = Instant::now();
        let all = |children: &Children| children.seen.values().filter(|name| *name == "sleep").count() == 2;
        while !all(&children) && began.elapsed() < Duration::from_secs(20) {
            children.look();
            std::thread::sleep(Duration::from_millis(2));
        }
        let said = children.unrecorded("make", 0);
        for process in children.seen.keys() {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(*process as i32), nix::sys::signal::Signal::SIGKILL);
        }
        let _ = shell.kill();
        let _ = shell.wait();
        assert_eq!(
            said.as_deref(),
            Some("make started 3 processes (make, sleep), which were not recorded; --follow records them"),
        );
    }

    #[test]
    fn what_was_too_quick_to_be_seen_is_counted_and_nothing_is_nothing() {
        let mut children = Children::of(0);
        assert_eq!(children.unrecorded("make", 0), None);
        let one = "make started a process, which was not recorded; --follow records it";
        assert_eq!(children.unrecorded("make", 1).as_deref(), Some(one));
        children.own = Some(("qemu".into(), "cc1".into()));
        let became = "make became `cc1`, which was not recorded; --follow records it";
        assert_eq!(children.unrecorded("make", 0).as_deref(), Some(became));
    }
}
