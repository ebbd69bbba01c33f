//! The operating system's half of a page table in Python.

use crate::borrowed::{Os, Port, lend_os};
use crate::failure::exception;
use crate::threads;
use crate::walker::{checked, entry_of, look_up};
use ambulator_base::{Archive, FRAME_BYTES, Page, PhysAddr, SimHostRefusal, State, VirtAddr, lock};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, LedgerCause, MapError, Mapping, PageTable, PteFlags, TableContext};
use ambulator_structures::frames;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Words that a walk may read in total, for each load that the design claims to need at most: a look-up of
/// the kernel may take longer than a walk, and a walk that does not end must.
const WORDS_PER_LOAD: usize = 4;

/// A process's table: an instance of the user's class.
pub struct Instance {
    /// Its number, which is what the hardware's registers hold.
    pub number: u64,
    object: Py<PyAny>,
    port: Py<Port>,
    design: Arc<str>,
    max_loads: u32,
    /// Bytes of physical memory.
    pub memory_bytes: u64,
}

impl Instance {
    /// Words that a walk may read before it is ended.
    pub fn most_words(&self) -> usize {
        (self.max_loads as usize).saturating_mul(WORDS_PER_LOAD)
    }

    /// Calls `walk(va, port)`: the address of the entry, or the sentence of its exception.
    pub fn walk(&self, va: u64) -> Result<Option<u64>, String> {
        Python::attach(|py| {
            threads::note(py);
            let found = self.object.bind(py).call_method1("walk", (va, &self.port));
            let found = found.and_then(|found| match found.extract::<Option<u64>>() {
                Ok(address) => Ok(address),
                Err(_) => {
                    let repr = found.repr().map_or_else(|_| "an object".into(), |repr| repr.to_string());
                    let message = format!("it returned {repr}: a walk returns the address of the entry, or None");
                    Err(exception(py, "DesignError", &message))
                }
            });
            found.map_err(|error| self.sentence(py, &format!("walk({va:#x})"), &error))
        })
    }

    /// The fields of the object, pickled; or why they cannot be.
    fn fields(&self) -> Result<Vec<u8>, String> {
        Python::attach(|py| {
            threads::note(py);
            let fields =
                py.import("ambulator.table").and_then(|module| module.call_method1("fields_of", (&self.object,)));
            let fields = fields.and_then(|fields| fields.extract::<Vec<u8>>());
            fields.map_err(|error| self.sentence(py, "a checkpoint", &error))
        })
    }

    /// Gives the object these fields.
    fn set_fields(&self, fields: &[u8]) -> Result<(), String> {
        Python::attach(|py| {
            threads::note(py);
            let fields = pyo3::types::PyBytes::new(py, fields);
            let module = py.import("ambulator.table");
            let done = module.and_then(|module| module.call_method1("set_fields", (&self.object, fields)));
            done.map(drop).map_err(|error| self.sentence(py, "a checkpoint", &error))
        })
    }

    /// The same object under another number.
    fn numbered(&self, number: u64) -> Instance {
        let Instance { max_loads, memory_bytes, .. } = *self;
        Python::attach(|py| Instance {
            number,
            object: self.object.clone_ref(py),
            port: self.port.clone_ref(py),
            design: Arc::clone(&self.design),
            max_loads,
            memory_bytes,
        })
    }

    /// The sentence of an exception in a method.
    fn sentence(&self, py: Python<'_>, method: &str, error: &PyErr) -> String {
        sentence(py, &self.design, method, error)
    }

    /// Ends the run: the method has done what it must not.
    pub fn refuse(&self, method: &str, what: &str) -> ! {
        SimHostRefusal(format!("the design `{}` in Python failed in {method}: {what}", self.design)).raise()
    }
}

/// The sentence of an exception: the last line of its traceback, and where that is.
fn sentence(py: Python<'_>, design: &str, method: &str, error: &PyErr) -> String {
    let described = py.import("ambulator.errors").and_then(|module| module.getattr("describe"));
    let described = described.and_then(|describe| describe.call1((error.clone_ref(py).into_value(py),)));
    let described = described.and_then(|text| text.extract::<String>()).unwrap_or_else(|_| error.to_string());
    format!("the design `{design}` in Python failed in {method}: {described}")
}

/// The tables of a machine by number.
#[derive(Default)]
pub struct Instances(Mutex<BTreeMap<u64, Arc<Instance>>>);

impl Instances {
    /// The table of this number.
    pub fn get(&self, number: u64) -> Option<Arc<Instance>> {
        lock(&self.0).get(&number).cloned()
    }
}

