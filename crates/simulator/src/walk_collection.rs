//! Many translations from the same point of a program, for a page on which they are looked up.

use crate::error::SimError;
use crate::explain_walk::{WalkRequest, explain_walk, start};
use crate::machine::{Machine, Phase};
use crate::walk_steps::WalkSteps;
use crate::{Job, Silent};
use ambulator_base::{AccessKind, MapKind, Protection, RecordSource, VirtAddr, lock};
use ambulator_os::Vma;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Which translations to collect.
#[derive(Clone, Copy, Debug)]
pub struct CollectionRequest {
    /// Instructions of the region of interest that the program runs before each.
    pub after: u64,
    /// Present pages at most, spread evenly over all mappings.
    pub pages: usize,
    /// Of the program's next accesses, so many whose page some design has in no TLB, each on another page.
    pub misses: usize,
}

/// A mapping of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedArea {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `anonymous`, `file`, `heap` or `stack`.
    pub kind: String,
    /// Rights, as `rwx`.
    pub rights: String,
}

/// Why a translation is in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The program accesses the page next, and some design has it in no TLB.
    Next,
    /// The first page of a mapping.
    First,
    /// A page that is mapped but not present: a page fault.
    Absent,
    /// One of all present pages.
    Page,
}

/// An address whose translations were collected.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    /// The address.
    pub at: VirtAddr,
    /// The access.
    pub access: AccessKind,
    /// Why it is here.
    pub reason: Reason,
    /// Its translation on each design, in the designs' order.
    pub walks: Vec<WalkSteps>,
}

/// Translations that all begin in the same state of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkCollection {
    /// The mappings of the program, by address.
    pub areas: Vec<MappedArea>,
    /// The translations: first the program's next accesses, then the others by address.
    pub places: Vec<Collected>,
    /// Present pages of the program, collected or not.
    pub present: u64,
}

/// Runs the program to the same point again for each address, and translates it there on each design: what one
/// translation changes, the next does not see. `open` opens the program anew. `progress` is told how many of
/// how many are done, from several threads.
///
/// # Errors
/// As [`explain_walk`]; a program that cannot be opened.
pub fn collect_walks(
    jobs: &[Job],
    open: &(dyn Fn() -> Result<Vec<Box<dyn RecordSource>>, String> + Sync),
    request: &CollectionRequest,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<WalkCollection, SimError> {
    let programs = || open().map_err(SimError::Program);
    let (mut machines, _) =
        start(jobs, programs()?, &WalkRequest { after: request.after, ..WalkRequest::default() }, stop, &Silent)?;
    let (areas, mut wanted, present) = pages(&machines[0], request.pages);
    let upcoming = next_misses(&mut machines, request.misses)?;
    drop(machines);
    // The program's own access stands for its page.
    let page = |at: &VirtAddr| at.0 >> 12;
    let taken: BTreeSet<u64> = upcoming.iter().map(|(at, _)| page(at)).collect();
    wanted.retain(|(at, ..)| !taken.contains(&page(at)));
    let all: Vec<(VirtAddr, AccessKind, Reason)> =
        upcoming.into_iter().map(|(at, access)| (at, access, Reason::Next)).chain(wanted).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<Result<Vec<WalkSteps>, SimError>>>> = Mutex::new(all.iter().map(|_| None).collect());
    let failed = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(at, access, _)) = all.get(number) else { break };
                    let own = WalkRequest { at: Some(at), access: Some(access), after: request.after };
                    let walks = programs().and_then(|programs| explain_walk(jobs, programs, &own, stop, &Silent));
                    failed.fetch_or(walks.is_err(), Ordering::Relaxed);
                    lock(&results)[number] = Some(walks);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, all.len());
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut places = Vec::with_capacity(all.len());
    let mut incomplete = false;
    for (walks, (at, access, reason)) in results.into_iter().zip(all) {
        match walks {
            Some(walks) => places.push(Collected { at, access, reason, walks: walks? }),
            None => incomplete = true,
        }
    }
    match incomplete {
        true => Err(SimError::Program("interrupted before all translations were collected".into())),
        false => Ok(WalkCollection { areas, places, present }),
    }
}

/// The mappings of core 0's process, addresses to translate in them, and the number of present pages.
fn pages(machine: &Machine, most: usize) -> (Vec<MappedArea>, Vec<(VirtAddr, AccessKind, Reason)>, u64) {
    let (kernel, process) = (machine.os.kernel(), machine.hw.cores[0].process);
    let vmas = kernel.vmas(process).as_slice();
    let present = |at: VirtAddr| kernel.page_state(process, at).present();
    let all = |vma: &Vma| (vma.start.0..vma.end.0).step_by(4096).map(VirtAddr);
    let accessible = |vma: &&Vma| vma.protection.read || vma.protection.execute;
    let count: u64 = vmas.iter().flat_map(all).filter(|at| present(*at)).count() as u64;
    let stride = count.div_ceil(most.max(1) as u64).max(1) as usize;
    let mut wanted = Vec::new();
    for vma in vmas.iter().filter(accessible) {
        let access = if vma.protection.read { AccessKind::Load } else { AccessKind::Fetch };
        let own = all(vma).filter(|at| present(*at)).step_by(stride);
        let reason = |number| if number == 0 { Reason::First } else { Reason::Page };
        wanted.extend(own.enumerate().map(|(number, at)| (at, access, reason(number))));
        wanted.extend(all(vma).find(|at| !present(*at)).map(|at| (at, access, Reason::Absent)));
    }
    wanted.sort_by_key(|(at, ..)| *at);
    let areas = vmas.iter().map(|vma| MappedArea {
        start: vma.start.0,
        end: vma.end.0,
        kind: kind(vma.kind).to_owned(),
        rights: rights(vma.protection),
    });
    (areas.collect(), wanted, count)
}

fn kind(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Anonymous => "anonymous",
        MapKind::File => "file",
        MapKind::Heap => "heap",
        MapKind::Stack => "stack",
    }
}

fn rights(protection: Protection) -> String {
    let letter = |set: bool, letter| if set { letter } else { '-' };
    [(protection.read, 'r'), (protection.write, 'w'), (protection.execute, 'x')]
        .map(|(set, own)| letter(set, own))
        .iter()
        .collect()
}

/// The next data accesses of core 0 whose page some machine has in no TLB, each on another page.
fn next_misses(machines: &mut [Machine], most: usize) -> Result<Vec<(VirtAddr, AccessKind)>, SimError> {
    const SLICES: usize = 1 << 10;
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for _ in 0..SLICES {
        for (va, access) in machines[0].upcoming() {
            if found.len() < most
                && !seen.contains(&(va.0 >> 12))
                && machines.iter().any(|machine| machine.misses(va, access))
            {
                seen.insert(va.0 >> 12);
                found.push((va, access));
            }
        }
        let records = machines[0].upcoming().len().max(1);
        if found.len() >= most || machines[0].phase() == Phase::Done {
            break;
        }
        for machine in machines.iter_mut() {
            // The program's end, or a machine that fails later on, ends the search: what is there counts.
            if !machine.advance(records).unwrap_or(false) {
                return Ok(found);
            }
        }
    }
    Ok(found)
}
