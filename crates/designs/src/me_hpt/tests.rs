use crate::conformance::{self, Options};
use crate::{DesignSpec, TableKind, build};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn conforms(
        seed in any::<u64>(),
        techniques in 0u8..16,
        l2p_entries in prop_oneof![Just(2u32), Just(8), Just(32)],
        initial_bytes in prop_oneof![Just(4096u64), Just(8192)],
    ) {
        let mut spec = DesignSpec::default();
        spec.page_table.kind = TableKind::MeHpt;
        let me_hpt = &mut spec.page_table.me_hpt;
        me_hpt.l2p = techniques & 1 != 0;
        me_hpt.in_place = techniques & 3 == 3;
        me_hpt.dynamic_chunks = techniques & 4 != 0;
        me_hpt.per_way = techniques & 8 != 0;
        // Small chunks and few entries: stealing and changes of chunk size come early.
        me_hpt.chunk_bytes = vec![4096, 16384, 65536, 1 << 20];
        me_hpt.fixed_chunk_bytes = 16384;
        me_hpt.l2p_entries = l2p_entries;
        me_hpt.cuckoo.initial_bytes = initial_bytes;
        prop_assert_eq!(spec.validate("design"), Vec::<String>::new());
        let summary = conformance::check(|| build(&spec), &Options { seed, ops: 800, resizes_on_failure: true, ..Options::default() });
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
