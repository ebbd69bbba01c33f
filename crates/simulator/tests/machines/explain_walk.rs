//! One translation step by step, of every design preset: all bytes decoded, all cycles accounted for, the
//! address the kernel's.

use crate::support;
use ambulator_base::watch::{Step, StepKind};
use ambulator_base::{AccessKind, MapKind, Protection, RecordSource, VirtAddr};
use ambulator_simulator::spec::{PresetKind, SpecRequest, load, presets};
use ambulator_simulator::{
    CollectionRequest, Job, Reason, Silent, WalkEnd, WalkRequest, WalkSteps, collect_walks, explain_walk,
};
use ambulator_workloads::ProgramRequest;
use std::sync::atomic::AtomicBool;
use support::{DATA, Scripted};

/// The design on a machine with room for its reservations.
fn job(design: &str, options: &[&str]) -> Result<Job, String> {
    let mut all = vec!["memory.bytes=32GiB".to_owned()];
    all.extend(options.iter().map(|option| (*option).to_owned()));
    let request = SpecRequest { design: Some(design.into()), options: all, ..SpecRequest::default() };
    let spec = load(&request).map_err(|error| error.to_string())?.spec;
    match spec.validate().first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(Job { design: design.into(), spec }),
    }
}

fn gups() -> Box<dyn RecordSource> {
    let request = ProgramRequest {
        name: "gups".into(),
        settings: serde_json::Map::new(),
        footprint: Some(64 << 20),
        seed: 1,
        label: None,
    };
    ambulator_workloads::open(&request).unwrap_or_else(|error| panic!("{error}"))
}

fn explain(jobs: &[Job], program: Box<dyn RecordSource>, request: &WalkRequest) -> Vec<WalkSteps> {
    explain_walk(jobs, vec![program], request, &AtomicBool::new(false), &Silent).unwrap_or_else(|e| panic!("{e}"))
}

fn each<'s>(steps: &'s [Step], act: &mut impl FnMut(&'s Step)) {
    for step in steps {
        act(step);
        each(&step.steps, act);
    }
}

fn all(walk: &WalkSteps) -> Vec<&Step> {
    let mut steps = Vec::new();
    for attempt in &walk.attempts {
        each(&attempt.steps, &mut |step| steps.push(step));
    }
    steps
}

/// What holds for every explained translation that succeeds.
fn check(walk: &WalkSteps) {
    let text = walk.text();
    let design = &walk.design;
    assert_eq!(walk.end, WalkEnd::Translated, "{design}: {text}");
    assert!(walk.agrees, "{design}: {text}");
    assert_eq!(walk.unexplained_cycles, 0, "{design}: steps must account for all cycles: {text}");
    let steps = all(walk);
    let caches: u64 =
        steps.iter().filter(|step| step.kind == StepKind::Caches).map(|step| step.until - step.from).sum();
    assert_eq!(walk.mmu_cycles + caches, walk.cycles, "{design}: the MMU counts otherwise: {text}");
    for step in &steps {
        assert!(step.from <= step.until && step.until < 1 << 20, "{design}: {step:?}: {text}");
        assert!(!step.name.is_empty(), "{design}: {step:?}");
        if let Some(loaded) = &step.loaded {
            assert!(!step.fields.is_empty() && !step.source.is_empty(), "{design}: undecoded: {step:?}: {text}");
            assert!(step.shape.is_some(), "{design}: no shape to draw: {step:?}: {text}");
            assert!(step.touched.iter().all(|word| *word < loaded.words.len()), "{design}: {step:?}: {text}");
            let found = step.fields.iter().any(|field| field.name == "frame");
            assert!(!found || !step.touched.is_empty(), "{design}: an entry that is in no word: {step:?}: {text}");
            assert!(["L1", "L2", "LLC", "DRAM"].contains(&loaded.served.as_str()), "{design}: {step:?}");
        }
    }
    assert!(steps.iter().any(|step| !step.fields.is_empty() || step.name == "perfect TLB"), "{design}: {text}");
    let loads = steps.iter().filter(|step| step.loaded.is_some()).count() as u64;
    assert_eq!(walk.loads.count, loads, "{design}: {text}");
    assert!(walk.loads.rounds <= loads && (walk.loads.rounds > 0) == (loads > walk.loads.behind), "{design}: {text}");
    let json = serde_json::to_string(walk).unwrap();
    assert_eq!(&serde_json::from_str::<WalkSteps>(&json).unwrap(), walk, "{design}");
    assert_eq!(
        walk.physical.is_none(),
        steps.iter().any(|step| step.kind == StepKind::Caches && step.hit == Some(true))
    );
}

