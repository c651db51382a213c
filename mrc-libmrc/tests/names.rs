//! The built library from outside: it has every function that the headers declare, and nothing else but what it says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the library where the test itself was built: cargo makes no C library for `cargo test`.
fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            let test = std::env::current_exe().unwrap();
            let profile = test.parent().and_then(Path::parent).unwrap();
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
            cargo.arg("--target-dir").arg(profile.parent().unwrap());
            if profile.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success(), "{cargo:?}");
            profile.join("lib_mrc.so")
        })
        .clone()
}

fn declared() -> BTreeSet<String> {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../mrc-ibverbs/include");
    let mut names = BTreeSet::new();
    for header in ["mrc.h", "mrc_ctl.h"] {
        let text = std::fs::read_to_string(Path::new(include).join(header)).unwrap();
        for line in text.lines().filter(|line| line.starts_with("int ") || line.contains("mrc_") && line.contains('('))
        {
            let Some((before, _)) = line.split_once('(') else { continue };
            let name = before.rsplit([' ', '*']).next().unwrap_or("");
            if name.starts_with("mrc_") {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

#[test]
fn every_function_of_the_headers_is_there() {
    let library = library();
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("binutils");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    assert!(exported.remove("mlx5dv_is_supported"), "{text}");
    let declared = declared();
    assert_eq!(declared.len(), 41, "{declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn over_another_libibverbs_it_says_so() {
    let library = library();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = directory.join("without");
    let source = r#"
        #include <dlfcn.h>
        #include <errno.h>
        int main(int argc, char **argv) {
            void *library = dlopen(argv[argc - 1], 2);
            void *(*create)(void *, void *) = (void *(*)(void *, void *))dlsym(library, "mrc_create_context");
            return create && !create(0, 0) && errno == ENOSYS ? 0 : 1;
        }"#;
    std::fs::write(directory.join("without.c"), source).unwrap();
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(directory.join("without.c")).status().unwrap();
    assert!(compiled.success());
    let output = Command::new(&program).arg(&library).env_remove("LD_LIBRARY_PATH").output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.contains("mrc verbs-run"), "{:?} {log}", output.status);
}
