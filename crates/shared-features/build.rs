//! Nothing: without a build script, dependencies of build scripts would have no features in common.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
