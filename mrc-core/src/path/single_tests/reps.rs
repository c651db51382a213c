//! REPS on scripted acknowledgements: golden sequences by hand.

use super::*;

/// Explores for `explore` packets, one plane, so that every port is free.
fn reps(explore: u16, tune: impl FnOnce(&mut RepsConfig)) -> Qp {
    let mut cfg = RepsConfig { explore_packets: explore, ..RepsConfig::default() };
    tune(&mut cfg);
    Qp::new(Selector::Reps(cfg), 1, 16, 9)
}

fn ack(qp: &mut Qp, paths: &[u16]) {
    for &path in paths {
        qp.sack(EvIndex(path), Verdict::None);
    }
}

/// The paths of the next `n` packets.
fn sent(qp: &mut Qp, n: usize) -> Vec<u16> {
    (0..n).map(|_| qp.path().0).collect()
}

//= REPS-001, REPS-003 test
#[test]
fn paths_that_came_back_unmarked_are_used_again_in_their_order() {
    let mut qp = reps(4, |_| {});
    sent(&mut qp, 4);
    ack(&mut qp, &[5, 3]);
    qp.sack(EvIndex(7), Verdict::SkipOnce);
    ack(&mut qp, &[9, 5]);
    assert_eq!(sent(&mut qp, 4), [5, 3, 9, 5], "the marked one is not among them, twice acknowledged is twice used");
    // The ring is empty: random paths, by the rotation, so none twice.
    let mut random = sent(&mut qp, 6);
    random.sort_unstable();
    random.dedup();
    assert_eq!(random.len(), 6);
    ack(&mut qp, &[1]);
    assert_eq!(sent(&mut qp, 1), [1]);
}

//= REPS-002 test
#[test]
fn the_first_packets_explore_whatever_came_back() {
    let mut qp = reps(16, |_| {});
    ack(&mut qp, &[2, 2, 2, 2, 2, 2, 2, 2]);
    let mut all = sent(&mut qp, 16);
    all.sort_unstable();
    assert_eq!(all, (0..16).collect::<Vec<_>>());
    assert_eq!(sent(&mut qp, 8), [2; 8]);
    assert_eq!(RepsConfig::DEFAULT, RepsConfig { explore_packets: 32, reuse: 1, freeze_percent: 1_000 });
}

//= REPS-001 test
#[test]
fn the_ring_holds_the_latest_eight() {
    let mut qp = reps(0, |_| {});
    ack(&mut qp, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(sent(&mut qp, 8), [2, 3, 4, 5, 6, 7, 8, 9]);
}

//= REPS-004, REPS-005 test
#[test]
fn a_failure_freezes_the_ring_until_time_has_passed_and_something_came_back() {
    let loss = Feedback::Loss { trim_nack: true };
    let mut qp = reps(2, |cfg| cfg.freeze_percent = 200);
    qp.feed(EvIndex(15), loss);
    sent(&mut qp, 2);
    ack(&mut qp, &[1, 4, 6]);
    assert_eq!(sent(&mut qp, 2), [1, 4], "a loss while it explores does not freeze");
    qp.feed(EvIndex(14), loss);
    // What is new first, then round the ring.
    assert_eq!(sent(&mut qp, 7), [6, 1, 4, 6, 1, 4, 6]);
    qp.sleep(2 * BASE - 1);
    ack(&mut qp, &[8]);
    assert_eq!(sent(&mut qp, 1), [8]);
    assert!(sent(&mut qp, 8).iter().all(|path| [1, 4, 6, 8].contains(path)), "still frozen");
    qp.sleep(1);
    ack(&mut qp, &[3]);
    let explored = sent(&mut qp, 2);
    assert!(!explored.contains(&14) && !explored.contains(&15), "{explored:?} are healthy");
    assert_eq!(sent(&mut qp, 1), [3]);
}

//= REPS-006 test
#[test]
fn bad_paths_leave_the_ring_and_busy_ones_wait_in_it() {
    let mut qp = Qp::new(Selector::Reps(RepsConfig { explore_packets: 0, ..RepsConfig::default() }), 2, 8, 9);
    let on = |qp: &Qp, plane: u8| {
        (0..8u16).filter(|&i| qp.port_of(EvIndex(i)) == PortNum::from_plane(plane)).collect::<Vec<_>>()
    };
    let (a, b) = (on(&qp, 0), on(&qp, 1));
    ack(&mut qp, &[a[0], b[0], a[1]]);
    qp.feed(EvIndex(a[0]), Feedback::Timeout);
    qp.sleep(1_000 * BASE);
    let second = PortMask::NONE.with(PortNum::from_plane(1));
    assert_eq!(qp.select(second), Some(EvIndex(b[0])), "the bad one is passed over");
    let random = qp.select(second).unwrap();
    assert!(b.contains(&random.0));
    // The first plane is free again; under a freeze nothing is drawn while it is not.
    assert_eq!(qp.select(ALL), Some(EvIndex(a[1])));
}

//= REPS-003 test
#[test]
fn a_path_carries_as_many_packets_as_it_is_told() {
    let mut qp = reps(0, |cfg| cfg.reuse = 3);
    ack(&mut qp, &[4, 2]);
    assert_eq!(sent(&mut qp, 6), [4, 4, 4, 2, 2, 2]);
}

/// Under a freeze nothing is drawn while an EV of the ring merely waits for its port; without one a random EV is.
//= REPS-004, REPS-006 test
#[test]
fn a_frozen_ring_waits_for_its_ports() {
    for (seed, freeze) in [(9, true), (9, false)] {
        let mut qp = Qp::new(Selector::Reps(RepsConfig { explore_packets: 0, ..RepsConfig::default() }), 2, 8, seed);
        let plane = |qp: &Qp, path: u16| qp.port_of(EvIndex(path)).plane();
        let known: Vec<u16> = (0..8u16).filter(|&path| plane(&qp, path) == 0).take(2).collect();
        ack(&mut qp, &known);
        if freeze {
            qp.feed(EvIndex(7), Feedback::Loss { trim_nack: true });
        }
        let other = PortMask::NONE.with(PortNum::from_plane(1));
        assert_eq!(qp.select(other).is_none(), freeze);
        // The port of the whole ring goes down: there is nothing to wait for.
        qp.set.set_usable_ports(other);
        assert!(qp.select(other).is_some());
    }
}

/// A second failure under a freeze does not make it longer; one while the QP explores begins none.
//= REPS-004 test
#[test]
fn a_freeze_is_counted_from_the_first_failure() {
    let loss = Feedback::Loss { trim_nack: true };
    let mut qp = reps(0, |cfg| cfg.freeze_percent = 200);
    ack(&mut qp, &[1, 4]);
    qp.feed(EvIndex(15), loss);
    qp.sleep(BASE);
    qp.feed(EvIndex(14), loss);
    qp.sleep(BASE);
    ack(&mut qp, &[6]);
    // Thawed: six is used once, and nothing of the ring again.
    let sent = sent(&mut qp, 6);
    assert!(sent.iter().filter(|path| [1, 4, 6].contains(path)).count() < 6, "{sent:?}");
}

/// Bad EVs are probed as under MRC's own policy.
#[test]
fn bad_evs_are_probed() {
    let mut qp = reps(0, |_| {});
    qp.feed(EvIndex(3), Feedback::Timeout);
    qp.sleep(2 * qp.cfg.probe_interval_ns);
    assert_eq!(qp.probes(), [EvIndex(3)]);
}
