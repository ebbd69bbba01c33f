//! GUPS: HPC Challenge RandomAccess, the sequential version.
//!
//! Stands for the worst case of translation: every update reads and writes one word of a table at a random
//! place, without any locality. Hash joins and key-value stores come close to it.
//!
//! Layout: one table from `malloc` (its own mapping), filled in ascending order (`Table[i] = i`), which is
//! its order of first touch; the generators' states `ran[128]` on the stack. No address depends on the
//! table's contents, so the simulator stores none at any footprint.
//!
//! HPCC 1.5, `RandomAccess/core_single_cpu.c`: 128 generators start at even distances in the sequence of `x
//! -> 2x xor (7 if the top bit was set)` and run round-robin, `Table[ran & (size - 1)] ^= ran`, four updates
//! for each word of the table. The compiled loop, 13 instructions an update:
//!
//! ```text
//! mov (%rdx),%rcx; lea; mov; xor $7; test; cmovs; add $8; mov            ran[j], its successor
//! mov %rax,-8(%rdx); and                                                 ran[j] = successor; the index
//! xor %rax,(%rsi,%rcx,8); cmp; jne                                       the update
//! ```
//!
//! With `streams = 1` the state stays in a register, as in the many copies of this benchmark with one
//! generator: 11 instructions, and no dependence on any load.

use super::{Benchmark, BenchmarkSource, BenchmarkSpec, Counts, Density, ProgramInfo, branch, identity, load, store};
use crate::layout::{AddressSpace, Array, TEXT};
use ambulator_base::{Batch, Record, RecordSource, mix64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The primitive polynomial's low bits (HPCC `POLY`).
const POLY: u64 = 7;
/// Length of the sequence's period (HPCC `PERIOD`).
const PERIOD: u64 = 1_317_624_576_693_539_401;

/// Code addresses of the compiled loop.
const PC_RAN_LOAD: u64 = TEXT + 0x230;
const PC_RAN_STORE: u64 = TEXT + 0x24f;
const PC_UPDATE: u64 = TEXT + 0x253;
const PC_LOOP: u64 = TEXT + 0x25a;
const PC_ONE_STREAM: u64 = TEXT + 0x27e;
const PC_UPDATE_ONE_STREAM: u64 = TEXT + 0x29c;
const PC_LOOP_ONE_STREAM: u64 = TEXT + 0x2a4;
/// Records of an update of many streams, and of one.
const RECORDS: usize = 5;
const RECORDS_ONE_STREAM: usize = 3;

/// How a random number maps to an index of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GupsIndex {
    /// HPCC's own: the low bits. The table is the largest power of two of words within the footprint.
    #[default]
    Mask,
    /// The high half of the product with the table's words: the table fills the footprint exactly.
    MultiplyShift,
}

/// Settings of GUPS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GupsSpec {
    /// Bytes of the table. With `index = "mask"` it is rounded down to a power of two.
    #[schemars(range(min = *super::FOOTPRINTS.start(), max = *super::FOOTPRINTS.end()), extend("x-unit" = "bytes"))]
    pub footprint: u64,
    /// Where in the generator's period the streams start; 0 and 1 are HPCC's own start.
    #[schemars(extend("x-unit" = "seed"))]
    pub seed: u64,
    /// How a random number maps to an index of the table.
    #[schemars(extend("x-unit" = "choice", "x-source" = "HPCC 1.5 RandomAccess"))]
    pub index: GupsIndex,
    /// Generators, used round-robin, with states in memory; 1 keeps its state in a register.
    #[schemars(range(min = 1, max = 8192), extend("x-unit" = "count", "x-source" = "HPCC 1.5 RandomAccess"))]
    pub streams: u32,
    /// Updates for each word of the table, after which the program ends.
    #[schemars(range(min = 1, max = 1 << 20), extend("x-unit" = "count", "x-source" = "HPCC 1.5 RandomAccess"))]
    pub updates_per_word: u64,
}

impl Default for GupsSpec {
    fn default() -> Self {
        GupsSpec { footprint: 8 << 30, seed: 1, index: GupsIndex::Mask, streams: 128, updates_per_word: 4 }
    }
}

impl GupsSpec {
    /// 8-byte words of the table.
    pub fn words(&self) -> u64 {
        let words = self.footprint / 8;
        match self.index {
            GupsIndex::Mask => 1 << words.max(1).ilog2(),
            GupsIndex::MultiplyShift => words,
        }
    }
}

