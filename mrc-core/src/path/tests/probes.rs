//! Probes of bad EVs, paths.md 10.

use super::*;

#[test]
fn unanswered_probes_back_off_to_64_intervals() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let bad = qp.indices(EvSlot::is_active)[0];
    assert_eq!(qp.set.next_timeout(), Instant::FAR);
    qp.feed(bad, Feedback::Timeout);
    for factor in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
        qp.sleep(factor * MS - 2048);
        assert_eq!(qp.poll(ALL, false), None, "before {factor} intervals");
        qp.sleep(2048 + 1024);
        assert!(qp.set.next_timeout() <= qp.now);
        assert_eq!(qp.poll(ALL, false).unwrap().index, bad, "after {factor} intervals");
        assert_eq!(qp.poll(ALL, false), None);
        qp.feed(bad, Feedback::ProbeLost);
    }
    // An answer resets the back-off, even one that does not revive.
    qp.feed(bad, Feedback::ProbeAnswer(Verdict::AlwaysSkip));
    qp.sleep(MS + 1024);
    assert_eq!(qp.poll(ALL, false).unwrap().index, bad);
}

/// What left while the EV was good may be lost with its acknowledgement's path: the first probe of the bad EV is in time.
#[test]
fn probes_that_left_before_an_ev_was_retired_do_not_delay_the_first_one() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let bad = qp.indices(EvSlot::is_active)[0];
    qp.feed(bad, Feedback::Timeout);
    for _ in 0..3 {
        qp.sleep(MS / 16);
        assert_eq!(qp.feed(bad, Feedback::ProbeLost), None);
    }
    qp.sleep(MS - 3 * (MS / 16) + 1024);
    assert_eq!(qp.poll(ALL, false).map(|choice| choice.index), Some(bad), "an interval after it was retired");
    // That one backs off.
    qp.feed(bad, Feedback::ProbeLost);
    qp.sleep(MS + 1024);
    assert_eq!(qp.poll(ALL, false), None);
    qp.sleep(MS);
    assert_eq!(qp.poll(ALL, false).map(|choice| choice.index), Some(bad));
}

/// Reports name why an EV changed its state, each cause with a word of its own.
#[test]
fn each_cause_has_its_word() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let index = qp.indices(EvSlot::is_active)[0];
    let mut change = qp.feed(index, Feedback::Timeout).unwrap();
    assert_eq!(change.reason(), "timeout");
    let words: BTreeSet<&str> = [
        None,
        Some(Feedback::Sack(Verdict::AlwaysSkip)),
        Some(Feedback::Sack(Verdict::SkipOnce)),
        Some(Feedback::Trimmed),
        Some(Feedback::OtherNack),
        Some(Feedback::Timeout),
        Some(Feedback::Loss { trim_nack: false }),
        Some(Feedback::ProbeAnswer(Verdict::None)),
        Some(Feedback::ProbeLost),
    ]
    .into_iter()
    .map(|cause| {
        change.cause = cause;
        change.reason()
    })
    .collect();
    assert_eq!(words.len(), 9);
    assert!(!words.contains(""));
}

/// A probe whose port is busy waits an eighth of the interval, not until the next poll.
#[test]
fn a_probe_without_a_port_is_looked_at_again_later() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let bad = qp.indices(EvSlot::is_active)[0];
    qp.feed(bad, Feedback::Timeout);
    qp.sleep(2 * MS);
    assert_eq!(qp.poll(PortMask::NONE, false), None);
    assert_eq!(qp.set.next_timeout(), qp.now.after(MS / 8));
    qp.sleep(MS / 8);
    assert_eq!(qp.poll(ALL, false).unwrap().index, bad);
}

//= RES-003 test
#[test]
fn at_most_four_probes_are_under_way() {
    let mut qp = Qp::spray(2, 8, 4, |_| {});
    for index in qp.indices(|slot| slot.plane() == 0) {
        qp.feed(index, Feedback::Timeout);
    }
    qp.sleep(2 * MS);
    let mut out: Vec<EvIndex> = (0..4).map(|_| qp.poll(ALL, false).unwrap().index).collect();
    assert_eq!(qp.poll(ALL, false), None);
    assert!(qp.set.next_timeout() > qp.now, "a full table does not spin");
    let mut probed: BTreeSet<EvIndex> = out.iter().copied().collect();
    while probed.len() < 12 {
        qp.feed(out.pop().unwrap(), Feedback::ProbeLost);
        let next = qp.poll(ALL, false).unwrap().index;
        assert!(probed.insert(next), "every bad EV has its turn");
        out.push(next);
    }
}

#[test]
fn probes_that_never_left_are_offered_again() {
    let mut qp = Qp::spray(1, 4, 0, |cfg| cfg.bad_probes_outstanding = 1);
    let bad = qp.indices(|_| true)[0];
    qp.feed(bad, Feedback::Timeout);
    for _ in 0..5 {
        qp.sleep(20 * MS);
        assert!(qp.set.next_timeout() <= qp.now);
        assert_eq!(qp.poll(ALL, false).unwrap().index, bad);
        assert_eq!(qp.poll(ALL, false), None);
    }
}

//= RES-004 test
#[test]
fn idle_queue_pairs_probe_at_an_eighth_of_the_rate() {
    let probes = |idle| {
        let mut qp = Qp::spray(1, 4, 0, |_| {});
        let bad = qp.indices(|_| true)[0];
        qp.feed(bad, Feedback::Timeout);
        let mut sent = 0;
        for _ in 0..8_000 {
            qp.sleep(10_000);
            if let Some(choice) = qp.poll(ALL, idle) {
                sent += 1;
                qp.feed(choice.index, Feedback::ProbeAnswer(Verdict::AlwaysSkip));
            }
        }
        sent
    };
    let (busy, idle) = (probes(false), probes(true));
    assert!((78..=80).contains(&busy), "{busy} probes in 80 ms");
    assert!((9..=10).contains(&idle), "{idle} probes in 80 ms");
}

