//! The archive links without libc, no call can reach a panic, and a C program with two endpoints moves bytes through it.

mod common;

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use common::{compiler, folder, scratch};

/// `libmrc_core.a`, built as a firmware team would build it.
fn archive(features: &[&str]) -> PathBuf {
    let target = scratch("archive").join(features.join("-").replace(' ', ""));
    let output = Command::new(env!("CARGO"))
        .args(["build", "--release", "--offline", "--manifest-path"])
        .arg(folder().join("static/Cargo.toml"))
        .args(features)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    target.join("release/libmrc_core.a")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the image asks of a kernel besides being loaded: nothing. `_start`, no libc, no start files.
fn link(mut cc: Command, main: PathBuf, archive: &PathBuf, image: &PathBuf) -> Output {
    cc.args(["-fno-stack-protector", "-ffunction-sections", "-fdata-sections"])
        .args(["-nostdlib", "-static", "-Wl,--gc-sections"])
        .arg("-I")
        .arg(folder().join("example"))
        .arg(main)
        .arg(folder().join("example/platform_linux.c"))
        .arg(archive)
        .arg("-o")
        .arg(image)
        .output()
        .unwrap()
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn two_endpoints_in_one_freestanding_image() {
    let Some(cc) = compiler("two_endpoints_in_one_freestanding_image") else { return };
    let image = scratch("two_endpoints");
    let built = link(cc, folder().join("example/main.c"), &archive(&[]), &image);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let run = Command::new(&image).output().unwrap();
    let said = text(&run.stdout);
    assert!(run.status.success(), "{said}");
    assert!(said.contains("write bytes 40000\nimmediate 12648430\n") && said.ends_with("ok\n"), "{said}");
    let again = Command::new(&image).output().unwrap();
    assert_eq!(said, text(&again.stdout), "the same seed gives the same run");
}

/// Every exported call, kept by the linker although nobody makes it: none reaches a panic. And the proof can fail.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn no_exported_call_can_reach_a_panic() {
    let name = "no_exported_call_can_reach_a_panic";
    let header = std::fs::read_to_string(folder().join("include/mrc_core.h")).unwrap();
    let mut calls: Vec<&str> = header
        .lines()
        .filter(|line| line.contains('(') && !line.starts_with([' ', '#', '/']))
        .filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back())
        .collect();
    assert!(calls.len() > 30, "{calls:?}");
    for (features, reachable) in [(&[][..], false), (&["--features", "bad"][..], true)] {
        if reachable {
            calls.push("mrc_core_bad");
        }
        let Some(cc) = compiler(name) else { return };
        let declared = if reachable { "unsigned mrc_core_bad(struct mrc_core_endpoint *endpoint);\n" } else { "" };
        let list = calls.iter().map(|call| format!("    (void (*)(void)){call},\n")).collect::<String>();
        let source = format!(
            "#include \"mrc_core.h\"\n#include \"platform.h\"\n{declared}void (*const volatile calls[])(void) = {{\n{list}}};\n\
             int program(void) {{ return calls[0] == 0; }}\n"
        );
        let main = scratch(if reachable { "bad_calls.c" } else { "all_calls.c" });
        std::fs::write(&main, source).unwrap();
        let built = link(cc, main, &archive(features), &scratch("all_calls"));
        let said = text(&built.stderr);
        assert_eq!(built.status.success(), !reachable, "{said}");
        assert_eq!(said.contains("mrc_core_a_panic_is_reachable"), reachable, "{said}");
    }
}
