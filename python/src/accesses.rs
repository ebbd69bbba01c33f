//! A program given as arrays: one access for each element.

use crate::failure::Failure;
use ambulator_base::{Batch, OutputFile, ProgramIdentity, Record, RecordKind, RecordSource, SourceError, VirtAddr};
use ambulator_trace::{FirstTouches, ImplicitMaps, TraceHeader, TraceWriter, TraceWriterSpec};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Bits of a user's virtual address on the widest machine (five levels).
const ADDRESS_BITS: u32 = 56;
/// Instruction addresses of accesses that come without: one line of code.
const CODE: u64 = 0x40_0000;

/// Columns of a program; those that are left out are empty.
struct Columns {
    address: Vec<u64>,
    store: Vec<u8>,
    gap: Vec<u32>,
    dependence: Vec<u16>,
    size: Vec<u8>,
    pc: Vec<u64>,
}

/// A program as arrays, checked and copied once: one access for each element.
///
/// `address` are virtual addresses. `store` says which are stores (1) rather than loads (0). `gap` are the
/// instructions between an access and the one before, `default_gap` without it. `dependence` are distances
/// back, in accesses, to the load that the address was computed from: 0 for none, 1 for the access before.
/// `size` are bytes, 1 to 64. `pc` are addresses of instructions, which prefetchers see. The address space is
/// mapped in regions of `granularity` bytes around what is accessed, as for traces without mappings. With
/// `touched`, each page has been touched before the first access, as in a program that has run for a while;
/// without, its first access is a page fault.
#[pyclass(frozen, module = "ambulator._ambulator")]
pub struct Accesses {
    columns: Arc<Columns>,
    name: String,
    digest: u64,
    footprint: u64,
    default_gap: u32,
    default_size: u8,
    touched: bool,
    granularity: u64,
}

/// Whole numbers of any type that buffers have, in one pass; `None` if it is no buffer of whole numbers.
fn numbers<T: TryFrom<i128>>(py: Python<'_>, name: &str, array: &Bound<'_, PyAny>, allowed: &str) -> PyResult<Vec<T>> {
    fn of<'py, E: Element + Into<i128>, T: TryFrom<i128>>(
        array: &Bound<'py, PyAny>,
        refused: &dyn Fn(usize, i128) -> PyErr,
    ) -> Option<PyResult<Vec<T>>> {
        let buffer = PyBuffer::<E>::get(array).ok()?;
        let values = match buffer.to_vec(array.py()) {
            Ok(values) => values,
            Err(error) => return Some(Err(error)),
        };
        let convert = |(at, value): (usize, E)| {
            let value: i128 = value.into();
            T::try_from(value).map_err(|_| refused(at, value))
        };
        Some(values.into_iter().enumerate().map(convert).collect())
    }
    let refused =
        |at: usize, value: i128| Failure::Program(format!("`{name}[{at}]` is {value}; it must be {allowed}")).raise(py);
    let is_flags = |array: &Bound<'_, PyAny>| -> PyResult<bool> {
        array.getattr("dtype")?.getattr("kind")?.extract::<String>().map(|kind| kind == "b")
    };
    // numpy's flags are bytes that are 0 or 1.
    let viewed = match is_flags(array) {
        Ok(true) => array.call_method1("view", ("uint8",))?,
        _ => array.clone(),
    };
    let array = &viewed;
    if array.is_instance_of::<PyList>() || array.is_instance_of::<PyTuple>() {
        let values = array.extract::<Vec<i128>>().map_err(|error| {
            Failure::Program(format!("`{name}` is a list with something else than whole numbers: {error}")).raise(py)
        })?;
        let convert = |(at, value)| T::try_from(value).map_err(|_| refused(at, value));
        return values.into_iter().enumerate().map(convert).collect();
    }
    let read = of::<u64, T>(array, &refused)
        .or_else(|| of::<i64, T>(array, &refused))
        .or_else(|| of::<u32, T>(array, &refused))
        .or_else(|| of::<i32, T>(array, &refused))
        .or_else(|| of::<u16, T>(array, &refused))
        .or_else(|| of::<i16, T>(array, &refused))
        .or_else(|| of::<u8, T>(array, &refused))
        .or_else(|| of::<i8, T>(array, &refused));
    read.unwrap_or_else(|| {
        let found = array.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        let message = format!("`{name}` is a {found} without whole numbers: give an array of integers, {allowed}");
        Err(Failure::Program(message).raise(py))
    })
}

