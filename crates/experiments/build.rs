//! Embeds every figure of `presets/papers/PAPER/FIGURE.toml`, and the hash of what results depend on.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};
use xxhash_rust::xxh3::Xxh3;

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    found.sort();
    found
}

/// The crates whose sources decide about results.
const MODELS: [&str; 12] = [
    "derive",
    "base",
    "memory",
    "hardware",
    "mmu",
    "os",
    "structures",
    "sockets",
    "designs",
    "trace",
    "workloads",
    "simulator",
];

/// All files below `path`, or itself, but tests and documents.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        if name != "tests" {
            sorted(path).iter().for_each(|below| files(below, found));
        }
    } else if !name.ends_with("tests.rs") && !name.ends_with(".md") {
        found.push(path.to_owned());
    }
}

/// The hash of the sources of the models, of the presets and of the versions of libraries: equal for every
/// program that is built of them, and not of the command, its documents or tests.
fn models(root: &Path) -> u64 {
    let crates =
        MODELS.iter().flat_map(|name| ["src", "build.rs", "Cargo.toml"].map(|of| format!("crates/{name}/{of}")));
    let presets = ["machines", "designs", "workloads"].map(|of| format!("presets/{of}"));
    let mut hash = Xxh3::new();
    for path in crates.chain(presets).chain(["Cargo.lock".to_owned()]) {
        let path = root.join(path);
        // Few crates have a `build.rs`, and with a path that is not there cargo would build anew each time.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        let mut found = Vec::new();
        files(&path, &mut found);
        for file in found {
            let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            hash.update(name.as_bytes());
            hash.update(&fs::read(&file).unwrap_or_default());
        }
    }
    hash.digest()
}

fn main() {
    let house = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    println!("cargo::rustc-env=AMBULATOR_MODELS={:016x}", models(&house));
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../presets/papers");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    for paper in sorted(&root).into_iter().filter(|path| path.is_dir()) {
        println!("cargo::rerun-if-changed={}", paper.display());
        for figure in sorted(&paper).into_iter().filter(|path| path.extension().is_some_and(|e| e == "toml")) {
            println!("cargo::rerun-if-changed={}", figure.display());
            let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let path = fs::canonicalize(&figure).unwrap_or_else(|_| figure.clone());
            writeln!(
                list,
                "    Embedded {{ paper: {:?}, name: {:?}, text: include_str!({path:?}) }},",
                stem(&paper),
                stem(&figure)
            )
            .expect("writing to a string");
        }
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("figures.rs");
    fs::write(&out, list).expect("the build folder is writable");
}
