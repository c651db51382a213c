//! The C compiler, where there is one.

use std::{
    env,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

/// The compiler that `CC` names, else `cc`; without one the test is skipped by name and reason.
pub(crate) fn compiler(test: &str) -> Option<Command> {
    let name = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if let Err(error) = Command::new(&name).arg("--version").output() {
        // Past the harness, which swallows what a passing test prints.
        let _ = writeln!(std::io::stderr(), "SKIP {test}: no C compiler `{name}` ({error}); install gcc or set CC");
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-ffreestanding"]);
    command.arg("-I").arg(folder().join("include"));
    Some(command)
}

pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
