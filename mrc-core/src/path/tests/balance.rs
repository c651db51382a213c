//! Planes used evenly by one QP, when it is told to (`plane_lead`).

use super::*;

const PLANES: u8 = 4;

fn only(plane: u8) -> PortMask {
    PortMask::NONE.with(PortNum::from_plane(plane))
}

fn ports() -> PortMask {
    PortMask::first(PLANES)
}

/// Turns of each plane when one port at a time has room, drawn at random, and a QP that yields waits for the next.
fn shares(qp: &mut Qp, packets: u32, seed: u64) -> [i32; PLANES as usize] {
    let (mut rng, mut shares) = (Rng::new(seed), [0; PLANES as usize]);
    for _ in 0..packets {
        let plane = rng.below(PLANES.into()) as u8;
        if qp.select(only(plane)).is_some() {
            shares[plane as usize] += 1;
        }
    }
    shares
}

fn spread(shares: &[i32]) -> i32 {
    shares.iter().max().unwrap() - shares.iter().min().unwrap()
}

//= BAL-007 test
#[test]
fn no_plane_is_further_ahead_than_the_lead() {
    for lead in [1, 2, 5] {
        let mut qp = Qp::spray(PLANES, 16, 0, |cfg| cfg.plane_lead = lead);
        for seed in 0..200 {
            let shares = shares(&mut qp, 37, seed);
            // What the last call left ahead and what this one does.
            assert!(spread(&shares) <= 2 * i32::from(lead), "lead {lead}, seed {seed}: {shares:?}");
        }
        let mut qp = Qp::spray(PLANES, 16, 0, |cfg| cfg.plane_lead = lead);
        assert!(spread(&shares(&mut qp, 10_000, 1)) <= i32::from(lead));
    }
    let mut qp = Qp::spray(PLANES, 16, 0, |_| {});
    assert!(spread(&shares(&mut qp, 10_000, 1)) > 10, "by default whatever port is free");
}

//= BAL-007 test
#[test]
fn who_yields_says_so_and_sends_when_told_to() {
    let mut qp = Qp::spray(2, 8, 0, |cfg| cfg.plane_lead = 1);
    assert!(qp.select(only(0)).is_some());
    assert!(!qp.set.take_yielded());
    assert_eq!(qp.select(PortMask::NONE), None);
    assert!(!qp.set.take_yielded(), "there was no port to leave to others");
    assert_eq!(qp.select(only(0)), None);
    assert!(qp.set.take_yielded());
    assert!(!qp.set.take_yielded());
    qp.set.waive_lead();
    assert!(qp.select(only(0)).is_some());
    assert_eq!(qp.select(only(0)), None, "waived for one packet");
    // What was waived is not owed: one packet on the other plane is enough.
    assert!(qp.select(only(1)).is_some());
    assert!(qp.select(only(0)).is_some());
}

//= BAL-007 test
#[test]
fn retransmissions_do_not_wait_for_their_plane() {
    let mut qp = Qp::spray(1, 8, 0, |cfg| cfg.plane_lead = 1);
    let mut two = Qp::spray(2, 8, 0, |cfg| cfg.plane_lead = 1);
    for _ in 0..20 {
        assert!(qp.select(ALL).is_some(), "one plane is even by itself");
        let avoid = Ev(u32::MAX);
        let set = &mut two.set;
        let choice = set.select_other(two.now, &mut two.slots, &mut two.order, only(1), avoid, &two.cfg, &mut two.rng);
        assert!(choice.is_some());
    }
    assert_eq!(two.select(only(1)), None, "but they count");
}

//= BAL-007 test
#[test]
fn a_plane_that_cannot_be_used_is_not_waited_for() {
    let mut qp = Qp::spray(PLANES, 8, 0, |cfg| (cfg.plane_lead, cfg.last_resort) = (1, false));
    shares(&mut qp, 101, 3);
    // Down: plane 2 has its turns no more, the others go on among themselves.
    let up = ports().without(PortNum::from_plane(2));
    qp.set.set_usable_ports(up);
    for _ in 0..300 {
        assert!(qp.select(up).is_some());
    }
    // Back: what it missed is not made up for.
    qp.set.set_usable_ports(ports());
    let now = shares(&mut qp, 4_000, 5);
    assert!(spread(&now) <= 1, "{now:?}");
    // Suspended: the network says that nothing of it works.
    for index in qp.indices(|slot| slot.plane() == 2) {
        qp.feed(index, Feedback::Timeout);
    }
    for _ in 0..300 {
        assert!(qp.select(ports()).is_some_and(|choice| choice.port.plane() != 2));
    }
    let now = shares(&mut qp, 4_000, 5);
    assert!(now[2] == 0 && spread(&[now[0], now[1], now[3]]) <= 1, "{now:?}");
}

/// A plane whose EVs are marked again and again is passed over, and that is its turn: the others do not wait for it.
//= BAL-007 test
#[test]
fn a_congested_plane_gets_less_than_its_share() {
    let mut qp = Qp::spray(PLANES, 16, 0, |cfg| cfg.plane_lead = 1);
    let mut shares = [0; PLANES as usize];
    for _ in 0..4_000 {
        let choice = qp.select(ports()).expect("all ports have room");
        shares[choice.port.plane() as usize] += 1;
        for index in qp.indices(|slot| slot.plane() == 0) {
            qp.feed(index, MARK);
        }
    }
    assert!(shares[0] * 4 < shares[1], "{shares:?}");
    assert!(spread(&shares[1..]) < 100, "{shares:?}");
}