impl BenchmarkSpec for GupsSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "gups",
        about: "read-modify-writes of random words of one table",
        stands_for: "HPC Challenge RandomAccess (sequential); hash joins and key-value stores at their worst",
        default_footprint: 8 << 30,
    };

    const DENSITIES: &[Density] = &[
        Density {
            compiled_program: "gups 128",
            settings: r#"{ "footprint": 16777216 }"#,
            unit: "update",
            site: PC_LOOP,
            skip: 0,
            units: 1 << 20,
            compiled: Counts { instructions: 13.037, loads: 2.001, stores: 2.001, branches: 1.009 },
        },
        Density {
            compiled_program: "gups 1",
            settings: r#"{ "footprint": 16777216, "streams": 1 }"#,
            unit: "update",
            site: PC_LOOP_ONE_STREAM,
            skip: 0,
            units: 1 << 20,
            compiled: Counts { instructions: 11.005, loads: 1.001, stores: 1.001, branches: 1.001 },
        },
    ];

    fn source(&self) -> Box<dyn RecordSource> {
        let mut space = AddressSpace::new();
        let ran = space.stack_array(8, u64::from(self.streams));
        let table = space.allocate_array(8, self.words());
        space.push(table.touch(true));
        space.push(ran.touch(true));
        let facts = format!("table = {} words of 8 bytes", table.len);
        let benchmark = Gups::new(self, table, ran);
        let setup = Box::new(space.take_events());
        BenchmarkSource::boxed(identity("gups", self, &facts, table.bytes()), setup, benchmark)
    }
}

/// The successor of `ran` in HPCC's sequence.
#[inline(always)]
fn successor(ran: u64) -> u64 {
    (ran << 1) ^ (((ran as i64) >> 63) as u64 & POLY)
}

/// The `n`-th number of the sequence that starts with 1 (`HPCC_starts`): squarings in GF(2)\[x\] modulo the
/// polynomial.
fn starts(n: u64) -> u64 {
    let n = n % PERIOD;
    if n == 0 {
        return 1;
    }
    // squares[i] is x^(2i) modulo the polynomial, so that squaring is a sum over set bits.
    let mut squares = [0u64; 64];
    let mut power = 1;
    for square in &mut squares {
        *square = power;
        power = successor(successor(power));
    }
    let mut ran = 2;
    for bit in (0..n.ilog2()).rev() {
        ran = (0..64).filter(|j| ran >> j & 1 != 0).fold(0, |sum, j| sum ^ squares[j]);
        if n >> bit & 1 != 0 {
            ran = successor(ran);
        }
    }
    ran
}

/// The running benchmark.
struct Gups {
    table: Array,
    states: Array,
    index: GupsIndex,
    ran: Vec<u64>,
    /// The current generator.
    turn: usize,
    /// Updates until the program ends.
    left: u64,
}

impl Gups {
    fn new(spec: &GupsSpec, table: Array, states: Array) -> Gups {
        let streams = u64::from(spec.streams);
        // HPCC runs updates / 128 rounds; a table with fewer updates than streams still makes one round.
        let rounds = (table.len * spec.updates_per_word / streams).max(1);
        let first = if spec.seed <= 1 { 0 } else { mix64(spec.seed) % PERIOD };
        let ran = (0..streams).map(|j| starts((first + rounds * j) % PERIOD)).collect();
        Gups { table, states, index: spec.index, ran, turn: 0, left: rounds * streams }
    }

    #[inline(always)]
    fn updates<const MASK: bool>(&mut self, records: &mut Vec<Record>) {
        let (table, states, words) = (self.table, self.states, self.table.len);
        let place = |ran: u64| {
            let index = if MASK { ran & (words - 1) } else { ambulator_base::mul_high(ran, words) };
            table.at(index)
        };
        if self.ran.len() == 1 {
            let n = self.left.min((Batch::TARGET_RECORDS / RECORDS_ONE_STREAM) as u64);
            let mut ran = self.ran[0];
            for i in 0..n {
                ran = successor(ran);
                let va = place(ran);
                // 11 instructions: the update's own is counted once for its two records.
                let mut end = branch(PC_LOOP_ONE_STREAM, PC_ONE_STREAM, i + 1 < self.left, [0, 0]);
                end.gap = 1;
                records.extend_from_slice(&[
                    load(PC_UPDATE_ONE_STREAM, va, 8, 7, 0),
                    store(PC_UPDATE_ONE_STREAM, va, 8, 0, 0),
                    end,
                ]);
            }
            self.ran[0] = ran;
            self.left -= n;
            return;
        }
        let n = self.left.min((Batch::TARGET_RECORDS / RECORDS) as u64);
        let mut turn = self.turn;
        for _ in 0..n {
            let ran = successor(self.ran[turn]);
            self.ran[turn] = ran;
            let state = states.at(turn as u64);
            let va = place(ran);
            turn += 1;
            let round = turn == self.ran.len();
            let mut end = branch(PC_LOOP, PC_RAN_LOAD, !round, [0, 0]);
            end.gap = 1;
            // 13 instructions, one of them with two records.
            records.extend_from_slice(&[
                load(PC_RAN_LOAD, state, 8, 0, 0),
                store(PC_RAN_STORE, state, 8, 7, 0),
                load(PC_UPDATE, va, 8, 0, 2),
                store(PC_UPDATE, va, 8, 0, 3),
                end,
            ]);
            if round {
                turn = 0;
            }
        }
        self.turn = turn;
        self.left -= n;
    }
}

