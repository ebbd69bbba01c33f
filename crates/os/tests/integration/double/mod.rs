//! A page table for tests: an ordered map that can be made to fail. It allocates a frame for each node that a
//! radix table would have, so that tables compete with data for memory.

use ambulator_base::{Asid, FRAME_BYTES, Page, PageSize, Pfn, ProcessId, State, VirtAddr};
use ambulator_memory::PhysicalMemory;
use ambulator_os::{Entry, Footprint, MapError, Mapping, PageTable, PteFlags, TableContext, TableFactory};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Additional cycles of a context switch with this table.
pub const SWITCH: u64 = 60;

/// State shared by the tables of all processes, through which a test acts as the hardware.
#[derive(Default)]
pub struct Tables {
    pages: BTreeMap<(u32, u64), Mapping>,
    /// After this many successful calls, `map` fails once for lack of this many contiguous bytes.
    pub fail: Option<(u32, u64)>,
}

impl Tables {
    fn find(&self, process: ProcessId, va: VirtAddr) -> Option<Mapping> {
        let (_, mapping) = self.pages.range((process.0, 0)..=(process.0, va.0)).next_back()?;
        (va < mapping.page.end()).then_some(*mapping)
    }

    /// Updates an entry as a walk does: sets the accessed bit, and the dirty bit for a store.
    pub fn accessed(&mut self, process: ProcessId, va: VirtAddr, store: bool) {
        let found = self.find(process, va).expect("a walk of a mapped page");
        let entry = self.pages.get_mut(&(process.0, found.page.start.0)).expect("the entry was found");
        entry.flags.accessed = true;
        entry.flags.dirty |= store;
    }
}

/// Creates tables, and owns their shared state.
#[derive(Clone, Default)]
pub struct Factory(Arc<Mutex<Tables>>);

impl Factory {
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().expect("no holder of the lock panicked")
    }
}

impl TableFactory for Factory {
    fn new_table(
        &mut self,
        process: ProcessId,
        _asid: Asid,
        os: &mut TableContext<'_>,
    ) -> Result<Box<dyn PageTable>, MapError> {
        let root = os.frames.allocate(0).ok_or(MapError::NoMemory { bytes: FRAME_BYTES })?;
        let (factory, footprint) = (self.clone(), Footprint { bytes: FRAME_BYTES, ..Footprint::default() });
        Ok(Box::new(MapTable { factory, process, root, nodes: BTreeMap::new(), footprint }))
    }
}

#[derive(State)]
struct MapTable {
    #[state(skip)]
    factory: Factory,
    #[state(skip)]
    process: ProcessId,
    root: Pfn,
    /// By shift and number: the frame of a node and the pages below it.
    nodes: BTreeMap<(u32, u64), (Pfn, u64)>,
    footprint: Footprint,
}

impl MapTable {
    /// The nodes above a page: one for each 1 GiB with pages of 2 MiB or less, one for each 2 MiB with base
    /// pages.
    fn nodes_of(page: Page) -> impl Iterator<Item = (u32, u64)> {
        [PageSize::SIZE_1G, PageSize::SIZE_2M]
            .into_iter()
            .filter(move |size| page.size < *size)
            .map(move |size| (size.shift(), page.start.0 >> size.shift()))
    }

    fn release_nodes(&mut self, page: Page, os: &mut TableContext<'_>) {
        for key in MapTable::nodes_of(page) {
            if let Some((frame, used)) = self.nodes.get_mut(&key) {
                *used -= 1;
                if *used == 0 {
                    os.frames.free(*frame, 0);
                    self.nodes.remove(&key);
                    self.footprint.bytes -= FRAME_BYTES;
                }
            }
        }
    }
}

impl PageTable for MapTable {
    fn map(&mut self, mapping: Mapping, os: &mut TableContext<'_>) -> Result<(), MapError> {
        let mut tables = self.factory.tables();
        if let Some((left, bytes)) = tables.fail {
            tables.fail = left.checked_sub(1).map(|left| (left, bytes));
            if left == 0 {
                return Err(MapError::NoMemory { bytes });
            }
        }
        let page = mapping.page;
        assert_eq!(page.start, page.start.align_down(page.size), "{page:?} is not aligned");
        assert!(mapping.frame.0.is_multiple_of(page.size.frames()), "{mapping:?}: its frame is not aligned");
        let next = tables.pages.range((self.process.0, page.start.0)..(self.process.0, page.end().0)).next();
        if next.is_some() || tables.find(self.process, page.start).is_some() {
            return Err(MapError::Occupied);
        }
        let mut made: Vec<(u32, u64)> = Vec::new();
        for key in MapTable::nodes_of(page) {
            if self.nodes.contains_key(&key) {
                continue;
            }
            let Some(frame) = os.frames.allocate(0) else {
                for key in made {
                    let (frame, _) = self.nodes.remove(&key).expect("just made");
                    os.frames.free(frame, 0);
                    self.footprint.bytes -= FRAME_BYTES;
                }
                return Err(MapError::NoMemory { bytes: FRAME_BYTES });
            };
            self.nodes.insert(key, (frame, 0));
            self.footprint.bytes += FRAME_BYTES;
            made.push(key);
        }
        for key in MapTable::nodes_of(page) {
            self.nodes.get_mut(&key).expect("the node exists").1 += 1;
        }
        tables.pages.insert((self.process.0, page.start.0), mapping);
        self.footprint.entries += 1;
        self.footprint.peak_bytes = self.footprint.peak_bytes.max(self.footprint.bytes);
        Ok(())
    }

    fn unmap(&mut self, page: Page, os: &mut TableContext<'_>) -> Option<Mapping> {
        let key = (self.process.0, page.start.0);
        let found = {
            let mut tables = self.factory.tables();
            tables.pages.get(&key).is_some_and(|m| m.page == page).then(|| tables.pages.remove(&key))??
        };
        self.footprint.entries -= 1;
        self.release_nodes(page, os);
        Some(found)
    }

    fn set_flags(&mut self, page: Page, flags: PteFlags, _os: &mut TableContext<'_>) -> bool {
        let mut tables = self.factory.tables();
        let found = tables.pages.get_mut(&(self.process.0, page.start.0)).filter(|m| m.page == page);
        found.map(|mapping| mapping.flags = flags).is_some()
    }

    fn lookup(&self, va: VirtAddr, _memory: &PhysicalMemory) -> Option<Entry> {
        self.factory.tables().find(self.process, va)
    }

    fn registers(&self) -> Vec<u64> {
        vec![self.root.0]
    }

    fn switch_cycles(&self) -> u64 {
        SWITCH
    }

    fn footprint(&self) -> Footprint {
        self.footprint
    }

    fn destroy(&mut self, os: &mut TableContext<'_>) {
        assert!(self.nodes.is_empty(), "the table still has pages when it is destroyed");
        os.frames.free(self.root, 0);
        self.footprint.bytes = 0;
    }
}
