//! Tests of a machine inside another simulator.

use super::*;
use crate::spec::{SpecRequest, load};
use ambulator_base::{MapKind, Protection, Random, VmEvent};

const START: u64 = 0x4000_0000;

fn machine(design: &str, options: HostedOptions) -> HostedMachine {
    machine_with(design, &[], options)
}

fn machine_with(design: &str, settings: &[&str], options: HostedOptions) -> HostedMachine {
    let all = ["memory.bytes=8GiB", "mmu.l1_latency=1", "mmu.l2_tlb.latency=12", "mmu.pwc.latency=2"];
    let request = SpecRequest {
        design: Some(design.into()),
        options: all.iter().chain(settings).map(|setting| (*setting).to_owned()).collect(),
        ..SpecRequest::default()
    };
    let mut machine = HostedMachine::new(&load(&request).unwrap().spec, options).unwrap();
    for core in 0..machine.cores() {
        map(&mut machine, core, START, 64 << 20);
    }
    machine
}

fn map(machine: &mut HostedMachine, core: usize, start: u64, len: u64) {
    let (protection, kind) = (Protection::READ_WRITE, MapKind::Anonymous);
    machine.event(core, &VmEvent::Map { start: VirtAddr(start), len, protection, kind }).unwrap();
}

fn load_of(machine: &mut HostedMachine, va: u64, now: u64) -> HostedTranslation {
    machine.translate(0, VirtAddr(va), AccessKind::Load, now).unwrap()
}

fn loads(machine: &HostedMachine) -> usize {
    machine.steps().iter().filter(|step| step.kind == StepKind::Load).count()
}

#[test]
fn a_fault_is_a_walk_the_kernels_work_and_a_walk() {
    let mut machine = machine("radix", HostedOptions::default());
    let found = load_of(&mut machine, START + 0x1234, 100);
    assert_eq!((found.faults, found.answered, found.page_bytes), (1, Answered::Walk, 4096));
    let kinds: Vec<StepKind> = machine.steps().iter().map(|step| step.kind).collect();
    let kernel = kinds.iter().position(|kind| *kind == StepKind::Kernel).unwrap();
    assert_eq!(machine.steps()[kernel].cycles, found.os_cycles);
    assert!(found.os_cycles > 0 && kernel > 0 && kinds[kernel + 1..].contains(&StepKind::Load), "{kinds:?}");
    let groups: Vec<u32> = machine.steps().iter().filter(|step| step.waited).map(|step| step.group).collect();
    assert_eq!(groups, (0..found.groups).collect::<Vec<_>>(), "a radix walk is a chain");
    // L1 and L2 TLB and the walk caches are looked up before the first load.
    assert_eq!(machine.steps()[0].delay, 1 + 12 + 2);
    assert_eq!(machine.lookup(0, VirtAddr(START + 0x1234)), Ok(Some(found.at)));
    assert_eq!(machine.lookup(0, VirtAddr(START + 0x5000)), Ok(None));
}

#[test]
fn what_a_walk_fills_is_usable_once_it_is_complete_and_not_before() {
    let mut machine = machine("radix", HostedOptions::default());
    machine.event(0, &VmEvent::Touch { start: VirtAddr(START), len: 1 << 16, write: true }).unwrap();
    let first = load_of(&mut machine, START, 0);
    let alone = loads(&machine);
    let second = load_of(&mut machine, START + 0x1000, 5);
    assert_eq!(loads(&machine), alone, "the walk caches have nothing yet");
    let joins = load_of(&mut machine, START + 8, 1_000_000_000);
    assert_eq!((joins.answered, joins.groups, joins.at.0), (Answered::L1Tlb, 1, first.at.0 + 8));
    let [join] = machine.steps() else { panic!("{:?}", machine.steps()) };
    assert_eq!((join.kind, join.walk), (StepKind::Join, first.walk));
    for walk in [second.walk, first.walk, joins.walk] {
        machine.complete(0, walk, 1_000_000_200).unwrap();
    }
    let third = load_of(&mut machine, START + 0x2000, 1_000_000_100);
    assert_eq!(loads(&machine), alone, "they end later");
    machine.complete(0, third.walk, 1_000_000_300).unwrap();
    load_of(&mut machine, START + 0x3000, 1_000_000_300);
    assert!(loads(&machine) < alone, "now the walk caches have it");
    let hit = load_of(&mut machine, START, 1_000_000_310);
    assert_eq!((hit.answered, hit.groups, hit.walk, hit.latency), (Answered::L1Tlb, 0, 0, 0));
    assert_eq!(machine.counters.joins, 1);
}

