//! `ambulator conformance`: runs the conformance suite on page tables.

use crate::arguments::ConformanceArguments;
use crate::output::print;
use crate::{DONE, Failure, SOME_FAILED};
use ambulator_base::nearest;
use ambulator_conformance::{Options, check};
use ambulator_simulator::catalogue;
use ambulator_sockets::Socket;

pub fn conformance(arguments: &ConformanceArguments) -> Result<u8, Failure> {
    let designs = catalogue();
    let tables: Vec<_> = designs.filling(Socket::PageTable).collect();
    let asked = |name: &str| arguments.designs.is_empty() || arguments.designs.iter().any(|asked| asked == name);
    if let Some(unknown) = arguments.designs.iter().find(|name| !tables.iter().any(|table| table.name == **name)) {
        let known: Vec<&str> = tables.iter().map(|table| table.name).collect();
        let meant =
            nearest(unknown, known.iter().copied()).map_or_else(String::new, |n| format!(" (did you mean `{n}`?)"));
        return Err(Failure::bad(format!(
            "`{unknown}` is not a page table{meant}; the page tables are: {}",
            known.join(", ")
        )));
    }
    let mut code = DONE;
    for table in tables.into_iter().filter(|table| asked(table.name)) {
        let choice = designs.choice(table.name);
        let claims = table.claims.clone();
        let options = Options { seed: arguments.seed, ops: arguments.operations, ..Options::of(claims) };
        match check(|| designs.build(&choice), &options) {
            Ok(done) => print(&format!(
                "{}: conforms ({} pages mapped, {} unmapped, {} walks of {:.2} loads in the mean)",
                table.name,
                done.maps,
                done.unmaps,
                done.walks,
                done.loads as f64 / done.walks.max(1) as f64
            )),
            Err(difference) => {
                code = SOME_FAILED;
                print(&format!("{}: {difference}", table.name));
            }
        }
    }
    Ok(code)
}
