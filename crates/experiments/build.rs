//! Embeds every figure of `presets/papers/PAPER/FIGURE.toml`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    found.sort();
    found
}

fn main() {
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
