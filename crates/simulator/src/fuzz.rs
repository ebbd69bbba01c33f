//! The entry point for fuzzing whole machines.

use crate::spec::{SpecRequest, load};
use crate::{Machine, SharedStream, Stop};
use ambulator_trace::{TraceReader, sealed_block};
use std::io::Cursor;

/// The designs that take turns, by the first byte.
const DESIGNS: [&str; 8] = ["radix", "thp", "flattened-thp", "asap", "ideal", "hashed", "thp-khugepaged", "nested-thp"];

/// Runs a machine of 32 MiB on whatever trace the bytes make (see [`sealed_block`]). Any stream must end in a
/// sentence: never in a panic, never in a translation that is not the kernel's, never in a kernel whose books
/// do not balance.
///
/// # Panics
/// When one of them does: that is the mistake that a fuzzer looks for.
pub fn fuzz_machine(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let Ok(reader) = TraceReader::new(Cursor::new(sealed_block(bytes)), "fuzz") else { return };
    let mode = if first & 8 == 0 { "timing" } else { "functional" };
    let options = [
        "memory.bytes=32MiB",
        "llc.bytes=64KiB",
        "l2.bytes=32KiB",
        "kernel.khugepaged_period=1000",
        "run.instructions=100000",
        "run.warmup=0",
        if first & 16 == 0 { "kernel.swap_bytes=0" } else { "kernel.swap_bytes=8MiB" },
        &format!("run.mode={mode}"),
    ];
    let request = SpecRequest {
        design: Some(DESIGNS[usize::from(first & 7)].to_owned()),
        options: options.map(str::to_owned).to_vec(),
        ..SpecRequest::default()
    };
    let spec = load(&request).unwrap_or_else(|error| panic!("{error}")).spec;
    let stream = SharedStream::new(Box::new(reader), 1);
    let mut machine = Machine::new(&spec, vec![(stream, 0)]).unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..64 {
        match machine.advance(1 << 12) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Stop::Outcome(message)) => {
                assert!(!message.is_empty());
                break;
            }
            Err(Stop::Failed(message)) => {
                for ours in ["the oracle stopped", "violated an invariant", "times in a row"] {
                    assert!(!message.contains(ours), "{message}");
                }
                break;
            }
        }
    }
    if let Err(wrong) = machine.os.kernel().check() {
        panic!("the kernel's books do not balance: {wrong}");
    }
}
