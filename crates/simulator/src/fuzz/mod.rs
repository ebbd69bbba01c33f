//! The entry point for fuzzing whole machines: of every design, of every composition, on any program.

mod program;

use crate::spec::{Preset, PresetKind, Spec, SpecRequest, default_design, load, presets};
use crate::{Machine, SharedStream, Stop, catalogue};
use ambulator_base::RecordSource;
use ambulator_os::KernelCounters;
use ambulator_sockets::{DesignSpec, Socket};
use ambulator_trace::{TraceReader, sealed_block};
use program::SpelledProgram;
use std::io::Cursor;
use std::sync::OnceLock;

/// Bytes that choose the machine; those behind them are the program.
pub const FUZZ_MACHINE_BYTES: usize = 8;

/// Settings of small machines, one a line.
const SMALL: &str = include_str!("small.conf");

/// Bits of the first byte.
pub(crate) const FUNCTIONAL: u8 = 1;
const SWAP: u8 = 2;
const NESTED: u8 = 4;
pub(crate) const COMPOSED: u8 = 8;
pub(crate) const SPREAD: u8 = 16;
const POLICY: u8 = 32;
const HYPERVISOR_HUGE: u8 = 64;
pub(crate) const TRACE: u8 = 128;

/// The design presets by which [`fuzz_machine`] counts, by name: the second byte chooses one.
pub fn fuzz_designs() -> Vec<&'static str> {
    presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset: &Preset| preset.name).collect()
}

/// The compositions of all designs that validate, on the machine itself or in a virtual machine.
fn compositions(nested: bool) -> &'static [DesignSpec] {
    static NATIVE: OnceLock<Vec<DesignSpec>> = OnceLock::new();
    static NESTED: OnceLock<Vec<DesignSpec>> = OnceLock::new();
    let found = if nested { &NESTED } else { &NATIVE };
    found.get_or_init(|| {
        let all = catalogue();
        let mut choices = vec![all.default_spec()];
        for socket in Socket::ALL {
            let names: Vec<&str> =
                socket.empty().into_iter().chain(all.filling(socket).map(|design| design.name)).collect();
            choices = (choices.into_iter())
                .flat_map(|choice| {
                    names.iter().map(move |name| {
                        let mut choice = choice.clone();
                        choice.put(socket, name);
                        choice
                    })
                })
                .collect();
        }
        choices.retain(|design| {
            let mut choice = all.choice(&design.page_table);
            choice.design.clone_from(design);
            choice.hypervisor_table = nested.then(|| all.default_spec().page_table);
            all.validate("design", &choice).is_empty()
        });
        choices
    })
}

/// The machine that the bytes choose; `None` where a preset does not run in a virtual machine.
fn machine([how, which, table, cores, asids, policy, small, seed]: [u8; FUZZ_MACHINE_BYTES]) -> Option<Spec> {
    let is = |bit| how & bit != 0;
    let mut options: Vec<String> = Vec::new();
    let mut set = |key: &str, value: &str| options.push(format!("{key}={value}"));
    let lines = SMALL.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for (key, value) in lines.filter_map(|line| line.split_once('=')) {
        set(key, value);
    }
    set("run.mode", if is(FUNCTIONAL) { "functional" } else { "timing" });
    set("run.seed", &seed.to_string());
    set("run.spread_threads", if is(SPREAD) { "true" } else { "false" });
    // Programs have more than fits next to what designs reserve.
    set("memory.bytes", if is(SWAP) { "32MiB" } else { "64MiB" });
    set("kernel.swap_bytes", if is(SWAP) { "16MiB" } else { "0" });
    let cores = 1 + cores % 4;
    set("machine.cores", &cores.to_string());
    // Most programs have more processes on a core than it has identifiers.
    let bits = [1, 2, 3, 12][usize::from(asids % 4)];
    set("kernel.asid_bits", &bits.to_string());
    if is(POLICY) {
        let policies = ["never", "always", "madvise", "khugepaged", "reservation"];
        set("kernel.page_size_policy", &format!("\"{}\"", policies[usize::from(policy) % policies.len()]));
    }
    let tables: Vec<&str> = catalogue().filling(Socket::PageTable).map(|design| design.name).collect();
    if is(NESTED) {
        set("virtualization.mode", "\"nested\"");
        set("virtualization.hypervisor_page", if is(HYPERVISOR_HUGE) { "\"2MiB\"" } else { "\"4KiB\"" });
        set("virtualization.hypervisor_table", &format!("\"{}\"", tables[usize::from(table) % tables.len()]));
    }
    let designs = fuzz_designs();
    let mut preset = designs[usize::from(which) % designs.len()].to_owned();
    if is(COMPOSED) {
        preset = default_design();
        let compositions = compositions(is(NESTED));
        let at = (usize::from(which) << 8 | usize::from(small)) % compositions.len();
        for (key, _, name) in compositions[at].entries() {
            set(&format!("design.{key}"), &format!("\"{name}\""));
        }
    }
    match load(&SpecRequest { design: Some(preset.clone()), options, ..SpecRequest::default() }) {
        Ok(loaded) => Some(loaded.spec),
        Err(error) => {
            assert!(is(NESTED), "{preset}: {error}");
            None
        }
    }
}

