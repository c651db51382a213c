//! Standard output in the hands of other programs, and results on a full disk.

use std::fs::File;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mrc"))
        .args(["sim", "list"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    // Every write to this device fails as on a full disk.
    let Ok(full) = File::options().write(true).open("/dev/full") else { return };
    for args in [&["sim", "schema"][..], &["doctor"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_mrc"))
            .args(args)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .stdout(full.try_clone().unwrap())
            .output()
            .unwrap();
        let says = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {says}");
        assert!(says.contains("cannot write to standard output") && !says.contains("panicked"), "{args:?}: {says}");
    }
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/parity/one-flow.toml");
    let run = ["sim", "run", scenario, "--quiet", "--json", "/dev/full"];
    let out = Command::new(env!("CARGO_BIN_EXE_mrc")).args(run).output().unwrap();
    let says = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && says.contains("No space left"), "{says}");
}
