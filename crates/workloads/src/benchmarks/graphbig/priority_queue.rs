//! `std::priority_queue` of distances and vertices, as libstdc++ (gcc 12 -O2) compiles it.
//!
//! A binary heap in a vector of 16-byte entries. `pop` moves the hole to the bottom, along the smaller
//! children, and the last entry from there up (`std::__adjust_heap`, `std::__push_heap`). Both are calls:
//! they save registers on the stack and read the vector's three pointers from memory.

use super::site;
use crate::benchmarks::execution::{Execution, Value};
use crate::layout::Array;

/// An entry: distance and vertex. The least comes first. (The program's has 8 bytes each.)
pub(super) type Entry = (u32, u32);

/// 8-byte words of the function's stack frame and of its caller's.
pub(super) mod word {
    /// The return address of a call.
    pub const RETURN: u64 = 0;
    /// Registers saved by the callee, downwards into the callee's frame.
    pub const SAVED: u64 = 1;
    /// The entry passed to `__push_heap`, put together in memory.
    pub const VALUE: u64 = 6;
    /// Registers that the caller needs after a call.
    pub const LOCAL: u64 = 8;
    /// The entry to be pushed.
    pub const ENTRY: u64 = 12;
    /// The vector: its begin, end and capacity.
    pub const BEGIN: u64 = 14;
    pub const END: u64 = 15;
    pub const CAPACITY: u64 = 16;
    /// The pointer to the graph's index of vertices.
    pub const INDEX: u64 = 17;
    /// All of them.
    pub const ALL: u64 = 18;
}

/// The queue and the stack frame around it.
pub(super) struct PriorityQueue {
    entries: Vec<Entry>,
    array: Array,
    /// The stack frame; see [`word`].
    pub frame: Array,
    /// `push` is compiled with -O3: it has no call.
    inlined: bool,
}

impl PriorityQueue {
    /// An empty queue in `array`, of 16-byte elements, whose `push` calls `__push_heap` or has it `inlined`.
    pub fn new(array: Array, frame: Array, inlined: bool) -> PriorityQueue {
        PriorityQueue { entries: Vec::new(), array, frame, inlined }
    }

    /// Loads a word of the frame.
    #[inline(always)]
    pub fn reload(&self, on: &mut Execution, at: u64, word: u64) -> Value {
        on.load(at, self.frame.at(word), 8, Value::NONE)
    }

    /// Stores a word of the frame.
    #[inline(always)]
    pub fn spill(&self, on: &mut Execution, at: u64, word: u64) {
        on.store(at, self.frame.at(word), 8, Value::NONE);
    }

    /// `push` of an entry that lies in the frame already: append it, then `__push_heap`.
    #[inline]
    pub fn push(&mut self, on: &mut Execution, entry: Entry) {
        let end = self.array.at(self.entries.len() as u64);
        let capacity = self.reload(on, site(40), word::CAPACITY);
        on.branch(site(41), site(90), false, capacity);
        on.load(site(42), self.frame.at(word::ENTRY), 16, Value::NONE);
        on.work(1);
        on.store(site(43), end, 16, Value::NONE);
        self.spill(on, site(44), word::END);
        let begin = self.reload(on, site(45), word::BEGIN);
        on.work(1);
        on.load(site(46), end, 8, Value::NONE);
        on.work(1);
        on.load(site(47), end.offset(8), 8, Value::NONE);
        on.work(3);
        let hole = self.entries.len();
        self.entries.push(entry);
        if self.inlined {
            on.work(4);
            on.branch(site(53), site(62), hole == 0, begin);
            self.move_up(on, hole, entry, begin);
            return;
        }
        self.spill(on, site(48), word::RETURN);
        self.push_heap(on, hole, entry, begin);
    }

    /// `std::__push_heap`: moves `entry` up from `hole`. It comes in two registers and is put together in
    /// memory.
    fn push_heap(&mut self, on: &mut Execution, hole: usize, entry: Entry, begin: Value) {
        on.work(2);
        self.spill(on, site(49), word::VALUE + 1);
        self.reload(on, site(50), word::VALUE + 1);
        on.work(1);
        self.spill(on, site(51), word::VALUE);
        on.load(site(52), self.frame.at(word::VALUE), 16, Value::NONE);
        on.work(5);
        on.branch(site(53), site(62), hole == 0, begin);
        self.move_up(on, hole, entry, begin);
        self.reload(on, site(63), word::RETURN);
    }

