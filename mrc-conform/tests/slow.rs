//! Every script against a tester that is late, as a busy machine is: what the target does by itself must not overtake it.

use mrc_conform::{Done, Facts, Heard, Post, Refusal, Target, Verdict, builtin, engine, run, stretch};

/// Real time by which the tester is late: a scheduler's turn or two.
const LAG_NS: u64 = 10_000_000;

/// A target whose frames the tester reads late.
struct Late<'t> {
    target: &'t mut dyn Target,
    slow: u64,
}

impl Target for Late<'_> {
    fn slowness(&self) -> u64 {
        self.slow
    }

    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        self.target.send(at, port, frame)
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        let heard = self.target.hear(until)?;
        Ok(heard.map(|heard| Heard { at: heard.at + LAG_NS / self.slow, ..heard }))
    }

    fn act(&mut self, at: u64, post: &Post) -> Result<(), Refusal> {
        self.target.act(at, post)
    }

    fn done(&mut self, until: u64) -> Result<Option<Done>, Refusal> {
        self.target.done(until)
    }

    fn memory(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Refusal> {
        self.target.memory(offset, len)
    }

    fn counter(&mut self, name: &str) -> Result<i64, Refusal> {
        self.target.counter(name)
    }
}

#[test]
fn every_script_passes_with_a_late_tester() {
    let mut failed = Vec::new();
    for script in builtin().unwrap() {
        let slow = stretch(&script);
        let play = |target: &mut dyn Target, facts: &Facts| run(&script, facts, &mut Late { target, slow });
        let outcome = engine::with_virtual(&script.knobs, play).unwrap();
        if let Verdict::Fail(failure) = &outcome.verdict {
            failed.push(format!("{}:{}: {failure}", script.file, failure.line));
        }
    }
    assert!(
        failed.is_empty(),
        "make the script shorter, so that it is played slower, or its timers longer:\n{}",
        failed.join("\n")
    );
}
