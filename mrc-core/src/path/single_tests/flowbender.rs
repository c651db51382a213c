//! Each rule of FlowBender at its exact threshold and time.

use super::*;

/// `n` acknowledgements, the first `marked` of them marked.
fn epoch(qp: &mut Qp, path: EvIndex, n: usize, marked: usize) {
    for nth in 0..n {
        qp.sack(path, if nth < marked { Verdict::SkipOnce } else { Verdict::None });
    }
    qp.sleep(BASE);
}

//= FLB-001, FLB-002, FLB-003 test
#[test]
fn flowbender_moves_above_five_percent() {
    for (marked, moves) in [(0, false), (5, false), (6, true), (100, true)] {
        let mut qp = Qp::flowbender(8, |_| {});
        let path = qp.path();
        epoch(&mut qp, path, 100, marked);
        assert_eq!(qp.path(), path, "the epoch is judged by the first acknowledgement after it");
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path() != path, moves, "{marked} %");
    }
}

//= FLB-003 test
#[test]
fn flowbender_counts_epochs_in_a_row() {
    let mut qp = Qp::flowbender(8, |cfg| cfg.epochs = 2);
    let path = qp.path();
    for marked in [50, 0, 50] {
        epoch(&mut qp, path, 100, marked);
    }
    qp.sack(path, Verdict::None);
    assert_eq!(qp.path(), path, "interrupted");
    for _ in 0..2 {
        epoch(&mut qp, path, 100, 50);
    }
    qp.sack(path, Verdict::None);
    assert_ne!(qp.path(), path);
}

//= FLB-001 test
#[test]
fn losses_and_trims_count_and_the_last_hop_does_not() {
    for (what, moves) in [
        (Feedback::Trimmed, true),
        (Feedback::Loss { trim_nack: false }, true),
        (Feedback::TrimmedLastHop, false),
        (Feedback::OtherNack, false),
    ] {
        let mut qp = Qp::flowbender(8, |_| {});
        let path = qp.path();
        qp.sack(path, Verdict::None);
        qp.feed(path, what);
        qp.sleep(BASE);
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path() != path, moves, "{what:?}");
    }
}

#[test]
fn an_epoch_of_flowbender_lasts_the_measured_round_trip() {
    let mut qp = Qp::flowbender(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 50 * US);
    qp.sack(path, Verdict::SkipOnce);
    qp.sleep(50 * US - 1);
    qp.sack(path, Verdict::None);
    assert_eq!(qp.path(), path);
    qp.sleep(1);
    qp.sack(path, Verdict::None);
    assert_ne!(qp.path(), path);
}

//= FLB-004 test
#[test]
fn a_timeout_moves_flowbender_even_from_an_ev_that_must_stay_active() {
    // `ev_min_active` keeps the EV healthy; the flow leaves it all the same.
    let mut qp = Qp::flowbender(4, |_| {});
    qp.cfg.ev_min_active = 4;
    let path = qp.path();
    qp.feed(path, Feedback::Timeout);
    assert!(qp.slots[path.0 as usize].is_healthy());
    assert_ne!(qp.path(), path);
}

#[test]
fn marks_of_the_old_path_do_not_follow_the_flow() {
    let mut qp = Qp::flowbender(8, |_| {});
    let path = qp.path();
    epoch(&mut qp, path, 10, 10);
    qp.sack(path, Verdict::None);
    let second = qp.path();
    for _ in 0..50 {
        qp.sack(path, Verdict::SkipOnce);
        qp.sleep(US);
    }
    qp.sack(second, Verdict::None);
    assert_eq!(qp.path(), second);
}

//= FLB-007 test
#[test]
fn round_trips_stand_in_for_marks_when_told() {
    for (rtt_ns, moves) in [(20 * US, false), (20 * US + 1, true)] {
        let mut qp = Qp::flowbender(8, |cfg| cfg.rtt_percent = 250);
        let path = qp.path();
        for _ in 0..2 {
            // 6 of 100 are long, none of the 5 % that are allowed.
            for nth in 0..100 {
                qp.sack(path, Verdict::SkipOnce);
                qp.rtt(path, if nth < 6 { rtt_ns } else { BASE });
            }
            qp.sleep(3 * BASE);
        }
        qp.rtt(path, BASE);
        assert_eq!(qp.path() != path, moves, "{rtt_ns} ns; marks do not count");
    }
}

/// Where marks count, round trips do not.
//= FLB-007 test
#[test]
fn round_trips_say_nothing_where_marks_do() {
    let mut qp = Qp::flowbender(8, |_| {});
    let path = qp.path();
    for _ in 0..4 {
        for _ in 0..10 {
            qp.sack(path, Verdict::None);
            qp.rtt(path, 100 * BASE);
        }
        qp.sleep(200 * BASE);
    }
    assert_eq!(qp.path(), path);
}
