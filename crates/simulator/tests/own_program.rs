//! The settings of a registered program are read, explained and documented like those of built-in programs.

use ambulator_base::{Invalid, RecordSource};
use ambulator_simulator::spec::{explain, program_reference_markdown, program_request};
use ambulator_workloads::{BenchmarkSpec, ProgramInfo, ProgramRequest, open, register_program};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GUPS with one setting.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SmallGups {
    /// Bytes of the table.
    #[schemars(extend("x-unit" = "bytes"))]
    table: u64,
}

impl Default for SmallGups {
    fn default() -> Self {
        SmallGups { table: 4 << 20 }
    }
}

impl BenchmarkSpec for SmallGups {
    const INFO: ProgramInfo = ProgramInfo {
        name: "small-gups",
        about: "GUPS with one setting",
        stands_for: "GUPS",
        default_footprint: 4 << 20,
    };

    fn validate(&self, _at: &str) -> Vec<Invalid> {
        Vec::new()
    }

    fn source(&self) -> Box<dyn RecordSource> {
        let request = ProgramRequest { name: "gups".into(), footprint: Some(self.table), ..ProgramRequest::default() };
        open(&request).expect("GUPS is built in")
    }
}

#[test]
fn a_registered_programs_settings_are_read_explained_and_documented() {
    register_program::<SmallGups>().unwrap();
    let request = program_request("small-gups", &["table=8MiB".to_owned()], None, 1).unwrap();
    assert_eq!(open(&request).unwrap().identity().footprint, 8 << 20);
    let wrong = program_request("small-gups", &["tabel=8MiB".to_owned()], None, 1).unwrap_err().to_string();
    assert!(wrong.contains("the nearest setting is `small-gups.table`"), "{wrong}");
    let text = explain("small-gups.table", &[]).unwrap().to_string();
    assert!(text.contains("Bytes of the table") && text.contains("4MiB"), "{text}");
    assert!(program_reference_markdown().contains("| `small-gups.table` |"));
}
