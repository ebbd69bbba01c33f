//! Cycle stacks: where the cycles of a run went, and where one run has more than another.

use crate::number::short;
use crate::row::CORE_STACK;
use crate::vocabulary::{Term, TermKind};
use ambulator_simulator::RunResult;

/// Parts of a stack: the end of the counter's name, its label in tables, and what it is in a sentence.
const PARTS: [(&str, &str, &str); 15] = [
    ("base", "base", "instructions that nothing delays"),
    ("branch", "branch mispredictions", "mispredicted branches"),
    ("front", "front end", "instruction fetches"),
    ("tlb_l1", "L1 TLB", "look-ups of the L1 TLB"),
    ("tlb_l2", "L2 TLB", "look-ups of the L2 TLB"),
    // Look-ups in memory: those of lookasides that load what they look in.
    ("walk_l1", "walks served by L1", "page walks and look-ups served by the L1 cache"),
    ("walk_l2", "walks served by L2", "page walks and look-ups served by the L2 cache"),
    ("walk_llc", "walks served by LLC", "page walks and look-ups served by the last-level cache"),
    ("walk_dram", "walks served by DRAM", "page walks and look-ups served by DRAM"),
    ("walk_joined", "walks of others, joined", "page walks of other accesses that were joined"),
    ("l1", "data from L1", "data from the L1 cache"),
    ("l2", "data from L2", "data from the L2 cache"),
    ("llc", "data from LLC", "data from the last-level cache"),
    ("dram", "data from DRAM", "data from DRAM"),
    ("stores", "stores", "stores"),
];

/// The causes of the operating system's cycles: the counter's end below `kernel.cycles`, and its words.
const CAUSES: [(&str, &str); 9] = [
    ("fault", "page faults"),
    ("zero", "zeroing pages"),
    ("allocate", "allocating contiguous memory"),
    ("copy", "copying pages"),
    ("table", "upkeep of page tables"),
    ("shootdown", "TLB shootdowns"),
    ("swap", "swapping"),
    ("syscall", "system calls"),
    ("switch", "context switches"),
];

/// What the parts of a stack mean.
pub(crate) fn terms() -> Vec<Term> {
    // Of each core: the columns, and the keys of `cores[].stack`.
    let of_core = |part: &str| Term {
        also: vec![part.to_owned()],
        shows: vec![format!("core.window.stack_{part}")],
        ..Term::new(TermKind::Column, format!("{CORE_STACK}{part}"), "By core: a part of its cycle stack.")
    };
    let of_cores = PARTS.iter().map(|(part, ..)| *part).chain(["os"]).map(of_core);
    of_cores
        .chain(
            CycleStack::rows()
                .map(|(words, _, counter)| Term { of: "part of a cycle stack".into(), ..Term::row(words, &[&counter]) })
                .map(|term| term.at("the line `Why:` of comparisons; the figure `Where the cycles go` of reports")),
        )
        .collect()
}

/// What a part of a stack belongs to, in the order in which figures stack them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Instructions: nothing delays them, or their fetch and their branches do.
    Instructions,
    /// Translation of addresses.
    Translation,
    /// Data of loads.
    Data,
    /// Stores.
    Stores,
    /// The operating system.
    OperatingSystem,
}

impl Family {
    /// The operating system's part of a stack, in words, where its causes are not told apart.
    pub const OS_WORDS: &str = "the operating system";

    /// The family of a part, by its words.
    pub fn of(words: &str) -> Family {
        let part = PARTS.iter().find(|(.., of)| *of == words).map(|(part, ..)| *part);
        match part {
            Some("base" | "branch" | "front") => Family::Instructions,
            Some(part) if part.starts_with("tlb_") || part.starts_with("walk_") => Family::Translation,
            Some("stores") => Family::Stores,
            Some(_) => Family::Data,
            None => Family::OperatingSystem,
        }
    }
}

/// Parts of a difference that a sentence names: at least this share of the largest, at most so many.
const WORTH_NAMING: f64 = 0.1;
const MOST_NAMED: usize = 4;

/// Cycles by what took them, for each 1000 instructions. They add up to the cycles of the cores.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleStack {
    /// What took cycles, in words, and how many for each 1000 instructions.
    pub parts: Vec<(&'static str, f64)>,
}

impl CycleStack {
    /// The stack of a run, if its core counts one (`core.window.stack_...`). The operating system's part is
    /// divided among its causes in proportion to the kernel's ledger.
    pub fn of(run: &RunResult) -> Option<CycleStack> {
        let counter = |name: &str| run.counters.get(name).copied();
        let stack = |part: &str| counter(&format!("core.window.stack_{part}"));
        stack("base")?;
        let per_kilo = 1000.0 / run.simulated_instructions.max(1) as f64;
        let value = |part: &str| stack(part).unwrap_or(0) as f64 * per_kilo;
        let mut parts: Vec<_> = PARTS.iter().map(|(part, _, words)| (*words, value(part))).collect();
        let charged = |cause: &str| {
            let of = |kernel: &str| counter(&format!("{kernel}.cycles.{cause}")).unwrap_or(0) as f64;
            of("kernel") + of("hypervisor")
        };
        let all: f64 = CAUSES.iter().map(|(cause, _)| charged(cause)).sum();
        if all > 0.0 {
            parts.extend(CAUSES.iter().map(|(cause, words)| (*words, value("os") * charged(cause) / all)));
        } else {
            parts.push((Family::OS_WORDS, value("os")));
        }
        Some(CycleStack { parts })
    }

