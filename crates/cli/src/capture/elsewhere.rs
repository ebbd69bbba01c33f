//! `capture` and live sources on systems without Linux's user-mode emulation.

use crate::Failure;
use crate::arguments::CaptureArguments;
use ambulator_base::RecordSource;
use ambulator_simulator::spec::Spec;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// No processor.
pub const CPU: &str = "none";

fn refusal() -> Failure {
    Failure::bad("programs are captured on Linux only, with qemu-user")
}

pub fn capture(_arguments: &CaptureArguments) -> Result<u8, Failure> {
    Err(refusal())
}

pub fn kept(
    _line: &[String],
    _skip: u64,
    _run: (&Spec, &Path),
    _failed: Arc<AtomicBool>,
    _progress: bool,
) -> Result<(), Failure> {
    Err(refusal())
}

pub fn live(_line: &[String], _skip: u64, _failed: Arc<AtomicBool>) -> Result<Box<dyn RecordSource>, Failure> {
    Err(refusal())
}
