//! Random system calls, touches and accesses of several processes in too little memory, with page tables that
//! fail occasionally, against a reference model.

use crate::reference::{Call, Machine, call};
use ambulator_os::{KernelSpec, PageSizePolicy};
use proptest::prelude::*;

/// 1 MiB of it is reserved. Four processes together may map 32 MiB.
const SCARCE: u64 = 10 << 20;
/// Enough for all, with blocks of 2 MiB to spare.
const AMPLE: u64 = 64 << 20;

fn run(spec: &KernelSpec, memory: u64, calls: &[(usize, Call)]) -> Result<(), TestCaseError> {
    let mut machine = Machine::new(spec, memory);
    for (number, (who, call)) in calls.iter().enumerate() {
        machine.step(who % machine.processes(), call)?;
        let whole = number % 8 == 0 || number + 1 == calls.len();
        machine.verify(whole).map_err(|e| TestCaseError::fail(format!("after {number}, {call:?}: {e}")))?;
    }
    machine.end()
}

fn spec(page_size_policy: PageSizePolicy, swap_bytes: u64, asid_bits: u32) -> KernelSpec {
    KernelSpec { page_size_policy, swap_bytes, asid_bits, khugepaged_period: 1, ..KernelSpec::default() }
}

macro_rules! policies {
    ($($name:ident: $policy:ident, $memory:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig {
                cases: 250, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default()
            })]
            $(#[test]
            fn $name(
                swap in prop_oneof![Just(0u64), Just(1u64 << 20), Just(32u64 << 20)],
                asid_bits in prop_oneof![Just(1u32), Just(2u32), Just(12u32)],
                calls in prop::collection::vec((0..4usize, call()), 1..150),
            ) {
                run(&spec(PageSizePolicy::$policy, swap, asid_bits), $memory, &calls)?;
            })*
        }
    };
}

policies! {
    base_pages: Never, SCARCE;
    huge_at_faults: Always, SCARCE;
    huge_where_advised: Madvise, SCARCE;
    promoted_in_the_background: Khugepaged, SCARCE;
    reserved_and_promoted: Reservation, SCARCE;
    reserved_in_ample_memory: Reservation, AMPLE;
}