/// Late answers that overtake each other, for each of the designs.
fn every_answer_agrees_with_the_kernel(designs: &[&str], settings: &[&str]) {
    for design in designs {
        let options = HostedOptions { cores: 2, effects: true, ..HostedOptions::default() };
        let mut machine = machine_with(design, settings, options);
        let mut random = Random::new(3);
        let mut in_flight: Vec<(usize, u64)> = Vec::new();
        for step in 0..3000_u64 {
            let core = random.below(2) as usize;
            let va = VirtAddr(START + random.below(1 << 21) * 8);
            let access = if random.below(3) == 0 { AccessKind::Store } else { AccessKind::Load };
            // Neither the cycles of calls nor completions are in order.
            let now = 1000 + step * 20 - random.below(500);
            let found = machine.translate(core, va, access, now).unwrap();
            let truth = machine.lookup(core, va).unwrap();
            let moved = machine.take_effects().iter().any(|effect| matches!(effect, Effect::Copy { .. }));
            assert!(truth == Some(found.at) || moved, "{design}: {va} is at {truth:?}, not at {}", found.at);
            if found.walk > 0 {
                in_flight.push((core, found.walk));
            }
            while in_flight.len() > random.below(16) as usize {
                let (core, walk) = in_flight.swap_remove(random.below(in_flight.len() as u64) as usize);
                machine.complete(core, walk, now + 500 + random.below(300)).unwrap();
            }
        }
        machine.check().unwrap();
        assert_eq!(machine.counters.walks_begun, machine.counters.walks_completed + in_flight.len() as u64);
        assert!(machine.counters.walks_begun > 0, "{design}");
    }
}

#[test]
fn every_design_agrees_with_the_kernel_while_answers_are_late_and_overtake() {
    let designs = ["radix", "thp", "me-hpt", "lvm", "rmm", "utopia", "revelator", "pom-tlb", "radix+tlb-neighbours"];
    every_answer_agrees_with_the_kernel(&designs, &[]);
}

#[test]
fn so_it_does_in_a_virtual_machine() {
    let designs = ["radix", "thp", "ecpt", "me-hpt", "lvm", "rmm", "hashed", "revelator", "pom-tlb"];
    every_answer_agrees_with_the_kernel(&designs, &["virtualization.mode=nested"]);
    let huge = ["virtualization.mode=nested", "virtualization.hypervisor_page=2MiB"];
    every_answer_agrees_with_the_kernel(&["thp", "lvm"], &huge);
}

/// A walk of four levels has at most 24 loads: four for each guest-physical address of the
/// walk and of the data, and the guest's own four.
#[test]
fn a_nested_walk_has_its_loads_and_its_hosts_faults() {
    let options = HostedOptions { host_tlbs: true, ..HostedOptions::default() };
    let mut machine = machine_with("radix", &["virtualization.mode=nested"], options);
    let first = load_of(&mut machine, START, 0);
    assert!(first.faults >= 2, "of the guest and of the hypervisor: {}", first.faults);
    assert_eq!(machine.lookup(0, VirtAddr(START)), Ok(Some(first.at)));
    machine.complete(0, first.walk, 1_000_000).unwrap();
    let again = load_of(&mut machine, START + 0x4000_0000 / 64, 2_000_000);
    assert!(again.faults >= 1);
    machine.complete(0, again.walk, 3_000_000).unwrap();
    let hit = load_of(&mut machine, START, 4_000_000);
    assert_eq!((hit.faults, hit.at), (0, first.at));
    assert!(loads(&machine) <= 24, "{}", loads(&machine));
    machine.check().unwrap();
}

