//! A program of another crate is registered before anything else and then works like the built-in ones.
//!
//! The registry belongs to the process and the order of calls matters, so there is only one test.

use ambulator_base::{
    Batch, Invalid, ProgramIdentity, Record, RecordSource, RegisterError, RegisterReason, SourceError, VirtAddr,
};
use ambulator_workloads::{BenchmarkSpec, OpenError, ProgramInfo, ProgramRequest, open, programs, register_program};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Reads at a fixed stride.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct StrideSpec {
    /// Bytes from one access to the next.
    stride: u64,
}

impl Default for StrideSpec {
    fn default() -> Self {
        StrideSpec { stride: 64 }
    }
}

impl BenchmarkSpec for StrideSpec {
    const INFO: ProgramInfo = ProgramInfo {
        name: "stride",
        about: "reads at a fixed stride",
        stands_for: "nothing in particular",
        default_footprint: 1 << 20,
    };

    fn validate(&self, at: &str) -> Vec<Invalid> {
        let wrong = Invalid::new(format!("{at}.stride"), "is 0; it must be at least 1");
        if self.stride == 0 { vec![wrong] } else { Vec::new() }
    }

    fn source(&self) -> Box<dyn RecordSource> {
        Box::new(Stride { stride: self.stride })
    }
}

struct Stride {
    stride: u64,
}

impl RecordSource for Stride {
    fn identity(&self) -> ProgramIdentity {
        ProgramIdentity { name: "stride".into(), ..ProgramIdentity::default() }
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let record = |i| Record { va: VirtAddr(i * self.stride), size: 8, ..Record::default() };
        batch.records.extend((0..4).map(record));
        Ok(true)
    }
}

/// The settings of `StrideSpec` under another name.
macro_rules! named {
    ($type:ident, $name:literal) => {
        #[derive(Default, Serialize, Deserialize, JsonSchema)]
        struct $type {}

        impl BenchmarkSpec for $type {
            const INFO: ProgramInfo = ProgramInfo { name: $name, ..StrideSpec::INFO };

            fn validate(&self, _at: &str) -> Vec<Invalid> {
                Vec::new()
            }

            fn source(&self) -> Box<dyn RecordSource> {
                Box::new(Stride { stride: 1 })
            }
        }
    };
}
named!(SecondGups, "gups");
named!(Reserved, "trace");
named!(Dotted, "my.program");
named!(Late, "late");

#[test]
fn a_registered_program_is_listed_suggested_and_opened_like_a_built_in_one() {
    let error = |name: &str, reason| Err(RegisterError::new("program", name, reason));
    assert_eq!(register_program::<StrideSpec>(), Ok(()));
    assert_eq!(register_program::<StrideSpec>(), error("stride", RegisterReason::Taken));
    assert_eq!(register_program::<SecondGups>(), error("gups", RegisterReason::Taken));
    assert_eq!(
        register_program::<Reserved>(),
        error("trace", RegisterReason::Reserved("the group of settings of trace files"))
    );
    assert_eq!(register_program::<Dotted>(), error("my.program", RegisterReason::Malformed));

    let names: Vec<&str> = programs().iter().map(|program| program.info.name).collect();
    assert!(names.is_sorted() && names.contains(&"stride") && names.contains(&"gups"), "{names:?}");

    let request = |name: &str, settings: serde_json::Value| ProgramRequest {
        name: name.into(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        seed: 7,
        ..ProgramRequest::default()
    };
    let mut source = open(&request("stride", json!({ "stride": 4096 }))).unwrap();
    let mut batch = Batch::default();
    assert!(source.fill(&mut batch).unwrap());
    assert_eq!(batch.records[3].va, VirtAddr(3 * 4096));

    let refused = |request: &ProgramRequest| match open(request) {
        Ok(_) => panic!("{} was opened", request.name),
        Err(e) => e,
    };
    let unknown = refused(&request("stryde", json!({})));
    assert!(unknown.to_string().contains("did you mean `stride`?"), "{unknown}");
    let mistyped = refused(&request("stride", json!({ "strid": 1 })));
    assert!(mistyped.to_string().contains("did you mean `stride`?"), "{mistyped}");
    assert!(matches!(mistyped, OpenError::Settings { .. }));
    let senseless = refused(&request("stride", json!({ "stride": 0 })));
    assert_eq!(senseless.to_string(), "`stride.stride` is 0; it must be at least 1");

    assert_eq!(register_program::<Late>(), error("late", RegisterReason::TooLate));
    assert!(refused(&request("late", json!({}))).to_string().contains("no program or trace file"));
}
