//! The programs' heap, as far as it determines object addresses: `malloc` and `free` of the C library or of
//! TCMalloc. Its growth and its own writes go to the address space as events, when they happen.

mod glibc;
mod tcmalloc;

use crate::layout::AddressSpace;
use ambulator_base::VirtAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which heap to model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeapModel {
    /// The C library's: consecutive chunks on the break, large blocks mapped individually.
    #[default]
    Glibc,
    /// TCMalloc (gperftools): spans of pages, each with objects of one size class, from a page heap that
    /// grows by a mebibyte.
    Tcmalloc,
}

/// A heap.
pub struct Heap(Model);

enum Model {
    Glibc(glibc::Glibc),
    Tcmalloc(Box<tcmalloc::Tcmalloc>),
}

impl Heap {
    /// An empty heap at the current end of the address space's heap.
    pub fn new(model: HeapModel, space: &AddressSpace) -> Heap {
        Heap(match model {
            HeapModel::Glibc => Model::Glibc(glibc::Glibc::new(space)),
            HeapModel::Tcmalloc => Model::Tcmalloc(Box::new(tcmalloc::Tcmalloc::new(space))),
        })
    }

    /// `malloc`: the address of `bytes` usable bytes.
    #[inline]
    pub fn allocate(&mut self, bytes: u64, space: &mut AddressSpace) -> u64 {
        match &mut self.0 {
            Model::Glibc(heap) => heap.allocate(bytes, space),
            Model::Tcmalloc(heap) => heap.allocate(bytes, space),
        }
    }

    /// `free` of `bytes` bytes at `address`.
    #[inline]
    pub fn free(&mut self, address: u64, bytes: u64, space: &mut AddressSpace) {
        match &mut self.0 {
            Model::Glibc(heap) => heap.free(address, bytes, space),
            Model::Tcmalloc(heap) => heap.free(address, bytes, space),
        }
    }

    /// Whether the block at `address` has its own pages, which the heap has not written: the program touches
    /// them first.
    #[inline]
    pub fn is_untouched(&self, address: u64) -> bool {
        match &self.0 {
            Model::Glibc(heap) => heap.is_mapped(address),
            Model::Tcmalloc(heap) => heap.is_large(address),
        }
    }

    /// Whether the block at `address` has a mapping separate from the heap.
    pub fn is_apart(&self, address: u64) -> bool {
        matches!(&self.0, Model::Glibc(heap) if heap.is_mapped(address))
    }

    /// Bytes that the heap has taken from the break since `start`, without separately mapped blocks.
    pub fn bytes(&self, start: VirtAddr) -> u64 {
        match &self.0 {
            Model::Glibc(heap) => heap.bytes(start),
            Model::Tcmalloc(heap) => heap.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{MapKind, VmEvent};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn what_is_allocated_is_mapped_aligned_and_apart(
            model in prop::sample::select(vec![HeapModel::Glibc, HeapModel::Tcmalloc]),
            steps in prop::collection::vec((0u32..22, 0u64..1000, any::<bool>()), 1..400),
        ) {
            let mut space = AddressSpace::new();
            let mut heap = Heap::new(model, &space);
            let mut mapped: BTreeMap<u64, u64> = BTreeMap::new();
            let mut brk = None;
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (log, extra, free) in steps {
                if free && !live.is_empty() {
                    let (at, bytes) = live.swap_remove(extra as usize % live.len());
                    heap.free(at, bytes, &mut space);
                } else {
                    let bytes = (1 << log) + extra;
                    let at = heap.allocate(bytes, &mut space);
                    prop_assert!(at.is_multiple_of(if bytes < 16 { 8 } else { 16 }), "{at:#x} for {bytes} bytes");
                    prop_assert!(live.iter().all(|(other, len)| at + bytes <= *other || other + len <= at), "{bytes} at {at:#x}");
                    live.push((at, bytes));
                }
                for event in space.take_events() {
                    match event {
                        VmEvent::Map { start, len, kind, .. } => {
                            if kind == MapKind::Heap {
                                brk = Some(start.0);
                            }
                            mapped.insert(start.0, start.0 + len);
                        }
                        VmEvent::Unmap { start, len } => prop_assert_eq!(mapped.remove(&start.0), Some(start.0 + len)),
                        VmEvent::Brk { end } => {
                            mapped.insert(brk.unwrap(), end.0);
                        }
                        VmEvent::Touch { start, len, .. } => {
                            let (_, end) = mapped.range(..=start.0).next_back().unwrap();
                            prop_assert!(start.0 + len <= *end, "touches an unmapped range");
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                for (at, bytes) in &live {
                    let (_, end) = mapped.range(..=*at).next_back().unwrap();
                    prop_assert!(at + bytes <= *end, "{at:#x} is not mapped");
                }
            }
        }
    }
}
