use crate::conformance::{self, Options};
use crate::{DesignSpec, TableKind, build};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), upsize_at in 0.3..0.7, rehash_slots in 1u32..5, small in any::<bool>()) {
        let mut spec = DesignSpec::default();
        spec.page_table.kind = TableKind::Ecpt;
        let ecpt = &mut spec.page_table.ecpt;
        (ecpt.upsize_at, ecpt.downsize_at, ecpt.rehash_slots) = (upsize_at, 0.12, rehash_slots);
        if small {
            ecpt.initial_bytes = 4096;
        }
        let summary = conformance::check(|| build(&spec), &Options { seed, ops: 800, resizes_on_failure: true, ..Options::default() });
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
