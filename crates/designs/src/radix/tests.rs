use crate::conformance::{self, Options};
use crate::{DesignSpec, build};

#[test]
fn conforms() {
    let spec = DesignSpec::default();
    for seed in 0..4 {
        let options = Options {
            seed,
            max_loads: 4,
            ..Options::default()
        };
        let summary = conformance::check(|| build(&spec), &options).unwrap();
        assert!(summary.failures > 0 && summary.walks > 10_000, "{summary:?}");
    }
}
