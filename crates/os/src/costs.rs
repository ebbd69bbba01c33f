//! The costs of operating-system actions, in core cycles.

use ambulator_base::{Invalid, out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Cycles of the kernel's actions. They are charged to the core that requests the action.
///
/// If no paper gives a number, the default is our choice, of the magnitude reported for Linux on servers of
/// about 2 GHz.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CostTable {
    /// Entry, exit and bookkeeping of a page fault, including the allocation of one base frame and one table
    /// entry.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: a minor fault of Linux is about 0.5 us without zeroing"))]
    pub fault: u64,
    /// Zeroing a 4 KiB frame.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: 8 bytes a cycle"))]
    pub zero_4k: u64,
    /// Zeroing a 2 MiB page.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: 8 bytes a cycle"))]
    pub zero_2m: u64,
    /// Copying a 4 KiB frame (copy-on-write, promotion, migration).
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: 4 bytes a cycle"))]
    pub copy_4k: u64,
    /// Entry, exit and VMA work of a system call.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub syscall: u64,
    /// A hypercall: exit of the virtual machine and entry, without the hypervisor's work.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: a VM exit and entry is about 0.7 us"))]
    pub hypercall: u64,
    /// Changing or removing one table entry as part of a larger action (unmap, protect, fork, promotion).
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub table_entry: u64,
    /// How long an action on a page table holds the lock of the part that it changes, in addition to the
    /// table's own work. Other cores that need the same lock wait.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: 50 ns of a minor fault"))]
    pub lock_hold: u64,
    /// Invalidating a page, or an address space, in the core's own TLBs: all that a TLB shootdown costs on a machine
    /// with one core.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: INVLPG and its caller, about 0.1 us"))]
    pub invalidate: u64,
    /// A TLB shootdown, at the initiating core, if there are others.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: IPI and wait, about 1 us"))]
    pub shootdown: u64,
    /// A TLB shootdown, for each other core; the initiator waits for them.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice"))]
    pub shootdown_core: u64,
    /// A context switch to another process.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: about 1 us"))]
    pub context_switch: u64,
    /// Writing a page to swap, as seen by the process that waits for the frame.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: 10 us, an NVMe write with its queue"))]
    pub swap_out: u64,
    /// Reading a page from swap.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "our choice: 50 us, an NVMe read"))]
    pub swap_in: u64,
    /// Allocating 4 KiB contiguous bytes at 0.7 FMFI. This and the following four sizes are measured; sizes
    /// between them are interpolated on logarithmic scales.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "ME-HPT Sec. III"))]
    pub allocate_4k: u64,
    /// Allocating 8 KiB contiguous bytes at 0.7 FMFI.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "ME-HPT Sec. III"))]
    pub allocate_8k: u64,
    /// Allocating 1 MiB contiguous bytes at 0.7 FMFI.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "ME-HPT Sec. III"))]
    pub allocate_1m: u64,
    /// Allocating 8 MiB contiguous bytes at 0.7 FMFI.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "ME-HPT Sec. III"))]
    pub allocate_8m: u64,
    /// Allocating 64 MiB contiguous bytes at 0.7 FMFI.
    #[schemars(range(max = MOST_CYCLES), extend("x-unit" = "cycles", "x-source" = "ME-HPT Sec. III"))]
    pub allocate_64m: u64,
    /// FMFI above which an allocation of 64 MiB or more fails.
    #[schemars(range(min = 0.0, max = 1.0), extend("x-unit" = "ratio", "x-source" = "ME-HPT Sec. III"))]
    pub allocate_64m_fails_above: f64,
}

/// The upper limit of a cost: seconds of time, small enough that no sum overflows 64 bits.
const MOST_CYCLES: u64 = 10_000_000_000;

