use super::*;
use crate::study::Study;
use crate::study::tests::cell;
use ambulator_simulator::HistogramResult;

fn study() -> Study {
    let mut cells =
        vec![cell("gups", "radix", 1000), cell("gups", "thp", 500), cell("bfs", "radix", 900), cell("bfs", "thp", 905)];
    for cell in &mut cells {
        let counters =
            [("core.window.stack_base", 5000), ("core.window.stack_walk_dram", 9000), ("core.window.stack_os", 0)];
        cell.run.counters = counters.map(|(name, value)| (name.to_owned(), value)).into();
    }
    Study::new(cells)
}

fn chart(id: &str) -> Chart {
    charts(&study(), Form::Page).into_iter().find(|chart| chart.id == id).unwrap()
}

#[test]
fn speed_ups_are_those_of_the_runs_and_small_ones_are_no_difference() {
    let found = chart("speed-up");
    let row = |at: usize| &found.table.rows[at];
    assert_eq!((row(0)[1].as_str(), row(0)[3].as_f64(), row(0)[5].as_str()), (Some("thp"), Some(2.0), Some("faster")));
    let values = found.spec["data"]["values"].as_array().unwrap();
    let headings: Vec<&str> =
        values.iter().filter(|v| v.get("design").is_none()).map(|v| v["row"].as_str().unwrap()).collect();
    assert_eq!(headings, ["gups", "bfs"]);
    let mut cells = study().cells;
    for cell in &mut cells {
        cell.run.windows.clear();
    }
    let table = charts(&Study::new(cells), Form::Page).remove(0).table;
    assert_eq!(table.rows[1][5], "no difference within the 95% interval", "0.994 without an interval is no difference");
}

#[test]
fn stacks_leave_out_what_no_run_has_and_add_up() {
    let found = chart("cycles");
    let heads: Vec<&str> = found.table.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        heads,
        ["program", "design", "instructions that nothing delays", "page walks and look-ups served by DRAM", "all"]
    );
    assert_eq!(found.table.rows[0][2..], [json!(250), json!(450), json!(700)]);
}

#[test]
fn a_design_has_one_colour_in_all_figures() {
    let mut cells = study().cells;
    // Only the second design has walks, so it is the first line of its figure.
    let buckets = vec![(10, 4), (20, 6)];
    let histogram = HistogramResult { count: 10, max: 30, buckets, ..HistogramResult::default() };
    cells[1].run.histograms.insert("walk_latency".into(), histogram);
    let all = charts(&Study::new(cells), Form::Page);
    let colour = |id: &str, name: &str| {
        let chart = all.iter().find(|chart| chart.id == id).unwrap();
        let scale = &chart.spec["encoding"]["color"]["scale"];
        let at = scale["domain"].as_array().unwrap().iter().position(|of| of == name).unwrap();
        scale["range"][at].clone()
    };
    assert_eq!(colour("walk-latency", "thp"), colour("cycles-over-time-gups", "thp"));
    assert_ne!(colour("cycles-over-time-gups", "thp"), colour("cycles-over-time-gups", "radix"));
}

#[test]
fn figures_without_data_are_left_out() {
    let all = charts(&study(), Form::Page);
    let kinds: Vec<&str> = all.iter().map(|chart| chart.kind.as_str()).collect();
    assert_eq!(kinds, ["speed-up", "cycles", "cycles-over-time", "cycles-over-time"]);
    assert!(charts(&Study::new(Vec::new()), Form::Page).is_empty());
}

#[test]
fn figures_of_programs_have_names_of_their_own() {
    assert_eq!(ids("x", &["a b", "a-b", "ä"]), ["x-a-b", "x-a-b-2", "x-program"]);
    assert_eq!(ids("x", &["a b"]), ["x"]);
}

#[test]
fn numbers_keep_six_digits() {
    assert_eq!(rounded(1.234_567_89), json!(1.23457));
    assert_eq!((rounded(1e6), rounded(f64::NAN)), (json!(1_000_000), json!(0)));
}