/// What the descriptor knows of the user's class.
pub struct PythonClass {
    /// The design's name.
    pub name: Arc<str>,
    /// The class.
    pub class: Py<PyAny>,
    /// Page sizes in bytes.
    pub sizes: Vec<u64>,
    /// The most loads of a walk.
    pub max_loads: u32,
    /// What identifies its code, if that is possible.
    pub code: Option<String>,
}

/// A process's page table.
pub struct PythonTable {
    class: Arc<PythonClass>,
    instances: Arc<Instances>,
    instance: Arc<Instance>,
    held: Held,
}

/// What a table holds.
#[derive(Default, State)]
struct Held {
    footprint: Footprint,
    /// Frames by their first address.
    runs: BTreeMap<u64, u64>,
    /// Bytes of the latest allocation that failed.
    failed: u64,
}

/// The operating system as Python sees it.
struct Context<'a, 'b> {
    os: &'a mut TableContext<'b>,
    held: &'a mut Held,
}

impl Os for Context<'_, '_> {
    fn read(&mut self, at: u64) -> Result<u64, String> {
        Ok(self.os.memory.read(checked(at, self.os.memory.bytes())?))
    }

    fn write(&mut self, at: u64, word: u64) -> Result<(), String> {
        let at = checked(at, self.os.memory.bytes())?;
        let own = self.held.runs.range(..=at.0).next_back();
        if own.is_none_or(|(start, frames)| at.0 >= start + frames * FRAME_BYTES) {
            return Err(format!(
                "{at:?} is not in frames of this table: write to what `self.frames.allocate` returned"
            ));
        }
        self.os.memory.write(at, word);
        Ok(())
    }

    fn allocate(&mut self, count: u64) -> Result<Option<u64>, String> {
        if count == 0 || count > self.os.frames.total_frames() {
            let all = self.os.frames.total_frames();
            return Err(format!("`allocate({count})`: a number of frames is from 1 to {all}, all that memory has"));
        }
        let found = match count {
            1 => frames::allocate(0, &mut self.held.footprint, self.os),
            _ => frames::allocate_run(count, 0, &mut self.held.footprint, self.os),
        };
        let Some(found) = found else {
            self.held.failed = count * FRAME_BYTES;
            return Ok(None);
        };
        self.held.runs.insert(found.start().0, count);
        Ok(Some(found.start().0))
    }

    fn release(&mut self, at: u64) -> Result<(), String> {
        let Some(count) = self.held.runs.remove(&at) else {
            return Err(format!("`release({at:#x})`: no frames that this table holds begin there"));
        };
        frames::release(PhysAddr(at).pfn(), count, &mut self.held.footprint, self.os);
        Ok(())
    }

    fn charge(&mut self, cycles: u64) {
        self.os.ledger.charge(LedgerCause::Table, cycles);
    }
}

/// How a call into Python ended, if not well.
enum Refused {
    NoMemory,
    Sentence(String),
}

