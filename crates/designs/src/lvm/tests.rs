use crate::conformance::{self, Options};
use crate::{DesignSpec, TableKind, build};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn conforms(seed in any::<u64>(), small in any::<bool>()) {
        let mut spec = DesignSpec::default();
        spec.page_table.kind = TableKind::Lvm;
        if small {
            spec.page_table.lvm.insertion_pages = 512;
            spec.page_table.lvm.max_table_bytes = 65536;
        }
        let options = Options { seed, ops: 800, ..Options::default() };
        let summary = conformance::check(|| build(&spec), &options);
        prop_assert!(summary.is_ok(), "{}", summary.unwrap_err());
    }
}