impl Default for CostTable {
    fn default() -> Self {
        CostTable {
            fault: 1_000,
            zero_4k: 512,
            zero_2m: 262_144,
            copy_4k: 1_024,
            syscall: 500,
            hypercall: 1_500,
            table_entry: 20,
            lock_hold: 100,
            invalidate: 200,
            shootdown: 2_000,
            shootdown_core: 500,
            context_switch: 2_000,
            swap_out: 20_000,
            swap_in: 100_000,
            allocate_4k: 4_000,
            allocate_8k: 5_000,
            allocate_1m: 750_000,
            allocate_8m: 13_000_000,
            allocate_64m: 120_000_000,
            allocate_64m_fails_above: 0.7,
        }
    }
}

impl CostTable {
    /// Cycles of allocating `bytes` contiguous bytes for a table or a huge page at a fragmentation index
    /// `fmfi` (0 to 1), or `None` if the allocation fails at this fragmentation.
    ///
    /// The measurements apply to 0.7 FMFI, where the kernel compacts memory to make room. Below it, the cost
    /// in excess of 4 KiB shrinks in proportion to the fragmentation.
    pub fn allocation(&self, bytes: u64, fmfi: f64) -> Option<u64> {
        const MEASURED_FMFI: f64 = 0.7;
        if bytes >= 64 << 20 && fmfi > self.allocate_64m_fails_above {
            return None;
        }
        let row = [
            (12.0, self.allocate_4k),
            (13.0, self.allocate_8k),
            (20.0, self.allocate_1m),
            (23.0, self.allocate_8m),
            (26.0, self.allocate_64m),
        ];
        let size = (bytes.max(4096) as f64).log2();
        let above = row.iter().position(|(at, _)| size <= *at).unwrap_or(row.len() - 1).max(1);
        let ((x0, y0), (x1, y1)) = (row[above - 1], row[above]);
        let (y0, y1) = ((y0.max(1) as f64).ln(), (y1.max(1) as f64).ln());
        let measured = (y0 + (y1 - y0) * (size - x0) / (x1 - x0)).exp();
        let least = self.allocate_4k as f64;
        let scaled = least + (measured - least).max(0.0) * (fmfi / MEASURED_FMFI).clamp(0.0, 1.0);
        Some(scaled.round() as u64)
    }

    /// Cycles of a TLB shootdown of `invalidations` pages and address spaces on a machine of `cores` cores: one round
    /// of interrupts serves all. A single core has nobody to interrupt.
    pub fn shootdown_of(&self, invalidations: u64, cores: u32) -> u64 {
        match (invalidations, u64::from(cores.saturating_sub(1))) {
            (0, _) => 0,
            (_, 0) => invalidations * self.invalidate,
            (_, others) => self.shootdown + others * self.shootdown_core,
        }
    }

    /// The invalid costs of a table at key `at`.
    pub fn validate(&self, at: &str) -> Vec<Invalid> {
        out_of_range(self, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excessive_costs_are_rejected_by_key() {
        let costs = CostTable { fault: 1 << 62, allocate_64m_fails_above: 2.0, ..CostTable::default() };
        let wrong = costs.validate("costs");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].to_string().starts_with("`costs.fault` is 4611686018427387904; "), "{wrong:?}");
        assert!(CostTable::default().validate("costs").is_empty());
    }

    #[test]
    fn a_single_core_interrupts_nobody() {
        let costs = CostTable::default();
        assert_eq!([0, 1, 3].map(|pages| costs.shootdown_of(pages, 1)), [0, 200, 600]);
        assert_eq!([0, 1, 3].map(|pages| costs.shootdown_of(pages, 4)), [0, 3_500, 3_500]);
    }

    #[test]
    fn measured_sizes_have_the_measured_cost() {
        let costs = CostTable::default();
        for (bytes, cycles) in
            [(4 << 10, 4_000), (8 << 10, 5_000), (1 << 20, 750_000), (8 << 20, 13_000_000), (64 << 20, 120_000_000)]
        {
            assert_eq!(costs.allocation(bytes, 0.7), Some(cycles), "{bytes} bytes");
        }
        assert_eq!(costs.allocation(64 << 20, 0.71), None);
        assert_eq!(costs.allocation(64 << 20, 0.0), Some(4_000));
        let between = costs.allocation(2 << 20, 0.7).unwrap();
        assert!((750_000..13_000_000).contains(&between));
    }
}