impl Benchmark for Gups {
    fn run(&mut self, records: &mut Vec<Record>) {
        match self.index {
            GupsIndex::Mask => self.updates::<true>(records),
            GupsIndex::MultiplyShift => self.updates::<false>(records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_base::{RecordKind, VirtAddr};

    /// Runs a small GUPS to its end and returns its records.
    fn all_records(spec: &GupsSpec) -> (Array, Vec<Record>) {
        let mut space = AddressSpace::new();
        let states = space.stack_array(8, u64::from(spec.streams));
        let table = space.allocate_array(8, spec.words());
        let mut benchmark = Gups::new(spec, table, states);
        let mut all = Vec::new();
        loop {
            let before = all.len();
            benchmark.run(&mut all);
            if all.len() == before {
                return (table, all);
            }
        }
    }

    #[test]
    fn the_sequence_starts_as_hpcc_says() {
        let mut ran = 1;
        for n in 0..5000 {
            assert_eq!(starts(n), ran, "number {n}");
            ran = successor(ran);
        }
        // Doubling from 1 meets the polynomial first when bit 63 falls out.
        assert_eq!((starts(1), starts(63), starts(64), starts(65)), (2, 1 << 63, 7, 14));
        assert_eq!(starts(PERIOD), 1);
        assert_eq!(starts(PERIOD - 1), successor_inverse(1));
        assert_eq!(starts((1 << 40) + 1), successor(starts(1 << 40)));
    }

    fn successor_inverse(ran: u64) -> u64 {
        if ran & 1 == 0 { ran >> 1 } else { ((ran ^ POLY) >> 1) | 1 << 63 }
    }

    #[test]
    fn updates_are_the_reference_loop_and_doing_them_twice_restores_the_table() {
        let spec = GupsSpec { footprint: 3 << 20, ..GupsSpec::default() };
        let (array, records) = all_records(&spec);
        let words = 1u64 << 18;
        assert_eq!(array.len, words, "3 MiB is rounded down to 2 MiB");
        assert_eq!(records.len() as u64, 4 * RECORDS as u64 * words);

        // The reference program on a real table, compared with the records update by update.
        let mut table: Vec<u64> = (0..words).collect();
        let mut ran: Vec<u64> = (0..128).map(|j| starts(4 * words / 128 * j)).collect();
        let mut update = records.chunks_exact(RECORDS);
        for _ in 0..4 * words / 128 {
            for (j, r) in ran.iter_mut().enumerate() {
                *r = (*r << 1) ^ if (*r as i64) < 0 { POLY } else { 0 };
                let index = *r & (words - 1);
                table[index as usize] ^= *r;
                let seen = update.next().unwrap();
                assert_eq!(seen[0].va, VirtAddr(seen[0].va.0 / 1024 * 1024 + 8 * j as u64));
                assert_eq!(seen[2].va, array.at(index));
                assert_eq!((seen[2].kind, seen[3].kind), (RecordKind::Load, RecordKind::Store));
                assert_eq!(seen[3].va, seen[2].va);
                assert_eq!(seen[4].kind == RecordKind::BranchTaken, j < 127, "the inner loop ends after 128");
                assert_eq!(seen.iter().map(Record::instructions).sum::<u64>(), 13);
            }
        }
        assert_ne!(table, (0..words).collect::<Vec<_>>());
        // HPCC's verification: the same updates again by one generator from the start give the table back,
        // because the 128 streams together are the sequence from its first number on.
        let mut r = 1;
        for _ in 0..4 * words {
            r = successor(r);
            table[(r & (words - 1)) as usize] ^= r;
        }
        assert_eq!(table, (0..words).collect::<Vec<_>>());
    }

    #[test]
    fn multiply_shift_fills_the_footprint_exactly_and_evenly() {
        let spec = GupsSpec {
            footprint: 3 << 20,
            index: GupsIndex::MultiplyShift,
            streams: 1,
            seed: 9,
            ..GupsSpec::default()
        };
        let (array, records) = all_records(&spec);
        assert_eq!(array.bytes(), 3 << 20);
        let mut pages = vec![0u32; (3 << 20) / 4096];
        for pair in records.chunks_exact(RECORDS_ONE_STREAM) {
            pages[((pair[0].va.0 - array.base) / 4096) as usize] += 1;
            assert_eq!(pair.iter().map(Record::instructions).sum::<u64>(), 11);
            assert_eq!(pair[0].dep1, 0);
        }
        assert!(pages.iter().all(|&n| (1700..2400).contains(&n)), "about 2048 updates a page");
    }

    #[test]
    fn absurd_settings_are_named() {
        let spec = GupsSpec { footprint: 0, streams: 0, updates_per_word: 0, ..GupsSpec::default() };
        let problems = spec.invalid("program");
        assert_eq!(problems.len(), 3);
        assert!(problems[0].to_string().starts_with("`program.footprint` is 0; it must be from 1MiB"), "{problems:?}");
    }
}
