//! STREAM: copy, scale, add and triad over three arrays.
//!
//! Stands for bandwidth-bound dense loops: a new page every few hundred accesses, in order, on up to three
//! streams.
//!
//! Layout: the arrays `a`, `b`, `c` of doubles are static, as in STREAM 5.10, so they are consecutive in the
//! program's bss. The set-up loop `a[j] = 1; b[j] = 2; c[j] = 0` touches pages of the three arrays
//! round-robin. Nothing depends on data, so the simulator stores none at any footprint. The four loops repeat
//! without end.
//!
//! The compiled loops work on 16-byte vectors (two elements; the array size is a constant, so gcc 12 -O2
//! vectorises). For instance triad, 8 instructions: `movupd (c); movupd (b); mulpd; addpd; movups (a); add;
//! cmp; jne`. Copy is modelled as the same kind of loop, 5 instructions; gcc would call `memcpy`.

use super::{Benchmark, BenchmarkSource, BenchmarkSpec, ProgramInfo, identity, load, store};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Batch, FRAME_BYTES, Record, RecordSource, VirtAddr, VmEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a vector access.
const VECTOR: u64 = 16;

/// Which loops run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamOperation {
    /// All four in sequence, as in the benchmark.
    #[default]
    All,
    /// `c[j] = a[j]`.
    Copy,
    /// `b[j] = s * c[j]`.
    Scale,
    /// `c[j] = a[j] + b[j]`.
    Add,
    /// `a[j] = b[j] + s * c[j]`.
    Triad,
}

/// Settings of STREAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSpec {
    /// Bytes of the three arrays together, rounded down to whole vectors.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Without effect: nothing in this program is random.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// Which loops run.
    #[schemars(extend("x-unit" = "choice", "x-source" = "STREAM 5.10"))]
    pub operation: StreamOperation,
}

impl Default for StreamSpec {
    fn default() -> Self {
        StreamSpec { footprint: 8 << 30, seed: 1, operation: StreamOperation::All }
    }
}

impl StreamSpec {
    fn layout(&self) -> (AddressSpace, [Array; 3]) {
        let elements = self.footprint / (3 * VECTOR) * (VECTOR / 8);
        AddressSpace::with_static_arrays([(8, elements); 3])
    }
}

impl BenchmarkSpec for StreamSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "stream",
        about: "copy, scale, add and triad over three arrays of doubles",
        stands_for: "STREAM; dense loops that are bound by bandwidth",
        default_footprint: 8 << 30,
    };

    fn source(&self) -> Box<dyn RecordSource> {
        let (mut space, arrays) = self.layout();
        let facts = format!("array = {} doubles", arrays[0].len);
        let footprint = 3 * arrays[0].bytes();
        let setup = Box::new(space.take_events().chain(TouchInTurn::new(arrays)));
        BenchmarkSource::boxed(identity("stream", self, &facts, footprint), setup, Stream::new(self, arrays))
    }
}

/// The order of first touch of a loop that writes element `j` of each array round-robin.
struct TouchInTurn {
    arrays: [Array; 3],
    /// For each array, the element that first touches its next page.
    next: [u64; 3],
}

impl TouchInTurn {
    fn new(arrays: [Array; 3]) -> TouchInTurn {
        TouchInTurn { arrays, next: [0; 3] }
    }
}

impl Iterator for TouchInTurn {
    type Item = VmEvent;

    fn next(&mut self) -> Option<VmEvent> {
        let turn = (0..3).min_by_key(|&i| (self.next[i], i))?;
        let array = &self.arrays[turn];
        let element = self.next[turn];
        if element >= array.len {
            return None;
        }
        let start = array.at(element).0;
        let end = ((start / FRAME_BYTES + 1) * FRAME_BYTES).min(array.base + array.bytes());
        self.next[turn] = element + (end - start).div_ceil(array.element);
        Some(VmEvent::Touch { start: VirtAddr(start), len: end - start, write: true })
    }
}

/// One of the four loops, as compiled.
#[derive(Clone, Copy)]
struct Loop {
    /// Arrays read, in the order of the loads: 0, 1, 2 are a, b, c.
    reads: &'static [usize],
    /// The array written.
    writes: usize,
    /// Instructions between the last load and the store.
    arithmetic: u32,
    pc: u64,
}

/// `add`, `cmp`, `jne`.
const LOOP_INSTRUCTIONS: u32 = 3;
const COPY: Loop = Loop { reads: &[0], writes: 2, arithmetic: 0, pc: TEXT + 0x340 };
const SCALE: Loop = Loop { reads: &[2], writes: 1, arithmetic: 1, pc: TEXT + 0x378 };
const ADD: Loop = Loop { reads: &[0, 1], writes: 2, arithmetic: 1, pc: TEXT + 0x3c0 };
const TRIAD: Loop = Loop { reads: &[2, 1], writes: 0, arithmetic: 2, pc: TEXT + 0x400 };