fn names() -> Vec<&'static str> {
    presets().iter().filter(|preset| preset.kind == PresetKind::Design).map(|preset| preset.name).collect()
}

/// Every `of`th design preset from `from` on, with a suffix.
fn check_presets(from: usize, of: usize, suffix: &str) -> Vec<WalkSteps> {
    let names: Vec<String> = names().iter().skip(from).step_by(of).map(|name| format!("{name}{suffix}")).collect();
    let jobs: Vec<Job> = names
        .iter()
        .filter_map(|name| match job(name, &[]) {
            Ok(job) => Some(job),
            Err(_) if !suffix.is_empty() => None,
            Err(why) => panic!("{name}: {why}"),
        })
        .collect();
    assert!(!jobs.is_empty());
    let walks = explain(&jobs, gups(), &WalkRequest { after: 20_000, ..WalkRequest::default() });
    walks.iter().for_each(check);
    walks
}

macro_rules! presets_in_parts {
    ($($native:ident $nested:ident $from:literal,)*) => {$(
        #[test]
        fn $native() {
            check_presets($from, 6, "");
        }

        #[test]
        fn $nested() {
            let walks = check_presets($from, 6, "+nested");
            let translates = |walk: &&WalkSteps| all(walk).iter().any(|step| step.kind == StepKind::Translate);
            assert!(walks.iter().filter(translates).count() >= 3, "guest-physical addresses are translated");
        }
    )*};
}

// Many tests, so that they run in parallel.
presets_in_parts! {
    every_preset_tells_all_steps_1 nested_presets_tell_all_steps_1 0,
    every_preset_tells_all_steps_2 nested_presets_tell_all_steps_2 1,
    every_preset_tells_all_steps_3 nested_presets_tell_all_steps_3 2,
    every_preset_tells_all_steps_4 nested_presets_tell_all_steps_4 3,
    every_preset_tells_all_steps_5 nested_presets_tell_all_steps_5 4,
    every_preset_tells_all_steps_6 nested_presets_tell_all_steps_6 5,
}

fn small(design: &str) -> Job {
    job(design, &["memory.bytes=1GiB"]).unwrap_or_else(|why| panic!("{design}: {why}"))
}

/// Touches the first 16 MiB of 32, and reads them in its region.
fn half_touched() -> Box<dyn RecordSource> {
    let mut program = Scripted::new(32 << 20);
    program.touch(DATA, 16 << 20, true).begin();
    for i in 0..4000_u64 {
        program.load(DATA + i * 37 % 4096 * 4096);
    }
    Box::new(program)
}

fn at(va: u64, access: AccessKind) -> WalkRequest {
    WalkRequest { at: Some(VirtAddr(va)), access: Some(access), after: 100 }
}

#[test]
fn a_walk_of_radix_is_its_four_entries() {
    let job = job(
        "radix",
        &["memory.bytes=1GiB", "mmu.pwc.pde_entries=0", "mmu.pwc.pdpte_entries=0", "mmu.pwc.pml4e_entries=0"],
    );
    let walk = explain(&[job.unwrap()], half_touched(), &at(DATA + (9 << 20), AccessKind::Load)).remove(0);
    check(&walk);
    let walks: Vec<&Step> = all(&walk).into_iter().filter(|step| step.kind == StepKind::Walk).collect();
    let names: Vec<&str> =
        walks[0].steps.iter().filter(|step| step.loaded.is_some()).map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["PML4E", "PDPTE", "PDE", "PTE"], "{}", walk.text());
    assert_eq!((walk.loads.count, walk.loads.rounds), (4, 4));
    let fills: Vec<&str> =
        all(&walk).into_iter().filter(|step| step.kind == StepKind::Fill).map(|step| step.name.as_str()).collect();
    assert_eq!(fills, ["L2 TLB, 4 KiB", "L1 data TLB, 4 KiB"], "{}", walk.text());
}

