//! The EVs of a table serve the next QP in it.

use super::*;

/// Another QP in the tables of this one.
fn again(qp: &mut Qp) -> bool {
    let drawn = qp.set.draw_of().expect("no EV is denied");
    let ports = qp.set.usable_ports();
    qp.set = PathSet::EMPTY;
    qp.set.set_usable_ports(ports);
    qp.set.start_again(drawn, &mut qp.slots, &qp.cfg, Selector::Spray).is_some_and(|started| started.is_ok())
}

#[test]
fn nothing_of_the_last_queue_pair_is_left_but_its_evs() {
    let mut qp = Qp::spray(2, 8, 4, |_| {});
    let evs = |qp: &Qp| qp.slots.iter().map(|slot| (slot.ev(), slot.port(), slot.entry())).collect::<Vec<_>>();
    let before = evs(&qp);
    for round in 0..20 {
        for _ in 0..7 {
            let index = qp.select(ALL).unwrap().index;
            qp.feed(index, if round % 2 == 0 { MARK } else { Feedback::Loss { trim_nack: false } });
        }
        // Three of four backups at most have taken the place of a bad EV.
        let spent = qp.set.counts().active < 16;
        assert_eq!(again(&mut qp), !spent, "{round}");
        if spent {
            qp.start(Selector::Spray, &profile(2, 24), ALL).unwrap();
            continue;
        }
        qp.check(2, 8);
        assert_eq!(qp.set.counts(), EvCounts { good: 24, active: 16, ..EvCounts::default() });
        assert_eq!((evs(&qp), qp.set.next_timeout()), (before.clone(), Instant::FAR));
        let visited: BTreeSet<u16> = (0..16).map(|_| qp.select(ALL).unwrap().index.0).collect();
        assert_eq!(visited.len(), 16, "a pass visits each active EV once");
    }
}

#[test]
fn who_denied_an_ev_or_keeps_to_one_leaves_nothing_to_others() {
    let mut qp = Qp::spray(1, 8, 0, |_| {});
    qp.deny(EvIndex(3));
    assert!(qp.set.draw_of().is_none());
    let qp = Qp::with(Selector::Pinned(EvIndex(1)), &profile(1, 8), PathConfig::default(), 1);
    assert!(qp.set.draw_of().is_none());
}

/// The scalars, too, are those of a set that drew its EVs.
#[test]
fn a_set_that_draws_nothing_begins_as_one_that_does() {
    for planes in [1, 2, 3] {
        let mut qp = Qp::spray(planes, 4, 2, |_| {});
        qp.set.set_usable_ports(PortMask::ALL.without(PortNum::from_plane(0)));
        qp.start(Selector::Spray, &profile(planes, 6 * u16::from(planes)), ALL).unwrap();
        let drawn = std::format!("{:?}", qp.set);
        for index in 0..4 {
            qp.feed(EvIndex(index), MARK);
        }
        assert_ne!(std::format!("{:?}", qp.set), drawn);
        assert!(again(&mut qp));
        assert_eq!(std::format!("{:?}", qp.set), drawn, "{planes} planes");
    }
}

/// EVs of which nothing was learned are not looked at one by one; the set is the same.
#[test]
fn a_set_begins_as_well_where_nothing_was_learned() {
    for planes in [1, 2, 3] {
        let mut qp = Qp::spray(planes, 4, 0, |_| {});
        let (drawn, slots) = (std::format!("{:?}", qp.set), qp.slots.clone());
        for mark in [false, true, false] {
            (0..9).for_each(|_| _ = qp.select(ALL));
            if mark {
                qp.feed(EvIndex(1), MARK);
                assert_ne!(qp.slots, slots);
            }
            assert!(again(&mut qp));
            assert_eq!((std::format!("{:?}", qp.set), &qp.slots), (drawn.clone(), &slots), "{planes} planes");
            qp.check(planes, 4);
        }
    }
}

#[test]
fn no_selector_begins_with_the_evs_of_others_that_may_not_begin_at_all() {
    let mut qp = Qp::spray(2, 4, 2, |_| {});
    let drawn = qp.set.draw_of().unwrap();
    let refused = Selector::Hopper(HopperConfig { alpha_percent: 0, ..HopperConfig::default() });
    assert!(refused.check().is_err());
    for selector in [Selector::Pinned(EvIndex(1)), refused] {
        assert_eq!(qp.set.start_again(drawn, &mut qp.slots, &qp.cfg, selector), None, "{selector:?}");
    }
}
