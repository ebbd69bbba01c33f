//! The command knows the table as it knows its own: it is listed, holds under the suite, runs under the
//! oracle.

use std::process::Command;

/// The command, which keeps no results: they would stay in this folder.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-design"));
    command.env("AMBULATOR_STORE", "none");
    command
}

fn own_design(arguments: &str) -> (bool, String) {
    let done = command().args(arguments.split(' ')).output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn the_table_conforms() {
    for seed in 1..=3 {
        let (done, said) = own_design(&format!("conformance two-choice --seed {seed}"));
        assert!(done && said.starts_with("two-choice: conforms"), "{said}");
    }
}

#[test]
fn the_command_lists_explains_and_runs_it() {
    assert!(own_design("list designs").1.contains("\n  two-choice "));
    assert!(own_design("explain design.page_table").1.contains("\"two-choice\": two lines loaded at once, always"));
    assert!(own_design("reference designs").1.contains("## two-choice"));
    let run = "compare gups --footprint 16MiB --designs radix,two-choice --instructions 100K --no-progress --json -";
    let (done, said) = own_design(run);
    assert!(
        done && said.contains("\"design\": \"two-choice\"") && !said.contains("\"checked_translations\": 0"),
        "{said}"
    );
}

#[test]
fn pages_that_the_table_does_not_hold_are_refused() {
    let done = command().args(["run", "gups", "--design", "two-choice+thp"]).output();
    let said = String::from_utf8_lossy(&done.unwrap().stderr).into_owned();
    assert!(said.contains("pages of 2 MiB, which the page table \"two-choice\" does not hold"), "{said}");
}