#[pymethods]
impl Accesses {
    #[new]
    #[pyo3(signature = (address, *, store=None, gap=None, dependence=None, size=None, pc=None, name="array",
        default_gap=3, default_size=8, touched=true, granularity=2097152))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        address: &Bound<'_, PyAny>,
        store: Option<&Bound<'_, PyAny>>,
        gap: Option<&Bound<'_, PyAny>>,
        dependence: Option<&Bound<'_, PyAny>>,
        size: Option<&Bound<'_, PyAny>>,
        pc: Option<&Bound<'_, PyAny>>,
        name: &str,
        default_gap: u32,
        default_size: u8,
        touched: bool,
        granularity: u64,
    ) -> PyResult<Accesses> {
        let columns = Columns {
            address: numbers(py, "address", address, "an address, at least 0")?,
            store: store.map_or(Ok(Vec::new()), |of| numbers(py, "store", of, "0 (a load) or 1 (a store)"))?,
            gap: gap.map_or(Ok(Vec::new()), |of| numbers(py, "gap", of, "from 0 to 4294967295"))?,
            dependence: dependence.map_or(Ok(Vec::new()), |of| numbers(py, "dependence", of, "from 0 to 65535"))?,
            size: size.map_or(Ok(Vec::new()), |of| numbers(py, "size", of, "from 1 to 64 bytes"))?,
            pc: pc.map_or(Ok(Vec::new()), |of| numbers(py, "pc", of, "an address, at least 0"))?,
        };
        let checked = py.detach(|| columns.check(default_size, granularity).map(|()| columns.summary()));
        let (digest, footprint) = checked.map_err(|message| Failure::Program(message).raise(py))?;
        let name = name.to_owned();
        let columns = Arc::new(columns);
        Ok(Accesses { columns, name, digest, footprint, default_gap, default_size, touched, granularity })
    }

    /// The number of accesses.
    fn __len__(&self) -> usize {
        self.columns.address.len()
    }

    /// The name in results.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the 4 KiB pages that the accesses touch.
    #[getter]
    fn footprint(&self) -> u64 {
        self.footprint
    }

    /// Instructions: the accesses and the gaps before them.
    #[getter]
    fn instructions(&self) -> u64 {
        let accesses = self.columns.address.len() as u64;
        let gaps = match self.columns.gap.is_empty() {
            true => accesses * u64::from(self.default_gap),
            false => self.columns.gap.iter().map(|gap| u64::from(*gap)).sum(),
        };
        accesses + gaps
    }

    /// Writes a trace of the accesses in Ambulator's format (`.amb`), for the command and for other
    /// programs.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.write(&path)).map_err(|error| {
            Failure::Program(format!("{}: the trace cannot be written: {error}", path.display())).raise(py)
        })
    }

    fn __repr__(&self) -> String {
        let (accesses, mib) = (self.columns.address.len(), self.footprint >> 20);
        format!("<Accesses '{}': {accesses} accesses, {mib} MiB of pages touched>", self.name)
    }
}

