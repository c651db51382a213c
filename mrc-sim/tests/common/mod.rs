//! What tests of whole scenarios share. Each test uses a part of it.
#![allow(dead_code)]

use std::path::Path;

use mrc_sim::run::{Options, Outcome, Results, run};
use mrc_sim::scenario::{Built, load_str};

/// A scenario with changes as `--set` takes them.
pub(crate) fn load(text: &str, set: &[&str], seed: Option<u64>) -> Built {
    let set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
    load_str("test.toml", text, Path::new("."), &set, seed).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Everything that a run leaves behind.
pub(crate) fn outcome(built: &Built, options: &Options) -> Outcome {
    run(built, options, &mut |_| {}).expect("a run")
}

/// The results of a run.
pub(crate) fn play(text: &str, set: &[&str], seed: Option<u64>) -> Results {
    outcome(&load(text, set, seed), &Options::default()).results
}
