//! What a mark does: the EV sits out a pass, or a time.

use super::*;

//= EV-003, EV-010 test
#[test]
fn a_skipped_ev_is_passed_over_once() {
    let mut qp = Qp::spray(1, 4, 0, |_| {});
    let first = qp.select(ALL).unwrap().index;
    assert_eq!(qp.feed(first, MARK).map(|t| (t.from, t.to)), Some((EvState::Good, EvState::Skip)));
    assert_eq!(qp.feed(first, MARK), None, "no re-arm");
    let next: Vec<EvIndex> = (0..6).map(|_| qp.select(ALL).unwrap().index).collect();
    assert!(!next.contains(&first), "rest of this pass and the pass it sits out");
    assert_eq!(qp.state(first), EvState::Good);
    let pass: Vec<EvIndex> = (0..4).map(|_| qp.select(ALL).unwrap().index).collect();
    assert!(pass.contains(&first));
}

//= SEL-003 test
#[test]
fn a_packet_resets_at_most_one_skip_and_all_skipped_still_sends() {
    let mut qp = Qp::spray(2, 4, 0, |_| {});
    for index in qp.indices(|_| true) {
        qp.feed(index, MARK);
    }
    assert_eq!(qp.set.counts().skip, 8);
    for left in (0..8).rev() {
        assert!(qp.select(ALL).is_some());
        assert!(qp.set.counts().skip >= left, "one reset per packet");
    }
    qp.check(2, 4);
}

//= SEL-003 test
#[test]
fn a_skip_on_a_port_without_room_is_the_only_one_that_ends() {
    for seed in 0..32 {
        let mut qp = Qp::spray(2, 1, 0, |_| {});
        qp.rng = Rng::new(seed);
        for index in qp.indices(|_| true) {
            qp.feed(index, MARK);
        }
        let choice = qp.select(PortMask::NONE.with(PortNum::from_plane(1))).expect("a path with room");
        assert_eq!(choice.port, PortNum::from_plane(1));
        assert_eq!(qp.set.counts().skip, 1, "seed {seed}");
    }
}

#[test]
fn a_timed_skip_ends_with_time() {
    let mut qp = Qp::spray(1, 4, 0, |cfg| cfg.skip_mode = SkipMode::Time { ns: MS });
    let first = qp.select(ALL).unwrap().index;
    qp.feed(first, MARK);
    for _ in 0..20 {
        assert_ne!(qp.select(ALL).unwrap().index, first);
    }
    qp.sleep(MS + 1024);
    let pass: Vec<EvIndex> = (0..8).map(|_| qp.select(ALL).unwrap().index).collect();
    assert!(pass.contains(&first));
    for index in qp.indices(|_| true) {
        qp.feed(index, MARK);
    }
    assert!(qp.select(ALL).is_some(), "nothing but skipped EVs is no reason to stall");
}
