//! Every script of `tests/conformance` against the engine in virtual time, and against an endpoint that is dead: a script
//! that the dead one passes tests nothing.

use std::path::Path;
use std::process::ExitCode;

use mrc_conform::{Done, Facts, Heard, Outcome, Post, Refusal, Target, Verdict, engine, load_tree, run};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let list_only = std::env::args().any(|arg| arg == "--list");
    let scripts = match load_tree(&root) {
        Ok(scripts) => scripts,
        Err(why) => {
            eprintln!("tests/conformance/{why}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = 0;
    let mut played = 0;
    for script in &scripts {
        let chosen = wanted.is_empty()
            || wanted.iter().any(|w| script.file.contains(w.as_str()) || script.requires.iter().any(|id| id == w));
        if !chosen {
            continue;
        }
        if list_only {
            println!("{}: test", script.file);
            continue;
        }
        played += 1;
        let outcome = engine::with_virtual(&script.knobs, |target, facts| run(script, facts, target));
        if let Err(why) = judge(outcome) {
            failed += 1;
            println!("FAILED tests/conformance/{}{why}", script.file);
        }
        let mut facts = Facts::offer(&script.knobs, vec![[2, 0, 0, 0, 1, 10]; 8]);
        facts.target_mac = vec![[2, 0, 0, 0, 1, 11]; 8];
        if run(script, &facts, &mut Dead).verdict == Verdict::Pass {
            failed += 1;
            println!("FAILED tests/conformance/{}: an endpoint that does nothing passes it", script.file);
        }
    }
    println!("conformance scripts: {played} played, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Against our own engine nothing but a clean pass will do.
fn judge(outcome: Result<Outcome, Refusal>) -> Result<(), String> {
    let outcome = outcome.map_err(|why| format!(": {why}"))?;
    match &outcome.verdict {
        Verdict::Pass if outcome.notes.is_empty() => Ok(()),
        Verdict::Pass => Err(format!(": {}", outcome.notes.join("; "))),
        Verdict::Fail(_) | Verdict::Flaky { .. } => Err(format!(": {}", outcome.explain())),
        Verdict::NotApplicable { reason } | Verdict::Broken { reason } => Err(format!(": {reason}")),
    }
}

/// An endpoint that hears nothing, says nothing and forgets nothing.
struct Dead;

impl Target for Dead {
    fn slowness(&self) -> u64 {
        0
    }

    fn send(&mut self, _: u64, _: u8, _: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    fn hear(&mut self, _: u64) -> Result<Option<Heard>, Refusal> {
        Ok(None)
    }

    fn act(&mut self, _: u64, _: &Post) -> Result<(), Refusal> {
        Ok(())
    }

    fn done(&mut self, _: u64) -> Result<Option<Done>, Refusal> {
        Ok(None)
    }

    fn memory(&mut self, _: u64, _: usize) -> Result<Vec<u8>, Refusal> {
        Ok(Vec::new())
    }

    fn counter(&mut self, _: &str) -> Result<i64, Refusal> {
        Ok(0)
    }
}
