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
