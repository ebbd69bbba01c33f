//! The instructions between records, where a format tells of instructions and of accesses apart.

/// Instructions that have no record yet. A record counts as an instruction: the second one of an instruction
/// counts one too many, which later gaps pay back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    /// The current instruction has a record, or there is none yet.
    pub recorded: bool,
    /// Instructions since the last record.
    pub gap: u64,
    /// Instructions that were counted twice.
    pub debt: u64,
}

impl Gaps {
    /// Before the first instruction.
    pub fn new() -> Gaps {
        Gaps { recorded: true, gap: 0, debt: 0 }
    }

    /// The current instruction gets a record: the gap before it.
    pub fn before_record(&mut self) -> u32 {
        let mut gap = 0;
        if self.recorded {
            self.debt += 1;
        } else {
            let paid = self.debt.min(self.gap);
            gap = self.gap - paid;
            self.debt -= paid;
            self.gap = 0;
        }
        self.recorded = true;
        u32::try_from(gap).unwrap_or(u32::MAX)
    }
}
