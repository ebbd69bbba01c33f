//! How many instructions, loads, stores and branches a program has for each unit of its work, beside those
//! of the compiled program that it stands for.
//!
//! `tools/kernel-density` has the same algorithms on the same data structures in C++, compiled by gcc 12 -O2
//! (-O3 for linked graphs, as GraphBIG's are) and captured: what a [`Density`] calls `compiled` is what it
//! prints, without the set-up. Each kernel keeps its numbers beside its loops; a test holds the kernel within a
//! tenth of them.

use crate::program::Program;
use ambulator_base::{Batch, RecordKind, SourceError, VmEvent};

/// Instructions and records of one unit of work, in the mean.
///
/// An instruction that reads and writes memory is one instruction, a load and a store. Branches are the
/// conditional and indirect ones, as [`ambulator_base::Record`] has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Instructions, those with records among them.
    pub instructions: f64,
    /// Loads.
    pub loads: f64,
    /// Stores.
    pub stores: f64,
    /// Conditional and indirect branches.
    pub branches: f64,
}

impl Counts {
    /// The four numbers in the order of the fields, with their names.
    pub fn named(&self) -> [(&'static str, f64); 4] {
        [
            ("instructions", self.instructions),
            ("loads", self.loads),
            ("stores", self.stores),
            ("branches", self.branches),
        ]
    }
}

/// The work of a compiled program in one of its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Density {
    /// The program and arguments in `tools/kernel-density` (`EDGES` is a Kronecker graph of 2^14 vertices
    /// with 16 edges each).
    pub compiled_program: &'static str,
    /// The settings in which the program here does the same, as JSON.
    pub settings: &'static str,
    /// What is counted, such as "stored edge".
    pub unit: &'static str,
    /// Code address of a record that the program here emits once for each unit.
    pub site: u64,
    /// Units before the measured window.
    pub skip: u64,
    /// Units in the measured window, or those to the program's end if it has fewer ([`Density::TO_THE_END`]).
    pub units: u64,
    /// What the compiled program was measured to execute for each unit.
    pub compiled: Counts,
}

impl Density {
    /// [`Density::units`] of a window that lasts to the program's end.
    pub const TO_THE_END: u64 = u64::MAX;

    /// Runs `program` and returns what it executes for each unit of the window.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn measure(&self, program: &Program) -> Result<Counts, Box<dyn std::error::Error>> {
        let mut source = program.open()?;
        let mut batch = Batch::default();
        let (mut begun, mut units, mut sum) = (false, 0u64, Counts::default());
        while source.fill(&mut batch).map_err(|e: SourceError| e.to_string())? {
            begun |= batch.events.iter().any(|(_, event)| *event == VmEvent::RegionBegin);
            if !begun {
                continue;
            }
            for record in &batch.records {
                let counted = units >= self.skip;
                units += u64::from(record.pc.0 == self.site);
                if !counted {
                    continue;
                }
                sum.instructions += record.instructions() as f64;
                match record.kind {
                    RecordKind::Load => sum.loads += 1.0,
                    RecordKind::Store => sum.stores += 1.0,
                    RecordKind::BranchTaken | RecordKind::BranchNotTaken => sum.branches += 1.0,
                    RecordKind::Fetch => {}
                }
                if units == self.skip.saturating_add(self.units) {
                    return Ok(divide(sum, self.units));
                }
            }
        }
        Ok(divide(sum, units.saturating_sub(self.skip)))
    }
}

fn divide(sum: Counts, units: u64) -> Counts {
    let units = units.max(1) as f64;
    Counts {
        instructions: sum.instructions / units,
        loads: sum.loads / units,
        stores: sum.stores / units,
        branches: sum.branches / units,
    }
}

#[cfg(test)]
mod tests {
    use crate::programs;
    use serde_json::{Map, Value};

    /// The settings of a density on a graph or data as small as the compiled program's.
    fn settings(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn kernels_execute_what_the_compiled_programs_execute_within_a_tenth() {
        let mut wrong = Vec::new();
        let mut checked = 0;
        for program in programs() {
            for density in program.densities {
                let name = program.info.name;
                let opened = program.program(&settings(density.settings), None, 1).unwrap();
                let ours = density.measure(&opened).unwrap();
                for ((what, ours), (_, compiled)) in ours.named().into_iter().zip(density.compiled.named()) {
                    // A thousandth of a record, such as a store a hundred edges, has no tenths.
                    if (ours - compiled).abs() > 0.1 * compiled + 0.001 {
                        wrong.push(format!(
                            "{name} {}: {ours:.3} {what} for each {}, and {compiled:.3} compiled",
                            density.settings, density.unit
                        ));
                    }
                }
                checked += 1;
            }
        }
        assert!(checked >= 13, "only {checked} densities are declared");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_book_has_these_numbers() {
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/programs.md");
        let book = std::fs::read_to_string(book).unwrap();
        let number = |n: f64| if n < 100.0 { format!("{n:.2}") } else { format!("{n:.0}") };
        let mut missing = Vec::new();
        for density in programs().iter().flat_map(|program| program.densities) {
            let numbers = density.compiled.named().map(|(_, n)| number(n)).join(" | ");
            let program = density.compiled_program.replace(" EDGES", "");
            let row = format!("| `{program}` | {} | {numbers} |", density.unit);
            if !book.contains(&row) {
                missing.push(row);
            }
        }
        assert!(missing.is_empty(), "docs/src/programs.md lacks\n{}", missing.join("\n"));
    }
}
