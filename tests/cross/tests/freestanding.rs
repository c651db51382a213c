//! Each call of the engine links without std, allocator or libc, and none can reach a panic, whatever the optimiser does:
//! every level of optimisation, and every target whose core library is here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

/// Levels without link-time optimisation, which would inline more.
const LEVELS: [&str; 5] = ["s", "z", "1", "2", "3"];

/// Targets of firmware; tested where `rustup target add` has put them.
const TARGETS: [&str; 5] = [
    "riscv32imc-unknown-none-elf",
    "riscv64gc-unknown-none-elf",
    "thumbv7em-none-eabi",
    "aarch64-unknown-none",
    "x86_64-unknown-none",
];

const NOWHERE: &str = "A_PANIC_IS_REACHABLE";

/// One archive of images.
struct Archive {
    name: String,
    path: PathBuf,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Builds the images for `target`, the host when `None`. The proof of the C interface builds the same engine in the same folder,
/// so that whoever comes second finds it there.
fn build(target: Option<&str>, level: &str, features: &[&str]) -> Archive {
    let name = format!("{} opt-level {level}", target.unwrap_or("host"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../freestanding");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("levels").join(level);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--offline", "--locked", "--manifest-path"]).arg(folder.join("Cargo.toml"));
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    cargo.args(features).env("CARGO_TARGET_DIR", &scratch);
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", level).env("CARGO_PROFILE_RELEASE_LTO", "off");
    said(cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS"));
    let path = scratch.join(target.unwrap_or("")).join("release/libmrc_freestanding.a");
    Archive { name, path }
}

impl Archive {
    /// Links an image with these calls and nothing else: every other function is thrown away.
    fn link(&self, images: &[&str]) -> (Output, PathBuf) {
        let image = self.path.with_extension("image");
        let mut linker = Command::new(linker());
        if linker.get_program().to_string_lossy().ends_with("rust-lld") {
            linker.args(["-flavor", "gnu"]);
        }
        linker.args(["-static", "--gc-sections", "--no-undefined", "-e", images[0]]);
        // The unwinding tables of the compiler's core library name it; nothing unwinds.
        linker.arg("--defsym=rust_eh_personality=0");
        for name in images {
            linker.args(["-u", name]);
        }
        linker.arg(&self.path).arg("-o").arg(&image);
        (linker.output().unwrap_or_else(|error| panic!("{linker:?}: {error}")), image)
    }

    /// Every function that the archive's own source exports as an image.
    fn images(&self) -> Vec<String> {
        let symbols = said(Command::new("nm").args(["--defined-only", "--extern-only"]).arg(&self.path));
        symbols
            .lines()
            .filter_map(|line| line.split(' ').next_back())
            .filter(|name| name.starts_with("image_"))
            .map(str::to_owned)
            .collect()
    }

    /// The images that reach a panic. All are linked at once; only if that fails, one by one.
    fn panicking(&self) -> Vec<String> {
        let images = self.images();
        assert!(images.len() > 100, "{}: {images:?}", self.name);
        let names: Vec<&str> = images.iter().map(String::as_str).collect();
        let (all, image) = self.link(&names);
        if all.status.success() {
            let symbols = said(Command::new("nm").arg("-C").arg(&image));
            for line in symbols.lines() {
                let forbidden = ["panic", "__rust_alloc", "malloc"].iter().any(|name| line.contains(name));
                assert!(!forbidden && !line.contains(" U "), "{}: {line}", self.name);
            }
            return Vec::new();
        }
        let mut found = Vec::new();
        for name in names {
            let (one, _) = self.link(&[name]);
            if !one.status.success() {
                assert!(text(&one.stderr).contains(NOWHERE), "{}: {name}: {}", self.name, text(&one.stderr));
                found.push(format!("{}: {name}", self.name));
            }
        }
        assert!(!found.is_empty(), "{}: {}", self.name, text(&all.stderr));
        found
    }
}

/// The linker that comes with the compiler and knows all targets, else `ld`, which knows the host's.
fn linker() -> PathBuf {
    let libraries = said(Command::new("rustc").args(["--print", "target-libdir"]));
    let own = Path::new(libraries.trim()).with_file_name("bin").join("rust-lld");
    if own.exists() { own } else { PathBuf::from("ld") }
}

/// The calls that can panic at some level. A build uses one core for most of its time, so the levels are built side by side.
fn panicking_at_any_level(target: Option<&str>, features: &[&str]) -> Vec<String> {
    thread::scope(|scope| {
        let levels = LEVELS.map(|level| scope.spawn(move || build(target, level, features).panicking()));
        levels.into_iter().flat_map(|level| level.join().unwrap()).collect()
    })
}

/// The proof is worth something only when it can fail, and then it names the call.
#[test]
fn no_call_reaches_a_panic_at_any_level_and_a_planted_one_is_named() {
    let found = panicking_at_any_level(None, &["--features", "research"]);
    assert!(found.is_empty(), "these calls can panic: {found:#?}");
    let planted = build(None, "3", &["--features", "research,bad"]);
    assert_eq!(planted.panicking(), ["host opt-level 3: image_bad"]);
}

#[test]
fn no_call_reaches_a_panic_on_other_targets() {
    let mut found = Vec::new();
    for target in TARGETS {
        let libraries = said(Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
        if !Path::new(libraries.trim()).exists() {
            println!("SKIP {target}: its core library is not here; rustup target add {target}");
            continue;
        }
        found.extend(panicking_at_any_level(Some(target), &[]));
        println!("{target}: every level");
    }
    assert!(found.is_empty(), "these calls can panic: {found:#?}");
}

/// The files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// A new call of `Endpoint` wants an image.
#[test]
fn every_method_of_the_endpoint_has_an_image() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let images = std::fs::read_to_string(folder.join("../freestanding/src/calls.rs")).unwrap()
        + &std::fs::read_to_string(folder.join("../freestanding/src/storage.rs")).unwrap();
    let mut seen = 0;
    for path in sources(&folder.join("../../mrc-core/src/endpoint")) {
        let source = std::fs::read_to_string(path).unwrap();
        for line in source.lines().filter(|line| line.contains("self") || line.contains("Storage<'s>")) {
            let Some(rest) = line.strip_prefix("    pub fn ") else { continue };
            let name = rest.split(['(', '<']).next().unwrap();
            assert!(images.contains(&format!("image_{name}(")), "no image for Endpoint::{name} in tests/freestanding");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}
