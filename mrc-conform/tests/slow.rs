//! Every script against a tester that is late, as a busy machine is: what the target does by itself must not overtake it.

use mrc_conform::{Done, Facts, Heard, Post, Refusal, Script, Target, Verdict, builtin, engine, run, stretch};

/// Real time by which the tester is late: a scheduler's turn or two.
const LAG_NS: u64 = 10_000_000;

/// A target whose frames the tester reads late, by a rule.
struct Late<'t> {
    target: &'t mut dyn Target,
    /// Real nanoseconds to a nanosecond of the script.
    slow: u64,
    /// When the tester reads what left the target at this time.
    read_at: &'t dyn Fn(u64) -> u64,
    /// By how much its application acts late.
    acts_late: u64,
    /// Longest time between two looks of the tester.
    blind: u64,
}

impl Target for Late<'_> {
    fn slowness(&self) -> u64 {
        self.slow
    }

    fn blind(&self) -> u64 {
        self.blind
    }

    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal> {
        self.target.send(at, port, frame)
    }

    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal> {
        let heard = self.target.hear(until)?;
        Ok(heard.map(|heard| Heard { at: (self.read_at)(heard.at), ..heard }))
    }

    fn act(&mut self, at: u64, post: &Post) -> Result<(), Refusal> {
        self.target.act(at + self.acts_late, post)
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
        let read_at = |at| at + LAG_NS / slow;
        let play = |target: &mut dyn Target, facts: &Facts| {
            run(&script, facts, &mut Late { target, slow, read_at: &read_at, acts_late: 0, blind: 0 })
        };
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

/// How a script ends in real time with a target that has this knob, for a tester that reads nothing earlier than `lag`:
/// `None` if it passes, else why the failure says nothing about the target, if so.
fn in_real_time(file: &str, knob: (&str, i64), lag: u64) -> Option<Option<String>> {
    acting_late(file, knob, lag, 0, 0)
}

/// The same, with an application that acts late and a tester that did not look at its links for a while.
fn acting_late(file: &str, (knob, value): (&str, i64), lag: u64, acts_late: u64, blind: u64) -> Option<Option<String>> {
    let script = builtin().unwrap().into_iter().find(|script| script.file == file).unwrap();
    let mut knobs = script.knobs.clone();
    assert!(knobs.set(knob, value));
    let read_at = |at: u64| at.max(lag);
    let play = |target: &mut dyn Target, facts: &Facts| {
        run(&script, facts, &mut Late { target, slow: 1, read_at: &read_at, acts_late, blind })
    };
    match engine::with_virtual(&knobs, play).unwrap().verdict {
        Verdict::Fail(failure) => Some(failure.excuse),
        _ => None,
    }
}

/// The target's timers take 50 us. For a tester 200 us behind, its second probe seems to follow the first at once.
#[test]
fn a_late_tester_has_no_evidence_of_early_timers() {
    let right = ("base_rtt", 50_000);
    assert_eq!(in_real_time("probe/tail.mrc", right, 0), None, "in time it passes");
    let late = in_real_time("probe/tail.mrc", right, 200_000).expect("it fails").expect("and says nothing");
    assert!(late.starts_with("the tester was 200 us late, the target's timers take 50 us"), "{late}");
}

/// This target probes after 60 us in place of 100: a tester in time has evidence of it, also one that is a little late.
#[test]
fn a_tester_in_time_has_evidence_of_early_timers() {
    for lag in [0, 10_000] {
        assert_eq!(in_real_time("probe/tail.mrc", ("base_rtt", 10_000), lag), Some(None), "{lag} ns late");
    }
}

/// A probe after 30 us in place of 100 may be one that waited for a tester who read the packet before it late.
#[test]
fn a_tester_that_did_not_look_has_no_evidence_of_a_short_wait() {
    let early = |blind| acting_late("probe/tail.mrc", ("base_rtt", 10_000), 0, 0, blind).expect("it fails");
    assert_eq!(early(2_000), None);
    let why = early(60_000).expect("and says nothing");
    assert!(why.starts_with("the tester did not look at its links for 60 us, and this came 70 us too early"), "{why}");
}

/// The target gave up because its acknowledgement came late.
#[test]
fn a_late_tester_has_no_evidence_of_a_target_that_gives_up() {
    let script = Script::parse("a", "# t\nrequires RETRY-003\nknobs timeout=6 linear=0 exp=0\n0 ! write len=64 id=1 signaled\n0 > write_only psn=0\n1us < ack psn=0\n1us = done write id=1 status=success").unwrap();
    let read_at = |at: u64| at.max(200_000);
    let play = |target: &mut dyn Target, facts: &Facts| {
        run(&script, facts, &mut Late { target, slow: 1, read_at: &read_at, acts_late: 0, blind: 0 })
    };
    let Verdict::Fail(failure) = engine::with_virtual(&script.knobs, play).unwrap().verdict else {
        panic!("it gives up after 65.5 us")
    };
    assert!(failure.excuse.is_some(), "{failure}");
}

/// The fields of a packet are what they are, however late it is read.
#[test]
fn a_late_tester_has_evidence_of_wrong_fields() {
    for lag in [0, 200_000] {
        assert_eq!(in_real_time("sack/gap.mrc", ("pdcid_order", 1), lag), Some(None), "{lag} ns late");
    }
}

/// A port comes back later than the script says, and the SACK tells that it waited longer. One that tells of no wait is wrong.
#[test]
fn service_time_may_be_longer_in_real_time() {
    for file in ["sack/service_time.mrc", "sack/private_service_time_us.mrc"] {
        assert_eq!(acting_late(file, ("svc_time", 1), 0, 20_000, 0), None, "{file}");
        assert_eq!(acting_late(file, ("svc_time", 0), 0, 20_000, 0), Some(None), "{file}");
    }
}
