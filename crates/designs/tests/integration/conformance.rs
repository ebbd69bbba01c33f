//! Every design of the catalogue through the conformance suite, also with allocations that fail. A design
//! that is registered is covered; its claims say what it is held to.

use ambulator_conformance::{Options, check, check_failing};
use ambulator_designs::catalogue;
use ambulator_designs::utopia::{RestSegSpec, UtopiaSpec};
use ambulator_sockets::{Choice, Descriptor, Socket};

/// The page table alone. What stands next to it fits a small memory, and sets no accessed and dirty bits that
/// no walk has set.
fn choice(table: &Descriptor) -> Choice {
    let mut choice = catalogue().choice(table.name);
    let segments = vec![RestSegSpec { bytes: 2 << 20, page_bytes: 4096, ways: 4 }];
    choice.settings.put("utopia", &UtopiaSpec { segments, ..UtopiaSpec::default() });
    for settings in choice.settings.0.values_mut() {
        if let Some(eager) = settings.get_mut("eager_bits") {
            *eager = false.into();
        }
        if let Some(smallest) = settings.get_mut("min_vma") {
            *smallest = (1 << 20).into();
        }
    }
    choice
}

fn tables() -> Vec<Descriptor> {
    catalogue().filling(Socket::PageTable).cloned().collect()
}

/// The page table with each lookaside that has an operating-system half; their own placements with them,
/// where they must be.
fn with_companions(table: &Descriptor) -> Vec<Choice> {
    let catalogue = catalogue();
    let with = |design: &Descriptor| {
        let with = choice(table).with(Socket::Lookaside, design.name);
        if design.together { with.with(Socket::Placement, design.name) } else { with }
    };
    let all = catalogue.filling(Socket::Lookaside).map(with);
    all.filter(|choice| !catalogue.build(choice).translations.companions.is_empty()).collect()
}

fn options(table: &Descriptor, ops: u32) -> Options {
    Options { ops, ..Options::of(table.claims.clone()) }
}

#[test]
fn every_page_table_conforms() {
    for table in tables() {
        let done = check(|| catalogue().build(&choice(&table)), &options(&table, 800));
        done.unwrap_or_else(|error| panic!("{}: {error}", table.name));
    }
}

#[test]
fn every_page_table_conforms_with_every_companion() {
    for (at, table) in tables().iter().enumerate() {
        for choice in with_companions(table) {
            // The default table at length.
            let options = options(table, if at == 0 { 800 } else { 250 });
            let done = check(|| catalogue().build(&choice), &options);
            done.unwrap_or_else(|error| panic!("{:?}: {error}", choice.design));
        }
    }
}

#[test]
fn operations_that_are_refused_memory_change_nothing_and_leak_nothing() {
    for (at, table) in tables().iter().enumerate() {
        let done = check_failing(catalogue().build(&choice(table)), 200, &options(table, 0));
        let summary = done.unwrap_or_else(|error| panic!("{}: {error}", table.name));
        assert!(summary.failures >= 5, "{}: {summary:?}", table.name);
        let mut others = with_companions(table);
        let front_sides: Vec<&str> =
            catalogue().filling(Socket::FrontSide).map(|design| design.name).collect::<Vec<_>>();
        others.extend(front_sides.iter().map(|front| choice(table).with(Socket::FrontSide, front)));
        for choice in others {
            let operations = if at == 0 { 200 } else { 50 };
            let done = check_failing(catalogue().build(&choice), operations, &options(table, 0));
            let summary = done.unwrap_or_else(|error| panic!("{:?}: {error}", choice.design));
            assert!(summary.failures >= 5, "{:?}: {summary:?}", choice.design);
        }
    }
}
