//! The engine links without std, allocator or libc, and no entry point can reach a panic (`tests/freestanding`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn link(features: &[&str]) -> (Output, PathBuf) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("freestanding");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("freestanding");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--offline", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .args(features)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    (output, target.join("release/mrc-freestanding"))
}

#[test]
fn no_std_no_allocator_no_reachable_panic() {
    let (output, program) = link(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = Command::new("nm").arg("-C").arg(&program).output().expect("nm, from the package binutils");
    let symbols = String::from_utf8_lossy(&symbols.stdout);
    assert!(symbols.contains("_start"), "{symbols}");
    for line in symbols.lines() {
        let undefined = line.contains(" U ");
        let forbidden = ["panic", "__rust_alloc", "malloc"].iter().any(|name| line.contains(name));
        assert!(!undefined && !forbidden, "{line}");
    }
    // The proof is worth something only when it can fail.
    let (output, _) = link(&["--features", "bad"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("A_PANIC_IS_REACHABLE"), "{text}");
}
