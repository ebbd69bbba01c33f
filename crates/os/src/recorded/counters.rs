//! What became of recorded places.

ambulator_base::counters! {
    /// Placement in the frames that a trace records, in pages of 4 KiB, since the machine started.
    pub(super) struct RecordedCounters {
        /// Pages that the trace has named a frame for.
        recorded: Pages,
        /// Pages placed in the frame that the trace names.
        exact: Pages,
        /// Pages placed as recorded within a block of 2 MiB that stands elsewhere, such as one beyond memory.
        rebased: Pages,
        /// Pages placed in any free frame: a page table, the kernel or another page has the recorded one.
        taken: Pages,
        /// Pages placed in any free frame: no block of memory was left to stand for the recorded one.
        no_room: Pages,
        /// Pages placed in any free frame: the trace names none for them.
        unrecorded: Pages,
        /// Pages that moved because the trace named another frame for them.
        moved: Pages,
        /// Pages that the trace named another frame for, and that could not move there.
        stayed: Pages,
    }
}
