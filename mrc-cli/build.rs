//! Names the commit that results carry, and says when the program is of a changed one.

use std::path::Path;
use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    // A package is built from files without history: its builder says the commit.
    let given = std::env::var("MRC_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| {
        let head = git(&["rev-parse", "--short=12", "HEAD"])?;
        Some(if is_modified() { head + "-modified" } else { head })
    });
    let commit = commit.unwrap_or_else(|| "unknown commit".to_owned());
    println!("cargo::rustc-env=MRC_COMMIT={commit}");
    println!("cargo::rerun-if-env-changed=MRC_COMMIT");
    let about = |name: &str| std::env::var(name).unwrap_or_default();
    let features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase))
        .filter(|feature| feature != "default")
        .collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(" ") };
    println!(
        "cargo::rustc-env=MRC_VERSION={} (commit {commit}, {}, {} build, features: {features})",
        about("CARGO_PKG_VERSION"),
        about("TARGET"),
        about("PROFILE"),
    );
    // The log grows with every commit and checkout.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // This package is compiled again with them anyway.
    DECIDE_RESULTS.iter().filter(|path| Path::new(path).exists()).for_each(|path| {
        println!("cargo::rerun-if-changed={path}");
    });
    println!("cargo::rerun-if-changed=build.rs");
}

/// Who runs the commit that results name gets the same results only if these are as they are there.
const DECIDE_RESULTS: [&str; 3] = ["../mrc-wire/src", "../mrc-core/src", "../mrc-sim/src"];

fn is_modified() -> bool {
    let diff = Command::new("git").args(["diff", "--quiet", "HEAD", "--"]).args(DECIDE_RESULTS).status();
    diff.is_ok_and(|status| status.code() == Some(1))
}