    /// Cycles for each 1000 instructions, all parts together.
    pub fn total(&self) -> f64 {
        self.parts.iter().map(|(_, cycles)| cycles).sum()
    }

    /// Every part that a stack may have, in its order: its words, its label in tables, and the counter that it shows.
    pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str, String)> {
        let parts = PARTS.iter().map(|(part, label, words)| (*words, *label, format!("core.window.stack_{part}")));
        let causes = CAUSES.iter().map(|(cause, words)| (*words, *words, format!("kernel.cycles.{cause}")));
        let os = (Family::OS_WORDS, Family::OS_WORDS, "core.window.stack_os".to_owned());
        parts.chain(causes).chain([os])
    }

    /// Cycles of a part, by its words; 0 if there is none.
    pub(crate) fn part(&self, words: &str) -> f64 {
        self.parts.iter().find(|(of, _)| *of == words).map_or(0.0, |(_, cycles)| *cycles)
    }

    /// What changes from one run to another, in words. `None` without stacks, and for a mix of programs: its
    /// stack is a mean over the cores, which is not where the time until the last of them ends goes.
    pub fn change(from: &RunResult, to: &RunResult) -> Option<String> {
        let (from, to) = CycleStack::of(from).filter(|_| !is_mix(from)).zip(CycleStack::of(to))?;
        Some(from.change_to(&to))
    }

    /// What changes from this stack to another, in words: `440 fewer cycles per 1000 instructions: -400 for
    /// page walks and look-ups served by DRAM, ...`.
    fn change_to(&self, other: &CycleStack) -> String {
        let mut words: Vec<&str> = self.parts.iter().map(|(words, _)| *words).collect();
        words.extend(other.parts.iter().map(|(words, _)| *words).filter(|of| self.parts.iter().all(|(w, _)| w != of)));
        let mut changes: Vec<(f64, &str)> = words.iter().map(|of| (other.part(of) - self.part(of), *of)).collect();
        changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let largest = changes.first().map_or(0.0, |(change, _)| change.abs());
        let named = changes.iter().filter(|(change, _)| *change != 0.0 && change.abs() >= WORTH_NAMING * largest);
        let signed = |change: f64| format!("{}{}", if change < 0.0 { "-" } else { "+" }, short(change.abs()));
        let named: Vec<String> =
            named.take(MOST_NAMED).map(|(change, of)| format!("{} for {of}", signed(*change))).collect();
        let change = other.total() - self.total();
        let direction = if change < 0.0 { "fewer" } else { "more" };
        let head = format!("{} {direction} cycles per 1000 instructions", short(change.abs()));
        if named.is_empty() { head } else { format!("{head}: {}", named.join(", ")) }
    }
}

/// Whether the cores run different programs.
pub(crate) fn is_mix(run: &RunResult) -> bool {
    run.cores.iter().any(|core| core.program != run.cores[0].program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(counters: &[(&str, u64)]) -> RunResult {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        RunResult { simulated_instructions: 10_000, counters, ..RunResult::default() }
    }

    #[test]
    fn the_parts_add_up_to_the_cycles_and_the_kernels_part_goes_to_its_causes() {
        let counters = [
            ("core.window.stack_base", 4000),
            ("core.window.stack_walk_dram", 9000),
            ("core.window.stack_os", 2000),
            ("core.window.cycles", 15_000),
            ("kernel.cycles.fault", 300),
            ("kernel.cycles.zero", 100),
        ];
        let stack = CycleStack::of(&run(&counters)).unwrap();
        assert!((stack.total() - 1500.0).abs() < 1e-9);
        assert_eq!((stack.part("page faults"), stack.part("zeroing pages")), (150.0, 50.0));
        assert_eq!(stack.part("page walks and look-ups served by DRAM"), 900.0);
        // Cycles of the operating system without a cause in the ledger (waits for locks) are still there.
        let stack = CycleStack::of(&run(&counters[..3])).unwrap();
        assert_eq!((stack.part("the operating system"), stack.total()), (200.0, 1500.0));
        assert_eq!(Family::of("the operating system"), Family::OperatingSystem);
        assert_eq!(CycleStack::of(&run(&counters[3..])), None);
    }

    #[test]
    fn every_part_has_a_family() {
        let of = |words: &str| Family::of(words);
        assert_eq!(of("mispredicted branches"), Family::Instructions);
        assert_eq!(
            (of("look-ups of the L2 TLB"), of("page walks and look-ups served by DRAM")),
            (Family::Translation, Family::Translation)
        );
        assert_eq!((of("data from DRAM"), of("stores")), (Family::Data, Family::Stores));
        assert_eq!(of("page faults"), Family::OperatingSystem);
    }

    #[test]
    fn a_change_is_told_by_its_largest_parts_with_their_signs() {
        let of = |walks: u64, dram: u64, l2: u64| {
            let counters = [
                ("core.window.stack_base", 4000),
                ("core.window.stack_walk_dram", walks),
                ("core.window.stack_dram", dram),
                ("core.window.stack_l2", l2),
            ];
            CycleStack::of(&run(&counters)).unwrap()
        };
        assert_eq!(
            of(9000, 1000, 50).change_to(&of(1000, 2000, 0)),
            "705 fewer cycles per 1000 instructions: -800 for page walks and look-ups served by DRAM, +100 for data from \
             DRAM"
        );
        assert_eq!(of(1, 1, 1).change_to(&of(1, 1, 1)), "0 more cycles per 1000 instructions");
    }
}