impl Columns {
    /// What is wrong with them, as a sentence that names the element.
    fn check(&self, default_size: u8, granularity: u64) -> Result<(), String> {
        let accesses = self.address.len();
        if accesses == 0 {
            return Err("`address` is empty: a program has at least one access".into());
        }
        if !granularity.is_power_of_two() || !(1 << 12..=1 << 30).contains(&granularity) {
            return Err(format!("`granularity` is {granularity}; it must be a power of two from 4 KiB to 1 GiB"));
        }
        let lengths = [
            ("store", self.store.len()),
            ("gap", self.gap.len()),
            ("dependence", self.dependence.len()),
            ("size", self.size.len()),
            ("pc", self.pc.len()),
        ];
        if let Some((name, length)) = lengths.iter().find(|(_, length)| *length != 0 && *length != accesses) {
            return Err(format!(
                "`{name}` has {length} elements, and `address` has {accesses}: give one for each access"
            ));
        }
        let sizes = |at: usize| self.size.get(at).copied().unwrap_or(default_size);
        for (at, address) in self.address.iter().enumerate() {
            let size = sizes(at);
            if !(1..=64).contains(&size) {
                let name = if self.size.is_empty() { "default_size".into() } else { format!("size[{at}]") };
                return Err(format!("`{name}` is {size}; it must be from 1 to 64 bytes"));
            }
            if *address > (1 << ADDRESS_BITS) - u64::from(size) || *address < granularity {
                return Err(format!(
                    "`address[{at}]` is {address:#x}; an access must lie between {granularity:#x}, because programs \
                     do not use the first region, and {:#x}, the end of user space",
                    1u64 << ADDRESS_BITS
                ));
            }
        }
        if let Some((at, pc)) = self.pc.iter().enumerate().find(|(_, pc)| **pc >> ADDRESS_BITS != 0 || **pc == 0) {
            return Err(format!("`pc[{at}]` is {pc:#x}; it must be an address of user space, below 2^{ADDRESS_BITS}"));
        }
        if let Some((at, store)) = self.store.iter().enumerate().find(|(_, store)| **store > 1) {
            return Err(format!("`store[{at}]` is {store}; it must be 0 (a load) or 1 (a store)"));
        }
        for (at, distance) in self.dependence.iter().enumerate().filter(|(_, distance)| **distance != 0) {
            let Some(producer) = at.checked_sub(usize::from(*distance)) else {
                return Err(format!("`dependence[{at}]` is {distance}: there is no access that far before the first"));
            };
            if self.store.get(producer).is_some_and(|store| *store == 1) {
                return Err(format!(
                    "`dependence[{at}]` is {distance}, and access {producer} is a store: an address depends on loads"
                ));
            }
        }
        Ok(())
    }

    /// A checksum, and the bytes of the pages touched.
    fn summary(&self) -> (u64, u64) {
        let mut hash = Xxh3::new();
        let mut pages = std::collections::HashSet::new();
        let mut last = u64::MAX;
        for at in 0..self.address.len() {
            let record = self.record(at, 0, 0);
            hash.update(&record.va.0.to_le_bytes());
            hash.update(&record.pc.0.to_le_bytes());
            hash.update(&record.gap.to_le_bytes());
            hash.update(&record.dep1.to_le_bytes());
            hash.update(&[record.size, record.kind as u8]);
            let page = record.va.0 >> 12;
            if page != last {
                last = page;
                pages.insert(page);
            }
        }
        (hash.digest(), pages.len() as u64 * 4096)
    }

    fn record(&self, at: usize, default_gap: u32, default_size: u8) -> Record {
        let store = self.store.get(at).is_some_and(|store| *store == 1);
        Record {
            pc: VirtAddr(self.pc.get(at).copied().unwrap_or(CODE + u64::from(store) * 4)),
            va: VirtAddr(self.address[at]),
            gap: self.gap.get(at).copied().unwrap_or(default_gap),
            dep1: self.dependence.get(at).copied().unwrap_or(0),
            dep2: 0,
            size: self.size.get(at).copied().unwrap_or(default_size),
            kind: if store { RecordKind::Store } else { RecordKind::Load },
        }
    }
}

