//! Puts the scripts of `tests/conformance` into the library, so that the `mrc` program has them wherever it runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    // Cargo runs this in the folder of the crate. Names from there on are right in whichever checkout it is built.
    let root = Path::new("../tests/conformance");
    let mut files = Vec::new();
    collect(root, &mut files);
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let path = format!("/{}", file.display());
        let _ = writeln!(code, "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),");
    }
    code.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("scripts.rs");
    std::fs::write(out, code).expect("OUT_DIR is writable");
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in std::fs::read_dir(dir).expect("the scripts are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "mrc") {
            into.push(path);
        }
    }
}
