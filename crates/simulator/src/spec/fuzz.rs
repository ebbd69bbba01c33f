//! Entry points for fuzzing: any text must give a spec, a request or an error, never a panic or a hang.

use super::layer::Layers;
use super::settings::{Spec, tree};
use super::{explain, parse, parse_count, parse_size, program_request};
use ambulator_workloads::program;

/// Feeds `text` to every reader of user input: as a spec file, as an option, as a size and as a count. It
/// returns for any text; fuzzers and property tests call it.
pub fn fuzz_spec(text: &str) {
    if let Err(error) = parse("fuzz.toml", text) {
        assert!(!error.to_string().is_empty());
        assert!(!error.render(true).is_empty());
    }
    // A command line is short; what its errors quote is drawn anew for each of them.
    let text_of_option: String = text.chars().take(100).collect();
    let mut layers = Layers::new(tree());
    layers.add_option(&text_of_option);
    for key in
        ["mmu.l2_tlb.entries", "mmu", "mmu.walk_entry", "memory.bytes", "memory.fragmentation.fmfi", "run.oracle"]
    {
        layers.add_option(&format!("{key}={text_of_option}"));
    }
    if let Err(error) = layers.finish(Spec::validate) {
        assert!(!error.to_string().is_empty());
    }
    let _ = (parse_size(text), parse_count(text), explain(text, &[]));
}

/// Reads `text` as the name of a program and, a line each, its settings (`key=value`). The program is not
/// opened. It returns for any text.
pub fn fuzz_program(text: &str) {
    let mut lines = text.lines();
    let name = lines.next().unwrap_or_default();
    // A name with a slash is a path, and files are not the fuzzer's.
    if name.contains(['/', '\\']) {
        return;
    }
    let options: Vec<String> = lines.map(str::to_owned).collect();
    let request = match program_request(name, &options, None, 1) {
        Ok(request) => request,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Some(program) = program(&request.name) else { return };
    match program.program(&request.settings, request.footprint, request.seed) {
        Ok(program) => {
            for wrong in program.validate(name) {
                assert!(!wrong.to_string().is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
