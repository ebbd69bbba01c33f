//! Embeds every preset of `presets/machines`, `presets/designs` and `presets/workloads`, so that the binary
//! needs no other files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../presets");
    let mut list = String::from("[\n");
    for (folder, kind) in [("machines", "Machine"), ("designs", "Design"), ("workloads", "Workload")] {
        let folder_path = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder_path.display());
        let mut files: Vec<PathBuf> = match fs::read_dir(&folder_path) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => Vec::new(),
        };
        files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        files.sort();
        for file in files {
            println!("cargo::rerun-if-changed={}", file.display());
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let path = fs::canonicalize(&file).unwrap_or(file);
            writeln!(
                list,
                "    Embedded {{ kind: PresetKind::{kind}, name: {name:?}, path: \"presets/{folder}/{name}.toml\", text: include_str!({path:?}) }},"
            )
            .expect("writing to a string");
        }
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("presets.rs");
    fs::write(&out, list).expect("the build folder is writable");
}
