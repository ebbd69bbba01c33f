//! Designs in Python: their registration, and the conformance suite.

use crate::failure::{Failure, guarded};
use crate::polled::polled;
use crate::table::{Instances, PythonClass, PythonTable};
use crate::walker::PythonWalker;
use ambulator_base::{PageSize, lock};
use ambulator_conformance::{Options, check};
use ambulator_mmu::Walker;
use ambulator_os::PageTable;
use ambulator_simulator::{catalogue, register_interactively};
use ambulator_sockets::{Claims, Descriptor, Parts, Socket, TableParts};
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use xxhash_rust::xxh3::xxh3_64;

/// A page table in Python: a class, and what it says of itself.
#[derive(Debug, FromPyObject)]
pub struct PageTableRequest {
    /// The design's name in specs and results.
    #[pyo3(item)]
    name: String,
    /// One line.
    #[pyo3(item)]
    about: String,
    /// The class.
    #[pyo3(item)]
    class: Py<PyAny>,
    /// Page sizes in bytes, 4096 first.
    #[pyo3(item)]
    sizes: Vec<u64>,
    /// The most loads of a walk.
    #[pyo3(item)]
    max_loads: u32,
    /// What identifies its code, if that is possible.
    #[pyo3(item)]
    code: Option<String>,
}

/// What calls the class: its results depend on this too.
const CALLERS: [&str; 3] = [include_str!("table.rs"), include_str!("walker.rs"), include_str!("borrowed.rs")];

/// The classes that are registered, by name.
static KNOWN: Mutex<Vec<Arc<PythonClass>>> = Mutex::new(Vec::new());

impl PageTableRequest {
    /// Registers the class as a design, unless it is; returns the design's name.
    pub fn register(&self, py: Python<'_>) -> Result<String, Failure> {
        let PageTableRequest { name, about, class, sizes, max_loads, code } = self;
        let mut known = lock(&KNOWN);
        let same = |other: &Arc<PythonClass>| {
            *other.name == **name
                && other.class.is(class)
                && other.sizes == *sizes
                && other.max_loads == *max_loads
                && other.code == *code
        };
        if known.iter().any(same) {
            return Ok(name.clone());
        }
        let page_sizes = page_sizes(sizes)?;
        let of = Arc::new(PythonClass {
            name: name.as_str().into(),
            class: class.clone_ref(py),
            sizes: sizes.clone(),
            max_loads: *max_loads,
            code: code.clone(),
        });
        // A descriptor lives as long as the process, and so do its texts.
        let leaked = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        let build_of = Arc::clone(&of);
        let descriptor = Descriptor::new(leaked(name), leaked(about), "")
            .fills(Socket::PageTable, "a page table in Python")
            .claims(Claims { sizes: page_sizes, max_loads: *max_loads, ..Claims::default() })
            .build(move |_, _| parts(&build_of));
        register_interactively(descriptor).map_err(|error| Failure::Spec(error.to_string()))?;
        known.retain(|other| *other.name != **name);
        known.push(of);
        Ok(name.clone())
    }
}

/// What identifies a page table in Python of this name: `None` if there is none, `Some(None)` if its results
/// depend on what cannot be known.
pub fn code_of(name: &str) -> Option<Option<String>> {
    let known = lock(&KNOWN);
    let class = known.iter().find(|class| *class.name == *name)?;
    let callers = xxh3_64(CALLERS.concat().as_bytes());
    Some(class.code.as_ref().map(|code| format!("{code} {callers:016x} {:?} {}", class.sizes, class.max_loads)))
}

/// The sizes of pages.
fn page_sizes(sizes: &[u64]) -> Result<Vec<PageSize>, Failure> {
    let size = |bytes: &u64| match bytes.is_power_of_two() && (1 << 12..=1 << 30).contains(bytes) {
        true => Ok(PageSize::from_shift(bytes.ilog2())),
        false => Err(Failure::Spec(format!("`sizes` has {bytes}: pages have a power of two from 4 KiB to 1 GiB"))),
    };
    let mut all = sizes.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    all.sort();
    if all.first() != Some(&PageSize::SIZE_4K) {
        return Err(Failure::Spec("`sizes` lacks 4096: every page table maps pages of 4 KiB".into()));
    }
    Ok(all)
}

fn parts(class: &Arc<PythonClass>) -> Parts {
    let instances = Arc::new(Instances::default());
    let (class, of_walkers) = (Arc::clone(class), Arc::clone(&instances));
    let table = TableParts::new(
        move |_, _, os| {
            let table = PythonTable::new(Arc::clone(&class), Arc::clone(&instances), os)?;
            Ok(Box::new(table) as Box<dyn PageTable>)
        },
        move |_| Box::new(PythonWalker::new(Arc::clone(&of_walkers))) as Box<dyn Walker>,
    );
    Parts { page_table: Some(table), ..Parts::default() }
}

/// The names of all page tables.
#[pyfunction]
pub fn page_tables() -> Vec<&'static str> {
    catalogue().filling(Socket::PageTable).map(|table| table.name).collect()
}

/// Runs the conformance suite on a page table in Python, or on one of Ambulator's by name. Returns pages
/// mapped, pages unmapped, walks, and loads of walks; raises an exception that says what differs.
#[pyfunction]
#[pyo3(signature = (table, *, name=None, operations=1500, seed=1))]
pub fn conformance(
    py: Python<'_>,
    table: Option<PageTableRequest>,
    name: Option<String>,
    operations: u32,
    seed: u64,
) -> PyResult<(u64, u64, u64, u64)> {
    let name = guarded(py, || match (&table, name) {
        (Some(table), _) => table.register(py),
        (None, name) => Ok(name.unwrap_or_default()),
    })?;
    let done = polled(py, None, move |shared, _| {
        shared.all_in_python.store(true, Ordering::SeqCst);
        shared.running.store(true, Ordering::SeqCst);
        let designs = catalogue();
        let Some(table) = designs.filling(Socket::PageTable).find(|table| table.name == name) else {
            let known: Vec<&str> = designs.filling(Socket::PageTable).map(|table| table.name).collect();
            return Err(Failure::Spec(format!("`{name}` is not a page table; there are: {}", known.join(", "))));
        };
        let choice = designs.choice(table.name);
        let options = Options { seed, ops: operations, ..Options::of(table.claims.clone()) };
        check(|| designs.build(&choice), &options).map_err(|difference| Failure::Run(format!("{name}: {difference}")))
    })?;
    if let Some(interrupt) = done.interrupt {
        return Err(interrupt);
    }
    let summary = done.result.map_err(|failure| failure.raise(py))?;
    Ok((summary.maps, summary.unmaps, summary.walks, summary.loads))
}