    /// Moves `entry` up from `hole`.
    #[inline(always)]
    fn move_up(&mut self, on: &mut Execution, mut hole: usize, entry: Entry, begin: Value) {
        while hole > 0 {
            let parent = (hole - 1) / 2;
            let above = self.entries[parent];
            let at = self.array.at(parent as u64);
            on.work(3);
            let distance = on.load(site(54), at, 8, begin);
            on.branch(site(55), site(59), entry.0 < above.0, distance);
            if entry.0 >= above.0 {
                on.work(1);
                on.branch(site(56), site(57), entry.0 == above.0, distance);
                if entry.0 > above.0 {
                    break;
                }
                let vertex = on.load(site(57), at.offset(8), 8, begin);
                on.branch(site(58), site(60), entry.1 < above.1, vertex);
                if entry.1 >= above.1 {
                    break;
                }
            } else {
                on.load(site(59), at.offset(8), 8, begin);
            }
            on.work(4);
            on.store(site(60), self.array.at(hole as u64), 16, begin);
            self.entries[hole] = above;
            hole = parent;
            on.work(6);
            on.branch(site(61), site(62), hole == 0, Value::NONE);
            on.work(2);
        }
        on.work(2);
        on.store(site(62), self.array.at(hole as u64), 16, begin);
        self.entries[hole] = entry;
    }

    /// `top` and `pop`: the least entry, with the load that returned it.
    #[inline]
    pub fn pop(&mut self, on: &mut Execution) -> Option<(Entry, Value)> {
        let begin = self.reload(on, site(64), word::BEGIN);
        on.work(1);
        on.branch(site(65), site(91), self.entries.is_empty(), begin);
        let least = *self.entries.first()?;
        let top = on.load(site(66), self.array.at(0), 16, begin);
        on.work(1);
        on.load(site(67), self.array.at(0).offset(8), 8, begin);
        on.work(2);
        on.load(site(68), self.array.at(0), 8, begin);
        on.work(1);
        self.spill(on, site(69), word::LOCAL);
        on.work(3);
        let last = self.entries.pop()?;
        on.branch(site(70), site(71), !self.entries.is_empty(), begin);
        if !self.entries.is_empty() {
            let end = self.array.at(self.entries.len() as u64);
            on.work(1);
            on.load(site(71), end, 8, Value::NONE);
            on.load(site(72), end.offset(8), 8, Value::NONE);
            on.work(2);
            on.store(site(73), end, 16, Value::NONE);
            on.work(1);
            self.spill(on, site(74), word::LOCAL + 1);
            self.adjust_heap(on, last, begin);
            self.reload(on, site(75), word::LOCAL + 1);
            on.work(1);
        }
        self.spill(on, site(76), word::END);
        Some((least, top))
    }

    /// `std::__adjust_heap`, called: moves the hole from the top to the bottom, and `last` from there up.
    fn adjust_heap(&mut self, on: &mut Execution, last: Entry, begin: Value) {
        let len = self.entries.len();
        self.spill(on, site(77), word::RETURN);
        on.work(9);
        for register in 0..5 {
            self.spill(on, site(78), word::SAVED + register);
        }
        let inner = (len - 1) / 2;
        let mut hole = 0;
        on.branch(site(79), site(85), hole >= inner, Value::NONE);
        on.work(2);
        while hole < inner {
            let (left, right) = (2 * hole + 1, 2 * hole + 2);
            let (a, b) = (self.entries[left], self.entries[right]);
            on.work(6);
            let of_right = on.load(site(80), self.array.at(right as u64), 8, begin);
            on.work(2);
            let of_left = on.load(site(81), self.array.at(left as u64), 8, begin);
            on.work(1);
            on.branch2(site(82), site(83), a.0 < b.0, [of_left, of_right]);
            let child = if a.0 < b.0 {
                on.load(site(83), self.array.at(left as u64).offset(8), 8, begin);
                on.work(2);
                left
            } else {
                on.load(site(86), self.array.at(right as u64).offset(8), 8, begin);
                on.work(1);
                on.branch2(site(87), site(84), a.0 != b.0, [of_left, of_right]);
                if a.0 == b.0 {
                    let vertex = on.load(site(88), self.array.at(left as u64).offset(8), 8, begin);
                    on.work(1);
                    on.branch(site(89), site(84), a.1 >= b.1, vertex);
                }
                if a < b { left } else { right }
            };
            on.work(2);
            on.store(site(84), self.array.at(hole as u64), 8, begin);
            on.store(site(84) + 4, self.array.at(hole as u64).offset(8), 8, begin);
            self.entries[hole] = self.entries[child];
            hole = child;
            on.work(1);
            on.branch(site(85), site(92), hole >= inner, Value::NONE);
            on.work(1);
        }
        // An even number of entries: the last inner one has only one child.
        on.work(1);
        on.branch(site(92), site(94), !len.is_multiple_of(2), Value::NONE);
        if len.is_multiple_of(2) {
            on.work(6);
            let lone = hole == (len - 2) / 2;
            on.branch(site(93), site(95), lone, Value::NONE);
            if lone {
                let child = 2 * hole + 1;
                on.work(4);
                on.load(site(95), self.array.at(child as u64), 16, begin);
                on.store(site(96), self.array.at(hole as u64), 16, begin);
                on.work(2);
                self.entries[hole] = self.entries[child];
                hole = child;
            }
        }
        on.work(4);
        for register in 0..5 {
            self.reload(on, site(94), word::SAVED + register);
        }
        // A tail call.
        self.push_heap(on, hole, last, begin);
    }
}