#[test]
fn a_queue_pair_that_wakes_up_probes_at_the_full_rate() {
    let mut qp = Qp::spray(1, 4, 0, |_| {});
    let bad = qp.indices(|_| true)[0];
    qp.feed(bad, Feedback::Timeout);
    assert_eq!(qp.poll(ALL, true), None);
    qp.sleep(2 * MS);
    assert_eq!(qp.poll(ALL, true), None, "due after eight intervals only");
    assert!(qp.set.next_timeout() > qp.now);
    qp.set.on_busy();
    assert!(qp.set.next_timeout() <= qp.now, "asks to be polled");
    assert_eq!(qp.poll(ALL, false).map(|choice| choice.index), Some(bad));
}

#[test]
fn probes_wait_for_their_port_without_spinning() {
    let mut qp = Qp::spray(2, 4, 0, |_| {});
    let bad = qp.indices(|slot| slot.plane() == 1)[0];
    qp.feed(bad, Feedback::Timeout);
    qp.sleep(2 * MS);
    assert_eq!(qp.poll(PortMask::first(1), false), None);
    assert!(qp.set.next_timeout() > qp.now);
    qp.sleep(MS);
    assert_eq!(qp.poll(ALL, false).unwrap().index, bad);
}

#[test]
fn revival_takes_the_configured_number_of_answers() {
    let mut qp = Qp::spray(1, 4, 0, |cfg| cfg.resurrect_probes = 3);
    let bad = qp.indices(|_| true)[0];
    qp.feed(bad, Feedback::Timeout);
    assert_eq!(qp.feed(bad, GOOD_ANSWER), None);
    assert_eq!(qp.feed(bad, GOOD_ANSWER), None);
    assert_eq!(qp.feed(bad, Feedback::ProbeLost), None, "in a row, or not at all");
    assert_eq!(qp.feed(bad, GOOD_ANSWER), None);
    assert_eq!(qp.feed(bad, GOOD_ANSWER), None);
    assert_eq!(qp.feed(bad, GOOD_ANSWER).unwrap().to, EvState::Good);
}

/// Milliseconds from `qp.now` to the next probe of `bad`, which is answered well.
fn revived_after(qp: &mut Qp, bad: EvIndex) -> u64 {
    for ms in 1..=64 {
        qp.sleep(MS);
        if let Some(choice) = qp.poll(ALL, false) {
            assert_eq!(choice.index, bad);
            assert_eq!(qp.feed(bad, GOOD_ANSWER).map(|t| t.to), Some(EvState::Good));
            return ms;
        }
    }
    panic!("no probe");
}

/// A path that passes probes and loses data.
#[test]
fn relapses_double_the_pause_and_good_sacks_take_it_back() {
    let mut qp = Qp::spray(1, 4, 4, |cfg| cfg.relapse_backoff = true);
    let bad = qp.indices(EvSlot::is_active)[0];
    let relapse = |qp: &mut Qp| {
        assert_eq!(qp.feed(bad, Feedback::Timeout).map(|t| t.to), Some(EvState::AssumedBad));
        qp.sleep(2_048);
        revived_after(qp, bad)
    };
    let waits: Vec<u64> = (0..9).map(|_| relapse(&mut qp)).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    // A mark says nothing, nor does the end of the skip: only what came through does.
    assert_eq!(qp.feed(bad, MARK).map(|t| t.to), Some(EvState::Skip));
    assert_eq!(relapse(&mut qp), 64);
    for (good, wait) in [(1, 32), (2, 16), (9, 1), (0, 2)] {
        for _ in 0..good {
            assert_eq!(qp.feed(bad, Feedback::Sack(Verdict::None)), None);
        }
        assert_eq!(relapse(&mut qp), wait, "after {good}");
    }
    // What the controller brings back begins anew.
    assert_eq!(relapse(&mut qp), 4);
    qp.deny(bad);
    qp.allow(bad);
    assert_eq!(relapse(&mut qp), 1);
}

#[test]
fn an_answer_that_does_not_revive_keeps_the_pause_of_a_relapse() {
    let mut qp = Qp::spray(1, 4, 4, |cfg| (cfg.relapse_backoff, cfg.resurrect_probes) = (true, 2));
    let bad = qp.indices(EvSlot::is_active)[0];
    for pause in [1, 2, 4] {
        qp.feed(bad, Feedback::Timeout);
        for answer in [Some(GOOD_ANSWER), Some(Feedback::ProbeAnswer(Verdict::AlwaysSkip)), Some(GOOD_ANSWER), None] {
            qp.sleep(pause * MS - 1_024);
            assert_eq!(qp.poll(ALL, false), None, "before {pause} intervals");
            qp.sleep(2_048);
            assert_eq!(qp.poll(ALL, false).map(|choice| choice.index), Some(bad), "after {pause} intervals");
            let revived = qp.feed(bad, answer.unwrap_or(GOOD_ANSWER)).map(|t| t.to);
            assert_eq!(revived, answer.is_none().then_some(EvState::Good));
        }
    }
}

/// As the reference has it: an answer ends the back-off.
#[test]
fn without_the_knob_each_return_is_like_the_first() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let bad = qp.indices(EvSlot::is_active)[0];
    for _ in 0..5 {
        qp.feed(bad, Feedback::Timeout);
        qp.sleep(2_048);
        assert_eq!(revived_after(&mut qp, bad), 1);
    }
}
