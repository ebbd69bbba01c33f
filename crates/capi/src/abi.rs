//! The types that C sees. `include/ambulator.h` documents them; a test compares the two.

use ambulator_base::AccessKind;
use ambulator_mmu::Served;
use ambulator_simulator::hosted::{Answered, HostedError, HostedStep, HostedTranslation, StepKind};
use std::ffi::c_char;

/// Version of the interface. It changes when a program that was compiled with an older header would break.
pub const ABI_VERSION: u32 = 1;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    Argument = 1,
    Spec = 2,
    Segfault = 3,
    Memory = 4,
    Failed = 5,
    Stopped = 6,
    Busy = 7,
}

impl Status {
    /// The status in words, with the NUL that C wants.
    pub fn text(status: i32) -> &'static std::ffi::CStr {
        match status {
            0 => c"success",
            1 => c"an argument is wrong",
            2 => c"the spec is invalid",
            3 => c"the program may not access the address",
            4 => c"the modelled machine ran out of memory",
            5 => c"the machine failed: a wrong translation, or a violated invariant",
            6 => c"the machine has stopped: an earlier call failed for good",
            7 => c"another thread is in a call with this machine",
            _ => c"no status of this library",
        }
    }
}

/// A failed call: its status, and a sentence.
#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub text: String,
}

impl Failure {
    /// A wrong argument.
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure { status: Status::Argument, text: text.into() }
    }
}

impl From<HostedError> for Failure {
    fn from(error: HostedError) -> Failure {
        let (status, text) = match error {
            HostedError::Segfault(text) => (Status::Segfault, text),
            HostedError::Call(text) => (Status::Argument, text),
            HostedError::Memory(text) => (Status::Memory, text),
            HostedError::Failed(text) => (Status::Failed, text),
        };
        Failure { status, text }
    }
}

/// What a machine is made from.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Config {
    pub struct_size: u32,
    pub abi_version: u32,
    pub machine: *const c_char,
    pub design: *const c_char,
    pub spec: *const c_char,
    pub options: *const *const c_char,
    pub option_count: usize,
    pub auto_map: u64,
    pub cores: u32,
    pub flags: u32,
    pub assumed_level: u32,
    pub reserved: u32,
}

/// Flags of a [`Config`].
pub const HOST_TLBS: u32 = 1;
pub const EFFECTS: u32 = 2;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    pub address: u64,
    pub delay: u64,
    pub value: u64,
    pub group: u32,
    pub kind: u16,
    pub waited: u16,
}

impl Step {
    pub fn new(step: &HostedStep) -> Step {
        let (kind, value) = match step.kind {
            StepKind::Load => (0, 0),
            StepKind::FetchTable => (1, 0),
            StepKind::FetchData => (2, 0),
            StepKind::Write => (3, 0),
            StepKind::Kernel => (4, step.cycles),
            StepKind::Join => (5, step.walk),
        };
        Step { address: step.at.0, delay: step.delay, value, group: step.group, kind, waited: u16::from(step.waited) }
    }
}

/// A translation.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Translation {
    pub struct_size: u32,
    pub answered: u32,
    pub physical: u64,
    pub page_bytes: u64,
    pub walk: u64,
    pub latency: u64,
    pub os_cycles: u64,
    pub groups: u32,
    pub faults: u32,
    pub steps: *const Step,
    pub step_count: usize,
}

impl Translation {
    pub fn new(found: &HostedTranslation, steps: &[Step]) -> Translation {
        Translation {
            struct_size: size_of::<Translation>() as u32,
            answered: match found.answered {
                Answered::L1Tlb => 0,
                Answered::L2Tlb => 1,
                Answered::Lookaside => 2,
                Answered::Walk => 3,
                Answered::Perfect => 4,
            },
            physical: found.at.0,
            page_bytes: found.page_bytes,
            walk: found.walk,
            latency: found.latency,
            os_cycles: found.os_cycles,
            groups: found.groups,
            faults: found.faults,
            steps: steps.as_ptr(),
            step_count: steps.len(),
        }
    }
}

/// An effect of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Effect {
    pub address: u64,
    pub to: u64,
    pub bytes: u64,
    pub process: u32,
    pub kind: u32,
}

/// Every process, and none that is known any more.
pub const ALL_PROCESSES: u32 = u32::MAX;

/// A counter.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Counter {
    pub name: *const c_char,
    pub unit: *const c_char,
    pub meaning: *const c_char,
    pub value: u64,
}

/// What a machine is.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Info {
    pub struct_size: u32,
    pub cores: u32,
    pub walkers: u32,
    pub va_bits: u32,
    pub memory_bytes: u64,
    pub l1_tlb_latency: u64,
    pub l2_tlb_latency: u64,
    pub machine: *const c_char,
    pub design: *const c_char,
}

/// A kind of access.
pub fn access(number: u32) -> Result<AccessKind, Failure> {
    match number {
        0 => Ok(AccessKind::Load),
        1 => Ok(AccessKind::Store),
        2 => Ok(AccessKind::Fetch),
        _ => Err(Failure::argument(format!(
            "{number} is no kind of access: give AMBULATOR_LOAD (0), AMBULATOR_STORE (1) or AMBULATOR_FETCH (2)"
        ))),
    }
}

/// A level of the memory hierarchy.
pub fn level(number: u32) -> Result<Served, Failure> {
    match number {
        0 => Ok(Served::Dram),
        1 => Ok(Served::L1),
        2 => Ok(Served::L2),
        3 => Ok(Served::Llc),
        _ => Err(Failure::argument(format!(
            "`assumed_level` is {number}: give AMBULATOR_DRAM (0), AMBULATOR_L1 (1), AMBULATOR_L2 (2) or \
             AMBULATOR_LLC (3)"
        ))),
    }
}

/// Checks the size that a struct has for the caller.
pub fn check_size(name: &str, given: u32, known: usize) -> Result<(), Failure> {
    if given as usize >= known && given <= 4096 {
        return Ok(());
    }
    Err(Failure::argument(format!(
        "`struct_size` of {name} is {given}, and version {ABI_VERSION} of the interface has {known} bytes: set it to \
         sizeof({name}), and compile with the header of this library"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_sizes_of_the_header() {
        let header = include_str!("../include/ambulator.h");
        for (name, size) in [
            ("ambulator_config", size_of::<Config>()),
            ("ambulator_step", size_of::<Step>()),
            ("ambulator_translation", size_of::<Translation>()),
            ("ambulator_effect", size_of::<Effect>()),
            ("ambulator_counter", size_of::<Counter>()),
            ("ambulator_machine_info", size_of::<Info>()),
        ] {
            let stated = format!("AMBULATOR_ASSERT_SIZE({name}, {size});");
            assert!(header.contains(&stated), "the header lacks {stated}");
        }
        assert!(header.contains(&format!("#define AMBULATOR_ABI_VERSION {ABI_VERSION}u")));
    }

    #[test]
    fn a_struct_of_another_size_is_rejected_with_both_sizes() {
        assert!(check_size("ambulator_machine_info", 64, 64).is_ok());
        assert!(check_size("ambulator_machine_info", 72, 64).is_ok(), "a later header may have more");
        for size in [0, 63, 1 << 20] {
            let text = check_size("ambulator_machine_info", size, 64).unwrap_err().text;
            assert!(text.contains(&format!("is {size}")) && text.contains("64 bytes"), "{text}");
        }
    }
}