/// The running benchmark.
struct Stream {
    arrays: [Array; 3],
    loops: &'static [Loop],
    /// The loop that runs, an index into `loops`.
    current: usize,
    /// Bytes into the arrays.
    position: u64,
}

impl Stream {
    fn new(spec: &StreamSpec, arrays: [Array; 3]) -> Stream {
        let loops: &[Loop] = match spec.operation {
            StreamOperation::All => &[COPY, SCALE, ADD, TRIAD],
            StreamOperation::Copy => &[COPY],
            StreamOperation::Scale => &[SCALE],
            StreamOperation::Add => &[ADD],
            StreamOperation::Triad => &[TRIAD],
        };
        Stream { arrays, loops, current: 0, position: 0 }
    }
}

impl Benchmark for Stream {
    fn run(&mut self, records: &mut Vec<Record>) {
        let Loop { reads, writes, arithmetic, pc } = self.loops[self.current];
        let steps = (Batch::TARGET_RECORDS / (reads.len() + 1)) as u64;
        let end = self.arrays[0].bytes().min(self.position + steps * VECTOR);
        let at = |array: usize, position| VirtAddr(self.arrays[array].base + position);
        for position in (self.position..end).step_by(VECTOR as usize) {
            if let &[first, second] = reads {
                records.extend_from_slice(&[
                    load(pc, at(first, position), VECTOR as u8, LOOP_INSTRUCTIONS, 0),
                    load(pc + 5, at(second, position), VECTOR as u8, 0, 0),
                    store(pc + 14, at(writes, position), VECTOR as u8, arithmetic, 0),
                ]);
            } else {
                records.extend_from_slice(&[
                    load(pc, at(reads[0], position), VECTOR as u8, LOOP_INSTRUCTIONS, 0),
                    store(pc + 9, at(writes, position), VECTOR as u8, arithmetic, 0),
                ]);
            }
        }
        self.position = end;
        if end == self.arrays[0].bytes() {
            self.position = 0;
            self.current = (self.current + 1) % self.loops.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::RecordKind;

    #[test]
    fn addresses_are_those_of_the_four_loops() {
        let spec = StreamSpec { footprint: 1 << 20, ..StreamSpec::default() };
        let (_, arrays) = spec.layout();
        let [a, b, c] = arrays;
        assert_eq!(a.len, (1 << 20) / 48 * 2);
        let mut stream = Stream::new(&spec, arrays);
        let mut records = Vec::new();
        for _ in 0..20 {
            stream.run(&mut records);
        }
        let mut seen = records.iter();
        let mut expect = |kind, array: Array, j| {
            let r = seen.next().unwrap();
            assert_eq!((r.kind, r.va, r.size), (kind, array.at(j), 16), "element {j}");
        };
        use RecordKind::{Load, Store};
        for _ in 0..2 {
            (0..a.len).step_by(2).for_each(|j| [(Load, a), (Store, c)].iter().for_each(|&(k, x)| expect(k, x, j)));
            (0..a.len).step_by(2).for_each(|j| [(Load, c), (Store, b)].iter().for_each(|&(k, x)| expect(k, x, j)));
            (0..a.len)
                .step_by(2)
                .for_each(|j| [(Load, a), (Load, b), (Store, c)].iter().for_each(|&(k, x)| expect(k, x, j)));
            (0..a.len)
                .step_by(2)
                .for_each(|j| [(Load, c), (Load, b), (Store, a)].iter().for_each(|&(k, x)| expect(k, x, j)));
        }
        let of = |pc: u64, n: usize| {
            let at = records.iter().position(|r| r.pc.0 == pc).unwrap();
            records[at..at + n].iter().map(Record::instructions).sum::<u64>()
        };
        assert_eq!((of(COPY.pc, 2), of(SCALE.pc, 2), of(ADD.pc, 3), of(TRIAD.pc, 3)), (5, 6, 7, 8));
    }

    #[test]
    fn first_touches_take_turns_and_cover_the_arrays() {
        let spec = StreamSpec { footprint: 3 << 20, ..StreamSpec::default() };
        let (_, arrays) = spec.layout();
        let touches: Vec<(u64, u64)> = TouchInTurn::new(arrays)
            .map(|event| match event {
                VmEvent::Touch { start, len, .. } => (start.0, len),
                other => panic!("{other:?} is not a touch"),
            })
            .collect();
        assert_eq!(touches.iter().map(|t| t.1).sum::<u64>(), 3 << 20);
        let of = |address| arrays.iter().position(|x| (x.base..x.base + x.bytes()).contains(&address)).unwrap();
        assert_eq!(touches[..6].iter().map(|t| of(t.0)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    }
}
