//! SysBench's memory test: threads that read or write blocks of memory, in order or at random.
//!
//! Stands for SysBench `memory` (ME-HPT Sec. VI with 64 GB; LVM Sec. 6.2). `sysbench memory
//! --memory-block-size=B --memory-scope=S --memory-oper=O --memory-access-mode=M run`, version 1.0.20,
//! `src/tests/memory/sb_memory.c`: each thread has its own block (scope `local`) or all share one (`global`),
//! from `memalign` to whole pages and filled with zeroes before the run. An event accesses as many 8-byte
//! words as the block has: in ascending order, or each at `rand_uniform() * words`, where the generator is
//! xoroshiro128+ with a state for each thread.
//!
//! The compiled loops: in order `mov (%rdx),%rax` (or `mov %rcx,(%rdx)`)`; add; cmp; jne`; at random 17
//! instructions of the generator (its state is thread-local: two loads and two stores), a conversion to the
//! index, and the access. Addresses do not depend on memory's contents, so the simulator stores none at any
//! footprint.

use super::execution::{Execution, Program, ProgramSource, Value};
use super::{BenchmarkSpec, ProgramInfo, identity};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{FRAME_BYTES, Random, RecordSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operation on the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOperation {
    /// Loads.
    Read,
    /// Stores: SysBench's default.
    #[default]
    Write,
}

/// The order of the accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryAccessMode {
    /// Ascending.
    Sequential,
    /// Each word at random.
    #[default]
    Random,
}

/// Which threads share a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryScope {
    /// One block for all threads: SysBench's default.
    #[default]
    Global,
    /// A block for each thread.
    Local,
}

/// Settings of SysBench's memory test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SysbenchMemorySpec {
    /// Bytes of all blocks together.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Seed of the threads' generators.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// The operation on the block.
    #[schemars(extend("x-unit" = "choice", "x-source" = "sysbench --memory-oper"))]
    pub operation: MemoryOperation,
    /// The order of the accesses.
    #[schemars(extend("x-unit" = "choice", "x-source" = "sysbench --memory-access-mode"))]
    pub mode: MemoryAccessMode,
    /// Which threads share a block.
    #[schemars(extend("x-unit" = "choice", "x-source" = "sysbench --memory-scope"))]
    pub scope: MemoryScope,
    /// Threads, 1 to 64.
    #[schemars(range(min = 1, max = 64), extend("x-unit" = "count", "x-source" = "sysbench --threads"))]
    pub threads: u32,
    /// Passes of each thread over its block.
    #[schemars(range(min = 1, max = super::MOST_EVENTS), extend("x-unit" = "count"))]
    pub events: u64,
}

impl Default for SysbenchMemorySpec {
    fn default() -> Self {
        SysbenchMemorySpec {
            footprint: 8 << 30,
            seed: 1,
            operation: MemoryOperation::default(),
            mode: MemoryAccessMode::default(),
            scope: MemoryScope::default(),
            threads: 1,
            events: 1 << 20,
        }
    }
}

impl SysbenchMemorySpec {
    fn blocks(&self) -> u64 {
        match self.scope {
            MemoryScope::Global => 1,
            MemoryScope::Local => u64::from(self.threads),
        }
    }
}

impl BenchmarkSpec for SysbenchMemorySpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "sysbench-memory",
        about: "reads or writes of blocks of memory, in order or at random, by any number of threads",
        stands_for: "SysBench memory (ME-HPT, LVM)",
        default_footprint: 8 << 30,
    };

    fn source(&self) -> Box<dyn RecordSource> {
        let words = self.footprint / self.blocks() / 8;
        let facts = format!("{} blocks of {words} words of 8 bytes", self.blocks());
        let identity = identity("sysbench-memory", self, &facts, self.blocks() * words * 8);
        ProgramSource::boxed(identity, AddressSpace::new(), SysbenchMemory { spec: self.clone(), words })
    }
}

/// Code addresses of the compiled loops.
mod pc {
    use super::TEXT;
    pub const SEQUENTIAL: u64 = TEXT + 0x810;
    pub const STATE_0: u64 = TEXT + 0x850;
    pub const STATE_1: u64 = TEXT + 0x858;
    pub const SET_STATE_0: u64 = TEXT + 0x880;
    pub const SET_STATE_1: u64 = TEXT + 0x88c;
    pub const RANDOM: u64 = TEXT + 0x8a8;
}

/// Accesses that a thread makes before the next one runs.
const QUANTUM: u64 = 2048;

struct SysbenchMemory {
    spec: SysbenchMemorySpec,
    words: u64,
}