/// How far a machine came.
#[derive(Clone, Debug)]
pub struct FuzzRun {
    /// Translations that the oracle checked.
    pub checked: u64,
    /// What the kernel counted.
    pub kernel: KernelCounters,
}

/// The machine and its program that the bytes choose for [`fuzz_machine`].
pub(crate) fn assemble(bytes: &[u8]) -> Option<(Spec, Machine)> {
    let (how, bytes) = bytes.split_first_chunk::<FUZZ_MACHINE_BYTES>()?;
    let is_trace = how[0] & TRACE != 0;
    let spec = machine(*how)?;
    let program = |number: usize| -> Option<Box<dyn RecordSource>> {
        if is_trace {
            let reader = TraceReader::new(Cursor::new(sealed_block(bytes)), "fuzz").ok()?;
            return Some(Box::new(reader));
        }
        // Each core begins elsewhere in the operations.
        let at = bytes.len() / 4 * number / 4 * 4;
        Some(Box::new(SpelledProgram::new(&[&bytes[at..], &bytes[..at]].concat())))
    };
    let count = if spec.run.spread_threads { 1 } else { spec.machine.cores as usize };
    let programs = (0..count).map(program).collect::<Option<Vec<_>>>()?;
    let streams = programs.into_iter().map(|program| (SharedStream::new(program, 1), 0)).collect();
    let machine = Machine::new(&spec, streams).unwrap_or_else(|error| panic!("bytes {how:?}: {error}"));
    Some((spec, machine))
}

/// Runs a small machine on a program, with the oracle. The first [`FUZZ_MACHINE_BYTES`] choose the machine: any preset
/// or composition of designs, with one to four cores, natively or in a virtual machine. The others are the
/// program: operations of four bytes, which a kernel grants whatever they are, or a trace (see
/// [`sealed_block`]), which may ask for anything. Any program must end in a sentence, one of operations in no
/// complaint: never in a panic, never in a translation that is not the kernel's, never in a kernel whose books
/// do not balance. Returns how far it came; `None` where the bytes make no machine.
///
/// # Panics
/// When one of them does: that is the mistake that a fuzzer looks for.
pub fn fuzz_machine(bytes: &[u8]) -> Option<FuzzRun> {
    let (spec, mut machine) = assemble(bytes)?;
    let is_trace = bytes[0] & TRACE != 0;
    let context = format!("bytes {:?}, {:?}", &bytes[..FUZZ_MACHINE_BYTES], spec.design);
    for _ in 0..64 {
        match machine.advance(1 << 12) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Stop::Outcome(message)) => {
                assert!(!message.is_empty());
                break;
            }
            Err(Stop::Failed(message)) => {
                assert!(is_trace, "{context}: {message}");
                for ours in ["the oracle stopped", "violated an invariant", "times in a row"] {
                    assert!(!message.contains(ours), "{context}: {message}");
                }
                break;
            }
        }
    }
    if let Err(wrong) = machine.os.check() {
        panic!("{context}: the books of a kernel do not balance: {wrong}");
    }
    Some(FuzzRun { checked: machine.checker.checked(), kernel: machine.os.kernel().counters.clone() })
}
