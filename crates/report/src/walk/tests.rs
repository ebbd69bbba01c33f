use super::*;
use ambulator_base::watch::{LoadedBytes, Shape, Step, StepKind};
use ambulator_base::{AccessKind, Cycle, VirtAddr};
use ambulator_simulator::{Attempt, Collected, LoadSummary, MappedArea, Reason, WalkCollection, WalkEnd, WalkSteps};

const HOSTILE: &str = "</script><b>x";

fn load(name: &str, at: u64, [from, until]: [u64; 2], shape: Option<Shape>) -> Step {
    Step {
        loaded: Some(LoadedBytes { at, guest: None, words: vec![at; 8], served: "DRAM".into(), row: String::new() }),
        touched: vec![2],
        shape,
        source: "a paper, Sec. 1".into(),
        ..Step::new(StepKind::Load, name, Cycle(from), Cycle(until))
    }
}

/// A look-up, a walk of `loads` loads one after another, and a refill.
fn walk(design: &str, loads: u64) -> WalkSteps {
    let shape = |index| Some(Shape::TreeEntry { index, entries: 512, low_bit: 12 });
    let inside =
        (0..loads).map(|at| load(&format!("E{at}"), 64 * at, [10 + 20 * at, 30 + 20 * at], shape(at))).collect();
    let end = 10 + 20 * loads;
    let steps = vec![
        Step::look_up("L1 data TLB, 4 KiB", false, Cycle(0), Cycle(1)),
        Step::look_up("L2 TLB, 4 KiB", false, Cycle(1), Cycle(10)),
        Step { steps: inside, ..Step::new(StepKind::Walk, "page walk", Cycle(10), Cycle(end)) },
        Step::fill("L2 TLB, 4 KiB", Cycle(end)),
    ];
    WalkSteps {
        design: design.into(),
        program: "gups".into(),
        after: 1000,
        address: "0x7000".into(),
        access: "load".into(),
        attempts: vec![Attempt { cycles: end, steps, fault: None }],
        end: WalkEnd::Translated,
        physical: Some("0x2000".into()),
        oracle: "The kernel agrees.".into(),
        agrees: true,
        cycles: end,
        mmu_cycles: end,
        kernel_cycles: 0,
        unexplained_cycles: 0,
        loads: LoadSummary { count: loads, rounds: loads, dram: loads, ..LoadSummary::default() },
        data: None,
    }
}

#[test]
fn a_slide_has_each_load_once_and_stays_on_its_page() {
    for loads in [0, 1, 4, 24, 60] {
        let svg = walk_slide(&walk("radix", loads));
        for at in 0..loads {
            let title = format!(">E{at}</text>");
            let panels = svg.match_indices(&title).filter(|(found, _)| svg[..*found].ends_with("y=\"20\""));
            assert_eq!(panels.count(), 1, "{loads}: entry {at}");
        }
        assert!(svg.contains("L1 data TLB, L2 TLB: no entry") && svg.contains("behind: L2 TLB"), "{svg}");
        // Columns are side by side, and none is higher than the room between head and time.
        let from = svg.find(") scale(").unwrap() + 8;
        let scale: f64 = svg[from..].split(')').next().unwrap().parse().unwrap();
        let columns: &str = &svg[from..svg.rfind("transform=\"translate(24").unwrap()];
        let places = columns.split("translate(").skip(1).map(|rest| rest.split(')').next().unwrap());
        for place in places {
            let (x, y) = place.split_once(' ').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(x * scale < 1240.0 && y * scale < 560.0, "{loads} loads, scale {scale}: {place}");
        }
    }
}

#[test]
fn texts_of_designs_are_no_markup() {
    let mut hostile = walk(HOSTILE, 2);
    (hostile.program, hostile.oracle) = (HOSTILE.into(), HOSTILE.into());
    hostile.attempts[0].steps[0].name = HOSTILE.into();
    let inner = &mut hostile.attempts[0].steps[2].steps[0];
    (inner.name, inner.source) = (HOSTILE.into(), HOSTILE.into());
    inner.fields.push(ambulator_base::watch::Field { name: HOSTILE.into(), value: HOSTILE.into() });
    inner.loaded.as_mut().unwrap().row = HOSTILE.into();
    assert!(!walk_slide(&hostile).contains("<b>"));
    let html = walk_page(&collection(vec![hostile]), &[shown(HOSTILE)]);
    assert!(!html.contains("<b>x"), "a text is markup");
    assert_eq!(html.matches("</script>").count(), 2, "a text ends the data");
    assert!(html.contains("\\u0026lt;b\\u0026gt;"), "texts in the data are escaped twice: for HTML and for JSON");
}

fn shown(name: &str) -> ShownDesign {
    ShownDesign { name: name.into(), about: "a design".into(), command: "ambulator explain-walk --at {at}".into() }
}

fn collection(walks: Vec<WalkSteps>) -> WalkCollection {
    let area = MappedArea { start: 0x7000, end: 0x9000, kind: "heap".into(), rights: "rw-".into() };
    let place = Collected { at: VirtAddr(0x7000), access: AccessKind::Load, reason: Reason::Next, walks };
    WalkCollection { areas: vec![area], places: vec![place], present: 2 }
}

#[test]
fn the_page_tells_its_script_when_each_step_is() {
    let steps = walk("radix", 3);
    let flat = flat::flatten(&steps);
    let times: Vec<(u64, u64, usize)> = flat.iter().map(|step| (step.from, step.until, step.rank)).collect();
    // The walk and its first load begin together, one after the other.
    assert_eq!(times[2..5], [(10, 70, 0), (10, 30, 1), (30, 50, 0)]);
    let item = details::item(&flat[3]);
    for part in ["data-from=\"10\"", "data-until=\"30\"", "data-rank=\"1\"", "data-level=\"DRAM\"", "a paper, Sec. 1"] {
        assert!(item.contains(part), "{part}: {item}");
    }
    assert_eq!((item.matches("<code class=\"lit\">").count(), item.matches("<code>").count()), (1, 7), "{item}");
    let html = walk_page(&collection(vec![steps]), &[shown("radix")]);
    assert!(html.contains("1 translations of gups (2 present pages), after 1,000 instructions"), "{html}");
    assert!(html.contains("\"at\":\"0x7000\"") && html.contains("\"rights\":\"rw-\""));
}

#[test]
fn a_fault_parts_the_attempts_and_time_goes_on_after_it() {
    let mut twice = walk("radix", 1);
    twice.attempts.push(twice.attempts[0].clone());
    twice.attempts[0].fault = Some(Step::new(StepKind::Fault, "page fault", Cycle(0), Cycle(700)));
    let flat = flat::flatten(&twice);
    let fault = flat.iter().find(|step| step.fault).unwrap();
    assert_eq!((fault.from, fault.until), (30, 30), "cycles of the kernel are not those of the walk");
    assert_eq!(flat.last().unwrap().from, 60);
    assert!(walk_slide(&twice).contains(">page fault</text>"));
}
