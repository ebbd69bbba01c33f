//! `explain-walk`, from the outside.

use ambulator_simulator::{WalkEnd, WalkSteps};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Runs it, checks the exit code, and returns standard output and standard error.
fn expect(code: i32, arguments: &[&str]) -> (String, String) {
    let all = [&["explain-walk", "--footprint", "16MiB", "--after", "20K"], arguments].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_ambulator")).args(&all).stdin(Stdio::null()).output();
    let output = output.expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{all:?}\n{out}\n{err}");
    (out, err)
}

#[test]
fn designs_are_shown_one_after_another_and_then_side_by_side() {
    let (out, _) = expect(0, &["--design", "radix,lvm"]);
    let firsts: Vec<&str> = out.lines().filter(|line| line.contains(" (gups, after ")).collect();
    assert_eq!(firsts.len(), 2, "{out}");
    assert!(firsts[0].starts_with("radix: ") && firsts[1].starts_with("lvm: "), "{out}");
    let address = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    assert_eq!(address(firsts[0]), address(firsts[1]), "the same address on both: {out}");
    assert!(out.contains("PTE: load of 8 bytes at 0x") && out.contains("[Intel SDM volume 3"), "{out}");
    assert!(out.contains("loads in a chain"), "{out}");
    assert_eq!(out.matches("The kernel agrees").count(), 2, "{out}");
}

#[test]
fn json_is_the_model_and_alone() {
    let (out, err) = expect(0, &["--design", "ecpt,nested", "--json"]);
    let walks: Vec<WalkSteps> = serde_json::from_str(&out).unwrap();
    assert!(err.is_empty(), "{err}");
    assert_eq!(walks.iter().map(|walk| walk.design.as_str()).collect::<Vec<_>>(), ["ecpt", "nested"]);
    assert!(walks.iter().all(|walk| walk.end == WalkEnd::Translated && walk.agrees));
    let document: Value = serde_json::from_str(&out).unwrap();
    let again: Value = serde_json::to_value(&walks).unwrap();
    assert_eq!(document, again, "nothing is lost between the text and the model");
}

#[test]
fn an_address_without_a_mapping_names_the_nearest_one() {
    let (out, err) = expect(1, &["--at", "0x7000000000"]);
    assert!(out.contains("finds no present entry"), "the walk is shown: {out}");
    assert!(err.contains("SIGSEGV") && err.contains("0x7000000000") && err.contains("nearest"), "{err}");
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    let cases: [(&[&str], &str); 6] = [
        (&["--at", "12345"], "0x7f0012345678"),
        (&["--after", "soon"], "--after"),
        (&["--design", "radxi"], "radix"),
        (&["--program", "gusp"], "gups"),
        (&["--at", "0x8000000000000"], "mmu.va_bits"),
        (&["--set", "run.mode=functional"], "run.mode"),
    ];
    for (arguments, said) in cases {
        let (_, err) = expect(2, arguments);
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
}

#[test]
fn a_slide_is_drawn_for_each_design() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.svg");
    let path = path.to_str().unwrap();
    let (out, _) = expect(0, &["--design", "radix,hashed", "--svg", path]);
    assert_eq!(out.lines().count(), 2, "{out}");
    for (design, drawn) in [("radix", "bits 20 to 12 of the address"), ("hashed", "line of 4 slots")] {
        let svg = std::fs::read_to_string(folder.path().join(format!("walk-{design}.svg"))).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"), "{design}");
        assert!(svg.contains(&format!(">{design}</text>")) && svg.contains(drawn), "{design}: {svg}");
        assert!(!svg.contains("var(") && !svg.contains('@'), "{design}: a file has its own colours");
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count(), "{design}");
    }
    let (svg, _) = expect(0, &["--design", "radix", "--svg", "-"]);
    assert!(svg.starts_with("<svg "), "{svg}");
    let (_, err) = expect(2, &["--design", "radix,hashed", "--svg", "-"]);
    assert!(err.contains("one design"), "{err}");
    let (_, err) = expect(2, &["--svg", "/nowhere/walk.svg"]);
    assert!(err.contains("/nowhere"), "{err}");
}

#[test]
fn a_page_has_the_translations_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walks.html");
    let path = path.to_str().unwrap();
    let (out, err) =
        expect(0, &["--design", "radix,hashed", "--html", path, "--pages", "3", "--walks", "2", "--no-progress"]);
    assert!(out.contains("translations on 2 designs") && err.is_empty(), "{out}{err}");
    let html = std::fs::read_to_string(path).unwrap();
    assert!(
        html.contains("default-src 'none'") && !html.contains("http:") && !html.contains("https:"),
        "the page asks for nothing"
    );
    let begin = html.find("id=\"data\">").unwrap() + 10;
    let data = &html[begin..begin + html[begin..].find("</script>").unwrap()];
    let data: Value = serde_json::from_str(data).unwrap();
    let places = data["places"].as_array().unwrap();
    let next = places.iter().filter(|place| place["why"].as_str().unwrap().contains("next access")).count();
    assert_eq!(next, 2, "{places:?}");
    assert!(places.iter().any(|place| place["why"].as_str().unwrap().contains("page fault")), "{places:?}");
    assert_eq!(data["walks"]["texts"].as_array().unwrap().len(), 2 * places.len());
    let command = data["designs"][1]["command"].as_str().unwrap();
    assert!(command.starts_with("ambulator explain-walk --design hashed --program gups --footprint 16MiB --after 20K"));
    for wrong in [["--at", "0x1000"], ["--json", "--walks=2"], ["--svg", "x.svg"]] {
        expect(2, &[["--html", path], wrong].concat());
    }
    expect(2, &["--pages", "3"]);
}
