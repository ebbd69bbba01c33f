//! Rows that conflict: pages that lie where a program's streams meet in banks of main memory cost time,
//! whatever their translation costs.

use crate::result::RunResult;

/// How many times another run's conflicts, and its time for a read, are reported.
const MANY: f64 = 1.2;
const SLOWER: f64 = 1.1;
/// How many more lines from main memory are the cause instead.
const MORE: f64 = 1.1;
/// Conflicts for 1000 instructions below which they do not matter.
const FEW: f64 = 1.0;

/// What main memory did for the data of a run: lines read and row conflicts for 1000 instructions, and cycles of a read.
struct Reads {
    lines: f64,
    conflicts: f64,
    cycles: f64,
}

fn reads(run: &RunResult) -> Option<Reads> {
    let of = |name: &str| run.counters.get(&format!("hierarchy.dram.{name}")).map(|count| *count as f64);
    let (lines, cycles) = (of("data_reads")?, of("data_read_cycles")?);
    let each = 1000.0 / run.simulated_instructions.max(1) as f64;
    (lines > 0.0).then_some(Reads {
        lines: lines * each,
        conflicts: of("data_row_conflicts")? * each,
        cycles: cycles / lines,
    })
}

/// A sentence for each run whose data close rows of other data far more often than those of another run of its
/// program, which reads as many lines, and faster.
pub(crate) fn bank_warnings(runs: &[RunResult]) -> Vec<String> {
    let told = |run: &RunResult| {
        let own = reads(run).filter(|own| own.conflicts > FEW)?;
        let of_others = runs.iter().filter_map(|other| Some((other, reads(other)?)));
        let (other, least) = of_others
            .filter(|(other, reads)| {
                other.program == run.program
                    && own.lines < MORE * reads.lines
                    && own.conflicts > MANY * reads.conflicts
                    && own.cycles > SLOWER * reads.cycles
            })
            .min_by(|a, b| a.1.conflicts.total_cmp(&b.1.conflicts))?;
        Some(format!(
            "{} on {}: its data close the row of other data in main memory {:.2} times for 1000 instructions, with {} {:.2} \
             times, and a read takes {:.0} cycles instead of {:.0}: its pages lie where streams meet in banks. That part of \
             its time is of their placement, not of translation",
            run.design, run.program, own.conflicts, other.design, least.conflicts, own.cycles, least.cycles
        ))
    };
    runs.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(design: &str, lines: u64, conflicts: u64, cycles: u64) -> RunResult {
        let counters = [("data_reads", lines), ("data_row_conflicts", conflicts), ("data_read_cycles", cycles * lines)];
        RunResult {
            design: design.into(),
            program: "p".into(),
            simulated_instructions: 100_000,
            counters: counters.map(|(name, count)| (format!("hierarchy.dram.{name}"), count)).into(),
            ..RunResult::default()
        }
    }

    #[test]
    fn conflicts_are_reported_where_another_run_shows_what_they_cost() {
        let told = |own: RunResult| bank_warnings(&[run("a", 1000, 300, 200), own]);
        let warnings = told(run("b", 1000, 600, 300));
        let text = "b on p: its data close the row of other data in main memory 6.00 times for 1000 instructions, with a 3.00 \
                    times, and a read takes 300 cycles instead of 200";
        assert!(warnings.len() == 1 && warnings[0].starts_with(text), "{warnings:?}");
        assert_eq!(told(run("b", 1000, 350, 300)).len(), 0, "few more");
        assert_eq!(told(run("b", 1000, 600, 210)).len(), 0, "that cost no time");
        assert_eq!(told(run("b", 1200, 600, 300)).len(), 0, "it reads more lines");
        assert_eq!(told(RunResult { program: "q".into(), ..run("b", 1000, 600, 300) }).len(), 0, "another program");
        assert_eq!(bank_warnings(&[run("a", 1000, 30, 200), run("b", 1000, 90, 300)]).len(), 0, "hardly any");
    }
}
