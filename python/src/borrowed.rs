//! What the model lends to a design in Python while it is called: the port of a walk, or memory and its
//! frames. The objects that Python sees hold nothing. They reach what is lent to the current thread, and
//! raise an exception when nothing is.

use crate::failure::exception;
use pyo3::prelude::*;
use scoped_tls_hkt::{ReborrowMut, scoped_thread_local};

/// What a walk may do.
pub trait Reads {
    /// Reads the words at these addresses at once, and waits for all.
    fn read(&mut self, at: &[u64]) -> Result<Vec<u64>, String>;
    /// The cycle at which everything read so far has arrived.
    fn now(&self) -> u64;
}

/// What the operating system may do.
pub trait Os {
    /// Reads a word.
    fn read(&mut self, at: u64) -> Result<u64, String>;
    /// Writes a word.
    fn write(&mut self, at: u64, word: u64) -> Result<(), String>;
    /// Allocates contiguous zeroed frames; `Ok(None)` if there are none.
    fn allocate(&mut self, frames: u64) -> Result<Option<u64>, String>;
    /// Frees what [`Os::allocate`] returned.
    fn release(&mut self, at: u64) -> Result<(), String>;
    /// Charges cycles of the operating system.
    fn charge(&mut self, cycles: u64);
}

/// A port that is lent.
struct LentPort<'a>(&'a mut (dyn Reads + 'a));
/// The operating system, lent.
struct LentOs<'a>(&'a mut (dyn Os + 'a));

impl<'a> ReborrowMut<'a> for LentPort<'_> {
    type Result = LentPort<'a>;
    fn reborrow_mut(&'a mut self) -> LentPort<'a> {
        LentPort(&mut *self.0)
    }
}

impl<'a> ReborrowMut<'a> for LentOs<'_> {
    type Result = LentOs<'a>;
    fn reborrow_mut(&'a mut self) -> LentOs<'a> {
        LentOs(&mut *self.0)
    }
}

scoped_thread_local!(static mut PORT: for<'a> LentPort<'a>);
scoped_thread_local!(static mut OS: for<'a> LentOs<'a>);

/// Lends a port to this thread while `call` runs.
pub fn lend_port<T>(port: &mut dyn Reads, call: impl FnOnce() -> T) -> T {
    PORT.set(LentPort(port), call)
}

/// Lends the operating system to this thread while `call` runs.
pub fn lend_os<T>(os: &mut dyn Os, call: impl FnOnce() -> T) -> T {
    OS.set(LentOs(os), call)
}

fn refused(py: Python<'_>, message: &str) -> PyErr {
    exception(py, "DesignError", message)
}

/// Uses the port that is lent.
fn with_port<T>(py: Python<'_>, call: impl FnOnce(&mut dyn Reads) -> Result<T, String>) -> PyResult<T> {
    if !PORT.is_set() {
        return Err(refused(py, "a port reads memory during `walk` only: use `self.memory` in `map` and `unmap`"));
    }
    PORT.with(|port| call(port.0)).map_err(|message| refused(py, &message))
}

/// Uses the operating system that is lent.
fn with_os<T>(py: Python<'_>, call: impl FnOnce(&mut dyn Os) -> Result<T, String>) -> PyResult<T> {
    if !OS.is_set() {
        let message = "memory and frames belong to the operating system: `__init__`, `map` and `unmap` have them, and \
                       `walk` reads through its port";
        return Err(refused(py, message));
    }
    OS.with(|os| call(os.0)).map_err(|message| refused(py, &message))
}

/// The path of a walk to memory: what it reads takes the time that the machine needs for it.
#[pyclass(frozen, module = "ambulator._ambulator")]
pub struct Port;

#[pymethods]
impl Port {
    /// The word at a physical address. The walk goes on when it has arrived.
    #[pyo3(signature = (address, size=8))]
    fn read(&self, py: Python<'_>, address: u64, size: u8) -> PyResult<u64> {
        if size != 8 {
            return Err(refused(py, &format!("a walk reads words of 8 bytes, not {size}")));
        }
        with_port(py, |port| port.read(&[address]).map(|words| words[0]))
    }

    /// The words at several physical addresses, which are read at once. The walk goes on when all have
    /// arrived.
    fn read_all(&self, py: Python<'_>, addresses: Vec<u64>) -> PyResult<Vec<u64>> {
        with_port(py, |port| port.read(&addresses))
    }

    /// The cycle at which everything read so far has arrived.
    #[getter]
    fn now(&self, py: Python<'_>) -> PyResult<u64> {
        with_port(py, |port| Ok(port.now()))
    }
}

/// The bytes of physical memory, for `map` and `unmap`.
#[pyclass(frozen, module = "ambulator._ambulator")]
pub struct Memory;

#[pymethods]
impl Memory {
    #[new]
    fn new() -> Memory {
        Memory
    }

    /// The word at a physical address, a multiple of 8.
    fn read(&self, py: Python<'_>, address: u64) -> PyResult<u64> {
        with_os(py, |os| os.read(address))
    }

    /// Writes a word at a physical address, a multiple of 8.
    fn write(&self, py: Python<'_>, address: u64, word: u64) -> PyResult<()> {
        with_os(py, |os| os.write(address, word))
    }

    /// Charges cycles of the operating system to the run, for work such as moving entries.
    fn charge(&self, py: Python<'_>, cycles: u64) -> PyResult<()> {
        with_os(py, |os| {
            os.charge(cycles);
            Ok(())
        })
    }
}

/// The frames of physical memory, for `map` and `unmap`.
#[pyclass(frozen, module = "ambulator._ambulator")]
pub struct Frames;

#[pymethods]
impl Frames {
    #[new]
    fn new() -> Frames {
        Frames
    }

    /// The address of contiguous zeroed frames of 4 KiB. Raises `NoMemory` if there are none.
    #[pyo3(signature = (count=1))]
    fn allocate(&self, py: Python<'_>, count: u64) -> PyResult<u64> {
        let found = with_os(py, |os| os.allocate(count))?;
        found.ok_or_else(|| exception(py, "NoMemory", &format!("no {count} contiguous frames of 4 KiB are free")))
    }

    /// Frees what `allocate` returned.
    fn release(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        with_os(py, |os| os.release(address))
    }
}
