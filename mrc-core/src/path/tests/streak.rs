//! Fabrics that lose at random: several losses in a row before an EV is given up.

use super::*;

const LOSS: Feedback = Feedback::Loss { trim_nack: true };

#[test]
fn losses_in_a_row_retire_an_ev_and_a_good_sack_between_forgives_them() {
    let mut qp = Qp::spray(1, 4, 4, |cfg| cfg.loss_streak = 3);
    let ev = qp.select(ALL).unwrap().index;
    for what in [LOSS, Feedback::Timeout] {
        for _ in 0..10 {
            assert_eq!(qp.feed(ev, what).map(|t| t.to), Some(EvState::Skip), "skipped, not retired");
            assert_eq!(qp.feed(ev, what), None);
            qp.feed(ev, Feedback::Sack(Verdict::None));
            for _ in 0..12 {
                qp.select(ALL);
            }
            assert_eq!(qp.state(ev), EvState::Good);
        }
    }
    qp.feed(ev, LOSS);
    qp.feed(ev, Feedback::Timeout);
    assert_eq!(qp.feed(ev, LOSS).map(|t| t.to), Some(EvState::AssumedBad), "the third in a row");
    qp.check(1, 4);
}

#[test]
fn by_default_one_loss_is_enough() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let ev = qp.select(ALL).unwrap().index;
    assert_eq!(qp.feed(ev, LOSS).map(|t| t.to), Some(EvState::AssumedBad));
}

/// The count of losses shares a byte with the count of probe answers: neither leaks into the other.
#[test]
fn losses_do_not_count_as_probe_answers() {
    let mut qp = Qp::spray(1, 4, 4, |cfg| (cfg.loss_streak, cfg.resurrect_probes) = (2, 2));
    let ev = qp.select(ALL).unwrap().index;
    for _ in 0..2 {
        qp.feed(ev, LOSS);
        assert_eq!(qp.feed(ev, LOSS).map(|t| t.to), Some(EvState::AssumedBad));
        assert_eq!(qp.feed(ev, GOOD_ANSWER), None, "one of two");
        assert_eq!(qp.feed(ev, GOOD_ANSWER).map(|t| t.to), Some(EvState::Good));
    }
}
