//! The archive links without libc, no call can reach a panic, and a C program with two endpoints moves bytes through it.

mod common;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use common::{compiler, folder, scratch};

/// `libmrc_core.a`, built as a firmware team would build it.
fn archive(features: &[&str]) -> PathBuf {
    // None within another: builds that begin together would take each other's folder away.
    build(&scratch("archive").join(format!("with{}", features.concat().replace(' ', ""))), features, &[])
}

/// The same at another level of optimisation, and without link-time optimisation, which would inline more. The proof of the
/// engine's own calls builds the engine in the same folder, so that whoever comes second finds it there.
fn archive_at(level: &str, features: &[&str]) -> PathBuf {
    build(&scratch("levels").join(level), features, &[("OPT_LEVEL", level), ("LTO", "off"), ("CODEGEN_UNITS", "4")])
}

/// With settings of the release profile.
fn build(target: &Path, features: &[&str], settings: &[(&str, &str)]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--offline", "--manifest-path"]).arg(folder().join("static/Cargo.toml"));
    cargo.args(features).env("CARGO_TARGET_DIR", target);
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    for (key, value) in settings {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
    }
    let output = cargo.output().unwrap();
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

/// Without the feature `research` the archive is whole, and its defaults run; selectors of research are refused.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn an_archive_without_selectors_of_research() {
    let name = "an_archive_without_selectors_of_research";
    let example = folder().join("example/main.c");
    let said = |main: &Path, features: &[&str]| {
        let (cc, image) = (compiler(name)?, scratch(name));
        let built = link(cc, main.to_owned(), &archive(features), &image);
        assert!(built.status.success(), "{}", text(&built.stderr));
        Some(text(&Command::new(&image).output().unwrap().stdout))
    };
    let Some(plain) = said(&example, &["--no-default-features"]) else { return };
    assert!(plain.ends_with("ok\n"), "{plain}");
    let spray = "rts.paths.backup = 0;";
    let source = std::fs::read_to_string(&example).unwrap();
    assert!(source.contains(spray));
    let hopper = scratch("hopper.c");
    let chosen = format!("{spray} rts.paths.selector = MRC_CORE_SELECT_HOPPER;");
    std::fs::write(&hopper, source.replace(spray, &chosen)).unwrap();
    let refused = said(&hopper, &["--no-default-features"]).unwrap();
    assert!(refused.contains("RTS") && refused.contains("selector"), "{refused}");
    assert!(said(&hopper, &[]).unwrap().ends_with("ok\n"));
}

/// The example of this name says what it says, and nothing else.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn example(name: &str, want: &str) {
    let Some(cc) = compiler(name) else { return };
    let image = scratch(name);
    let built = link(cc, folder().join("example").join(name).with_extension("c"), &archive(&[]), &image);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let run = Command::new(&image).output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stdout));
    assert_eq!(text(&run.stdout), want);
}

//= ACK-003, WIMM-004 test
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn a_dma_engine_that_finishes_late() {
    example("late_dma", "late: ok\nfailed: ok\n");
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn firmware_that_is_replaced() {
    example("live_update", "requester: ok\nresponder: ok\nwrite: ok\n");
}

//= EPOP-001, EPOP-005 test
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn four_shards_behind_one_address() {
    example("shards", "writes: ok\nports: ok\nprobe: ok\n");
}

/// The calls that the header declares.
fn calls() -> Vec<String> {
    let header = std::fs::read_to_string(folder().join("include/mrc_core.h")).unwrap();
    let declared = header.lines().filter(|line| line.contains('(') && !line.starts_with([' ', '#', '/']));
    let names = declared.filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back());
    let calls: Vec<String> = names.map(str::to_owned).collect();
    assert!(calls.len() > 30, "{calls:?}");
    calls
}

/// An object with one function `image_CALL` for each call, which a linker may begin an image with.
fn roots(cc: &mut Command, calls: &[String], declared: &str, object: &Path) {
    let roots = calls.iter().map(|call| format!("void image_{call}(void) {{ made = (void (*)(void)){call}; }}\n"));
    let roots: String = roots.collect();
    let prototypes: String = calls.iter().map(|call| format!("void image_{call}(void);\n")).collect();
    let source = object.with_extension("c");
    let includes = "#include \"mrc_core.h\"\n#include \"platform.h\"\n";
    let made = "static void (*volatile made)(void);\nint program(void) { return made == 0; }\n";
    std::fs::write(&source, format!("{includes}{declared}{prototypes}{made}{roots}")).unwrap();
    cc.args(["-fno-stack-protector", "-ffunction-sections", "-I"]).arg(folder().join("example"));
    let built = cc.arg("-c").arg(source).arg("-o").arg(object).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
}

/// An image with these calls and nothing else.
fn image_of(calls: &[String], object: &Path, platform: &Path, archive: &Path) -> Output {
    let mut cc = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    cc.args(["-nostdlib", "-static", "-Wl,--gc-sections", "-Wl,--defsym=rust_eh_personality=0"]);
    cc.arg(format!("-Wl,-e,image_{}", calls[0]));
    for call in calls {
        cc.arg(format!("-Wl,-u,image_{call}"));
    }
    cc.arg(object).arg(platform).arg(archive).arg("-o").arg(archive.with_extension("image")).output().unwrap()
}

/// The calls that reach a panic. All are linked at once; only if that fails, one by one.
fn panicking(calls: &[String], object: &Path, platform: &Path, archive: &Path) -> Vec<String> {
    let all = image_of(calls, object, platform, archive);
    if all.status.success() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for call in calls {
        let said = image_of(std::slice::from_ref(call), object, platform, archive);
        if !said.status.success() {
            let said = text(&said.stderr);
            assert!(said.contains("mrc_core_a_panic_is_reachable"), "{call}: {said}");
            found.push(call.clone());
        }
    }
    assert!(!found.is_empty(), "{}", text(&all.stderr));
    found
}

/// No call reaches a panic, whatever the optimiser does: the archive as it is shipped, and at every level without
/// link-time optimisation. And the proof can fail, and then names the call.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn no_exported_call_can_reach_a_panic() {
    let name = "no_exported_call_can_reach_a_panic";
    let Some(mut cc) = compiler(name) else { return };
    let platform = scratch("platform.o");
    cc.args(["-fno-stack-protector", "-ffunction-sections", "-c"]).arg(folder().join("example/platform_linux.c"));
    let built = cc.arg("-o").arg(&platform).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));

    let mut calls = calls();
    let object = scratch("calls.o");
    roots(&mut compiler(name).unwrap(), &calls, "", &object);
    let mut found = panicking(&calls, &object, &platform, &archive(&[]));
    let at = |level| {
        let here = panicking(&calls, &object, &platform, &archive_at(level, &[]));
        here.iter().map(|call| format!("{call} at opt-level {level}")).collect::<Vec<String>>()
    };
    // A build uses one core for most of its time, so the levels are built side by side.
    thread::scope(|scope| {
        for level in ["s", "z", "1", "2", "3"].map(|level| scope.spawn(move || at(level))) {
            found.extend(level.join().unwrap());
        }
    });
    assert!(found.is_empty(), "these calls can panic: {found:#?}");

    calls.push("mrc_core_bad".to_owned());
    let object = scratch("bad_calls.o");
    let declared = "unsigned mrc_core_bad(struct mrc_core_endpoint *endpoint);\n";
    roots(&mut compiler(name).unwrap(), &calls, declared, &object);
    assert_eq!(panicking(&calls, &object, &platform, &archive_at("3", &["--features", "bad"])), ["mrc_core_bad"]);
}