#[test]
fn a_nested_walk_translates_every_load_of_the_guest_and_the_data() {
    let walk = explain(&[small("nested")], half_touched(), &at(DATA + (9 << 20), AccessKind::Load)).remove(0);
    check(&walk);
    let steps = all(&walk);
    let guests = steps.iter().filter(|step| step.loaded.as_ref().is_some_and(|loaded| loaded.guest.is_some())).count();
    let translations = steps.iter().filter(|step| step.kind == StepKind::Translate).count();
    assert!(guests > 0, "{}", walk.text());
    assert_eq!(translations, guests + 1, "{}", walk.text());
}

#[test]
fn a_page_fault_is_served_and_the_access_repeated() {
    for design in ["radix", "lvm", "ecpt", "midgard", "nested"] {
        let walk = explain(&[small(design)], half_touched(), &at(DATA + (20 << 20), AccessKind::Store)).remove(0);
        check(&walk);
        assert!(walk.attempts.len() >= 2, "{design}: {}", walk.text());
        let served: Vec<_> = walk.attempts.iter().filter_map(|attempt| attempt.fault.as_ref()).collect();
        assert!(served[0].name.contains("fault") && served[0].says.contains("repeated"), "{design}: {}", walk.text());
        assert!(walk.kernel_cycles > 500, "{design}: {}", walk.text());
    }
}

#[test]
fn an_address_that_is_not_mapped_ends_in_a_segmentation_fault() {
    for design in ["radix", "hashed", "midgard", "perfect-tlb"] {
        let walk = explain(&[small(design)], half_touched(), &at(DATA + (64 << 20), AccessKind::Load)).remove(0);
        let WalkEnd::SegmentationFault(why) = &walk.end else { panic!("{design}: {:?}", walk.end) };
        assert!(why.contains("0x1002000000"), "{design}: the nearest mapping ends there: {why}");
        assert!(walk.physical.is_none() && walk.data.is_none() && !walk.agrees);
    }
    let walk = explain(&[small("radix")], half_touched(), &at(support::CODE, AccessKind::Store)).remove(0);
    assert!(matches!(walk.end, WalkEnd::SegmentationFault(_)), "code is read-only: {:?}", walk.end);
}

#[test]
fn guesses_are_judged() {
    let walks = explain(
        &[small("perfect-speculation"), small("revelator")],
        half_touched(),
        &WalkRequest { after: 1000, ..WalkRequest::default() },
    );
    for walk in &walks {
        check(walk);
        // The right guess fetches the data's line while the walk goes on.
        assert!(walk.data.as_ref().unwrap().in_flight, "{}", walk.text());
        assert!(walk.text().contains("The data's line is already on its way to L2, and there "), "{}", walk.text());
        let guesses: Vec<&Step> =
            all(walk).into_iter().filter(|step| step.kind == StepKind::Fetch && step.hit.is_some()).collect();
        assert!(!guesses.is_empty(), "{}", walk.text());
        assert!(guesses.iter().any(|guess| guess.hit == Some(true)), "{}", walk.text());
        let line = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap() / 64;
        let data = line(walk.physical.as_deref().unwrap());
        let loads: Vec<u64> =
            all(walk).iter().filter_map(|step| step.loaded.as_ref()).map(|loaded| loaded.at / 64).collect();
        for guess in guesses {
            let guessed = line(guess.fields[0].value.as_str().unwrap());
            let right = if guess.name.contains("table") { loads.contains(&guessed) } else { guessed == data };
            assert_eq!(guess.hit, Some(right), "{guess:?}: {}", walk.text());
        }
    }
}