/// Calls Python with the operating system; `method` is its name in sentences.
fn call<T>(
    design: &str,
    method: &str,
    os: &mut dyn Os,
    call: impl FnOnce(Python<'_>) -> PyResult<T>,
) -> Result<T, Refused> {
    lend_os(os, || {
        Python::attach(|py| {
            threads::note(py);
            call(py).map_err(|error| {
                let no_memory = py.import("ambulator.errors").and_then(|module| module.getattr("NoMemory"));
                match no_memory.is_ok_and(|class| error.is_instance(py, &class)) {
                    true => Refused::NoMemory,
                    false => Refused::Sentence(sentence(py, design, method, &error)),
                }
            })
        })
    })
}

impl PythonTable {
    /// An empty table: calls the class.
    ///
    /// # Errors
    /// [`MapError::NoMemory`] if there are no frames for it. Another exception ends the run.
    pub fn new(
        class: Arc<PythonClass>,
        instances: Arc<Instances>,
        os: &mut TableContext<'_>,
    ) -> Result<PythonTable, MapError> {
        let mut held = Held::default();
        let memory_bytes = os.memory.bytes();
        let mut context = Context { os, held: &mut held };
        let made = call(&class.name, "__init__", &mut context, |py| Ok((class.class.call0(py)?, Py::new(py, Port)?)));
        let (object, port) = match made {
            Ok(made) => made,
            Err(Refused::Sentence(sentence)) => SimHostRefusal(sentence).raise(),
            Err(Refused::NoMemory) => {
                let runs: Vec<u64> = held.runs.keys().copied().collect();
                let mut context = Context { os, held: &mut held };
                // Each of them is held.
                runs.into_iter().for_each(|at| _ = context.release(at));
                return Err(MapError::NoMemory { bytes: held.failed });
            }
        };
        let mut all = lock(&instances.0);
        let number = all.last_key_value().map_or(1, |(last, _)| last + 1);
        let (design, max_loads) = (Arc::clone(&class.name), class.max_loads);
        let instance = Arc::new(Instance { number, object, port, design, max_loads, memory_bytes });
        all.insert(number, Arc::clone(&instance));
        drop(all);
        Ok(PythonTable { class, instances, instance, held })
    }

    /// Calls a method with the operating system.
    fn call(
        &mut self,
        method: &'static str,
        os: &mut TableContext<'_>,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Vec<Py<PyAny>>>,
    ) -> Result<(), Refused> {
        let mut context = Context { os, held: &mut self.held };
        let object = &self.instance.object;
        call(&self.class.name, method, &mut context, |py| {
            let arguments = pyo3::types::PyTuple::new(py, arguments(py)?)?;
            object.bind(py).call_method1(method, arguments).map(drop)
        })
    }
}

/// The page as Python's `Page`.
fn page_of(py: Python<'_>, page: Page) -> PyResult<Py<PyAny>> {
    let class = py.import("ambulator.table")?.getattr("Page")?;
    Ok(class.call1((page.start.0, page.size.bytes()))?.unbind())
}

/// The frames that it holds, its number, and the fields of its object.
impl State for PythonTable {
    fn state(&mut self, archive: &mut Archive<'_>) {
        self.held.state(archive);
        let mut number = self.instance.number;
        number.state(archive);
        let mut fields = Vec::new();
        if !archive.loads() {
            match self.instance.fields() {
                Ok(pickled) => fields = pickled,
                Err(sentence) => return archive.fail(sentence),
            }
        }
        fields.state(archive);
        if !archive.loads() || archive.failed() {
            return;
        }
        if let Err(sentence) = self.instance.set_fields(&fields) {
            return archive.fail(sentence);
        }
        let mut all = lock(&self.instances.0);
        // Another table that has been loaded may have this one's number by now.
        if all.get(&self.instance.number).is_some_and(|there| Arc::ptr_eq(there, &self.instance)) {
            all.remove(&self.instance.number);
        }
        self.instance = Arc::new(self.instance.numbered(number));
        all.insert(number, Arc::clone(&self.instance));
    }
}

impl PageTable for PythonTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        if !self.class.sizes.contains(&mapping.page.size.bytes()) {
            return Err(MapError::PageSize);
        }
        if self.lookup(mapping.page.start, os.memory).is_some() {
            return Err(MapError::Occupied);
        }
        let entry = entry_of(&mapping).0;
        let arguments =
            |py: Python<'_>| Ok(vec![page_of(py, mapping.page)?, entry.into_pyobject(py)?.into_any().unbind()]);
        match self.call("map", os, arguments) {
            Ok(()) => {
                self.held.footprint.entries += 1;
                Ok(())
            }
            Err(Refused::NoMemory) => Err(MapError::NoMemory { bytes: self.held.failed }),
            Err(Refused::Sentence(sentence)) => SimHostRefusal(sentence).raise(),
        }
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let found = self.lookup(page.start, os.memory).filter(|entry| entry.page == page)?;
        match self.call("unmap", os, |py| Ok(vec![page_of(py, page)?])) {
            Ok(()) => {}
            Err(Refused::NoMemory) => self.instance.refuse("unmap", "it needs memory, and there is none"),
            Err(Refused::Sentence(sentence)) => SimHostRefusal(sentence).raise(),
        }
        self.held.footprint.entries = self.held.footprint.entries.saturating_sub(1);
        Some(found)
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, os: &mut TableContext<'_>) -> bool {
        let Some(found) = look_up(&self.instance, page.start, os.memory) else { return false };
        let mapping = found.mapping(page.start);
        if mapping.page != page {
            return false;
        }
        os.memory.write(found.at, entry_of(&Mapping { flags, ..mapping }).0);
        true
    }

    fn lookup(&self, va: VirtAddr, memory: &PhysicalMemory) -> Option<Entry> {
        look_up(&self.instance, va, memory).map(|found| found.mapping(va))
    }

    fn registers(&self) -> Vec<u64> {
        vec![self.instance.number]
    }

    fn footprint(&self) -> Footprint {
        self.held.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        let mut context = Context { os, held: &mut self.held };
        let runs: Vec<u64> = context.held.runs.keys().copied().collect();
        // Each of them is held.
        runs.into_iter().for_each(|at| _ = context.release(at));
        lock(&self.instances.0).remove(&self.instance.number);
    }
}
