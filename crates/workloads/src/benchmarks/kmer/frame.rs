//! The stack frame of the counting loop, and what the loop does before it looks for the k-mer.

use super::{WORD_BASES, pc};
use crate::benchmarks::execution::{Execution, Value};
use crate::layout::Array;

/// 8-byte words of the stack frame, and the objects that the loop reads through it.
pub(super) mod word {
    pub const READ: u64 = 0;
    pub const POSITION: u64 = 1;
    pub const KMER: u64 = 2;
    pub const STANDARD: u64 = 3;
    pub const HASH: u64 = 4;
    pub const PARTIAL: u64 = 5;
    pub const BUCKETS: u64 = 6;
    pub const LOCKED: u64 = 8;
    pub const K: u64 = 15;
    pub const LENGTH: u64 = 16;
    pub const STRAND: u64 = 17;
    pub const CHUNKS: u64 = 18;
    pub const HASH_POWER: u64 = 19;
    pub const TABLE: u64 = 20;
    pub const LOCK_LIST: u64 = 21;
    pub const LOCKS: u64 = 22;
    pub const ALL: u64 = 23;
}

/// The execution, and the stack frame of the counting loop.
pub(super) struct Frame<'a>(pub &'a mut Execution, pub Array);

impl Frame<'_> {
    /// Loads a word of the frame.
    #[inline(always)]
    pub fn reload(&mut self, pc: u64, word: u64) -> Value {
        self.0.load(pc, self.1.at(word), 8, Value::NONE)
    }

    /// Stores a word of the frame.
    #[inline(always)]
    pub fn spill(&mut self, pc: u64, word: u64) {
        self.0.store(pc, self.1.at(word), 8, Value::NONE);
    }

    /// Appends the next base, and computes the reverse complement and the hash if there is a whole k-mer: `k`
    /// bases, or 0. Returns the load of the base.
    #[inline]
    pub fn base(&mut self, buffer: &Array, i: u64, more: bool, reverse: bool, k: u32) -> Value {
        self.reload(pc::NEXT, word::POSITION);
        self.0.work(1);
        let read = self.reload(pc::NEXT + 9, word::READ);
        let length = self.0.load(pc::NEXT + 14, self.1.at(word::LENGTH), 8, read);
        self.0.work(1);
        self.0.branch(pc::END, pc::REFUSED, !more, length);
        let read = self.reload(pc::END + 6, word::READ);
        self.reload(pc::END + 11, word::K);
        self.spill(pc::END + 17, word::POSITION);
        let strand = self.0.load(pc::END + 22, self.1.at(word::STRAND), 1, read);
        let chunks = self.0.load(pc::END + 26, self.1.at(word::CHUNKS), 8, read);
        self.0.branch(pc::COMPLEMENT, pc::CHUNK + 300, reverse, strand);
        self.reload(pc::COMPLEMENT + 6, word::POSITION);
        self.0.work(4);
        let chunk = self.0.load(pc::CHUNK, buffer.at(i / WORD_BASES), 8, chunks);
        self.0.work(8);
        self.reload(pc::CHUNK + 14, word::KMER);
        self.0.work(4);
        self.spill(pc::CHUNK + 32, word::KMER);
        self.0.work(1);
        self.0.branch(pc::SHORT, pc::REFUSED, false, Value::NONE);
        if k > 0 {
            self.0.work(2);
            for i in 0..k {
                self.0.work(7);
                self.0.branch(pc::REVERSE, pc::REVERSE - 22, i + 1 < k, Value::NONE);
            }
            self.reload(pc::STANDARD - 25, word::KMER);
            self.0.work(4);
            self.spill(pc::STANDARD, word::STANDARD);
            self.0.work(14);
            self.spill(pc::HASH, word::HASH);
            self.0.work(13);
            self.spill(pc::PARTIAL, word::PARTIAL);
        }
        chunk
    }
}
