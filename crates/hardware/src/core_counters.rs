//! The counters of a core's window, its cycle stack among them.

use ambulator_base::counters;

counters! {
    /// Counters of a core's window.
    pub struct CoreCounters {
        /// Instructions dispatched.
        instructions: Instructions,
        /// Cycles until everything so far has committed.
        cycles: Cycles timed,
        /// Loads completed.
        loads: Events,
        /// Stores completed.
        stores: Events,
        /// Loads that took their value from the store queue.
        forwards: Events timed,
        /// Branches resolved.
        branches: Events,
        /// Branches whose direction was predicted wrongly.
        mispredictions: Events,
        /// Cycles in which dispatch waited for room in the reorder buffer.
        stall_rob: Cycles timed,
        /// Cycles in which dispatch waited for room in the load queue.
        stall_load_queue: Cycles timed,
        /// Cycles in which dispatch waited for room in the store queue.
        stall_store_queue: Cycles timed,
        /// Cycles in which dispatch waited for the correct path after a misprediction.
        stall_branch: Cycles timed,
        /// Cycles in which dispatch waited for instruction fetch or its translation.
        stall_front: Cycles timed,
        /// Cycles in which dispatch waited for serialising events and during them.
        stall_serialize: Cycles timed,
        /// Cycles that dispatched instructions waited for the loads that they depend on (overlapping).
        wait_dependences: Cycles timed,
        /// Serialising events (faults, system calls, context switches).
        serializations: Events,
        /// Cycle stack: cycles in which instructions committed at full width, or waited for nothing of the below.
        stack_base: Cycles timed,
        /// Cycle stack: cycles without commit until a misprediction's correct path dispatched.
        stack_branch: Cycles timed,
        /// Cycle stack: cycles without commit for instruction fetch or its translation.
        stack_front: Cycles timed,
        /// Cycle stack: cycles in which the oldest instruction waited for the L1 TLB alone.
        stack_tlb_l1: Cycles timed,
        /// Cycle stack: cycles in which it waited for the L2 TLB, or what is looked up beside it without a load.
        stack_tlb_l2: Cycles timed,
        /// Cycle stack: cycles in which it waited for a walk or a look-up of another access that it joined.
        stack_walk_joined: Cycles timed,
        /// Cycle stack: cycles in which it waited for a walk or a lookaside whose slowest load L1 served.
        stack_walk_l1: Cycles timed,
        /// Cycle stack: cycles in which it waited for a walk or a lookaside whose slowest load L2 served.
        stack_walk_l2: Cycles timed,
        /// Cycle stack: cycles in which it waited for a walk or a lookaside whose slowest load the LLC served.
        stack_walk_llc: Cycles timed,
        /// Cycle stack: cycles in which it waited for a walk or a lookaside whose slowest load DRAM served.
        stack_walk_dram: Cycles timed,
        /// Cycle stack: cycles in which it waited for its data from L1 or the store queue.
        stack_l1: Cycles timed,
        /// Cycle stack: cycles in which it waited for its data from L2.
        stack_l2: Cycles timed,
        /// Cycle stack: cycles in which it waited for its data from the LLC.
        stack_llc: Cycles timed,
        /// Cycle stack: cycles in which it waited for its data from DRAM.
        stack_dram: Cycles timed,
        /// Cycle stack: cycles without commit because the store queue was full of stores that awaited lines.
        stack_stores: Cycles timed,
        /// Cycle stack: cycles of the operating system, in which nothing committed.
        stack_os: Cycles timed,
    }
}
