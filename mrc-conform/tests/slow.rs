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

/// In real time a probe that comes too early for a late tester says nothing; with a tester in time, it does.
#[test]
fn a_late_tester_has_no_evidence_of_early_timers() {
    let script = builtin().unwrap().into_iter().find(|script| script.file == "probe/tail.mrc").unwrap();
    let excuse = |lag: u64| {
        let play = |target: &mut dyn Target, facts: &Facts| run(&script, facts, &mut RealTime { target, lag });
        match engine::with_virtual(&script.knobs, play).unwrap().verdict {
            Verdict::Fail(failure) => Some(failure.excuse),
            _ => None,
        }
    };
    let late = excuse(200_000).expect("it fails").expect("and says nothing");
    assert!(late.starts_with("the tester was 200 us late, the target's timers take 50 us"), "{late}");
    assert_eq!(excuse(0), None, "in time it passes");
}

/// A target in real time whose first frame the tester reads late.
struct RealTime<'t> {
    target: &'t mut dyn Target,
    lag: u64,
}

impl Target for RealTime<'_> {
    fn slowness(&self) -> u64 {
        1
    }

    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        self.target.send(at, port, frame)
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        let heard = self.target.hear(until)?;
        Ok(heard.map(|heard| Heard { at: heard.at.max(self.lag), ..heard }))
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