impl Program for SysbenchMemory {
    fn run(self: Box<Self>, on: &mut Execution) {
        let blocks: Vec<Array> = (0..self.spec.blocks())
            .map(|_| {
                // `memalign` to a page: the block begins at the first whole page of what `malloc` gives.
                let at = on.allocate(self.words * 8 + FRAME_BYTES);
                let block = Array { base: at.0.next_multiple_of(FRAME_BYTES), element: 8, len: self.words };
                on.event(block.touch(true));
                block
            })
            .collect();
        let states = on.filled_array(16, u64::from(self.spec.threads));
        on.begin_region();
        let mut generators: Vec<Random> = (0..self.spec.threads)
            .map(|t| Random::for_purpose(self.spec.seed, &format!("sysbench thread {t}")))
            .collect();
        let mut done = 0;
        let all = self.words.saturating_mul(self.spec.events);
        while done < all {
            let turn = QUANTUM.min(all - done);
            for thread in 0..self.spec.threads {
                on.thread(thread);
                let block = &blocks[thread as usize % blocks.len()];
                match self.spec.mode {
                    MemoryAccessMode::Sequential => self.in_order(on, block, done, turn),
                    MemoryAccessMode::Random => {
                        self.at_random(on, block, states.at(u64::from(thread)), &mut generators[thread as usize], turn);
                    }
                }
            }
            done += turn;
        }
    }
}

impl SysbenchMemory {
    #[inline(always)]
    fn access(&self, on: &mut Execution, pc: u64, block: &Array, word: u64) {
        match self.spec.operation {
            MemoryOperation::Read => {
                on.load(pc, block.at(word), 8, Value::NONE);
            }
            MemoryOperation::Write => on.store(pc, block.at(word), 8, Value::NONE),
        }
    }

    fn in_order(&self, on: &mut Execution, block: &Array, done: u64, turn: u64) {
        for i in done..done + turn {
            self.access(on, pc::SEQUENTIAL, block, i % self.words);
            on.work(3);
        }
    }

    fn at_random(
        &self,
        on: &mut Execution,
        block: &Array,
        state: ambulator_base::VirtAddr,
        random: &mut Random,
        turn: u64,
    ) {
        for _ in 0..turn {
            // xoroshiro128+: two loads, xor, rotations and shifts, two stores; then the product with the
            // block's words.
            on.load(pc::STATE_0, state, 8, Value::NONE);
            on.load(pc::STATE_1, state.offset(8), 8, Value::NONE);
            on.work(7);
            on.store(pc::SET_STATE_0, state, 8, Value::NONE);
            on.work(1);
            on.store(pc::SET_STATE_1, state.offset(8), 8, Value::NONE);
            on.work(5);
            self.access(on, pc::RANDOM, block, random.below(self.words));
            on.work(3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{Batch, Record, RecordKind, VmEvent};

    fn records(spec: &SysbenchMemorySpec) -> (Vec<Record>, u64) {
        let (mut source, mut batch, mut records, mut switches) = (spec.source(), Batch::default(), Vec::new(), 0);
        while source.fill(&mut batch).unwrap() {
            records.extend_from_slice(&batch.records);
            switches += batch.events.iter().filter(|(_, e)| matches!(e, VmEvent::Switch { .. })).count() as u64;
        }
        (records, switches)
    }

    #[test]
    fn each_thread_accesses_its_own_block_in_order() {
        let spec = SysbenchMemorySpec {
            footprint: 2 << 20,
            threads: 2,
            scope: MemoryScope::Local,
            mode: MemoryAccessMode::Sequential,
            operation: MemoryOperation::Read,
            events: 2,
            ..SysbenchMemorySpec::default()
        };
        let (records, switches) = records(&spec);
        let words = (1u64 << 20) / 8;
        assert_eq!(records.len() as u64, 2 * 2 * words);
        assert_eq!(switches, 2 * 2 * words / QUANTUM - 1);
        let first = records[0].va.0;
        let of_first: Vec<u64> = records.iter().map(|r| r.va.0.wrapping_sub(first)).filter(|d| *d < 1 << 20).collect();
        let expected: Vec<u64> = (0..2 * words).map(|i| i % words * 8).collect();
        assert_eq!(of_first, expected);
        assert_eq!(records[1].instructions(), 4);
    }

    #[test]
    fn random_writes_spread_over_the_block() {
        let spec = SysbenchMemorySpec { footprint: 1 << 20, events: 4, ..SysbenchMemorySpec::default() };
        let (records, _) = records(&spec);
        let mut pages = vec![0; 257];
        let lowest = records.iter().filter(|r| r.pc.0 == pc::RANDOM).map(|r| r.va.0).min().unwrap() & !0xfff;
        for record in records.iter().filter(|r| r.pc.0 == pc::RANDOM) {
            assert_eq!(record.kind, RecordKind::Store);
            pages[((record.va.0 - lowest) >> 12) as usize] += 1;
        }
        assert!(pages[..256].iter().all(|n| (1700..2400).contains(n)), "about 2048 a page");
    }
}