impl Accesses {
    fn write(&self, path: &Path) -> Result<(), String> {
        let mut source = self.source();
        let identity = source.identity();
        let (records, instructions) = (Some(self.columns.address.len() as u64), Some(self.instructions()));
        let header = TraceHeader { identity, records, instructions, ..TraceHeader::default() };
        let said = |error: SourceError| error.message;
        let file = OutputFile::prepare(path).map_err(|error| error.to_string())?;
        let mut writer = TraceWriter::new(Vec::new(), header, &TraceWriterSpec::default()).map_err(said)?;
        let mut batch = Batch::default();
        while source.fill(&mut batch).map_err(said)? {
            let mut events = batch.events.drain(..).peekable();
            for (at, record) in batch.records.iter().enumerate() {
                while let Some((_, event)) = events.next_if(|(before, _)| *before as usize <= at) {
                    writer.event(event).map_err(said)?;
                }
                writer.push(record).map_err(said)?;
            }
        }
        file.write(&writer.finish().map_err(said)?).map_err(|error| error.to_string())
    }

    /// The accesses as a stream.
    pub fn source(&self) -> Box<dyn RecordSource> {
        let detail = format!(
            "{} accesses from an array, mappings synthesised in regions of {} bytes",
            self.columns.address.len(),
            self.granularity
        );
        let mut digest = Xxh3::new();
        digest.update(&self.digest.to_le_bytes());
        digest.update(&self.default_gap.to_le_bytes());
        digest.update(&[self.default_size, u8::from(self.touched)]);
        digest.update(&self.granularity.to_le_bytes());
        Box::new(Stream {
            columns: Arc::clone(&self.columns),
            next: 0,
            maps: ImplicitMaps::new(self.granularity),
            set_up: !self.touched,
            identity: ProgramIdentity {
                name: self.name.clone(),
                detail,
                footprint: self.footprint,
                digest: digest.digest(),
            },
            instructions: self.instructions(),
            default_gap: self.default_gap,
            default_size: self.default_size,
        })
    }
}

/// The accesses as a program's stream.
struct Stream {
    columns: Arc<Columns>,
    next: usize,
    maps: ImplicitMaps,
    /// The pages have been touched, or are not to be.
    set_up: bool,
    identity: ProgramIdentity,
    instructions: u64,
    default_gap: u32,
    default_size: u8,
}

impl Stream {
    /// Maps everything and touches each page, in the order of the accesses.
    fn set_up(&mut self, batch: &mut Batch) {
        let mut touches = FirstTouches::default();
        let mut mapped = Batch::default();
        for at in 0..self.columns.address.len() {
            let record = self.columns.record(at, self.default_gap, self.default_size);
            self.maps.push(record, &mut mapped);
            for (_, map) in mapped.events.drain(..) {
                touches.event(&map).into_iter().for_each(|run| batch.push_event(run));
                batch.push_event(map);
            }
            mapped.records.clear();
            let run = touches.touch(record.va, u64::from(record.size), record.kind == RecordKind::Store);
            run.into_iter().for_each(|run| batch.push_event(run));
        }
        touches.take_run().into_iter().for_each(|run| batch.push_event(run));
    }
}

impl RecordSource for Stream {
    fn identity(&self) -> ProgramIdentity {
        self.identity.clone()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        if !self.set_up {
            self.set_up = true;
            self.set_up(batch);
        }
        let end = self.columns.address.len().min(self.next + Batch::TARGET_RECORDS);
        for at in self.next..end {
            self.maps.push(self.columns.record(at, self.default_gap, self.default_size), batch);
        }
        let any = self.next < end;
        self.next = end;
        Ok(any)
    }

    fn instructions(&self) -> Option<u64> {
        Some(self.instructions)
    }

    fn progress(&self) -> Option<f64> {
        Some(self.next as f64 / self.columns.address.len() as f64)
    }
}
