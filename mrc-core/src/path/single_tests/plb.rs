//! Each rule of PLB at its exact threshold and time.

use super::*;

fn plb(tune: impl FnOnce(&mut PlbConfig)) -> Qp {
    let mut cfg = PlbConfig::default();
    tune(&mut cfg);
    Qp::new(Selector::Plb(cfg), 2, 8, 3)
}

/// A round of `n` acknowledgements, the first `marked` of them marked.
fn round(qp: &mut Qp, path: EvIndex, n: usize, marked: usize) {
    for nth in 0..n {
        qp.sack(path, if nth < marked { Verdict::SkipOnce } else { Verdict::None });
    }
    qp.sleep(BASE);
}

//= PLB-001, PLB-002, PLB-003 test
#[test]
fn twelve_congested_rounds_in_a_row_move_the_flow() {
    for (marked, moves) in [(49, false), (50, true), (100, true)] {
        let mut qp = plb(|_| {});
        let path = qp.path();
        for _ in 0..12 {
            round(&mut qp, path, 100, marked);
            assert_eq!(qp.path(), path, "the round is judged by the first acknowledgement after it");
        }
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path() != path, moves, "{marked} %");
    }
}

//= PLB-003 test
#[test]
fn a_clear_round_begins_the_count_anew() {
    let mut qp = plb(|_| {});
    let path = qp.path();
    for marked in [10; 11].into_iter().chain([0]).chain([10; 11]) {
        round(&mut qp, path, 10, marked);
    }
    qp.sack(path, Verdict::None);
    assert_eq!(qp.path(), path);
    let mut qp = plb(|cfg| cfg.rounds = 3);
    let path = qp.path();
    for marked in [10, 10, 10] {
        round(&mut qp, path, 10, marked);
    }
    qp.sack(path, Verdict::None);
    assert_ne!(qp.path(), path);
}

//= PLB-004 test
#[test]
fn three_congested_rounds_move_a_flow_that_was_idle() {
    for (rounds, moves) in [(2, false), (3, true)] {
        let mut qp = plb(|_| {});
        let path = qp.path();
        for _ in 0..rounds {
            round(&mut qp, path, 10, 10);
        }
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path(), path, "not while it sends");
        qp.set.on_busy();
        assert_eq!(qp.path() != path, moves, "{rounds} rounds");
    }
}

//= PLB-005 test
#[test]
fn a_timeout_moves_the_flow_and_suspends_the_rest() {
    let mut qp = plb(|cfg| (cfg.rounds, cfg.suspend_ns) = (3, 10_000_000));
    qp.cfg.ev_min_active = 8;
    let first = qp.path();
    qp.feed(first, Feedback::Timeout);
    let path = qp.path();
    assert_ne!(path, first, "even from an EV that stays healthy");
    // 10 to 20 ms, drawn: what is congested now does not move it.
    for _ in 0..10 {
        round(&mut qp, path, 10, 10);
    }
    qp.sack(path, Verdict::None);
    assert_eq!(qp.path(), path);
    qp.sleep(20_000_000);
    for _ in 0..4 {
        round(&mut qp, path, 10, 10);
    }
    qp.sack(path, Verdict::None);
    assert_ne!(qp.path(), path);
}

#[test]
fn trims_count_as_marks_and_losses_do_not() {
    for (what, moves) in
        [(Feedback::Trimmed, true), (Feedback::Loss { trim_nack: false }, false), (Feedback::TrimmedLastHop, false)]
    {
        let mut qp = plb(|cfg| (cfg.rounds, cfg.idle_rounds) = (1, 1));
        let path = qp.path();
        qp.sack(path, Verdict::None);
        qp.feed(path, what);
        qp.sleep(BASE);
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path() != path, moves, "{what:?}");
    }
}

/// After a timeout congestion moves the flow no more for the time that is set, and up to twice as long, drawn at random.
//= PLB-005 test
#[test]
fn the_pause_after_a_timeout_is_drawn() {
    const PAUSE: u64 = 4_000_000;
    let mut pauses = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let cfg = PlbConfig { rounds: 1, idle_rounds: 1, suspend_ns: PAUSE, ..PlbConfig::default() };
        let mut qp = Qp::new(Selector::Plb(cfg), 2, 8, seed);
        let first = qp.path();
        qp.feed(first, Feedback::Timeout);
        let (since, path) = (qp.now, qp.path());
        while qp.path() == path {
            qp.sack(path, Verdict::SkipOnce);
            qp.sleep(BASE);
        }
        pauses.insert(qp.now.since(since) / 1_000_000);
    }
    assert!(pauses.iter().all(|ms| (4..8).contains(ms)) && pauses.len() == 4, "{pauses:?} ms");
}

/// A round lasts as long as the latest round trip on the path, at least a base RTT.
//= PLB-001 test
#[test]
fn a_round_lasts_a_measured_round_trip() {
    for (measured, rounds) in [(BASE / 2, 12), (BASE, 12), (3 * BASE, 4)] {
        let mut qp = plb(|cfg| cfg.rounds = rounds);
        let path = qp.path();
        qp.rtt(path, measured);
        for _ in 0..12 {
            qp.sack(path, Verdict::SkipOnce);
            assert_eq!(qp.path(), path, "{measured} ns");
            qp.sleep(BASE);
        }
        qp.sack(path, Verdict::SkipOnce);
        assert_ne!(qp.path(), path, "{measured} ns");
    }
}