#[test]
fn what_cannot_be_explained_is_an_error_that_says_why() {
    let explained = |jobs: &[Job], request: &WalkRequest| {
        let done = explain_walk(jobs, vec![half_touched()], request, &AtomicBool::new(false), &Silent);
        done.map(|_| ()).unwrap_err().to_string()
    };
    let late = explained(&[small("radix")], &WalkRequest { after: 1 << 30, ..WalkRequest::default() });
    assert!(late.contains("ends after") && late.contains("1073741824"), "{late}");
    let wide = explained(&[small("radix")], &at(1 << 50, AccessKind::Load));
    assert!(wide.contains("48 bits") && wide.contains("mmu.va_bits"), "{wide}");
    let untimed = job("radix", &["run.mode=functional"]).unwrap();
    let message = explained(&[untimed], &at(DATA, AccessKind::Load));
    assert!(message.contains("run.mode"), "{message}");
}

/// The text's first line says what was translated, and its steps are in the order of their time.
#[test]
fn the_text_names_design_program_and_address() {
    let walk = explain(&[small("lvm")], half_touched(), &at(DATA + (9 << 20), AccessKind::Load)).remove(0);
    let text = walk.text();
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("lvm: load of 0x1000900000 (scripted, after "), "{first}");
    assert!(text.contains("gapped page table") && text.contains("slope") && text.contains("LVM Sec."), "{text}");
    assert!(!walk.data.as_ref().unwrap().in_flight && text.contains("\nThe data comes from "), "{text}");
    let last = text.lines().rev().find(|line| line.starts_with("physical address")).unwrap_or_default();
    assert!(last.contains(&format!("after {} cycles", walk.cycles)), "{last}");
}

#[test]
fn a_mapping_without_the_right_to_read_ends_in_a_segmentation_fault() {
    let mut program = Scripted::new(1 << 20);
    let none = Protection { read: false, write: false, execute: false };
    program.map(DATA + (8 << 20), 4096, none, MapKind::Anonymous).touch(DATA, 1 << 20, true).begin();
    (0..4000_u64).for_each(|i| _ = program.load(DATA + i % 256 * 4096));
    let walk = explain(&[small("radix")], Box::new(program), &at(DATA + (8 << 20), AccessKind::Load)).remove(0);
    assert!(matches!(walk.end, WalkEnd::SegmentationFault(_)), "{:?}", walk.end);
}

#[test]
fn collected_walks_are_those_that_are_explained_one_by_one() {
    let jobs = [small("radix"), small("lvm")];
    let open = || Ok(vec![half_touched()]);
    let request = CollectionRequest { after: 100, pages: 9, misses: 3 };
    let told = std::sync::Mutex::new(Vec::new());
    let progress = |done, of| told.lock().unwrap().push((done, of));
    let collection = collect_walks(&jobs, &open, &request, &AtomicBool::new(false), &progress).unwrap();
    let count = |reason| collection.places.iter().filter(|place| place.reason == reason).count();
    assert_eq!(count(Reason::Next), 3);
    assert!(
        count(Reason::Absent) >= 1 && count(Reason::Page) + count(Reason::First) >= 8,
        "{:?}",
        collection.places.len()
    );
    assert!(
        collection.present >= 4096 && collection.areas.iter().any(|area| area.start == DATA && area.rights == "rw-")
    );
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    let all = collection.places.len();
    assert_eq!(told, (1..=all).map(|done| (done, all)).collect::<Vec<_>>());
    let pages: std::collections::BTreeSet<u64> = collection.places.iter().map(|place| place.at.0 >> 12).collect();
    assert_eq!(pages.len(), all, "one translation for each page");
    for place in &collection.places {
        let alone = explain(&jobs, half_touched(), &at(place.at.0, place.access));
        assert_eq!(place.walks, alone, "{:?} of {}", place.reason, place.at);
        let faults = place.walks.iter().all(|walk| walk.attempts.len() > 1);
        assert_eq!(faults, place.reason == Reason::Absent, "{}", place.at);
    }
    let stopped = collect_walks(&jobs, &open, &request, &AtomicBool::new(true), &|_, _| {}).unwrap_err().to_string();
    assert!(stopped.contains("interrupted"), "{stopped}");
    let closed = || Err("the trace is gone".to_owned());
    let error = collect_walks(&jobs, &closed, &request, &AtomicBool::new(false), &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("the trace is gone"), "{error}");
}