#[test]
fn wrong_calls_are_errors_and_change_nothing() {
    let mut machine = machine("radix", HostedOptions::default());
    let text = |result: Result<(), HostedError>| match result {
        Err(HostedError::Call(text)) => text,
        other => panic!("{other:?}"),
    };
    let found = load_of(&mut machine, START, 10);
    assert!(text(machine.complete(0, found.walk + 1, 20)).contains("no such walk was given out"));
    assert!(text(machine.complete(1, found.walk, 20)).contains("there is no core 1"));
    assert!(text(machine.complete(0, found.walk, 9)).contains("began at cycle 10"));
    machine.complete(0, found.walk, 20).unwrap();
    assert!(text(machine.complete(0, found.walk, 20)).contains("already complete"));
    assert!(text(machine.switch(0, 7).map(drop)).contains("no process 7"));
    machine.exit(0, 0).unwrap();
    let gone = machine.translate(0, VirtAddr(START), AccessKind::Load, 30);
    assert!(text(gone.map(drop)).contains("has exited"));
    let new = machine.spawn().unwrap();
    machine.switch(0, new).unwrap();
    let nothing = machine.translate(0, VirtAddr(START), AccessKind::Load, 30);
    assert!(matches!(nothing, Err(HostedError::Segfault(_))), "{nothing:?}");
}

#[test]
fn an_access_outside_all_areas_maps_what_is_free_around_it() {
    let mut machine = machine("radix", HostedOptions { auto_map: 1 << 21, ..HostedOptions::default() });
    map(&mut machine, 0, 0x10_0000_3000, 0x1000);
    load_of(&mut machine, 0x10_0000_5000, 0);
    load_of(&mut machine, 0x10_0000_1000, 0);
    let areas = machine.machine.os.kernel().vmas(machine.processes[0]).as_slice();
    let bounds: Vec<_> = areas.iter().map(|area| (area.start.0, area.end.0)).filter(|area| area.0 >> 36 != 0).collect();
    assert_eq!(bounds.first().map(|area| area.0), Some(0x10_0000_0000));
    assert_eq!(bounds.last().map(|area| area.1), Some(0x10_0020_0000));
}

#[test]
fn with_the_hosts_tlbs_every_translation_walks() {
    let mut machine = machine("radix", HostedOptions { host_tlbs: true, ..HostedOptions::default() });
    for now in 0..3 {
        let found = load_of(&mut machine, START, 1000 * now);
        machine.complete(0, found.walk, 1000 * now + 500).unwrap();
        assert_eq!(found.answered, Answered::Walk);
    }
    assert_eq!(machine.gather().get("mmu.l1d_tlb_hits"), 0);
    assert!(!machine.gather().values.contains_key("mmu.walk_cycles"), "only the host knows cycles");
}

#[test]
fn designs_that_need_the_caches_are_rejected() {
    let request = SpecRequest { design: Some("midgard".into()), ..SpecRequest::default() };
    let refused = HostedMachine::new(&load(&request).unwrap().spec, HostedOptions::default()).err().unwrap();
    assert!(refused.to_string().contains("translates after the caches"), "{refused}");
}

#[test]
fn the_oracle_stops_a_machine_whose_table_is_harmed() {
    let mut machine = machine("radix", HostedOptions { host_tlbs: true, ..HostedOptions::default() });
    let found = load_of(&mut machine, START, 0);
    machine.complete(0, found.walk, 500).unwrap();
    let entry = machine.steps().iter().rev().find(|step| step.kind == StepKind::Load).unwrap().at;
    let memory = &mut machine.machine.os.kernel_mut().memory;
    let word = memory.read(entry);
    memory.write(entry, word + 0x1000);
    let Err(HostedError::Failed(why)) = machine.translate(0, VirtAddr(START), AccessKind::Load, 600) else {
        panic!("the wrong frame was used")
    };
    assert!(why.contains("the oracle stopped") && why.contains("the kernel has frame"), "{why}");
}
