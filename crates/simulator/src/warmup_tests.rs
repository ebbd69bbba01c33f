//! The clock, where time is switched on and off.

use crate::spec::{SpecRequest, load};
use crate::{Machine, Phase, SharedStream};
use ambulator_workloads::{ProgramRequest, open};

/// A machine with two cores, and the latest times that its parts know: the cores', and the kernel's.
fn times(machine: &Machine) -> (u64, u64) {
    let cores = 0..machine.hw.cores.len();
    let clock = cores.clone().map(|number| machine.hw.time_of(number).0);
    let retired = machine.hw.cores.iter().map(|core| core.window.retired_cycle().0);
    let kernel = cores.map(|number| machine.hw.kernel_time(number).0);
    (clock.chain(retired).max().unwrap(), kernel.max().unwrap())
}

#[test]
fn the_clock_never_goes_back_and_the_kernels_goes_on() {
    let options = ["memory.bytes=1GiB", "run.warmup=60000", "run.warmup_mode=functional", "machine.cores=2"]
        .map(str::to_owned)
        .to_vec();
    let request = SpecRequest { design: Some("thp".into()), options, ..SpecRequest::default() };
    let mut spec = load(&request).unwrap().spec;
    spec.run.warmup_timing = 20_000;
    let gups = |seed| {
        let footprint = Some(16 << 20);
        let request = ProgramRequest { name: "gups".into(), footprint, seed, ..ProgramRequest::default() };
        (SharedStream::new(open(&request).unwrap(), 1), 0)
    };
    let mut machine = Machine::new(&spec, vec![gups(1), gups(2)]).unwrap();
    let (mut clock, mut kernel) = (0, 0);
    let (mut switches, mut was_timed) = (0, true);
    for step in 0..400 {
        if machine.phase() == Phase::Measure && step % 10 == 0 {
            machine.set_timed(!machine.hw.timing()).unwrap();
        }
        let timed = machine.hw.timing();
        switches += u32::from(timed != was_timed);
        was_timed = timed;
        let begin = times(&machine);
        assert!(begin.0 >= clock && begin.1 >= kernel, "step {step}: {begin:?} after {clock}, {kernel}");
        // A switch takes none of the kernel's time, but for what is in flight.
        assert!(begin.1 - kernel < 2000, "step {step}: the kernel's time is {} after {kernel}", begin.1);
        let before = machine.hw.instructions();
        machine.advance(500).unwrap();
        let end = times(&machine);
        if !timed && machine.hw.instructions() > before {
            let ran = (machine.hw.instructions() - before) / 2;
            assert!(end.1 - begin.1 < 2 * ran + 100, "step {step}: an instruction takes a cycle");
        }
        (clock, kernel) = end;
    }
    assert!(switches > 10, "{switches} switches");
}
